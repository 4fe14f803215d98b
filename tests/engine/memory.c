/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, memory: allocated, registered, locked, and what happens when that is refused. */
#include <dirent.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <penstock/probe.h>

#include "conformance.h"

enum { SEED = 51 };

static bool is_zero(const unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

/* Write @len bytes at @buf to the file, read them into it again. */
static void moves_through(unsigned char *buf, uint64_t len, uint64_t off, unsigned seed)
{
	struct penstock_op op = cf_op(PENSTOCK_WRITE, buf, len, off);

	penstock_pattern_fill(buf, len, seed, 0);
	CF_DO(&op, len, seed);
	if (!cf_null)
		memset(buf, 0, len);
	op.opcode = PENSTOCK_READ;
	CF_DO(&op, len, seed / 2);
	if (!cf_null)
		T_EQ(penstock_pattern_check(buf, len, seed, 0), len);
}

static void allocated_memory_is_zeroed_aligned_and_works(void)
{
	static const uint64_t lens[] = {1,      4095,    4096,          4097,    65536,
					100001, 1 << 20, (1 << 21) + 1, 20 << 20};
	void *bufs[T_COUNT(lens)] = {NULL};
	struct penstock_buf_info info;
	struct penstock_err err = {0, ""};

	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < T_COUNT(lens); i++) {
		unsigned char *p;

		memset(&info, 0xff, sizeof(info));
		T_ERR(penstock_buf_alloc(&bufs[i], cf_io, lens[i], 0, &info, &err), 0, &err);
		p = bufs[i];
		T_OK(p && ((uintptr_t)p & 4095) == 0);
		T_OK(is_zero(p, lens[i]));
		T_OK(info.page >= 4096 && !(info.page & (info.page - 1)));
		T_OK(strlen(info.note) < sizeof(info.note));
		T_OK(!(info.got & ~0xfu));
		moves_through(p, lens[i], 0, i);
		if (lens[i] > 2000) /* any part of it, too */
			moves_through(p + 3, lens[i] - 1000, 77, i + 1);
	}
	for (unsigned i = 0; i < T_COUNT(lens); i += 2) {
		T_EQ(penstock_buf_free(cf_io, bufs[i]), 0);
		T_OK(penstock_buf_free(cf_io, bufs[i]) < 0);
	}
	T_EQ(penstock_buf_free(cf_io, NULL), 0);
	T_OK(penstock_buf_free(cf_io, &info) < 0);
	moves_through(bufs[1], lens[1], 0, 3);
	cf_close(0); /* frees the others */
}

static void freed_memory_can_be_had_again(void)
{
	void *p = NULL;

	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 3000; i++) {
		T_EQ(penstock_buf_alloc(&p, cf_io, 1 + i % 30000, 0, NULL, NULL), 0);
		T_OK(is_zero(p, 1 + i % 30000));
		if (i % 50 == 0)
			moves_through(p, 1 + i % 30000, 0, i);
		memset(p, 0x5a, 1 + i % 30000);
		T_EQ(penstock_buf_free(cf_io, p), 0);
	}
}

static void an_absurd_size_is_an_error(void)
{
	struct penstock_err err = {0, ""};
	void *p = NULL;

	cf_open(NULL);
	T_ERR(penstock_buf_alloc(&p, cf_io, UINT64_MAX, 0, NULL, &err), -ENOMEM, &err);
	T_ERR(penstock_buf_alloc(&p, cf_io, UINT64_MAX - 4096, 0, NULL, &err), -ENOMEM, &err);
	T_ERR(penstock_buf_alloc(&p, cf_io, 1ull << 60, 0, NULL, &err), -ENOMEM, &err);
	T_OK(!p);
}

static void every_kind_of_huge_pages_gives_working_memory(void)
{
	for (unsigned huge = PENSTOCK_HUGE_AUTO; huge <= PENSTOCK_HUGE_NEVER; huge++) {
		struct penstock_opts o = cf_opts();
		struct penstock_buf_info info;
		void *p = NULL;

		o.huge = huge;
		cf_open(&o);
		cf_file_open(O_RDWR | O_CREAT);
		T_EQ(penstock_buf_alloc(&p, cf_io, MIB(6), 0, &info, NULL), 0);
		if (huge == PENSTOCK_HUGE_NEVER)
			T_OK(!(info.got & PENSTOCK_BUF_HUGE));
		if (!(info.got & PENSTOCK_BUF_HUGE) && huge == PENSTOCK_HUGE_RESERVED)
			T_OK(info.note[0]);
		moves_through(p, MIB(6), 0, huge);
		cf_close(0);
	}
}

static void the_callers_memory_can_be_registered(void)
{
	struct penstock_buf_info info;
	struct penstock_err err = {0, ""};
	struct penstock_stats st = {.size = sizeof(st)};
	unsigned char *mem = aligned_alloc(4096, MIB(5));

	T_OK(mem);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t want = i == 1 ? PENSTOCK_BUF_COLLAPSE : i == 2 ? PENSTOCK_BUF_LOCKED : 0;
		unsigned char *p = mem + (i == 3 ? 5 : 0);

		memset(&info, 0xff, sizeof(info));
		T_ERR(penstock_buf_register(cf_io, p, MIB(4), want, &info, &err), 0, &err);
		T_EQ(penstock_get_stats(cf_io, &st), 0);
		if (!(info.got & PENSTOCK_BUF_REGISTERED) && !strcmp(cf_engine, "io_uring"))
			T_OK(T_BIT(st.fallbacks, PENSTOCK_FALLBACK_UNREGISTERED) && info.note[0]);
		moves_through(p, MIB(4), 0, i);
		moves_through(p + 100, 70001, 13, i);
		moves_through(mem + MIB(4) - 9000, 20000, 4096, i); /* half in, half out */
		T_EQ(penstock_buf_unregister(cf_io, p), 0);
		T_OK(penstock_buf_unregister(cf_io, p) < 0);
		moves_through(p, MIB(4), 0, i + 1);
	}
	T_OK(penstock_buf_unregister(cf_io, mem + 1) < 0);
	cf_close(0);
	free(mem);
}

static void registered_memory_is_used_as_such(void)
{
	struct penstock_buf_info info;
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_file_info file = {.size = sizeof(file)};
	struct penstock_op op;
	void *p = NULL;

	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	T_EQ(penstock_buf_alloc(&p, cf_io, MIB(4), 0, &info, NULL), 0);
	op = cf_op(PENSTOCK_WRITE, p, MIB(4), 0);
	CF_DO(&op, MIB(4), 1);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	if (!(info.got & PENSTOCK_BUF_REGISTERED))
		T_EQ(st.blocks_fixed, 0);
	else
		T_OK(st.blocks_fixed > 0);
}

static void registering_many_and_forgetting_some_is_harmless(void)
{
	enum { NR = 600, LEN = 8192 };
	unsigned char *mem = aligned_alloc(4096, NR * LEN);

	T_OK(mem);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < NR; i++)
			T_EQ(penstock_buf_register(cf_io, mem + i * LEN, LEN, 0, NULL, NULL), 0);
		for (unsigned i = 0; i < NR; i += 37)
			moves_through(mem + i * LEN + (i & 1), LEN - 1, 0, i);
		for (unsigned i = 0; i < NR; i++)
			if (round == 0 || i % 3)
				T_EQ(penstock_buf_unregister(cf_io, mem + i * LEN), 0);
	}
	cf_close(0);
	free(mem);
}

static void memory_of_no_handle_works_with_any_and_outlives_them(void)
{
	static const uint64_t lens[] = {0, 1, 4097, MIB(1) - 1, MIB(3), MIB(6)};

	for (unsigned i = 0; i < T_COUNT(lens); i++) {
		struct penstock_buf_info info;
		struct penstock_err err = {0, ""};
		void *p = NULL;

		memset(&info, 0xff, sizeof(info));
		T_ERR(penstock_mem_alloc(&p, lens[i], i % 3, 0, &info, &err), 0, &err);
		T_OK(p && ((uintptr_t)p & 4095) == 0);
		T_OK(is_zero(p, lens[i]));
		T_OK(info.page >= 4096 && !(info.got & ~PENSTOCK_BUF_HUGE));
		for (unsigned k = 0; k < 2; k++) {
			cf_open(NULL);
			cf_file_open(O_RDWR | O_CREAT);
			moves_through(p, lens[i], 0, i + k);
			if (lens[i])
				T_EQ(penstock_buf_register(cf_io, p, lens[i], info.got, NULL, NULL),
				     0);
			moves_through(p, lens[i], 3, i);
			T_OK(penstock_buf_free(cf_io, p) < 0); /* is not the handle's */
			if (lens[i] && k)
				T_EQ(penstock_buf_unregister(cf_io, p), 0);
			cf_close(0);
			penstock_pattern_fill(p, lens[i], 0, 0); /* still there */
		}
		penstock_mem_free(p, lens[i]);
	}
	penstock_mem_free(NULL, 0);
	penstock_mem_free(NULL, MIB(3));
}

static void memory_of_no_handle_is_locked_or_says_why(void)
{
	struct penstock_buf_info info;
	void *p = NULL;

	T_EQ(penstock_mem_alloc(&p, MIB(3), PENSTOCK_HUGE_AUTO, PENSTOCK_BUF_LOCKED, &info, NULL),
	     0);
	T_OK(info.got & PENSTOCK_BUF_LOCKED || info.note[0]);
	memset(p, 1, MIB(3));
	penstock_mem_free(p, MIB(3));
}

static void memory_of_no_handle_names_the_argument_that_is_wrong(void)
{
	struct penstock_err err = {0, ""};
	void *p = NULL;

	T_ERR(penstock_mem_alloc(&p, 1, PENSTOCK_HUGE_NEVER + 1, 0, NULL, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "huge: 3 is outside 0..2");
	T_ERR(penstock_mem_alloc(&p, 1, 0, PENSTOCK_BUF_COLLAPSE, NULL, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "want: 0x8");
	T_ERR(penstock_mem_alloc(&p, UINT64_MAX, 0, 0, NULL, &err), -ENOMEM, &err);
	T_STR_HAS(err.msg, "18446744073709551615 bytes");
	T_ERR(penstock_mem_alloc(&p, 1ull << 60, 0, 0, NULL, &err), -ENOMEM, &err);
	T_OK(!p);
}

/* The blocks are as large, and go as straight, as with memory of the handle's own. */
static void memory_known_to_be_huge_moves_like_the_handles_own(void)
{
	struct penstock_stats st[2] = {{.size = sizeof(*st)}, {.size = sizeof(*st)}};
	struct penstock_buf_info info;
	struct penstock_op op;
	void *p = NULL;

	for (unsigned own = 0; own < 2; own++) {
		cf_open(NULL);
		cf_file_open(O_RDWR | O_CREAT);
		if (own) {
			T_EQ(penstock_buf_alloc(&p, cf_io, MIB(16), 0, NULL, NULL), 0);
		} else {
			T_EQ(penstock_mem_alloc(&p, MIB(16), 0, 0, &info, NULL), 0);
			T_EQ(penstock_buf_register(cf_io, p, MIB(16), info.got, &info, NULL), 0);
		}
		op = cf_op(PENSTOCK_WRITE, p, MIB(16), 0);
		CF_DO(&op, MIB(16), 1);
		T_EQ(penstock_get_stats(cf_io, &st[own]), 0);
		cf_close(0);
		if (!own)
			penstock_mem_free(p, MIB(16));
	}
	T_EQ(st[0].blocks, st[1].blocks);
	T_EQ(st[0].blocks_direct, st[1].blocks_direct);
	T_EQ(st[0].blocks_bounced, st[1].blocks_bounced);
}

static void huge_pages_are_taken_at_the_callers_word(void)
{
	unsigned char *mem = aligned_alloc(4096, MIB(4));
	struct penstock_buf_info info;

	T_OK(mem);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 2; i++) {
		T_EQ(penstock_buf_register(cf_io, mem, MIB(4), i ? PENSTOCK_BUF_HUGE : 0, &info,
					   NULL),
		     0);
		T_EQ(T_BIT(info.got, PENSTOCK_BUF_HUGE), i);
		T_OK(!(info.got & PENSTOCK_BUF_COLLAPSE));
		T_OK(i ? info.page > 4096 : info.page >= 4096);
		moves_through(mem, MIB(4), 0, i);
		T_EQ(penstock_buf_unregister(cf_io, mem), 0);
	}
	cf_close(0);
	free(mem);
}

struct registrar {
	unsigned char *mem;
	_Atomic bool stop;
};

static void *register_and_back(void *arg)
{
	struct registrar *r = arg;

	while (!r->stop) {
		void *p = NULL;

		T_CHECK(penstock_buf_register(cf_io, r->mem, MIB(1), 0, NULL, NULL) == 0);
		T_CHECK(penstock_buf_alloc(&p, cf_io, 5000, 0, NULL, NULL) == 0);
		T_CHECK(penstock_buf_unregister(cf_io, r->mem) == 0);
		T_CHECK(penstock_buf_free(cf_io, p) == 0);
	}
	return NULL;
}

static void memory_may_be_registered_while_transfers_run(void)
{
	struct registrar r = {.mem = aligned_alloc(4096, MIB(1))};
	unsigned char *buf = aligned_alloc(4096, MIB(2));
	pthread_t t;
	void *msg;

	T_OK(r.mem && buf);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	T_EQ(pthread_create(&t, NULL, register_and_back, &r), 0);
	for (unsigned i = 0; i < 20; i++)
		moves_through(buf, MIB(2) - i, i, i);
	r.stop = true;
	pthread_join(t, &msg);
	T_JOINED(msg);
	cf_close(0);
	free(r.mem);
	free(buf);
}

/* ------------------------------------------------------------------ limits */

#define IN_CHILD(cond)                             \
	do {                                       \
		if (!(cond))                       \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static bool drop_ipc_lock(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps) < 0)
		return false;
	caps[CAP_IPC_LOCK / 32].effective &= ~(1u << (CAP_IPC_LOCK % 32));
	return syscall(SYS_capset, &head, caps) == 0;
}

/* Exit status 0: as promised; 249: the limit does not bind here. */
static void child_with_little_memlock(void)
{
	struct rlimit low = {KIB(256), KIB(256)}; /* new kernels count an io_uring's own memory */
	struct penstock_opts o = cf_opts();
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_err err = {0, ""};
	struct penstock_buf_info info;
	struct penstock_done d;
	struct penstock_op op;
	unsigned char *p, *own = aligned_alloc(4096, MIB(3));
	void *mem = NULL;

	if (setrlimit(RLIMIT_MEMLOCK, &low) < 0 || !drop_ipc_lock())
		_exit(249);
	if (mlock(own, MIB(3)) == 0)
		_exit(249);
	IN_CHILD(penstock_open(&cf_io, &o, &err) == 0);
	IN_CHILD(penstock_file_open(&cf_file, cf_io, cf_path, O_RDWR | O_CREAT, 0600, &err) == 0);
	IN_CHILD(penstock_buf_alloc(&mem, cf_io, MIB(3), PENSTOCK_BUF_LOCKED, &info, &err) == 0);
	IN_CHILD(!(info.got & PENSTOCK_BUF_LOCKED));
	IN_CHILD(info.note[0]);
	IN_CHILD(penstock_get_stats(cf_io, &st) == 0);
	IN_CHILD(st.fallbacks & PENSTOCK_FALLBACK_UNLOCKED);
	IN_CHILD(st.fallback_why[0]);
	IN_CHILD(penstock_buf_register(cf_io, own, MIB(3), PENSTOCK_BUF_LOCKED, &info, &err) == 0);
	IN_CHILD(!(info.got & PENSTOCK_BUF_LOCKED));
	if (!(info.got & PENSTOCK_BUF_REGISTERED) && !strcmp(cf_engine, "io_uring")) {
		IN_CHILD(penstock_get_stats(cf_io, &st) == 0);
		IN_CHILD(st.fallbacks & PENSTOCK_FALLBACK_UNREGISTERED);
	}
	for (unsigned i = 0; i < 4; i++) {
		p = i & 1 ? own : mem;
		penstock_pattern_fill(p, MIB(3), i, 0);
		op = cf_op(PENSTOCK_WRITE, p, MIB(3) - 1, 0);
		IN_CHILD(penstock_run(cf_io, &op, &d, NULL) == 0 && d.res == MIB(3) - 1);
		op = cf_op(PENSTOCK_READ, p, MIB(3) - 1, 0);
		IN_CHILD(penstock_run(cf_io, &op, &d, NULL) == 0 && d.res == MIB(3) - 1);
		IN_CHILD(cf_null || penstock_pattern_check(p, MIB(3) - 1, i, 0) == MIB(3) - 1);
	}
	IN_CHILD(penstock_close(cf_io, NULL) == 0);
	free(own);
	_exit(0);
}

/* Without a name the next engine is taken, and that is told; with one it may be refused. */
static void child_with_no_memlock(void)
{
	struct rlimit none = {0, 0};
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_opts o = cf_opts();
	struct penstock_err err = {0, ""};
	unsigned char buf[5000];
	struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 1);
	struct penstock_done d;
	uint64_t ticket;
	int r;

	if (setrlimit(RLIMIT_MEMLOCK, &none) < 0 || !drop_ipc_lock())
		_exit(249);
	if (mlock(&st, 1) == 0)
		_exit(249);
	r = penstock_open(&cf_io, &o, &err);
	if (r == 0) {
		IN_CHILD(penstock_close(cf_io, &err) == 0);
		cf_io = NULL;
	} else {
		IN_CHILD((r == -ENOMEM || r == -ENOTSUP) && err.code == r && err.msg[0]);
	}
	IN_CHILD(penstock_open(&cf_io, NULL, &err) == 0);
	IN_CHILD(penstock_get_stats(cf_io, &st) == 0);
	if (strcmp(st.engine, penstock_engine_name(0)) != 0) {
		IN_CHILD(st.fallbacks & PENSTOCK_FALLBACK_ENGINE);
		IN_CHILD(st.fallback_why[0]);
	}
	penstock_pattern_fill(buf, sizeof(buf), SEED, 0);
	IN_CHILD(penstock_submit(cf_io, &op, 1, &ticket, NULL) == 1);
	IN_CHILD(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d) == 0 && d.res == sizeof(buf));
	IN_CHILD(penstock_close(cf_io, &err) == 0);
	_exit(0);
}

static bool kernel_has(const char *name)
{
	struct penstock_kernel_offer k = {.size = sizeof(k)};

	for (unsigned i = 0; penstock_probe_kernel(i, NULL, &k) == 0; i++)
		if (!strcmp(k.name, name))
			return k.found;
	return false;
}

/* In a process that has pinned nothing before: what handles that are gone had pinned goes later. */
static void child_with_many_queues(void)
{
	struct penstock_opts o = cf_opts();
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_buf_info info;
	struct penstock_done d;
	struct penstock_op op;
	void *p = NULL;

	o.threads = 4;
	IN_CHILD(penstock_open(&cf_io, &o, NULL) == 0);
	IN_CHILD(penstock_file_open(&cf_file, cf_io, cf_path, O_RDWR | O_CREAT, 0600, NULL) == 0);
	IN_CHILD(penstock_buf_alloc(&p, cf_io, MIB(8), 0, &info, NULL) == 0);
	if (!(info.got & PENSTOCK_BUF_REGISTERED))
		_exit(249);
	IN_CHILD(t_pinned_bytes() == MIB(8));
	for (unsigned i = 0; i < 20; i++) {
		penstock_pattern_fill(p, MIB(8), i, 0);
		op = cf_op(PENSTOCK_WRITE, p, MIB(8), 0);
		IN_CHILD(penstock_run(cf_io, &op, &d, NULL) == 0 && d.res == MIB(8));
		memset(p, 0, MIB(8));
		op.opcode = PENSTOCK_READ;
		IN_CHILD(penstock_run(cf_io, &op, &d, NULL) == 0 && d.res == MIB(8));
		IN_CHILD(penstock_pattern_check(p, MIB(8), i, 0) == MIB(8));
	}
	IN_CHILD(penstock_get_stats(cf_io, &st) == 0 && st.blocks_fixed);
	IN_CHILD(penstock_buf_free(cf_io, p) == 0);
	IN_CHILD(t_pinned_bytes() == 0);
	IN_CHILD(penstock_close(cf_io, NULL) == 0);
	_exit(0);
}

static void in_a_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		fn();
	T_OK(pid > 0);
	T_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 249)
		T_SKIP("memlock", "the memlock limit cannot be made to bind here");
	if (status)
		T_FAIL("the child ended with 0x%x: line %d modulo 250", status,
		       WEXITSTATUS(status) - 1);
}

/* Threads of this process that the kernel has made for io_uring. */
static unsigned kernel_workers(void)
{
	char path[300], name[32];
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	unsigned n = 0;
	FILE *f;

	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		n += f && fgets(name, sizeof(name), f) && !strncmp(name, "iou-wrk", 7);
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void child_on_tmpfs(void)
{
	enum { MANY = 64, LEN = 4096 };
	static char mem[MANY * LEN];
	struct penstock_opts o = cf_opts();
	struct penstock_op ops[MANY];
	struct penstock_done d[MANY];
	int fd = memfd_create("small", MFD_CLOEXEC); /* always on tmpfs */
	int want[] = {PENSTOCK_WRITE, PENSTOCK_READ};

	IN_CHILD(fd >= 0 && penstock_open(&cf_io, &o, NULL) == 0);
	IN_CHILD(penstock_file_from_fd(&cf_file, cf_io, fd, NULL) == 0);
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < MANY; i++)
			ops[i] = cf_op(want[turn], mem + i * LEN, LEN, (uint64_t)i * LEN);
		IN_CHILD(penstock_submit(cf_io, ops, MANY, NULL, NULL) == MANY);
		IN_CHILD(penstock_wait_any(cf_io, d, MANY, MANY, -1) == MANY);
		for (unsigned i = 0; i < MANY; i++)
			IN_CHILD(d[i].res == LEN);
	}
	IN_CHILD(kernel_workers() == 0);
	IN_CHILD(penstock_file_close(cf_file, NULL) == 0);
	IN_CHILD(penstock_close(cf_io, NULL) == 0);
	_exit(0);
}

static void small_transfers_in_memory_need_no_threads_of_the_kernels(void)
{
	if (strcmp(cf_engine, "io_uring"))
		T_SKIP("io_uring", "engine %s has threads of its own or none", cf_engine);
	in_a_child(child_on_tmpfs);
}

static void memory_of_many_queues_is_pinned_once(void)
{
	if (strcmp(cf_engine, "io_uring") || !kernel_has("cloned buffers"))
		T_SKIP("clone", "this kernel and engine %s share no registered memory", cf_engine);
	in_a_child(child_with_many_queues);
}

static void lists_in_registered_memory_are_used_as_such(void)
{
	enum { PIECES = 4, PIECE = 4096 };
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_file_info file = {.size = sizeof(file)};
	struct penstock_buf_info info;
	struct penstock_iov iov[PIECES];
	struct penstock_op op;
	char *mem = NULL;

	if (strcmp(cf_engine, "io_uring") || !kernel_has("READV_FIXED"))
		T_SKIP("fixed-lists", "this kernel and engine %s take no such lists", cf_engine);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	penstock_file_stat(cf_file, &file);
	T_EQ(penstock_buf_alloc((void **)&mem, cf_io, MIB(4), 0, &info, NULL), 0);
	if (!file.direct || !(info.got & PENSTOCK_BUF_REGISTERED))
		T_SKIP("fixed-lists", "no O_DIRECT or no registered memory here");
	op = cf_op(PENSTOCK_WRITE, NULL, 0, 0);
	op.iov = iov;
	op.nr_iov = PIECES;
	for (unsigned i = 0; i < PIECES; i++)
		iov[i] = (struct penstock_iov){mem + 2 * i * PIECE, PIECE};
	for (unsigned turn = 1; turn < 4; turn++) {
		CF_DO(&op, PIECES * PIECE, 1);
		T_EQ(penstock_get_stats(cf_io, &st), 0);
		T_EQ(st.blocks, turn);
		T_EQ(st.blocks_fixed, turn);
		op.opcode = PENSTOCK_READ;
	}
}

static void a_small_memlock_limit_is_survived_and_told(void)
{
	in_a_child(child_with_little_memlock);
}

static void without_memlock_some_engine_still_works(void)
{
	in_a_child(child_with_no_memlock);
}

static const struct t_case cases[] = {
	T_CASE(allocated_memory_is_zeroed_aligned_and_works),
	T_CASE(freed_memory_can_be_had_again),
	T_CASE(an_absurd_size_is_an_error),
	T_CASE(every_kind_of_huge_pages_gives_working_memory),
	T_CASE(the_callers_memory_can_be_registered),
	T_CASE(registered_memory_is_used_as_such),
	T_CASE(registering_many_and_forgetting_some_is_harmless),
	T_CASE(memory_of_no_handle_works_with_any_and_outlives_them),
	T_CASE(memory_of_no_handle_is_locked_or_says_why),
	T_CASE(memory_of_no_handle_names_the_argument_that_is_wrong),
	T_CASE(memory_known_to_be_huge_moves_like_the_handles_own),
	T_CASE(memory_of_many_queues_is_pinned_once),
	T_CASE(small_transfers_in_memory_need_no_threads_of_the_kernels),
	T_CASE(lists_in_registered_memory_are_used_as_such),
	T_CASE(huge_pages_are_taken_at_the_callers_word),
	T_CASE(memory_may_be_registered_while_transfers_run),
	T_CASE(a_small_memlock_limit_is_survived_and_told),
	T_CASE(without_memlock_some_engine_still_works),
};

const struct t_group cf_memory = {
	"memory", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
