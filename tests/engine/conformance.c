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
struct sluice_io *cf_io;
struct sluice_file *cf_file;
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
	struct sluice_io *io = cf_io;

	cf_gate_open();
	cf_io = NULL;
	cf_file = NULL;
	sluice_close(io, NULL);
	unlink(cf_path);
}

struct sluice_opts cf_opts(void)
{
	struct sluice_opts o = SLUICE_OPTS_INIT;

	o.engine = cf_engine;
	o.block = KIB(64);
	o.depth = 8;
	o.threads = 2;
	return o;
}

void cf_open(const struct sluice_opts *opts)
{
	struct sluice_opts o = opts ? *opts : cf_opts();
	struct sluice_err err = {0, ""};

	T_OK(!cf_io);
	T_ERR(sluice_open(&cf_io, &o, &err), 0, &err);
}

void cf_close(int want)
{
	struct sluice_err err = {0, ""};
	struct sluice_io *io = cf_io;

	cf_io = NULL;
	cf_file = NULL;
	T_ERR(sluice_close(io, &err), want, &err);
}

void cf_file_open(int oflags)
{
	struct sluice_err err = {0, ""};

	T_ERR(sluice_file_open(&cf_file, cf_io, cf_path, oflags, 0644, &err), 0, &err);
}

/* -------------------------------------------------------------- operations */

struct sluice_op cf_op(enum sluice_opcode code, void *buf, uint64_t len, uint64_t offset)
{
	return (struct sluice_op){
		.opcode = code, .file = cf_file, .buf = buf, .len = len, .offset = offset};
}

struct sluice_op cf_path_op(enum sluice_opcode code, const char *path, void *buf, uint64_t len,
			    uint64_t offset)
{
	return (struct sluice_op){
		.opcode = code, .path = path, .buf = buf, .len = len, .offset = offset};
}

uint64_t cf_submit(const struct sluice_op *op)
{
	struct sluice_err err = {0, ""};
	uint64_t ticket = 0;

	T_ERR(sluice_submit(cf_io, op, 1, &ticket, &err), 1, &err);
	return ticket;
}

struct sluice_done cf_async(const struct sluice_op *op)
{
	struct sluice_done done;
	uint64_t ticket = cf_submit(op);

	T_OK(ticket);
	T_EQ(sluice_wait(cf_io, ticket, T_NO_LIMIT, &done), 0);
	T_OK(done.ticket == ticket);
	return done;
}

struct sluice_done cf_sync(const struct sluice_op *op)
{
	struct sluice_done done;
	struct sluice_err err = {0, ""};

	T_ERR(sluice_run(cf_io, op, &done, &err), 0, &err);
	return done;
}

struct sluice_done cf_do(const struct sluice_op *op, int64_t want, unsigned turn, const char *file,
			 int line)
{
	struct sluice_done done = turn & 1 ? cf_async(op) : cf_sync(op);

	if (done.res != want || (want >= 0 && done.bytes != (uint64_t)want))
		t_fail(file, line,
		       "%s of %llu bytes at %llu: res %lld, not %lld; bytes %llu; \"%s\"",
		       op->opcode == SLUICE_READ ? "read" : "write", (unsigned long long)op->len,
		       (unsigned long long)op->offset, (long long)done.res, (long long)want,
		       (unsigned long long)done.bytes, done.msg);
	T_OK(done.tag == op->tag);
	return done;
}

/* -------------------------------------------------------------------- gate */

static sem_t gate_entered, gate_leave;
static bool gate_is_shut;
static char gate_byte;

static void gate_keep(void *arg, const struct sluice_done *done)
{
	(void)arg;
	(void)done;
	sem_post(&gate_entered);
	while (sem_wait(&gate_leave) < 0)
		;
}

void cf_gate_shut(void)
{
	struct sluice_op op = cf_path_op(SLUICE_READ, "/proc/self/exe", &gate_byte, 1, 0);

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
	struct sluice_err err = {0, ""};
	struct sluice_io *io = NULL;
	struct sluice_opts o;

	if (argc > 1)
		cf_engine = t_engine(argv[1]);
	cf_null = !strncmp(cf_engine, "null", 4);
	cf_fault = !strncmp(cf_engine, "fault", 5);
	o = cf_opts();
	if (sluice_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(cf_engine), "%s: %s", cf_engine, err.msg);
	sluice_close(io, NULL);

	for (size_t i = 0; i < T_COUNT(all); i++)
		groups[i] = *all[i];
	if (argc <= 2 && cf_null)
		return t_run(groups, T_COUNT(groups), of_null);
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
