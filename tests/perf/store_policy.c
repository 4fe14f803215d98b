/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hit rates of the store's policies on a trace of KV operations on standard input, for several
 * capacities.  The trace is CSV of `penstock kv --io-trace-log` or of `penstock trace
 * convert --to-format kv`:
 *
 *	perf-store_policy < trace.csv
 *
 * A read of what is not there, and a write, are sets.  Index and policy are the store's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyhash.h"
#include "base/util.h"
#include "kvstore/policy.h"

struct row {
	struct store_hash hash;
	uint64_t size;
	bool read;
};

static struct row *rows;
static uint64_t nr_rows, room;

static void read_rows(void)
{
	char line[4096], op[32], tier[32], key[2048];
	unsigned long long size;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%*[^,],%31[^,],%llu,%31[^,],%2047[^,\r\n]", op, &size, tier,
			   key) != 4 ||
		    (strcmp(op, "Read") && strcmp(op, "Write")))
			continue;
		if (ARRAY_RESERVE(rows, room, nr_rows + 1) < 0)
			exit(1);
		rows[nr_rows++] = (struct row){{penstock_key_hash(key, strlen(key), 1),
						penstock_key_hash(key, strlen(key), 2)},
					       size,
					       op[0] == 'R'};
	}
}

static void drop(struct store_policy *p, struct store_index *x, struct store_entry *e,
		 uint64_t *used)
{
	*used -= e->len;
	store_policy_remove(p, x, e);
	store_index_remove(x, e);
	store_index_free(x, e);
}

/* Share of the reads that find their key; @capacity bytes. */
static double play(uint32_t policy, uint64_t capacity)
{
	uint64_t used = 0, reads = 0, hits = 0;
	struct store_index x;
	struct store_policy p;

	if (store_index_init(&x) < 0 || store_policy_init(&p, policy) < 0)
		exit(1);
	for (uint64_t i = 0; i < nr_rows; i++) {
		const struct row *r = &rows[i];
		struct store_entry *e = store_index_find(&x, r->hash), *v;

		reads += r->read;
		hits += r->read && e;
		if (e) {
			store_policy_touch(&p, &x, e);
			continue;
		}
		while (used + r->size > capacity && (v = store_policy_victim(&p, &x)))
			drop(&p, &x, v, &used);
		e = r->size > capacity ? NULL : store_index_new(&x);
		if (!e)
			continue;
		e->hash = r->hash;
		e->len = (uint32_t)r->size;
		if (store_index_add(&x, e) < 0)
			exit(1);
		store_policy_add(&p, &x, e);
		used += r->size;
	}
	store_policy_fini(&p);
	store_index_fini(&x);
	return reads ? (double)hits / (double)reads : 0;
}

int main(void)
{
	uint64_t all = 0;
	struct store_index x;

	read_rows();
	if (store_index_init(&x) < 0)
		return 1;
	for (uint64_t i = 0; i < nr_rows; i++) {
		struct store_entry *e = store_index_find(&x, rows[i].hash);

		if (e)
			continue;
		e = store_index_new(&x);
		if (!e)
			return 1;
		e->hash = rows[i].hash;
		if (store_index_add(&x, e) < 0)
			return 1;
		all += rows[i].size;
	}
	printf("%llu operations, %u objects, %.1f GB\ncapacity   LRU  S3-FIFO\n",
	       (unsigned long long)nr_rows, x.used, (double)all / 1e9);
	store_index_fini(&x);
	for (unsigned part = 4096; part; part /= 4)
		printf("1/%-6u %.3f  %.3f\n", part, play(PENSTOCK_STORE_LRU, all / part),
		       play(PENSTOCK_STORE_S3FIFO, all / part));
	return 0;
}
