/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retrieval draws chunks without replacement, weight 1 / (i + 1).  Each chunk gets the time
 * -log(u) / weight: the first ones to come up are distributed just as draws one by one are
 * (Efraimidis, Spirakis 2006).
 */
#include "load/model/kv_rag.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_load_draw.h"

#define MAX_CHUNKS (1u << 20) /* of a document */

int kv_rag_init(struct kv_rag *g, const struct kv_params *p, struct penstock_err *err)
{
	const struct kv_config *c = &p->config;
	const int64_t *tokens =
		kv_model_is_large(p->model) ? c->rag_large_tokens : c->rag_small_tokens;
	uint64_t fits = (uint64_t)c->rag_max_chunk_bytes / kv_model_bytes_per_token(p->model);
	uint64_t chunk = max_u64(1, min_u64((uint64_t)c->rag_chunk_tokens, fits));

	if (tokens[1] < tokens[0] || ((uint64_t)tokens[1] + chunk - 1) / chunk > MAX_CHUNKS)
		return penstock_fail(err, -EINVAL,
				     "rag: documents of %lld to %lld tokens in chunks of %llu; at "
				     "most %u chunks are possible",
				     (long long)tokens[0], (long long)tokens[1],
				     (unsigned long long)chunk, MAX_CHUNKS);
	*g = (struct kv_rag){
		.seed = p->seed,
		.tokens = {(uint32_t)tokens[0], (uint32_t)tokens[1]},
		.chunk_tokens = (uint32_t)chunk,
		.top_k = (uint32_t)min_u64((uint64_t)c->rag_top_k, MAX_CHUNKS),
		.zipfian = c->rag_retrieval == KV_RETRIEVE_ZIPFIAN,
		.max_documents = (uint32_t)min_u64((uint64_t)c->rag_max_documents, UINT32_MAX),
	};
	if (penstock_heap_reserve(&g->candidate,
				  (uint32_t)(((uint64_t)tokens[1] + chunk - 1) / chunk)) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return 0;
}

void kv_rag_fini(struct kv_rag *g)
{
	penstock_heap_fini(&g->candidate);
}

uint32_t kv_rag_doc_tokens(const struct kv_rag *g, uint32_t doc)
{
	struct penstock_random r = kv_stream(g->seed, KV_STREAM_DOC, doc, 0);

	return (uint32_t)kv_between(&r, g->tokens[0], g->tokens[1]);
}

uint32_t kv_rag_doc_chunks(const struct kv_rag *g, uint32_t doc)
{
	uint64_t tokens = kv_rag_doc_tokens(g, doc);

	return (uint32_t)((tokens + g->chunk_tokens - 1) / g->chunk_tokens);
}

uint32_t kv_rag_chunk_tokens(const struct kv_rag *g, uint32_t doc, uint32_t chunk)
{
	uint64_t left = kv_rag_doc_tokens(g, doc) - (uint64_t)chunk * g->chunk_tokens;

	return (uint32_t)min_u64(left, g->chunk_tokens);
}

void kv_rag_add(struct kv_rag *g)
{
	g->end++;
	if (g->max_documents && g->end - g->first > g->max_documents)
		g->first++;
}

bool kv_rag_replaces(const struct kv_rag *g, uint32_t doc, uint32_t *gone)
{
	if (!g->max_documents || doc < g->max_documents)
		return false;
	*gone = doc - g->max_documents;
	return true;
}

uint32_t kv_rag_any(const struct kv_rag *g, struct penstock_random *r)
{
	return (uint32_t)kv_between(r, g->first, g->end - 1);
}

uint32_t kv_rag_retrieve(struct kv_rag *g, uint32_t doc, struct penstock_random *r)
{
	uint32_t nr = kv_rag_doc_chunks(g, doc);

	g->candidate.nr = 0;
	for (uint32_t i = 0; i < nr; i++) {
		double at = -log1p(-kv_unit(r)) * (g->zipfian ? i + 1 : 1);
		uint64_t bits;

		memcpy(&bits, &at, sizeof(bits)); /* of what is not negative: same order */
		penstock_heap_push(&g->candidate, bits & INT64_MAX, i);
	}
	return nr < g->top_k ? nr : g->top_k;
}

uint32_t kv_rag_chunk(struct kv_rag *g)
{
	return (uint32_t)penstock_heap_pop(&g->candidate).value;
}
