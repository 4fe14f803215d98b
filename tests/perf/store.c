/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV store at work, one submitting thread:
 *
 *	perf-store get|set|exists|submit|deadline|open|crc DIR[,DIR...] SIZE COUNT DEPTH SECONDS
 *		[register] [small] [recent] [MS]
 *
 * get and set go over COUNT values of SIZE bytes in memory on huge pages (small: on small ones),
 * DEPTH of them in flight, for SECONDS; register: the memory is registered; recent: copies are
 * kept. exists asks for 128 of COUNT empty values at a time, submit hands in gets of 128 values of
 * SIZE bytes (the time of the call alone), deadline gets 32 values in batches of which each has MS
 * milliseconds, open starts a store of COUNT empty values, crc sums up memory as a get does and
 * does nothing else.  One line of JSON.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/store.h>

#include "base/crc32c.h"
#include "measure.h"

enum { KEYS = 128, TIMED_KEYS = 32, DEPTH_MAX = 256, LATENCIES = 1 << 20 };

static struct penstock_store *store;
static const char *dirs[8];
static unsigned nr_dirs;
static uint64_t size, count;
static struct penstock_store_opts opts = PENSTOCK_STORE_OPTS_INIT;
static uint64_t deadline_ns;
static double *calls;  /* seconds in penstock_store_submit() */
static double *late;   /* of each batch, seconds after its deadline */
static double *sleeps; /* how late a thread wakes up that does nothing but sleep */
static uint64_t nr_late, nr_calls, nr_sleeps, hits;

static void open_store(void)
{
	uint64_t need = size * count;
	struct penstock_err err;

	opts.log_bytes = count * 512 + (1 << 20);
	need += need / 4 + nr_dirs * (4 * opts.log_bytes + (256 << 20));
	if (penstock_store_open(&store, dirs, nr_dirs, need, &opts, &err) < 0)
		die("%s", err.msg);
}

struct slot {
	char key[KEYS][32];
	struct penstock_iov iov;
	struct penstock_store_item items[KEYS];
	int64_t results[KEYS];
	struct penstock_store_batch b;
	double began;
};

/* By hand: what makes keys is not to be what is measured. */
static uint32_t make_key(char *to, uint64_t n)
{
	static const char begin[] = "model@0@0@", digits[] = "0123456789abcdef";
	uint32_t at = sizeof(begin) - 1;

	memcpy(to, begin, at);
	for (int shift = 60; shift >= 0; shift -= 4)
		to[at++] = digits[n >> shift & 15];
	return at;
}

static void start(struct slot *s, uint32_t opcode, uint64_t n, uint32_t nr)
{
	double took;

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t len = make_key(s->key[i], (n * nr + i) % count);

		s->items[i] = (struct penstock_store_item){s->key[i], len, size ? 1 : 0, &s->iov};
	}
	s->b = (struct penstock_store_batch){.opcode = opcode,
					     .nr = nr,
					     .items = s->items,
					     .results = s->results,
					     .tag = (uint64_t)(uintptr_t)s,
					     .deadline_ns = deadline_ns,
					     .memory = PENSTOCK_MEMORY_HOST};
	s->began = wall_now();
	if (penstock_store_submit(store, &s->b, NULL) < 0)
		die("a batch was refused");
	took = wall_now() - s->began;
	if (calls && nr_calls < LATENCIES)
		calls[nr_calls++] = took;
}

static void ended(const struct penstock_store_done *d)
{
	const struct slot *s = (const struct slot *)(uintptr_t)d->tag;

	hits += d->good;
	if (late && nr_late < LATENCIES)
		late[nr_late++] = wall_now() - s->began - 1e-9 * (double)deadline_ns;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of @n times, in order from here on: so much at most for @share of them. */
static double quantile(double *times, uint64_t n, double share)
{
	if (!n)
		return 0;
	qsort(times, n, sizeof(*times), ascending);
	return times[(uint64_t)(share * (double)(n - 1))];
}

/* What the machine makes of a deadline today. */
static void *sleep_often(void *arg)
{
	const _Atomic bool *stop = arg;

	while (!*stop && nr_sleeps < LATENCIES) {
		struct timespec ts = {0, (long)(deadline_ns % 1000000000u)};
		double began = wall_now();

		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
		sleeps[nr_sleeps++] = wall_now() - began - 1e-9 * (double)deadline_ns;
	}
	return NULL;
}

/* Batches of @nr keys, @depth in flight, until the time is over or @most are done; returns keys. */
static uint64_t go(struct slot *slots, unsigned depth, uint32_t opcode, uint32_t nr, double seconds,
		   uint64_t most)
{
	struct pollfd p = {penstock_store_fd(store), POLLIN, 0};
	struct penstock_store_done d[DEPTH_MAX];
	double end = wall_now() + seconds;
	uint64_t given = 0;
	unsigned inside = 0;

	hits = nr_late = nr_calls = 0;
	for (unsigned i = 0; i < depth && given < most; i++, inside++)
		start(&slots[i], opcode, given++, nr);
	while (inside) {
		int n = penstock_store_drain(store, d, DEPTH_MAX);

		if (!n)
			poll(&p, 1, -1);
		for (int i = 0; i < n; i++) {
			ended(&d[i]);
			if (given < most && wall_now() < end)
				start((struct slot *)(uintptr_t)d[i].tag, opcode, given++, nr);
			else
				inside--;
		}
	}
	if (hits != given * nr && !deadline_ns)
		die("%llu of %llu keys were good", (unsigned long long)hits,
		    (unsigned long long)(given * nr));
	return given * nr;
}

/* The sums alone, of as much memory as is in flight. */
static uint64_t sum_up(const char *mem, unsigned depth, double seconds)
{
	double end = wall_now() + seconds;
	uint64_t n = 0;
	uint32_t crc = 0;

	for (; wall_now() < end; n++)
		crc ^= penstock_crc32c(0, mem + n % depth * size, size);
	return crc == 1 ? n + 1 : n;
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

static void fill_store(struct slot *slots, unsigned depth)
{
	struct penstock_store_stats st = {.size = sizeof(st)};
	uint32_t nr = size ? 1 : KEYS;

	penstock_store_get_stats(store, &st);
	if (st.entries < count)
		go(slots, depth, PENSTOCK_STORE_SET, nr, 1e9, (count + nr - 1) / nr);
}

static const struct mode {
	const char *name;
	uint32_t opcode, nr; /* 0: none is run */
} modes[] = {
	{"get", PENSTOCK_STORE_GET, 1},
	{"set", PENSTOCK_STORE_SET, 1},
	{"exists", PENSTOCK_STORE_EXISTS, KEYS},
	{"submit", PENSTOCK_STORE_GET, KEYS},
	{"deadline", PENSTOCK_STORE_GET, TIMED_KEYS},
	{"open", 0, 0},
	{"crc", 0, 1},
};

static const struct mode *find_mode(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(modes[i].name, name))
			return &modes[i];
	die("%s: get, set, exists, submit, deadline, open or crc", name);
}

static char *make_memory(int argc, char **argv, struct slot *slots, unsigned depth)
{
	uint32_t pages = has(argc, argv, "small") ? PENSTOCK_HUGE_NEVER : PENSTOCK_HUGE_AUTO;
	char *mem;

	if (penstock_mem_alloc((void **)&mem, depth * (size + 1), pages, 0, NULL, NULL) < 0)
		die("no memory");
	memset(mem, 0x5a, depth * (size + 1));
	for (unsigned i = 0; i < depth; i++)
		slots[i].iov = (struct penstock_iov){mem + i * size, size};
	return mem;
}

int main(int argc, char **argv)
{
	struct penstock_store_stats st = {.size = sizeof(st)};
	const struct mode *mode;
	struct slot *slots;
	struct span s;
	unsigned depth;
	uint64_t keys = 0;
	_Atomic bool stop = false;
	pthread_t sleeper;
	char *mem;

	if (argc < 7)
		die("perf-store MODE DIR,... SIZE COUNT DEPTH SECONDS [WORDS]");
	mode = find_mode(argv[1]);
	split(argv[2]);
	size = strtoull(argv[3], NULL, 0);
	count = strtoull(argv[4], NULL, 0);
	depth = (unsigned)atoi(argv[5]);
	opts.flags = has(argc, argv, "recent") ? 0 : PENSTOCK_STORE_NO_RECENT;
	if (depth < 1 || depth > DEPTH_MAX)
		die("DEPTH: 1..%d", DEPTH_MAX);
	slots = calloc(depth, sizeof(*slots));
	if (!slots)
		die("no memory");
	mem = make_memory(argc, argv, slots, depth);
	s = span_start();
	if (mode->opcode || !mode->nr)
		open_store();
	s = span_since(s);
	if (store && has(argc, argv, "register") &&
	    penstock_store_register(store, mem, depth * size,
				    has(argc, argv, "small") ? 0 : PENSTOCK_BUF_HUGE, NULL,
				    NULL) < 0)
		die("the memory cannot be registered");
	if (store)
		fill_store(slots, depth);
	if (!strcmp(mode->name, "deadline")) {
		deadline_ns = (uint64_t)(1e6 * atof(argv[argc - 1]));
		late = malloc(LATENCIES * sizeof(*late));
		sleeps = malloc(LATENCIES * sizeof(*sleeps));
		if (!late || !sleeps || pthread_create(&sleeper, NULL, sleep_often, &stop) != 0)
			die("no memory");
	}
	calls = malloc(LATENCIES * sizeof(*calls));
	if (mode->nr) {
		s = span_start();
		keys = store ? go(slots, depth, mode->opcode, mode->nr, atof(argv[6]), UINT64_MAX)
			     : sum_up(mem, depth, atof(argv[6]));
		s = span_since(s);
	}
	stop = true;
	if (sleeps)
		pthread_join(sleeper, NULL);
	if (store)
		penstock_store_get_stats(store, &st);
	printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"keys\": %llu, \"hits\": %llu, "
	       "\"bytes\": %llu, \"call_us\": [%.3f, %.3f], ",
	       s.wall, s.cpu, (unsigned long long)keys, (unsigned long long)hits,
	       (unsigned long long)(keys * size), 1e6 * quantile(calls, nr_calls, 0.5),
	       1e6 * quantile(calls, nr_calls, 0.99));
	printf("\"late_ms\": [%.3f, %.3f, %.3f], \"sleep_ms\": [%.3f, %.3f, %.3f], ",
	       1e3 * quantile(late, nr_late, 0.5), 1e3 * quantile(late, nr_late, 0.99),
	       1e3 * quantile(late, nr_late, 1), 1e3 * quantile(sleeps, nr_sleeps, 0.5),
	       1e3 * quantile(sleeps, nr_sleeps, 0.99), 1e3 * quantile(sleeps, nr_sleeps, 1));
	printf("\"entries\": %llu, \"recovered\": %llu, \"index_bytes\": %llu, \"wear\": %.4f}\n",
	       (unsigned long long)st.entries, (unsigned long long)st.recovered,
	       (unsigned long long)st.index_bytes,
	       st.bytes_set ? (double)st.bytes_written / (double)st.bytes_set : 0);
	return penstock_store_close(store, NULL) < 0;
}
