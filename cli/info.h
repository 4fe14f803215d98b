/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_INFO_H
#define PENSTOCK_CLI_INFO_H

/* What `penstock info` found, printed as text and as JSON from the same struct. */
#include <jansson.h>

#include <penstock/probe.h>
#include <penstock/s3.h>

#include "load/report/result/machine.h"

struct info_engine {
	const char *name;
	const char *descr;
	bool usable;
	bool by_name_only; /* for tests and measurements: never picked, not a reason to say "works"
			    */
	struct penstock_err why;
};

struct info_path {
	const char *path;
	int code; /* 0 or -errno, with the reason in err */
	struct penstock_err err;
	struct penstock_path_info info;
};

/* A store that a URI names. */
struct info_store {
	const char *uri;
	int code; /* 0 or -errno of what is wrong, in err */
	struct penstock_err err;
	struct penstock_s3_report report;
};

struct info_gpu {
	struct penstock_gpu_device device;
	int speed_code; /* 0 or -errno, with the reason in err; 1: not asked for */
	struct penstock_gpu_speed speed;
	struct penstock_err err;
};

struct info {
	struct report_machine machine;
	struct penstock_gpu_info gpu;
	struct info_gpu *gpus;              /* gpu.devices of them */
	struct penstock_cufile_info cufile; /* size 0: its driver was not opened */
	struct info_engine *engines;
	size_t nr_engines;
	struct penstock_kernel_offer *offers; /* of those that depend on it, at the first path */
	size_t nr_offers;
	struct info_path *paths;
	size_t nr_paths;
	struct info_store *stores;
	size_t nr_stores;
	bool usable; /* at least one engine that is picked without being named */
};

json_t *info_json(const struct info *in);
void info_show(const struct info *in);

#endif
