/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole objects through a flow: one measurement per run, printed as one line of JSON.
 *
 *	perf-flow read|write|mixed -k slab|raw|npy|memory|gpu|null -f PATH [OPTION...]
 *	perf-flow there -k KIND -f PATH -o KIND -F PATH [OPTION...]
 *
 *	-s SIZE  of objects (64K)	-n COUNT  of objects (1024)
 *	-q CHAINS  at once (128)	-w SECONDS  (5)
 *	-e ENGINE  -d DEPTH  -t THREADS	-C THREADS	-v verify	-N no stamps
 *
 * The objects are written first; then each chain is one operation on an object drawn at
 * random.  A write replaces the object; `mixed' reads three times as often as it writes; `there'
 * moves it to the other place and back, and counts the moves there.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include "load/object/content.h"
#include "load/object/flow.h"

#include "measure.h"

struct args {
	const char *mode, *kind, *path, *other, *other_path;
	struct flow_opts flow;
	uint64_t size, count;
	unsigned chains;
	double seconds;
};

struct state {
	const struct args *a;
	struct flow *flow;
	uint64_t random, next, ops, bytes, failed;
	uint64_t device_ns, total_ns;
	uint64_t there_ns[2]; /* of moves, there and back */
	uint64_t moves[2];
	bool stop, filling;
	bool *moved;
};

static struct penstock_err err;

static struct place *open_place(const struct args *a, const char *kind, const char *path)
{
	static const char *const kinds[] = {"raw", "slab", "memory", "gpu", "null", "npy"};
	struct place_opts o = {.paths = &path, .nr_paths = 1};
	struct place *p;
	unsigned k = 0;

	while (k < 6 && strcmp(kinds[k], kind) != 0)
		k++;
	if (k == 6)
		die("%s: none of raw, npy, slab, memory, gpu, null", kind);
	o.kind = k == 5 ? PLACE_FILES : (enum place_kind)k;
	o.layout = k == 5 ? PLACE_NPY : PLACE_RAW;
	if (o.kind != PLACE_FILES)
		o.capacity = (a->count + 2 * a->chains) * ((a->size + 65535) / 65536 * 65536);
	if (place_open(&p, &o, &err) < 0)
		die("%s", err.msg);
	return p;
}

static void start_one(struct state *s)
{
	const struct args *a = s->a;
	uint64_t object = s->filling ? s->next++ : random_next(&s->random) % a->count;
	bool write = s->filling || *a->mode == 'w' ||
		     (*a->mode == 'm' && random_next(&s->random) % 4 == 0);
	char name[32];
	int n = snprintf(name, sizeof(name), "object-%" PRIu64, object);
	bool move = !s->filling && *a->mode == 't', back = move && s->moved[object];
	struct flow_op op = {.type = move    ? FLOW_MOVE
				     : write ? FLOW_WRITE
					     : FLOW_READ,
			     .place = back,
			     .to = !back,
			     .object = object,
			     .name = name,
			     .name_len = (uint32_t)n,
			     .size = a->size,
			     .content = content_id(name, (size_t)n),
			     .element = 2};

	if (move)
		s->moved[object] = !back;
	if (flow_start(s->flow, &op, 1, sizeof(struct flow_op), 0, false, &err) < 0)
		die("%s", err.msg);
}

static void on_op(void *arg, const struct flow_done *d)
{
	struct state *s = arg;

	if (d->result < 0)
		die("%s", d->error);
	s->ops++;
	s->bytes += d->size;
	s->device_ns += d->device_ns;
	s->total_ns += d->end_ns - d->start_ns;
	if (d->type == FLOW_MOVE) {
		s->there_ns[d->place] += d->end_ns - d->start_ns;
		s->moves[d->place]++;
	}
	if (s->filling ? s->next < s->a->count : !s->stop)
		start_one(s);
}

/* Until the objects are there, or the time is over. */
static void run(struct state *s, double until)
{
	struct flow_handler h = {on_op, NULL, s};

	for (unsigned i = 0; i < s->a->chains && (!s->filling || s->next < s->a->count); i++)
		start_one(s);
	while (flow_wait(s->flow, UINT64_MAX, &h))
		s->stop = wall_now() >= until;
}

static void report(const struct state *s, struct span t)
{
	struct flow_stats st;

	flow_get_stats(s->flow, &st);
	printf("{\"mode\": \"%s\", \"kind\": \"%s\", \"engine\": \"%s\", \"direct\": %s, "
	       "\"fallbacks\": %u, \"size\": %" PRIu64 ", \"ops\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"library_cpu_seconds\": %.6f, "
	       "\"iops\": %.1f, \"submit_calls\": %" PRIu64 ", \"blocks_fixed\": %" PRIu64
	       ", \"blocks\": %" PRIu64 ", \"latency_us\": %.1f, \"device_us\": %.1f, "
	       "\"memory\": %" PRIu64 ", \"verified\": %" PRIu64
	       ", \"there_ms\": %.3f, \"back_ms\": %.3f}\n",
	       s->a->mode, s->a->kind, st.io.engine, st.file.direct ? "true" : "false",
	       st.io.fallbacks, s->a->size, s->ops, s->bytes, t.wall, t.cpu,
	       1e-9 * (double)st.io.cpu_ns, (double)s->ops / t.wall, st.io.submit_calls,
	       st.io.blocks_fixed, st.io.blocks, 1e-3 * (double)s->total_ns / (double)s->ops,
	       1e-3 * (double)s->device_ns / (double)s->ops, st.memory, st.verified,
	       s->moves[0] ? 1e-6 * (double)s->there_ns[0] / (double)s->moves[0] : 0,
	       s->moves[1] ? 1e-6 * (double)s->there_ns[1] / (double)s->moves[1] : 0);
}

static void parse(struct args *a, int argc, char **argv)
{
	int c;

	if (argc < 2)
		die("read, write or mixed?");
	a->mode = argv[1];
	while ((c = getopt(argc - 1, argv + 1, "k:f:s:n:q:w:e:d:t:C:o:F:vN")) >= 0)
		switch (c) {
		case 'k':
			a->kind = optarg;
			break;
		case 'f':
			a->path = optarg;
			break;
		case 's':
			a->size = size_arg(optarg);
			break;
		case 'n':
			a->count = size_arg(optarg);
			break;
		case 'q':
			a->chains = (unsigned)size_arg(optarg);
			break;
		case 'w':
			a->seconds = strtod(optarg, NULL);
			break;
		case 'e':
			a->flow.io.engine = optarg;
			break;
		case 'd':
			a->flow.io.depth = (uint32_t)size_arg(optarg);
			break;
		case 't':
			a->flow.io.threads = (uint32_t)size_arg(optarg);
			break;
		case 'C':
			a->flow.copy_threads = (unsigned)size_arg(optarg);
			break;
		case 'v':
			a->flow.verify = true;
			break;
		case 'N':
			a->flow.fill = false;
			break;
		case 'o':
			a->other = optarg;
			break;
		case 'F':
			a->other_path = optarg;
			break;
		default:
			die("see the head of flow.c");
		}
}

int main(int argc, char **argv)
{
	struct args a = {.kind = "slab",
			 .path = "",
			 .size = 64 << 10,
			 .count = 1024,
			 .chains = 128,
			 .seconds = 5,
			 .flow = {.io = PENSTOCK_OPTS_INIT, .fill = true, .seed = 1}};
	struct state s = {.a = &a, .random = 20011029, .filling = true};
	struct span t;

	parse(&a, argc, argv);
	a.flow.places[a.flow.nr_places++] = open_place(&a, a.kind, a.path);
	if (a.other)
		a.flow.places[a.flow.nr_places++] = open_place(&a, a.other, a.other_path);
	if (flow_new(&s.flow, &a.flow, &err) < 0)
		die("%s", err.msg);
	run(&s, 0);
	s = (struct state){.a = &a,
			   .flow = s.flow,
			   .random = 20011029,
			   .moved = calloc(a.count, sizeof(bool))};
	if (!s.moved || (*a.mode == 't') != (a.flow.nr_places == 2))
		die("two places are for `there'");
	t = span_start();
	run(&s, t.wall + a.seconds);
	t = span_since(t);
	report(&s, t);
	flow_free(s.flow);
	for (unsigned i = 0; i < a.flow.nr_places; i++)
		if (place_close(a.flow.places[i], &err) < 0)
			die("%s", err.msg);
	free(s.moved);
	return 0;
}
