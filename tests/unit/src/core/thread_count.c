/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many I/O threads a handle takes, by what it sees: made-up storage against
 * thread_count_choose(), and what it sees.  And that nothing is lost while their number changes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/core.h"
#include "core/queue.h"
#include "tests/common/t.h"

/* Storage that moves so much a millisecond, of which one thread can copy, or wait for, a part. */
struct storage {
	uint64_t limit;
	uint64_t copy;
	bool kernel; /* threads of the kernel's do */
};

static struct thread_count thread_count;
static unsigned threads, changes;

static uint64_t speed(const struct storage *s, unsigned n)
{
	return s->limit < n * s->copy ? s->limit : n * s->copy;
}

/* Processors rest for as long as they are faster than the storage. */
static void work(const struct storage *s, unsigned most, unsigned windows, bool behind)
{
	for (unsigned i = 0; i < windows; i++) {
		uint64_t rate = speed(s, threads);
		struct thread_count_sample seen = {
			.ns = THREAD_COUNT_WINDOW_NS,
			.busy_ns = s->kernel ? 0 : THREAD_COUNT_WINDOW_NS * rate / s->copy,
			.kernel_ns = s->kernel ? THREAD_COUNT_WINDOW_NS * rate / s->copy : 0,
			.bytes = rate * THREAD_COUNT_WINDOW_NS / 1000000,
			.threads = threads,
			.most = most,
			.behind = behind,
		};
		unsigned n = thread_count_choose(&thread_count, &seen);

		T_OK(n >= 1 && n <= most);
		changes += n != threads;
		threads = n;
	}
}

static void begin(void)
{
	memset(&thread_count, 0, sizeof(thread_count));
	threads = 1;
	changes = 0;
}

static const struct storage memory = {37000000, 4000000, false}, tmpfs = {37000000, 4000000, true},
			    disk = {3000000, 30000000, false};

static void memory_gets_as_many_as_pay(void)
{
	begin();
	work(&memory, 16, 20, true);
	T_OK(speed(&memory, threads) >= memory.limit * 9 / 10);
	begin();
	work(&tmpfs, 16, 20, true);
	T_OK(speed(&tmpfs, threads) >= tmpfs.limit * 9 / 10);
	begin();
	work(&memory, 2, 20, true);
	T_EQ(threads, 2);
	T_EQ(changes, 1);
}

static void a_disk_that_one_thread_fills_stays_at_one(void)
{
	begin();
	work(&disk, 16, 10000, true);
	T_EQ(threads, 1);
	T_EQ(changes, 0);
}

static void what_does_not_pay_is_taken_back_and_seldom_tried_again(void)
{
	static const struct storage narrow = {4000000, 4000000,
					      false}; /* busy with one, no faster with two */

	begin();
	work(&narrow, 16, 10000, true);
	T_EQ(threads, 1);
	T_OK(changes >= 2 && changes < 40);
}

static void little_to_do_needs_no_threads(void)
{
	begin();
	work(&memory, 16, 1000, false);
	T_EQ(threads, 1);
}

static void from_memory_to_a_disk_it_goes_back_to_one(void)
{
	begin();
	work(&memory, 16, 20, true);
	T_OK(threads > 1);
	work(&disk, 16, 40, true);
	T_EQ(threads, 1);
}

/* ------------------------------------------------------- what is seen */

enum { WORK_NS = 200000000, COPIED = 64 << 20 };

static struct penstock_io *io;
static struct penstock_file *file;

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec ts;

	T_EQ(clock_gettime(clock, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int look(struct queue *q, void *arg)
{
	*(struct thread_count_sample *)arg = queues_sample(q);
	return 0;
}

/* What of the processor time that @run takes is seen as the handle's, in percent. */
static unsigned seen_of(void (*run)(void *arg), void *arg)
{
	uint64_t end, start = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct thread_count_sample before, after;

	T_EQ(queue_call(io->queues, look, &before), 0);
	do {
		run(arg);
		end = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	} while (end - start < WORK_NS);
	T_EQ(queue_call(io->queues, look, &after), 0);
	after.busy_ns -= before.busy_ns;
	after.kernel_ns -= before.kernel_ns;
	return (unsigned)(100 * max_u64(after.busy_ns, after.kernel_ns) / (end - start));
}

static void compute(void *arg)
{
	volatile double *x = arg;

	for (unsigned i = 0; i < 10000000; i++)
		*x = *x * 1.0000001 + 0.1;
}

static void copy(void *arg)
{
	T_EQ(penstock_pread(file, arg, COPIED, 0, NULL), COPIED);
}

/* From memory, where the kernel's threads copy for io_uring, and those of engine threads. */
static void copying_counts_and_what_the_program_computes_does_not(void)
{
	static const char *const engines[] = {"io_uring", "threads"};
	void *buf = mmap(NULL, COPIED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double number = 1;

	T_OK(buf != MAP_FAILED);
	memset(buf, 1, COPIED);
	for (unsigned i = 0; i < T_COUNT(engines); i++) {
		struct penstock_opts o = PENSTOCK_OPTS_INIT;
		int fd = memfd_create("thread_count", 0);

		T_EQ(ftruncate(fd, COPIED), 0);
		o.engine = engines[i];
		if (penstock_open(&io, &o, NULL) < 0) {
			close(fd);
			continue;
		}
		T_EQ(penstock_file_from_fd(&file, io, fd, NULL), 0);
		T_EQ(penstock_pwrite(file, buf, COPIED, 0, NULL), COPIED);
		T_OK(seen_of(compute, &number) < 50);
		T_OK(seen_of(copy, buf) > 50);
		T_EQ(penstock_close(io, NULL), 0);
		close(fd);
	}
	munmap(buf, COPIED);
}

/* ------------------------------------------------------- while it changes */

enum { SUBMITTERS = 4, BATCH = 8, ROUNDS = T_TSAN || T_ASAN ? 100 : 1000, FILE_BYTES = 1 << 20 };

static atomic_bool enough;
static char byte;

/* In the first I/O thread, as queues_adjust_number() does it; then again. */
static void change_number(void *arg, const struct penstock_done *done)
{
	struct penstock_op op = {.opcode = PENSTOCK_READ, .file = file, .buf = &byte, .len = 1};
	unsigned n = atomic_load(&io->nr_active) == 1 ? io->max_queues : 1;

	(void)arg;
	(void)done;
	queues_resize(io, n);
	op.on_done = change_number;
	if (!atomic_load(&enough))
		penstock_submit(io, &op, 1, NULL, NULL);
}

static void *submit_batches(void *arg)
{
	unsigned char *buf = malloc(BATCH * 2 * SHARE_MIN_BYTES);
	struct penstock_done *d = calloc(BATCH, sizeof(*d));
	const char *wrong = buf && d ? NULL : "memory";

	(void)arg;
	for (unsigned r = 0; r < ROUNDS && !wrong; r++) {
		struct penstock_op ops[BATCH] = {0};
		uint64_t tickets[BATCH];

		for (unsigned i = 0; i < BATCH; i++)
			ops[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
						      .file = file,
						      .buf = buf + i * 2 * SHARE_MIN_BYTES,
						      .len = i % 2 ? 4096 : 2 * SHARE_MIN_BYTES};
		if (penstock_submit(io, ops, BATCH, tickets, NULL) != BATCH)
			wrong = "submit";
		for (unsigned i = 0; i < BATCH && !wrong; i++)
			if (penstock_wait(io, tickets[i], -1, d) || d->res != (int64_t)ops[i].len)
				wrong = "wait";
	}
	free(d);
	free(buf);
	return (void *)(uintptr_t)wrong;
}

static void nothing_is_lost_while_the_number_changes(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_stats st = {.size = sizeof(st)};
	const char *path = t_path("thread_count");
	pthread_t thread[SUBMITTERS];
	void *wrong;

	o.engine = "threads";
	t_file_make(path, 1, FILE_BYTES);
	T_EQ(penstock_open(&io, &o, NULL), 0);
	T_EQ(penstock_get_stats(io, &st), 0);
	T_EQ(st.threads, 1);
	if (io->max_queues == 1)
		T_SKIP("processors", "one processor, one thread");
	T_EQ(penstock_file_open(&file, io, path, O_RDONLY, 0, NULL), 0);
	atomic_store(&enough, false);
	for (unsigned i = 0; i < SUBMITTERS; i++)
		T_EQ(pthread_create(&thread[i], NULL, submit_batches, NULL), 0);
	change_number(NULL, NULL);
	for (unsigned i = 0; i < SUBMITTERS; i++) {
		pthread_join(thread[i], &wrong);
		if (wrong)
			T_FAIL("%s", (const char *)wrong);
	}
	atomic_store(&enough, true);
	T_EQ(penstock_get_stats(io, &st), 0);
	T_OK(st.threads == 1 || st.threads == io->max_queues);
	T_EQ(penstock_close(io, NULL), 0);
}

/* In a process that has pinned nothing before: its exit status. */
static int memory_pinned_then_freed_with_one_thread(void)
{
	struct penstock_buf_info info;
	void *p;
	int r;

	if (penstock_open(&io, NULL, NULL) || penstock_buf_alloc(&p, io, 8 << 20, 0, &info, NULL))
		return 1;
	if (io->max_queues == 1 || !(info.got & PENSTOCK_BUF_REGISTERED) || !t_pinned_bytes())
		return 2;
	io->max_queues = 1; /* as where a second thread could not be made */
	r = penstock_buf_free(io, p);
	return r || t_pinned_bytes() ? 3 : 0;
}

static void what_was_pinned_for_all_threads_goes_where_one_is_left(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(memory_pinned_then_freed_with_one_thread());
	T_OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		T_SKIP("memory", "none is pinned for several threads here");
	T_EQ(status, 0);
}

static const struct t_case cases[] = {
	T_CASE(memory_gets_as_many_as_pay),
	T_CASE(a_disk_that_one_thread_fills_stays_at_one),
	T_CASE(what_does_not_pay_is_taken_back_and_seldom_tried_again),
	T_CASE(little_to_do_needs_no_threads),
	T_CASE(from_memory_to_a_disk_it_goes_back_to_one),
	T_CASE(copying_counts_and_what_the_program_computes_does_not),
	T_CASE(nothing_is_lost_while_the_number_changes),
	T_CASE(what_was_pinned_for_all_threads_goes_where_one_is_left),
};

int main(void)
{
	const struct t_group group = {"thread_count", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
