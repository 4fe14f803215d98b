/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator of content.  An object is made of units of 4 KiB, each of which has an id: its
 * own number, or where there are copies, the number of the unit it is a copy of among those that
 * are new.  A unit is made from its id alone: its first words are random ones, in a
 * compressible unit some in each of its spans, followed by their last byte again and again.
 */
#include "base/gen.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

enum {
	SPANS = 4, /* of a unit that can be compressed */
	SPAN_WORDS = GEN_UNIT_WORDS / SPANS,
};

/* What zstd needs to tell where a span's words repeat, in words of the unit: measured. */
#define SPAN_COST 0.33

static uint64_t gen_hash(uint64_t x)
{
	uint64_t w;

	penstock_gen_kernel(0)->words(&w, x, 1);
	return le64toh(w);
}

/* ------------------------------------------------------------------------- open */

void penstock_gen_init_random(struct penstock_gen *g, uint64_t seed)
{
	*g = (struct penstock_gen){
		.seed = seed,
		.words = (uint64_t)GEN_UNIT_WORDS << 32,
		.kernel = penstock_gen_kernel(0)->words,
	};
}

static int gen_check_ratio(const char *name, double ratio, double max, struct penstock_err *err)
{
	if (ratio >= 1 && ratio <= max)
		return 0;
	return penstock_fail(err, -EINVAL, "%s: %g is outside 1..%g", name, ratio, max);
}

int penstock_gen_init(struct penstock_gen *g, uint64_t seed, double dedup, double compress,
		      struct penstock_err *err)
{
	int r;

	dedup = dedup == 0 ? 1 : dedup;
	compress = compress == 0 ? 1 : compress;
	r = gen_check_ratio("dedup", dedup, GEN_DEDUP_MAX, err);
	if (r == 0)
		r = gen_check_ratio("compress", compress, GEN_COMPRESS_MAX, err);
	if (r < 0)
		return r;
	penstock_gen_init_random(g, seed);
	if (dedup > 1)
		g->fresh = (uint64_t)(0x1p64 / dedup);
	if (compress > 1)
		g->words = (uint64_t)((GEN_UNIT_WORDS / compress - SPANS * SPAN_COST) * 0x1p32);
	return 0;
}

int penstock_gen_open(struct penstock_gen **out, uint64_t seed, double dedup, double compress,
		      struct penstock_err *err)
{
	CLEANUP_FREE struct penstock_gen *g = malloc(sizeof(*g));
	int r;

	if (!g)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = penstock_gen_init(g, seed, dedup, compress, err);
	if (r == 0)
		*out = TAKE_PTR(g);
	return r;
}

void penstock_gen_close(struct penstock_gen *gen)
{
	free(gen);
}

/* -------------------------------------------------------------------- one unit */

/* Units that are new among the first @n: exactly 1 of @dedup, rounded up. */
static uint64_t fresh_before(const struct penstock_gen *g, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)n * g->fresh + UINT64_MAX) >> 64);
}

/*
 * A copy is of one of the units in the first half of those that are new so far, by turns: so
 * two of one content are as far apart as they can be, and few within a compressor's window.
 */
static uint64_t unit_id(const struct penstock_gen *g, uint64_t key, uint64_t unit)
{
	uint64_t before, half;

	if (!g->fresh)
		return unit;
	before = fresh_before(g, unit);
	if (fresh_before(g, unit + 1) > before)
		return before;
	half = 1ull << (63 - __builtin_clzll(before / 2 + 1));
	return (key + (unit - before) * GEN_STEP) & (half - 1);
}

/* Random words in all units before @id. */
static uint64_t words_before(const struct penstock_gen *g, uint64_t id)
{
	return (uint64_t)(((unsigned __int128)id * g->words) >> 32);
}

static void make_unit(const struct penstock_gen *g, uint64_t key, uint64_t id, unsigned char *out)
{
	uint64_t x = key + id * GEN_UNIT_WORDS * GEN_STEP;
	unsigned nr = (unsigned)(words_before(g, id + 1) - words_before(g, id)), n;

	if (nr >= GEN_UNIT_WORDS) {
		g->kernel(out, x, GEN_UNIT_WORDS);
		return;
	}
	for (unsigned i = 0; i < SPANS; i++, out += 8 * SPAN_WORDS, x += SPAN_WORDS * GEN_STEP) {
		n = (nr + i) / SPANS;
		g->kernel(out, x, n);
		/* A byte, as compressors may look at one place in many only. */
		memset(out + 8 * n, out[8 * n - 1], 8 * (SPAN_WORDS - n));
	}
}

/* ------------------------------------------------------------------ any range */

/* Neighbouring seeds and objects must not give the same stream a few words apart. */
static uint64_t stream_key(const struct penstock_gen *g, uint64_t object)
{
	return gen_hash(gen_hash(g->seed ^ 0x736c756963650a1aull) + object);
}

void penstock_gen_fill(const struct penstock_gen *g, uint64_t object, uint64_t offset, void *buf,
		       size_t len)
{
	uint64_t key = stream_key(g, object), n;
	unsigned char unit[GEN_UNIT], *p = buf;

	for (; len; p += n, len -= n, offset += n) {
		uint64_t from = offset % GEN_UNIT, id = unit_id(g, key, offset / GEN_UNIT);

		n = min_u64(len, GEN_UNIT - from);
		make_unit(g, key, id, n == GEN_UNIT ? p : unit);
		if (n < GEN_UNIT)
			memcpy(p, unit + from, n);
	}
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n)
{
	size_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

size_t penstock_gen_check(const struct penstock_gen *g, uint64_t object, uint64_t offset,
			  const void *buf, size_t len)
{
	const unsigned char *p = buf;
	uint64_t key = stream_key(g, object), n;
	unsigned char unit[GEN_UNIT];

	for (size_t at = 0; at < len; at += n, offset += n) {
		uint64_t from = offset % GEN_UNIT;

		n = min_u64(len - at, GEN_UNIT - from);
		make_unit(g, key, unit_id(g, key, offset / GEN_UNIT), unit);
		if (memcmp(p + at, unit + from, n))
			return at + first_difference(p + at, unit + from, n);
	}
	return len;
}
