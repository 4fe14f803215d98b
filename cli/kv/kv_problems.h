/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_KV_KV_PROBLEMS_H
#define SLUICE_CLI_KV_KV_PROBLEMS_H

/* What is wrong, collected so that all of it can be said at once; zeroed is empty. */
struct cli_cmd;

#define KV_PROBLEMS_MAX 100 /* those that come after are only counted */

struct kv_problems {
	char *lines[KV_PROBLEMS_MAX];
	unsigned nr;
};

void kv_problem(struct kv_problems *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One line each on stderr, @what ("warning: ") in front. */
void kv_problems_say(const struct kv_problems *p, const struct cli_cmd *cmd, const char *what);
void kv_problems_fini(struct kv_problems *p);

#endif
