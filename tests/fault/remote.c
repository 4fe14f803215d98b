/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that a handle opens as files, of a store that fails: what is read is of one object, what
 * is written is all there or not at all, and nothing hangs.
 *
 *	remote ENGINE PYTHON SERVER.PY
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/s3kit.h"

static const char *engine;
static struct penstock_s3 *client;
static struct penstock_io *io;

static void open_with(const char *endpoints, uint32_t threads)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};

	s3_set_fault_rules("");
	client = s3_client(endpoints, 10, 60000);
	o.engine = engine;
	o.s3 = client;
	o.threads = threads;
	T_ERR(penstock_open(&io, &o, &err), 0, &err);
}

static void setup(void)
{
	open_with(s3_urls[0], 0);
}

static void teardown(void)
{
	struct penstock_io *last = io;

	io = NULL;
	penstock_close(last, NULL);
	penstock_s3_close(TAKE_PTR(client));
	s3_set_fault_rules("");
}

static struct penstock_file *file_of(const char *uri, int oflags)
{
	struct penstock_err err = {0, ""};
	struct penstock_file *f = NULL;

	T_ERR(penstock_file_open(&f, io, uri, oflags, 0644, &err), 0, &err);
	return f;
}

static struct penstock_done run(const struct penstock_op *op)
{
	struct penstock_err err = {0, ""};
	struct penstock_done done;

	T_ERR(penstock_run(io, op, &done, &err), 0, &err);
	return done;
}

static bool is_there(const char *uri)
{
	struct penstock_s3_info info = {.size = sizeof(info)};

	return penstock_s3_stat(client, uri, &info, NULL) == 0;
}

static void expect(const char *uri, uint64_t seed, uint64_t len)
{
	struct penstock_err err = {0, ""};
	char *buf = malloc(len + 1);

	T_ERR(penstock_s3_read(client, uri, buf, len + 1, 0, NULL, &err), (int64_t)len, &err);
	T_EQ(penstock_pattern_check(buf, len, seed, 0), len);
	free(buf);
}

/* ---------------------------------------------------------------------- reading */

static void any_range_arrives_in_memory_as_it_is(void)
{
	static const struct {
		uint64_t at, len, want;
	} ranges[] = {{0, 1, 1},
		      {12345, 4096, 4096},
		      {S3_PART - 3, 7, 7},
		      {3, 3 * S3_PART, 3 * S3_PART},
		      {3 * S3_PART + 999, 100, 1},
		      {3 * S3_PART + 1000, 10, 0},
		      {1ull << 40, 10, 0}};
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_stats s = {.size = sizeof(s)};
	uint64_t size = 3 * S3_PART + 1000;
	struct penstock_err err = {0, ""};
	struct penstock_file *f;

	s3_put_pattern(client, "s3://bucket/a b/+x", 7, size);
	f = file_of("s3://bucket/a b/+x", O_RDONLY);
	T_EQ(penstock_file_stat(f, &info), 0);
	T_EQ(info.bytes, size);
	T_EQ(info.block, S3_PART);
	for (unsigned i = 0; i < T_COUNT(ranges); i++) {
		struct t_mem m = t_mem_new(ranges[i].len, -1);

		T_ERR(penstock_pread(f, m.buf, m.len, ranges[i].at, &err), (int64_t)ranges[i].want,
		      &err);
		T_EQ(penstock_pattern_check(m.buf, ranges[i].want, 7, ranges[i].at),
		     ranges[i].want);
		T_MEM_CHECK(&m);
		t_mem_free(&m);
	}
	T_EQ(penstock_get_stats(io, &s), 0);
	T_EQ(s.blocks, s.blocks_object);
	T_EQ(s.blocks_bounced + s.blocks_direct + s.blocks_buffered, 0);
	T_EQ(s.fallbacks, 0);
	T_ERR(penstock_file_close(f, &err), 0, &err);
}

static void scattered_memory_and_files_are_in_flight_together(void)
{
	enum { OPS = 24, LEN = 300000 };
	char *buf = malloc(OPS * LEN), *disk = malloc(OPS * LEN);
	struct penstock_op ops[2 * OPS] = {{0}};
	struct penstock_iov iov[OPS][3];
	struct penstock_summary sum;
	struct penstock_err err = {0, ""};

	s3_put_pattern(client, "s3://bucket/mixed", 9, OPS * LEN);
	t_file_make(t_path("disk"), 5, OPS * LEN);
	for (unsigned i = 0; i < OPS; i++) {
		char *at = buf + (size_t)i * LEN;

		iov[i][0] = (struct penstock_iov){at, 10};
		iov[i][1] = (struct penstock_iov){at + 10, 0};
		iov[i][2] = (struct penstock_iov){at + 10, LEN - 10};
		ops[2 * i] = (struct penstock_op){.opcode = PENSTOCK_READ,
						  .flags = PENSTOCK_OP_EXACT,
						  .path = "s3://bucket/mixed",
						  .iov = iov[i],
						  .nr_iov = 3,
						  .offset = (uint64_t)i * LEN};
		ops[2 * i + 1] = (struct penstock_op){.opcode = PENSTOCK_READ,
						      .flags = PENSTOCK_OP_EXACT,
						      .path = t_path("disk"),
						      .buf = disk + (size_t)i * LEN,
						      .len = LEN,
						      .offset = (uint64_t)i * LEN};
	}
	T_ERR(penstock_submit(io, ops, 2 * OPS, NULL, &err), 2 * OPS, &err);
	T_EQ(penstock_wait_all(io, -1, &sum), 0);
	T_EQ(sum.failed, 0);
	T_EQ(sum.bytes, 2ull * OPS * LEN);
	T_EQ(penstock_pattern_check(buf, OPS * LEN, 9, 0), OPS * LEN);
	T_EQ(penstock_pattern_check(disk, OPS * LEN, 5, 0), OPS * LEN);
	free(buf);
	free(disk);
}

static void what_cannot_be_opened_is_told_in_one_line(void)
{
	static const struct {
		const char *uri;
		int flags, code;
		const char *says;
	} bad[] = {{"s3://bucket/none", O_RDONLY, -ENOENT, "s3://bucket/none"},
		   {"s3://bucket", O_RDONLY, -EINVAL, "s3://bucket"},
		   {"s3://bucket/x", O_RDWR, -EINVAL, "read or written"},
		   {"s3://bucket/x", O_WRONLY | O_CREAT, -EINVAL, "O_TRUNC"},
		   {"s3://bucket/none", O_WRONLY | O_TRUNC, -ENOENT, "s3://bucket/none"},
		   {"gs://bucket/x", O_RDONLY, -ENOTSUP, "gs://"}};
	struct penstock_err err = {0, ""};
	struct penstock_file *f;
	struct penstock_io *bare;
	char c = 0;

	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		T_ERR(penstock_file_open(&f, io, bad[i].uri, bad[i].flags, 0, &err), bad[i].code,
		      &err);
		T_STR_HAS(err.msg, bad[i].says);
	}
	T_EQ(penstock_open(&bare, NULL, NULL), 0);
	T_ERR(penstock_file_open(&f, bare, "s3://bucket/x", O_RDONLY, 0, &err), -ENOTSUP, &err);
	T_STR_HAS(err.msg, "s3 of struct penstock_opts");
	T_EQ(penstock_set_s3(bare, client), 0);
	T_EQ(penstock_set_s3(bare, client), -EBUSY);
	T_ERR(penstock_file_open(&f, bare, "s3://bucket/none", O_RDONLY, 0, &err), -ENOENT, &err);
	penstock_close(bare, NULL);
	T_EQ(run(&(struct penstock_op){
			 .opcode = PENSTOCK_READ, .path = "s3://bucket/none", .buf = &c, .len = 1})
		     .res,
	     -ENOENT);
}

static void a_replaced_object_is_stale_and_no_mixture(void)
{
	size_t len = 2 * S3_PART;
	char *buf = malloc(len);
	struct penstock_op op = {.opcode = PENSTOCK_READ, .buf = buf, .len = len};
	struct penstock_file *f;
	struct penstock_done d;

	s3_put_pattern(client, "s3://bucket/r", 1, len);
	f = file_of("s3://bucket/r", O_RDONLY);
	op.file = f;
	T_EQ(run(&op).res, (int64_t)len);
	s3_put_pattern(client, "s3://bucket/r", 2, len);
	d = run(&op);
	T_EQ(d.res, -ESTALE);
	T_STR_HAS(d.msg, "replaced");
	T_EQ(penstock_file_close(f, NULL), 0);
	/* By name: whatever it is, but one.  The next is not held against what the last one saw. */
	op.file = NULL;
	op.path = "s3://bucket/r";
	s3_set_fault_rules("method=GET skip=1 times=1 etag");
	T_EQ(run(&op).res, -ESTALE);
	s3_set_fault_rules("");
	T_EQ(run(&op).res, (int64_t)len);
	T_EQ(penstock_pattern_check(buf, len, 2, 0), len);
	free(buf);
}

static void reads_end_right_through_503s_and_broken_connections(void)
{
	enum { OPS = 40, LEN = 400000 };
	struct penstock_s3_stats s = {.size = sizeof(s)};
	struct penstock_op ops[OPS] = {{0}};
	char *buf = malloc(OPS * LEN);
	struct penstock_summary sum;
	struct penstock_err err = {0, ""};
	struct penstock_file *f;

	s3_put_pattern(client, "s3://bucket/f", 3, OPS * LEN);
	f = file_of("s3://bucket/f", O_RDONLY);
	s3_set_fault_rules("p=0.05 status:503\np=0.05 reset\nmethod=GET p=0.08 reset:5000\n"
			   "method=GET p=0.05 short:100000\np=0.03 drop");
	for (unsigned i = 0; i < OPS; i++)
		ops[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
					      .flags = PENSTOCK_OP_EXACT,
					      .file = f,
					      .buf = buf + (size_t)i * LEN,
					      .len = LEN,
					      .offset = (uint64_t)i * LEN};
	T_ERR(penstock_submit(io, ops, OPS, NULL, &err), OPS, &err);
	T_EQ(penstock_wait_all(io, -1, &sum), 0);
	if (sum.failed)
		T_FAIL("%s", sum.msg);
	T_EQ(penstock_pattern_check(buf, OPS * LEN, 3, 0), OPS * LEN);
	penstock_s3_get_stats(client, &s);
	T_OK(s.retries > 0);
	s3_set_fault_rules("");
	T_EQ(penstock_file_close(f, NULL), 0);
	free(buf);
}

static void an_endpoint_that_dies_costs_no_read(void)
{
	enum { OPS = 64, LEN = 200000 };
	struct penstock_op ops[OPS] = {{0}};
	char *buf = malloc(OPS * LEN);
	struct penstock_summary sum;
	struct penstock_file *f;

	teardown();
	open_with(s3_all_urls, 0);
	s3_put_pattern(client, "s3://bucket/e", 4, OPS * LEN);
	f = file_of("s3://bucket/e", O_RDONLY);
	for (unsigned i = 0; i < OPS; i++)
		ops[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
					      .flags = PENSTOCK_OP_EXACT,
					      .file = f,
					      .buf = buf + (size_t)i * LEN,
					      .len = LEN,
					      .offset = (uint64_t)i * LEN};
	T_EQ(penstock_submit(io, ops, OPS / 2, NULL, NULL), OPS / 2);
	s3_set_port(0, false);
	T_EQ(penstock_submit(io, ops + OPS / 2, OPS / 2, NULL, NULL), OPS / 2);
	T_EQ(penstock_wait_all(io, -1, &sum), 0);
	s3_set_port(0, true);
	if (sum.failed)
		T_FAIL("%s", sum.msg);
	T_EQ(penstock_pattern_check(buf, OPS * LEN, 4, 0), OPS * LEN);
	free(buf);
}

/* ---------------------------------------------------------------------- writing */

static void an_object_is_there_when_it_is_closed_and_not_before(void)
{
	enum { LEN = 700000 };
	uint64_t total = 2 * S3_PART + 12345, at;
	struct penstock_op op = {.opcode = PENSTOCK_WRITE};
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	struct penstock_summary sum;
	char *buf = malloc(total);
	struct penstock_file *f = file_of("s3://bucket/w", O_WRONLY | O_CREAT | O_TRUNC);

	penstock_pattern_fill(buf, total, 11, 0);
	op.file = f;
	for (at = 0; at < total; at += op.len) {
		op.buf = buf + at;
		op.offset = at;
		op.len = min_u64(LEN, total - at);
		T_ERR(penstock_submit(io, &op, 1, NULL, &err), 1, &err);
	}
	T_EQ(penstock_wait_all(io, -1, &sum), 0);
	T_EQ(sum.failed, 0);
	T_EQ(sum.bytes, total);
	T_EQ(penstock_file_stat(f, &info), 0);
	T_EQ(info.bytes, total);
	T_OK(!is_there("s3://bucket/w"));
	T_ERR(penstock_file_close(f, &err), 0, &err);
	expect("s3://bucket/w", 11, total);
	T_EQ(s3_nr_uploads(client), 0);
	/* Only where there is none. */
	f = file_of("s3://bucket/w", O_WRONLY | O_CREAT | O_EXCL);
	T_ERR(penstock_pwrite(f, buf, 10, 0, &err), 10, &err);
	T_ERR(penstock_file_close(f, &err), -EEXIST, &err);
	expect("s3://bucket/w", 11, total);
	/* An empty one, and a small one in one request. */
	f = file_of("s3://bucket/empty", O_WRONLY | O_CREAT | O_TRUNC);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	expect("s3://bucket/empty", 1, 0);
	free(buf);
}

static void by_name_a_write_is_the_object(void)
{
	static const uint64_t lens[] = {0, 1, 5000, 2 * S3_PART + 7};
	char *buf = malloc(lens[3]);
	struct penstock_op op = {.opcode = PENSTOCK_WRITE,
				 .path = "s3://bucket/whole",
				 .flags = PENSTOCK_OP_TRUNCATE,
				 .buf = buf};
	struct penstock_err err = {0, ""};
	uint64_t ticket;

	penstock_pattern_fill(buf, lens[3], 12, 0);
	for (unsigned i = 0; i < T_COUNT(lens); i++) {
		op.len = lens[i];
		T_EQ(run(&op).res, (int64_t)lens[i]);
		expect("s3://bucket/whole", 12, lens[i]);
	}
	op.flags = 0;
	T_ERR(penstock_submit(io, &op, 1, &ticket, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "as a whole");
	op.flags = PENSTOCK_OP_TRUNCATE;
	op.offset = 1;
	T_ERR(penstock_submit(io, &op, 1, &ticket, &err), -EINVAL, &err);
	/* One that fails leaves what was there, and no parts. */
	s3_set_fault_rules("method=PUT query=partNumber status:403");
	op.offset = 0;
	op.len = lens[3];
	buf[0] ^= 1;
	T_EQ(run(&op).res, -EACCES);
	s3_set_fault_rules("");
	T_EQ(s3_nr_uploads(client), 0);
	buf[0] ^= 1;
	expect("s3://bucket/whole", 12, lens[3]);
	free(buf);
}

static void what_is_not_closed_well_leaves_nothing(void)
{
	uint64_t len = 2 * S3_PART + 5;
	char *buf = calloc(1, len);
	struct penstock_err err = {0, ""};
	struct penstock_file *f;

	f = file_of("s3://bucket/gone", O_WRONLY | O_CREAT | O_TRUNC);
	T_ERR(penstock_pwrite(f, buf, len, 0, &err), (int64_t)len, &err);
	T_ERR(penstock_file_abort(f, &err), 0, &err);
	/* The handle is closed, the file was not. */
	f = file_of("s3://bucket/gone", O_WRONLY | O_CREAT | O_TRUNC);
	T_ERR(penstock_pwrite(f, buf, len, 0, &err), (int64_t)len, &err);
	T_ERR(penstock_close(TAKE_PTR(io), &err), 0, &err);
	penstock_s3_close(TAKE_PTR(client));
	setup();
	/* A part that the store refuses: told by the close. */
	f = file_of("s3://bucket/gone", O_WRONLY | O_CREAT | O_TRUNC);
	s3_set_fault_rules("method=PUT query=partNumber status:403");
	penstock_pwrite(f, buf, len, 0, &err);
	T_ERR(penstock_file_close(f, &err), -EACCES, &err);
	T_STR_HAS(err.msg, "s3://bucket/gone");
	s3_set_fault_rules("");
	T_OK(!is_there("s3://bucket/gone"));
	T_EQ(s3_nr_uploads(client), 0);
	free(buf);
}

static void gaps_and_what_comes_twice_are_refused(void)
{
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	char buf[100] = "";
	struct penstock_file *f = file_of("s3://bucket/gap", O_WRONLY | O_CREAT | O_TRUNC);

	T_ERR(penstock_pwrite(f, buf, 100, 50, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "from its beginning");
	T_ERR(penstock_pwrite(f, buf, 100, 0, &err), 100, &err);
	T_ERR(penstock_pwrite(f, buf, 100, 0, &err), -EINVAL, &err);
	T_ERR(penstock_pread(f, buf, 1, 0, &err), -EBADF, &err);
	T_ERR(penstock_run(io, &(struct penstock_op){.opcode = PENSTOCK_SYNC, .file = f}, &d, &err),
	      -ENOTSUP, &err);
	T_ERR(penstock_pwrite(f, buf, 100, 100, &err), 100, &err);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	T_OK(is_there("s3://bucket/gap"));
}

/* ----------------------------------------------------------------------- the end */

static void cancelled_transfers_end_and_spoil_the_object_they_were_for(void)
{
	enum { OPS = 200 };
	uint64_t tickets[OPS], len = 4 * S3_PART;
	char *buf = calloc(1, len);
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	struct penstock_file *f;
	struct penstock_op op = {.opcode = PENSTOCK_READ, .buf = buf, .len = 1000};
	unsigned cancelled = 0;

	s3_put_pattern(client, "s3://bucket/c", 6, 1000);
	f = op.file = file_of("s3://bucket/c", O_RDONLY);
	s3_set_fault_rules("method=GET stall:0.05");
	for (unsigned i = 0; i < OPS; i++)
		T_EQ(penstock_submit(io, &op, 1, &tickets[i], NULL), 1);
	for (unsigned i = OPS; i-- > 0;)
		penstock_cancel(io, tickets[i]);
	for (unsigned i = 0; i < OPS; i++) {
		T_EQ(penstock_wait(io, tickets[i], -1, &d), 0);
		T_OK(d.res == 1000 || d.res == -ECANCELED);
		cancelled += d.res == -ECANCELED;
	}
	T_OK(cancelled > 0);
	s3_set_fault_rules("");
	T_EQ(penstock_file_close(f, NULL), 0);
	/* The later half of a write is given up: neither it nor what follows becomes an object. */
	f = op.file = file_of("s3://bucket/half", O_WRONLY | O_CREAT | O_TRUNC);
	op.opcode = PENSTOCK_WRITE;
	op.len = len;
	T_EQ(penstock_submit(io, &op, 1, &tickets[0], NULL), 1);
	op.offset = len;
	T_EQ(penstock_submit(io, &op, 1, &tickets[1], NULL), 1);
	penstock_cancel(io, tickets[0]);
	T_EQ(penstock_wait(io, tickets[0], -1, &d), 0);
	cancelled = d.res == -ECANCELED; /* it may have been too late for that */
	T_EQ(penstock_wait(io, tickets[1], -1, &d), 0);
	T_EQ(d.res, cancelled ? -ECANCELED : (int64_t)len);
	T_ERR(penstock_file_close(f, &err), cancelled ? -ECANCELED : 0, &err);
	T_OK(is_there("s3://bucket/half") == !cancelled);
	free(buf);
}

static void a_child_leaves_the_parents_objects_alone(void)
{
	struct penstock_err err = {0, ""};
	char buf[1000], back[1000];
	struct penstock_file *in, *out;
	int status;
	pid_t pid;

	s3_put_pattern(client, "s3://bucket/p", 8, sizeof(buf));
	in = file_of("s3://bucket/p", O_RDONLY);
	out = file_of("s3://bucket/q", O_WRONLY | O_CREAT | O_TRUNC);
	penstock_pattern_fill(buf, sizeof(buf), 13, 0);
	T_ERR(penstock_pwrite(out, buf, sizeof(buf), 0, &err), sizeof(buf), &err);
	pid = fork();
	if (!pid)
		_exit(penstock_pread(in, back, 1, 0, NULL) == -ECHILD &&
				      penstock_file_close(out, NULL) == -ECHILD &&
				      penstock_close(io, NULL) == 0
			      ? 0
			      : 1);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
	T_ERR(penstock_pread(in, back, sizeof(back), 0, &err), sizeof(back), &err);
	T_ERR(penstock_file_close(out, &err), 0, &err);
	expect("s3://bucket/q", 13, sizeof(buf));
}

struct chain {
	struct penstock_op op;
	unsigned left;
	int64_t worst;
};

static void next_of_chain(void *arg, const struct penstock_done *done)
{
	struct chain *c = arg;

	if (done->res < 0)
		c->worst = done->res;
	c->op.offset += c->op.len;
	if (--c->left && penstock_submit(io, &c->op, 1, NULL, NULL) != 1)
		c->worst = -EIO;
}

static void callbacks_read_by_name_without_waiting(void)
{
	struct penstock_stats s = {.size = sizeof(s)};
	struct chain c = {.left = 20};
	char buf[1000];

	teardown();
	open_with(s3_urls[0], 3);
	s3_put_pattern(client, "s3://bucket/chain", 2, 20 * sizeof(buf));
	c.op = (struct penstock_op){.opcode = PENSTOCK_READ,
				    .flags = PENSTOCK_OP_EXACT,
				    .path = "s3://bucket/chain",
				    .buf = buf,
				    .len = sizeof(buf),
				    .on_done = next_of_chain,
				    .arg = &c};
	T_EQ(penstock_submit(io, &c.op, 1, NULL, NULL), 1);
	T_EQ(penstock_wait_all(io, -1, NULL), 0);
	T_EQ(c.worst, 0);
	T_EQ(c.left, 0);
	T_EQ(penstock_pattern_check(buf, sizeof(buf), 2, 19 * sizeof(buf)), sizeof(buf));
	T_EQ(penstock_get_stats(io, &s), 0);
	T_EQ(s.bytes_read, 20 * sizeof(buf));
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(any_range_arrives_in_memory_as_it_is),
		T_CASE(scattered_memory_and_files_are_in_flight_together),
		T_CASE(what_cannot_be_opened_is_told_in_one_line),
		T_CASE(a_replaced_object_is_stale_and_no_mixture),
		T_CASE(reads_end_right_through_503s_and_broken_connections),
		T_CASE(an_endpoint_that_dies_costs_no_read),
		T_CASE(an_object_is_there_when_it_is_closed_and_not_before),
		T_CASE(by_name_a_write_is_the_object),
		T_CASE(what_is_not_closed_well_leaves_nothing),
		T_CASE(gaps_and_what_comes_twice_are_refused),
		T_CASE(cancelled_transfers_end_and_spoil_the_object_they_were_for),
		T_CASE(a_child_leaves_the_parents_objects_alone),
		T_CASE(callbacks_read_by_name_without_waiting),
	};
	static const struct t_group groups[] = {
		{"objects as files", setup, teardown, cases, T_COUNT(cases)},
	};
	struct penstock_err err;
	int r;

	if (argc < 4)
		return 2;
	engine = argv[1];
	if (penstock_engine_probe(engine, &err) < 0)
		t_skip_all(t_engine_need(engine), "%s", err.msg);
	s3_start(argv[2], argv[3]);
	r = t_run(groups, T_COUNT(groups), argv + 4);
	s3_stop();
	return r;
}
