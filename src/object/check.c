/* SPDX-License-Identifier: Apache-2.0 */
/* Five things that are better known before a long run than after it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "object/client.h"

enum { REACH_MS = 5000, CLOCK_S = 300 };

struct checking {
	struct penstock_s3 *c;
	const char *uri;
	char *probe; /* the object that is put */
	struct penstock_s3_report report;
	char server[64];
};

static void set_item(struct checking *g, enum penstock_s3_check_item p, int code, const char *fmt,
		     ...) __attribute__((format(printf, 4, 5)));

static void set_item(struct checking *g, enum penstock_s3_check_item p, int code, const char *fmt,
		     ...)
{
	va_list ap;

	g->report.item[p].code = code;
	va_start(ap, fmt);
	penstock_vprint_elided(g->report.item[p].text, sizeof(g->report.item[p].text), fmt, ap);
	va_end(ap);
}

/* Any answer will do. */
static void check_reach(struct checking *g)
{
	struct penstock_s3 *c = g->c;
	unsigned nr = c->endpoints.nr ? c->endpoints.nr : 1;
	struct penstock_err err;
	char aws[128];

	snprintf(aws, sizeof(aws), "https://s3.%s.amazonaws.com", c->region);
	for (unsigned i = 0; i < nr; i++) {
		struct object_fetch req = {.method = "GET",
					   .url = c->endpoints.nr ? c->endpoints.v[i].text : aws,
					   .timeout_ms = REACH_MS};
		struct object_fetched answer;
		int r = http_fetch(&c->http_opts, &req, &answer, &err);

		if (r < 0) {
			set_item(g, PENSTOCK_S3_REACH, r, "%s", err.msg);
			return;
		}
		free(answer.body);
	}
	set_item(g, PENSTOCK_S3_REACH, 0, "%s%s", c->endpoints.nr ? c->endpoints.v[0].text : aws,
		 nr > 1 ? " and all others answer" : " answers");
}

static void check_clock(struct checking *g, const struct object_req *r)
{
	int64_t date = object_parse_http_date(r->http.response.date), off = date - time(NULL);

	if (!date)
		set_item(g, PENSTOCK_S3_CLOCK, 1, "the server tells no time");
	else if (off > CLOCK_S || off < -CLOCK_S)
		set_item(g, PENSTOCK_S3_CLOCK, -ETIME,
			 "the server's clock is %" PRId64 " s %s ours; it is put right for "
			 "signatures",
			 off < 0 ? -off : off, off < 0 ? "behind" : "ahead of");
	else
		set_item(g, PENSTOCK_S3_CLOCK, 0, "the server's clock is within %" PRId64 " s",
			 (off < 0 ? -off : off) + 1);
}

/* HEAD of the bucket: region, clock, and whether the keys are known. */
static void check_region(struct checking *g, const char *bucket)
{
	const struct penstock_s3 *c = g->c;
	const char *style = c->virtual_host ? "virtual" : "path";
	struct penstock_err err;
	struct object_req r;
	int code = object_req_init(&r, g->c, HTTP_HEAD, "look at the bucket", bucket, false, &err);

	if (code == 0)
		code = object_req_run(&r, &err);
	if (code < 0)
		set_item(g, PENSTOCK_S3_REGION, code, "%s", err.msg);
	else if (r.http.response.region[0] && strcmp(r.http.response.region, c->region) != 0)
		set_item(g, PENSTOCK_S3_REGION, 0, "the bucket is in %s, not in %s; %s style",
			 r.http.response.region, c->region, style);
	else
		set_item(g, PENSTOCK_S3_REGION, 0, "%s, %s style", c->region, style);
	check_clock(g, &r);
	memcpy(g->server, r.http.response.server, sizeof(g->server));
	object_req_fini(&r);
}

static int try_list(struct checking *g, struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	int r = penstock_s3_list_open(&l, g->c, g->uri, 0, err);

	if (r < 0)
		return r;
	r = penstock_s3_list_next(l, &e, err);
	penstock_s3_list_close(l);
	return r < 0 ? r : 0;
}

static int try_write(struct checking *g, struct penstock_err *err)
{
	static const char content[] = "penstock";
	const char *const probe = g->probe;
	char back[sizeof(content)];
	int64_t n;
	int r = penstock_s3_put(g->c, probe, content, sizeof(content), 0, NULL, NULL, err);

	if (r < 0)
		return r;
	n = penstock_s3_read(g->c, probe, back, sizeof(back), 0, NULL, err);
	if (n >= 0 && (n != sizeof(back) || memcmp(back, content, sizeof(back)) != 0))
		n = penstock_fail(err, -EBADMSG, "%s: what was read is not what was put", probe);
	return n < 0 ? (int)n : 0;
}

static void check_rights(struct checking *g, bool write)
{
	const char *source = g->c->source ? object_cred_name(g->c->source) : "nothing signed";
	struct penstock_err err;
	int r = try_list(g, &err);

	if (r == 0 && write)
		r = try_write(g, &err);
	if (r < 0)
		set_item(g, PENSTOCK_S3_RIGHTS, r, "%s (keys: %s)", err.msg, source);
	else
		set_item(g, PENSTOCK_S3_RIGHTS, 0, "%s (keys: %s)",
			 write ? "list, put, read" : "list; putting was not tried", source);
}

/* Does a second put of what must be new fail, and does a part of an upload come back with its
 * checksum?
 */
static void check_features(struct checking *g)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_s3_stats before = {.size = sizeof(before)}, after = before;
	struct penstock_err err;
	int r;

	penstock_s3_get_stats(g->c, &before);
	r = penstock_s3_put(g->c, g->probe, "again", 5, PENSTOCK_S3_NEW, NULL, &info, &err);
	if (r == 0)
		penstock_s3_put(g->c, g->probe, "again", 5, 0, NULL, &info, NULL);
	penstock_s3_put(g->c, g->probe, "again", 5, 0, NULL, &info, NULL);
	penstock_s3_get_stats(g->c, &after);
	set_item(g, PENSTOCK_S3_FEATURES, 0, "%s%s; conditional writes: %s; checksums: %s",
		 g->server[0] ? g->server : "server without a name", "",
		 r == -EEXIST ? "yes"
		 : r == 0     ? "ignored"
			      : "no",
		 after.checked > before.checked    ? "checked by the server"
		 : !strcmp(after.checksum, "none") ? "none"
						   : "sent, not acknowledged");
}

/* All of them; those that make no sense after a failure are left as not looked at. */
static void run_checks(struct checking *g, const char *bucket, bool write)
{
	for (unsigned i = 0; i < PENSTOCK_S3_CHECK_ITEMS; i++)
		set_item(g, i, 1, "not looked at");
	check_reach(g);
	if (g->report.item[PENSTOCK_S3_REACH].code == 0)
		check_region(g, bucket);
	if (g->report.item[PENSTOCK_S3_REGION].code == 0)
		check_rights(g, write);
	if (g->report.item[PENSTOCK_S3_RIGHTS].code == 0 && write) {
		check_features(g);
		penstock_s3_delete(g->c, (const char *const *)&g->probe, 1, NULL);
	} else if (g->server[0]) {
		set_item(g, PENSTOCK_S3_FEATURES, 1, "%s; without putting nothing more is known",
			 g->server);
	}
}

int penstock_s3_check(struct penstock_s3 *c, const char *uri, uint32_t flags,
		      struct penstock_s3_report *report, struct penstock_err *err)
{
	struct checking g = {.c = c, .uri = uri};
	CLEANUP_FREE char *bucket = NULL;
	CLEANUP_FREE char *probe = NULL;
	struct object_name name;
	int r = object_name_parse(&name, uri, false, err);

	if (r < 0)
		return r;
	if (asprintf(&bucket, "s3://%s", name.bucket) < 0 ||
	    asprintf(&probe, "s3://%s/%s%s.penstock-check-%d", name.bucket, name.key,
		     !name.key[0] || name.key[strlen(name.key) - 1] == '/' ? "" : "/",
		     (int)getpid()) < 0)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	object_name_free(&name);
	if (r < 0)
		return r;
	g.probe = probe;
	run_checks(&g, bucket, flags & PENSTOCK_S3_CHECK_WRITE);
	for (unsigned i = 0; i < PENSTOCK_S3_CHECK_ITEMS && r == 0; i++)
		if (g.report.item[i].code < 0)
			r = penstock_fail(err, g.report.item[i].code, "%s", g.report.item[i].text);
	object_struct_copy_out(report, &g.report, sizeof(g.report));
	return r;
}
