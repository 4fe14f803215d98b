/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_MODELCASES_H
#define PENSTOCK_TESTS_MODELCASES_H

/*
 * The model test: random operations of three kinds against a model in memory, on whatever
 * memory a program brings.  PENSTOCK_TEST_SEED and PENSTOCK_TEST_OPS say which and how many.
 */
#include <stdbool.h>
#include <stddef.h>

struct model_setup {
	const char *engine;
	const char *device;  /* a block device to overwrite, instead of files */
	bool striped;        /* striped files, instead of plain ones */
	unsigned long ops;   /* unless PENSTOCK_TEST_OPS says otherwise */
	void (*setup)(void); /* of every case; NULL: none */
	void (*teardown)(void);
	/* As in struct model_config. */
	void *(*memory)(size_t len);
	void *(*address)(void *at);
};

/* Runs all cases; for main() to return.  Skips where the engine is not to be had. */
int model_cases_run(const struct model_setup *s);

#endif
