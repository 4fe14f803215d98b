/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_TRACE_OP_LOG_H
#define SLUICE_TRACE_OP_LOG_H

/* The columns of operation logs, for reader and writer. */

enum oplog_column {
	OPLOG_IDX,
	OPLOG_THREAD,
	OPLOG_OP,
	OPLOG_CLIENT,
	OPLOG_OBJECTS,
	OPLOG_BYTES,
	OPLOG_ENDPOINT,
	OPLOG_FILE,
	OPLOG_ERROR,
	OPLOG_START,
	OPLOG_FIRST_BYTE,
	OPLOG_END,
	OPLOG_DURATION,
	OPLOG_COLUMNS,
};
extern const char *const trace_oplog_columns[OPLOG_COLUMNS];

#endif
