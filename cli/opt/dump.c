/* SPDX-License-Identifier: Apache-2.0 */
/* penstock --dump-options: the tables as JSON, from which manual and completion are made. */
#include <math.h>

#include <jansson.h>
#include <penstock/penstock.h>

#include "cli/opt/opt.h"

static const char *const kind_names[] = {
	[CLI_KIND_FLAG] = "flag",   [CLI_KIND_STR] = "string", [CLI_KIND_U32] = "integer",
	[CLI_KIND_U64] = "integer", [CLI_KIND_SIZE] = "size",  [CLI_KIND_ENUM] = "choice",
	[CLI_KIND_LIST] = "list",   [CLI_KIND_BIT] = "flag",   [CLI_KIND_DBL] = "number",
};

static const char *const role_names[] = {
	[CLI_ROLE_NONE] = NULL,     [CLI_ROLE_READ] = "read",     [CLI_ROLE_WRITE] = "write",
	[CLI_ROLE_PLACE] = "place", [CLI_ROLE_OBJECT] = "object",
};

static json_t *option_json(const struct cli_opt *o, const char *group)
{
	bool whole = o->kind == CLI_KIND_U32 || o->kind == CLI_KIND_U64,
	     number = whole || o->kind == CLI_KIND_SIZE || o->kind == CLI_KIND_LIST;
	const char *kind = whole && o->late ? "signed" : kind_names[o->kind];
	char letter[2] = {o->letter, 0};
	json_t *j = json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:s, s:b, s:[], s:{}}", "name",
			      o->name, "kind", kind, "role", role_names[o->role], "group", group,
			      "letter", o->letter ? letter : NULL, "meta", o->meta, "help", o->help,
			      "required", o->def == CLI_REQUIRED, "aliases", "tools");

	json_object_set_new(j, "default",
			    o->def && o->def != CLI_REQUIRED ? json_string(o->def) : json_null());
	/* Bounds are strings: JSON numbers of many readers end at 2^53. */
	if (number && !o->late) {
		struct penstock_bounds is;
		char text[24];

		cli_bounds(o, &is);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)is.min);
		json_object_set_new(j, "min", json_string(text));
		snprintf(text, sizeof(text), "%llu", (unsigned long long)is.max);
		json_object_set_new(j, "max", json_string(text));
	}
	if (o->kind == CLI_KIND_DBL && !o->late && isfinite(o->low) && isfinite(o->high)) {
		char text[32];

		snprintf(text, sizeof(text), "%.17g", o->low);
		json_object_set_new(j, "min", json_string(text));
		snprintf(text, sizeof(text), "%.17g", o->high);
		json_object_set_new(j, "max", json_string(text));
	}
	if (o->choices) {
		json_t *words = json_array();

		for (const char *const *c = o->choices; *c; c++)
			json_array_append_new(words, json_string(*c));
		json_object_set_new(j, "choices", words);
	}
	return j;
}

/* Another name of the option @j, and whose it is. */
static void add_alias(json_t *j, const struct cli_opt *alias)
{
	json_array_append_new(json_object_get(j, "aliases"), json_string(alias->name));
	if (alias->help)
		json_object_set_new(json_object_get(j, "tools"), alias->name,
				    json_string(alias->help));
}

/* Returns the group that is open at the end of the table. */
static const char *table_json(json_t *out, const struct cli_opt *o, const char *group)
{
	for (; o->kind != CLI_KIND_END; o++) {
		json_t *last = json_array_get(out, json_array_size(out) - 1);

		if (o->kind == CLI_KIND_GROUP)
			group = o->name;
		else if (o->kind == CLI_KIND_TABLE)
			group = table_json(out, o->sub, group);
		else if (o->kind == CLI_KIND_ALIAS)
			add_alias(last, o);
		else
			json_array_append_new(out, option_json(o, group));
	}
	return group;
}

/* A command, and behind it those it has; one that is written in Python has its own table. */
static void dump_commands(json_t *all, const struct cli_cmd *const *commands)
{
	for (; commands && *commands; commands++) {
		const struct cli_cmd *c = *commands;
		json_t *opts;

		if (c->elsewhere)
			continue;
		opts = json_array();
		table_json(opts, c->opts, NULL);
		json_array_append_new(all,
				      json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:b, s:o}", "name",
						c->name, "summary", c->summary, "usage", c->usage,
						"operands", c->operands, "notes", c->notes, "runs",
						!!c->run, "options", opts));
		dump_commands(all, c->subs);
	}
}

int cli_dump_options(FILE *f, const struct cli_cmd *const *commands)
{
	json_t *all = json_array();
	json_t *root = json_pack("{s:s, s:i, s:s, s:o}", "program", "penstock", "schema", 1,
				 "version", PENSTOCK_VERSION_STRING, "commands", all);
	int r;

	dump_commands(all, commands);
	r = json_dumpf(root, f, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putc('\n', f);
	json_decref(root);
	return r == 0 && fflush(f) == 0 ? CLI_OK : CLI_FAILED;
}
