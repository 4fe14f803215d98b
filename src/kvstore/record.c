/* SPDX-License-Identifier: Apache-2.0 */
/* Records and heads of logs as they lie on disk. */
#include "kvstore/record.h"

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/util.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "logs are little endian");

enum { LOG_VERSION = 1 };
static const char log_magic[8] = "penstklg";

struct disk_record {
	uint32_t sum; /* CRC-32C of seed and all that follows */
	uint32_t size;
	uint64_t gen;
	uint64_t time;
	uint8_t type;
	uint8_t cost;
	uint16_t key_len;
	uint32_t nr;
	uint32_t len, crc, expiry;
	uint32_t zero;
};
_Static_assert(sizeof(struct disk_record) == STORE_RECORD_HEAD, "no holes");

struct disk_head {
	char magic[8];
	uint32_t version;
	uint32_t seed;
	uint64_t epoch, clock, since;
	char zero[STORE_LOG_HEAD - 44];
	uint32_t sum; /* CRC-32C of what is before it */
};
_Static_assert(sizeof(struct disk_head) == STORE_LOG_HEAD, "no holes");

size_t store_record_size(uint32_t key_len, uint32_t nr)
{
	return align_up(STORE_RECORD_HEAD + 8ull * nr + key_len, 8);
}

static uint32_t record_sum(uint32_t seed, const unsigned char *at, size_t size)
{
	return penstock_crc32c(penstock_crc32c(0, &seed, sizeof(seed)), at + 4, size - 4);
}

struct extent store_record_piece(const struct store_record *r, uint32_t i)
{
	struct extent x;

	memcpy(&x, r->pieces + 8 * (size_t)i, sizeof(x));
	return x;
}

static size_t put_body(unsigned char *to, const struct store_record *r, const struct extents *space)
{
	if (r->type != STORE_RECORD_SET) {
		memcpy(to, &r->hash, sizeof(r->hash));
		memcpy(to + sizeof(r->hash), &r->run, sizeof(r->run));
		return sizeof(r->hash) + (r->type == STORE_RECORD_BELOW ? sizeof(r->run) : 0);
	}
	for (uint32_t i = 0; i < space->nr; i++)
		memcpy(to + 8 * (size_t)i, extents_at(space, i), 8);
	memcpy(to + 8 * (size_t)space->nr, r->key, r->key_len);
	return 8 * (size_t)space->nr + r->key_len;
}

size_t store_record_put(unsigned char *to, uint32_t seed, const struct store_record *r,
			const struct extents *space)
{
	struct disk_record d = {
		.gen = r->gen,
		.time = r->time,
		.type = (uint8_t)r->type,
		.cost = (uint8_t)r->cost,
		.len = r->len,
		.crc = r->crc,
		.expiry = r->expiry,
	};
	size_t used = STORE_RECORD_HEAD + put_body(to + STORE_RECORD_HEAD, r, space);

	d.size = (uint32_t)align_up(used, 8);
	memset(to + used, 0, d.size - used);
	if (r->type == STORE_RECORD_SET) {
		d.key_len = (uint16_t)r->key_len;
		d.nr = space->nr;
	}
	memcpy(to, &d, sizeof(d));
	d.sum = record_sum(seed, to, d.size);
	memcpy(to, &d.sum, sizeof(d.sum));
	return d.size;
}

/* Does its length follow from what it says it is? */
static bool is_size_plausible(const struct disk_record *d)
{
	if (d->type == STORE_RECORD_DROP)
		return d->size == STORE_RECORD_HEAD + sizeof(struct store_hash) && !d->nr &&
		       !d->key_len;
	if (d->type == STORE_RECORD_BELOW)
		return d->size == STORE_RECORD_BELOW_SIZE && !d->nr && !d->key_len;
	return d->type == STORE_RECORD_SET && d->key_len && d->key_len <= 4096 &&
	       d->nr <= STORE_PIECES_MAX && d->size == store_record_size(d->key_len, d->nr);
}

int store_record_get(struct store_record *ret, uint32_t seed, const unsigned char *from,
		     size_t avail)
{
	const unsigned char *body = from + STORE_RECORD_HEAD;
	struct disk_record d;

	if (avail < sizeof(d))
		return 0;
	memcpy(&d, from, sizeof(d));
	if (!is_size_plausible(&d))
		return -EBADMSG;
	if (avail < d.size)
		return 0;
	if (d.sum != record_sum(seed, from, d.size))
		return -EBADMSG;
	*ret = (struct store_record){.type = d.type, .cost = d.cost, .gen = d.gen, .time = d.time};
	ret->len = d.len;
	ret->crc = d.crc;
	ret->expiry = d.expiry;
	if (d.type != STORE_RECORD_SET) {
		memcpy(&ret->hash, body, sizeof(ret->hash));
		if (d.type == STORE_RECORD_BELOW)
			memcpy(&ret->run, body + sizeof(ret->hash), sizeof(ret->run));
		return (int)d.size;
	}
	ret->nr = d.nr;
	ret->pieces = body;
	ret->key = body + 8 * (size_t)d.nr;
	ret->key_len = d.key_len;
	return (int)d.size;
}

void store_log_head_put(unsigned char to[STORE_LOG_HEAD], const struct store_log_head *head)
{
	struct disk_head h = {.version = LOG_VERSION,
			      .seed = head->seed,
			      .epoch = head->epoch,
			      .clock = head->clock,
			      .since = head->since};

	memcpy(h.magic, log_magic, sizeof(h.magic));
	h.sum = penstock_crc32c(0, &h, offsetof(struct disk_head, sum));
	memcpy(to, &h, sizeof(h));
}

int store_log_head_get(struct store_log_head *ret, const unsigned char from[STORE_LOG_HEAD])
{
	struct disk_head h;

	memcpy(&h, from, sizeof(h));
	if (memcmp(h.magic, log_magic, sizeof(h.magic)) ||
	    h.sum != penstock_crc32c(0, &h, offsetof(struct disk_head, sum)))
		return -EBADMSG;
	if (h.version != LOG_VERSION)
		return -EPROTO;
	*ret = (struct store_log_head){h.seed, h.epoch, h.clock, h.since};
	return 0;
}
