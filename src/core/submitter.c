/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submitters: where threads of the user's meet the handle.  A thread has a submitter of its own, so
 * that it finds its free operations and its results without meeting anybody; threads beyond
 * SUBMITTERS_MAX share.  A ticket names submitter, place and use of its operation.
 */
#include <errno.h>
#include <string.h>

#include "core/core.h"
#include "core/queue.h"
#include "core/spin.h"
#include "core/submitter.h"

/* -------------------------------------------------- submitters of threads */

/* Of the last few handles this thread has used; where it is tells threads apart. */
static __thread struct thread_cache thread_caches[8];

static struct submitter *submitter_new(unsigned index)
{
	struct submitter *submitter = zalloc_lines(sizeof(*submitter));

	if (!submitter)
		return NULL;
	pthread_mutex_init(&submitter->lock, NULL);
	submitter->index = index;
	submitter->spin_ns = SPIN_START_NS;
	submitter->count.many_writers = true;
	op_list_init(&submitter->done);
	return submitter;
}

/* Under io->lock: the one it had before it used other handles, or the next one in turn. */
static unsigned submitter_choose(struct penstock_io *io)
{
	for (unsigned i = 0; i < io->nr_submitters; i++)
		if (io->submitter_owners[i] == thread_caches)
			return i;
	return io->next_submitter++ % SUBMITTERS_MAX;
}

static struct submitter *submitter_assign(struct penstock_io *io)
{
	struct submitter *submitter;
	unsigned i;

	pthread_mutex_lock(&io->lock);
	i = submitter_choose(io);
	if (!io->submitters[i]) {
		io->submitters[i] = submitter_new(i);
		if (io->submitters[i])
			io->nr_submitters++;
		else
			io->next_submitter--;
	}
	submitter = io->submitters[i];
	io->submitter_owners[i] = thread_caches;
	if (submitter && !submitter->queue)
		submitter->queue = queue_current(io);
	if (submitter && !submitter->queue)
		submitter->queue = &io->queues[io->next_queue++ % io->nr_active];
	pthread_mutex_unlock(&io->lock);
	return submitter;
}

struct thread_cache *thread_cache_get(struct penstock_io *io)
{
	struct thread_cache *cache = &thread_caches[io->serial % ARRAY_SIZE(thread_caches)];

	if (cache->io == io && cache->opened == io->serial)
		return cache;
	*cache = (struct thread_cache){.submitter = submitter_assign(io)};
	if (!cache->submitter)
		return NULL;
	cache->io = io;
	cache->opened = io->serial;
	return cache;
}

void submitters_assign_queues(struct penstock_io *io)
{
	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < io->nr_submitters; i++)
		atomic_store(&io->submitters[i]->queue, &io->queues[i % io->nr_active]);
	pthread_mutex_unlock(&io->lock);
}

void submitters_free(struct penstock_io *io)
{
	for (unsigned i = 0; i < io->nr_submitters; i++) {
		struct submitter *submitter = io->submitters[i];

		for (unsigned k = 0; k < submitter->nr_chunks; k++) {
			for (unsigned n = 0; n < OP_CHUNK; n++)
				free(submitter->chunks[k][n].msg);
			free(submitter->chunks[k]);
		}
		free(submitter->chunks);
		pthread_mutex_destroy(&submitter->lock);
		free(submitter);
	}
}

/* ----------------------------------------------------------- operations */

static bool submitter_add_ops(struct submitter *submitter)
{
	struct op **chunks, *chunk;

	if ((uint64_t)(submitter->nr_chunks + 1) * OP_CHUNK >= 1u << OP_INDEX_BITS)
		return false;
	chunks = realloc(submitter->chunks, (submitter->nr_chunks + 1) * sizeof(*chunks));
	if (!chunks)
		return false;
	submitter->chunks = chunks;
	chunk = zalloc_lines(OP_CHUNK * sizeof(*chunk));
	if (!chunk)
		return false;
	for (unsigned i = OP_CHUNK; i-- > 0;) {
		chunk[i].index = submitter->nr_chunks * OP_CHUNK + i;
		chunk[i].submitter = submitter;
		chunk[i].next = submitter->free;
		submitter->free = &chunk[i];
	}
	submitter->chunks[submitter->nr_chunks++] = chunk;
	return true;
}

static void submitter_free_op(struct submitter *submitter, struct op *op)
{
	if (op->msg)
		free(TAKE_PTR(op->msg));
	op->gen++;
	atomic_store_explicit(&op->state, OP_FREE, memory_order_relaxed);
	op->next = submitter->free;
	submitter->free = op;
}

struct op *submitter_take_ops(struct submitter *submitter, unsigned n)
{
	struct op *list = NULL, *op;

	pthread_mutex_lock(&submitter->lock);
	if (!submitter->free)
		submitter_take_results(submitter);
	for (; n && (submitter->free || (!list && submitter_add_ops(submitter))); n--) {
		op = submitter->free;
		submitter->free = op->next;
		op_prefetch(op, 1);
		atomic_store_explicit(&op->state, OP_NEW, memory_order_relaxed);
		op->next = list;
		list = op;
	}
	pthread_mutex_unlock(&submitter->lock);
	return list;
}

void submitter_put_ops(struct op *list)
{
	struct submitter *submitter = list ? list->submitter : NULL;
	struct op *next;

	if (!list)
		return;
	pthread_mutex_lock(&submitter->lock);
	for (; list; list = next) {
		next = list->next;
		submitter_free_op(submitter, list);
	}
	pthread_mutex_unlock(&submitter->lock);
}

uint64_t op_ticket(const struct op *op)
{
	return (uint64_t)op->gen << 32 |
	       (((uint64_t)op->submitter->index << OP_INDEX_BITS | op->index) + 1);
}

struct submitter *submitter_of_ticket(struct penstock_io *io, uint64_t ticket)
{
	uint64_t place = (ticket & UINT32_MAX) - 1;

	return place >> OP_INDEX_BITS < atomic_load(&io->nr_submitters)
		       ? io->submitters[place >> OP_INDEX_BITS]
		       : NULL;
}

struct op *submitter_find_op(struct submitter *submitter, uint64_t ticket)
{
	uint64_t i = ((ticket & UINT32_MAX) - 1) & ((1u << OP_INDEX_BITS) - 1);
	struct op *op;

	if (i >= (uint64_t)submitter->nr_chunks * OP_CHUNK)
		return NULL;
	op = &submitter->chunks[i / OP_CHUNK][i % OP_CHUNK];
	if (atomic_load(&op->state) <= OP_NEW || op_ticket(op) != ticket || op->on_done)
		return NULL;
	return op;
}

/* -------------------------------------------------------------- results */

void submitter_take_results(struct submitter *submitter)
{
	struct op *op = (struct op *)mpsc_stack_take(&submitter->results_in, true), *next;

	for (; op; op = next) {
		next = op->next;
		submitter->drained++;
		if (op->on_done) {
			submitter_free_op(submitter, op);
			continue;
		}
		atomic_store(&op->state, OP_DONE);
		op_list_add(&submitter->done, op);
		submitter->nr_unclaimed++;
		if (op->waiters)
			submitter_claim(submitter);
	}
}

void submitter_claim(struct submitter *submitter)
{
	submitter->nr_unclaimed--;
	atomic_fetch_add(&submitter->claimed, 1);
}

void submitter_collect(struct submitter *submitter, struct op *op)
{
	op_list_del(op);
	submitter_free_op(submitter, op);
}

/* The file is let go when the result can be seen: who waits to close it can collect it then. */
void done_batch_send(struct done_batch *r)
{
	struct submitter *submitter = r->submitter;

	if (submitter && push_and_see_sleepers(&submitter->results_in, &submitter->sleepers,
					       &r->newest->item, &r->oldest->item))
		submitter_wake_waiters(submitter);
	file_put_many(r->file, r->refs);
	*r = (struct done_batch){0};
}

void done_batch_add_file(struct done_batch *r, struct op *op)
{
	if (r->file != op->file)
		done_batch_send(r);
	r->file = op->file;
	r->refs++;
}

void done_batch_add(struct done_batch *r, struct op *op)
{
	if (r->submitter != op->submitter)
		done_batch_send(r);
	done_batch_add_file(r, op);
	r->submitter = op->submitter;
	prefetch_hints_add(&r->hints, &op->item);
	op->next = r->newest;
	r->newest = op;
	if (!r->oldest)
		r->oldest = op;
}

unsigned submitters_lock(struct penstock_io *io, bool *quiet)
{
	unsigned n = 0;

	do {
		for (; n < atomic_load(&io->nr_submitters); n++)
			pthread_mutex_lock(&io->submitters[n]->lock);
		*quiet = submitters_quiet(io);
	} while (n < atomic_load(&io->nr_submitters));
	for (unsigned i = 0; i < n; i++)
		submitter_take_results(io->submitters[i]);
	return n;
}

/* The next one behind @op, or NULL. */
static struct op *submitter_next_result(struct submitter *submitter, const struct op *op,
					const struct result_filter *filter)
{
	struct op *next = op->next;

	while (next != &submitter->done && next->waiters)
		next = next->next;
	return next != &submitter->done &&
			       (submitter == filter->own || next->finished <= filter->until)
		       ? next
		       : NULL;
}

bool submitters_have_results(struct penstock_io *io, unsigned n, const struct result_filter *filter,
			     unsigned min)
{
	unsigned nr_unclaimed = 0;

	while (n-- && nr_unclaimed < min) {
		struct submitter *submitter = io->submitters[n];
		const struct op *op = &submitter->done;

		if (submitter == filter->own || filter->until == UINT64_MAX)
			nr_unclaimed += submitter->nr_unclaimed;
		else
			while (nr_unclaimed < min &&
			       (op = submitter_next_result(submitter, op, filter)))
				nr_unclaimed++;
	}
	return nr_unclaimed >= min;
}

void submitters_unlock(struct penstock_io *io, unsigned n)
{
	while (n)
		pthread_mutex_unlock(&io->submitters[--n]->lock);
}

struct op *submitters_oldest_result(struct penstock_io *io, unsigned n,
				    const struct result_filter *filter)
{
	struct op *oldest = NULL, *op;

	for (unsigned i = 0; i < n; i++) {
		op = submitter_next_result(io->submitters[i], &io->submitters[i]->done, filter);
		if (op && (!oldest || op->finished < oldest->finished))
			oldest = op;
	}
	return oldest;
}

/*
 * Counters only grow, and what is finished was submitted before.  So where those that were
 * read later are not larger than those that were read first, nothing was under way in between.
 */
bool submitters_quiet(struct penstock_io *io)
{
	uint64_t finished = 0, submitted = 0;

	for (unsigned i = 0; i < io->nr_queues; i++)
		finished += atomic_load(&io->queues[i].finished);
	for (unsigned i = 0; i < atomic_load(&io->nr_submitters); i++)
		finished += atomic_load(&io->submitters[i]->finished);
	for (unsigned i = 0; i < atomic_load(&io->nr_submitters); i++)
		submitted += atomic_load(&io->submitters[i]->submitted);
	return submitted == finished;
}

uint64_t submitters_nr_results(struct penstock_io *io)
{
	uint64_t claimed = 0, results = 0;

	for (unsigned i = 0; i < atomic_load(&io->nr_submitters); i++)
		claimed += atomic_load(&io->submitters[i]->claimed);
	for (unsigned i = 0; i < io->nr_queues; i++)
		results += atomic_load(&io->queues[i].results);
	for (unsigned i = 0; i < atomic_load(&io->nr_submitters); i++)
		results += atomic_load(&io->submitters[i]->results);
	return results > claimed ? results - claimed : 0;
}
