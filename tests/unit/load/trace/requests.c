/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded requests: BurstGPT's CSV and ShareGPT's JSON, good and bad. */
#include <sys/stat.h>

#include "load/trace/trace.h"
#include "tests/common/t.h"

#define HEADER "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"

static struct trace_request *v;
static size_t nr;
static struct trace_bad bad;
static struct penstock_err err;

static const char *make(const char *name, const char *text)
{
	const char *path = t_path(name);
	FILE *f = fopen(path, "we");

	T_OK(f && fwrite(text, 1, strlen(text), f) == strlen(text) && fclose(f) == 0);
	return path;
}

static void forget(void)
{
	trace_requests_free(v, nr);
	v = NULL;
	nr = 0;
}

static int burst(const char *path)
{
	forget();
	bad.nr = 0;
	bad.text[0][0] = 0;
	return trace_burst_load(&v, &nr, path, &bad, &err);
}

static void rows_of_burstgpt_are_requests(void)
{
	T_ERR(burst(make("b.csv", HEADER "5,ChatGPT,472,18,490,Conversation log\n"
					 "45.5,GPT-4,1087,230,1317,API log\r\n"
					 "1e2,\"a,b\", 0 ,\"7\",,\n")),
	      0, &err);
	T_EQ(nr, 3);
	T_EQ(bad.nr, 0);
	T_OK(v[0].time_sec == 5 && v[0].context == 472 && v[0].generate == 18 && !v[0].id);
	T_OK(v[1].time_sec == 45.5 && v[1].context == 1087 && v[1].generate == 230);
	T_OK(v[2].time_sec == 100 && v[2].context == 0 && v[2].generate == 7);
}

static void columns_are_found_by_name(void)
{
	T_ERR(burst(make("b.csv", "\xef\xbb\xbfResponse tokens,x,Request tokens\n1,2,3\n")), 0,
	      &err);
	T_EQ(nr, 1);
	T_OK(v[0].time_sec == 0 && v[0].context == 3 && v[0].generate == 1);
	T_ERR(burst(make("b.csv", "Timestamp,Request tokens\n1,2\n3,4\n")), 0, &err);
	T_EQ(nr, 0);
	T_EQ(bad.nr, 3); /* the header and both rows */
	T_STR_HAS(bad.text[0], "line 1: is not the header of BurstGPT: there is no column "
			       "'Response tokens'");
}

static void rows_that_cannot_be_used_are_counted(void)
{
	T_ERR(burst(make("b.csv", HEADER "1,m,x,1,1,l\n"
					 "2,m,1,-5,1,l\n"
					 "soon,m,1,1,1,l\n"
					 "nan,m,1,1,1,l\n"
					 "3,m,1\n"
					 "4,m,99999999999,1,1,l\n"
					 "5,m,1.5,1,1,l\n"
					 "6,\"m,1,1,1,l\n"
					 "\n"
					 "7,m,1,2,3,l\n")),
	      0, &err);
	T_EQ(nr, 1);
	T_OK(v[0].time_sec == 7);
	T_EQ(bad.nr, 8);
	T_STR_HAS(bad.text[0], "line 2: Request tokens 'x' is not valid");
}

static void a_strict_burst_ends_at_the_first_bad_row(void)
{
	bad.strict = true;
	T_EQ(burst(make("b.csv", HEADER "1,m,1,1,1,l\n\n2,m,1,-5,1,l\n3,m,x,1,1,l\n")), -EBADMSG);
	T_STR_HAS(err.msg, "b.csv: line 4: Response tokens '-5' is not valid");
	T_EQ(burst(make("b.csv", HEADER "3,m,1\n")), -EBADMSG);
	T_STR_HAS(err.msg, "line 2: has no 'Response tokens'");
	T_ERR(burst(make("b.csv", HEADER "1,m,1,1,1,l\n")), 0, &err);
	bad.strict = false;
}

static void bad_rows_of_several_files_are_told_with_the_file(void)
{
	T_EQ(mkdir(t_path("two"), 0777), 0);
	make("two/1.csv", HEADER "1,m,2,2,4,l\n");
	make("two/2.csv", HEADER "soon,m,1,1,2,l\n");
	T_ERR(burst(t_path("two")), 0, &err);
	T_EQ(bad.nr, 1);
	T_STR_HAS(bad.text[0], "2.csv: line 2: Timestamp 'soon' is not valid");
}

static void an_empty_burst_has_no_requests(void)
{
	T_ERR(burst(make("b.csv", "")), 0, &err);
	T_EQ(nr, 0);
	T_ERR(burst(make("b.csv", HEADER)), 0, &err);
	T_EQ(nr, 0);
	T_EQ(bad.nr, 0);
}

static void folders_and_patterns_are_read_in_order(void)
{
	char pattern[PATH_MAX];

	T_EQ(mkdir(t_path("many [x]"), 0777), 0);
	make("many [x]/2.csv", HEADER "1,m,2,2,4,l\n");
	make("many [x]/10.csv", HEADER "1,m,1,1,2,l\n");
	make("many [x]/other.txt", HEADER "1,m,3,3,2,l\n");
	T_ERR(burst(t_path("many [x]")), 0, &err);
	T_EQ(nr, 2);
	T_EQ(v[0].context, 1);
	T_EQ(v[1].context, 2);
	snprintf(pattern, sizeof(pattern), "%s", t_path("many ?x?/*"));
	T_ERR(burst(pattern), 0, &err);
	T_EQ(nr, 3);
	T_EQ(v[2].context, 3);
}

static void a_burst_that_is_not_there_is_named(void)
{
	T_EQ(burst("/nowhere/b.csv"), -ENOENT);
	T_STR_HAS(err.msg, "/nowhere/b.csv");
	T_EQ(burst("/nowhere/*.csv"), -ENOENT);
	T_STR_HAS(err.msg, "/nowhere/*.csv");
	T_EQ(mkdir(t_path("empty"), 0777), 0);
	T_EQ(burst(t_path("empty")), -ENOENT);
	T_STR_HAS(err.msg, "empty");
}

static int chats(const char *text, uint32_t max)
{
	const struct trace_sharegpt_opts o = {max, 16384, 2048, 4};

	forget();
	bad.nr = 0;
	bad.text[0][0] = 0;
	return trace_sharegpt_load(&v, &nr, make("s.json", text), &o, &bad, &err);
}

#define SAY(who, what) "{\"from\":\"" who "\",\"value\":\"" what "\"}"

static void pairs_of_sharegpt_are_requests(void)
{
	T_ERR(chats(" [ {\"id\": \"abc\", \"conversations\": [" SAY("human", "12345678") "," SAY(
			    "gpt",
			    "1234") "," SAY("human",
					    "1") ", " SAY("gpt",
							  "") ", " SAY("human",
								       "alone") "]},\n"
										"{\"conversations\""
										": [" SAY("human", "x") "," SAY(
											"gpt",
											"y") "]} ]",
		    10),
	      0, &err);
	T_EQ(nr, 3);
	T_OK(!strcmp(v[0].id, "abc") && v[0].turn == 1 && v[0].context == 2 && v[0].generate == 1);
	T_OK(!strcmp(v[1].id, "abc") && v[1].turn == 2 && v[1].context == 1 && v[1].generate == 1);
	T_OK(!strcmp(v[2].id, "conv_1") && v[2].turn == 1);
}

static void other_pairs_are_left_out_but_numbered(void)
{
	T_ERR(chats("[{\"x\":[{},[1e3,null]],\"conversations\":[" SAY("gpt", "a") "," SAY(
			    "human",
			    "b") "," SAY("human",
					 "c") ",{\"value\":\"d\\n\",\"from\":\"gpt\"},"
					      "\"junk\"," SAY(
						      "gpt",
						      "d") "],\"id\":17},"
							   "{\"id\":\"none\",\"conversations\":[]},"
							   "{\"id\":\"no list\"},5]",
		    10),
	      0, &err);
	T_EQ(nr, 1);
	T_EQ(v[0].turn, 2);
	T_OK(!strcmp(v[0].id, "17"));
}

static void what_is_no_conversation_is_told_with_its_number(void)
{
	static const char text[] = "[{\"conversations\":[" SAY("human", "x") "," SAY(
		"gpt", "y") "]},5,{\"id\":\"a\"},{\"conversations\":[]},"
			    "{\"conversations\":[{\"from\":\"human\",\"value\":7}]}]";

	T_ERR(chats(text, 10), 0, &err);
	T_EQ(nr, 1);
	T_EQ(bad.nr, 3);
	T_STR_HAS(bad.text[0], "item 2: is not an object");
	T_ERR(chats("[{\"id\":1}]", 10), 0, &err);
	T_STR_HAS(bad.text[0], "item 1: has no list 'conversations'");
	T_ERR(chats("[{\"conversations\":[[]]}]", 10), 0, &err);
	T_STR_HAS(bad.text[0], "item 1: a message has no text 'from' and 'value'");
	T_ERR(chats("[{\"conversations\":[{\"from\":\"human\"}," SAY("gpt", "y") "]}]", 10), 0,
	      &err);
	T_EQ(bad.nr, 1);
	T_EQ(nr, 0); /* told as left out, so it is */
	bad.strict = true;
	T_EQ(chats(text, 10), -EBADMSG);
	T_STR_HAS(err.msg, "s.json: item 2: is not an object");
	T_ERR(chats(text, 1), 0, &err);
	bad.strict = false;
}

static void characters_are_counted_not_bytes(void)
{
	/* 8 characters: four of two bytes, a pair, a lost half, an escape, a letter */
	T_ERR(chats("[{\"conversations\":["
		    "{\"from\":\"human\",\"value\":\"\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\\ud83d\\ude00"
		    "\\ud83dx\\\"\"},{\"from\":\"gpt\",\"value\":"
		    "\"\xf0\x9f\x98\x80\\u00e4\\\\\\t\"}]}]",
		    1),
	      0, &err);
	T_EQ(nr, 1);
	T_EQ(v[0].context, 2);
	T_EQ(v[0].generate, 1);
}

static void long_messages_are_capped(void)
{
	char *text = malloc(400000), *p = text;

	T_OK(text);
	p += sprintf(p, "[{\"conversations\":[{\"from\":\"human\",\"value\":\"");
	memset(p, 'x', 100000);
	p += 100000;
	p += sprintf(p, "\"},{\"from\":\"gpt\",\"value\":\"");
	memset(p, 'y', 100000);
	p += 100000;
	sprintf(p, "\"}]}]");
	T_ERR(chats(text, 1), 0, &err);
	T_EQ(v[0].context, 16384);
	T_EQ(v[0].generate, 2048);
	free(text);
}

static void only_the_first_conversations_are_read(void)
{
	T_ERR(chats("[{\"conversations\":[" SAY("human", "x") "," SAY("gpt", "y") "]}, then junk",
		    1),
	      0, &err);
	T_EQ(nr, 1);
	T_EQ(chats("[{\"conversations\":[" SAY("human", "x") "," SAY("gpt", "y") "]},\nthen junk",
		   2),
	     -EINVAL);
	T_STR_HAS(err.msg, "line 2");
}

static void json_that_is_not_is_refused(void)
{
	static const char *const junk[] = {
		"",
		"x",
		"{}",
		"[{\"conversations\":[",
		"[{\"id\":\"a\\q\"}]",
		"[{\"id\":\"\\u12g4\"}]",
		"[{\"id\" 5}]",
		"[nul]",
		"[1 2]",
		"[\"a\nb\"]",
		"[{\"a\":--}",
	};
	char deep[500];

	for (size_t i = 0; i < T_COUNT(junk); i++) {
		if (chats(junk[i], 10) != -EINVAL)
			T_FAIL("%s is taken", junk[i]);
		T_STR_HAS(err.msg, "s.json: line ");
	}
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	T_EQ(chats(deep, 10), -EINVAL);
	T_EQ(chats("[{\"id\":\"abc", 10), -EINVAL);
	T_STR_HAS(err.msg, "ends too early");
}

static const struct t_case cases[] = {
	T_CASE(rows_of_burstgpt_are_requests),
	T_CASE(columns_are_found_by_name),
	T_CASE(rows_that_cannot_be_used_are_counted),
	T_CASE(a_strict_burst_ends_at_the_first_bad_row),
	T_CASE(bad_rows_of_several_files_are_told_with_the_file),
	T_CASE(an_empty_burst_has_no_requests),
	T_CASE(folders_and_patterns_are_read_in_order),
	T_CASE(a_burst_that_is_not_there_is_named),
	T_CASE(pairs_of_sharegpt_are_requests),
	T_CASE(other_pairs_are_left_out_but_numbered),
	T_CASE(what_is_no_conversation_is_told_with_its_number),
	T_CASE(characters_are_counted_not_bytes),
	T_CASE(long_messages_are_capped),
	T_CASE(only_the_first_conversations_are_read),
	T_CASE(json_that_is_not_is_refused),
};

int main(int argc, char **argv)
{
	const struct t_group group = {"trace_requests", NULL, forget, cases, T_COUNT(cases)};

	(void)argc;
	return t_run(&group, 1, argv + 1);
}
