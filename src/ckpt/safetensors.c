/* SPDX-License-Identifier: Apache-2.0 */
/* Files of safetensors, on reader and writer. */
#include <penstock/ckpt.h>

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/optscopy.h"
#include "base/utf8.h"
#include "base/util.h"
#include "ckpt/safetensors_header.h"

enum { BATCH = 1 << 16 }; /* ranges that are planned together */

struct penstock_safetensors {
	struct penstock_reader *reader;
	char *path;
	char *text; /* the header, decoded */
	struct safetensors_header h;
};

/* ------------------------------------------------------------------------ opening */

static int read_header(struct penstock_safetensors *s, struct penstock_err *err)
{
	struct penstock_reader_info info = {.size = sizeof(info)};
	struct penstock_short_name short_name;
	struct penstock_err why = {0, ""};
	uint64_t len;
	int64_t n;
	int r;

	penstock_reader_stat(s->reader, &info);
	n = penstock_reader_pread(s->reader, &len, sizeof(len), 0, err);
	if (n < 0)
		return (int)n;
	len = n == sizeof(len) ? le64toh(len) : 0;
	if (len < 2 || len > SAFETENSORS_HEADER_MAX || len > info.bytes - 8)
		return penstock_fail(err, -EINVAL,
				     "%s: is no safetensors file: its header would have %" PRIu64
				     " bytes, of a file of %" PRIu64,
				     penstock_shorten_name(&short_name, s->path), len, info.bytes);
	s->text = malloc(len);
	if (!s->text)
		return penstock_fail(err, -ENOMEM, "%s: out of memory", s->path);
	n = penstock_reader_pread(s->reader, s->text, len, 8, err);
	if (n < 0)
		return (int)n;
	r = safetensors_header_parse(&s->h, s->text, len, info.bytes, &why);
	if (r < 0)
		return penstock_fail(err, r, "%s: %s", penstock_shorten_name(&short_name, s->path),
				     why.msg);
	return 0;
}

/*
 * Which tensors of @h lie in what was found to be wrong, or whether it is what comes before them;
 * an @h that could not be read has none.
 */
static int describe_damage(const struct penstock_safetensors *s, const struct safetensors_header *h,
			   struct penstock_err *err)
{
	struct penstock_reader_info info = {.size = sizeof(info)};
	const struct penstock_tensor *first = NULL;
	struct penstock_short_name short_name;
	struct penstock_err was;
	const char *head;
	uint64_t nr = 0;

	if (!err)
		return -EBADMSG;
	was = *err;
	penstock_reader_stat(s->reader, &info);
	for (uint64_t i = 0; i < h->nr; i++) {
		const struct penstock_tensor *t = &h->tensors[i];

		if (t->offset >= info.bad_offset + info.bad_len)
			break;
		if (t->offset + t->len <= info.bad_offset)
			continue;
		first = first ? first : t;
		nr++;
	}
	if (!first)
		return penstock_fail(err, -EBADMSG, "the header: %s", was.msg);
	head = info.bad_offset >= h->tensors[0].offset ? ""
	       : nr == 1                               ? "the header or "
						       : "the header, ";
	if (nr == 1)
		return penstock_fail(err, -EBADMSG, "%stensor '%s': %s", head,
				     penstock_shorten_name(&short_name, first->name), was.msg);
	return penstock_fail(err, -EBADMSG, "%stensor '%s' or one of the %" PRIu64 " behind it: %s",
			     head, penstock_shorten_name(&short_name, first->name), nr - 1,
			     was.msg);
}

static int open_reader(struct penstock_safetensors *s, struct penstock_io *io,
		       const struct penstock_reader_opts *opts, struct penstock_err *err)
{
	int r = penstock_reader_open(&s->reader, io, s->path, opts, err);

	return r < 0 ? r : read_header(s, err);
}

/*
 * What is wrong lies in the same chunk as the header, which tells what else is there as far as it
 * can be read without being believed.
 */
static int describe_unverified(const struct penstock_safetensors *s, struct penstock_io *io,
			       struct penstock_err *err)
{
	struct penstock_reader_opts opts = PENSTOCK_READER_OPTS_INIT;
	struct penstock_safetensors plain = {.path = s->path};
	int r;

	opts.verify = PENSTOCK_VERIFY_NEVER;
	open_reader(&plain, io, &opts, NULL);
	r = describe_damage(s, &plain.h, err);
	penstock_reader_close(plain.reader);
	safetensors_header_free(&plain.h);
	free(plain.text);
	return r;
}

int penstock_safetensors_open(struct penstock_safetensors **out, struct penstock_io *io,
			      const char *path, const struct penstock_reader_opts *opts,
			      struct penstock_err *err)
{
	struct penstock_safetensors *s = calloc(1, sizeof(*s));
	int r;

	if (s)
		s->path = strdup(path);
	if (!s || !s->path)
		r = penstock_fail(err, -ENOMEM, "%s: out of memory", path);
	else
		r = open_reader(s, io, opts, err);
	if (r == -EBADMSG && s->reader)
		r = describe_unverified(s, io, err);
	if (r < 0)
		penstock_safetensors_close(s);
	else
		*out = s;
	return r;
}

void penstock_safetensors_close(struct penstock_safetensors *s)
{
	if (!s)
		return;
	penstock_reader_close(s->reader);
	safetensors_header_free(&s->h);
	free(s->text);
	free(s->path);
	free(s);
}

const struct penstock_tensor *penstock_safetensors_get(const struct penstock_safetensors *s,
						       uint64_t i)
{
	return i < s->h.nr ? &s->h.tensors[i] : NULL;
}

int64_t penstock_safetensors_find(const struct penstock_safetensors *s, const char *name)
{
	uint64_t lo = 0, hi = s->h.nr;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2, i = s->h.by_name[mid];
		int c = strcmp(name, s->h.tensors[i].name);

		if (!c)
			return (int64_t)i;
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return -ENOENT;
}

const struct penstock_meta *penstock_safetensors_metadata(const struct penstock_safetensors *s,
							  uint64_t i)
{
	return i < s->h.nr_meta ? &s->h.meta[i] : NULL;
}

struct penstock_reader *penstock_safetensors_reader(struct penstock_safetensors *s)
{
	return s->reader;
}

/* ------------------------------------------------------------------------ reading */

/* Ranges on their way to penstock_reader_fetch(). */
struct batch {
	struct penstock_safetensors *s;
	struct penstock_piece *v;
	uint64_t nr, capacity;
};

static int batch_fetch(struct batch *b, struct penstock_err *err)
{
	int r = penstock_reader_fetch(b->s->reader, b->v, b->nr, err);

	b->nr = 0;
	return r == -EBADMSG ? describe_damage(b->s, &b->s->h, err) : r;
}

static int safetensors_batch_add(struct batch *b, uint64_t offset, uint64_t len, char *buf,
				 struct penstock_err *err)
{
	int r = b->nr < BATCH ? 0 : batch_fetch(b, err);

	if (r < 0)
		return r;
	if (ARRAY_RESERVE(b->v, b->capacity, b->nr + 1) < 0)
		return penstock_fail(err, -ENOMEM, "%s: out of memory", b->s->path);
	b->v[b->nr++] = (struct penstock_piece){offset, len, buf};
	return 0;
}

/*
 * A slice as runs of bytes that lie together: @run bytes each, for every index of the first
 * @outer dimensions.
 */
struct slice {
	const struct penstock_tensor *t;
	const uint64_t *start, *count;
	unsigned outer;
	uint64_t run;              /* bytes */
	uint64_t stride[RANK_MAX]; /* of each dimension, bits */
};

static int slice_fail(const struct penstock_safetensors *s, const struct penstock_tensor *t,
		      const char *why, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	return penstock_fail(err, -EINVAL, "%s: tensor '%s': %s", s->path,
			     penstock_shorten_name(&short_name, t->name), why);
}

static int slice_check(const struct penstock_safetensors *s, const struct penstock_tensor *t,
		       const struct penstock_tensor_read *rd, struct penstock_err *err)
{
	if (!rd->start || !rd->count)
		return slice_fail(s, t, "a slice has both start and count", err);
	for (unsigned i = 0; i < t->rank; i++)
		if (rd->count[i] > t->shape[i] || rd->start[i] > t->shape[i] - rd->count[i])
			return penstock_fail(
				err, -EINVAL,
				"%s: tensor '%s': dimension %u has %" PRIu64
				" elements, and %" PRIu64 " from %" PRIu64 " on are asked for",
				s->path, t->name, i, t->shape[i], rd->count[i], rd->start[i]);
	return 0;
}

/* The shape was checked when the file was opened, so nothing here overflows. */
static int slice_make(struct slice *c, const struct penstock_safetensors *s,
		      const struct penstock_tensor_read *rd, struct penstock_err *err)
{
	const struct penstock_tensor *t = c->t;
	uint64_t bits = penstock_dtype_bits(t->dtype), run = bits;
	unsigned i = t->rank;

	c->start = rd->start;
	c->count = rd->count;
	for (unsigned k = t->rank; k-- > 0; bits *= t->shape[k])
		c->stride[k] = bits;
	/* as long as all of a dimension is asked for, and one that is not */
	while (i > 0 && c->count[i - 1] == t->shape[i - 1])
		run *= c->count[--i];
	if (i > 0)
		run *= c->count[--i];
	c->outer = i;
	c->run = run / 8;
	for (unsigned k = 0; k < t->rank; k++)
		if (c->start[k] * c->stride[k] % 8 || (k < i && c->stride[k] % 8))
			run |= 1;
	if (run % 8)
		return slice_fail(s, t,
				  "a slice of elements smaller than a byte begins or ends "
				  "within one",
				  err);
	return 0;
}

/* Every run, the last of the outer dimensions fastest. */
static int slice_add(struct batch *b, const struct slice *c, char *buf, struct penstock_err *err)
{
	uint64_t index[RANK_MAX] = {0}, base = 0;
	int r = 0;

	for (unsigned k = 0; k < c->t->rank; k++)
		base += c->start[k] * c->stride[k];
	for (;;) {
		uint64_t bits = base;
		unsigned k = c->outer;

		for (unsigned i = 0; i < c->outer; i++)
			bits += index[i] * c->stride[i];
		r = safetensors_batch_add(b, c->t->offset + bits / 8, c->run, buf, err);
		if (buf)
			buf += c->run;
		while (k > 0 && ++index[k - 1] == c->count[k - 1])
			index[--k] = 0;
		if (r < 0 || k == 0)
			return r;
	}
}

static int add_read(struct batch *b, const struct penstock_tensor_read *rd,
		    struct penstock_err *err)
{
	struct slice c = {.t = penstock_safetensors_get(b->s, rd->tensor)};
	bool empty = false;
	int r;

	if (!c.t)
		return penstock_fail(err, -EINVAL, "%s: there is no tensor %" PRIu64, b->s->path,
				     rd->tensor);
	if (!rd->start && !rd->count)
		return safetensors_batch_add(b, c.t->offset, c.t->len, rd->buf, err);
	r = slice_check(b->s, c.t, rd, err);
	for (unsigned i = 0; r == 0 && i < c.t->rank; i++)
		empty |= !rd->count[i];
	if (r < 0 || empty)
		return r;
	r = slice_make(&c, b->s, rd, err);
	return r < 0 ? r : slice_add(b, &c, rd->buf, err);
}

int penstock_safetensors_read(struct penstock_safetensors *s,
			      const struct penstock_tensor_read *reads, uint64_t n,
			      struct penstock_err *err)
{
	struct batch b = {.s = s};
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = add_read(&b, &reads[i], err);
	if (r == 0)
		r = batch_fetch(&b, err);
	free(b.v);
	return r;
}

/* ------------------------------------------------------------------------ writing */

static int check_tensor(const struct penstock_tensor *t, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	const char *name;
	uint64_t bytes;
	int r;

	if (!t->name || !penstock_utf8_valid(t->name, strlen(t->name)) ||
	    !strcmp(t->name, "__metadata__"))
		return penstock_fail(err, -EINVAL, "a tensor's name is %s",
				     !t->name                           ? "NULL"
				     : !strcmp(t->name, "__metadata__") ? "__metadata__"
									: "not UTF-8");
	name = penstock_shorten_name(&short_name, t->name);
	if (!penstock_dtype_name(t->dtype))
		return penstock_fail(err, -EINVAL, "tensor '%s': there is no dtype %u", name,
				     t->dtype);
	if (t->rank > RANK_MAX || (t->rank && !t->shape))
		return penstock_fail(err, -EINVAL, "tensor '%s': has no shape of rank %u", name,
				     t->rank);
	r = tensor_bytes(t, &bytes);
	if (r < 0 || bytes != t->len)
		return penstock_fail(err, -EINVAL,
				     "tensor '%s': its len is %" PRIu64
				     ", which is not what dtype and shape say",
				     name, t->len);
	if (t->len && !t->buf)
		return penstock_fail(err, -EFAULT, "tensor '%s': buf is NULL", name);
	return 0;
}

static int file_order(const void *a, const void *b, void *arg)
{
	const struct penstock_tensor *t = arg;
	const struct penstock_tensor *x = &t[*(const uint64_t *)a], *y = &t[*(const uint64_t *)b];

	if (x->dtype != y->dtype)
		return x->dtype > y->dtype ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int name_order(const void *a, const void *b, void *arg)
{
	const struct penstock_tensor *t = arg;

	return strcmp(t[*(const uint64_t *)a].name, t[*(const uint64_t *)b].name);
}

/* Everything that could be wrong with them, before the first byte; leaves the order in @order. */
static int safetensors_check_all(const struct penstock_tensor *t, uint64_t n,
				 const struct penstock_meta *meta, uint64_t nr_meta,
				 uint64_t *order, struct penstock_err *err)
{
	void *arg = (void *)(uintptr_t)t;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		order[i] = i;
		r = check_tensor(&t[i], err);
	}
	if (r < 0)
		return r;
	qsort_r(order, n, sizeof(*order), name_order, arg);
	for (uint64_t i = 1; i < n; i++)
		if (!strcmp(t[order[i]].name, t[order[i - 1]].name))
			return penstock_fail(err, -EINVAL, "tensor '%s': is there twice",
					     t[order[i]].name);
	qsort_r(order, n, sizeof(*order), file_order, arg);
	for (uint64_t i = 0; i < nr_meta; i++) {
		const struct penstock_meta *m = &meta[i];

		if (!m->key || !m->value || !penstock_utf8_valid(m->key, strlen(m->key)) ||
		    !penstock_utf8_valid(m->value, strlen(m->value)))
			return penstock_fail(err, -EINVAL, "metadata %" PRIu64 ": is not UTF-8", i);
		for (uint64_t k = 0; k < i; k++)
			if (!strcmp(meta[k].key, m->key))
				return penstock_fail(err, -EINVAL, "metadata '%s': is there twice",
						     m->key);
	}
	return 0;
}

/* What comes first in the file, and the order of what follows. */
struct layout {
	char *header;
	size_t len;
	uint64_t *order;
};

static void layout_free(struct layout *l)
{
	free(l->header);
	free(l->order);
}

static int layout_make(struct layout *l, const struct penstock_tensor *tensors, uint64_t n,
		       const struct penstock_meta *meta, uint64_t nr_meta, struct penstock_err *err)
{
	int r;

	*l = (struct layout){.order = malloc((n + 1) * sizeof(*l->order))};
	if (!l->order)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = safetensors_check_all(tensors, n, meta, nr_meta, l->order, err);
	if (r == 0) {
		l->header = safetensors_header_format(tensors, l->order, n, meta, nr_meta, &l->len);
		if (!l->header)
			r = penstock_fail(err, -ENOMEM, "out of memory");
		else if (l->len - 8 > SAFETENSORS_HEADER_MAX)
			r = penstock_fail(
				err, -EINVAL,
				"the header would have %zu bytes, and the format allows %d",
				l->len - 8, SAFETENSORS_HEADER_MAX);
	}
	if (r < 0)
		layout_free(l);
	return r;
}

static int layout_write(const struct layout *l, struct penstock_writer *w,
			const struct penstock_tensor *tensors, uint64_t n, struct penstock_err *err)
{
	int r = penstock_writer_write(w, l->header, l->len, err);

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = penstock_writer_write(w, tensors[l->order[i]].buf, tensors[l->order[i]].len,
					  err);
	return r;
}

int penstock_safetensors_write(struct penstock_writer *w, const struct penstock_tensor *tensors,
			       uint64_t n, const struct penstock_meta *meta, uint64_t nr_meta,
			       struct penstock_err *err)
{
	struct layout l;
	int r = layout_make(&l, tensors, n, meta, nr_meta, err);

	if (r < 0)
		return r;
	r = layout_write(&l, w, tensors, n, err);
	layout_free(&l);
	return r;
}

/* The file is as long as they say. */
static int save_layout(struct penstock_io *io, const char *path, const struct layout *l,
		       const struct penstock_tensor *tensors, uint64_t n,
		       const struct penstock_writer_opts *opts, struct penstock_err *err)
{
	struct penstock_writer_opts o;
	struct penstock_writer *w;
	int r = penstock_opts_copy(&o, sizeof(o), opts, err);

	if (r < 0)
		return r;
	o.size = sizeof(o);
	o.expected = l->len;
	for (uint64_t i = 0; i < n; i++)
		o.expected += tensors[i].len;
	r = penstock_writer_open(&w, io, path, &o, err);
	if (r < 0)
		return r;
	r = layout_write(l, w, tensors, n, err);
	if (r == 0)
		return penstock_writer_commit(w, err);
	penstock_writer_abort(w);
	return r;
}

int penstock_safetensors_save(struct penstock_io *io, const char *path,
			      const struct penstock_tensor *tensors, uint64_t n,
			      const struct penstock_meta *meta, uint64_t nr_meta,
			      const struct penstock_writer_opts *opts, struct penstock_err *err)
{
	struct layout l;
	int r = layout_make(&l, tensors, n, meta, nr_meta, err);

	if (r < 0)
		return r;
	r = save_layout(io, path, &l, tensors, n, opts, err);
	layout_free(&l);
	return r;
}
