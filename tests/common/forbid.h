/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_FORBID_H
#define PENSTOCK_TESTS_FORBID_H

/* From now on system call @nr of this process fails with @err, as a container's filter has it. */
int t_forbid(long nr, int err); /* 0 or -errno; there is no way back */

#endif
