/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody else can do in a folder while we use it, and what is left when we are killed: only
 * what was made is written to and removed.  See docs/security.md.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "tests/common/flowkit.h"

static struct penstock_err err;
static const struct place_opts raw = {.kind = PLACE_FILES, .layout = PLACE_RAW};
static const struct place_opts hashed = {.kind = PLACE_FILES, .layout = PLACE_RAW, .hashed = true};
static const struct place_opts slab = {.kind = PLACE_SLAB, .capacity = MIB(8)};
static const char precious[] = "precious";

static void put_text(const char *name, const char *text, int flags)
{
	int fd = open(t_path(name), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

	T_OK(fd >= 0);
	T_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

#define T_PRECIOUS(name) T_FILE(t_path(name), precious, strlen(precious))

static bool is_there(const char *name)
{
	struct stat st;

	return lstat(t_path(name), &st) == 0;
}

static void clean_up(const char *name)
{
	char command[PATH_MAX + 16];

	snprintf(command, sizeof(command), "rm -rf '%s'", t_path(name));
	T_EQ(system(command), 0);
}

/* What place_open() says; the place is closed again. */
static int try_open(struct place_opts o, const char *name)
{
	const char *path = t_path(name);
	struct place *p;
	int r;

	o.paths = &path;
	o.nr_paths = 1;
	r = place_check(&o, &err);
	if (r == 0)
		r = place_open(&p, &o, &err);
	return r < 0 ? r : place_close(p, &err);
}

static void begin(struct place_opts o, const char *name)
{
	fk_setup();
	fk_add(o, name);
	fk_open();
}

/* A run that is killed with object "ours" complete and "half" begun. */
static void killed_run(struct place_opts o, const char *name)
{
	char half[PATH_MAX];
	int status;
	pid_t pid;

	snprintf(half, sizeof(half), "%s/half", name);
	pid = fork();
	if (pid == 0) {
		begin(o, name);
		fk_do(fk_write(0, 1, "ours", 100000));
		FK_CHAIN(fk_write(0, 2, "half", MIB(64)));
		do {
			flow_wait(fk_flow, clock_ns() + 100000, NULL);
		} while (!is_there(half));
		kill(getpid(), SIGKILL);
	}
	T_EQ(waitpid(pid, &status, 0), pid);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* --------------------------------------------------------------- during a run */

static void lines_added_to_the_marker_claim_nothing(void)
{
	begin(raw, "f");
	FK_DO(fk_write(0, 1, "ours", 5000), 5000);
	put_text("f/theirs", precious, 0);
	put_text("f/.penstock-objects", "+theirs\n+../outside\n", O_APPEND);
	put_text("outside", precious, 0);
	fk_close();
	T_PRECIOUS("f/theirs");
	T_PRECIOUS("outside");
	T_OK(!is_there("f/ours") && !is_there("f/.penstock-objects"));
}

static void another_file_under_our_name_is_not_touched(void)
{
	begin(raw, "f");
	FK_DO(fk_write(0, 1, "a", 5000), 5000);
	FK_DO(fk_write(0, 2, "b", 5000), 5000);
	FK_DO(fk_write(0, 3, "c", 5000), 5000);
	for (const char *c = "abc"; *c; c++) {
		char name[] = {'f', '/', *c, 0};

		T_EQ(unlink(t_path(name)), 0);
		put_text(name, precious, 0);
	}
	FK_DO(fk_read(0, 1), -ESTALE);
	T_STR_HAS(fk_done[fk_nr_done - 1].error, "another file has its name");
	FK_DO(fk_range(fk_write(0, 1, "a", 0), 0, 8), -ESTALE);
	FK_DO(fk_delete(0, 2), -ESTALE);
	FK_DO(fk_write(0, 3, "c", 6000), 6000); /* beside it */
	FK_DO(fk_read(0, 3), 6000);
	fk_close();
	T_PRECIOUS("f/a");
	T_PRECIOUS("f/b");
	T_PRECIOUS("f/c");
	T_EQ(fk_entries("f"), 3);
}

/* The sub-folder in which the only object is. */
static void sub_of(const char *folder, char out[PATH_MAX])
{
	for (unsigned i = 0; i < 4096; i++) {
		snprintf(out, PATH_MAX, "%s/%03x", folder, i);
		if (is_there(out))
			return;
	}
	T_FAIL("no sub-folder");
}

static void a_link_for_a_sub_folder_leads_nowhere(void)
{
	char sub[PATH_MAX], moved[PATH_MAX];

	T_EQ(mkdir(t_path("elsewhere"), 0755), 0);
	put_text("elsewhere/a", precious, 0);
	begin(hashed, "f");
	FK_DO(fk_write(0, 1, "a", 5000), 5000);
	sub_of("f", sub);
	snprintf(moved, sizeof(moved), "%s-moved", sub);
	T_EQ(rename(t_path(sub), t_path(moved)), 0);
	T_EQ(symlink(t_path("elsewhere"), t_path(sub)), 0);
	T_OK(fk_do(fk_read(0, 1)) < 0);
	T_OK(fk_do(fk_range(fk_write(0, 1, "a", 0), 0, 8)) < 0);
	T_OK(fk_do(fk_delete(0, 1)) < 0);
	T_OK(fk_do(fk_write(0, 2, "a", 5000)) < 0);
	fk_close_flow();
	T_EQ(place_close(TAKE_PTR(fk_place[0]), &err), -ENOTDIR); /* and it says so */
	T_PRECIOUS("elsewhere/a");
	T_EQ(fk_entries("elsewhere"), 1);
}

static void a_folder_put_in_the_place_of_ours_is_not_touched(void)
{
	begin(raw, "f");
	FK_DO(fk_write(0, 1, "a", 5000), 5000);
	T_EQ(rename(t_path("f"), t_path("moved")), 0);
	T_EQ(mkdir(t_path("f"), 0755), 0);
	put_text("f/a", precious, 0);
	FK_DO(fk_read(0, 1), 5000);
	FK_DO(fk_write(0, 2, "b", 5000), 5000);
	FK_DO(fk_range(fk_write(0, 1, "a", 0), 0, 4096), 4096);
	FK_DO(fk_delete(0, 1), 0);
	T_OK(is_there("moved/b") && !is_there("f/b") && !is_there("moved/a"));
	fk_close();
	T_PRECIOUS("f/a");
	T_EQ(fk_entries("f"), 1);
	T_OK(!is_there("moved/b") && !is_there("moved/.penstock-objects"));
}

static void a_slab_put_in_the_place_of_ours_is_not_removed(void)
{
	begin(slab, "s");
	FK_DO(fk_write(0, 1, "a", 5000), 5000);
	T_EQ(rename(t_path("s"), t_path("moved")), 0);
	put_text("s", precious, 0);
	FK_DO(fk_read(0, 1), 5000);
	fk_close();
	T_PRECIOUS("s");
}

/* --------------------------------------------------------------- before a run */

static void a_marker_that_others_may_write_is_not_believed(void)
{
	killed_run(raw, "f");
	T_EQ(chmod(t_path("f/.penstock-objects"), 0664), 0);
	T_EQ(try_open(raw, "f"), -EPERM);
	T_STR_HAS(err.msg, "f/.penstock-objects: ");
	T_OK(is_there("f/ours") && is_there("f/half"));
	T_EQ(chmod(t_path("f/.penstock-objects"), 0644), 0);
	T_EQ(link(t_path("f/.penstock-objects"), t_path("again")), 0);
	T_EQ(try_open(raw, "f"), -EPERM);
	T_EQ(unlink(t_path("again")), 0);
	T_ERR(try_open(raw, "f"), 0, &err);
	T_OK(!is_there("f"));
}

static void what_another_user_left_is_not_believed(void)
{
	struct place_opts keep = slab;

	if (!t_is_root())
		T_SKIP("root", "needs a second user");
	killed_run(raw, "f");
	T_EQ(chown(t_path("f/.penstock-objects"), 65534, 65534), 0);
	T_EQ(try_open(raw, "f"), -EPERM);
	T_STR_HAS(err.msg, "user 65534");
	T_OK(is_there("f/ours"));
	clean_up("f");
	keep.keep = true;
	T_ERR(try_open(keep, "s"), 0, &err);
	T_EQ(place_is_kept(&(struct place_opts){
		     .kind = PLACE_SLAB, .paths = (const char *[]){t_path("s")}, .nr_paths = 1}),
	     1);
	T_EQ(chown(t_path("s"), 65534, 65534), 0);
	T_EQ(try_open(slab, "s"), -EPERM);
	T_EQ(place_is_kept(&(struct place_opts){
		     .kind = PLACE_SLAB, .paths = (const char *[]){t_path("s")}, .nr_paths = 1}),
	     0);
	T_OK(is_there("s"));
}

static void a_file_made_after_a_kill_under_our_name_is_not_removed(void)
{
	static const char *const names[] = {"f/ours", "f/half"};

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		killed_run(raw, "f");
		T_EQ(unlink(t_path(names[i])), 0);
		put_text(names[i], precious, 0);
		T_EQ(try_open(raw, "f"), -EEXIST);
		T_STR_HAS(err.msg, names[i]);
		T_PRECIOUS(names[i]);
		T_EQ(unlink(t_path(names[i])), 0);
		T_ERR(try_open(raw, "f"), 0, &err);
		T_OK(!is_there("f"));
	}
}

/* The number in the first line of a marker. */
static uint64_t owner_of(const char *marker)
{
	char line[128] = "";
	CLEANUP_CLOSE int fd = open(t_path(marker), O_RDONLY | O_CLOEXEC);

	T_OK(fd >= 0 && read(fd, line, sizeof(line) - 1) > 0 && strstr(line, " owner="));
	return strtoull(strstr(line, " owner=") + strlen(" owner="), NULL, 16);
}

/* A line that was begun names a file, but not which; one of a name that we alone know is ours. */
static void an_empty_file_of_a_name_that_was_begun_is_not_removed(void)
{
	char new[64];

	killed_run(raw, "f");
	put_text("f/.penstock-objects", "+begun\n", O_APPEND);
	put_text("f/begun", "", 0);
	T_EQ(try_open(raw, "f"), -EEXIST);
	T_STR_HAS(err.msg, "f/begun: was not made here");
	T_OK(is_there("f/begun") && is_there("f/ours"));
	T_EQ(unlink(t_path("f/begun")), 0);
	snprintf(new, sizeof(new), "f/~new~%016" PRIx64 "~7", owner_of("f/.penstock-objects"));
	put_text(new, precious, 0);
	T_EQ(try_open(raw, "f"), -EEXIST);
	T_PRECIOUS(new);
	put_text(new, "", O_TRUNC);
	T_ERR(try_open(raw, "f"), 0, &err);
	T_OK(!is_there("f"));
}

static const struct t_case cases[] = {
	T_CASE(lines_added_to_the_marker_claim_nothing),
	T_CASE(another_file_under_our_name_is_not_touched),
	T_CASE(a_link_for_a_sub_folder_leads_nowhere),
	T_CASE(a_folder_put_in_the_place_of_ours_is_not_touched),
	T_CASE(a_slab_put_in_the_place_of_ours_is_not_removed),
	T_CASE(a_marker_that_others_may_write_is_not_believed),
	T_CASE(what_another_user_left_is_not_believed),
	T_CASE(a_file_made_after_a_kill_under_our_name_is_not_removed),
	T_CASE(an_empty_file_of_a_name_that_was_begun_is_not_removed),
};

/* Of a case that failed, too. */
static void teardown(void)
{
	static const char *const names[] = {"f", "s", "moved", "elsewhere", "outside", "again"};

	fk_teardown();
	for (unsigned i = 0; i < T_COUNT(names); i++)
		clean_up(names[i]);
}

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {
		{"attacks", NULL, teardown, cases, T_COUNT(cases)},
	};

	if (argc > 1)
		fk_engine = argv[1];
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
