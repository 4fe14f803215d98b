/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers take operations that are ready and carry them one step further; what they give to the
 * handle they gather, so that many keys are one call.  They also watch the deadlines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/gpu.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

enum {
	AT_ONCE = 32, /* operations taken from the queue */
	COPY_STEP = 64 << 10,
	CHECK_STEP = 1 << 20, /* of a CRC, between two looks at the deadlines */
	SIGNAL_NS = 100000,
};

/* --------------------------------------------------------------- transfers */

static void end_transfer(struct store_op *op)
{
	struct penstock_store *s = op->batch->store;

	if (atomic_fetch_sub(&op->transfers, 1) != 1)
		return;
	if (op->state == STORE_OP_WRITE)
		store_queue_commit(s, op);
	else
		store_queue_op(s, op);
}

static void fail_transfer(struct store_op *op, int code)
{
	int none = 0;

	atomic_compare_exchange_strong(&op->error, &none, code);
}

/* From an I/O thread. */
static void worker_transfer_done(void *arg, const struct penstock_done *done)
{
	struct store_op *op = arg;

	if (done->res < 0) {
		fail_transfer(op, store_quota_to_nospc((int)done->res));
		store_report_error(op->batch->store, (int)done->res, NULL, done->bytes, done->msg);
	}
	if (op->state == STORE_OP_READ || op->state == STORE_OP_WRITE)
		atomic_fetch_sub(&op->batch->store->dirs[op->entry->dir].in_flight, done->tag);
	end_transfer(op);
}

static void worker_flush(struct store_worker *w)
{
	struct penstock_err err;
	unsigned at = 0;
	int n;

	while (at < w->nr_ops) {
		n = penstock_submit(w->store->io, w->ops + at, w->nr_ops - at, NULL, &err);
		if (n < 0) {
			struct penstock_done done = {.res = n, .tag = w->ops[at].tag};

			penstock_print_elided(done.msg, sizeof(done.msg), "%s", err.msg);
			worker_transfer_done(w->ops[at].arg, &done);
		}
		at += n > 0 ? (unsigned)n : 1;
	}
	w->nr_ops = w->nr_iovs = 0;
}

/* A walk along the memory of an operation. */
struct memory {
	const struct penstock_iov *iov;
	uint32_t nr, i;
	uint64_t off; /* in iov[i] */
};

/* The next part of it, at most @max bytes. */
static struct penstock_iov memory_next(struct memory *m, uint64_t max)
{
	struct penstock_iov out = {NULL, 0};

	while (m->i < m->nr && m->off == m->iov[m->i].len) {
		m->i++;
		m->off = 0;
	}
	if (m->i == m->nr)
		return out;
	out.addr = (char *)m->iov[m->i].addr + m->off;
	out.len = min_u64(max, m->iov[m->i].len - m->off);
	m->off += out.len;
	return out;
}

static void queue_transfer(struct store_worker *w, struct store_op *op, struct penstock_op x)
{
	x.on_done = worker_transfer_done;
	x.arg = op;
	x.memory = x.opcode == PENSTOCK_COPY ? PENSTOCK_MEMORY_ANY : PENSTOCK_MEMORY_HOST;
	atomic_fetch_add(&op->transfers, 1);
	w->ops[w->nr_ops++] = x;
	if (w->nr_ops == STORE_TRANSFERS)
		worker_flush(w);
}

/* Up to @len bytes of memory from @m, and padding behind what the value has left; returns bytes. */
static uint64_t worker_gather(struct store_worker *w, struct memory *m, uint64_t len, uint64_t pad)
{
	static const unsigned char zeros[STORE_UNIT];
	uint64_t sum = 0;

	while (sum < len && w->nr_iovs < STORE_IOVS - 1) {
		struct penstock_iov v = memory_next(m, len - sum);

		w->iovs[w->nr_iovs++] = v;
		sum += v.len;
	}
	if (sum == len && pad) {
		w->iovs[w->nr_iovs++] = (struct penstock_iov){(void *)(uintptr_t)zeros, pad};
		sum += pad;
	}
	return sum;
}

/* One piece of the value: @len bytes of it at @offset of the file. */
static void transfer_piece(struct store_worker *w, struct store_op *op, struct memory *m,
			   struct penstock_op x, uint64_t len)
{
	struct store_dir *d = &w->store->dirs[op->entry->dir];
	uint64_t pad = x.opcode == PENSTOCK_WRITE ? align_up(len, STORE_UNIT) - len : 0, n;

	while (len + pad) {
		if (w->nr_iovs >= STORE_IOVS - 2)
			worker_flush(w);
		x.iov = &w->iovs[w->nr_iovs];
		n = worker_gather(w, m, len, pad);
		x.nr_iov = (uint32_t)(&w->iovs[w->nr_iovs] - x.iov);
		x.tag = n;
		atomic_fetch_add(&d->in_flight, n);
		queue_transfer(w, op, x);
		x.offset += n;
		pad = n > len ? 0 : pad;
		len -= min_u64(n, len);
	}
}

void store_transfer(struct store_worker *w, struct store_op *op, uint32_t opcode)
{
	const struct store_entry *e = op->entry;
	struct penstock_iov whole = {op->buf ? op->buf->addr : NULL, e->len};
	struct memory m = {.iov = op->buf ? &whole : op->iov, .nr = op->buf ? 1 : op->nr_iov};
	struct penstock_op x = {.opcode = opcode, .file = w->store->dirs[e->dir].data};
	uint64_t left = e->len;

	x.flags = opcode == PENSTOCK_READ ? PENSTOCK_OP_EXACT : 0;
	atomic_store(&op->transfers, 1);
	for (uint32_t i = 0; i < e->space.nr && left; i++) {
		const struct extent *p = extents_at(&e->space, i);
		uint64_t n = min_u64(left, (uint64_t)p->count * STORE_UNIT);

		x.offset = (uint64_t)p->start * STORE_UNIT;
		transfer_piece(w, op, &m, x, n);
		left -= n;
	}
	end_transfer(op);
}

/* Between the buffer and memory that is a GPU's, at least in part. */
void store_copy_device(struct store_worker *w, struct store_op *op, bool to_device)
{
	uint64_t at = 0, len = to_device ? op->entry->len : op->len;
	struct memory m = {.iov = op->iov, .nr = op->nr_iov};

	atomic_store(&op->transfers, 1);
	while (at < len) {
		struct penstock_iov v = memory_next(&m, len - at);
		struct penstock_iov b = {op->buf->addr + at, v.len};
		struct penstock_op x = {.opcode = PENSTOCK_COPY, .nr_iov = 2};

		int device = penstock_gpu_device(v.addr);

		at += v.len;
		if (device ==
		    0) /* memory is pinned by this one, and no other gets a context for it */
			store_staging_pin(op->buf);
		if (device < 0) {
			memcpy(to_device ? v.addr : b.addr, to_device ? b.addr : v.addr, v.len);
			continue;
		}
		if (w->nr_iovs + 2 > STORE_IOVS)
			worker_flush(w);
		x.iov = &w->iovs[w->nr_iovs];
		w->iovs[w->nr_iovs++] = to_device ? v : b;
		w->iovs[w->nr_iovs++] = to_device ? b : v;
		queue_transfer(w, op, x);
	}
	end_transfer(op);
}

/* Those of others: what takes long must not make them late. */
static void check_deadlines(struct penstock_store *s)
{
	if (atomic_load(&s->queues.next_deadline) != UINT64_MAX)
		store_expire_batches(s);
}

/* A little at a time, so that what is summed up is still in the processor's cache. */
uint32_t store_copy_host(struct store_op *op, bool to_user)
{
	uint32_t crc = penstock_crc32c(0, op->key, op->key_len);
	uint64_t at = 0, len = to_user ? op->entry->len : op->len;
	struct memory m = {.iov = op->iov, .nr = op->nr_iov};

	while (at < len) {
		struct penstock_iov v = memory_next(&m, min_u64(len - at, COPY_STEP));
		unsigned char *to = to_user ? v.addr : op->buf->addr + at;

		memcpy(to, to_user ? op->buf->addr + at : v.addr, v.len);
		crc = penstock_crc32c(crc, to, v.len);
		if (at / CHECK_STEP != (at + v.len) / CHECK_STEP)
			check_deadlines(op->batch->store);
		at += v.len;
	}
	return crc;
}

static bool on_device(const struct store_op *op)
{
	for (uint32_t i = 0; op->batch->user.memory == PENSTOCK_MEMORY_ANY && i < op->nr_iov; i++)
		if (op->iov[i].len && penstock_gpu_device(op->iov[i].addr) >= 0)
			return true;
	return false;
}

/* Once: to ask for the device takes a call of the driver. */
void store_op_prepare(struct store_op *op)
{
	if (op->prepared)
		return;
	op->hash = store_hash_key(&op->batch->store->secret, op->key, op->key_len);
	op->device = on_device(op);
	op->prepared = true;
}

uint32_t store_value_crc(const struct store_op *op, uint64_t len)
{
	uint32_t crc = penstock_crc32c(0, op->key, op->key_len);
	struct penstock_iov whole = {op->buf ? op->buf->addr : NULL, len};
	struct memory m = {.iov = op->buf ? &whole : op->iov, .nr = op->buf ? 1 : op->nr_iov};
	uint64_t at = 0;

	while (at < len) {
		struct penstock_iov v = memory_next(&m, min_u64(len - at, CHECK_STEP));

		crc = penstock_crc32c(crc, v.addr, v.len);
		if (at / CHECK_STEP != (at + v.len) / CHECK_STEP)
			check_deadlines(op->batch->store);
		at += v.len;
	}
	return crc;
}

/* -------------------------------------------------------------------- work */

static void run_step(struct store_worker *w, struct store_op *op)
{
	switch (op->batch->user.opcode) {
	case PENSTOCK_STORE_GET:
		store_get_step(w, op);
		break;
	case PENSTOCK_STORE_SET:
		store_set_step(w, op);
		break;
	case PENSTOCK_STORE_EXISTS:
		store_exists_step(op);
		break;
	default:
		store_delete_step(w, op);
		break;
	}
}

/* With @queues.lock: some of what is ready. */
static unsigned worker_take(struct store_queues *q, struct store_op **ops)
{
	unsigned n = 0;

	while (n < AT_ONCE && (ops[n] = store_op_queue_pop(&q->ready)))
		n++;
	return n;
}

/* With @queues.lock: until there is work or a deadline. */
static void wait_for_work(struct store_queues *q)
{
	uint64_t end = min_u64(atomic_load(&q->next_deadline), INT64_MAX);
	struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};

	q->idle++;
	pthread_cond_clockwait(&q->work, &q->lock, CLOCK_MONOTONIC, &ts);
	q->idle--;
}

/*
 * Those who poll are woken for several batches at a time where they come together: it costs as much
 * as the CRC of a quarter of a MiB.  None waits longer than for what is being done just now.
 */
static void run_steps(struct store_worker *w, struct store_op **ops, unsigned n)
{
	struct store_queues *q = &w->store->queues;
	uint64_t began = clock_ns();

	for (unsigned i = 0; i < n; i++) {
		run_step(w, ops[i]);
		check_deadlines(w->store);
		if (atomic_load(&q->signal_due) && clock_ns() - began > SIGNAL_NS) {
			store_signal_done(w->store);
			began = clock_ns();
		}
	}
	worker_flush(w);
	store_signal_done(w->store);
}

static void *worker_run(void *arg)
{
	struct store_worker *w = arg;
	struct store_queues *q = &w->store->queues;
	struct store_op *ops[AT_ONCE];
	unsigned n;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		n = worker_take(q, ops);
		if (!n && q->stop)
			break;
		if (!n && atomic_load(&q->next_deadline) > clock_ns()) {
			wait_for_work(q);
			continue;
		}
		/* Another one may help with what is left. */
		if (q->ready.first && q->idle)
			pthread_cond_signal(&q->work);
		pthread_mutex_unlock(&q->lock);
		store_expire_batches(w->store);
		run_steps(w, ops, n);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

int store_workers_start(struct penstock_store *s, struct penstock_err *err)
{
	int r;

	s->workers = calloc(s->opts.threads, sizeof(*s->workers));
	if (!s->workers)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (; s->nr_workers < s->opts.threads; s->nr_workers++) {
		s->workers[s->nr_workers].store = s;
		r = thread_start(&s->workers[s->nr_workers].thread, worker_run,
				 &s->workers[s->nr_workers]);
		if (r < 0)
			return penstock_fail(err, r, "no thread: %s", strerror(-r));
	}
	return 0;
}

void store_workers_stop(struct penstock_store *s)
{
	pthread_mutex_lock(&s->queues.lock);
	s->queues.stop = true;
	pthread_cond_broadcast(&s->queues.work);
	pthread_mutex_unlock(&s->queues.lock);
	for (unsigned i = 0; i < s->nr_workers; i++)
		pthread_join(s->workers[i].thread, NULL);
	free(s->workers);
}
