/* SPDX-License-Identifier: Apache-2.0 */
/* The other formats as they are read, whole and broken; and which is which. */
#include "tests/unit/load/trace/trace_kit.h"

/* ----------------------------------------------------------------- mooncake */

static void ids_of_mooncake_are_written_once_and_read_later(void)
{
	open_text("{\"timestamp\": 0, \"input_length\": 1030, \"output_length\": 5, \"hash_ids\": "
		  "[0, 1, 2]}\n"
		  "{\"hash_ids\":[0,1,7,7], \"timestamp\": 27482, \"x\": {\"y\": [null, true]}}\r\n"
		  "\n"
		  "{\"timestamp\": 27482.5, \"hash_ids\": []}\n"
		  "{\"timestamp\": 3e4, \"hash_ids\": [18446744073709551615]}");
	T_EQ(trace_reader_format(reader), TRACE_MOONCAKE);
	for (unsigned i = 0; i < 3; i++) {
		NEXT();
		T_OK(row.op == TRACE_WRITE && row.phase == TRACE_PREFILL && row.request == 0);
		T_OK(row.time_ns == 0 && row.tier == TRACE_NO_TIER);
	}
	T_OK(key_is("2"));
	for (unsigned i = 0; i < 4; i++) {
		NEXT();
		T_EQ(row.op, i == 2 ? TRACE_WRITE : TRACE_READ);
		T_EQ(row.phase, i == 2 ? TRACE_PREFILL : TRACE_DECODE);
		T_OK(row.request == 1 && row.time_ns == 27482000000);
		T_EQ(trace_reader_line(reader), 2);
	}
	T_OK(key_is("7"));
	NEXT();
	T_OK(key_is("18446744073709551615") && row.request == 3 && row.time_ns == 30000000000);
	T_EQ(trace_reader_line(reader), 5);
	END();
}

static void input_length_cuts_the_last_block(void)
{
	static const struct {
		const char *key;
		uint64_t tokens;
	} rows[] = {{"0", 512}, {"1", 6}, {"1", 6}, {"2", 512}, {"3", 512}, {"4", 512}, {"0", 512}};

	opts = (struct trace_reader_opts){.bytes_per_token = 10};
	open_text("{\"timestamp\": 0, \"hash_ids\": [0, 1], \"input_length\": 518}\n"
		  /* an object keeps its size, wherever it comes again */
		  "{\"timestamp\": 1, \"input_length\": 1024, \"hash_ids\": [1, 2]}\n"
		  /* lengths that do not fit the ids say nothing */
		  "{\"timestamp\": 2, \"input_length\": 9999, \"hash_ids\": [3]}\n"
		  "{\"timestamp\": 3, \"input_length\": 0, \"hash_ids\": [4]}\n"
		  "{\"timestamp\": 4, \"input_length\": 3, \"hash_ids\": [0]}\n");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		NEXT();
		T_OK(key_is(rows[i].key));
		T_EQ(row.size, rows[i].tokens * 10);
	}
	END();
}

static void sizes_of_mooncake_are_given(void)
{
	static const char text[] = "{\"timestamp\": 0, \"hash_ids\": [5]}\n";

	opts = (struct trace_reader_opts){.bytes_per_token = 131072, .block_tokens = 16};
	open_text(text);
	NEXT();
	T_EQ(row.size, 16 * 131072);
	opts = (struct trace_reader_opts){0};
	T_EQ(open_bytes(text, strlen(text)), -EINVAL);
	T_STR_HAS(err.msg, "--bytes-per-token");
	opts = (struct trace_reader_opts){.bytes_per_token = UINT64_MAX};
	T_EQ(open_bytes(text, strlen(text)), -EINVAL);
}

static void lines_of_mooncake_that_are_none_are_told(void)
{
	static const char *const bad[][2] = {
		{"{\"timestamp\": 0}", "no hash_ids"},
		{"{\"hash_ids\": [1]}", "no timestamp"},
		{"{\"timestamp\": \"x\", \"hash_ids\": [1]}", "timestamp"},
		{"{\"timestamp\": -1, \"hash_ids\": [1]}", "timestamp"},
		{"{\"timestamp\": 0, \"input_length\": \"x\", \"hash_ids\": [1]}", "input_length"},
		{"{\"timestamp\": 0, \"hash_ids\": [1, -1]}", "hash_ids"},
		{"{\"timestamp\": 0, \"hash_ids\": [1.5]}", "hash_ids"},
		{"{\"timestamp\": 0, \"hash_ids\": [18446744073709551616]}", "hash_ids"},
		{"{\"timestamp\": 0, \"hash_ids\": 5}", "hash_ids"},
		{"{\"timestamp\": 0, \"hash_ids\": [1]", "JSON"},
		{"{\"timestamp\": 0, \"hash_ids\": [1]} x", "JSON"},
		{"[1]", "JSON"},
		{"nothing", "JSON"},
	};

	for (size_t i = 0; i < T_COUNT(bad); i++) {
		char text[400];
		const char *first;
		uint64_t n;

		snprintf(text, sizeof(text),
			 "{\"timestamp\": 0, \"hash_ids\": [1]}\n%s\n"
			 "{\"timestamp\": 0, \"hash_ids\": [1]}\n",
			 bad[i][0]);
		open_text(text);
		if (rest(&n) != 2 || n != 1)
			T_FAIL("'%s' is taken", bad[i][0]);
		first = trace_reader_bad(reader)->text[0];
		T_STR_HAS(first, "line 2: ");
		T_STR_HAS(first, bad[i][1]);
	}
}

/* --------------------------------------------------------------------- fio */

static void fio_logs_of_version_3_have_times(void)
{
	open_text("fio version 3 iolog\n375 t.bin add\n520 t.bin open\n524 t.bin read 0 16384\n"
		  "304310 /dev/x  write\t32768 512\n304311 t.bin sync\n304312 t.bin datasync 0 0\n"
		  "400000 t.bin trim 5 6\n1212316 t.bin close\n");
	T_EQ(trace_reader_format(reader), TRACE_FIO);
	NEXT();
	T_OK(row.op == TRACE_READ && row.time_ns == 524000 && row.offset == 0 && key_is("t.bin"));
	T_EQ(row.size, 16384);
	NEXT();
	T_OK(row.op == TRACE_WRITE && row.time_ns == 304310000 && row.offset == 32768);
	T_OK(key_is("/dev/x") && row.size == 512 && row.tier == TRACE_NO_TIER);
	NEXT();
	T_OK(row.op == TRACE_DELETE && row.offset == 5 && row.size == 6);
	T_EQ(trace_reader_line(reader), 8);
	END();
	T_EQ(trace_reader_bad(reader)->nr, 0);
}

static void fio_logs_of_version_2_wait(void)
{
	open_text("fio version 2 iolog\r\n/f add\r\n/f open\r\n/f read 0 4096\r\n"
		  "/f wait 1000 0\r\n/f write 4096 4096\r\n/f wait 500 0\r\n/f read 0 1\r\n");
	NEXT();
	T_EQ(row.time_ns, 0);
	NEXT();
	T_EQ(row.time_ns, 1000000);
	NEXT();
	T_EQ(row.time_ns, 1500000);
	END();
}

static void lines_of_fio_that_are_none_are_told(void)
{
	static const char *const bad[][2] = {
		{"x t.bin read 0 1", "'x' is not a time"},
		{"1 t.bin", "no action"},
		{"1 t.bin fly 0 1", "unknown action 'fly'"},
		{"1 t.bin wait 5 0", "unknown action 'wait'"},
		{"1 t.bin read 0", "no offset and length"},
		{"1 t.bin read x 1", "no offset and length"},
		{"1 t.bin read 0 1 2", "too many"},
		{"18446744073709551615 t.bin read 0 1", "too large"},
	};
	const char *first;
	uint64_t n;

	for (size_t i = 0; i < T_COUNT(bad); i++) {
		char text[400];

		snprintf(text, sizeof(text),
			 "fio version 3 iolog\n0 f read 0 1\n%s\n2 f read 0 1\n", bad[i][0]);
		open_text(text);
		if (rest(&n) != 2 || n != 1)
			T_FAIL("'%s' is taken", bad[i][0]);
		first = trace_reader_bad(reader)->text[0];
		T_STR_HAS(first, "line 3: ");
		T_STR_HAS(first, bad[i][1]);
	}
	open_text("fio version 2 iolog\nf wait 18446744073709551615 0\nf wait 1 0\nf read 0 1\n");
	T_EQ(rest(&n), 0);
	T_EQ(n, 2);
	T_EQ(open_bytes("fio version 4 iolog\n", 20), -EINVAL);
	T_STR_HAS(err.msg, "version");
}

/* ------------------------------------------------------------------- op log */

#define OPLOG                                                                          \
	"idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\t" \
	"first_byte\tend\tduration_ns\n"

static void operation_logs_are_understood(void)
{
	open_text(OPLOG "0\t3\tPUT\tc\t1\t1048576\thttp://h\tbucket/a b\t\t2025-01-01T00:00:00Z\t\t"
			"2025-01-01T00:00:00.5Z\t500000000\n"
			"1\t0\tGET\tc\t1\t5\t\t\"k\"\"\"\tbroken "
			"pipe\t2025-01-01T01:00:00.0000000019+01:00\t"
			"\t2025-01-01T00:00:02Z\t\n"
			"# a comment, \"as warp has them\n"
			"2\t0\tDELETE\tc\t1\t0\t\tx\t\t2000-02-29t23:59:59.1z\t\t\t7\n"
			"3\t0\tSTAT\tc\t1\t0\t\tx\t\t1970-01-01T00:00:00Z\t\t\t7\n"
			"4\t0\tLIST\tc\t1000\t0\t\tx/\t\t2554-07-21T23:34:33.709551615Z\t\t\t7\n");
	T_EQ(trace_reader_format(reader), TRACE_OPLOG);
	NEXT();
	T_OK(row.op == TRACE_WRITE && row.thread == 3 && row.size == 1048576 && !row.failed);
	T_OK(key_is("bucket/a b") && row.time_ns == 1735689600000000000);
	T_EQ(row.duration_ns, 500000000);
	NEXT();
	T_OK(row.op == TRACE_READ && row.failed && key_is("k\""));
	T_EQ(row.time_ns, 1735689600000000001);
	T_EQ(row.duration_ns, 1999999999);
	NEXT();
	T_OK(row.op == TRACE_DELETE && row.time_ns == 951868799100000000 && row.duration_ns == 7);
	T_EQ(trace_reader_line(reader), 5);
	NEXT();
	T_OK(row.op == TRACE_STAT && row.time_ns == 0);
	NEXT();
	T_OK(row.op == TRACE_LIST && row.time_ns == UINT64_MAX);
	END();
}

static void rows_of_operation_logs_that_are_none_are_told(void)
{
	static const char *const bad[][2] = {
		{"0\t0\tFLY\tc\t1\t5\t\tk\t\t2025-01-01T00:00:00Z\t\t\t7", "op 'FLY'"},
		{"0\t0\tGET\tc\t1\t-5\t\tk\t\t2025-01-01T00:00:00Z\t\t\t7", "bytes '-5'"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\tyesterday\t\t\t7", "start 'yesterday'"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t2025-02-29T00:00:00Z\t\t\t7", "start"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t1969-12-31T00:00:00Z\t\t\t7", "start"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t2025-01-01T00:00:00\t\t\t7", "start"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t2025-01-01T00:00:00.Z\t\t\t7", "start"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t2025-01-01T24:00:00Z\t\t\t7", "start"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t2554-07-21T23:34:33.709551616Z\t\t\t7", "start"},
		{"0\t0\tGET\tc\t1\t5\t\tk\t\t2025-01-01T00:00:00Z\t\t\tx", "duration_ns"},
		{"0\t0\tGET\tc\t1\t5", "6 columns"},
		{"0\t99999999999\tGET\tc\t1\t5\t\tk\t\t2025-01-01T00:00:00Z\t\t\t7", "thread"},
	};
	const char *first;
	uint64_t n;

	for (size_t i = 0; i < T_COUNT(bad); i++) {
		char text[600];

		snprintf(text, sizeof(text), OPLOG "%s\n", bad[i][0]);
		open_text(text);
		if (rest(&n) != 0 || n != 1)
			T_FAIL("'%s' is taken", bad[i][0]);
		first = trace_reader_bad(reader)->text[0];
		T_STR_HAS(first, "line 2: ");
		T_STR_HAS(first, bad[i][1]);
	}
}

/* ----------------------------------------------------------------- detection */

static void formats_are_told_by_content(void)
{
	static const struct {
		const char *text;
		enum trace_format format;
	} c[] = {
		{"\xef\xbb\xbf" SIX, TRACE_KV},
		{"Key,Phase,Timestamp,Operation,Object_Size_Bytes\n", TRACE_KV},
		{"1.5,read,5,x", TRACE_KV},
		{"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
		 TRACE_BURSTGPT},
		{"\n [ {\"id\":1}]", TRACE_SHAREGPT},
		{"{\"timestamp\":1,\"hash_ids\":[]}", TRACE_MOONCAKE},
		{"fio version 2 iolog\n", TRACE_FIO},
		{OPLOG, TRACE_OPLOG},
		{"", TRACE_AUTO},
		{"hello\n", TRACE_AUTO},
		{"1.5,fly,5", TRACE_AUTO},
		{"{}", TRACE_AUTO},
		{"a,b\tc", TRACE_AUTO},
	};
	char packed[1000];

	for (size_t i = 0; i < T_COUNT(c); i++) {
		enum trace_format got;

		make_bytes("in", c[i].text, strlen(c[i].text));
		T_ERR(trace_detect(&got, t_path("in"), &err), 0, &err);
		T_EQ(got, c[i].format);
		make_bytes("in", packed,
			   pack(packed, sizeof(packed), c[i].text, strlen(c[i].text)));
		T_ERR(trace_detect(&got, t_path("in"), &err), 0, &err);
		T_EQ(got, c[i].format);
	}
}

static void what_is_no_trace_is_refused_with_a_reason(void)
{
	T_EQ(open_bytes("", 0), -EINVAL);
	T_STR_HAS(err.msg, "is empty");
	T_EQ(open_bytes("hello\n", 6), -EINVAL);
	T_STR_HAS(err.msg, "known format");
	T_EQ(open_bytes("[]", 2), -ENOTSUP);
	T_STR_HAS(err.msg, "penstock trace convert");
	T_EQ(trace_reader_open(&reader, "/nowhere/x", &opts, &err), -ENOENT);
	T_STR_HAS(err.msg, "/nowhere/x");
	T_EQ(trace_reader_open(&reader, t_dir(), &opts, &err), -EISDIR);
	opts.format = TRACE_FIO;
	T_EQ(open_bytes(SIX, strlen(SIX)), -EINVAL);
	T_STR_HAS(err.msg, "fio version");
}

static void the_text_of_rows_is_kept_on_demand(void)
{
	const char *text;
	size_t len;

	opts.raw = true;
	open_text("Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase,More\r\n"
		  "1.0,Read,1,Tier-0,\"a\"\"b\",Decode,x\r\n1.0,Read,1,Tier-0,a,Decode,x");
	trace_reader_header(reader, &text, &len);
	T_OK(len == 58 && text[57] == '\r');
	NEXT();
	T_OK(trace_reader_raw(reader, &text, &len));
	T_EQ(len, strlen("1.0,Read,1,Tier-0,\"a\"\"b\",Decode,x\r"));
	T_MEM(text, "1.0,Read,1,Tier-0,\"a\"\"b\",Decode,x\r", len);
	NEXT();
	T_OK(trace_reader_raw(reader, &text, &len));
	T_EQ(len, strlen("1.0,Read,1,Tier-0,a,Decode,x"));
	open_text("fio version 3 iolog\n0 f read 0 1\n");
	NEXT();
	T_OK(!trace_reader_raw(reader, &text, &len));
}

static const struct t_case cases[] = {
	T_CASE(ids_of_mooncake_are_written_once_and_read_later),
	T_CASE(input_length_cuts_the_last_block),
	T_CASE(sizes_of_mooncake_are_given),
	T_CASE(lines_of_mooncake_that_are_none_are_told),
	T_CASE(fio_logs_of_version_3_have_times),
	T_CASE(fio_logs_of_version_2_wait),
	T_CASE(lines_of_fio_that_are_none_are_told),
	T_CASE(operation_logs_are_understood),
	T_CASE(rows_of_operation_logs_that_are_none_are_told),
	T_CASE(formats_are_told_by_content),
	T_CASE(what_is_no_trace_is_refused_with_a_reason),
	T_CASE(the_text_of_rows_is_kept_on_demand),
};

int main(int argc, char **argv)
{
	const struct t_group group = {"trace_formats", forget, forget, cases, T_COUNT(cases)};

	(void)argc;
	return t_run(&group, 1, argv + 1);
}
