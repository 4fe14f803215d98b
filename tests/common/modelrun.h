/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_MODELRUN_H
#define PENSTOCK_TESTS_MODELRUN_H

/*
 * Random operations on a few files, checked against the same files in memory.
 * Several are in flight at a time, on ranges that share sectors but no bytes.
 * Choices come from a source, which is a generator in tests/engine/model.c
 * and the fuzzer's bytes in tests/fuzz/ops.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_source {
	uint64_t (*below)(void *arg, uint64_t n); /* in [0, n), n > 0 */
	bool (*more)(void *arg);                  /* false: end here */
	void *arg;
};

struct model_config {
	const char *engine;
	const char *dir;       /* where the files are made */
	const char *device;    /* instead: a block device to overwrite */
	bool striped;          /* instead: striped files, of a few members with odd units */
	unsigned nr_files;     /* 1..4 */
	uint64_t max_size;     /* of a file */
	uint64_t max_len;      /* of an operation */
	unsigned reopen_every; /* operations between closing and opening a handle, about */
	int may_fail;          /* errno value the engine injects, or 0 */
	/* Other memory than the heap's, which stays the caller's; NULL: none. */
	void *(*memory)(size_t len);
	/* What the library is told for a place in that memory. */
	void *(*address)(void *at);
};

struct model_result {
	unsigned long ops;
	unsigned long failed;
	unsigned long cancelled;
	unsigned long direct; /* operations that went by O_DIRECT at least in part */
	uint64_t bytes;
	char why[600]; /* what was wrong */
};

/* Returns true when every byte was where it belongs. */
bool model_run(const struct model_config *config, const struct model_source *source,
	       struct model_result *result);

#endif
