/* SPDX-License-Identifier: Apache-2.0 */
#include "core/copy_trial.h"

#include "base/util.h"

static bool is_trying(const struct stage *s)
{
	return s->seen >= (s->wait ? s->wait : STAGE_BEFORE);
}

bool stage_choose(struct stage *s, uint64_t len, bool good)
{
	if (s->wait)
		good = s->staged;
	if (!is_trying(s)) {
		s->seen += len;
		return good;
	}
	return s->turns[!good] < s->turns[good] ? !good : good;
}

void stage_note(struct stage *s, bool staged, uint64_t len, uint64_t ns)
{
	double rate[2];

	if (!is_trying(s))
		return;
	s->bytes[staged] += len;
	s->ns[staged] += ns;
	s->turns[staged]++;
	if (s->turns[0] < STAGE_TURNS || s->turns[1] < STAGE_TURNS)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(rate); i++)
		rate[i] = (double)s->bytes[i] / (double)max_u64(s->ns[i], 1);
	s->staged = rate[1] > 1.05 * rate[0]; /* or it is not worth the processor's time */
	s->wait = max_u64(STAGE_AGAIN, STAGE_SHARE * s->bytes[!s->staged]);
	s->seen = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(rate); i++)
		s->bytes[i] = s->ns[i] = s->turns[i] = 0;
}
