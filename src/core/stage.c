/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stage.h"

#include "base/util.h"

bool stage_choose(struct stage *s, uint64_t len, bool good)
{
	if (s->known)
		return s->staged;
	if (s->seen < STAGE_BEFORE) {
		s->seen += len;
		return good;
	}
	return s->turns[!good] < s->turns[good] ? !good : good;
}

void stage_note(struct stage *s, bool staged, uint64_t len, uint64_t ns)
{
	double rate[2];

	if (s->known || s->seen < STAGE_BEFORE)
		return;
	s->bytes[staged] += len;
	s->ns[staged] += ns;
	s->turns[staged]++;
	if (s->turns[0] < STAGE_TURNS || s->turns[1] < STAGE_TURNS)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(rate); i++)
		rate[i] = (double)s->bytes[i] / (double)max_u64(s->ns[i], 1);
	s->known = true;
	s->staged = rate[1] > 1.05 * rate[0]; /* or it is not worth the processor's time */
}
