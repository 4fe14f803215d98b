/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: sequences of open, submit, wait, cancel and close on the fault
 * engine, checked against a model in memory.  The first eight bytes set the
 * engine's faults; the others are the choices of tests/common/modelrun.c.
 */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "tests/common/modelrun.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_OPS = 300 };

struct bytes {
	const uint8_t *at, *end;
	unsigned ops;
};

/* Small choices take one byte, so that the fuzzer can see what it changes. */
static uint64_t below(void *arg, uint64_t n)
{
	struct bytes *b = arg;
	unsigned want = n <= 256 ? 1 : n <= 65536 ? 2 : 4;
	uint64_t v = 0;

	for (unsigned i = 0; i < want && b->at < b->end; i++)
		v = v << 8 | *b->at++;
	return v % n;
}

static bool more(void *arg)
{
	struct bytes *b = arg;

	return b->at < b->end && b->ops++ < MAX_OPS;
}

static char dir[PATH_MAX];

static void remove_dir(void)
{
	rmdir(dir);
}

static const char *own_dir(void)
{
	const char *base = getenv("PENSTOCK_TEST_DIR");

	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "%s/penstock-fuzz-XXXXXX", base && *base ? base : ".");
		FUZZ_CHECK(mkdtemp(dir));
		atexit(remove_dir);
	}
	return dir;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b;
	struct model_source source = {below, more, &b};
	struct model_result result;
	char engine[200];
	struct model_config config = {
		.engine = engine,
		.dir = own_dir(),
		.nr_files = 2,
		.max_size = 40000,
		.max_len = 9000,
		.reopen_every = 60,
	};

	if (size < 8)
		return 0;
	snprintf(engine, sizeof(engine),
		 "fault:inner=threads,seed=%u,error=%.3f,errno=5,short=%.3f,again=%.3f,delay=%.3f,"
		 "reorder=%u",
		 data[0] << 8 | data[1], data[2] < 128 ? 0 : (data[2] - 128) / 1000.0,
		 data[3] / 512.0, data[4] / 1024.0, data[5] / 512.0, data[6] & 1);
	config.may_fail = data[2] < 128 ? 0 : EIO;
	b = (struct bytes){data + 8, data + size, 0};
	if (!model_run(&config, &source, &result)) {
		fprintf(stderr, "%s: %s\n", engine, result.why);
		abort();
	}
	return 0;
}
