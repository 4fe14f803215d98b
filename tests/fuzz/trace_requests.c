/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: recorded requests.  The first byte says whether the rest is a BurstGPT or a
 * ShareGPT file, and how many conversations are wanted.
 */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load/trace/trace.h"
#include "tests/fuzz/fuzz.h"

static void check_requests(const struct trace_request *v, size_t nr, bool chats)
{
	for (size_t i = 0; i < nr; i++) {
		FUZZ_CHECK(isfinite(v[i].time_sec));
		FUZZ_CHECK(chats == (v[i].id != NULL));
		if (chats) {
			FUZZ_CHECK(strlen(v[i].id) < 4096);
			FUZZ_CHECK(v[i].turn >= 1 && v[i].context >= 1 && v[i].context <= 50);
			FUZZ_CHECK(v[i].generate >= 1 && v[i].generate <= 20);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_sharegpt_opts o = {
		.max_context = 50, .max_generation = 20, .chars_per_token = 4};
	struct trace_request *v = NULL;
	struct penstock_err err = {0, ""};
	char path[64];
	struct trace_bad bad = {.strict = size > 1 && data[1] & 1};
	size_t nr = 0;
	bool chats;
	int fd, r;

	if (!size)
		return 0;
	chats = data[0] & 1;
	o.max_conversations = data[0] >> 1;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = chats ? trace_sharegpt_load(&v, &nr, path, &o, &bad, &err)
		  : trace_burst_load(&v, &nr, path, &bad, &err);
	FUZZ_CHECK(!bad.nr == !bad.text[0][0]);
	FUZZ_CHECK(r == 0 || (r < 0 && err.msg[0] && err.code == r));
	check_requests(v, nr, chats);
	trace_requests_free(v, nr);
	close(fd);
	return 0;
}
