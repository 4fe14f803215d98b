/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library owes its callers, on every engine:
 *
 *	conformance ENGINE [GROUP...]
 *
 * The cases stand in one file per group; here are the fixture and the table.
 */
#include <semaphore.h>

#include "conformance.h"

const char *cf_engine = "threads";
bool cf_null, cf_fault;
struct penstock_io *cf_io;
struct penstock_file *cf_file;
const char *cf_path;

static char path_mem[PATH_MAX];
static unsigned path_nr;

/* ----------------------------------------------------------------- fixture */

void cf_setup(void)
{
	char name[32];

	snprintf(name, sizeof(name), "file-%u", path_nr++);
	snprintf(path_mem, sizeof(path_mem), "%s", t_path(name));
	cf_path = path_mem;
}

void cf_teardown(void)
{
	struct penstock_io *io = cf_io;

	cf_gate_open();
	cf_io = NULL;
	cf_file = NULL;
	penstock_close(io, NULL);
	unlink(cf_path);
}

struct penstock_opts cf_opts(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	o.engine = cf_engine;
	o.block = KIB(64);
	o.depth = 8;
	o.threads = 2;
	return o;
}

void cf_open(const struct penstock_opts *opts)
{
	struct penstock_opts o = opts ? *opts : cf_opts();
	struct penstock_err err = {0, ""};

	T_OK(!cf_io);
	T_ERR(penstock_open(&cf_io, &o, &err), 0, &err);
}

void cf_close(int want)
{
	struct penstock_err err = {0, ""};
	struct penstock_io *io = cf_io;

	cf_io = NULL;
	cf_file = NULL;
	T_ERR(penstock_close(io, &err), want, &err);
}

void cf_file_open(int oflags)
{
	struct penstock_err err = {0, ""};

	T_ERR(penstock_file_open(&cf_file, cf_io, cf_path, oflags, 0644, &err), 0, &err);
}

/* -------------------------------------------------------------- operations */

struct penstock_op cf_op(enum penstock_opcode code, void *buf, uint64_t len, uint64_t offset)
{
	return (struct penstock_op){
		.opcode = code, .file = cf_file, .buf = buf, .len = len, .offset = offset};
}

struct penstock_op cf_path_op(enum penstock_opcode code, const char *path, void *buf, uint64_t len,
			      uint64_t offset)
{
	return (struct penstock_op){
		.opcode = code, .path = path, .buf = buf, .len = len, .offset = offset};
}

uint64_t cf_submit(const struct penstock_op *op)
{
	struct penstock_err err = {0, ""};
	uint64_t ticket = 0;

	T_ERR(penstock_submit(cf_io, op, 1, &ticket, &err), 1, &err);
	return ticket;
}

struct penstock_done cf_async(const struct penstock_op *op)
{
	struct penstock_done done;
	uint64_t ticket = cf_submit(op);

	T_OK(ticket);
	T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &done), 0);
	T_OK(done.ticket == ticket);
	return done;
}

struct penstock_done cf_sync(const struct penstock_op *op)
{
	struct penstock_done done;
	struct penstock_err err = {0, ""};

	T_ERR(penstock_run(cf_io, op, &done, &err), 0, &err);
	return done;
}

struct penstock_done cf_do(const struct penstock_op *op, int64_t want, unsigned turn,
			   const char *file, int line)
{
	struct penstock_done done = turn & 1 ? cf_async(op) : cf_sync(op);

	if (done.res != want || (want >= 0 && done.bytes != (uint64_t)want))
		t_fail(file, line,
		       "%s of %llu bytes at %llu: res %lld, not %lld; bytes %llu; \"%s\"",
		       op->opcode == PENSTOCK_READ ? "read" : "write", (unsigned long long)op->len,
		       (unsigned long long)op->offset, (long long)done.res, (long long)want,
		       (unsigned long long)done.bytes, done.msg);
	T_OK(done.tag == op->tag);
	return done;
}

/* -------------------------------------------------------------------- gate */

static sem_t gate_entered, gate_leave;
static bool gate_is_shut;
static char gate_byte;

static void gate_keep(void *arg, const struct penstock_done *done)
{
	(void)arg;
	(void)done;
	sem_post(&gate_entered);
	while (sem_wait(&gate_leave) < 0)
		;
}

void cf_gate_shut(void)
{
	struct penstock_op op = cf_path_op(PENSTOCK_READ, "/proc/self/exe", &gate_byte, 1, 0);

	sem_init(&gate_entered, 0, 0);
	sem_init(&gate_leave, 0, 0);
	op.on_done = gate_keep;
	cf_submit(&op);
	while (sem_wait(&gate_entered) < 0)
		;
	gate_is_shut = true;
}

void cf_gate_open(void)
{
	if (gate_is_shut)
		sem_post(&gate_leave);
	gate_is_shut = false;
}

/* ------------------------------------------------------------------- table */

int main(int argc, char **argv)
{
	static struct t_group groups[8];
	const struct t_group *all[] = {&cf_transfer, &cf_large,  &cf_files,  &cf_tickets,
				       &cf_together, &cf_limits, &cf_memory, &cf_corners};
	char *of_null[] = {(char[]){"tickets"}, (char[]){"limits"}, (char[]){"memory"}, NULL};
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;
	struct penstock_opts o;

	if (argc > 1)
		cf_engine = t_engine(argv[1]);
	cf_null = !strncmp(cf_engine, "null", 4);
	cf_fault = !strncmp(cf_engine, "fault", 5);
	o = cf_opts();
	if (penstock_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(cf_engine), "%s: %s", cf_engine, err.msg);
	penstock_close(io, NULL);

	for (size_t i = 0; i < T_COUNT(all); i++)
		groups[i] = *all[i];
	if (argc <= 2 && cf_null)
		return t_run(groups, T_COUNT(groups), of_null);
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
