/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that keys come in: files of sections, JSON, dates.  All of it from others. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/json.h"
#include "base/util.h"
#include "object/cred_internal.h"

/* --------------------------------------------------------------------------- sections */

/* The line from *@at, without blanks at its ends, as [*begin, *end); false at the end. */
static bool next_line(const char **at, const char **begin, const char **end, bool *indented)
{
	const char *line = *at, *stop;

	if (!*line)
		return false;
	stop = strchrnul(line, '\n');
	*at = *stop ? stop + 1 : stop;
	*indented = *line == ' ' || *line == '\t';
	while (line < stop && isspace((unsigned char)*line))
		line++;
	while (stop > line && isspace((unsigned char)stop[-1]))
		stop--;
	*begin = line;
	*end = stop;
	return true;
}

/* Is [name] the section in @begin..@end?  Blanks inside count as one. */
static bool is_section(const char *begin, const char *end, const char *name)
{
	begin++;
	end = memchr(begin, ']', (size_t)(end - begin)) ?: end;
	while (begin < end && isspace((unsigned char)*begin))
		begin++;
	while (end > begin && isspace((unsigned char)end[-1]))
		end--;
	for (; *name && begin < end; name++, begin++) {
		if (*name != (isspace((unsigned char)*begin) ? ' ' : *begin))
			return false;
		while (*name == ' ' && begin + 1 < end && isspace((unsigned char)begin[1]))
			begin++;
	}
	return !*name && begin == end;
}

char *cred_ini(const char *text, const char *section, const char *key, bool *has_section)
{
	const char *begin, *end, *equals;
	bool inside = false, indented;
	char *found = NULL;

	while (next_line(&text, &begin, &end, &indented)) {
		if (begin == end || *begin == '#' || *begin == ';')
			continue;
		if (*begin == '[') {
			inside = is_section(begin, end, section);
			if (inside && has_section)
				*has_section = true;
			continue;
		}
		equals = memchr(begin, '=', (size_t)(end - begin));
		/* Indented lines are settings inside a setting ("s3 ="). */
		if (!inside || indented || !equals)
			continue;
		const char *stop = equals++;

		while (stop > begin && isspace((unsigned char)stop[-1]))
			stop--;
		while (equals < end && isspace((unsigned char)*equals))
			equals++;
		if ((size_t)(stop - begin) != strlen(key) ||
		    strncasecmp(begin, key, strlen(key)) != 0)
			continue;
		cred_wipe(found);
		found = strndup(equals, (size_t)(end - equals));
	}
	if (found && !*found) {
		free(found);
		found = NULL;
	}
	return found;
}

/* ------------------------------------------------------------------------------- JSON */

struct fields {
	const char *const *names;
	char **values;
	unsigned n;
};

static int json_field(struct penstock_json *j, char *key, void *arg)
{
	struct fields *f = arg;
	char *text;
	int r;

	if (penstock_json_peek(j) != '"')
		return penstock_json_skip(j);
	r = penstock_json_string(j, &text);
	for (unsigned i = 0; !r && i < f->n; i++) {
		if (strcmp(key, f->names[i]) != 0)
			continue;
		cred_wipe(f->values[i]);
		f->values[i] = strdup(text);
		r = f->values[i] ? 0 : -ENOMEM;
	}
	return r;
}

int cred_json(const char *text, const char *const *names, char **values, unsigned n)
{
	struct fields f = {names, values, n};
	char *copy = strdup(text);
	struct penstock_json j = {.text = copy, .p = copy, .what = "JSON"};
	size_t len = strlen(text);
	int r;

	memset(values, 0, n * sizeof(*values));
	if (!copy)
		return -ENOMEM;
	j.end = copy + len;
	r = penstock_json_object(&j, json_field, &f);
	if (!r && penstock_json_peek(&j) >= 0)
		r = -EINVAL;
	explicit_bzero(copy, len);
	free(copy);
	for (unsigned i = 0; r && i < n; i++) {
		cred_wipe(values[i]);
		values[i] = NULL;
	}
	return r;
}

/* ------------------------------------------------------------------------------ dates */

uint64_t cred_date_ns(const char *text)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int hours, minutes, used = 0;
	char sign;
	time_t t;

	if (!rest)
		return 0;
	t = timegm(&tm);
	if (*rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	if (sscanf(rest, "%c%2d:%2d%n", &sign, &hours, &minutes, &used) == 3 && used &&
	    (sign == '+' || sign == '-') && !rest[used])
		t -= (sign == '+' ? 1 : -1) * (hours * 3600 + minutes * 60);
	else if (strcmp(rest, "Z") != 0)
		return 0;
	/* The wall clock in nanoseconds ends in 2554. */
	return t > 0 && t < 18000000000 ? (uint64_t)t * 1000000000u : 0;
}

int cred_from_json(struct object_cred *out, const char *text, const char *token_name,
		   const char *where, struct penstock_err *err)
{
	const char *const names[] = {"AccessKeyId", "SecretAccessKey", token_name, "Expiration"};
	char *values[4];
	int r = cred_json(text, names, values, 4);

	if (r)
		return penstock_fail(err, -EINVAL, "credentials: %s did not answer with JSON",
				     where);
	r = cred_set(out, where, values[0], values[1], values[2], err);
	if (!r && values[3]) {
		out->expires_ns = cred_date_ns(values[3]);
		if (!out->expires_ns) {
			object_cred_free(out);
			r = penstock_fail(err, -EINVAL,
					  "credentials: %s has an Expiration that is no date",
					  where);
		}
	}
	for (int i = 0; i < 4; i++)
		cred_wipe(values[i]);
	return r;
}
