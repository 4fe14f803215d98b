/* SPDX-License-Identifier: Apache-2.0 */
/* What a completion says in words: one line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/core.h"
#include "core/queue.h"
#include "dl/cuda.h"
#include "dl/cufile.h"

static const char *const opcode_names[] = {"", "read", "write", "sync", "copy"};

const char *op_word(const struct op *op)
{
	return opcode_names[op->opcode];
}

/* How bytes of device memory went. */
static const char *device_way(const struct op *op)
{
	return op->done_flags & PENSTOCK_DONE_CUFILE          ? ", cuFile"
	       : op->done_flags & PENSTOCK_DONE_CUFILE_COMPAT ? ", cuFile in compatibility mode"
	       : op->done_flags & PENSTOCK_DONE_PINNED_POOL   ? ", pinned pool"
							      : "";
}

static const char *why(const struct op *op, char *text, size_t size)
{
	if (op->why)
		return op->why;
	if (!op->failure.code)
		return penstock_strerror(op->code);
	if (op->failure.code > CUFILE_BASE_ERROR)
		snprintf(text, size, "%s: %s (%d)", op->failure.call,
			 penstock_cufile_name(op->failure.code), op->failure.code);
	else
		snprintf(text, size, "%s: %s", op->failure.call,
			 penstock_cuda_name(op->failure.code));
	return text;
}

/* By what was moved; where nothing was, as the file would have been. */
static const char *file_way(const struct op *op)
{
	uint32_t moved = op->done_flags & (PENSTOCK_DONE_DIRECT | PENSTOCK_DONE_BUFFERED);
	bool direct = moved ? moved & PENSTOCK_DONE_DIRECT : op->direct;

	if (op->opcode == PENSTOCK_COPY)
		return "by the device";
	return direct ? "direct" : "buffered";
}

char *op_message(const struct penstock_io *io, const struct op *op, const char *name, bool remote)
{
	uint64_t bytes = op->opcode == PENSTOCK_SYNC ? 0 : op->stop;
	char how[300], text[120], *msg = NULL;

	if (op->code == -ECANCELED && op->cancelled)
		snprintf(how, sizeof(how), "cancelled after %" PRIu64 " bytes", bytes);
	else if (op->code == -ENODATA)
		snprintf(how, sizeof(how), "the file ends after %" PRIu64 " of these bytes", bytes);
	else if (op->code < 0 && op->opcode != PENSTOCK_SYNC)
		snprintf(how, sizeof(how),
			 "failed at offset %" PRIu64 " length %" PRIu64 " after %" PRIu64
			 " bytes: %s",
			 op->fail_off, op->fail_len, bytes, why(op, text, sizeof(text)));
	else if (op->code < 0)
		snprintf(how, sizeof(how), "failed: %s", penstock_strerror(op->code));
	else
		snprintf(how, sizeof(how), "%" PRIu64 " bytes%s", bytes,
			 op->done_flags & PENSTOCK_DONE_EOF ? ", the file ends there" : "");
	if (asprintf(&msg, "%s %s: offset %" PRIu64 " length %" PRIu64 " by %s (%s%s): %s",
		     op_word(op), name, op->offset, op->len, remote ? "s3" : io->engine->name,
		     remote ? "object" : file_way(op), device_way(op), how) < 0)
		return NULL;
	return msg;
}
