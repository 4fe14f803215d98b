/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fio's iolog, version 3.  Objects are files; one is added and opened when it is met first, for
 * which a hash of every name is kept.
 */
#include "load/trace/formats.h"

#include "base/keyhash.h"
#include "load/trace/digits.h"
#include "load/trace/idset.h"
#include "load/trace/writer.h"

struct fio_out {
	bool begun;
	struct idset known;
};

/*
 * fio makes no folders, so a name with a slash could not be opened, or would be somebody's file
 * outside the folder fio works in.
 */
static bool fio_log_fits(char c)
{
	return (unsigned char)c > ' ' && c != 0x7f && c != '/';
}

bool fio_name_fits(const char *key, size_t len)
{
	if (!len || len > FIO_NAME_MAX || *key == '.')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!fio_log_fits(key[i]))
			return false;
	return true;
}

/* Microseconds since the first row; there is no time before it. */
static uint64_t since_first(struct trace_writer *w, uint64_t ns)
{
	struct fio_out *f = w->state;

	if (!f->begun)
		w->first_ns = ns;
	f->begun = true;
	if (ns >= w->first_ns)
		return (ns - w->first_ns) / 1000;
	w->early++;
	return 0;
}

/* What does not fit gets a hash at its end, so that names stay different. */
static size_t file_name(char name[FIO_NAME_MAX], const char *key, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	if (fio_name_fits(key, len))
		return (size_t)(put_bytes(name, key, len) - name);
	for (; n < len && n < FIO_NAME_MAX - 17; n++)
		name[n] = fio_log_fits(key[n]) && (n || *key != '.') ? key[n] : '_';
	name[n++] = '-';
	for (uint64_t h = penstock_key_hash(key, len, 0), i = 0; i < 16; i++, h <<= 4)
		name[n++] = digits[h >> 60];
	return n;
}

static char *put_action(char *to, uint64_t us, const char *name, size_t len, const char *action)
{
	to = put_u64(to, us);
	*to++ = ' ';
	to = put_bytes(to, name, len);
	*to++ = ' ';
	return put_bytes(to, action, strlen(action));
}

static int fio_out_row(struct trace_writer *w, const struct trace_row *row,
		       struct penstock_err *err)
{
	static const char *const actions[] = {"read ", "write ", "trim "};
	struct fio_out *f = w->state;
	char name[FIO_NAME_MAX], *to;
	uint64_t us;
	size_t len;
	int new;

	if (row->op > TRACE_DELETE || !row->size)
		return 0;
	us = since_first(w, row->time_ns);
	len = file_name(name, row->key, row->key_len);
	new = idset_add(&f->known, penstock_key_hash(name, len, 0));
	to = sink_reserve(&w->sink, 4 * (FIO_NAME_MAX + 64), err);
	if (new < 0 || !to)
		return new < 0 ? new : sink_error(&w->sink);
	if (new) {
		to = put_action(to, us, name, len, "add\n");
		to = put_action(to, us, name, len, "open\n");
	}
	to = put_action(to, us, name, len, actions[row->op]);
	to = put_u64(to, row->offset);
	*to++ = ' ';
	to = put_u64(to, row->size);
	*to++ = '\n';
	sink_commit(&w->sink, to);
	return 0;
}

static int fio_out_begin(struct trace_writer *w, struct penstock_err *err)
{
	char *to = sink_reserve(&w->sink, 64, err);

	sink_commit(&w->sink, PUT_TEXT(to, "fio version 3 iolog\n"));
	return 0;
}

static void fio_out_fini(void *state)
{
	struct fio_out *f = state;

	idset_fini(&f->known);
}

const struct trace_output trace_fio_output = {
	.state_size = sizeof(struct fio_out),
	.begin = fio_out_begin,
	.row = fio_out_row,
	.fini = fio_out_fini,
};
