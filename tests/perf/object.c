/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of 64 MiB: put and read by the library and by a bare loop over libcurl that sends the
 *same requests without a signature, in turns.
 *
 *	python3 tests/s3/server.py --no-sign --bucket bucket     prints URL
 *	perf-object URL [ROUNDS]
 */
#include <sluice/object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/random.h"
#include "base/util.h"
#include "dl/curl.h"

enum { LEN = 64 << 20, PART = 8 << 20, PARTS = LEN / PART };

static const struct sluice_curl *curl;
static void *multi, *easy[PARTS];
static char url[512];
static unsigned char *content, *back;

struct piece {
	unsigned char *at;
	size_t done;
};

static size_t take(char *data, size_t one, size_t len, void *arg)
{
	struct piece *p = arg;

	(void)one;
	memcpy(p->at + p->done, data, len);
	p->done += len;
	return len;
}

static size_t give(char *room, size_t one, size_t size, void *arg)
{
	struct piece *p = arg;
	size_t len = min_u64(one * size, LEN - p->done);

	memcpy(room, p->at + p->done, len);
	p->done += len;
	return len;
}

static void bare_run(void)
{
	struct sluice_curl_msg *m;
	int running = 1, left;
	long status;

	while (running) {
		curl->multi_perform(multi, &running);
		if (running)
			curl->multi_poll(multi, NULL, 0, 1000, NULL);
	}
	while ((m = curl->multi_info_read(multi, &left))) {
		void *e = m->easy;

		curl->easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
		if (m->data.result || status >= 300) {
			fprintf(stderr, "perf-object: %d, status %ld\n", m->data.result, status);
			exit(1);
		}
		curl->multi_remove(multi, e);
	}
}

static void bare_put(void)
{
	struct piece p = {content, 0};
	void *headers = curl->slist_append(NULL, "Expect:");

	curl->easy_reset(easy[0]);
	curl->easy_setopt(easy[0], CURLOPT_URL, url);
	curl->easy_setopt(easy[0], CURLOPT_UPLOAD, 1l);
	curl->easy_setopt(easy[0], CURLOPT_HTTPHEADER, headers);
	curl->easy_setopt(easy[0], CURLOPT_INFILESIZE_LARGE, (int64_t)LEN);
	curl->easy_setopt(easy[0], CURLOPT_UPLOAD_BUFFERSIZE, 2l << 20);
	curl->easy_setopt(easy[0], CURLOPT_READFUNCTION, give);
	curl->easy_setopt(easy[0], CURLOPT_READDATA, &p);
	curl->multi_add(multi, easy[0]);
	bare_run();
	curl->slist_free(headers);
}

static void bare_get(void)
{
	struct piece p[PARTS];
	void *headers[PARTS];
	char range[64];

	for (int i = 0; i < PARTS; i++) {
		p[i] = (struct piece){back + (size_t)i * PART, 0};
		snprintf(range, sizeof(range), "Range: bytes=%d-%d", i * PART, (i + 1) * PART - 1);
		headers[i] = curl->slist_append(NULL, range);
		curl->easy_reset(easy[i]);
		curl->easy_setopt(easy[i], CURLOPT_URL, url);
		curl->easy_setopt(easy[i], CURLOPT_HTTPHEADER, headers[i]);
		curl->easy_setopt(easy[i], CURLOPT_BUFFERSIZE, 512l << 10);
		curl->easy_setopt(easy[i], CURLOPT_WRITEFUNCTION, take);
		curl->easy_setopt(easy[i], CURLOPT_WRITEDATA, &p[i]);
		curl->multi_add(multi, easy[i]);
	}
	bare_run();
	for (int i = 0; i < PARTS; i++)
		curl->slist_free(headers[i]);
}

static void ours(struct sluice_object *c, bool put)
{
	struct sluice_err err = {0, ""};
	int64_t r = put ? sluice_object_put(c, "s3://bucket/big", content, LEN, 0, NULL, NULL, &err)
			: sluice_object_read(c, "s3://bucket/big", back, LEN, 0, NULL, &err);

	if (r < 0) {
		fprintf(stderr, "perf-object: %s\n", err.msg);
		exit(1);
	}
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static struct sluice_object *prepare(const char *endpoint)
{
	struct sluice_object_opts o = SLUICE_OBJECT_OPTS_INIT;
	struct sluice_err err = {0, ""};
	struct sluice_object *c;

	o.endpoint = endpoint;
	o.key_id = o.secret = "any";
	if (sluice_object_open(&c, &o, &err) < 0) {
		fprintf(stderr, "perf-object: %s\n", err.msg);
		exit(1);
	}
	curl = sluice_curl(NULL);
	multi = curl->multi_init();
	for (int i = 0; i < PARTS; i++)
		easy[i] = curl->easy_init();
	snprintf(url, sizeof(url), "%s/bucket/big", endpoint);
	content = malloc(LEN);
	back = malloc(LEN);
	sluice_pattern_fill(content, LEN, 1, 0);
	memset(back, 0, LEN);
	return c;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"put, bare", "put", "get, bare", "get"};
	int rounds = argc > 2 ? atoi(argv[2]) : 10;
	double wall[4] = {0}, cpu[4] = {0}, total = (double)LEN * rounds;
	struct sluice_object *c;

	if (argc < 2 || rounds < 1)
		return 2;
	c = prepare(argv[1]);
	/* The first two rounds make connections. */
	for (int round = -2; round < rounds; round++)
		for (int k = 0; k < 4; k++) {
			uint64_t start = clock_ns();
			double before = cpu_seconds();

			if (k % 2)
				ours(c, k == 1);
			else if (k == 0)
				bare_put();
			else
				bare_get();
			if (round < 0)
				continue;
			wall[k] += (double)(clock_ns() - start) / 1e9;
			cpu[k] += cpu_seconds() - before;
		}
	for (int k = 0; k < 4; k++)
		printf("%-10s %6.0f MB/s, %.2f GB per second of CPU\n", names[k],
		       total / wall[k] / 1e6, total / cpu[k] / 1e9);
	printf("of the bare loop: put %.2f, get %.2f\n", wall[0] / wall[1], wall[2] / wall[3]);
	sluice_object_close(c);
	return memcmp(content, back, LEN) != 0;
}
