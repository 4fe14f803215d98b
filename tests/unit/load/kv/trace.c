/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads as traces: the file and the result. */
#include <math.h>
#include <sys/stat.h>

#include "base/util.h"
#include "common/kvparams.h"
#include "common/t.h"
#include "load/kv/kv.h"
#include "load/trace/trace.h"

#define SEC 1000000000ull

static struct kv_params *const params = &t_kv.params;
static struct kv_job job;
static struct kv_result result;
static atomic_int stop;
static char path[PATH_MAX];

static void setup(void)
{
	t_kv_setup();
	params->gpu_gb = 0.2; /* so that something has to go */
	params->cpu_gb = 0.4;
	snprintf(path, sizeof(path), "%s", t_path("trace.csv"));
	unlink(path);
	atomic_store(&stop, 0);
	job = (struct kv_job){.params = params, .trace_path = path, .stop = &stop};
	T_EQ(kv_result_init(&result), 0);
}

static void teardown(void)
{
	kv_result_fini(&result);
	t_kv_teardown();
}

static int try_run(struct penstock_err *err)
{
	kv_result_fini(&result);
	T_EQ(kv_result_init(&result), 0);
	return kv_run_trace(&job, &result, err);
}

static void run(void)
{
	struct penstock_err err;

	T_ERR(try_run(&err), 0, &err);
}

/* ------------------------------------------------------------------ reading rows */

struct line {
	double time;
	char op[16], tier[16], key[128], phase[16], rest[128];
	unsigned long long size;
};

static FILE *open_trace(void)
{
	static const char header[] = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase";
	char line[512];
	FILE *f = fopen(path, "r");

	T_OK(f && fgets(line, sizeof(line), f));
	T_OK(!strncmp(line, header, strlen(header)));
	T_OK(strstr(line, "\r\n") != NULL);
	return f;
}

static bool read_line(FILE *f, struct line *l)
{
	char line[512];
	char *end;

	if (!fgets(line, sizeof(line), f)) {
		fclose(f);
		return false;
	}
	end = strstr(line, "\r\n");
	T_OK(end != NULL);
	*end = 0;
	l->rest[0] = 0;
	T_OK(sscanf(line, "%lf,%15[^,],%llu,%15[^,],%127[^,],%15[^,]%127s", &l->time, l->op,
		    &l->size, l->tier, l->key, l->phase, l->rest) >= 6);
	return true;
}

static int tier_of(const struct line *l)
{
	return l->tier[5] - '0';
}

static uint64_t file_sum(void)
{
	uint64_t sum = T_SUM;
	char buf[4096];
	size_t n;
	FILE *f = fopen(path, "r");

	T_OK(f != NULL);
	while ((n = fread(buf, 1, sizeof(buf), f)))
		sum = t_sum(sum, buf, n);
	fclose(f);
	return sum;
}

/* ------------------------------------------------------------------------- rows */

static void rows_are_strictly_in_order(void)
{
	uint64_t rows = 0;
	double last = 1735689600;
	struct line l;

	run();
	for (FILE *f = open_trace(); read_line(f, &l); rows++) {
		T_OK(l.time - last > 0.5e-6);
		T_EQ(l.rest[0], 0);
		last = l.time;
	}
	T_OK(rows > 10000 && last < 1735689600 + 60.1);
	T_EQ(rows, result.rows);
}

static void the_same_seed_gives_the_same_file(void)
{
	uint64_t sum;

	params->rag = true;
	run();
	sum = file_sum();
	run();
	T_EQ(file_sum(), sum);
	params->seed = 43;
	run();
	T_OK(file_sum() != sum);
}

/* Longer than a writer would wait that writes by the clock. */
static void dawdle(void *arg, double at_sec, uint64_t requests, uint64_t bytes)
{
	struct timespec ts = {1, 500000000};

	(void)at_sec;
	(void)bytes;
	if (requests == 0 && ++*(int *)arg == 1)
		while (nanosleep(&ts, &ts) < 0)
			;
}

static void a_compressed_file_is_the_same_however_long_it_took(void)
{
	int calls = 0;
	uint64_t sum;

	snprintf(path, sizeof(path), "%s", t_path("trace.csv.zst"));
	run();
	sum = file_sum();
	job.progress = dawdle;
	job.progress_arg = &calls;
	run();
	T_OK(calls > 0 && result.wall_sec > 1.4);
	T_EQ(file_sum(), sum);
}

/* To be changed together with anything that is meant to change what a seed gives. */
static void this_seed_gives_this_file(void)
{
	params->users = 5;
	run();
	t_note("rows %llu, sum 0x%llx", (unsigned long long)result.rows,
	       (unsigned long long)file_sum());
	T_EQ(file_sum(), 0xd656cf5ff03d280);
}

/* Of each key: where it is, according to the rows. */
static void every_object_is_where_the_rows_before_say(void)
{
	struct {
		char key[64];
		int tier;
	} *at = calloc(20000, sizeof(*at));
	unsigned nr = 0, moves = 0, i;
	struct line l, from = {0};

	T_OK(at != NULL);
	params->duration_ns = 20000000000;
	run();
	for (FILE *f = open_trace(); read_line(f, &l);) {
		for (i = nr; i-- > 0 && strcmp(at[i].key, l.key);)
			;
		if (i == UINT_MAX) {
			T_OK(!strcmp(l.op, "Write") && !strcmp(l.phase, "Prefill"));
			T_OK(nr < 20000);
			snprintf(at[nr].key, sizeof(at[nr].key), "%.63s", l.key);
			at[nr++].tier = tier_of(&l);
		} else if (!strcmp(l.op, "Read")) {
			T_EQ(tier_of(&l), at[i].tier);
		} else { /* the second half of a move down */
			T_OK(!strcmp(l.phase, "Evict") && !strcmp(from.phase, "Evict"));
			T_OK(!strcmp(from.key, l.key) && !strcmp(from.op, "Read"));
			T_EQ(tier_of(&l), at[i].tier + 1);
			T_EQ(l.size, from.size);
			at[i].tier++;
			moves++;
		}
		from = l;
	}
	T_OK(moves > 500);
	free(at);
}

static void what_was_counted_is_what_was_written(void)
{
	uint64_t bytes[KV_TIERS][2] = {{0}}, decode = 0, prefill = 0;
	struct line l;

	run();
	for (FILE *f = open_trace(); read_line(f, &l);) {
		bytes[tier_of(&l)][l.op[0] == 'W'] += l.size;
		decode += !strcmp(l.phase, "Decode");
		prefill += !strcmp(l.phase, "Prefill");
	}
	for (int i = 0; i < KV_TIERS; i++) {
		T_EQ(result.counts.tier_read[i], bytes[i][0]);
		T_EQ(result.counts.tier_written[i], bytes[i][1]);
	}
	T_EQ(result.counts.decode_reads, decode);
	T_EQ(result.counts.prefill_writes, prefill);
	T_EQ(result.entries[0] + result.entries[1] + result.entries[2], prefill);
	T_EQ(result.tier[KV_NVME][0].n, result.series[0].ops);
}

static void seconds_add_up(void)
{
	struct kv_second sum = {0};

	params->generation = KV_GEN_FAST;
	run();
	T_EQ(result.seconds.nr, 60);
	for (uint32_t i = 0; i < result.seconds.nr; i++) {
		const struct kv_second *s = per_second_row(&result.seconds, i);

		sum.requests += s->requests;
		sum.tokens += s->tokens;
		sum.hits += s->hits;
		sum.misses += s->misses;
		for (int t = 0; t < KV_TIERS; t++) {
			sum.read_bytes[t] += s->read_bytes[t];
			sum.write_bytes[t] += s->write_bytes[t];
		}
		T_OK(i < 5 || s->in_flight > 0);
	}
	T_EQ(sum.requests, result.requests);
	T_EQ(sum.tokens, result.tokens);
	T_EQ(sum.hits, result.counts.hits);
	T_EQ(sum.misses, result.counts.misses);
	for (int t = 0; t < KV_TIERS; t++) {
		T_EQ(sum.read_bytes[t], result.counts.tier_read[t]);
		T_EQ(sum.write_bytes[t], result.counts.tier_written[t]);
	}
}

/* The six columns are the same whether there are more or not. */
static void more_columns_and_deletions_on_request_only(void)
{
	static char plain[PATH_MAX];
	unsigned deletes = 0, users = 0, rows = 0;
	struct line a, b;
	FILE *f, *g;

	params->storage_gb = 1;
	run();
	snprintf(plain, sizeof(plain), "%s", t_path("plain.csv"));
	T_EQ(rename(path, plain), 0);
	rows = (unsigned)result.rows;
	job.trace_extended = true;
	run();
	g = open_trace();
	f = fopen(plain, "r");
	T_OK(f && fscanf(f, "%*[^\n]%*1c") == 0);
	while (read_line(g, &b)) {
		users += strstr(b.rest, ",") != NULL;
		if (!strcmp(b.op, "Delete")) {
			T_EQ(tier_of(&b), KV_NVME);
			deletes++;
			continue;
		}
		T_OK(read_line(f, &a));
		T_OK(fabs(a.time - b.time) < 1e-7 && a.size == b.size);
		T_OK(!strcmp(a.op, b.op) && !strcmp(a.key, b.key) && !strcmp(a.tier, b.tier));
		rows--;
	}
	fclose(f);
	T_EQ(rows, 0);
	T_OK(deletes > 100);
	T_OK(users > deletes);
	T_OK(result.used[KV_NVME] <= result.limit[KV_NVME]);
}

static void what_was_there_before_is_written_and_not_counted(void)
{
	unsigned before = 0;
	struct line l;

	params->decode_only = params->precondition = true;
	params->precondition_gb = 1;
	params->max_requests = 10;
	params->prefix = false;
	run();
	for (FILE *f = open_trace(); read_line(f, &l);)
		before += !strcmp(l.phase, "Prefill") &&
			  (!strncmp(l.key, "precond_", 8) || !strncmp(l.key, "prepop_", 7));
	T_EQ(before, 22 + 200);
	T_EQ(result.counts.prefill_writes, 0);
	T_OK(result.counts.decode_reads > 0);
	T_EQ(result.requests, 10);
}

/* ----------------------------------------------------------------------- result */

static void exactly_so_many_requests_and_the_time_they_took(void)
{
	params->max_requests = 100;
	params->generation = KV_GEN_REALISTIC;
	run();
	T_EQ(result.requests, 100);
	T_EQ(result.end_to_end.n, 100);
	T_OK(result.elapsed_sec > 1 && result.elapsed_sec < 60);
	T_OK(result.generation_sec > 50);
	T_OK(!result.partial);
}

static void what_is_still_generating_at_the_end_does_not_count(void)
{
	uint64_t ours;

	params->generation = KV_GEN_REALISTIC;
	run();
	ours = result.requests;
	T_OK(fabs(result.elapsed_sec - 60) < 1e-9);
	T_EQ(result.end_to_end.n, ours);
	kv_params_as_upstream(params);
	run();
	T_EQ(result.requests, ours + 20); /* each of 20 workers had one */
}

static void latency_is_from_the_arrival_to_the_last_token(void)
{
	params->generation = KV_GEN_REALISTIC;
	params->closed_loop = true;
	run();
	/* as many workers as users: nobody waits */
	T_OK(fabs(samples_mean(&result.end_to_end) - samples_mean(&result.generation)) < 1e-3);
	T_OK(samples_mean(&result.generation) > 1);
	T_EQ(result.qos_violations[KV_INTERACTIVE], result.qos[KV_INTERACTIVE].n);
	T_OK(result.qos_violations[KV_BATCH] < result.qos[KV_BATCH].n);
	params->generation = KV_GEN_NONE;
	run();
	T_EQ(result.qos_violations[KV_INTERACTIVE], 0);
	T_OK(samples_mean(&result.storage) == 0);
}

static void prefixes_and_turns_are_in_the_result(void)
{
	run();
	T_EQ(result.prefix_hits + result.prefix_misses, result.requests);
	T_OK(result.prefix_hits > result.requests / 7 && result.prefix_hits < result.requests / 4);
	T_OK(result.prefix_bytes_saved > 0);
	T_EQ(result.turn_hits, result.counts.kind_hits[KV_MULTI_TURN]);
	params->prefix = false;
	run();
	T_EQ(result.prefix_hits + result.prefix_misses, 0);
}

static void the_autoscaler_adds_users(void)
{
	uint64_t few;

	run();
	few = result.requests;
	params->autoscale = true;
	run();
	T_EQ(result.nr_timeline, 5);
	T_EQ(result.nr_scale, 5);
	T_OK(fabs(result.timeline[4].at_sec - 50) < 1e-9);
	T_EQ(result.users_start, 20);
	T_EQ(result.users_end, 46); /* 24 28 33 39 46: each time a fifth more */
	T_OK(result.requests > few * 5 / 4);
	kv_params_as_upstream(params); /* upstream's is but a number */
	run();
	T_OK(result.users_end > 40);
	T_OK(result.requests < few * 11 / 10);
	for (uint32_t i = 1; i < result.nr_timeline; i++) /* since the start: nothing jumps */
		T_OK(result.timeline[i].tokens_per_sec * result.timeline[i].at_sec >=
		     result.timeline[i - 1].tokens_per_sec * result.timeline[i - 1].at_sec);
}

static void the_search_for_capacity_ends_the_run(void)
{
	params->autoscale = true;
	params->autoscale_mode = KV_SCALE_CAPACITY;
	params->generation = KV_GEN_REALISTIC;
	params->config.max_users = 30;
	params->duration_ns = 1000000000000;
	run();
	T_OK(result.elapsed_sec < 500);
	T_OK(!strcmp(result.scale[result.nr_scale - 1].action, "stop"));
	T_OK(result.peak_tokens_per_sec > 0);
}

/* -------------------------------------------------------------- stop and failure */

static void stop_now(void *arg, double at_sec, uint64_t requests, uint64_t bytes)
{
	(void)arg;
	(void)at_sec;
	(void)requests;
	(void)bytes;
	atomic_store(&stop, 1);
}

static void a_run_that_is_stopped_says_so(void)
{
	uint64_t rows = 0;
	struct line l;

	params->duration_ns = 80000000000000; /* it will not get there */
	job.progress = stop_now;
	run();
	T_OK(result.partial);
	T_STR_HAS(result.partial_why, "stopped");
	T_OK(result.elapsed_sec < 80000 && result.requests > 0);
	for (FILE *f = open_trace(); read_line(f, &l);)
		rows++;
	T_EQ(rows, result.rows);
}

static void bad_input_makes_no_file(void)
{
	struct penstock_err err;
	struct stat st;

	params->burst_path = t_path("no-such.csv");
	T_OK(try_run(&err) < 0);
	T_STR_HAS(err.msg, "no-such.csv");
	T_OK(stat(path, &st) < 0);
}

static void a_file_that_cannot_be_written_is_an_error(void)
{
	struct penstock_err err;

	job.trace_path = "/dev/full";
	T_EQ(try_run(&err), -ENOSPC);
	T_STR_HAS(err.msg, "/dev/full");
	T_OK(result.partial);
	job.trace_path = "/proc/nothing/trace.csv";
	T_OK(try_run(&err) < 0);
}

/* ------------------------------------------------------------------- real clock */

static uint64_t sum_of_operations(void)
{
	uint64_t sum = T_SUM;
	struct line l;

	for (FILE *f = open_trace(); read_line(f, &l);) {
		sum = t_sum(sum, l.op, strlen(l.op));
		sum = t_sum(sum, l.tier, strlen(l.tier));
		sum = t_sum(sum, &l.size, sizeof(l.size));
	}
	return sum;
}

static void the_real_clock_does_the_same_and_takes_its_time(void)
{
	double now = (double)time(NULL);
	uint64_t sum;
	struct line l;
	FILE *f;

	params->duration_ns = 1000000000;
	run();
	sum = sum_of_operations();
	job.clock = KV_CLOCK_REAL;
	run();
	T_EQ(sum_of_operations(), sum);
	T_OK(result.wall_sec > 0.8);
	f = open_trace();
	T_OK(read_line(f, &l));
	fclose(f);
	T_OK(l.time >= now && l.time <= (double)time(NULL) + 1);
}

static const struct t_case rows[] = {
	T_CASE(rows_are_strictly_in_order),
	T_CASE(the_same_seed_gives_the_same_file),
	T_CASE(a_compressed_file_is_the_same_however_long_it_took),
	T_CASE(this_seed_gives_this_file),
	T_CASE(every_object_is_where_the_rows_before_say),
	T_CASE(what_was_counted_is_what_was_written),
	T_CASE(seconds_add_up),
	T_CASE(more_columns_and_deletions_on_request_only),
	T_CASE(what_was_there_before_is_written_and_not_counted),
};

static const struct t_case results[] = {
	T_CASE(exactly_so_many_requests_and_the_time_they_took),
	T_CASE(what_is_still_generating_at_the_end_does_not_count),
	T_CASE(latency_is_from_the_arrival_to_the_last_token),
	T_CASE(prefixes_and_turns_are_in_the_result),
	T_CASE(the_autoscaler_adds_users),
	T_CASE(the_search_for_capacity_ends_the_run),
};

static const struct t_case ends[] = {
	T_CASE(a_run_that_is_stopped_says_so),
	T_CASE(bad_input_makes_no_file),
	T_CASE(a_file_that_cannot_be_written_is_an_error),
	T_CASE(the_real_clock_does_the_same_and_takes_its_time),
};

static const struct t_group groups[] = {
	{"rows", setup, teardown, rows, T_COUNT(rows)},
	{"result", setup, teardown, results, T_COUNT(results)},
	{"end", setup, teardown, ends, T_COUNT(ends)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
