/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a model that is streamed: whole, out of the page cache before, and how much after.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/s3.h>
#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"
#include "load/weights/weights_job.h"

static int by_address(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return (x > y) - (x < y);
}

/*
 * Where the model's files are: its names may be links, as in the cache of a hub, and who drops
 * pages or measures a limit follows none.
 */
int weights_files_find(struct weights_files *f, const struct penstock_model *m,
		       struct penstock_err *err)
{
	CLEANUP_FREE const char **names = NULL;
	uint64_t n = 0;

	while (penstock_model_get_weight(m, n))
		n++;
	names = calloc(n + 1, sizeof(*names));
	f->paths = calloc(n + 1, sizeof(*f->paths));
	f->lens = calloc(n + 1, sizeof(*f->lens));
	if (!names || !f->paths || !f->lens)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (uint64_t i = 0; i < n; i++)
		names[i] = penstock_model_get_weight(m, i)->path;
	qsort(names, n, sizeof(*names), by_address); /* each file has one name */
	for (uint64_t i = 0; i < n; i++) {
		if (i && names[i] == names[i - 1])
			continue;
		f->paths[f->nr] = penstock_s3_is_uri(names[i], NULL) ? strdup(names[i])
								     : realpath(names[i], NULL);
		if (!f->paths[f->nr])
			return penstock_fail(err, -errno, "%s: %s", names[i], strerror(errno));
		f->nr++;
	}
	return 0;
}

/* What is not there reads as zeros at the speed of memory. */
static int check_object(struct weights_files *f, uint64_t i, struct penstock_s3 *c,
			struct penstock_err *err)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	int r = penstock_s3_stat(c, f->paths[i], &info, err);

	if (r < 0)
		return r;
	f->lens[i] = info.bytes;
	f->facts.unknown = true;
	return 0;
}

static int check_file(struct weights_files *f, uint64_t i, struct penstock_err *err)
{
	CLEANUP_CLOSE int fd = open(f->paths[i], O_RDONLY | O_CLOEXEC);
	struct stat st;
	int64_t bytes;
	off_t hole;

	if (fd < 0 || fstat(fd, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", f->paths[i], strerror(errno));
	bytes = penstock_stripe_bytes(f->paths[i], st.st_size);
	if (bytes < 0)
		return penstock_fail(err, (int)bytes, "%s: %s", f->paths[i], strerror((int)-bytes));
	f->lens[i] = (uint64_t)bytes;
	hole = lseek(fd, 0, SEEK_HOLE);
	if (hole >= 0 && hole < st.st_size)
		return penstock_fail(
			err, -EINVAL,
			"%s: has a hole at byte %lld: reading it would tell nothing of "
			"the storage",
			f->paths[i], (long long)hole);
	page_cache_add(&f->facts, page_cache_drop(f->paths[i], 0, f->lens[i]));
	return 0;
}

int weights_files_check(struct weights_files *f, struct penstock_s3 *s3, struct penstock_err *err)
{
	int r = 0;

	for (uint64_t i = 0; i < f->nr && r == 0; i++) {
		r = s3 ? check_object(f, i, s3, err) : check_file(f, i, err);
		if (f->lens[i] > f->lens[f->largest])
			f->largest = i;
		f->facts.size = max_u64(f->facts.size, f->lens[i]);
	}
	return r;
}

int64_t weights_files_resident(const struct weights_files *f)
{
	int64_t sum = 0;

	for (uint64_t i = 0; i < f->nr; i++) {
		int64_t n = page_cache_resident(f->paths[i], f->lens[i]);

		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

void weights_files_fini(struct weights_files *f)
{
	for (uint64_t i = 0; i < f->nr; i++)
		free(f->paths[i]);
	free(f->paths);
	free(f->lens);
}
