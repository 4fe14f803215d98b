/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, limits: options, engine names, statistics. */
#include "conformance.h"

enum { SEED = 41 };

static void bad_value(struct penstock_opts *o, const char *field)
{
	struct penstock_err err = {0, ""};
	struct penstock_io *none = NULL;

	T_ERR(penstock_open(&none, o, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, field);
	T_OK(!none);
	T_EQ(penstock_open(&none, o, NULL), -EINVAL);
	*o = cf_opts();
}

static void options_out_of_range_are_refused_by_name(void)
{
	static const uint64_t blocks[] = {1, 511, 513, 1000, 2 * GIB(1), GIB(1) + 512, UINT64_MAX};
	struct penstock_opts o = cf_opts();

	o.depth = 4097;
	bad_value(&o, "depth");
	o.depth = UINT32_MAX;
	bad_value(&o, "depth");
	for (unsigned i = 0; i < T_COUNT(blocks); i++) {
		o.block = blocks[i];
		bad_value(&o, "block");
	}
	o.threads = 257;
	bad_value(&o, "threads");
	o.flags = 0x10;
	bad_value(&o, "flags");
	o.direct = 3;
	bad_value(&o, "direct");
	o.durability = 3;
	bad_value(&o, "durability");
	o.huge = 3;
	bad_value(&o, "huge");
	o.mode = 0200000;
	bad_value(&o, "mode");
}

static void an_unknown_option_is_refused_unless_zero(void)
{
	struct {
		struct penstock_opts o;
		uint64_t newer;
	} future = {cf_opts(), 1};
	struct penstock_err err = {0, ""};
	struct penstock_io *none = NULL;

	future.o.size = sizeof(future);
	T_ERR(penstock_open(&none, &future.o, &err), -E2BIG, &err);
	T_OK(!none);
	future.newer = 0;
	T_ERR(penstock_open(&cf_io, &future.o, &err), 0, &err);
}

static void a_shorter_older_struct_is_understood(void)
{
	struct penstock_opts o = cf_opts();
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_err err = {0, ""};

	o.size = offsetof(struct penstock_opts, threads);
	o.threads = 9999; /* out of range, but beyond what the caller says it knows */
	o.flags = 0xffffffff;
	o.depth = 5;
	T_ERR(penstock_open(&cf_io, &o, &err), 0, &err);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_EQ(st.depth, 5);
	T_EQ(st.threads, 1);
	cf_close(0);
	o.size = 0;
	T_OK(penstock_open(&cf_io, &o, &err) < 0);
	T_OK(!cf_io);
}

static void no_options_at_all_are_the_defaults(void)
{
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_opts zero = PENSTOCK_OPTS_INIT;
	unsigned char byte = 1, back = 0;
	struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, &byte, 1, 0);

	for (unsigned i = 0; i < 2; i++) {
		T_EQ(penstock_open(&cf_io, i ? &zero : NULL, NULL), 0);
		T_EQ(penstock_get_stats(cf_io, &st), 0);
		T_EQ(st.depth, 128);
		T_EQ(st.threads, 1);
		T_OK(st.engine[0]);
		CF_DO(&op, 1, i);
		op = cf_path_op(PENSTOCK_READ, cf_path, &back, 1, 0);
		CF_DO(&op, 1, i);
		T_EQ(back, 1);
		cf_close(0);
	}
}

static void extremes_of_the_options_work(void)
{
	static unsigned char buf[100000];
	static const struct {
		uint32_t depth, threads;
		uint64_t block;
	} rows[] = {{1, 1, 512}, {1, 16, 512}, {64, 16, 512}, {2, 2, GIB(1)}, {1024, 2, 4096}};

	for (unsigned i = 0; i < T_COUNT(rows); i++) {
		struct penstock_opts o = cf_opts();
		struct penstock_op op =
			cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf) - 1, 0);

		o.depth = rows[i].depth;
		o.threads = rows[i].threads;
		o.block = rows[i].block;
		cf_open(&o);
		unlink(cf_path);
		penstock_pattern_fill(buf, sizeof(buf), i, 0);
		CF_DO(&op, op.len, 1);
		if (!cf_null)
			T_FILE_PATTERN(cf_path, i, op.len);
		memset(buf, 0, sizeof(buf));
		op.opcode = PENSTOCK_READ;
		CF_DO(&op, op.len, 1);
		if (!cf_null)
			T_EQ(penstock_pattern_check(buf, op.len, i, 0), op.len);
		cf_close(0);
	}
}

/* The machine has 65536 libaio events for all; others may manage.  Nothing is left behind. */
static void more_than_the_machine_has_is_an_error_or_works(void)
{
	struct penstock_opts o = cf_opts();
	struct penstock_err err = {0, ""};
	unsigned char byte = 1;
	int before = t_nr_fds(), r;

	if (T_TSAN)
		T_SKIP("memory", "256 threads under the thread sanitizer");
	o.depth = 4096;
	o.threads = 256;
	r = penstock_open(&cf_io, &o, &err);
	if (r < 0) {
		T_OK(!cf_io);
		T_OK(r == -EAGAIN || r == -ENOMEM);
		T_EQ(err.code, r);
		T_OK(err.msg[0]);
		t_note("%s", err.msg);
	} else {
		struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, &byte, 1, 0);

		CF_DO(&op, 1, 1);
		cf_close(0);
	}
	T_EQ(t_nr_fds(), before);
	if (!strncmp(cf_engine, "libaio", 6))
		T_EQ(r, -EAGAIN);
	cf_open(NULL); /* what was taken has been given back */
}

/* ----------------------------------------------------------------- engines */

static void engines_have_names_words_and_probes(void)
{
	static const char *const known[] = {"io_uring", "libaio", "threads",
					    "cufile",   "null",   "fault"};
	struct penstock_err err = {0, ""};
	unsigned found = 0, n = 0;

	for (const char *name; (name = penstock_engine_name(n)); n++) {
		const char *descr = penstock_engine_descr(name);
		int r;

		T_OK(descr && descr[0] && !strchr(descr, '\n'));
		r = penstock_engine_probe(name, &err);
		T_OK(r == 0 || (r < 0 && err.code == r && err.msg[0]));
		for (unsigned i = 0; i < T_COUNT(known); i++)
			found += !strcmp(name, known[i]);
	}
	T_EQ(found, n);
	T_OK(n >= 3);
	T_OK(!penstock_engine_name(n + 100));
	T_OK(!penstock_engine_descr("nonsense"));
	T_ERR(penstock_engine_probe("nonsense", &err), -ENOTSUP, &err);
}

static void an_unknown_engine_is_refused(void)
{
	static const char *const bad[] = {"nonsense", "io_urin", "threadsx", " threads", ""};
	struct penstock_opts o = cf_opts();
	struct penstock_err err = {0, ""};

	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		o.engine = bad[i];
		T_ERR(penstock_open(&cf_io, &o, &err), -ENOTSUP, &err);
		T_OK(!cf_io);
	}
	T_STR_HAS(err.msg, "engine");
}

static void unknown_settings_of_an_engine_are_refused(void)
{
	static const char *const bad[] = {
		"fault:inner=nonsense", "fault:wrong=1", "fault:error=x", "fault:error=2",
		"fault:error",          "null:x=1",      "threads:x=1",
	};
	struct penstock_opts o = cf_opts();
	struct penstock_err err = {0, ""};
	int before = t_nr_fds();

	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		o.engine = bad[i];
		if (penstock_open(&cf_io, &o, &err) >= 0)
			T_FAIL("\"%s\" was accepted", bad[i]);
		T_OK(!cf_io && err.msg[0]);
	}
	T_EQ(t_nr_fds(), before);
}

static void an_engine_asked_for_by_name_is_the_one_that_runs(void)
{
	struct penstock_stats st = {.size = sizeof(st)};

	cf_open(NULL);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_OK(!strncmp(st.engine, cf_engine, strcspn(cf_engine, ":")));
	T_OK(!(st.fallbacks & PENSTOCK_FALLBACK_ENGINE));
}

/* -------------------------------------------------------------- statistics */

static void statistics_add_up(void)
{
	static unsigned char buf[300000];
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_op op;
	struct penstock_done d;

	cf_open(NULL);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_EQ(st.ops + st.bytes_read + st.bytes_written + st.blocks + st.ops_failed, 0);
	T_EQ(st.threads, 2);
	T_EQ(st.depth, 8);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 4; i++) {
		op = cf_op(PENSTOCK_WRITE, buf, 100000 + i, 300000 * i);
		CF_DO(&op, op.len, i);
	}
	for (unsigned i = 0; i < 3; i++) {
		op = cf_op(PENSTOCK_READ, buf, 50000 + i, 300000 * i);
		CF_DO(&op, op.len, i);
	}
	if (!cf_null) {
		op = cf_op(PENSTOCK_READ, buf, 4096, MIB(100));
		op.flags = PENSTOCK_OP_EXACT;
		d = CF_DO(&op, -ENODATA, 1);
		T_EQ(d.bytes, 0);
	}
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_EQ(st.ops, cf_null ? 7 : 8);
	T_EQ(st.ops_failed, cf_null ? 0 : 1);
	T_EQ(st.bytes_written, 400006);
	T_EQ(st.bytes_read, 150003);
	T_OK(st.blocks >= 4 * 2 + 3); /* 64 KiB each */
	T_OK(st.blocks < 100);
	T_EQ(st.blocks_direct + st.blocks_buffered, st.blocks);
	T_OK(st.blocks_bounced <= st.blocks);
	T_OK(st.blocks_inline <= st.blocks);
	T_OK(st.submit_calls > 0);
	if (!cf_fault)
		T_OK(st.resubmissions <= st.blocks);
}

static void the_io_threads_account_for_their_time(void)
{
	static unsigned char buf[1 << 20];
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_op op;

	cf_open(NULL);
	t_file_make(cf_path, SEED, sizeof(buf));
	for (unsigned i = 0; i < 2000; i++) {
		op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);
		CF_DO(&op, sizeof(buf), 1);
		T_EQ(penstock_get_stats(cf_io, &st), 0);
		if (st.cpu_ns && st.wakeups)
			break;
	}
	T_OK(st.cpu_ns > 0);
	T_OK(st.wakeups > 0);
}

static void a_shorter_statistics_struct_is_not_overrun(void)
{
	union {
		struct penstock_stats st;
		unsigned char raw[sizeof(struct penstock_stats) + 64];
	} u;
	struct penstock_file_info info;

	cf_open(NULL);
	t_file_make(cf_path, SEED, 5);
	cf_file_open(O_RDWR);
	memset(&u, 0xa5, sizeof(u));
	u.st.size = 16;
	T_EQ(penstock_get_stats(cf_io, &u.st), 0);
	T_EQ(u.st.threads, 2);
	for (size_t i = 16; i < sizeof(u.raw); i++)
		T_EQ(u.raw[i], 0xa5);
	memset(&u, 0xa5, sizeof(u));
	u.st.size = sizeof(u.raw); /* from a newer caller */
	T_EQ(penstock_get_stats(cf_io, &u.st), 0);
	T_EQ(u.st.depth, 8);
	memset(&info, 0xa5, sizeof(info));
	info.size = offsetof(struct penstock_file_info, mem_align);
	T_EQ(penstock_file_stat(cf_file, &info), 0);
	T_OK(info.direct <= 1);
	T_EQ(info.mem_align, 0xa5a5a5a5);
	info.size = sizeof(info);
	T_EQ(penstock_file_stat(cf_file, &info), 0);
	T_EQ(info.bytes, 5);
}

struct traced {
	unsigned nr;
	unsigned errors;
	char text[600];
};

static void on_trace(void *arg, const struct penstock_event *e)
{
	struct traced *t = arg;

	t->nr++;
	if (e->what == PENSTOCK_TRACE_ERROR) {
		t->errors++;
		snprintf(t->text, sizeof(t->text), "%s|%s|%d|%llu", e->file, e->text, e->code,
			 (unsigned long long)e->len);
	}
}

static void the_trace_callback_hears_of_failures(void)
{
	unsigned char buf[5000];
	struct penstock_opts o = cf_opts();
	struct traced t = {.nr = 0};
	struct penstock_op op;

	if (cf_null)
		T_SKIP("data", "the null engine never meets the end of a file");
	o.trace = on_trace;
	o.trace_arg = &t;
	cf_open(&o);
	t_file_make(cf_path, SEED, 100);
	op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);
	op.flags = PENSTOCK_OP_EXACT;
	CF_DO(&op, -ENODATA, 0);
	cf_close(0);
	T_EQ(t.errors, 1);
	T_STR_HAS(t.text, cf_path);
	T_STR_HAS(t.text, "|-61|");
}

/* ------------------------------------------------------------------- words */

static void errors_have_words(void)
{
	static const int codes[] = {-EIO,   -ENOSPC,  -ENODATA, -ECHILD, -ECANCELED, -ETIMEDOUT,
				    -E2BIG, -ENOTSUP, -EINVAL,  0,       -99999,     5};

	for (unsigned i = 0; i < T_COUNT(codes); i++)
		T_OK(penstock_strerror(codes[i]) && penstock_strerror(codes[i])[0]);
	T_OK(strcmp(penstock_strerror(-EIO), penstock_strerror(-ENOSPC)));
	T_EQ(penstock_version(), PENSTOCK_VERSION_NUMBER);
}

static const struct t_case cases[] = {
	T_CASE(options_out_of_range_are_refused_by_name),
	T_CASE(an_unknown_option_is_refused_unless_zero),
	T_CASE(a_shorter_older_struct_is_understood),
	T_CASE(no_options_at_all_are_the_defaults),
	T_CASE(extremes_of_the_options_work),
	T_CASE(more_than_the_machine_has_is_an_error_or_works),
	T_CASE(engines_have_names_words_and_probes),
	T_CASE(an_unknown_engine_is_refused),
	T_CASE(unknown_settings_of_an_engine_are_refused),
	T_CASE(an_engine_asked_for_by_name_is_the_one_that_runs),
	T_CASE(statistics_add_up),
	T_CASE(the_io_threads_account_for_their_time),
	T_CASE(a_shorter_statistics_struct_is_not_overrun),
	T_CASE(the_trace_callback_hears_of_failures),
	T_CASE(errors_have_words),
};

const struct t_group cf_limits = {
	"limits", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
