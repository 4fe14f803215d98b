/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kv/kv_problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

void kv_problem(struct kv_problems *p, const char *fmt, ...)
{
	char *line = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (p->nr < KV_PROBLEMS_MAX && vasprintf(&line, fmt, ap) >= 0)
		p->lines[p->nr] = line;
	va_end(ap);
	p->nr++;
}

void kv_problems_say(const struct kv_problems *p, const struct cli_cmd *cmd, const char *what)
{
	for (unsigned i = 0; i < p->nr && i < KV_PROBLEMS_MAX; i++)
		cli_fail(cmd, CLI_FAILED, "%s%s", what,
			 p->lines[i] ? p->lines[i] : "out of memory");
	if (p->nr > KV_PROBLEMS_MAX)
		cli_fail(cmd, CLI_FAILED, "%sand %u more", what, p->nr - KV_PROBLEMS_MAX);
}

void kv_problems_fini(struct kv_problems *p)
{
	for (unsigned i = 0; i < p->nr && i < KV_PROBLEMS_MAX; i++)
		free(p->lines[i]);
	*p = (struct kv_problems){.nr = 0};
}
