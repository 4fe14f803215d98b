/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_KV_KV_YAML_H
#define PENSTOCK_CLI_KV_KV_YAML_H

/* YAML by libfyaml, with plain words understood as PyYAML (YAML 1.1) does. */
#include <libfyaml.h>
#include <stdbool.h>
#include <stddef.h>

struct cli_problems;

/* NULL after a line in @problems, which begins with @name.  */
struct kv_yaml;
struct kv_yaml *kv_yaml_parse(const char *text, size_t len, const char *name,
			      struct cli_problems *problems);
void kv_yaml_free(struct kv_yaml *y);
/* NULL: an empty file. */
struct fy_node *kv_yaml_root(const struct kv_yaml *y);

/* The pairs of a mapping in order, aliases followed: start with *@pos = NULL. */
struct kv_yaml_pair {
	char name[96]; /* cut if longer: then it is no name anybody knows */
	struct fy_node *key, *value;
};
bool kv_yaml_next(struct fy_node *mapping, void **pos, struct kv_yaml_pair *ret);
/* Two keys of the mapping are the same: the second of them; NULL where none are. */
struct fy_node *kv_yaml_twice(struct fy_node *mapping);
/* Item @i of a list, aliases followed. */
struct fy_node *kv_yaml_item(struct fy_node *list, int i);

/* Of a scalar, such as a key. */
int kv_yaml_line(struct fy_node *n);
/* The value as it is shown in messages: 'text', a list, a mapping. */
char *kv_yaml_text(char *buf, size_t size, struct fy_node *n);
/* A scalar as it is, cut to fit. */
char *kv_yaml_word(char *buf, size_t size, struct fy_node *n);

bool kv_yaml_is_null(struct fy_node *n);
bool kv_yaml_is_string(struct fy_node *n);
/* Finite; true is 1, false 0. */
bool kv_yaml_number(struct fy_node *n, double *ret);
/* Of a number: written without a point. */
bool kv_yaml_is_whole(struct fy_node *n);

#endif
