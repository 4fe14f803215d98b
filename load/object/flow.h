/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_FLOW_H
#define PENSTOCK_OBJECT_FLOW_H

/*
 * A flow is the executor of operations on whole objects: it carries out the chains of
 * `penstock kv` and `penstock replay`.  A place is where objects live: files in folders, extents of
 * a slab (one file or block device), host memory, device memory, a KV store or a bucket.
 *
 * A chain is a list of operations on objects that run one after the other; many chains run at
 * once.  Operations on one object happen in the order in which their chains were started: a
 * read never runs before the write it follows has finished, a write or delete never before the
 * reads before it.  So waits always point to chains started earlier, and nothing deadlocks.
 *
 * Objects are moved in chunks through a pool of aligned buffers that all chains share, so
 * memory does not depend on the size of objects, and the queues stay full whether there is one
 * huge object or thousands of small ones.
 *
 * One thread (the caller's, inside flow_wait()) submits and completes; copies and checks of
 * large memory are done by a few threads of the flow's own.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/s3.h>
#include <penstock/store.h>

#include "load/measure/object_requests.h"

/* ---- places: where objects live ---- */

enum place_kind {
	PLACE_FILES,  /* a file per object in one or more folders */
	PLACE_SLAB,   /* extents of one file or block device */
	PLACE_MEMORY, /* host memory */
	PLACE_GPU,    /* device memory */
	PLACE_NULL,   /* nothing is kept; optionally at a bandwidth */
	PLACE_STORE,  /* a KV store, penstock/store.h: it says itself what it has and what goes */
	PLACE_BUCKET, /* an object of an object store each, penstock/s3.h */
};
enum place_layout { PLACE_RAW, PLACE_NPY };

struct place_opts {
	enum place_kind kind;
	const char *const *paths; /* folders, of a store too; or the slab: a file, a block device,
				     or a folder in which to make one; or s3://BUCKET/PREFIX */
	unsigned nr_paths;
	enum place_layout layout; /* of PLACE_FILES */
	bool hashed;              /* sub-folders by hash, for very many objects */
	bool keep;                /* leave the objects for a later run */
	bool reuse;               /* take over what an earlier run left (keep) */
	bool recycle;             /* write new objects over the files of deleted ones */
	bool stretch; /* a slab that is a file grows beyond its capacity for an object that does not
			 fit, when there is nothing to wait for */
	uint64_t capacity; /* bytes; of PLACE_FILES, PLACE_BUCKET and PLACE_NULL 0: no limit, of a
			      block device 0: all of it */
	uint32_t unit;     /* extents of slab and memory are multiples of it; 0: 64 KiB */
	double bytes_per_sec; /* PLACE_NULL: in each direction; 0: no time */
	uint32_t durability;  /* PENSTOCK_DURABLE_* of writes */
	unsigned device;      /* PLACE_GPU: which */
	/* PLACE_STORE; durability other than none is PENSTOCK_STORE_DURABLE */
	uint32_t policy;     /* PENSTOCK_STORE_S3FIFO or _LRU */
	bool replace;        /* a store that is there may go; else, without reuse, it is refused; so
				may what was kept below a prefix */
	uint32_t io_threads; /* as in struct penstock_store_opts */
	const char *engine;
	const struct penstock_s3_opts *s3; /* PLACE_BUCKET, or @below: of the client */
	const char *below; /* PLACE_STORE: s3://BUCKET/PREFIX for what it evicts; or NULL */
};

/*
 * Capacity.  An object takes its size, rounded up to units.  A write waits until the deletes and
 * moves of chains started before it have made the room it needs, those of chains started later do
 * not take it away: a place as large as the caller's own account of it never overflows
 * (-ENOSPC), but one with room to spare waits less.  When nothing earlier is left to wait
 * for, PLACE_FILES and PLACE_NULL take an object whatever their capacity, and so does a slab
 * that may stretch.
 */

/* @unit, doubled until @bytes are fewer than @max units, or it is as large as units get. */
uint32_t place_fit_unit(uint32_t unit, uint64_t bytes, uint64_t max);

struct place;
/*
 * Files made here are written down in a marker (a file `.penstock-objects' in the folder, a head in
 * the slab): a folder with anything else in it is refused with -EEXIST and one line that names
 * the file, what an earlier run that was killed left behind is removed (or taken over with
 * reuse).  -EBUSY: another process is using it.  Of a prefix the marker is an object, and the
 * number in it is in the names of all that the run makes.
 */
int place_open(struct place **out, const struct place_opts *o, struct penstock_err *err);
/* The same checks, creating nothing; -ENOSPC or -ENOMEM where the capacity is not there. */
int place_check(const struct place_opts *o, struct penstock_err *err);
/* Has an earlier run left objects there with keep? */
bool place_is_kept(const struct place_opts *o);
/* Bytes of objects that would fit, those of an earlier run counted as free. */
int place_free_bytes(const struct place_opts *o, uint64_t *ret_bytes, struct penstock_err *err);
/* Keep what an earlier run left there after all, whatever the options said: before a flow ends. */
void place_keep_found(struct place *p);
/* Removes what it made unless keep; -errno when something could not be removed or kept. */
int place_close(struct place *p, struct penstock_err *err);
uint64_t place_used(const struct place *p); /* bytes, with rounding */
uint64_t place_objects(const struct place *p);
/* Of PLACE_STORE; false: it is none. */
bool place_store_stats(const struct place *p, struct penstock_store_stats *s);

/* How the requests of a PLACE_BUCKET went; false: it is none. */
bool place_object_stats(const struct place *p, struct object_requests *r);

/* What an earlier run left (reuse), before a flow adopts it: start with *@pos = 0. */
struct place_found {
	const char *name;
	uint32_t name_len;
	uint64_t size;
};
bool place_next(const struct place *p, uint64_t *pos, struct place_found *ret);

/* ---- the flow ---- */

struct flow_opts {
	struct penstock_opts io;
	uint64_t chunk;   /* bytes, a multiple of 1 MiB; 0: 1 MiB */
	unsigned buffers; /* chunks in flight; 0: enough for the queues */
	bool verify;      /* check the content of what is read; needs fill */
	bool fill;        /* write content that can be verified; else whatever is in the buffers */
	uint64_t seed;    /* of the content */
	unsigned copy_threads;   /* threads for copies and checks; 0: by the number of processors */
	struct place *places[8]; /* by number */
	unsigned nr_places;
};

enum flow_type { FLOW_READ, FLOW_WRITE, FLOW_DELETE, FLOW_MOVE, FLOW_PAUSE };

/*
 * An object is in one place at a time.  A write replaces what it held; a write or move that fails
 * leaves nothing, neither here nor there.  Reading, moving or deleting what is not in @place is
 * -ENOENT; deleting what is nowhere is no error.
 *
 * At a store only the store knows what there is: every operation names its key, sizes of reads are
 * those of the values, and nothing is moved away from it.  Numbers must follow from keys there, so
 * that operations on a key keep their order.
 *
 * Objects of a PLACE_BUCKET are written as a whole, and moved to and from memory only.
 */

struct flow_op {
	uint8_t type;
	uint8_t place, to; /* to: of FLOW_MOVE (read, write, delete: a demotion) */
	bool alloc_begin;  /* takes one of the allocation permits, in the order of chains ... */
	bool alloc_end;    /* ... and gives it back when it is done */
	uint64_t object;   /* number chosen by the caller; names may repeat, numbers of live objects
			      not */
	const char *name;  /* of a write, and of all at a store: copied; may hold any bytes; NULL:
			      the number */
	uint32_t name_len;
	uint64_t size; /* of the object: for writes and moves */
	/*
	 * A range of the object, cut where it ends; len 0: all of it.  A read moves only that;
	 * a write overwrites it in an object that exists (else -ENOENT), and size, name and content
	 * are not looked at.  Ranges that do not overlap do not wait for each other.
	 */
	uint64_t offset, len;
	uint64_t content;  /* seed of the object's content: content_id() of its key */
	bool set_missed;   /* of a read at a store: what it has not is set, of @size bytes */
	const char *shape; /* PLACE_NPY: "(32, 2, 10, 8, 128)", NULL: flat; copied */
	uint8_t element;   /* bytes per element: 2: <f2, 4: <f4, 1: |u1 */
	uint64_t pause_ns; /* FLOW_PAUSE */
	uint64_t tag;      /* the caller's */
};

/* An operation is done. */
struct flow_done {
	uint64_t tag;
	uint8_t type, place, to;
	/*
	 * The store has not had it (read, delete: -ENOENT) or not taken it (write, move: -ENOSPC),
	 * which is no failure.  A read that set it then has the result of that.
	 */
	bool missed;
	int64_t result;    /* bytes, or -errno */
	uint64_t size;     /* of the object, or of the range */
	uint64_t begin_ns; /* when its turn in the chain came (CLOCK_MONOTONIC); 0: it never did */
	uint64_t start_ns; /* when it had waited for others' operations on the object */
	uint64_t end_ns;
	uint64_t device_ns; /* of end - start: time in which at least one of its chunks was at the
			       device */
	/*
	 * FLOW_MOVE: the two halves, which overlap.  0: there was no such half, storage was written
	 * straight from the memory or read straight into it; a copy from memory to memory is both.
	 * Of a read that set what the store had not: to look for it, and to set it.
	 */
	uint64_t read_ns, write_ns, read_device_ns, write_device_ns;
	char error[508]; /* one line when result < 0 */
};

struct flow;
/* Operations that can have files open, with as many as the process may have: others wait. */
uint32_t flow_max_file_ops(void);
/* One flow at a time uses a place, and ends before it. */
int flow_new(struct flow **out, const struct flow_opts *o, struct penstock_err *err);
/* Waits for what is under way; chains that have not ended are forgotten. */
void flow_free(struct flow *f);

/* From now on @object is what an earlier run left in @place under @name: -ENOENT if nothing. */
int flow_adopt(struct flow *f, unsigned place, uint64_t object, const char *name, uint32_t name_len,
	       uint64_t content, struct penstock_err *err);

/*
 * Operations run one after the other; the flow copies them.  The second is @stride bytes behind the
 * first: they may be parts of structs of the caller's.  A failed one does not end the chain unless
 * @stop_on_error.
 */
int flow_start(struct flow *f, const struct flow_op *ops, unsigned n, size_t stride,
	       uint64_t chain_tag, bool stop_on_error, struct penstock_err *err);

/* At most so many allocations (alloc_begin .. alloc_end) at once; 0: no limit. */
void flow_set_allocs(struct flow *f, unsigned n);

struct flow_handler {
	void (*op)(void *arg, const struct flow_done *d);
	void (*chain)(void *arg, uint64_t chain_tag, uint64_t end_ns);
	void *arg;
};
/*
 * Work until @until_ns (CLOCK_MONOTONIC) or until a chain has ended, whichever comes first; the
 * handler is called from here, and may start chains.  With no chain running it sleeps until then,
 * or returns at once when @until_ns is UINT64_MAX.  Returns the number of chains still running.
 */
unsigned flow_wait(struct flow *f, uint64_t until_ns, const struct flow_handler *h);

/*
 * Chains end as soon as what is at the device has come back: operations that had not ended do so
 * with -ECANCELED, and what was half written is removed.
 */
void flow_abort(struct flow *f);

struct flow_stats {
	uint64_t bytes_read, bytes_written; /* of storage places, chunks that completed */
	uint64_t verified;
	struct penstock_stats io;
	struct penstock_file_info file; /* as found at the last file opened */
	struct penstock_buf_info buf;
	uint64_t memory; /* bytes of buffers */
};
void flow_get_stats(const struct flow *f, struct flow_stats *s);

#endif
