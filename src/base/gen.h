/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_GEN_H
#define PENSTOCK_BASE_GEN_H

/* The generator of content from inside: without memory of its own, and its kernels one by one. */
#include <penstock/gen.h>

enum {
	GEN_UNIT = 4096, /* bytes; what is deduplicated, and has the ratio of compression */
	GEN_UNIT_WORDS = GEN_UNIT / 8,
};
#define GEN_DEDUP_MAX    1000
#define GEN_COMPRESS_MAX 16

/* Words mix(x), mix(x + GEN_STEP), ... in little endian at any address. */
typedef void gen_words_fn(void *out, uint64_t x, size_t nr);
#define GEN_STEP 0x9e3779b97f4a7c15ull

struct gen_kernel {
	const char *name;
	gen_words_fn *words;
};
/* Number @i of those that run on this machine, best first; NULL past the end. */
const struct gen_kernel *penstock_gen_kernel(unsigned i);

struct penstock_gen {
	uint64_t seed;
	uint64_t fresh; /* units that are new, of 2^64; 0: all */
	uint64_t words; /* random ones of a unit, times 2^32 */
	gen_words_fn *kernel;
};

/* What penstock_gen_open() does, into the caller's memory: 0 or -EINVAL. */
int penstock_gen_init(struct penstock_gen *g, uint64_t seed, double dedup, double compress,
		      struct penstock_err *err);
/* Without ratios, which cannot fail. */
void penstock_gen_init_random(struct penstock_gen *g, uint64_t seed);

#endif
