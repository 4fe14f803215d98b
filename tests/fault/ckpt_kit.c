/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fault/ckpt_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <penstock/stripe.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

uint64_t ckpt_len(uint64_t nr)
{
	static const uint64_t lens[] = {1300000, 1300000, 1300000, 5000, MIB(1), 70001};

	return lens[nr % T_COUNT(lens)];
}

static void ckpt_fill(unsigned char *buf, uint64_t nr)
{
	memcpy(buf, &nr, 8);
	penstock_pattern_fill(buf + 8, ckpt_len(nr) - 8, nr, 8);
}

int ckpt_save(struct penstock_io *io, const char *path, uint64_t nr, uint32_t flags,
	      struct penstock_err *err)
{
	CLEANUP_FREE unsigned char *buf = malloc(CKPT_MAX);
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_writer *w;
	uint64_t len = ckpt_len(nr);
	int r;

	if (!buf)
		return -ENOMEM;
	ckpt_fill(buf, nr);
	o.buffers = 2;
	o.buffer_bytes = MIB(1);
	o.flags = flags;
	o.expected = nr % 2 ? len : 0;
	r = penstock_writer_open(&w, io, path, &o, err);
	for (uint64_t at = 0, n; r == 0 && at < len; at += n) {
		n = min_u64(len - at, 300001);
		r = penstock_writer_write(w, buf + at, n, err);
		if (r < 0)
			penstock_writer_abort(w);
	}
	return r < 0 ? r : penstock_writer_commit(w, err);
}

int64_t ckpt_load(struct penstock_io *io, const char *path)
{
	CLEANUP_FREE unsigned char *got = malloc(CKPT_MAX);
	CLEANUP_FREE unsigned char *want = malloc(CKPT_MAX);
	struct penstock_err err = {0, ""};
	struct penstock_reader *r;
	int64_t n;
	uint64_t nr;

	T_OK(got && want);
	n = penstock_reader_open(&r, io, path, NULL, &err);
	if (n == -ENOENT)
		return n;
	T_ERR(n, 0, &err);
	n = penstock_reader_read(r, got, CKPT_MAX, &err);
	penstock_reader_close(r);
	T_ERR(n < 0 ? n : 0, 0, &err);
	if (n < 8)
		T_FAIL("%s has %lld bytes", path, (long long)n);
	memcpy(&nr, got, 8);
	T_EQ(n, ckpt_len(nr));
	ckpt_fill(want, nr);
	T_MEM(got, want, (size_t)n);
	return (int64_t)nr;
}

/* Tells each that is done. */
static void save_for_ever(const char *path, uint64_t nr, int done_fd)
{
	struct penstock_io *mine;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stopped one would stay when the test fails */
	if (penstock_open(&mine, NULL, NULL) < 0)
		_exit(2);
	for (;; nr++)
		if (ckpt_save(mine, path, nr, 0, NULL) < 0 || write(done_fd, &nr, 8) != 8)
			_exit(3);
}

pid_t ckpt_fork_saver(const char *path, uint64_t nr, int *ret_done_fd)
{
	int done_fd[2];
	pid_t pid;

	T_OK(pipe2(done_fd, O_CLOEXEC) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		save_for_ever(path, nr, done_fd[1]);
	T_OK(pid > 0);
	close(done_fd[1]);
	*ret_done_fd = done_fd[0];
	return pid;
}

uint64_t ckpt_last_saved(int done_fd, uint64_t none)
{
	uint64_t nr = none, v;

	while (read(done_fd, &v, 8) == 8)
		nr = v;
	close(done_fd);
	return nr;
}

void ckpt_check_left(const char *dir, const char *names)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	T_OK(d);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    !t_in_list(names, e->d_name))
			T_FAIL("%s/%s is left", dir, e->d_name);
	closedir(d);
}

void ckpt_dirs_create(struct ckpt_dirs *at, const char *name, bool striped)
{
	const char *in[CKPT_MEMBERS];
	struct penstock_err err;

	at->striped = striped;
	snprintf(at->folder, sizeof(at->folder), "%s", t_path(name));
	snprintf(at->file, sizeof(at->file), "%s/f", t_path(name));
	mkdir(at->folder, 0755);
	for (unsigned i = 0; striped && i < CKPT_MEMBERS; i++) {
		snprintf(at->members[i], sizeof(at->members[i]), "%s.%u", t_path(name), i);
		mkdir(at->members[i], 0755);
		in[i] = at->members[i];
	}
	if (striped)
		T_ERR(penstock_stripe_create(at->file, 65536, in, CKPT_MEMBERS, 0, &err), 0, &err);
}

void ckpt_dirs_check_left(const struct ckpt_dirs *at, const char *names)
{
	struct penstock_stripe_info *info;
	struct penstock_err err;

	ckpt_check_left(at->folder, names);
	if (!at->striped)
		return;
	T_ERR(penstock_stripe_load(&info, at->file, &err), 0, &err);
	T_EQ(info->nr, CKPT_MEMBERS);
	for (unsigned i = 0; i < CKPT_MEMBERS; i++) {
		const char *path = info->members[i].path, *folder = at->members[i];

		T_EQ(strncmp(path, folder, strlen(folder)), 0);
		ckpt_check_left(folder, path + strlen(folder) + 1);
	}
	penstock_stripe_free(info);
}
