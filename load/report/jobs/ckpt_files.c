/* SPDX-License-Identifier: Apache-2.0 */
#include "load/report/jobs/ckpt_files.h"

#include <inttypes.h>

#include <penstock/version.h>

#include "base/size.h"
#include "load/ckpt/model_file.h"
#include "load/report/result/text.h"

/* "[4096, 512]"; a long one is cut. */
static const char *shape_text(char *out, size_t size, const struct model_entry *e)
{
	size_t at = (size_t)snprintf(out, size, "%s", e->dtype ? "[" : "");

	for (uint32_t i = 0; i < e->rank && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%" PRIu64, i ? ", " : "",
				       e->shape[i]);
	if (e->dtype && at < size)
		snprintf(out + at, size - at, "]");
	return out;
}

/* What of a file has checksums, in words. */
static const char *checksum_state(const struct model_file *m)
{
	return m->has_crc ? "FILE.crc" : m->format == MODEL_TORCH ? "CRC-32 of the records" : NULL;
}

static uint64_t files_count(const struct model_file *m)
{
	struct model_entry e;
	uint64_t nr = 0;

	while (model_file_entry(m, nr, &e))
		nr++;
	return nr;
}

void ckpt_ls_text(FILE *f, const struct model_file *m, const char *name, bool brief)
{
	const char *what = m->format == MODEL_TORCH ? "record" : "tensor",
		   *checksums = checksum_state(m);
	char size[PENSTOCK_SIZE_TEXT], shape[160];
	uint64_t nr = files_count(m);
	struct model_entry e;

	fprintf(f, "%s: %s, ", name, model_format_words[m->format]);
	if (m->format != MODEL_OTHER)
		fprintf(f, "%" PRIu64 " %s%s, ", nr, what, nr == 1 ? "" : "s");
	fprintf(f, "%s, checksums: %s\n", penstock_size_format(size, m->bytes),
		checksums ? checksums : "none");
	for (uint64_t i = 0; !brief && model_file_entry(m, i, &e); i++) {
		fprintf(f, "  %14" PRIu64 "  %-8s %-20s ", e.bytes, e.dtype ? e.dtype : "",
			shape_text(shape, sizeof(shape), &e));
		report_escape_put(f, e.name);
		fputc('\n', f);
	}
}

static json_t *entry_json(const struct model_entry *e)
{
	json_t *shape = e->dtype ? json_array() : json_null();

	for (uint32_t i = 0; i < e->rank; i++)
		json_array_append_new(shape, json_integer((json_int_t)e->shape[i]));
	return json_pack("{s:o, s:o, s:o, s:o, s:I}", "name", report_str(e->name), "dtype",
			 e->dtype ? json_string(e->dtype) : json_null(), "shape", shape, "offset",
			 e->offset ? json_integer((json_int_t)e->offset) : json_null(), "bytes",
			 (json_int_t)e->bytes);
}

json_t *ckpt_ls_json(const struct model_file *m, const char *name)
{
	json_t *entries = json_array(), *metadata = json_object(), *j = json_object();
	const struct penstock_meta *meta;
	const char *checksums = checksum_state(m);
	struct model_entry e;

	for (uint64_t i = 0; model_file_entry(m, i, &e); i++)
		json_array_append_new(entries, entry_json(&e));
	for (uint64_t i = 0; m->tensors && (meta = penstock_safetensors_metadata(m->tensors, i));
	     i++)
		json_object_set_new(metadata, meta->key, report_str(meta->value));
	report_set_path(j, "file", name);
	json_object_set_new(j, "format", json_string(model_format_words[m->format]));
	json_object_set_new(j, "bytes", json_integer((json_int_t)m->bytes));
	json_object_set_new(j, "checksums", checksums ? json_string(checksums) : json_null());
	json_object_set_new(j, "metadata", metadata);
	json_object_set_new(j, "entries", entries);
	return j;
}

void ckpt_verify_text(FILE *f, const struct model_pass *p)
{
	char size[PENSTOCK_SIZE_TEXT];

	fprintf(f, "%s%s%s: %s, %s, %s%s; %.2f s, %.1f MB/s\n", p->path, p->to ? " -> " : "",
		p->to ? p->to : "", model_format_words[p->format],
		penstock_size_format(size, p->bytes), p->how ? "all right by " : "no checksums",
		p->how ? p->how : "", p->sec, p->sec > 0 ? (double)p->bytes / p->sec / 1e6 : 0);
}

json_t *ckpt_verify_json(const struct model_pass *p, const char *why)
{
	json_t *j = json_object();

	report_set_path(j, "file", p->path);
	if (p->to)
		report_set_path(j, "copy", p->to);
	json_object_set_new(j, "format", json_string(model_format_words[p->format]));
	json_object_set_new(j, "bytes", json_integer((json_int_t)p->bytes));
	json_object_set_new(j, "checked_bytes", json_integer((json_int_t)p->checked));
	json_object_set_new(j, "checksums", p->how ? json_string(p->how) : json_null());
	json_object_set_new(j, "right", json_boolean(!why));
	json_object_set_new(j, "error", report_str_or_null(why ? why : ""));
	json_object_set_new(j, "sec", json_real(p->sec));
	return j;
}

json_t *ckpt_files_json(const char *command, json_t *files)
{
	return json_pack("{s:s, s:s, s:s, s:o}", "schema", "penstock-ckpt/1", "penstock",
			 PENSTOCK_VERSION_STRING, "command", command, "files", files);
}
