/* SPDX-License-Identifier: Apache-2.0 */
/* kv traces as they are read, whole and broken, plain and compressed. */
#include "base/random.h"
#include "tests/unit/load/trace/trace_kit.h"

/* ---------------------------------------------------------------------- kv */

static void a_row_of_the_benchmark_is_understood(void)
{
	open_text("Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\r\n"
		  "1794705084.739724,Write,146407424,Tier-0,conv_user_0001_17_turn_1,Prefill\r\n"
		  "1794705084.739844,Read,5,Tier-2,k,Decode\r\n");
	T_EQ(trace_reader_format(reader), TRACE_KV);
	NEXT();
	T_EQ(row.time_ns, 1794705084739724000);
	T_EQ(row.size, 146407424);
	T_EQ(row.op, TRACE_WRITE);
	T_EQ(row.phase, TRACE_PREFILL);
	T_EQ(row.tier, 0);
	T_OK(key_is("conv_user_0001_17_turn_1"));
	T_OK(row.request == -1 && row.user == -1 && row.qos == -1 && row.thread == -1);
	T_OK(!row.failed && !row.duration_ns && !row.offset);
	T_EQ(trace_reader_line(reader), 2);
	NEXT();
	T_OK(row.op == TRACE_READ && row.phase == TRACE_DECODE && row.tier == 2 && row.size == 5);
	T_EQ(trace_reader_line(reader), 3);
	END();
}

static void both_line_ends_and_a_missing_last_one_are_the_same(void)
{
	static const char *const ends[] = {"\n", "\r\n"};

	for (unsigned i = 0; i < 4; i++) {
		char text[400];
		const char *end = ends[i & 1];

		snprintf(text, sizeof(text),
			 "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase%s"
			 "1.5,Read,7,Tier-1,a,Evict%s%s2.5,Write,8,Tier-1,b,Both%s",
			 end, end, end, i & 2 ? end : "");
		open_text(text);
		NEXT();
		T_OK(key_is("a") && row.phase == TRACE_EVICT && row.time_ns == 1500000000);
		NEXT();
		T_OK(key_is("b") && row.phase == TRACE_BOTH && row.size == 8);
		T_EQ(trace_reader_line(reader), 4);
		END();
		T_EQ(trace_reader_bad(reader)->nr, 0);
	}
}

static void old_traces_have_four_columns(void)
{
	open_text("Timestamp,Operation,Object_Size_Bytes,Tier\r\n"
		  "1794705084.739724,Write,146407424,Tier-2\r\n1.0,Read,1,Tier-0");
	NEXT();
	T_OK(row.tier == 2 && row.op == TRACE_WRITE && row.phase == TRACE_NONE && !row.key_len);
	NEXT();
	T_OK(row.tier == 0 && row.op == TRACE_READ);
	END();
}

static void extended_columns_are_read_in_any_order(void)
{
	open_text("QoS,Key,Phase,Tier,Object_Size_Bytes,Operation,Timestamp,Failed,Request,User,"
		  "Thread,Duration_ns,Offset,Comment\n"
		  "responsive,k,Decode,Tier-1,77,Delete,0.000001,1,12,3,5,99,4096,anything\n"
		  ",k2,,,0,Stat,3,0,,,,,,\n");
	NEXT();
	T_OK(row.qos == 1 && key_is("k") && row.phase == TRACE_DECODE && row.tier == 1);
	T_OK(row.size == 77 && row.op == TRACE_DELETE && row.time_ns == 1000 && row.failed);
	T_OK(row.request == 12 && row.user == 3 && row.thread == 5 && row.duration_ns == 99);
	T_EQ(row.offset, 4096);
	NEXT();
	T_OK(row.qos == -1 && row.tier == TRACE_NO_TIER && row.phase == TRACE_NONE);
	T_OK(row.op == TRACE_STAT && row.request == -1 && row.user == -1 && row.thread == -1);
	END();
}

static void the_middle_of_a_file_needs_no_header(void)
{
	open_text("1794705084.739724,Write,5,Tier-0,k,Prefill\n2,Read,5,Tier-0,k,Decode\n");
	T_EQ(trace_reader_format(reader), TRACE_KV);
	NEXT();
	T_OK(key_is("k") && row.phase == TRACE_PREFILL);
	NEXT();
	END();
	open_text("1.5,Write,5,Tier-0\n");
	NEXT();
	T_EQ(row.size, 5);
}

static void quoted_keys_hold_anything(void)
{
	open_text("Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\r\n"
		  "1.000000,Read,1,Tier-0,\"a,b\",Decode\r\n"
		  "1.000000,Read,1,Tier-0,\"say \"\"hi\"\"\",Decode\r\n"
		  "1.000000,Read,1,Tier-0,\"two\r\nlines\",Decode\r\n"
		  "1.000000,Read,1,Tier-0,mid\"dle,Decode\r\n"
		  "1.000000,\"Read\",\"1\",\"Tier-0\",\"\",\"Decode\"\r\n"
		  "1.000000,Read,1,Tier-0,gr\xc3\xbc\xc3\x9f/with/slash,Decode\r\n");
	NEXT();
	T_OK(key_is("a,b"));
	NEXT();
	T_OK(key_is("say \"hi\""));
	NEXT();
	T_OK(key_is("two\r\nlines"));
	T_EQ(trace_reader_line(reader), 4);
	NEXT();
	T_OK(key_is("mid\"dle"));
	T_EQ(trace_reader_line(reader), 6);
	NEXT();
	T_OK(key_is("") && row.op == TRACE_READ);
	NEXT();
	T_OK(key_is("gr\xc3\xbc\xc3\x9f/with/slash"));
	END();
}

static void a_quote_that_is_never_closed_spoils_one_row(void)
{
	uint64_t bad;
	const char *first;

	open_text(SIX "1.0,Read,1,Tier-0,\"open,Decode\n"
		      "2.0,Read,1,Tier-0,a,Decode\n"
		      "3.0,Read,1,Tier-0,\"x\"y,Decode\n"
		      "4.0,Read,1,Tier-0,b,Decode\n");
	/* it closes at the next quote, two lines down, where something else follows */
	T_EQ(rest(&bad), 1);
	T_EQ(bad, 1);
	open_text(SIX "1.0,Read,1,Tier-0,\"open,Decode\n"
		      "2.0,Read,1,Tier-0,a,Decode\n"
		      "3.0,Read,1,Tier-0,b,Decode\n");
	T_EQ(rest(&bad), 2);
	T_EQ(bad, 1);
	first = trace_reader_bad(reader)->text[0];
	T_STR_HAS(first, "line 2: a quote");
}

static void numbers_of_any_length_are_read(void)
{
	static const struct {
		const char *time, *size;
		uint64_t ns, bytes;
	} c[] = {
		{"0", "0", 0, 0},
		{"0.000000", "1", 0, 1},
		{"1.5", "12", 1500000000, 12},
		{"12.34567", "12345678", 12345670000, 12345678},
		{"123.1234567", "123456789", 123123456700, 123456789},
		{"1794705084.12345678", "1099511627776", 1794705084123456780, 1ull << 40},
		{"1794705084.123456789", "123456789012345", 1794705084123456789, 123456789012345},
		{"1.0000000019", "1234567890123456", 1000000001, 1234567890123456},
		{"4294967296.000001", "12345678901234567", 4294967296000001000, 12345678901234567},
		{"18446744073.709551615", "18446744073709551615", UINT64_MAX, UINT64_MAX},
		{"1.5e1", "007", 15000000000, 7},
		{"00001.500000", "00000000000000000000000000000001", 1500000000, 1},
	};

	for (size_t i = 0; i < T_COUNT(c); i++) {
		char text[300];

		snprintf(text, sizeof(text), SIX "%s,Read,%s,Tier-0,k,Decode\n", c[i].time,
			 c[i].size);
		open_text(text);
		NEXT();
		if (row.time_ns != c[i].ns || row.size != c[i].bytes)
			T_FAIL("%s %s gave %llu %llu", c[i].time, c[i].size,
			       (unsigned long long)row.time_ns, (unsigned long long)row.size);
		END();
	}
}

static void rows_that_are_none_are_told_by_line(void)
{
	static const char *const bad[][2] = {
		{"", "1 column"},
		{"x", "1 column"},
		{"1.0,Read,1,Tier-0,k", "5 columns"},
		{"1.000000,Read,1,Tier-0,Decode", "5 columns"},
		{"1.0,Read,1,Tier-0,k,Decode,", "7 columns"},
		{"1.0,Read,1,Tier-0,k,k,Decode", "7 columns"},
		{"-1.0,Read,1,Tier-0,k,Decode", "Timestamp '-1.0'"},
		{"1.,Read,1,Tier-0,k,Decode", "Timestamp"},
		{".5,Read,1,Tier-0,k,Decode", "Timestamp"},
		{"1.0.0,Read,1,Tier-0,k,Decode", "Timestamp"},
		{",Read,1,Tier-0,k,Decode", "Timestamp ''"},
		{"99999999999.0,Read,1,Tier-0,k,Decode", "Timestamp"},
		{"1e99,Read,1,Tier-0,k,Decode", "Timestamp"},
		{"1.0,Rea,1,Tier-0,k,Decode", "Operation 'Rea'"},
		{"1.0,Readx,1,Tier-0,k,Decode", "Operation"},
		{"1.0,Read,,Tier-0,k,Decode", "Object_Size_Bytes ''"},
		{"1.0,Read,-1,Tier-0,k,Decode", "Object_Size_Bytes"},
		{"1.0,Read,1.5,Tier-0,k,Decode", "Object_Size_Bytes"},
		{"1.0,Read,18446744073709551616,Tier-0,k,Decode", "Object_Size_Bytes"},
		{"1.0,Read,1,Tier-3,k,Decode", "Tier 'Tier-3'"},
		{"1.0,Read,1,Tier-00,k,Decode", "Tier"},
		{"1.0,Read,1,tier,k,Decode", "Tier"},
		{"1.0,Read,1,Tier-0,k,Decod", "Phase 'Decod'"},
		{"1.0,Read,1,Tier-0,k,xDecode", "Phase"},
		{"1.0,Read,1,Tier-0,\"k\"x,Decode", "a quote"},
	};

	for (size_t i = 1; i < T_COUNT(bad); i++) {
		char text[400];
		const char *first;
		uint64_t n;

		snprintf(text, sizeof(text),
			 SIX "1.0,Read,1,Tier-0,a,Decode\n%s\n2.0,Read,1,Tier-0,b,"
			     "Decode\n",
			 bad[i][0]);
		opts.strict = false;
		open_text(text);
		if (rest(&n) != 2 || n != 1)
			T_FAIL("'%s' is taken", bad[i][0]);
		first = trace_reader_bad(reader)->text[0];
		T_STR_HAS(first, "line 3: ");
		T_STR_HAS(first, bad[i][1]);
		opts.strict = true;
		open_text(text);
		NEXT();
		T_EQ(next(), -EBADMSG);
		T_STR_HAS(err.msg, "/in: line 3: ");
		T_STR_HAS(err.msg, bad[i][1]);
	}
}

static void a_torn_last_row_is_not_taken_for_a_whole_one(void)
{
	static const char last[] = "1794705084.739724,Write,146407424,Tier-0,key_1,Prefill";
	char text[300];
	uint64_t bad;

	for (size_t len = 1; len < strlen(last); len++) {
		snprintf(text, sizeof(text), SIX "1.0,Read,1,Tier-0,a,Decode\n%.*s", (int)len,
			 last);
		open_text(text);
		T_EQ(rest(&bad), 1);
		T_EQ(bad, 1);
	}
}

static void long_keys_are_taken_up_to_a_limit(void)
{
	static char text[3 << 20];
	size_t n;
	uint64_t bad;

	n = (size_t)sprintf(text, SIX "1.0,Read,1,Tier-0,");
	memset(text + n, 'k', 4096);
	strcpy(text + n + 4096, ",Decode\n");
	open_text(text);
	NEXT();
	T_EQ(row.key_len, 4096);
	memset(text + n, 'k', TRACE_KEY_MAX);
	strcpy(text + n + TRACE_KEY_MAX, ",Decode\n");
	open_text(text);
	NEXT();
	T_EQ(row.key_len, TRACE_KEY_MAX);
	memset(text + n, 'k', TRACE_KEY_MAX + 1);
	strcpy(text + n + TRACE_KEY_MAX + 1, ",Decode\n2.0,Read,1,Tier-0,a,Decode\n");
	open_text(text);
	T_EQ(rest(&bad), 1);
	T_EQ(bad, 1);
	/* a line that no buffer holds */
	memset(text + n, 'k', 2 << 20);
	strcpy(text + n + (2 << 20), ",Decode\n2.0,Read,1,Tier-0,a,Decode\n");
	open_text(text);
	T_EQ(rest(&bad), 1);
	T_EQ(bad, 1);
	opts.strict = true;
	open_text(text);
	T_EQ(next(), -EBADMSG);
	T_STR_HAS(err.msg, "line 2: is longer than");
}

static void headers_without_what_is_needed_are_refused(void)
{
	static const char text[] = "Timestamp,Operation,Tier\n1.0,Read,Tier-0\n";

	T_EQ(open_bytes(text, strlen(text)), -EINVAL);
	T_STR_HAS(err.msg, "Object_Size_Bytes");
}

/* -------------------------------------------------- there and back, at random */

struct recorded {
	struct trace_row row;
	char key[100];
};

/* Of every kind and length, a few per thousand of them with what needs quotes. */
static void make_recorded(struct recorded *v, size_t nr, struct penstock_random *r)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_/ ";
	static const char special[] = "\",\r\n\t#\xc3\xbc";
	uint64_t now = 1735689600000000;

	for (size_t i = 0; i < nr; i++) {
		struct trace_row *w = &v[i].row;
		size_t len = penstock_random_below(r, sizeof(v[i].key));

		*w = TRACE_ROW_INIT;
		now += penstock_random_below(r, 3000000) -
		       (penstock_random_below(r, 9) ? 0 : 1000000);
		w->time_ns = now * 1000;
		w->size = penstock_random_next(r) >> penstock_random_below(r, 64);
		w->op = (uint8_t)penstock_random_below(r, 2);
		w->phase = (uint8_t)penstock_random_below(r, TRACE_PHASES);
		w->tier = (uint8_t)penstock_random_below(r, TRACE_TIERS);
		for (size_t k = 0; k < len; k++)
			v[i].key[k] = letters[penstock_random_below(r, strlen(letters))];
		if (len && !penstock_random_below(r, 100))
			v[i].key[penstock_random_below(r, len)] =
				special[penstock_random_below(r, strlen(special))];
		w->key = v[i].key;
		w->key_len = (uint32_t)len;
	}
}

static bool same_row(const struct trace_row *a, const struct trace_row *b)
{
	return a->time_ns == b->time_ns && a->size == b->size && a->op == b->op &&
	       a->phase == b->phase && a->tier == b->tier && a->key_len == b->key_len &&
	       !memcmp(a->key, b->key, a->key_len) && a->request == b->request &&
	       a->user == b->user && a->qos == b->qos;
}

static void write_recorded(const char *path, const struct recorded *v, size_t nr,
			   const struct trace_writer_opts *o)
{
	struct trace_writer *w;

	T_ERR(trace_writer_open(&w, path, o, &err), 0, &err);
	for (size_t i = 0; i < nr; i++)
		T_ERR(trace_write(w, &v[i].row, &err), 0, &err);
	T_ERR(trace_writer_close(w, &err), 0, &err);
}

static void what_was_written_is_read_back(void)
{
	static const struct trace_writer_opts how[] = {
		{.pack = TRACE_PACK_NO},
		{.pack = TRACE_PACK_ZSTD},
		{.lf = true},
		{.extended = true, .columns = 127},
	};
	enum { ROWS = 30000 };
	struct recorded *v = calloc(ROWS, sizeof(*v));
	struct penstock_random r;

	T_OK(v);
	penstock_random_seed(&r, t_seed());
	for (size_t h = 0; h < T_COUNT(how); h++) {
		make_recorded(v, ROWS, &r);
		write_recorded(t_path("back"), v, ROWS, &how[h]);
		trace_reader_close(reader);
		reader = NULL;
		T_ERR(trace_reader_open(&reader, t_path("back"),
					&(struct trace_reader_opts){.strict = true}, &err),
		      0, &err);
		for (size_t i = 0; i < ROWS; i++) {
			NEXT();
			if (!same_row(&row, &v[i].row))
				T_FAIL("row %zu of way %zu is another", i, h);
		}
		END();
	}
	free(v);
}

/* -------------------------------------------------------------- compressed */

static const char three[] = SIX "1.0,Read,1,Tier-0,a,Decode\n2.0,Read,1,Tier-0,b,Decode\n"
				"3.0,Read,1,Tier-0,c,Decode\n";

static void several_frames_are_one_trace(void)
{
	static const unsigned char skippable[] = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3};
	char packed[2000];
	size_t n = 0, cut = 70;
	uint64_t bad;

	memcpy(packed, skippable, sizeof(skippable));
	n += sizeof(skippable);
	n += pack(packed + n, sizeof(packed) - n, three, cut);
	memcpy(packed + n, skippable, sizeof(skippable));
	n += sizeof(skippable);
	n += pack(packed + n, sizeof(packed) - n, three + cut, strlen(three) - cut);
	n += pack(packed + n, sizeof(packed) - n, "", 0);
	T_ERR(open_bytes(packed, n), 0, &err);
	T_EQ(rest(&bad), 3);
	T_EQ(bad, 0);
}

static void a_compressed_trace_that_was_cut_off_gives_its_rows_and_is_told(void)
{
	enum { ROWS = 3000 };
	struct recorded *v = calloc(ROWS, sizeof(*v));
	static char packed[1 << 20];
	struct penstock_random r;
	uint64_t bad, before = 0;
	size_t len;
	FILE *f;

	T_OK(v);
	penstock_random_seed(&r, 1);
	make_recorded(v, ROWS, &r);
	write_recorded(t_path("whole"), v, ROWS,
		       &(struct trace_writer_opts){.pack = TRACE_PACK_ZSTD});
	f = fopen(t_path("whole"), "re");
	len = fread(packed, 1, sizeof(packed), f);
	fclose(f);
	for (size_t cut = len / 2; cut < len; cut += 1 + len / 100) {
		const char *first;
		uint64_t n;

		opts.strict = false;
		T_ERR(open_bytes(packed, cut), 0, &err);
		n = rest(&bad);
		T_OK(n >= before && n < ROWS);
		before = n;
		T_EQ(bad, 1);
		first = trace_reader_bad(reader)->text[0];
		T_STR_HAS(first, "ends inside a frame");
		opts.strict = true;
		T_ERR(open_bytes(packed, cut), 0, &err);
		for (uint64_t i = 0; i < n; i++)
			NEXT();
		T_EQ(next(), -EBADMSG);
		T_STR_HAS(err.msg, "ends inside a frame");
	}
	T_OK(before > 0);
	free(v);
}

static void damaged_compression_is_an_error(void)
{
	char packed[2000];
	size_t n = pack(packed, sizeof(packed), three, strlen(three));
	int r;

	memcpy(packed + n, "garbage behind it", 17);
	T_ERR(open_bytes(packed, n + 17), 0, &err);
	while ((r = next()) == 1)
		;
	T_EQ(r, -EIO);
	T_STR_HAS(err.msg, "/in: cannot be decompressed behind line");
}

static const struct t_case cases[] = {
	T_CASE(a_row_of_the_benchmark_is_understood),
	T_CASE(both_line_ends_and_a_missing_last_one_are_the_same),
	T_CASE(old_traces_have_four_columns),
	T_CASE(extended_columns_are_read_in_any_order),
	T_CASE(the_middle_of_a_file_needs_no_header),
	T_CASE(quoted_keys_hold_anything),
	T_CASE(a_quote_that_is_never_closed_spoils_one_row),
	T_CASE(numbers_of_any_length_are_read),
	T_CASE(rows_that_are_none_are_told_by_line),
	T_CASE(a_torn_last_row_is_not_taken_for_a_whole_one),
	T_CASE(long_keys_are_taken_up_to_a_limit),
	T_CASE(headers_without_what_is_needed_are_refused),
	T_CASE(what_was_written_is_read_back),
	T_CASE(several_frames_are_one_trace),
	T_CASE(a_compressed_trace_that_was_cut_off_gives_its_rows_and_is_told),
	T_CASE(damaged_compression_is_an_error),
};

int main(int argc, char **argv)
{
	const struct t_group group = {"trace_in", forget, forget, cases, T_COUNT(cases)};

	(void)argc;
	return t_run(&group, 1, argv + 1);
}
