/* SPDX-License-Identifier: Apache-2.0 */
/* Names of cache entries: the hash of their short form, and their text. */
#include "load/model/kv_key.h"

#include <string.h>

#include "base/util.h"

/* First 16 hex digits of SHA-256 of "<prompt>_<words>". */
static const char *const system_hex[] = {
	"0b7588a77cb9c73b",
	"ea8ffc489f80c165",
	"2ed87f49657692a2",
};

/* Multiply and fold, twice: every bit of the key reaches every bit of the result. */
uint64_t kv_key_hash(struct kv_key k)
{
	uint64_t rest = (uint64_t)k.kind << 48 | (uint64_t)k.turn << 32 | k.user;
	unsigned __int128 m =
		(unsigned __int128)(k.n ^ 0xa0761d6478bd642full) * (rest ^ 0xe7037ed1a0b428dbull);

	m = (unsigned __int128)((uint64_t)m ^ (uint64_t)(m >> 64)) * 0x8ebc6af09c88c6e3ull;
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static char *put_text(char *p, const char *text)
{
	size_t len = strlen(text);

	memcpy(p, text, len);
	return p + len;
}

/* Decimal, at least @width digits. */
static char *key_put_number(char *p, uint64_t v, unsigned width)
{
	char digits[20];
	unsigned n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n < width)
		digits[n++] = '0';
	while (n)
		*p++ = digits[--n];
	return p;
}

/* Text and number in turn: key_put(p, "user_", n, 4). */
static char *key_put(char *p, const char *text, uint64_t v, unsigned width)
{
	return key_put_number(put_text(p, text), v, width);
}

/* All but KV_KEY_TEXT; @p has room for KV_KEY_MAX. */
static size_t format(char *buf, struct kv_key k)
{
	char *p = buf;

	switch (k.kind) {
	case KV_KEY_CONV:
		p = key_put(key_put(key_put(p, "conv_user_", k.user, 4), "_", k.n, 1), "_turn_",
			    k.turn, 1);
		break;
	case KV_KEY_USER_REQ:
		p = key_put(key_put(p, "user_", k.user, 4), "_req_", k.n, 6);
		break;
	case KV_KEY_TRACE_REQ:
		p = key_put(key_put(p, "trace_user_", k.user, 1), "_req_", k.n, 4);
		break;
	case KV_KEY_CHUNK:
		p = key_put(key_put(p, "rag_doc_", k.user, 4), "_chunk_", k.n, 1);
		break;
	case KV_KEY_DOC:
		p = key_put(p, "rag_doc_", k.user, 4);
		break;
	case KV_KEY_PRECOND:
		p = key_put(p, "precond_", k.n, 1);
		break;
	case KV_KEY_PREPOP:
		p = key_put(p, "prepop_", k.n, 1);
		break;
	case KV_KEY_SYSTEM:
		p = put_text(put_text(p, "kv_system_"), system_hex[k.n % ARRAY_SIZE(system_hex)]);
		break;
	}
	*p = 0;
	return (size_t)(p - buf);
}

/* As much of @len bytes of @text as fits at @at, and the final 0. */
static void copy_at(char *buf, size_t size, size_t at, const char *text, size_t len)
{
	if (at >= size)
		return;
	len = min_u64(len, size - at - 1);
	memcpy(buf + at, text, len);
	buf[at + len] = 0;
}

size_t kv_key_format(char *buf, size_t size, struct kv_key k, const struct kv_texts *t)
{
	char tail[KV_KEY_MAX];
	const char *text = "";
	size_t len = 0, tail_len;

	if (k.kind != KV_KEY_TEXT && size >= KV_KEY_MAX)
		return format(buf, k);
	if (k.kind == KV_KEY_TEXT && t)
		text = kv_texts_get(t, k.n, &len);
	if (k.kind != KV_KEY_TEXT)
		tail_len = format(tail, k);
	else
		tail_len = k.turn ? (size_t)(key_put(tail, "_turn_", k.turn, 1) - tail) : 0;
	copy_at(buf, size, 0, text, len);
	copy_at(buf, size, len, tail, tail_len);
	return len + tail_len;
}
