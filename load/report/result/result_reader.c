/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result is checked by its schema before anything is drawn or compared: what passes has no
 * surprises for the code behind it.
 */
#include "load/report/result/result_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "load/report/result/schema.h"

#define SCHEMA "penstock-result/1"

/* What a schema cannot say: the columns of a table of seconds are of one length. */
static int check_seconds(json_t *seconds, const char *where, const char *name,
			 struct penstock_err *err)
{
	size_t nr = json_array_size(json_object_get(seconds, "t"));
	const char *key;
	json_t *j;

	json_object_foreach(seconds, key, j)
	{
		if (json_array_size(j) != nr)
			return penstock_fail(err, -EINVAL,
					     "'%s': %s.%.60s has %zu elements, but %s.t has %zu",
					     name, where, key, json_array_size(j), where, nr);
	}
	return 0;
}

/* Parsed once: a page takes many results. */
static int check_schema(const json_t *root, const char *name, struct penstock_err *err)
{
	static json_t *schema;

	if (!schema)
		schema = json_loads(report_schema_result, 0, NULL);
	return schema ? schema_check(schema, root, name, err)
		      : penstock_fail(err, -ENOMEM, "out of memory");
}

int report_check(const json_t *root, const char *name, struct penstock_err *err)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	const json_t *s;
	char where[64];
	size_t i;
	int r;

	if (!schema && json_object_get(root, "schema_version"))
		return penstock_fail(
			err, -EINVAL,
			"'%s' is the summary of a run, not a result; `penstock report' takes it",
			name);
	if (!schema)
		return penstock_fail(err, -EINVAL,
				     "'%s' is not a result of penstock: it has no schema", name);
	if (strcmp(schema, SCHEMA) != 0)
		return penstock_fail(err, -EINVAL, "'%s' has schema '%s'; this command reads %s",
				     name, schema, SCHEMA);
	r = check_schema(root, name, err);
	json_array_foreach(json_object_get(root, "series"), i, s)
	{
		snprintf(where, sizeof(where), "series[%zu].per_second", i);
		if (r == 0)
			r = check_seconds(json_object_get(s, "per_second"), where, name, err);
	}
	if (r == 0)
		r = check_seconds(json_object_get(json_object_get(root, "kv"), "seconds"),
				  "kv.seconds", name, err);
	if (r == 0)
		r = check_seconds(json_object_get(json_object_get(root, "replay"), "seconds"),
				  "replay.seconds", name, err);
	return r;
}

/* Of standard input, or what has no time: now. */
static time_t written_at(const char *path)
{
	struct stat st;

	return strcmp(path, "-") != 0 && stat(path, &st) == 0 ? st.st_mtime : time(NULL);
}

/* A result out of @root, which is taken; @as_reference: rather in the reference's form. */
static int take_result(json_t **out, json_t *root, bool as_reference, const char *path,
		       struct penstock_err *err)
{
	json_t *inner = json_object_get(root, "penstock"), *made = NULL;
	int r = 0;

	if (kvcache_is_result(root) && (as_reference || !json_is_object(inner)))
		r = kvcache_import(&made, root, path, written_at(path), err);
	else if (!json_object_get(root, "schema_version") && json_is_object(inner))
		made = json_incref(inner); /* what `penstock kv' writes by --output */
	else
		made = json_incref(root);
	json_decref(root);
	if (r == 0)
		r = report_check(made, path, err);
	if (r < 0)
		json_decref(made);
	else
		*out = made;
	return r;
}

int report_read_pair(json_t *out[2], char *const path[2], struct penstock_err *err)
{
	json_t *root[2] = {NULL, NULL};
	bool as_reference = false;
	int r = 0;

	for (unsigned i = 0; i < 2 && r == 0; i++) {
		r = report_json_read(&root[i], path[i], err);
		as_reference |= r == 0 && kvcache_is_result(root[i]) &&
				!json_is_object(json_object_get(root[i], "penstock"));
	}
	out[0] = out[1] = NULL;
	for (unsigned i = 0; i < 2; i++) {
		if (r == 0)
			r = take_result(&out[i], root[i], as_reference, path[i], err);
		else
			json_decref(root[i]);
	}
	return r;
}

int report_read_result(json_t **out, const char *path, struct penstock_err *err)
{
	json_t *root = NULL;
	int r = report_json_read(&root, path, err);

	return r < 0 ? r : take_result(out, root, false, path, err);
}

enum report_kind report_kind(const json_t *root)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));

	if (schema && !strncmp(schema, "penstock-trace/", 15))
		return REPORT_TRACE;
	return json_object_get(root, "schema_version") && json_object_get(root, "options")
		       ? REPORT_SUMMARY
		       : REPORT_RESULT;
}

int report_read_any(json_t **out, const char *path, struct penstock_err *err)
{
	json_t *root;
	int r = report_json_read(&root, path, err);

	if (r < 0)
		return r;
	if (report_kind(root) == REPORT_RESULT)
		return take_result(out, root, false, path, err);
	r = schema_check_text(report_kind(root) == REPORT_TRACE ? report_schema_trace
								: report_schema_summary,
			      root, path, err);
	if (r < 0)
		json_decref(root);
	else
		*out = root;
	return r;
}
