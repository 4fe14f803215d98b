/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations behind others that take long: how soon they are served, and what that costs.
 *
 *	perf-behind -f FILE [-e ENGINE] [-n ROUNDS] [-c COUNT]
 *	perf-behind -f FILE -u UNIT -s SIZE [-o] [-w MS] [-d DEPTH] [-t THREADS] [-c COUNT]
 *
 * A read of all of FILE (at most 1 GiB), alone and with COUNT (64) reads of 4 KiB behind it in the
 * same call, in turns.  Medians: seconds of the huge one in both cases and their ratio, and when
 * the first and the last of the small ones were over, as a part of the huge one's time.
 *
 * With -u, FILE is a striped one with two members and this unit: COUNT reads of SIZE from the
 * second member, alone, and -w milliseconds (0) behind as many from the first, which is to be slow.
 * Seconds until they were over, and until all were.  -o: into memory at an odd address.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "measure.h"

enum { SMALL = 4096, COUNT_MAX = 4096, ROUNDS_MAX = 1000, MEMBERS = 2 };

static double ended[MEMBERS * COUNT_MAX + 1]; /* the huge one first */

static void note_end(void *arg, const struct penstock_done *done)
{
	if (done->res < 0)
		die("%s", done->msg);
	*(double *)arg = wall_now();
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

static struct penstock_op read_op(struct penstock_file *file, char *buf, uint64_t len, unsigned i)
{
	return (struct penstock_op){.opcode = PENSTOCK_READ,
				    .file = file,
				    .buf = buf,
				    .len = len,
				    .offset = i * (uint64_t)SMALL,
				    .on_done = note_end,
				    .arg = &ended[i]};
}

/* Seconds until the huge one was over; *@first and *@last of the small ones, as parts of that. */
static double one_round(struct penstock_io *io, struct penstock_file *file, char *buf, uint64_t len,
			unsigned count, double *first, double *last)
{
	static struct penstock_op ops[COUNT_MAX + 1];
	double start, t;

	ops[0] = read_op(file, buf, len, 0);
	for (unsigned i = 1; i <= count; i++)
		ops[i] = read_op(file, buf + len + (size_t)i * SMALL, SMALL, i);
	start = wall_now();
	if (penstock_submit(io, ops, count + 1, NULL, NULL) != (int)count + 1)
		die("submit");
	penstock_wait_all(io, -1, NULL);
	t = ended[0] - start;
	if (!count)
		return t;
	qsort(ended + 1, count, sizeof(*ended), by_value);
	*first = (ended[1] - start) / t;
	*last = (ended[count] - start) / t;
	return t;
}

struct members {
	uint64_t unit, size; /* unit 0: this is not about them */
	bool odd;
	unsigned wait_ms;
};

/* @count reads from member @m, each into a place of its own. */
static void read_member(struct penstock_io *io, struct penstock_file *file, const struct members *a,
			char *buf, unsigned m, unsigned count)
{
	static struct penstock_op ops[COUNT_MAX];
	uint64_t at;

	for (unsigned i = 0; i < count; i++) {
		at = i * a->size;
		ops[i] = read_op(file, buf + (m * count + i) * a->size + a->odd, a->size, 0);
		ops[i].offset = (at / a->unit * MEMBERS + m) * a->unit + at % a->unit;
		ops[i].arg = &ended[m * COUNT_MAX + i];
	}
	if (penstock_submit(io, ops, count, NULL, NULL) != (int)count)
		die("submit");
}

/* When the last read of member @m was over. */
static double member_ended(unsigned m, unsigned count)
{
	qsort(ended + m * COUNT_MAX, count, sizeof(*ended), by_value);
	return ended[m * COUNT_MAX + count - 1];
}

static void slow_member(struct penstock_io *io, struct penstock_file *file, const struct members *a,
			unsigned count)
{
	double start, alone, behind, all;
	struct penstock_err err;
	void *buf;

	if (penstock_buf_alloc(&buf, io, MEMBERS * count * a->size + SMALL, 0, NULL, &err))
		die("%s", err.msg);
	fill(buf, MEMBERS * count * a->size);
	start = wall_now();
	read_member(io, file, a, buf, 1, count);
	penstock_wait_all(io, -1, NULL);
	alone = member_ended(1, count) - start;
	start = wall_now();
	read_member(io, file, a, buf, 0, count);
	usleep(a->wait_ms * 1000);
	behind = wall_now();
	read_member(io, file, a, buf, 1, count);
	penstock_wait_all(io, -1, NULL);
	behind = member_ended(1, count) - behind;
	all = member_ended(0, count) - start;
	printf("{\"alone\": %.4f, \"behind\": %.4f, \"all\": %.4f}\n", alone, behind, all);
}

int main(int argc, char **argv)
{
	static double alone[ROUNDS_MAX], beside[ROUNDS_MAX], first[ROUNDS_MAX], last[ROUNDS_MAX];
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_file_info info = {.size = sizeof(info)};
	struct members members = {0};
	unsigned rounds = 9, count = 64;
	struct penstock_err err = {0, ""};
	const char *path = NULL;
	struct penstock_file *file;
	struct penstock_io *io;
	void *buf;
	int c;

	while ((c = getopt(argc, argv, "f:e:n:c:u:s:ow:d:t:")) != -1) {
		if (c == 'f')
			path = optarg;
		else if (c == 'e')
			o.engine = optarg;
		else if (c == 'n')
			rounds = (unsigned)atoi(optarg);
		else if (c == 'c')
			count = (unsigned)atoi(optarg);
		else if (c == 'u')
			members.unit = strtoull(optarg, NULL, 0);
		else if (c == 's')
			members.size = strtoull(optarg, NULL, 0);
		else if (c == 'o')
			members.odd = true;
		else if (c == 'w')
			members.wait_ms = (unsigned)atoi(optarg);
		else if (c == 'd')
			o.depth = (unsigned)atoi(optarg);
		else if (c == 't')
			o.threads = (unsigned)atoi(optarg);
	}
	if (!path || !rounds || rounds > ROUNDS_MAX || !count || count > COUNT_MAX ||
	    (members.unit && !members.size))
		die("see the top of behind.c");
	if (penstock_open(&io, &o, &err) < 0 ||
	    penstock_file_open(&file, io, path, O_RDONLY, 0, &err) < 0)
		die("%s", err.msg);
	if (members.unit) {
		slow_member(io, file, &members, count);
		penstock_close(io, NULL);
		return 0;
	}
	penstock_file_stat(file, &info);
	info.bytes = info.bytes > 1u << 30 ? 1u << 30 : info.bytes / SMALL * SMALL;
	if (penstock_buf_alloc(&buf, io, info.bytes + (uint64_t)(count + 1) * SMALL, 0, NULL, &err))
		die("%s", err.msg);
	fill(buf, info.bytes);
	for (unsigned i = 0; i < WARM_UP; i++)
		one_round(io, file, buf, info.bytes, 0, NULL, NULL);
	for (unsigned i = 0; i < rounds; i++) {
		alone[i] = one_round(io, file, buf, info.bytes, 0, NULL, NULL);
		beside[i] = one_round(io, file, buf, info.bytes, count, &first[i], &last[i]);
	}
	printf("{\"alone\": %.6f, \"beside\": %.6f, \"ratio\": %.3f, \"first\": %.4f, "
	       "\"last\": %.4f}\n",
	       median(alone, rounds), median(beside, rounds),
	       median(alone, rounds) / median(beside, rounds), median(first, rounds),
	       median(last, rounds));
	penstock_close(io, NULL);
	return 0;
}
