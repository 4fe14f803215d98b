/* SPDX-License-Identifier: Apache-2.0 */
/* Who the users are: drawn in upstream's order from the generator upstream uses. */
#include "load/model/kv_load.h"
#include "load/model/mt.h"

static int draw_qos(struct mt *m, const struct kv_config *c)
{
	double u = mt_random(m);

	if (u < c->interactive_probability)
		return KV_INTERACTIVE;
	return u < c->responsive_threshold ? KV_RESPONSIVE : KV_BATCH;
}

void kv_users_make(const struct kv_params *p, struct kv_user *users)
{
	const struct kv_config *c = &p->config;
	struct mt m;

	mt_seed(&m, p->seed);
	for (uint32_t i = 0; i < p->users; i++) {
		struct kv_user *u = &users[i];
		const struct kv_template *t;

		u->kind = (int)mt_below(&m, KV_TEMPLATES);
		t = &c->user[u->kind];
		u->qos = draw_qos(&m, c);
		u->context = (uint32_t)mt_int(&m, t->context[0], t->context[1]);
		u->generation = (uint32_t)mt_int(&m, t->generation[0], t->generation[1]);
		u->think = mt_uniform(&m, t->think[0], t->think[1]);
	}
}
