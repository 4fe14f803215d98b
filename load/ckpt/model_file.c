/* SPDX-License-Identifier: Apache-2.0 */
#include "load/ckpt/model_file.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define HEADER_MAX 100000000u /* of safetensors */

const char *const model_format_words[] = {"other", "safetensors", "torch", NULL};

static int read_exact(void *arg, void *buf, uint64_t len, uint64_t offset, struct penstock_err *err)
{
	int64_t n = penstock_reader_pread(arg, buf, len, offset, err);

	if (n < 0)
		return (int)n;
	return (uint64_t)n == len ? 0 : penstock_fail(err, -ENODATA, "the file has become shorter");
}

/* By its first bytes; what follows must then be so. */
static int detect_format(struct model_file *m, struct penstock_err *err)
{
	unsigned char head[9] = {0};
	uint64_t n = min_u64(sizeof(head), m->bytes), len;
	int r = read_exact(m->reader, head, n, 0, err);

	memcpy(&len, head, sizeof(len));
	if (r == 0 && n >= 4 && (!memcmp(head, "PK\3\4", 4) || !memcmp(head, "PK\5\6", 4)))
		m->format = MODEL_TORCH;
	else if (r == 0 && n == sizeof(head) && le64toh(len) <= HEADER_MAX && head[8] == '{')
		m->format = MODEL_SAFETENSORS;
	return r;
}

static int open_tensors(struct model_file *m, struct penstock_io *io, const char *path,
			const struct penstock_reader_opts *opts, struct penstock_err *err)
{
	penstock_reader_close(m->reader);
	m->reader = NULL;
	return penstock_safetensors_open(&m->tensors, io, path, opts, err);
}

static int open_zip(struct model_file *m, const char *path, struct penstock_err *err)
{
	struct penstock_err why = {0, ""};
	int r = penstock_archive_open(&m->zip, m->reader, &why);

	if (r == -EBADMSG) /* which the reader tells with the name */
		return penstock_fail(err, r, "%s", why.msg);
	return r < 0 ? penstock_fail(err, r, "%s: %s", path, why.msg) : 0;
}

int model_file_open(struct model_file *m, struct penstock_io *io, const char *path,
		    const struct penstock_reader_opts *opts, struct penstock_err *err)
{
	struct penstock_reader_info info = {.size = sizeof(info)};
	int r;

	*m = (struct model_file){.format = MODEL_OTHER};
	r = penstock_reader_open(&m->reader, io, path, opts, err);
	if (r == 0)
		r = penstock_reader_stat(m->reader, &info);
	if (r < 0)
		return r;
	m->bytes = info.bytes;
	m->has_crc = info.verify;
	r = detect_format(m, err);
	if (r == 0 && m->format == MODEL_SAFETENSORS)
		return open_tensors(m, io, path, opts, err);
	return r == 0 && m->format == MODEL_TORCH ? open_zip(m, path, err) : r;
}

void model_file_close(struct model_file *m)
{
	penstock_archive_close(m->zip);
	penstock_safetensors_close(m->tensors);
	penstock_reader_close(m->reader);
	*m = (struct model_file){.format = MODEL_OTHER};
}

bool model_file_entry(const struct model_file *m, uint64_t i, struct model_entry *ret)
{
	const struct penstock_tensor *t =
		m->tensors ? penstock_safetensors_get(m->tensors, i) : NULL;
	const struct penstock_record *r = m->zip ? penstock_archive_get(m->zip, i) : NULL;

	if (t)
		*ret = (struct model_entry){t->name,   penstock_dtype_name(t->dtype),
					    t->shape,  t->rank,
					    t->offset, t->len};
	else if (r)
		*ret = (struct model_entry){.name = r->name, .offset = r->offset, .bytes = r->len};
	return t || r;
}
