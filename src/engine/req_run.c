/* SPDX-License-Identifier: Apache-2.0 */
/* One request in the calling thread: what the threads engine and small blocking calls use. */
#include <errno.h>
#include <unistd.h>

#include "engine/engine.h"

int32_t penstock_req_run(const struct penstock_req *req)
{
	ssize_t n = -1;

	switch (req->code) {
	case PENSTOCK_REQ_READ:
		n = req->nr_iov > 1 ? preadv(req->fd, req->iov, (int)req->nr_iov, (off_t)req->off)
				    : pread(req->fd, req->buf, req->len, (off_t)req->off);
		break;
	case PENSTOCK_REQ_WRITE:
		n = req->nr_iov > 1 ? pwritev(req->fd, req->iov, (int)req->nr_iov, (off_t)req->off)
				    : pwrite(req->fd, req->buf, req->len, (off_t)req->off);
		break;
	case PENSTOCK_REQ_FSYNC:
		n = fsync(req->fd);
		break;
	case PENSTOCK_REQ_FDATASYNC:
		n = fdatasync(req->fd);
		break;
	default:
		return -EINVAL;
	}
	return n < 0 ? -errno : (int32_t)n;
}
