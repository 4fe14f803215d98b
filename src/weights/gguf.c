/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF, versions 2 and 3, little endian: "GGUF", version, numbers of tensors and of metadata, the
 * metadata, what the tensors are, and from the next multiple of the alignment on their data.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/weights.h>

#include "base/err.h"
#include "base/util.h"
#include "weights/model.h"

enum {
	HEADER_FIRST = 1 << 20, /* bytes read at first; twice as much as long as it is not enough */
	HEADER_MAX = 1 << 30,
	DIMS = 4,
	ALIGNMENT = 32,
	NESTED = 4, /* arrays in arrays */
};

/* What elements are, by their number: so many in a block of so many bytes. */
static const struct {
	const char *name;
	uint32_t elements, bytes;
} types[] = {
	[0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
	[3] = {"Q4_1", 32, 20},      [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},
	[8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},      [10] = {"Q2_K", 256, 84},
	[11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
	[14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66},
	[17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},
	[20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},
	[23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
	[26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},
	[29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},
	[35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},    [40] = {"NVFP4", 64, 36},
};

/* Sizes of values of metadata by their type; 8 is a string, 9 an array. */
static const unsigned char value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
enum { VALUE_U32 = 4, VALUE_STRING = 8, VALUE_ARRAY = 9 };

/* Where the parser is.  @why: it is no such file; else more of it is needed. */
struct gguf {
	const char *path;
	const unsigned char *text;
	uint64_t len, at, file_bytes;
	uint64_t nr, alignment;
	bool needs_more;
	uint32_t by;
	struct penstock_err *err;
};

static int fail_at(struct gguf *g, const char *why)
{
	struct penstock_short_name short_name;

	return penstock_fail(g->err, -EINVAL, "%s: byte %" PRIu64 ": %s",
			     penstock_shorten_name(&short_name, g->path), g->at, why);
}

static int read_bytes(struct gguf *g, uint64_t n, const unsigned char **ret)
{
	if (n > g->file_bytes || g->at > g->file_bytes - n)
		return fail_at(g, "the file ends in its header");
	if (g->at + n > g->len) {
		g->needs_more = true;
		return -EAGAIN;
	}
	*ret = g->text + g->at;
	g->at += n;
	return 0;
}

static int read_u32(struct gguf *g, uint32_t *ret)
{
	const unsigned char *p = NULL;
	int r = read_bytes(g, sizeof(*ret), &p);

	if (r == 0) {
		memcpy(ret, p, sizeof(*ret));
		*ret = le32toh(*ret);
	}
	return r;
}

static int read_u64(struct gguf *g, uint64_t *ret)
{
	const unsigned char *p = NULL;
	int r = read_bytes(g, sizeof(*ret), &p);

	if (r == 0) {
		memcpy(ret, p, sizeof(*ret));
		*ret = le64toh(*ret);
	}
	return r;
}

static int read_string(struct gguf *g, const char **ret, uint64_t *ret_len)
{
	const unsigned char *p = NULL;
	int r = read_u64(g, ret_len);

	if (r == 0)
		r = read_bytes(g, *ret_len, &p);
	*ret = (const char *)p;
	return r;
}

static int skip_value(struct gguf *g, uint32_t type, unsigned depth)
{
	const unsigned char *p;
	const char *text;
	uint32_t inner = 0;
	uint64_t n = 0;
	int r;

	if (type == VALUE_STRING)
		return read_string(g, &text, &n);
	if (type >= ARRAY_SIZE(value_bytes) || depth > NESTED)
		return fail_at(g, "there is no such type of metadata");
	if (type != VALUE_ARRAY)
		return read_bytes(g, value_bytes[type], &p);
	r = read_u32(g, &inner);
	if (r == 0)
		r = read_u64(g, &n);
	if (r < 0)
		return r;
	if (inner != VALUE_STRING && inner != VALUE_ARRAY && inner < ARRAY_SIZE(value_bytes))
		return n > g->file_bytes ? fail_at(g, "the file ends in its header")
					 : read_bytes(g, n * value_bytes[inner], &p);
	for (uint64_t i = 0; i < n && r == 0; i++)
		r = skip_value(g, inner, depth + 1);
	return r;
}

static int read_meta(struct gguf *g)
{
	static const char alignment[] = "general.alignment";
	uint32_t type = 0, v = 0;
	const char *key;
	uint64_t len = 0;
	int r = read_string(g, &key, &len);

	if (r == 0)
		r = read_u32(g, &type);
	if (r < 0)
		return r;
	if (type != VALUE_U32 || len != strlen(alignment) || memcmp(key, alignment, len))
		return skip_value(g, type, 0);
	r = read_u32(g, &v);
	if (r == 0 && (!is_pow2(v) || v > HEADER_FIRST))
		return fail_at(g, "general.alignment is no power of two");
	g->alignment = v;
	return r;
}

/* One tensor; its offset is relative to the data. */
struct info {
	char name[256];
	uint64_t shape[DIMS];
	uint32_t rank, type;
	uint64_t offset, len;
};

static int info_len(struct gguf *g, struct info *t)
{
	uint64_t n = 1, blocks;

	if (t->type >= ARRAY_SIZE(types) || !types[t->type].name)
		return penstock_fail(g->err, -EINVAL, "%s: tensor '%s': type %u is not known",
				     g->path, t->name, t->type);
	for (uint32_t i = 0; i < t->rank; i++)
		if (__builtin_mul_overflow(n, t->shape[i], &n))
			return fail_at(g, "the shape of a tensor is beyond 2^64");
	blocks = n / types[t->type].elements;
	if (n % types[t->type].elements ||
	    __builtin_mul_overflow(blocks, types[t->type].bytes, &t->len))
		return fail_at(g, "the shape of a tensor does not come to whole blocks");
	return 0;
}

static int read_info(struct gguf *g, struct info *t)
{
	const char *name;
	uint64_t len = 0;
	int r = read_string(g, &name, &len);

	if (r == 0 && len >= sizeof(t->name))
		return fail_at(g, "the name of a tensor is longer than 255 bytes");
	if (r == 0) {
		memcpy(t->name, name, len);
		t->name[len] = '\0';
		r = read_u32(g, &t->rank);
	}
	if (r == 0 && t->rank > DIMS)
		return fail_at(g, "a tensor has more than four dimensions");
	/* the fastest comes first there and last here */
	for (uint32_t i = 0; r == 0 && i < t->rank; i++)
		r = read_u64(g, &t->shape[t->rank - 1 - i]);
	if (r == 0)
		r = read_u32(g, &t->type);
	if (r == 0)
		r = read_u64(g, &t->offset);
	return r < 0 ? r : info_len(g, t);
}

static int add_info(struct gguf *g, struct penstock_model *m, const struct info *t, uint64_t data)
{
	struct penstock_weight w = {
		.name = t->name,
		.path = g->path,
		.dtype = types[t->type].name,
		.offset = data + t->offset,
		.len = t->len,
		.shape = t->shape,
		.rank = t->rank,
	};

	if (t->offset > g->file_bytes || t->len > g->file_bytes || w.offset + w.len > g->file_bytes)
		return penstock_fail(g->err, -EINVAL,
				     "%s: tensor '%s': ends at byte %" PRIu64
				     ", and the file has %" PRIu64,
				     g->path, t->name, w.offset + w.len, g->file_bytes);
	return model_add_parts(m, &w, g->by, g->err);
}

static int gguf_parse(struct gguf *g, struct penstock_model *m)
{
	CLEANUP_FREE struct info *infos = NULL;
	const unsigned char *magic;
	uint64_t nr_meta = 0, data;
	uint32_t version = 0;
	int r = read_bytes(g, 4, &magic);

	if (r == 0)
		r = read_u32(g, &version);
	if (r == 0 && (version < 2 || version > 3))
		return fail_at(g, "versions 2 and 3 are known, and little endian");
	if (r == 0)
		r = read_u64(g, &g->nr);
	if (r == 0)
		r = read_u64(g, &nr_meta);
	for (uint64_t i = 0; i < nr_meta && r == 0; i++)
		r = read_meta(g);
	for (uint64_t i = 0; i < g->nr && r == 0; i++) {
		if (ARRAY_GROW(infos, i) < 0)
			return penstock_fail(g->err, -ENOMEM, "out of memory");
		r = read_info(g, &infos[i]);
	}
	data = align_up(g->at, g->alignment);
	for (uint64_t i = 0; i < g->nr && r == 0; i++)
		r = add_info(g, m, &infos[i], data);
	return r;
}

/* With as much of the file as it takes. */
static int parse_file(struct gguf *g, struct penstock_file *f, struct penstock_model *m)
{
	for (uint64_t size = HEADER_FIRST; size <= HEADER_MAX; size *= 2) {
		CLEANUP_FREE unsigned char *text = malloc(size);
		int64_t n = text ? penstock_pread(f, text, size, 0, g->err)
				 : penstock_fail(g->err, -ENOMEM, "out of memory");
		int r;

		if (n < 0)
			return (int)n;
		g->text = text;
		g->len = (uint64_t)n;
		g->at = 0;
		g->alignment = ALIGNMENT;
		g->needs_more = false;
		r = gguf_parse(g, m);
		if (!g->needs_more)
			return r;
	}
	return penstock_fail(g->err, -EINVAL, "%s: its header is larger than 1 GiB", g->path);
}

bool gguf_is(const unsigned char *head, uint64_t len)
{
	return len >= 4 && !memcmp(head, "GGUF", 4);
}

int gguf_add(struct penstock_model *m, struct penstock_io *io, const char *path, uint32_t by,
	     struct penstock_err *err)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct gguf g = {.path = path, .by = by, .err = err};
	struct penstock_file *f;
	int r = penstock_file_open(&f, io, path, O_RDONLY, 0, err);

	if (r < 0)
		return r;
	r = penstock_file_stat(f, &info);
	g.file_bytes = info.bytes;
	if (r == 0)
		r = parse_file(&g, f, m);
	penstock_file_close(f, NULL);
	return r;
}
