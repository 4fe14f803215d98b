/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as they are read: every format, whole and broken. */
#include <zstd.h>

#include "base/random.h"
#include "load/trace/trace.h"
#include "tests/common/t.h"

#define SIX "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"

static struct trace_reader *reader;
static struct trace_row row;
static struct sluice_err err;
static struct trace_reader_opts opts;

static void make_bytes(const char *name, const void *bytes, size_t len)
{
	FILE *f = fopen(t_path(name), "we");

	T_OK(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static void forget(void)
{
	trace_reader_close(reader);
	reader = NULL;
	opts = (struct trace_reader_opts){.bytes_per_token = 10};
}

static int open_bytes(const void *bytes, size_t len)
{
	trace_reader_close(reader);
	reader = NULL;
	make_bytes("in", bytes, len);
	return trace_reader_open(&reader, t_path("in"), &opts, &err);
}

static void open_text(const char *text)
{
	T_ERR(open_bytes(text, strlen(text)), 0, &err);
}

static int next(void)
{
	memset(&row, 0x5a, sizeof(row)); /* a reader sets all of it */
	return trace_read(reader, &row, &err);
}

#define NEXT() T_ERR(next(), 1, &err)
#define END()                           \
	do {                            \
		T_ERR(next(), 0, &err); \
		T_ERR(next(), 0, &err); \
	} while (0)

static bool key_is(const char *key)
{
	return row.key_len == strlen(key) && !memcmp(row.key, key, row.key_len);
}

/* How many rows follow, and how many that are none. */
static uint64_t rest(uint64_t *bad)
{
	uint64_t n = 0;
	int r;

	while ((r = next()) == 1)
		n++;
	T_ERR(r, 0, &err);
	*bad = trace_reader_bad(reader, NULL);
	return n;
}

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
		T_EQ(trace_reader_bad(reader, NULL), 0);
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
	trace_reader_bad(reader, &first);
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
		{"", "1 columns"},
		{"x", "1 columns"},
		{"1.0,Read,1,Tier-0,k", "5 columns"},
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
		trace_reader_bad(reader, &first);
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
static void make_recorded(struct recorded *v, size_t nr, struct sluice_random *r)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_/ ";
	static const char special[] = "\",\r\n\t#\xc3\xbc";
	uint64_t now = 1735689600000000;

	for (size_t i = 0; i < nr; i++) {
		struct trace_row *w = &v[i].row;
		size_t len = sluice_random_below(r, sizeof(v[i].key));

		*w = TRACE_ROW_INIT;
		now += sluice_random_below(r, 3000000) - (sluice_random_below(r, 9) ? 0 : 1000000);
		w->time_ns = now * 1000;
		w->size = sluice_random_next(r) >> sluice_random_below(r, 64);
		w->op = (uint8_t)sluice_random_below(r, 2);
		w->phase = (uint8_t)sluice_random_below(r, TRACE_PHASES);
		w->tier = (uint8_t)sluice_random_below(r, TRACE_TIERS);
		for (size_t k = 0; k < len; k++)
			v[i].key[k] = letters[sluice_random_below(r, strlen(letters))];
		if (len && !sluice_random_below(r, 100))
			v[i].key[sluice_random_below(r, len)] =
				special[sluice_random_below(r, strlen(special))];
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
	struct sluice_random r;

	T_OK(v);
	sluice_random_seed(&r, t_seed());
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

static size_t pack(char *to, size_t room, const char *text, size_t len)
{
	size_t n = ZSTD_compress(to, room, text, len, 1);

	T_OK(!ZSTD_isError(n));
	return n;
}

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
	struct sluice_random r;
	uint64_t bad, before = 0;
	size_t len;
	FILE *f;

	T_OK(v);
	sluice_random_seed(&r, 1);
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
		trace_reader_bad(reader, &first);
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
	T_STR_HAS(err.msg, "/in: the compressed data is damaged");
}

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
		T_OK(row.size == 5120 && row.time_ns == 0 && row.tier == TRACE_NO_TIER);
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

static void sizes_of_mooncake_are_given(void)
{
	static const char text[] = "{\"timestamp\": 0, \"hash_ids\": [5]}\n";

	opts = (struct trace_reader_opts){.bytes_per_token = 131072, .block_tokens = 16};
	open_text(text);
	NEXT();
	T_EQ(row.size, 16 * 131072);
	opts = (struct trace_reader_opts){0};
	T_EQ(open_bytes(text, strlen(text)), -EINVAL);
	T_STR_HAS(err.msg, "bytes per token");
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
		trace_reader_bad(reader, &first);
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
	T_EQ(trace_reader_bad(reader, NULL), 0);
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
		trace_reader_bad(reader, &first);
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
			"pipe\t2025-01-01T01:00:00.000000001+01:00\t"
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
		trace_reader_bad(reader, &first);
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
	T_STR_HAS(err.msg, "sluice kv");
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
	trace_reader_head(reader, &text, &len);
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
	T_CASE(ids_of_mooncake_are_written_once_and_read_later),
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
	const struct t_group group = {"trace_in", forget, forget, cases, T_COUNT(cases)};

	(void)argc;
	return t_run(&group, 1, argv + 1);
}
