/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for I/O.  Huge pages decide the speed of large transfers: a 1 MiB block
 * on 4 KiB pages has 256 segments to look up and to hand to the device, on huge
 * pages one.  Transparent huge pages need no set-up; hugetlb pages must have been
 * reserved by the administrator.
 */
#include "mem/area.h"

#include <errno.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "base/textfile.h"
#include "base/util.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { HUGE = PENSTOCK_AREA_HUGE };

/*
 * How much is mapped for @len bytes, whatever the pages: whoever remembers the length can
 * unmap.  What huge pages are not worth it for is rounded to small ones.
 */
static size_t mapped(uint64_t len)
{
	size_t small = align_up(len ? len : 1, (size_t)sysconf(_SC_PAGESIZE));

	return small < HUGE / 2 ? small : align_up(small, HUGE);
}

static int map_plain(struct penstock_area *a, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	a->addr = p;
	a->len = len;
	a->page = (uint32_t)sysconf(_SC_PAGESIZE);
	return 0;
}

static int map_reserved(struct penstock_area *a, size_t len)
{
	/* By their size: the kernel's default may be 512 MiB or 1 GiB. */
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	a->addr = p;
	a->len = len;
	a->page = HUGE;
	a->huge = true;
	return 0;
}

/* The administrator's choice: "always", "madvise" or "never"; a kernel without has chosen never. */
static bool transparent_is(const char *choice)
{
	char mode[16];

	if (penstock_textfile_read_selected(mode, sizeof(mode),
					    "/sys/kernel/mm/transparent_hugepage/enabled") < 0)
		return !strcmp(choice, "never");
	return !strcmp(mode, choice);
}

/*
 * Where small pages are of 16 or 64 KiB, a transparent huge page is of 32 or 512 MiB: not what
 * buffers are aligned to, and not what anybody should get who asks for one.
 */
static bool transparent_fits(void)
{
	uint64_t size;

	return penstock_textfile_read_u64(
		       &size, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") < 0 ||
	       size == HUGE;
}

bool penstock_area_huge_by_default(void)
{
	return transparent_is("always") && transparent_fits();
}

/* Map a huge page more than needed and trim, so that the area starts on a boundary. */
static int map_transparent(struct penstock_area *a, size_t len, bool lazy)
{
	size_t head;
	char *p;

	if (map_plain(a, len + HUGE) < 0)
		return -ENOMEM;
	p = a->addr;
	head = align_up((uintptr_t)p, HUGE) - (uintptr_t)p;
	if (head)
		munmap(p, head);
	if (head < HUGE)
		munmap(p + head + len, HUGE - head);
	a->addr = p + head;
	a->len = len;
	/* The kernel takes the advice even where huge pages are switched off. */
	if (transparent_is("never") || !transparent_fits() ||
	    madvise(a->addr, len, MADV_HUGEPAGE) < 0) {
		a->huge_errno = EOPNOTSUPP;
		return 0;
	}
	/* Fault it in now: the first transfer should not pay for it. */
	if (!lazy && madvise(a->addr, len, MADV_POPULATE_WRITE) < 0 && errno == ENOMEM) {
		munmap(a->addr, len);
		return -ENOMEM;
	}
	a->huge = true;
	a->page = HUGE;
	return 0;
}

int penstock_area_map(struct penstock_area *a, uint64_t len, uint32_t huge, unsigned how)
{
	bool lock = how & PENSTOCK_AREA_LOCK;
	size_t small, size;
	int r;

	*a = (struct penstock_area){0};
	if (len > SIZE_MAX / 4)
		return -ENOMEM;
	small = align_up(len ? len : 1, (size_t)sysconf(_SC_PAGESIZE));
	size = mapped(len);
	if (huge == PENSTOCK_HUGE_NEVER || size < HUGE)
		r = map_plain(a, size);
	else if (huge == PENSTOCK_HUGE_RESERVED && map_reserved(a, size) == 0)
		r = 0;
	else
		r = map_transparent(a, size, how & PENSTOCK_AREA_LAZY);
	if (r < 0)
		return r;
	if (!a->huge)
		a->len = small; /* the rest is never touched */
	if (lock && mlock(a->addr, a->len) < 0)
		a->lock_errno = errno;
	a->locked = lock && !a->lock_errno;
	return 0;
}

void penstock_area_unmap(struct penstock_area *a)
{
	if (a->addr)
		munmap(a->addr, mapped(a->len));
	a->addr = NULL;
}

int penstock_area_collapse(void *addr, uint64_t len)
{
	uintptr_t from = align_up((uintptr_t)addr, HUGE);
	uintptr_t to = align_down((uintptr_t)addr + len, HUGE);

	if (to <= from)
		return -EINVAL;
	return madvise((void *)from, to - from, MADV_COLLAPSE) < 0 ? -errno : 0;
}
