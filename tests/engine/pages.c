/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance tests where a page is as large as PENSTOCK_TEST_PAGE says, and where a direct
 * write of less than whole pages, which would lose bytes on such a kernel, ends the program.
 * Linked with --wrap=sysconf --wrap=pwrite64.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

long __real_sysconf(int name);
long __wrap_sysconf(int name);
ssize_t __real_pwrite64(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off);

long __wrap_sysconf(int name)
{
	const char *page = getenv("PENSTOCK_TEST_PAGE");

	return name == _SC_PAGESIZE && page ? atol(page) : __real_sysconf(name);
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off)
{
	long page = __wrap_sysconf(_SC_PAGESIZE);

	if (fcntl(fd, F_GETFL) & O_DIRECT && (off % page || len % (size_t)page)) {
		printf("not ok - %zu bytes at %lld are not whole pages of %ld\n", len,
		       (long long)off, page);
		fflush(stdout);
		abort();
	}
	return __real_pwrite64(fd, buf, len, off);
}
