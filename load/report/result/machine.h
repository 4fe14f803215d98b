/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_MACHINE_H
#define PENSTOCK_REPORT_RESULT_MACHINE_H

/*
 * The machine as far as it matters for I/O, from /proc and /sys.  Every result
 * carries it, and `penstock info` prints it.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define REPORT_UNLIMITED UINT64_MAX

/* One size of reserved huge page. */
struct report_hugetlb {
	uint64_t page; /* bytes */
	uint64_t total, free, reserved;
};

struct report_machine {
	char host[72];
	char kernel[128]; /* "Linux 6.1.0 x86_64" */
	char cpu[96];
	uint32_t cpus; /* this process may use */
	uint64_t memory;
	uint64_t memlock_soft, memlock_hard; /* bytes or REPORT_UNLIMITED */
	bool can_lock;                       /* CAP_IPC_LOCK: the limit does not hold */
	bool has_aio;
	uint64_t aio_nr, aio_max_nr;
	int io_uring_disabled; /* kernel.io_uring_disabled, or -1 where there is none (before 6.6)
				*/
	char thp[16];          /* transparent huge pages: always, madvise, never, or empty */
	char thp_defrag[24];
	uint64_t thp_page;
	uint32_t nr_hugetlb;
	struct report_hugetlb hugetlb[8];
};

void report_machine_load(struct report_machine *m);
/* A new JSON object, or NULL for lack of memory. */
json_t *report_machine_json(const struct report_machine *m);

#endif
