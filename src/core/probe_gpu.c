/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPUs and cuFile of this machine can do: see probe.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <penstock/probe.h>

#include "base/err.h"
#include "base/textfile.h"
#include "base/util.h"
#include "core/gpu.h"
#include "dl/cufile.h"
#include "mem/area.h"

enum {
	CAPABILITY_MAJOR = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
	CAPABILITY_MINOR = 76,
	SPEED_BYTES = 64 << 20,
	SPEED_LOOPS = 8,
};

/* Give the caller as much of @from as its struct has; what it has beyond is zeroed. */
static void copy_sized(void *to, const void *from, uint32_t wanted, size_t have)
{
	if (wanted > have)
		memset((char *)to + have, 0, wanted - have);
	memcpy(to, from, min_u64(wanted, have));
}

int penstock_probe_gpu(struct penstock_gpu_info *info)
{
	struct penstock_gpu_info g = {.size = info->size};
	const struct penstock_cufile *cufile;
	const struct penstock_cuda *cuda;
	const char *why;
	int n;

	if (info->size < sizeof(g.size))
		return -EINVAL;
	cuda = penstock_cuda(&why);
	if (cuda) {
		g.cuda = 1;
		cuda->driver_version(&g.cuda_version);
		if (cuda->device_count(&n) == 0 && n > 0)
			g.devices = (uint32_t)n;
		if (g.devices)
			cuda->device_name(g.device0, sizeof(g.device0), 0);
	} else {
		snprintf(g.cuda_why, sizeof(g.cuda_why), "%s", why);
	}
	cufile = penstock_cufile(&why);
	if (cufile) {
		g.cufile = 1;
		if (cufile->version)
			cufile->version(&g.cufile_version);
	} else {
		snprintf(g.cufile_why, sizeof(g.cufile_why), "%s", why);
	}
	g.nvidia_fs = access("/proc/driver/nvidia-fs", F_OK) == 0;
	copy_sized(info, &g, info->size, sizeof(g));
	return 0;
}

/* -------------------------------------------------------------- one device */

/* "32.0 GT/s PCIe" is generation 5; 0 where the kernel does not say. */
static uint32_t link_gen(const char *pci, const char *name)
{
	static const unsigned tenths[] = {25, 50, 80, 160, 320, 640, 1280};
	char line[64];
	unsigned whole = 0, part = 0;

	penstock_textfile_read_line(line, sizeof(line), "/sys/bus/pci/devices/%s/%s", pci, name);
	sscanf(line, "%u.%u", &whole, &part);
	for (unsigned i = 0; i < ARRAY_SIZE(tenths); i++)
		if (whole * 10 + part == tenths[i])
			return i + 1;
	return 0;
}

static uint32_t link_width(const char *pci, const char *name)
{
	uint64_t v = 0;

	penstock_textfile_read_u64(&v, "/sys/bus/pci/devices/%s/%s", pci, name);
	return v > 64 ? 0 : (uint32_t)v; /* 255: not known */
}

static void load_link(struct penstock_gpu_device *d, const char *id)
{
	unsigned domain, bus, dev, fn;
	char node[16];

	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) != 4)
		return;
	snprintf(d->pci, sizeof(d->pci), "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff,
		 dev & 0x1f, fn & 7);
	d->pcie_gen = link_gen(d->pci, "current_link_speed");
	d->pcie_gen_max = link_gen(d->pci, "max_link_speed");
	d->pcie_width = link_width(d->pci, "current_link_width");
	d->pcie_width_max = link_width(d->pci, "max_link_width");
	if (penstock_textfile_read_line(node, sizeof(node), "/sys/bus/pci/devices/%s/numa_node",
					d->pci) > 0)
		sscanf(node, "%d", &d->numa_node);
}

int penstock_probe_gpu_device(unsigned device, struct penstock_gpu_device *info,
			      struct penstock_err *err)
{
	struct penstock_gpu_device d = {.size = info->size, .numa_node = -1};
	struct gpu g;
	int major = 0, minor = 0, r;
	size_t memory = 0;
	char pci[32] = "";

	if (info->size < sizeof(d.size))
		return penstock_fail(err, -EINVAL, "size: %u is not the size of the struct",
				     info->size);
	r = gpu_find(&g, device, err);
	if (r < 0)
		return r;
	g.cuda->device_name(d.name, sizeof(d.name), g.device);
	g.cuda->device_attribute(&major, CAPABILITY_MAJOR, g.device);
	g.cuda->device_attribute(&minor, CAPABILITY_MINOR, g.device);
	d.capability = (uint32_t)(10 * major + minor);
	g.cuda->device_memory(&memory, g.device);
	d.memory = memory;
	if (g.cuda->device_pci(pci, sizeof(pci), g.device) == CUDA_OK)
		load_link(&d, pci);
	copy_sized(info, &d, info->size, sizeof(d));
	return 0;
}

/* ------------------------------------------------------------------- speed */

/* What one measurement needs, in the device's context. */
struct bench {
	struct gpu gpu;
	struct penstock_area host;
	uint64_t ptr;
	void *stream;
	bool registered;
};

static int bench_copy(const struct bench *b, bool to_device)
{
	if (to_device)
		return b->gpu.cuda->copy_to_device(b->ptr, b->host.addr, SPEED_BYTES, b->stream);
	return b->gpu.cuda->copy_from_device(b->host.addr, b->ptr, SPEED_BYTES, b->stream);
}

static int bench_measure(const struct bench *b, bool to_device, uint64_t *ret,
			 struct penstock_err *e)
{
	uint64_t begin = 0;
	int r = 0;

	for (int i = 0; i <= SPEED_LOOPS && !r; i++) {
		r = bench_copy(b, to_device);
		if (!r)
			r = b->gpu.cuda->stream_sync(b->stream);
		if (i == 0)
			begin = clock_ns(); /* the first copy wakes the link up */
	}
	if (!r)
		*ret = (uint64_t)((double)SPEED_BYTES * SPEED_LOOPS * 1e9 /
				  (double)(clock_ns() - begin));
	return penstock_cuda_check(r, "copying", e);
}

static int bench_open(struct bench *b, struct penstock_err *err)
{
	const struct penstock_cuda *cuda = b->gpu.cuda;
	int r = penstock_area_map(&b->host, SPEED_BYTES, PENSTOCK_HUGE_AUTO, 0);

	if (r < 0)
		return penstock_fail(err, r, "out of memory");
	memset(b->host.addr, 0, SPEED_BYTES);
	r = penstock_cuda_check(cuda->host_register(b->host.addr, b->host.len, 0),
				"cuMemHostRegister", err);
	b->registered = r == 0;
	if (r == 0)
		r = penstock_cuda_check(cuda->mem_alloc(&b->ptr, SPEED_BYTES), "cuMemAlloc", err);
	if (r == 0)
		r = penstock_cuda_check(cuda->stream_create(&b->stream, CUDA_STREAM_NON_BLOCKING),
					"cuStreamCreate", err);
	return r;
}

static void bench_close(struct bench *b)
{
	const struct penstock_cuda *cuda = b->gpu.cuda;

	if (b->stream)
		cuda->stream_destroy(b->stream);
	if (b->ptr)
		cuda->mem_free(b->ptr);
	if (b->registered)
		cuda->host_unregister(b->host.addr);
	penstock_area_unmap(&b->host);
}

int penstock_probe_gpu_speed(unsigned device, struct penstock_gpu_speed *speed,
			     struct penstock_err *err)
{
	struct penstock_gpu_speed s = {.size = speed->size};
	struct bench b = {.ptr = 0};
	int r;

	if (speed->size < sizeof(s.size))
		return penstock_fail(err, -EINVAL, "size: %u is not the size of the struct",
				     speed->size);
	r = gpu_enter(&b.gpu, device, err);
	if (r < 0)
		return r;
	r = bench_open(&b, err);
	if (r == 0)
		r = bench_measure(&b, true, &s.to_device, err);
	if (r == 0)
		r = bench_measure(&b, false, &s.from_device, err);
	bench_close(&b);
	gpu_leave(&b.gpu);
	if (r == 0)
		copy_sized(speed, &s, speed->size, sizeof(s));
	return r;
}

/* ------------------------------------------------------------------ cuFile */

int penstock_probe_cufile(struct penstock_cufile_info *info)
{
	struct penstock_cufile_info c = {.size = info->size};
	struct penstock_cufile_driver driver;
	struct penstock_err err;

	if (info->size < sizeof(c.size))
		return -EINVAL;
	if (penstock_cufile_open(&driver, &err) < 0) {
		snprintf(c.why, sizeof(c.why), "%s", err.msg);
	} else {
		c.opened = 1;
		c.direct = driver.direct;
		c.nvfs_major = driver.nvfs_major;
		c.nvfs_minor = driver.nvfs_minor;
		if (!driver.direct)
			snprintf(c.why, sizeof(c.why), "the nvidia-fs module is not in use");
	}
	copy_sized(info, &c, info->size, sizeof(c));
	return 0;
}
