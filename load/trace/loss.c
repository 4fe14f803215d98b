/* SPDX-License-Identifier: Apache-2.0 */
/* What of a row fits into which format. */
#include "load/trace/copy.h"
#include "load/trace/formats.h"

#define BIT(name) (1u << TRACE_LOSS_##name)

const char *const trace_loss_texts[TRACE_LOSSES] = {
	[TRACE_LOSS_ROW] = "rows whose operation the format does not have",
	[TRACE_LOSS_EMPTY] = "rows of 0 bytes",
	[TRACE_LOSS_TIME] = "fractions of a microsecond",
	[TRACE_LOSS_EPOCH] = "the date: times count from the first row",
	[TRACE_LOSS_EARLY] = "times earlier than that of the first row: they become 0",
	[TRACE_LOSS_OP] = "operation: an id that is new is written, any other one read",
	[TRACE_LOSS_SIZE] = "size",
	[TRACE_LOSS_OFFSET] = "offset",
	[TRACE_LOSS_TIER] = "tier",
	[TRACE_LOSS_PHASE] = "phase",
	[TRACE_LOSS_NAME] = "name: the object has another one",
	[TRACE_LOSS_REQUEST] = "request",
	[TRACE_LOSS_USER] = "user and QoS",
	[TRACE_LOSS_DURATION] = "duration",
	[TRACE_LOSS_THREAD] = "thread",
	[TRACE_LOSS_FAILED] = "failure",
};

/* What the row has at all. */
static unsigned present_members(const struct trace_row *row)
{
	unsigned bits = BIT(OP) | BIT(SIZE);

	bits |= row->time_ns % 1000 ? BIT(TIME) : 0;
	bits |= row->offset ? BIT(OFFSET) : 0;
	bits |= row->tier < TRACE_TIERS ? BIT(TIER) : 0;
	bits |= row->phase != TRACE_NONE ? BIT(PHASE) : 0;
	bits |= row->request >= 0 ? BIT(REQUEST) : 0;
	bits |= row->user >= 0 || row->qos >= 0 ? BIT(USER) : 0;
	bits |= row->duration_ns ? BIT(DURATION) : 0;
	bits |= row->thread >= 0 ? BIT(THREAD) : 0;
	bits |= row->failed ? BIT(FAILED) : 0;
	return bits;
}

/* What of the row the extra columns hold. */
static unsigned extended(const struct trace_writer_opts *o, const struct trace_row *row)
{
	unsigned c = o->columns, bits = 0;

	if (!o->extended)
		return 0;
	if (!c)
		return BIT(REQUEST) | BIT(USER);
	bits |= c & TRACE_COL_REQUEST ? BIT(REQUEST) : 0;
	bits |= (row->user < 0 || c & TRACE_COL_USER) && (row->qos < 0 || c & TRACE_COL_QOS)
			? BIT(USER)
			: 0;
	bits |= c & TRACE_COL_OFFSET ? BIT(OFFSET) : 0;
	bits |= c & TRACE_COL_DURATION ? BIT(DURATION) : 0;
	bits |= c & TRACE_COL_THREAD ? BIT(THREAD) : 0;
	bits |= c & TRACE_COL_FAILED ? BIT(FAILED) : 0;
	return bits;
}

static unsigned of_kv(const struct trace_writer_opts *o, const struct trace_row *row)
{
	if (row->op > TRACE_WRITE && !o->extended)
		return BIT(ROW);
	return present_members(row) &
	       ~(BIT(OP) | BIT(SIZE) | BIT(TIER) | BIT(PHASE) | extended(o, row));
}

static unsigned of_fio(const struct trace_row *row)
{
	unsigned bits = present_members(row) & ~(BIT(OP) | BIT(SIZE) | BIT(OFFSET));

	if (row->op > TRACE_DELETE)
		return BIT(ROW);
	if (!row->size)
		return BIT(EMPTY);
	return fio_name_fits(row->key, row->key_len) ? bits : bits | BIT(NAME);
}

static unsigned of_mooncake(const struct trace_row *row)
{
	uint64_t id;

	if (row->op > TRACE_WRITE)
		return BIT(ROW);
	return (present_members(row) & ~(BIT(TIME) | BIT(REQUEST))) |
	       (mooncake_id(&id, row->key, row->key_len) ? 0 : BIT(NAME));
}

unsigned trace_losses(const struct trace_writer_opts *o, enum trace_format from,
		      const struct trace_row *row)
{
	switch (o->format) {
	case TRACE_FIO:
		return of_fio(row);
	case TRACE_MOONCAKE:
		/* What its reader makes up, it makes up again. */
		return from == TRACE_MOONCAKE ? 0 : of_mooncake(row);
	case TRACE_OPLOG:
		return present_members(row) &
		       (BIT(OFFSET) | BIT(TIER) | BIT(PHASE) | BIT(REQUEST) | BIT(USER));
	default:
		return of_kv(o, row);
	}
}

const char *trace_left_out(enum trace_format format)
{
	switch (format) {
	case TRACE_FIO:
		return "lines that open, close and sync files";
	case TRACE_MOONCAKE:
		return "input_length and output_length, and what else its lines have";
	case TRACE_OPLOG:
		return "client_id, n_objects, endpoint, first_byte, and what an error was";
	default:
		return NULL;
	}
}
