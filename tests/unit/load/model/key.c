/* SPDX-License-Identifier: Apache-2.0 */
/* Names of entries, their short form, and texts by number. */
#include "load/model/kv_key.h"

#include "base/util.h"
#include "tests/common/t.h"

static struct kv_texts *texts;

static void setup(void)
{
	texts = kv_texts_new();
	T_OK(texts);
}

static void teardown(void)
{
	kv_texts_free(texts);
}

static void names_are_those_of_the_contract(void)
{
	static const struct {
		struct kv_key key;
		const char *name;
	} want[] = {
		{{1735689600123, 7, 3, KV_KEY_CONV, 0}, "conv_user_0007_1735689600123_turn_3"},
		{{0, 12345, 50, KV_KEY_CONV, 0}, "conv_user_12345_0_turn_50"},
		{{1, 0, 1, KV_KEY_USER_REQ, 0}, "user_0000_req_000001"},
		{{1234567, 9999, 1, KV_KEY_USER_REQ, 0}, "user_9999_req_1234567"},
		{{12, 999, 0, KV_KEY_TRACE_REQ, 0}, "trace_user_999_req_0012"},
		{{100, 5, 0, KV_KEY_CHUNK, 0}, "rag_doc_0005_chunk_100"},
		{{0, 5, 0, KV_KEY_DOC, 0}, "rag_doc_0005"},
		{{17, 0, 0, KV_KEY_PRECOND, 0}, "precond_17"},
		{{0, 0, 0, KV_KEY_PREPOP, 0}, "prepop_0"},
		{{0, 0, 0, KV_KEY_SYSTEM, 0}, "kv_system_0b7588a77cb9c73b"},
		{{1, 0, 0, KV_KEY_SYSTEM, 0}, "kv_system_ea8ffc489f80c165"},
		{{2, 0, 0, KV_KEY_SYSTEM, 0}, "kv_system_2ed87f49657692a2"},
	};
	char buf[KV_KEY_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		T_EQ(kv_key_format(buf, sizeof(buf), want[i].key, NULL), strlen(want[i].name));
		T_OK(!strcmp(buf, want[i].name));
	}
}

static void the_longest_name_fits(void)
{
	struct kv_key k = {UINT64_MAX, UINT32_MAX, UINT16_MAX, 0, 0};
	char buf[KV_KEY_MAX];

	for (k.kind = KV_KEY_CONV; k.kind <= KV_KEY_SYSTEM; k.kind++)
		T_OK(kv_key_format(buf, sizeof(buf), k, NULL) < KV_KEY_MAX);
}

static void a_text_may_have_a_turn(void)
{
	struct kv_key k = {.kind = KV_KEY_TEXT};
	char buf[32];

	k.n = (uint64_t)kv_texts_add(texts, "abc", 3);
	T_EQ(kv_key_format(buf, sizeof(buf), k, texts), 3);
	T_OK(!strcmp(buf, "abc"));
	k.turn = 12;
	T_EQ(kv_key_format(buf, sizeof(buf), k, texts), 11);
	T_OK(!strcmp(buf, "abc_turn_12"));
}

static void a_short_buffer_gets_the_beginning_and_the_length(void)
{
	struct kv_key keys[] = {{.kind = KV_KEY_TEXT, .turn = 12},
				{.kind = KV_KEY_PRECOND, .n = 5}};
	char whole[32], part[32];

	keys[0].n = (uint64_t)kv_texts_add(texts, "abc", 3);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		size_t len = kv_key_format(whole, sizeof(whole), keys[i], texts);

		for (size_t size = 1; size < sizeof(part); size++) {
			memset(part, '#', sizeof(part));
			T_EQ(kv_key_format(part, size, keys[i], texts), len);
			T_EQ(strlen(part), min_u64(len, size - 1));
			T_OK(!strncmp(part, whole, size - 1) &&
			     part[size] == (size < 32 ? '#' : 0));
		}
		T_EQ(kv_key_format(NULL, 0, keys[i], texts), len);
	}
}

static void every_field_counts_in_hash_and_comparison(void)
{
	struct kv_key a = {5, 6, 7, KV_KEY_CONV, 0}, b[5] = {a, a, a, a, a};

	b[1].n++;
	b[2].user++;
	b[3].turn++;
	b[4].kind++;
	for (int i = 0; i < 5; i++) {
		T_EQ(kv_key_equal(a, b[i]), i == 0);
		T_EQ(kv_key_hash(a) == kv_key_hash(b[i]), i == 0);
	}
}

/* Buckets take the low bits: keys that differ by little must spread over them. */
static void neighbours_spread(void)
{
	enum { BUCKETS = 4096, N = 4 * BUCKETS };
	static unsigned count[2][BUCKETS];
	unsigned most = 0, empty = 0;

	memset(count, 0, sizeof(count));
	for (unsigned i = 0; i < N; i++) {
		struct kv_key a = {1735689600000 + i / 8, i % 100, (uint16_t)(1 + i % 8),
				   KV_KEY_CONV, 0};
		struct kv_key b = {i, 0, 0, KV_KEY_PREPOP, 0};

		count[0][kv_key_hash(a) % BUCKETS]++;
		count[1][kv_key_hash(b) % BUCKETS]++;
	}
	for (unsigned i = 0; i < 2 * BUCKETS; i++) {
		unsigned n = count[i / BUCKETS][i % BUCKETS];

		most = n > most ? n : most;
		empty += !n;
	}
	/* Poisson with mean 4: 1.8 % are empty, more than 20 are in none of a million */
	T_OK(most <= 20 && empty < 2 * BUCKETS * 3 / 100);
}

static void equal_texts_are_one(void)
{
	size_t len;

	T_EQ(kv_texts_add(texts, "a", 1), 0);
	T_EQ(kv_texts_add(texts, "b", 1), 1);
	T_EQ(kv_texts_add(texts, "", 0), 2);
	T_EQ(kv_texts_add(texts, "a\0b", 3), 3);
	T_EQ(kv_texts_add(texts, "a", 1), 0);
	T_EQ(kv_texts_add(texts, "", 0), 2);
	T_OK(!memcmp(kv_texts_get(texts, 3, &len), "a\0b", 4) && len == 3);
	T_OK(!strcmp(kv_texts_get(texts, 99, &len), "") && len == 0);
}

static void many_texts_keep_their_numbers_and_places(void)
{
	enum { N = 100000 };
	CLEANUP_FREE char *big = calloc(1, 200000);
	const char *first;
	char text[32];
	size_t len;

	T_OK(big);
	kv_texts_add(texts, "0", 1);
	first = kv_texts_get(texts, 0, &len);
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < N; i++)
			T_EQ(kv_texts_add(texts, text, (size_t)snprintf(text, 32, "%d", i)), i);
		T_EQ(kv_texts_add(texts, big, 200000), N);
	}
	T_OK(kv_texts_get(texts, 0, &len) == first);
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "%d", i);
		T_OK(!strcmp(kv_texts_get(texts, (uint64_t)i, &len), text) && len == strlen(text));
	}
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(names_are_those_of_the_contract),
		T_CASE(the_longest_name_fits),
		T_CASE(a_text_may_have_a_turn),
		T_CASE(a_short_buffer_gets_the_beginning_and_the_length),
		T_CASE(every_field_counts_in_hash_and_comparison),
		T_CASE(neighbours_spread),
		T_CASE(equal_texts_are_one),
		T_CASE(many_texts_keep_their_numbers_and_places),
	};
	const struct t_group group = {"keys", setup, teardown, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
