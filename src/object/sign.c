/* SPDX-License-Identifier: Apache-2.0 */
#include "object/sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dl/crypto.h"
#include "object/cred.h"

enum { HASH = 32, BLOCK = 64, QUERY_PARTS = 32 };

const char object_unsigned_payload[] = "UNSIGNED-PAYLOAD";
const char object_empty_payload[] =
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void sha256(uint8_t md[HASH], const void *data, size_t len)
{
	const struct penstock_crypto *crypto = penstock_crypto(NULL);
	struct penstock_sha256 s;

	crypto->sha256_init(&s);
	crypto->sha256_update(&s, data, len);
	crypto->sha256_final(md, &s);
}

/* RFC 2104, of keys of any length. */
static void hmac(uint8_t md[HASH], const void *key, size_t key_len, const char *text)
{
	const struct penstock_crypto *crypto = penstock_crypto(NULL);
	uint8_t pad[BLOCK] = {0}, inner[HASH];
	struct penstock_sha256 s;

	if (key_len > BLOCK)
		sha256(pad, key, key_len);
	else
		memcpy(pad, key, key_len);
	for (unsigned i = 0; i < BLOCK; i++)
		pad[i] ^= 0x36;
	crypto->sha256_init(&s);
	crypto->sha256_update(&s, pad, BLOCK);
	crypto->sha256_update(&s, text, strlen(text));
	crypto->sha256_final(inner, &s);
	for (unsigned i = 0; i < BLOCK; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	crypto->sha256_init(&s);
	crypto->sha256_update(&s, pad, BLOCK);
	crypto->sha256_update(&s, inner, HASH);
	crypto->sha256_final(md, &s);
	explicit_bzero(pad, sizeof(pad));
}

static void to_hex(char hex[OBJECT_HASH_HEX], const uint8_t md[HASH])
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned i = 0; i < HASH; i++) {
		hex[2 * i] = digits[md[i] >> 4];
		hex[2 * i + 1] = digits[md[i] & 15];
	}
	hex[2 * HASH] = 0;
}

void object_sha256_hex(char hex[OBJECT_HASH_HEX], const void *data, size_t len)
{
	uint8_t md[HASH];

	sha256(md, data, len);
	to_hex(hex, md);
}

void object_sign_date(char date[OBJECT_DATE_SIZE], time_t now)
{
	struct tm tm;

	gmtime_r(&now, &tm);
	if (!strftime(date, OBJECT_DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm))
		date[0] = 0;
}

/* ------------------------------------------------------------ canonical form */

struct piece {
	const char *at;
	size_t name, len; /* of the name, and with the value */
};

static int by_name_and_value(const void *va, const void *vb)
{
	const struct piece *a = va, *b = vb;
	int r = memcmp(a->at, b->at, min_u64(a->name, b->name));

	if (r == 0 && a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (r)
		return r;
	r = memcmp(a->at, b->at, min_u64(a->len, b->len));
	return r ? r : a->len < b->len ? -1 : a->len > b->len;
}

/* Sorted by name, then value; "uploads" becomes "uploads=". */
static void add_query(struct object_strbuf *out, const char *query)
{
	struct piece v[QUERY_PARTS];
	unsigned nr = 0;

	while (*query && nr < QUERY_PARTS) {
		struct piece *p = &v[nr++];

		p->at = query;
		p->len = strcspn(query, "&");
		p->name = min_u64(strcspn(query, "=&"), p->len);
		query += p->len;
		query += *query == '&';
	}
	qsort(v, nr, sizeof(*v), by_name_and_value);
	for (unsigned i = 0; i < nr; i++) {
		object_strbuf_add(out, "&", i > 0);
		object_strbuf_add(out, v[i].at, v[i].len);
		object_strbuf_add(out, "=", v[i].name == v[i].len);
	}
	object_strbuf_add(out, "\n", 1);
}

static int by_header(const void *va, const void *vb)
{
	const struct object_header *a = va, *b = vb;

	return strcmp(a->name, b->name);
}

static unsigned sort_headers(struct object_header v[OBJECT_HEADERS + 1],
			     const struct object_sign *s)
{
	unsigned nr = 0;

	v[nr++] = (struct object_header){"host", s->host};
	for (unsigned i = 0; i < s->nr_headers && nr <= OBJECT_HEADERS; i++)
		v[nr++] = s->headers[i];
	qsort(v, nr, sizeof(*v), by_header);
	return nr;
}

/* Without blanks at its ends, with one where there are several. */
static void sign_add_value(struct object_strbuf *out, const char *value)
{
	value += strspn(value, " \t");
	while (*value) {
		size_t word = strcspn(value, " \t"), gap = strspn(value + word, " \t");

		object_strbuf_add(out, value, word);
		object_strbuf_add(out, " ", gap && value[word + gap]);
		value += word + gap;
	}
}

static void add_names(struct object_strbuf *out, const struct object_header *v, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		object_strbuf_add(out, ";", i > 0);
		object_strbuf_put(out, v[i].name);
	}
}

void object_sign_canonical(struct object_strbuf *out, const struct object_sign *s)
{
	struct object_header v[OBJECT_HEADERS + 1];
	unsigned nr = sort_headers(v, s);

	object_strbuf_printf(out, "%s\n%s\n", s->method, s->path);
	add_query(out, s->query);
	for (unsigned i = 0; i < nr; i++) {
		object_strbuf_printf(out, "%s:", v[i].name);
		sign_add_value(out, v[i].value);
		object_strbuf_add(out, "\n", 1);
	}
	object_strbuf_add(out, "\n", 1);
	add_names(out, v, nr);
	object_strbuf_printf(out, "\n%s", s->payload);
}

/* ----------------------------------------------------------------- signature */

/* The key that @kept has from now on.  0 or -ENOMEM. */
static int find_key(struct object_sign_key *kept, const char *scope, const struct object_sign *s)
{
	uint8_t of[HASH], key[HASH];
	char day[9] = "";
	size_t len = strlen(s->cred->secret);
	char *first;

	sha256(of, s->cred->secret, len);
	if (!strcmp(kept->scope, scope) && !memcmp(kept->of, of, HASH))
		return 0;
	first = malloc(len + 5);
	if (!first)
		return -ENOMEM;
	snprintf(kept->scope, sizeof(kept->scope), "%s", scope);
	memcpy(kept->of, of, HASH);
	memcpy(day, s->date, 8);
	memcpy(first, "AWS4", 4);
	memcpy(first + 4, s->cred->secret, len + 1);
	hmac(key, first, len + 4, day);
	hmac(key, key, HASH, s->region);
	hmac(key, key, HASH, s->service);
	hmac(kept->key, key, HASH, "aws4_request");
	explicit_bzero(first, len + 5);
	free(first);
	return 0;
}

/* Hash of the canonical form, then what is signed.  0 or -ENOMEM. */
static int string_to_sign(struct object_strbuf *text, const struct object_sign *s,
			  const char *scope)
{
	char hex[OBJECT_HASH_HEX];

	object_sign_canonical(text, s);
	if (text->failed)
		return -ENOMEM;
	object_sha256_hex(hex, text->s, text->len);
	object_strbuf_clear(text);
	object_strbuf_printf(text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->date, scope, hex);
	return text->failed ? -ENOMEM : 0;
}

int object_sign(struct object_strbuf *out, const struct object_sign *s,
		struct object_sign_key *kept)
{
	struct object_header v[OBJECT_HEADERS + 1];
	unsigned nr = sort_headers(v, s);
	struct object_strbuf text = {0};
	char scope[sizeof(kept->scope)], hex[OBJECT_HASH_HEX];
	uint8_t md[HASH];
	int r;

	snprintf(scope, sizeof(scope), "%.8s/%s/%s/aws4_request", s->date, s->region, s->service);
	r = string_to_sign(&text, s, scope);
	if (r == 0)
		r = find_key(kept, scope, s);
	if (r == 0) {
		hmac(md, kept->key, HASH, text.s);
		to_hex(hex, md);
		object_strbuf_printf(out, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=",
				     s->cred->key_id, scope);
		add_names(out, v, nr);
		object_strbuf_printf(out, ", Signature=%s", hex);
	}
	object_strbuf_fini(&text);
	return r < 0 || out->failed ? -ENOMEM : 0;
}
