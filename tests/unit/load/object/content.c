/* SPDX-License-Identifier: Apache-2.0 */
/* What objects hold: the same for the same key and seed, and no two blocks alike. */
#include "load/object/content.h"

#include "tests/common/t.h"

enum { BLOCK = CONTENT_BLOCK };

static struct content made(uint64_t seed)
{
	struct content c;

	T_EQ(content_init(&c, seed), 0);
	return c;
}

static unsigned char *object(const struct content *c, uint64_t id, uint64_t len)
{
	unsigned char *p = malloc(len + 1);

	T_OK(p);
	content_fill(c, p, len, id, 0);
	return p;
}

static void the_same_key_and_seed_give_the_same_bytes(void)
{
	struct content a = made(7), b = made(7), other = made(8);
	uint64_t id = content_id("user_0001_ctx", 13);
	unsigned char *x = object(&a, id, MIB(2)), *y = object(&b, id, MIB(2));
	unsigned char *z = object(&other, id, MIB(2));

	T_MEM(x, y, MIB(2));
	for (uint64_t at = 0; at < MIB(2); at += BLOCK)
		T_OK(memcmp(x + at, z + at, BLOCK) != 0);
	free(x);
	free(y);
	free(z);
	content_fini(&a);
	content_fini(&b);
	content_fini(&other);
}

/* As upstream asks: less than 1 % within an entry and among many. */
static int by_bytes(const void *a, const void *b)
{
	return memcmp(*(unsigned char *const *)a, *(unsigned char *const *)b, BLOCK);
}

static void blocks_are_not_alike_within_and_across_objects(void)
{
	enum { NR = 10, LEN = 3 << 20, BLOCKS = NR * (LEN / BLOCK) };
	struct content c = made(1);
	unsigned char *objects[NR], **blocks = calloc(BLOCKS, sizeof(*blocks));
	unsigned nr = 0, same = 0;
	char name[32];

	T_OK(blocks);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "conv_user_%04u_turn_1", i);
		objects[i] = object(&c, content_id(name, strlen(name)), LEN);
		for (unsigned at = 0; at < LEN; at += BLOCK)
			blocks[nr++] = objects[i] + at;
	}
	qsort(blocks, nr, sizeof(*blocks), by_bytes);
	for (unsigned i = 1; i < nr; i++)
		same += !memcmp(blocks[i - 1], blocks[i], BLOCK);
	T_EQ(same, 0);
	for (unsigned i = 0; i < NR; i++)
		free(objects[i]);
	free(blocks);
	content_fini(&c);
}

static void any_range_is_part_of_the_whole(void)
{
	struct content c = made(3);
	unsigned char *whole = object(&c, 42, MIB(3) + 1000), *part = malloc(MIB(2));
	static const uint64_t from[] = {
		0,  BLOCK, MIB(1) - BLOCK, MIB(1),     MIB(2) + 3 * BLOCK, 1, 63,
		64, 65,    BLOCK - 1,      BLOCK + 10, MIB(1) - 3};
	static const uint64_t len[] = {1, 63, 64, 65, BLOCK, BLOCK + 1, KIB(700)};

	T_OK(part);
	for (unsigned i = 0; i < T_COUNT(from); i++)
		for (unsigned k = 0; k < T_COUNT(len); k++) {
			content_fill(&c, part, len[k], 42, from[i]);
			T_MEM(part, whole + from[i], len[k]);
			T_EQ(content_check(&c, part, len[k], 42, from[i]), len[k]);
			content_noise(&c, part, len[k], from[i]);
			if (from[i] % BLOCK == 0)
				T_OK(content_check(&c, part, len[k], 42, from[i]) < 64);
			content_stamp(&c, part, len[k], 42, from[i]);
			T_MEM(part, whole + from[i], len[k]);
		}
	free(whole);
	free(part);
	content_fini(&c);
}

static void any_changed_byte_is_found_where_it_is(void)
{
	struct content c = made(3);
	uint64_t len = 3 * BLOCK + 100;
	unsigned char *p = object(&c, 5, len);

	for (uint64_t i = 0; i < len; i++) {
		p[i] ^= 0x10;
		T_EQ(content_check(&c, p, len, 5, 0), i);
		p[i] ^= 0x10;
	}
	T_EQ(content_check(&c, p, len, 5, 0), len);
	T_OK(content_check(&c, p, len, 6, 0) < 8);                           /* another object */
	T_OK(content_check(&c, p + BLOCK, BLOCK, 5, 0) < 16);                /* another place */
	T_OK(content_check(&c, p, BLOCK, 5, (uint64_t)CONTENT_PERIOD) < 16); /* of the same noise */
	free(p);
	content_fini(&c);
}

static void ids_differ_for_names_that_are_nearly_alike(void)
{
	static const char text[40];
	uint64_t id[80];
	unsigned nr = 0;

	for (unsigned n = 0; n < 40; n++) /* zeros of every length */
		id[nr++] = content_id(text, n);
	for (unsigned i = 0; i < 40; i++) {
		char one[40] = "";

		one[i] = 1;
		id[nr++] = content_id(one, 40);
	}
	for (unsigned i = 0; i < nr; i++)
		for (unsigned k = 0; k < i; k++)
			T_OK(id[i] != id[k]);
}

static const struct t_case cases[] = {
	T_CASE(the_same_key_and_seed_give_the_same_bytes),
	T_CASE(blocks_are_not_alike_within_and_across_objects),
	T_CASE(any_range_is_part_of_the_whole),
	T_CASE(any_changed_byte_is_found_where_it_is),
	T_CASE(ids_differ_for_names_that_are_nearly_alike),
};

int main(void)
{
	static const struct t_group group = {"content", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
