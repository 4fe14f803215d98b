/* SPDX-License-Identifier: Apache-2.0 */
/* Whose files are whose: folders and slabs that are refused, emptied, kept and taken over. */
#include "load/object/place_slab.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "tests/common/flowkit.h"

static struct penstock_err err;

static void touch(const char *name, const char *text)
{
	int fd = open(t_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	T_OK(fd >= 0);
	T_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(t_path(name), &st) == 0;
}

static int try_open(struct place_opts o, const char *name)
{
	const char *path = t_path(name);
	struct place *p = NULL;
	int r;

	o.paths = &path;
	o.nr_paths = 1;
	memset(&err, 0, sizeof(err));
	r = place_check(&o, &err);
	T_EQ(place_open(&p, &o, r < 0 ? NULL : &err), r); /* both say the same */
	if (r == 0)
		T_EQ(place_close(p, &err), 0);
	return r;
}

static const struct place_opts npy = {.kind = PLACE_FILES, .layout = PLACE_NPY};
static const struct place_opts raw = {.kind = PLACE_FILES, .layout = PLACE_RAW};
static const struct place_opts slab = {.kind = PLACE_SLAB, .capacity = MIB(8)};

static void clean(const char *name)
{
	char command[PATH_MAX + 16];

	snprintf(command, sizeof(command), "rm -rf '%s'", t_path(name));
	T_EQ(system(command), 0);
}

/* A run that keeps what it makes: objects a, b, c of 100000, 100001, ... bytes. */
static void earlier_run(struct place_opts o, const char *name)
{
	static const char *const names[] = {"a", "b", "c/d e"};

	fk_setup();
	o.keep = true;
	fk_add(o, name);
	fk_open();
	for (unsigned i = 0; i < T_COUNT(names); i++)
		FK_DO(fk_write(0, i, names[i], 100000 + i), 100000 + i);
	fk_close();
}

/* The same, killed. */
static void killed_run(struct place_opts o, const char *name)
{
	char half[PATH_MAX];
	int status;
	pid_t pid;

	snprintf(half, sizeof(half), "%s/half.npy", name);
	pid = fork();
	if (pid == 0) {
		fk_setup();
		fk_add(o, name);
		fk_open();
		fk_do(fk_write(0, 1, "complete", 100000));
		FK_CHAIN(fk_write(0, 2, "half", MIB(64)));
		do {
			flow_wait(fk_flow, clock_ns() + 100000, NULL);
		} while (o.kind == PLACE_FILES && !o.hashed && !exists(half));
		kill(getpid(), SIGKILL);
	}
	T_EQ(waitpid(pid, &status, 0), pid);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ------------------------------------------------------------------- refused */

static void a_folder_with_something_in_it_is_refused(void)
{
	mkdir(t_path("full"), 0755);
	touch("full/mine.npy", "precious");
	T_EQ(try_open(npy, "full"), -EEXIST);
	T_STR_HAS(err.msg, "full/mine.npy");
	T_EQ(try_open(slab, "full"), -EEXIST);
	T_STR_HAS(err.msg, "full/mine.npy");
	T_FILE(t_path("full/mine.npy"), "precious", 8);
	T_EQ(fk_entries("full"), 1);
	T_OK(!exists("full/.penstock-objects"));
	clean("full");
}

static void a_folder_that_is_no_folder_is_refused(void)
{
	touch("file", "x");
	T_EQ(try_open(npy, "file"), -ENOTDIR);
	T_STR_HAS(err.msg, "file");
	T_EQ(try_open(npy, "file/folder"), -ENOTDIR);
	T_STR_HAS(err.msg, "file/folder");
	T_EQ(try_open(slab, "file"), -EEXIST);
	T_STR_HAS(err.msg, "not a slab");
	T_FILE(t_path("file"), "x", 1);
	clean("file");
}

static void a_marker_that_is_not_ours_is_refused(void)
{
	static const char *const texts[] = {
		"something else\n",
		"penstock-objects 1 npy flat owner=0\n",
		"penstock-objects 3 npy flat owner=0\n*x\n",
		"penstock-objects 3 npy flat owner=0\n+../x\n",
		"penstock-objects 3 npy flat owner=0\n+/etc/passwd\n",
		"penstock-objects 3 npy flat owner=0\n+abc/../x\n",
		"penstock-objects 3 npy flat owner=0\n+.penstock-objects\n",
	};

	mkdir(t_path("marked"), 0755);
	for (unsigned i = 0; i < T_COUNT(texts); i++) {
		touch("marked/.penstock-objects", texts[i]);
		T_EQ(try_open(npy, "marked"), i > 1 ? -EINVAL : -EEXIST);
		T_STR_HAS(err.msg, "marked/.penstock-objects");
		T_FILE(t_path("marked/.penstock-objects"), texts[i], strlen(texts[i]));
	}
	touch("marked/x", "precious"); /* lines that claim nothing */
	touch("marked/.penstock-objects", "penstock-objects 3 npy flat owner=0\n+x\n@x\n@x 1 2 3\n"
					  "=x 1 2 3\n=x -1 8 2 0\n@y 1 2\n");
	T_EQ(try_open(npy, "marked"), -EEXIST);
	T_STR_HAS(err.msg, "marked/x: was not made here");
	unlink(t_path("marked/x"));
	unlink(t_path("marked/.penstock-objects"));
	touch("elsewhere", "penstock-objects 3 npy flat owner=0\n+x.npy\n");
	T_EQ(symlink(t_path("elsewhere"), t_path("marked/.penstock-objects")), 0);
	T_EQ(try_open(npy, "marked"), -ELOOP);
	clean("marked");
	clean("elsewhere");
}

static void strangers_among_our_files_make_us_touch_nothing(void)
{
	killed_run(npy, "left");
	T_OK(exists("left/complete.npy") && exists("left/half.npy"));
	touch("left/other.npy", "precious");
	T_EQ(try_open(npy, "left"), -EEXIST);
	T_STR_HAS(err.msg, "left/other.npy");
	T_OK(exists("left/complete.npy") && exists("left/half.npy"));
	unlink(t_path("left/other.npy"));
	mkdir(t_path("left/abc"), 0755);
	T_EQ(try_open(npy, "left"), -EEXIST);
	T_STR_HAS(err.msg, "left/abc");
	rmdir(t_path("left/abc"));
	/* a link in the place of one of them, to something precious */
	touch("precious", "precious");
	unlink(t_path("left/half.npy"));
	T_EQ(symlink(t_path("precious"), t_path("left/half.npy")), 0);
	T_EQ(try_open(npy, "left"), -EEXIST);
	T_OK(exists("left/complete.npy"));
	unlink(t_path("left/half.npy"));
	T_EQ(try_open(npy, "left"), 0);
	T_EQ(fk_entries("left"), -1);
	T_FILE(t_path("precious"), "precious", 8);
	clean("left");
	clean("precious");
}

static void a_folder_in_use_is_refused(void)
{
	const char *path = t_path("used");
	struct place_opts o = raw;
	struct place *p;

	o.paths = &path;
	o.nr_paths = 1;
	T_ERR(place_open(&p, &o, &err), 0, &err);
	T_EQ(try_open(raw, "used"), -EBUSY);
	T_STR_HAS(err.msg, "in use");
	T_EQ(place_close(p, &err), 0);
	path = t_path("used.slab");
	o = slab;
	o.paths = &path;
	o.nr_paths = 1;
	T_ERR(place_open(&p, &o, &err), 0, &err);
	T_EQ(place_open(&p, &o, &err), -EBUSY);
	T_EQ(place_close(p, &err), 0);
	T_OK(!exists("used") && !exists("used.slab"));
}

/* ------------------------------------------------------------------- emptied */

static void what_was_made_is_removed_and_nothing_else(void)
{
	mkdir(t_path("stays"), 0755);
	mkdir(t_path("stays/lost+found"), 0700);
	T_EQ(try_open(npy, "stays"), 0);
	T_EQ(try_open(slab, "stays"), 0);
	T_EQ(fk_entries("stays"), 1);
	T_OK(!exists("stays/.penstock-objects"));
	T_EQ(try_open(npy, "made"), 0);
	T_OK(!exists("made"));
	fk_setup();
	fk_files("made", PLACE_RAW);
	fk_open();
	FK_DO(fk_write(0, 1, "ours", 1000), 1000);
	touch("made/theirs", "precious"); /* while we are at it */
	fk_close();
	T_FILE(t_path("made/theirs"), "precious", 8);
	T_EQ(fk_entries("made"), 1);
	clean("made");
	clean("stays");
}

static void what_a_killed_run_left_is_removed(void)
{
	struct place_opts hashed = npy, mid = slab;

	hashed.hashed = true;
	mid.capacity = MIB(128);
	for (unsigned turn = 0; turn < 3; turn++) { /* killed again and again */
		killed_run(npy, "files");
		T_EQ(fk_entries("files"), 2);
		killed_run(hashed, "hashed");
		killed_run(mid, "slab");
	}
	T_EQ(try_open(npy, "files"), 0);
	T_EQ(fk_entries("files"), -1);
	T_EQ(try_open(hashed, "hashed"), 0);
	T_EQ(fk_entries("hashed"), -1);
	T_EQ(try_open(mid, "slab"), 0);
	T_OK(!exists("slab"));
	clean("files");
	clean("hashed");
}

static void sub_folders_by_hash_spread_many_objects(void)
{
	enum { NR = 300 };
	struct place_opts o = {.kind = PLACE_FILES, .hashed = true};
	const char *paths[3] = {strdup(t_path("h0")), strdup(t_path("h1")), strdup(t_path("h2"))};
	char name[32];

	fk_setup();
	o.paths = paths;
	o.nr_paths = 3;
	fk_add(o, NULL);
	fk_open();
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "object/%u", i);
		FK_CHAIN(fk_write(0, i, name, 5000), fk_read(0, i));
	}
	fk_wait();
	for (unsigned i = 0; i < fk_nr_done; i++)
		T_EQ(fk_done[i].result, 5000);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		T_OK(fk_entries(name) > 50); /* sub-folders */
	}
	fk_close();
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		T_EQ(fk_entries(name), -1);
		free((void *)(uintptr_t)paths[i]);
	}
}

/* ------------------------------------------------------------ kept, taken over */

static unsigned count_found(struct place *p)
{
	struct place_found f;
	uint64_t pos = 0;
	unsigned n = 0;

	while (place_next(p, &pos, &f)) {
		T_OK(f.size >= 100000 && f.size <= 100002);
		n++;
	}
	return n;
}

static void adopt(uint64_t object, const char *name, int want)
{
	T_ERR(flow_adopt(fk_flow, 0, object, name, (uint32_t)strlen(name),
			 content_id(name, strlen(name)), &err),
	      want, &err);
}

static void take_over(struct place_opts o, const char *name)
{
	fk_setup();
	o.reuse = true;
	fk_add(o, name);
	T_EQ(place_objects(fk_place[0]), 3);
	T_EQ(count_found(fk_place[0]), 3);
	T_OK(place_used(fk_place[0]) >= 300003);
	fk_open();
	adopt(10, "a", 0);
	adopt(11, "c/d e", 0);
	adopt(12, "a", -ENOENT);
	adopt(12, "none", -ENOENT);
	adopt(10, "b", -EEXIST);
	T_EQ(count_found(fk_place[0]), 1);
	FK_DO(fk_read(0, 10), 100000); /* verified */
	FK_DO(fk_read(0, 11), 100002);
	FK_DO(fk_delete(0, 11), 0);
	FK_DO(fk_write(0, 12, "c/d e", 100002), 100002);
	T_EQ(place_objects(fk_place[0]), 3);
	fk_close();
}

static void kept_objects_are_taken_over(void)
{
	struct place_opts all[] = {npy, raw, npy, slab, slab};
	static const char *const names[] = {"k0", "k1", "k2", "k3", "k4/"};

	all[2].hashed = true;
	for (unsigned i = 0; i < T_COUNT(all); i++) {
		earlier_run(all[i], names[i]);
		all[i].keep = true;
		take_over(all[i], names[i]); /* and kept again: what was not asked for, too */
		take_over(all[i], names[i]);
		all[i].keep = false;
		take_over(all[i], names[i]);
		T_OK(!exists(names[i]) || fk_entries(names[i]) == 0);
		clean(names[i]);
	}
}

static void without_reuse_kept_objects_are_removed(void)
{
	earlier_run(npy, "k");
	T_EQ(fk_entries("k"), 3);
	T_EQ(try_open(npy, "k"), 0);
	T_EQ(fk_entries("k"), -1);
	clean("k");
	earlier_run(slab, "k");
	T_EQ(try_open(slab, "k"), 0);
	T_OK(!exists("k"));
}

static void another_layout_does_not_take_over_and_does_no_harm(void)
{
	struct place_opts o = raw, finer = slab;

	earlier_run(npy, "k");
	o.reuse = true;
	T_EQ(try_open(o, "k"), -EINVAL);
	T_STR_HAS(err.msg, "npy");
	T_EQ(fk_entries("k"), 3);
	o = npy;
	o.reuse = o.hashed = true;
	T_EQ(try_open(o, "k"), -EINVAL);
	o = slab;
	o.reuse = true;
	T_EQ(try_open(o, "k"), -EINVAL);
	take_over(npy, "k");
	clean("k");
	earlier_run(slab, "k");
	finer.reuse = true;
	finer.unit = 4096;
	{
		const char *path = t_path("k");
		struct place *p;

		finer.paths = &path;
		finer.nr_paths = 1;
		T_EQ(place_open(&p, &finer, &err), -EINVAL);
		T_STR_HAS(err.msg, "units of 65536 bytes, 4096 are needed");
	}
	take_over(slab, "k");
	clean("k");
}

/* Add to the marker of a folder. */
static void note(const char *marker, const char *text)
{
	int fd = open(t_path(marker), O_WRONLY | O_APPEND | O_CLOEXEC);

	T_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void half_an_object_is_not_taken_over(void)
{
	struct place_opts o = npy;
	struct file_stat seen;
	char line[128];

	earlier_run(npy, "k");
	touch("k/half.npy", "half an object");
	T_EQ(file_stat_at(&seen, AT_FDCWD, t_path("k/half.npy")), -EXDEV);
	{
		CLEANUP_CLOSE int fd = open(t_path("k"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		T_EQ(file_stat_at(&seen, fd, "half.npy"), 0);
	}
	snprintf(line, sizeof(line), "+half.npy\n@half.npy %" PRIu64 " %" PRIu64 "\n",
		 seen.file.inode, seen.file.birth_ns);
	note("k/.penstock-objects", line);
	note("k/.penstock-objects", "+none.npy\n-a.n !\n+cut");
	fk_setup();
	o.reuse = true;
	fk_add(o, "k");
	T_EQ(place_objects(fk_place[0]), 3);
	T_OK(exists("k/a.npy") && !exists("k/half.npy"));
	fk_open();
	adopt(1, "a", 0);
	FK_DO(fk_read(0, 1), 100000);
	FK_DO(fk_write(0, 2, "cut", 5000), 5000);
	fk_close();
	clean("k");
	/* of a slab nothing is known after a kill */
	killed_run((struct place_opts){.kind = PLACE_SLAB, .capacity = MIB(128)}, "s");
	fk_setup();
	o = slab;
	o.reuse = true;
	o.capacity = MIB(128);
	fk_add(o, "s");
	T_EQ(place_objects(fk_place[0]), 0);
	fk_open();
	fk_close();
	T_OK(!exists("s"));
}

static void a_damaged_index_is_found_out(void)
{
	struct place_opts o = slab;
	const char *path = t_path("k");
	struct place *p;
	char byte;
	int fd;

	earlier_run(slab, "k");
	fd = open(t_path("k"), O_RDWR | O_CLOEXEC);
	T_EQ(pread(fd, &byte, 1, (off_t)(MIB(9) + 20)), 1);
	byte ^= 1;
	T_EQ(pwrite(fd, &byte, 1, (off_t)(MIB(9) + 20)), 1);
	close(fd);
	o.paths = &path;
	o.nr_paths = 1;
	o.reuse = true;
	T_EQ(place_open(&p, &o, &err), -EINVAL);
	T_STR_HAS(err.msg, "damaged");
	T_OK(exists("k"));
	T_EQ(try_open(slab, "k"), 0);
	T_OK(!exists("k"));
}

/* The head of a slab that was kept, changed and sealed again. */
static void craft(const char *name, void (*change)(struct slab_head *h, uint64_t value),
		  uint64_t value)
{
	struct slab_head h;
	int fd = open(t_path(name), O_RDWR | O_CLOEXEC);

	T_EQ(pread(fd, &h, sizeof(h), 0), sizeof(h));
	change(&h, value);
	h.check = 0;
	h.check = content_id(&h, sizeof(h));
	T_EQ(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	close(fd);
}

static void set_index_len(struct slab_head *h, uint64_t v)
{
	h->index_len = v;
}

static void set_units(struct slab_head *h, uint64_t v)
{
	h->units = v;
}

static void set_objects(struct slab_head *h, uint64_t v)
{
	h->objects = v;
}

static void set_unit(struct slab_head *h, uint64_t v)
{
	h->unit = (uint32_t)v;
}

static void lengths_in_a_head_are_checked_against_the_file(void)
{
	static const struct {
		void (*change)(struct slab_head *h, uint64_t value);
		uint64_t value;
	} rows[] = {
		{set_index_len, UINT64_MAX},
		{set_index_len, UINT64_MAX - 1},
		{set_index_len, 1ull << 62},
		{set_index_len, 0},
		{set_units, UINT64_MAX},
		{set_units, UINT32_MAX},
		{set_units, 1ull << 48},
		{set_units, 129},
		{set_units, 0},
		{set_objects, UINT64_MAX},
		{set_objects, 4},
		{set_objects, 1ull << 59},
		{set_unit, 0},
		{set_unit, UINT32_MAX},
	};
	struct place_opts o = slab;
	const char *path = t_path("k");
	struct place *p;

	o.paths = &path;
	o.nr_paths = 1;
	o.reuse = true;
	for (unsigned i = 0; i < T_COUNT(rows); i++) {
		int r;

		earlier_run(slab, "k");
		craft("k", rows[i].change, rows[i].value);
		r = place_open(&p, &o, &err);
		T_OK(r == -EINVAL || r == -ENOSPC);
		T_OK(exists("k"));
		T_EQ(try_open(slab, "k"), 0); /* made anew, it is as good as any */
		T_OK(!exists("k"));
	}
}

/* ----------------------------------------------------------------------- numpy */

static void numpy_reads_an_object(void)
{
	static const char script[] =
		"import sys\n"
		"try: import numpy\n"
		"except ImportError: sys.exit(77)\n"
		"d = sys.argv[1]\n"
		"for name, shape, kind in (('kv', (4, 2, 10, 8, 128), '<f2'), ('flat', (50001,), "
		"'|u1'),\n"
		"                          ('f4', (25, 1000), '<f4'), ('empty', (0,), '<f2')):\n"
		"    a = numpy.load(d + '/' + name + '.npy')\n"
		"    raw = open(d + '/' + name + '.npy', 'rb').read()\n"
		"    assert a.shape == shape and a.dtype == numpy.dtype(kind), (name, a.shape, "
		"a.dtype)\n"
		"    assert raw[:8] == b'\\x93NUMPY\\x01\\x00' and raw[4095] == 10, name\n"
		"    assert len(raw) == 4096 + a.nbytes and raw[4096:] == a.tobytes(), name\n"
		"    assert a.flags.c_contiguous, name\n"
		"    m = numpy.load(d + '/' + name + '.npy', mmap_mode='r') if a.size else None\n"
		"    assert m is None or m.offset == 4096, name\n";
	struct flow_op ops[] = {fk_write(0, 1, "kv", 4 * 2 * 10 * 8 * 128 * 2),
				fk_write(0, 2, "flat", 50001), fk_write(0, 3, "f4", 100000),
				fk_write(0, 4, "empty", 0)};
	char command[sizeof(script) + PATH_MAX + 64];
	int r;

	ops[0].shape = "(4, 2, 10, 8, 128)";
	ops[1].element = 1;
	ops[2].shape = "(25, 1000)";
	ops[2].element = 4;
	fk_files("numpy", PLACE_NPY);
	fk_open();
	for (unsigned i = 0; i < T_COUNT(ops); i++)
		FK_DO(ops[i], ops[i].size);
	snprintf(command, sizeof(command), "/usr/bin/python3 -c \"%s\" '%s'", script,
		 t_path("numpy"));
	r = system(command);
	fk_close();
	if (!WIFEXITED(r) || WEXITSTATUS(r) == 77 || WEXITSTATUS(r) == 127)
		T_SKIP("numpy", "no numpy");
	T_EQ(WEXITSTATUS(r), 0);
}

static void a_shape_too_long_for_a_header_is_an_error(void)
{
	char shape[1000];
	struct flow_op op = fk_write(0, 1, "x", 100);

	memset(shape, '1', sizeof(shape) - 1);
	shape[sizeof(shape) - 1] = '\0';
	op.shape = shape;
	fk_files("shaped", PLACE_NPY);
	fk_open();
	FK_DO(op, 100);
	fk_close();
	{
		char header[PLACE_HEADER], *huge = malloc(5000);

		T_OK(huge);
		memset(huge, '1', 4999);
		huge[4999] = '\0';
		T_EQ(place_npy_header(header, huge, 2, 100), -EINVAL);
		free(huge);
	}
}

/* ------------------------------------------------------------------------ room */

static void room_is_what_would_fit(void)
{
	const char *paths[2] = {strdup(t_path("r0")), strdup(t_path("r1/x"))};
	struct place_opts o = {.kind = PLACE_FILES, .paths = paths, .nr_paths = 1};
	uint64_t one, two;

	T_ERR(place_free_bytes(&o, &one, &err), 0, &err);
	T_OK(one > MIB(10) && !exists("r0"));
	mkdir(t_path("r1"), 0755);
	o.nr_paths = 2; /* the same file system: no more */
	T_ERR(place_free_bytes(&o, &two, &err), 0, &err);
	T_OK(two < one + one / 2);
	T_EQ(fk_entries("r1"), 0);
	o.capacity = UINT64_MAX / 2;
	T_EQ(place_check(&o, &err), -ENOSPC);
	T_STR_HAS(err.msg, "r0");
	o = (struct place_opts){
		.kind = PLACE_SLAB, .capacity = 1ull << 60, .paths = paths, .nr_paths = 1};
	T_EQ(place_check(&o, &err), -ENOSPC);
	o = (struct place_opts){.kind = PLACE_MEMORY, .capacity = 1ull << 60};
	T_EQ(place_check(&o, &err), -ENOMEM);
	o.capacity = MIB(1);
	T_EQ(place_check(&o, &err), 0);
	clean("r1");
	free((void *)(uintptr_t)paths[0]);
	free((void *)(uintptr_t)paths[1]);
}

static void bad_options_are_refused(void)
{
	const char *path = t_path("x"), *empty = "";
	const struct place_opts bad[] = {
		{.kind = 17},
		{.kind = PLACE_FILES},
		{.kind = PLACE_SLAB, .capacity = MIB(1)},
		{.kind = PLACE_FILES, .paths = &empty, .nr_paths = 1},
		{.kind = PLACE_SLAB, .paths = &path, .nr_paths = 1},
		{.kind = PLACE_SLAB, .paths = &path, .nr_paths = 1, .capacity = 100},
		{.kind = PLACE_MEMORY},
		{.kind = PLACE_MEMORY, .capacity = MIB(1), .unit = 1000},
		{.kind = PLACE_NULL, .bytes_per_sec = -1},
	};
	struct place *p;

	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		memset(&err, 0, sizeof(err));
		T_EQ(place_open(&p, &bad[i], &err), -EINVAL);
		T_OK(err.msg[0]);
	}
	T_OK(!exists("x"));
}

static const struct t_case cases[] = {
	T_CASE(a_folder_with_something_in_it_is_refused),
	T_CASE(a_folder_that_is_no_folder_is_refused),
	T_CASE(a_marker_that_is_not_ours_is_refused),
	T_CASE(strangers_among_our_files_make_us_touch_nothing),
	T_CASE(a_folder_in_use_is_refused),
	T_CASE(what_was_made_is_removed_and_nothing_else),
	T_CASE(what_a_killed_run_left_is_removed),
	T_CASE(sub_folders_by_hash_spread_many_objects),
	T_CASE(kept_objects_are_taken_over),
	T_CASE(without_reuse_kept_objects_are_removed),
	T_CASE(another_layout_does_not_take_over_and_does_no_harm),
	T_CASE(half_an_object_is_not_taken_over),
	T_CASE(a_damaged_index_is_found_out),
	T_CASE(lengths_in_a_head_are_checked_against_the_file),
	T_CASE(numpy_reads_an_object),
	T_CASE(a_shape_too_long_for_a_header_is_an_error),
	T_CASE(room_is_what_would_fit),
	T_CASE(bad_options_are_refused),
};

int main(void)
{
	static const struct t_group group = {"place", fk_setup, fk_teardown, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
