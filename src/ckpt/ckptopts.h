/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_CKPTOPTS_H
#define PENSTOCK_CKPT_CKPTOPTS_H

/* What the options of writers and readers have in common. */
#include <penstock/ckpt.h>
#include <stddef.h>

/* The buffers: what 0 stands for is filled in, the rest checked. */
int ckpt_opts_buffers(uint32_t *buffers, uint64_t *bytes, uint64_t preset,
		      struct penstock_err *err);

/* How long a commit waits for others in its folder, in ms; for tests to change. */
extern unsigned penstock_writer_lock_ms;

#endif
