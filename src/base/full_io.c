/* SPDX-License-Identifier: Apache-2.0 */
#include "base/full_io.h"

#include <stdbool.h>

#include "base/util.h"

enum {
	CALL_BYTES_MAX = 1 << 30, /* the kernel takes little more in one call */
	TRIES_MAX = 50,
};

/* May a call that failed be made again?  Waits where that could help. */
static bool may_retry(unsigned *tries)
{
	struct timespec ts = {0, 20000L << *tries / 8};

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN || ++*tries > TRIES_MAX)
		return false;
	nanosleep(&ts, NULL);
	errno = EAGAIN;
	return true;
}

int64_t penstock_full_pread(int fd, void *buf, uint64_t len, uint64_t at)
{
	uint64_t done = 0;
	unsigned tries = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, min_u64(len - done, CALL_BYTES_MAX),
				  (off_t)(at + done));

		if (!n)
			break;
		if (n < 0 && !may_retry(&tries))
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return (int64_t)done;
}

int penstock_full_pwrite(int fd, const void *buf, uint64_t len, uint64_t at)
{
	uint64_t done = 0;
	unsigned tries = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)buf + done,
				   min_u64(len - done, CALL_BYTES_MAX), (off_t)(at + done));

		if (!n)
			return -EIO;
		if (n < 0 && !may_retry(&tries))
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}
