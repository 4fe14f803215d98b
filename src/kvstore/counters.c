/* SPDX-License-Identifier: Apache-2.0 */
/* What a store says of itself. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

static void counters_collect(struct penstock_store *s, struct penstock_store_stats *to)
{
	pthread_mutex_lock(&s->lock);
	*to = s->stats;
	to->size = sizeof(*to);
	to->dirs = s->nr_dirs;
	to->capacity = s->capacity;
	to->index_bytes = store_index_bytes(&s->index) + store_policy_bytes(&s->policy) +
			  store_tier_index_bytes(s);
	to->buffer_bytes = s->staging.bytes;
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		const struct store_dir *d = &s->dirs[i];

		if (!d->map)
			continue;
		to->used_bytes +=
			(extent_map_ready(d->map) - extent_map_unused(d->map)) * STORE_UNIT;
	}
	store_unlock(s);
	/* Asks the file systems, which may take as long as they like. */
	for (unsigned i = 0; i < s->nr_dirs; i++)
		if (s->dirs[i].map)
			to->disk_bytes += store_dir_disk_bytes(&s->dirs[i]);
}

int penstock_store_get_stats(struct penstock_store *store, struct penstock_store_stats *stats)
{
	struct penstock_store_stats now;
	uint32_t size;
	int r = store_check(store, NULL);

	if (r < 0)
		return r;
	size = stats ? stats->size : 0;
	if (size < 8)
		return -EINVAL;
	counters_collect(store, &now);
	memset(stats, 0, size);
	memcpy(stats, &now, min_u64(size, sizeof(now)));
	stats->size = size;
	return 0;
}

struct metric {
	const char *name, *type, *help;
	size_t at;
	bool narrow; /* 32 bits */
};

#define METRIC(field, type, help)                                                 \
	{                                                                         \
#field, type, help, offsetof(struct penstock_store_stats, field), \
			sizeof(((struct penstock_store_stats *)0)->field) == 4    \
	}

static const struct metric metrics[] = {
	METRIC(dirs, "gauge", "Directories of the store."),
	METRIC(dirs_out, "gauge", "Directories that are left out."),
	METRIC(capacity, "gauge", "Most bytes on disk."),
	METRIC(disk_bytes, "gauge", "Bytes that the files take."),
	METRIC(used_bytes, "gauge", "Bytes of the data files that values take."),
	METRIC(entries, "gauge", "Values."),
	METRIC(value_bytes, "gauge", "Bytes of values."),
	METRIC(index_bytes, "gauge", "Memory of the index, of what is below, too."),
	METRIC(buffer_bytes, "gauge", "Memory of buffers."),
	METRIC(gets, "counter", "Keys asked for."),
	METRIC(hits, "counter", "Values delivered."),
	METRIC(misses, "counter", "Keys without a value."),
	METRIC(hits_recent, "counter", "Values delivered from memory."),
	METRIC(late, "counter", "Keys past their deadline."),
	METRIC(errors, "counter", "Values that a device failed."),
	METRIC(corrupt, "counter", "Values that were not what was written."),
	METRIC(expired, "counter", "Values found past their time."),
	METRIC(sets, "counter", "Values to be stored."),
	METRIC(stored, "counter", "Values stored."),
	METRIC(sets_present, "counter", "Values not stored because they were there."),
	METRIC(sets_refused, "counter", "Values not admitted at the first touch."),
	METRIC(sets_no_space, "counter", "Values there was no space for."),
	METRIC(deletes, "counter", "Values deleted."),
	METRIC(evictions, "counter", "Values that made room for others."),
	METRIC(evicted_bytes, "counter", "Bytes of these."),
	METRIC(bytes_got, "counter", "Bytes of values delivered."),
	METRIC(bytes_set, "counter", "Bytes of values stored."),
	METRIC(bytes_read, "counter", "Bytes read from the drives."),
	METRIC(bytes_written, "counter", "Bytes written to the drives, log included."),
	METRIC(log_bytes, "counter", "Bytes of log written."),
	METRIC(below_entries, "gauge", "Values in the object store below."),
	METRIC(below_bytes, "gauge", "Bytes of these."),
	METRIC(demoted, "counter", "Values put there."),
	METRIC(demotions_lost, "counter", "Values that made room and were not."),
	METRIC(promoted, "counter", "Values that came back from there."),
	METRIC(below_errors, "counter", "Requests that failed there."),
	METRIC(recovered, "gauge", "Values found when the store was opened."),
	METRIC(lost, "gauge", "Values and records found broken then."),
};

static uint64_t metric_value(const struct penstock_store_stats *s, const struct metric *m)
{
	const char *at = (const char *)s + m->at;
	uint32_t narrow;
	uint64_t wide;

	memcpy(&narrow, at, sizeof(narrow));
	if (m->narrow)
		return narrow;
	memcpy(&wide, at, sizeof(wide));
	return wide;
}

int penstock_store_get_io_stats(struct penstock_store *store, struct penstock_stats *stats)
{
	int r = store_check(store, NULL);

	return r < 0 ? r : penstock_get_stats(store->io, stats);
}

int penstock_store_metrics(struct penstock_store *store, char *text, size_t size)
{
	struct penstock_store_stats now;
	size_t at = 0;
	int r = store_check(store, NULL);

	if (r < 0)
		return r;
	counters_collect(store, &now);
	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++) {
		const struct metric *m = &metrics[i];
		bool counter = m->type[0] == 'c';

		at += (size_t)snprintf(
			at < size ? text + at : NULL, at < size ? size - at : 0,
			"# HELP penstock_store_%s%s %s\n# TYPE penstock_store_%s%s %s\n"
			"penstock_store_%s%s %" PRIu64 "\n",
			m->name, counter ? "_total" : "", m->help, m->name, counter ? "_total" : "",
			m->type, m->name, counter ? "_total" : "", metric_value(&now, m));
	}
	return (int)at;
}
