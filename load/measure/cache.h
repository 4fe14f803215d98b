/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_CACHE_H
#define SLUICE_MEASURE_CACHE_H

/*
 * The state of the page cache, in words for people and programs: "cold (...)" only
 * where that was seen, "warm (...)", "unknown (...)"; of writes whether it was used.
 */
#include <stdbool.h>
#include <stdint.h>

#include <sluice/probe.h>

struct cache_facts {
	bool read;
	const char *engine; /* that ran */
	const char *memory; /* why O_DIRECT does not keep this machine's memory out, or NULL */
	bool direct;        /* every block went by O_DIRECT */
	int64_t resident;   /* most bytes found in the cache before a read; 0: none */
	int64_t unknown;    /* -errno where the kernel did not tell, else 0 */
	uint64_t size;      /* of which @resident are a part */
	bool durable;       /* writes are flushed within the time */
};

#define CACHE_TEXT 80
void cache_describe(char out[CACHE_TEXT], const struct cache_facts *f);

/*
 * The same of whole objects that are written and read again: of what goes through the page cache
 * nothing is proven cold.  @path NULL: they are in no file.
 */
void cache_describe_objects(char out[CACHE_TEXT], bool read, bool durable,
			    const struct sluice_path_info *path, const struct sluice_stats *st);

/* For cache_facts.memory. */
const char *cache_memory_behind(const struct sluice_path_info *p);

/*
 * Push @path out of the page cache.  Returns how many of its @len bytes are in
 * there still, or -errno where the kernel does not tell.
 */
int64_t cache_drop(const char *path, uint64_t len);

#endif
