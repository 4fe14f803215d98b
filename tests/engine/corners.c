/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, corners: what a caller may do and few do. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "conformance.h"

enum { SEED = 8 };

/* ------------------------------------------------------------------- files */

static void a_fifo_is_refused_and_does_not_block(void)
{
	char buf[10];
	struct penstock_op op;
	struct penstock_file *f = NULL;
	struct penstock_done d;

	cf_open(NULL);
	T_EQ(mkfifo(cf_path, 0600), 0);
	op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);
	T_EQ(penstock_run(cf_io, &op, &d, NULL), -ESPIPE);
	T_EQ(penstock_submit(cf_io, &op, 1, NULL, NULL), -ESPIPE);
	op.opcode = PENSTOCK_WRITE;
	T_OK(penstock_submit(cf_io, &op, 1, NULL, NULL) < 0);
	T_EQ(penstock_file_open(&f, cf_io, cf_path, O_RDWR, 0, NULL), -ESPIPE);
}

static void a_descriptor_that_does_not_block_works_as_others_do(void)
{
	unsigned char want[70000], got[70000];
	struct penstock_op op = {.opcode = PENSTOCK_WRITE, .buf = want, .len = sizeof(want)};

	cf_open(NULL);
	penstock_pattern_fill(want, sizeof(want), SEED, 0);
	op.fd = open(cf_path, O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
	T_OK(op.fd >= 0);
	for (unsigned turn = 0; turn < 4; turn++) {
		op.opcode = PENSTOCK_WRITE;
		op.buf = want;
		CF_DO(&op, sizeof(want), turn);
		op.opcode = PENSTOCK_READ;
		op.buf = got;
		CF_DO(&op, sizeof(got), turn);
		if (!cf_null)
			T_MEM(got, want, sizeof(want));
	}
	close(op.fd);
}

/* In a child without privileges; returns 0, a line that failed, or 249: not to be had here. */
static int write_what_cannot_be_reopened(void)
{
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_opts o = cf_opts();
	unsigned char buf[10000];
	struct penstock_file *f;

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
		return 249;
	penstock_pattern_fill(buf, sizeof(buf), SEED, 0);
	if (penstock_open(&cf_io, &o, NULL) < 0)
		return __LINE__ % 249;
	if (penstock_file_open(&f, cf_io, cf_path, O_RDWR | O_CREAT, 0400, NULL) < 0)
		return 249; /* the directory is not for everyone */
	/* ragged first, then whole pages, then ragged again */
	if (penstock_pwrite(f, buf, 100, 0, NULL) != 100 ||
	    penstock_pwrite(f, buf + 100, 9000, 100, NULL) != 9000 ||
	    penstock_pwrite(f, buf + 9100, 900, 9100, NULL) != 900)
		return __LINE__ % 249;
	memset(buf, 0, sizeof(buf));
	if (penstock_pread(f, buf, sizeof(buf), 0, NULL) != sizeof(buf))
		return __LINE__ % 249;
	if (!cf_null && penstock_pattern_check(buf, sizeof(buf), SEED, 0) != sizeof(buf))
		return __LINE__ % 249;
	if (penstock_get_stats(cf_io, &st) < 0)
		return __LINE__ % 249;
	return penstock_close(cf_io, NULL) ? __LINE__ % 249 : 0;
}

static void a_file_that_cannot_be_opened_again_takes_ragged_writes(void)
{
	int status;
	pid_t pid;

	if (!t_is_root())
		T_SKIP("root", "privileges are needed to drop them");
	if (T_TSAN)
		T_SKIP("tsan", "ThreadSanitizer dies when a forked child makes threads");
	T_EQ(chmod(t_dir(), 0777), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(write_what_cannot_be_reopened());
	T_OK(pid > 0);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_OK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 249)
		T_SKIP("nobody", "another user cannot make files in the test directory");
	T_EQ(WEXITSTATUS(status), 0);
}

static void a_truncating_write_is_durable_and_ends_the_file(void)
{
	unsigned char buf[5000];
	struct penstock_op op;

	cf_open(NULL);
	penstock_pattern_fill(buf, sizeof(buf), SEED, 0);
	for (unsigned turn = 0; turn < 4; turn++) {
		t_file_make(cf_path, SEED, 20000);
		cf_file_open(O_RDWR);
		op = cf_op(PENSTOCK_WRITE, buf, sizeof(buf), 0);
		op.flags = PENSTOCK_OP_TRUNCATE |
			   (turn & 2 ? PENSTOCK_OP_DATASYNC : PENSTOCK_OP_FULLSYNC);
		CF_DO(&op, sizeof(buf), turn);
		T_EQ(t_file_size(cf_path), sizeof(buf));
		op.len = 0;
		op.offset = 77;
		CF_DO(&op, 0, turn);
		T_EQ(t_file_size(cf_path), 77);
		T_EQ(penstock_file_close(cf_file, NULL), 0);
		cf_file = NULL;
	}
}

/*
 * Of two writes in flight together, one has whole pages and the other begins inside
 * one of them.  What only the first was asked to write must be there.
 */
static void writes_that_overlap_lose_no_byte_of_either(void)
{
	enum { ROUNDS = 1500, WHOLE = 4096, RAGGED = 9000, AT = 3 };
	void *whole = aligned_alloc(4096, WHOLE), *ragged = aligned_alloc(4096, 12288);
	unsigned char got[AT];
	struct penstock_op ops[2];
	struct penstock_summary sum;

	if (cf_null) {
		free(whole);
		free(ragged);
		T_SKIP("data", "the null engine moves no data");
	}
	T_OK(whole && ragged);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < ROUNDS; i++) {
		memset(whole, (int)(i & 0xff), WHOLE);
		memset(ragged, 0xee, RAGGED);
		ops[i & 1] = cf_op(PENSTOCK_WRITE, ragged, RAGGED, AT);
		ops[!(i & 1)] = cf_op(PENSTOCK_WRITE, whole, WHOLE, 0);
		T_EQ(penstock_submit(cf_io, ops, 2, NULL, NULL), 2);
		T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
		T_EQ(sum.failed, 0);
		T_EQ(penstock_pread(cf_file, got, AT, 0, NULL), AT);
		T_MEM(got, whole, AT);
	}
	ops[0] = cf_op(PENSTOCK_SYNC, NULL, 0, 0);
	CF_DO(&ops[0], 0, 1);
	free(whole);
	free(ragged);
}

/* ----------------------------------------------------------------- threads */

static sem_t entered, leave;

static void stay(void *arg, const struct penstock_done *done)
{
	(void)arg;
	(void)done;
	sem_post(&entered);
	while (sem_wait(&leave) < 0)
		;
}

static void a_busy_io_thread_does_not_hold_up_an_idle_one(void)
{
	struct penstock_opts o = cf_opts();
	unsigned char a, b;
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket;

	o.threads = 2;
	o.depth = 1;
	cf_open(&o);
	t_file_make(cf_path, SEED, 10);
	cf_file_open(O_RDONLY);
	sem_init(&entered, 0, 0);
	sem_init(&leave, 0, 0);
	op = cf_op(PENSTOCK_READ, &a, 1, 0);
	op.on_done = stay;
	T_EQ(penstock_submit(cf_io, &op, 1, NULL, NULL), 1);
	while (sem_wait(&entered) < 0)
		;
	for (unsigned i = 0; i < 20; i++) {
		op = cf_op(PENSTOCK_READ, &b, 1, i % 10);
		ticket = cf_submit(&op);
		T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
		T_EQ(d.res, 1);
	}
	sem_post(&leave);
}

static void *wait_for_ticket(void *arg)
{
	struct penstock_done d;

	sem_post(&entered);
	penstock_wait(cf_io, *(uint64_t *)arg, T_NO_LIMIT, &d);
	pthread_testcancel();
	return arg;
}

static void a_cancelled_thread_leaves_the_handle_usable(void)
{
	struct penstock_opts o = cf_opts();
	unsigned char byte;
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket, other;
	pthread_t thread;

	if (T_ASAN) /* it takes what a cancelled thread leaves on its stack for an overflow */
		T_SKIP("pthread_cancel", "cancelled threads confuse the address sanitizer");
	o.threads = 1;
	cf_open(&o);
	t_file_make(cf_path, SEED, 10);
	cf_file_open(O_RDONLY);
	sem_init(&entered, 0, 0);
	cf_gate_shut();
	op = cf_op(PENSTOCK_READ, &byte, 1, 0);
	ticket = cf_submit(&op);
	other = cf_submit(&op);
	T_EQ(pthread_create(&thread, NULL, wait_for_ticket, &ticket), 0);
	while (sem_wait(&entered) < 0)
		;
	pthread_cancel(thread);
	T_EQ(penstock_wait(cf_io, other, 0, &d), -ETIMEDOUT);
	cf_gate_open();
	T_EQ(pthread_join(thread, NULL), 0);
	T_EQ(penstock_wait(cf_io, other, T_NO_LIMIT, &d), 0);
	T_EQ(d.res, 1);
	cf_close(0);
}

static void *read_a_byte(void *arg)
{
	unsigned char byte;

	(void)arg;
	penstock_pread(cf_file, &byte, 1, 0, NULL);
	return NULL;
}

static void ignore(void *arg, const struct penstock_done *done)
{
	(void)arg;
	(void)done;
}

/* Under a sanitizer this finds a file that is looked at after its last use. */
static void a_file_may_be_closed_as_soon_as_its_work_is_done(void)
{
	unsigned char byte;
	struct penstock_op op;

	cf_open(NULL);
	t_file_make(cf_path, SEED, 10);
	for (unsigned i = 0; i < 200; i++) {
		cf_file_open(O_RDONLY);
		op = cf_op(PENSTOCK_READ, &byte, 1, 0);
		op.on_done = ignore;
		T_EQ(penstock_submit(cf_io, &op, 1, NULL, NULL), 1);
		read_a_byte(NULL);
		T_EQ(penstock_file_close(cf_file, NULL), 0);
	}
	cf_file = NULL;
}

static void a_forked_copy_is_closed_without_a_trace(void)
{
	int before = t_nr_fds(), status;
	pid_t pid;

	if (t_is_emulated())
		T_SKIP("fork", "a child of several threads hangs in the emulator");
	cf_open(NULL);
	t_file_make(cf_path, SEED, 10);
	cf_file_open(O_RDWR);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		penstock_close(cf_io, NULL);
		_exit(t_nr_fds() == before ? 0 : 1);
	}
	T_OK(pid > 0);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
	T_EQ(read_a_byte(NULL) == NULL, 1);
	cf_close(0);
}

static const struct t_case cases[] = {
	T_CASE(a_fifo_is_refused_and_does_not_block),
	T_CASE(a_descriptor_that_does_not_block_works_as_others_do),
	T_CASE(a_file_that_cannot_be_opened_again_takes_ragged_writes),
	T_CASE(a_truncating_write_is_durable_and_ends_the_file),
	T_CASE(writes_that_overlap_lose_no_byte_of_either),
	T_CASE(a_busy_io_thread_does_not_hold_up_an_idle_one),
	T_CASE(a_cancelled_thread_leaves_the_handle_usable),
	T_CASE(a_file_may_be_closed_as_soon_as_its_work_is_done),
	T_CASE(a_forked_copy_is_closed_without_a_trace),
};

const struct t_group cf_corners = {
	"corners", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
