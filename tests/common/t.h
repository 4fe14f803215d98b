/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_T_H
#define PENSTOCK_TESTS_T_H

/*
 * What the test programs share: cmocka with sentences for names, skips that
 * say why, a directory for files, memory with unmapped pages around it.
 *
 *	PENSTOCK_TEST_DIR      where files are made (.)
 *	PENSTOCK_TEST_REQUIRE  comma-separated: a skip for want of one of these is a failure
 *	PENSTOCK_TEST_SEED     seed of random tests (the clock)
 *	PENSTOCK_TEST_OPS      number of random operations
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#if defined(__SANITIZE_THREAD__)
#define T_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define T_TSAN 1
#endif
#endif
#ifndef T_TSAN
#define T_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define T_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define T_ASAN 1
#endif
#endif
#ifndef T_ASAN
#define T_ASAN 0
#endif

/* Of things that are tried in turn, ThreadSanitizer, slow as it is, sees only some. */
#define T_STEP (T_TSAN ? 5 : 1)
/* Rounds of what draws from a seed without threads: fewer where memory is what is looked at. */
#define T_FEWER(n)  (T_ASAN || T_TSAN ? ((n) + 4) / 5 : (n))
#define T_COUNT(a)  (sizeof(a) / sizeof(*(a)))
#define T_STR_(x)   #x
#define T_STR(x)    T_STR_(x)
#define T_BIT(v, b) (((v) & (b)) != 0)
#define KIB(n)      ((uint64_t)(n) << 10)
#define MIB(n)      ((uint64_t)(n) << 20)
#define GIB(n)      ((uint64_t)(n) << 30)
#define T_NO_LIMIT  ((int64_t)-1)

/* ------------------------------------------------------------------- cases */

/* The name is the function's, with spaces for underscores. */
struct t_case {
	const char *name;
	void (*fn)(void);
};
#define T_CASE(fn)      \
	{               \
#fn, fn \
	}

struct t_group {
	const char *name;
	void (*setup)(void);
	void (*teardown)(void); /* runs when the test failed, too */
	const struct t_case *cases;
	size_t nr_cases;
};

/*
 * Run the groups named in @only (NULL-terminated; NULL or empty: all) with TAP
 * on standard output.  Returns the exit status.
 */
int t_run(const struct t_group *groups, size_t nr, char *const *only);

/*
 * End the running test, or the whole program outside of one, as skipped.
 * @need is the word PENSTOCK_TEST_REQUIRE would have for what is missing.
 */
#define T_SKIP(need, ...)                    \
	do {                                 \
		t_skip((need), __VA_ARGS__); \
		return;                      \
	} while (0)
void t_skip(const char *need, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The program as a whole cannot run: prints the plan and exits. */
void t_skip_all(const char *need, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* A line of comment in the TAP stream. */
void t_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ------------------------------------------------------------------ checks */

/* In the main thread of the test only: they leave it by longjmp(3). */
#define T_OK(cond)                                               \
	do {                                                     \
		if (!(cond))                                     \
			t_fail(__FILE__, __LINE__, "%s", #cond); \
	} while (0)
#define T_EQ(a, b) t_eq((int64_t)(a), (int64_t)(b), #a, __FILE__, __LINE__)
/* A call that fills @err; shows its message when the result is not @want. */
#define T_ERR(call, want, err) t_err((int64_t)(call), (want), (err), #call, __FILE__, __LINE__)
#define T_STR_HAS(hay, needle) t_str_has((hay), (needle), #hay, __FILE__, __LINE__)
/* Bytes are equal; names the first that is not. */
#define T_MEM(a, b, len) t_mem_eq((a), (b), (len), #a, __FILE__, __LINE__)
#define T_FAIL(...)      t_fail(__FILE__, __LINE__, __VA_ARGS__)

/* In a thread of the test, which returns NULL or what went wrong. */
#define T_CHECK(cond)                                                                        \
	do {                                                                                 \
		if (!(cond))                                                                 \
			return (void *)(uintptr_t)(__FILE__ ":" T_STR(__LINE__) ": " #cond); \
	} while (0)
#define T_JOINED(msg) t_joined((msg), __FILE__, __LINE__)

void t_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void t_eq(int64_t a, int64_t b, const char *what, const char *file, int line);
void t_err(int64_t r, int64_t want, const struct penstock_err *err, const char *what,
	   const char *file, int line);
void t_str_has(const char *hay, const char *needle, const char *what, const char *file, int line);
void t_mem_eq(const void *a, const void *b, size_t len, const char *what, const char *file,
	      int line);
void t_joined(const void *msg, const char *file, int line);

/* ------------------------------------------------------------------- files */

/* A fresh directory of this program, removed with all it holds at exit. */
const char *t_dir(void);
/* "DIR/name"; four results live at a time. */
const char *t_path(const char *name);
/* Make a file of @len bytes of the pattern @seed, with plain write(2). */
void t_file_make(const char *path, uint64_t seed, uint64_t len);
/* Is the file exactly these bytes, by plain read(2)? */
#define T_FILE(path, want, len) t_file_is((path), (want), (len), __FILE__, __LINE__)
void t_file_is(const char *path, const void *want, uint64_t len, const char *file, int line);
#define T_FILE_PATTERN(path, seed, len) t_file_pattern((path), (seed), (len), __FILE__, __LINE__)
void t_file_pattern(const char *path, uint64_t seed, uint64_t len, const char *file, int line);
/* Size of the file, or -errno. */
int64_t t_file_size(const char *path);
/* Memory that this process has pinned for devices. */
uint64_t t_pinned_bytes(void);
/* Open file descriptors of this process. */
int t_nr_fds(void);

/* ------------------------------------------------------------------ memory */

/*
 * @len bytes that end right before an unmapped page (@shift < 0) or begin
 * @shift bytes after one.  What lies between the buffer and the unmapped pages
 * is filled, and t_mem_check() sees whether somebody wrote there.
 */
struct t_mem {
	unsigned char *buf;
	size_t len;
	unsigned char *map; /* with a page before and a page behind it */
	size_t map_len;
};
struct t_mem t_mem_new(size_t len, long shift);
#define T_MEM_CHECK(m) t_mem_check((m), __FILE__, __LINE__)
void t_mem_check(const struct t_mem *m, const char *file, int line);
void t_mem_free(struct t_mem *m);

/* ------------------------------------------------------------------- other */

/*
 * An engine as it is named on the command line of a test.  "fault" alone would
 * spoil nothing, so it and a few more names stand for useful settings.
 */
const char *t_engine(const char *name);
/* The word PENSTOCK_TEST_REQUIRE would have for that engine. */
const char *t_engine_need(const char *engine);

/* From PENSTOCK_TEST_SEED, else the clock; printed. */
uint64_t t_seed(void);
/* From PENSTOCK_TEST_OPS, else @fallback. */
unsigned long t_ops(unsigned long fallback);
bool t_is_root(void);
/* Is @word in the comma-separated @list? */
/* Built for another processor, and run by an emulator. */
bool t_is_emulated(void);
bool t_in_list(const char *list, const char *word);

#endif
