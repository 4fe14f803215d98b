/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_PAGE_CACHE_H
#define PENSTOCK_MEASURE_PAGE_CACHE_H

/*
 * The state of the page cache, in words for people and programs: "cold (...)" only
 * where that was seen, "warm (...)", "unknown (...)"; of writes whether it was used.
 */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/probe.h>

#include "load/measure/series.h"

/* What only the job knows; zero what is not so. */
struct page_cache_facts {
	int64_t resident;       /* most bytes of a file found in the cache before a read */
	int64_t unknown;        /* -errno where the kernel did not tell */
	uint64_t size;          /* of the file, of which @resident are a part */
	const char *filled_why; /* nothing was dropped: why the cache holds what is read, or NULL */
	bool durable;           /* writes are flushed within the time */
};

/* Take note of what page_cache_drop() found before a read. */
void page_cache_add(struct page_cache_facts *f, int64_t left);

/*
 * Set @s->cache from what ran (@s->read, @s->stats), what lies below (@paths) and @f.
 * This is the one place that calls a read cold.
 */
void page_cache_describe(struct run_series *s, const struct page_cache_facts *f,
			 const struct penstock_path_info *paths, unsigned nr_paths);

/*
 * The same of whole objects that are written and read again: of what goes through the page cache
 * nothing is proven cold.  @path NULL: they are in no file.
 */
#define PAGE_CACHE_TEXT sizeof(((struct run_series *)0)->cache)
void page_cache_describe_objects(char out[PAGE_CACHE_TEXT], bool read, bool durable,
				 const struct penstock_path_info *path,
				 const struct penstock_stats *st);
/* Of objects behind a network: we have no cache of them, and theirs nobody tells. */
void page_cache_describe_remote(char out[PAGE_CACHE_TEXT]);

/*
 * Push @path out of the page cache.  Returns how many of its @len bytes from @from on are in
 * there still, or -errno where the kernel does not tell.
 */
int64_t page_cache_drop(const char *path, uint64_t from, uint64_t len);
/* The same of the first @len, and nothing is pushed. */
int64_t page_cache_resident(const char *path, uint64_t len);

#endif
