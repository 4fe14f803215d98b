/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are run for what they print: /bin/sh stands for all of them. */
#include "base/program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/t.h"

static int status;
static char *text;

static int run(const char *command, struct penstock_program p)
{
	char *const argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			      (char *)(uintptr_t)command, NULL};

	free(text);
	p.argv = argv;
	return penstock_program_run(&p, &text, &status);
}

static void all_that_is_printed_comes_back(void)
{
	T_EQ(run("printf 'a b'; echo lost >&2; cat", (struct penstock_program){.dir = "/"}), 0);
	T_OK(!strcmp(text, "a b") && !status);
	T_EQ(run("pwd", (struct penstock_program){.dir = "/"}), 0);
	T_OK(!strcmp(text, "/\n"));
	T_EQ(run("head -c 300000 /dev/zero | tr '\\0' x", (struct penstock_program){.dir = "/"}),
	     0);
	T_EQ(strlen(text), 300000);
	T_EQ(strspn(text, "x"), 300000);
	T_EQ(run(":", (struct penstock_program){.max_output = 10}), 0);
	T_EQ(strlen(text), 0);
}

static void how_it_ended_is_told(void)
{
	T_EQ(run("exit 3", (struct penstock_program){.max_output = 10}), 0);
	T_EQ(WEXITSTATUS(status), 3);
	T_EQ(run("kill -9 $$", (struct penstock_program){.max_output = 10}), 0);
	T_EQ(WTERMSIG(status), SIGKILL);
}

static void what_is_not_there_cannot_be_run(void)
{
	char *const argv[] = {(char *)(uintptr_t) "no-program-of-this-name", NULL};
	char *none;

	T_EQ(penstock_program_run(&(struct penstock_program){.argv = argv}, &none, &status),
	     -ENOENT);
	T_OK(!none);
}

/* It would end by itself, with status 0, if nobody killed it. */
static void what_passes_a_bound_is_killed(void)
{
	T_EQ(run("printf 123456789", (struct penstock_program){.max_output = 10}), 0);
	T_OK(!strcmp(text, "123456789"));
	T_EQ(run("printf 1234567890; exec sleep 20", (struct penstock_program){.max_output = 10}),
	     -E2BIG);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	T_EQ(run("exec sleep 20", (struct penstock_program){.limit_ns = 1}), -ETIMEDOUT);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	T_EQ(run("exec >&-; exec sleep 20", (struct penstock_program){.limit_ns = 50000000}),
	     -ETIMEDOUT);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_stop_asks_it_to_end(void)
{
	atomic_int stop = 1;

	T_EQ(run("exec sleep 20", (struct penstock_program){.stop = &stop}), 0);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	free(text);
	text = NULL;
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(all_that_is_printed_comes_back),  T_CASE(how_it_ended_is_told),
		T_CASE(what_is_not_there_cannot_be_run), T_CASE(what_passes_a_bound_is_killed),
		T_CASE(a_stop_asks_it_to_end),
	};
	static const struct t_group group = {"program", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
