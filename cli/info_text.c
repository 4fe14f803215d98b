/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock info' for people. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <penstock/penstock.h>

#include "base/size.h"
#include "cli/info.h"
#include "cli/opt/opt.h"
#include "load/report/result/text.h"

enum { KEY_COLUMNS = 18, WIDTH = 96 };

/* "  key           text" */
static void row(const char *key, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *key, const char *fmt, ...)
{
	char text[1024], plain[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("  %-15s ", key);
	cli_wrap(stdout, report_escape(plain, sizeof(plain), text), KEY_COLUMNS, KEY_COLUMNS,
		 WIDTH);
}

static void heading(const char *text)
{
	putchar('\n');
	report_escape_put(stdout, text);
	putchar('\n');
}

#define SIZE(v) penstock_size_format((char[PENSTOCK_SIZE_TEXT]){0}, v)

static const char *limit_text(char buf[PENSTOCK_SIZE_TEXT], uint64_t v)
{
	return v == REPORT_UNLIMITED ? "unlimited" : penstock_size_format(buf, v);
}

static void show_limits(const struct report_machine *m)
{
	static const char *const uring[] = {"0: allowed for all",
					    "1: only for members of kernel.io_uring_group",
					    "2: refused for all"};
	char soft[PENSTOCK_SIZE_TEXT], hard[PENSTOCK_SIZE_TEXT];

	heading("Limits");
	row("locked memory", "%s (hard %s)%s", limit_text(soft, m->memlock_soft),
	    limit_text(hard, m->memlock_hard),
	    m->can_lock && m->memlock_soft != REPORT_UNLIMITED
		    ? ", does not hold for this process (CAP_IPC_LOCK)"
		    : "");
	if (m->has_aio)
		row("libaio",
		    "%" PRIu64 " of %" PRIu64
		    " requests taken on this machine (fs.aio-nr, fs.aio-max-nr)",
		    m->aio_nr, m->aio_max_nr);
	else
		row("libaio", "no fs.aio-max-nr: this kernel has no asynchronous I/O of that kind");
	row("io_uring", "%s",
	    m->io_uring_disabled >= 0 ? uring[m->io_uring_disabled]
				      : "no kernel.io_uring_disabled (kernels before 6.6)");
}

static void show_huge(const struct report_machine *m)
{
	heading("Huge pages");
	if (m->thp[0])
		row("transparent", "%s, defrag %s%s%s", m->thp,
		    m->thp_defrag[0] ? m->thp_defrag : "unknown", m->thp_page ? ", pages of " : "",
		    m->thp_page ? SIZE(m->thp_page) : "");
	else
		row("transparent", "not in this kernel");
	for (uint32_t i = 0; i < m->nr_hugetlb; i++) {
		const struct report_hugetlb *h = &m->hugetlb[i];

		row(i ? "" : "reserved",
		    "%" PRIu64 " of %s, %" PRIu64 " free, %" PRIu64 " promised", h->total,
		    SIZE(h->page), h->free, h->reserved);
	}
	if (!m->nr_hugetlb)
		row("reserved", "not in this kernel");
}

static void show_engines(const struct info *in)
{
	heading("Engines, best first");
	for (size_t i = 0; i < in->nr_engines; i++) {
		const struct info_engine *e = &in->engines[i];

		if (e->usable)
			row(e->name, "yes%s: %s", e->by_name_only ? ", when named" : "",
			    e->descr ? e->descr : "");
		else
			row(e->name, "no: %s", e->why.msg);
	}
	if (!in->nr_engines)
		row("none", "no engine is built in");
}

/* "PCIe 5 x16 (now PCIe 1 x16)"; a GPU that idles goes down. */
static const char *link_text(char text[64], const struct penstock_gpu_device *d)
{
	if (!d->pcie_gen_max || !d->pcie_width_max)
		snprintf(text, 64, "PCIe link not known");
	else if (d->pcie_gen != d->pcie_gen_max || d->pcie_width != d->pcie_width_max)
		snprintf(text, 64, "PCIe %u x%u (now PCIe %u x%u)", d->pcie_gen_max,
			 d->pcie_width_max, d->pcie_gen, d->pcie_width);
	else
		snprintf(text, 64, "PCIe %u x%u", d->pcie_gen_max, d->pcie_width_max);
	return text;
}

static void show_one_gpu(uint32_t i, const struct info_gpu *g)
{
	char key[24], link[64];

	snprintf(key, sizeof(key), "device %u", i);
	row(key, "%s, %s, %s%s%s", g->device.name, SIZE(g->device.memory),
	    link_text(link, &g->device), g->device.pci[0] ? ", " : "", g->device.pci);
	if (g->speed_code < 0)
		row("", "its copies could not be measured: %s", g->err.msg);
	else if (g->speed_code == 0)
		row("", "copies %.1f GB/s from pinned host memory, %.1f GB/s back",
		    (double)g->speed.to_device / 1e9, (double)g->speed.from_device / 1e9);
}

static void show_cufile(const struct info *in)
{
	const struct penstock_gpu_info *g = &in->gpu;
	const struct penstock_cufile_info *c = &in->cufile;

	if (!g->cufile) {
		row("cuFile", "no: %s", g->cufile_why);
		return;
	}
	if (g->cufile_version)
		row("cuFile", "yes: version %d.%d", g->cufile_version / 1000,
		    g->cufile_version % 1000 / 10);
	else
		row("cuFile", "yes");
	if (c->size && !c->opened)
		row("", "its driver does not open: %s", c->why);
	else if (c->size && c->direct)
		row("", "mode: direct (GPUDirect Storage), nvidia-fs %u.%u", c->nvfs_major,
		    c->nvfs_minor);
	else if (c->size)
		row("", "mode: compatibility, through the host: %s", c->why);
	row("nvidia-fs", "%s",
	    g->nvidia_fs ? "loaded: GPUDirect Storage may be used"
			 : "not loaded: cuFile runs in compatibility mode, through the host");
}

static void show_gpu(const struct info *in)
{
	const struct penstock_gpu_info *g = &in->gpu;

	heading("GPU");
	if (g->cuda && g->devices)
		row("CUDA", "yes: driver API %d.%d, %u device%s", g->cuda_version / 1000,
		    g->cuda_version % 1000 / 10, g->devices, g->devices == 1 ? "" : "s");
	else if (g->cuda)
		row("CUDA", "no: driver API %d.%d works, but there is no device",
		    g->cuda_version / 1000, g->cuda_version % 1000 / 10);
	else
		row("CUDA", "no: %s", g->cuda_why);
	for (uint32_t i = 0; i < g->devices; i++)
		show_one_gpu(i, &in->gpus[i]);
	show_cufile(in);
}

static void show_device(const struct penstock_path_info *p)
{
	const struct penstock_blockdev *d = &p->device;
	char hw[48] = "";

	if (!p->has_device) {
		row("block device", "none that can be seen");
		return;
	}
	row("block device", "%s, %s%s%s%s", d->name, SIZE(d->bytes), d->model[0] ? ", " : "",
	    d->model, d->rotational ? ", rotational" : "");
	if (d->backing[0])
		row("", "on %s", d->backing);
	row("blocks", "logical %s, physical %s", SIZE(d->logical_block), SIZE(d->physical_block));
	/* Virtual disks claim 2 TiB, which tells nothing. */
	if (d->max_hw_sectors_kb > d->max_sectors_kb && d->max_hw_sectors_kb < 1u << 20)
		snprintf(hw, sizeof(hw), " (the hardware takes %s)",
			 SIZE((uint64_t)d->max_hw_sectors_kb * 1024));
	row("max transfer", "%s%s in %u segments%s%s", SIZE((uint64_t)d->max_sectors_kb * 1024), hw,
	    d->max_segments, d->dma_alignment ? ", memory aligned to " : "",
	    d->dma_alignment ? SIZE(d->dma_alignment) : "");
	row("queue", "%u hardware queue%s, %u requests each, scheduler %s%s%s", d->nr_queues,
	    d->nr_queues == 1 ? "" : "s", d->nr_requests, d->scheduler[0] ? d->scheduler : "none",
	    d->write_cache[0] ? ", cache " : "", d->write_cache);
}

static void show_path(const struct info *in, const struct info_path *ip)
{
	const struct penstock_path_info *p = &ip->info;

	heading(ip->path);
	if (!p->is_device) {
		row("file system", "%s%s%s", p->fs[0] ? p->fs : "unknown",
		    p->mount[0] ? ", mounted on " : "", p->mount);
		row("free space", "%s of %s", SIZE(p->free_bytes), SIZE(p->fs_bytes));
	}
	if (p->direct)
		row("O_DIRECT", "yes: memory aligned to %s, offset and length to %s (says %s)",
		    SIZE(p->mem_align), SIZE(p->offset_align), p->align_from);
	else
		row("O_DIRECT", "no: %s", p->direct_why);
	if (!p->is_dir && p->resident_why[0])
		row("page cache", "not known: %s", p->resident_why);
	else if (!p->is_dir)
		row("page cache", "%s of %s in memory (%.1f %%)", SIZE(p->resident_bytes),
		    SIZE(p->file_bytes),
		    p->file_bytes ? 100.0 * (double)p->resident_bytes / (double)p->file_bytes
				  : 0.0);
	show_device(p);
	if (in->gpu.cufile && !p->is_device)
		row("cuFile", "%s%s", p->gds_why[0] ? "no: " : "yes: udev knows the file system",
		    p->gds_why);
}

static void show_offers(const struct info *in)
{
	heading("What newer kernels offer");
	for (size_t i = 0; i < in->nr_offers; i++) {
		const struct penstock_kernel_offer *o = &in->offers[i];

		row(o->name, "%s%s (Linux %s)%s", o->found ? "yes" : "no",
		    !o->of_path        ? ""
		    : in->nr_paths > 1 ? ", at the first path"
				       : ", here",
		    o->since, o->used ? ", used" : "");
	}
}

static void show_store(const struct info_store *s)
{
	static const char *const names[] = {"endpoint", "region, style", "clock", "rights",
					    "supports"};

	heading(s->uri);
	for (size_t i = 0; i < PENSTOCK_S3_CHECK_ITEMS; i++)
		if (s->report.item[i].text[0])
			row(names[i], "%s%s", s->report.item[i].code < 0 ? "FAILED: " : "",
			    s->report.item[i].text);
}

void info_show(const struct info *in)
{
	const struct report_machine *m = &in->machine;

	printf("penstock %s\n", PENSTOCK_VERSION_STRING);
	heading("Machine");
	row("kernel", "%s", m->kernel);
	row("processors", "%u%s%s", m->cpus, m->cpu[0] ? " x " : "", m->cpu);
	row("memory", "%s", SIZE(m->memory));
	show_engines(in);
	show_limits(m);
	show_huge(m);
	show_offers(in);
	show_gpu(in);
	for (size_t i = 0; i < in->nr_paths; i++)
		if (in->paths[i].code == 0)
			show_path(in, &in->paths[i]);
	for (size_t i = 0; i < in->nr_stores; i++)
		show_store(&in->stores[i]);
}
