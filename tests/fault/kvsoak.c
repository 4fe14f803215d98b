/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV store at work for long: descriptors and memory are what they were after the first rounds.
 * Each round overfills the store some times, with deadlines and times to live, closes it and opens
 * it again.  PENSTOCK_TEST_OPS=100000000 is a soak of hours.
 */
#include <dirent.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/common/storekit.h"

#ifdef __GLIBC_PREREQ
#define HAVE_MALLINFO __GLIBC_PREREQ(2, 33)
#else
#define HAVE_MALLINFO 0
#endif
#define ROUND  10000 /* operations */
#define WARM   3     /* rounds, after which nothing grows */
#define SLACK  MIB(1)
#define LIMIT  MIB(8)
#define LENGTH KIB(24)

struct resources {
	unsigned fds;
	uint64_t bytes; /* allocated and not freed */
};

/* Is this one of a log that is being rewritten: the new one, or the old one that is about to be
 * closed? */
static bool is_for_a_while(const struct dirent *e)
{
	char name[64], path[512] = "";
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%.20s", e->d_name);
	n = readlink(name, path, sizeof(path) - 1);
	return n > 0 && (strstr(path, "/log.new") || strstr(path, "/log (deleted)"));
}

static unsigned count_fds(bool *settled)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	unsigned n = 0;

	T_OK(d != NULL);
	*settled = true;
	for (; (e = readdir(d)); n++)
		if (is_for_a_while(e))
			*settled = false;
	closedir(d);
	return n;
}

/* When no log is being rewritten, which takes a file and some MiB for as long as it lasts. */
static unsigned count_settled_fds(void)
{
	struct timespec soon = {0, 1000000};
	bool settled;
	unsigned n;

	while (n = count_fds(&settled), !settled)
		nanosleep(&soon, NULL);
	return n;
}

static struct resources count_resources(void)
{
	struct resources h = {.fds = count_settled_fds()};
#if HAVE_MALLINFO
	struct mallinfo2 m = mallinfo2();

	h.bytes = T_ASAN || T_TSAN ? 0 : m.uordblks + m.hblkhd;
#endif
	return h;
}

static void must_not_grow(const char *when, struct resources was, struct resources is)
{
	T_EQ(is.fds, was.fds);
	if (is.bytes > was.bytes + SLACK)
		T_FAIL("%s: %llu bytes are allocated, %llu more than after %u rounds", when,
		       (unsigned long long)is.bytes, (unsigned long long)(is.bytes - was.bytes),
		       WARM);
}

/* Of 4000 keys, which are eight times what fits; the value of a key is always the same. */
static void one_operation(struct penstock_random *random)
{
	static unsigned char buf[LENGTH];
	uint64_t n = penstock_random_below(random, 4000), len = n * 2654435761u % LENGTH;
	char key[32];
	int64_t r;

	snprintf(key, sizeof(key), "key %llu", (unsigned long long)n);
	switch (penstock_random_below(random, 8)) {
	case 0:
		sk_delete(key);
		break;
	case 1:
		sk_exists(key);
		break;
	case 2:
		r = sk_op(PENSTOCK_STORE_GET, key, (uint32_t)strlen(key), buf, LENGTH, 200000);
		T_OK(r < 0 || penstock_pattern_check(buf, (size_t)r, n, 0) == len);
		break;
	case 3:
	case 4:
	case 5:
		sk_set(key, n, len);
		break;
	default:
		r = sk_get(key, n, LENGTH);
		T_OK(r < 0 || (uint64_t)r == len);
	}
}

static void memory_and_descriptors_do_not_grow(void)
{
	unsigned long rounds = t_ops(T_FEWER(20) * ROUND) / ROUND;
	struct resources open = {0}, closed = {0};
	struct penstock_random random;

	penstock_random_seed(&random, t_seed());
	sk_opts.ttl_s = 20;
	for (unsigned long i = 0; i < WARM || i < rounds; i++) {
		sk_open("a b", LIMIT);
		for (unsigned n = 0; n < ROUND; n++)
			one_operation(&random);
		if (i >= WARM)
			must_not_grow("open", open, count_resources());
		else
			open = count_resources();
		T_OK(sk_stats().evictions > 0);
		sk_close();
		if (i >= WARM)
			must_not_grow("closed", closed, count_resources());
		else
			closed = count_resources();
	}
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(memory_and_descriptors_do_not_grow),
	};
	static const struct t_group groups[] = {
		{"kvsoak", sk_reset, NULL, cases, T_COUNT(cases)},
	};

	return t_run(groups, T_COUNT(groups), NULL);
}
