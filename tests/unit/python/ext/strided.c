/* SPDX-License-Identifier: Apache-2.0 */
/* Strided memory of the Python extension, against loops over all indices. */
#include "python/penstock/ext/strided.h"

#include "base/random.h"
#include "tests/common/t.h"

enum { DIMS = 5, ROOM = 1 << 16 };

/* An array somewhere in the middle of @room bytes. */
struct array {
	uint64_t itemsize;
	unsigned ndim;
	int64_t shape[DIMS], strides[DIMS];
	int64_t low, high; /* of the offsets of its elements, from the first */
};

static struct penstock_random rng;
static unsigned char room[3 * ROOM];

static uint64_t below(uint64_t n)
{
	return penstock_random_below(&rng, n);
}

static struct strided *make(const struct array *a)
{
	struct strided *l = strided_make(room + ROOM, a->itemsize, a->ndim, a->shape, a->strides);

	T_OK(l);
	return l;
}

static uint64_t nr_elements(const struct array *a)
{
	uint64_t n = 1;

	for (unsigned i = 0; i < a->ndim; i++)
		n *= (uint64_t)a->shape[i];
	return n;
}

/* Offset of the @k-th element in C order. */
static int64_t offset_of(const struct array *a, uint64_t k)
{
	int64_t at = 0;

	for (unsigned i = a->ndim; i-- > 0;) {
		at += (int64_t)(k % (uint64_t)a->shape[i]) * a->strides[i];
		k /= (uint64_t)a->shape[i];
	}
	return at;
}

static bool fits(struct array *a)
{
	a->low = a->high = 0;
	for (unsigned i = 0; i < a->ndim; i++)
		*(a->strides[i] < 0 ? &a->low : &a->high) += (a->shape[i] - 1) * a->strides[i];
	return a->low > -ROOM && a->high + (int64_t)a->itemsize < ROOM;
}

/* What slicing, reversing and transposing make of an array in C order: no overlap. */
static void ordinary(struct array *a)
{
	uint64_t stride;

	do {
		stride = a->itemsize = 1 + below(below(2) ? 16 : 40);
		a->ndim = (unsigned)below(DIMS + 1);
		for (unsigned i = a->ndim; i-- > 0;) {
			uint64_t n = 1 + below(7), step = 1 + below(3), whole = n * step;

			a->shape[i] = (int64_t)n;
			a->strides[i] = (int64_t)(stride * step) * (below(4) ? 1 : -1);
			stride *= below(2) ? whole : whole + below(3);
		}
		for (unsigned i = a->ndim; i > 1; i--) {
			unsigned k = (unsigned)below(i);
			int64_t n = a->shape[k], s = a->strides[k];

			if (below(2))
				continue;
			a->shape[k] = a->shape[i - 1];
			a->strides[k] = a->strides[i - 1];
			a->shape[i - 1] = n;
			a->strides[i - 1] = s;
		}
	} while (!fits(a));
}

/* Transposed, with rows longer than a tile. */
static void transposed(struct array *a)
{
	do {
		*a = (struct array){.itemsize = 1 + below(20), .ndim = 3};
		a->shape[0] = 1 + (int64_t)below(3);
		a->shape[1] = 1 + (int64_t)below(100);
		a->shape[2] = 1 + (int64_t)below(200);
		a->strides[1] = (int64_t)(a->itemsize + below(3));
		a->strides[2] = a->shape[1] * a->strides[1] * (below(2) ? 1 : -1);
		a->strides[0] = a->shape[1] * a->shape[2] * a->strides[1];
	} while (!fits(a));
}

/* Any strides at all: these may overlap. */
static void strange(struct array *a)
{
	do {
		a->itemsize = 1 + below(8);
		a->ndim = (unsigned)below(4);
		for (unsigned i = 0; i < a->ndim; i++) {
			a->shape[i] = (int64_t)below(6);
			a->strides[i] = (int64_t)below(60) - 20;
		}
	} while (!fits(a));
}

static bool truly_overlaps(const struct array *a)
{
	static bool taken[2 * ROOM];
	uint64_t n = nr_elements(a);

	memset(taken, 0, sizeof(taken));
	for (uint64_t k = 0; k < n; k++)
		for (uint64_t b = 0; b < a->itemsize; b++) {
			bool *t = &taken[ROOM + offset_of(a, k) + (int64_t)b];

			if (*t)
				return true;
			*t = true;
		}
	return false;
}

/* The first @bytes bytes in C order, one by one. */
static void naive_pack(const struct array *a, unsigned char *to, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		to[i] = room[ROOM + offset_of(a, i / a->itemsize) + (int64_t)(i % a->itemsize)];
}

static void naive_unpack(const struct array *a, unsigned char *mem, const unsigned char *from,
			 uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		mem[ROOM + offset_of(a, i / a->itemsize) + (int64_t)(i % a->itemsize)] = from[i];
}

static void fill(unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)below(256);
}

static void check_pack(const struct array *a, const struct strided *l, uint64_t bytes)
{
	unsigned char *want = malloc(bytes + 1), *got = malloc(bytes + 1);

	naive_pack(a, want, bytes);
	got[bytes] = 0x5a;
	strided_pack(l, got, bytes);
	T_MEM(got, want, bytes);
	T_EQ(got[bytes], 0x5a);
	free(want);
	free(got);
}

static void check_unpack(const struct array *a, const struct strided *l, uint64_t bytes)
{
	static unsigned char want[sizeof(room)];
	unsigned char *from = malloc(bytes + 1);

	fill(from, bytes);
	memcpy(want, room, sizeof(room));
	naive_unpack(a, want, from, bytes);
	strided_unpack(l, from, bytes);
	T_MEM(room, want, sizeof(room));
	free(from);
}

static void check_runs(const struct array *a, const struct strided *l, uint64_t bytes)
{
	uint64_t n = strided_runs(l, NULL, bytes), at = 0;
	struct penstock_iov *iov = malloc((n + 1) * sizeof(*iov));
	unsigned char *want = malloc(bytes + 1), *got = malloc(bytes + 1);

	naive_pack(a, want, bytes);
	T_EQ(strided_runs(l, iov, bytes), n);
	for (uint64_t i = 0; i < n; i++) {
		T_OK(iov[i].len > 0 && at + iov[i].len <= bytes);
		memcpy(got + at, iov[i].addr, iov[i].len);
		at += iov[i].len;
	}
	T_EQ(at, bytes);
	T_MEM(got, want, bytes);
	free(iov);
	free(want);
	free(got);
}

static void check(const struct array *a)
{
	struct strided *l = make(a);
	uint64_t bytes = nr_elements(a) * a->itemsize;

	T_EQ(strided_bytes(l), bytes);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t part = i ? below(bytes + 1) : bytes;

		check_pack(a, l, part);
		check_runs(a, l, part);
		if (!truly_overlaps(a))
			check_unpack(a, l, part);
	}
	T_EQ(strided_overlaps(l), truly_overlaps(a));
	free(l);
}

static void arrays_of_all_shapes_are_packed_and_unpacked(void)
{
	struct array a;

	penstock_random_seed(&rng, t_seed());
	fill(room, sizeof(room));
	for (unsigned long i = 0; i < t_ops(2000); i++) {
		if (i % 5 == 0)
			transposed(&a);
		else if (i & 1)
			ordinary(&a);
		else
			strange(&a);
		check(&a);
	}
}

/* No enumeration: it would be cut off for large ones. */
static void ordinary_arrays_never_overlap_however_large(void)
{
	struct array a;

	penstock_random_seed(&rng, t_seed());
	for (unsigned i = 0; i < 2000; i++) {
		struct strided *l;
		int64_t k = (int64_t)1 << (20 + i % 4);

		ordinary(&a);
		for (unsigned d = 0; d < a.ndim; d++)
			a.strides[d] *= k;
		a.itemsize *= (uint64_t)k;
		l = make(&a);
		T_OK(!strided_overlaps(l));
		free(l);
		a.ndim = 2;
		a.shape[0] = 100000 + (int64_t)i;
		a.shape[1] = 70000;
		a.itemsize = 1 + i % 9;
		a.strides[0] = (int64_t)a.itemsize;
		a.strides[1] = a.strides[0] * a.shape[0] * (i & 1 ? 1 : -1);
		l = make(&a);
		T_OK(!strided_overlaps(l));
		a.strides[1] -= a.strides[1] > 0 ? 1 : -1;
		free(l);
		l = make(&a);
		T_OK(strided_overlaps(l));
		free(l);
	}
}

static unsigned dims_of(unsigned ndim, const int64_t *shape, const int64_t *strides, uint64_t run)
{
	struct strided *l = strided_make(room, 4, ndim, shape, strides);
	unsigned n;

	T_OK(l);
	n = l->ndim;
	T_EQ(l->run, run);
	free(l);
	return n;
}

static void what_lies_together_is_one_run(void)
{
	static const int64_t shape[] = {2, 3, 1, 4}, c[] = {48, 16, 16, 4};

	T_EQ(dims_of(0, NULL, NULL, 4), 0);
	T_EQ(dims_of(4, shape, NULL, 96), 0);
	T_EQ(dims_of(4, shape, c, 96), 0);
	T_EQ(dims_of(4, shape, (const int64_t[]){48, 16, -999, 4}, 96), 0); /* of one element */
	T_EQ(dims_of(4, shape, (const int64_t[]){96, 32, 32, 8}, 4), 1);    /* every second */
	T_EQ(dims_of(4, shape, (const int64_t[]){-48, -16, 0, -4}, 4), 1);  /* reversed */
	T_EQ(dims_of(4, shape, (const int64_t[]){100, 16, 16, 4}, 48), 1);  /* padded */
	T_EQ(dims_of(4, shape, (const int64_t[]){4, 8, 24, 24}, 4), 3);     /* Fortran's order */
	T_EQ(dims_of(4, shape, (const int64_t[]){0, 0, 0, 0}, 4), 1);
}

static void empty_arrays_have_no_bytes_and_no_runs(void)
{
	for (unsigned i = 0; i < 3; i++) {
		int64_t shape[3] = {4, 5, 6}, strides[3] = {-7, 0, 1};
		struct strided *l;

		shape[i] = 0;
		l = strided_make(NULL, 8, 3, shape, strides);
		T_OK(l);
		T_EQ(strided_bytes(l), 0);
		T_EQ(strided_runs(l, NULL, 0), 0);
		T_OK(!strided_overlaps(l));
		strided_pack(l, NULL, 0);
		strided_unpack(l, NULL, 0);
		free(l);
	}
}

static void sizes_beyond_2_to_64_are_the_largest_there_is(void)
{
	static const int64_t shape[] = {1ll << 40, 3, 1ll << 40}, strides[] = {0, 16, 0};
	static const int64_t all[] = {0, 0, 0};
	unsigned char got[40], want[40];
	struct strided *l = strided_make(room, 16, 3, shape, strides);

	T_OK(l);
	T_EQ(strided_bytes(l), UINT64_MAX);
	T_OK(strided_overlaps(l));
	strided_pack(l, got, sizeof(got));
	for (unsigned i = 0; i < sizeof(got); i++)
		want[i] = room[i % 16];
	T_MEM(got, want, sizeof(got));
	free(l);
	l = strided_make(room, 16, 3, shape, all);
	T_OK(l);
	T_EQ(strided_bytes(l), UINT64_MAX);
	T_OK(strided_overlaps(l));
	free(l);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(arrays_of_all_shapes_are_packed_and_unpacked),
		T_CASE(ordinary_arrays_never_overlap_however_large),
		T_CASE(what_lies_together_is_one_run),
		T_CASE(empty_arrays_have_no_bytes_and_no_runs),
		T_CASE(sizes_beyond_2_to_64_are_the_largest_there_is),
	};
	static const struct t_group group = {"strided", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
