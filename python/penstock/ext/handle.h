/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_HANDLE_H
#define PENSTOCK_PYTHON_HANDLE_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "ext.h"

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

/*
 * Threads that wait, each for a condition of its own.  A thread that changes something calls
 * shared_io_wake(), which wakes those whose condition holds.
 */
struct wait_list {
	pthread_mutex_t lock;
	atomic_uint nr;
	struct wait_entry *first;
};

/*
 * A part of a shared_io.  A thread always uses the same part, so two threads with different shards
 * share no cache line during an operation.  A future stays with the shard of the thread that
 * submitted it.
 */
enum { SHARDS = 16 };
struct thread_shard {
	alignas(64) struct wait_list waiters; /* threads that wait for one future */
	atomic_uint calls;                    /* calls into the library under way */
	atomic_uint reaps;                    /* how often its threads have reaped */
	_Atomic uint64_t pending;             /* operations submitted and not finalized */
	_Atomic uint64_t finished;            /* operations since the last wait() */
	struct future *_Atomic done_stack;    /* to be finalized, newest first */
	struct future *_Atomic done_queue;    /* older ones, oldest first; waiters.lock */
};

/*
 * What a handle, its files and its futures share.  It outlives the handle: a future may
 * be looked at long after.
 *
 * The lock of a wait list is never held while taking the GIL, or running Python code.
 */
struct shared_io {
	alignas(64) atomic_uint refs;               /* all threads write to it */
	alignas(64) struct penstock_io *_Atomic io; /* NULL: closed */
	unsigned forks; /* how many fork()s deep this process was when it was made */
	unsigned mode;  /* of files it creates */
	atomic_bool closing;
	atomic_bool registering;       /* somebody is at it, see register.c */
	struct registered *registered; /* theirs: memory of users */
	PyObject *_Atomic s3;          /* the client of object stores, once one is needed */
	struct shared_io *next_open, **pprev_open; /* in the list of open ones */

	struct wait_list waiters;      /* waiting for anything else; its lock guards what follows */
	pthread_t closer;              /* while closing */
	struct future *failed, **last; /* failures nobody has seen, oldest first; referenced */

	struct thread_shard shards[SHARDS];
};

/*
 * How many threads and objects use something, which can be closed only while the count is zero.  It
 * begins with zero; a negative count means closed.
 */
typedef atomic_int use_count;

/* false: closed */
static inline bool use_count_begin(use_count *c)
{
	int n = atomic_load(c);

	while (n >= 0 && !atomic_compare_exchange_weak(c, &n, n + 1))
		;
	return n >= 0;
}

static inline void use_count_end(use_count *c)
{
	atomic_fetch_sub(c, 1);
}

/* false: in use, or closed already */
static inline bool use_count_close(use_count *c)
{
	int none = 0;

	return atomic_compare_exchange_strong(c, &none, -1);
}

/* A path in one of its forms. */
struct path {
	PyObject *bytes;    /* owned: the memory of @path */
	PyObject *filename; /* owned: as OSError shows it */
	const char *path;   /* NULL: see fd and file */
	int fd;
	PyObject *file; /* owned penstock.File, or NULL */
};

/* How far an operation has come; it only moves forward. */
enum future_state {
	FUTURE_IN_FLIGHT,
	FUTURE_WATCHED,    /* in flight; completing it calls dispatch_push() */
	FUTURE_COMPLETED,  /* set by an I/O thread: what it fills is filled */
	FUTURE_FINALIZING, /* a thread of Python is giving back what was held */
	FUTURE_FINALIZED,
};

/* One operation.  The library holds a reference while it is under way. */
struct future {
	PyObject_HEAD struct shared_io *shared;
	struct thread_shard *shard;
	struct buffer buffer;
	struct path path;
	uint64_t offset;
	uint32_t opcode;
	bool counted; /* by Handle.wait() */
	bool late;    /* begun while the interpreter exits, not pending: see dispatch.c */

	_Atomic enum future_state state;

	/* filled by the I/O thread, before it is completed */
	int64_t res;
	uint32_t flags;
	bool refused;            /* the library did not take it */
	char *msg;               /* malloced; NULL: none, or no memory for it */
	struct future *next;     /* on shard->done_stack, then on shard->done_queue */
	struct future *next_due; /* on the dispatcher's list */

	/* filled while finalizing */
	struct finalizer *_Atomic finalizer; /* of the thread that does it */
	PyObject *finish_error;              /* what buffer_finish() raised, or NULL */

	/* shard->waiters.lock */
	struct callback *callbacks, **last_callback;
	bool watched; /* the dispatcher will run them, */
	bool called_back;

	/* shared->waiters.lock: failed, and not seen yet */
	struct future *next_failed, **pprev_failed;
};

static inline PyObject *future_object(struct future *f)
{
	return (PyObject *)f;
}

struct file {
	PyObject_HEAD struct shared_io *shared;
	struct penstock_file *file; /* while @users is open */
	PyObject *name;
	bool new_object; /* an object that is there when this is closed, and not before */
	char apart[64];  /* from what all threads write to */
	use_count users; /* futures and calls under way */
};

struct handle {
	PyObject_HEAD struct shared_io *_Atomic shared; /* NULL before __init__ */
};

/* ---- shared_io.c */
int shared_io_setup(void); /* once, when the module is loaded; 0 or -1 with an exception */
bool shared_io_is_inherited(const struct shared_io *h); /* made before a fork(): the parent's */

struct shared_io *shared_io_new(const struct penstock_opts *opts); /* NULL with an exception */
struct shared_io *shared_io_get(struct shared_io *h);
void shared_io_put(struct shared_io *h);
void shared_io_lock(struct shared_io *h); /* what h->waiters.lock guards */
void shared_io_unlock(struct shared_io *h);

/* Before @p is used: if it is an object's name, the handle gets penstock.s3's client.  0 or -1. */
int shared_io_ensure_s3(struct shared_io *h, const struct path *p);

/* Is it open, and ours?  0, or -1 with an exception. */
int shared_io_check_open(const struct shared_io *h);
int raise_inherited(void); /* raises OSError: it is the parent's; -1 */
/*
 * Around every call into the library, and nothing else: closing waits for those inside, so
 * Python code, which may close the handle, must not run there.  0, or -1 as shared_io_check_open().
 */
int shared_io_begin_call(struct shared_io *h);
bool shared_io_try_begin_call(struct shared_io *h); /* the same without an exception */
void shared_io_end_call(struct shared_io *h);

/* ---- thread_shard.c */
struct thread_shard *shard_of_thread(struct shared_io *h); /* the calling thread's */

/*
 * Wait in @list, without the GIL, until condition(arg) holds; it is called by any thread, without
 * the GIL.  @deadline: on CLOCK_MONOTONIC in nanoseconds, negative: none.  Returns 1, 0 when time
 * is up, -1 with an exception when a signal handler raised one and @signals is set.
 */
int shared_io_wait(struct shared_io *h, struct wait_list *list,
		   bool (*condition)(struct shared_io *h, void *arg), void *arg, int64_t deadline,
		   bool signals);

/* From any thread: a condition that a thread in @list waits for may hold now. */
void shared_io_wake(struct shared_io *h, struct wait_list *list);

/* From "timeout" as Python has it: None, or seconds.  -1 with an exception; else 0. */
int parse_timeout(PyObject *timeout, int64_t *deadline);

/* From an I/O thread: the future is completed. */
void shared_io_push_done(struct future *f);
/* Finalize what is done of this thread's, and now and then that of others. */
void shared_io_reap(struct shared_io *h);
void shared_io_reap_all(struct shared_io *h);
bool shared_io_has_done(struct shared_io *h); /* is there a future to finalize? */
/* One operation more is pending, of this thread; one less. */
void shared_io_add_pending(struct shared_io *h, struct future *f);
void shared_io_remove_pending(struct future *f);
uint64_t shared_io_pending(struct shared_io *h);
uint64_t shared_io_take_finished(struct shared_io *h); /* and begin to count anew */
/* Wait until nothing is in flight and everything is finalized: as shared_io_wait(). */
int shared_io_drain(struct shared_io *h, int64_t deadline, bool signals);

/* ---- shared_io.c again */

/* Behind the message of an exception: how many more operations failed. */
void add_failure_note(PyObject *error, unsigned more);
/* Raise the oldest failure nobody has seen, and forget them all.  0: there is none; -1. */
int shared_io_raise_failures(struct shared_io *h);
/* Drain, close, forget.  0, or -1 with an exception; only KeyboardInterrupt leaves it open. */
int shared_io_close(struct shared_io *h, bool signals);
/* When the interpreter ends: nothing is left in flight, no failure is left untold. */
void shared_io_drain_all(void);
bool shared_io_any_pending(void);

/* ---- future.c */
extern PyType_Spec future_spec;

/*
 * A future for one operation that is not submitted yet, and the operation itself in @op.
 * @path as given by the user.  NULL with an exception.  Before shared_io_begin_call(): runs Python
 * code.
 */
struct future_spec_args {
	uint32_t opcode;
	uint32_t flags; /* PENSTOCK_OP_* */
	uint64_t offset;
	int64_t length; /* -1: all */
};
struct future *future_make(struct shared_io *h, PyObject *obj, PyObject *path,
			   const struct future_spec_args *a, struct penstock_op *op);
/*
 * Hand over @n of them.  What the library refuses is done at once, with the refusal as its result.
 * 0, or -1 with an exception and none handed over: the handle or a file is closed.
 */
int futures_submit(struct shared_io *h, struct future **f, struct penstock_op *ops, unsigned n);
/* The same for one, done now and in this thread: small enough not to be interrupted. */
int future_run(struct shared_io *h, struct future *f, struct penstock_op *op);
/* Wait for it: as shared_io_wait(). */
int future_wait(struct future *f, int64_t deadline, bool signals);
void future_finalize(struct future *f);
/* The result as a new int, or NULL with its exception raised; it counts as seen. */
PyObject *future_outcome(struct future *f);
bool future_failed(const struct future *f); /* of a finalized one */
/* Raise the failure of a finalized future.  Returns NULL. */
PyObject *future_raise(struct future *f);
void future_mark_seen(struct future *f);
/* With shared_io_lock(): take it from the list of failures, with the list's reference. */
void future_unlist(struct future *f);
/* By the dispatcher: run and drop the callbacks. */
void future_call_back(struct future *f);

/* ---- dispatch.c */
int dispatch_start(void);                       /* 0, or -1 with an exception */
void dispatch_expect(const struct future *f);   /* it will be pushed, */
void dispatch_unexpect(const struct future *f); /* or not, or it was called back */
void dispatch_push(struct future *f); /* from any thread, without the GIL; owns a reference */
void dispatch_forked(void);           /* this is the child */
/* When the interpreter ends: finish everything, run what is due, end the thread. */
void dispatch_end(void);
bool dispatch_is_late(void); /* does this thread begin something after that? */
bool dispatch_ended(void);
PyObject *dispatch_loop(PyObject *module, PyObject *unused);

/* ---- options.c */
extern const char *const durabilities[];
/*
 * The arguments of Handle(): 0, or -1 with an exception.  *@settings, which may be NULL, is to be
 * kept as long as @o is in use.
 */
int handle_options(struct penstock_opts *o, PyObject *args, PyObject *kwargs, PyObject **settings);

/* ---- handle.c, for batch.c */

/* The options of a read or a write: what follows the objects.  0, or -1 with an exception. */
int read_flags(PyObject *partial, uint32_t *flags);
int write_flags(PyObject *truncate, PyObject *durability, uint32_t *flags);

/* ---- batch.c: methods of penstock.Handle */
PyObject *read_batch(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *write_batch(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *read_batch_async(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *write_batch_async(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* ---- register.c: methods of penstock.Handle */
PyObject *handle_register(PyObject *self, PyObject *obj);
PyObject *handle_unregister(PyObject *self, PyObject *obj);
/* The handle is closed: let go of everything. */
void registered_free_all(struct shared_io *h);

/*
 * Finalizing runs Python code, and a signal handler in there may wait for the very futures that
 * this thread has not finalized yet: those of one shared_io are counted, innermost first.
 */
struct finalizer {
	struct finalizer *outer;
	const struct shared_io *shared;
};
unsigned count_finalizing(const struct shared_io *h);

/* ---- file.c, handle.c */
extern PyType_Spec file_spec;
extern PyType_Spec handle_spec;
PyObject *file_open(struct shared_io *h, PyObject *path, const char *mode);
/* It stays open until file_unuse(); NULL with an exception. */
struct penstock_file *file_use(PyObject *file, struct shared_io *h);
void file_unuse(PyObject *file); /* and then shared_io_wake() */

/* ---- args.c */

/*
 * Arguments of METH_FASTCALL | METH_KEYWORDS: @names ends with NULL, of these the first
 * @positional may be given by position and the first @required must be given.  Those not
 * given stay NULL in @out.  0, or -1 with TypeError.
 */
struct params {
	const char *function;
	const char *const *names;
	unsigned positional;
	unsigned required;
};
int args_parse(const struct params *p, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
	       PyObject **out);
/* The same for a tuple and a dictionary (which may be NULL); borrowed from these. */
int args_parse_tuple(const struct params *p, PyObject *args, PyObject *kwargs, PyObject **out);
const char *args_text(const char *what, PyObject *value); /* UTF-8; NULL with an exception */
/* Which of @names (NULL-terminated) the string is, by index; -1 with ValueError or TypeError. */
int args_choice(const char *what, PyObject *value, const char *const *names);
/* An integer in [min, max], or -1 with an exception; NULL or None give @otherwise. */
int64_t args_int(const char *what, PyObject *value, int64_t min, int64_t max, int64_t otherwise);
int args_flag(PyObject *value, bool otherwise); /* truth; -1 with an exception */

int path_take(struct path *p, PyObject *path); /* 0, or -1 with an exception */
void path_drop(struct path *p);

#endif
