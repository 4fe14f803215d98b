/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the YAML file of `penstock kv'. */
#include <math.h>
#include <string.h>

#include "cli/kv/kv_config.h"
#include "cli/opt/opt.h"
#include "tests/fuzz/fuzz.h"

static void check_lines(const struct cli_problems *p)
{
	for (unsigned i = 0; i < p->nr && i < CLI_PROBLEMS_MAX; i++)
		FUZZ_CHECK(p->lines[i] && !strncmp(p->lines[i], "file: ", 6));
}

/* Whatever was taken can be worked with. */
static void check_config(const struct kv_config *c)
{
	struct penstock_err err = {0, ""};

	FUZZ_CHECK(kv_config_check(c, &err) == 0);
	for (unsigned i = 0; i < KV_TEMPLATES; i++)
		FUZZ_CHECK(c->user[i].think[0] <= c->user[i].think[1]);
	FUZZ_CHECK(c->rag_retrieval >= KV_RETRIEVE_ZIPFIAN &&
		   c->rag_retrieval <= KV_RETRIEVE_RANDOM);
	FUZZ_CHECK(c->min_users <= c->max_users && c->limit_users >= 1);
	FUZZ_CHECK(isfinite(c->limit_gpu_gb) && isfinite(c->qos[0].p95_ms));
	for (unsigned i = 0; i < c->models.nr; i++)
		FUZZ_CHECK(kv_model_check(&c->models.v[i], &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cli_problems problems = {.nr = 0}, warnings = {.nr = 0};
	struct kv_config c;

	if (kv_config_defaults(&c) < 0)
		return 0;
	kv_config_parse(&c, (const char *)data, size, "file", &problems, &warnings);
	check_lines(&problems);
	check_lines(&warnings);
	if (!problems.nr)
		check_config(&c);
	cli_problems_fini(&problems);
	cli_problems_fini(&warnings);
	kv_config_fini(&c);
	return 0;
}
