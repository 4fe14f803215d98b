/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C, and CRC-32 of zip archives: the published values, every way of computing it, pieces
 * joined. */
#include <penstock/ckpt.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "tests/common/t.h"

static void published_values_come_out(void)
{
	unsigned char up[32], ones[32], zeros[32] = {0};

	for (unsigned i = 0; i < 32; i++) {
		up[i] = (unsigned char)i;
		ones[i] = 0xff;
	}
	T_EQ(penstock_crc32c(0, "", 0), 0);
	T_EQ(penstock_crc32c(0, "123456789", 9), 0xe3069283);
	T_EQ(penstock_crc32c(0, zeros, 32), 0x8a9136aa); /* RFC 3720, B.4 */
	T_EQ(penstock_crc32c(0, ones, 32), 0x62a8ab43);
	T_EQ(penstock_crc32c(0, up, 32), 0x46dd794e);
}

/* One bit at a time, from the definition. */
static uint32_t by_definition(uint32_t poly, uint32_t crc, const unsigned char *p, size_t len)
{
	for (crc = ~crc; len; len--, p++) {
		crc ^= *p;
		for (unsigned i = 0; i < 8; i++)
			crc = crc & 1 ? crc >> 1 ^ poly : crc >> 1;
	}
	return ~crc;
}

enum { MOST = 3 * 4096 * 2 + 3 * 256 * 2 + 17 };

static void all_ways_agree_at_any_length_and_address(void)
{
	unsigned char *buf = malloc(MOST + 16);
	uint32_t want = 0;

	T_OK(buf);
	for (unsigned shift = 0; shift < 9; shift += 4) {
		unsigned char *p = buf + shift;

		penstock_pattern_fill(p, MOST, 5, 0);
		want = 0x12345678;
		for (size_t len = 0; len < MOST; len++) {
			if (penstock_crc32c(0x12345678, p, len) != want)
				T_FAIL("%zu bytes at %u", len, shift);
			if (len % 7 == 1 && penstock_crc32c_instruction(0x12345678, p, len) != want)
				T_FAIL("%zu bytes at %u, by the instruction", len, shift);
			if (len % 7 == 0 && penstock_crc32c_portable(0x12345678, p, len) != want)
				T_FAIL("%zu bytes at %u, by tables", len, shift);
			want = by_definition(0x82f63b78u, want, p + len, 1);
		}
	}
	free(buf);
}

static void pieces_are_joined(void)
{
	unsigned char *buf = malloc(MOST);
	uint32_t whole;

	T_OK(buf);
	penstock_pattern_fill(buf, MOST, 6, 0);
	whole = penstock_crc32c(0, buf, MOST);
	for (size_t cut = 0; cut <= MOST; cut += cut < 100 ? 1 : 997) {
		uint32_t a = penstock_crc32c(0, buf, cut);
		uint32_t b = penstock_crc32c(0, buf + cut, MOST - cut);

		T_EQ(penstock_crc32c(a, buf + cut, MOST - cut), whole);
		T_EQ(penstock_crc32c_combine(a, b, MOST - cut), whole);
	}
	free(buf);
}

/* Lengths that no test could compute: x^(2^31 - 1) is 1, so so many bytes more change nothing. */
static void very_long_pieces_are_joined(void)
{
	uint32_t a = 0xdeadbeef, b = 0x01234567;
	uint64_t period = 0x7fffffff;

	T_EQ(penstock_crc32c_combine(a, b, 0), a ^ b);
	T_EQ(penstock_crc32c_combine(a, b, period), a ^ b);
	T_EQ(penstock_crc32c_combine(a, b, period << 30), penstock_crc32c_combine(a, b, 0));
	T_EQ(penstock_crc32c_combine(a, b, period * 3 + 5), penstock_crc32c_combine(a, b, 5));
}

/* By steps of 256, 64 and 16 bytes, of 8 and of one. */
static void that_of_zip_is_as_defined_at_any_length_and_address(void)
{
	unsigned char buf[2000];

	penstock_pattern_fill(buf, sizeof(buf), 3, 0);
	T_EQ(penstock_crc32(0, "", 0), 0);
	T_EQ(penstock_crc32(0, "123456789", 9), 0xcbf43926);
	for (size_t from = 0; from < 16; from++)
		for (size_t len = 0; from + len <= sizeof(buf); len += len < 400 ? 1 : 17)
			T_EQ(penstock_crc32(7, buf + from, len),
			     by_definition(0xedb88320u, 7, buf + from, len));
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(published_values_come_out),
		T_CASE(all_ways_agree_at_any_length_and_address),
		T_CASE(that_of_zip_is_as_defined_at_any_length_and_address),
		T_CASE(pieces_are_joined),
		T_CASE(very_long_pieces_are_joined),
	};
	static const struct t_group groups[] = {{"crc32c", NULL, NULL, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
