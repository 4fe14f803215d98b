/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects into and out of device memory, through the pinned pool like files.
 *
 *	objects ENGINE PYTHON SERVER.PY
 */
#include "tests/common/s3kit.h"
#include "tests/gpu/fixture.h"

static struct penstock_s3 *client;

static void setup(void)
{
	struct penstock_opts o;

	fixture_setup();
	s3_set_fault_rules("");
	client = s3_client(s3_urls[0], 10, 60000);
	o = fixture_opts();
	o.block = 0;
	o.s3 = client;
	fixture_open(&o);
}

static void teardown(void)
{
	fixture_teardown();
	penstock_s3_close(client);
	client = NULL;
}

static void ranges_arrive_in_device_memory(void)
{
	size_t len = 3 * S3_PART + 777;
	CUdeviceptr dev = fixture_alloc(0, len);
	struct penstock_stats s = {.size = sizeof(s)};
	struct penstock_op op = fixture_op(PENSTOCK_READ, dev, len, 0);
	struct penstock_done d;

	s3_put_pattern(client, "s3://bucket/dev", 3, len);
	op.file = NULL;
	op.path = "s3://bucket/dev";
	s3_set_fault_rules("method=GET times=3 short:100000");
	d = FIXTURE_DO(&op, len, 0);
	T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
	T_EQ(penstock_pattern_check(fixture_see(dev, len), len, 3, 0), len);
	op.offset = 12345;
	op.len = 5000;
	FIXTURE_DO(&op, 5000, 1);
	T_EQ(penstock_pattern_check(fixture_see(dev, len), 5000, 3, 12345), 5000);
	penstock_get_stats(fixture_io, &s);
	T_OK(s.blocks_object && s.blocks_object == s.blocks_pinned_pool);
}

static void device_memory_becomes_an_object(void)
{
	size_t len = 40u << 20; /* more blocks than the pinned pool has pieces for at a time */
	CUdeviceptr dev = fixture_alloc(1, len);
	struct penstock_op op = fixture_op(PENSTOCK_WRITE, dev, len, 0);
	struct penstock_err err = {0, ""};
	char *back = malloc(len);

	penstock_pattern_fill(fixture_see(dev, len), len, 4, 0);
	op.file = NULL;
	op.path = "s3://bucket/out";
	op.flags = PENSTOCK_OP_TRUNCATE;
	FIXTURE_DO(&op, len, 0);
	T_ERR(penstock_s3_read(client, "s3://bucket/out", back, len, 0, NULL, &err), (int64_t)len,
	      &err);
	T_EQ(penstock_pattern_check(back, len, 4, 0), len);
	free(back);
}

static void a_list_of_both_memories_is_one_range(void)
{
	enum { A = 3000000, B = 4000000, C = 5000000 };
	CUdeviceptr dev = fixture_alloc(0, B);
	char *a = malloc(A), *c = malloc(C);
	struct penstock_iov iov[] = {{a, A}, {(void *)(uintptr_t)dev, B}, {c, C}};
	struct penstock_op op = {.opcode = PENSTOCK_READ,
				 .flags = PENSTOCK_OP_EXACT,
				 .path = "s3://bucket/both",
				 .iov = iov,
				 .nr_iov = 3};

	s3_put_pattern(client, "s3://bucket/both", 5, A + B + C);
	FIXTURE_DO(&op, A + B + C, 0);
	T_EQ(penstock_pattern_check(a, A, 5, 0), A);
	T_EQ(penstock_pattern_check(fixture_see(dev, B), B, 5, A), B);
	T_EQ(penstock_pattern_check(c, C, 5, A + B), C);
	op.opcode = PENSTOCK_WRITE;
	op.flags = PENSTOCK_OP_TRUNCATE;
	op.path = "s3://bucket/back";
	FIXTURE_DO(&op, A + B + C, 0);
	free(a);
	free(c);
	a = malloc(A + B + C);
	T_EQ(penstock_s3_read(client, "s3://bucket/back", a, A + B + C, 0, NULL, NULL), A + B + C);
	T_EQ(penstock_pattern_check(a, A + B + C, 5, 0), A + B + C);
	free(a);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(ranges_arrive_in_device_memory),
		T_CASE(device_memory_becomes_an_object),
		T_CASE(a_list_of_both_memories_is_one_range),
	};
	static const struct t_group groups[] = {
		{"objects", setup, teardown, cases, T_COUNT(cases)},
	};
	struct penstock_err err;
	int r;

	if (argc < 4)
		return 2;
	fixture_engine = argv[1];
	if (penstock_engine_probe(fixture_engine, &err) < 0)
		t_skip_all(t_engine_need(fixture_engine), "%s", err.msg);
	if (cuInit(0))
		return 2;
	s3_start(argv[2], argv[3]);
	r = t_run(groups, T_COUNT(groups), argv + 4);
	s3_stop();
	return r;
}
