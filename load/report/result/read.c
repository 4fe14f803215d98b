/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result is checked by its schema before anything is drawn or compared: what passes has no
 * surprises for the code behind it.
 */
#include "load/report/result/read.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "load/report/result/schema.h"

#define SCHEMA "sluice-result/1"

/* What a schema cannot say: the columns of a table of seconds are of one length. */
static int check_seconds(json_t *seconds, const char *where, const char *name,
			 struct sluice_err *err)
{
	size_t nr = json_array_size(json_object_get(seconds, "t"));
	const char *key;
	json_t *j;

	json_object_foreach(seconds, key, j)
	{
		if (json_array_size(j) != nr)
			return sluice_fail(err, -EINVAL,
					   "'%s': %s.%.60s has %zu elements, but %s.t has %zu",
					   name, where, key, json_array_size(j), where, nr);
	}
	return 0;
}

/* Parsed once: a page takes many results. */
static int check_schema(const json_t *root, const char *name, struct sluice_err *err)
{
	static json_t *schema;

	if (!schema)
		schema = json_loads(report_schema_result, 0, NULL);
	return schema ? schema_check(schema, root, name, err)
		      : sluice_fail(err, -ENOMEM, "out of memory");
}

int report_check(const json_t *root, const char *name, struct sluice_err *err)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	const json_t *s;
	char where[64];
	size_t i;
	int r;

	if (!schema)
		return sluice_fail(err, -EINVAL, "'%s' is not a result of sluice: it has no schema",
				   name);
	if (strcmp(schema, SCHEMA) != 0)
		return sluice_fail(err, -EINVAL, "'%s' has schema '%s'; this command reads %s",
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

int report_json_read(json_t **out, const char *path, struct sluice_err *err)
{
	bool standard = !strcmp(path, "-");
	FILE *f = standard ? stdin : fopen(path, "re");
	json_error_t e;
	json_t *root;
	int r = 0;

	if (!f)
		return sluice_fail(err, -errno, "'%s' cannot be read: %s", path, strerror(errno));
	errno = 0;
	root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	if (ferror(f)) { /* a folder, for example; the parser calls it an early end */
		r = errno ? -errno : -EIO;
		json_decref(root);
		sluice_fail(err, r, "'%s' cannot be read: %s", path, strerror(-r));
	} else if (!root) {
		r = sluice_fail(err, -EINVAL, "'%s' is not JSON: line %d: %s", path,
				e.line > 0 ? e.line : 1, e.text);
	} else {
		*out = root;
	}
	if (!standard)
		fclose(f);
	return r;
}

int report_read(json_t **out, const char *path, struct sluice_err *err)
{
	json_t *root, *inner;
	int r = report_json_read(&root, path, err);

	if (r < 0)
		return r;
	inner = json_object_get(root, "sluice");
	if (json_is_object(inner)) {
		/* what `sluice kv' writes by --output has the result inside */
		json_incref(inner);
		json_decref(root);
		root = inner;
	}
	r = report_check(root, path, err);
	if (r < 0)
		json_decref(root);
	else
		*out = root;
	return r;
}
