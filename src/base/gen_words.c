/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of random content: the same ones from every kernel, and each by itself.
 *
 * Word i of a stream is mix(key + i * golden ratio).  mix() has three rounds of what vector
 * units are good at, a product of 32 by 32 bits: x ^= x >> s, then the low half is multiplied
 * and the high half added to the product's without carry.  Each round can be undone, so no two
 * inputs give the same word; with these shifts every bit of the input changes every bit of
 * the output with a chance of one half (tests/unit/src/base/gen.c looks).
 */
#include <endian.h>
#include <string.h>

#include "base/gen.h"
#include "base/util.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define K1   0xfeb34465ull
#define K2   0xf7c2ebc1ull
#define K3   0xeb44accbull
#define HIGH 0xffffffff00000000ull

static inline uint64_t mix_round(uint64_t x, unsigned shift, uint64_t k)
{
	x ^= x >> shift;
	return (x & ~HIGH) * k ^ (x & HIGH);
}

static inline uint64_t mix(uint64_t x)
{
	x = mix_round(mix_round(mix_round(x, 32, K1), 25, K2), 25, K3);
	return x ^ x >> 27;
}

static void words_portable(void *out, uint64_t x, size_t nr)
{
	unsigned char *p = out;

	for (; nr; nr--, p += 8, x += GEN_STEP) {
		uint64_t w = htole64(mix(x));

		memcpy(p, &w, 8);
	}
}

#if defined(__x86_64__)

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i round_avx2(__m256i x, int shift, uint64_t k)
{
	const __m256i high = _mm256_set1_epi64x((long long)HIGH);

	x = _mm256_xor_si256(x, _mm256_srli_epi64(x, shift));
	return _mm256_xor_si256(_mm256_mul_epu32(x, _mm256_set1_epi64x((long long)k)),
				_mm256_and_si256(x, high));
}

AVX2 static inline __m256i mix_avx2(__m256i x)
{
	x = round_avx2(round_avx2(round_avx2(x, 32, K1), 25, K2), 25, K3);
	return _mm256_xor_si256(x, _mm256_srli_epi64(x, 27));
}

AVX2 static void words_avx2(void *out, uint64_t x, size_t nr)
{
	const __m256i step = _mm256_set1_epi64x((long long)(4 * GEN_STEP));
	__m256i a = _mm256_set_epi64x((long long)(x + 3 * GEN_STEP), (long long)(x + 2 * GEN_STEP),
				      (long long)(x + GEN_STEP), (long long)x);
	char *p = out;

	x += (nr & ~7ull) * GEN_STEP;
	for (; nr >= 8; nr -= 8, p += 64) {
		__m256i b = _mm256_add_epi64(a, step);

		_mm256_storeu_si256((__m256i *)(void *)p, mix_avx2(a));
		_mm256_storeu_si256((__m256i *)(void *)(p + 32), mix_avx2(b));
		a = _mm256_add_epi64(b, step);
	}
	words_portable(p, x, nr);
}

#define AVX512        __attribute__((target("avx512f")))
#define A_XOR_B_AND_C 0x78

AVX512 static inline __m512i round_avx512(__m512i x, unsigned shift, uint64_t k)
{
	const __m512i high = _mm512_set1_epi64((long long)HIGH);

	x = _mm512_xor_si512(x, _mm512_srli_epi64(x, shift));
	return _mm512_ternarylogic_epi64(_mm512_mul_epu32(x, _mm512_set1_epi64((long long)k)), x,
					 high, A_XOR_B_AND_C);
}

AVX512 static inline __m512i mix_avx512(__m512i x)
{
	x = round_avx512(round_avx512(round_avx512(x, 32, K1), 25, K2), 25, K3);
	return _mm512_xor_si512(x, _mm512_srli_epi64(x, 27));
}

AVX512 static void words_avx512(void *out, uint64_t x, size_t nr)
{
	const __m512i step = _mm512_set1_epi64((long long)(8 * GEN_STEP));
	uint64_t first[8];
	__m512i a, b;
	char *p = out;

	for (unsigned i = 0; i < 8; i++)
		first[i] = x + i * GEN_STEP;
	a = _mm512_loadu_si512(first);
	x += (nr & ~15ull) * GEN_STEP;
	for (; nr >= 16; nr -= 16, p += 128) {
		b = _mm512_add_epi64(a, step);
		_mm512_storeu_si512(p, mix_avx512(a));
		_mm512_storeu_si512(p + 64, mix_avx512(b));
		a = _mm512_add_epi64(b, step);
	}
	words_portable(p, x, nr);
}

#elif defined(__aarch64__) && __BYTE_ORDER == __LITTLE_ENDIAN

static inline uint64x2_t round_neon(uint64x2_t x, const int64x2_t right, uint32_t k)
{
	x = veorq_u64(x, vshlq_u64(x, right));
	return veorq_u64(vmull_n_u32(vmovn_u64(x), k), vandq_u64(x, vdupq_n_u64(HIGH)));
}

static inline uint64x2_t mix_neon(uint64x2_t x)
{
	x = round_neon(x, vdupq_n_s64(-32), (uint32_t)K1);
	x = round_neon(x, vdupq_n_s64(-25), (uint32_t)K2);
	x = round_neon(x, vdupq_n_s64(-25), (uint32_t)K3);
	return veorq_u64(x, vshrq_n_u64(x, 27));
}

static void words_neon(void *out, uint64_t x, size_t nr)
{
	const uint64x2_t step = vdupq_n_u64(2 * GEN_STEP);
	uint64x2_t a = vcombine_u64(vcreate_u64(x), vcreate_u64(x + GEN_STEP));
	unsigned char *p = out;

	x += (nr & ~3ull) * GEN_STEP;
	for (; nr >= 4; nr -= 4, p += 32) {
		uint64x2_t b = vaddq_u64(a, step);

		vst1q_u8(p, vreinterpretq_u8_u64(mix_neon(a)));
		vst1q_u8(p + 16, vreinterpretq_u8_u64(mix_neon(b)));
		a = vaddq_u64(b, step);
	}
	words_portable(p, x, nr);
}

#endif

const struct gen_kernel *penstock_gen_kernel(unsigned i)
{
	static const struct gen_kernel kernels[] = {
#if defined(__x86_64__)
		{"avx512", words_avx512},
		{"avx2", words_avx2},
#elif defined(__aarch64__) && __BYTE_ORDER == __LITTLE_ENDIAN
		{"neon", words_neon},
#endif
		{"portable", words_portable},
	};

#if defined(__x86_64__)
	if (!__builtin_cpu_supports("avx2"))
		i += 2;
	else if (!__builtin_cpu_supports("avx512f"))
		i += 1;
#endif
	return i < ARRAY_SIZE(kernels) ? &kernels[i] : NULL;
}
