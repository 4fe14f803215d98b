/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the header promises from 1.0 on: a program built against another version of it.
 * The layout of the first one is written down here and never changed; only a library
 * that still understands it passes.
 */
#include <penstock/ckpt.h>

#include "tests/common/t.h"

struct op_1 {
	uint32_t opcode, flags;
	void *file;
	const char *path;
	int32_t fd;
	uint32_t nr_iov;
	const void *iov;
	void *buf;
	uint64_t len, offset, tag;
	void (*on_done)(void *arg, const struct penstock_done *done);
	void *arg, *stream;
	uint64_t memory_handle;
	uint32_t memory, reserved[5];
};

struct done_1 {
	uint64_t ticket, tag;
	int64_t res;
	uint64_t bytes;
	uint32_t flags, reserved;
	char msg[508];
};

/* Cut after the first few fields: what the oldest program knows. */
struct opts_1 {
	uint32_t size, depth;
	uint64_t block;
	const char *engine;
	uint32_t threads, flags, direct, durability, huge, mode;
	void (*trace)(void *arg, const struct penstock_event *event);
	void *trace_arg;
};

#define SAME(type, old, field)                                                        \
	_Static_assert(offsetof(struct type, field) == offsetof(struct old, field) && \
			       sizeof(((struct type *)0)->field) ==                   \
				       sizeof(((struct old *)0)->field),              \
		       #type "." #field " has moved")

_Static_assert(sizeof(struct penstock_op) == 128 && sizeof(struct op_1) == 128, "penstock_op");
SAME(penstock_op, op_1, opcode);
SAME(penstock_op, op_1, flags);
SAME(penstock_op, op_1, file);
SAME(penstock_op, op_1, path);
SAME(penstock_op, op_1, fd);
SAME(penstock_op, op_1, nr_iov);
SAME(penstock_op, op_1, iov);
SAME(penstock_op, op_1, buf);
SAME(penstock_op, op_1, len);
SAME(penstock_op, op_1, offset);
SAME(penstock_op, op_1, tag);
SAME(penstock_op, op_1, on_done);
SAME(penstock_op, op_1, arg);
SAME(penstock_op, op_1, stream);
SAME(penstock_op, op_1, memory_handle);
SAME(penstock_op, op_1, memory);
_Static_assert(sizeof(struct penstock_done) == sizeof(struct done_1), "penstock_done");
SAME(penstock_done, done_1, tag);
SAME(penstock_done, done_1, res);
SAME(penstock_done, done_1, bytes);
SAME(penstock_done, done_1, flags);
SAME(penstock_done, done_1, msg);
SAME(penstock_opts, opts_1, depth);
SAME(penstock_opts, opts_1, block);
SAME(penstock_opts, opts_1, engine);
SAME(penstock_opts, opts_1, threads);
SAME(penstock_opts, opts_1, flags);
SAME(penstock_opts, opts_1, direct);
SAME(penstock_opts, opts_1, durability);
SAME(penstock_opts, opts_1, huge);
SAME(penstock_opts, opts_1, mode);
SAME(penstock_opts, opts_1, trace);
SAME(penstock_opts, opts_1, trace_arg);
_Static_assert(sizeof(struct penstock_iov) == 16, "penstock_iov");
_Static_assert(sizeof(struct penstock_err) == 512, "penstock_err");
_Static_assert(sizeof(struct penstock_event) == 40, "penstock_event");
_Static_assert(sizeof(struct penstock_summary) == 544, "penstock_summary");
_Static_assert(sizeof(struct penstock_buf_info) == 252, "penstock_buf_info");
_Static_assert(sizeof(struct penstock_bounds) == 32, "penstock_bounds");
/* ckpt.h: those with @size may grow, the others may not. */
_Static_assert(sizeof(struct penstock_writer_opts) >= 32, "penstock_writer_opts");
_Static_assert(offsetof(struct penstock_writer_opts, expected) == 24, "penstock_writer_opts");
_Static_assert(sizeof(struct penstock_reader_opts) >= 24, "penstock_reader_opts");
_Static_assert(offsetof(struct penstock_reader_opts, buffer_bytes) == 16, "penstock_reader_opts");
_Static_assert(offsetof(struct penstock_reader_info, read_bytes) == 32, "penstock_reader_info");
_Static_assert(sizeof(struct penstock_piece) == 24, "penstock_piece");
_Static_assert(sizeof(struct penstock_tensor) == 48, "penstock_tensor");
_Static_assert(sizeof(struct penstock_tensor_read) == 32, "penstock_tensor_read");
_Static_assert(sizeof(struct penstock_meta) == 16, "penstock_meta");
_Static_assert(PENSTOCK_BOOL == 0 && PENSTOCK_F32 == 17 && PENSTOCK_U64 == 21, "penstock_dtype");

static struct penstock_io *io;
static char text[100], back[100];

static void setup(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	o.engine = "threads";
	T_EQ(penstock_open(&io, &o, NULL), 0);
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
}

static void teardown(void)
{
	T_EQ(penstock_close(io, NULL), 0);
}

static int submit_old(const struct op_1 *op, unsigned n, uint64_t *tickets,
		      struct penstock_err *err)
{
	return penstock_submit(io, (const struct penstock_op *)(const void *)op, n, tickets, err);
}

static void an_old_program_runs_with_this_library(void)
{
	struct op_1 ops[2] = {
		{.opcode = PENSTOCK_WRITE, .path = t_path("a"), .buf = text, .len = 100, .tag = 1},
		{.opcode = PENSTOCK_WRITE, .path = t_path("b"), .buf = text, .len = 50, .tag = 2},
	};
	struct op_1 read = {.opcode = PENSTOCK_READ, .path = t_path("a"), .buf = back, .len = 100};
	struct penstock_done done;
	uint64_t tickets[2];
	struct penstock_err err = {0, ""};

	T_ERR(submit_old(ops, 2, tickets, &err), 2, &err);
	for (unsigned i = 0; i < 2; i++) {
		T_EQ(penstock_wait(io, tickets[i], -1, &done), 0);
		T_EQ(((struct done_1 *)(void *)&done)->res, i ? 50 : 100);
		T_EQ(((struct done_1 *)(void *)&done)->tag, i + 1);
	}
	T_ERR(penstock_run(io, (const struct penstock_op *)(const void *)&read, &done, &err), 0,
	      &err);
	T_MEM(back, text, 100);
}

static void a_new_program_that_uses_nothing_new_runs_with_this_library(void)
{
	struct op_1 op = {.opcode = PENSTOCK_WRITE, .path = t_path("a"), .buf = text, .len = 1};
	struct penstock_done done;
	uint64_t ticket;

	T_EQ(submit_old(&op, 1, &ticket, NULL), 1);
	T_EQ(penstock_wait(io, ticket, -1, &done), 0);
	T_EQ(done.res, 1);
}

static void refused(const struct op_1 *op, int code, const char *field)
{
	struct penstock_err err = {0, ""};
	struct penstock_done done;

	T_ERR(submit_old(op, 1, NULL, &err), code, &err);
	T_STR_HAS(err.msg, field);
	T_STR_HAS(err.msg, PENSTOCK_VERSION_STRING);
	T_ERR(penstock_run(io, (const struct penstock_op *)(const void *)op, &done, &err), code,
	      &err);
	T_OK(access(op->path, F_OK) < 0);
}

static void a_field_of_a_newer_header_is_refused_before_anything_is_done(void)
{
	for (unsigned i = 0; i < 5; i++) {
		struct op_1 op = {
			.opcode = PENSTOCK_WRITE, .path = t_path("new"), .buf = text, .len = 1};

		op.reserved[i] = i + 1;
		refused(&op, -E2BIG, "reserved: ");
	}
}

static void a_newer_kind_of_memory_is_refused(void)
{
	struct op_1 op = {.opcode = PENSTOCK_WRITE, .path = t_path("new"), .buf = text, .len = 1};
	struct penstock_err err = {0, ""};

	op.memory = PENSTOCK_MEMORY_HOST + 1;
	refused(&op, -EINVAL, "memory: 2 ");
	op.memory = PENSTOCK_MEMORY_HOST;
	op.memory_handle = 7;
	T_ERR(submit_old(&op, 1, NULL, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "memory_handle: is 7 ");
}

static void memory_called_the_hosts_is_moved(void)
{
	struct penstock_op op = {.opcode = PENSTOCK_WRITE,
				 .path = t_path("a"),
				 .buf = text,
				 .len = 100,
				 .memory = PENSTOCK_MEMORY_HOST};
	struct penstock_done done;

	T_EQ(penstock_run(io, &op, &done, NULL), 0);
	T_EQ(done.res, 100);
	T_FILE(op.path, text, 100);
}

/* Writes of the library beyond what the caller has room for would hit the canary. */
static void statistics_of_an_old_program_are_cut_and_of_a_new_one_zero(void)
{
	struct {
		struct penstock_stats s;
		uint64_t newer;
	} st;

	memset(&st, 0xee, sizeof(st));
	st.s.size = offsetof(struct penstock_stats, ops);
	T_EQ(penstock_get_stats(io, &st.s), 0);
	T_OK(!strcmp(st.s.engine, "threads"));
	T_OK(st.s.ops == 0xeeeeeeeeeeeeeeee);
	st.s.size = sizeof(st);
	T_EQ(penstock_get_stats(io, &st.s), 0);
	T_EQ(st.newer, 0xeeeeeeeeeeeeeeee);
	T_EQ(st.s.size, sizeof(st));
	T_EQ(st.s.inline_bytes, MIB(1));
	T_EQ(st.s.flight_bytes, MIB(32));
}

/* ------------------------------------------------------------------ bounds */

static const char *const numbers[] = {"depth",  "block",      "threads", "flags",
				      "direct", "durability", "huge",    "mode"};

static uint32_t *number(struct penstock_opts *o, unsigned i)
{
	uint32_t *at[] = {&o->depth,  NULL,           &o->threads, &o->flags,
			  &o->direct, &o->durability, &o->huge,    &o->mode};

	return at[i];
}

static int opens_with(unsigned i, uint64_t v)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_io *other;
	struct penstock_err err = {0, ""};
	int r;

	o.engine = "null";
	if (number(&o, i))
		*number(&o, i) = (uint32_t)v;
	else
		o.block = v;
	r = penstock_open(&other, &o, &err);
	if (r == 0)
		penstock_close(other, NULL);
	else
		T_STR_HAS(err.msg, numbers[i]);
	return r;
}

static void the_bounds_of_every_number_are_those_that_are_checked(void)
{
	struct penstock_bounds b;

	for (unsigned i = 0; i < T_COUNT(numbers); i++) {
		T_EQ(penstock_get_bounds(numbers[i], &b), 0);
		T_OK(b.min <= b.max && b.step && !(b.min % b.step) && !(b.max % b.step));
		T_OK(!b.preset || (b.preset >= b.min && b.preset <= b.max));
		T_EQ(opens_with(i, b.min), 0);
		T_EQ(opens_with(i, b.max), 0);
		T_EQ(opens_with(i, b.max + b.step), -EINVAL);
		if (b.min > 1)
			T_EQ(opens_with(i, b.min - 1), -EINVAL);
		if (b.step > 1)
			T_EQ(opens_with(i, b.min + 1), -EINVAL);
	}
	T_EQ(penstock_get_bounds("depht", &b), -ENOENT);
	T_EQ(penstock_get_bounds("engine", &b), -ENOENT);
	T_EQ(penstock_get_bounds(NULL, &b), -EINVAL);
}

static const struct t_case cases[] = {
	T_CASE(an_old_program_runs_with_this_library),
	T_CASE(a_new_program_that_uses_nothing_new_runs_with_this_library),
	T_CASE(a_field_of_a_newer_header_is_refused_before_anything_is_done),
	T_CASE(a_newer_kind_of_memory_is_refused),
	T_CASE(memory_called_the_hosts_is_moved),
	T_CASE(statistics_of_an_old_program_are_cut_and_of_a_new_one_zero),
	T_CASE(the_bounds_of_every_number_are_those_that_are_checked),
};

int main(void)
{
	const struct t_group group = {"abi", setup, teardown, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
