/* SPDX-License-Identifier: Apache-2.0 */
/* credential_process: a program of the user's that prints keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/program.h"
#include "object/cred_internal.h"

#define LIMIT_NS 60000000000ull

static int process_run(struct object_cred_source *s, char **text, struct penstock_err *err)
{
	char *const argv[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
			      (char *)(uintptr_t)s->command, NULL};
	struct penstock_program p = {
		.argv = argv, .max_output = CRED_TEXT_MAX, .limit_ns = LIMIT_NS};
	int status, r = penstock_program_run(&p, text, &status);

	if (r)
		return penstock_fail(err, r, "credentials: credential_process of %s: %s", s->name,
				     r == -E2BIG ? "prints more than any keys" : strerror(-r));
	if (WIFSIGNALED(status))
		return penstock_fail(err, -EINVAL,
				     "credentials: credential_process of %s: signal %d", s->name,
				     WTERMSIG(status));
	if (WEXITSTATUS(status))
		return penstock_fail(err, -EINVAL,
				     "credentials: credential_process of %s: exit status %d",
				     s->name, WEXITSTATUS(status));
	return 0;
}

int cred_ask_process(struct object_cred_source *s, struct object_cred *out,
		     struct penstock_err *err)
{
	char *text;
	int r = process_run(s, &text, err);

	if (!r)
		r = cred_from_json(out, text, "SessionToken", s->name, err);
	if (text)
		explicit_bzero(text, CRED_TEXT_MAX + 1);
	free(text);
	return r;
}
