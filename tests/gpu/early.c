/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that has no CUDA, then has it, then uses it; and one whose driver is too old.
 *
 *	gpu-early STANDIN OLD
 */
#include <dlfcn.h>
#include <sys/wait.h>

#include "base/random.h"
#include "dl/cuda.h"
#include "mem/device_memory.h"
#include "tests/common/t.h"

enum { SEED = 51 };

static const char *standin, *old;

static void host_memory_works(void)
{
	static unsigned char buf[300001];
	const char *path = t_path("file");
	struct penstock_op op = {
		.opcode = PENSTOCK_READ, .path = path, .buf = buf, .len = sizeof(buf)};
	struct penstock_done d;
	struct penstock_io *io;

	memset(buf, 0, sizeof(buf));
	t_file_make(path, SEED, sizeof(buf));
	T_EQ(penstock_open(&io, NULL, NULL), 0);
	T_EQ(penstock_run(io, &op, &d, NULL), 0);
	T_EQ(d.res, sizeof(buf));
	T_OK(!(d.flags & PENSTOCK_DONE_PINNED_POOL));
	T_EQ(penstock_pattern_check(buf, sizeof(buf), SEED, 0), sizeof(buf));
	T_EQ(penstock_close(io, NULL), 0);
}

/* Each in a process of its own: what is loaded stays. */
static void in_a_child(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	T_OK(pid >= 0);
	if (!pid) {
		fn();
		_exit(0);
	}
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
}

/* In a child the checks cannot leave the test. */
#define NEED(cond)                           \
	do {                                 \
		if (!(cond)) {               \
			t_note("%s", #cond); \
			fflush(stdout);      \
			_exit(1);            \
		}                            \
	} while (0)

static void load_late(void)
{
	int (*init)(unsigned);
	const struct penstock_cuda *cuda;
	struct penstock_cuda_failure failure = {0};
	void *dl;

	NEED(!penstock_cuda_present());
	NEED(!penstock_cuda_present());
	dl = dlopen(standin, RTLD_NOW);
	NEED(dl);
	usleep(30000); /* a tick of the kernel's clock, at least */
	cuda = penstock_cuda_present();
	NEED(cuda);
	/* nobody has initialised it: that is not our business */
	NEED(penstock_mem_locate(cuda, &dl, &failure).device == -1);
	NEED(cuda->pointer_attributes(0, NULL, NULL, 1) == CUDA_NOT_INITIALIZED);
	NEED(!failure.code);
	*(void **)&init = dlsym(dl, "cuInit");
	NEED(init && init(0) == 0);
	NEED(penstock_mem_locate(cuda, &dl, &failure).device == -1);
	NEED(penstock_cuda_present() == cuda && penstock_cuda(NULL) == cuda);
}

static void load_old(void)
{
	const char *why = NULL;

	NEED(dlopen(old, RTLD_NOW));
	NEED(!penstock_cuda_present());
	NEED(!penstock_cuda(&why));
	NEED(why && strstr(why, "has no cu"));
}

static void nobody_loads_cuda_for_host_memory(void)
{
	host_memory_works();
	T_OK(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
}

static void a_driver_loaded_later_is_found(void)
{
	in_a_child(load_late);
}

static void an_old_driver_is_as_good_as_none(void)
{
	in_a_child(load_old);
}

static const struct t_case cases[] = {
	T_CASE(nobody_loads_cuda_for_host_memory),
	T_CASE(a_driver_loaded_later_is_found),
	T_CASE(an_old_driver_is_as_good_as_none),
};

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {{"early", NULL, NULL, cases, T_COUNT(cases)}};

	if (argc < 3) {
		fprintf(stderr, "usage: gpu-early STANDIN OLD\n");
		return 2;
	}
	standin = argv[1];
	old = argv[2];
	t_dir();
	return t_run(groups, T_COUNT(groups), argc > 3 ? argv + 3 : NULL);
}
