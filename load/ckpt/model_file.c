/* SPDX-License-Identifier: Apache-2.0 */
#include "load/ckpt/model_file.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define HEADER_MAX 100000000u /* of safetensors */

const char *const model_format_words[] = {"other", "safetensors", "torch", NULL};

static int read_exact(void *arg, void *buf, uint64_t len, uint64_t offset, struct sluice_err *err)
{
	int64_t n = sluice_reader_pread(arg, buf, len, offset, err);

	if (n < 0)
		return (int)n;
	return (uint64_t)n == len ? 0 : sluice_fail(err, -ENODATA, "the file has become shorter");
}

/* By its first bytes; what follows must then be so. */
static int tell_format(struct model_file *m, struct sluice_err *err)
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

static int open_tensors(struct model_file *m, struct sluice_io *io, const char *path,
			const struct sluice_reader_opts *opts, struct sluice_err *err)
{
	sluice_reader_close(m->reader);
	m->reader = NULL;
	return sluice_safetensors_open(&m->tensors, io, path, opts, err);
}

static int open_zip(struct model_file *m, const char *path, struct sluice_err *err)
{
	struct sluice_err why = {0, ""};
	int r = sluice_archive_open(&m->zip, m->reader, &why);

	if (r == -EBADMSG) /* which the reader tells with the name */
		return sluice_fail(err, r, "%s", why.msg);
	return r < 0 ? sluice_fail(err, r, "%s: %s", path, why.msg) : 0;
}

int model_file_open(struct model_file *m, struct sluice_io *io, const char *path,
		    const struct sluice_reader_opts *opts, struct sluice_err *err)
{
	struct sluice_reader_info info = {.size = sizeof(info)};
	int r;

	*m = (struct model_file){.format = MODEL_OTHER};
	r = sluice_reader_open(&m->reader, io, path, opts, err);
	if (r == 0)
		r = sluice_reader_stat(m->reader, &info);
	if (r < 0)
		return r;
	m->bytes = info.bytes;
	m->sums = info.verify;
	r = tell_format(m, err);
	if (r == 0 && m->format == MODEL_SAFETENSORS)
		return open_tensors(m, io, path, opts, err);
	return r == 0 && m->format == MODEL_TORCH ? open_zip(m, path, err) : r;
}

void model_file_close(struct model_file *m)
{
	sluice_archive_close(m->zip);
	sluice_safetensors_close(m->tensors);
	sluice_reader_close(m->reader);
	*m = (struct model_file){.format = MODEL_OTHER};
}

bool model_file_entry(const struct model_file *m, uint64_t i, struct model_entry *ret)
{
	const struct sluice_tensor *t = m->tensors ? sluice_safetensors_get(m->tensors, i) : NULL;
	const struct sluice_record *r = m->zip ? sluice_archive_get(m->zip, i) : NULL;

	if (t)
		*ret = (struct model_entry){
			t->name, sluice_dtype_name(t->dtype), t->shape, t->rank, t->offset, t->len};
	else if (r)
		*ret = (struct model_entry){.name = r->name, .offset = r->offset, .bytes = r->len};
	return t || r;
}
