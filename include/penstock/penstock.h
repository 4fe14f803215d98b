/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/version.h> /* PENSTOCK_VERSION_*, PENSTOCK_API; generated */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Moves bytes between files and memory at the speed of the device.
 *
 *	penstock_open -> penstock_file_open -> penstock_pread / penstock_pwrite      blocking
 *				        -> penstock_submit ... penstock_wait     asynchronous
 *	            -> penstock_close
 *
 * Any offset, any length (0 included) and any address work.  What O_DIRECT can
 * take goes straight between the device and the caller's memory; the ragged
 * rest takes a detour that touches no byte it was not asked to touch.
 *
 * Memory is host memory, or memory of any CUDA device (the driver is asked where
 * an address lives; nothing has to be declared), or both in one scatter list.
 *
 * Errors.  A function that can fail returns >= 0 on success and a negative
 * errno value on failure; on failure no output argument is written (except
 * struct penstock_err and struct penstock_done) and nothing is left to free.  A
 * transfer that fails says so in its own completion: see struct penstock_done.
 *
 * Threads.  Every function may be called from several threads at once, on the
 * same handle too.  penstock_close() is the last call on a handle.
 *
 * Processes.  After fork() the handle belongs to the parent.  In the child all
 * calls on it return -ECHILD, and penstock_close() frees it without any I/O.
 *
 * Versions.  From 1.0 on a program built against one version runs with every later
 * one of the same major version, and with an earlier one as long as it uses nothing new:
 *  - a struct with @size first only ever grows at its end; @size tells which fields
 *    the caller knows;
 *  - struct penstock_op keeps its 128 bytes, and every other struct its size and layout;
 *    what is reserved must be zero, and becomes a field whose zero means "as before";
 *  - a field or flag that the library does not know is refused, not ignored: -E2BIG, or
 *    -EINVAL where it is a bit or a value of a field that it does know;
 *  - functions, constants and what they mean stay; there will be more of them.
 *
 * The library does not print, exit, read the environment or touch signals.  (Engine
 * "cufile" keeps cuFile from writing a log into the current directory, which needs
 * the variable CUFILE_LOGFILE_PATH to be set while its driver is opened.)
 */
struct penstock_io;   /* a handle: I/O threads, one queue each */
struct penstock_file; /* an open file, of one handle */
struct penstock_s3;   /* a client of object stores: s3.h */

/* Why a call failed: one line, no newline.  Optional wherever it appears. */
struct penstock_err {
	int code; /* the negative errno value that was returned */
	char msg[508];
};

/* ------------------------------------------------------------------ handle */

enum penstock_direct {
	PENSTOCK_DIRECT_AUTO =
		0, /* O_DIRECT where it is accepted, else buffered, counted as a fallback */
	PENSTOCK_DIRECT_ALWAYS = 1, /* fail where O_DIRECT is refused */
	PENSTOCK_DIRECT_NEVER = 2,
};

enum penstock_durability {
	PENSTOCK_DURABLE_NONE =
		0, /* a completed write has been accepted by the device or the page cache */
	PENSTOCK_DURABLE_DATA = 1, /* one fdatasync(2) at the end of each write operation */
	PENSTOCK_DURABLE_FULL = 2, /* fsync(2) of the file and of its directory */
};

enum penstock_huge {
	PENSTOCK_HUGE_AUTO = 0,     /* transparent huge pages where the kernel gives them */
	PENSTOCK_HUGE_RESERVED = 1, /* hugetlb pages set aside by the administrator, else as AUTO */
	PENSTOCK_HUGE_NEVER = 2,
};

/* Bits of struct penstock_opts.flags. */
#define PENSTOCK_SINGLE_SUBMIT 0x1u /* one submission call per block instead of one per batch */
#define PENSTOCK_NO_OVERLAP    0x2u /* fill the queue, wait until it is empty, fill it again */
#define PENSTOCK_DESCRIBE      0x4u /* give successful completions a message as well */
#define PENSTOCK_SPARE_CPU     0x8u /* copy nothing that can go straight, even if that were faster */

/* What the library tells the trace callback; pointers are valid during the call. */
struct penstock_event {
	uint32_t what; /* enum penstock_trace */
	int32_t code;  /* 0 or -errno */
	const char *file;
	const char *text; /* one line */
	uint64_t offset;
	uint64_t len;
};

enum penstock_trace {
	PENSTOCK_TRACE_FALLBACK = 1, /* something was refused and another way was taken */
	PENSTOCK_TRACE_RETRY = 2,    /* a block was short, interrupted or told to try again */
	PENSTOCK_TRACE_ERROR = 3,    /* an operation failed */
};

/*
 * Options of penstock_open().  Start from PENSTOCK_OPTS_INIT; zero means "default".
 * Fields are only ever appended, and @size tells the library which ones the
 * caller knows, so a program keeps working against a newer or older library.
 */
struct penstock_opts {
	uint32_t size;  /* set by PENSTOCK_OPTS_INIT */
	uint32_t depth; /* blocks in flight per I/O thread, 1..4096 (128, within 32 MiB) */
	uint64_t block; /* split size in bytes, multiple of 512, 512..1 GiB (what suits the device,
			   near 1 MiB) */
	const char
		*engine; /* NAME or NAME:SETTINGS, see penstock_engine_name(); NULL: first usable */
	uint32_t threads;    /* I/O threads, 1..256 (as many as the work needs: one, and more where
				threads do nothing but copy; see struct penstock_stats) */
	uint32_t flags;      /* PENSTOCK_SINGLE_SUBMIT, ... */
	uint32_t direct;     /* enum penstock_direct */
	uint32_t durability; /* enum penstock_durability, for every write of the handle */
	uint32_t huge;       /* enum penstock_huge, for memory the library allocates */
	uint32_t mode;       /* permissions of files created by path (0644), less the umask */
	void (*trace)(void *arg,
		      const struct penstock_event *event); /* from any thread; optional */
	void *trace_arg;
	/*
	 * Where names are s3://BUCKET/KEY, see penstock_file_open().  The caller's, to be closed
	 * after the handle; NULL: such names are refused.
	 */
	struct penstock_s3 *s3;
};
/* clang-format off */
#define PENSTOCK_OPTS_INIT {sizeof(struct penstock_opts), 0, 0, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL}
/* clang-format on */

/*
 * Open a handle and start its I/O threads.  @opts may be NULL.  Returns 0, or
 *   -EINVAL	a field is out of range; err->msg names the field and the range
 *   -E2BIG	@opts sets a field this library does not know
 *   -ENOTSUP	the engine asked for is unknown, not built in, or refused here
 *   -ENOMEM, -EAGAIN	no memory, no threads, or no queues (fs.aio-max-nr)
 */
PENSTOCK_API int penstock_open(struct penstock_io **out, const struct penstock_opts *opts,
			       struct penstock_err *err);

/*
 * Wait for what is in flight, close the handle's files, free its buffers and
 * the handle itself, always.  Returns 0, or the error of the first failed
 * operation that nobody has collected, so that no failure goes unseen.
 * NULL is allowed.
 */
PENSTOCK_API int penstock_close(struct penstock_io *io, struct penstock_err *err);

/* opts.s3, once, of a handle that was opened without: 0, or -EBUSY where it has one. */
PENSTOCK_API int penstock_set_s3(struct penstock_io *io, struct penstock_s3 *s3);
/* The client of a handle, or NULL. */
PENSTOCK_API struct penstock_s3 *penstock_get_s3(struct penstock_io *io);

/* What a field of struct penstock_opts may be. */
struct penstock_bounds {
	uint64_t min;
	uint64_t max;
	uint64_t step;   /* it is a multiple of this */
	uint64_t preset; /* what 0, "default", stands for; 0: the handle finds out */
};

/*
 * Ask by the name of a number among the fields, "depth".  Returns 0, or -ENOENT when
 * this library has no such field.
 */
PENSTOCK_API int penstock_get_bounds(const char *field, struct penstock_bounds *out);

/* ------------------------------------------------------------------- files */

/*
 * Open @path; @oflags as for open(2) (O_RDONLY, O_RDWR, O_CREAT, O_TRUNC, ...),
 * O_DIRECT and O_CLOEXEC are the library's business; @mode as for open(2).
 * The handle owns the file; penstock_file_close() ends it early.
 *
 * s3://BUCKET/KEY is an object, of a handle that has a client (opts.s3), and the store is
 * asked for it here (not by completion callbacks: -EDEADLK).
 *
 * Reading: any range, in blocks of the client's part size (8 MiB) unless opts.block is set, all in
 * flight together with what else the handle does.  Bytes go from the transport's buffer to the
 * caller's memory, of a device through the pinned pool.  All of them are those of the object that
 * was there at open; one that is replaced is -ESTALE.  No I/O thread waits for the network.
 *
 * Writing: a new object as a whole, O_WRONLY with O_TRUNC, or with O_EXCL where there must be none
 * yet.  Operations are submitted in the order of their offsets, without gaps; they may all be in
 * flight. A write is complete when it was copied into a part; parts are sent while others are
 * written.  The object is there when penstock_file_close() has returned 0.  That tells what failed
 * of any part; then, after penstock_file_abort(), after a write that failed or was cancelled, and
 * where the handle is closed before the file, nothing of it is left, and what was there before
 * stays. PENSTOCK_SYNC and flags that sync are -ENOTSUP: before that nothing is durable.
 *
 * By path, a read asks for its ranges right away, all of one object; a write, at offset 0 and with
 * PENSTOCK_OP_TRUNCATE, is the object, and complete when that is there.
 */
PENSTOCK_API int penstock_file_open(struct penstock_file **out, struct penstock_io *io,
				    const char *path, int oflags, unsigned mode,
				    struct penstock_err *err);

/*
 * Use the caller's file descriptor, which stays the caller's and must stay open
 * until the file is closed.  Bulk data goes through it as it was opened, with
 * O_DIRECT or without; what O_DIRECT cannot take goes through a second
 * descriptor of the same file, which needs /proc and permission to open it.
 * O_APPEND is refused (-EINVAL): Linux ignores the offset of writes to such a
 * descriptor.
 */
PENSTOCK_API int penstock_file_from_fd(struct penstock_file **out, struct penstock_io *io, int fd,
				       struct penstock_err *err);

/*
 * Hand over a file descriptor: it is the library's from here on, closed with the file and where
 * this fails, too.  For files that are opened in ways of the caller's (openat2(2), checks of what
 * was opened); else as penstock_file_open(), O_DIRECT included.  Messages call it @name.
 */
PENSTOCK_API int penstock_file_take_fd(struct penstock_file **out, struct penstock_io *io, int fd,
				       const char *name, struct penstock_err *err);

/*
 * Wait for the file's operations and close it.  Returns 0, or -errno when
 * close(2) reported an error, or an object that was written could not be made.  NULL is allowed.
 */
PENSTOCK_API int penstock_file_close(struct penstock_file *file, struct penstock_err *err);

/* The same, but nothing of an object that was written is left. */
PENSTOCK_API int penstock_file_abort(struct penstock_file *file, struct penstock_err *err);

struct penstock_file_info {
	uint32_t
		size; /* sizeof(struct penstock_file_info), set by the caller; no more is written */
	uint32_t direct;       /* 1: O_DIRECT is in use now */
	uint32_t mem_align;    /* address alignment O_DIRECT asks for, bytes; 1 when buffered */
	uint32_t offset_align; /* the same for offset and length */
	uint64_t bytes;        /* size of the file now */
	uint64_t block;        /* split size in use for it */
	char why[128];         /* why not direct; empty when direct */
};
PENSTOCK_API int penstock_file_stat(struct penstock_file *file, struct penstock_file_info *info);

/* -------------------------------------------------------------- operations */

enum penstock_opcode {
	PENSTOCK_READ = 1,
	PENSTOCK_WRITE = 2,
	PENSTOCK_SYNC = 3, /* fsync(2): what completed before is durable; needs no buffer */
	PENSTOCK_COPY = 4, /* memory to memory, at least one of them a device's, without a file: two
			    @iov of equal length, the target first */
};

/* Bits of struct penstock_op.flags. */
#define PENSTOCK_OP_EXACT    0x1u  /* read: fewer bytes than asked for is -ENODATA */
#define PENSTOCK_OP_TRUNCATE 0x2u  /* write: afterwards the file ends where this write ends */
#define PENSTOCK_OP_DATASYNC 0x4u  /* write: as PENSTOCK_DURABLE_DATA */
#define PENSTOCK_OP_FULLSYNC 0x8u  /* write: as PENSTOCK_DURABLE_FULL */
#define PENSTOCK_OP_STREAM   0x10u /* device memory: only after what is queued in @stream */

struct penstock_iov {
	void *addr;
	uint64_t len;
};

/*
 * What @buf and @iov of an operation stand for.  Memory without an address (a dma-buf, memory
 * of a network card) will be a kind of its own: @memory_handle then says which one, and @buf and
 * @iov are offsets into it.
 */
enum penstock_memory {
	PENSTOCK_MEMORY_ANY = 0,  /* addresses; the CUDA driver, if any, is asked where they are */
	PENSTOCK_MEMORY_HOST = 1, /* addresses in host memory: nobody is asked */
};

struct penstock_done;

/*
 * One transfer between one range of a file and memory.  Zero what you do not
 * use, @reserved above all.  The file is @file, else @path, else @fd.  By path, a read opens an
 * existing file and a write creates it if need be; the library shares one
 * descriptor among operations on the same path that are in flight together.
 */
struct penstock_op {
	uint32_t opcode; /* enum penstock_opcode */
	uint32_t flags;  /* PENSTOCK_OP_* */
	struct penstock_file *file;
	const char *path;
	int32_t fd;
	uint32_t nr_iov; /* > 0: @iov describes the memory, @buf and @len are ignored */
	const struct penstock_iov *iov; /* read at submission, need not outlive it */
	void *buf;                      /* untouched by the caller until completion */
	uint64_t len;
	uint64_t offset;
	uint64_t tag; /* handed back in the completion */
	/*
	 * Optional: called once when the operation is finished, from an I/O
	 * thread, instead of keeping the result for penstock_wait().  It may
	 * submit; such work stays on the same I/O thread and costs no hand-over.
	 * It must not wait, close, or take long.
	 */
	void (*on_done)(void *arg, const struct penstock_done *done);
	void *arg;
	/*
	 * With PENSTOCK_OP_STREAM: a CUstream (NULL: the legacy default stream) of
	 * the context that is current in the calling thread, or the device's
	 * primary one.  Device memory of the operation is touched only after all
	 * that was queued there before the submission.  Nothing is queued in it but
	 * a marker, and a completed operation needs no waiting for: its data are in place.
	 */
	void *stream;
	uint64_t memory_handle; /* of memory that is not named by addresses; else 0 */
	uint32_t memory;        /* enum penstock_memory */
	uint32_t reserved[5];   /* 0 */
};

/* Bits of struct penstock_done.flags: what happened on the way. */
#define PENSTOCK_DONE_EOF         0x1u  /* the read ended at the end of the file */
#define PENSTOCK_DONE_DIRECT      0x2u  /* some bytes went by O_DIRECT */
#define PENSTOCK_DONE_BUFFERED    0x4u  /* some bytes went through the page cache */
#define PENSTOCK_DONE_BOUNCED     0x8u  /* some bytes went through an aligned bounce buffer */
#define PENSTOCK_DONE_RETRIED     0x10u /* some blocks had to be submitted again */
#define PENSTOCK_DONE_INLINE      0x20u /* done by the calling thread, without a queue */
#define PENSTOCK_DONE_PINNED_POOL 0x40u /* device memory: through the pinned pool */
#define PENSTOCK_DONE_CUFILE      0x80u /* device memory: by cuFile, past the host's memory (GDS) */
#define PENSTOCK_DONE_CUFILE_COMPAT \
	0x100u /* device memory: by cuFile in its compatibility mode, through host memory */

/*
 * How an operation ended.
 *
 * @res is the number of bytes moved, less than asked for only where a read met
 * the end of the file, or a negative errno value.  @bytes counts the bytes
 * moved without a gap from the start of the operation, whatever @res says: of
 * a write that failed with -ENOSPC, how many are in the file.
 *
 * @msg says in one line which operation, file, offset, length and engine, and
 * what went wrong.  Empty for a plain success unless PENSTOCK_DESCRIBE is set.
 */
struct penstock_done {
	uint64_t ticket;
	uint64_t tag;
	int64_t res;
	uint64_t bytes;
	uint32_t flags;
	uint32_t reserved;
	char msg[508];
};

/*
 * Queue @n operations; never waits for I/O, but opens files named by path and
 * reserves space for writes that extend a file.  Returns how many were taken,
 * in order.  When an operation cannot be taken (bad field, file missing) the
 * ones before it are queued and counted; when it is the first, its error is
 * returned.  @tickets (may be NULL) receives a ticket each; operations with
 * on_done get 0 there.
 */
PENSTOCK_API int penstock_submit(struct penstock_io *io, const struct penstock_op *ops, unsigned n,
				 uint64_t *tickets, struct penstock_err *err);

/*
 * Wait for one operation, at most @timeout_ns (negative: without limit; 0:
 * only look).  Returns 0 with *@done filled and the ticket used up, or
 *   -ETIMEDOUT	it is not finished
 *   -ENOENT	no such ticket, or already collected
 *   -EDEADLK	a completion callback must not wait (so with the other two)
 * A failed transfer is not a failed wait: look at done->res.  Threads that wait for
 * the same ticket at the same time all get the result.
 */
PENSTOCK_API int penstock_wait(struct penstock_io *io, uint64_t ticket, int64_t timeout_ns,
			       struct penstock_done *done);

/*
 * Collect finished operations, whichever they are: at least @min, at most
 * @max, in the order they finished; where several threads submit, a thread's own
 * may come before those of others, which may be left for them to collect for some
 * milliseconds while enough of its own are under way.  Returns how many were stored in @done:
 * fewer than @min only after @timeout_ns, or when nothing is left to wait for.
 */
PENSTOCK_API int penstock_wait_any(struct penstock_io *io, struct penstock_done *done, unsigned min,
				   unsigned max, int64_t timeout_ns);

/* What penstock_wait_all() collected. */
struct penstock_summary {
	uint64_t ops;    /* operations collected, failed ones included */
	uint64_t failed; /* of these, how many failed */
	uint64_t bytes;  /* bytes moved by all of them */
	int64_t first;   /* -errno of the first failure, or 0 */
	char msg[508];   /* its message */
};

/*
 * Wait until nothing is in flight, whoever submitted it, and collect all
 * results that no other thread is waiting for.  Returns 0, or -ETIMEDOUT with
 * nothing collected.  @sum may be NULL only if the caller does not care.
 */
PENSTOCK_API int penstock_wait_all(struct penstock_io *io, int64_t timeout_ns,
				   struct penstock_summary *sum);

/*
 * Give up the blocks of an operation that have not been issued yet; it then
 * completes with -ECANCELED and the bytes that did move.  Returns 0, -EALREADY
 * when all its blocks are issued or done, -ENOENT when there is no such ticket.
 */
PENSTOCK_API int penstock_cancel(struct penstock_io *io, uint64_t ticket);

/*
 * The same operations, blocking.  A transfer of one block takes no queue and no
 * thread: it is one pread(2) or pwrite(2) by the caller.  penstock_run() returns
 * 0 when the operation was carried out (look at done->res) or the error that
 * kept it from being taken.  The other two return bytes moved or -errno.
 */
PENSTOCK_API int penstock_run(struct penstock_io *io, const struct penstock_op *op,
			      struct penstock_done *done, struct penstock_err *err);
PENSTOCK_API int64_t penstock_pread(struct penstock_file *file, void *buf, uint64_t len,
				    uint64_t offset, struct penstock_err *err);
PENSTOCK_API int64_t penstock_pwrite(struct penstock_file *file, const void *buf, uint64_t len,
				     uint64_t offset, struct penstock_err *err);

/* ------------------------------------------------------------------ memory */

/* What may be asked of memory, and what it turned out to be. */
#define PENSTOCK_BUF_HUGE       0x1u /* on huge pages */
#define PENSTOCK_BUF_LOCKED     0x2u /* mlock(2): never swapped */
#define PENSTOCK_BUF_REGISTERED 0x4u /* known to the engine: cheaper transfers */
#define PENSTOCK_BUF_COLLAPSE   0x8u /* register: ask the kernel to make huge pages of it */

struct penstock_buf_info {
	uint32_t got;   /* of the bits above, which hold */
	uint32_t page;  /* page size underneath, bytes, as far as known */
	char note[244]; /* why something asked for was not given; else empty */
};

/*
 * Allocate zeroed memory of at least @len bytes, aligned for O_DIRECT, on huge
 * pages as the handle's options say, and register it with the engine.  @want
 * adds PENSTOCK_BUF_LOCKED.  What a limit (RLIMIT_MEMLOCK, no huge pages) refuses
 * is left out and told in @info (may be NULL); only lack of memory fails.
 * The handle owns it; penstock_buf_free() ends it early.
 */
PENSTOCK_API int penstock_buf_alloc(void **out, struct penstock_io *io, uint64_t len, uint32_t want,
				    struct penstock_buf_info *info, struct penstock_err *err);

/* Free memory of penstock_buf_alloc() that no operation uses.  NULL is allowed. */
PENSTOCK_API int penstock_buf_free(struct penstock_io *io, void *addr);

/*
 * Register memory of the caller's with the engine; @want may add
 * PENSTOCK_BUF_LOCKED and PENSTOCK_BUF_COLLAPSE, and PENSTOCK_BUF_HUGE where the
 * caller knows that the memory is on huge pages: larger blocks, and no copies
 * on virtual disks.  Transfers work without; they cost a little less with.
 * The memory must stay mapped until it is unregistered.  Returns 0 even when
 * a limit refused it: see @info.
 */
PENSTOCK_API int penstock_buf_register(struct penstock_io *io, void *addr, uint64_t len,
				       uint32_t want, struct penstock_buf_info *info,
				       struct penstock_err *err);
PENSTOCK_API int penstock_buf_unregister(struct penstock_io *io, void *addr);

/*
 * Memory as of penstock_buf_alloc() that belongs to no handle: any handle can
 * move it, several can, and it outlives them.  @huge is an enum penstock_huge;
 * @want may be PENSTOCK_BUF_LOCKED.  For the same speed register it with each
 * handle that moves it, with PENSTOCK_BUF_HUGE where info->got has it.
 */
PENSTOCK_API int penstock_mem_alloc(void **out, uint64_t len, uint32_t huge, uint32_t want,
				    struct penstock_buf_info *info, struct penstock_err *err);
/*
 * Free it; @len as it was allocated.  No operation may use it, and no handle
 * may have it registered any more.  NULL is allowed.
 */
PENSTOCK_API void penstock_mem_free(void *addr, uint64_t len);

/* -------------------------------------------------------------- statistics */

/* Bits of struct penstock_stats.fallbacks: ways that were refused. */
#define PENSTOCK_FALLBACK_BUFFERED     0x1u  /* O_DIRECT refused: page cache used */
#define PENSTOCK_FALLBACK_UNREGISTERED 0x2u  /* memory not registered with the engine */
#define PENSTOCK_FALLBACK_SMALL_PAGES  0x4u  /* no huge pages */
#define PENSTOCK_FALLBACK_UNLOCKED     0x8u  /* mlock refused */
#define PENSTOCK_FALLBACK_NO_PREALLOC  0x10u /* file system cannot preallocate */
#define PENSTOCK_FALLBACK_ENGINE                                                                   \
	0x20u                            /* a better engine was refused when the handle was opened \
					  */
#define PENSTOCK_FALLBACK_BLOCKING 0x40u /* one block at a time: the engine is not safe there */
#define PENSTOCK_FALLBACK_CUFILE   0x80u /* cuFile refused: the pinned pool was used */

struct penstock_stats {
	uint32_t size;    /* sizeof(struct penstock_stats), set by the caller */
	uint32_t threads; /* I/O threads in use now */
	uint32_t depth;
	uint32_t fallbacks; /* PENSTOCK_FALLBACK_* */
	char engine[32];
	char fallback_why[256]; /* the first reason met for each, separated by "; " */
	uint64_t ops;
	uint64_t ops_failed;
	uint64_t bytes_read;
	uint64_t bytes_written;
	uint64_t blocks;          /* submitted for the first time, all kinds */
	uint64_t blocks_direct;   /* of these: by O_DIRECT */
	uint64_t blocks_buffered; /* of these: through the page cache */
	uint64_t blocks_bounced;  /* of these: through a bounce buffer */
	uint64_t blocks_inline;   /* of these: by the calling thread */
	uint64_t blocks_fixed;    /* of these: in registered memory */
	uint64_t resubmissions;   /* blocks submitted again: short, EINTR, EAGAIN, refused */
	uint64_t preallocations;
	uint64_t submit_calls;       /* calls of the engine's submit */
	uint64_t wakeups;            /* times a sleeping I/O thread had to be woken */
	uint64_t cpu_ns;             /* CPU time of the handle's I/O threads */
	uint64_t blocks_pinned_pool; /* of blocks: device memory, through the pinned pool */
	uint64_t blocks_cufile;      /* of blocks: device memory, by cuFile */
	uint64_t pinned_pool_bytes;  /* of the pinned pool; 0 until device memory is first met */
	uint64_t inline_bytes;  /* a blocking transfer up to this is done by the calling thread */
	uint64_t flight_bytes;  /* most bytes in flight per I/O thread, but for one block;
				   0: as many as depth allows */
	uint64_t blocks_object; /* of blocks: of objects, which no engine moves */
};

/* A snapshot; counters of operations in flight may lag. */
PENSTOCK_API int penstock_get_stats(struct penstock_io *io, struct penstock_stats *stats);

/* ---------------------------------------------------------------- engines */

/* Name of the @i-th engine built in, best first; NULL past the end. */
PENSTOCK_API const char *penstock_engine_name(unsigned i);
/* One line about it; NULL when there is no such engine. */
PENSTOCK_API const char *penstock_engine_descr(const char *name);
/* Does it work on this machine now?  0, or -errno with the reason in @err. */
PENSTOCK_API int penstock_engine_probe(const char *name, struct penstock_err *err);

/* A static string for a negative errno value returned by this library. */
PENSTOCK_API const char *penstock_strerror(int code);

/* Version of the library at run time, as PENSTOCK_VERSION_NUMBER. */
PENSTOCK_API unsigned penstock_version(void);

#ifdef __cplusplus
}
#endif
#endif
