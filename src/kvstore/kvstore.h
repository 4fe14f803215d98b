/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KVSTORE_KVSTORE_H
#define PENSTOCK_KVSTORE_KVSTORE_H

/*
 * The KV store, inside.
 *
 * A store has directories, each with a data file, whose space is given out in extents, and a
 * log that says what is in it (store_dir.c, journal.c, compact.c).  What the logs say together is
 * the index, in memory (index.c); who goes when space is short is the policy's business (policy.c).
 *
 * Operations, one per key, belong to a batch (batch_submit.c, batch.c).  Three kinds of threads
 * work on them:
 *
 *	workers		look up, make space, verify and copy; never wait for a device (worker.c)
 *	I/O threads	those of the handle below; their callbacks queue operations again
 *	the log writer	writes logs, grows files, rewrites logs; may wait (log_writer.c)
 *
 *	get:	worker (find, pin) -> I/O -> worker (verify, deliver)
 *	set:	worker (space, CRC) -> I/O -> log writer (log, then visible)
 *	delete:	worker (gone) -> log writer (log)
 *
 * @lock guards what is in memory of directories, index, policy and staging; @queues.lock the
 * queues. The second may be taken inside the first, never the other way round, and neither is held
 * across I/O.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <penstock/store.h>

#include "kvstore/index.h"
#include "kvstore/policy.h"
#include "kvstore/record.h"
#include "kvstore/tier.h"

enum {
	STORE_UNIT = 4096, /* of space in data files */
	STORE_DIRS_MAX = 64,
	STORE_EXCLUDE_AFTER = 16, /* failures in a row, after which a directory is left out */
	STORE_TRANSFERS = 64,     /* given to the handle in one call */
	STORE_IOVS = 1024,        /* in these */
};

/* ----------------------------------------------------------------- batches */

struct store_batch;

/* What an operation is waiting for when it is in no queue. */
enum store_op_state {
	STORE_OP_START = 0,
	STORE_OP_READ = 1,          /* get: the value from its file */
	STORE_OP_COPY_TO_GPU = 2,   /* get: the value to device memory */
	STORE_OP_COPY_FROM_GPU = 3, /* set: the value from device memory */
	STORE_OP_WRITE = 4,         /* set: the value to its file */
};

/* Of the result of a key: its deadline or the thread that finishes the operation sets it. */
enum store_result_state {
	STORE_RESULT_PENDING = 0,
	STORE_RESULT_LOCKED = 1, /* the caller's memory is in use: the deadline waits */
	STORE_RESULT_SET = 2
};

struct store_op {
	struct store_op *next;
	struct store_batch *batch;
	const unsigned char *key;
	const struct penstock_iov *iov;
	uint32_t key_len, nr_iov;
	uint64_t len; /* of the memory */
	struct store_hash hash;
	struct store_entry *entry; /* pinned, or being made */
	struct store_buf *buf;     /* the value passes through it, or is in it; or NULL */
	enum store_op_state state;
	bool device;           /* some of the memory is a GPU's */
	bool admitted;         /* set: admission has been decided */
	bool waited_for_space; /* set */
	bool promoted;         /* get: the object store below has been asked */
	bool recent;           /* get: @buf is the copy of what was written */
	bool counted;          /* get: its bytes are in staging.reading */
	bool prepared;         /* @hash and @device are set */
	bool waits_for_memory; /* or has just been woken to try again */
	bool expired;          /* by its deadline */
	uint64_t promotes_gen; /* set: @gen of what is below, which it must still be; 0: anything */
	int code;              /* log writer: why it failed */
	atomic_uint transfers; /* under way, and one while they are being started */
	atomic_int error;      /* of the first that failed */
	atomic_int result_state; /* enum store_result_state */
};

struct store_batch {
	struct store_batch *next;                  /* finished ones */
	struct store_batch *open_prev, *open_next; /* those not finished */
	struct penstock_store *store;
	struct penstock_store_batch user;
	uint64_t ticket;
	uint64_t clears_begun; /* how many had begun when it was submitted */
	uint64_t due;          /* of clock_ns(), or UINT64_MAX */
	bool has_deadline;     /* it is still to come */
	bool awaited;          /* by its submitter, which alone collects it: no drain sees it */
	bool finished;         /* then; with queues.lock */
	atomic_uint left;      /* keys without a result */
	atomic_uint refs;      /* keys still somewhere inside, and one for the batch itself */
	atomic_uint good;
	int64_t *results; /* the user's, or ours */
	uint32_t nr;
	struct store_op ops[];
};

/* A queue of operations, first in first out. */
struct store_op_queue {
	struct store_op *first, **last;
};
void store_op_queue_init(struct store_op_queue *l);
void store_op_queue_push(struct store_op_queue *l, struct store_op *op);
void store_op_queue_push_front(struct store_op_queue *l,
			       struct store_op *op);                /* before all others */
struct store_op *store_op_queue_pop(struct store_op_queue *l);      /* the first of them, or NULL */
struct store_op *store_op_queue_take_all(struct store_op_queue *l); /* all of them, linked */

struct store_queues {
	pthread_mutex_t lock;
	pthread_cond_t work;     /* for workers */
	pthread_cond_t commit;   /* for the log writer */
	pthread_cond_t finished; /* for those who wait for a batch */
	struct store_op_queue ready;
	struct store_op_queue to_commit; /* for the log writer */
	bool stop, stop_log_writer;
	bool wake_log_writer;     /* it has something else to do */
	unsigned idle;            /* workers that wait */
	struct store_batch *open; /* not finished */
	_Atomic uint64_t next_deadline;
	struct store_batch *done_first, **done_last;
	atomic_bool signal_due; /* the first of these, to who polls */
	uint64_t objects;       /* batches not freed */
	uint64_t tickets;
	/* Of all that was there: how many were asked for, and of these begun and over. */
	uint64_t clears_wanted, clears_begun, clears_done;
	struct penstock_err clear_err; /* of the last one */
};

/* ----------------------------------------------------------------- staging */

/* Memory that values pass through, and copies of those written last. */
struct store_buf {
	struct store_buf *prev, *next; /* idle, or recent */
	struct store_entry *entry;     /* whose copy it is, or NULL */
	unsigned char *addr;
	uint64_t len; /* rounded */
	uint32_t refs;
	uint32_t slot;      /* in staging.slots */
	atomic_uint pinned; /* for GPUs: an enum store_pin */
};

enum store_pin { STORE_PIN_NEVER, STORE_PIN_TRIED, STORE_PINNED };

struct store_staging {
	uint64_t limit, bytes;
	struct store_buf idle, recent; /* heads of circular lists, oldest next */
	struct store_buf **slots;
	uint32_t nr_slots, slots_capacity;
	struct store_buf *retired;     /* to be freed without the lock, by @next */
	struct store_op_queue waiting; /* for memory */
	unsigned in_use;               /* buffers that operations have */
	uint64_t reading;              /* bytes being read under a deadline */
};

void store_staging_init(struct penstock_store *s);
void store_staging_fini(struct penstock_store *s);
/* With @lock, all of these.  NULL: there is none now.  A new one has no memory yet. */
struct store_buf *store_staging_get(struct penstock_store *s, uint64_t len);
/* Values are in memory of a GPU: raise the limit for those to come. */
void store_staging_expect_gpu(struct penstock_store *s);
/* Queue an operation that got none; it starts again with one. False: none will come. */
bool store_staging_queue(struct penstock_store *s, struct store_op *op);
/* It does not wait any longer: there may be memory for the next one. */
void store_staging_leave_queue(struct penstock_store *s, struct store_op *op);
void store_staging_put(struct penstock_store *s, struct store_buf *b);
/* It is the copy of @e from here on. */
void store_staging_keep_copy(struct penstock_store *s, struct store_buf *b, struct store_entry *e);
/* The copy of @e with one more reference, or NULL. */
struct store_buf *store_staging_get_copy(struct penstock_store *s, const struct store_entry *e);
void store_staging_drop_copy(struct penstock_store *s, struct store_entry *e);
/* Without @lock, by who has just got it: its memory.  0 or -ENOMEM. */
int store_staging_map(struct penstock_store *s, struct store_buf *b);
/*
 * Without @lock, by who has a reference: before a copy between it and a GPU.  With memory that is
 * not pinned the driver copies itself, in the thread that asks for it, and other I/O waits.
 */
void store_staging_pin(struct store_buf *b);

/* -------------------------------------------------------------- directories */

struct store_secret {
	uint64_t a, b;
};

/* Bytes to be appended to a log. */
struct store_bytes {
	unsigned char *at;
	size_t len, capacity;
};

struct store_log {
	struct penstock_file *file;
	int fd; /* of the same: to cut it off takes no more then */
	struct store_log_head head;
	uint64_t end; /* bytes */
};

/* A log being rewritten: what is alive is copied until nothing is left to copy. */
struct store_rewrite {
	bool active;
	struct store_log to;
	uint64_t from;  /* how far the old one has been read */
	uint64_t began; /* its end when we began: all that comes behind it is copied */
};

struct store_dir {
	struct penstock_store *store;
	char *path;
	unsigned nr;
	int dir_fd, head_fd; /* the head is @locked */
	bool locked;         /* the directory is ours */
	bool fresh;          /* its head says nothing yet */
	struct store_secret secret;
	struct penstock_file *data;
	int data_fd;
	struct extent_map *map;
	uint64_t limit_units;
	uint64_t step_units;   /* by which the file grows */
	uint64_t retry_ns;     /* the file system was full: do not ask again before */
	bool growth_requested; /* sets wait for it */
	struct store_op_queue waiting;

	struct store_log log;
	struct store_rewrite rewrite;
	struct store_bytes pending; /* records not yet written, with @lock */
	struct store_bytes group;   /* those being written, the log writer's */
	int code;                   /* of its last flush, the log writer's */
	uint64_t log_limit,
		log_allocated;  /* allocated: what both logs have on the drive, up to the limit */
	uint64_t log_live;      /* records of what is there, */
	uint64_t log_below;     /* of these: in the object store below */
	uint64_t log_in_flight; /* records of sets that are under way */
	uint64_t rewrite_ns;    /* there was no space to rewrite it: not before */
	uint64_t full_ns;       /* nor to write it: nothing can be set before */

	bool excluded; /* it has failed too often */
	unsigned failures;
	atomic_uint_fast64_t in_flight; /* bytes */
};

/* Make the directory, if it is not there, lock it, and read its head. */
int store_dir_open(struct store_dir *d, struct penstock_store *s, const char *path, uint64_t share,
		   struct penstock_err *err);
/* Then, once the secret of the store is known: open or make its files. */
int store_dir_open_files(struct store_dir *d, struct penstock_err *err);
/* The same for one that is there, to look at. */
int store_dir_open_readonly(struct store_dir *d, struct penstock_store *s, const char *path,
			    struct penstock_err *err);
void store_dir_close(struct store_dir *d);
uint64_t store_dir_disk_bytes(const struct store_dir *d);
/* The log writer: the log or the data file by a step; 0 or -errno. */
int store_dir_grow(struct store_dir *d);
bool store_dir_can_grow(const struct store_dir *d);
/* With @lock: leave it out from here on. */
void store_dir_exclude(struct store_dir *d);
/* Nothing of what it has is to be found again, if it is ours. */
void store_dir_remove_log(struct store_dir *d);
/* Hand over @fd, and keep another one of the file if that works. */
int store_dir_adopt_fd(struct penstock_file **out, int *ret_fd, struct store_dir *d, int fd,
		       const char *name, struct penstock_err *err);
void store_log_close(struct store_log *log);
/* Trouble of the process or the machine, for which no directory is to blame. */
bool store_is_process_error(int code);
/* A quota that is used up is a full file system. */
int store_quota_to_nospc(int code);
/* A transfer or a write of the log has ended with @code: too many failures and it is left out. */
void store_dir_count_result(struct store_dir *d, int code, const char *what);

struct store_head {
	unsigned version;
	struct store_secret secret;
};
int store_head_parse(struct store_head *ret, const char *text, size_t len);
/* Lock and read the head of what must be a store already. */
int store_head_open(int *ret_dir, int *ret_head, struct store_head *ret, const char *path,
		    struct penstock_err *err);

#define STORE_RETRY_NS 1000000000ull /* the file system was full: do not ask again before */

#define STORE_HEAD_NAME "penstock-store"
#define STORE_DATA_NAME "data"
#define STORE_LOG_NAME  "log"
#define STORE_NEW_NAME  "log.new"

/* ----------------------------------------------------------------- journal */

/*
 * Every record of a log in order, from @from to @to.  @each gets a record, as it is read
 * and as it lies there, or NULL in place of what could not be read before a good one.  Returns 0,
 * -errno, or what @each returned;
 * @from then is where the last good record ends.
 */
struct store_walk {
	struct penstock_file *file;
	uint32_t seed;
	uint64_t from, to;
	uint64_t at; /* where the record lies that @each is given */
	int (*each)(void *arg, const struct store_record *r, const void *raw, size_t size);
	void *arg;
};
int store_journal_walk(struct store_walk *w, struct penstock_err *err);

/* Make one, which is not there or empty, with the head that log->head says. */
int store_journal_create(struct store_log *log, struct store_dir *d, const char *name,
			 struct penstock_err *err);
/* Read the head of d->log; -EBADMSG: there is none. */
int store_journal_read_head(struct store_dir *d, struct penstock_err *err);
/* Write it again, as it is in memory, with the time it is now. */
int store_journal_write_head(const struct penstock_store *s, struct store_log *log,
			     struct penstock_err *err);
/*
 * The next epoch for all directories that are not left out; @since: see struct store_log_head.  A
 * kill at any time loses nothing.  The first error, of @failed if it is not NULL; without, all is
 * synced.
 */
int store_journal_set_epoch(struct penstock_store *s, uint64_t since, uint64_t epoch,
			    void (*failed)(struct store_dir *d, int code));
/* Read the log into the index; what is broken is left out and counted. */
int store_journal_load(struct store_dir *d, struct penstock_err *err);
/* All have been read: what has no space is gone. */
void store_journal_drop_spaceless(struct penstock_store *s);
/* With @lock: append to what is pending.  0 or -ENOMEM. */
int store_journal_set(struct store_dir *d, const struct store_op *op);
int store_journal_drop(struct store_dir *d, struct store_hash hash, uint64_t gen);
int store_journal_below(struct store_dir *d, const struct store_entry *e, uint64_t run);
/* fsync(2): 0 or -errno. */
int store_sync(struct penstock_store *s, struct penstock_file *file);
/*
 * The log writer: write what is pending.  0, or -errno: no set of it is in the log or will be, and
 * what is gone is still to be written.
 */
int store_journal_flush(struct store_dir *d);

/* Space of logs on the drive (log_space.c). */

/* After it was read: as much as suits what it says, or what there is. */
void store_log_space_init(struct store_dir *d);
/* Is it longer than it may be?  Then, once all logs are true: make it fit; 0 or -errno. */
bool store_log_is_too_long(const struct store_dir *d);
int store_log_shrink(struct store_dir *d);
/* The log writer: more of it; 0 or -errno. */
int store_log_space_grow(struct store_dir *d);
/* The log writer: what there is once more, after a file has been cut or replaced. */
void store_log_space_allocate(struct store_dir *d);
/* Cut off what is behind the end of the log; 0 or -errno, which is told. */
int store_log_truncate(const struct store_dir *d);
/* With @lock: can a record of @size be written, whatever else is under way? */
bool store_log_space_fits(const struct store_dir *d, uint64_t size);
/* With @lock: there should be more soon, and there may be. */
bool store_log_space_is_short(const struct store_dir *d);
/* With @lock: could there be space for anything? */
bool store_log_space_is_usable(const struct store_dir *d);

/* Is what the record says still so, or of a DROP: is it there that it says is gone? */
bool store_journal_is_alive(struct store_dir *d, const struct store_record *r);
/* Is rewriting the log under way, or is it time to begin? */
bool store_journal_needs_rewrite(const struct store_dir *d);
/* The log writer: go on rewriting it, or begin.  0 or -errno. */
int store_journal_rewrite(struct store_dir *d);
/* From the beginning to the end. */
int store_journal_rewrite_whole(struct store_dir *d);
/* What there is of the new one is not needed. */
void store_journal_abort_rewrite(struct store_dir *d);

/* ------------------------------------------------------------------- store */

struct store_worker {
	struct penstock_store *store;
	pthread_t thread;
	struct penstock_op ops[STORE_TRANSFERS];
	struct penstock_iov iovs[STORE_IOVS];
	unsigned nr_ops, nr_iovs;
};

struct penstock_store {
	struct penstock_store_opts opts;
	uint64_t capacity;
	pid_t pid;
	int event;
	struct penstock_io *io;
	pthread_mutex_t lock;
	struct store_index index;
	struct store_policy policy;
	struct store_seen touched; /* sets that were not admitted */
	struct store_staging staging;
	struct store_dir *dirs;
	unsigned nr_dirs, next_dir;
	struct store_op_queue waiting; /* sets, for space that is in use now */
	uint64_t busy_entries; /* entries being written, and pins: what they have comes back */
	bool dir_excluded;     /* the others are to be told of it */
	struct store_secret secret;
	/* Of a log being rewritten, so much at a time; a quarter of it is not worth the trouble. */
	_Atomic uint64_t log_piece;
	uint64_t gen;        /* the last one given */
	uint64_t clock_base; /* seconds: wall clock at open, or what the logs know if that is later
			      */
	uint64_t clock_from; /* nanoseconds of a clock that goes on in suspension, then */
	/* So often it is written down, with nothing else to write, if @expiring: a value is to end.
	 */
	_Atomic uint64_t clock_tick_ns;
	bool expiring;
	bool has_conflicts; /* while logs are read: the space of some entries was taken */
	struct penstock_store_stats stats;
	struct store_tier *tier; /* below, or NULL */
	struct store_queues queues;
	pthread_t log_writer;
	bool has_log_writer, has_locks;
	struct store_worker *workers;
	unsigned nr_workers;
};

/* Let go of @lock, and then free what was given up under it: unpinning and unmapping take long. */
void store_unlock(struct penstock_store *s);
/* Seconds of a clock that goes on where the last run was, and never back. */
uint64_t store_now(const struct penstock_store *s);
/* Of the logs, after @epoch. */
uint64_t store_next_epoch(uint64_t epoch);
struct store_hash store_hash_key(const struct store_secret *secret, const void *key, size_t len);
/* Units for a value: few sizes, so that what one leaves the next can use. */
uint64_t store_units(uint64_t len);
void store_report_error(const struct penstock_store *s, int code, const char *file, uint64_t len,
			const char *text);
/* All but directories, handle and threads. */
int store_init(struct penstock_store *s);
void store_fini(struct penstock_store *s);

/* With @lock: nobody can find @e any more; its space is free with its last pin. */
void store_entry_drop(struct penstock_store *s, struct store_entry *e);
/* With @lock: as before, and the log is told. */
void store_entry_erase(struct penstock_store *s, struct store_entry *e);
void store_entry_pin(struct penstock_store *s, struct store_entry *e);
void store_entry_unpin(struct penstock_store *s, struct store_entry *e);

/* Queues of operations (op_queue.c). */
void store_queue_op(struct penstock_store *s, struct store_op *op);
void store_queue_ops(struct penstock_store *s, struct store_op *list);
void store_queue_commit(struct penstock_store *s, struct store_op *op);
void store_wake_log_writer(struct penstock_store *s);
/* A set of one key, of what is below with this @gen.  0 or -ENOMEM. */
int store_submit_promotion(struct penstock_store *s, const struct penstock_store_batch *u,
			   uint64_t gen);
/* -ECHILD after fork(), or -EINVAL without a store. */
int store_check(const struct penstock_store *s, struct penstock_err *err);
/* Until a batch that is awaited is finished; it is collected. */
void store_batch_await(struct store_batch *b, struct penstock_store_done *done);
/* With @queues.lock: it is not finished. */
void store_batch_open(struct store_queues *q, struct store_batch *b);
/* All keys are over: tell the caller. */
void store_batch_finish(struct store_batch *b);
/* After the last of some store_op_finish(): wake the thread that polls. */
void store_signal_done(struct penstock_store *s);
/* Set the result of the key, unless its deadline has, and release the batch. */
void store_op_finish(struct store_op *op, int64_t result);
bool store_op_has_result(struct store_op *op);
/* May the caller's memory be touched?  Then the deadline waits for one of the two below. */
bool store_op_lock_result(struct store_op *op);
/* It is no longer touched; false: it is too late now. */
bool store_op_unlock_result(struct store_op *op);
void store_expire_batches(struct penstock_store *s);

/* The log writer: of directories that have been left out since, for good. */
void store_advance_epoch(struct penstock_store *s);
/* The log writer: whatever clears_begun of the store are wanted, between two groups. */
void store_run_clears(struct penstock_store *s);

/* Work. */
int store_workers_start(struct penstock_store *s, struct penstock_err *err);
void store_workers_stop(struct penstock_store *s);
int store_log_writer_start(struct penstock_store *s, struct penstock_err *err);
void store_log_writer_stop(struct penstock_store *s);
void store_get_step(struct store_worker *w, struct store_op *op);
void store_set_step(struct store_worker *w, struct store_op *op);
void store_delete_step(struct store_worker *w, struct store_op *op);
void store_exists_step(struct store_op *op); /* all keys of its batch */
/* Now, for a caller; @results may be NULL.  Counts into @done. */
void store_exists_run(struct penstock_store *s, const struct penstock_store_batch *u,
		      struct penstock_store_done *done);
/* With @lock: what a set has written is visible now (0 or -ENOMEM), or is nothing. */
int store_set_publish(struct penstock_store *s, struct store_op *op);
void store_set_discard(struct penstock_store *s, struct store_op *op);
/* Transfers between file or staging and memory; the last one to end brings the op back. */
void store_transfer(struct store_worker *w, struct store_op *op, uint32_t opcode);
void store_copy_device(struct store_worker *w, struct store_op *op, bool to_device);
/* Returns the CRC of key and value, of the bytes as they are where they went. */
uint32_t store_copy_host(struct store_op *op, bool to_user);
/* Its hash, and whether some of its memory is a GPU's. */
void store_op_prepare(struct store_op *op);
uint32_t store_value_crc(const struct store_op *op, uint64_t len);

#endif
