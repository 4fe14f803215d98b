/* SPDX-License-Identifier: Apache-2.0 */
/* Striped files: where bytes lie, what is said of members that are not as they were, sizes. */
#include <penstock/ckpt.h>
#include <penstock/stripe.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/util.h"
#include "file/manifest.h"
#include "file/stripe.h"
#include "tests/common/t.h"

enum { UNIT = 8192, MEMBERS = 3, BYTES = 100000, SEED = 7 };

static struct penstock_io *io;
static const char *folders[MEMBERS];
static char member_dirs[MEMBERS][PATH_MAX], name[PATH_MAX];
static struct penstock_stripe_info *info;

static void setup(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err;

	o.engine = "threads";
	T_ERR(penstock_open(&io, &o, &err), 0, &err);
	snprintf(name, sizeof(name), "%s", t_path("tensor"));
	for (unsigned i = 0; i < MEMBERS; i++) {
		snprintf(member_dirs[i], sizeof(member_dirs[i]), "%s/m%u", t_dir(), i);
		mkdir(member_dirs[i], 0755);
		folders[i] = member_dirs[i];
	}
	T_ERR(penstock_stripe_create(name, UNIT, folders, MEMBERS, 0, &err), 0, &err);
}

static void load_info(void)
{
	struct penstock_err err;

	penstock_stripe_free(info);
	info = NULL;
	T_ERR(penstock_stripe_load(&info, name, &err), 0, &err);
}

static void teardown(void)
{
	struct penstock_err err;
	char cmd[PATH_MAX + 100];

	penstock_stripe_free(info);
	info = NULL;
	T_ERR(penstock_close(io, &err), 0, &err);
	snprintf(cmd, sizeof(cmd), "rm -rf %s/* %s/.penstock*", t_dir(), t_dir());
	T_EQ(system(cmd), 0);
}

static void fill(uint64_t len)
{
	unsigned char *buf = malloc(len);
	struct penstock_file *f;
	struct penstock_err err;

	penstock_pattern_fill(buf, len, SEED, 0);
	T_ERR(penstock_file_open(&f, io, name, O_RDWR, 0, &err), 0, &err);
	T_ERR(penstock_pwrite(f, buf, len, 0, &err), (int64_t)len, &err);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	free(buf);
}

static int64_t size_of(void)
{
	struct penstock_file_info i = {.size = sizeof(i)};
	struct penstock_file *f;
	struct penstock_err err;

	T_ERR(penstock_file_open(&f, io, name, O_RDONLY, 0, &err), 0, &err);
	T_EQ(penstock_file_stat(f, &i), 0);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	return (int64_t)i.bytes;
}

/* Opening fails like this, and so does an operation by path; looking says which member. */
static void refuses(int code, unsigned member, uint32_t state, const char *says)
{
	struct penstock_file *f = NULL;
	struct penstock_err err;
	char byte, place[64];
	struct penstock_op op = {.opcode = PENSTOCK_READ, .path = name, .buf = &byte, .len = 1};
	struct penstock_done done;

	snprintf(place, sizeof(place), "tensor: member %u of %u, ", member + 1, MEMBERS);
	T_ERR(penstock_file_open(&f, io, name, O_RDWR, 0, &err), code, &err);
	T_STR_HAS(err.msg, place);
	T_STR_HAS(err.msg, says);
	T_ERR(penstock_run(io, &op, &done, &err), code, &err);
	load_info();
	for (unsigned i = 0; i < MEMBERS; i++)
		T_EQ(info->members[i].state, i == member ? state : PENSTOCK_MEMBER_GOOD);
	T_STR_HAS(info->members[member].why, says);
}

/* ------------------------------------------------------------------- cases */

static void shares_add_up_and_point_back(void)
{
	struct penstock_stripe t = {.unit = 3 * 4096, .nr = 5};

	for (uint64_t end = 0; end < 40 * t.unit; end += 1111) {
		uint64_t sum = 0, least = INT64_MAX;

		for (unsigned i = 0; i < t.nr; i++) {
			uint64_t share = penstock_stripe_member_bytes(&t, i, end);
			uint64_t next = penstock_stripe_offset(&t, i, share);

			sum += share;
			least = next < least ? next : least;
			T_OK(next >= end);
			T_OK(!share || penstock_stripe_offset(&t, i, share - 1) < end);
		}
		T_EQ(sum, end);
		T_EQ(least, end);
	}
	T_EQ(penstock_stripe_offset(&t, 4, UINT64_MAX), INT64_MAX);
}

static void bytes_lie_in_the_members_by_turns(void)
{
	unsigned char *buf = malloc(BYTES), part[UNIT];
	struct penstock_file_info i = {.size = sizeof(i)};
	struct penstock_file *f;
	struct penstock_err err;

	fill(BYTES);
	load_info();
	T_EQ(info->bytes, BYTES);
	for (uint64_t at = 0, unit = 0; at < BYTES; at += UNIT, unit++) {
		uint64_t len = BYTES - at < UNIT ? BYTES - at : UNIT;
		int fd = open(info->members[unit % MEMBERS].path, O_RDONLY);

		T_EQ(pread(fd, part, len, (off_t)(STRIPE_DATA + unit / MEMBERS * UNIT)), len);
		T_EQ(penstock_pattern_check(part, len, SEED, at), len);
		close(fd);
	}
	T_ERR(penstock_file_open(&f, io, name, O_RDONLY, 0, &err), 0, &err);
	T_ERR(penstock_pread(f, buf, BYTES, 0, &err), BYTES, &err);
	T_EQ(penstock_pattern_check(buf, BYTES, SEED, 0), BYTES);
	T_EQ(penstock_pread(f, buf, 10, BYTES + 5 * UNIT, &err), 0);
	T_EQ(penstock_file_stat(f, &i), 0);
	T_OK(i.block <= UNIT);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	free(buf);
}

static void a_missing_member_is_named(void)
{
	fill(BYTES);
	load_info();
	T_EQ(unlink(info->members[1].path), 0);
	refuses(-ENOENT, 1, PENSTOCK_MEMBER_MISSING, "No such file");
}

static void a_foreign_member_is_named(void)
{
	struct penstock_stripe_info *other;
	struct penstock_err err;
	char path[PATH_MAX];

	fill(BYTES);
	load_info();
	snprintf(path, sizeof(path), "%s", info->members[2].path);
	T_EQ(unlink(path), 0);
	t_file_make(path, 1, MIB(2));
	refuses(-EBADMSG, 2, PENSTOCK_MEMBER_FOREIGN, "is foreign: it has no header");
	T_ERR(penstock_stripe_create(t_path("other"), UNIT, folders, MEMBERS, 0, &err), 0, &err);
	T_ERR(penstock_stripe_load(&other, t_path("other"), &err), 0, &err);
	T_EQ(rename(other->members[2].path, path), 0);
	penstock_stripe_free(other);
	refuses(-EBADMSG, 2, PENSTOCK_MEMBER_FOREIGN, "is foreign: it belongs to another");
}

static void exchanged_members_are_named(void)
{
	struct penstock_file *f;
	struct penstock_err err;

	fill(BYTES);
	load_info();
	T_EQ(rename(info->members[0].path, t_path("x")), 0);
	T_EQ(rename(info->members[1].path, info->members[0].path), 0);
	T_EQ(rename(t_path("x"), info->members[1].path), 0);
	T_ERR(penstock_file_open(&f, io, name, O_RDONLY, 0, &err), -EBADMSG, &err);
	T_STR_HAS(err.msg, "member 1 of 3");
	T_STR_HAS(err.msg, "is exchanged: it is member 2");
	load_info();
	T_EQ(info->members[0].state, PENSTOCK_MEMBER_EXCHANGED);
	T_EQ(info->members[1].state, PENSTOCK_MEMBER_EXCHANGED);
	T_EQ(info->members[2].state, PENSTOCK_MEMBER_GOOD);
}

static void a_short_member_is_named(void)
{
	struct stat st;

	fill(BYTES);
	load_info();
	T_EQ(stat(info->members[1].path, &st), 0);
	T_EQ(truncate(info->members[1].path, st.st_size - 1), 0);
	refuses(-ENODATA, 1, PENSTOCK_MEMBER_SHORT, "is short");
	T_EQ(truncate(info->members[1].path, st.st_size), 0);
	T_EQ(size_of(), BYTES);
}

static void a_damaged_manifest_is_refused(void)
{
	struct penstock_file *f;
	struct penstock_err err;
	int fd = open(name, O_RDWR);

	T_EQ(pwrite(fd, "~", 1, 40), 1); /* it is never there */
	close(fd);
	T_ERR(penstock_file_open(&f, io, name, O_RDWR | O_TRUNC, 0, &err), -EBADMSG, &err);
	T_STR_HAS(err.msg, "damaged manifest");
	T_EQ(t_file_size(name), MANIFEST_STEP);
	/* Another file of that size is a file. */
	t_file_make(t_path("plain"), 3, MANIFEST_STEP);
	T_ERR(penstock_file_open(&f, io, t_path("plain"), O_RDWR, 0, &err), 0, &err);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	T_EQ(penstock_stripe_get_kind(t_path("plain")), 0);
}

/* With a sum that is right: whoever may write a member may write this. */
static void a_header_that_ends_before_its_name_is_read(void)
{
	struct penstock_member_header head;
	char text[MEMBER_HEADER_BYTES] =
		"penstock member of a striped file 1\nid 0123456789abcdef\n"
		"member 2 of 3\nunit 8192\nsettled 5\n";
	size_t len = strlen(text);

	snprintf(text + len, sizeof(text) - len, "crc %08x\n", penstock_crc32c(0, text, len));
	T_EQ(penstock_member_header_parse(&head, text), 0);
	T_OK(head.index == 1 && head.recorded_bytes == 5 && !head.name[0]);
}

static void opening_with_o_trunc_empties_the_members_not_the_manifest(void)
{
	struct penstock_file *f;
	struct penstock_err err;

	fill(BYTES);
	T_ERR(penstock_file_open(&f, io, name, O_WRONLY | O_CREAT | O_TRUNC, 0644, &err), 0, &err);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	load_info();
	T_EQ(info->bytes, 0);
	for (unsigned i = 0; i < MEMBERS; i++) {
		T_EQ(info->members[i].state, PENSTOCK_MEMBER_GOOD);
		T_EQ(info->members[i].bytes, 0);
	}
}

static void a_write_with_truncation_sets_the_size_of_all(void)
{
	char buf[100] = "x";
	struct penstock_op op = {.opcode = PENSTOCK_WRITE,
				 .flags = PENSTOCK_OP_TRUNCATE | PENSTOCK_OP_FULLSYNC,
				 .path = name,
				 .buf = buf,
				 .len = sizeof(buf)};
	struct penstock_done done;
	struct penstock_err err;

	fill(BYTES);
	T_ERR(penstock_run(io, &op, &done, &err), 0, &err);
	T_EQ(done.res, sizeof(buf));
	T_EQ(size_of(), sizeof(buf));
	op.offset = 3 * UNIT + 7;
	T_ERR(penstock_run(io, &op, &done, &err), 0, &err);
	T_EQ(size_of(), 3 * UNIT + 107);
}

static void what_a_killed_writer_left_is_cut(void)
{
	struct penstock_file *f;
	struct penstock_err err;
	unsigned char buf[64], zero[64] = {0};

	fill(BYTES);
	load_info();
	/* Members were made longer and written to, but not the one that the end is in. */
	T_EQ(BYTES / UNIT % MEMBERS, 0);
	for (unsigned i = 1; i < MEMBERS; i++) {
		int fd = open(info->members[i].path, O_WRONLY);

		T_EQ(lseek(fd, 0, SEEK_END) > 0, 1);
		memset(buf, 0xee, sizeof(buf));
		for (int n = 0; n < 3 * UNIT / 64; n++)
			T_EQ(write(fd, buf, sizeof(buf)), sizeof(buf));
		close(fd);
	}
	T_EQ(size_of(), BYTES);
	T_ERR(penstock_file_open(&f, io, name, O_RDWR, 0, &err), 0, &err);
	T_EQ(penstock_pwrite(f, "end", 3, 20 * UNIT, &err), 3);
	for (uint64_t at = BYTES; at + 64 < 20 * UNIT; at += 64) {
		T_EQ(penstock_pread(f, buf, sizeof(buf), at, &err), sizeof(buf));
		T_MEM(buf, zero, sizeof(buf));
	}
	T_ERR(penstock_file_close(f, &err), 0, &err);
	T_EQ(size_of(), 20 * UNIT + 3);
}

static void nothing_is_made_where_something_is(void)
{
	struct penstock_err err;
	const char *mixed[] = {member_dirs[0], "/dev/null"};
	int fds = t_nr_fds();

	T_ERR(penstock_stripe_create(name, UNIT, folders, MEMBERS, 0, &err), -EEXIST, &err);
	T_STR_HAS(err.msg, "is there already");
	T_ERR(penstock_stripe_create(t_path("n"), 1000, folders, MEMBERS, 0, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "unit: 1000");
	T_ERR(penstock_stripe_create(t_path("n"), UNIT, folders, 0, 0, &err), -EINVAL, &err);
	T_ERR(penstock_stripe_create(t_path("n"), UNIT, mixed, 2, 0, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "/dev/null: is neither");
	mixed[1] = "/nowhere";
	T_ERR(penstock_stripe_create(t_path("n"), UNIT, mixed, 2, 0, &err), -ENOENT, &err);
	T_ERR(penstock_stripe_create(t_path("no/n"), UNIT, folders, 2, 0, &err), -ENOENT, &err);
	T_EQ(t_file_size(t_path("n")), -ENOENT);
	T_ERR(penstock_stripe_remove(t_path("m0"), &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "is not a striped folder");
	T_EQ(t_nr_fds(), fds);
	load_info();
	T_EQ(info->members[2].state, PENSTOCK_MEMBER_GOOD);
}

static void removing_leaves_nothing_and_nothing_else_goes(void)
{
	struct penstock_err err;

	fill(BYTES);
	load_info();
	for (unsigned i = 1; i < 3; i++) {
		T_EQ(unlink(info->members[i].path), 0);
		t_file_make(info->members[i].path, 1, 5000);
	}
	T_ERR(penstock_stripe_remove(name, &err), -EBADMSG, &err);
	T_STR_HAS(err.msg, "removed, but not 2 of its 3 members: member 2 of 3");
	T_EQ(t_file_size(name), -ENOENT);
	T_EQ(t_file_size(info->members[0].path), -ENOENT);
	T_EQ(t_file_size(info->members[1].path), 5000);
	T_EQ(t_file_size(info->members[2].path), 5000);
}

static void a_manifest_that_names_itself_is_no_trap(void)
{
	struct penstock_manifest m = {
		.id = "00112233445566778899aabbccddeeff", .unit = UNIT, .nr = 1, .members = {name}};
	struct penstock_file *f;
	struct penstock_err err;
	size_t len;
	char *text = penstock_manifest_format(&m, &len);
	int fd = open(name, O_WRONLY | O_TRUNC);

	T_EQ(write(fd, text, len), len);
	close(fd);
	free(text);
	T_ERR(penstock_file_open(&f, io, name, O_RDONLY, 0, &err), -EBADMSG, &err);
	T_STR_HAS(err.msg, "is foreign");
}

/* ----------------------------------------------------------------- folders */

static char swap[PATH_MAX];

static void make_folder(void)
{
	struct penstock_err err;

	snprintf(swap, sizeof(swap), "%s", t_path("swap"));
	T_ERR(penstock_stripe_create(swap, UNIT, folders, MEMBERS, PENSTOCK_STRIPE_FOLDER, &err), 0,
	      &err);
	T_EQ(penstock_stripe_get_kind(swap), 2);
}

static void write_to(const char *path, uint64_t len, int64_t want)
{
	unsigned char *buf = malloc(len);
	struct penstock_op op = {.opcode = PENSTOCK_WRITE,
				 .flags = PENSTOCK_OP_FULLSYNC,
				 .path = path,
				 .buf = buf,
				 .len = len};
	struct penstock_done done = {0};
	struct penstock_err err;
	int r;

	penstock_pattern_fill(buf, len, SEED, 0);
	r = penstock_run(io, &op, &done, &err);
	if (want < 0)
		T_EQ(r < 0 ? r : done.res, want);
	else
		T_ERR(r < 0 ? r : done.res, want, &err);
	free(buf);
}

static void files_made_in_a_striped_folder_are_striped(void)
{
	struct stat st, after;
	struct penstock_err err;
	char path[PATH_MAX + 40], first[PATH_MAX];
	int fd;

	make_folder();
	snprintf(path, sizeof(path), "%s/rank0", swap);
	T_EQ(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/rank0/p.swp", swap);
	write_to(path, BYTES, BYTES);
	T_EQ(penstock_stripe_get_kind(path), 1);
	snprintf(name, sizeof(name), "%s", path);
	load_info();
	T_EQ(info->bytes, BYTES);
	snprintf(first, sizeof(first), "%s", info->members[0].path);
	/* Whoever made it, and it stays the file it was. */
	snprintf(path, sizeof(path), "%s/made", swap);
	fd = open(path, O_WRONLY | O_CREAT, 0640);
	T_EQ(fstat(fd, &st), 0);
	close(fd);
	write_to(path, BYTES, BYTES);
	T_EQ(stat(path, &after), 0);
	T_EQ(after.st_ino, st.st_ino);
	T_EQ(after.st_mode, st.st_mode);
	T_EQ(penstock_stripe_bytes(path, after.st_size), BYTES);
	/* Hidden files, and files with something in them, are left alone. */
	snprintf(path, sizeof(path), "%s/.hidden", swap);
	write_to(path, BYTES, BYTES);
	T_FILE_PATTERN(path, SEED, BYTES);
	T_EQ(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/old", swap);
	t_file_make(path, 1, 10);
	write_to(path, BYTES, BYTES);
	T_FILE_PATTERN(path, SEED, BYTES);
	T_EQ(unlink(path), 0);
	T_ERR(penstock_stripe_remove(swap, &err), -ENOTEMPTY, &err);
	snprintf(path, sizeof(path), "%s/made", swap);
	T_EQ(penstock_stripe_unlink(AT_FDCWD, path), 0);
	T_EQ(penstock_stripe_unlink(AT_FDCWD, path), -ENOENT);
	T_EQ(penstock_stripe_unlink(AT_FDCWD, name), 0);
	T_EQ(t_file_size(first), -ENOENT);
	snprintf(path, sizeof(path), "%s/rank0", swap);
	T_EQ(rmdir(path), 0);
	T_ERR(penstock_stripe_remove(swap, &err), 0, &err);
	T_EQ(t_file_size(swap), -ENOENT);
}

static void members_that_lost_their_file_go(void)
{
	char path[PATH_MAX + 40], member[PATH_MAX];
	struct penstock_err err;
	struct stat st;

	make_folder();
	snprintf(path, sizeof(path), "%s/p.swp", swap);
	write_to(path, BYTES, BYTES);
	snprintf(name, sizeof(name), "%s", path);
	load_info();
	snprintf(member, sizeof(member), "%s", info->members[1].path);
	/* Emptied by somebody who knows nothing: the same inode, other members. */
	T_EQ(truncate(path, 0), 0);
	write_to(path, 100, 100);
	load_info();
	T_EQ(info->bytes, 100);
	T_EQ(strcmp(info->members[1].path, member), 0);
	T_EQ(unlink(path), 0);
	T_EQ(stat(member, &st), 0);
	T_ERR(penstock_stripe_remove(swap, &err), 0, &err);
	T_EQ(stat(member, &st), -1);
}

static void a_mark_that_others_may_write_is_not_believed(void)
{
	char path[PATH_MAX + 40];

	make_folder();
	snprintf(path, sizeof(path), "%s/.penstock-stripe", swap);
	T_EQ(chmod(path, 0666), 0);
	snprintf(path, sizeof(path), "%s/p.swp", swap);
	write_to(path, BYTES, BYTES);
	T_FILE_PATTERN(path, SEED, BYTES);
}

static void a_folder_without_its_members_fails_and_loses_nothing(void)
{
	char path[PATH_MAX + 40];

	make_folder();
	snprintf(name, sizeof(name), "%s", swap);
	load_info();
	T_EQ(rmdir(info->members[2].path), 0);
	snprintf(path, sizeof(path), "%s/p.swp", swap);
	write_to(path, BYTES, -ENOENT);
	T_EQ(t_file_size(path), 0);
	load_info();
	T_EQ(info->members[2].state, PENSTOCK_MEMBER_MISSING);
	T_EQ(rmdir(info->members[0].path), 0); /* nothing was left there */
}

/* Of a file whose remover was killed, and of none that is there. */
static void sweeping_takes_members_of_what_is_gone(void)
{
	char path[PATH_MAX + 40], member[PATH_MAX];
	struct stat st, now;

	make_folder();
	snprintf(path, sizeof(path), "%s/p.swp", swap);
	write_to(path, BYTES, BYTES);
	snprintf(name, sizeof(name), "%s", path);
	load_info();
	snprintf(member, sizeof(member), "%s", info->members[1].path);
	T_EQ(stat(path, &st), 0);
	penstock_stripe_remove_orphans(swap, st.st_ino);
	T_EQ(stat(member, &now), 0);
	T_EQ(unlink(path), 0);
	penstock_stripe_remove_orphans(swap, st.st_ino + 1);
	T_EQ(stat(member, &now), 0);
	penstock_stripe_remove_orphans(swap, st.st_ino);
	T_EQ(stat(member, &now), -1);
	/* of one that was in a folder below */
	snprintf(path, sizeof(path), "%s/below", swap);
	T_EQ(mkdir(path, 0755), 0);
	snprintf(name, sizeof(name), "%s/below/p.swp", swap);
	write_to(name, BYTES, BYTES);
	load_info();
	snprintf(member, sizeof(member), "%s", info->members[1].path);
	T_EQ(stat(name, &st), 0);
	T_EQ(unlink(name), 0);
	T_EQ(mkdir(t_path("elsewhere"), 0755), 0);
	penstock_stripe_remove_orphans(t_path("elsewhere"), st.st_ino);
	T_EQ(stat(member, &now), 0);
	penstock_stripe_remove_orphans(path, st.st_ino);
	T_EQ(stat(member, &now), -1);
	T_EQ(rmdir(path), 0);
}

/* The question has the answer that the file then gets. */
static void a_folder_tells_whether_its_files_will_be_striped(void)
{
	struct penstock_stripe_info *of = NULL;
	char path[PATH_MAX], file[PATH_MAX + 20];
	struct penstock_err err;
	int fd;

	make_folder();
	snprintf(path, sizeof(path), "%s", swap);
	for (unsigned below = 0; below <= 9; below++) {
		T_EQ(penstock_stripe_load_folder(NULL, path, &err), below <= 8);
		T_ERR(penstock_stripe_load_folder(&of, path, &err), below <= 8, &err);
		if (below <= 8) {
			T_EQ(of->nr, MEMBERS);
			T_EQ(of->unit, UNIT);
			T_EQ(of->members[0].state, PENSTOCK_MEMBER_GOOD);
			penstock_stripe_free(of);
		}
		snprintf(file, sizeof(file), "%s/f", path);
		write_to(file, BYTES, BYTES);
		T_EQ(penstock_stripe_get_kind(file), below <= 8);
		T_EQ(penstock_stripe_unlink(AT_FDCWD, file), 0);
		strcat(path, "/d");
		T_EQ(penstock_stripe_load_folder(NULL, path, &err), -ENOENT);
		T_EQ(mkdir(path, 0755), 0);
	}
	T_EQ(penstock_stripe_load_folder(NULL, t_dir(), &err), 0);
	snprintf(path, sizeof(path), "%s/d", swap);
	snprintf(file, sizeof(file), "%s/.penstock-stripe", swap);
	T_EQ(chmod(file, 0666), 0);
	T_EQ(penstock_stripe_load_folder(NULL, path, &err), 0);
	T_EQ(chmod(file, 0644), 0);
	fd = open(file, O_WRONLY);
	T_EQ(pwrite(fd, "x", 1, 30), 1);
	close(fd);
	T_EQ(penstock_stripe_load_folder(NULL, path, &err), -EBADMSG);
	T_OK(strstr(err.msg, path) && strstr(err.msg, "damaged"));
}

/* A stream writer's file at @path, of which there is nothing after an abort. */
static void save(const char *path, uint64_t len, bool commit)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	unsigned char *buf = malloc(len);
	struct penstock_writer *w;
	struct penstock_err err;

	penstock_pattern_fill(buf, len, SEED, 0);
	o.expected = len + 3 * UNIT; /* more than there will be */
	T_ERR(penstock_writer_open(&w, io, path, &o, &err), 0, &err);
	T_ERR(penstock_writer_write(w, buf, len, &err), 0, &err);
	if (commit)
		T_ERR(penstock_writer_commit(w, &err), 0, &err);
	else
		penstock_writer_abort(w);
	free(buf);
}

static void load(const char *path, uint64_t len)
{
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	unsigned char *buf = malloc(len + 1);
	struct penstock_reader *r;
	struct penstock_err err;

	o.verify = PENSTOCK_VERIFY_ALWAYS;
	T_ERR(penstock_reader_open(&r, io, path, &o, &err), 0, &err);
	T_EQ(penstock_reader_read(r, buf, len + 1, &err), len);
	T_EQ(penstock_pattern_check(buf, len, SEED, 0), len);
	penstock_reader_close(r);
	free(buf);
}

static unsigned files_in_members(void)
{
	char cmd[PATH_MAX + 100], line[32] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd), "find %s/m? -type f | wc -l", t_dir());
	f = popen(cmd, "r");
	T_OK(f && fgets(line, sizeof(line), f));
	pclose(f);
	return (unsigned)atoi(line);
}

static void a_writer_makes_the_next_one_of_the_same_folders(void)
{
	struct stat st, member;
	char id[33];

	fill(BYTES);
	T_EQ(chmod(name, 0640), 0);
	for (unsigned n = 0; n < 3; n++) {
		uint64_t len = BYTES + 5000 * n;

		load_info();
		memcpy(id, info->id, sizeof(id));
		save(name, 777, false);
		T_EQ(size_of(), n ? (int64_t)len - 5000 : BYTES);
		save(name, len, true);
		load(name, len);
		load_info();
		T_OK(strcmp(info->id, id) != 0);
		T_EQ(info->unit, UNIT);
		T_EQ(info->bytes, len);
		T_EQ(info->nr, MEMBERS);
		for (unsigned i = 0; i < MEMBERS; i++) {
			T_EQ(strncmp(info->members[i].path, member_dirs[i], strlen(member_dirs[i])),
			     0);
			T_EQ(stat(info->members[i].path, &member), 0);
			T_EQ(member.st_mode & 0777, 0640);
			/* what was expected and did not come has been given back */
			T_OK((uint64_t)member.st_blocks * 512 <=
			     4096 + align_up(info->members[i].bytes, 4096) + 8192);
		}
		T_EQ(files_in_members(), MEMBERS);
		T_EQ(stat(name, &st), 0);
		T_EQ(st.st_mode & 0777, 0640);
	}
}

static void a_writer_in_a_striped_folder_makes_a_striped_file(void)
{
	char path[PATH_MAX + 40];
	struct penstock_err err;

	make_folder();
	snprintf(path, sizeof(path), "%s/ckpt", swap);
	save(path, BYTES, false);
	T_EQ(access(path, F_OK), -1);
	for (unsigned n = 0; n < 2; n++) {
		save(path, BYTES + n, true);
		T_EQ(penstock_stripe_get_kind(path), 1);
		load(path, BYTES + n);
		T_EQ(files_in_members(), 2 * MEMBERS); /* those of the name of set-up, too */
	}
	T_ERR(penstock_stripe_remove(path, &err), 0, &err);
	T_EQ(files_in_members(), MEMBERS);
	snprintf(path, sizeof(path), "%s/ckpt.crc", swap);
	T_EQ(unlink(path), 0);
	/* names that begin with a dot stay plain */
	snprintf(path, sizeof(path), "%s/.ckpt", swap);
	save(path, BYTES, true);
	T_EQ(penstock_stripe_get_kind(path), 0);
	load(path, BYTES);
	/* what others remove is found when the folder goes */
	snprintf(path, sizeof(path), "rm %s/.ckpt*", swap);
	T_EQ(system(path), 0);
	snprintf(path, sizeof(path), "%s/other", swap);
	save(path, BYTES, true);
	T_EQ(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/other.crc", swap);
	T_EQ(unlink(path), 0);
	T_EQ(files_in_members(), 2 * MEMBERS);
	T_ERR(penstock_stripe_remove(swap, &err), 0, &err);
	T_EQ(files_in_members(), MEMBERS);
}

/* "Moving it is fine": neither a new one of the old name nor a save there takes its members. */
static void a_moved_file_keeps_its_members(void)
{
	struct penstock_err err;
	char moved[PATH_MAX + 10];

	fill(BYTES);
	snprintf(moved, sizeof(moved), "%s.moved", name);
	T_EQ(rename(name, moved), 0);
	T_ERR(penstock_stripe_create(name, UNIT, folders, MEMBERS, 0, &err), 0, &err);
	save(name, 500, true);
	save(name, 600, true);
	load(name, 600);
	T_EQ(files_in_members(), 2 * MEMBERS);
	T_EQ(rename(moved, name), 0);
	T_EQ(size_of(), BYTES);
}

/* A manifest of somebody else's that names our members as its own is none that we clear. */
static void what_a_stranger_left_leads_to_no_member(void)
{
	char cmd[3 * PATH_MAX];

	if (!t_is_root())
		T_SKIP("root", "files of another user are needed");
	fill(BYTES);
	snprintf(cmd, sizeof(cmd), "cp %s %s/.other.stripe-0 && chown 12345 %s/.other.stripe-0",
		 name, t_dir(), t_dir());
	T_EQ(system(cmd), 0);
	snprintf(cmd, sizeof(cmd), "%s/other", t_dir());
	{
		struct penstock_err err;

		T_ERR(penstock_stripe_create(cmd, UNIT, folders, MEMBERS, 0, &err), 0, &err);
	}
	save(cmd, BYTES, true);
	T_EQ(size_of(), BYTES);
	T_EQ(files_in_members(), 2 * MEMBERS);
	snprintf(cmd, sizeof(cmd), "rm %s/.other.stripe-0", t_dir());
	T_EQ(system(cmd), 0);
}

static const struct t_case cases[] = {
	T_CASE(shares_add_up_and_point_back),
	T_CASE(bytes_lie_in_the_members_by_turns),
	T_CASE(a_missing_member_is_named),
	T_CASE(a_foreign_member_is_named),
	T_CASE(exchanged_members_are_named),
	T_CASE(a_short_member_is_named),
	T_CASE(a_damaged_manifest_is_refused),
	T_CASE(a_header_that_ends_before_its_name_is_read),
	T_CASE(opening_with_o_trunc_empties_the_members_not_the_manifest),
	T_CASE(a_write_with_truncation_sets_the_size_of_all),
	T_CASE(what_a_killed_writer_left_is_cut),
	T_CASE(nothing_is_made_where_something_is),
	T_CASE(removing_leaves_nothing_and_nothing_else_goes),
	T_CASE(a_manifest_that_names_itself_is_no_trap),
	T_CASE(files_made_in_a_striped_folder_are_striped),
	T_CASE(members_that_lost_their_file_go),
	T_CASE(a_mark_that_others_may_write_is_not_believed),
	T_CASE(a_folder_without_its_members_fails_and_loses_nothing),
	T_CASE(sweeping_takes_members_of_what_is_gone),
	T_CASE(a_folder_tells_whether_its_files_will_be_striped),
	T_CASE(a_writer_makes_the_next_one_of_the_same_folders),
	T_CASE(a_writer_in_a_striped_folder_makes_a_striped_file),
	T_CASE(a_moved_file_keeps_its_members),
	T_CASE(what_a_stranger_left_leads_to_no_member),
};

int main(void)
{
	const struct t_group group = {"stripe", setup, teardown, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
