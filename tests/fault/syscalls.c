/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call the library makes fails once, SQLite's method:
 *
 *	syscalls ENGINE LIBRARY WRAPPED
 *
 * A scenario is run with the first call into libc, liburing or libaio failing,
 * with each error it may meet, then with the second, and so on until one passes
 * with nothing left to fail; then again with failures that last.  Whatever fails,
 * a call of the library succeeds with right data or returns an error; nothing
 * crashes, hangs or leaks.
 *
 * LIBRARY is the static library and WRAPPED the comma-separated list of what
 * the linker was told to wrap: together with the list below they must be all
 * that `nm` finds, so that a call added to the library cannot be forgotten here.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <penstock/ckpt.h>
#include <penstock/probe.h>

#include "base/random.h"
#include "tests/common/t.h"
#include "tests/fault/inject.h"

static const char *engine = "threads", *library = "", *wrapped = "";

/* Cannot fail, or failing changes nothing. */
static const char *const harmless[] = {
	"__cpu_model", /* what the processor can do */
	"__cpu_features2",
	"__ctype_b_loc",
	"__ctype_tolower_loc",
	"__ctype_toupper_loc",
	"__errno_location",
	"__isoc99_sscanf",
	"__sched_cpucount",
	"__isoc23_sscanf",
	"__isoc99_strtoull",
	"__isoc23_strtoull",
	"__divti3",
	"__divmodti4",
	"__modti3",
	"__udivmodti4",
	"__popcountdi2",
	"__tls_get_addr",
	"__udivti3",
	"__umodti3",
	"__stack_chk_fail",
	"__assert_fail",
	"abort",
	"_GLOBAL_OFFSET_TABLE_",
	"clock_gettime",
	"closedir",
	"dirfd",
	"dl_iterate_phdr",
	"dlclose",
	"dlerror",
	"environ",
	"explicit_bzero",
	"fclose",
	"fnmatch",
	"free",
	"getegid",
	"getenv",
	"geteuid",
	"gethostname",
	"getpid",
	"getpagesize",
	"getrusage",
	"gmtime_r",
	"io_uring_free_probe",
	"io_uring_queue_exit",
	"kill",
	"memchr",
	"memcmp",
	"memcpy",
	"memmem",
	"memmove",
	"memset",
	"munlock",
	"munmap",
	"nanosleep",
	"process_vm_readv",
	"pthread_cond_broadcast",
	"pthread_cond_destroy",
	"pthread_cond_init",
	"pthread_cond_signal",
	"pthread_cond_timedwait",
	"pthread_cond_clockwait",
	"pthread_cond_wait",
	"pthread_condattr_destroy",
	"pthread_condattr_init",
	"pthread_condattr_setclock",
	"pthread_join",
	"pthread_kill",
	"pthread_mutex_destroy",
	"pthread_mutex_init",
	"pthread_mutex_lock",
	"pthread_mutex_trylock",
	"pthread_mutex_unlock",
	"pthread_once",
	"pthread_self",
	"pthread_setcancelstate",
	"pthread_setname_np",
	"pthread_sigmask",
	"qsort",
	"qsort_r",
	"sched_getaffinity", /* else one thread */
	"sched_yield",
	"setenv",
	"sigaddset",
	"sigdelset",
	"sigemptyset",
	"sigfillset",
	"snprintf",
	"strcasecmp",
	"strchr",
	"strchrnul",
	"strcmp",
	"strcpy",
	"strcspn",
	"strerror",
	"strerrordesc_np",
	"strftime",
	"strlen",
	"strncasecmp",
	"strncmp",
	"strnlen",
	"strpbrk",
	"strptime",
	"strrchr",
	"strspn",
	"strstr",
	"strtod",
	"strtok_r",
	"strtol",
	"strtoul",
	"strtoull",
	"strverscmp",
	"sysconf",
	"time",
	"timegm",
	"unsetenv",
	"vsnprintf",
};

/*
 * These fail, but not here: programs that give keys and text in memory for requests
 * (unit-src-object-cred, unit-src-object-*, fault-object), folders of models
 * (unit-src-weights-model), names of striped files (unit-src-file-stripe).
 */
static const char *const elsewhere[] = {
	"ferror",
	"fflush",
	"fprintf",
	"fputc",
	"glob",
	"glob64",
	"globfree",
	"globfree64",
	"kill",
	"open_memstream",
	"pipe2",
	"poll",
	"posix_spawn_file_actions_addchdir_np",
	"posix_spawn_file_actions_adddup2",
	"posix_spawn_file_actions_addopen",
	"posix_spawn_file_actions_destroy",
	"posix_spawn_file_actions_init",
	"posix_spawnattr_destroy",
	"posix_spawnattr_init",
	"posix_spawnattr_setflags",
	"posix_spawnattr_setpgroup",
	"posix_spawnattr_setsigdefault",
	"posix_spawnattr_setsigmask",
	"posix_spawnp",
	"vasprintf",
	"waitpid",
};

/* ---------------------------------------------------------------- scenario */

enum { SEED = 91, NR_WRITES = 5 };

/* Writes of the scenario: they share sectors, but no bytes. */
static const struct {
	uint64_t off, len;
} writes[NR_WRITES] = {
	{100, 5000}, {5100, 40000}, {45100, 3001}, {65536, 16384}, {90000, 100},
};

static unsigned char data[131072];
static char path[PATH_MAX];
static bool written[NR_WRITES];
static unsigned errors; /* calls and operations that said so */

static int64_t noted(int64_t r)
{
	errors += r < 0;
	return r;
}

/* A read that succeeded has the right bytes wherever a write has succeeded. */
static void check_read(const unsigned char *buf, uint64_t off, int64_t n)
{
	for (unsigned i = 0; i < NR_WRITES && n > 0; i++) {
		uint64_t from = writes[i].off > off ? writes[i].off : off;
		uint64_t to = writes[i].off + writes[i].len;

		to = to < off + (uint64_t)n ? to : off + (uint64_t)n;
		if (written[i] && from < to && memcmp(buf + (from - off), data + from, to - from))
			T_FAIL("a read of %lld bytes at %llu has wrong data", (long long)n,
			       (unsigned long long)off);
	}
}

static struct penstock_op write_op(unsigned i, unsigned char *from)
{
	return (struct penstock_op){
		.opcode = PENSTOCK_WRITE,
		.path = path,
		.buf = from + writes[i].off,
		.len = writes[i].len,
		.offset = writes[i].off,
	};
}

/* Queue three writes and a sync, and collect them in two ways. */
static void async_part(struct penstock_io *io, struct penstock_file *file, unsigned char *from)
{
	struct penstock_op ops[4] = {write_op(1, from), write_op(2, from), write_op(3, from)};
	uint64_t tickets[4] = {0};
	struct penstock_done d;
	int n = 0, taken = 0;

	if (file) {
		ops[0].path = NULL;
		ops[0].file = file;
	}
	ops[1].flags = PENSTOCK_OP_DATASYNC;
	ops[3] = (struct penstock_op){.opcode = PENSTOCK_SYNC, .path = path};
	while (taken < 4) {
		n = penstock_submit(io, ops + taken, (unsigned)(4 - taken), tickets + taken, NULL);
		if (n <= 0)
			noted(n < 0 ? n : -1);
		taken += n > 0 ? n : 1; /* go on behind the one that was refused */
	}
	for (unsigned i = 0; i < 4; i++) {
		if (!tickets[i])
			continue;
		n = i == 1 ? penstock_wait(io, tickets[i], 3600000000000, &d)
			   : penstock_wait(io, tickets[i], T_NO_LIMIT, &d);
		T_EQ(n, 0); /* an accepted operation always has a result */
		noted(d.res);
		if (d.res >= 0 && i < 3) {
			T_EQ(d.res, ops[i].len);
			written[i + 1] = true;
		}
	}
}

static void sync_part(struct penstock_io *io, struct penstock_file *file, unsigned char *from)
{
	struct penstock_op op = write_op(4, from);
	struct penstock_done d;
	int64_t r;

	if (file) {
		r = noted(penstock_pwrite(file, from + writes[0].off, writes[0].len, writes[0].off,
					  NULL));
		T_OK(r < 0 || r == (int64_t)writes[0].len);
		written[0] = r > 0;
	}
	op.flags = PENSTOCK_OP_FULLSYNC;
	memset(&d, 0, sizeof(d));
	r = noted(penstock_run(io, &op, &d, NULL));
	if (r == 0 && noted(d.res) >= 0) {
		T_EQ(d.res, op.len);
		written[4] = true;
	}
}

static void read_part(struct penstock_io *io, struct penstock_file *file)
{
	static unsigned char got[131072];
	struct penstock_op op = {
		.opcode = PENSTOCK_READ, .path = path, .buf = got, .len = 100000, .offset = 1};
	struct penstock_done d;
	uint64_t ticket;
	int64_t r;

	if (file) {
		r = noted(penstock_pread(file, got, 4096, 4096, NULL));
		check_read(got, 4096, r);
		r = noted(penstock_pread(file, got, sizeof(got), 0, NULL));
		check_read(got, 0, r);
	}
	if (noted(penstock_submit(io, &op, 1, &ticket, NULL)) == 1) {
		T_EQ(penstock_wait(io, ticket, T_NO_LIMIT, &d), 0);
		check_read(got, 1, noted(d.res));
		check_read(got, 1, (int64_t)d.bytes);
	}
}

/* Many small ones: engines handle them in groups. */
static void small_part(struct penstock_io *io, struct penstock_file *file)
{
	enum { NR = 24, EACH = 4096 };
	static unsigned char got[NR * EACH] __attribute__((aligned(4096)));
	struct penstock_op ops[NR];
	uint64_t tickets[NR];
	struct penstock_done d;
	int n;

	if (!file)
		return;
	memset(ops, 0, sizeof(ops));
	for (unsigned i = 0; i < NR; i++) {
		ops[i].opcode = PENSTOCK_READ;
		ops[i].file = file;
		ops[i].buf = got + i * EACH;
		ops[i].len = EACH;
		ops[i].offset = i * EACH;
	}
	n = penstock_submit(io, ops, NR, tickets, NULL);
	if (n < NR)
		errors++;
	for (int i = 0; i < n; i++) {
		T_EQ(penstock_wait(io, tickets[i], T_NO_LIMIT, &d), 0);
		check_read(ops[i].buf, ops[i].offset, noted(d.res));
	}
}

static void probes(void)
{
	struct penstock_path_info info = {.size = sizeof(info)};
	struct penstock_gpu_info gpu = {.size = sizeof(gpu)};
	struct penstock_kernel_offer offer = {.size = sizeof(offer)};

	penstock_probe_path(path, &info, NULL);
	info.size = sizeof(info);
	penstock_probe_path(t_dir(), &info, NULL);
	penstock_probe_gpu(&gpu);
	for (unsigned i = 0; penstock_probe_kernel(i, path, &offer) == 0; i++)
		;
	penstock_engine_probe(engine, NULL);
}

static void transfers(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_io *io = NULL;
	struct penstock_file *file = NULL;
	struct penstock_err err;
	void *mem = NULL;
	unsigned char *from = data;

	o.engine = engine;
	o.block = 8192;
	o.depth = 16;
	o.threads = 2;
	if (noted(penstock_open(&io, &o, &err)) < 0) {
		T_OK(!io);
		return;
	}
	if (noted(penstock_buf_alloc(&mem, io, sizeof(data), PENSTOCK_BUF_LOCKED, NULL, &err)) ==
	    0) {
		from = mem;
		memcpy(from, data, sizeof(data));
	}
	if (noted(penstock_file_open(&file, io, path, O_RDWR | O_CREAT, 0644, &err)) < 0)
		file = NULL;
	sync_part(io, file, from);
	async_part(io, file, from);
	read_part(io, file);
	small_part(io, file);
	penstock_get_stats(io, &st);
	noted(penstock_file_close(file, NULL));
	if (mem)
		noted(penstock_buf_free(io, mem));
	noted(penstock_close(io, NULL));
}

/* ------------------------------------------------------------- checkpoints */

enum { CKPT_BYTES = (1 << 20) + 4567 };

static uint64_t ckpt_old, ckpt_new; /* seeds of what is there and of what is saved over it */
static bool ckpt_saved, ckpt_shown;

static void ckpt_save(struct penstock_io *io, const char *name)
{
	static unsigned char bytes[CKPT_BYTES];
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_writer *w;
	int r;

	penstock_pattern_fill(bytes, CKPT_BYTES, ckpt_new, 0);
	o.buffer_bytes = MIB(1);
	o.buffers = 2;
	o.expected = ckpt_new % 2 ? CKPT_BYTES : 0;
	if (noted(penstock_writer_open(&w, io, name, &o, &err)) < 0)
		return;
	r = penstock_writer_write(w, bytes, 300000, &err);
	if (r == 0)
		r = penstock_writer_write(w, bytes + 300000, CKPT_BYTES - 300000, &err);
	if (r == 0)
		r = penstock_writer_seek(w, 1000, &err);
	if (r == 0)
		r = penstock_writer_write(w, bytes + 1000, 500,
					  &err); /* summed again from the file */
	if (noted(r) < 0) {
		T_OK(err.msg[0]);
		penstock_writer_abort(w);
		return;
	}
	r = (int)noted(penstock_writer_commit(w, &err));
	T_OK(r == 0 || err.msg[0]);
	ckpt_saved = r == 0;
	ckpt_shown = r < 0 && strstr(err.msg, "the new file is visible");
}

static int ckpt_load(struct penstock_io *io, const char *name, uint64_t seed)
{
	static unsigned char got[CKPT_BYTES];
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_reader *r;
	int64_t n;

	o.buffer_bytes = MIB(1);
	o.buffers = 2;
	n = noted(penstock_reader_open(&r, io, name, &o, &err));
	if (n < 0)
		return (int)n;
	n = noted(penstock_reader_pread(r, got, CKPT_BYTES, 0, &err));
	penstock_reader_close(r);
	if (n < 0)
		return (int)n;
	T_EQ(n, CKPT_BYTES);
	T_EQ(penstock_pattern_check(got, CKPT_BYTES, seed, 0), CKPT_BYTES);
	return 0;
}

/* Little memory: there are a thousand of these, and the kernel clears it. */
static struct penstock_opts ckpt_opts(const char *by)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	o.engine = by;
	o.block = KIB(256);
	o.depth = 4;
	return o;
}

/* Save over what is there, through a link, and load it. */
static void checkpoints(void)
{
	struct penstock_opts o = ckpt_opts(engine);
	struct penstock_io *io;

	if (ckpt_saved || ckpt_shown)
		ckpt_old = ckpt_new;
	ckpt_saved = ckpt_shown = false;
	ckpt_new++;
	if (noted(penstock_open(&io, &o, NULL)) < 0)
		return;
	ckpt_save(io, t_path("ck/link"));
	if (ckpt_saved)
		ckpt_load(io, t_path("ck/link"), ckpt_new);
	noted(penstock_close(io, NULL));
}

/* Whatever failed, the file is one of the two, whole, and its checksums agree. */
static void old_or_new_is_there(void)
{
	struct penstock_opts o = ckpt_opts(NULL);
	struct penstock_io *io;
	bool is_new = ckpt_saved || ckpt_shown;

	T_EQ(penstock_open(&io, &o, NULL), 0);
	T_EQ(ckpt_load(io, t_path("ck/f"), is_new ? ckpt_new : ckpt_old), 0);
	T_EQ(penstock_close(io, NULL), 0);
}

static void ckpt_begin(void)
{
	struct penstock_io *io;

	mkdir(t_path("ck"), 0755);
	T_OK(symlink("f", t_path("ck/link")) == 0);
	ckpt_new = 1;
	T_EQ(penstock_open(&io, NULL, NULL), 0);
	ckpt_save(io, t_path("ck/f"));
	T_EQ(penstock_close(io, NULL), 0);
	T_OK(ckpt_saved);
}

/* The link, the file, its checksums. */
static void nothing_else_is_there(void)
{
	DIR *d = opendir(t_path("ck"));
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] == '.'
			    ? e->d_name[1] && strcmp(e->d_name, "..") != 0
			    : strcmp(e->d_name, "f") != 0 && strcmp(e->d_name, "f.crc") != 0 &&
				      strcmp(e->d_name, "link") != 0)
			T_FAIL("%s is left", e->d_name);
	closedir(d);
	unlink(t_path("ck/link"));
	unlink(t_path("ck/f"));
	unlink(t_path("ck/f.crc"));
	T_OK(rmdir(t_path("ck")) == 0);
}

/* --------------------------------------------------------------------- runs */

static void (*scenario)(void);
static unsigned long at;
static unsigned at_variant;
static bool at_for_good;

/* A test runner that gives up waiting sends this: say where it hangs. */
static void on_term(int sig)
{
	char line[300];
	int n = snprintf(line, sizeof(line), "# hangs: call %lu, variant %u%s, %s errno %d\n", at,
			 at_variant, at_for_good ? ", for good" : "", inject_name(),
			 inject_errno());

	if (write(1, line, (size_t)n) != n)
		_exit(3);
	_exit(sig == SIGTERM ? 2 : 3);
}

static int nr_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void file_has_what_was_written(void)
{
	static unsigned char got[sizeof(data)];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : pread(fd, got, sizeof(got), 0);

	if (fd >= 0)
		close(fd);
	for (unsigned i = 0; i < NR_WRITES; i++) {
		uint64_t end = writes[i].off + writes[i].len;

		if (!written[i])
			continue;
		if (n < (ssize_t)end)
			T_FAIL("write %u succeeded, but the file has %zd bytes", i, n);
		T_MEM(got + writes[i].off, data + writes[i].off, writes[i].len);
	}
}

/* Removing a file right after it was written takes longer than the whole scenario. */
static void new_path(void)
{
	static unsigned nr;
	char name[32];

	snprintf(name, sizeof(name), "file-%u", nr++);
	snprintf(path, sizeof(path), "%s", t_path(name));
}

/*
 * The kernel's own workers of a ring are counted too, and end a little later than the ring: also
 * after @want was counted, which are then fewer.
 */
static void threads_settle(int want)
{
	int left = nr_threads() - want;

	for (unsigned i = 0; i < 10000 && left > 0; i++) {
		usleep(1000);
		left = nr_threads() - want;
	}
	if (left > 0)
		T_FAIL("%d threads are left", left);
}

/* One run; returns what became of the injection. */
static enum inject_result run_once(unsigned long n, unsigned variant, bool for_good)
{
	int fds = t_nr_fds(), threads = nr_threads();
	enum inject_result what;

	at = n;
	at_variant = variant;
	at_for_good = for_good;
	new_path();
	errors = 0;
	memset(written, 0, sizeof(written));
	inject_arm(n, variant, for_good);
	scenario();
	inject_disarm();
	what = inject_result();
	if (t_nr_fds() != fds)
		T_FAIL("%d descriptors are left open", t_nr_fds() - fds);
	threads_settle(threads);
	T_EQ(inject_nr_contexts(), 0);
	file_has_what_was_written();
	if (scenario == checkpoints)
		old_or_new_is_there();
	if (what == INJECT_FAILED && inject_errno() == EIO && !errors &&
	    strstr(inject_name(), "sync"))
		T_FAIL("nobody heard that %s failed", inject_name());
	if (what == INJECT_NOT_REACHED) {
		T_EQ(errors, 0);
		for (unsigned i = 0; i < NR_WRITES && scenario == transfers; i++)
			T_OK(written[i]);
	}
	return what;
}

/* Each call with each of its errors; or, for good, with the first of them. */
static void run_all(void (*what_to_run)(void), bool for_good)
{
	enum inject_result what = INJECT_FAILED;
	unsigned long failed = 0, n;

	scenario = what_to_run;
	new_path();
	errors = 0;
	memset(written, 0, sizeof(written));
	scenario(); /* what is made once per process is made now, so that it is no leak */
	T_EQ(errors, 0);
	for (n = 0; what != INJECT_NOT_REACHED;) {
		n += n ? T_STEP : 1;
		what = INJECT_FAILED;
		for (unsigned v = 0; what == INJECT_FAILED && v < (for_good ? 1 : 4); v++) {
			what = run_once(n, v, for_good);
			failed += what == INJECT_FAILED;
		}
	}
	t_note("%lu calls, %lu failures", n / T_STEP, failed);
}

static void setup(void)
{
	penstock_pattern_fill(data, sizeof(data), SEED, 0);
}

static void teardown(void)
{
	inject_disarm();
	if (inject_result() == INJECT_FAILED)
		t_note("the last run: call %lu, variant %u, %s errno %d", at, at_variant,
		       inject_name(), inject_errno());
}

static void any_call_of_a_transfer_may_fail_once(void)
{
	run_all(transfers, false);
}

static void any_function_of_a_transfer_may_fail_for_good(void)
{
	run_all(transfers, true);
}

static void any_call_of_a_probe_may_fail_once(void)
{
	run_all(probes, false);
}

static void any_function_of_a_probe_may_fail_for_good(void)
{
	run_all(probes, true);
}

static void any_call_of_a_checkpoint_may_fail_once(void)
{
	ckpt_begin();
	run_all(checkpoints, false);
	nothing_else_is_there();
}

static void any_function_of_a_checkpoint_may_fail_for_good(void)
{
	ckpt_begin();
	run_all(checkpoints, true);
	nothing_else_is_there();
}

/* --------------------------------------------------------------------- lists */

static bool is_harmless(const char *name)
{
	static const char *const tools[] = {"__asan_",     "__ubsan_", "__tsan_", "__lsan_",
					    "__sanitizer", "__gcov",   "__llvm",  "penstock_"};

	for (size_t i = 0; i < T_COUNT(tools); i++)
		if (!strncmp(name, tools[i], strlen(tools[i])))
			return true;
	for (size_t i = 0; i < T_COUNT(harmless); i++)
		if (!strcmp(name, harmless[i]))
			return true;
	for (size_t i = 0; i < T_COUNT(elsewhere); i++)
		if (!strcmp(name, elsewhere[i]))
			return true;
	return false;
}

/* "__snprintf_chk" is snprintf to us. */
static bool is_harmless_checked(const char *name)
{
	char plain[100];
	size_t len = strlen(name);

	if (len < 7 || len >= sizeof(plain) || strncmp(name, "__", 2) ||
	    strcmp(name + len - 4, "_chk"))
		return false;
	snprintf(plain, sizeof(plain), "%.*s", (int)(len - 6), name + 2);
	return is_harmless(plain);
}

static bool is_defined(char (*names)[100], unsigned nr, const char *name)
{
	for (unsigned i = 0; i < nr; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static void no_call_of_the_library_is_forgotten_here(void)
{
	static char defined[8000][100];
	char cmd[PATH_MAX + 20], line[300], name[100], kind;
	unsigned nr = 0, missing = 0;

	for (unsigned pass = 0; pass < 2; pass++) {
		FILE *f;

		snprintf(cmd, sizeof(cmd), "nm '%s'", library);
		f = popen(cmd, "re");
		T_OK(f);
		while (fgets(line, sizeof(line), f)) {
			if (sscanf(line, " U %99s", name) == 1) {
				if (!pass || is_defined(defined, nr, name) || is_harmless(name) ||
				    is_harmless_checked(name) || t_in_list(wrapped, name))
					continue;
				t_note("%s is neither wrapped nor known as harmless", name);
				missing++;
			} else if (!pass && nr < T_COUNT(defined) &&
				   sscanf(line, "%*x %c %99s", &kind, name) == 2) {
				memcpy(defined[nr++], name, sizeof(name));
			}
		}
		T_EQ(pclose(f), 0);
	}
	T_OK(nr > 50);
	T_EQ(missing, 0);
}

static const struct t_case cases[] = {
	T_CASE(any_call_of_a_transfer_may_fail_once),
	T_CASE(any_function_of_a_transfer_may_fail_for_good),
	T_CASE(any_call_of_a_probe_may_fail_once),
	T_CASE(any_function_of_a_probe_may_fail_for_good),
};

/* With one engine: what is tried here lies above it. */
static const struct t_case ckpt_cases[] = {
	T_CASE(any_call_of_a_checkpoint_may_fail_once),
	T_CASE(any_function_of_a_checkpoint_may_fail_for_good),
};

static const struct t_case list_cases[] = {
	T_CASE(no_call_of_the_library_is_forgotten_here),
};

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {
		{"lists", NULL, NULL, list_cases, T_COUNT(list_cases)},
		{"calls", setup, teardown, cases, T_COUNT(cases)},
		{"checkpoints", setup, teardown, ckpt_cases, T_COUNT(ckpt_cases)},
	};
	struct penstock_err err = {0, ""};
	struct sigaction act = {.sa_handler = on_term};

	if (argc < 4) {
		fprintf(stderr, "usage: syscalls ENGINE LIBRARY WRAPPED\n");
		return 2;
	}
	engine = t_engine(argv[1]);
	library = argv[2];
	wrapped = argv[3];
	if (penstock_engine_probe(t_engine_need(engine), &err) < 0)
		t_skip_all(t_engine_need(engine), "%s: %s", engine, err.msg);
	sigaction(SIGTERM, &act, NULL);
	t_dir();
	return t_run(groups, T_COUNT(groups) - (strcmp(engine, "threads") != 0),
		     argc > 4 ? argv + 4 : NULL);
}
