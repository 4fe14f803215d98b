/* SPDX-License-Identifier: Apache-2.0 */
#include "base/whole.h"

#include <stdbool.h>

#include "base/util.h"

enum {
	PIECE_MOST = 1 << 30, /* the kernel takes little more in one call */
	TRIES_MOST = 50,
};

/* May a call that failed be made again?  Waits where that could help. */
static bool again(unsigned *tries)
{
	struct timespec ts = {0, 20000L << *tries / 8};

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN || ++*tries > TRIES_MOST)
		return false;
	nanosleep(&ts, NULL);
	errno = EAGAIN;
	return true;
}

int64_t penstock_whole_read(int fd, void *buf, uint64_t len, uint64_t at)
{
	uint64_t done = 0;
	unsigned tries = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, min_u64(len - done, PIECE_MOST),
				  (off_t)(at + done));

		if (!n)
			break;
		if (n < 0 && !again(&tries))
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return (int64_t)done;
}

int penstock_whole_write(int fd, const void *buf, uint64_t len, uint64_t at)
{
	uint64_t done = 0;
	unsigned tries = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)buf + done, min_u64(len - done, PIECE_MOST),
				   (off_t)(at + done));

		if (!n)
			return -EIO;
		if (n < 0 && !again(&tries))
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}
