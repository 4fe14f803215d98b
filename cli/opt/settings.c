/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a result, from the same tables that read them. */
#include <jansson.h>

#include "base/util.h"
#include "cli/opt/opt.h"
#include "load/report/result/text.h"

/* 0 without a default is no value: the command chooses. */
static json_t *number_json(const struct cli_opt *o, uint64_t v)
{
	if (!v && !o->def)
		return json_null();
	return json_integer((json_int_t)(v / (o->scale ? o->scale : 1)));
}

static json_t *list_json(const struct cli_list *l)
{
	json_t *j = l->nr ? json_array() : json_null();

	for (size_t i = 0; i < l->nr; i++)
		json_array_append_new(j, report_str(l->items[i]));
	return j;
}

static json_t *value_json(const struct cli_opt *o, const void *at)
{
	switch (o->kind) {
	case CLI_KIND_FLAG:
		return json_boolean(*(const bool *)at != o->invert);
	case CLI_KIND_BIT:
		return json_boolean(*(const uint32_t *)at & o->max);
	case CLI_KIND_STR:
		return report_str_or_null(*(const char *const *)at);
	case CLI_KIND_U32:
		return number_json(o, *(const uint32_t *)at);
	case CLI_KIND_U64:
	case CLI_KIND_SIZE:
		return number_json(o, *(const uint64_t *)at);
	case CLI_KIND_DBL:
		return json_real(*(const double *)at / (double)(o->scale ? o->scale : 1));
	case CLI_KIND_ENUM:
		return json_string(o->choices[*(const uint32_t *)at]);
	case CLI_KIND_LIST:
		return list_json(at);
	case CLI_KIND_END:
	case CLI_KIND_GROUP:
	case CLI_KIND_TABLE:
	case CLI_KIND_ALIAS:
		break;
	}
	return NULL;
}

static void add_setting(json_t *j, const struct cli_opt *o, const void *at)
{
	char key[64];

	snprintf(key, sizeof(key), "%s", o->key ? o->key : o->name);
	for (char *c = key; *c; c++)
		*c = *c == '-' ? '_' : *c;
	json_object_set_new(j, key, value_json(o, at));
}

static void add_table(json_t *j, const struct cli_opt *o, const char *args)
{
	for (; o->kind != CLI_KIND_END; o++) {
		if (o->kind == CLI_KIND_TABLE)
			add_table(j, o->sub, args + o->at);
		else if (o->kind != CLI_KIND_GROUP && o->kind != CLI_KIND_ALIAS && !o->quiet &&
			 o->role != CLI_ROLE_WRITE)
			add_setting(j, o, args + o->at);
	}
}

json_t *cli_settings(const struct cli_cmd *cmd, const void *args)
{
	json_t *j = json_object();

	if (j)
		add_table(j, cmd->opts, args);
	return j;
}
