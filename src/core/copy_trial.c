/* SPDX-License-Identifier: Apache-2.0 */
#include "core/copy_trial.h"

#include "base/util.h"

static bool is_trying(const struct copy_trial *s)
{
	return s->seen >= (s->wait ? s->wait : COPY_TRIAL_BEFORE);
}

bool copy_trial_choose(struct copy_trial *s, uint64_t len, bool good)
{
	if (s->wait)
		good = s->copied;
	if (!is_trying(s)) {
		s->seen += len;
		return good;
	}
	return s->runs[!good] < s->runs[good] ? !good : good;
}

void copy_trial_record(struct copy_trial *s, bool copied, uint64_t len, uint64_t ns)
{
	double rate[2];

	if (!is_trying(s))
		return;
	s->bytes[copied] += len;
	s->ns[copied] += ns;
	s->runs[copied]++;
	if (s->runs[0] < COPY_TRIAL_RUNS || s->runs[1] < COPY_TRIAL_RUNS)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(rate); i++)
		rate[i] = (double)s->bytes[i] / (double)max_u64(s->ns[i], 1);
	s->copied = rate[1] > 1.05 * rate[0]; /* or it is not worth the processor's time */
	s->wait = max_u64(COPY_TRIAL_AGAIN, COPY_TRIAL_SHARE * s->bytes[!s->copied]);
	s->seen = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(rate); i++)
		s->bytes[i] = s->ns[i] = s->runs[i] = 0;
}
