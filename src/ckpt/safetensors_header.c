/* SPDX-License-Identifier: Apache-2.0 */
/* Only what the format has is understood; values of other keys are skipped, as the reference does.
 */
#include "ckpt/safetensors_header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"
#include "base/util.h"

/* ---------------------------------------------------------------------- entries */

struct entry {
	struct safetensors_header *h;
	struct penstock_tensor t;
	uint64_t first_dim, begin, end;
	bool has_dtype, has_shape, has_offsets;
};

static int parse_shape(struct penstock_json *j, struct entry *e)
{
	struct safetensors_header *h = e->h;
	int r = penstock_json_expect(j, '['), more = 1;

	if (r < 0)
		return r;
	if (penstock_json_peek(j) == ']') {
		j->p++;
		return 0;
	}
	while (more > 0) {
		if (e->t.rank == RANK_MAX)
			return penstock_json_fail(j, "a tensor of more than 64 dimensions");
		if (ARRAY_RESERVE(h->dims, h->dims_capacity, h->nr_dims + 1) < 0)
			return penstock_fail(j->err, -ENOMEM, "out of memory");
		r = penstock_json_u64(j, &h->dims[h->nr_dims]);
		if (r < 0)
			return r;
		h->nr_dims++;
		e->t.rank++;
		more = penstock_json_more(j, ']');
	}
	return more;
}

static int parse_offsets(struct penstock_json *j, struct entry *e)
{
	int r = penstock_json_expect(j, '[');

	if (r == 0)
		r = penstock_json_u64(j, &e->begin);
	if (r == 0)
		r = penstock_json_expect(j, ',');
	if (r == 0)
		r = penstock_json_u64(j, &e->end);
	return r == 0 ? penstock_json_expect(j, ']') : r;
}

static int parse_dtype(struct penstock_json *j, struct entry *e)
{
	char *name;
	int r = penstock_json_string(j, &name);

	if (r < 0)
		return r;
	r = penstock_dtype_find(name);
	if (r < 0)
		return penstock_json_fail(j, "an unknown dtype");
	e->t.dtype = (uint32_t)r;
	return 0;
}

static int parse_field(struct penstock_json *j, char *key, void *arg)
{
	struct entry *e = arg;
	bool *has = !strcmp(key, "dtype")          ? &e->has_dtype
		    : !strcmp(key, "shape")        ? &e->has_shape
		    : !strcmp(key, "data_offsets") ? &e->has_offsets
						   : NULL;

	if (!has)
		return penstock_json_skip(j);
	if (*has)
		return penstock_json_fail(j, "a field that is there twice");
	*has = true;
	return has == &e->has_dtype   ? parse_dtype(j, e)
	       : has == &e->has_shape ? parse_shape(j, e)
				      : parse_offsets(j, e);
}

static int parse_meta(struct penstock_json *j, char *key, void *arg)
{
	struct safetensors_header *h = arg;
	char *value;
	int r = penstock_json_string(j, &value);

	if (r < 0)
		return r;
	if (ARRAY_RESERVE(h->meta, h->meta_capacity, h->nr_meta + 1) < 0)
		return penstock_fail(j->err, -ENOMEM, "out of memory");
	h->meta[h->nr_meta++] = (struct penstock_meta){key, value};
	return 0;
}

int tensor_bytes(const struct penstock_tensor *t, uint64_t *ret)
{
	uint64_t n = penstock_dtype_bits(t->dtype);
	bool empty = false;

	for (unsigned i = 0; i < t->rank; i++)
		empty |= !t->shape[i];
	for (unsigned i = 0; i < t->rank && !empty; i++)
		if (__builtin_mul_overflow(n, t->shape[i], &n))
			return -EOVERFLOW;
	if (empty)
		n = 0;
	if (n % 8)
		return -EINVAL;
	*ret = n / 8;
	return 0;
}

static int tensor_fail(const struct penstock_json *j, const char *name, const char *why)
{
	struct penstock_short_name short_name;

	return penstock_fail(j->err, -EINVAL, "tensor '%s': %s",
			     penstock_shorten_name(&short_name, name), why);
}

/* The shape lies at @first_dim of an array that may still move: @shape is set at the end. */
static int check_entry(const struct penstock_json *j, struct entry *e)
{
	struct penstock_tensor t = e->t;
	int r;

	if (!e->has_dtype || !e->has_shape || !e->has_offsets)
		return tensor_fail(j, t.name,
				   !e->has_dtype   ? "has no dtype"
				   : !e->has_shape ? "has no shape"
						   : "has no data_offsets");
	t.shape = e->h->dims + e->first_dim;
	r = tensor_bytes(&t, &e->t.len);
	if (r < 0)
		return tensor_fail(j, t.name,
				   r == -EOVERFLOW ? "its shape is beyond 2^64 bytes"
						   : "its elements do not fill whole bytes");
	if (e->end < e->begin)
		return tensor_fail(j, t.name, "data_offsets end before they begin");
	if (e->end - e->begin != e->t.len)
		return tensor_fail(j, t.name, "data_offsets are not what dtype and shape say");
	e->t.offset = e->begin;
	return 0;
}

static int parse_entry(struct penstock_json *j, char *key, void *arg)
{
	struct safetensors_header *h = arg;
	struct entry e = {.h = h, .t = {.name = key}, .first_dim = h->nr_dims};
	int r;

	if (!strcmp(key, "__metadata__")) {
		if (h->meta)
			return penstock_json_fail(j, "__metadata__ is there twice");
		if (ARRAY_RESERVE(h->meta, h->meta_capacity, 1) < 0)
			return penstock_fail(j->err, -ENOMEM, "out of memory");
		return penstock_json_object(j, parse_meta, h);
	}
	r = penstock_json_object(j, parse_field, &e);
	if (r == 0)
		r = check_entry(j, &e);
	if (r < 0)
		return r;
	if (ARRAY_RESERVE(h->tensors, h->capacity, h->nr + 1) < 0)
		return penstock_fail(j->err, -ENOMEM, "out of memory");
	h->tensors[h->nr++] = e.t;
	return 0;
}

/* ------------------------------------------------------------------------ all of it */

static int tensor_order(const void *a, const void *b)
{
	const struct penstock_tensor *x = a, *y = b;
	uint64_t xe = x->offset + x->len, ye = y->offset + y->len;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (xe != ye)
		return xe < ye ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int name_order(const void *a, const void *b, void *arg)
{
	const struct penstock_tensor *t = arg;

	return strcmp(t[*(const uint64_t *)a].name, t[*(const uint64_t *)b].name);
}

static int meta_order(const void *a, const void *b)
{
	const struct penstock_meta *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

static int check_names(const struct penstock_json *j, struct safetensors_header *h)
{
	const struct penstock_tensor *t = h->tensors;

	h->by_name = malloc((h->nr + 1) * sizeof(*h->by_name));
	if (!h->by_name)
		return penstock_fail(j->err, -ENOMEM, "out of memory");
	for (uint64_t i = 0; i < h->nr; i++)
		h->by_name[i] = i;
	qsort_r(h->by_name, h->nr, sizeof(*h->by_name), name_order, h->tensors);
	for (uint64_t i = 1; i < h->nr; i++)
		if (!strcmp(t[h->by_name[i]].name, t[h->by_name[i - 1]].name))
			return tensor_fail(j, t[h->by_name[i]].name, "is there twice");
	return 0;
}

static int check_meta(const struct penstock_json *j, const struct safetensors_header *h)
{
	CLEANUP_FREE const struct penstock_meta **v = malloc((h->nr_meta + 1) * sizeof(*v));

	if (!v)
		return penstock_fail(j->err, -ENOMEM, "out of memory");
	for (uint64_t i = 0; i < h->nr_meta; i++)
		v[i] = &h->meta[i];
	qsort(v, h->nr_meta, sizeof(*v), meta_order);
	for (uint64_t i = 1; i < h->nr_meta; i++)
		if (!strcmp(v[i]->key, v[i - 1]->key))
			return penstock_fail(j->err, -EINVAL, "__metadata__: '%s' is there twice",
					     v[i]->key);
	return 0;
}

/* Without overlap or hole, from the header to the end of the file. */
static int check_ranges(const struct penstock_json *j, struct safetensors_header *h, uint64_t data,
			uint64_t file_bytes)
{
	uint64_t at = 0, left = file_bytes - data;

	if (h->nr) /* else there is no array */
		qsort(h->tensors, h->nr, sizeof(*h->tensors), tensor_order);
	for (uint64_t i = 0; i < h->nr; i++) {
		struct penstock_tensor *t = &h->tensors[i];

		if (t->offset != at)
			return tensor_fail(j, t->name,
					   t->offset < at ? "overlaps the one before"
							  : "there is a hole before it");
		if (t->len > left - at)
			return tensor_fail(j, t->name, "ends behind the end of the file");
		at += t->len;
		t->offset += data;
	}
	if (at != left)
		return penstock_fail(j->err, -EINVAL,
				     "the file has %" PRIu64 " bytes that belong to no tensor",
				     left - at);
	return 0;
}

int safetensors_header_parse(struct safetensors_header *h, char *text, size_t len,
			     uint64_t file_bytes, struct penstock_err *err)
{
	struct penstock_json j = {text, text, text + len, "header", err};
	uint64_t dim = 0;
	int r;

	*h = (struct safetensors_header){0};
	if (!len || *text != '{')
		return penstock_json_fail(&j, "'{' is missing");
	if (!penstock_utf8_valid(text, len))
		return penstock_fail(err, -EINVAL, "header: is not UTF-8");
	r = penstock_json_object(&j, parse_entry, h);
	if (r == 0 && penstock_json_peek(&j) >= 0)
		r = penstock_json_fail(&j, "more than spaces behind the last '}'");
	for (uint64_t i = 0; r == 0 && i < h->nr; dim += h->tensors[i++].rank)
		h->tensors[i].shape = h->dims + dim; /* entries still stand as they were read */
	if (r == 0)
		r = check_ranges(&j, h, 8 + len, file_bytes);
	if (r == 0)
		r = check_names(&j, h);
	if (r == 0)
		r = check_meta(&j, h);
	if (r < 0)
		safetensors_header_free(h);
	return r;
}

void safetensors_header_free(struct safetensors_header *h)
{
	free(h->tensors);
	free(h->by_name);
	free(h->meta);
	free(h->dims);
	*h = (struct safetensors_header){0};
}

/* --------------------------------------------------------------------- writing */

struct text {
	char *v;
	uint64_t len, capacity;
	bool failed;
};

static void text_put(struct text *t, const char *s, size_t n)
{
	if (t->failed || ARRAY_RESERVE(t->v, t->capacity, t->len + n) < 0) {
		t->failed = true;
		return;
	}
	memcpy(t->v + t->len, s, n);
	t->len += n;
}

static void text_puts(struct text *t, const char *s)
{
	text_put(t, s, strlen(s));
}

static void text_u64(struct text *t, uint64_t v)
{
	char digits[24];

	text_put(t, digits, (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, v));
}

/* As serde_json has it: only what must be escaped is, hexadecimal digits are small. */
static void text_string(struct text *t, const char *s)
{
	static const char named[] = "\"\\\b\f\n\r\t", as[] = "\"\\bfnrt";

	text_puts(t, "\"");
	for (; *s; s++) {
		const char *at = strchr(named, *s);
		char esc[8];

		if (at)
			text_put(t, (char[]){'\\', as[at - named]}, 2);
		else if ((unsigned char)*s < 0x20)
			text_put(t, esc, (size_t)snprintf(esc, sizeof(esc), "\\u%04x", *s));
		else
			text_put(t, s, 1);
	}
	text_puts(t, "\"");
}

static void text_entry(struct text *t, const struct penstock_tensor *tensor, uint64_t *at)
{
	text_string(t, tensor->name);
	text_puts(t, ":{\"dtype\":\"");
	text_puts(t, penstock_dtype_name(tensor->dtype));
	text_puts(t, "\",\"shape\":[");
	for (unsigned i = 0; i < tensor->rank; i++) {
		text_puts(t, i ? "," : "");
		text_u64(t, tensor->shape[i]);
	}
	text_puts(t, "],\"data_offsets\":[");
	text_u64(t, *at);
	text_puts(t, ",");
	*at += tensor->len;
	text_u64(t, *at);
	text_puts(t, "]}");
}

char *safetensors_header_format(const struct penstock_tensor *tensors, const uint64_t *order,
				uint64_t n, const struct penstock_meta *meta, uint64_t nr_meta,
				size_t *ret_len)
{
	struct text t = {0};
	uint64_t at = 0, len;

	text_puts(&t, "12345678{");
	if (meta) {
		text_puts(&t, "\"__metadata__\":{");
		for (uint64_t i = 0; i < nr_meta; i++) {
			text_puts(&t, i ? "," : "");
			text_string(&t, meta[i].key);
			text_puts(&t, ":");
			text_string(&t, meta[i].value);
		}
		text_puts(&t, n ? "}," : "}");
	}
	for (uint64_t i = 0; i < n; i++) {
		text_puts(&t, i ? "," : "");
		text_entry(&t, &tensors[order[i]], &at);
	}
	text_puts(&t, "}");
	while (!t.failed && t.len % 8)
		text_puts(&t, " ");
	if (t.failed) {
		free(t.v);
		return NULL;
	}
	len = t.len - 8;
	for (unsigned i = 0; i < 8; i++)
		t.v[i] = (char)(len >> 8 * i);
	*ret_len = t.len;
	return t.v;
}
