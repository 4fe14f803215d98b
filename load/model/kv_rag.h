/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_RAG_H
#define PENSTOCK_MODEL_KV_RAG_H

/*
 * Documents to retrieve from.  A document is a number; how long it is follows from the seed.  It
 * is cut into chunks of equal length but for the last, and chunks near the beginning are asked for
 * more often.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "load/model/kv_params.h"
#include "load/model/kv_queue.h"

struct kv_rag {
	uint64_t seed;
	uint32_t tokens[2];    /* of a document, inclusive */
	uint32_t chunk_tokens; /* of a chunk */
	uint32_t top_k;
	bool zipfian;
	uint32_t max_documents;         /* kept at once; 0: all */
	uint32_t first, end;            /* documents that are there: [first, end) */
	struct penstock_heap candidate; /* of a retrieval */
};

/* 0, -EINVAL (a setting makes no sense) or -ENOMEM; documents are added later. */
int kv_rag_init(struct kv_rag *g, const struct kv_params *p, struct penstock_err *err);
void kv_rag_fini(struct kv_rag *g);

uint32_t kv_rag_doc_tokens(const struct kv_rag *g, uint32_t doc);
uint32_t kv_rag_doc_chunks(const struct kv_rag *g, uint32_t doc);
uint32_t kv_rag_chunk_tokens(const struct kv_rag *g, uint32_t doc, uint32_t chunk);

/* The next document is there. */
void kv_rag_add(struct kv_rag *g);
/* Did another one have to go when @doc came? */
bool kv_rag_replaces(const struct kv_rag *g, uint32_t doc, uint32_t *gone);
/* One of those that are there; only when there is one. */
uint32_t kv_rag_any(const struct kv_rag *g, struct penstock_random *r);

/* Start a retrieval from @doc: so many chunks, which kv_rag_chunk() gives one after the other. */
uint32_t kv_rag_retrieve(struct kv_rag *g, uint32_t doc, struct penstock_random *r);
uint32_t kv_rag_chunk(struct kv_rag *g);

#endif
