/* SPDX-License-Identifier: Apache-2.0 */
/* A thread has one submitter at each handle, however many handles it uses in turns. */
#include <pthread.h>

#include "core/core.h"
#include "tests/common/t.h"

enum { HANDLES = 20, TURNS = 50 };

static struct penstock_io *handles[HANDLES];

static void setup(void)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;

	opts.engine = "null";
	opts.threads = 1;
	for (unsigned i = 0; i < HANDLES; i++)
		T_EQ(penstock_open(&handles[i], &opts, NULL), 0);
}

static void teardown(void)
{
	for (unsigned i = 0; i < HANDLES; i++)
		T_EQ(penstock_close(handles[i], NULL), 0);
}

static void *use_all_in_turns(void *arg)
{
	for (unsigned turn = 0; turn < TURNS; turn++)
		for (unsigned i = 0; i < HANDLES; i++)
			T_EQ(penstock_wait_any(handles[i], NULL, 0, 0, 0), 0);
	return arg;
}

static void a_thread_with_many_handles_has_a_submitter_at_each(void)
{
	pthread_t other;

	setup();
	use_all_in_turns(NULL);
	for (unsigned i = 0; i < HANDLES; i++)
		T_EQ(handles[i]->nr_submitters, 1);
	T_EQ(pthread_create(&other, NULL, use_all_in_turns, NULL), 0);
	use_all_in_turns(NULL);
	T_EQ(pthread_join(other, NULL), 0);
	for (unsigned i = 0; i < HANDLES; i++)
		T_EQ(handles[i]->nr_submitters, 2);
	teardown();
}

static const struct t_case cases[] = {
	T_CASE(a_thread_with_many_handles_has_a_submitter_at_each),
};

int main(void)
{
	const struct t_group group = {"submitter", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
