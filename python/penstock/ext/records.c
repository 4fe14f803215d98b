/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written here is what torch writes, byte for byte, so that all that is known of such files
 * holds: the header of a record is padded up to the alignment of its content, its checksum follows
 * the content; the directory is at the end.  (PKWARE APPNOTE 6.3, sections 4.3 and 4.5.)
 */
#include "records.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ZIP64_MIN UINT32_MAX  /* sizes and offsets from here on are in fields of 64 bits */
#define PIECE     (32u << 20) /* of a content, between which the thread may be stopped */

enum {
	UTF8 = 0x800,
	DATA_DESCRIPTOR = 0x8,
	HEADER_BYTES = 30 + 28 + 4, /* of a header without name and padding, at most */
	ENTRY_BYTES = 46 + 28,      /* of a directory without name, at most */
	END_BYTES = 56 + 20 + 22,   /* of a directory without entries */
	WAKE_BYTES = 1 << 20,       /* what the thread is woken for, unless nothing more comes */
};

struct record {
	struct record *next;
	uint64_t header_offset, bytes;
	const char *data;
	uint32_t crc;
	size_t name_len;
	char name[]; /* and behind it what was copied */
};

struct records {
	struct penstock_writer *writer;
	uint32_t alignment;
	pid_t pid;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t added, written;
	struct record *first, **last;
	uint64_t unseen_bytes; /* bytes that were added since the thread looked */
	bool ended, done, stop;
	int code; /* the first failure */
	struct penstock_err err;
	/* of the thread */
	struct record **next; /* the first that is not written */
	uint64_t at;          /* offset in the archive */
	uint64_t nr, entries; /* records so far, bytes of names in the directory */
	char *header;         /* of one record */
	size_t header_capacity;
};

/* ------------------------------------------------------------------------ bytes */

static char *put_int(char *to, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*to++ = (char)(v >> 8 * i);
	return to;
}

static char *put_zeros(char *to, size_t len)
{
	memset(to, 0, len);
	return to + len;
}

static char *put_text(char *to, const char *text, size_t len)
{
	memcpy(to, text, len);
	return to + len;
}

static bool needs_zip64(const struct record *rec)
{
	return rec->bytes >= ZIP64_MIN || rec->header_offset >= ZIP64_MIN;
}

/* What does not fit into 32 bits. */
static char *put_zip64_extra(char *to, const struct record *rec)
{
	unsigned n = (rec->bytes >= ZIP64_MIN ? 16 : 0) + (rec->header_offset >= ZIP64_MIN ? 8 : 0);

	if (!n)
		return to;
	to = put_int(put_int(to, 1, 2), n, 2);
	if (rec->bytes >= ZIP64_MIN)
		to = put_int(put_int(to, rec->bytes, 8), rec->bytes, 8);
	return rec->header_offset >= ZIP64_MIN ? put_int(to, rec->header_offset, 8) : to;
}

static unsigned record_flags(const struct record *rec)
{
	return UTF8 | (rec->bytes ? DATA_DESCRIPTOR : 0);
}

/* What precedes the content of a record. */
static size_t make_local_header(char *out, const struct record *rec, uint32_t alignment)
{
	char *extra, *p = put_text(out, "PK\3\4", 4);
	uint64_t begin, padding;

	p = put_zeros(put_int(put_int(p, 0, 2), record_flags(rec), 2), 18);
	p = put_int(put_int(p, rec->name_len, 2), 0, 2);
	extra = put_text(p, rec->name, rec->name_len);
	p = put_zip64_extra(extra, rec);
	begin = rec->header_offset + (uint64_t)(p - out) + 4;
	padding = (alignment - begin % alignment) % alignment;
	p = put_int(put_text(p, "FB", 2), padding, 2);
	memset(p, 'Z', padding);
	p += padding;
	put_int(out + 28, (uint64_t)(p - extra), 2);
	return (size_t)(p - out);
}

/* What follows it. */
static size_t make_data_descriptor(char out[24], const struct record *rec)
{
	unsigned wide = needs_zip64(rec) ? 8 : 4;
	char *p = put_int(put_text(out, "PK\7\10", 4), rec->crc, 4);

	return (size_t)(put_int(put_int(p, rec->bytes, wide), rec->bytes, wide) - out);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static char *put_directory_entry(char *to, const struct record *rec)
{
	char *p = put_text(to, "PK\1\2", 4), *extra;

	p = put_int(put_int(put_int(p, 0, 4), record_flags(rec), 2), 0, 6);
	p = put_int(p, rec->crc, 4);
	p = put_int(put_int(p, min_u64(rec->bytes, ZIP64_MIN), 4), min_u64(rec->bytes, ZIP64_MIN),
		    4);
	p = put_zeros(put_int(p, rec->name_len, 2), 12);
	p = put_int(p, min_u64(rec->header_offset, ZIP64_MIN), 4);
	extra = put_text(p, rec->name, rec->name_len);
	p = put_zip64_extra(extra, rec);
	put_int(to + 30, (uint64_t)(p - extra), 2);
	return p;
}

/* Behind the entries, which are of @bytes. */
static char *put_directory_end(char *to, const struct records *r, uint64_t bytes)
{
	char *p = put_int(put_text(to, "PK\6\6", 4), 56 - 12, 8);

	p = put_int(put_int(put_int(p, 0x31e, 2), 45, 2), 0, 8);
	p = put_int(put_int(put_int(put_int(p, r->nr, 8), r->nr, 8), bytes, 8), r->at, 8);
	p = put_int(put_int(put_int(put_text(p, "PK\6\7", 4), 0, 4), r->at + bytes, 8), 1, 4);
	p = put_int(put_text(p, "PK\5\6", 4), 0, 4);
	p = put_int(put_int(p, min_u64(r->nr, 0xffff), 2), min_u64(r->nr, 0xffff), 2);
	return put_int(
		put_int(put_int(p, min_u64(bytes, ZIP64_MIN), 4), min_u64(r->at, ZIP64_MIN), 4), 0,
		2);
}

/* ------------------------------------------------------------------- the thread */

static int write_bytes(struct records *r, const void *data, uint64_t len)
{
	r->at += len;
	return penstock_writer_write(r->writer, data, len, &r->err);
}

static int write_content(struct records *r, struct record *rec)
{
	const char *from = rec->data;
	uint64_t left = rec->bytes;
	int e = 0;

	for (uint64_t n; left && e == 0; from += n, left -= n) {
		n = min_u64(left, PIECE);
		e = __atomic_load_n(&r->stop, __ATOMIC_RELAXED)
			    ? -ECANCELED
			    : penstock_writer_write_crc32(r->writer, from, n, &rec->crc, &r->err);
	}
	r->at += rec->bytes;
	return e;
}

static int write_record(struct records *r, struct record *rec)
{
	size_t capacity = HEADER_BYTES + rec->name_len + r->alignment;
	char descriptor[24];
	int e;

	if (capacity > r->header_capacity) {
		free(r->header);
		r->header_capacity = 0;
		r->header = malloc(capacity);
		if (!r->header)
			return -ENOMEM;
		r->header_capacity = capacity;
	}
	rec->header_offset = r->at;
	e = write_bytes(r, r->header, make_local_header(r->header, rec, r->alignment));
	if (e == 0)
		e = write_content(r, rec);
	if (e == 0 && rec->bytes)
		e = write_bytes(r, descriptor, make_data_descriptor(descriptor, rec));
	r->nr++;
	r->entries += ENTRY_BYTES + rec->name_len;
	return e;
}

/* Two numbers of twenty digits, one from the names and one from the sums of what is there. */
static void make_serialization_id(const struct records *r, char out[41])
{
	const uint64_t factor = 0x9e3779b97f4a7c15u;
	uint64_t names = 0, sums = 0;

	for (const struct record *rec = r->first; rec; rec = rec->next) {
		names = names * factor ^ penstock_crc32(0, rec->name, rec->name_len);
		sums = sums * factor ^ rec->crc;
	}
	snprintf(out, 41, "%020" PRIu64 "%020" PRIu64, names, sums);
}

static int write_end(struct records *r)
{
	static const char last[] = "/.data/serialization_id";
	const struct record *first = r->first;
	size_t stem = first ? strcspn(first->name, "/") : 0;
	char *directory, *p, id[41];
	int e;

	if (!first)
		return -EINVAL;
	make_serialization_id(r, id);
	p = malloc(stem + sizeof(last));
	if (!p)
		return -ENOMEM;
	memcpy(p, first->name, stem);
	memcpy(p + stem, last, sizeof(last));
	e = records_add(r, p, stem + sizeof(last) - 1, id, 40, true);
	free(p);
	if (e == 0)
		e = write_record(r, *r->next);
	directory = e == 0 ? malloc(r->entries + END_BYTES) : NULL;
	if (!directory)
		return e < 0 ? e : -ENOMEM;
	p = directory;
	for (const struct record *rec = r->first; rec; rec = rec->next)
		p = put_directory_entry(p, rec);
	p = put_directory_end(p, r, (uint64_t)(p - directory));
	e = write_bytes(r, directory, (uint64_t)(p - directory));
	free(directory);
	return e;
}

static void *write_records(void *arg)
{
	struct records *r = arg;
	int code = 0;

	pthread_mutex_lock(&r->lock);
	while (!r->stop && code == 0 && !r->done) {
		struct record **end = r->last;
		bool ended = r->ended;

		if (!ended && r->unseen_bytes < WAKE_BYTES) {
			pthread_cond_wait(&r->added, &r->lock);
			continue;
		}
		r->unseen_bytes = 0;
		pthread_mutex_unlock(&r->lock);
		for (; code == 0 && r->next != end; r->next = &(*r->next)->next)
			code = write_record(r, *r->next);
		if (code == 0 && ended)
			code = write_end(r);
		pthread_mutex_lock(&r->lock);
		r->done = ended;
	}
	r->code = code;
	r->done = true;
	pthread_cond_signal(&r->written);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* --------------------------------------------------------------------- its owner */

struct records *records_start(struct penstock_writer *writer, uint32_t alignment)
{
	struct records *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->writer = writer;
	r->alignment = alignment;
	r->pid = getpid();
	r->last = r->next = &r->first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->added, NULL);
	pthread_cond_init(&r->written, NULL);
	if (pthread_create(&r->thread, NULL, write_records, r) == 0)
		return r;
	free(r);
	return NULL;
}

int records_add(struct records *r, const char *name, size_t name_len, const void *data,
		uint64_t bytes, bool copy)
{
	struct record *rec = malloc(sizeof(*rec) + name_len + (copy ? bytes : 0));

	if (!rec)
		return -ENOMEM;
	*rec = (struct record){.bytes = bytes, .data = data, .name_len = name_len};
	memcpy(rec->name, name, name_len);
	if (copy)
		rec->data = memcpy(rec->name + name_len, data, bytes);
	pthread_mutex_lock(&r->lock);
	*r->last = rec;
	r->last = &rec->next;
	r->unseen_bytes += bytes;
	if (r->unseen_bytes >= WAKE_BYTES && r->unseen_bytes - bytes < WAKE_BYTES)
		pthread_cond_signal(&r->added);
	pthread_mutex_unlock(&r->lock);
	return 0;
}

void records_end(struct records *r)
{
	pthread_mutex_lock(&r->lock);
	r->ended = true;
	pthread_cond_signal(&r->added);
	pthread_mutex_unlock(&r->lock);
}

bool records_wait(struct records *r, unsigned ms)
{
	struct timespec end;
	bool done;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += (long)ms * 1000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&r->lock);
	while (!r->done && pthread_cond_timedwait(&r->written, &r->lock, &end) != ETIMEDOUT)
		;
	done = r->done;
	pthread_mutex_unlock(&r->lock);
	return done;
}

int records_result(const struct records *r, const struct penstock_err **err)
{
	*err = &r->err;
	return r->code;
}

void records_stop(struct records *r)
{
	if (!r)
		return;
	if (r->pid == getpid()) { /* a child of fork() has no such thread */
		pthread_mutex_lock(&r->lock);
		__atomic_store_n(&r->stop, true, __ATOMIC_RELAXED);
		pthread_cond_signal(&r->added);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->thread, NULL);
	}
	for (struct record *rec = r->first, *next; rec; rec = next) {
		next = rec->next;
		free(rec);
	}
	free(r->header);
	free(r);
}
