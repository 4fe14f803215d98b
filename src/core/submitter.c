/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports: where threads of the user's meet the handle.  A thread has a port of its own, so
 * that it finds its free operations and its results without meeting anybody; threads beyond
 * PORTS_MAX share.  A ticket names port, place and use of its operation.
 */
#include <errno.h>
#include <string.h>

#include "core/core.h"
#include "core/submitter.h"
#include "core/queue.h"
#include "core/spin.h"

/* ---------------------------------------------------------- who is here */

/* Of the last few handles this thread has used; where it is tells threads apart. */
static __thread struct here heres[8];

static struct port *port_new(unsigned index)
{
	struct port *port = zalloc_lines(sizeof(*port));

	if (!port)
		return NULL;
	pthread_mutex_init(&port->lock, NULL);
	port->index = index;
	port->spin_ns = SPIN_START_NS;
	port->count.many = true;
	op_list_init(&port->done);
	return port;
}

/* Under io->lock: the one it had before it used other handles, or the next one in turn. */
static unsigned port_choose(struct penstock_io *io)
{
	for (unsigned i = 0; i < io->nr_ports; i++)
		if (io->port_owners[i] == heres)
			return i;
	return io->next_port++ % PORTS_MAX;
}

static struct port *port_assign(struct penstock_io *io)
{
	struct port *port;
	unsigned i;

	pthread_mutex_lock(&io->lock);
	i = port_choose(io);
	if (!io->ports[i]) {
		io->ports[i] = port_new(i);
		if (io->ports[i])
			io->nr_ports++;
		else
			io->next_port--;
	}
	port = io->ports[i];
	io->port_owners[i] = heres;
	if (port && !port->home)
		port->home = queue_current(io);
	if (port && !port->home)
		port->home = &io->queues[io->next_home++ % io->nr_active];
	pthread_mutex_unlock(&io->lock);
	return port;
}

struct here *here_of(struct penstock_io *io)
{
	struct here *h = &heres[io->opened % ARRAY_SIZE(heres)];

	if (h->io == io && h->opened == io->opened)
		return h;
	*h = (struct here){.port = port_assign(io)};
	if (!h->port)
		return NULL;
	h->io = io;
	h->opened = io->opened;
	return h;
}

void ports_rehome(struct penstock_io *io)
{
	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < io->nr_ports; i++)
		atomic_store(&io->ports[i]->home, &io->queues[i % io->nr_active]);
	pthread_mutex_unlock(&io->lock);
}

void ports_free(struct penstock_io *io)
{
	for (unsigned i = 0; i < io->nr_ports; i++) {
		struct port *port = io->ports[i];

		for (unsigned k = 0; k < port->nr_chunks; k++) {
			for (unsigned n = 0; n < OP_CHUNK; n++)
				free(port->chunks[k][n].msg);
			free(port->chunks[k]);
		}
		free(port->chunks);
		pthread_mutex_destroy(&port->lock);
		free(port);
	}
}

/* ----------------------------------------------------------- operations */

static bool port_grow(struct port *port)
{
	struct op **chunks, *chunk;

	if ((uint64_t)(port->nr_chunks + 1) * OP_CHUNK >= 1u << OP_INDEX_BITS)
		return false;
	chunks = realloc(port->chunks, (port->nr_chunks + 1) * sizeof(*chunks));
	if (!chunks)
		return false;
	port->chunks = chunks;
	chunk = zalloc_lines(OP_CHUNK * sizeof(*chunk));
	if (!chunk)
		return false;
	for (unsigned i = OP_CHUNK; i-- > 0;) {
		chunk[i].index = port->nr_chunks * OP_CHUNK + i;
		chunk[i].port = port;
		chunk[i].next = port->free;
		port->free = &chunk[i];
	}
	port->chunks[port->nr_chunks++] = chunk;
	return true;
}

static void port_free(struct port *port, struct op *op)
{
	if (op->msg)
		free(TAKE_PTR(op->msg));
	op->gen++;
	atomic_store_explicit(&op->state, OP_FREE, memory_order_relaxed);
	op->next = port->free;
	port->free = op;
}

struct op *port_take(struct port *port, unsigned n)
{
	struct op *list = NULL, *op;

	pthread_mutex_lock(&port->lock);
	if (!port->free)
		port_drain(port);
	for (; n && (port->free || (!list && port_grow(port))); n--) {
		op = port->free;
		port->free = op->next;
		op_prefetch(op, 1);
		atomic_store_explicit(&op->state, OP_NEW, memory_order_relaxed);
		op->next = list;
		list = op;
	}
	pthread_mutex_unlock(&port->lock);
	return list;
}

void port_put(struct op *list)
{
	struct port *port = list ? list->port : NULL;
	struct op *next;

	if (!list)
		return;
	pthread_mutex_lock(&port->lock);
	for (; list; list = next) {
		next = list->next;
		port_free(port, list);
	}
	pthread_mutex_unlock(&port->lock);
}

uint64_t op_ticket(const struct op *op)
{
	return (uint64_t)op->gen << 32 |
	       (((uint64_t)op->port->index << OP_INDEX_BITS | op->index) + 1);
}

struct port *port_of_ticket(struct penstock_io *io, uint64_t ticket)
{
	uint64_t place = (ticket & UINT32_MAX) - 1;

	return place >> OP_INDEX_BITS < atomic_load(&io->nr_ports)
		       ? io->ports[place >> OP_INDEX_BITS]
		       : NULL;
}

struct op *port_find(struct port *port, uint64_t ticket)
{
	uint64_t i = ((ticket & UINT32_MAX) - 1) & ((1u << OP_INDEX_BITS) - 1);
	struct op *op;

	if (i >= (uint64_t)port->nr_chunks * OP_CHUNK)
		return NULL;
	op = &port->chunks[i / OP_CHUNK][i % OP_CHUNK];
	if (atomic_load(&op->state) <= OP_NEW || op_ticket(op) != ticket || op->on_done)
		return NULL;
	return op;
}

/* -------------------------------------------------------------- results */

void port_drain(struct port *port)
{
	struct op *op = (struct op *)mpsc_stack_take(&port->back, true), *next;

	for (; op; op = next) {
		next = op->next;
		port->drained++;
		if (op->on_done) {
			port_free(port, op);
			continue;
		}
		atomic_store(&op->state, OP_DONE);
		op_list_add(&port->done, op);
		port->offered++;
		if (op->waiters)
			port_claim(port);
	}
}

void port_claim(struct port *port)
{
	port->offered--;
	atomic_fetch_add(&port->claimed, 1);
}

void port_collect(struct port *port, struct op *op)
{
	op_list_del(op);
	port_free(port, op);
}

/* The file is let go when the result can be seen: who waits to close it can collect it then. */
void returns_send(struct returns *r)
{
	struct port *port = r->port;

	if (port &&
	    push_and_see_sleepers(&port->back, &port->sleepers, &r->newest->item, &r->oldest->item))
		waiters_tell_port(port);
	file_put_many(r->file, r->refs);
	*r = (struct returns){0};
}

void returns_file(struct returns *r, struct op *op)
{
	if (r->file != op->file)
		returns_send(r);
	r->file = op->file;
	r->refs++;
}

void returns_add(struct returns *r, struct op *op)
{
	if (r->port != op->port)
		returns_send(r);
	returns_file(r, op);
	r->port = op->port;
	prefetch_hints_add(&r->hints, &op->item);
	op->next = r->newest;
	r->newest = op;
	if (!r->oldest)
		r->oldest = op;
}

unsigned ports_lock(struct penstock_io *io, bool *quiet)
{
	unsigned n = 0;

	do {
		for (; n < atomic_load(&io->nr_ports); n++)
			pthread_mutex_lock(&io->ports[n]->lock);
		*quiet = ports_quiet(io);
	} while (n < atomic_load(&io->nr_ports));
	for (unsigned i = 0; i < n; i++)
		port_drain(io->ports[i]);
	return n;
}

/* The next one behind @op, or NULL. */
static struct op *port_offers(struct port *port, const struct op *op, const struct offer *of)
{
	struct op *next = op->next;

	while (next != &port->done && next->waiters)
		next = next->next;
	return next != &port->done && (port == of->own || next->finished <= of->until) ? next
										       : NULL;
}

bool ports_offer(struct penstock_io *io, unsigned n, const struct offer *of, unsigned min)
{
	unsigned offered = 0;

	while (n-- && offered < min) {
		struct port *port = io->ports[n];
		const struct op *op = &port->done;

		if (port == of->own || of->until == UINT64_MAX)
			offered += port->offered;
		else
			while (offered < min && (op = port_offers(port, op, of)))
				offered++;
	}
	return offered >= min;
}

void ports_unlock(struct penstock_io *io, unsigned n)
{
	while (n)
		pthread_mutex_unlock(&io->ports[--n]->lock);
}

struct op *ports_oldest(struct penstock_io *io, unsigned n, const struct offer *of)
{
	struct op *oldest = NULL, *op;

	for (unsigned i = 0; i < n; i++) {
		op = port_offers(io->ports[i], &io->ports[i]->done, of);
		if (op && (!oldest || op->finished < oldest->finished))
			oldest = op;
	}
	return oldest;
}

/*
 * Counters only grow, and what is finished was submitted before.  So where those that were
 * read later are not larger than those that were read first, nothing was under way in between.
 */
bool ports_quiet(struct penstock_io *io)
{
	uint64_t finished = 0, submitted = 0;

	for (unsigned i = 0; i < io->nr_queues; i++)
		finished += atomic_load(&io->queues[i].finished);
	for (unsigned i = 0; i < atomic_load(&io->nr_ports); i++)
		finished += atomic_load(&io->ports[i]->finished);
	for (unsigned i = 0; i < atomic_load(&io->nr_ports); i++)
		submitted += atomic_load(&io->ports[i]->submitted);
	return submitted == finished;
}

uint64_t ports_available(struct penstock_io *io)
{
	uint64_t claimed = 0, results = 0;

	for (unsigned i = 0; i < atomic_load(&io->nr_ports); i++)
		claimed += atomic_load(&io->ports[i]->claimed);
	for (unsigned i = 0; i < io->nr_queues; i++)
		results += atomic_load(&io->queues[i].results);
	for (unsigned i = 0; i < atomic_load(&io->nr_ports); i++)
		results += atomic_load(&io->ports[i]->results);
	return results > claimed ? results - claimed : 0;
}
