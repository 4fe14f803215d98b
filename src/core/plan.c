/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splitting an operation into blocks, and the way each block takes:
 *
 *	read:	straight where file offset and address are aligned; otherwise the
 *		aligned range around it is read into a bounce buffer
 *	write:	whole pages straight, or through a bounce buffer where the address
 *		is not aligned; the part of a page at either end through the page
 *		cache, which changes those bytes and no others
 *
 * A virtual disk hands every segment of a request to its hypervisor by itself, and
 * memory on small pages is a segment per page: there large transfers go through bounce
 * buffers on huge pages even where they could go straight (reading 1 GiB on virtio 6.5
 * against 8.7 GB/s, the disk's limit being 8.8: perf-mover read -m plain).  For very large ones,
 * on huge pages too, the handle finds out which way is faster: see copy_trial.h.
 *
 * Where O_DIRECT is not in use everything goes straight through the page cache.
 * Blocks of a scatter list end where a segment ends; segments that could each go straight go
 * together, as a list, others that are small are gathered in a bounce buffer.
 *
 * Device memory goes through pieces of the pinned pool, with the same respect for alignment;
 * a block has to do with one device, and may have host memory besides.  An engine that
 * takes device memory gets it as it is.
 */
#include <pthread.h>
#include <string.h>

#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"

enum {
	GATHER_BELOW =
		64 * 1024, /* a shorter rest of a segment is copied, not a block of its own */
	COPY_FROM = 4 << 20,
	LIST_MAX = 1024, /* segments that the kernel takes at a time */
};

static void skip_empty(struct op *op)
{
	while (op->seg < op->nr_iov && op->seg_off == op->iov[op->seg].len) {
		op->seg++;
		op->seg_off = 0;
	}
}

static void advance(struct op *op, uint64_t len)
{
	uint64_t step;

	op->cursor += len;
	if (op->nr_iov == 1) {
		op->seg_off += len;
		return;
	}
	while (len) {
		step = min_u64(len, op->iov[op->seg].len - op->seg_off);
		op->seg_off += step;
		len -= step;
		skip_empty(op);
	}
}

/* Without alignment: as much as the segment has, or a gathered bounce of several small ones. */
static void plan_plain(const struct op *op, struct block *b, uint64_t seg_left)
{
	b->buffered = true;
	if (seg_left < b->len && seg_left < GATHER_BELOW) {
		b->mode = BLOCK_BOUNCE;
		b->len = min_u64(b->len, BOUNCE_BYTES);
		return;
	}
	b->mode = BLOCK_STRAIGHT;
	b->len = min_u64(b->len, seg_left);
	(void)op;
}

/* The segment goes straight as a whole.  So may those behind it, in the same block. */
static void plan_list(const struct op *op, struct block *b, uint64_t align)
{
	const struct penstock_backing *s = &op->file->backing;
	const struct penstock_iov *v = &op->iov[op->seg];
	uint64_t most = min_u64(op->block, op->len - b->pos), len = 0;
	unsigned n = 0, left = (unsigned)min_u64(op->nr_iov - op->seg, LIST_MAX);

	while (n < left && v->len && v->len <= most - len && is_aligned(v->len, align) &&
	       is_aligned((uint64_t)(uintptr_t)v->addr, s->mem_align)) {
		len += v->len;
		v++;
		n++;
	}
	if (n < 2)
		return;
	b->mode = BLOCK_LIST;
	b->segs = n;
	b->len = len;
}

/* Of one file, and in memory of the host's alone. */
static bool may_list(const struct op *op)
{
	return op->nr_iov > 1 && !op->seg_off && !op->locations && !op->file->backing.stripe;
}

static inline void plan_direct_read(const struct op *op, struct block *b, uint64_t addr,
				    uint64_t seg_left)
{
	const struct penstock_backing *s = &op->file->backing;
	uint64_t align = s->off_align, off = op->offset + b->pos;
	uint64_t left = op->len - b->pos;

	b->skip = (uint32_t)(off & (align - 1));
	if (!b->skip && left >= align && seg_left >= align && is_aligned(addr, s->mem_align) &&
	    !op->small_pages) {
		b->mode = BLOCK_STRAIGHT;
		b->len = align_down(min_u64(b->len, seg_left), align);
		if (may_list(op))
			plan_list(op, b, align);
		return;
	}
	b->mode = BLOCK_BOUNCE;
	/* After a ragged head the address may fit: bounce no more than that, unless all is small.
	 */
	if (b->skip && left > GATHER_BELOW && seg_left > align && !op->small_pages &&
	    is_aligned(addr + align - b->skip, s->mem_align))
		b->len = align - b->skip;
	else
		b->len = min_u64(b->len, BOUNCE_BYTES - b->skip);
	/* End on a boundary, so that what follows may go straight. */
	if (b->len < left && !is_aligned(off + b->len, align))
		b->len = align_down(off + b->len, align) - off;
}

static void plan_direct_write(const struct op *op, struct block *b, uint64_t addr,
			      uint64_t seg_left)
{
	const struct penstock_backing *s = &op->file->backing;
	uint64_t align = s->write_align, off = op->offset + b->pos;
	uint64_t left = op->len - b->pos;

	if (!is_aligned(off, align)) {
		b->len = min_u64(left, align_up(off, align) - off);
		plan_plain(op, b, seg_left);
	} else if (left < align) {
		b->len = left;
		plan_plain(op, b, seg_left);
	} else if (seg_left >= align && is_aligned(addr, s->mem_align) && !op->small_pages) {
		b->mode = BLOCK_STRAIGHT;
		b->len = align_down(min_u64(b->len, seg_left), align);
		if (may_list(op))
			plan_list(op, b, align);
	} else {
		b->mode = BLOCK_BOUNCE;
		b->len = align_down(min_u64(b->len, BOUNCE_BYTES), align);
	}
}

static inline void plan_host(const struct op *op, struct block *b)
{
	uint64_t addr = (uint64_t)(uintptr_t)op->iov[op->seg].addr + op->seg_off;
	uint64_t seg_left = op->iov[op->seg].len - op->seg_off;

	if (op->file->backing.object) {
		b->mode = BLOCK_STRAIGHT; /* memory in pieces, too */
		if (op->locations)
			b->len = min_u64(b->len, seg_left);
	} else if (!op->file->backing.direct)
		plan_plain(op, b, seg_left);
	else if (op->opcode == PENSTOCK_READ)
		plan_direct_read(op, b, addr, seg_left);
	else
		plan_direct_write(op, b, addr, seg_left);
}

/* How far from the cursor before a second device comes in, at most @len. */
static uint64_t one_device(const struct op *op, uint64_t len)
{
	uint64_t done = 0, seg_off = op->seg_off;
	int device = -1;

	for (unsigned seg = op->seg; done < len; seg++, seg_off = 0) {
		int next = op->iov[seg].len > seg_off ? op->locations[seg].device : -1;

		if (next >= 0 && device >= 0 && next != device)
			break;
		device = next >= 0 ? next : device;
		done += op->iov[seg].len - seg_off;
	}
	return min_u64(done, len);
}

static void plan_device(const struct op *op, struct block *b)
{
	const struct penstock_backing *s = &op->file->backing;
	uint64_t off = op->offset + b->pos, left = op->len - b->pos, end;
	uint64_t align = op->opcode == PENSTOCK_READ ? s->off_align : s->write_align;
	uint64_t block = min_u64(op->block, PINNED_PIECE);

	b->mode = BLOCK_DEVICE;
	b->buffered = !s->direct;
	b->skip = 0;
	b->len = min_u64(block, left);
	if (s->direct && op->opcode == PENSTOCK_READ) {
		b->skip = (uint32_t)(off & (align - 1));
		b->len = min_u64(b->len, block - b->skip);
	} else if (s->direct && (!is_aligned(off, align) || left < align)) {
		b->buffered = true; /* part of a page */
		b->len = min_u64(left, align_up(off + 1, align) - off);
	}
	b->len = one_device(op, b->len);
	if (b->buffered || op->opcode == PENSTOCK_READ)
		return;
	/* Whole pages; one that two devices share is written in two parts. */
	end = align_down(off + b->len, align);
	if (end > off)
		b->len = end - off;
	else
		b->buffered = true;
}

/*
 * Straight between file and device, at any address.  Not so parts of pages that are
 * written, because cuFile would read the page and write back what it has read, nor
 * pieces so small that they are better gathered.
 */
static bool plan_cufile(const struct op *op, struct block *b)
{
	const struct penstock_backing *s = &op->file->backing;
	uint64_t off = op->offset + b->pos, left = op->len - b->pos;
	uint64_t seg_left = op->iov[op->seg].len - op->seg_off, end;
	uint64_t len = min_u64(min_u64(op->block, left), seg_left);
	bool whole = s->direct && op->opcode == PENSTOCK_WRITE;

	if (atomic_load(&op->file->attach) != ATTACH_DONE || op->locations[op->seg].managed ||
	    (seg_left < left && seg_left < GATHER_BELOW))
		return false;
	if (op->region_queues) /* registered in pieces: no block in two of them */
		len = min_u64(len, REGION_PIECE - (op->region_at + op->seg_off) % REGION_PIECE);
	end = align_down(off + len, s->write_align);
	if (whole && (!is_aligned(off, s->write_align) || end <= off))
		return false;
	b->mode = BLOCK_CUFILE;
	b->buffered = !s->direct;
	/* Where more follows the border is one of pages. */
	b->len = end > off && (whole || len < left) ? end - off : len;
	return true;
}

/* Large parts of host memory between device memory go their own way. */
static void plan_mixed(const struct op *op, struct block *b)
{
	if (op->locations[op->seg].device < 0) {
		plan_host(op, b);
		if (b->mode == BLOCK_STRAIGHT)
			return;
	} else if (plan_cufile(op, b)) {
		return;
	}
	plan_device(op, b);
}

/*
 * Which member of a striped file has the block, and where.  It ends with the unit: that is
 * a border of pages, whatever way it takes.
 */
static void plan_member(const struct penstock_file *f, struct block *b, uint64_t off)
{
	const struct penstock_stripe *t = f->backing.stripe;
	uint64_t within = off % t->unit;
	unsigned i = (unsigned)(off / t->unit % t->nr);

	b->len = min_u64(b->len, t->unit - within);
	b->member = &f->members[i];
	b->at = STRIPE_DATA + off / (t->unit * t->nr) * t->unit + within;
	/* Behind the last unit that all devices have there is nothing: let the kernel say so. */
	if (t->limit && off >= t->limit)
		b->at = align_down((uint64_t)penstock_backing_size(b->member->backing),
				   f->backing.write_align) +
			(1ull << 50) + within;
}

static void plan_target(const struct op *op, struct block *b)
{
	struct penstock_file *f = op->file;
	uint64_t off = op->offset + b->pos;

	if (f->backing.stripe) {
		plan_member(f, b, off);
		return;
	}
	b->member = &f->single;
	b->at = off;
}

bool plan_block(struct op *op, struct block *b)
{
	uint64_t left = op->len - op->cursor;

	if (!left)
		return false;
	if (op->nr_iov > 1)
		skip_empty(op);
	memset(&b->moved, 0, offsetof(struct block, data) - offsetof(struct block, moved));
	b->op = op;
	b->pos = op->cursor;
	b->seg = op->seg;
	b->seg_off = op->seg_off;
	b->len = min_u64(op->block, left);
	if (op->opcode == PENSTOCK_COPY)
		b->mode = BLOCK_COPY;
	else if (op->locations)
		plan_mixed(op, b);
	else
		plan_host(op, b);
	if (op->file)
		plan_target(op, b);
	advance(op, b->len);
	return true;
}

/*
 * The split size.  1 MiB keeps any device busy at a moderate depth.  Memory on
 * small pages gives a segment per page, and a block with more segments than one
 * request of the device can carry is split again by the kernel: stay below.
 */
uint64_t plan_split(const struct penstock_file *f, bool huge)
{
	uint64_t asked = f->io->opts.block;
	uint64_t block = asked ? asked : BLOCK_AUTO;

	if (f->backing.object)
		return asked ? asked : remote_part(f);
	if (!asked && !huge && f->device.max_segments >= 16)
		block = min_u64(block, f->device.max_segments * (uint64_t)sysconf(_SC_PAGESIZE));
	if (f->backing.stripe)
		block = min_u64(block, f->backing.stripe->unit);
	return f->backing.direct ? align_up(block, f->backing.write_align) : block;
}

/* May it go either way? */
static bool has_ways(const struct op *op)
{
	return op->opcode != PENSTOCK_SYNC && op->file->device.virtual &&
	       op->file->io->engine->bypass && /* it moves data as it is told */
	       op->file->backing.direct && !(op->file->io->opts.flags & PENSTOCK_SPARE_CPU);
}

/* On such a disk, is the transfer worth the copy? */
bool plan_small_pages(const struct op *op)
{
	return op->len >= COPY_FROM && has_ways(op);
}

/* Under io->lock; NULL: there are too many devices. */
static struct copy_trial *find_trial(struct penstock_io *io, const struct op *op, bool huge)
{
	dev_t dev = op->file->backing.dev;

	for (unsigned i = 0; i < ARRAY_SIZE(io->trials); i++) {
		struct device_trials *d = &io->trials[i];

		if (!d->used)
			*d = (struct device_trials){.dev = dev, .used = true};
		if (d->dev == dev)
			return &d->of[op->opcode == PENSTOCK_WRITE][huge];
	}
	return NULL;
}

void plan_trial_begin(struct penstock_io *io, struct op *op, bool huge)
{
	struct copy_trial *s;

	if (!has_ways(op))
		return;
	pthread_mutex_lock(&io->lock);
	s = find_trial(io, op, huge);
	op->trial = s;
	op->in_trial = s;
	if (s) {
		op->small_pages = copy_trial_choose(s, op->len, op->small_pages);
		s->begun++;
		op->trial_index = s->active++ ? 0 : s->begun;
		op->trial_ns = clock_ns();
	}
	pthread_mutex_unlock(&io->lock);
}

void plan_trial_end(struct penstock_io *io, struct op *op)
{
	struct copy_trial *s = op->trial;
	uint64_t ns = clock_ns() - op->trial_ns;

	op->in_trial = false;
	pthread_mutex_lock(&io->lock);
	s->active--;
	if (op->trial_index && op->trial_index == s->begun && !op->code && !op->cancelled &&
	    op->cursor == op->len && op->stop == op->len)
		copy_trial_record(s, op->small_pages, op->len, ns);
	pthread_mutex_unlock(&io->lock);
}
