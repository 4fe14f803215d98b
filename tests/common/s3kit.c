/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/s3kit.h"

#include <sys/wait.h>

#include "base/random.h"
#include "object/http.h"

char s3_urls[S3_PORTS][64];
char s3_all_urls[S3_PORTS * 64];

static struct {
	pid_t pid;
	int in;
} server;

static void need_libcurl(void)
{
	struct penstock_s3_opts o = PENSTOCK_S3_OPTS_INIT;
	struct penstock_s3 *probe = NULL;
	struct penstock_err err;

	o.flags = PENSTOCK_S3_ANONYMOUS;
	if (penstock_s3_open(&probe, &o, &err) == -ENOTSUP)
		t_skip_all("libcurl", "%s", err.msg);
	penstock_s3_close(probe);
}

void s3_start(const char *python, const char *script)
{
	int in[2], out[2];
	FILE *f;

	need_libcurl();

	T_OK(pipe(in) == 0 && pipe(out) == 0);
	server.pid = fork();
	if (server.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int fd = 3; fd < 256; fd++)
			close(fd);
		execl(python, python, script, "--ports", "4", "--bucket", "bucket", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	server.in = in[1];
	f = fdopen(out[0], "r");
	s3_all_urls[0] = 0;
	for (unsigned i = 0; i < S3_PORTS; i++) {
		T_OK(fgets(s3_urls[i], sizeof(s3_urls[i]), f));
		s3_urls[i][strcspn(s3_urls[i], "\n")] = 0;
		strcat(s3_all_urls, i ? "," : "");
		strcat(s3_all_urls, s3_urls[i]);
	}
	fclose(f);
}

void s3_stop(void)
{
	close(server.in);
	waitpid(server.pid, NULL, 0);
}

void s3_send_command(const char *what, const char *body)
{
	struct http_opts opts = {.no_proxy = true};
	struct penstock_err err = {0, ""};
	struct object_fetched answer;
	char url[256];
	struct object_fetch req = {.method = "PUT",
				   .url = url,
				   .body = body,
				   .body_len = strlen(body),
				   .timeout_ms = 60000};

	snprintf(url, sizeof(url), "%s/%s", s3_urls[S3_PORTS - 1], what);
	T_ERR(http_fetch(&opts, &req, &answer, &err), 0, &err);
	T_EQ(answer.status, 200);
	free(answer.body);
}

void s3_set_fault_rules(const char *lines)
{
	s3_send_command("_rules?seed=1", lines);
}

void s3_set_port(unsigned i, bool up)
{
	char what[64];

	snprintf(what, sizeof(what), "%s?port=%s", up ? "_start" : "_stop",
		 strrchr(s3_urls[i], ':') + 1);
	s3_send_command(what, "");
}

struct penstock_s3 *s3_client(const char *endpoint, uint32_t attempts, uint32_t timeout_ms)
{
	struct penstock_s3_opts o = PENSTOCK_S3_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c;

	o.endpoint = endpoint;
	o.key_id = "penstockaccess";
	o.secret = "penstocksecretpenstocksecretpenstock";
	o.attempts = attempts;
	o.timeout_ms = timeout_ms;
	o.stall_ms = 1000;
	o.part = S3_PART;
	T_ERR(penstock_s3_open(&c, &o, &err), 0, &err);
	return c;
}

void s3_put_pattern(struct penstock_s3 *c, const char *uri, uint64_t seed, size_t len)
{
	struct penstock_err err = {0, ""};
	char *buf = malloc(len);

	penstock_pattern_fill(buf, len, seed, 0);
	T_ERR(penstock_s3_put(c, uri, buf, len, 0, NULL, NULL, &err), 0, &err);
	free(buf);
}

unsigned s3_nr_uploads(struct penstock_s3 *c)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	unsigned n = 0;

	T_EQ(penstock_s3_list_open(&l, c, "s3://bucket", PENSTOCK_S3_LIST_UPLOADS, NULL), 0);
	while (penstock_s3_list_next(l, &e, NULL) > 0)
		n++;
	penstock_s3_list_close(l);
	return n;
}
