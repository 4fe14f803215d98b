/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_STORE_H
#define PENSTOCK_STORE_H

#include <penstock/penstock.h>
#include <penstock/s3.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A key-value store for large values on local drives: what a serving engine's KV cache wants
 * below its memory.
 *
 *	penstock_store_open -> penstock_store_submit ... penstock_store_drain     asynchronous
 *	                  -> penstock_store_run                               blocking
 *	                  -> penstock_store_close
 *
 * It is a cache: a value may be gone at any time, but what a get delivers is what was set.  The
 * hash of a key has 128 bits and a secret of the store in it, and the CRC-32C of key and value is
 * verified on every get.  Whatever goes wrong below (a short read, EIO, a flipped bit, a torn
 * write, kill -9) is a miss for that key, counted, and reported to opts->on_error.  A set is
 * visible when it is complete, and not before.
 *
 * Threads, processes, errors and versions: as in penstock.h.  A directory belongs to one store at a
 * time.  Operations on one key that are in flight together happen in any order.
 */
struct penstock_store;

enum penstock_store_policy {
	PENSTOCK_STORE_S3FIFO = 0, /* what is used once does not push out what is used often */
	PENSTOCK_STORE_LRU = 1,
};

/*
 * Bits of struct penstock_store_opts.flags.  With DURABLE no key has an older value after a loss of
 * power.  Records that were being written just then may have reached the device in part; that is
 * damage of the log, which open finds and counts (stats.lost), and what it said before is missed.
 */
#define PENSTOCK_STORE_SECOND_TOUCH 0x1u /* store a value when it is set for the second time */
#define PENSTOCK_STORE_DURABLE      0x2u /* a set or delete is on the device when it completes */
#define PENSTOCK_STORE_NO_RECENT    0x4u /* keep no copies of what has just been written */

/* Options of penstock_store_open().  Start from PENSTOCK_STORE_OPTS_INIT; zero means "default". */
struct penstock_store_opts {
	uint32_t size;       /* set by PENSTOCK_STORE_OPTS_INIT */
	uint32_t flags;      /* PENSTOCK_STORE_SECOND_TOUCH, ... */
	uint32_t policy;     /* enum penstock_store_policy: what goes when space is short */
	uint32_t threads;    /* that look up, verify and copy, 1..64 (1) */
	uint32_t io_threads; /* of the handle below, 1..256 (1) */
	uint32_t ttl_s;      /* values are gone after so many seconds; 0: never */
	uint64_t memory;    /* most bytes of buffers: recent values, values on their way to a GPU or
			       under a deadline (64 MiB, with GPU memory 256); one value may be larger
			     */
	uint64_t log_bytes; /* most bytes of log in a directory, which has as much again to
			       rewrite it (1/64 of its capacity) */
	const char *engine; /* as in struct penstock_opts */
	void (*on_error)(void *arg, const struct penstock_event *event); /* failures; any thread */
	void *on_error_arg;
	uint64_t below_bytes; /* most bytes of values in the object store below (10 times @capacity)
			       */
	/* Of its client; used by open only.  Where it does not say, a request has two attempts
	 * within 10 seconds. */
	const struct penstock_s3_opts *s3;
};
/* clang-format off */
#define PENSTOCK_STORE_OPTS_INIT \
	{sizeof(struct penstock_store_opts), 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL}
/* clang-format on */

#define PENSTOCK_STORE_KEY_MAX   4096u
#define PENSTOCK_STORE_VALUE_MAX 0xffffffffu /* bytes */

/*
 * Open the store in @nr directories, each best on a drive of its own, and make what is not
 * there; values are spread over them.  All files together never take more than @capacity bytes,
 * of which each directory gets an equal share; a directory may have less where its file system
 * is full.  A directory that cannot be used is left out and told, unless none remains.
 *
 * The last name may be s3://BUCKET/PREFIX, the tier below: what is evicted is put there in the
 * background, and what a get then finds only there is fetched, verified, set and delivered.  It is
 * one more chance for a value and no promise: where it is slow or dead, values are lost and keys
 * missed, and nobody waits who does not ask for one that is there alone.  A restart with the same
 * name finds what is there; without it, it is forgotten.
 * Returns 0, or
 *   -EINVAL	an option is out of range; @capacity is below 1 MiB per directory
 *   -EBUSY	a directory is in use by another store, or being removed
 *   -EEXIST	a directory holds files that are not a store's
 *   -EPROTO	a directory holds a store of another version
 *   -EMFILE, -ENFILE, -ENOMEM	of the process, for which no directory is left out
 *   -ENOTSUP	libcurl or libcrypto cannot be loaded; a URI of another kind
 */
PENSTOCK_API int penstock_store_open(struct penstock_store **out, const char *const *dirs,
				     unsigned nr, uint64_t capacity,
				     const struct penstock_store_opts *opts,
				     struct penstock_err *err);

/*
 * Wait for what is in flight, write the log to the device, and free the store, always.  Batches
 * that nobody has collected are forgotten.  NULL is allowed.
 */
PENSTOCK_API int penstock_store_close(struct penstock_store *store, struct penstock_err *err);

/*
 * Memory that values are read into and written from, such as the pool of a serving engine: as
 * penstock_buf_register().  Nothing needs it; it saves the kernel the pinning of pages for every
 * value, and with PENSTOCK_BUF_HUGE in @want copies of large values on virtual disks.  It must stay
 * mapped until it is unregistered or the store is closed.
 */
PENSTOCK_API int penstock_store_register(struct penstock_store *store, void *addr, uint64_t len,
					 uint32_t want, struct penstock_buf_info *info,
					 struct penstock_err *err);
PENSTOCK_API int penstock_store_unregister(struct penstock_store *store, void *addr);

/* ----------------------------------------------------------------- batches */

enum penstock_store_opcode {
	PENSTOCK_STORE_GET = 1,
	PENSTOCK_STORE_SET = 2,
	PENSTOCK_STORE_EXISTS = 3,
	PENSTOCK_STORE_DELETE = 4,
};

/* Bits of struct penstock_store_batch.flags. */
#define PENSTOCK_STORE_ABSENT \
	0x1u /* set: what is there with this length counts as stored, unwritten */
#define PENSTOCK_STORE_PREFIX 0x2u /* exists: stop at the first key that is not there */
#define PENSTOCK_STORE_TOUCH  0x4u /* exists: what is there counts as used, as by a get */

struct penstock_store_item {
	const void *key;                /* copied at submission */
	uint32_t key_len;               /* 1..PENSTOCK_STORE_KEY_MAX */
	uint32_t nr_iov;                /* get and set */
	const struct penstock_iov *iov; /* copied at submission; its memory is used until the end */
};

/*
 * Per key a result is a number of bytes, or a negative errno value: a miss.
 *	get	length of the value, of which so many bytes are in the memory
 *	set	length of the value, which is stored
 *	exists	length of the value
 *	delete	0
 * and
 *   -ENOENT	it is not there
 *   -EBADMSG	what was read is not what was written
 *   -EMSGSIZE	get: the value is larger than the memory
 *   -ETIME	late, see @deadline_ns
 *   -EAGAIN	set: not admitted, see PENSTOCK_STORE_SECOND_TOUCH
 *   -ENOSPC	set: no space could be made for it
 *   -ECANCELED	set: the store was cleared before it was complete
 *   -EIO, ...	the device failed
 * After a get that missed the memory may hold anything.
 */
struct penstock_store_done {
	uint64_t ticket;
	uint64_t tag;
	uint32_t opcode;
	uint32_t nr;     /* keys */
	uint32_t good;   /* of these, with a result that is not negative */
	uint32_t prefix; /* how many before the first one that is negative */
};

struct penstock_store_batch {
	uint32_t opcode; /* enum penstock_store_opcode */
	uint32_t flags;
	uint32_t nr;
	uint32_t memory; /* enum penstock_memory: ANY may be a GPU's */
	const struct penstock_store_item *items;
	int64_t *results; /* @nr of them, complete before the batch is; NULL: not needed */
	uint64_t tag;     /* handed back */
	/*
	 * 0: none.  Keys that are not finished so many nanoseconds after submission are misses
	 * (-ETIME) and the batch is complete.  Values then pass through buffers of the store, so
	 * that the memory of the batch is not touched after that.
	 */
	uint64_t deadline_ns;
	uint32_t ttl_s; /* set: instead of opts->ttl_s; 0: that one */
	uint32_t cost;  /* set: 0..3, how dear it is to compute the values again */
	/* Optional: called once from a thread of the store, instead of keeping the batch for
	 * drain and wait.  It must not wait, close, or take long. */
	void (*on_done)(void *arg, const struct penstock_store_done *done);
	void *arg;
	uint64_t reserved[2]; /* 0 */
};

/*
 * Queue a batch; never waits.  Returns its ticket, or -EINVAL, -ENOMEM with nothing queued.  With
 * device memory nothing may be under way in the GPU's streams that touches it.
 */
PENSTOCK_API int64_t penstock_store_submit(struct penstock_store *store,
					   const struct penstock_store_batch *batch,
					   struct penstock_err *err);

/*
 * Readable while finished batches wait to be collected; an eventfd(2), the store's.  It may be so
 * once more where another thread has just collected them.
 */
PENSTOCK_API int penstock_store_fd(const struct penstock_store *store);

/* Collect finished batches, at most @max; never waits.  Returns how many. */
PENSTOCK_API int penstock_store_drain(struct penstock_store *store,
				      struct penstock_store_done *done, unsigned max);

/*
 * Wait for one batch, at most @timeout_ns (negative: without limit).  Returns 0 with *@done
 * filled, -ETIMEDOUT, or -ENOENT when there is no such ticket.
 */
PENSTOCK_API int penstock_store_wait(struct penstock_store *store, uint64_t ticket,
				     int64_t timeout_ns, struct penstock_store_done *done);

/*
 * Submit and wait; nobody else can collect the batch.  Exists is answered by the calling thread.
 * Returns 0 or as submit.
 */
PENSTOCK_API int penstock_store_run(struct penstock_store *store,
				    const struct penstock_store_batch *batch,
				    struct penstock_store_done *done, struct penstock_err *err);

/*
 * Forget everything: for what the keys say no longer, as after new weights.  When this returns no
 * value that was set, or is being set, before the call is found any more, in memory, on a drive or
 * below, nor after kill -9, a loss of power and a restart; objects below are deleted behind it.
 * Sets that were submitted before and are not complete are not going to be (-ECANCELED); gets that
 * were may still deliver.  Waits for the logs, not for values.  Not from an on_done.  Returns 0, or
 *   -ECHILD	the store belongs to the parent process
 *   -EIO, ...	of a directory that fails, and is left out: nothing is found now, and what it has
 *		may be if it is opened again without the others
 */
PENSTOCK_API int penstock_store_clear(struct penstock_store *store, struct penstock_err *err);

/* -------------------------------------------------------------- statistics */

struct penstock_store_stats {
	uint32_t size; /* sizeof(struct penstock_store_stats), set by the caller */
	uint32_t dirs;
	uint32_t dirs_out; /* of these: left out */
	uint32_t reserved;
	uint64_t capacity;
	uint64_t disk_bytes; /* that the files take now */
	uint64_t used_bytes; /* of the data files: space of values */
	uint64_t entries;
	uint64_t value_bytes;
	uint64_t index_bytes;  /* memory of the index, of what is below, too */
	uint64_t buffer_bytes; /* memory of buffers, within opts->memory */
	uint64_t gets, hits, misses;
	uint64_t hits_recent;   /* of hits: from memory */
	uint64_t late;          /* keys */
	uint64_t errors;        /* gets and sets that the device failed */
	uint64_t corrupt;       /* gets whose CRC was wrong */
	uint64_t expired;       /* found past their time */
	uint64_t sets, stored;  /* asked for, and written */
	uint64_t sets_present;  /* not written: PENSTOCK_STORE_ABSENT */
	uint64_t sets_refused;  /* not admitted at the first touch */
	uint64_t sets_no_space; /* file system full, or larger than the store */
	uint64_t deletes;
	uint64_t evictions, evicted_bytes;
	uint64_t bytes_got, bytes_set;       /* of values, delivered and stored */
	uint64_t bytes_read;                 /* from the drives */
	uint64_t bytes_written;              /* to them, padding and log included: wear */
	uint64_t log_bytes;                  /* of that: log */
	uint64_t recovered;                  /* entries found at open */
	uint64_t lost;                       /* entries and records found broken at open */
	uint64_t below_entries, below_bytes; /* in the object store below */
	uint64_t demoted;                    /* evictions that were put there */
	uint64_t demotions_lost;             /* that were not: too many at once, or it failed */
	uint64_t promoted;                   /* that came back for a get */
	uint64_t below_errors;               /* requests that failed */
};

PENSTOCK_API int penstock_store_get_stats(struct penstock_store *store,
					  struct penstock_store_stats *stats);

/* Those of the handle below, as of penstock_get_stats(): engine, O_DIRECT or not, CPU time. */
PENSTOCK_API int penstock_store_get_io_stats(struct penstock_store *store,
					     struct penstock_stats *stats);

/*
 * The same as text for Prometheus, with a 0 at its end.  Returns the length of all of it, as
 * snprintf(3) does, or -errno.
 */
PENSTOCK_API int penstock_store_metrics(struct penstock_store *store, char *text, size_t size);

/* --------------------------------------------------------------- inspection */

/* Bits of @flags of penstock_store_inspect(). */
#define PENSTOCK_STORE_VERIFY 0x1u /* read every value, too */

struct penstock_store_entry {
	const void *key;
	uint32_t key_len;
	int32_t code; /* with PENSTOCK_STORE_VERIFY: 0, -EBADMSG, -EIO, ... */
	uint64_t len;
	uint64_t expires; /* seconds since 1970; 0: never */
};

struct penstock_store_summary {
	uint32_t size; /* sizeof(struct penstock_store_summary), set by the caller */
	uint32_t version;
	uint64_t entries, value_bytes;
	uint64_t data_bytes, log_bytes; /* of the files */
	uint64_t log_live;              /* of the log: records of what is there */
	uint64_t lost;                  /* records found broken */
	uint64_t bad;                   /* with PENSTOCK_STORE_VERIFY: values */
};

/*
 * Inspect one directory of a store that nobody has open; nothing is changed.  @each (may be
 * NULL) gets every entry, oldest first; non-zero ends it and is returned.  Errors as of open.
 */
PENSTOCK_API int
penstock_store_inspect(const char *dir, unsigned flags,
		       int (*each)(void *arg, const struct penstock_store_entry *entry), void *arg,
		       struct penstock_store_summary *sum, struct penstock_err *err);

/* Remove a store's files from a directory, and no others, and the directory if it is empty. */
PENSTOCK_API int penstock_store_drop(const char *dir, struct penstock_err *err);

#ifdef __cplusplus
}
#endif
#endif
