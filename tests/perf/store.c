/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV store at work, one submitting thread:
 *
 *	perf-store get|set|exists|submit|open DIR[,DIR...] SIZE COUNT DEPTH SECONDS [recent]
 *
 * get and set go over COUNT values of SIZE bytes in memory on huge pages, DEPTH of them in flight,
 *for SECONDS; exists asks for 128 of COUNT empty values at a time, submit hands in batches of 128
 *keys (the time of the call alone), open starts a store of COUNT empty values.  One line of JSON.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/store.h>

#include "measure.h"

enum { KEYS = 128, DEPTH_MAX = 256 };

static struct sluice_store *store;
static const char *dirs[8];
static unsigned nr_dirs;
static uint64_t size, count;
static struct sluice_store_opts opts = SLUICE_STORE_OPTS_INIT;

static void open_store(void)
{
	uint64_t need = size * count;
	struct sluice_err err;

	opts.log_bytes = count * 512 + (1 << 20);
	need += need / 4 + nr_dirs * (4 * opts.log_bytes + (256 << 20));
	if (sluice_store_open(&store, dirs, nr_dirs, need, &opts, &err) < 0)
		die("%s", err.msg);
}

struct slot {
	char key[KEYS][32];
	struct sluice_iov iov;
	struct sluice_store_item items[KEYS];
	int64_t results[KEYS];
	struct sluice_store_batch b;
};

static void start(struct slot *s, uint32_t opcode, uint64_t n, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		int len = snprintf(s->key[i], sizeof(s->key[i]), "model@0@0@%016llx",
				   (unsigned long long)((n * nr + i) % count));

		s->items[i] =
			(struct sluice_store_item){s->key[i], (uint32_t)len, size ? 1 : 0, &s->iov};
	}
	s->b = (struct sluice_store_batch){.opcode = opcode,
					   .nr = nr,
					   .items = s->items,
					   .results = s->results,
					   .tag = (uint64_t)(uintptr_t)s,
					   .memory = SLUICE_MEMORY_HOST};
	if (sluice_store_submit(store, &s->b, NULL) < 0)
		die("a batch was refused");
}

/* Batches of @nr keys, @depth in flight, until the time is over or @most are done; returns keys. */
static uint64_t go(struct slot *slots, unsigned depth, uint32_t opcode, uint32_t nr, double seconds,
		   uint64_t most, double *call)
{
	struct pollfd p = {sluice_store_fd(store), POLLIN, 0};
	struct sluice_store_done d[DEPTH_MAX];
	double end = wall_now() + seconds, t;
	uint64_t given = 0, good = 0;
	unsigned inside = 0;

	for (unsigned i = 0; i < depth && given < most; i++, inside++)
		start(&slots[i], opcode, given++, nr);
	while (inside) {
		int n = sluice_store_drain(store, d, DEPTH_MAX);

		if (!n)
			poll(&p, 1, -1);
		for (int i = 0; i < n; i++) {
			good += d[i].good;
			if (given < most && wall_now() < end) {
				t = wall_now();
				start((struct slot *)(uintptr_t)d[i].tag, opcode, given++, nr);
				*call += wall_now() - t;
			} else {
				inside--;
			}
		}
	}
	if (good != given * nr)
		die("%llu of %llu keys were good", (unsigned long long)good,
		    (unsigned long long)(given * nr));
	return good;
}

/* Is the word among those behind SECONDS? */
static bool has(int argc, char **argv, const char *word)
{
	for (int i = 7; i < argc; i++)
		if (!strcmp(argv[i], word))
			return true;
	return false;
}

static void split(char *list)
{
	for (char *d = strtok(list, ","); d && nr_dirs < 8; d = strtok(NULL, ","))
		dirs[nr_dirs++] = d;
}

int main(int argc, char **argv)
{
	struct sluice_store_stats st = {.size = sizeof(st)};
	bool small, only_open;
	struct slot *slots;
	struct span s;
	unsigned depth;
	uint64_t keys = 0;
	double call = 0, warm = 0;
	char *mem;

	if (argc < 7)
		die("perf-store get|set|exists|submit|open DIR,... SIZE COUNT DEPTH SECONDS "
		    "[recent]");
	split(argv[2]);
	size = strtoull(argv[3], NULL, 0);
	count = strtoull(argv[4], NULL, 0);
	depth = (unsigned)atoi(argv[5]);
	opts.flags = has(argc, argv, "recent") ? 0 : SLUICE_STORE_NO_RECENT;
	small = argv[1][0] == 'e' || argv[1][0] == 's';
	small = small && strcmp(argv[1], "set");
	only_open = argv[1][0] == 'o';
	if (depth < 1 || depth > DEPTH_MAX)
		die("DEPTH: 1..%d", DEPTH_MAX);
	slots = calloc(depth, sizeof(*slots));
	if (!slots ||
	    sluice_mem_alloc((void **)&mem, depth * (size + 1),
			     has(argc, argv, "small") ? SLUICE_HUGE_NEVER : 0, 0, NULL, NULL) < 0)
		die("no memory");
	memset(mem, 0x5a, depth * (size + 1));
	for (unsigned i = 0; i < depth; i++)
		slots[i].iov = (struct sluice_iov){mem + i * size, size};
	s = span_start();
	open_store();
	s = span_since(s);
	if (has(argc, argv, "register") &&
	    sluice_store_register(store, mem, depth * size,
				  has(argc, argv, "small") ? 0 : SLUICE_BUF_HUGE, NULL, NULL) < 0)
		die("the memory cannot be registered");
	sluice_store_get_stats(store, &st);
	if (st.entries < count) {
		if (only_open || small)
			go(slots, depth, SLUICE_STORE_SET, KEYS, 1e9, count / KEYS + 1, &warm);
		else
			go(slots, depth, SLUICE_STORE_SET, 1, 1e9, count, &warm);
	}
	if (!only_open) {
		uint32_t opcode = argv[1][0] == 'g'         ? SLUICE_STORE_GET
				  : !strcmp(argv[1], "set") ? SLUICE_STORE_SET
							    : SLUICE_STORE_EXISTS;

		warm = call = 0;
		s = span_start();
		keys = go(slots, depth, opcode, small ? KEYS : 1, atof(argv[6]), UINT64_MAX, &call);
		s = span_since(s);
	}
	sluice_store_get_stats(store, &st);
	printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"keys\": %llu, \"bytes\": %llu, "
	       "\"call_us\": %.3f, \"entries\": %llu, \"recovered\": %llu, \"index_bytes\": %llu, "
	       "\"wear\": %.4f}\n",
	       s.wall, s.cpu, (unsigned long long)keys, (unsigned long long)(keys * size),
	       keys ? 1e6 * call / (double)(keys / (small ? KEYS : 1)) : 0,
	       (unsigned long long)st.entries, (unsigned long long)st.recovered,
	       (unsigned long long)st.index_bytes,
	       st.bytes_set ? (double)st.bytes_written / (double)st.bytes_set : 0);
	return sluice_store_close(store, NULL) < 0;
}
