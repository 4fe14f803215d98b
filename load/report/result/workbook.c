/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian has no static archive of libxlsxwriter and few users need it, so it is loaded
 * when it is asked for, with prototypes of our own for the few functions used; they have
 * not changed since its 0.7.  It prints what goes wrong, and knows no reason: so it writes
 * to memory, and nobody hears it.
 */
#include "load/report/result/cells.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"

struct workbook {
	void *lib, *book;
	int memory; /* the file that it writes */
	int failed;
	void *(*workbook_new)(const char *path);
	void *(*workbook_add_worksheet)(void *book, const char *name);
	int (*workbook_close)(void *book);
	const char *(*strerror)(int error);
	int (*worksheet_write_string)(void *sheet, uint32_t row, uint16_t col, const char *text,
				      void *format);
	int (*worksheet_write_number)(void *sheet, uint32_t row, uint16_t col, double number,
				      void *format);
	int (*worksheet_write_boolean)(void *sheet, uint32_t row, uint16_t col, int on,
				       void *format);
};

static int load(struct workbook *b, struct penstock_err *err)
{
	static const char *const names[] = {
		"libxlsxwriter.so.4",  "libxlsxwriter.so.5", "libxlsxwriter.so.6",
		"libxlsxwriter.so.7",  "libxlsxwriter.so.8", "libxlsxwriter.so.9",
		"libxlsxwriter.so.10", "libxlsxwriter.so",
	};
	const struct {
		const char *name;
		void *at;
	} functions[] = {
		{"workbook_new", &b->workbook_new},
		{"workbook_add_worksheet", &b->workbook_add_worksheet},
		{"workbook_close", &b->workbook_close},
		{"lxw_strerror", &b->strerror},
		{"worksheet_write_string", &b->worksheet_write_string},
		{"worksheet_write_number", &b->worksheet_write_number},
		{"worksheet_write_boolean", &b->worksheet_write_boolean},
	};

	for (unsigned i = 0; !b->lib && i < ARRAY_SIZE(names); i++)
		b->lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!b->lib)
		return penstock_fail(err, -ENOTSUP, "libxlsxwriter is not installed");
	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		void *f = dlsym(b->lib, functions[i].name);

		if (!f)
			return penstock_fail(err, -ENOTSUP, "libxlsxwriter has no %s()",
					     functions[i].name);
		memcpy(functions[i].at, &f, sizeof(f));
	}
	return 0;
}

static void release(struct workbook *b)
{
	if (b->lib)
		dlclose(b->lib);
	if (b->memory >= 0)
		close(b->memory);
	free(b);
}

int workbook_open(struct workbook **out, struct penstock_err *err)
{
	char path[64];
	struct workbook *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return penstock_fail(err, -ENOMEM, "out of memory");
	b->memory = memfd_create("workbook", MFD_CLOEXEC);
	r = load(b, err);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", b->memory);
		b->book = b->memory >= 0 ? b->workbook_new(path) : NULL;
		if (!b->book)
			r = penstock_fail(err, -ENOMEM, "out of memory");
	}
	if (r < 0)
		release(b);
	else
		*out = b;
	return r;
}

/* The first error is the one to tell. */
static void workbook_failed(struct workbook *b, int error)
{
	b->failed = b->failed ? b->failed : error;
}

struct sheet workbook_sheet(struct workbook *b, const char *name)
{
	struct sheet s = {b, b->workbook_add_worksheet(b->book, name), 0};

	workbook_failed(b, !s.ws);
	return s;
}

/* Let the library put it together, without its messages on standard error. */
static int finish_quietly(struct workbook *b)
{
	int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC), r;

	fflush(stderr);
	if (kept >= 0 && null >= 0)
		dup2(null, STDERR_FILENO);
	r = b->workbook_close(b->book);
	if (kept >= 0) {
		dup2(kept, STDERR_FILENO);
		close(kept);
	}
	if (null >= 0)
		close(null);
	return r;
}

static int workbook_copy_out(int from, FILE *f, struct penstock_err *err)
{
	char buf[65536];
	ssize_t n = 0;

	for (off_t at = 0; (n = pread(from, buf, sizeof(buf), at)) > 0; at += n)
		if (fwrite(buf, 1, (size_t)n, f) != (size_t)n)
			break;
	return n == 0 ? 0 : penstock_fail(err, -errno, "%s", penstock_strerror(errno));
}

int workbook_close(struct workbook *b, FILE *f, struct penstock_err *err)
{
	int closed = finish_quietly(b), r;

	if (closed || b->failed)
		r = penstock_fail(err, -EIO, "libxlsxwriter failed: %s",
				  b->strerror(closed ? closed : b->failed));
	else
		r = workbook_copy_out(b->memory, f, err);
	release(b);
	return r;
}

void sheet_text(struct sheet *s, unsigned col, const char *text)
{
	if (s->ws)
		workbook_failed(s->book, s->book->worksheet_write_string(
						 s->ws, s->row, (uint16_t)col, text, NULL));
}

void sheet_number(struct sheet *s, unsigned col, double v)
{
	if (s->ws && isfinite(v))
		workbook_failed(s->book, s->book->worksheet_write_number(s->ws, s->row,
									 (uint16_t)col, v, NULL));
}

void sheet_bool(struct sheet *s, unsigned col, bool on)
{
	if (s->ws)
		workbook_failed(s->book, s->book->worksheet_write_boolean(s->ws, s->row,
									  (uint16_t)col, on, NULL));
}

void sheet_names(struct sheet *s, const char *const *names)
{
	for (unsigned i = 0; names[i]; i++)
		sheet_text(s, i, names[i]);
	s->row++;
}
