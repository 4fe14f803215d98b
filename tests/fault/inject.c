/* SPDX-License-Identifier: Apache-2.0 */
/* See inject.h. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if __has_include(<libaio.h>)
#include <libaio.h>
#endif
#if __has_include(<liburing.h>)
#include <liburing.h>
#endif

#include "tests/fault/inject.h"

static atomic_bool armed;
static atomic_ulong calls;
static unsigned long target;
static unsigned variant;
static bool for_good;
static _Atomic(const char *) hit_name;
static atomic_int hit_errno;
static atomic_int result;

void inject_arm(unsigned long nth, unsigned v, bool forever)
{
	target = nth;
	variant = v;
	for_good = forever;
	calls = 0;
	hit_name = NULL;
	hit_errno = 0;
	result = INJECT_NOT_REACHED;
	armed = true;
}

void inject_disarm(void)
{
	armed = false;
}

enum inject_result inject_result(void)
{
	return (enum inject_result)atomic_load(&result);
}

const char *inject_name(void)
{
	const char *name = hit_name;

	return name ? name : "nothing";
}

int inject_errno(void)
{
	return hit_errno;
}

/* The errno value this call must fail with, or 0. */
static int inject(const char *name, const int *errs, unsigned n)
{
	const char *hit;

	if (!armed)
		return 0;
	if (atomic_fetch_add(&calls, 1) + 1 == target) {
		if (variant >= n) {
			result = INJECT_PASSED;
			return 0;
		}
		hit_errno = errs[variant];
		result = INJECT_FAILED;
		hit_name = name;
		return errs[variant];
	}
	if (!for_good)
		return 0;
	hit = hit_name;
	if (!hit || strcmp(hit, name))
		return 0;
	/* a queue that says "later" for ever is broken in a way no kernel is */
	if (!strncmp(name, "io_", 3) && strcmp(name, "io_setup") &&
	    (hit_errno == EAGAIN || hit_errno == EINTR))
		return 0;
	return hit_errno;
}

static int by_errno(int e)
{
	errno = e;
	return -1;
}

static void *null_by_errno(int e)
{
	errno = e;
	return NULL;
}

/*
 * WRAP(type, name, (parameters), (arguments), what to do with e, errors...):
 * the errors, best first: those that can last stand before those that pass.
 */
/* clang-format off */
#define WRAP(type, name, params, args, fail, ...)                                              \
	type __real_##name params;                                                             \
	type __wrap_##name params;                                                             \
	type __wrap_##name params                                                              \
	{                                                                                      \
		static const int errs[] = {__VA_ARGS__};                                       \
		int e = inject(#name, errs, sizeof(errs) / sizeof(*errs));                     \
		if (e)                                                                         \
			fail;                                                                  \
		return __real_##name args;                                                     \
	}
/* clang-format on */

/* ------------------------------------------------------------------ memory */

WRAP(void *, malloc, (size_t n), (n), return null_by_errno(e), ENOMEM)
WRAP(void *, calloc, (size_t n, size_t m), (n, m), return null_by_errno(e), ENOMEM)
WRAP(void *, realloc, (void *p, size_t n), (p, n), return null_by_errno(e), ENOMEM)
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n), return null_by_errno(e), ENOMEM)
WRAP(int, posix_memalign, (void **p, size_t a, size_t n), (p, a, n), return e, ENOMEM)
WRAP(void *, reallocarray, (void *p, size_t n, size_t m), (p, n, m), return null_by_errno(e),
     ENOMEM)
WRAP(char *, strdup, (const char *s), (s), return null_by_errno(e), ENOMEM)
WRAP(char *, strndup, (const char *s, size_t n), (s, n), return null_by_errno(e), ENOMEM)
WRAP(void *, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t off),
     (p, n, prot, flags, fd, off), return (errno = e, MAP_FAILED), ENOMEM)
WRAP(void *, mmap64, (void *p, size_t n, int prot, int flags, int fd, off_t off),
     (p, n, prot, flags, fd, off), return (errno = e, MAP_FAILED), ENOMEM)
WRAP(int, mlock, (const void *p, size_t n), (p, n), return by_errno(e), ENOMEM, EPERM)
WRAP(int, madvise, (void *p, size_t n, int what), (p, n, what), return by_errno(e), EINVAL, EAGAIN)
WRAP(int, mincore, (void *p, size_t n, unsigned char *v), (p, n, v), return by_errno(e), EPERM)

int __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *fmt, ...)
{
	static const int errs[] = {ENOMEM};
	va_list ap;
	int r;

	if (inject("asprintf", errs, 1))
		return by_errno(ENOMEM);
	va_start(ap, fmt);
	r = vasprintf(out, fmt, ap);
	va_end(ap);
	return r;
}

int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...)
{
	static const int errs[] = {ENOMEM};
	va_list ap;
	int r;

	(void)flag;
	if (inject("asprintf", errs, 1))
		return by_errno(ENOMEM);
	va_start(ap, fmt);
	r = vasprintf(out, fmt, ap);
	va_end(ap);
	return r;
}

/* ------------------------------------------------------------------- files */

WRAP(int, open, (const char *p, int flags, unsigned mode), (p, flags, mode), return by_errno(e),
     EMFILE, EINVAL, EACCES, EINTR)
WRAP(int, open64, (const char *p, int flags, unsigned mode), (p, flags, mode), return by_errno(e),
     EMFILE, EINVAL, EACCES, EINTR)
WRAP(int, __open_2, (const char *p, int flags), (p, flags), return by_errno(e), EMFILE, EINVAL,
     EACCES, EINTR)
WRAP(int, __open64_2, (const char *p, int flags), (p, flags), return by_errno(e), EMFILE, EINVAL,
     EACCES, EINTR)
WRAP(int, openat, (int fd, const char *p, int flags, unsigned mode), (fd, p, flags, mode),
     return by_errno(e), EMFILE, EOPNOTSUPP, ENOSPC, EIO)
WRAP(int, openat64, (int fd, const char *p, int flags, unsigned mode), (fd, p, flags, mode),
     return by_errno(e), EMFILE, EOPNOTSUPP, ENOSPC, EIO)
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t off), (fd, p, n, off), return by_errno(e),
     EIO, EINVAL, EINTR, EAGAIN)
WRAP(ssize_t, pread64, (int fd, void *p, size_t n, off_t off), (fd, p, n, off), return by_errno(e),
     EIO, EINVAL, EINTR, EAGAIN)
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t off), (fd, p, n, off),
     return by_errno(e), EIO, ENOSPC, EINVAL, EINTR)
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t off), (fd, p, n, off),
     return by_errno(e), EIO, ENOSPC, EINVAL, EINTR)
WRAP(ssize_t, preadv, (int fd, const struct iovec *v, int n, off_t off), (fd, v, n, off),
     return by_errno(e), EIO, EINVAL, EINTR, EAGAIN)
WRAP(ssize_t, preadv64, (int fd, const struct iovec *v, int n, off_t off), (fd, v, n, off),
     return by_errno(e), EIO, EINVAL, EINTR, EAGAIN)
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t off), (fd, v, n, off),
     return by_errno(e), EIO, ENOSPC, EINVAL, EINTR)
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off_t off), (fd, v, n, off),
     return by_errno(e), EIO, ENOSPC, EINVAL, EINTR)
WRAP(int, fallocate, (int fd, int mode, off_t off, off_t n), (fd, mode, off, n), return by_errno(e),
     EOPNOTSUPP, ENOSPC, EIO, EINTR)
WRAP(int, fallocate64, (int fd, int mode, off_t off, off_t n), (fd, mode, off, n),
     return by_errno(e), EOPNOTSUPP, ENOSPC, EIO, EINTR)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), return by_errno(e), EIO, EINTR)
WRAP(int, ftruncate64, (int fd, off_t n), (fd, n), return by_errno(e), EIO, EINTR)
WRAP(int, fstat, (int fd, struct stat *st), (fd, st), return by_errno(e), EIO)
WRAP(int, fstat64, (int fd, struct stat *st), (fd, st), return by_errno(e), EIO)
WRAP(int, fstatat, (int fd, const char *p, struct stat *st, int flags), (fd, p, st, flags),
     return by_errno(e), EIO)
WRAP(int, fstatat64, (int fd, const char *p, struct stat *st, int flags), (fd, p, st, flags),
     return by_errno(e), EIO)
WRAP(int, stat, (const char *p, struct stat *st), (p, st), return by_errno(e), EACCES)
WRAP(int, stat64, (const char *p, struct stat *st), (p, st), return by_errno(e), EACCES)
WRAP(int, lstat, (const char *p, struct stat *st), (p, st), return by_errno(e), EACCES)
WRAP(int, lstat64, (const char *p, struct stat *st), (p, st), return by_errno(e), EACCES)
WRAP(int, statx, (int fd, const char *p, int flags, unsigned mask, struct statx *st),
     (fd, p, flags, mask, st), return by_errno(e), ENOSYS, EIO)
WRAP(int, statvfs, (const char *p, struct statvfs *st), (p, st), return by_errno(e), ENOSYS)
WRAP(int, statvfs64, (const char *p, struct statvfs *st), (p, st), return by_errno(e), ENOSYS)
WRAP(int, fcntl, (int fd, int cmd, unsigned long arg), (fd, cmd, arg), return by_errno(e), EMFILE)
WRAP(int, fcntl64, (int fd, int cmd, unsigned long arg), (fd, cmd, arg), return by_errno(e), EMFILE)
WRAP(ssize_t, preadv64v2, (int fd, const struct iovec *v, int n, off_t off, int flags),
     (fd, v, n, off, flags), return by_errno(e), EIO, EOPNOTSUPP)
WRAP(off_t, lseek, (int fd, off_t off, int from), (fd, off, from), return by_errno(e), ENXIO)
WRAP(off_t, lseek64, (int fd, off_t off, int from), (fd, off, from), return by_errno(e), ENXIO)
WRAP(int, dup, (int fd), (fd), return by_errno(e), EMFILE)
WRAP(int, ioctl, (int fd, unsigned long what, void *arg), (fd, what, arg), return by_errno(e),
     ENOTTY)
WRAP(int, access, (const char *p, int how), (p, how), return by_errno(e), ENOENT)
WRAP(int, faccessat, (int fd, const char *p, int how, int flags), (fd, p, how, flags),
     return by_errno(e), EACCES)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), return by_errno(e), EIO, EPERM)
WRAP(int, fchown, (int fd, uid_t u, gid_t g), (fd, u, g), return by_errno(e), EIO, EPERM)
WRAP(int, flock, (int fd, int how), (fd, how), return by_errno(e), ENOLCK, EINTR)
WRAP(int, linkat, (int fd, const char *p, int to, const char *q, int flags), (fd, p, to, q, flags),
     return by_errno(e), EPERM, ENOSPC, EIO)
WRAP(int, renameat, (int fd, const char *p, int to, const char *q), (fd, p, to, q),
     return by_errno(e), EIO, ENOSPC, EACCES)
WRAP(int, renameat2, (int fd, const char *p, int to, const char *q, unsigned flags),
     (fd, p, to, q, flags), return by_errno(e), EINVAL, EIO, ENOSPC)
WRAP(int, mkdir, (const char *p, mode_t mode), (p, mode), return by_errno(e), EACCES, ENOSPC)
WRAP(int, rmdir, (const char *p), (p), return by_errno(e), EACCES)
WRAP(DIR *, fdopendir, (int fd), (fd), return null_by_errno(e), ENOMEM)
WRAP(ssize_t, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags), return by_errno(e),
     EAGAIN)
WRAP(int, mprotect, (void *p, size_t n, int how), (p, n, how), return by_errno(e), ENOMEM)
WRAP(int, unlink, (const char *p), (p), return by_errno(e), EACCES)
WRAP(int, unlinkat, (int fd, const char *p, int flags), (fd, p, flags), return by_errno(e), EACCES)
WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), return by_errno(e), EIO, EAGAIN)
WRAP(char *, realpath, (const char *p, char *out), (p, out), return null_by_errno(e), ENOENT)
WRAP(ssize_t, readlink, (const char *p, char *out, size_t n), (p, out, n), return by_errno(e),
     ENOENT)
WRAP(ssize_t, readlinkat, (int fd, const char *p, char *out, size_t n), (fd, p, out, n),
     return by_errno(e), EIO)
WRAP(int, fstatfs, (int fd, void *st), (fd, st), return by_errno(e), ENOSYS)
WRAP(int, fstatfs64, (int fd, void *st), (fd, st), return by_errno(e), ENOSYS)

/* Nobody pulls the plug here, so they do nothing: a thousand real ones take a minute. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	static const int errs[] = {EIO, EINTR};
	int e = inject("fsync", errs, 2);

	(void)fd;
	return e ? by_errno(e) : 0;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	static const int errs[] = {EIO, EINTR};
	int e = inject("fdatasync", errs, 2);

	(void)fd;
	return e ? by_errno(e) : 0;
}

/* Linux closes the descriptor whatever it says. */
WRAP(int, close, (int fd), (fd), return (__real_close(fd), by_errno(e)), EIO, EINTR)
/* Only eventfds are written to, and they say EAGAIN when they are set already. */
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n),
     return (__real_write(fd, p, n) < 0 ? -1 : by_errno(e)), EAGAIN)

WRAP(FILE *, fopen, (const char *p, const char *how), (p, how), return null_by_errno(e), EMFILE,
     ENOENT)
WRAP(FILE *, fopen64, (const char *p, const char *how), (p, how), return null_by_errno(e), EMFILE,
     ENOENT)
WRAP(char *, fgets, (char *s, int n, FILE *f), (s, n, f), return null_by_errno(e), EIO)
WRAP(ssize_t, __getdelim, (char **line, size_t *n, int delim, FILE *f), (line, n, delim, f),
     return by_errno(e), EIO, ENOMEM)
WRAP(ssize_t, getline, (char **line, size_t *n, FILE *f), (line, n, f), return by_errno(e), EIO,
     ENOMEM)
WRAP(DIR *, opendir, (const char *p), (p), return null_by_errno(e), EMFILE)
WRAP(struct dirent *, readdir, (DIR * d), (d), return null_by_errno(e), EIO)
WRAP(struct dirent *, readdir64, (DIR * d), (d), return null_by_errno(e), EIO)

/* ------------------------------------------------------- threads and others */

WRAP(int, pthread_create,
     (pthread_t * t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (t, attr, fn, arg), return e, EAGAIN)
WRAP(int, pthread_getcpuclockid, (pthread_t t, clockid_t *id), (t, id), return e, ESRCH)
WRAP(int, eventfd, (unsigned n, int flags), (n, flags), return by_errno(e), EMFILE, ENOMEM)
WRAP(long, syscall, (long nr, long a, long b, long c, long d, long f, long g),
     (nr, a, b, c, d, f, g), return by_errno(e), ENOSYS)
WRAP(void *, dlopen, (const char *p, int flags), (p, flags), return null_by_errno(e), ENOENT)
WRAP(void *, dlsym, (void *p, const char *name), (p, name), return null_by_errno(e), ENOENT)

/* ------------------------------------------------------------------ queues */

#if __has_include(<libaio.h>)
/*
 * The kernel takes tens of milliseconds to destroy a context, so what the
 * library gives up is kept for the next time it asks.  Not for ever: a wake-up
 * that nobody sent stays in it, and takes a place.
 */
enum { USES_MAX = 50 };
static struct {
	io_context_t ctx;
	int n, uses;
	bool used;
} contexts[16];
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

int inject_nr_contexts(void)
{
	int n = 0;

	for (unsigned i = 0; i < sizeof(contexts) / sizeof(*contexts); i++)
		n += contexts[i].used;
	return n;
}

int __real_io_setup(int n, io_context_t *ctx);
int __wrap_io_setup(int n, io_context_t *ctx);
int __wrap_io_setup(int n, io_context_t *ctx)
{
	static const int errs[] = {EAGAIN, ENOMEM, ENOSYS};
	int e = inject("io_setup", errs, 3), r = -EAGAIN;

	if (e)
		return -e;
	pthread_mutex_lock(&contexts_lock);
	for (unsigned i = 0; i < sizeof(contexts) / sizeof(*contexts) && r < 0; i++) {
		if (contexts[i].used || (contexts[i].ctx && contexts[i].n != n))
			continue;
		r = contexts[i].ctx ? 0 : __real_io_setup(n, &contexts[i].ctx);
		if (r < 0)
			break;
		contexts[i].n = n;
		contexts[i].used = true;
		*ctx = contexts[i].ctx;
	}
	pthread_mutex_unlock(&contexts_lock);
	return r;
}

int __real_io_destroy(io_context_t ctx);
int __wrap_io_destroy(io_context_t ctx);
int __wrap_io_destroy(io_context_t ctx)
{
	int r = -EINVAL;

	pthread_mutex_lock(&contexts_lock);
	for (unsigned i = 0; i < sizeof(contexts) / sizeof(*contexts); i++)
		if (contexts[i].used && contexts[i].ctx == ctx) {
			contexts[i].used = false;
			r = 0;
			if (++contexts[i].uses == USES_MAX) {
				r = __real_io_destroy(ctx);
				memset(&contexts[i], 0, sizeof(contexts[i]));
			}
		}
	pthread_mutex_unlock(&contexts_lock);
	return r;
}

WRAP(int, io_submit, (io_context_t ctx, long n, struct iocb **list), (ctx, n, list), return -e, EIO,
     EINVAL, EAGAIN)
WRAP(int, io_getevents,
     (io_context_t ctx, long min, long max, struct io_event *ev, struct timespec *ts),
     (ctx, min, max, ev, ts), return -e, EINTR)

#else
int inject_nr_contexts(void)
{
	return 0;
}
#endif

#if __has_include(<liburing.h>)
WRAP(int, io_uring_queue_init_params,
     (unsigned n, struct io_uring *ring, struct io_uring_params *p), (n, ring, p), return -e,
     ENOMEM, EPERM, EMFILE, EINVAL)
WRAP(int, io_uring_register_buffers_sparse, (struct io_uring * ring, unsigned n), (ring, n),
     return -e, EINVAL, ENOMEM)
WRAP(int, io_uring_register_buffers_update_tag,
     (struct io_uring * ring, unsigned at, const struct iovec *iov, const __u64 *tags, unsigned n),
     (ring, at, iov, tags, n), return -e, ENOMEM, EFAULT)
WRAP(int, io_uring_register_files_sparse, (struct io_uring * ring, unsigned n), (ring, n),
     return -e, EINVAL, EMFILE)
WRAP(int, io_uring_register_files_update,
     (struct io_uring * ring, unsigned at, const int *fds, unsigned n), (ring, at, fds, n),
     return -e, EBADF, ENOMEM)
WRAP(struct io_uring_probe *, io_uring_get_probe_ring, (struct io_uring * ring), (ring),
     return NULL, ENOMEM)
WRAP(int, io_uring_submit, (struct io_uring * ring), (ring), return -e, EAGAIN, EBUSY, EINTR)
WRAP(int, io_uring_submit_and_wait, (struct io_uring * ring, unsigned n), (ring, n), return -e,
     EAGAIN, EBUSY, EINTR)
WRAP(int, io_uring_submit_and_wait_timeout,
     (struct io_uring * ring, struct io_uring_cqe **cqe, unsigned n, struct __kernel_timespec *ts,
      sigset_t *mask),
     (ring, cqe, n, ts, mask), return -e, EAGAIN, EBUSY, EINTR)
WRAP(int, io_uring_enter2,
     (unsigned fd, unsigned submit, unsigned n, unsigned flags, sigset_t *mask, size_t size),
     (fd, submit, n, flags, mask, size), return -e, EAGAIN, EBUSY, EINTR)
#endif
