/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what there is; a missing file of /proc or /sys is a kernel without the feature, no error.
 */
#include "load/report/result/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/textfile.h"
#include "base/util.h"
#include "load/report/result/text.h"

#define THP              "/sys/kernel/mm/transparent_hugepage"
#define HUGETLB          "/sys/kernel/mm/hugepages"
#define CAP_IPC_LOCK_BIT 14

/* The text behind "@key:" in a file of such lines, such as /proc/cpuinfo. */
static void keyed(char *out, size_t size, const char *file, const char *key)
{
	CLEANUP_FREE char *line = NULL;
	size_t capacity = 0, len = strlen(key);
	FILE *f = fopen(file, "re");

	out[0] = 0;
	while (f && !out[0] && getline(&line, &capacity, f) > 0) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, key, len) != 0)
			continue;
		for (colon++; isspace((unsigned char)*colon); colon++)
			;
		colon[strcspn(colon, "\n")] = 0;
		snprintf(out, size, "%s", colon);
	}
	if (f)
		fclose(f);
}

static void load_limits(struct report_machine *m)
{
	struct rlimit lim = {0, 0};
	char caps[32];
	uint64_t v;

	getrlimit(RLIMIT_MEMLOCK, &lim);
	m->memlock_soft = lim.rlim_cur == RLIM_INFINITY ? REPORT_UNLIMITED : lim.rlim_cur;
	m->memlock_hard = lim.rlim_max == RLIM_INFINITY ? REPORT_UNLIMITED : lim.rlim_max;
	keyed(caps, sizeof(caps), "/proc/self/status", "CapEff");
	m->can_lock = strtoull(caps, NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
	m->has_aio = penstock_textfile_read_u64(&m->aio_nr, "/proc/sys/fs/aio-nr") == 0 &&
		     penstock_textfile_read_u64(&m->aio_max_nr, "/proc/sys/fs/aio-max-nr") == 0;
	m->io_uring_disabled = -1;
	if (penstock_textfile_read_u64(&v, "/proc/sys/kernel/io_uring_disabled") == 0 && v <= 2)
		m->io_uring_disabled = (int)v;
}

static int by_page(const void *a, const void *b)
{
	const struct report_hugetlb *x = a, *y = b;

	return (x->page > y->page) - (x->page < y->page);
}

static void load_hugetlb(struct report_machine *m)
{
	struct dirent *e;
	DIR *d = opendir(HUGETLB);

	while (d && m->nr_hugetlb < ARRAY_SIZE(m->hugetlb) && (e = readdir(d))) {
		struct report_hugetlb *h = &m->hugetlb[m->nr_hugetlb];
		unsigned long long kib;

		if (sscanf(e->d_name, "hugepages-%llukB", &kib) != 1)
			continue;
		h->page = kib * 1024;
		penstock_textfile_read_u64(&h->total, HUGETLB "/%s/nr_hugepages", e->d_name);
		penstock_textfile_read_u64(&h->free, HUGETLB "/%s/free_hugepages", e->d_name);
		penstock_textfile_read_u64(&h->reserved, HUGETLB "/%s/resv_hugepages", e->d_name);
		m->nr_hugetlb++;
	}
	if (d)
		closedir(d);
	qsort(m->hugetlb, m->nr_hugetlb, sizeof(m->hugetlb[0]), by_page);
}

void report_machine_load(struct report_machine *m)
{
	struct utsname u = {.nodename = ""};
	cpu_set_t set;

	*m = (struct report_machine){.kernel = ""};
	if (uname(&u) == 0)
		snprintf(m->kernel, sizeof(m->kernel), "%.32s %.64s %.24s", u.sysname, u.release,
			 u.machine);
	snprintf(m->host, sizeof(m->host), "%.64s", u.nodename);
	keyed(m->cpu, sizeof(m->cpu), "/proc/cpuinfo", "model name");
	m->cpus = sched_getaffinity(0, sizeof(set), &set) == 0
			  ? (uint32_t)CPU_COUNT(&set)
			  : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	m->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	load_limits(m);
	penstock_textfile_read_selected(m->thp, sizeof(m->thp), THP "/enabled");
	penstock_textfile_read_selected(m->thp_defrag, sizeof(m->thp_defrag), THP "/defrag");
	penstock_textfile_read_u64(&m->thp_page, THP "/hpage_pmd_size");
	load_hugetlb(m);
}

static json_t *machine_limit_json(uint64_t v)
{
	return v == REPORT_UNLIMITED ? json_string("unlimited") : report_count(v);
}

json_t *report_machine_json(const struct report_machine *m)
{
	json_t *hugetlb = json_array();

	for (uint32_t i = 0; i < m->nr_hugetlb; i++) {
		const struct report_hugetlb *h = &m->hugetlb[i];

		json_array_append_new(hugetlb,
				      json_pack("{s:I, s:I, s:I, s:I}", "page_bytes",
						(json_int_t)h->page, "total", (json_int_t)h->total,
						"free", (json_int_t)h->free, "reserved",
						(json_int_t)h->reserved));
	}
	return json_pack(
		"{s:o, s:o, s:I, s:I, s:{s:o, s:o, s:b}, s:{s:o, s:o}, s:o, s:{s:o, s:o, "
		"s:o}, s:o}",
		"kernel", report_str(m->kernel), "cpu", report_str_or_null(m->cpu), "cpus",
		(json_int_t)m->cpus, "memory_bytes", (json_int_t)m->memory, "memlock", "soft",
		machine_limit_json(m->memlock_soft), "hard", machine_limit_json(m->memlock_hard),
		"exempt", m->can_lock, "aio", "nr",
		m->has_aio ? report_count(m->aio_nr) : json_null(), "max_nr",
		m->has_aio ? report_count(m->aio_max_nr) : json_null(), "io_uring_disabled",
		m->io_uring_disabled >= 0 ? json_integer(m->io_uring_disabled) : json_null(),
		"transparent_huge_pages", "enabled", report_str_or_null(m->thp), "defrag",
		report_str_or_null(m->thp_defrag), "page_bytes", report_count_or_null(m->thp_page),
		"hugetlb", hugetlb);
}
