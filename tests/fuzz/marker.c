/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the marker of a folder.  The first byte says which options the next run has, the
 * rest is the marker, behind a title that is right unless a bit says otherwise.  Whatever it says,
 * the files in the folder that no run has made are there afterwards.
 */
#include "base/util.h"
#include "load/object/flow.h"
#include "tests/fuzz/scratch.h"

static const char *const mine[] = {"d/a", "d/a.npy", "d/~spare~0", "d/objects.slab"};

/* Some with a number that the marker can name in the form of a name: there are no others here. */
static void put_files(unsigned which)
{
	FUZZ_CHECK(mkdir(scratch_path("d"), 0755) == 0);
	FUZZ_CHECK(mkdir(scratch_path("d/000"), 0755) == 0);
	for (unsigned i = 0; i < 4; i++)
		if (which >> i & 1)
			scratch_write(mine[i], "precious", 8);
	scratch_write("d/000/a", "precious", 8);
}

static void check_files(unsigned which)
{
	for (unsigned i = 0; i < 4; i++)
		FUZZ_CHECK(!(which >> i & 1) || access(scratch_path(mine[i]), F_OK) == 0);
	FUZZ_CHECK(access(scratch_path("d/000/a"), F_OK) == 0);
}

static void run_once(struct place_opts o)
{
	const char *path = scratch_path("d");
	struct penstock_err err = {0, ""};
	struct place_found found;
	struct place *p;
	uint64_t pos = 0;
	int r;

	o.paths = &path;
	o.nr_paths = 1;
	o.capacity = 1 << 20;
	place_is_kept(&o);
	r = place_open(&p, &o, &err);
	FUZZ_CHECK(r == 0 || (r < 0 && err.msg[0] && err.code == r));
	while (r == 0 && place_next(p, &pos, &found))
		FUZZ_CHECK(found.name_len < 1 << 20);
	if (r == 0)
		place_close(p, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char title[] = "penstock-objects 3 ";
	struct place_opts o = {0};
	CLEANUP_FREE char *text = malloc(size + sizeof(title));
	size_t n = 0;

	if (!size || !text)
		return 0;
	o.kind = data[0] & 1 ? PLACE_SLAB : PLACE_FILES;
	o.layout = data[0] & 2 ? PLACE_NPY : PLACE_RAW;
	o.hashed = data[0] & 4;
	o.reuse = data[0] & 8;
	if (!(data[0] & 16)) {
		memcpy(text, title, sizeof(title) - 1);
		n = sizeof(title) - 1;
	}
	memcpy(text + n, data + 1, size - 1);
	put_files(data[0] >> 5);
	scratch_write("d/.penstock-objects", text, n + size - 1);
	run_once(o);
	check_files(data[0] >> 5);
	scratch_remove();
	mkdir(scratch, 0700);
	return 0;
}
