/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects by the library, in turns with a bare loop over libcurl that sends the same requests
 * without a signature; object.py starts the server and runs this.
 *
 *	perf-object bulk URL ROUNDS   put and get of 64 MiB, 2000 gets of 4 KiB; medians of rounds
 *	perf-object large URL BYTES   an object of BYTES is read, and one is written
 *
 * URL is that of tests/s3/server.py --no-sign with a bucket `bucket'.
 */
#include <penstock/s3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"
#include "dl/curl.h"
#include "measure.h"

enum {
	LEN = 64 << 20,
	PART = 8 << 20,
	PARTS = LEN / PART,
	SMALL = 4096,
	SMALLS = 2000,
	DEPTH = 32,
	ROUNDS = 1000,
	WARM = 2, /* rounds that make connections */
};

static const struct penstock_curl *curl;
static struct penstock_s3 *client;
static const char *endpoint;
static unsigned char *content, *back;

/* ---------------------------------------------------------------- the bare loop */

static struct slot {
	void *easy, *headers;
	unsigned char *at;
	size_t done;
} slots[DEPTH];
static void *multi;

static size_t take(char *data, size_t one, size_t len, void *arg)
{
	struct slot *s = arg;

	(void)one;
	memcpy(s->at + s->done, data, len);
	s->done += len;
	return len;
}

static size_t give(char *room, size_t one, size_t size, void *arg)
{
	struct slot *s = arg;
	size_t len = min_u64(one * size, LEN - s->done);

	memcpy(room, s->at + s->done, len);
	s->done += len;
	return len;
}

static void slot_set(struct slot *s, const char *key, const char *header, unsigned char *at)
{
	char url[512];

	snprintf(url, sizeof(url), "%s/bucket/%s", endpoint, key);
	s->headers = curl->slist_append(NULL, header);
	s->at = at;
	s->done = 0;
	curl->easy_reset(s->easy);
	curl->easy_setopt(s->easy, CURLOPT_URL, url);
	curl->easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->headers);
	curl->easy_setopt(s->easy, CURLOPT_PRIVATE, s);
	curl->easy_setopt(s->easy, CURLOPT_BUFFERSIZE, 512l << 10);
	curl->easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, take);
	curl->easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl->multi_add(multi, s->easy);
}

/* What has been added, and @more like it; each slot into the same memory. */
static void bare_run(int more)
{
	struct penstock_curl_msg *m;
	int running = 1, left;
	struct slot *s;
	long status;

	while (running) {
		curl->multi_perform(multi, &running);
		while ((m = curl->multi_info_read(multi, &left))) {
			void *easy = m->easy;

			curl->easy_getinfo(easy, CURLINFO_PRIVATE, &s);
			curl->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
			if (m->data.result || status >= 300)
				die("perf-object: libcurl's %d, status %ld", m->data.result,
				    status);
			curl->multi_remove(multi, easy);
			if (more > 0) {
				more--;
				s->done = 0;
				curl->multi_add(multi, easy);
				running = 1;
			} else {
				curl->slist_free(s->headers);
			}
		}
		if (running)
			curl->multi_poll(multi, NULL, 0, 1000, NULL);
	}
}

static void bare_put(void)
{
	void *easy = slots[0].easy;

	slot_set(&slots[0], "big", "Expect:", content);
	curl->easy_setopt(easy, CURLOPT_UPLOAD, 1l);
	curl->easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (int64_t)LEN);
	curl->easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 2l << 20);
	curl->easy_setopt(easy, CURLOPT_READFUNCTION, give);
	curl->easy_setopt(easy, CURLOPT_READDATA, &slots[0]);
	bare_run(0);
}

static void bare_get(void)
{
	char range[64];

	for (int i = 0; i < PARTS; i++) {
		snprintf(range, sizeof(range), "Range: bytes=%d-%d", i * PART, (i + 1) * PART - 1);
		slot_set(&slots[i], "big", range, back + (size_t)i * PART);
	}
	bare_run(0);
}

static void bare_small(void)
{
	for (int i = 0; i < DEPTH; i++)
		slot_set(&slots[i], "small", "Range: bytes=0-4095", back + (size_t)i * SMALL);
	bare_run(SMALLS - DEPTH);
}

/* ------------------------------------------------------------------ the library */

static void need(int64_t r, const struct penstock_err *err)
{
	if (r < 0)
		die("perf-object: %s", err->msg);
}

static void our_put(void)
{
	struct penstock_err err = {0, ""};

	need(penstock_s3_put(client, "s3://bucket/big", content, LEN, 0, NULL, NULL, &err), &err);
}

static void our_get(void)
{
	struct penstock_err err = {0, ""};

	need(penstock_s3_read(client, "s3://bucket/big", back, LEN, 0, NULL, &err), &err);
}

static void our_small(void)
{
	static struct penstock_s3_range reads[SMALLS];
	struct penstock_err err = {0, ""};

	for (int i = 0; i < SMALLS; i++)
		reads[i] = (struct penstock_s3_range){.uri = "s3://bucket/small",
						      .buf = back + (size_t)(i % DEPTH) * SMALL,
						      .len = SMALL};
	need(penstock_s3_fetch(client, reads, SMALLS, &err), &err);
}

static void open_client(uint32_t connections)
{
	struct penstock_s3_opts o = PENSTOCK_S3_OPTS_INIT;
	struct penstock_err err = {0, ""};

	o.endpoint = endpoint;
	o.key_id = o.secret = "any";
	o.connections = connections;
	need(penstock_s3_open(&client, &o, &err), &err);
}

/* ------------------------------------------------------------------------- bulk */

static const struct way {
	const char *name;
	void (*run)(void);
	uint64_t bytes;
	unsigned ops;
} ways[] = {
	{"put 64 MiB, bare", bare_put, LEN, 1},
	{"put 64 MiB", our_put, LEN, 1},
	{"get 64 MiB, bare", bare_get, LEN, 1},
	{"get 64 MiB", our_get, LEN, 1},
	{"get 4 KiB, bare", bare_small, (uint64_t)SMALLS *SMALL, SMALLS},
	{"get 4 KiB", our_small, (uint64_t)SMALLS *SMALL, SMALLS},
};
enum { WAYS = ARRAY_SIZE(ways) };

static int by_size(const void *va, const void *vb)
{
	const double *a = va, *b = vb;

	return *a < *b ? -1 : *a > *b;
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_size);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void bulk(int rounds)
{
	static double wall[WAYS][ROUNDS], cpu[WAYS][ROUNDS], share[WAYS][ROUNDS];
	struct penstock_err err = {0, ""};

	need(penstock_s3_put(client, "s3://bucket/small", content, SMALL, 0, NULL, NULL, &err),
	     &err);
	for (int round = -WARM; round < rounds; round++)
		for (int k = 0; k < WAYS; k++) {
			/* The first of two is the other one in the next round. */
			int way = round % 2 ? k ^ 1 : k;
			struct span s = span_start();

			ways[way].run();
			s = span_since(s);
			if (round < 0)
				continue;
			wall[way][round] = s.wall;
			cpu[way][round] = s.cpu;
		}
	for (int k = 1; k < WAYS; k += 2)
		for (int i = 0; i < rounds; i++)
			share[k][i] = wall[k - 1][i] / wall[k][i];
	printf("%-18s%10s%12s%18s%12s%14s\n", "", "MB/s", "a second", "GB/s of a core", "CPU s/GiB",
	       "CPU us/op");
	for (int k = 0; k < WAYS; k++) {
		double w = median(wall[k], (unsigned)rounds), c = median(cpu[k], (unsigned)rounds);
		double bytes = (double)ways[k].bytes;

		printf("%-18s%10.0f%12.0f%18.2f%12.3f%14.1f", ways[k].name, bytes / w / 1e6,
		       ways[k].ops / w, bytes / c / 1e9, c * 0x1p30 / bytes, c * 1e6 / ways[k].ops);
		if (k % 2)
			printf("   %.2f of the bare loop", median(share[k], (unsigned)rounds));
		printf("\n");
	}
}

static void run_bulk(int rounds)
{
	if (rounds < 1 || rounds > ROUNDS)
		die("perf-object: 1 to %d rounds", ROUNDS);
	curl = penstock_curl(NULL);
	multi = curl->multi_init();
	for (int i = 0; i < DEPTH; i++)
		slots[i].easy = curl->easy_init();
	content = malloc(LEN);
	back = malloc(LEN);
	if (!content || !back)
		die("perf-object: out of memory");
	penstock_pattern_fill(content, LEN, 1, 0);
	memset(back, 0, LEN);
	bulk(rounds);
	our_get();
	if (memcmp(content, back, LEN) != 0)
		die("perf-object: what came back is something else");
}

/* ------------------------------------------------------------------------ large */

static double peak_mib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_maxrss / 1024;
}

static void tell_large(const char *what, uint64_t bytes, struct span s)
{
	printf("%-6s %.1f GiB in %.1f s, %.0f MB/s, %.3f CPU s/GiB; at most %.0f MiB of memory\n",
	       what, (double)bytes / 0x1p30, s.wall, (double)bytes / s.wall / 1e6,
	       s.cpu / ((double)bytes / 0x1p30), peak_mib());
	fflush(stdout);
}

/* The server's virtual/N: eight by eight the number of its own offset. */
static void read_large(uint64_t bytes)
{
	struct span s = span_start();
	struct penstock_err err = {0, ""};
	char uri[64];

	snprintf(uri, sizeof(uri), "s3://bucket/virtual/%llu", (unsigned long long)bytes);
	for (uint64_t at = 0; at < bytes; at += LEN) {
		int64_t n = penstock_s3_read(client, uri, back, LEN, at, NULL, &err);

		need(n, &err);
		for (uint64_t i = 0; i < (uint64_t)n; i += 8) {
			uint64_t v;

			memcpy(&v, back + i, 8);
			if (v != at + i)
				die("perf-object: wrong content at %llu",
				    (unsigned long long)(at + i));
		}
	}
	tell_large("read", bytes, span_since(s));
}

static void write_large(uint64_t bytes)
{
	struct penstock_s3_upload_opts o = PENSTOCK_S3_UPLOAD_OPTS_INIT;
	struct span s = span_start();
	struct penstock_err err = {0, ""};
	struct penstock_s3_upload *u;

	o.expected = bytes;
	need(penstock_s3_upload_open(&u, client, "s3://bucket/discard/large", &o, &err), &err);
	for (uint64_t at = 0; at < bytes; at += LEN)
		need(penstock_s3_upload_write(u, back, min_u64(LEN, bytes - at), &err), &err);
	need(penstock_s3_upload_commit(u, NULL, &err), &err);
	tell_large("write", bytes, span_since(s));
}

static void run_large(uint64_t bytes)
{
	back = malloc(LEN);
	if (!back || bytes % 8)
		die("perf-object: out of memory, or no multiple of 8 bytes");
	memset(back, 0, LEN);
	read_large(bytes);
	write_large(bytes);
}

int main(int argc, char **argv)
{
	bool is_bulk = argc == 4 && !strcmp(argv[1], "bulk");

	if (argc != 4 || (!is_bulk && strcmp(argv[1], "large") != 0))
		die("usage: perf-object bulk URL ROUNDS | large URL BYTES");
	endpoint = argv[2];
	open_client(is_bulk ? DEPTH : 0);
	if (is_bulk)
		run_bulk(atoi(argv[3]));
	else
		run_large(size_arg(argv[3]));
	penstock_s3_close(client);
	return 0;
}
