/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, together: threads, fork, signals and limits around transfers. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "conformance.h"

enum { SEED = 31 };

/* ----------------------------------------------------------------- threads */

struct worker {
	pthread_t thread;
	unsigned nr;
	unsigned rounds;
	uint64_t base; /* of its part of the file */
	uint64_t span;
	bool own_path;
	char path[PATH_MAX];
};

/* Random transfers inside a part of the file that nobody else touches. */
static void *hammer(void *arg)
{
	enum { SLOTS = 4 };
	struct worker *w = arg;
	struct penstock_random rnd;
	unsigned char *model = malloc(w->span), *buf = malloc(SLOTS * w->span);
	void *msg = NULL;

	penstock_random_seed(&rnd, w->nr);
	penstock_pattern_fill(model, w->span, SEED, w->base);
	for (unsigned r = 0; r < w->rounds && !msg; r++) {
		struct penstock_op ops[SLOTS];
		uint64_t tickets[SLOTS], part = w->span / SLOTS;
		struct penstock_done d;

		for (unsigned s = 0; s < SLOTS; s++) {
			uint64_t off = s * part + penstock_random_below(&rnd, part);
			uint64_t len = penstock_random_below(&rnd, (s + 1) * part - off + 1);
			unsigned char *mem = buf + s * w->span + penstock_random_below(&rnd, 9);

			ops[s] = cf_op(r & 1 ? PENSTOCK_READ : PENSTOCK_WRITE, mem, len,
				       w->base + off);
			ops[s].tag = w->nr * 100 + s;
			if (w->own_path) {
				ops[s].file = NULL;
				ops[s].path = w->path;
			}
			if (ops[s].opcode == PENSTOCK_WRITE) {
				penstock_pattern_fill(mem, len, r * 977 + w->nr, off);
				memcpy(model + off, mem, len);
			}
		}
		if (r % 5 == 4) { /* blocking calls among them */
			for (unsigned s = 0; s < SLOTS; s++) {
				T_CHECK(penstock_run(cf_io, &ops[s], &d, NULL) == 0);
				T_CHECK(d.res == (int64_t)ops[s].len);
			}
		} else {
			T_CHECK(penstock_submit(cf_io, ops, SLOTS, tickets, NULL) == SLOTS);
			for (unsigned s = SLOTS; s-- > 0;) {
				T_CHECK(penstock_wait(cf_io, tickets[s], T_NO_LIMIT, &d) == 0);
				T_CHECK(d.ticket == tickets[s] && d.tag == ops[s].tag);
				T_CHECK(d.res == (int64_t)ops[s].len);
			}
		}
		for (unsigned s = 0; s < SLOTS && (r & 1); s++)
			T_CHECK(!memcmp(ops[s].buf, model + (ops[s].offset - w->base), ops[s].len));
	}
	T_CHECK(penstock_pread(cf_file, buf, w->span, w->base, NULL) == (int64_t)w->span);
	T_CHECK(!memcmp(buf, model, w->span));
	free(model);
	free(buf);
	return msg;
}

static void run_hammers(unsigned nr, unsigned rounds)
{
	enum { SPAN = 100003 };
	struct worker w[16];
	void *msg[16] = {NULL};

	t_file_make(cf_path, SEED, (uint64_t)nr * SPAN);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < nr; i++) {
		w[i].nr = i;
		w[i].rounds = rounds;
		w[i].base = (uint64_t)i * SPAN;
		w[i].span = SPAN;
		w[i].own_path = i & 1;
		snprintf(w[i].path, sizeof(w[i].path), "%s", cf_path);
		T_EQ(pthread_create(&w[i].thread, NULL, hammer, &w[i]), 0);
	}
	for (unsigned i = 0; i < nr; i++)
		pthread_join(w[i].thread, &msg[i]);
	for (unsigned i = 0; i < nr; i++)
		T_JOINED(msg[i]);
	T_EQ(t_file_size(cf_path), (uint64_t)nr * SPAN);
}

static void two_threads_share_a_handle(void)
{
	run_hammers(2, 100);
}

static void sixteen_threads_hammer_a_handle(void)
{
	run_hammers(16, T_TSAN || T_ASAN ? 10 : 25);
}

/* ------------------------------------------- results of many, by whoever asks */

enum { MANY = 16, BATCH = 8, ROUNDS = T_TSAN ? 20 : 60 };

static atomic_uint seen[MANY * ROUNDS * BATCH];
static atomic_uint nr_seen;

static void *take_what_comes(unsigned min, struct penstock_done *d)
{
	int n = penstock_wait_any(cf_io, d, min, BATCH, T_NO_LIMIT);

	T_CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		T_CHECK(d[i].res == 100 + (int64_t)d[i].tag % 3000 || d[i].res == -ECANCELED);
		T_CHECK(atomic_fetch_add(&seen[d[i].tag], 1) == 0);
		atomic_fetch_add(&nr_seen, 1);
	}
	return NULL;
}

static void *submit_and_take(void *arg)
{
	const struct worker *w = arg;
	struct penstock_done *d = calloc(BATCH, sizeof(*d));
	unsigned char *buf = malloc(ROUNDS * BATCH * KIB(4)); /* any may be in flight long */
	struct penstock_random rnd;
	void *msg = NULL;

	penstock_random_seed(&rnd, w->nr);
	for (unsigned r = 0; r < ROUNDS && !msg; r++) {
		struct penstock_op ops[BATCH];
		uint64_t tickets[BATCH];
		unsigned n = 1 + (unsigned)penstock_random_below(&rnd, BATCH);

		for (unsigned i = 0; i < BATCH; i++) {
			uint64_t tag = (w->nr * ROUNDS + r) * BATCH + i;

			ops[i] = cf_op(PENSTOCK_READ, buf + (r * BATCH + i) * KIB(4),
				       100 + tag % 3000, tag);
			ops[i].tag = tag;
		}
		T_CHECK(penstock_submit(cf_io, ops, n, tickets, NULL) == (int)n);
		T_CHECK(penstock_submit(cf_io, ops + n, BATCH - n, tickets + n, NULL) ==
			(int)(BATCH - n));
		if (r % 3 == 0) /* it may be another thread's by now, or nobody's */
			penstock_cancel(cf_io, tickets[penstock_random_below(&rnd, BATCH)]);
		msg = take_what_comes((unsigned)penstock_random_below(&rnd, BATCH + 1), d);
	}
	while (!msg && atomic_load(&nr_seen) < T_COUNT(seen))
		msg = take_what_comes(1, d);
	free(buf);
	free(d);
	return msg;
}

static void results_go_to_whoever_asks_and_to_nobody_twice(void)
{
	struct penstock_opts o = cf_opts();
	struct worker w[MANY];
	void *msg[MANY] = {NULL};

	o.threads = 3;
	o.depth = 4;
	memset(seen, 0, sizeof(seen));
	atomic_store(&nr_seen, 0);
	t_file_make(cf_path, SEED, MIB(1));
	cf_open(&o);
	cf_file_open(O_RDONLY);
	for (unsigned i = 0; i < MANY; i++) {
		w[i].nr = i;
		T_EQ(pthread_create(&w[i].thread, NULL, submit_and_take, &w[i]), 0);
	}
	for (unsigned i = 0; i < MANY; i++)
		pthread_join(w[i].thread, &msg[i]);
	for (unsigned i = 0; i < MANY; i++)
		T_JOINED(msg[i]);
	for (unsigned i = 0; i < T_COUNT(seen); i++)
		T_EQ(atomic_load(&seen[i]), 1);
}

/*
 * What it gets may be another's, and its own still under way: the memory is everybody's until
 * all is over, and no two operations have the same.
 */
enum { ASKERS = 4, ASKED = (T_TSAN ? 200 : 800) };

static unsigned char asked[ASKERS][ASKED][BATCH];

static void *ask_for_as_many(void *arg)
{
	const struct worker *w = arg;
	struct penstock_op ops[BATCH];
	struct penstock_done *d = calloc(BATCH, sizeof(*d));

	for (unsigned r = 0; r < ASKED; r++) {
		for (unsigned i = 0; i < BATCH; i++)
			ops[i] = cf_op(PENSTOCK_READ, &asked[w->nr][r][i], 1, w->nr);
		T_CHECK(penstock_submit(cf_io, ops, BATCH, NULL, NULL) == BATCH);
		T_CHECK(penstock_wait_any(cf_io, d, BATCH, BATCH, T_NO_LIMIT) == BATCH);
	}
	free(d);
	return NULL;
}

/* Whosever results they are: nobody is sent away while there are others under way. */
static void who_asks_for_as_many_as_it_submitted_gets_them(void)
{
	struct worker w[ASKERS];
	void *msg[ASKERS] = {NULL};

	t_file_make(cf_path, SEED, 10);
	cf_open(NULL);
	cf_file_open(O_RDONLY);
	for (unsigned i = 0; i < T_COUNT(w); i++) {
		w[i].nr = i;
		T_EQ(pthread_create(&w[i].thread, NULL, ask_for_as_many, &w[i]), 0);
	}
	for (unsigned i = 0; i < T_COUNT(w); i++)
		pthread_join(w[i].thread, &msg[i]);
	for (unsigned i = 0; i < T_COUNT(w); i++)
		T_JOINED(msg[i]);
}

static void *ask_for_two(void *arg)
{
	struct penstock_done *d = calloc(2, sizeof(*d));
	int n = penstock_wait_any(cf_io, d, 2, 2, T_NO_LIMIT);

	(void)arg;
	free(d);
	T_CHECK(n == 2);
	return NULL;
}

static void *submit_one_byte(void *arg)
{
	struct penstock_op op = cf_op(PENSTOCK_READ, arg, 1, 0);

	T_CHECK(penstock_submit(cf_io, &op, 1, NULL, NULL) == 1);
	return NULL;
}

/* One result at a time, of others: who wants two may not put the first aside for itself. */
static void who_asks_for_one_is_not_kept_waiting_by_who_asks_for_more(void)
{
	static unsigned char byte[12];
	struct penstock_opts o = cf_opts();
	struct penstock_done d;
	pthread_t two, one;
	void *msg;

	o.threads = 2;
	t_file_make(cf_path, SEED, 10);
	cf_open(&o);
	cf_file_open(O_RDONLY);
	cf_gate_shut(); /* so that there is always something to wait for */
	T_EQ(pthread_create(&two, NULL, ask_for_two, NULL), 0);
	for (unsigned i = 0; i < T_COUNT(byte); i++) {
		T_EQ(pthread_create(&one, NULL, submit_one_byte, &byte[i]), 0);
		pthread_join(one, &msg);
		T_JOINED(msg);
		if (i + 2 < T_COUNT(byte))
			T_EQ(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT), 1);
	}
	pthread_join(two, &msg);
	T_JOINED(msg);
	cf_gate_open();
}

/* It looks around for microseconds before it sleeps, and then it sleeps. */
static void an_idle_handle_uses_no_processor(void)
{
	struct penstock_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	struct penstock_opts o = cf_opts();
	unsigned char byte;

	o.threads = 4;
	cf_open(&o);
	t_file_make(cf_path, SEED, 10);
	cf_file_open(O_RDONLY);
	for (unsigned i = 0; i < 100; i++) {
		struct penstock_op op = cf_op(PENSTOCK_READ, &byte, 1, 0);

		CF_DO(&op, 1, 1);
	}
	/* On a busy machine its threads may come to rest later; what does not sleep never does. */
	for (unsigned i = 0; i < 10; i++) {
		T_EQ(penstock_get_stats(cf_io, &before), 0);
		usleep(200000);
		T_EQ(penstock_get_stats(cf_io, &after), 0);
		if (after.cpu_ns - before.cpu_ns < 20000000)
			break;
	}
	T_OK(after.cpu_ns - before.cpu_ns < 20000000);
}

struct leaver {
	unsigned char *buf;
	uint64_t len;
	uint64_t ticket;
};

static void *submit_and_leave(void *arg)
{
	struct leaver *l = arg;
	struct penstock_op op = cf_op(PENSTOCK_WRITE, l->buf, l->len, 0);

	T_CHECK(penstock_submit(cf_io, &op, 1, &l->ticket, NULL) == 1);
	return NULL;
}

static void a_thread_may_leave_before_its_work_is_done(void)
{
	struct leaver l = {malloc(MIB(4)), MIB(4), 0};
	struct penstock_done d;

	T_OK(l.buf);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 10; i++) {
		pthread_t t;
		void *msg;

		penstock_pattern_fill(l.buf, l.len, i, 0);
		T_EQ(pthread_create(&t, NULL, submit_and_leave, &l), 0);
		pthread_join(t, &msg);
		T_JOINED(msg);
		T_EQ(penstock_wait(cf_io, l.ticket, T_NO_LIMIT, &d), 0);
		T_EQ(d.res, l.len);
		T_FILE_PATTERN(cf_path, i, l.len);
	}
	free(l.buf);
}

/* The handle is used by a thread that did not open it, and closed by a third. */
static void *close_handle(void *arg)
{
	T_CHECK(penstock_close(arg, NULL) == 0);
	return NULL;
}

static void a_handle_belongs_to_no_thread(void)
{
	static unsigned char buf[1 << 20];
	struct leaver l = {buf, sizeof(buf), 0};
	pthread_t t;
	void *msg;

	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	penstock_pattern_fill(buf, sizeof(buf), SEED, 0);
	T_EQ(pthread_create(&t, NULL, submit_and_leave, &l), 0);
	pthread_join(t, &msg);
	T_JOINED(msg);
	T_EQ(pthread_create(&t, NULL, close_handle, cf_io), 0);
	pthread_join(t, &msg);
	cf_io = NULL;
	T_JOINED(msg);
	T_FILE_PATTERN(cf_path, SEED, sizeof(buf));
}

/* -------------------------------------------------------------------- fork */

#define IN_CHILD(cond)                             \
	do {                                       \
		if (!(cond))                       \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void child_uses_the_handle(uint64_t ticket)
{
	unsigned char buf[100];
	struct penstock_op op = cf_op(PENSTOCK_READ, buf, sizeof(buf), 0);
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_err err = {0, ""};
	struct penstock_summary sum;
	struct penstock_file *f = NULL;
	struct penstock_done d;
	void *p = NULL;

	IN_CHILD(penstock_submit(cf_io, &op, 1, NULL, &err) == -ECHILD);
	IN_CHILD(err.code == -ECHILD && err.msg[0]);
	IN_CHILD(penstock_run(cf_io, &op, &d, NULL) == -ECHILD);
	IN_CHILD(penstock_pread(cf_file, buf, 1, 0, NULL) == -ECHILD);
	IN_CHILD(penstock_pwrite(cf_file, buf, 1, 0, NULL) == -ECHILD);
	IN_CHILD(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d) == -ECHILD);
	IN_CHILD(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT) == -ECHILD);
	IN_CHILD(penstock_wait_all(cf_io, T_NO_LIMIT, &sum) == -ECHILD);
	IN_CHILD(penstock_cancel(cf_io, ticket) == -ECHILD);
	IN_CHILD(penstock_file_open(&f, cf_io, cf_path, O_RDONLY, 0, NULL) == -ECHILD);
	IN_CHILD(penstock_file_from_fd(&f, cf_io, 0, NULL) == -ECHILD);
	IN_CHILD(penstock_file_stat(cf_file, &info) == -ECHILD);
	IN_CHILD(penstock_buf_alloc(&p, cf_io, 4096, 0, NULL, NULL) == -ECHILD);
	IN_CHILD(penstock_buf_register(cf_io, buf, 100, 0, NULL, NULL) == -ECHILD);
	IN_CHILD(penstock_buf_unregister(cf_io, buf) == -ECHILD);
	IN_CHILD(penstock_get_stats(cf_io, &st) == -ECHILD);
	IN_CHILD(!f && !p);
	penstock_close(cf_io, NULL);
	if (!T_TSAN) { /* which dies when a forked child makes threads */
		struct penstock_opts o = cf_opts();

		cf_io = NULL;
		IN_CHILD(penstock_open(&cf_io, &o, &err) == 0);
		op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);
		IN_CHILD(penstock_submit(cf_io, &op, 1, &ticket, NULL) == 1);
		IN_CHILD(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d) == 0);
		IN_CHILD(d.res == sizeof(buf));
		IN_CHILD(penstock_close(cf_io, NULL) == 0);
	}
	_exit(0);
}

static void fork_leaves_the_handle_with_the_parent(void)
{
	enum { NR = 16, LEN = 1 << 20 };
	unsigned char *buf = malloc(NR * LEN);
	uint64_t tickets[NR];
	struct penstock_done d;
	int status;

	if (t_is_emulated())
		T_SKIP("fork", "a child of several threads hangs in the emulator");
	T_OK(buf);
	cf_open(NULL);
	t_file_make(cf_path, SEED, 1000);
	cf_file_open(O_RDWR);
	penstock_pattern_fill(buf, NR * LEN, SEED, 0);
	for (unsigned round = 0; round < 3; round++) {
		pid_t pid;

		for (unsigned i = 0; i < NR; i++) {
			struct penstock_op op =
				cf_op(PENSTOCK_WRITE, buf + i * LEN, LEN, (uint64_t)i * LEN);

			tickets[i] = cf_submit(&op);
		}
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			child_uses_the_handle(tickets[0]);
		T_OK(pid > 0);
		for (unsigned i = 0; i < NR; i++) {
			T_EQ(penstock_wait(cf_io, tickets[i], T_NO_LIMIT, &d), 0);
			T_EQ(d.res, LEN);
		}
		T_EQ(waitpid(pid, &status, 0), pid);
		if (status)
			T_FAIL("the child ended with 0x%x: line %d modulo 250", status,
			       WEXITSTATUS(status) - 1);
		T_FILE_PATTERN(cf_path, SEED, NR * LEN);
		T_EQ(penstock_pread(cf_file, buf, 1000, 0, NULL), 1000);
	}
	cf_close(0);
	free(buf);
}

/* ----------------------------------------------------------------- signals */

static _Atomic unsigned alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void signals_interrupt_nothing(void)
{
	enum { LEN = 3000001 };
	struct sigaction act = {.sa_handler = on_alarm}, old; /* no SA_RESTART */
	struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	unsigned char *buf = malloc(LEN), *want = malloc(LEN);
	struct penstock_op op;
	unsigned before = alarms;

	T_OK(buf && want);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &every, NULL);
	for (unsigned i = 0; i < 1000 && (i < 12 || alarms - before < 50); i++) {
		penstock_pattern_fill(want, LEN, i, 0);
		op = cf_op(PENSTOCK_WRITE, want, LEN, i & 4 ? 0 : 3);
		CF_DO(&op, LEN, i);
		op = cf_op(PENSTOCK_READ, buf, LEN, op.offset);
		CF_DO(&op, LEN, i / 2);
		T_MEM(buf, want, LEN);
		op = cf_op(PENSTOCK_WRITE, want, 777, 1);
		CF_DO(&op, 777, i);
		op = cf_path_op(PENSTOCK_WRITE, cf_path, want, 100, 1);
		op.flags = PENSTOCK_OP_DATASYNC;
		CF_DO(&op, 100, i);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &old, NULL);
	T_OK(alarms - before >= 50);
	cf_close(0);
	free(buf);
	free(want);
}

/* Opening and closing handles under the same rain. */
static void signals_do_not_disturb_open_and_close(void)
{
	struct sigaction act = {.sa_handler = on_alarm}, old;
	struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	unsigned char buf[5000];
	unsigned before = alarms;
	int fds;

	t_file_make(cf_path, SEED, sizeof(buf));
	fds = t_nr_fds();
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &every, NULL);
	for (unsigned i = 0; i < 2000 && (i < 30 || alarms - before < 50); i++) {
		struct penstock_op op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);

		cf_open(NULL);
		CF_DO(&op, sizeof(buf), i);
		cf_submit(&op);
		cf_close(0);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &old, NULL);
	T_OK(alarms - before >= 50);
	T_EQ(t_nr_fds(), fds);
}

/* The library leaves masks and handlers of the caller alone. */
static void signal_masks_and_handlers_stay_as_they_were(void)
{
	unsigned char buf[5000];
	struct penstock_op op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);
	struct sigaction acts[NSIG], now;
	sigset_t mask, mask_now;

	t_file_make(cf_path, SEED, sizeof(buf));
	for (int s = 1; s < NSIG; s++)
		sigaction(s, NULL, &acts[s]);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (unsigned i = 0; i < 2; i++) {
		cf_open(NULL);
		CF_DO(&op, sizeof(buf), i);
		if (i)
			cf_close(0);
		for (int s = 1; s < NSIG; s++) {
			if (sigaction(s, NULL, &now) < 0)
				continue;
			T_OK(now.sa_handler == acts[s].sa_handler);
		}
		pthread_sigmask(SIG_SETMASK, NULL, &mask_now);
		for (int s = 1; s < NSIG; s++)
			T_EQ(sigismember(&mask_now, s), sigismember(&mask, s));
		if (!i)
			cf_close(0);
	}
}

/* ------------------------------------------------------------------ limits */

static void a_file_size_limit_is_an_error_with_the_bytes_written(void)
{
	static unsigned char buf[1 << 20];
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old_act;
	struct rlimit old, low;

	penstock_pattern_fill(buf, sizeof(buf), SEED, 0);
	cf_open(NULL);
	T_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	sigaction(SIGXFSZ, &ignore, &old_act);
	for (unsigned i = 0; i < 4; i++) {
		struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);
		struct penstock_done d = {.res = 0};
		int r;

		unlink(cf_path);
		op.len = i & 2 ? sizeof(buf) : sizeof(buf) - 1;
		low = old;
		low.rlim_cur = 300000;
		T_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
		if (i & 1) {
			uint64_t ticket;

			r = penstock_submit(cf_io, &op, 1, &ticket, NULL);
			if (r == 1)
				r = penstock_wait(cf_io, ticket, T_NO_LIMIT, &d);
		} else {
			r = penstock_run(cf_io, &op, &d, NULL);
		}
		T_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
		if (r == 0) {
			T_EQ(d.res, -EFBIG);
			T_OK(d.bytes <= 300000);
			T_FILE_PATTERN(cf_path, SEED, d.bytes);
		} else { /* it was known beforehand */
			T_EQ(r, -EFBIG);
			T_OK(t_file_size(cf_path) <= 0);
		}
	}
	sigaction(SIGXFSZ, &old_act, NULL);
}

static const struct t_case cases[] = {
	T_CASE(two_threads_share_a_handle),
	T_CASE(sixteen_threads_hammer_a_handle),
	T_CASE(results_go_to_whoever_asks_and_to_nobody_twice),
	T_CASE(who_asks_for_as_many_as_it_submitted_gets_them),
	T_CASE(who_asks_for_one_is_not_kept_waiting_by_who_asks_for_more),
	T_CASE(an_idle_handle_uses_no_processor),
	T_CASE(a_thread_may_leave_before_its_work_is_done),
	T_CASE(a_handle_belongs_to_no_thread),
	T_CASE(fork_leaves_the_handle_with_the_parent),
	T_CASE(signals_interrupt_nothing),
	T_CASE(signals_do_not_disturb_open_and_close),
	T_CASE(signal_masks_and_handlers_stay_as_they_were),
	T_CASE(a_file_size_limit_is_an_error_with_the_bytes_written),
};

const struct t_group cf_together = {
	"together", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
