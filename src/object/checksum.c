/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of what is sent, as the headers x-amz-checksum-* have them. */
#include <string.h>

#include "base/crc32c.h"
#include "dl/crypto.h"
#include "object/client.h"

/* CRC-64/NVME, eight bytes at a time; both ends inverted, lowest bit first. */
static uint64_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
	const uint64_t poly = 0x9a6c9329ac4bc9b5ull;

	for (unsigned i = 0; i < 256; i++) {
		uint64_t crc = i;

		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ poly : crc >> 1;
		table[0][i] = crc;
	}
	for (unsigned k = 1; k < 8; k++)
		for (unsigned i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

uint64_t object_crc64nvme(uint64_t crc, const void *buf, uint64_t len)
{
	const unsigned char *p = buf;

	pthread_once(&once, make_table);
	crc = ~crc;
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t next = 0;

		for (unsigned i = 0; i < 8; i++)
			next ^= table[7 - i][(crc >> 8 * i ^ p[i]) & 0xff];
		crc = next;
	}
	for (; len; p++, len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
	return ~crc;
}

/* Of @len bytes, at most 16; @b has two more that are 0. */
static void put_base64(char *p, const unsigned char *b, unsigned len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (unsigned i = 0; i < len; i += 3) {
		unsigned v = (unsigned)b[i] << 16 | (unsigned)b[i + 1] << 8 | b[i + 2];

		*p++ = digits[v >> 18];
		*p++ = digits[v >> 12 & 63];
		*p++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
		*p++ = i + 2 < len ? digits[v & 63] : '=';
	}
	*p = 0;
}

/* Highest byte first. */
void object_checksum_base64(char out[24], uint64_t crc, unsigned bytes)
{
	unsigned char b[10] = {0};

	for (unsigned i = 0; i < bytes; i++)
		b[i] = (unsigned char)(crc >> 8 * (bytes - 1 - i));
	put_base64(out, b, bytes);
}

bool object_md5(char out[OBJECT_MD5], const void *buf, size_t len)
{
	const struct penstock_crypto *crypto = penstock_crypto(NULL);
	unsigned char md[18] = {0};

	if (!crypto->md5 || !crypto->md5(buf, len, md))
		return false;
	put_base64(out, md, 16);
	return true;
}

bool object_checksum_names(struct object_checksum *s, const struct penstock_s3 *c)
{
	bool crc64 = c->opts.checksum == PENSTOCK_S3_CHECKSUM_CRC64NVME;

	memset(s, 0, sizeof(*s));
	s->header = crc64 ? "x-amz-checksum-crc64nvme" : "x-amz-checksum-crc32c";
	s->algorithm = crc64 ? "CRC64NVME" : "CRC32C";
	s->element = crc64 ? "ChecksumCRC64NVME" : "ChecksumCRC32C";
	return c->opts.checksum != PENSTOCK_S3_CHECKSUM_NONE;
}

bool object_checksum_compute(struct object_checksum *s, const struct penstock_s3 *c,
			     const void *buf, uint64_t len)
{
	if (!object_checksum_names(s, c))
		return false;
	if (c->opts.checksum == PENSTOCK_S3_CHECKSUM_CRC64NVME)
		object_checksum_base64(s->value, object_crc64nvme(0, buf, len), 8);
	else
		object_checksum_base64(s->value, penstock_crc32c(0, buf, len), 4);
	return true;
}

const char *object_checksum_name(const struct penstock_s3 *c)
{
	switch (c->opts.checksum) {
	case PENSTOCK_S3_CHECKSUM_NONE:
		return "none";
	case PENSTOCK_S3_CHECKSUM_CRC64NVME:
		return "crc64nvme";
	default:
		return "crc32c";
	}
}
