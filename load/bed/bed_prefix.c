/* SPDX-License-Identifier: Apache-2.0 */
#include "load/bed/bed_prefix.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/process_identity.h"
#include "base/util.h"

#define MARK       "/.penstock-bed"
#define MARK_FIRST "penstock bed 1"
#define PREFIX     "penstock-"

/* "s3://BUCKET" of a URI, and a key behind it. */
static char *uri_of(const char *parent, const char *key)
{
	const char *bucket = parent + strlen("s3://");
	char *uri;

	return asprintf(&uri, "s3://%.*s/%s", (int)strcspn(bucket, "/"), bucket, key) < 0 ? NULL
											  : uri;
}

/* Call @one for what is listed right below @folder. */
static void each_below(struct penstock_s3 *c, const char *folder, uint32_t flags,
		       void (*one)(struct penstock_s3 *c, char *uri,
				   const struct penstock_s3_entry *e))
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	CLEANUP_FREE char *below = NULL;
	struct penstock_s3_list *l;

	if (asprintf(&below, "%s/", folder) < 0) {
		below = NULL;
		return;
	}
	if (penstock_s3_list_open(&l, c, below, flags, NULL) < 0)
		return;
	while (penstock_s3_list_next(l, &e, NULL) == 1) {
		CLEANUP_FREE char *uri = uri_of(folder, e.key);

		if (uri)
			one(c, uri, &e);
	}
	penstock_s3_list_close(l);
}

static void end_upload(struct penstock_s3 *c, char *uri, const struct penstock_s3_entry *e)
{
	if (!e->is_prefix && e->upload_id)
		penstock_s3_upload_discard(c, uri, e->upload_id, NULL);
}

/* The mark is the last to go. */
static void remove_object(struct penstock_s3 *c, char *uri, const struct penstock_s3_entry *e)
{
	size_t n = strlen(uri);

	if (!e->is_prefix && (n < strlen(MARK) || strcmp(uri + n - strlen(MARK), MARK) != 0))
		penstock_s3_delete(c, (const char *const *)&uri, 1, NULL);
}

static void remove_mark(struct penstock_s3 *c, const char *folder)
{
	char *uri;

	if (asprintf(&uri, "%s" MARK, folder) < 0)
		return;
	penstock_s3_delete(c, (const char *const *)&uri, 1, NULL);
	free(uri);
}

/* Is there the mark of a process of this machine that is no more? */
static bool is_left(struct penstock_s3 *c, const char *folder)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	CLEANUP_FREE char *uri = NULL;
	struct penstock_process_identity m;
	char text[512];
	int64_t n;

	if (asprintf(&uri, "%s" MARK, folder) < 0) {
		uri = NULL;
		return false;
	}
	if (penstock_s3_stat(c, uri, &info, NULL) < 0)
		return false;
	n = penstock_s3_read(c, uri, text, sizeof(text) - 1, 0, info.etag, NULL);
	text[n > 0 ? n : 0] = 0;
	return sscanf(text, MARK_FIRST "\nwhere %191[^\n]\nprocess %d %" SCNu64 "\n", m.pid_space,
		      &m.pid, &m.start_ticks) == 3 &&
	       penstock_process_is_local(&m) && !penstock_process_is_alive(&m);
}

/* penstock-JOB-XXXXXX/ */
static void reap_one(struct penstock_s3 *c, char *uri, const struct penstock_s3_entry *e)
{
	size_t n = strlen(uri);
	const char *name;

	if (!e->is_prefix || !n)
		return;
	uri[n - 1] = 0;
	name = strrchr(uri, '/') + 1;
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !is_left(c, uri))
		return;
	each_below(c, uri, PENSTOCK_S3_LIST_UPLOADS, end_upload);
	each_below(c, uri, 0, remove_object);
	remove_mark(c, uri);
}

int bed_prefix_make(struct penstock_s3 *c, const char *parent, const char *folder,
		    struct penstock_err *err)
{
	CLEANUP_FREE char *uri = NULL;
	struct penstock_process_identity self;
	char text[512];
	int n;

	each_below(c, parent, 0, reap_one);
	penstock_process_identity_read(&self);
	n = snprintf(text, sizeof(text), MARK_FIRST "\nwhere %s\nprocess %d %" PRIu64 "\n",
		     self.pid_space, self.pid, self.start_ticks);
	if (asprintf(&uri, "%s" MARK, folder) < 0) {
		uri = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	return penstock_s3_put(c, uri, text, (uint64_t)n, 0, NULL, NULL, err);
}

void bed_prefix_close(struct penstock_s3 *c, const char *folder)
{
	each_below(c, folder, PENSTOCK_S3_LIST_UPLOADS, end_upload);
	remove_mark(c, folder);
}
