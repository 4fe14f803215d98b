/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as they are written: the bytes, the file, what a killed program leaves behind. */
#include <signal.h>
#include <sys/wait.h>
#include <zstd.h>

#include "load/trace/trace.h"
#include "tests/common/t.h"

#define SIX "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase"

static char *slurp(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "re");
	char *text = calloc(1, 64 << 20);

	T_OK(f && text);
	*ret_len = fread(text, 1, (64 << 20) - 1, f);
	fclose(f);
	return text;
}

static struct trace_row row_of(enum trace_op op, uint64_t ns, uint64_t size, const char *key)
{
	struct trace_row row = TRACE_ROW_INIT;

	row.op = (uint8_t)op;
	row.time_ns = ns;
	row.size = size;
	row.key = key;
	row.key_len = (uint32_t)strlen(key);
	row.tier = 2;
	row.phase = op == TRACE_READ ? TRACE_DECODE : TRACE_PREFILL;
	return row;
}

static void write_one(const char *path, const struct trace_writer_opts *o,
		      const struct trace_row *row)
{
	struct trace_writer *w;
	struct penstock_err err;

	T_ERR(trace_writer_open(&w, path, o, &err), 0, &err);
	T_ERR(trace_write(w, row, &err), 0, &err);
	T_ERR(trace_writer_close(w, &err), 0, &err);
}

#define EXPECT(path, text) T_FILE((path), (text), strlen(text))

static void a_row_is_what_the_benchmark_writes(void)
{
	struct trace_row row = row_of(TRACE_READ, 1794705084739724999, 146407424,
				      "conv_user_0001_1794705084739_turn_1");

	write_one(t_path("a.csv"), &(struct trace_writer_opts){0}, &row);
	EXPECT(t_path("a.csv"), SIX "\r\n1794705084.739724,Read,146407424,Tier-2,"
				    "conv_user_0001_1794705084739_turn_1,Decode\r\n");
}

static void numbers_of_every_length_are_written(void)
{
	struct trace_row row = row_of(TRACE_WRITE, 0, 0, "k");

	write_one(t_path("a.csv"), &(struct trace_writer_opts){.lf = true}, &row);
	EXPECT(t_path("a.csv"), SIX "\n0.000000,Write,0,Tier-2,k,Prefill\n");
	row.size = 1ull << 40;
	row.time_ns = 12000001000;
	row.tier = 0;
	row.phase = TRACE_EVICT;
	write_one(t_path("a.csv"), &(struct trace_writer_opts){.lf = true}, &row);
	EXPECT(t_path("a.csv"), SIX "\n12.000001,Write,1099511627776,Tier-0,k,Evict\n");
	row.size = row.time_ns = UINT64_MAX;
	row.tier = TRACE_NO_TIER;
	row.phase = TRACE_NONE;
	write_one(t_path("a.csv"), &(struct trace_writer_opts){.lf = true}, &row);
	EXPECT(t_path("a.csv"), SIX "\n18446744073.709551,Write,18446744073709551615,,k,\n");
}

static void only_keys_that_need_quotes_get_them(void)
{
	static const char *const keys[][2] = {
		{"plain/with slash; and 'blanks'", "plain/with slash; and 'blanks'"},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"a,b", "\"a,b\""},
		{"say \"hi\"", "\"say \"\"hi\"\"\""},
		{"two\nlines", "\"two\nlines\""},
		{"cr\rinside", "\"cr\rinside\""},
		{"", ""},
	};

	for (size_t i = 0; i < T_COUNT(keys); i++) {
		struct trace_row row = row_of(TRACE_READ, 0, 1, keys[i][0]);
		char want[200];

		write_one(t_path("a.csv"), &(struct trace_writer_opts){.lf = true}, &row);
		snprintf(want, sizeof(want), SIX "\n0.000000,Read,1,Tier-2,%s,Decode\n",
			 keys[i][1]);
		EXPECT(t_path("a.csv"), want);
	}
}

/* docs/security.md: a trace is for programs; no apostrophe makes another name of one. */
static void a_name_that_looks_like_a_formula_stays_that_name(void)
{
	static const struct {
		const char *key, *cell;
	} names[] = {
		{"=1+2", "=1+2"},
		{"+1", "+1"},
		{"-1", "-1"},
		{"@SUM(A1)", "@SUM(A1)"},
		{"\tx", "\tx"},
		{"'=1", "'=1"},
		{"=HYPERLINK(\"http://x\",1)", "\"=HYPERLINK(\"\"http://x\"\",1)\""},
		{"\r=1", "\"\r=1\""},
	};
	static const enum trace_format formats[] = {TRACE_KV, TRACE_OPLOG};

	for (size_t i = 0; i < T_COUNT(names) * T_COUNT(formats); i++) {
		const char *key = names[i / T_COUNT(formats)].key;
		struct trace_writer_opts o = {.format = formats[i % T_COUNT(formats)], .lf = true};
		struct trace_row row = row_of(TRACE_READ, 0, 1, key), got;
		struct trace_reader *r;
		struct penstock_err err;
		char want[200];

		write_one(t_path("a.csv"), &o, &row);
		snprintf(want, sizeof(want), SIX "\n0.000000,Read,1,Tier-2,%s,Decode\n",
			 names[i / T_COUNT(formats)].cell);
		if (o.format == TRACE_KV)
			EXPECT(t_path("a.csv"), want);
		T_ERR(trace_reader_open(&r, t_path("a.csv"),
					&(struct trace_reader_opts){.format = o.format}, &err),
		      0, &err);
		T_ERR(trace_read(r, &got, &err), 1, &err);
		T_EQ(got.key_len, strlen(key));
		T_MEM(got.key, key, strlen(key));
		trace_reader_close(r);
	}
}

static void extended_traces_have_more_columns_and_rows(void)
{
	struct trace_writer_opts o = {.lf = true};
	struct trace_row row = row_of(TRACE_DELETE, 5000, 7, "k");

	row.phase = TRACE_NONE;
	write_one(t_path("a.csv"), &o, &row);
	EXPECT(t_path("a.csv"), SIX "\n");
	o.extended = true;
	write_one(t_path("a.csv"), &o, &row);
	EXPECT(t_path("a.csv"), SIX ",Request,User,QoS\n0.000005,Delete,7,Tier-2,k,,,,\n");
	row.request = 12;
	row.user = 0;
	row.qos = 2;
	row.offset = 4096;
	row.duration_ns = 99;
	row.failed = true;
	write_one(t_path("a.csv"), &o, &row);
	EXPECT(t_path("a.csv"), SIX ",Request,User,QoS\n0.000005,Delete,7,Tier-2,k,,12,0,batch\n");
	o.columns = TRACE_COL_OFFSET | TRACE_COL_DURATION | TRACE_COL_THREAD | TRACE_COL_FAILED;
	write_one(t_path("a.csv"), &o, &row);
	EXPECT(t_path("a.csv"),
	       SIX ",Offset,Duration_ns,Thread,Failed\n0.000005,Delete,7,Tier-2,k,,4096,99,,1\n");
}

static void a_key_may_be_long_but_not_endless(void)
{
	char *key = malloc(TRACE_KEY_MAX + 2), *text;
	struct trace_row row;
	struct trace_writer *w;
	struct penstock_err err;
	size_t len;

	T_OK(key);
	memset(key, '"', TRACE_KEY_MAX + 1);
	key[TRACE_KEY_MAX] = '\0';
	row = row_of(TRACE_READ, 0, 1, key);
	write_one(t_path("a.csv"), &(struct trace_writer_opts){.lf = true}, &row);
	text = slurp(t_path("a.csv"), &len);
	T_EQ(len, strlen(SIX "\n0.000000,Read,1,Tier-2,\"\",Decode\n") + 2 * TRACE_KEY_MAX);
	free(text);
	T_ERR(trace_writer_open(&w, t_path("a.csv"), &(struct trace_writer_opts){0}, &err), 0,
	      &err);
	row.key_len++;
	T_EQ(trace_write(w, &row, &err), -EINVAL);
	T_STR_HAS(err.msg, "65537");
	T_ERR(trace_writer_close(w, &err), 0, &err);
	free(key);
}

static void folders_are_made(void)
{
	struct trace_row row = row_of(TRACE_READ, 0, 1, "k");

	write_one(t_path("deep/er/and deeper/a.csv"), &(struct trace_writer_opts){0}, &row);
	T_OK(t_file_size(t_path("deep/er/and deeper/a.csv")) > 0);
}

static void write_many(const char *path, uint64_t rows)
{
	struct trace_writer *w;
	struct penstock_err err;

	T_ERR(trace_writer_open(&w, path, &(struct trace_writer_opts){0}, &err), 0, &err);
	for (uint64_t i = 0; i < rows; i++) {
		char key[40];
		struct trace_row row;

		snprintf(key, sizeof(key), "key_%u", (unsigned)(i * 2654435761u % 1000));
		row = row_of(i % 3 ? TRACE_READ : TRACE_WRITE, i * 1000, i * 77, key);
		T_ERR(trace_write(w, &row, &err), 0, &err);
	}
	T_ERR(trace_writer_close(w, &err), 0, &err);
}

/* What can be had of a compressed file, and whether its frame is complete. */
static char *unpack(const char *path, size_t *ret_len, bool *ret_complete)
{
	size_t len, room = 64 << 20, left = 1;
	char *packed = slurp(path, &len), *text = malloc(room);
	ZSTD_DCtx *d = ZSTD_createDCtx();
	ZSTD_inBuffer in = {packed, len, 0};
	ZSTD_outBuffer out = {text, room, 0};

	T_OK(text && d);
	while (in.pos < in.size && left) {
		left = ZSTD_decompressStream(d, &out, &in);
		T_OK(!ZSTD_isError(left));
	}
	T_EQ(in.pos, in.size); /* nothing behind the first frame */
	ZSTD_freeDCtx(d);
	free(packed);
	*ret_complete = left == 0;
	*ret_len = out.pos;
	return text;
}

static void a_compressed_file_is_the_plain_one_in_one_frame(void)
{
	char *plain, *text;
	size_t plain_len, len;
	bool complete;

	write_many(t_path("a.csv"), 200000);
	write_many(t_path("a.csv.zst"), 200000);
	plain = slurp(t_path("a.csv"), &plain_len);
	text = unpack(t_path("a.csv.zst"), &len, &complete);
	T_EQ(len, plain_len);
	T_MEM(text, plain, len);
	T_OK(complete);
	T_OK(t_file_size(t_path("a.csv.zst")) < (int64_t)plain_len / 3);
	free(plain);
	free(text);
}

static void packing_is_decided_by_the_name_or_the_options(void)
{
	struct trace_row row = row_of(TRACE_READ, 0, 1, "k");
	unsigned char magic[4];
	FILE *f;

	write_one(t_path("a.zst"), &(struct trace_writer_opts){.pack = TRACE_PACK_NO, .lf = true},
		  &row);
	EXPECT(t_path("a.zst"), SIX "\n0.000000,Read,1,Tier-2,k,Decode\n");
	write_one(t_path("a.csv"), &(struct trace_writer_opts){.pack = TRACE_PACK_ZSTD}, &row);
	f = fopen(t_path("a.csv"), "re");
	T_OK(f && fread(magic, 1, 4, f) == 4);
	fclose(f);
	T_MEM(magic, "\x28\xb5\x2f\xfd", 4);
}

/* A child that writes rows and then does nothing until it is killed. */
static void kill_a_writer(const char *path, uint64_t rows, int64_t until)
{
	pid_t child = fork();
	int status;

	T_OK(child >= 0);
	if (!child) {
		struct trace_writer *w;
		struct penstock_err err;

		if (trace_writer_open(&w, path, &(struct trace_writer_opts){0}, &err) < 0)
			_exit(1);
		for (uint64_t i = 0; i < rows; i++) {
			struct trace_row row = row_of(TRACE_READ, i * 1000, 1, "key");

			if (trace_write(w, &row, &err) < 0)
				_exit(1);
		}
		for (;;)
			pause();
	}
	while (t_file_size(path) < until && waitpid(child, &status, WNOHANG) == 0)
		usleep(1000);
	kill(child, SIGKILL);
	T_EQ(waitpid(child, &status, 0), child);
	T_OK(WIFSIGNALED(status));
}

static void an_idle_writer_that_is_killed_has_written_its_rows(void)
{
	const char *want = SIX "\r\n0.000000,Read,1,Tier-2,key,Decode\r\n"
			       "0.000001,Read,1,Tier-2,key,Decode\r\n";

	kill_a_writer(t_path("killed.csv"), 2, (int64_t)strlen(want));
	EXPECT(t_path("killed.csv"), want);
}

static void a_killed_compressed_trace_has_its_rows(void)
{
	char *text;
	size_t len;
	bool complete;

	kill_a_writer(t_path("killed.zst"), 2, 10);
	text = unpack(t_path("killed.zst"), &len, &complete);
	T_OK(!complete);
	T_OK(len >= strlen(SIX "\r\n"));
	T_MEM(text, SIX "\r\n", strlen(SIX "\r\n"));
	T_MEM(text + len - 2, "\r\n", 2);
	free(text);
}

static void an_error_of_the_disk_is_told(void)
{
	struct trace_row row = row_of(TRACE_READ, 0, 1, "k");
	struct trace_writer *w;
	struct penstock_err err = {0, ""};
	int r = 0;

	T_ERR(trace_writer_open(&w, "/dev/full", &(struct trace_writer_opts){0}, &err), 0, &err);
	for (unsigned i = 0; i < 1000000 && r == 0; i++)
		r = trace_write(w, &row, &err);
	T_EQ(r, -ENOSPC);
	T_STR_HAS(err.msg, "/dev/full");
	T_EQ(trace_writer_close(w, &err), -ENOSPC);
	T_ERR(trace_writer_open(&w, "/dev/full", &(struct trace_writer_opts){0}, &err), 0, &err);
	T_EQ(trace_writer_close(w, &err), -ENOSPC);
}

static void what_cannot_be_opened_is_named(void)
{
	struct trace_writer *w;
	struct penstock_err err;

	T_EQ(trace_writer_open(&w, "/dev/null/a.csv", &(struct trace_writer_opts){0}, &err),
	     -ENOTDIR);
	T_STR_HAS(err.msg, "/dev/null");
	T_EQ(trace_writer_open(&w, t_dir(), &(struct trace_writer_opts){0}, &err), -EISDIR);
	T_EQ(trace_writer_open(&w, t_path("b"),
			       &(struct trace_writer_opts){.format = TRACE_BURSTGPT}, &err),
	     -ENOTSUP);
	T_STR_HAS(err.msg, "burstgpt");
	T_EQ(t_file_size(t_path("b")), -ENOENT);
}

static const struct t_case cases[] = {
	T_CASE(a_row_is_what_the_benchmark_writes),
	T_CASE(numbers_of_every_length_are_written),
	T_CASE(only_keys_that_need_quotes_get_them),
	T_CASE(a_name_that_looks_like_a_formula_stays_that_name),
	T_CASE(extended_traces_have_more_columns_and_rows),
	T_CASE(a_key_may_be_long_but_not_endless),
	T_CASE(folders_are_made),
	T_CASE(a_compressed_file_is_the_plain_one_in_one_frame),
	T_CASE(packing_is_decided_by_the_name_or_the_options),
	T_CASE(an_idle_writer_that_is_killed_has_written_its_rows),
	T_CASE(a_killed_compressed_trace_has_its_rows),
	T_CASE(an_error_of_the_disk_is_told),
	T_CASE(what_cannot_be_opened_is_named),
};

int main(int argc, char **argv)
{
	const struct t_group group = {"trace_out", NULL, NULL, cases, T_COUNT(cases)};

	(void)argc;
	return t_run(&group, 1, argv + 1);
}
