/* SPDX-License-Identifier: Apache-2.0 */
#include "load/replay/replay_pace.h"

#include "base/util.h"

uint64_t replay_due(struct replay_pace *p, uint64_t time_ns)
{
	if (!p->begun) {
		p->begun = true;
		p->first_ns = p->last_ns = time_ns;
	}
	if (time_ns < p->last_ns) {
		p->out_of_order++;
		p->max_back_ns = max_u64(p->max_back_ns, p->last_ns - time_ns);
	}
	p->last_ns = max_u64(p->last_ns, time_ns);
	if (p->factor <= 0)
		return 0;
	return (uint64_t)((double)(p->last_ns - p->first_ns) / p->factor);
}

void replay_lag_add(struct replay_lag *l, uint64_t due_ns, uint64_t waited_ns)
{
	double lag = (double)waited_ns / 1e9, t = (double)due_ns / 1e9;

	l->t_min = l->n && l->t_min < t ? l->t_min : t;
	l->t_max = l->n && l->t_max > t ? l->t_max : t;
	l->n++;
	l->sum += lag;
	l->last = lag;
	if (lag > l->max)
		l->max = lag;
	l->t_sum += t;
	l->tt_sum += t * t;
	l->tl_sum += t * lag;
}

double replay_lag_slope(const struct replay_lag *l)
{
	double n = (double)l->n, spread = n * l->tt_sum - l->t_sum * l->t_sum;
	double covered = l->t_max - l->t_min;

	/* all at one time: there is no line through them */
	if (l->n < 2 || spread <= 1e-9 * n * l->tt_sum)
		return 0;
	return (n * l->tl_sum - l->t_sum * l->sum) / spread * (covered < 1 ? covered : 1);
}

bool replay_overloaded(const struct replay_lag *l)
{
	return l->last > REPLAY_LATE && replay_lag_slope(l) > REPLAY_SLOPE;
}
