/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PROBE_H
#define PENSTOCK_PROBE_H

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a path and this machine can do.  Nothing here needs a handle, starts
 * threads or leaves anything behind.  Strings are empty and numbers 0 where
 * the kernel does not say.
 */

/* The block device under a file system, from sysfs. */
struct penstock_blockdev {
	char name[32]; /* of the whole device: "nvme0n1", "vda" */
	char model[64];
	char scheduler[32]; /* the active one */
	uint32_t major, minor;
	uint32_t logical_block;     /* bytes */
	uint32_t physical_block;    /* bytes */
	uint32_t max_segments;      /* of one request */
	uint32_t max_sectors_kb;    /* largest request, KiB */
	uint32_t max_hw_sectors_kb; /* what max_sectors_kb may be raised to */
	uint32_t nr_requests;       /* depth of one queue */
	uint32_t nr_queues;         /* hardware queues */
	uint32_t dma_alignment;     /* address mask + 1, bytes */
	uint32_t rotational;
	uint64_t bytes;       /* size of the device */
	char write_cache[16]; /* "write back": fsync(2) has to flush it; "write through" */
	char backing[128];    /* loop: the file; dm, md: the devices, separated by blanks */
	char cached[64];      /* why its data may come from this machine's memory; else empty */
};

struct penstock_path_info {
	uint32_t size; /* sizeof(struct penstock_path_info), set by the caller */
	uint32_t is_dir;
	uint32_t is_device;      /* 1: the path itself is a block device */
	uint32_t direct;         /* 1: O_DIRECT works here: one block was moved */
	uint32_t mem_align;      /* of an address for O_DIRECT, bytes */
	uint32_t offset_align;   /* of offset and length for O_DIRECT, bytes */
	uint32_t has_device;     /* 1: @device is filled */
	uint32_t dev_major;      /* device number of the file system, perhaps a partition; */
	uint32_t dev_minor;      /* major 0: it has no device */
	char align_from[32];     /* who said so: "statx", "block device", "page size" */
	char direct_why[160];    /* why O_DIRECT does not work; empty if it does */
	char fs[32];             /* "ext4", "tmpfs", ... */
	char mount[256];         /* mount point */
	uint64_t fs_bytes;       /* size of the file system */
	uint64_t free_bytes;     /* free for this user */
	uint64_t file_bytes;     /* size of the file (not a directory) */
	uint64_t resident_bytes; /* of these, how many are in the page cache */
	char resident_why[64];   /* why resident_bytes is not known; else empty */
	char gds_why[224]; /* why cuFile will refuse files here; empty when no reason is known */
	struct penstock_blockdev device;
};

/*
 * Examine @path (a file, a directory or a block device).  O_DIRECT is tried,
 * not assumed: one block of a file or device is read; in a directory one block
 * is written to a temporary file without a name (where the file system has no
 * O_TMPFILE, the name is removed at once).  Where no file can be made,
 * @direct_why says so.
 * Returns 0, or
 *   -ENOENT, -EACCES, ...	the path cannot be examined
 *   -EINVAL	it is none of the three, or info->size is not set
 */
PENSTOCK_API int penstock_probe_path(const char *path, struct penstock_path_info *info,
				     struct penstock_err *err);

/*
 * How many bytes of [@offset, @offset + @len) of an open file are in the page
 * cache, counted in whole pages.  Returns bytes, or -errno where the kernel
 * cannot or will not tell (-EPERM: a file of another user).
 */
PENSTOCK_API int64_t penstock_probe_resident(int fd, uint64_t offset, uint64_t len);

struct penstock_gpu_info {
	uint32_t size;        /* sizeof(struct penstock_gpu_info), set by the caller */
	uint32_t cuda;        /* 1: the CUDA driver library is loaded and works */
	uint32_t devices;     /* CUDA devices */
	uint32_t cufile;      /* 1: the cuFile library is loaded */
	uint32_t nvidia_fs;   /* 1: the nvidia-fs module is loaded, which GPUDirect Storage needs */
	int32_t cuda_version; /* as cuDriverGetVersion() says */
	int32_t cufile_version; /* as cuFileGetVersion() says */
	char device0[64];       /* name of the first device */
	char cuda_why[160];     /* why not; empty if it works */
	char cufile_why[160];
};

/* Look for a GPU and for cuFile.  Returns 0; what is missing is told in @info. */
PENSTOCK_API int penstock_probe_gpu(struct penstock_gpu_info *info);

struct penstock_gpu_device {
	uint32_t size;         /* sizeof(struct penstock_gpu_device), set by the caller */
	uint32_t capability;   /* compute capability, 10 * major + minor */
	uint32_t pcie_gen;     /* of the link now; a GPU that idles may go down */
	uint32_t pcie_width;   /* lanes now */
	uint32_t pcie_gen_max; /* what device and slot can do */
	uint32_t pcie_width_max;
	int32_t numa_node; /* -1: not known */
	uint32_t reserved;
	uint64_t memory; /* bytes */
	char name[64];
	char pci[16]; /* "0000:17:00.0" */
};

/*
 * Describe CUDA device @device.  Returns 0, -ENOTSUP where CUDA does not work,
 * -ENODEV when there is no such device.
 */
PENSTOCK_API int penstock_probe_gpu_device(unsigned device, struct penstock_gpu_device *info,
					   struct penstock_err *err);

struct penstock_gpu_speed {
	uint32_t size; /* sizeof(struct penstock_gpu_speed), set by the caller */
	uint32_t reserved;
	uint64_t to_device;   /* bytes per second from pinned host memory */
	uint64_t from_device; /* and back */
};

/*
 * Measure how fast CUDA device @device copies; takes a fraction of a second, 64 MiB of
 * the device's memory and as much of the host's.
 */
PENSTOCK_API int penstock_probe_gpu_speed(unsigned device, struct penstock_gpu_speed *speed,
					  struct penstock_err *err);

struct penstock_cufile_info {
	uint32_t size;       /* sizeof(struct penstock_cufile_info), set by the caller */
	uint32_t opened;     /* 1: cuFile's driver is open */
	uint32_t direct;     /* 1: it can bypass the host's memory; else compatibility mode */
	uint32_t nvfs_major; /* version of nvidia-fs, 0 where it is not in use */
	uint32_t nvfs_minor;
	char why[224]; /* why it is not open, or not direct */
};

/*
 * Open cuFile's driver and ask what it can do.  That takes a second, starts threads,
 * pins memory, and lasts as long as the process.  Returns 0; see @info.
 */
PENSTOCK_API int penstock_probe_cufile(struct penstock_cufile_info *info);

/* Something that newer kernels have. */
struct penstock_kernel_offer {
	uint32_t size;    /* sizeof(struct penstock_kernel_offer), set by the caller */
	uint32_t found;   /* 1: it is there, it was tried */
	uint32_t of_path; /* 1: it depends on the file system or the device */
	uint32_t used;    /* 1: the library uses it where it is there */
	char name[32];    /* "cloned buffers" */
	char since[16];   /* the first kernel of kernel.org with it: "6.12" */
};

/*
 * The offer @index, from 0 on; of those that depend on it, at @path (a file, a directory or a
 * block device; NULL: the current directory).
 * Returns 0, -ENOENT behind the last, or -EINVAL when offer->size is not set.
 */
PENSTOCK_API int penstock_probe_kernel(unsigned index, const char *path,
				       struct penstock_kernel_offer *offer);

#ifdef __cplusplus
}
#endif
#endif
