/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_MEMORY_H
#define SLUICE_JOBS_MEMORY_H

/*
 * The memory a worker's operations use: the library's buffers, ordinary memory, or
 * a GPU's.  The program looks at it through the stage, a window of host memory: of host
 * memory the window is all of it, of device memory a piece that is copied.
 */
#include <stdint.h>

#include <sluice/sluice.h>

struct worker;

/* The worker's handle is open; memory_close() is due whatever happens, after closing it. */
int memory_open(struct worker *w, struct sluice_err *err);
void memory_close(struct worker *w);

/* Every byte @byte. */
int memory_set(struct worker *w, int byte, struct sluice_err *err);
/* The data pattern @seed. */
int memory_fill(struct worker *w, uint64_t seed, struct sluice_err *err);
/* -EBADMSG, naming @path and the first wrong byte, when it does not hold the pattern. */
int memory_check(struct worker *w, uint64_t seed, const char *path, struct sluice_err *err);
/* The same for the stage, which stands for @len bytes from @offset on. */
int stage_check(const struct worker *w, uint64_t seed, uint64_t offset, uint64_t len,
		const char *path, struct sluice_err *err);
/* Aligned host memory with the content of the memory; NULL: there is no room. */
char *memory_content(struct worker *w);

#endif
