/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints in an object store that fails: the old one or the new one, whole and verified, and
 * never anything else.
 *
 *	ckpt_object PYTHON SERVER.PY
 *	ckpt_object save ENDPOINT SEED		what is killed
 */
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "base/util.h"
#include "ckpt/ckpt_upload.h"
#include "tests/common/s3kit.h"

enum { BYTES = 6 << 20, ODD = 1234567 }; /* two parts */

static const char uri[] = "s3://bucket/model", sums[] = "s3://bucket/model.crc";
static struct penstock_s3 *client;
static struct penstock_io *io;

static struct penstock_io *handle(struct penstock_s3 *c)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_io *out;

	o.s3 = c;
	T_ERR(penstock_open(&out, &o, &err), 0, &err);
	return out;
}

static void begin_anew(void)
{
	const char *const all[] = {uri, sums};

	T_EQ(penstock_s3_delete(client, all, 2, NULL), 0);
}

static void setup(void)
{
	s3_set_fault_rules("");
	client = s3_client(s3_urls[0], 1, 60000);
	io = handle(client);
	begin_anew();
}

static void teardown(void)
{
	penstock_close(TAKE_PTR(io), NULL);
	penstock_s3_close(TAKE_PTR(client));
	s3_set_fault_rules("");
}

/* ------------------------------------------------------------------------ helpers */

static struct penstock_writer *begin(struct penstock_io *on, uint32_t flags)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_writer *w = NULL;

	o.flags = flags;
	o.buffer_bytes = 5 << 20;
	T_ERR(penstock_writer_open(&w, on, uri, &o, &err), 0, &err);
	return w;
}

static int put(struct penstock_writer *w, uint64_t seed, uint64_t len)
{
	char *buf = malloc(ODD);
	int r = 0;

	for (uint64_t at = 0, n; at < len && r == 0; at += n) {
		n = min_u64(len - at, ODD);
		penstock_pattern_fill(buf, n, seed, at);
		r = penstock_writer_write(w, buf, n, NULL);
	}
	free(buf);
	return r;
}

static int save(uint64_t seed, uint64_t len)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_writer *w;
	int r;

	o.buffer_bytes = 5 << 20;
	r = penstock_writer_open(&w, io, uri, &o, NULL);
	if (r == 0 && put(w, seed, len) < 0) {
		penstock_writer_abort(w);
		return -EIO;
	}
	return r < 0 ? r : penstock_writer_commit(w, NULL);
}

/* Read all of it, verified; -errno, or 0 with the bytes, to be freed. */
static int load(char **ret, uint64_t *ret_len, struct penstock_err *err)
{
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	struct penstock_reader_info info = {.size = sizeof(info)};
	struct penstock_reader *r;
	int64_t n;
	int e;

	o.verify = PENSTOCK_VERIFY_ALWAYS;
	e = penstock_reader_open(&r, io, uri, &o, err);
	if (e < 0)
		return e;
	penstock_reader_stat(r, &info);
	*ret = malloc(info.bytes + 1);
	*ret_len = info.bytes;
	n = penstock_reader_pread(r, *ret, info.bytes, 0, err);
	penstock_reader_close(r);
	if (n < 0)
		free(*ret);
	return n < 0 ? (int)n : 0;
}

/* Is it what was made with one of these seeds?  Returns which. */
static uint64_t expect(uint64_t old, uint64_t new, uint64_t bytes)
{
	struct penstock_err err = {0, ""};
	uint64_t len, seeds[2] = {old, new}, got = 0;
	char *buf, *want = malloc(bytes);

	T_ERR(load(&buf, &len, &err), 0, &err);
	T_EQ(len, bytes);
	for (unsigned i = 0; i < 2 && !got; i++) {
		penstock_pattern_fill(want, bytes, seeds[i], 0);
		if (!memcmp(buf, want, bytes))
			got = seeds[i];
	}
	T_OK(got != 0);
	free(want);
	free(buf);
	return got;
}

static unsigned nr_sets(void)
{
	struct penstock_err err = {0, ""};
	struct crc_object crc;
	unsigned nr;

	T_ERR(crc_object_load(&crc, client, uri, &err), 0, &err);
	nr = crc.exists ? crc.f.nr : 0;
	crcfile_free(&crc.f);
	return nr;
}

static bool is_there(const char *name)
{
	struct penstock_s3_info info = {.size = sizeof(info)};

	return penstock_s3_stat(client, name, &info, NULL) == 0;
}

/* -------------------------------------------------------------------------- cases */

static void it_is_there_when_it_is_committed_and_not_before(void)
{
	struct penstock_writer *w = begin(io, 0);

	T_EQ(put(w, 1, BYTES), 0);
	T_OK(!is_there(uri));
	T_EQ(penstock_writer_commit(w, NULL), 0);
	expect(1, 1, BYTES);
	T_EQ(nr_sets(), 1);
	w = begin(io, 0);
	T_EQ(put(w, 2, BYTES), 0);
	expect(1, 1, BYTES);
	T_EQ(penstock_writer_commit(w, NULL), 0);
	expect(2, 2, BYTES);
	T_EQ(nr_sets(), 1);
	T_EQ(save(3, 100), 0); /* in one request */
	expect(3, 3, 100);
	T_EQ(save(4, 0), 0);
	expect(4, 4, 0);
	T_EQ(s3_nr_uploads(client), 0);
}

static void what_is_given_up_leaves_the_old_one(void)
{
	struct penstock_writer *w;

	T_EQ(save(1, BYTES), 0);
	w = begin(io, 0);
	T_EQ(put(w, 2, BYTES), 0);
	penstock_writer_abort(w);
	expect(1, 1, BYTES);
	T_EQ(s3_nr_uploads(client), 0);
}

static void damage_is_found(void)
{
	struct penstock_err err = {0, ""};
	uint64_t len;
	char *buf = NULL;

	T_EQ(save(1, 3 << 20), 0);
	T_EQ(load(&buf, &len, &err), 0);
	buf[(2 << 20) + 5] ^= 1;
	T_EQ(penstock_s3_put(client, uri, buf, len, 0, NULL, NULL, NULL), 0);
	free(buf);
	T_EQ(load(&buf, &len, &err), -EBADMSG);
	T_OK(strstr(err.msg, uri) && strstr(err.msg, "2097152"));
	T_EQ(penstock_s3_put(client, uri, "short", 5, 0, NULL, NULL, NULL), 0);
	T_EQ(load(&buf, &len, &err), -EBADMSG);
	T_OK(strstr(err.msg, "another size"));
}

static void zeros_are_where_the_position_was_moved_on(void)
{
	struct penstock_writer *w = begin(io, 0);
	struct penstock_err err = {0, ""};
	uint64_t len;
	char *buf;

	T_EQ(penstock_writer_write(w, "a", 1, NULL), 0);
	T_EQ(penstock_writer_seek(w, 3 << 20, NULL), 0);
	T_EQ(penstock_writer_write(w, "b", 1, NULL), 0);
	T_EQ(penstock_writer_seek(w, 5, &err), -ESPIPE);
	T_EQ(penstock_writer_seek(w, 9 << 20, NULL), 0); /* does not make it longer */
	T_EQ(penstock_writer_commit(w, NULL), 0);
	T_ERR(load(&buf, &len, &err), 0, &err);
	T_EQ(len, (3 << 20) + 1);
	T_OK(buf[0] == 'a' && buf[3 << 20] == 'b' && !buf[1] &&
	     !memcmp(buf + 1, buf + 2, (3 << 20) - 2));
	free(buf);
}

static void checksums_of_others_stay_and_ours_go_with_no_crc(void)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_writer *w;
	struct penstock_err err = {0, ""};
	uint64_t len;
	char *buf;

	T_EQ(penstock_s3_put(client, sums, "notes", 5, 0, NULL, NULL, NULL), 0);
	T_EQ(penstock_writer_open(&w, io, uri, &o, &err), -EEXIST);
	T_OK(strstr(err.msg, sums));
	const char *const one = sums;
	T_EQ(penstock_s3_delete(client, &one, 1, NULL), 0);
	T_EQ(save(1, 1000), 0);
	w = begin(io, PENSTOCK_WRITER_NO_CRC);
	T_EQ(put(w, 2, 1000), 0);
	T_EQ(penstock_writer_commit(w, NULL), 0);
	T_OK(!is_there(sums));
	T_EQ(load(&buf, &len, &err), -ENODATA);
}

static void without_a_client_it_is_refused_in_one_line(void)
{
	struct penstock_err err = {0, ""};
	struct penstock_io *bare = handle(NULL);
	struct penstock_reader *r;
	struct penstock_writer *w;

	T_EQ(penstock_writer_open(&w, bare, uri, NULL, &err), -ENOTSUP);
	T_OK(strstr(err.msg, uri));
	T_EQ(penstock_reader_open(&r, bare, uri, NULL, &err), -ENOTSUP);
	T_EQ(penstock_writer_open(&w, io, "az://box/model", NULL, &err), -ENOTSUP);
	penstock_close(bare, NULL);
}

/* From request N on all fail, at once or after they were carried out. */
static void a_save_that_fails_anywhere_leaves_the_old_one_or_the_new_one(void)
{
	static const char *const faults[] = {"status:403", "late drop"};
	unsigned failed = 0;

	for (unsigned k = 0; k < T_COUNT(faults); k++) {
		int r = -1;

		for (unsigned n = 0; r < 0; n++) {
			uint64_t old = 100 + 2 * n, new = old + 1;
			char rule[64];

			s3_set_fault_rules("");
			T_EQ(save(old, BYTES), 0);
			snprintf(rule, sizeof(rule), "skip=%u %s", n, faults[k]);
			s3_set_fault_rules(rule);
			r = save(new, BYTES);
			s3_set_fault_rules("");
			failed += r < 0;
			if (expect(old, new, BYTES) == old)
				T_OK(r < 0);
			T_OK(n < 100);
		}
	}
	T_OK(failed > 10);
}

/* Each announces itself in KEY.crc, which has no room for them all. */
static void many_saves_that_fail_leave_the_old_one_and_its_checksums(void)
{
	T_EQ(save(1, 1000), 0);
	s3_set_fault_rules("method=PUT key=model status:403");
	for (unsigned i = 0; i < 20; i++)
		T_OK(save(2 + i, i % 2 ? 1000 : 2000) < 0);
	s3_set_fault_rules("");
	expect(1, 1, 1000);
	T_OK(nr_sets() <= CRC_SETS_MAX);
}

/* Its checksums are those of one of all that were announced. */
static void so_they_do_where_the_old_one_was_never_confirmed(void)
{
	static const unsigned failures[] = {4, 20};

	for (unsigned k = 0; k < T_COUNT(failures); k++) {
		struct penstock_err err = {0, ""};
		struct penstock_reader *r;
		char buf[1000];

		begin_anew();
		s3_set_fault_rules("method=PUT key=model.crc skip=1 status:403");
		T_EQ(save(1, 1000), 0);
		s3_set_fault_rules("method=PUT key=model status:403");
		for (unsigned i = 0; i < failures[k]; i++)
			T_OK(save(2 + i, i % 5 ? 1000 : 2000) < 0);
		s3_set_fault_rules("");
		T_ERR(penstock_reader_open(&r, io, uri, NULL, &err), 0, &err);
		T_ERR(penstock_reader_pread(r, buf, 1000, 0, &err), 1000, &err);
		T_EQ(penstock_pattern_check(buf, 1000, 1, 0), 1000);
		penstock_reader_close(r);
		T_EQ(save(50, 1000), 0);
		expect(50, 50, 1000);
	}
}

static void of_two_at_once_one_wins_whole(void)
{
	for (unsigned i = 0; i < 6; i++) {
		uint64_t seed = 10 + 2 * i;
		struct penstock_writer *a = begin(io, 0), *b = begin(io, 0);

		T_EQ(put(a, seed, BYTES), 0);
		T_EQ(put(b, seed + 1, BYTES), 0);
		T_EQ(penstock_writer_commit(i % 2 ? a : b, NULL), 0);
		T_EQ(expect(seed, seed + 1, BYTES), i % 2 ? seed : seed + 1);
		T_EQ(penstock_writer_commit(i % 2 ? b : a, NULL), 0);
		T_EQ(expect(seed, seed + 1, BYTES), i % 2 ? seed + 1 : seed);
	}
	T_OK(nr_sets() <= CRC_SETS_MAX);
}

static void a_killed_save_leaves_the_old_one_or_the_new_one(void)
{
	struct penstock_random x;

	penstock_random_seed(&x, 1);
	T_EQ(save(1, BYTES), 0);
	for (uint64_t seed = 2, old = 1; seed < 22; seed++) {
		struct timespec t = {.tv_nsec = (long)(penstock_random_next(&x) % 150000000)};
		char text[24];
		pid_t pid;

		snprintf(text, sizeof(text), "%" PRIu64, seed);
		pid = fork();
		if (pid == 0) {
			execl("/proc/self/exe", "ckpt_object", "save", s3_urls[0], text, NULL);
			_exit(127);
		}
		T_OK(pid > 0);
		nanosleep(&t, NULL); /* a moment that nobody knows */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		old = expect(old, seed, BYTES);
	}
	T_EQ(save(50, BYTES), 0);
	expect(50, 50, BYTES);
}

static int save_alone(const char *endpoint, const char *seed)
{
	client = s3_client(endpoint, 3, 60000);
	io = handle(client);
	return save(strtoull(seed, NULL, 10), BYTES) < 0;
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(it_is_there_when_it_is_committed_and_not_before),
		T_CASE(what_is_given_up_leaves_the_old_one),
		T_CASE(damage_is_found),
		T_CASE(zeros_are_where_the_position_was_moved_on),
		T_CASE(checksums_of_others_stay_and_ours_go_with_no_crc),
		T_CASE(without_a_client_it_is_refused_in_one_line),
		T_CASE(a_save_that_fails_anywhere_leaves_the_old_one_or_the_new_one),
		T_CASE(many_saves_that_fail_leave_the_old_one_and_its_checksums),
		T_CASE(so_they_do_where_the_old_one_was_never_confirmed),
		T_CASE(of_two_at_once_one_wins_whole),
		T_CASE(a_killed_save_leaves_the_old_one_or_the_new_one),
	};
	static const struct t_group groups[] = {
		{"checkpoints in a store", setup, teardown, cases, T_COUNT(cases)},
	};
	int r;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "save"))
		return save_alone(argv[2], argv[3]);
	s3_start(argv[1], argv[2]);
	r = t_run(groups, T_COUNT(groups), argv + 3);
	s3_stop();
	return r;
}
