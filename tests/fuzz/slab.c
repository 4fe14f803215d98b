/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a slab.  Fields of the head come from the input, in front of the index; both are
 * sealed, so that what is behind the checksums is reached, unless the first byte says otherwise.
 */
#include "base/full_io.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/place_slab.h"
#include "tests/fuzz/scratch.h"

struct input {
	uint8_t how; /* 1: take over; 2, 4: leave a checksum as it is; 8: length as given */
	uint8_t shift;
	uint16_t objects;
	uint32_t units;
	uint64_t index_len;
} __attribute__((packed));

static struct slab_head make_head(const struct input *in, const uint8_t *index, size_t len)
{
	struct slab_head h = {.magic = "penstock slab2\x01",
			      .units = in->units,
			      .unit = 4096u << (in->shift & 31) % 20,
			      .kept = 1,
			      .index_len = in->how & 8 ? in->index_len : len,
			      .objects = in->objects};

	if (!(in->how & 2))
		h.index_id = content_id(index, len);
	h.check = in->how & 4 ? 0 : content_id(&h, sizeof(h));
	return h;
}

static void write_slab(const struct slab_head *h, const uint8_t *index, size_t len)
{
	uint64_t at = slab_index_offset(h->units, h->unit);
	int fd = open(scratch_path("s"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	FUZZ_CHECK(fd >= 0 && penstock_full_pwrite(fd, h, sizeof(*h), 0) == 0);
	if (at < 4u << 20)
		FUZZ_CHECK(penstock_full_pwrite(fd, index, len, at) == 0);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = scratch_path("s");
	struct place_opts o = {
		.kind = PLACE_SLAB, .paths = &path, .nr_paths = 1, .capacity = 1 << 20};
	struct penstock_err err = {0, ""};
	struct place_found found;
	struct slab_head h;
	struct input in;
	struct place *p;
	uint64_t pos = 0;
	int r;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	h = make_head(&in, data + sizeof(in), size - sizeof(in));
	write_slab(&h, data + sizeof(in), size - sizeof(in));
	o.unit = h.unit;
	o.reuse = in.how & 1;
	o.capacity = max_u64(o.capacity, o.unit);
	if (o.unit > 1u << 20)
		return 0; /* a slab of one unit would fill the memory */
	place_is_kept(&o);
	r = place_open(&p, &o, &err);
	FUZZ_CHECK(r == 0 || (r < 0 && err.msg[0] && err.code == r));
	while (r == 0 && place_next(p, &pos, &found))
		FUZZ_CHECK(found.name_len <= size && found.size <= place_used(p));
	if (r == 0)
		FUZZ_CHECK(place_close(p, &err) == 0);
	else
		FUZZ_CHECK(unlink(path) == 0);
	return 0;
}
