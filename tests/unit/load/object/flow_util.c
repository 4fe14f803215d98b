/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a flow: spans of time, heaps, quotas, attributes, names of files. */
#include "base/random.h"
#include "base/util.h"
#include "load/object/flow_internal.h"
#include "tests/common/t.h"

/* ------------------------------------------------------------------- spans */

static void a_span_is_the_union_of_its_intervals(void)
{
	enum { AXIS = 400, NR = 12 };
	struct penstock_random random;

	penstock_random_seed(&random, t_seed());
	for (unsigned turn = 0; turn < 2000; turn++) {
		bool covered[AXIS] = {false};
		struct span s = {0};
		unsigned start = 0, want = 0;

		/* as chunks come back: begun one after the other, several at a time */
		for (unsigned i = 0; i < NR; i++) {
			unsigned len = 1 + (unsigned)penstock_random_below(&random, 25);

			span_add(&s, start, start + len);
			for (unsigned k = start; k < start + len; k++)
				covered[k] = true;
			start += (unsigned)penstock_random_below(&random, 8);
		}
		for (unsigned k = 0; k < AXIS; k++)
			want += covered[k];
		T_EQ(span_total(&s), want);
	}
}

static void a_late_interval_fills_the_gap_between_two(void)
{
	struct span s = {0};

	span_add(&s, 10, 20);
	span_add(&s, 30, 40);
	T_EQ(span_total(&s), 20);
	span_add(&s, 15, 35);
	T_EQ(span_total(&s), 30);
	T_EQ(s.n, 1);
	span_add(&s, 50, 50);
	T_EQ(span_total(&s), 30);
	for (unsigned i = 0; i < 20; i++)
		span_add(&s, 100 * i + 100, 100 * i + 101);
	T_EQ(span_total(&s), 50);
	span_add(&s, 0, 100 * 20 + 101); /* late, over what was folded: never more than the whole */
	T_OK(span_total(&s) <= 100 * 20 + 101);
}

/* ------------------------------------------------------------------- heaps */

static struct op *as_op(uint64_t n)
{
	return (struct op *)(uintptr_t)n;
}

static void a_heap_gives_the_smallest_first(void)
{
	struct penstock_random random;
	struct penstock_heap h = {0};
	uint64_t last = 0, key;
	bool gone[500] = {false};

	penstock_random_seed(&random, t_seed());
	for (uint64_t i = 0; i < 500; i++)
		T_EQ(op_heap_put(&h, penstock_random_below(&random, 300), as_op(i)), 0);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t at = penstock_random_below(&random, h.nr);

		gone[h.v[at].value] = true;
		penstock_heap_remove(&h, at);
	}
	T_EQ(h.nr, 400);
	while (h.nr) {
		key = penstock_heap_first(&h);
		T_OK(key >= last);
		last = key;
		key = (uintptr_t)op_heap_take(&h);
		T_OK(!gone[key]);
		gone[key] = true;
	}
	T_EQ(penstock_heap_first(&h), UINT64_MAX);
	free(h.v);
}

static void a_ledger_lets_nobody_take_what_was_asked_for_earlier(void)
{
	struct quota l = {.limit = 10};
	uint64_t a = quota_reserve(&l, 6), b = quota_reserve(&l, 4), c = quota_reserve(&l, 3);

	T_OK(quota_is_granted(&l, a));
	T_OK(quota_is_granted(&l, b)); /* whether a has been here or not */
	T_OK(!quota_is_granted(&l, c));
	l.returned += 2;
	T_OK(!quota_is_granted(&l, c));
	l.returned += 1;
	T_OK(quota_is_granted(&l, c));
	l.returned += 100;
	T_OK(quota_is_granted(&l, a));
	l.limit = 0;
	T_OK(quota_is_granted(&l, a) && !quota_is_granted(&l, quota_reserve(&l, 200)));
	l.limit = UINT64_MAX;
	T_OK(quota_is_granted(&l, quota_reserve(&l, UINT64_MAX / 2)));
}

/* ------------------------------------------------------------------ attributes */

static void attributes_hold_name_and_shape_of_any_length(void)
{
	struct attrs_pool l = {.of = {{0}}};
	struct attrs *made[300];
	char name[600];

	memset(name, 'n', sizeof(name));
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < T_COUNT(made); i++) {
			made[i] = attrs_new(&l, name, 2 * i, i % 2 ? "(1, 2)" : NULL);
			T_OK(made[i]);
		}
		for (unsigned i = 0; i < T_COUNT(made); i++) {
			T_EQ(made[i]->name_len, 2 * i);
			T_MEM(made[i]->text, name, 2 * i);
			if (i % 2)
				T_EQ(strcmp(attrs_shape(made[i]), "(1, 2)"), 0);
			else
				T_OK(!attrs_shape(made[i]));
			attrs_free(&l, made[i]);
		}
	}
	attrs_pool_fini(&l);
}

static void a_name_in_a_message_is_short_and_printable(void)
{
	struct attrs_pool l = {.of = {{0}}};
	char out[NAME_TEXT], name[4096];
	struct attrs *a = attrs_new(&l, "conv_user_0001_turn_1", 21, NULL), *b, *c;

	T_EQ(strcmp(attrs_print_name(out, a), "conv_user_0001_turn_1"), 0);
	memset(name, '\n', sizeof(name));
	b = attrs_new(&l, name, sizeof(name), NULL);
	T_EQ(strncmp(attrs_print_name(out, b), "%0A%0A", 6), 0);
	T_OK(strlen(out) < NAME_TEXT && strchr(out, '.'));
	c = attrs_new(&l, "", 0, NULL);
	T_EQ(attrs_print_name(out, c)[0], 0);
	attrs_free(&l, a);
	attrs_free(&l, b);
	attrs_free(&l, c);
	attrs_pool_fini(&l);
}

/* -------------------------------------------------------------- file names */

static void check_name(const char *key, uint32_t len, const char *want)
{
	char name[PLACE_NAME], back[PLACE_NAME];
	uint32_t back_len = 0;

	place_file_name(name, key, len, 0, ".npy");
	if (want)
		T_EQ(strcmp(name, want), 0);
	T_OK(strlen(name) <= NAME_MAX && !strchr(name, '/') && name[0] != '.');
	if (place_name_cut(key, len))
		return;
	T_EQ(place_name_key(back, &back_len, name, ".npy"), 0);
	T_EQ(back_len, len);
	T_MEM(back, key, len);
	place_file_name(name, key, len, 65535, ".npy");
	T_OK(strlen(name) <= NAME_MAX);
	T_EQ(place_name_key(back, &back_len, name, ".npy"), 0);
	T_EQ(back_len, len);
	T_MEM(back, key, len);
}

static void ordinary_keys_are_names_as_they_are(void)
{
	check_name("conv_user_0001_1735689600000_turn_3", 35,
		   "conv_user_0001_1735689600000_turn_3.npy");
	check_name("rag_doc_0001_chunk_2", 20, "rag_doc_0001_chunk_2.npy");
	check_name("a..b", 4, "a..b.npy");
	check_name("..", 2, "%2E..npy");
	check_name(".penstock-objects", 17, "%2Epenstock-objects.npy");
	check_name("a/b", 3, "a%2Fb.npy");
	check_name("a b\xc3\xa4", 5, "a%20b%C3%A4.npy");
	check_name("100%~1", 6, "100%25%7E1.npy");
	check_name("", 0, "~.npy");
	check_name("\0", 1, "%00.npy");
}

static void keys_of_any_bytes_and_length_have_names_of_their_own(void)
{
	enum { NR = 400 };
	static char names[NR][PLACE_NAME];
	struct penstock_random random;
	char key[5000];

	penstock_random_seed(&random, t_seed());
	for (unsigned i = 0; i < NR; i++) {
		uint32_t len = (uint32_t)penstock_random_below(&random, i % 2 ? 5000 : 300);

		for (uint32_t k = 0; k < len; k++)
			key[k] = i % 3 ? 'k' : (char)penstock_random_next(&random);
		if (len > 8)
			memcpy(key + len - 8, &(uint64_t){i}, 8); /* they differ at the end only */
		check_name(key, len, NULL);
		place_file_name(names[i], key, len, 0, "");
		for (unsigned k = 0; k < i && len > 8; k++)
			T_OK(strcmp(names[i], names[k]) != 0);
	}
}

static void names_that_no_key_gives_are_refused(void)
{
	static const char *const bad[] = {"a.txt",    ".npy", "a b.npy", "a%2.npy",
					  "a%zz.npy", "%",    "a/b.npy"};
	char key[PLACE_NAME];
	uint32_t len;

	for (unsigned i = 0; i < T_COUNT(bad); i++)
		T_EQ(place_name_key(key, &len, bad[i], ".npy"), -EINVAL);
}

static const struct t_case cases[] = {
	T_CASE(a_span_is_the_union_of_its_intervals),
	T_CASE(a_late_interval_fills_the_gap_between_two),
	T_CASE(a_heap_gives_the_smallest_first),
	T_CASE(a_ledger_lets_nobody_take_what_was_asked_for_earlier),
	T_CASE(attributes_hold_name_and_shape_of_any_length),
	T_CASE(a_name_in_a_message_is_short_and_printable),
	T_CASE(ordinary_keys_are_names_as_they_are),
	T_CASE(keys_of_any_bytes_and_length_have_names_of_their_own),
	T_CASE(names_that_no_key_gives_are_refused),
};

int main(void)
{
	static const struct t_group group = {"flow_util", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
