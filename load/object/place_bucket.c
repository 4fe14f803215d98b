/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefix of an object store as a place.
 *
 * What is made here has the number of its run in its name, and a marker below the prefix has that
 * number, too: so what a killed run has left is known from what anybody else may have put there,
 * and nothing else is ever removed.  An object is complete where it is there at all, so that there
 * is no journal to keep.  A store has no locks: the marker says which process made it, and one that
 * may still be running is left alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "base/process_identity.h"
#include "base/util.h"
#include "load/object/place.h"

#define MARKER       ".penstock-objects"
#define MARKER_FIRST "penstock-objects 1"

enum {
	TAIL = 27, /* "~SERIAL-RUN" at the end of a name, with the final 0 */
	BATCH = 1000,
};

struct marker {
	bool there, kept;
	char run[BUCKET_RUN];
	struct penstock_process_identity process;
	struct penstock_s3_range read;
};

/* -------------------------------------------------------------------- the marker */

static int marker_parse(struct marker *m, const char *text)
{
	char state[8];

	if (sscanf(text,
		   MARKER_FIRST "\nrun %16[0-9a-f]\nwhere %191[^\n]\nprocess %d %" SCNu64
				"\nstate %7s",
		   m->run, m->process.pid_space, &m->process.pid, &m->process.start_ticks,
		   state) != 5 ||
	    strlen(m->run) != BUCKET_RUN - 1)
		return -EINVAL;
	m->kept = !strcmp(state, "kept");
	return 0;
}

/* By a list, since a read of what is not there would be counted as a request that failed. */
static int marker_exists(struct penstock_s3 *c, const char *uri, struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	int r = penstock_s3_list_open(&l, c, uri, PENSTOCK_S3_LIST_FLAT, err);

	if (r < 0)
		return r;
	r = penstock_s3_list_next(l, &e, err);
	if (r > 0) /* names that go on come behind it */
		r = !strcmp(e.key + strlen(e.key) - min_u64(strlen(e.key), strlen(MARKER)), MARKER);
	penstock_s3_list_close(l);
	return r;
}

static int marker_load(struct marker *m, struct penstock_s3 *c, const char *prefix,
		       struct penstock_err *err)
{
	CLEANUP_FREE char *uri = NULL;
	char text[1024];
	int n;

	*m = (struct marker){.there = false};
	if (asprintf(&uri, "%s" MARKER, prefix) < 0) {
		uri = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	n = marker_exists(c, uri, err);
	if (n <= 0)
		return n;
	m->read = (struct penstock_s3_range){.uri = uri, .buf = text, .len = sizeof(text) - 1};
	n = penstock_s3_fetch(c, &m->read, 1, err);
	m->read.uri = NULL;
	if (n < 0)
		return n;
	text[m->read.res] = 0;
	m->there = true;
	if (marker_parse(m, text) < 0)
		return penstock_fail(err, -EEXIST, "%s" MARKER ": is no marker of this program",
				     prefix);
	return 0;
}

/* Ours from now on: @etag of the one that it replaces, or NULL where there is none. */
static int marker_save(struct place *p, const char *state, const char *etag,
		       struct penstock_err *err)
{
	CLEANUP_FREE char *uri = NULL;
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_process_identity self;
	char text[1024];
	int n, r;

	penstock_process_identity_read(&self);
	n = snprintf(text, sizeof(text),
		     MARKER_FIRST "\nrun %s\nwhere %s\nprocess %d %" PRIu64 "\nstate %s\n",
		     p->bucket.run, self.pid_space, self.pid, self.start_ticks, state);
	if (asprintf(&uri, "%s" MARKER, p->bucket.prefix) < 0) {
		uri = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	r = penstock_s3_put(p->bucket.client, uri, text, (uint64_t)n, etag ? 0 : PENSTOCK_S3_NEW,
			    etag, &info, err);
	if (r == -EEXIST || r == -ESTALE)
		return penstock_fail(err, -EBUSY, "%s: another run has just begun there",
				     p->bucket.prefix);
	if (r == 0)
		memcpy(p->bucket.etag, info.etag, sizeof(p->bucket.etag));
	return r;
}

/* May it still be in use? */
static int marker_busy(const struct marker *m, const char *prefix, struct penstock_err *err)
{
	const struct penstock_process_identity *by = &m->process;

	if (!m->there || m->kept)
		return 0;
	if (!penstock_process_is_local(by))
		return penstock_fail(
			err, -EBUSY,
			"%s: a run of process %d on %.*s has begun there and not ended; "
			"if it is gone, remove all below the prefix",
			prefix, by->pid, (int)strcspn(by->pid_space, "/"), by->pid_space);
	if (penstock_process_is_alive(by))
		return penstock_fail(err, -EBUSY, "%s: process %d is using it", prefix, by->pid);
	return 0;
}

/* -------------------------------------------------------------- what is below it */

static bool name_is_ours(const char *name, const char *run)
{
	size_t n = strlen(name);

	return n >= TAIL - 1 && name[n - TAIL + 1] == '~' && !strchr(name, '/') &&
	       !strcmp(name + n - (BUCKET_RUN - 1), run);
}

/* Where in a key the name begins. */
static const char *bucket_name_of(const char *key, const char *prefix)
{
	const char *slash = strchr(prefix + strlen("s3://"), '/');

	return key + strlen(slash + 1);
}

/*
 * Go through all that is below the prefix and call @one with the names; what is not 0 ends it.
 * The marker is left out.
 */
static int each_name(struct penstock_s3 *c, const char *prefix, uint32_t flags,
		     int (*one)(void *arg, const char *name, const struct penstock_s3_entry *e,
				struct penstock_err *err),
		     void *arg, struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	int r = penstock_s3_list_open(&l, c, prefix, PENSTOCK_S3_LIST_FLAT | flags, err), more;

	if (r < 0)
		return r;
	while (r == 0 && (more = penstock_s3_list_next(l, &e, err)) != 0) {
		const char *name = more > 0 ? bucket_name_of(e.key, prefix) : NULL;

		if (more < 0)
			r = more;
		else if (strcmp(name, MARKER) != 0)
			r = one(arg, name, &e, err);
	}
	penstock_s3_list_close(l);
	return r;
}

struct inspected {
	const char *prefix;
	const struct marker *m;
};

static int refuse_foreign(void *arg, const char *name, const struct penstock_s3_entry *e,
			  struct penstock_err *err)
{
	const struct inspected *l = arg;

	(void)e;
	if (l->m->there && name_is_ours(name, l->m->run))
		return 0;
	return penstock_fail(err, -EEXIST,
			     "%s: holds %.200s; what a run makes needs a prefix of its own",
			     l->prefix, name);
}

/* All that can be refused, before anything is touched. */
static int bucket_inspect(struct marker *m, struct penstock_s3 *c, const char *prefix,
			  const struct place_opts *o, struct penstock_err *err)
{
	struct inspected l = {prefix, m};
	int r = marker_load(m, c, prefix, err);

	if (r == 0)
		r = marker_busy(m, prefix, err);
	if (r == 0 && m->kept && !o->reuse && !o->replace)
		return penstock_fail(err, -EEXIST,
				     "%s: holds what `penstock replay --keep' has left", prefix);
	return r < 0 ? r : each_name(c, prefix, 0, refuse_foreign, &l, err);
}

/* --------------------------------------------------------------------- removing */

struct removal {
	struct place *p;
	char **uris;
	uint64_t nr, capacity;
	uint32_t uploads; /* flags of the list: it is of uploads */
};

static int removal_flush(struct removal *rm, struct penstock_err *err)
{
	int r = rm->nr ? penstock_s3_delete(rm->p->bucket.client, (const char *const *)rm->uris,
					    rm->nr, err)
		       : 0;

	while (rm->nr)
		free(rm->uris[--rm->nr]);
	return r;
}

static int remove_name(void *arg, const char *name, const struct penstock_s3_entry *e,
		       struct penstock_err *err)
{
	struct removal *rm = arg;
	struct place *p = rm->p;
	char *uri;
	int r = 0;

	if (!name_is_ours(name, p->bucket.run))
		return 0;
	if (ARRAY_RESERVE(rm->uris, rm->capacity, rm->nr + 1) < 0 ||
	    asprintf(&uri, "%s%s", p->bucket.prefix, name) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (rm->uploads) {
		r = penstock_s3_upload_discard(p->bucket.client, uri, e->upload_id, err);
		free(uri);
		return r == -ENOENT ? 0 : r;
	}
	rm->uris[rm->nr++] = uri;
	return rm->nr == BATCH ? removal_flush(rm, err) : 0;
}

/* All that the run with this number has made. */
static int bucket_clear(struct place *p, struct penstock_err *err)
{
	struct removal rm = {.p = p};
	int r = each_name(p->bucket.client, p->bucket.prefix, 0, remove_name, &rm, err), e;

	e = removal_flush(&rm, r == 0 ? err : NULL);
	r = r < 0 ? r : e;
	free(rm.uris);
	rm = (struct removal){.p = p, .uploads = PENSTOCK_S3_LIST_UPLOADS};
	if (r == 0)
		r = each_name(p->bucket.client, p->bucket.prefix, rm.uploads, remove_name, &rm,
			      err);
	free(rm.uris);
	return r;
}

/* ------------------------------------------------------------------- taking over */

static int adopt_name(void *arg, const char *name, const struct penstock_s3_entry *e,
		      struct penstock_err *err)
{
	struct place *p = arg;
	const char *tail = name + strlen(name) - (TAIL - 1);
	uint32_t serial = (uint32_t)strtoul(tail + 1, NULL, 16);
	struct place_old *old = place_old_add(p);

	if (old)
		old->name = malloc(strlen(name) + 1);
	if (!old || !old->name)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (place_name_key(old->name, &old->name_len, name, tail) < 0)
		return penstock_fail(err, -EINVAL,
				     "%s%.200s: its name was cut, so that it cannot be used again",
				     p->bucket.prefix, name);
	old->size = e->bytes;
	old->ref = (struct place_ref){(uint16_t)(serial >> 16), (uint16_t)serial};
	p->bucket.serial = (uint32_t)max_u64(p->bucket.serial, serial + 1);
	return 0;
}

/* --------------------------------------------------------------- open and close */

/* "s3://BUCKET/PREFIX/", and a client. */
static int bucket_start(struct penstock_s3 **c, char **prefix, const struct place_opts *o,
			struct penstock_err *err)
{
	const char *uri = o->paths[0];
	size_t n = strlen(uri);
	int r = penstock_s3_is_uri(uri, err);

	if (r <= 0)
		return r < 0 ? r : penstock_fail(err, -EINVAL, "%s: is no s3://BUCKET/PREFIX", uri);
	if (n > 700)
		return penstock_fail(err, -EINVAL, "%.60s...: is too long for a prefix", uri);
	if (asprintf(prefix, "%s%s", uri, uri[n - 1] == '/' && n > 5 ? "" : "/") < 0) {
		*prefix = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	return penstock_s3_open(c, o->s3, err);
}

int bucket_check(const struct place_opts *o, struct penstock_err *err)
{
	CLEANUP_FREE char *prefix = NULL;
	struct penstock_s3 *c = NULL;
	struct marker m;
	int r = bucket_start(&c, &prefix, o, err);

	if (r == 0)
		r = bucket_inspect(&m, c, prefix, o, err);
	penstock_s3_close(c);
	return r;
}

bool bucket_is_kept(const struct place_opts *o)
{
	CLEANUP_FREE char *prefix = NULL;
	struct penstock_s3 *c = NULL;
	struct marker m = {.kept = false};

	if (bucket_start(&c, &prefix, o, NULL) == 0)
		marker_load(&m, c, prefix, NULL);
	penstock_s3_close(c);
	return m.kept;
}

static int make_run_number(char run[BUCKET_RUN], struct penstock_err *err)
{
	uint64_t v;

	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		return penstock_fail(err, -errno, "no random numbers: %s", strerror(errno));
	snprintf(run, BUCKET_RUN, "%016" PRIx64, v);
	return 0;
}

int bucket_open(struct place *p, struct penstock_err *err)
{
	struct place_bucket *b = &p->bucket;
	struct marker m = {.there = false};
	int r = bucket_start(&b->client, &b->prefix, &p->o, err);

	if (r == 0)
		r = bucket_inspect(&m, b->client, b->prefix, &p->o, err);
	if (r < 0)
		return r;
	if (m.there)
		memcpy(b->run, m.run, sizeof(b->run));
	else
		r = make_run_number(b->run, err);
	if (r == 0)
		r = marker_save(p, "open", m.there ? m.read.got : NULL, err);
	if (r < 0)
		return r;
	b->ours = true;
	if (m.there && p->o.reuse)
		return each_name(b->client, b->prefix, 0, adopt_name, p, err);
	return m.there ? bucket_clear(p, err) : 0;
}

int bucket_close(struct place *p, struct penstock_err *err)
{
	struct place_bucket *b = &p->bucket;
	CLEANUP_FREE char *uri = NULL;
	int r = 0;

	if (b->ours && (p->o.keep || (p->o.reuse && !p->ready))) {
		r = marker_save(p, "kept", b->etag, err);
	} else if (b->ours) {
		r = bucket_clear(p, err);
		if (r == 0 && asprintf(&uri, "%s" MARKER, b->prefix) < 0) {
			uri = NULL;
			r = penstock_fail(err, -ENOMEM, "out of memory");
		}
		if (r == 0)
			r = penstock_s3_delete(b->client, (const char *const *)&uri, 1, err);
	}
	penstock_s3_close(b->client);
	free(b->prefix);
	return r;
}

/* ------------------------------------------------------------------------ names */

struct place_ref bucket_ref(struct place *p)
{
	uint32_t serial = p->bucket.serial++;

	return (struct place_ref){(uint16_t)(serial >> 16), (uint16_t)serial};
}

char *bucket_uri(const struct place *p, struct place_ref ref, const char *name, uint32_t len)
{
	char file[PLACE_NAME], *uri;

	place_file_name(file, name, len, 0, "");
	if (asprintf(&uri, "%s%s~%08x-%s", p->bucket.prefix, file,
		     (unsigned)ref.dir << 16 | ref.variant, p->bucket.run) < 0)
		return NULL;
	return uri;
}

/* ------------------------------------------------------------------------- told */

bool place_object_stats(const struct place *p, struct object_requests *r)
{
	if (!p->bucket.client)
		return false;
	object_requests_get(r, p->bucket.client);
	return true;
}
