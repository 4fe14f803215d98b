/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/storekit.h"

#include <stdatomic.h>

#include "base/random.h"

struct penstock_store *sk;
struct penstock_store_opts sk_opts;

static atomic_uint nr_errors;

static void count_error(void *arg, const struct penstock_event *event)
{
	(void)arg;
	if (event->code < 0)
		atomic_fetch_add(&nr_errors, 1);
}

unsigned sk_reported_errors(void)
{
	return atomic_load(&nr_errors);
}

void sk_reset(void)
{
	sk_opts = (struct penstock_store_opts)PENSTOCK_STORE_OPTS_INIT;
	sk_opts.on_error = count_error;
	atomic_store(&nr_errors, 0);
}

int sk_try_open(const char *dirs, uint64_t capacity, struct penstock_err *err)
{
	char names[256], paths[8][512];
	const char *list[8];
	unsigned n = 0;

	snprintf(names, sizeof(names), "%s", dirs);
	for (char *save, *d = strtok_r(names, " ", &save); d; d = strtok_r(NULL, " ", &save)) {
		snprintf(paths[n], sizeof(paths[n]), "%s", strchr(d, ':') ? d : t_path(d));
		list[n] = paths[n];
		n++;
	}
	return penstock_store_open(&sk, list, n, capacity, &sk_opts, err);
}

void sk_open(const char *dirs, uint64_t capacity)
{
	struct penstock_err err = {0, ""};

	T_ERR(sk_try_open(dirs, capacity, &err), 0, &err);
}

void sk_close(void)
{
	struct penstock_err err = {0, ""};
	int r = penstock_store_close(sk, &err);

	sk = NULL;
	T_ERR(r, 0, &err);
}

void sk_begin(void)
{
	sk_reset();
	sk_open("d", MIB(64));
}

void sk_end(void)
{
	char cmd[600];

	if (sk)
		sk_close();
	snprintf(cmd, sizeof(cmd), "rm -rf %s/*", t_dir());
	T_EQ(system(cmd), 0);
}

int64_t sk_op(uint32_t opcode, const void *key, uint32_t key_len, void *buf, uint64_t len,
	      uint64_t deadline_ns)
{
	struct penstock_iov iov = {buf, len};
	struct penstock_store_item item = {key, key_len, buf ? 1 : 0, buf ? &iov : NULL};
	struct penstock_store_batch b = {
		.opcode = opcode, .nr = 1, .items = &item, .deadline_ns = deadline_ns};
	int64_t result = -EINVAL;
	struct penstock_err err = {0, ""};

	b.results = &result;
	T_ERR(penstock_store_run(sk, &b, NULL, &err), 0, &err);
	return result;
}

int64_t sk_set(const char *key, uint64_t seed, uint64_t len)
{
	void *buf = malloc(len + 1);
	int64_t r;

	T_OK(buf != NULL);
	penstock_pattern_fill(buf, len, seed, 0);
	r = sk_op(PENSTOCK_STORE_SET, key, (uint32_t)strlen(key), buf, len, 0);
	free(buf);
	return r;
}

int64_t sk_get(const char *key, uint64_t seed, uint64_t room)
{
	void *buf = malloc(room + 1);
	int64_t r;

	T_OK(buf != NULL);
	r = sk_op(PENSTOCK_STORE_GET, key, (uint32_t)strlen(key), buf, room, 0);
	if (r >= 0)
		T_EQ(penstock_pattern_check(buf, (size_t)r, seed, 0), r);
	free(buf);
	return r;
}

int64_t sk_exists(const char *key)
{
	return sk_op(PENSTOCK_STORE_EXISTS, key, (uint32_t)strlen(key), NULL, 0, 0);
}

int64_t sk_delete(const char *key)
{
	return sk_op(PENSTOCK_STORE_DELETE, key, (uint32_t)strlen(key), NULL, 0, 0);
}

struct penstock_store_stats sk_stats(void)
{
	struct penstock_store_stats s = {.size = sizeof(s)};

	T_EQ(penstock_store_get_stats(sk, &s), 0);
	return s;
}
