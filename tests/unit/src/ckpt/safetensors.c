/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: files as the reference library writes them, and what must not pass for one. */
#include <fcntl.h>
#include <inttypes.h>

#include <penstock/ckpt.h>

#include "base/random.h"
#include "base/util.h"
#include "ckpt/safetensors_header.h"
#include "tests/common/t.h"

static struct penstock_io *io;
static struct penstock_err err;

static void setup(void)
{
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
}

static void teardown(void)
{
	T_EQ(penstock_close(io, NULL), 0);
}

/* -------------------------------------------------------------------- the reference */

/* What safetensors 0.8.0 makes of the tensors below (safetensors.numpy.save). */
static const char reference[] =
	"{\"__metadata__\":{\"format\":\"pt\\\"\xe2\x82\xac\\b\\f\\r\"},"
	"\"t.uint64\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[0,16]},"
	"\"t.int64\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[16,32]},"
	"\"t.float64\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[32,48]},"
	"\"t.complex64\":{\"dtype\":\"C64\",\"shape\":[2],\"data_offsets\":[48,64]},"
	"\"empty\":{\"dtype\":\"F32\",\"shape\":[3,0,2],\"data_offsets\":[64,64]},"
	"\"t.float32\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[64,72]},"
	"\"t.uint32\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[72,80]},"
	"\"t.int32\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[80,88]},"
	"\"t.float16\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[88,92]},"
	"\"t.uint16\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[92,96]},"
	"\"\xc3\xa9\\\"\\\\\\n\\t\\u0001\\u001f/\x7f\":{\"dtype\":\"U16\",\"shape\":[],"
	"\"data_offsets\":[96,98]},"
	"\"t.int16\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[98,102]},"
	"\"t.int8\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[102,104]},"
	"\"\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[104,107]},"
	"\"t.uint8\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[107,109]},"
	"\"t.bool\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[109,111]}} ";

static const uint64_t two[] = {2}, three[] = {3}, hollow[] = {3, 0, 2};
static const unsigned char count_up[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* In no order at all. */
static const struct penstock_tensor tensors[] = {
	{"t.uint8", two, 1, PENSTOCK_U8, 2, 0, count_up},
	{"t.float16", two, 1, PENSTOCK_F16, 4, 0, count_up},
	{"t.uint64", two, 1, PENSTOCK_U64, 16, 0, count_up},
	{"t.bool", two, 1, PENSTOCK_BOOL, 2, 0, "\x00\x01"},
	{"empty", hollow, 3, PENSTOCK_F32, 0, 0, NULL},
	{"t.int8", two, 1, PENSTOCK_I8, 2, 0, count_up},
	{"", three, 1, PENSTOCK_U8, 3, 0, "\x00\x01\x02"},
	{"t.int16", two, 1, PENSTOCK_I16, 4, 0, count_up},
	{"t.int64", two, 1, PENSTOCK_I64, 16, 0, count_up},
	{"t.uint16", two, 1, PENSTOCK_U16, 4, 0, count_up},
	{"t.int32", two, 1, PENSTOCK_I32, 8, 0, count_up},
	{"t.complex64", two, 1, PENSTOCK_C64, 16, 0, count_up},
	{"t.uint32", two, 1, PENSTOCK_U32, 8, 0, count_up},
	{"\xc3\xa9\"\\\n\t\x01\x1f/\x7f", NULL, 0, PENSTOCK_U16, 2, 0, "\x02\x01"},
	{"t.float32", two, 1, PENSTOCK_F32, 8, 0, count_up},
	{"t.float64", two, 1, PENSTOCK_F64, 16, 0, count_up},
};
static const struct penstock_meta meta[] = {{"format", "pt\"\xe2\x82\xac\b\f\r"}};

static const unsigned char reference_data[] =
	"\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20"
	"\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20"
	"\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\1\2\3\4\1\2\3\4\2\1\1\2\3\4\1\2"
	"\0\1\2\1\2\0\1";

static void files_are_those_of_the_reference_byte_for_byte(void)
{
	size_t text = sizeof(reference) - 1, data = sizeof(reference_data) - 1;
	unsigned char want[2048] = {0x18, 0x04};

	T_EQ(text, 0x418);
	T_EQ(data, 111);
	memcpy(want + 8, reference, text);
	memcpy(want + 8 + text, reference_data, data);
	T_ERR(penstock_safetensors_save(io, t_path("f"), tensors, T_COUNT(tensors), meta, 1, NULL,
					&err),
	      0, &err);
	T_FILE(t_path("f"), want, 8 + text + data);
	/* none, with metadata that is there and empty, and without any */
	T_ERR(penstock_safetensors_save(io, t_path("f"), NULL, 0, meta, 0, NULL, &err), 0, &err);
	T_FILE(t_path("f"), "\x18\0\0\0\0\0\0\0{\"__metadata__\":{}}     ", 32);
	T_ERR(penstock_safetensors_save(io, t_path("f"), NULL, 0, NULL, 0, NULL, &err), 0, &err);
	T_FILE(t_path("f"), "\x08\0\0\0\0\0\0\0{}      ", 16);
}

static void what_was_saved_comes_back(void)
{
	struct penstock_safetensors *s;
	uint64_t i;

	T_ERR(penstock_safetensors_save(io, t_path("f"), tensors, T_COUNT(tensors), meta, 1, NULL,
					&err),
	      0, &err);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), 0, &err);
	for (i = 0; i < T_COUNT(tensors); i++) {
		int64_t k = penstock_safetensors_find(s, tensors[i].name);
		const struct penstock_tensor *t;
		char buf[16] = "";
		struct penstock_tensor_read rd = {.buf = buf};

		T_OK(k >= 0);
		t = penstock_safetensors_get(s, (uint64_t)k);
		T_OK(t && !strcmp(t->name, tensors[i].name));
		T_EQ(t->dtype, tensors[i].dtype);
		T_EQ(t->rank, tensors[i].rank);
		for (unsigned d = 0; d < t->rank; d++)
			T_EQ(t->shape[d], tensors[i].shape[d]);
		T_EQ(t->len, tensors[i].len);
		rd.tensor = (uint64_t)k;
		T_ERR(penstock_safetensors_read(s, &rd, 1, &err), 0, &err);
		if (t->len)
			T_MEM(buf, tensors[i].buf, t->len);
	}
	T_EQ(penstock_safetensors_get(s, i), NULL);
	T_EQ(penstock_safetensors_find(s, "t.nope"), -ENOENT);
	T_OK(!strcmp(penstock_safetensors_metadata(s, 0)->key, "format"));
	T_OK(!strcmp(penstock_safetensors_metadata(s, 0)->value, meta[0].value));
	T_EQ(penstock_safetensors_metadata(s, 1), NULL);
	penstock_safetensors_close(s);
}

static void what_would_be_no_file_is_not_written(void)
{
	static const uint64_t huge[] = {1ull << 62, 1ull << 62}, odd[] = {3};
	static const struct {
		struct penstock_tensor t;
		const char *why;
	} bad[] = {
		{{NULL, two, 1, PENSTOCK_U8, 2, 0, count_up}, "name is NULL"},
		{{"\xff", two, 1, PENSTOCK_U8, 2, 0, count_up}, "name is not UTF-8"},
		{{"__metadata__", two, 1, PENSTOCK_U8, 2, 0, count_up}, "name is __metadata__"},
		{{"a", two, 1, 99, 2, 0, count_up}, "no dtype 99"},
		{{"a", two, 1, PENSTOCK_U8, 3, 0, count_up}, "'a': its len is 3"},
		{{"a", huge, 2, PENSTOCK_U8, 0, 0, count_up}, "'a': its len is 0"},
		{{"a", odd, 1, PENSTOCK_F4, 1, 0, count_up}, "'a': its len is 1"},
		{{"a", two, 1, PENSTOCK_U8, 2, 0, NULL}, "'a': buf is NULL"},
		{{"a", NULL, 1, PENSTOCK_U8, 2, 0, count_up}, "no shape of rank 1"},
		{{"a", two, 65, PENSTOCK_U8, 2, 0, count_up}, "no shape of rank 65"},
	};
	static const struct penstock_meta twice[] = {{"k", "1"}, {"k", "2"}},
					  none[] = {{"k", NULL}};
	struct penstock_tensor pair[2] = {tensors[0], tensors[0]};

	T_ERR(penstock_safetensors_save(io, t_path("f"), NULL, 0, NULL, 0, NULL, &err), 0, &err);
	for (size_t i = 0; i < T_COUNT(bad); i++) {
		T_OK(penstock_safetensors_save(io, t_path("f"), &bad[i].t, 1, NULL, 0, NULL, &err) <
		     0);
		T_STR_HAS(err.msg, bad[i].why);
	}
	T_ERR(penstock_safetensors_save(io, t_path("f"), pair, 2, NULL, 0, NULL, &err), -EINVAL,
	      &err);
	T_STR_HAS(err.msg, "tensor 't.uint8': is there twice");
	T_ERR(penstock_safetensors_save(io, t_path("f"), NULL, 0, twice, 2, NULL, &err), -EINVAL,
	      &err);
	T_ERR(penstock_safetensors_save(io, t_path("f"), NULL, 0, none, 1, NULL, &err), -EINVAL,
	      &err);
	T_FILE(t_path("f"), "\x08\0\0\0\0\0\0\0{}      ", 16); /* the old one */
}

/* ------------------------------------------------------------------------ the rules */

/* A file with this header and so many bytes behind it. */
static void make(const char *text, size_t len, uint64_t data)
{
	char *buf = calloc(1, 8 + len + data);
	uint64_t n = len;
	int fd = open(t_path("f"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	T_OK(buf && fd >= 0);
	memcpy(buf, &n, 8);
	memcpy(buf + 8, text, len);
	T_EQ(write(fd, buf, 8 + len + data), 8 + len + data);
	close(fd);
	free(buf);
	unlink(t_path("f.crc"));
}

#define U8(name, n, a, b) \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #n "],\"data_offsets\":[" #a "," #b "]}"
#define ENTRY(fields) "{\"a\":{" fields "}}"

static void files_in_every_form_the_rules_allow_are_read(void)
{
	static const struct {
		const char *text;
		uint64_t data, nr;
	} good[] = {
		{"{}", 0, 0},
		{"{}   \n\t\r ", 0, 0},
		{"{" U8("a", 3, 0, 3) "}", 3, 1},
		{"{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 3 ] , \"data_offsets\" : [ 0 , 3 "
		 "] "
		 "} }",
		 3, 1},
		{"{" U8("b", 2, 3, 5) "," U8("a", 3, 0, 3) "}", 5, 2}, /* any order */
		{"{" U8("a", 0, 0, 0) "," U8("b", 0, 0, 0) "," U8("c", 1, 0, 1) "}", 1, 3},
		{"{" U8("c", 1, 0, 1) "," U8("a", 0, 1, 1) "}", 1, 2},
		{ENTRY("\"data_offsets\":[0,1],\"shape\":[],\"dtype\":\"U8\""), 1, 1},
		{ENTRY("\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]"), 3, 1},
		{ENTRY("\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]"), 3, 1},
		{ENTRY("\"dtype\":\"F6_E3M2\",\"shape\":[8],\"data_offsets\":[0,6]"), 6, 1},
		{ENTRY("\"dtype\":\"F8_E8M0\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, 1},
		{ENTRY("\"dtype\":\"F8_E4M3FNUZ\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, 1},
		{ENTRY("\"dtype\":\"C64\",\"shape\":[1,1,1],\"data_offsets\":[0,8]"), 8, 1},
		/* no element, however large the other dimensions */
		{ENTRY("\"dtype\":\"U64\",\"shape\":[18446744073709551615,18446744073709551615,0],"
		       "\"data_offsets\":[0,0]"),
		 0, 1},
		/* keys that the format does not have */
		{ENTRY("\"x\":[1,-2.5e+3,{\"y\":[]},\"\\u20ac\",true,false,null,{}],\"dtype\":"
		       "\"U8\","
		       "\"shape\":[1],\"data_offsets\":[0,1]"),
		 1, 1},
		{"{\"__metadata__\":{\"a\":\"b\",\"c\":\"\"}," U8("a", 1, 0, 1) "}", 1, 1},
		{"{\"__metadata__\":{}}", 0, 0},
		{"{" U8("\\ud83d\\ude00\\u0041\\\"\\/", 1, 0, 1) "}", 1, 1},
	};
	struct penstock_safetensors *s;

	for (size_t i = 0; i < T_COUNT(good); i++) {
		uint64_t n = 0;

		make(good[i].text, strlen(good[i].text), good[i].data);
		T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), 0, &err);
		while (penstock_safetensors_get(s, n))
			n++;
		T_EQ(n, good[i].nr);
		if (i == T_COUNT(good) - 1)
			T_OK(penstock_safetensors_find(s, "\xf0\x9f\x98\x80"
							  "A\"/") == 0);
		penstock_safetensors_close(s);
	}
}

static void what_breaks_a_rule_is_refused_and_the_rule_is_named(void)
{
	static const struct {
		const char *text;
		uint64_t data;
		const char *why;
	} bad[] = {
		{" {}", 0, "byte 0: '{' is missing"},
		{"[]", 0, "'{' is missing"},
		{"{", 0, "would have 1 bytes"},
		{"{ ", 0, "'\"' is missing"},
		{"{}x", 0, "behind the last"},
		{"{}{}", 0, "behind the last"},
		{"{\"a\"}", 0, "':' is missing"},
		{"{\"a\":1}", 0, "'{' is missing"},
		{"{\"a\":null}", 0, "'{' is missing"},
		{"{\"a\":{},}", 0, "has no dtype"},
		{"{" U8("a", 1, 0, 1) ",}", 1, "'\"' is missing"},
		{"{" U8("a", 1, 0, 1) " " U8("b", 1, 1, 2) "}", 2, "',' or '}' is missing"},
		{"{\"a", 0, "does not end"},
		{"{\"a\\", 0, "no such escape"},
		{"{\"a\n\":{}}", 0, "control character"},
		{"{\"\\x\":{}}", 0, "no such escape"},
		{"{\"\\u12g4\":{}}", 0, "no such escape"},
		{"{\"\\u12", 0, "no such escape"},
		{"{\"\\ud800\":{}}", 0, "no such escape"},
		{"{\"\\ud800\\u0041\":{}}", 0, "no such escape"},
		{"{\"\\udc00\":{}}", 0, "no such escape"},
		{"{\"\\u0000\":{}}", 0, "a NUL in a string"},
		{"{\"\xff\":{}}", 0, "not UTF-8"},
		{"{\"\xc0\x80\":{}}", 0, "not UTF-8"},
		{"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
		{"{\"\xf4\x90\x80\x80\":{}}", 0, "not UTF-8"},
		{"{\"\xe2\x82\":{}}", 0, "not UTF-8"},
		{"{\"\xf0\x80\x80\x80\":{}}", 0, "not UTF-8"},
		{ENTRY("\"shape\":[1],\"data_offsets\":[0,1]"), 1, "'a': has no dtype"},
		{ENTRY("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "'a': has no shape"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1]"), 1, "'a': has no data_offsets"},
		{ENTRY("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
		 "there twice"},
		{ENTRY("\"dtype\":\"u8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
		 "unknown dtype"},
		{ENTRY("\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]"), 1, "'\"' is missing"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]"), 1, "'[' is missing"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1,
		 "whole number"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]"), 1,
		 "whole number"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1e0],\"data_offsets\":[0,1]"), 1,
		 "whole number"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]"), 1,
		 "begins with 0"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]"), 1,
		 "whole number"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,1]"),
		 1, "beyond 2^64"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"),
		 0, "shape is beyond 2^64"},
		{ENTRY("\"dtype\":\"U64\",\"shape\":[288230376151711744],\"data_offsets\":[0,0]"),
		 0, "shape is beyond 2^64"},
		{ENTRY("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]"), 2, "whole bytes"},
		{ENTRY("\"dtype\":\"F6_E2M3\",\"shape\":[2],\"data_offsets\":[0,2]"), 2,
		 "whole bytes"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1, "',' is missing"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"), 1,
		 "']' is missing"},
		{ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]"), 1,
		 "end before they begin"},
		{ENTRY("\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
		 "not what dtype and shape say"},
		{ENTRY("\"x\":tru,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
		 "no JSON value"},
		{ENTRY("\"x\":1.,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
		 "no JSON value"},
		{ENTRY("\"x\":-,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
		 "no JSON value"},
		{"{" U8("a", 1, 1, 2) "}", 2, "'a': there is a hole before it"},
		{"{" U8("a", 1, 0, 1) "," U8("b", 1, 2, 3) "}", 3,
		 "'b': there is a hole before it"},
		{"{" U8("a", 2, 0, 2) "," U8("b", 2, 1, 3) "}", 3, "'b': overlaps the one before"},
		{"{" U8("a", 2, 0, 2) "," U8("b", 2, 0, 2) "}", 2, "'b': overlaps the one before"},
		{"{" U8("a", 2, 0, 2) "," U8("a", 0, 2, 2) "}", 2, "'a': is there twice"},
		{"{" U8("a", 2, 0, 2) "}", 1, "'a': ends behind the end of the file"},
		{"{" U8("a", 2, 0, 2) "}", 3, "has 1 bytes that belong to no tensor"},
		{"{}", 5, "has 5 bytes that belong to no tensor"},
		{"{" U8("a", 2, 18446744073709551614, 18446744073709551616) "}", 2, "beyond 2^64"},
		{"{" U8("a", 1, 18446744073709551614, 18446744073709551615) "}", 1, "hole"},
		{"{\"__metadata__\":1}", 0, "'{' is missing"},
		{"{\"__metadata__\":{\"a\":1}}", 0, "'\"' is missing"},
		{"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "'a' is there twice"},
		{"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is there twice"},
	};
	struct penstock_safetensors *s;

	for (size_t i = 0; i < T_COUNT(bad); i++) {
		make(bad[i].text, strlen(bad[i].text), bad[i].data);
		T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), -EINVAL, &err);
		T_STR_HAS(err.msg, bad[i].why);
		T_STR_HAS(err.msg, "/f: "); /* behind a path that may be cut */
	}
}

static void a_header_that_nests_deeply_is_refused(void)
{
	enum { DEEP = 100000 };
	char *text = malloc(2 * DEEP + 100);
	struct penstock_safetensors *s;
	size_t n;

	T_OK(text);
	n = (size_t)sprintf(text, "{\"a\":{\"x\":");
	memset(text + n, '[', DEEP);
	memset(text + n + DEEP, ']', DEEP);
	n += 2 * DEEP;
	n += (size_t)sprintf(text + n, "}}");
	make(text, n, 0);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "nested too deeply");
	free(text);
}

static void lengths_of_headers_are_checked(void)
{
	static const uint64_t bad[] = {0, 1, 9, 100000001, 1ull << 40, UINT64_MAX, UINT64_MAX - 7};
	struct penstock_safetensors *s;
	int fd;

	for (size_t i = 0; i < T_COUNT(bad); i++) {
		make("{}      ", 8, 0);
		fd = open(t_path("f"), O_WRONLY);
		T_OK(fd >= 0 && pwrite(fd, &bad[i], 8, 0) == 8 && close(fd) == 0);
		T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), -EINVAL, &err);
		T_STR_HAS(err.msg, "is no safetensors file");
	}
	for (int64_t i = 0; i < 10; i++) { /* cut */
		make("{}", 2, 0);
		T_OK(truncate(t_path("f"), 9 - i) == 0);
		T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), -EINVAL, &err);
	}
}

/* As large as they may be, and one byte more. */
static void headers_of_100_mb_are_read(void)
{
	enum { EACH = 80 };
	uint64_t len = T_TSAN || T_ASAN ? 5000000 : 100000000, nr = len / EACH - 1, at = 1;
	char *text = malloc(len + 1);
	struct penstock_safetensors *s;

	T_OK(text);
	memset(text, ' ', len + 1);
	text[0] = '{';
	for (uint64_t i = 0; i < nr; i++) {
		int n = sprintf(text + at,
				"%s\"%08" PRIu64
				"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\""
				":[%" PRIu64 ",%" PRIu64 "]}",
				i ? "," : "", nr - i, i, i + 1);

		text[at + (uint64_t)n] = ' ';
		at += EACH;
	}
	text[at] = '}';
	make(text, len, nr);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), 0, &err);
	T_EQ(penstock_safetensors_find(s, "00000001"), nr - 1);
	T_OK(!penstock_safetensors_get(s, nr));
	penstock_safetensors_close(s);
	if (len == SAFETENSORS_HEADER_MAX) {
		make(text, len + 1, nr);
		T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), -EINVAL, &err);
	}
	free(text);
}

/* --------------------------------------------------------------------------- slices */

/* Element (i, j, k, ...) of a tensor in memory, one after the other, as a slice would be. */
static void slice_by_hand(char *to, const char *from, size_t size, unsigned rank,
			  const uint64_t *shape, const uint64_t *start, const uint64_t *count)
{
	uint64_t total = 1;

	for (unsigned d = 0; d < rank; d++)
		total *= count[d];
	for (uint64_t n = 0; n < total; n++) {
		uint64_t rest = n, at = 0, scale = 1;

		for (unsigned d = rank; d-- > 0;) {
			at += (start[d] + rest % count[d]) * scale;
			rest /= count[d];
			scale *= shape[d];
		}
		memcpy(to + n * size, from + at * size, size);
	}
}

static void any_slice_is_what_indexing_gives(void)
{
	static const uint64_t shape[] = {7, 5, 33, 12}, wide[] = {3000, 700};
	static char data[7 * 5 * 33 * 12 * 4];
	char *big = malloc(3000 * 700 * 2), *got = malloc(3000 * 700 * 2),
	     *want = malloc(3000 * 700 * 2);
	struct penstock_tensor t[] = {
		{"a", shape, 4, PENSTOCK_F32, sizeof(data), 0, data},
		{"b", wide, 2, PENSTOCK_BF16, 3000 * 700 * 2, 0, big},
	};
	struct penstock_random rnd;
	struct penstock_safetensors *s;

	T_OK(big && got && want);
	penstock_random_seed(&rnd, t_seed());
	penstock_pattern_fill(data, sizeof(data), 1, 0);
	penstock_pattern_fill(big, 3000 * 700 * 2, 2, 0);
	T_ERR(penstock_safetensors_save(io, t_path("f"), t, 2, NULL, 0, NULL, &err), 0, &err);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), 0, &err);
	for (unsigned round = 0; round < 200; round += T_STEP) {
		const struct penstock_tensor *of = &t[round % 2];
		uint64_t start[4] = {0}, count[4], total = round % 2 ? 2 : 4;
		struct penstock_tensor_read rd = {.buf = got, .start = start, .count = count};

		for (unsigned d = 0; d < of->rank; d++) {
			count[d] = penstock_random_below(&rnd, 3)
					   ? penstock_random_below(&rnd, of->shape[d] + 1)
					   : of->shape[d];
			start[d] = penstock_random_below(&rnd, of->shape[d] - count[d] + 1);
			total *= count[d];
		}
		rd.tensor = (uint64_t)penstock_safetensors_find(s, of->name);
		memset(got, 0x5a, total + 1 < 3000 * 700 * 2 ? total + 1 : total);
		T_ERR(penstock_safetensors_read(s, &rd, 1, &err), 0, &err);
		slice_by_hand(want, of->buf, round % 2 ? 2 : 4, of->rank, of->shape, start, count);
		T_MEM(got, want, total);
		T_OK(total == 3000 * 700 * 2 || got[total] == 0x5a);
	}
	penstock_safetensors_close(s);
	free(big);
	free(got);
	free(want);
}

static void slices_outside_or_within_a_byte_are_refused(void)
{
	static const uint64_t shape[] = {4, 6}, zero[] = {0, 0}, one[] = {1, 1}, whole[] = {4, 6},
			      most[] = {UINT64_MAX, 2}, row[] = {1, 6}, half[] = {4, 4},
			      at2[] = {0, 2};
	static const char data[12] = "abcdefghijkl";
	struct penstock_tensor t = {"q", shape, 2, PENSTOCK_F4, 12, 0, data};
	char got[12];
	struct penstock_safetensors *s;
	struct penstock_tensor_read bad[] = {
		{0, got, one, whole}, {0, got, most, one},  {0, got, zero, most},
		{1, got, NULL, NULL}, {0, got, zero, NULL}, {0, got, NULL, one},
		{0, got, one, one},
	};
	struct penstock_tensor_read rd = {0, got, one, row};

	T_ERR(penstock_safetensors_save(io, t_path("f"), &t, 1, NULL, 0, NULL, &err), 0, &err);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), 0, &err);
	for (size_t i = 0; i < T_COUNT(bad); i++)
		T_ERR(penstock_safetensors_read(s, &bad[i], 1, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "smaller than a byte");
	rd.start = (const uint64_t[]){2, 0};
	T_ERR(penstock_safetensors_read(s, &rd, 1, &err), 0, &err);
	T_MEM(got, data + 6, 3);
	rd = (struct penstock_tensor_read){0, got, at2, half};
	T_ERR(penstock_safetensors_read(s, &rd, 1, &err), 0, &err);
	T_MEM(got, "bcefhikl", 8);
	penstock_safetensors_close(s);
}

/* -------------------------------------------------------------------- verification */

static void a_flipped_bit_is_named_with_its_tensor(void)
{
	static const uint64_t shape[] = {1 << 20};
	char *data = calloc(3, 1 << 20);
	struct penstock_tensor t[] = {
		{"layer.0", shape, 1, PENSTOCK_U8, 1 << 20, 0, data},
		{"layer.1", shape, 1, PENSTOCK_U8, 1 << 20, 0, data + (1 << 20)},
		{"layer.2", shape, 1, PENSTOCK_U8, 1 << 20, 0, data + (2 << 20)},
	};
	struct penstock_tensor_read rd = {2, data, NULL, NULL};
	struct penstock_safetensors *s;
	int fd;

	T_OK(data);
	T_ERR(penstock_safetensors_save(io, t_path("f"), t, 3, NULL, 0, NULL, &err), 0, &err);
	fd = open(t_path("f"), O_WRONLY);
	T_OK(fd >= 0 && pwrite(fd, "\x10", 1, (3 << 20) + 5) == 1 && close(fd) == 0);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), 0, &err);
	T_ERR(penstock_safetensors_read(s, &rd, 1, &err), -EBADMSG, &err);
	T_STR_HAS(err.msg, "tensor 'layer.2'");
	T_STR_HAS(err.msg, "/f: "); /* behind a path that may be cut */
	T_STR_HAS(err.msg, "bytes 3145728 to ");
	rd.tensor = 0;
	T_ERR(penstock_safetensors_read(s, &rd, 1, &err), 0, &err);
	penstock_safetensors_close(s);
	free(data);
}

/* A byte of the file there, and what opening it then says. */
static const char *open_damaged(const char *byte, off_t offset)
{
	struct penstock_safetensors *s;
	char was;
	int fd = open(t_path("f"), O_RDWR);

	T_OK(fd >= 0 && pread(fd, &was, 1, offset) == 1 && was != *byte);
	T_EQ(pwrite(fd, byte, 1, offset), 1);
	T_ERR(penstock_safetensors_open(&s, io, t_path("f"), NULL, &err), -EBADMSG, &err);
	T_OK(pwrite(fd, &was, 1, offset) == 1 && close(fd) == 0);
	return err.msg;
}

/* What lies beside a header cannot be told from it: they have a checksum in common. */
static void damage_beside_the_header_is_named_by_what_the_header_says(void)
{
	static const uint64_t shape[] = {100};
	static const char data[100];
	struct penstock_tensor t[] = {
		{"layer.0", shape, 1, PENSTOCK_U8, 100, 0, data},
		{"layer.1", shape, 1, PENSTOCK_U8, 100, 0, data},
		{"layer.2", shape, 1, PENSTOCK_U8, 100, 0, data},
	};

	T_ERR(penstock_safetensors_save(io, t_path("f"), t, 3, NULL, 0, NULL, &err), 0, &err);
	T_STR_HAS(open_damaged("X", 400),
		  "the header, tensor 'layer.0' or one of the 2 behind it: ");
	T_STR_HAS(err.msg, "/f: ");
	T_STR_HAS(err.msg, "bytes 0 to ");
	/* none is believed in for what it cannot be */
	T_STR_HAS(open_damaged("X", 8), "the header: ");
	T_STR_HAS(open_damaged("\xff", 7), "the header: ");
	T_STR_HAS(open_damaged("9", 64), "the header: ");
	T_ERR(penstock_safetensors_save(io, t_path("f"), t, 1, NULL, 0, NULL, &err), 0, &err);
	T_STR_HAS(open_damaged("X", 120), "the header or tensor 'layer.0': ");
}

static void dtypes_have_names_and_sizes(void)
{
	unsigned i = 0;

	for (; penstock_dtype_name(i); i++) {
		T_EQ(penstock_dtype_find(penstock_dtype_name(i)), i);
		T_OK(penstock_dtype_bits(i) >= 4 && penstock_dtype_bits(i) <= 64);
	}
	T_EQ(i, PENSTOCK_U64 + 1);
	T_EQ(penstock_dtype_bits(i), 0);
	T_EQ(penstock_dtype_find("F128"), -ENOENT);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(files_are_those_of_the_reference_byte_for_byte),
		T_CASE(what_was_saved_comes_back),
		T_CASE(what_would_be_no_file_is_not_written),
		T_CASE(files_in_every_form_the_rules_allow_are_read),
		T_CASE(what_breaks_a_rule_is_refused_and_the_rule_is_named),
		T_CASE(a_header_that_nests_deeply_is_refused),
		T_CASE(lengths_of_headers_are_checked),
		T_CASE(headers_of_100_mb_are_read),
		T_CASE(any_slice_is_what_indexing_gives),
		T_CASE(slices_outside_or_within_a_byte_are_refused),
		T_CASE(a_flipped_bit_is_named_with_its_tensor),
		T_CASE(damage_beside_the_header_is_named_by_what_the_header_says),
		T_CASE(dtypes_have_names_and_sizes),
	};
	static const struct t_group groups[] = {
		{"safetensors", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
