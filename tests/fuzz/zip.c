/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the directory of a zip file.  What is taken lies within the file, apart from each
 * other. */
#include <string.h>

#include "base/util.h"
#include "ckpt/zip.h"
#include "tests/fuzz/fuzz.h"

struct memory {
	const uint8_t *data;
	size_t size;
};

static int read_memory(void *arg, void *buf, uint64_t len, uint64_t offset,
		       struct penstock_err *err)
{
	const struct memory *m = arg;

	(void)err;
	/* More is never asked for. */
	FUZZ_CHECK(len <= m->size && offset <= m->size - len);
	memcpy(buf, m->data + offset, len);
	return 0;
}

static void check_records(const struct zip *z, size_t size)
{
	for (uint64_t i = 0; i < z->nr; i++) {
		const struct penstock_record *r = &z->records[i];

		FUZZ_CHECK(r->name && r->len <= size && r->offset <= size - r->len);
		FUZZ_CHECK(!i || r->offset >= r[-1].offset + r[-1].len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory m = {data, size};
	struct zip_source src = {read_memory, &m, size};
	struct penstock_err err = {0, ""};
	struct zip z;
	int r = zip_open(&z, &src, &err);

	FUZZ_CHECK(r == 0 || (r < 0 && err.msg[0] && err.code == r));
	if (r == 0)
		check_records(&z, size);
	zip_fini(&z);
	return 0;
}
