/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcufile.so.0 for machines without a GPU: the calls of dl/cufile.h over the
 * stand-in libcuda.  Strict where the real one is strict, or only documented: the
 * context must be that of the memory, a descriptor is registered once, memory is used
 * by the base it was registered with.
 */
#include "tests/gpu/standin/cufile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dl/cufile.h"
#include "tests/gpu/standin/standin.h"

#define EXPORT __attribute__((visibility("default")))

enum {
	E_CONTEXT_MISMATCH = 5015,
	E_POINTER_INVALID = 5012,
	E_POINTER_RANGE = 5014,
	E_INVALID_VALUE = 5022,
	E_NOT_REGISTERED = 5024,
	E_INVALID_FILE_OPEN_FLAG = 5019,
	E_ALREADY_REGISTERED = 5028,
	NR = 4096,
	PAGE = 4096,
};

struct file {
	int fd; /* the caller's; -1: free */
	int io; /* the same file without O_DIRECT */
};

struct buf {
	const char *base;
	size_t len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct standin_cufile control;
static struct file *files[NR];
static struct buf bufs[NR];
static atomic_int now;

EXPORT struct standin_cufile *standin_cufile(void);
EXPORT struct standin_cufile *standin_cufile(void)
{
	return &control;
}

/* As the run-time library of C++ does, which the real one brings along. */
static FILE *found;

__attribute__((constructor)) static void at_the_beginning(void)
{
	found = stdout;
}

__attribute__((destructor)) static void at_the_end(void)
{
	fflush(found);
	fflush(stdout);
}

__attribute__((constructor)) static void from_environment(void)
{
	const struct {
		const char *name;
		atomic_int *at;
	} fields[] = {
		{"refuse_driver", &control.refuse_driver},
		{"refuse_handle", &control.refuse_handle},
		{"refuse_buf", &control.refuse_buf},
		{"nvfs", &control.nvfs},
		{"features", &control.features},
		{"shorten", &control.shorten},
		{"fail_nth", &control.fail_nth},
		{"fail_with", &control.fail_with},
		{"fail_errno", &control.fail_errno},
	};
	const char *env = getenv("STANDIN_CUFILE");
	char copy[256], *save, *value;

	snprintf(copy, sizeof(copy), "%s", env ? env : "");
	for (char *s = strtok_r(copy, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		value = strchr(s, '=');
		for (size_t i = 0; value && i < sizeof(fields) / sizeof(*fields); i++)
			if (!strncmp(s, fields[i].name, (size_t)(value - s)))
				*fields[i].at = atoi(value + 1);
	}
}

static struct penstock_cufile_error result(int code)
{
	return (struct penstock_cufile_error){code, 0};
}

/* --------------------------------------------------------- driver, settings */

EXPORT struct penstock_cufile_error cuFileGetVersion(int *version);
EXPORT struct penstock_cufile_error cuFileGetVersion(int *version)
{
	*version = 1150;
	return result(0);
}

EXPORT struct penstock_cufile_error cuFileDriverOpen(void);
EXPORT struct penstock_cufile_error cuFileDriverOpen(void)
{
	const char *log = getenv("CUFILE_LOGFILE_PATH");

	control.driver_opens++;
	snprintf(control.log, sizeof(control.log), "%s", log ? log : "cufile.log");
	return result(control.refuse_driver);
}

/* As much as the library of CUDA 12 knows, no more. */
EXPORT struct penstock_cufile_error cuFileDriverGetProperties(struct penstock_cufile_props *props);
EXPORT struct penstock_cufile_error cuFileDriverGetProperties(struct penstock_cufile_props *props)
{
	memset(props, 0, offsetof(struct penstock_cufile_props, newer));
	props->nvfs.major = (unsigned)control.nvfs;
	props->nvfs.minor = control.nvfs ? 24 : 0;
	props->features = (unsigned)control.features;
	return result(0);
}

/* ---------------------------------------------------------- files, memory */

/* Under the lock. */
static int add_file(void **handle, int fd)
{
	char name[40];
	int at = -1, flags = fcntl(fd, F_GETFL);
	struct file *f;

	for (int i = 0; i < NR; i++) {
		if (files[i] && files[i]->fd == fd)
			return E_ALREADY_REGISTERED;
		if (!files[i] && at < 0)
			at = i;
	}
	if (flags < 0 || at < 0)
		return E_INVALID_VALUE;
	if (flags & O_NOFOLLOW) /* as 1.15 does */
		return E_INVALID_FILE_OPEN_FLAG;
	f = malloc(sizeof(*f));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	f->fd = fd;
	f->io = open(name, (flags & O_ACCMODE) | O_CLOEXEC);
	files[at] = f;
	*handle = f;
	return 0;
}

EXPORT struct penstock_cufile_error cuFileHandleRegister(void **handle,
							 struct penstock_cufile_descr *descr);
EXPORT struct penstock_cufile_error cuFileHandleRegister(void **handle,
							 struct penstock_cufile_descr *descr)
{
	int r;

	control.handle_registers++;
	if (control.refuse_handle)
		return result(control.refuse_handle);
	if (descr->type != CUFILE_TYPE_FD || descr->fs_ops)
		return result(E_INVALID_VALUE);
	pthread_mutex_lock(&lock);
	r = add_file(handle, descr->handle.fd);
	pthread_mutex_unlock(&lock);
	control.handles += r == 0;
	return result(r);
}

static struct file *find_file(void *handle, bool take)
{
	struct file *f = NULL;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < NR && !f; i++)
		if (files[i] && files[i] == handle) {
			f = files[i];
			if (take)
				files[i] = NULL;
		}
	pthread_mutex_unlock(&lock);
	return f;
}

EXPORT void cuFileHandleDeregister(void *handle);
EXPORT void cuFileHandleDeregister(void *handle)
{
	struct file *f = find_file(handle, true);

	if (!f)
		abort();
	close(f->io);
	free(f);
	control.handles--;
}

/* Is the context of the device that has this memory current? */
static int check_memory(const char *at, size_t len)
{
	int ordinal = standin_ordinal((uint64_t)(uintptr_t)at);

	if (ordinal < 0)
		return E_POINTER_INVALID;
	if (!standin_hidden((uint64_t)(uintptr_t)at, len))
		return E_POINTER_RANGE;
	return standin_current() == ordinal ? 0 : E_CONTEXT_MISMATCH;
}

EXPORT struct penstock_cufile_error cuFileBufRegister(const void *base, size_t len, int flags);
EXPORT struct penstock_cufile_error cuFileBufRegister(const void *base, size_t len, int flags)
{
	int r = check_memory(base, len), at = -1;

	control.buf_registers++;
	if (control.refuse_buf)
		return result(control.refuse_buf);
	if (r || flags)
		return result(r ? r : E_INVALID_VALUE);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NR && !r; i++) {
		if (bufs[i].base == base)
			r = CUFILE_MEMORY_ALREADY_REGISTERED;
		if (!bufs[i].base && at < 0)
			at = i;
	}
	if (!r)
		bufs[at] = (struct buf){base, len};
	pthread_mutex_unlock(&lock);
	control.bufs += r == 0;
	return result(r);
}

EXPORT struct penstock_cufile_error cuFileBufDeregister(const void *base);
EXPORT struct penstock_cufile_error cuFileBufDeregister(const void *base)
{
	int r = E_NOT_REGISTERED;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < NR; i++)
		if (bufs[i].base == base) {
			bufs[i] = (struct buf){NULL, 0};
			r = 0;
		}
	pthread_mutex_unlock(&lock);
	control.bufs -= r == 0;
	return result(r);
}

/* --------------------------------------------------------------- transfers */

/* Memory inside a registered piece must be named by the piece's base. */
static int check_registered(const char *base, size_t len, off_t base_off)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < NR; i++) {
		const struct buf *b = &bufs[i];

		if (!b->base || base < b->base || base >= b->base + b->len)
			continue;
		control.in_registered++;
		if (base == b->base && (size_t)base_off + len > b->len)
			r = E_POINTER_RANGE;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void count_begin(void)
{
	int n = ++now, most = control.at_once;

	while (n > most && !atomic_compare_exchange_weak(&control.at_once, &most, n))
		;
	while (control.at_once < control.together)
		usleep(1000);
}

/* 0, or what the call shall return. */
static ssize_t refuse(const char *base, size_t len, off_t base_off)
{
	int r;

	if (control.fail_nth && atomic_fetch_sub(&control.fail_nth, 1) == 1) {
		errno = control.fail_errno;
		return control.fail_with;
	}
	r = check_memory(base + base_off, len);
	if (!r)
		r = check_registered(base, len, base_off);
	return -r;
}

static size_t limited(size_t len)
{
	size_t most = (size_t)control.shorten;

	return most && most < len ? most : len;
}

EXPORT ssize_t cuFileRead(void *handle, void *base, size_t len, off_t off, off_t base_off);
EXPORT ssize_t cuFileRead(void *handle, void *base, size_t len, off_t off, off_t base_off)
{
	struct file *f = find_file(handle, false);
	ssize_t r;

	control.reads++;
	if (!f)
		return -CUFILE_HANDLE_NOT_REGISTERED;
	count_begin();
	r = refuse(base, len, base_off);
	if (!r)
		r = pread(f->io,
			  standin_hidden((uint64_t)(uintptr_t)base + (uint64_t)base_off, len),
			  limited(len), off);
	now--;
	return r;
}

EXPORT ssize_t cuFileWrite(void *handle, const void *base, size_t len, off_t off, off_t base_off);
EXPORT ssize_t cuFileWrite(void *handle, const void *base, size_t len, off_t off, off_t base_off)
{
	struct file *f = find_file(handle, false);
	ssize_t r;

	control.writes++;
	if (!f)
		return -CUFILE_HANDLE_NOT_REGISTERED;
	count_begin();
	if ((fcntl(f->fd, F_GETFL) & O_DIRECT) && (off % PAGE || len % PAGE))
		control.ragged++;
	r = refuse(base, len, base_off);
	if (!r)
		r = pwrite(f->io,
			   standin_hidden((uint64_t)(uintptr_t)base + (uint64_t)base_off, len),
			   limited(len), off);
	now--;
	return r;
}
