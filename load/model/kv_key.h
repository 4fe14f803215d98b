/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_KEY_H
#define PENSTOCK_MODEL_KV_KEY_H

/*
 * The names of cache entries in 16 bytes.  Most follow from a user, a time and a turn; the
 * others are numbers of texts in a struct kv_texts.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kv_key_kind {
	KV_KEY_TEXT,      /* n: text; turn > 0: TEXT_turn_N (ShareGPT), else TEXT (vectors) */
	KV_KEY_CONV,      /* conv_user_%04u_<n>_turn_<turn>, n: epoch milliseconds */
	KV_KEY_USER_REQ,  /* user_%04u_req_%06<n> */
	KV_KEY_TRACE_REQ, /* trace_user_<user>_req_%04<n> */
	KV_KEY_CHUNK,     /* rag_doc_%04<user>_chunk_<n> */
	KV_KEY_DOC,       /* rag_doc_%04<user> */
	KV_KEY_PRECOND,   /* precond_<n> */
	KV_KEY_PREPOP,    /* prepop_<n> */
	KV_KEY_SYSTEM,    /* kv_system_<16 hex>, n: which of the three prompts */
};

struct kv_key {
	uint64_t n;
	uint32_t user;
	uint16_t turn;
	uint8_t kind;
	uint8_t zero; /* so that keys can be compared as bytes */
};

static inline bool kv_key_equal(struct kv_key a, struct kv_key b)
{
	return a.n == b.n && a.user == b.user && a.turn == b.turn && a.kind == b.kind;
}
uint64_t kv_key_hash(struct kv_key k);

/* Texts, each once.  kv_texts_add() gives the number, or -ENOMEM. */
struct kv_texts;
struct kv_texts *kv_texts_new(void);
void kv_texts_free(struct kv_texts *t);
int64_t kv_texts_add(struct kv_texts *t, const char *text, size_t len);
const char *kv_texts_get(const struct kv_texts *t, uint64_t n, size_t *len);

/*
 * Write the name into @buf; returns its length as snprintf() does.  @t may be NULL where no
 * KV_KEY_TEXT occurs.  Quick: no printf inside.
 */
#define KV_KEY_MAX 96 /* of all kinds but KV_KEY_TEXT, with the final 0 */
size_t kv_key_format(char *buf, size_t size, struct kv_key k, const struct kv_texts *t);

#endif
