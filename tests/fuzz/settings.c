/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: JSON of settings.  The first byte says which: `--config', `--sweep-config', or what
 * `kv --validation-trace' compares with.
 */
#include <jansson.h>

#include "cli/cli.h"
#include "cli/opt/config.h"
#include "cli/opt/opt_space.h"
#include "load/report/kv/kv_report.h"
#include "tests/fuzz/scratch.h"

static void read_config(const char *path)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	int r = cli_config_read(&opts, &cmd_io, path);

	FUZZ_CHECK(r == CLI_OK || r == CLI_USAGE);
}

static void read_space(const char *path)
{
	struct cli_space_job job;
	struct config_space space;
	int r = cli_space_read(&space, &job, &cmd_sweep, path);

	FUZZ_CHECK(r == CLI_OK || r == CLI_USAGE);
	if (r != CLI_OK)
		return;
	FUZZ_CHECK(config_space_points(&space) <= CLI_SPACE_MAX);
	config_space_fini(&space);
}

static void read_validation(const char *path)
{
	struct penstock_err err = {0, ""};
	json_t *out = NULL;
	int r = kv_validation(&out, path, 0.5, &err);

	FUZZ_CHECK(r == 0 || (r < 0 && err.msg[0] && err.code == r));
	json_decref(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(const char *path) = {read_config, read_space,
							    read_validation};

	static int null = -1, told;

	if (!size)
		return 0;
	if (null < 0) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		told = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	}
	scratch_write("j", data + 1, size - 1);
	dup2(null, STDERR_FILENO); /* what is wrong with it */
	readers[data[0] % 3](scratch_path("j"));
	dup2(told, STDERR_FILENO);
	return 0;
}
