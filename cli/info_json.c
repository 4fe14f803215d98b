/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock info --json`.  The words are those of the option tables and structs. */

#include "cli/info.h"
#include "load/report/result/text.h"

static json_t *u64(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* 0 means "not known". */
static json_t *known(uint64_t v)
{
	return v ? u64(v) : json_null();
}

static json_t *device_json(const struct penstock_blockdev *d)
{
	json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "name", report_str(d->name),
			      "model", report_str_or_null(d->model), "scheduler",
			      report_str_or_null(d->scheduler), "write_cache",
			      report_str_or_null(d->write_cache), "backing",
			      report_str_or_null(d->backing), "major", (json_int_t)d->major,
			      "minor", (json_int_t)d->minor);

	json_object_set_new(j, "bytes", known(d->bytes));
	json_object_set_new(j, "logical_block", known(d->logical_block));
	json_object_set_new(j, "physical_block", known(d->physical_block));
	json_object_set_new(j, "max_segments", known(d->max_segments));
	json_object_set_new(j, "max_sectors_kb", known(d->max_sectors_kb));
	json_object_set_new(j, "max_hw_sectors_kb", known(d->max_hw_sectors_kb));
	json_object_set_new(j, "nr_requests", known(d->nr_requests));
	json_object_set_new(j, "nr_queues", known(d->nr_queues));
	json_object_set_new(j, "dma_alignment", known(d->dma_alignment));
	json_object_set_new(j, "rotational", json_boolean(d->rotational));
	return j;
}

static json_t *direct_json(const struct penstock_path_info *p)
{
	return json_pack("{s:b, s:o, s:o, s:o, s:o}", "usable", p->direct, "reason",
			 report_str_or_null(p->direct_why), "mem_align", known(p->mem_align),
			 "offset_align", known(p->offset_align), "align_from",
			 report_str_or_null(p->align_from));
}

static json_t *path_json(const struct info_path *ip)
{
	const struct penstock_path_info *p = &ip->info;
	json_t *j = json_object();

	report_set_path(j, "path", ip->path);
	if (ip->code < 0) {
		json_object_set_new(j, "error", report_str(ip->err.msg));
		json_object_set_new(j, "errno", json_integer(-ip->code));
		return j;
	}
	json_object_set_new(j, "kind",
			    json_string(p->is_dir      ? "directory"
					: p->is_device ? "block device"
						       : "file"));
	json_object_set_new(j, "direct", direct_json(p));
	if (!p->is_device) {
		json_object_set_new(j, "file_system", report_str_or_null(p->fs));
		json_object_set_new(j, "mount", json_null());
		if (p->mount[0])
			report_set_path(j, "mount", p->mount);
		json_object_set_new(j, "total_bytes", u64(p->fs_bytes));
		json_object_set_new(j, "free_bytes", u64(p->free_bytes));
		json_object_set_new(j, "gds_reason", report_str_or_null(p->gds_why));
	}
	if (!p->is_dir) {
		json_object_set_new(j, "bytes", u64(p->file_bytes));
		json_object_set_new(j, "resident_bytes",
				    p->resident_why[0] ? json_null() : u64(p->resident_bytes));
	}
	json_object_set_new(j, "device", p->has_device ? device_json(&p->device) : json_null());
	return j;
}

static json_t *device_gpu_json(const struct info_gpu *g)
{
	const struct penstock_gpu_device *d = &g->device;
	json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
			      report_str(d->name), "pci", report_str_or_null(d->pci), "memory",
			      known(d->memory), "capability", known(d->capability), "pcie_gen",
			      known(d->pcie_gen_max), "pcie_width", known(d->pcie_width_max),
			      "pcie_gen_now", known(d->pcie_gen), "pcie_width_now",
			      known(d->pcie_width), "numa_node",
			      d->numa_node < 0 ? json_null() : json_integer(d->numa_node));

	json_object_set_new(j, "to_device_bytes_per_sec",
			    g->speed_code ? json_null() : u64(g->speed.to_device));
	json_object_set_new(j, "from_device_bytes_per_sec",
			    g->speed_code ? json_null() : u64(g->speed.from_device));
	json_object_set_new(j, "speed_reason",
			    report_str_or_null(g->speed_code < 0 ? g->err.msg : NULL));
	return j;
}

/* What its driver says, once it is open; else null. */
static json_t *cufile_mode_json(const struct penstock_cufile_info *c)
{
	if (!c->size || !c->opened)
		return json_null();
	return json_string(c->direct ? "direct" : "compatibility");
}

static json_t *gpu_json(const struct info *in)
{
	const struct penstock_gpu_info *g = &in->gpu;
	json_t *list = json_array(), *cuda, *cufile;

	for (uint32_t i = 0; i < g->devices; i++)
		json_array_append_new(list, device_gpu_json(&in->gpus[i]));
	cuda = json_pack("{s:b, s:o, s:o, s:I, s:o, s:o}", "usable", g->cuda, "reason",
			 report_str_or_null(g->cuda_why), "version",
			 known((uint64_t)g->cuda_version), "devices", (json_int_t)g->devices,
			 "device0", report_str_or_null(g->device0), "list", list);
	cufile = json_pack("{s:b, s:o, s:o, s:b, s:o, s:o}", "usable", g->cufile, "reason",
			   report_str_or_null(g->cufile_why), "version",
			   known((uint64_t)g->cufile_version), "nvidia_fs", g->nvidia_fs, "mode",
			   cufile_mode_json(&in->cufile), "mode_reason",
			   report_str_or_null(in->cufile.why));
	return json_pack("{s:o, s:o}", "cuda", cuda, "cufile", cufile);
}

static json_t *offers_json(const struct info *in)
{
	json_t *offers = json_array();

	for (size_t i = 0; i < in->nr_offers; i++) {
		const struct penstock_kernel_offer *o = &in->offers[i];

		json_array_append_new(offers,
				      json_pack("{s:s, s:s, s:b, s:b, s:b}", "name", o->name,
						"since", o->since, "found", o->found, "of_path",
						o->of_path, "used", o->used));
	}
	return offers;
}

static json_t *store_json(const struct info_store *s)
{
	static const char *const names[] = {"endpoint", "region", "clock", "rights", "supports"};
	json_t *points = json_array();

	for (size_t i = 0; i < PENSTOCK_S3_CHECK_ITEMS; i++)
		json_array_append_new(points,
				      json_pack("{s:s, s:o, s:s}", "name", names[i], "good",
						s->report.item[i].code == 1
							? json_null()
							: json_boolean(!s->report.item[i].code),
						"text", s->report.item[i].text));
	return json_pack("{s:s, s:o, s:o}", "uri", s->uri, "error",
			 report_str_or_null(s->code < 0 ? s->err.msg : NULL), "points", points);
}

json_t *info_json(const struct info *in)
{
	json_t *engines = json_array(), *paths = json_array(), *stores = json_array();

	for (size_t i = 0; i < in->nr_engines; i++) {
		const struct info_engine *e = &in->engines[i];

		json_array_append_new(
			engines, json_pack("{s:s, s:b, s:b, s:o, s:o}", "name", e->name, "usable",
					   e->usable, "by_name_only", e->by_name_only, "reason",
					   report_str_or_null(e->usable ? NULL : e->why.msg),
					   "description", report_str_or_null(e->descr)));
	}
	for (size_t i = 0; i < in->nr_paths; i++)
		json_array_append_new(paths, path_json(&in->paths[i]));
	for (size_t i = 0; i < in->nr_stores; i++)
		json_array_append_new(stores, store_json(&in->stores[i]));
	return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
			 "penstock-info/1", "penstock", PENSTOCK_VERSION_STRING, "usable",
			 in->usable, "machine", report_machine_json(&in->machine), "engines",
			 engines, "kernel", offers_json(in), "gpu", gpu_json(in), "paths", paths,
			 "stores", stores);
}
