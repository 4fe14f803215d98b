/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt/opt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cli_problem(struct cli_problems *p, const char *fmt, ...)
{
	char *line = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (p->nr < CLI_PROBLEMS_MAX && vasprintf(&line, fmt, ap) >= 0)
		p->lines[p->nr] = line;
	va_end(ap);
	p->nr++;
}

void cli_problems_say(const struct cli_problems *p, const struct cli_cmd *cmd, const char *what)
{
	for (unsigned i = 0; i < p->nr && i < CLI_PROBLEMS_MAX; i++)
		cli_fail(cmd, CLI_FAILED, "%s%s", what,
			 p->lines[i] ? p->lines[i] : "out of memory");
	if (p->nr > CLI_PROBLEMS_MAX)
		cli_fail(cmd, CLI_FAILED, "%sand %u more", what, p->nr - CLI_PROBLEMS_MAX);
}

void cli_problems_fini(struct cli_problems *p)
{
	for (unsigned i = 0; i < p->nr && i < CLI_PROBLEMS_MAX; i++)
		free(p->lines[i]);
	*p = (struct cli_problems){.nr = 0};
}
