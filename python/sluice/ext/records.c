/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a zip archive that a thread writes while Python finds the next ones. */
#include "records.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NUMBERS = 4 }; /* of a record: bytes of its header, address, bytes, bytes behind it */

struct batch {
	struct batch *next;
	size_t nr;
	const char *heads;
	uint64_t numbers[];
};

struct records {
	struct sluice_writer *writer;
	pid_t pid;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more, less;
	struct batch *first, **last;
	bool at_work, stop;
	uint32_t *sums;
	size_t nr, room;
	int code; /* the first failure */
	struct sluice_err err;
};

/* What follows the data of a record, of 16 or 24 bytes; returns how many. */
static size_t tail_make(unsigned char out[24], uint32_t crc, uint64_t bytes, size_t len)
{
	size_t wide = len == 24 ? 8 : 4;

	memcpy(out, "PK\7\10", 4);
	for (size_t i = 0; i < 4; i++)
		out[4 + i] = (unsigned char)(crc >> 8 * i);
	for (size_t i = 0; i < wide; i++)
		out[8 + i] = out[8 + wide + i] = (unsigned char)(bytes >> 8 * i);
	return len;
}

static int write_one(struct records *r, const char *head, const uint64_t v[NUMBERS], uint32_t *crc)
{
	unsigned char tail[24];
	int e = sluice_writer_write(r->writer, head, v[0], &r->err);

	if (e == 0)
		e = output_put(r->writer, (const char *)(uintptr_t)v[1], v[2], crc, &r->err);
	if (e == 0 && v[3])
		e = sluice_writer_write(r->writer, tail, tail_make(tail, *crc, v[2], v[3]),
					&r->err);
	return e;
}

/* Only the thread writes, and nobody else looks at @sums before it is done. */
static int write_batch(struct records *r, const struct batch *b)
{
	const char *head = b->heads;
	int e = 0;

	if (r->nr + b->nr > r->room) {
		size_t room = 2 * (r->nr + b->nr);
		uint32_t *sums = realloc(r->sums, room * sizeof(*sums));

		if (!sums)
			return -ENOMEM;
		r->sums = sums;
		r->room = room;
	}
	for (size_t i = 0; i < b->nr && e == 0; i++) {
		const uint64_t *v = b->numbers + i * NUMBERS;

		r->sums[r->nr] = 0;
		e = write_one(r, head, v, &r->sums[r->nr++]);
		head += v[0];
	}
	return e;
}

static void *work(void *arg)
{
	struct records *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		struct batch *b = r->first;
		int code = r->code;

		if (!b) {
			pthread_cond_wait(&r->more, &r->lock);
			continue;
		}
		r->first = b->next;
		if (!r->first)
			r->last = &r->first;
		r->at_work = true;
		pthread_mutex_unlock(&r->lock);
		if (code == 0)
			code = write_batch(r, b);
		free(b);
		pthread_mutex_lock(&r->lock);
		r->code = code;
		r->at_work = false;
		pthread_cond_signal(&r->less);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

struct records *records_start(struct sluice_writer *writer)
{
	struct records *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->writer = writer;
	r->pid = getpid();
	r->last = &r->first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->more, NULL);
	pthread_cond_init(&r->less, NULL);
	if (pthread_create(&r->thread, NULL, work, r) == 0)
		return r;
	free(r);
	return NULL;
}

int records_add(struct records *r, const void *numbers, size_t nr, const void *heads, size_t len)
{
	size_t size = nr * NUMBERS * sizeof(uint64_t);
	struct batch *b = malloc(sizeof(*b) + size + len);

	if (!b)
		return -ENOMEM;
	*b = (struct batch){.nr = nr, .heads = (char *)b->numbers + size};
	memcpy(b->numbers, numbers, size);
	memcpy((char *)b->numbers + size, heads, len);
	pthread_mutex_lock(&r->lock);
	*r->last = b;
	r->last = &b->next;
	pthread_cond_signal(&r->more);
	pthread_mutex_unlock(&r->lock);
	return 0;
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
	while ((r->first || r->at_work) &&
	       pthread_cond_timedwait(&r->less, &r->lock, &end) != ETIMEDOUT)
		;
	done = !r->first && !r->at_work;
	pthread_mutex_unlock(&r->lock);
	return done;
}

int records_result(const struct records *r, const uint32_t **sums, size_t *nr,
		   const struct sluice_err **err)
{
	*sums = r->sums;
	*nr = r->nr;
	*err = &r->err;
	return r->code;
}

void records_stop(struct records *r)
{
	if (!r)
		return;
	if (r->pid == getpid()) { /* a child of fork() has no such thread */
		pthread_mutex_lock(&r->lock);
		r->stop = true;
		pthread_cond_signal(&r->more);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->thread, NULL);
	}
	for (struct batch *b = r->first, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(r->sums);
	free(r);
}
