/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of libfyaml and what their words mean. */
#include "cli/kv/kv_yaml.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "cli/opt/opt.h"

struct kv_yaml {
	struct fy_diag *diag;
	struct fy_parser *parser;
	struct fy_document *doc;
};

/* ------------------------------------------------------------------- parsing */

static void complain(struct kv_yaml *y, const char *name, struct cli_problems *problems)
{
	const struct fy_diag_error *e;
	void *pos = NULL;

	e = fy_diag_errors_iterate(y->diag, &pos);
	if (e)
		cli_problem(problems, "%s: line %d: %s", name, e->line,
			    e->msg ? e->msg : "bad YAML");
	else
		cli_problem(problems, "%s: is not YAML", name);
}

static bool more_documents(struct kv_yaml *y)
{
	struct fy_document *second = fy_parse_load_document(y->parser);
	bool more = second;

	fy_parse_document_destroy(y->parser, second);
	return more;
}

struct kv_yaml *kv_yaml_parse(const char *text, size_t len, const char *name,
			      struct cli_problems *problems)
{
	/* libfyaml looks for duplicates in quadratic time: see kv_yaml_twice() */
	struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_NONE |
					    FYPCF_ALLOW_DUPLICATE_KEYS};
	struct kv_yaml *y = calloc(1, sizeof(*y));
	bool bad = true;

	if (y)
		y->diag = cfg.diag = fy_diag_create(NULL);
	if (y && y->diag) {
		fy_diag_set_collect_errors(y->diag, true);
		y->parser = fy_parser_create(&cfg);
	}
	if (!y || !y->parser) {
		cli_problem(problems, "%s: out of memory", name);
	} else if (!penstock_utf8_valid(text, len)) { /* libfyaml 0.7 may not come back from it */
		cli_problem(problems, "%s: is not YAML: it is not text in UTF-8", name);
	} else {
		bad = len && fy_parser_set_string(y->parser, text, len) != 0;
		if (!bad && len)
			y->doc = fy_parse_load_document(y->parser);
		bad = bad || fy_diag_got_error(y->diag);
		if (!bad && y->doc && more_documents(y))
			cli_problem(problems, "%s: has more than one document", name);
		if (bad || fy_diag_got_error(y->diag)) {
			complain(y, name, problems);
			bad = true;
		}
	}
	if (bad) {
		kv_yaml_free(y);
		return NULL;
	}
	return y;
}

void kv_yaml_free(struct kv_yaml *y)
{
	if (!y)
		return;
	if (y->doc)
		fy_parse_document_destroy(y->parser, y->doc);
	if (y->parser)
		fy_parser_destroy(y->parser);
	if (y->diag)
		fy_diag_destroy(y->diag);
	free(y);
}

struct fy_node *kv_yaml_root(const struct kv_yaml *y)
{
	return y->doc ? fy_document_root(y->doc) : NULL;
}

/* -------------------------------------------------------------------- nodes */

static struct fy_node *follow(struct fy_node *n)
{
	for (unsigned i = 0; n && fy_node_is_alias(n); i++)
		n = i < 8 ? fy_node_resolve_alias(n) : NULL;
	return n;
}

static const char *scalar(struct fy_node *n, size_t *ret_len)
{
	const char *s = n && fy_node_is_scalar(n) ? fy_node_get_scalar(n, ret_len) : NULL;

	if (!s)
		*ret_len = 0;
	return s ? s : "";
}

int kv_yaml_line(struct fy_node *n)
{
	struct fy_token *t = n ? fy_node_get_scalar_token(n) : NULL;
	const struct fy_mark *m = t ? fy_token_start_mark(t) : NULL;

	return m ? m->line + 1 : 0;
}

bool kv_yaml_next(struct fy_node *mapping, void **pos, struct kv_yaml_pair *ret)
{
	struct fy_node_pair *p = fy_node_mapping_iterate(mapping, pos);
	const char *text;
	size_t len = 0;

	if (!p)
		return false;
	ret->key = fy_node_pair_key(p);
	ret->value = follow(fy_node_pair_value(p));
	text = ret->key && fy_node_is_scalar(ret->key) ? fy_node_get_scalar(ret->key, &len) : NULL;
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)min_u64(len, 95), text ? text : "");
	return true;
}

struct yaml_key {
	const char *text;
	size_t len;
	struct fy_node *node;
};

static int yaml_key_order(const void *a, const void *b)
{
	const struct yaml_key *x = a, *y = b;
	int r = memcmp(x->text, y->text, min_u64(x->len, y->len));

	if (r == 0 && x->len == y->len)
		return kv_yaml_line(x->node) < kv_yaml_line(y->node) ? -1 : 1;
	return r ? r : x->len < y->len ? -1 : 1;
}

struct fy_node *kv_yaml_twice(struct fy_node *mapping)
{
	int nr = fy_node_mapping_item_count(mapping);
	CLEANUP_FREE struct yaml_key *keys = nr > 1 ? calloc((size_t)nr, sizeof(*keys)) : NULL;
	struct fy_node_pair *p;
	int n = 0;

	for (void *pos = NULL; keys && n < nr && (p = fy_node_mapping_iterate(mapping, &pos));
	     n++) {
		keys[n].node = fy_node_pair_key(p);
		keys[n].text = scalar(keys[n].node, &keys[n].len);
	}
	if (keys)
		qsort(keys, (size_t)n, sizeof(*keys), yaml_key_order);
	for (int i = 1; keys && i < n; i++)
		if (keys[i].len == keys[i - 1].len &&
		    !memcmp(keys[i].text, keys[i - 1].text, keys[i].len))
			return keys[i].node;
	return NULL;
}

struct fy_node *kv_yaml_item(struct fy_node *list, int i)
{
	return follow(fy_node_sequence_get_by_index(list, i));
}

char *kv_yaml_text(char *buf, size_t size, struct fy_node *n)
{
	size_t len;
	const char *s = scalar(n, &len);

	if (n && fy_node_is_mapping(n))
		snprintf(buf, size, "a mapping");
	else if (n && fy_node_is_sequence(n))
		snprintf(buf, size, "a list of %d", fy_node_sequence_item_count(n));
	else
		snprintf(buf, size, "'%.*s'", (int)min_u64(len, size - 3), s);
	return buf;
}

char *kv_yaml_word(char *buf, size_t size, struct fy_node *n)
{
	size_t len;
	const char *s = scalar(n, &len);

	snprintf(buf, size, "%.*s", (int)min_u64(len, size), s);
	return buf;
}

/* -------------------------------------------------------------------- words */

static bool plain(struct fy_node *n)
{
	return !n || (fy_node_is_scalar(n) && fy_node_get_style(n) == FYNS_PLAIN);
}

static bool among(const char *s, size_t len, const char *const *words, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (strlen(words[i]) == len && !memcmp(s, words[i], len))
			return true;
	return false;
}

/* The same words in small letters, in capitals, and with a capital. */
#define THREE(a, b, c) a, b, c

bool kv_yaml_is_null(struct fy_node *n)
{
	static const char *const words[] = {"", "~", THREE("null", "Null", "NULL")};
	size_t len;
	const char *s = scalar(n, &len);

	return plain(n) && among(s, len, words, ARRAY_SIZE(words));
}

static bool truth(const char *s, size_t len, double *ret)
{
	static const char *const yes[] = {THREE("yes", "Yes", "YES"), THREE("true", "True", "TRUE"),
					  THREE("on", "On", "ON")};
	static const char *const no[] = {THREE("no", "No", "NO"), THREE("false", "False", "FALSE"),
					 THREE("off", "Off", "OFF")};

	*ret = among(s, len, yes, ARRAY_SIZE(yes));
	return *ret > 0 || among(s, len, no, ARRAY_SIZE(no));
}

/* Without the underscores YAML 1.1 allows between digits; false: too long, or none. */
static bool digits(char *out, size_t size, const char *s, size_t len)
{
	size_t used = 0;

	for (size_t i = 0; i < len; i++) {
		if (s[i] == '_' && i > 0)
			continue;
		if (used + 1 >= size || !(isalnum((unsigned char)s[i]) || strchr("+-.", s[i])))
			return false;
		out[used++] = s[i];
	}
	out[used] = 0;
	return used > 0;
}

/* 12, -12, 0x1f, 0b101, and with a leading zero octal. */
static bool yaml_whole(const char *text, double *ret)
{
	const char *s = text + (*text == '-' || *text == '+');
	int base = s[0] != '0' ? 10 : s[1] == 'x' ? 16 : s[1] == 'b' ? 2 : s[1] ? 8 : 10;
	const char *first = base == 16 || base == 2 ? s + 2 : s;
	char *end;

	if (!isxdigit((unsigned char)*first))
		return false;
	*ret = (double)strtoull(first, &end, base);
	if (*end || end == first)
		return false;
	*ret = *text == '-' ? -*ret : *ret;
	return true;
}

static bool real(const char *text, double *ret)
{
	char *end;

	if (text[strspn(text, "0123456789.+-eE")])
		return false;
	*ret = strtod(text, &end);
	return end != text && !*end && isfinite(*ret);
}

bool kv_yaml_is_whole(struct fy_node *n)
{
	char text[64];
	size_t len;
	const char *s = scalar(n, &len);
	double v;

	return plain(n) &&
	       (truth(s, len, &v) || (digits(text, sizeof(text), s, len) && yaml_whole(text, &v)));
}

bool kv_yaml_number(struct fy_node *n, double *ret)
{
	char text[64];
	size_t len;
	const char *s = scalar(n, &len);

	if (!n || !plain(n))
		return false;
	return truth(s, len, ret) ||
	       (digits(text, sizeof(text), s, len) && (yaml_whole(text, ret) || real(text, ret)));
}

bool kv_yaml_is_string(struct fy_node *n)
{
	double v;

	return n && fy_node_is_scalar(n) && !kv_yaml_is_null(n) && !kv_yaml_number(n, &v);
}
