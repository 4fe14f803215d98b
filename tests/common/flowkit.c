/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/flowkit.h"

#include <dirent.h>

const char *fk_engine = "threads";
bool fk_gpu;
struct flow *fk_flow;
struct place *fk_place[FK_PLACES];
struct flow_opts fk_opts;
struct flow_done fk_done[FK_DONE];
unsigned fk_order[FK_DONE];
unsigned fk_nr_done;
unsigned fk_nr_chains;

static unsigned next_tag;

void fk_setup(void)
{
	fk_opts = (struct flow_opts){.io = PENSTOCK_OPTS_INIT,
				     .verify = strcmp(fk_engine, "null") != 0,
				     .fill = true,
				     .seed = 1,
				     .copy_threads = 3};
	fk_opts.io.engine = fk_engine;
	fk_opts.io.block = KIB(256);
	fk_opts.io.depth = 8;
	fk_opts.io.threads = 2;
	next_tag = fk_nr_done = fk_nr_chains = 0;
	memset(fk_done, 0, sizeof(fk_done));
}

void fk_teardown(void)
{
	flow_free(fk_flow);
	fk_flow = NULL;
	for (unsigned i = 0; i < FK_PLACES; i++) {
		place_close(fk_place[i], NULL);
		fk_place[i] = NULL;
	}
}

unsigned fk_add(struct place_opts o, const char *name)
{
	struct penstock_err err = {0, ""};
	const char *path = name ? t_path(name) : NULL;
	unsigned i = fk_opts.nr_places;

	if (path && !o.paths) {
		o.paths = &path;
		o.nr_paths = 1;
	}
	T_ERR(place_open(&fk_place[i], &o, &err), 0, &err);
	fk_opts.places[i] = fk_place[i];
	return fk_opts.nr_places++;
}

unsigned fk_files(const char *name, enum place_layout layout)
{
	return fk_add((struct place_opts){.kind = PLACE_FILES, .layout = layout}, name);
}

unsigned fk_slab(const char *name, uint64_t capacity)
{
	return fk_add((struct place_opts){.kind = PLACE_SLAB, .capacity = capacity}, name);
}

unsigned fk_memory(uint64_t capacity)
{
	return fk_add((struct place_opts){.kind = PLACE_MEMORY, .capacity = capacity}, NULL);
}

unsigned fk_device(uint64_t capacity)
{
	return fk_add((struct place_opts){.kind = PLACE_GPU, .capacity = capacity}, NULL);
}

unsigned fk_null(double bytes_per_sec)
{
	return fk_add((struct place_opts){.kind = PLACE_NULL, .bytes_per_sec = bytes_per_sec},
		      NULL);
}

void fk_open(void)
{
	struct penstock_err err = {0, ""};

	T_ERR(flow_new(&fk_flow, &fk_opts, &err), 0, &err);
}

void fk_close_flow(void)
{
	flow_free(fk_flow);
	fk_flow = NULL;
}

void fk_close(void)
{
	struct penstock_err err = {0, ""};

	fk_close_flow();
	for (unsigned i = 0; i < FK_PLACES; i++) {
		struct place *p = fk_place[i];

		fk_place[i] = NULL;
		T_ERR(place_close(p, &err), 0, &err);
	}
	fk_opts.nr_places = 0;
}

struct flow_op fk_write(unsigned place, uint64_t object, const char *name, uint64_t size)
{
	return (struct flow_op){.type = FLOW_WRITE,
				.place = (uint8_t)place,
				.object = object,
				.name = name,
				.name_len = (uint32_t)strlen(name),
				.size = size,
				.content = content_id(name, strlen(name)),
				.element = 2};
}

struct flow_op fk_read(unsigned place, uint64_t object)
{
	return (struct flow_op){.type = FLOW_READ, .place = (uint8_t)place, .object = object};
}

struct flow_op fk_move(unsigned place, unsigned to, uint64_t object, uint64_t size)
{
	return (struct flow_op){.type = FLOW_MOVE,
				.place = (uint8_t)place,
				.to = (uint8_t)to,
				.object = object,
				.size = size};
}

struct flow_op fk_delete(unsigned place, uint64_t object)
{
	return (struct flow_op){.type = FLOW_DELETE, .place = (uint8_t)place, .object = object};
}

struct flow_op fk_pause(uint64_t ns)
{
	return (struct flow_op){.type = FLOW_PAUSE, .pause_ns = ns};
}

struct flow_op fk_range(struct flow_op op, uint64_t offset, uint64_t len)
{
	op.offset = offset;
	op.len = len;
	return op;
}

unsigned fk_start(const struct flow_op *ops, unsigned n)
{
	struct flow_op copy[64];
	struct penstock_err err = {0, ""};
	unsigned first = next_tag;

	T_OK(n <= T_COUNT(copy) && first + n <= FK_DONE);
	for (unsigned i = 0; i < n; i++) {
		copy[i] = ops[i];
		copy[i].tag = next_tag++;
	}
	T_ERR(flow_start(fk_flow, copy, n, sizeof(struct flow_op), first, false, &err), 0, &err);
	return first;
}

void fk_on_op(void *arg, const struct flow_done *d)
{
	(void)arg;
	/* The device had its part inside the time of the operation, and of each half. */
	T_OK(d->end_ns >= d->start_ns);
	T_OK(d->result < 0 || d->device_ns <= d->end_ns - d->start_ns);
	T_OK(d->result < 0 || !d->write_ns || d->write_device_ns <= d->write_ns);
	fk_done[d->tag] = *d;
	fk_order[fk_nr_done++] = (unsigned)d->tag;
}

static void on_chain(void *arg, uint64_t tag, uint64_t end_ns)
{
	(void)arg;
	(void)tag;
	(void)end_ns;
	fk_nr_chains++;
}

void fk_wait(void)
{
	static const struct flow_handler handler = {fk_on_op, on_chain, NULL};

	while (flow_wait(fk_flow, UINT64_MAX, &handler))
		;
}

int64_t fk_do(struct flow_op op)
{
	unsigned tag;

	if (next_tag == FK_DONE)
		next_tag = fk_nr_done = 0;
	tag = fk_start(&op, 1);
	fk_wait();
	return fk_done[tag].result;
}

const char *fk_error(void)
{
	return fk_done[fk_order[fk_nr_done - 1]].error;
}

void fk_do_is(struct flow_op op, int64_t want, const char *file, int line)
{
	int64_t r = fk_do(op);

	if (r != want)
		t_fail(file, line, "the operation gave %lld, not %lld: %s", (long long)r,
		       (long long)want, r < 0 ? fk_error() : "");
}

int fk_entries(const char *name)
{
	DIR *d = opendir(t_path(name));
	struct dirent *e;
	int n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		     strcmp(e->d_name, ".penstock-objects");
	closedir(d);
	return n;
}
