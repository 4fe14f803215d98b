/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who meet at a checkpoint's name: what the one does in the very moment between two steps of
 * the other.  The linker leads some of the library's calls here (--wrap), where it is done.
 */
#include <fcntl.h>

#include "base/util.h"
#include "tests/common/t.h"
#include "tests/fault/ckptkit.h"

static struct sluice_io *io;
static struct sluice_err err;
static struct ckpt_place at;

static void setup(void)
{
	T_ERR(sluice_open(&io, NULL, &err), 0, &err);
}

static void teardown(void)
{
	T_EQ(sluice_close(io, NULL), 0);
}

/* ----------------------------------------------------------------- the moments */

static void (*at_sums)(void); /* before the next reader or writer opens FILE.crc */
static pid_t saver; /* thread that the hooks are for, as the I/O threads have files of their own */

static void meet(void (**hook)(void))
{
	void (*fn)(void) = saver == gettid() ? *hook : NULL;

	if (!fn)
		return;
	*hook = NULL; /* who is met comes by here as well */
	fn();
}

/* As the library calls it where files may be large. */
int __real_openat64(int dir, const char *path, int flags, unsigned mode);
int __wrap_openat64(int dir, const char *path, int flags, unsigned mode);
int __wrap_openat64(int dir, const char *path, int flags, unsigned mode)
{
	if (!strcmp(path, "f.crc"))
		meet(&at_sums);
	return __real_openat64(dir, path, flags, mode);
}

/* --------------------------------------------------------------------- readers */

static void save(uint64_t nr)
{
	T_ERR(ckpt_save(io, at.file, nr, 0, &err), 0, &err);
}

static void save_two(void)
{
	T_EQ(ckpt_len(1), ckpt_len(0));
	T_EQ(ckpt_len(2), ckpt_len(0));
	save(1);
	save(2);
}

/* FILE.crc has two sets of checksums by then, both of other files of that size. */
static void two_saves_between_a_file_and_its_checksums_are_no_damage(void)
{
	saver = gettid();
	for (unsigned striped = 0; striped < 2; striped++) {
		ckpt_use(&at, striped ? "read-striped" : "read", striped);
		save(0);
		at_sums = save_two;
		T_EQ(ckpt_load(io, at.file), 2);
		T_OK(!at_sums);
		ckpt_nothing_else(&at, "f,f.crc");
	}
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(two_saves_between_a_file_and_its_checksums_are_no_damage),
	};
	static const struct t_group groups[] = {
		{"ckpt_meet", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
