/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/common/mounts.h"
#include "tests/common/t.h"

void mounts_need(void)
{
	if (!t_is_root())
		t_skip_all("root", "only root can mount file systems");
	if (unshare(CLONE_NEWNS) < 0)
		t_skip_all("root", "no mount namespace: %s", strerror(errno));
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		t_skip_all("root", "no private mounts: %s", strerror(errno));
}

int mounts_tmpfs(const char *name, const char *options)
{
	const char *at = t_path(name);

	mkdir(at, 0755);
	return mount("tmpfs", at, "tmpfs", 0, options) < 0 ? -errno : 0;
}

/* Run a program with its messages away; returns its exit status. */
static int run(char *const *argv)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* XFS takes no file system whose identity is mounted, and a kept copy has that of the detached one.
 */
static bool is_xfs(const char *image)
{
	char begin[4] = {0};
	int fd = open(image, O_RDONLY | O_CLOEXEC);
	bool is = fd >= 0 && read(fd, begin, sizeof(begin)) == sizeof(begin) &&
		  memcmp(begin, "XFSB", 4) == 0;

	close(fd);
	return is;
}

static int attach(const char *name)
{
	char image[PATH_MAX], at[PATH_MAX], options[] = "loop,nouuid", o[] = "-o", mnt[] = "mount";
	char *argv[] = {mnt, o, options, image, at, NULL};

	snprintf(at, sizeof(at), "%s", t_path(name));
	snprintf(image, sizeof(image), "%s.img", at);
	if (!is_xfs(image))
		options[strlen("loop")] = '\0';
	return run(argv) == 0 ? 0 : -ENOTSUP;
}

int mounts_image(const char *name, const char *type, uint64_t bytes)
{
	char image[PATH_MAX], mkfs[64], q[] = "-q";
	char *make[] = {mkfs, q, image, NULL};
	int fd;

	snprintf(image, sizeof(image), "%s.img", t_path(name));
	snprintf(mkfs, sizeof(mkfs), "mkfs.%s", type);
	mkdir(t_path(name), 0755);
	fd = open(image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	close(fd);
	if (run(make) != 0) {
		t_note("%s failed", mkfs);
		return -ENOTSUP;
	}
	if (attach(name) < 0) {
		t_note("mount of an %s image failed", type);
		return -ENOTSUP;
	}
	return 0;
}

int mounts_keep(const char *name)
{
	char image[PATH_MAX], kept[PATH_MAX];
	int from, to, r;

	snprintf(image, sizeof(image), "%s.img", t_path(name));
	snprintf(kept, sizeof(kept), "%s.kept", t_path(name));
	from = open(image, O_RDONLY | O_CLOEXEC);
	to = open(kept, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = from < 0 || to < 0 || ioctl(to, FICLONE, from) < 0 ? -errno : 0;
	close(from);
	close(to);
	return r;
}

int mounts_back(const char *name)
{
	char image[PATH_MAX], kept[PATH_MAX];

	snprintf(image, sizeof(image), "%s.img", t_path(name));
	snprintf(kept, sizeof(kept), "%s.kept", t_path(name));
	if (umount2(t_path(name), MNT_DETACH) < 0 || rename(kept, image) < 0)
		return -errno;
	return attach(name);
}

void mounts_end(const char *name)
{
	char image[PATH_MAX];

	umount2(t_path(name), MNT_DETACH);
	rmdir(t_path(name));
	snprintf(image, sizeof(image), "%s.img", t_path(name));
	unlink(image);
}

/* ------------------------------------------------------------------- badfs */

static pid_t server = -1;
static char server_at[PATH_MAX];

static void stop_server(void)
{
	int status;

	if (server <= 0)
		return;
	kill(server, SIGTERM); /* it unmounts */
	waitpid(server, &status, 0);
	umount2(server_at, MNT_DETACH);
	server = -1;
}

void mounts_badfs(const char *name, const char *program, bool async)
{
	char line[16] = "";
	int out[2];
	ssize_t n;

	if (access("/dev/fuse", R_OK | W_OK) < 0)
		t_skip_all("fuse", "/dev/fuse: %s", strerror(errno));
	t_dir(); /* so that it is removed after the server is gone */
	snprintf(server_at, sizeof(server_at), "%s", t_path(name));
	if (mkdir(server_at, 0755) < 0 || pipe2(out, O_CLOEXEC) < 0)
		t_skip_all("fuse", "%s: %s", server_at, strerror(errno));
	fflush(stdout);
	server = fork();
	if (server == 0) {
		dup2(out[1], 1);
		execl(program, program, server_at, async ? "async" : "sync", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	n = read(out[0], line, sizeof(line) - 1);
	close(out[0]);
	if (n <= 0 || strncmp(line, "ready", 5)) {
		stop_server();
		t_skip_all("fuse", "%s cannot be mounted here", program);
	}
	atexit(stop_server);
}
