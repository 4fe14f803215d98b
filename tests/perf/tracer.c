/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measurement of load/trace, printed as one line of JSON:
 *
 *	perf-tracer write FILE ROWS	rows like those of `penstock kv', formatted and written
 *	perf-tracer read FILE		all rows of a trace, and what they add up to
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/random.h"
#include "base/util.h"
#include "load/trace/trace.h"

struct used {
	double wall, cpu;
};

static struct used now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (struct used){
		(double)clock_ns() / 1e9,
		(double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
			(double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
	};
}

/* Of this program alone; getrusage() tells what the one that started it had, too. */
static uint64_t peak_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t kib = 0;
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %" SCNu64, &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

static int report(struct used from, uint64_t rows, uint64_t bytes)
{
	struct used to = now();

	printf("{\"rows\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f, "
	       "\"cpu_seconds\": %.6f, \"peak\": %" PRIu64 "}\n",
	       rows, bytes, to.wall - from.wall, to.cpu - from.cpu, peak_bytes());
	return 0;
}

static int failed(const struct penstock_err *err)
{
	fprintf(stderr, "perf-tracer: %s\n", err->msg);
	return 1;
}

enum { KEYS = 4096 };

/* Keys are made before the clock starts: what is measured is the writer. */
static int write_rows(const char *path, uint64_t rows)
{
	static char keys[KEYS][64];
	struct trace_row row = TRACE_ROW_INIT;
	struct trace_writer *w;
	struct penstock_random random;
	struct penstock_err err;
	uint64_t bytes = 0;
	struct used from;

	penstock_random_seed(&random, 1);
	for (unsigned i = 0; i < KEYS; i++)
		snprintf(keys[i], sizeof(keys[i]), "conv_user_%04u_%" PRIu64 "_turn_%u", i % 1000,
			 1735689600000 + penstock_random_below(&random, 1000000), 1 + i % 9);
	from = now();
	if (trace_writer_open(&w, path, &(struct trace_writer_opts){.format = TRACE_KV}, &err) < 0)
		return failed(&err);
	row.time_ns = 1735689600000000000;
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t draw = penstock_random_next(&random);

		row.time_ns += 1000 + draw % 65536;
		row.key = keys[draw % KEYS];
		row.key_len = (uint32_t)strlen(row.key);
		row.size = (1 + (draw >> 16) % 4096) << 17;
		row.tier = (uint8_t)((draw >> 32) % 3);
		row.op = (draw >> 40) % 4 == 0;
		row.phase = row.op == TRACE_READ ? TRACE_DECODE : TRACE_PREFILL;
		bytes += row.size;
		if (trace_write(w, &row, &err) < 0)
			return failed(&err);
	}
	if (trace_writer_close(w, &err) < 0)
		return failed(&err);
	return report(from, rows, bytes);
}

static int read_rows(const char *path)
{
	struct trace_row row;
	struct trace_reader *r;
	struct penstock_err err;
	uint64_t rows = 0, bytes = 0;
	struct used from = now();
	int n;

	if (trace_reader_open(&r, path, &(struct trace_reader_opts){.strict = true}, &err) < 0)
		return failed(&err);
	while ((n = trace_read(r, &row, &err)) == 1) {
		rows++;
		bytes += row.size;
	}
	trace_reader_close(r);
	return n < 0 ? failed(&err) : report(from, rows, bytes);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "write"))
		return write_rows(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "read"))
		return read_rows(argv[2]);
	fprintf(stderr, "usage: perf-tracer write FILE ROWS | read FILE\n");
	return 2;
}
