/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, tickets: waiting for one, any, all; callbacks; cancelling; closing. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "conformance.h"

enum { SEED = 21, SIZE = 1 << 20 };

static unsigned char data[SIZE];
static const int64_t second = 1000000000;

static void open_one_thread(void)
{
	struct penstock_opts o = cf_opts();

	o.threads = 1;
	cf_open(&o);
	t_file_make(cf_path, SEED, SIZE);
	cf_file_open(O_RDWR);
}

static struct penstock_op small_read(unsigned i)
{
	struct penstock_op op =
		cf_op(PENSTOCK_READ, data + 4096 * (i % 256), 1000, 4096 * (i % 256));

	op.tag = 1000 + i;
	return op;
}

/* ----------------------------------------------------------------- waiting */

static void each_ticket_brings_its_own_result_once(void)
{
	enum { NR = 50 };
	uint64_t tickets[NR];
	struct penstock_op ops[NR];
	struct penstock_done d;

	open_one_thread();
	for (unsigned i = 0; i < NR; i++) {
		ops[i] = small_read(i);
		ops[i].len = 100 + i;
	}
	T_EQ(penstock_submit(cf_io, ops, NR, tickets, NULL), NR);
	for (unsigned i = 0; i < NR; i++)
		for (unsigned k = 0; k < i; k++)
			T_OK(tickets[i] != tickets[k]);
	for (unsigned n = 0; n < NR; n++) {
		unsigned i = n * 7 % NR;

		T_OK(tickets[i]);
		T_EQ(penstock_wait(cf_io, tickets[i], T_NO_LIMIT, &d), 0);
		T_OK(d.ticket == tickets[i]);
		T_EQ(d.tag, 1000 + i);
		T_EQ(d.res, 100 + i);
		T_EQ(d.bytes, 100 + i);
		T_EQ(penstock_wait(cf_io, tickets[i], T_NO_LIMIT, &d), -ENOENT);
	}
}

static void unknown_and_used_tickets_are_not_found(void)
{
	struct penstock_op op;
	struct penstock_done d;
	uint64_t old[10];

	open_one_thread();
	T_EQ(penstock_wait(cf_io, 0, T_NO_LIMIT, &d), -ENOENT);
	T_EQ(penstock_wait(cf_io, 1, T_NO_LIMIT, &d), -ENOENT);
	T_EQ(penstock_wait(cf_io, UINT64_MAX, 0, &d), -ENOENT);
	T_EQ(penstock_cancel(cf_io, 12345), -ENOENT);
	for (unsigned i = 0; i < 10; i++) {
		op = small_read(i);
		old[i] = cf_submit(&op);
		T_EQ(penstock_wait(cf_io, old[i], T_NO_LIMIT, &d), 0);
	}
	for (unsigned i = 0; i < 3000; i++) { /* the places they had are used again */
		op = small_read(i);
		cf_async(&op);
	}
	op = small_read(0);
	cf_submit(&op);
	for (unsigned i = 0; i < 10; i++) {
		T_EQ(penstock_wait(cf_io, old[i], 0, &d), -ENOENT);
		T_EQ(penstock_cancel(cf_io, old[i]), -ENOENT);
	}
}

static void a_wait_ends_at_its_timeout(void)
{
	struct penstock_op op;
	struct penstock_done d[2];
	struct penstock_summary sum;
	uint64_t ticket;

	open_one_thread();
	cf_gate_shut();
	op = small_read(3);
	ticket = cf_submit(&op);
	T_EQ(penstock_wait(cf_io, ticket, 0, d), -ETIMEDOUT);
	T_EQ(penstock_wait(cf_io, ticket, 1000000, d), -ETIMEDOUT);
	T_EQ(penstock_wait_any(cf_io, d, 1, 2, 0), 0);
	T_EQ(penstock_wait_any(cf_io, d, 1, 2, 1000000), 0);
	T_EQ(penstock_wait_all(cf_io, 0, &sum), -ETIMEDOUT);
	T_EQ(penstock_wait_all(cf_io, 1000000, &sum), -ETIMEDOUT);
	cf_gate_open();
	T_EQ(penstock_wait(cf_io, ticket, 3600 * second, d), 0);
	T_EQ(d[0].res, 1000);
	T_EQ(d[0].tag, 1003);
}

static void timeouts_of_any_size_are_understood(void)
{
	struct penstock_op op;
	struct penstock_done d;

	open_one_thread();
	for (unsigned i = 0; i < 4; i++) {
		static const int64_t ns[] = {INT64_MAX, INT64_MIN, -2, 5000000000};

		op = small_read(i);
		T_EQ(penstock_wait(cf_io, cf_submit(&op), ns[i], &d), 0);
		cf_submit(&op);
		T_EQ(penstock_wait_any(cf_io, &d, 1, 1, ns[i]), 1);
		cf_submit(&op);
		T_EQ(penstock_wait_all(cf_io, ns[i], NULL), 0);
	}
}

static void waiting_for_nothing_returns_at_once(void)
{
	struct penstock_summary sum = {.ops = 77};
	struct penstock_done d;

	open_one_thread();
	for (unsigned i = 0; i < 2; i++) {
		T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
		T_EQ(sum.ops, 0);
		T_EQ(sum.failed, 0);
		T_EQ(sum.bytes, 0);
		T_EQ(sum.first, 0);
		T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, NULL), 0);
		T_EQ(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT), 0);
		T_EQ(penstock_wait_any(cf_io, &d, 0, 1, T_NO_LIMIT), 0);
	}
}

static void any_collects_between_min_and_max(void)
{
	enum { NR = 40 };
	struct penstock_op op;
	struct penstock_done d[NR];
	bool seen[NR] = {false};
	unsigned got = 0;

	open_one_thread();
	for (unsigned i = 0; i < NR; i++) {
		op = small_read(i);
		cf_submit(&op);
	}
	while (got < NR) {
		unsigned min = got % 4, max = min + 2;
		int n = penstock_wait_any(cf_io, d, min, max, T_NO_LIMIT);

		T_OK(n >= (int)(min > NR - got ? NR - got : min) && n <= (int)max);
		for (int k = 0; k < n; k++) {
			T_OK(d[k].tag >= 1000 && d[k].tag < 1000 + NR);
			T_OK(!seen[d[k].tag - 1000]);
			seen[d[k].tag - 1000] = true;
			T_EQ(d[k].res, 1000);
			T_EQ(penstock_wait(cf_io, d[k].ticket, 0, &d[k]), -ENOENT);
		}
		got += (unsigned)n;
	}
	T_EQ(penstock_wait_any(cf_io, d, 1, NR, T_NO_LIMIT), 0);
}

/* With one in flight at a time the order of finishing is known. */
static void any_collects_in_the_order_of_finishing(void)
{
	enum { NR = 30 };
	struct penstock_op op;
	struct penstock_done d[NR];

	open_one_thread();
	for (unsigned i = 0; i < NR; i++) {
		op = small_read(i);
		cf_submit(&op);
		T_EQ(penstock_file_close(cf_file, NULL), 0); /* waits for it */
		cf_file_open(O_RDWR);
	}
	T_EQ(penstock_wait_any(cf_io, d, NR, NR, T_NO_LIMIT), NR);
	for (unsigned i = 0; i < NR; i++)
		T_EQ(d[i].tag, 1000 + i);
}

static void all_adds_up_what_it_collected(void)
{
	struct penstock_op ops[5];
	struct penstock_summary sum;

	if (cf_null)
		T_SKIP("data", "the null engine never meets the end of a file");
	open_one_thread();
	for (unsigned i = 0; i < 5; i++)
		ops[i] = small_read(i);
	ops[1].offset = SIZE - 100;
	ops[1].flags = PENSTOCK_OP_EXACT;
	ops[3] = ops[1];
	T_EQ(penstock_submit(cf_io, ops, 5, NULL, NULL), 5);
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
	T_EQ(sum.ops, 5);
	T_EQ(sum.failed, 2);
	T_EQ(sum.first, -ENODATA);
	T_OK(sum.bytes >= 3000 && sum.bytes <= 3200);
	T_STR_HAS(sum.msg, cf_path);
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
	T_EQ(sum.ops, 0);
	T_EQ(sum.first, 0);
	cf_close(0); /* all failures have been seen */
}

struct waiter {
	uint64_t ticket;
	sem_t started;
	_Atomic pid_t tid;
};

static void *wait_for_ticket(void *arg)
{
	struct waiter *w = arg;
	struct penstock_done d;

	w->tid = (pid_t)syscall(SYS_gettid);
	sem_post(&w->started);
	T_CHECK(penstock_wait(cf_io, w->ticket, T_NO_LIMIT, &d) == 0);
	T_CHECK(d.ticket == w->ticket);
	T_CHECK(d.res == 1000);
	return NULL;
}

/* Until the kernel shows the thread asleep; the only place it sleeps in is the wait. */
static void until_asleep(pid_t tid)
{
	char path[64], line[512], *p;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	for (;;) {
		FILE *f = fopen(path, "re");

		T_OK(f);
		p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		fclose(f);
		if (p && p[2] == 'S')
			return;
		sched_yield();
	}
}

static void all_leaves_results_others_wait_for(void)
{
	struct penstock_summary sum;
	struct penstock_op op;
	struct waiter w = {.ticket = 0};
	pthread_t thread;
	void *msg;

	open_one_thread();
	cf_gate_shut();
	op = small_read(1);
	w.ticket = cf_submit(&op);
	op = small_read(2);
	cf_submit(&op);
	sem_init(&w.started, 0, 0);
	T_EQ(pthread_create(&thread, NULL, wait_for_ticket, &w), 0);
	sem_wait(&w.started);
	until_asleep(w.tid);
	cf_gate_open();
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
	pthread_join(thread, &msg);
	T_JOINED(msg);
	T_EQ(sum.ops, 1);
	T_EQ(sum.bytes, 1000);
}

/* -------------------------------------------------------------- submitting */

static void more_operations_than_the_queue_holds_are_taken(void)
{
	enum { NR = 5000 };
	struct penstock_opts o = cf_opts();
	struct penstock_op *ops = calloc(NR, sizeof(*ops));
	uint64_t *tickets = calloc(NR, sizeof(*tickets));
	unsigned char *mem = calloc(NR, 1000);
	struct penstock_done d;

	T_OK(ops && tickets && mem);
	o.depth = 2;
	cf_open(&o);
	t_file_make(cf_path, SEED, SIZE);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < NR; i++) {
		ops[i] = small_read(i);
		ops[i].buf = mem + i * 1000;
	}
	T_EQ(penstock_submit(cf_io, ops, NR, tickets, NULL), NR);
	for (unsigned i = 0; i < NR; i++) {
		T_EQ(penstock_wait(cf_io, tickets[i], T_NO_LIMIT, &d), 0);
		T_EQ(d.res, 1000);
		T_EQ(d.tag, 1000 + i);
	}
	for (unsigned i = 0; i < NR && !cf_null; i++)
		T_EQ(penstock_pattern_check(mem + i * 1000, 1000, SEED, ops[i].offset), 1000);
	free(mem);
	free(ops);
	free(tickets);
}

static void operations_before_a_bad_one_are_taken(void)
{
	struct penstock_op ops[4];
	uint64_t tickets[4] = {7, 7, 7, 7};
	struct penstock_err err = {0, ""};
	struct penstock_summary sum;

	open_one_thread();
	for (unsigned i = 0; i < 4; i++)
		ops[i] = small_read(i);
	ops[2].opcode = 99;
	T_EQ(penstock_submit(cf_io, ops, 4, tickets, &err), 2);
	T_OK(tickets[0] != 7 && tickets[1] != 7 && tickets[2] == 7 && tickets[3] == 7);
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
	T_EQ(sum.ops, 2);
	T_ERR(penstock_submit(cf_io, ops + 2, 2, tickets, &err), -EINVAL, &err);
	T_EQ(penstock_submit(cf_io, ops, 0, NULL, &err), 0);
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
	T_EQ(sum.ops, 0);
}

static void fields_out_of_range_are_refused(void)
{
	struct penstock_op bad[6];
	struct penstock_iov iov[2] = {{data, 10}, {NULL, 10}};
	struct penstock_err err = {0, ""};
	struct penstock_done d;

	open_one_thread();
	for (unsigned i = 0; i < 6; i++)
		bad[i] = small_read(i);
	bad[0].opcode = 0;
	bad[1].opcode = 4;
	bad[2].flags = 0x80000000u;
	bad[3].buf = NULL;
	bad[4].nr_iov = 1; /* and no list */
	bad[5].nr_iov = 2;
	bad[5].iov = iov;
	for (unsigned i = 0; i < 6; i++) {
		int want = bad[i].opcode == PENSTOCK_READ && !bad[i].flags && i != 4 ? -EFAULT
										     : -EINVAL;

		T_ERR(penstock_submit(cf_io, &bad[i], 1, NULL, &err), want, &err);
		T_ERR(penstock_run(cf_io, &bad[i], &d, &err), want, &err);
		T_EQ(penstock_submit(cf_io, &bad[i], 1, NULL, NULL), want);
	}
}

/* --------------------------------------------------------------- callbacks */

struct chain {
	struct penstock_op op;
	_Atomic unsigned count;
	unsigned limit;
	_Atomic int bad;
	sem_t end;
	pid_t caller;
};

static void next_of_chain(void *arg, const struct penstock_done *d)
{
	struct chain *c = arg;

	if (d->res != 1000 || d->tag != c->op.tag || (pid_t)syscall(SYS_gettid) == c->caller)
		c->bad++;
	if (++c->count == c->limit) {
		sem_post(&c->end);
		return;
	}
	if (penstock_submit(cf_io, &c->op, 1, NULL, NULL) != 1) {
		c->bad++;
		sem_post(&c->end);
	}
}

static void a_callback_may_submit_more(void)
{
	struct chain c = {.limit = 1000};
	struct penstock_done d;
	uint64_t ticket = 77;

	open_one_thread();
	c.op = small_read(5);
	c.op.on_done = next_of_chain;
	c.op.arg = &c;
	c.caller = (pid_t)syscall(SYS_gettid);
	sem_init(&c.end, 0, 0);
	T_EQ(penstock_submit(cf_io, &c.op, 1, &ticket, NULL), 1);
	T_EQ(ticket, 0);
	while (sem_wait(&c.end) < 0)
		;
	T_EQ(c.count, 1000);
	T_EQ(c.bad, 0);
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, NULL), 0);
	T_EQ(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT), 0); /* nothing was kept */
	if (!cf_null)
		T_EQ(penstock_pattern_check(c.op.buf, 1000, SEED, c.op.offset), 1000);
}

struct tally {
	_Atomic unsigned calls[64];
	_Atomic int bad;
};

struct tally_one {
	struct tally *t;
	unsigned i;
};

static void count_call(void *arg, const struct penstock_done *d)
{
	struct tally_one *one = arg;

	one->t->calls[one->i]++;
	if (d->tag != one->i || d->res != 1000)
		one->t->bad++;
}

static void each_callback_is_called_once_before_all_returns(void)
{
	struct tally t = {.bad = 0};
	struct tally_one ones[64];
	struct penstock_op ops[64];

	open_one_thread();
	for (unsigned round = 1; round <= 20; round++) {
		for (unsigned i = 0; i < 64; i++) {
			ones[i] = (struct tally_one){&t, i};
			ops[i] = small_read(i);
			ops[i].tag = i;
			ops[i].on_done = count_call;
			ops[i].arg = &ones[i];
		}
		T_EQ(penstock_submit(cf_io, ops, 64, NULL, NULL), 64);
		T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, NULL), 0);
		for (unsigned i = 0; i < 64; i++)
			T_EQ(t.calls[i], round);
	}
	T_EQ(t.bad, 0);
}

static void keep_result(void *arg, const struct penstock_done *d)
{
	*(struct penstock_done *)arg = *d;
}

static void a_callback_sees_the_failure(void)
{
	struct penstock_done d = {.res = 1};
	struct penstock_op op;

	if (cf_null)
		T_SKIP("data", "the null engine never meets the end of a file");
	open_one_thread();
	op = small_read(0);
	op.offset = SIZE - 10;
	op.flags = PENSTOCK_OP_EXACT;
	op.on_done = keep_result;
	op.arg = &d;
	cf_submit(&op);
	T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, NULL), 0);
	T_EQ(d.res, -ENODATA);
	T_EQ(d.bytes, 10);
	T_STR_HAS(d.msg, cf_path);
	cf_close(0); /* it was delivered, so it is not unseen */
}

/* ------------------------------------------------------------ small and huge */

/* A huge write, and a small one behind it in the same call; which is over first? */
static uint64_t small_behind_huge(struct penstock_op *small)
{
	static unsigned char huge[SIZE];
	struct penstock_opts o = cf_opts();
	struct penstock_op ops[2];
	struct penstock_done d[2];

	o.threads = o.depth = 1;
	o.block = 4096;
	cf_open(&o);
	t_file_make(cf_path, SEED, SIZE);
	cf_file_open(O_RDWR);
	penstock_pattern_fill(huge, SIZE, SEED + 1, 0);
	ops[0] = cf_op(PENSTOCK_WRITE, huge, SIZE, 0);
	ops[0].tag = 1;
	if (!small->path)
		small->file = cf_file;
	ops[1] = *small;
	ops[1].tag = 2;
	T_EQ(penstock_submit(cf_io, ops, 2, NULL, NULL), 2);
	T_EQ(penstock_wait_any(cf_io, d, 2, 2, T_NO_LIMIT), 2);
	T_EQ(d[0].res, ops[d[0].tag - 1].len);
	T_EQ(d[1].res, ops[d[1].tag - 1].len);
	return d[0].tag;
}

static void a_small_operation_behind_a_huge_one_is_served_within_a_few_blocks(void)
{
	static unsigned char page[4096];
	struct penstock_op op = cf_path_op(PENSTOCK_WRITE, t_path("small"), page, sizeof(page), 0);

	T_EQ(small_behind_huge(&op), 2);
	if (!cf_null)
		T_FILE_PATTERN(cf_path, SEED + 1, SIZE);
}

static void what_concerns_the_same_bytes_is_not_let_by(void)
{
	static unsigned char page[4096];
	struct penstock_op op = cf_op(PENSTOCK_WRITE, page, sizeof(page), SIZE - 4096);

	penstock_pattern_fill(page, sizeof(page), SEED + 2, 0);
	T_EQ(small_behind_huge(&op), 1);
	if (cf_null)
		return;
	T_EQ(penstock_pread(cf_file, data, SIZE, 0, NULL), SIZE);
	T_MEM(data + SIZE - 4096, page, sizeof(page));
	cf_close(0);
	op = cf_op(PENSTOCK_READ, page, sizeof(page), SIZE - 4096);
	T_EQ(small_behind_huge(&op), 1);
	T_EQ(penstock_pattern_check(page, sizeof(page), SEED + 1, SIZE - 4096), sizeof(page));
}

/* -------------------------------------------------------------- cancelling */

static void what_is_not_issued_can_be_cancelled(void)
{
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket, after;

	open_one_thread();
	cf_gate_shut();
	memset(data, 0, SIZE);
	op = cf_op(PENSTOCK_WRITE, data, SIZE, 0);
	ticket = cf_submit(&op);
	op = small_read(1);
	after = cf_submit(&op);
	T_EQ(penstock_cancel(cf_io, ticket), 0);
	cf_gate_open();
	T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
	T_EQ(d.res, -ECANCELED);
	T_EQ(d.bytes, 0);
	T_EQ(penstock_wait(cf_io, after, T_NO_LIMIT, &d), 0);
	T_EQ(d.res, 1000);
	T_FILE_PATTERN(cf_path, SEED, SIZE);
	T_EQ(penstock_cancel(cf_io, ticket), -ENOENT);
}

static void a_cancelled_write_does_not_leave_a_longer_file(void)
{
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket;

	if (cf_null)
		T_SKIP("data", "the null engine writes nothing");
	open_one_thread();
	cf_gate_shut();
	op = cf_op(PENSTOCK_WRITE, data, SIZE, SIZE);
	ticket = cf_submit(&op);
	T_EQ(penstock_cancel(cf_io, ticket), 0);
	cf_gate_open();
	T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
	T_EQ(d.res, -ECANCELED);
	T_EQ(d.bytes, 0);
	T_FILE_PATTERN(cf_path, SEED, SIZE);
}

/* Whenever it comes, the bytes said to be written are, and no others are lost. */
static void cancelling_at_any_moment_is_sound(void)
{
	enum { LEN = 1 << 19 };
	static unsigned char now[SIZE], put[LEN];
	struct penstock_opts o = cf_opts();
	unsigned cancelled = 0;

	o.block = 4096;
	cf_open(&o);
	t_file_make(cf_path, SEED, SIZE);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < 100; i++) {
		struct penstock_op op = cf_op(PENSTOCK_WRITE, put, LEN, 4096 + 7);
		struct penstock_done d;
		uint64_t ticket;
		int r;

		penstock_pattern_fill(put, LEN, 1000 + i, 0);
		ticket = cf_submit(&op);
		for (volatile unsigned k = 0; k < i * 500; k++)
			;
		r = penstock_cancel(cf_io, ticket);
		T_OK(r == 0 || r == -EALREADY);
		T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
		T_OK(d.res == LEN || d.res == -ECANCELED);
		if (r == -EALREADY)
			T_EQ(d.res, LEN);
		cancelled += d.res == -ECANCELED;
		T_OK(d.bytes <= LEN);
		if (cf_null)
			continue;
		T_EQ(penstock_pread(cf_file, now, SIZE, 0, NULL), SIZE);
		T_MEM(now + 4103, put, d.bytes);
		T_EQ(penstock_pattern_check(now, 4103, SEED, 0), 4103);
		T_EQ(penstock_pattern_check(now + 4103 + LEN, SIZE - 4103 - LEN, SEED, 4103 + LEN),
		     SIZE - 4103 - LEN);
	}
	t_note("%u of 100 were cancelled", cancelled);
}

static void a_finished_operation_cannot_be_cancelled(void)
{
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket;

	open_one_thread();
	op = small_read(0);
	ticket = cf_submit(&op);
	T_EQ(penstock_file_close(cf_file, NULL), 0); /* waits for it */
	T_EQ(penstock_cancel(cf_io, ticket), -EALREADY);
	T_EQ(penstock_wait(cf_io, ticket, 0, &d), 0);
	T_EQ(d.res, 1000);
}

/* ------------------------------------------------------------------ closing */

static void close_waits_and_nothing_is_lost(void)
{
	enum { NR = 64, LEN = 1 << 18 };
	unsigned char *buf = malloc(NR * LEN);

	T_OK(buf);
	for (unsigned round = 0; round < 3; round++) {
		cf_open(NULL);
		unlink(cf_path);
		penstock_pattern_fill(buf, NR * LEN, round, 0);
		for (unsigned i = 0; i < NR; i++) {
			struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf + i * LEN,
							   LEN, (uint64_t)i * LEN);

			cf_submit(&op);
		}
		cf_close(0);
		if (!cf_null)
			T_FILE_PATTERN(cf_path, round, NR * LEN);
	}
	free(buf);
}

static void close_reports_a_failure_nobody_saw(void)
{
	struct penstock_op op;
	struct penstock_done d;

	if (cf_null)
		T_SKIP("data", "the null engine never meets the end of a file");
	for (unsigned seen = 0; seen < 2; seen++) {
		open_one_thread();
		op = small_read(0);
		op.offset = SIZE;
		op.flags = PENSTOCK_OP_EXACT;
		cf_submit(&op);
		if (seen)
			T_EQ(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT), 1);
		cf_close(seen ? 0 : -ENODATA);
	}
}

static void close_waits_for_callbacks(void)
{
	struct chain c = {.limit = 100};

	open_one_thread();
	c.op = small_read(5);
	c.op.on_done = next_of_chain;
	c.op.arg = &c;
	sem_init(&c.end, 0, 0);
	cf_submit(&c.op);
	while (sem_wait(&c.end) < 0)
		;
	cf_close(0);
	T_EQ(c.count, 100);
	T_EQ(c.bad, 0);
}

static void closing_nothing_is_allowed(void)
{
	struct penstock_err err = {0, ""};

	T_EQ(penstock_close(NULL, &err), 0);
	T_EQ(penstock_close(NULL, NULL), 0);
	cf_open(NULL);
	cf_close(0); /* never used */
}

static void closing_a_file_waits_for_its_operations(void)
{
	static unsigned char put[SIZE];
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket;

	for (unsigned i = 0; i < 10; i++) {
		if (!cf_io)
			open_one_thread();
		else
			cf_file_open(O_RDWR);
		penstock_pattern_fill(put, SIZE, SEED + i, 0);
		op = cf_op(PENSTOCK_WRITE, put, SIZE, 0);
		ticket = cf_submit(&op);
		T_EQ(penstock_file_close(cf_file, NULL), 0);
		if (!cf_null)
			T_FILE_PATTERN(cf_path, SEED + i, SIZE);
		T_EQ(penstock_wait(cf_io, ticket, 0, &d), 0);
		T_EQ(d.res, SIZE);
	}
}

static const struct t_case cases[] = {
	T_CASE(each_ticket_brings_its_own_result_once),
	T_CASE(unknown_and_used_tickets_are_not_found),
	T_CASE(a_wait_ends_at_its_timeout),
	T_CASE(timeouts_of_any_size_are_understood),
	T_CASE(waiting_for_nothing_returns_at_once),
	T_CASE(any_collects_between_min_and_max),
	T_CASE(any_collects_in_the_order_of_finishing),
	T_CASE(all_adds_up_what_it_collected),
	T_CASE(all_leaves_results_others_wait_for),
	T_CASE(more_operations_than_the_queue_holds_are_taken),
	T_CASE(operations_before_a_bad_one_are_taken),
	T_CASE(fields_out_of_range_are_refused),
	T_CASE(a_callback_may_submit_more),
	T_CASE(each_callback_is_called_once_before_all_returns),
	T_CASE(a_callback_sees_the_failure),
	T_CASE(a_small_operation_behind_a_huge_one_is_served_within_a_few_blocks),
	T_CASE(what_concerns_the_same_bytes_is_not_let_by),
	T_CASE(what_is_not_issued_can_be_cancelled),
	T_CASE(a_cancelled_write_does_not_leave_a_longer_file),
	T_CASE(cancelling_at_any_moment_is_sound),
	T_CASE(a_finished_operation_cannot_be_cancelled),
	T_CASE(close_waits_and_nothing_is_lost),
	T_CASE(close_reports_a_failure_nobody_saw),
	T_CASE(close_waits_for_callbacks),
	T_CASE(closing_nothing_is_allowed),
	T_CASE(closing_a_file_waits_for_its_operations),
};

const struct t_group cf_tickets = {
	"tickets", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
