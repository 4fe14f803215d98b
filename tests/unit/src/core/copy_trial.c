/* SPDX-License-Identifier: Apache-2.0 */
/* Straight or through hot memory, by what it sees: made-up devices, and the option against it. */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/random.h"
#include "core/core.h"
#include "tests/common/t.h"

static uint64_t moved[2]; /* bytes, straight and copied */

/* @n transfers of a device that moves so much a microsecond, straight and copied; the last way. */
static bool transfers(struct copy_trial *s, unsigned n, const uint64_t *rate, bool good)
{
	bool copied = good;

	for (unsigned i = 0; i < n; i++) {
		copied = copy_trial_choose(s, COPY_TRIAL_FROM, good);
		copy_trial_record(s, copied, COPY_TRIAL_FROM,
				  COPY_TRIAL_FROM * 1000ull / rate[copied]);
		moved[copied] += COPY_TRIAL_FROM;
	}
	return copied;
}

static void the_faster_way_is_found_whichever_was_first(void)
{
	static const uint64_t virtual[] = {2400, 2900}, real[] = {7000, 5000},
			      same[] = {3000, 3050};

	for (int good = 0; good < 2; good++) {
		struct copy_trial s[3] = {{0}};

		T_EQ(transfers(&s[0], 20, virtual, good), true);
		T_EQ(transfers(&s[1], 20, real, good), false);
		T_EQ(transfers(&s[2], 20, same, good), false); /* not worth a copy */
	}
}

static void a_few_transfers_take_the_way_that_is_known(void)
{
	static const uint64_t rate[] = {2400, 2900};
	struct copy_trial s = {0};

	for (unsigned i = 0; i + 1 < COPY_TRIAL_BEFORE / COPY_TRIAL_FROM; i++)
		T_EQ(transfers(&s, 1, rate, false), false);
	T_EQ(s.runs[0] + s.runs[1], 0);
}

static void it_is_tried_again_at_little_cost(void)
{
	enum { AGAIN = COPY_TRIAL_AGAIN / COPY_TRIAL_FROM + 2 * COPY_TRIAL_RUNS };
	static const uint64_t before[] = {2400, 2900}, after[] = {5000, 2900};
	struct copy_trial s = {0};

	T_EQ(transfers(&s, 20, before, true), true);
	moved[false] = moved[true] = 0;
	T_EQ(transfers(&s, 10 * AGAIN, before, true), true);
	T_OK(moved[false] && moved[false] <= moved[true] / COPY_TRIAL_SHARE);
	T_EQ(transfers(&s, AGAIN, after, true), false);
	T_EQ(transfers(&s, AGAIN, before, true), true);
	/* of transfers that are huge, three of the slower way are much more */
	s = (struct copy_trial){.seen = COPY_TRIAL_BEFORE};
	for (unsigned i = 0; i < 2 * COPY_TRIAL_RUNS; i++) {
		bool copied = copy_trial_choose(&s, COPY_TRIAL_AGAIN, true);

		copy_trial_record(&s, copied, COPY_TRIAL_AGAIN, copied ? 1 : 2);
	}
	T_EQ(s.wait, COPY_TRIAL_SHARE * COPY_TRIAL_RUNS * COPY_TRIAL_AGAIN);
}

/* Memory on small pages goes through others on a virtual disk, unless it is not to be copied. */
static void who_spares_the_processor_copies_nothing(void)
{
	enum { LEN = 8 << 20 };
	const char *path = t_path("copy_trial");
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_file *file;
	struct penstock_io *io;
	void *buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	T_OK(buf != MAP_FAILED);
	madvise(buf, LEN, MADV_NOHUGEPAGE);
	t_file_make(path, 1, LEN);
	for (unsigned i = 0; i < 2; i++) {
		o.flags = i ? PENSTOCK_SPARE_CPU : 0;
		T_EQ(penstock_open(&io, &o, NULL), 0);
		T_EQ(penstock_file_open(&file, io, path, O_RDONLY, 0, NULL), 0);
		if (io->huge_by_default || !file->device.virtual || !file->backing.direct) {
			penstock_close(io, NULL);
			munmap(buf, LEN);
			T_SKIP("virtual disk", "nothing is copied here in any case");
		}
		T_EQ(penstock_pread(file, buf, LEN, 0, NULL), LEN);
		T_EQ(penstock_pattern_check(buf, LEN, 1, 0), LEN);
		T_EQ(penstock_get_stats(io, &st), 0);
		T_EQ(st.blocks_bounced != 0, i == 0);
		T_EQ(penstock_close(io, NULL), 0);
	}
	munmap(buf, LEN);
}

static const struct t_case cases[] = {
	T_CASE(the_faster_way_is_found_whichever_was_first),
	T_CASE(it_is_tried_again_at_little_cost),
	T_CASE(a_few_transfers_take_the_way_that_is_known),
	T_CASE(who_spares_the_processor_copies_nothing),
};

int main(void)
{
	const struct t_group group = {"copy_trial", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
