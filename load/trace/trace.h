/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_TRACE_H
#define PENSTOCK_TRACE_TRACE_H

/*
 * Operations on disk: one row per operation, whatever the format.  Readers and
 * writers stream: their memory does not grow with the length of the trace.  The reader of Mooncake
 * and the writer of fio remember a few bytes of every different object.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

enum trace_op { TRACE_READ, TRACE_WRITE, TRACE_DELETE, TRACE_STAT, TRACE_LIST, TRACE_OPS };
enum trace_phase { TRACE_NONE, TRACE_PREFILL, TRACE_DECODE, TRACE_EVICT, TRACE_BOTH, TRACE_PHASES };

extern const char *const trace_op_names[TRACE_OPS];       /* "Read", "Write", ... */
extern const char *const trace_phase_names[TRACE_PHASES]; /* "", "Prefill", "Decode", ... */

#define TRACE_NO_TIER 255
#define TRACE_TIERS   3
#define TRACE_KEY_MAX 65536 /* bytes of the longest key */

struct trace_row {
	uint64_t time_ns;  /* as recorded: since the epoch, or since the beginning */
	uint64_t size;     /* bytes */
	uint64_t offset;   /* into the object; fio only */
	const char *key;   /* name of the object, not 0-terminated; valid until the next row */
	uint32_t key_len;  /* 0: the trace has no names (kv traces of four columns) */
	uint8_t op, phase; /* enum trace_op, enum trace_phase */
	uint8_t tier;      /* 0, 1, 2 or TRACE_NO_TIER */
	/* What only some formats know; 0 or -1: nothing.  kv's extended columns and op logs. */
	int64_t request, user; /* -1: not known */
	int8_t qos;            /* KV_* or -1 */
	uint64_t duration_ns;
	int32_t thread; /* -1: not known */
	bool failed;    /* the recorded operation had an error */
};
/* Nothing but what every format has: all of the above not known. */
#define TRACE_ROW_INIT       \
	((struct trace_row){ \
		.tier = TRACE_NO_TIER, .request = -1, .user = -1, .qos = -1, .thread = -1})

/* The object is gone from its tier when this row has been done: a demotion. */
static inline bool trace_is_demotion(const struct trace_row *row)
{
	return row->op == TRACE_READ && row->phase == TRACE_EVICT;
}

enum trace_format {
	TRACE_AUTO,
	TRACE_KV, /* MLPerf kv-cache CSV: six columns, four in old ones, more in extended ones */
	TRACE_MOONCAKE, /* JSON lines */
	TRACE_BURSTGPT, /* CSV of requests */
	TRACE_SHAREGPT, /* JSON of conversations */
	TRACE_FIO,      /* iolog version 2 or 3 */
	TRACE_OPLOG,    /* sai3-bench, warp: TAB-separated */
	TRACE_FORMATS,
};
extern const char *const trace_format_names[TRACE_FORMATS + 1]; /* NULL at the end */

/* ---- writing ---- */

#define TRACE_BLOCK_TOKENS 512 /* of Mooncake's published traces */

/* The extra columns of a kv trace, in this order behind the six. */
enum {
	TRACE_COL_REQUEST = 1,
	TRACE_COL_USER = 2,
	TRACE_COL_OFFSET = 4,
	TRACE_COL_DURATION = 8,
	TRACE_COL_THREAD = 16,
	TRACE_COL_FAILED = 32,
	TRACE_COL_QOS = 64,
};
enum trace_pack { TRACE_PACK_NAME, TRACE_PACK_NO, TRACE_PACK_ZSTD };

struct trace_writer_opts {
	enum trace_format format; /* TRACE_AUTO: TRACE_KV */
	bool extended;            /* kv: more columns; Delete, Stat and List rows are kept */
	unsigned columns;         /* which, TRACE_COL_*; 0: request, user and QoS */
	bool lf;                  /* kv: LF instead of CRLF */
	enum trace_pack pack;     /* compressed or not; TRACE_PACK_NAME: when it ends in .zst */
	int zstd_level;           /* 0: 3 */
	/*
	 * The same rows give the same file, compressed too: it is flushed by size, not by the
	 * clock.  For rows that come without pauses.
	 */
	bool reproducible;
	uint64_t block_tokens; /* mooncake: per hash id; 0: TRACE_BLOCK_TOKENS */
	bool raw;              /* rows come by trace_write_raw() only, a header too */
	int fd; /* the file, open already, else than standard output; 0: it is created */
};
struct trace_writer;
/*
 * Create @path ("-": standard output), its folders too.  A thread takes rows to the file when
 * there are many of them, and once a second; what is compressed is one frame, flushed each
 * time.  So what a killed program leaves behind can be read, and lacks at most its last second; a
 * plain file may end in a torn row.
 */
int trace_writer_open(struct trace_writer **out, const char *path,
		      const struct trace_writer_opts *o, struct penstock_err *err);
/*
 * Errors of earlier rows may show up here, or at the close.  What the format has no place for is
 * left out: fields of the row, and rows of a kv trace that are neither Read nor Write unless it is
 * extended.  -EINVAL when the key is longer than TRACE_KEY_MAX.
 */
int trace_write(struct trace_writer *w, const struct trace_row *row, struct penstock_err *err);
/* A row as it was in another file of the same format; a newline is put behind it. */
int trace_write_raw(struct trace_writer *w, const char *text, size_t len, struct penstock_err *err);
/* Everything is in the file when it returns 0.  Frees @w in any case. */
int trace_writer_close(struct trace_writer *w, struct penstock_err *err);

/* ---- reading ---- */

/* What of an input cannot be used and is left out. */
#define TRACE_BAD_TEXTS 10
struct trace_bad {
	bool strict; /* in: the first one is an error, -EBADMSG */
	uint64_t nr;
	char text[TRACE_BAD_TEXTS][200]; /* the first of them: "line 5: ..." or "item 3: ..." */
};

/* Makes rows of operations from a file of requests. */
struct trace_row_generator {
	enum trace_format format;
	const void *arg;
	int (*open)(void **state, const void *arg, struct penstock_err *err);
	int (*next)(void *state, struct trace_row *row,
		    struct penstock_err *err);             /* trace_read() */
	const struct trace_bad *(*bad)(const void *state); /* trace_reader_bad() */
	void (*close)(void *state);
};

struct trace_reader_opts {
	enum trace_format format;                    /* TRACE_AUTO: by content */
	const struct trace_row_generator *generator; /* NULL: the file holds operations */
	bool strict;                                 /* a bad row is an error */
	bool raw;         /* keep the text of rows for trace_reader_raw() */
	bool ignore_size; /* nobody looks at the size of rows */
	/* Mooncake: */
	uint64_t block_tokens;    /* per hash id; 0: TRACE_BLOCK_TOKENS */
	uint64_t bytes_per_token; /* 0: an error when the format needs it, unless ignore_size */
};
struct trace_reader;
/* What @path looks like; TRACE_AUTO when it is nothing known.  "-" cannot be read again. */
int trace_detect(enum trace_format *out, const char *path, struct penstock_err *err);
/*
 * "-" is standard input; compressed or not is told by content.  BurstGPT and ShareGPT hold
 * requests: -ENOTSUP without a generator.  -EINVAL when the format is not known, or bytes_per_token
 * is needed.
 */
int trace_reader_open(struct trace_reader **out, const char *path,
		      const struct trace_reader_opts *o, struct penstock_err *err);
/* 1 and a row; 0 at the end; -errno with file name and line number in @err. */
int trace_read(struct trace_reader *r, struct trace_row *row, struct penstock_err *err);
enum trace_format trace_reader_format(const struct trace_reader *r);
uint64_t trace_reader_line(const struct trace_reader *r); /* 0: rows are made */
/* Rows that were skipped so far. */
const struct trace_bad *trace_reader_bad(const struct trace_reader *r);
/*
 * The text of the line that the last row came from, and of the header (empty when there is none),
 * without the newline.  False for fio, where a line needs others before it.  Several rows of
 * mooncake come from one line.
 */
bool trace_reader_raw(const struct trace_reader *r, const char **text, size_t *len);
void trace_reader_header(const struct trace_reader *r, const char **text, size_t *len);
void trace_reader_close(struct trace_reader *r);

/* ---- recorded requests: inputs of the kv model ---- */

struct trace_request {
	double time_sec;            /* BurstGPT */
	uint32_t context, generate; /* tokens; 0 allowed */
	const char *id;             /* ShareGPT: of the conversation; freed with the requests */
	uint32_t turn;              /* from 1 */
};
/*
 * A BurstGPT input, request by request: a file, a folder (all *.csv, sorted) or a glob (sorted).
 * @bad, zeroed but for strict, may be NULL; otherwise it stays in use until the end.  -ENOENT when
 * there is no such file.
 */
struct trace_burst;
int trace_burst_open(struct trace_burst **out, const char *path, struct trace_bad *bad,
		     struct penstock_err *err);
/* 1 and a request that can be used; 0 at the end; -errno. */
int trace_burst_next(struct trace_burst *b, struct trace_request *ret, struct penstock_err *err);
void trace_burst_rewind(struct trace_burst *b); /* the first one is next */
/* Can it be read again?  What comes through a pipe cannot. */
bool trace_burst_can_rewind(const struct trace_burst *b);
void trace_burst_close(struct trace_burst *b);
/* All of its requests. */
int trace_burst_load(struct trace_request **out, size_t *nr, const char *path,
		     struct trace_bad *bad, struct penstock_err *err);
/* Is there anything it could be loaded from?  0, or what is wrong in @err. */
int trace_burst_find(const char *path, struct penstock_err *err);
/*
 * The first @max_conversations of a ShareGPT file, in order, turn by turn; tokens: max(1,
 * characters / chars_per_token), capped (0: not).  Memory does not grow with the rest of the file.
 * Bad are items without a list of conversations, and messages that are none; a conversation without
 * a question and its answer is not.
 */
struct trace_sharegpt_opts {
	uint32_t max_conversations, max_context, max_generation, chars_per_token; /* 0: 4 */
};
int trace_sharegpt_load(struct trace_request **out, size_t *nr, const char *path,
			const struct trace_sharegpt_opts *o, struct trace_bad *bad,
			struct penstock_err *err);
/* Frees what either gave. */
void trace_requests_free(struct trace_request *v, size_t nr);

#endif
