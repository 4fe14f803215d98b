/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Striped files made, looked at and removed.  The manifest appears last and goes first, so
 * that the name never stands for half of one (stripe_replace.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"
#include "file/stripe.h"

/* ----------------------------------------------------------------- create */

struct creation {
	const char *name; /* as given */
	char *full;       /* from the root */
	uint32_t flags;
	bool devices;
	struct penstock_manifest m;
	unsigned made; /* block devices that were taken, */
	struct penstock_backing opened[PENSTOCK_STRIPE_MEMBERS]; /* open */
};

static int fail_errno(struct penstock_err *err, const char *name, int code)
{
	return penstock_fail(err, code, "%s: %s", name, strerror(-code));
}

/* From the root, with links resolved but for the last name, which need not be there. */
static int full_name(const char *name, char **out)
{
	CLEANUP_FREE char *copy = strdup(name);
	CLEANUP_FREE char *dir = NULL;
	char *slash = copy ? strrchr(copy, '/') : NULL;
	const char *base = strrchr(name, '/');

	if (!copy)
		return -ENOMEM;
	base = base ? base + 1 : name;
	if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
		return -EISDIR;
	if (slash)
		slash[slash == copy] = '\0';
	dir = realpath(slash ? copy : ".", NULL);
	if (!dir)
		return -errno;
	return asprintf(out, "%s/%s", strcmp(dir, "/") ? dir : "", base) < 0 ? -ENOMEM : 0;
}

static int find_member(struct creation *k, unsigned i, const char *given, struct penstock_err *err)
{
	CLEANUP_FREE char *real = realpath(given, NULL);
	const char *base = strrchr(k->full, '/') + 1;
	struct stat st;
	char hash[9]; /* a folder that a killed creation left is taken by the next of that name */
	bool device;

	if (!real || stat(real, &st) < 0)
		return fail_errno(err, given, -errno);
	device = S_ISBLK(st.st_mode);
	if (!device && !S_ISDIR(st.st_mode))
		return penstock_fail(err, -EINVAL, "%s: is neither a folder nor a block device",
				     given);
	if (i && device != k->devices)
		return penstock_fail(err, -EINVAL,
				     "%s: members are all folders or all block devices", given);
	k->devices = device;
	if (device && (k->flags & PENSTOCK_STRIPE_FOLDER))
		return penstock_fail(err, -EINVAL, "%s: members of a striped folder are folders",
				     given);
	if (strchr(real, '\n') || strchr(base, '\n'))
		return penstock_fail(err, -EINVAL, "%s: there is a line break in a name", given);
	for (unsigned j = 0; device && j < i; j++)
		if (!strcmp(k->m.members[j], real))
			return penstock_fail(err, -EINVAL, "%s: is named twice", given);
	snprintf(hash, sizeof(hash), "%08" PRIx32, penstock_crc32c(0, k->full, strlen(k->full)));
	if (device)
		k->m.members[i] = TAKE_PTR(real);
	else
		k->m.members[i] = penstock_stripe_member_name(
			real, k->full, k->flags & PENSTOCK_STRIPE_FOLDER ? hash : k->m.id, i);
	if (!k->m.members[i])
		return fail_errno(err, given, -ENOMEM);
	k->m.nr++;
	return 0;
}

static bool is_member_in_use(const struct penstock_member_header *head)
{
	struct penstock_manifest *m = NULL;
	CLEANUP_CLOSE int fd = open(head->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool alive = fd >= 0 && penstock_manifest_read(&m, fd) == 1 && !strcmp(m->id, head->id);

	penstock_manifest_free(m);
	return alive;
}

static bool is_blank(const struct penstock_backing *b)
{
	char part[4096];
	bool blank = true;

	for (uint64_t at = 0; blank && at < STRIPE_DATA; at += sizeof(part)) {
		blank = penstock_full_pread(b->fd, part, sizeof(part), at) == sizeof(part);
		for (size_t i = 0; blank && i < sizeof(part); i++)
			blank = !part[i];
	}
	return blank;
}

static int take_device(const struct creation *k, struct penstock_backing *b, const char *path,
		       struct penstock_err *err)
{
	struct penstock_member_header head;
	int r = penstock_backing_open_member(b, path, O_RDWR | O_EXCL, PENSTOCK_DIRECT_NEVER, err);

	if (r < 0)
		return r;
	r = penstock_member_header_read(b, &head);
	if (r < 0)
		fail_errno(err, path, r);
	else if (head.id[0] && is_member_in_use(&head))
		r = penstock_fail(err, -EEXIST, "%s: is a member of %s", path, head.name);
	else if (head.id[0] && !(k->flags & PENSTOCK_STRIPE_FORCE))
		r = penstock_fail(err, -EEXIST,
				  "%s: was a member of %s, which is not there or has another name "
				  "now; --force takes it",
				  path, head.name);
	else if (!head.id[0] && !(k->flags & PENSTOCK_STRIPE_FORCE) && !is_blank(b))
		r = penstock_fail(
			err, -EEXIST,
			"%s: there is something on it, which would be lost; --force takes it",
			path);
	else if (penstock_member_bytes(b) < (int64_t)k->m.unit)
		r = penstock_fail(err, -ENOSPC, "%s: has no room for a unit", path);
	if (r < 0)
		penstock_backing_close(b);
	return r;
}

static int make_device(struct creation *k, unsigned i, struct penstock_err *err)
{
	struct penstock_backing *b = &k->opened[i];
	const char *path = k->m.members[i];
	int r = take_device(k, b, path, err);

	if (r < 0)
		return r;
	k->made++;
	r = penstock_member_header_create(&k->m, i, b, k->full);
	if (!r && fsync(b->fd) < 0)
		r = -errno;
	return r < 0 ? fail_errno(err, path, r) : 0;
}

/* The manifest, and before it members that are files. */
static int make_member_file(const struct creation *k, struct penstock_err *err)
{
	struct penstock_replace file = PENSTOCK_REPLACE_NONE;
	size_t len = 0;
	CLEANUP_FREE char *text = penstock_manifest_format(&k->m, &len);
	int r = text ? penstock_replace_open(&file, k->full, 0666) : -ENAMETOOLONG;

	if (!r && file.had_old)
		r = -EEXIST;
	if (!r && !k->devices) {
		r = penstock_stripe_replace_with(&file, &k->m, k->name, 0, true, err);
		if (r < 0) {
			penstock_stripe_replace_abort(&file);
			penstock_replace_close(&file, false);
			return r;
		}
	} else if (!r) {
		r = penstock_full_pwrite(file.fd, text, len, 0);
		if (!r && fsync(file.fd) < 0)
			r = -errno;
	}
	if (!r)
		r = penstock_replace_publish(&file);
	if (r < 0 && !k->devices)
		penstock_stripe_replace_abort(&file);
	if (!r)
		r = penstock_replace_sync_folder(file.dir);
	penstock_replace_close(&file, false);
	return r < 0 ? fail_errno(err, k->name, r) : 0;
}

static int check_request(struct creation *k, const char *const *members, unsigned nr,
			 struct penstock_err *err)
{
	struct stat st;
	int r = full_name(k->name, &k->full);

	if (r < 0)
		return fail_errno(err, k->name, r);
	if (lstat(k->full, &st) == 0 &&
	    !(S_ISDIR(st.st_mode) && (k->flags & PENSTOCK_STRIPE_FOLDER)))
		return penstock_fail(err, -EEXIST, "%s: is there already", k->name);
	if (!nr || nr > PENSTOCK_STRIPE_MEMBERS)
		return penstock_fail(err, -EINVAL, "members: %u is outside 1..%d", nr,
				     PENSTOCK_STRIPE_MEMBERS);
	if (k->m.unit % UNIT_STEP || k->m.unit > UNIT_MAX)
		return penstock_fail(err, -EINVAL,
				     "unit: %" PRIu64 " is no multiple of %d of at most 1 GiB",
				     k->m.unit, UNIT_STEP);
	r = penstock_stripe_generate_id(k->m.id);
	if (r < 0)
		return fail_errno(err, k->name, r);
	for (unsigned i = 0; i < nr && !r; i++)
		r = find_member(k, i, members[i], err);
	return r;
}

static void creation_free(struct creation *k, bool keep)
{
	for (unsigned i = 0; i < k->made; i++) {
		if (!keep)
			penstock_member_header_write(&k->opened[i], NULL);
		penstock_backing_close(&k->opened[i]);
	}
	for (unsigned i = 0; i < k->m.nr; i++)
		free(k->m.members[i]);
	free(k->full);
	free(k);
}

int penstock_stripe_create(const char *name, uint64_t unit, const char *const *members, unsigned nr,
			   uint32_t flags, struct penstock_err *err)
{
	struct creation *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return penstock_fail(err, -ENOMEM, "out of memory");
	k->name = name;
	k->flags = flags;
	k->m.unit = unit ? unit : UNIT_DEFAULT;
	r = check_request(k, members, nr, err);
	k->m.folder = flags & PENSTOCK_STRIPE_FOLDER;
	if (!r && k->m.folder)
		r = penstock_stripe_make_folder(&k->m, k->full, err);
	for (unsigned i = 0; i < nr && !r && k->devices; i++)
		r = make_device(k, i, err);
	if (!r && !k->m.folder)
		r = make_member_file(k, err);
	creation_free(k, r == 0);
	return r;
}

/* ----------------------------------------------------------------- looking */

static int manifest_load(struct penstock_manifest **out, int dir, const char *name,
			 struct penstock_err *err)
{
	CLEANUP_FREE char *manifest_path = NULL;
	CLEANUP_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		fd = asprintf(&manifest_path, "%s/" FOLDER_MANIFEST_NAME, name) < 0
			     ? -1
			     : openat(dir, manifest_path,
				      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	r = fd < 0 ? manifest_path && errno == ENOENT ? 0 : -errno
		   : penstock_manifest_read(out, fd);
	if (r == 0)
		return penstock_fail(err, -EINVAL, "%s: is not a striped %s", name,
				     manifest_path ? "folder" : "file");
	if (r == -EBADMSG)
		return penstock_fail(err, r, "%s: is the damaged manifest of a striped file", name);
	return r < 0 ? fail_errno(err, name, r) : 0;
}

int penstock_manifest_load(struct penstock_manifest **out, const char *name,
			   struct penstock_err *err)
{
	return manifest_load(out, AT_FDCWD, name, err);
}

static int stripe_kind(int dir, const char *name)
{
	struct penstock_manifest *m;
	int r;

	if (!name || manifest_load(&m, dir, name, NULL) < 0)
		return 0;
	r = m->folder ? 2 : 1;
	penstock_manifest_free(m);
	return r;
}

int penstock_stripe_get_kind(const char *name)
{
	return stripe_kind(AT_FDCWD, name);
}

static void inspect_member(struct penstock_member *out, const struct penstock_manifest *m,
			   unsigned i, uint64_t *recorded_bytes)
{
	struct penstock_member_header head;
	struct penstock_err err = {0, ""};
	struct penstock_backing b;
	int64_t bytes;

	out->path = m->members[i];
	out->state = PENSTOCK_MEMBER_MISSING;
	if (m->folder) {
		out->state = access(out->path, R_OK | X_OK) ? out->state : PENSTOCK_MEMBER_GOOD;
		if (out->state)
			penstock_print_elided(out->why, sizeof(out->why), "member %u of %u, %s: %s",
					      i + 1, m->nr, out->path, strerror(errno));
		return;
	}
	if (penstock_backing_open_member(&b, m->members[i], O_RDONLY, PENSTOCK_DIRECT_NEVER, &err) <
	    0) {
		penstock_print_elided(out->why, sizeof(out->why), "member %u of %u, %s", i + 1,
				      m->nr, err.msg);
		return;
	}
	bytes = penstock_member_bytes(&b);
	out->bytes = bytes > 0 ? (uint64_t)bytes : 0;
	out->device = b.device;
	if (penstock_member_verify(m, i, &b, &head, &out->state, &err) == 0) {
		*recorded_bytes = i ? *recorded_bytes : head.recorded_bytes;
		if (!b.device && penstock_member_check_size(m, i, &b, *recorded_bytes, &err) < 0)
			out->state = PENSTOCK_MEMBER_SHORT;
	}
	penstock_print_elided(out->why, sizeof(out->why), "%s", err.msg);
	penstock_backing_close(&b);
}

/* One piece of memory, which has the manifest behind it. */
struct stripe_info_block {
	struct penstock_stripe_info info;
	struct penstock_manifest *manifest;
	struct penstock_member members[];
};

static uint64_t striped_bytes(const struct penstock_stripe_info *info)
{
	const struct penstock_stripe t = {.nr = info->nr, .unit = info->unit};
	uint64_t bytes = INT64_MAX, member_bytes;

	for (unsigned i = 0; i < info->nr; i++) {
		const struct penstock_member *m = &info->members[i];

		member_bytes = m->device ? align_down(m->bytes, t.unit) * t.nr
					 : penstock_stripe_offset(&t, i, m->bytes);
		if (m->state != PENSTOCK_MEMBER_MISSING && m->state != PENSTOCK_MEMBER_FOREIGN)
			bytes = min_u64(bytes, member_bytes);
	}
	return bytes == INT64_MAX ? 0 : bytes;
}

/* @m is the info's now, or freed. */
static int info_make(struct penstock_stripe_info **out, struct penstock_manifest *m,
		     const char *name, struct penstock_err *err)
{
	struct stripe_info_block *l = calloc(1, sizeof(*l) + m->nr * sizeof(l->members[0]));
	uint64_t recorded_bytes = 0;

	if (!l) {
		penstock_manifest_free(m);
		return fail_errno(err, name, -ENOMEM);
	}
	l->manifest = m;
	memcpy(l->info.id, m->id, sizeof(l->info.id));
	l->info.nr = m->nr;
	l->info.unit = m->unit;
	l->info.members = l->members;
	for (unsigned i = 0; i < m->nr; i++)
		inspect_member(&l->members[i], m, i, &recorded_bytes);
	l->info.bytes = m->folder ? 0 : striped_bytes(&l->info);
	*out = &l->info;
	return 0;
}

static int stripe_load(struct penstock_stripe_info **out, int dir, const char *name,
		       struct penstock_err *err)
{
	struct penstock_manifest *m;
	int r = manifest_load(&m, dir, name, err);

	return r < 0 ? r : info_make(out, m, name, err);
}

int penstock_stripe_load_folder(struct penstock_stripe_info **out, const char *folder,
				struct penstock_err *err)
{
	CLEANUP_CLOSE int dir = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	char path[PATH_MAX];
	struct penstock_manifest *m;
	int r;

	if (dir < 0)
		return fail_errno(err, folder ? folder : "(null)", folder ? -errno : -EINVAL);
	r = penstock_stripe_find_folder_manifest(dir, "", path, sizeof(path), &m);
	if (r < 0)
		return penstock_fail(err, r,
				     "%s: the folder manifest that makes its files striped: %s",
				     folder, r == -EBADMSG ? "is damaged" : strerror(-r));
	if (r == 0)
		return 0;
	if (out)
		r = info_make(out, m, folder, err);
	else
		penstock_manifest_free(m);
	return r < 0 ? r : 1;
}

void penstock_stripe_free(struct penstock_stripe_info *info)
{
	struct stripe_info_block *l = container_of(info, struct stripe_info_block, info);

	if (!info)
		return;
	penstock_manifest_free(l->manifest);
	free(l);
}

int penstock_stripe_load(struct penstock_stripe_info **out, const char *name,
			 struct penstock_err *err)
{
	return stripe_load(out, AT_FDCWD, name, err);
}

int64_t penstock_stripe_bytes_at(int dir, const char *name, int64_t size)
{
	struct penstock_stripe_info *info;
	int r;

	if (!penstock_manifest_fits_size(size) || stripe_kind(dir, name) != 1)
		return size;
	r = stripe_load(&info, dir, name, NULL);
	if (r < 0)
		return r;
	size = (int64_t)info->bytes;
	penstock_stripe_free(info);
	return size;
}

int64_t penstock_stripe_bytes(const char *name, int64_t size)
{
	return penstock_stripe_bytes_at(AT_FDCWD, name, size);
}

/* ---------------------------------------------------------------- removing */

int penstock_member_remove(const struct penstock_manifest *m, unsigned i, struct penstock_err *err)
{
	struct penstock_member_header head;
	struct penstock_backing b;
	struct penstock_err why;
	uint32_t state;
	int gone = -1;
	int r = penstock_backing_open_member(&b, m->members[i], O_RDWR, PENSTOCK_DIRECT_NEVER,
					     &why);

	if (r < 0)
		return r == -ENOENT ? 0 : penstock_fail(err, r, "%s", why.msg);
	r = penstock_member_verify(m, i, &b, &head, &state, &why);
	if (r == 0 || state == PENSTOCK_MEMBER_EXCHANGED) {
		r = b.device                    ? penstock_member_header_write(&b, NULL)
		    : unlink(m->members[i]) < 0 ? -errno
						: 0;
		if (r < 0)
			fail_errno(err, m->members[i], r);
		else if (!b.device)
			gone = fcntl(b.fd, F_DUPFD_CLOEXEC, 0);
	} else {
		penstock_fail(err, r, "%s; left as it is", why.msg);
	}
	penstock_backing_close(&b);
	if (gone >= 0)
		penstock_replace_close_async(gone);
	return r;
}

static int stripe_remove(const char *name, struct penstock_err *err)
{
	/* its number is not another's before the members are gone: they may be called by it */
	CLEANUP_CLOSE int held = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct penstock_manifest *m;
	struct penstock_err why, first = {0};
	int r = penstock_manifest_load(&m, name, err);
	unsigned left = 0;

	(void)held;
	if (r < 0)
		return r;
	if (m->folder) {
		r = penstock_stripe_remove_folder(m, name, err);
		penstock_manifest_free(m);
		return r;
	}
	if (unlink(name) < 0) {
		r = fail_errno(err, name, -errno);
		penstock_manifest_free(m);
		return r;
	}
	for (unsigned i = 0; i < m->nr; i++) {
		r = penstock_member_remove(m, i, &why);
		if (r < 0 && !left++)
			first = why;
	}
	r = !left ? 0
		  : penstock_fail(err, first.code, "%s: removed, but not %u of its %u members: %s",
				  name, left, m->nr, first.msg);
	penstock_manifest_free(m);
	return r;
}

int penstock_stripe_remove(const char *name, struct penstock_err *err)
{
	struct stat st;
	bool link = lstat(name, &st) == 0 && S_ISLNK(st.st_mode);
	CLEANUP_FREE char *real = link ? realpath(name, NULL) : NULL;
	int r;

	if (link && !real)
		return fail_errno(err, name, -errno);
	r = stripe_remove(real ? real : name, err);
	/* it would lead nowhere */
	if (link && lstat(real, &st) < 0 && unlink(name) < 0 && !r)
		r = fail_errno(err, name, -errno);
	return r;
}
