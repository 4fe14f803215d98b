/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as CSV: what is accepted, and which line is wrong. */
#include "tests/common/kv_ops.h"

#include "base/util.h"
#include "tests/common/t.h"

static struct kv_texts *texts;
static struct kv_ops ops;
static struct penstock_err err;

static void setup(void)
{
	texts = kv_texts_new();
	T_OK(texts);
}

static void teardown(void)
{
	kv_ops_fini(&ops);
	kv_texts_free(texts);
}

static int parse(const char *text)
{
	kv_ops_fini(&ops);
	return kv_ops_parse(&ops, text, strlen(text), texts, &err);
}

static void is_op(size_t i, bool is_allocate, const char *key, uint32_t tokens)
{
	size_t len;

	T_OK(i < ops.nr);
	T_EQ(ops.v[i].allocate, is_allocate);
	T_EQ(ops.v[i].tokens, tokens);
	T_OK(!strcmp(kv_texts_get(texts, ops.v[i].key.n, &len), key) && len == strlen(key));
}

static void rows_are_operations(void)
{
	static const char *const same[] = {
		"op,key,tokens,result_tier\nA,a,10,gpu\nR,a,0,gpu\nR,b,0,miss\n",
		"op,key,tokens,result_tier\r\nA,a,10,gpu\r\nR,a,0,gpu\r\nR,b,0,miss\r\n",
		"A,a,10\nR,a,0\nR,b,0",
		"A,a,10\nR,a\nR,b,\n",
		"\"op\",\"key\",\"tokens\"\n\"A\",\"a\",\"10\"\n\"R\",a,0\nR,\"b\",0\n",
		"tokens,tier,key,op\n10,,a,A\n0,,a,R\n0,x,b,R\n",
		"\nA,a,10\n\n\r\nR,a,0\nR,b,0\n\n",
		"A,a,10,,,,,,,,,,,,,,,,,,,,,\nR,a,0\nR,b,0\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		T_ERR(parse(same[i]), 0, &err);
		T_EQ(ops.nr, 3);
		is_op(0, true, "a", 10);
		is_op(1, false, "a", 0);
		is_op(2, false, "b", 0);
		T_OK(kv_key_equal(ops.v[0].key, ops.v[1].key));
	}
}

static void keys_may_hold_anything_in_quotes(void)
{
	T_ERR(parse("A,\"a,\"\"b\"\"\nc\",4294967295\nA, x ,0\n"), 0, &err);
	is_op(0, true, "a,\"b\"\nc", UINT32_MAX);
	is_op(1, true, " x ", 0);
}

static void nothing_is_no_operation(void)
{
	T_ERR(parse(""), 0, &err);
	T_EQ(ops.nr, 0);
	T_ERR(parse("op,key,tokens\n"), 0, &err);
	T_EQ(ops.nr, 0);
}

static void the_line_that_is_wrong_is_named(void)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{"what\n", "line 1: neither an operation (A, R) nor names of columns (op, key, "
			   "tokens): 'what'"},
		{"op,key\n", "line 1: neither"},
		{"A,a,1\nW,a,1\n", "line 2: not an operation; A allocates, R reads: 'W'"},
		{"A,a,1\nop,key,tokens\n", "line 2: not an operation"},
		{"A,a,1\n\nA,b\n", "line 3: not a number of tokens"},
		{"A,a,-1\n", "'-1'"},
		{"A,a,1.5\n", "'1.5'"},
		{"A,a, 1\n", "' 1'"},
		{"A,a,4294967296\n", "'4294967296'"},
		{"A,a,99999999999999999999999\n", "not a number of tokens"},
		{"R,a,x\n", "'x'"},
		{"A,,1\n", "line 1: the key is missing"},
		{"A\n", "line 1: the key is missing"},
		{"A,a,1\nA,\"b,1\n", "line 2: a quote is not closed"},
		{"A,\"a\n\nb\",1\nX\n", "line 4: not an operation"},
		{"A,\"a\"b,1\n", "line 1: a comma or the end is missing"},
		{"A,a,1\rA,b,1\n", "line 1: a comma or the end is missing"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		T_ERR(parse(wrong[i].text), -EINVAL, &err);
		T_STR_HAS(err.msg, wrong[i].says);
	}
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(rows_are_operations),
		T_CASE(keys_may_hold_anything_in_quotes),
		T_CASE(nothing_is_no_operation),
		T_CASE(the_line_that_is_wrong_is_named),
	};
	const struct t_group group = {"ops", setup, teardown, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
