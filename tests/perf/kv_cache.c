/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one operation of the KV cache costs, by the number of entries in it; one JSON object.
 *
 *	perf-kv_cache ENTRIES [SECONDS]
 *
 *	grow	entries put into an empty cache without limits
 *	turns	a full cache of three tiers: a new entry, which moves one down from each tier and
 *		drops one, and eight reads of entries of the last 1000 requests; as users do
 *	random	the same, but the reads are of any entry: what the memory of the machine can do
 *	ahead	the same, told to the cache beforehand (kv_cache_prefetch())
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"
#include "load/model/kv_cache.h"

enum { READS = 8, RECENT = 1000 };

struct bench {
	struct kv_cache *cache;
	struct penstock_random random;
	uint64_t entries, first, next; /* entries in it: keys first <= n < next */
	uint64_t events, misses;
};

static int on_event(void *arg, const struct kv_event *ev)
{
	struct bench *b = arg;

	b->events++;
	b->misses += ev->type == KV_EV_MISS;
	return 0;
}

static struct kv_key key(uint64_t n)
{
	/* five turns to a conversation */
	return (struct kv_key){.kind = KV_KEY_CONV,
			       .n = 1735689600000 + n / 5000,
			       .user = (uint32_t)(n / 5 % 1000),
			       .turn = (uint16_t)(n % 5)};
}

static int open_cache(struct bench *b, uint64_t entries, bool limited)
{
	struct kv_cache_opts o;

	kv_cache_opts_defaults(&o);
	o.model = kv_model_builtin(3);
	if (limited) {
		uint64_t size = kv_model_object_bytes(o.model, 1000, 1);

		o.limit[KV_GPU] = entries / 8 * size;
		o.limit[KV_CPU] = entries / 4 * size;
		o.limit[KV_NVME] =
			entries * size - o.limit[KV_GPU] * 8 / 10 - o.limit[KV_CPU] * 8 / 10;
	}
	*b = (struct bench){.entries = entries};
	penstock_random_seed(&b->random, 1);
	return kv_cache_new(&b->cache, &o, on_event, b);
}

static void allocate(struct bench *b)
{
	if (kv_cache_allocate(b->cache, key(b->next++), 1000) < 0) {
		fprintf(stderr, "perf-kv_cache: out of memory\n");
		exit(1);
	}
	if (b->next > b->entries)
		b->first = b->next - b->entries;
}

/* CPU time: what others do on the machine counts only as far as it takes the caches. */
static uint64_t cpu_ns(void)
{
	return thread_cpu_ns(pthread_self());
}

static double since(uint64_t start)
{
	return (double)(cpu_ns() - start) / 1e9;
}

/* ---- what is measured ---- */

/* The most memory this process ever had, bytes; getrusage() counts that of its parent, too. */
static double peak(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %lf kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* Nanoseconds per entry, and how much memory of the process it takes at most. */
static double grow(struct bench *b, double *per_entry)
{
	uint64_t start = cpu_ns();
	double before = peak(), ns;

	for (uint64_t n = 0; n < b->entries; n++)
		allocate(b);
	ns = since(start) / (double)b->entries * 1e9;
	*per_entry = (peak() - before) / (double)b->entries;
	return ns;
}

static void touch(struct bench *b, uint64_t n)
{
	kv_cache_access(b->cache, key(n), KV_DECODE, KV_USER);
}

static void turns(struct bench *b)
{
	uint64_t recent = min_u64(RECENT, b->next - b->first);

	allocate(b);
	for (int i = 0; i < READS; i++)
		touch(b, b->next - 1 - penstock_random_below(&b->random, recent));
}

/* Not the oldest, which the next allocations drop. */
static uint64_t any(struct bench *b)
{
	uint64_t all = b->next - b->first;

	return b->next - 1 - penstock_random_below(&b->random, all / 2);
}

static void anywhere(struct bench *b)
{
	allocate(b);
	for (int i = 0; i < READS; i++)
		touch(b, any(b));
}

static void ahead(struct bench *b)
{
	struct kv_key keys[READS + 1];

	for (int i = 0; i < READS; i++)
		keys[i] = key(any(b));
	keys[READS] = key(b->next);
	kv_cache_prefetch(b->cache, keys, READS + 1);
	allocate(b);
	for (int i = 0; i < READS; i++)
		kv_cache_access(b->cache, keys[i], KV_DECODE, KV_USER);
}

/* Events per second in steady state. */
static double steady(struct bench *b, void (*step)(struct bench *b), double seconds)
{
	uint64_t start;
	double took;

	for (uint64_t n = 0; n < b->entries / 4 && n < 100000; n++)
		step(b);
	b->events = b->misses = 0;
	start = cpu_ns();
	do
		for (int i = 0; i < 1000; i++)
			step(b);
	while (since(start) < seconds);
	took = since(start);
	if (b->misses * 100 > b->events)
		fprintf(stderr, "perf-kv_cache: %llu of %llu were misses\n",
			(unsigned long long)b->misses, (unsigned long long)b->events);
	return (double)b->events / took;
}

static double live(const struct kv_cache *c)
{
	uint64_t n = 0;

	for (int t = 0; t < KV_TIERS; t++)
		n += kv_cache_entries(c, (enum kv_tier)t);
	return (double)n;
}

static int measure(uint64_t entries, double seconds)
{
	static const struct {
		const char *name;
		void (*step)(struct bench *b);
	} kinds[] = {{"turns", turns}, {"random", anywhere}, {"ahead", ahead}};
	double per_entry, ns;
	struct bench b;

	if (open_cache(&b, entries, false) < 0)
		return 1;
	ns = grow(&b, &per_entry);
	kv_cache_free(b.cache);
	if (open_cache(&b, entries, true) < 0)
		return 1;
	for (uint64_t n = 0; n < 2 * entries; n++)
		allocate(&b);
	printf("{\"grow_ns\": %.1f, \"bytes_per_entry\": %.1f", ns, per_entry);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		printf(", \"%s\": %.0f", kinds[i].name, steady(&b, kinds[i].step, seconds));
	printf(", \"entries\": %.0f}\n", live(b.cache));
	kv_cache_free(b.cache);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t entries = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;

	if (entries < 100 || seconds <= 0) {
		fprintf(stderr, "usage: perf-kv_cache ENTRIES [SECONDS]\n");
		return 2;
	}
	return measure(entries, seconds);
}
