/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats that keys come in: files of sections, JSON, dates.  All of it from others.  After an
 * error of the JSON reader nothing may be read on: it may stand behind the end.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/util.h"
#include "object/cred_in.h"

#define JSON_DEPTH 16

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

struct json {
	const char *at;
	const char *const *names;
	char **values;
	unsigned n;
};

static void blanks(struct json *j)
{
	j->at += strspn(j->at, " \t\r\n");
}

static bool is(struct json *j, char c)
{
	blanks(j);
	if (*j->at != c)
		return false;
	j->at++;
	return true;
}

/* Of \uXXXX only ASCII is taken: no key has more. */
static int escaped(struct json *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = *j->at++;
	const char *known = c ? strchr(from, c) : NULL;
	int value = 0;

	if (known)
		return (unsigned char)to[known - from];
	if (c != 'u')
		return -EBADMSG;
	for (int i = 0; i < 4; i++) {
		unsigned char h = (unsigned char)*j->at;

		if (!isxdigit(h))
			return -EBADMSG;
		value = value * 16 + (isdigit(h) ? h - '0' : (h | 32) - 'a' + 10);
		j->at++;
	}
	return value > 0 && value < 128 ? value : '?';
}

/* A string; with @out a copy of it, which is never longer than it stands there. */
static int string(struct json *j, char **out)
{
	const char *stop;
	char *text, *to;

	if (!is(j, '"'))
		return -EBADMSG;
	for (stop = j->at; *stop && *stop != '"'; stop++)
		stop += *stop == '\\' && stop[1];
	text = to = malloc((size_t)(stop - j->at) + 1);
	if (!text)
		return -ENOMEM;
	while (*j->at != '"') {
		int c = (unsigned char)*j->at++;

		if (c == '\\')
			c = escaped(j);
		else if (c < ' ')
			c = -EBADMSG;
		if (c < 0) {
			explicit_bzero(text, (size_t)(to - text));
			free(text);
			return c;
		}
		*to++ = (char)c;
	}
	j->at++;
	*to = 0;
	if (out)
		*out = text;
	else
		cred_wipe(text);
	return 0;
}

static int value(struct json *j, unsigned depth, char **out);

static int member(struct json *j, unsigned depth)
{
	char *name, *got = NULL;
	int r = string(j, &name);

	if (r)
		return r;
	r = is(j, ':') ? value(j, depth + 1, depth ? NULL : &got) : -EBADMSG;
	for (unsigned i = 0; !r && got && i < j->n; i++) {
		if (strcmp(name, j->names[i]) != 0)
			continue;
		cred_wipe(j->values[i]);
		j->values[i] = TAKE_PTR(got);
	}
	cred_wipe(got);
	free(name);
	return r;
}

static int several(struct json *j, unsigned depth, char close)
{
	int r = 0;

	if (depth > JSON_DEPTH)
		return -EBADMSG;
	if (is(j, close))
		return 0;
	do
		r = close == '}' ? member(j, depth) : value(j, depth + 1, NULL);
	while (!r && is(j, ','));
	return r ?: is(j, close) ? 0 : -EBADMSG;
}

static int value(struct json *j, unsigned depth, char **out)
{
	size_t word;

	blanks(j);
	if (*j->at == '"')
		return string(j, out);
	if (is(j, '{'))
		return several(j, depth, '}');
	if (is(j, '['))
		return several(j, depth, ']');
	/* true, false, null and numbers: no more is wanted of them than their end. */
	word = strspn(j->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
	j->at += word;
	return word ? 0 : -EBADMSG;
}

int cred_json(const char *text, const char *const *names, char **values, unsigned n)
{
	struct json j = {text, names, values, n};
	int r;

	memset(values, 0, n * sizeof(*values));
	r = is(&j, '{') ? several(&j, 0, '}') : -EBADMSG;
	if (!r)
		blanks(&j);
	if (!r && *j.at)
		r = -EBADMSG;
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
		   const char *where, struct sluice_err *err)
{
	const char *const names[] = {"AccessKeyId", "SecretAccessKey", token_name, "Expiration"};
	char *values[4];
	int r = cred_json(text, names, values, 4);

	if (r)
		return sluice_fail(err, -EINVAL, "credentials: %s did not answer with JSON", where);
	r = cred_set(out, where, values[0], values[1], values[2], err);
	if (!r && values[3]) {
		out->expires_ns = cred_date_ns(values[3]);
		if (!out->expires_ns) {
			object_cred_free(out);
			r = sluice_fail(err, -EINVAL,
					"credentials: %s has an Expiration that is no date", where);
		}
	}
	for (int i = 0; i < 4; i++)
		cred_wipe(values[i]);
	return r;
}
