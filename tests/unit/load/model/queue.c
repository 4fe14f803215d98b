/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps, the queue by level of service, and the conversation manager. */
#include "base/random.h"
#include "common/kvparams.h"
#include "common/t.h"
#include "load/model/kv_conv.h"
#include "load/model/kv_queue.h"

#define MANY 1000u

/* ------------------------------------------------------------------------- heap */

static bool in_order(struct penstock_heap_item a, struct penstock_heap_item b)
{
	return a.key < b.key || (a.key == b.key && a.value < b.value);
}

/* Take everything: it comes in order, and there are @nr. */
static void take_all(struct penstock_heap *h, uint32_t nr, uint32_t limit)
{
	struct penstock_heap_item last = {0}, item;

	T_EQ(h->nr, nr);
	for (uint32_t i = 0; i < nr; i++) {
		item = penstock_heap_pop(h);
		T_OK(item.value < limit);
		T_OK(i == 0 || in_order(last, item));
		last = item;
	}
	T_EQ(h->nr, 0);
}

static void fill(struct penstock_heap *h, struct penstock_random *r)
{
	for (uint32_t i = 0; i < MANY; i++)
		penstock_heap_push(h, penstock_random_below(r, MANY / 2), i);
}

static void a_heap_gives_the_earliest_first_and_of_equals_the_lowest_number(void)
{
	struct penstock_random r;
	struct penstock_heap h = {0};

	penstock_random_seed(&r, t_seed());
	T_EQ(penstock_heap_reserve(&h, MANY), 0);
	fill(&h, &r);
	take_all(&h, MANY, MANY);
	penstock_heap_fini(&h);
}

static void a_heap_that_was_cut_is_still_in_order(void)
{
	struct penstock_random r;
	struct penstock_heap h = {0};

	penstock_random_seed(&r, t_seed());
	T_EQ(penstock_heap_reserve(&h, MANY), 0);
	fill(&h, &r);
	penstock_heap_remove_from(&h, 77);
	take_all(&h, 77, 77);
	fill(&h, &r);
	penstock_heap_remove_from(&h, 0);
	take_all(&h, 0, 0);
	penstock_heap_fini(&h);
}

/* ------------------------------------------------------------------------ queue */

static struct kv_params params;
static struct kv_queue queue;

static void setup(void)
{
	t_kv_params(&params, 1, 60);
}

static void teardown(void)
{
	kv_queue_fini(&queue);
	kv_config_fini(&params.config);
}

static void expect(uint64_t now, int level, uint32_t who)
{
	struct penstock_heap_item item;

	T_EQ(kv_queue_take(&queue, now, &item), level);
	if (level >= 0)
		T_EQ(item.value, who);
}

static void put_three(void)
{
	T_EQ(kv_queue_init(&queue, &params, 3), 0);
	T_EQ(kv_queue_first(&queue), UINT64_MAX);
	penstock_heap_push(&queue.level[KV_BATCH], 10, 0);
	penstock_heap_push(&queue.level[KV_RESPONSIVE], 20, 1);
	penstock_heap_push(&queue.level[KV_INTERACTIVE], 30, 2);
	T_EQ(kv_queue_first(&queue), 10);
}

static void the_highest_priority_of_those_that_have_arrived_is_next(void)
{
	put_three();
	expect(9, -1, 0);
	expect(25, KV_RESPONSIVE, 1);
	expect(30, KV_INTERACTIVE, 2);
	expect(30, KV_BATCH, 0);
	expect(UINT64_MAX, -1, 0);
}

static void priorities_come_from_the_configuration(void)
{
	params.config.qos[KV_BATCH].priority = 9;
	put_three();
	expect(30, KV_BATCH, 0);
}

static void upstream_has_fixed_priorities(void)
{
	params.config.qos[KV_BATCH].priority = 9;
	kv_params_as_upstream(&params);
	put_three();
	expect(30, KV_INTERACTIVE, 2);
}

static void levels_of_equal_priority_are_served_by_arrival(void)
{
	for (int i = 0; i < KV_QOS; i++)
		params.config.qos[i].priority = 1;
	put_three();
	expect(30, KV_BATCH, 0);
	expect(30, KV_RESPONSIVE, 1);
	expect(30, KV_INTERACTIVE, 2);
}

/* ----------------------------------------------------------------- conversations */

static void turns_are_numbered_from_1(void)
{
	struct kv_convs c;
	uint32_t a, b;

	T_EQ(kv_convs_init(&c, 10), 0);
	a = kv_convs_start(&c, 1, 100);
	b = kv_convs_start(&c, 2, 100);
	T_EQ(kv_convs_turn(&c, a), 1);
	T_EQ(kv_convs_turn(&c, a), 2);
	T_EQ(kv_convs_turn(&c, b), 1);
	kv_convs_fini(&c);
}

static void the_conversation_that_was_not_used_longest_is_forgotten(void)
{
	struct kv_convs c;
	uint32_t slot[3];

	T_EQ(kv_convs_init(&c, 3), 0);
	for (uint32_t i = 0; i < 3; i++)
		slot[i] = kv_convs_start(&c, i, 100);
	kv_convs_turn(&c, slot[0]);
	kv_convs_start(&c, 7, 101); /* 1 goes */
	T_OK(kv_convs_has(&c, slot[0], 0, 100));
	T_OK(!kv_convs_has(&c, slot[1], 1, 100));
	T_OK(kv_convs_has(&c, slot[2], 2, 100));
	kv_convs_start(&c, 8, 101); /* 2 goes */
	T_OK(kv_convs_has(&c, slot[0], 0, 100));
	T_OK(!kv_convs_has(&c, slot[2], 2, 100));
	kv_convs_fini(&c);
}

static void so_many_conversations_are_kept_and_no_more(void)
{
	struct kv_convs c;
	uint32_t first, second;

	T_EQ(kv_convs_init(&c, 5000), 0);
	first = kv_convs_start(&c, 0, 1);
	second = kv_convs_start(&c, 1, 1);
	for (uint32_t i = 2; i < 5000; i++)
		kv_convs_start(&c, i, 1);
	T_OK(kv_convs_has(&c, first, 0, 1));
	kv_convs_start(&c, 5000, 1);
	T_OK(!kv_convs_has(&c, first, 0, 1));
	T_OK(kv_convs_has(&c, second, 1, 1));
	T_EQ(c.nr, 5000);
	kv_convs_fini(&c);
}

static const struct t_case heaps[] = {
	T_CASE(a_heap_gives_the_earliest_first_and_of_equals_the_lowest_number),
	T_CASE(a_heap_that_was_cut_is_still_in_order),
};

static const struct t_case queues[] = {
	T_CASE(the_highest_priority_of_those_that_have_arrived_is_next),
	T_CASE(priorities_come_from_the_configuration),
	T_CASE(upstream_has_fixed_priorities),
	T_CASE(levels_of_equal_priority_are_served_by_arrival),
};

static const struct t_case convs[] = {
	T_CASE(turns_are_numbered_from_1),
	T_CASE(the_conversation_that_was_not_used_longest_is_forgotten),
	T_CASE(so_many_conversations_are_kept_and_no_more),
};

static const struct t_group groups[] = {
	{"heap", NULL, NULL, heaps, T_COUNT(heaps)},
	{"queue", setup, teardown, queues, T_COUNT(queues)},
	{"conversations", NULL, NULL, convs, T_COUNT(convs)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
