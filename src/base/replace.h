/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_REPLACE_H
#define PENSTOCK_BASE_REPLACE_H

/*
 * A new file in place of an old one, so that its name always stands for one of the two, complete:
 *
 *	penstock_replace_open -> write to ->fd -> penstock_replace_copy_permissions
 *			    -> penstock_replace_publish -> penstock_replace_close
 *
 * Without penstock_replace_publish() nothing of it is left.  The file has no name so far where the
 * file system allows it, else one of the form .NAME.penstock-N, which is locked (flock(2)) as long
 * as somebody writes to it: what the dead have left is removed by whoever replaces the same file
 * next. Nothing is made durable here but the folder, by penstock_replace_sync_folder().
 */
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct penstock_replace {
	int dir;         /* the folder, open for reading */
	char *name;      /* of the file in it, no link */
	int fd;          /* the new file, for reading and writing */
	int lock;        /* the same file once more, to hold its lock */
	int old_fd;      /* the old file, so that its space is not given back within the step */
	char *temp;      /* its name so far; NULL: none */
	bool had_old;    /* there was a file of that name */
	struct stat old; /* what stat(2) said of the old file */
};

#define PENSTOCK_REPLACE_SUFFIX "penstock" /* in names of new files */

/* Nothing, for penstock_replace_close(). */
#define PENSTOCK_REPLACE_NONE                                 \
	{                                                     \
		.dir = -1, .fd = -1, .lock = -1, .old_fd = -1 \
	}

/*
 * The folder that holds the file that @path leads to, links at its end followed, and its name
 * there. The file need not exist.  Returns 0 with *@ret_dir open and *@ret_name to be freed, or
 * -errno: -EACCES for a link in a sticky folder that others may have put there, as the kernel has
 * it.
 */
int penstock_replace_resolve_path(const char *path, int *ret_dir, char **ret_name);

/* Begin; @mode is that of a file that is not there yet, less the umask.  0 or -errno. */
int penstock_replace_open(struct penstock_replace *r, const char *path, mode_t mode);
/* The same for a file @name in the folder @dir, which is duplicated. */
int penstock_replace_open_at(struct penstock_replace *r, int dir, const char *name, mode_t mode);

/* Give it permissions and owner of the old one, as far as permitted. */
int penstock_replace_copy_permissions(const struct penstock_replace *r);
/* fchmod(2); 0 where the file system knows no such thing. */
int penstock_replace_set_mode(int fd, mode_t mode);
/* The one step: rename it, so that the name stands for the new file. */
int penstock_replace_publish(struct penstock_replace *r);
/* Close all and, before the step, remove all.  @forked: leave what has a name to the parent. */
void penstock_replace_close(struct penstock_replace *r, bool forked);

/*
 * For those who need a name of their own kind, .NAME.SUFFIX-N, before the step: another name for an
 * open file, whose lock says that it is in use.  0 with *@ret to be freed, or -errno.
 */
int penstock_replace_link_temp(int fd, int dir, const char *name, const char *suffix, char **ret);
/* Remove files of such names that nobody has locked, if @before says 0 of each. */
void penstock_replace_remove_stale(int dir, const char *name, const char *suffix,
				   int (*before)(int dir, int fd));
/* close(2) of a file that was removed; where it is large its space is given back behind us. */
void penstock_replace_close_async(int fd);

/* fsync(2) of a folder; 0 where the file system knows no such thing. */
int penstock_replace_sync_folder(int dir);

#endif
