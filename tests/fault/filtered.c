/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that a container's filter refuses, some of them only in part. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/common/forbid.h"
#include "tests/common/t.h"

#define IN_CHILD(cond)                             \
	do {                                       \
		if (!(cond))                       \
			_exit(__LINE__ % 200 + 1); \
	} while (0)

/* Another engine is chosen when a handle is opened, and what it moves arrives. */
static void child(long nr, int errnum)
{
	struct penstock_opts named = PENSTOCK_OPTS_INIT;
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_err err = {0, ""};
	struct penstock_io *io;
	struct penstock_op op;
	struct penstock_done d;
	char out[5000] = "filtered", in[5000] = "";

	IN_CHILD(t_forbid(nr, errnum) == 0);
	IN_CHILD(penstock_engine_probe("io_uring", &err) < 0);
	IN_CHILD(strstr(err.msg, "seccomp"));
	named.engine = "io_uring";
	IN_CHILD(penstock_open(&io, &named, &err) == -ENOTSUP);
	IN_CHILD(penstock_open(&io, NULL, &err) == 0);
	op = (struct penstock_op){
		.opcode = PENSTOCK_WRITE, .path = t_path("f"), .buf = out, .len = sizeof(out)};
	IN_CHILD(penstock_run(io, &op, &d, &err) == 0 && d.res == sizeof(out));
	op.opcode = PENSTOCK_READ;
	op.buf = in;
	IN_CHILD(penstock_run(io, &op, &d, &err) == 0 && d.res == sizeof(in));
	IN_CHILD(!memcmp(in, out, sizeof(in)));
	IN_CHILD(penstock_get_stats(io, &st) == 0 && strcmp(st.engine, "io_uring") != 0);
	IN_CHILD(st.fallbacks & PENSTOCK_FALLBACK_ENGINE);
	IN_CHILD(penstock_close(io, &err) == 0);
	_exit(0);
}

static void refused(long nr, int errnum)
{
	int status;
	pid_t pid;

	if (penstock_engine_probe("io_uring", NULL) < 0)
		T_SKIP("io_uring", "there is none to refuse");
	t_path("f");
	pid = fork();
	if (pid == 0)
		child(nr, errnum);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
}

static void without_io_uring_setup_another_engine_is_used(void)
{
	refused(SYS_io_uring_setup, EPERM);
	refused(SYS_io_uring_setup, ENOSYS);
}

static void without_io_uring_enter_another_engine_is_used(void)
{
	refused(SYS_io_uring_enter, EPERM);
	refused(SYS_io_uring_enter, ENOSYS);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(without_io_uring_setup_another_engine_is_used),
		T_CASE(without_io_uring_enter_another_engine_is_used),
	};
	static const struct t_group group = {"filtered", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
