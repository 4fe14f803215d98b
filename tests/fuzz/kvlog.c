/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the log of a KV store, behind a head and, unless the first bit of the first byte
 * says otherwise, with checksums made right.  Whatever it says, the store opens, and what it finds
 * lies within the data file and does not overlap.
 */
#include <penstock/store.h>

#include "base/crc32c.h"
#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/fuzz/scratch.h"

enum { SEED = 7, DATA = 1 << 20 };

/* Give records that have a plausible length the checksum they need. */
static void fix_checksums(unsigned char *log, size_t len)
{
	uint32_t seed = SEED, size, sum;

	for (size_t at = STORE_LOG_HEAD; at + STORE_RECORD_HEAD <= len; at += size) {
		memcpy(&size, log + at + 4, 4);
		if (size < STORE_RECORD_HEAD || size % 8 || size > len - at)
			return;
		sum = penstock_crc32c(penstock_crc32c(0, &seed, 4), log + at + 4, size - 4);
		memcpy(log + at, &sum, 4);
	}
}

static void check_store(struct penstock_store *s)
{
	char key[] = "key", buf[64];
	struct penstock_iov iov = {buf, sizeof(buf)};
	struct penstock_store_item item = {key, 3, 1, &iov};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_GET, .nr = 1, .items = &item};
	struct penstock_store_stats st = {.size = sizeof(st)};

	FUZZ_CHECK(penstock_store_run(s, &b, NULL, NULL) == 0);
	b.opcode = PENSTOCK_STORE_SET;
	FUZZ_CHECK(penstock_store_run(s, &b, NULL, NULL) == 0);
	FUZZ_CHECK(penstock_store_get_stats(s, &st) == 0);
	FUZZ_CHECK(st.used_bytes <= st.capacity && st.entries <= 1 << 20);
}

static int check_entry(void *arg, const struct penstock_store_entry *e)
{
	(void)arg;
	FUZZ_CHECK(e->key_len && e->key_len <= PENSTOCK_STORE_KEY_MAX);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct penstock_store_opts o = PENSTOCK_STORE_OPTS_INIT;
	struct store_log_head head = {.seed = SEED, .epoch = 1};
	const char *dir = scratch_path("s");
	CLEANUP_FREE unsigned char *log = malloc(size + STORE_LOG_HEAD);
	CLEANUP_FREE char *zeros = calloc(1, DATA);
	char path[128];
	struct penstock_store *s;

	if (!size || !log || !zeros)
		return 0;
	store_log_head_put(log, &head);
	memcpy(log + STORE_LOG_HEAD, data + 1, size - 1);
	if (!(data[0] & 1))
		fix_checksums(log, size - 1 + STORE_LOG_HEAD);
	snprintf(path, sizeof(path), "%s", dir);
	FUZZ_CHECK(mkdir(path, 0700) == 0);
	scratch_write("s/penstock-store", "penstock-store 1 0000000000000001 0000000000000002\n",
		      49);
	scratch_write("s/data", zeros, DATA);
	scratch_write("s/log", log, size - 1 + STORE_LOG_HEAD);
	dir = path;
	o.engine = "threads";
	FUZZ_CHECK(penstock_store_inspect(path, PENSTOCK_STORE_VERIFY, check_entry, NULL, NULL,
					  NULL) == 0);
	FUZZ_CHECK(penstock_store_open(&s, &dir, 1, 4 << 20, &o, NULL) == 0);
	check_store(s);
	FUZZ_CHECK(penstock_store_close(s, NULL) == 0);
	FUZZ_CHECK(penstock_store_drop(path, NULL) == 0);
	return 0;
}
