/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_KV_KV_ROWS_H
#define SLUICE_KV_KV_ROWS_H

/* What the KV model does with recorded requests, as the rows of a trace; the same each time. */
#include "load/model/kv_load.h"
#include "load/trace/trace.h"

/* @p, which has burst_path or sharegpt_path, is used as long as there are readers of it. */
struct trace_maker kv_rows_maker(const struct kv_params *p);

#endif
