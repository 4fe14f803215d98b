/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: checking what the caller asks for, finding file and memory, and what is
 * left to do when the last block is back.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/submitter.h"

enum { SYNC_FLAGS = PENSTOCK_OP_DATASYNC | PENSTOCK_OP_FULLSYNC };

static const uint32_t known_flags = PENSTOCK_OP_EXACT | PENSTOCK_OP_TRUNCATE |
				    PENSTOCK_OP_DATASYNC | PENSTOCK_OP_FULLSYNC |
				    PENSTOCK_OP_STREAM;

void op_cancel(struct op *op)
{
	op->cancelled = true;
	op->stop = min_u64(op->stop, op->cursor);
	op->cursor = op->len;
}

bool op_needs_sync(const struct op *op)
{
	if (op->remote)
		return op_commits_object(op) && !op_synced(op);
	return op->opcode == PENSTOCK_WRITE && op->len && !op->code && !op_synced(op) &&
	       !op->cancelled && !(op->flags & PENSTOCK_OP_TRUNCATE) && (op->flags & SYNC_FLAGS);
}

/* --------------------------------------------------------------- checking */

static int op_check_memory(const struct penstock_op *u, uint64_t *ret_len, struct penstock_err *err)
{
	uint64_t total = 0;

	if (!u->nr_iov && u->buf) {
		*ret_len = u->len;
		return 0;
	}
	if (u->nr_iov && !u->iov)
		return penstock_fail(err, -EINVAL, "iov: is NULL but nr_iov is %u", u->nr_iov);
	for (unsigned i = 0; i < u->nr_iov; i++) {
		if (u->iov[i].len && !u->iov[i].addr)
			return penstock_fail(err, -EFAULT, "iov[%u].addr: is NULL", i);
		if (__builtin_add_overflow(total, u->iov[i].len, &total))
			return penstock_fail(err, -EINVAL, "iov: lengths add up to more than 2^64");
	}
	if (!u->nr_iov) {
		if (u->len)
			return penstock_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64,
					     u->len);
	}
	*ret_len = total;
	return 0;
}

/* What a newer header has in its place, or names by a kind that only a newer library knows. */
static int check_newer(const struct penstock_op *u, struct penstock_err *err)
{
	uint32_t set = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(u->reserved); i++)
		set |= u->reserved[i];
	if (set)
		return penstock_fail(
			err, -E2BIG,
			"reserved: a field is set that this library (%s) does not know",
			PENSTOCK_VERSION_STRING);
	if (u->memory > PENSTOCK_MEMORY_HOST)
		return penstock_fail(
			err, -EINVAL,
			"memory: %u is none of PENSTOCK_MEMORY_ANY, _HOST, which is what "
			"this library (%s) knows",
			u->memory, PENSTOCK_VERSION_STRING);
	if (u->memory_handle)
		return penstock_fail(err, -EINVAL,
				     "memory_handle: is %" PRIu64
				     " but memory is named by addresses",
				     u->memory_handle);
	return 0;
}

static int op_check(const struct penstock_op *u, uint64_t *ret_len, struct penstock_err *err)
{
	uint64_t end;
	int r;

	*ret_len = 0;
	r = check_newer(u, err);
	if (r < 0)
		return r;
	if (u->opcode < PENSTOCK_READ || u->opcode > PENSTOCK_COPY)
		return penstock_fail(err, -EINVAL,
				     "opcode: %u is none of PENSTOCK_READ, _WRITE, _SYNC, _COPY",
				     u->opcode);
	if (u->flags & ~known_flags)
		return penstock_fail(err, -EINVAL, "flags: 0x%x has unknown bits", u->flags);
	if (u->opcode == PENSTOCK_SYNC)
		return 0;
	r = op_check_memory(u, ret_len, err);
	if (r < 0)
		return r;
	if (u->opcode == PENSTOCK_COPY) {
		if (u->nr_iov != 2 || u->iov[0].len != u->iov[1].len)
			return penstock_fail(
				err, -EINVAL,
				"iov: a copy has two of equal length, the target first");
		*ret_len /= 2;
		return 0;
	}
	if (__builtin_add_overflow(u->offset, *ret_len, &end) || end > INT64_MAX)
		return penstock_fail(err, -EOVERFLOW,
				     "offset: %" PRIu64 " + length %" PRIu64 " is beyond 2^63",
				     u->offset, *ret_len);
	return 0;
}

/* -------------------------------------------------------------- preparing */

static int copy_iov(struct op *op, const struct penstock_op *u)
{
	struct penstock_iov *copy;

	if (u->nr_iov <= 1) {
		op->one = u->nr_iov ? u->iov[0] : (struct penstock_iov){u->buf, u->len};
		op->iov = &op->one;
		op->nr_iov = 1;
		return 0;
	}
	copy = malloc(u->nr_iov * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, u->iov, u->nr_iov * sizeof(*copy));
	op->iov = copy;
	op->nr_iov = u->nr_iov;
	return 0;
}

/* What concerns memory; may be called twice. */
static void free_iov(struct op *op)
{
	if (op->iov != &op->one)
		free((void *)(uintptr_t)op->iov);
	op->iov = &op->one;
	if (!op->locations)
		return;
	if (op->locations != &op->one_location)
		free((void *)(uintptr_t)op->locations);
	op->locations = NULL;
	penstock_stream_marker_put(op->marker);
}

static int check_access(const struct op *op, struct penstock_err *err)
{
	int access = op->file->backing.access;

	if (op->opcode == PENSTOCK_READ && access == O_WRONLY)
		return penstock_fail(err, -EBADF, "%s: is open for writing only", op->file->name);
	if (op->opcode == PENSTOCK_WRITE && access == O_RDONLY)
		return penstock_fail(err, -EBADF, "%s: is open for reading only", op->file->name);
	return 0;
}

/* Space for a file that grows.  No room is an error of the operation, before anything moved. */
static int op_reserve(struct penstock_io *io, struct op *op, struct counters *count,
		      struct penstock_err *err)
{
	struct penstock_backing *s = &op->file->backing;
	struct penstock_short_name shortened;
	bool reserved;
	int r;

	r = penstock_growth_begin_write(s, op->offset, op->len, &reserved);
	if (r < 0)
		return penstock_fail(err, r,
				     "write %s: offset %" PRIu64 " length %" PRIu64
				     ": cannot reserve space, 0 bytes written: %s",
				     penstock_shorten_name(&shortened, op->file->name), op->offset,
				     op->len, strerror(-r));
	op->extends = r > 0;
	if (reserved)
		COUNT(count, preallocations, 1);
	if (op->extends && s->growth->cannot_reserve)
		report_fallback(io, PENSTOCK_FALLBACK_NO_PREALLOC, op->file->name,
				"the file system cannot preallocate");
	return 0;
}

/* A list is in registered memory where all of it is in one piece. */
static bool find_region_of_list(struct penstock_io *io, struct thread_cache *cache, struct op *op)
{
	uint64_t low = UINT64_MAX, high = 0, first, last;
	const struct region *r;

	for (unsigned i = 0; i < op->nr_iov; i++) {
		uint64_t addr = (uint64_t)(uintptr_t)op->iov[i].addr, len = op->iov[i].len;

		low = len ? min_u64(low, addr) : low;
		high = len ? max_u64(high, addr + len) : high;
	}
	r = low < high ? region_find(io, cache, low, high - low) : NULL;
	if (!r)
		return false;
	first = (low - r->addr) / REGION_PIECE;
	last = (high - 1 - r->addr) / REGION_PIECE;
	if (r->nr_slots && first == last) {
		op->region_at = 0;
		op->region_slot = (uint16_t)(r->slot + first);
		op->region_queues = (uint16_t)r->nr_queues;
	}
	return r->huge;
}

static bool find_region(struct penstock_io *io, struct thread_cache *cache, struct op *op)
{
	uint64_t addr = (uint64_t)(uintptr_t)op->one.addr;
	const struct region *r;

	if (!atomic_load_explicit(&io->nr_regions, memory_order_relaxed))
		return false;
	if (op->nr_iov > 1)
		return find_region_of_list(io, cache, op);
	r = region_find(io, cache, addr, op->len);
	if (!r)
		return false;
	if (r->nr_slots) {
		op->region_at = addr - r->addr;
		op->region_slot = (uint16_t)r->slot;
		op->region_queues = (uint16_t)r->nr_queues;
	}
	return r->huge;
}

static void find_device_memory(struct penstock_io *io, struct thread_cache *cache, struct op *op)
{
	op->block = min_u64(plan_split(op->file, true), PINNED_PIECE);
	if (!file_attach(op->file))
		return;
	op->block = io->opts.block ? plan_split(op->file, true) : CUFILE_BLOCK;
	if (op->nr_iov == 1)
		find_region(io, cache, op);
}

/* The part of preparing that concerns registered memory and the split size. */
static void find_memory(struct penstock_io *io, struct thread_cache *cache, struct op *op)
{
	bool huge = io->huge_by_default;

	if (op->locations) {
		find_device_memory(io, cache, op);
		return;
	}
	huge |= find_region(io, cache, op);
	op->small_pages = !huge && plan_small_pages(op);
	if (op->len >= COPY_TRIAL_FROM)
		plan_trial_begin(io, op, huge);
	huge |= op->small_pages;
	op->block = op->remote ? plan_split(op->file, huge) : op->file->split[huge];
}

static uint32_t durability_flags(const struct penstock_io *io, const struct penstock_op *u)
{
	if (u->opcode != PENSTOCK_WRITE)
		return 0;
	if (io->opts.durability == PENSTOCK_DURABLE_FULL)
		return PENSTOCK_OP_FULLSYNC;
	return io->opts.durability == PENSTOCK_DURABLE_DATA ? PENSTOCK_OP_DATASYNC : 0;
}

int op_prepare(struct penstock_io *io, struct op_common *common, struct op *op,
	       const struct penstock_op *u, struct penstock_err *err)
{
	uint64_t len;
	int r;

	r = op_check(u, &len, err);
	if (r < 0)
		return r;
	op->code = 0;
	op->done_flags = 0;
	op->file = NULL;
	op->locations = NULL;
	op->region_queues = 0;
	op->bits = 0;
	op->opcode = u->opcode;
	op->flags = u->flags | durability_flags(io, u);
	op->offset = u->offset;
	op->len = op->stop = len;
	op->tag = u->tag;
	op->on_done = u->on_done;
	op->arg = u->arg;
	if (copy_iov(op, u) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = common->cuda && u->memory != PENSTOCK_MEMORY_HOST ? device_find(common->cuda, op, err)
							      : 0;
	if (!r && op->opcode == PENSTOCK_COPY) {
		op->block = COPY_BLOCK;
		if (op->locations || !op->len)
			return 0;
		r = penstock_fail(err, -EINVAL, "iov: neither is device memory");
	}
	if (!r)
		r = file_for_op(io, u, &common->refs, &op->file, err);
	if (r < 0) {
		free_iov(op);
		return r;
	}
	op->remote_or_striped = op->file->remote_or_striped;
	r = check_access(op, err);
	if (r == 0 && op->remote)
		r = remote_prepare(op, u, err);
	else if (r == 0 && op->opcode == PENSTOCK_WRITE)
		r = op_reserve(io, op, &op->submitter->count, err);
	if (r < 0) {
		op_drop(op);
		return r;
	}
	find_memory(io, common->cache, op);
	return 0;
}

void op_drop(struct op *op)
{
	if (op->in_trial)
		plan_trial_end(op->file->io, op);
	if (op->extends && op->remote)
		remote_give_up(op, -ECANCELED);
	else if (op->extends)
		penstock_growth_end_write(&op->file->backing, op->offset, 0, true);
	op->extends = false;
	if (op->file)
		file_put(op->file);
	op->file = NULL;
	free_iov(op);
}

/* -------------------------------------------------------------- concluding */

static int truncate_to_end(const struct op *op)
{
	uint64_t end = op->offset + op->len;
	int64_t size = penstock_backing_size(&op->file->backing);

	if (op->file->backing.device || size < 0 || (uint64_t)size == end)
		return size < 0 ? (int)size : 0;
	return penstock_backing_truncate(&op->file->backing, end);
}

struct file_member *op_next_to_sync(struct op *op)
{
	const struct penstock_stripe *t = op->file->backing.stripe;
	int64_t size;

	if (!op->syncs) {
		size = t && atomic_load(&t->size_unrecorded) ? penstock_stripe_size(t) : 0;
		op->synced_size = size > 0 ? (uint64_t)size : 0;
	}
	return &op->file->members[op->syncs++];
}

/* All members of the file that have not been yet, and then what tells how long a striped one is. */
static int sync_file(struct op *op)
{
	struct penstock_req req = {
		.code = op->flags & PENSTOCK_OP_FULLSYNC ? PENSTOCK_REQ_FSYNC
							 : PENSTOCK_REQ_FDATASYNC,
	};
	struct penstock_file *f = op->file;
	int r = 0;

	while (!r && !op_synced(op)) {
		req.fd = op_next_to_sync(op)->backing->fd;
		do {
			r = penstock_req_run(&req);
		} while (r == -EINTR);
	}
	return r || !f->backing.stripe
		       ? r
		       : penstock_stripe_record_size(f->backing.stripe, op->synced_size, true);
}

/* The directory that has the file's name now, wherever the caller's name for it leads. */
static int open_directory(const struct penstock_backing *s, const char *name)
{
	char link[32], path[PATH_MAX], *slash;
	ssize_t n;
	int fd;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", s->fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 && s->borrowed < 0)
		n = snprintf(path, sizeof(path), "%s", name);
	if (n <= 0 || n >= (ssize_t)sizeof(path))
		return n < 0 ? -errno : -ENAMETOOLONG;
	path[n] = '\0';
	if (n > 10 && !strcmp(path + n - 10, " (deleted)"))
		return -ESTALE; /* there is no name to keep */
	slash = strrchr(path, '/');
	if (slash)
		slash[slash == path] = '\0';
	fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int sync_directory(const struct penstock_backing *s, const char *name)
{
	int fd = open_directory(s, name), r;

	if (fd < 0)
		return fd == -ESTALE ? 0 : fd;
	r = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* A new name is durable when its directory is; those of members, too. */
static int sync_names(const struct penstock_file *f)
{
	const struct penstock_stripe *t = f->backing.stripe;
	int r = sync_directory(&f->backing, f->name);

	for (unsigned i = 0; t && i < t->nr && !r; i++)
		r = sync_directory(&t->members[i], t->manifest->members[i]);
	return r;
}

static void op_note_failure(struct op *op, int code)
{
	if (code < 0 && !op->code) {
		op->code = code;
		op->failure = (struct penstock_cuda_failure){0};
		op->fail_off = op->offset;
		op->fail_len = op->len;
	}
}

/* A part that is not there is an object that is not. */
static void conclude_remote(struct op *op)
{
	if (!op->code && (op->flags & PENSTOCK_OP_TRUNCATE) &&
	    penstock_backing_size(&op->file->backing) != (int64_t)(op->offset + op->len))
		op_note_failure(op, -EINVAL);
	if (op->code < 0)
		remote_give_up(op, op->code);
	if (op->code < 0 && op->file->by_path)
		op->stop = 0;
}

static void conclude_write(struct op *op)
{
	bool failed;

	if (op->cancelled && op->stop < op->len)
		op_note_failure(op, -ECANCELED);
	if (op->remote) {
		conclude_remote(op);
		return;
	}
	failed = op->code < 0;
	if (op->extends)
		penstock_growth_end_write(&op->file->backing, op->offset, op->stop,
					  failed && op->stop < op->len);
	op->extends = false;
	if (!failed && (op->flags & PENSTOCK_OP_TRUNCATE))
		op_note_failure(op, truncate_to_end(op));
	/* The new end must be durable as well; and what has no blocks has had no turn yet. */
	if (!op->code && (op->flags & SYNC_FLAGS))
		op_note_failure(op, sync_file(op));
	if (!op->code && (op->flags & PENSTOCK_OP_FULLSYNC) && !op->file->backing.device)
		op_note_failure(op, sync_names(op->file));
}

static void count_op(struct counters *count, const struct op *op)
{
	COUNT(count, ops, 1);
	if (op->code < 0)
		COUNT(count, ops_failed, 1);
	if (op->opcode == PENSTOCK_READ)
		COUNT(count, bytes_read, op->stop);
	else if (op->opcode == PENSTOCK_WRITE)
		COUNT(count, bytes_written, op->stop);
}

static void conclude_read(struct op *op)
{
	if (op->cancelled && op->stop < op->len && !(op->done_flags & PENSTOCK_DONE_EOF))
		op_note_failure(op, -ECANCELED);
	if (!op->code && op->stop < op->len && (op->flags & PENSTOCK_OP_EXACT))
		op_note_failure(op, -ENODATA);
}

/*
 * How it went, in words where there is something to report.  The last user of a file opened by path
 * closes it, and close(2) may report lost data: so that comes first, but for the name.
 */
static void op_report_result(struct penstock_io *io, struct op *op, bool asked)
{
	struct penstock_short_name shortened;
	const char *name = op->file ? penstock_shorten_name(&shortened, op->file->name) : "memory";
	bool remote = op->remote;
	int r;

	if (op->file && op->file->by_path) {
		if (name != shortened.text)
			snprintf(shortened.text, sizeof(shortened.text), "%s", name);
		name = shortened.text;
		r = file_put(op->file);
		op->file = NULL;
		if (r < 0 && op->opcode == PENSTOCK_WRITE)
			op_note_failure(op, r);
	}
	if (asked || op->code < 0)
		op->msg = op_message(io, op, name, remote);
	if (op->code < 0)
		io_trace(io, PENSTOCK_TRACE_ERROR, op->code, name, op->fail_off, op->fail_len,
			 op->msg ? op->msg : "operation failed");
}

void op_conclude(struct penstock_io *io, struct op *op, struct counters *count)
{
	bool asked;

	if (op->in_trial)
		plan_trial_end(io, op);
	if (op->opcode == PENSTOCK_WRITE)
		conclude_write(op);
	else if (op->opcode != PENSTOCK_SYNC)
		conclude_read(op);
	else if (op->cancelled)
		op_note_failure(op, -ECANCELED);
	else if (!op->code)
		op_note_failure(op, sync_file(op));
	asked = op->stop < op->len || (io->opts.flags & PENSTOCK_DESCRIBE);
	op->direct = op->file && op->file->backing.direct;
	if (op->nr_iov > 1 || op->locations)
		free_iov(op);
	if (asked || op->code < 0 || (op->file && op->file->by_path))
		op_report_result(io, op, asked);
	if (op->why)
		free(TAKE_PTR(op->why));
	count_op(count, op);
}

void op_result(const struct op *op, struct penstock_done *done)
{
	done->ticket = op->on_done ? 0 : op_ticket(op);
	done->tag = op->tag;
	done->bytes = op->opcode == PENSTOCK_SYNC ? 0 : op->stop;
	done->res = op->code < 0 ? op->code : (int64_t)done->bytes;
	done->flags = op->done_flags;
	done->reserved = 0;
	done->msg[0] = '\0';
	if (op->msg)
		penstock_print_elided(done->msg, sizeof(done->msg), "%s", op->msg);
	else if (op->code < 0)
		snprintf(done->msg, sizeof(done->msg), "%s: %s", op_word(op),
			 penstock_strerror(op->code));
}
