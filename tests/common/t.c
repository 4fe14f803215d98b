/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The harness under the tests.  cmocka 1.1.5 prints a skipped test as "not ok
 * N # SKIP", which TAP readers count as a failure.  So a skipped test returns
 * as if it had passed, and its name, which cmocka prints afterwards, has got
 * "# SKIP why" at its end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/random.h"
#include "t.h"

struct run {
	const struct t_group *group;
	const struct t_case *c;
	bool skipped;
	char name[400];
};

static struct run *current;
static char dir[PATH_MAX];
static pid_t dir_owner;

/* ------------------------------------------------------------------- cases */

static void run_case(void **state)
{
	struct run *r = *state;

	current = r;
	if (r->group->setup)
		r->group->setup();
	if (!r->skipped)
		r->c->fn();
	fflush(stdout);
}

static int end_case(void **state)
{
	struct run *r = *state;

	if (r->group->teardown)
		r->group->teardown();
	current = NULL;
	return 0;
}

static bool wanted(const char *name, char *const *only)
{
	if (!only || !*only)
		return true;
	for (; *only; only++)
		if (!strcmp(*only, name))
			return true;
	return false;
}

int t_run(const struct t_group *groups, size_t nr, char *const *only)
{
	struct CMUnitTest *tests;
	struct run *runs;
	size_t total = 0, n = 0;
	int r;

	for (size_t g = 0; g < nr; g++)
		total += groups[g].nr_cases;
	tests = calloc(total, sizeof(*tests));
	runs = calloc(total, sizeof(*runs));
	if (!tests || !runs)
		abort();
	for (size_t g = 0; g < nr; g++) {
		if (!wanted(groups[g].name, only))
			continue;
		for (size_t i = 0; i < groups[g].nr_cases; i++, n++) {
			runs[n].group = &groups[g];
			runs[n].c = &groups[g].cases[i];
			snprintf(runs[n].name, sizeof(runs[n].name), "%s", runs[n].c->name);
			for (char *p = runs[n].name; *p; p++)
				if (*p == '_')
					*p = ' ';
			tests[n] = (struct CMUnitTest){
				.name = runs[n].name,
				.test_func = run_case,
				.teardown_func = end_case,
				.initial_state = &runs[n],
			};
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	r = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
	free(tests);
	free(runs);
	return r ? 1 : 0;
}

bool t_in_list(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (list && *list) {
		size_t n = strcspn(list, ",");

		if (n == len && !strncmp(list, word, n))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

void t_skip(const char *need, const char *fmt, ...)
{
	size_t at = strlen(current->name);
	va_list ap;

	at += (size_t)snprintf(current->name + at, sizeof(current->name) - at, " # SKIP ");
	va_start(ap, fmt);
	vsnprintf(current->name + at, sizeof(current->name) - at, fmt, ap);
	va_end(ap);
	if (t_in_list(getenv("PENSTOCK_TEST_REQUIRE"), need)) {
		t_note("%s is required: %s", need, current->name + at);
		current->name[at - strlen(" # SKIP ")] = '\0';
		_fail(__FILE__, __LINE__);
	}
	current->skipped = true;
}

void t_skip_all(const char *need, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (t_in_list(getenv("PENSTOCK_TEST_REQUIRE"), need)) {
		printf("1..1\nnot ok 1 - %s is required\n# %s\n", need, why);
		exit(1);
	}
	printf("1..0 # SKIP %s\n", why);
	exit(0);
}

void t_note(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

/* ------------------------------------------------------------------ checks */

void t_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("# %s:%d: ", file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_fail(file, line);
}

void t_eq(int64_t a, int64_t b, const char *what, const char *file, int line)
{
	if (a != b)
		t_fail(file, line, "%s is %lld, not %lld", what, (long long)a, (long long)b);
}

void t_err(int64_t r, int64_t want, const struct penstock_err *err, const char *what,
	   const char *file, int line)
{
	if (r != want)
		t_fail(file, line, "%s is %lld, not %lld (%s)", what, (long long)r, (long long)want,
		       r < 0 && err->code == r ? err->msg : "no message");
	if (r < 0 && (err->code != r || !err->msg[0]))
		t_fail(file, line, "%s is %lld, but err is %d \"%s\"", what, (long long)r,
		       err->code, err->msg);
	if (r < 0 && strchr(err->msg, '\n'))
		t_fail(file, line, "%s: more than one line: %s", what, err->msg);
}

void t_str_has(const char *hay, const char *needle, const char *what, const char *file, int line)
{
	if (!strstr(hay, needle))
		t_fail(file, line, "%s is \"%s\", without \"%s\"", what, hay, needle);
}

void t_mem_eq(const void *a, const void *b, size_t len, const char *what, const char *file,
	      int line)
{
	const unsigned char *x = a, *y = b;
	size_t i = 0, bad = 0;

	if (!len || !memcmp(a, b, len))
		return;
	while (x[i] == y[i])
		i++;
	for (size_t k = i; k < len; k++)
		bad += x[k] != y[k];
	t_fail(file, line, "%s: byte %zu of %zu is 0x%02x, not 0x%02x; %zu bytes differ", what, i,
	       len, x[i], y[i], bad);
}

void t_joined(const void *msg, const char *file, int line)
{
	if (msg)
		t_fail(file, line, "in a thread: %s", (const char *)msg);
}

/* ------------------------------------------------------------------- files */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static void remove_dir(void)
{
	if (getpid() == dir_owner)
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

const char *t_dir(void)
{
	const char *base = getenv("PENSTOCK_TEST_DIR");
	char full[PATH_MAX];

	if (dir[0])
		return dir;
	if (!realpath(base && *base ? base : ".", full)) {
		printf("Bail out! %s: %s\n", base, strerror(errno));
		exit(1);
	}
	snprintf(dir, sizeof(dir), "%.4000s/penstock-test-XXXXXX", full);
	if (!mkdtemp(dir)) {
		printf("Bail out! %s: %s\n", dir, strerror(errno));
		exit(1);
	}
	dir_owner = getpid();
	atexit(remove_dir);
	return dir;
}

uint64_t t_pinned_bytes(void)
{
	char line[200];
	unsigned long long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "VmPin: %llu", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib << 10;
}

const char *t_path(const char *name)
{
	static char paths[4][PATH_MAX + 256];
	static unsigned next;
	char *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", t_dir(), name);
	return p;
}

void t_file_make(const char *path, uint64_t seed, uint64_t len)
{
	static unsigned char buf[1 << 16];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		T_FAIL("%s: %s", path, strerror(errno));
	for (uint64_t at = 0; at < len;) {
		size_t n = len - at < sizeof(buf) ? (size_t)(len - at) : sizeof(buf);

		penstock_pattern_fill(buf, n, seed, at);
		if (write(fd, buf, n) != (ssize_t)n)
			T_FAIL("%s: %s", path, strerror(errno));
		at += n;
	}
	close(fd);
}

int64_t t_file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -errno : st.st_size;
}

/* Compare the file with @want, or with the pattern @seed when that is NULL. */
static void file_is(const char *path, const unsigned char *want, uint64_t seed, uint64_t len,
		    const char *file, int line)
{
	static unsigned char got[1 << 16], made[1 << 16];
	int64_t size = t_file_size(path);
	uint64_t at = 0;
	int fd;

	if (size != (int64_t)len)
		t_fail(file, line, "size of %s is %lld, not %llu", path, (long long)size,
		       (unsigned long long)len);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		t_fail(file, line, "%s: %s", path, strerror(errno));
	while (at < len) {
		size_t n = len - at < sizeof(got) ? (size_t)(len - at) : sizeof(got);
		ssize_t r = read(fd, got, n);

		if (r <= 0) {
			close(fd);
			t_fail(file, line, "%s: read %zd at %llu: %s", path, r,
			       (unsigned long long)at, strerror(errno));
			return;
		}
		n = (size_t)r;
		if (!want)
			penstock_pattern_fill(made, n, seed, at);
		if (memcmp(got, want ? want + at : made, n)) {
			const unsigned char *w = want ? want + at : made;
			size_t i = 0;

			while (got[i] == w[i])
				i++;
			close(fd);
			t_fail(file, line, "%s: byte %llu is 0x%02x, not 0x%02x", path,
			       (unsigned long long)(at + i), got[i], w[i]);
			return;
		}
		at += n;
	}
	close(fd);
}

void t_file_is(const char *path, const void *want, uint64_t len, const char *file, int line)
{
	file_is(path, want, 0, len, file, line);
}

void t_file_pattern(const char *path, uint64_t seed, uint64_t len, const char *file, int line)
{
	file_is(path, NULL, seed, len, file, line);
}

int t_nr_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* ------------------------------------------------------------------ memory */

enum { CANARY = 0xa5, PAGE = 4096 };

struct t_mem t_mem_new(size_t len, long shift)
{
	struct t_mem m = {NULL, len, NULL, 0};
	size_t room = len + (shift > 0 ? (size_t)shift : 0);

	m.map_len = (room + 2 * PAGE - 1) / PAGE * PAGE;
	m.map = mmap(NULL, m.map_len + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m.map == MAP_FAILED)
		abort();
	m.map += PAGE;
	if (mprotect(m.map, m.map_len, PROT_READ | PROT_WRITE) < 0)
		abort();
	memset(m.map, CANARY, m.map_len);
	m.buf = shift < 0 ? m.map + m.map_len - len : m.map + shift;
	return m;
}

void t_mem_check(const struct t_mem *m, const char *file, int line)
{
	for (size_t i = 0; i < m->map_len; i++) {
		if (m->map + i == m->buf) {
			i += m->len;
			if (i >= m->map_len)
				break;
		}
		if (m->map[i] != CANARY)
			t_fail(file, line,
			       "a byte %td from the start of a %zu-byte buffer was written",
			       m->map + i - m->buf, m->len);
	}
}

void t_mem_free(struct t_mem *m)
{
	if (m->map)
		munmap(m->map - PAGE, m->map_len + 2 * PAGE);
	m->map = NULL;
}

/* ------------------------------------------------------------------- other */

const char *t_engine(const char *name)
{
	static const char *const names[][2] = {
		{"fault", "fault:inner=threads,seed=7,short=0.2,again=0.05,delay=0.2,reorder=1"},
		{"fault-io_uring",
		 "fault:inner=io_uring,seed=7,short=0.2,again=0.05,delay=0.2,reorder=1"},
		{"fault-errors", "fault:inner=threads,seed=7,error=0.01,errno=5,short=0.2,"
				 "again=0.05,delay=0.2,reorder=1"},
	};

	for (size_t i = 0; i < T_COUNT(names); i++)
		if (!strcmp(names[i][0], name))
			return names[i][1];
	return name;
}

const char *t_engine_need(const char *engine)
{
	static char need[64];
	const char *inner = strstr(engine, "inner=");
	const char *name = inner ? inner + strlen("inner=") : engine;

	snprintf(need, sizeof(need), "%.*s", (int)strcspn(name, ":,"), name);
	return need;
}

uint64_t t_seed(void)
{
	const char *s = getenv("PENSTOCK_TEST_SEED");
	struct timespec ts;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &ts);
	seed = s && *s ? strtoull(s, NULL, 0)
		       : (uint64_t)ts.tv_sec * 1000003u + (uint64_t)ts.tv_nsec;
	t_note("PENSTOCK_TEST_SEED=%llu", (unsigned long long)seed);
	return seed;
}

unsigned long t_ops(unsigned long fallback)
{
	const char *s = getenv("PENSTOCK_TEST_OPS");

	return s && *s ? strtoul(s, NULL, 0) : fallback;
}

bool t_is_emulated(void)
{
	return getenv("PENSTOCK_TEST_RUN") != NULL;
}

bool t_is_root(void)
{
	return geteuid() == 0;
}
