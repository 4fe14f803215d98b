/* SPDX-License-Identifier: Apache-2.0 */
/* Which operation is next where a member of a striped file has its share of what is in flight. */
#include "core/core.h"
#include "tests/common/t.h"

enum { UNIT = 2 << 20, BLOCK = 1 << 20 };

struct made {
	struct sluice_io io;
	struct sluice_file file;
	struct part parts[2];
	struct op ops[3];
	struct sluice_stripe stripe; /* last: it ends in as many as there are */
};

/* Reads or writes of one unit each. */
static void make(struct made *m, enum sluice_opcode opcode, const unsigned *units, unsigned nr)
{
	memset(m, 0, sizeof(*m));
	op_list_init(&m->io.pending);
	m->io.opts.depth = 128;
	m->stripe.unit = UNIT;
	m->stripe.nr = 2;
	m->file.store.stripe = &m->stripe;
	m->file.parts = m->parts;
	m->file.nr_parts = 2;
	for (unsigned i = 0; i < nr; i++) {
		m->ops[i].opcode = opcode;
		m->ops[i].file = &m->file;
		m->ops[i].offset = (uint64_t)units[i] * UNIT;
		m->ops[i].len = UNIT;
		m->ops[i].block = BLOCK;
		pend_add(&m->io, &m->ops[i]);
	}
}

static struct op *next(struct made *m)
{
	return pend_next(&m->io, 0);
}

static void who_waits_for_a_slow_member_lets_others_by(void)
{
	static const unsigned units[] = {0, 2, 5};
	struct made m;

	make(&m, SLUICE_READ, units, 3);
	T_EQ(next(&m) == &m.ops[0], true);
	m.parts[0].held = PART_BYTES - 1;
	T_EQ(next(&m) == &m.ops[0], true);
	m.parts[0].held = PART_BYTES;
	T_EQ(next(&m) == &m.ops[2], true);
	/* all have their share: as without any */
	m.parts[1].held = PART_BYTES;
	T_EQ(next(&m) == &m.ops[0], true);
	/* a few blocks in flight are few for each */
	m.io.opts.depth = 4;
	m.parts[0].held = 2 * BLOCK;
	m.parts[1].held = BLOCK;
	T_EQ(next(&m) == &m.ops[2], true);
}

static void the_later_of_two_writes_stays_the_later(void)
{
	static const unsigned units[] = {0, 1, 1};
	struct made m;

	make(&m, SLUICE_WRITE, units, 3);
	m.ops[0].len = 2 * UNIT; /* its second unit is where the others write */
	m.parts[0].held = PART_BYTES;
	T_EQ(next(&m) == &m.ops[0], true);
}

static const struct t_case cases[] = {
	T_CASE(who_waits_for_a_slow_member_lets_others_by),
	T_CASE(the_later_of_two_writes_stays_the_later),
};

int main(void)
{
	const struct t_group group = {"pend", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
