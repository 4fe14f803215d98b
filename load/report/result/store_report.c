/* SPDX-License-Identifier: Apache-2.0 */
/* What a KV store says of a run, for every command that had one: the member `store', and lines. */
#include <inttypes.h>

#include <penstock/store.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/result/report_lines.h"

const char *const report_policy_words[] = {"s3-fifo", "lru", NULL};

static double share(uint64_t part, uint64_t of)
{
	return of ? (double)part / (double)of : 0;
}

static json_t *share_json(uint64_t part, uint64_t of)
{
	return of ? json_real(share(part, of)) : json_null();
}

/* Is there a tier below, and did anything go there? */
static bool below_used(const struct penstock_store_stats *s)
{
	return s->demoted || s->demotions_lost || s->below_errors;
}

json_t *report_store_json(const struct penstock_store_stats *s, uint32_t policy)
{
	const struct {
		const char *name;
		uint64_t v;
	} counts[] = {
		{"directories", s->dirs},
		{"directories_out", s->dirs_out},
		{"capacity_bytes", s->capacity},
		{"disk_bytes", s->disk_bytes},
		{"used_bytes", s->used_bytes},
		{"entries", s->entries},
		{"value_bytes", s->value_bytes},
		{"index_bytes", s->index_bytes},
		{"found_entries", s->recovered},
		{"gets", s->gets},
		{"hits", s->hits},
		{"hits_recent", s->hits_recent},
		{"misses", s->misses},
		{"sets", s->sets},
		{"stored", s->stored},
		{"sets_no_space", s->sets_no_space},
		{"deletes", s->deletes},
		{"evictions", s->evictions},
		{"evicted_bytes", s->evicted_bytes},
		{"corrupt", s->corrupt},
		{"errors", s->errors},
		{"got_bytes", s->bytes_got},
		{"set_bytes", s->bytes_set},
		{"read_bytes", s->bytes_read},
		{"written_bytes", s->bytes_written},
		{"log_bytes", s->log_bytes},
	};
	json_t *j = json_pack("{s:s}", "policy", report_policy_words[policy]);

	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		json_object_set_new(j, counts[i].name, json_integer((json_int_t)counts[i].v));
	json_object_set_new(j, "hit_rate", share_json(s->hits, s->gets));
	if (below_used(s))
		json_object_set_new(
			j, "below",
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "entries",
				  (json_int_t)s->below_entries, "bytes", (json_int_t)s->below_bytes,
				  "demoted", (json_int_t)s->demoted, "lost",
				  (json_int_t)s->demotions_lost, "promoted",
				  (json_int_t)s->promoted, "errors", (json_int_t)s->below_errors));
	json_object_set_new(j, "written_per_set", share_json(s->bytes_written, s->bytes_set));
	return j;
}

void report_store_lines(FILE *f, const struct penstock_store_stats *s, uint32_t policy)
{
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];

	fprintf(f, "store:      %s, %s of %s, %" PRIu64 " values in %u director%s\n",
		report_policy_words[policy], penstock_size_format(a, s->disk_bytes),
		penstock_size_format(b, s->capacity), s->entries, s->dirs,
		s->dirs == 1 ? "y" : "ies");
	fprintf(f,
		"            %" PRIu64 " of %" PRIu64 " gets were hits (%.2f %%), %" PRIu64
		" of them from memory; %" PRIu64 " values, %s, made room for others\n",
		s->hits, s->gets, 100 * share(s->hits, s->gets), s->hits_recent, s->evictions,
		penstock_size_format(a, s->evicted_bytes));
	if (s->bytes_set)
		fprintf(f, "            %.3f bytes written for a byte set, log included\n",
			share(s->bytes_written, s->bytes_set));
	if (below_used(s))
		fprintf(f,
			"            below: %" PRIu64 " values, %s; %" PRIu64
			" went there, %" PRIu64 " came back, %" PRIu64
			" were lost on the way, %" PRIu64 " requests failed\n",
			s->below_entries, penstock_size_format(a, s->below_bytes), s->demoted,
			s->promoted, s->demotions_lost, s->below_errors);
	if (s->corrupt + s->errors + s->dirs_out)
		fprintf(f,
			"            %" PRIu64 " values were not what was written, %" PRIu64
			" failed by their drive, %u directories left out\n",
			s->corrupt, s->errors, s->dirs_out);
}
