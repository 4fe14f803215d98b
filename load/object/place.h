/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_PLACE_H
#define PENSTOCK_OBJECT_PLACE_H

/*
 * The inside of places, for the flow: where the bytes of an object are, and the names of files.
 * Functions that touch files may be called from several threads at once; the rest belongs to
 * the flow's own thread.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/extent.h"
#include "base/util.h"
#include "load/object/flow.h"
#include "load/object/place_journal.h"

#define PLACE_HEADER       4096u            /* bytes of an NPY header, padding included */
#define PLACE_UNIT         (64u << 10)      /* of extents, unless the caller says otherwise */
#define PLACE_STEP         (256ull << 20)   /* by which host memory grows */
#define SLAB_HEAD          (1u << 20)       /* bytes before the first unit */
#define SLAB_FILE          "objects.slab"   /* in a folder */
#define PLACE_NAME         256              /* of a file name, with the final 0 */
#define PLACE_REL_PATH_MAX (PLACE_NAME + 8) /* of one below its folder */
#define PLACE_PATH         (4096 + 512)
#define PLACE_SUBS         4096 /* sub-folders by hash, 000 to fff */

/* Which file of its name an object has: names may repeat.  Below a prefix both are one number. */
struct place_ref {
	uint16_t dir;
	uint16_t variant; /* 0: the plain name */
};

/* An object of an earlier run. */
struct place_old {
	char *name;
	uint32_t name_len;
	uint64_t size, content;
	struct place_ref ref;
	struct extents where;
	uint8_t element;
	char *shape;
	bool adopted;
};

struct place_dir {
	char *path;
	int fd;
	int journal_fd; /* -1: not ours yet */
	unsigned made;  /* names at the end of the path whose folders were made for it */
	bool marked;    /* the marker was made just now */
	struct penstock_stripe_info *striped; /* files in it are striped; NULL: they are not */
	bool unstable_inodes;      /* files cannot be known by their numbers here (FUSE) */
	atomic_bool cannot_rename; /* names are for ever: the file system cannot rename */
	atomic_uint next;          /* file that is made */
	pthread_mutex_t lock;      /* of the journal */
	struct journal journal;    /* the files that are there */
	_Atomic uint64_t subs[PLACE_SUBS / 64]; /* sub-folders that are there, a bit each */
};

#define BUCKET_RUN 17 /* number of a run, as text */
struct place_bucket {
	struct penstock_s3 *client;
	char *prefix; /* "s3://BUCKET/PREFIX/" */
	char run[BUCKET_RUN];
	char etag[PENSTOCK_S3_ETAG]; /* of the marker */
	bool ours;                   /* it is */
	uint32_t serial;             /* of the next object */
};

struct place {
	struct place_opts o; /* with copies of the paths */
	char **paths;
	bool ready; /* it was opened: what is removed or kept at the end is decided by @o */
	uint64_t used, objects;
	/* files, and a slab in a folder */
	struct place_dir *dirs;
	uint64_t max_used;      /* the largest @used so far */
	_Atomic uint64_t slack; /* bytes that files without an object may take */
	struct spares *spares;  /* NULL: none are kept */
	/* slab, memory, GPU */
	struct extent_map *map;
	uint32_t unit;
	char *base; /* address of unit 0 */
	uint64_t mapped;
	uint32_t huge; /* PENSTOCK_BUF_HUGE where the memory is on huge pages */
	char *slab;    /* path of it, for messages */
	int slab_dir;  /* the folder that it is in */
	char slab_name[PLACE_NAME];
	int slab_fd;
	bool slab_made, slab_device;
	uint64_t slab_bytes; /* of a device */
	char *index;         /* of objects to keep */
	uint64_t index_len, index_capacity, index_nr;
	bool index_failed;
	void **pins; /* memory that is pinned for a GPU */
	unsigned nr_pins;
	/* a store */
	struct penstock_store *store;
	bool store_found; /* it was there before */
	char *below;      /* what is ours of o.below, with a slash at its end */
	bool *dir_found;  /* so was the directory, of each path */
	struct place_bucket bucket;
	/* what an earlier run left */
	struct place_old *old;
	uint64_t nr_old;
};

static inline bool place_unit_fits(uint64_t unit)
{
	return unit >= 4096 && unit <= 1u << 30 && is_pow2(unit);
}

static inline bool place_is_storage(const struct place *p)
{
	return p->o.kind == PLACE_FILES || p->o.kind == PLACE_SLAB;
}

static inline bool place_is_store(const struct place *p)
{
	return p->o.kind == PLACE_STORE;
}

static inline bool place_is_bucket(const struct place *p)
{
	return p->o.kind == PLACE_BUCKET;
}

static inline bool place_is_memory(const struct place *p)
{
	return p->o.kind == PLACE_MEMORY || p->o.kind == PLACE_GPU;
}

/* What an object of @size bytes takes of the capacity. */
uint64_t place_charge(const struct place *p, uint64_t size);
/* An object takes so much of it now. */
void place_add_used(struct place *p, uint64_t charge);

/* ---- place_name.c */
/* "key.npy": readable where the key is ordinary, else escaped, long ones ended by a hash. */
void place_file_name(char out[PLACE_NAME], const char *key, uint32_t len, unsigned variant,
		     const char *suffix);
/* Was the key cut, so that it does not follow from the name? */
bool place_name_cut(const char *key, uint32_t len);
/* The key of a name that was not cut; @key has room for strlen(name).  -EINVAL: not ours. */
int place_name_key(char *key, uint32_t *ret_len, const char *name, const char *suffix);
/* Any bytes as a line of text without blanks, and back; both return the length. */
uint64_t place_escape(char *out, const char *key, uint64_t len); /* 3 * len + 1 bytes of room */
int64_t place_unescape(char *out, const char *text, uint64_t len);
const char *place_suffix(const struct place_opts *o);

/* ---- place_dir.c: folders and their markers */
int dir_check(const char *path, const struct place_opts *o, uint64_t *ret_freed,
	      struct penstock_err *err);
int dir_free_bytes(const char *path, uint64_t *ret, dev_t *ret_dev, struct penstock_err *err);
int dirs_open(struct place *p, struct penstock_err *err);
int dirs_close(struct place *p, struct penstock_err *err);

/* ---- place_dir_file.c: the files of a folder while it is in use; names are below it */
/* Nobody else is to use the name: -EEXIST. */
int dir_file_claim(struct place_dir *d, const char *name, const char *key, uint32_t len);
/* A new file, open; the name was claimed, and -EEXIST where a file has it. */
int dir_file_make(struct place_dir *d, const char *name);
/* It was claimed and is the file that is open now. */
int dir_file_made(struct place_dir *d, const char *name, int fd);
int dir_file_complete(struct place_dir *d, const char *name);
/* Open it: -ESTALE where another file has its name now. */
int dir_file_open(struct place_dir *d, const char *name, int flags);
/* The claim is given up. */
void dir_file_forget(struct place_dir *d, const char *name);
int dir_file_remove(struct place_dir *d, const char *name);
/* The same, and the name stays claimed. */
int dir_file_unlink(struct place_dir *d, const char *name);
/* At the end: all that are still what they were. */
int dir_file_remove_all(struct place_dir *d);
/* Under a name that was claimed and that no file has: -EEXIST. */
int dir_file_rename(struct place_dir *d, const char *from, const char *to);
/* Its size where it is the file that was made, and has no other name; or -errno. */
int64_t dir_file_size(struct place_dir *d, const char *name);

/* ---- place_file.c: files of objects, which are returned open for reading and writing */
/* Make the file and reserve its space; the name that was free is in @ref. */
int place_file_make(struct place *p, struct place_ref *ref, const char *key, uint32_t len,
		    uint64_t bytes, struct penstock_err *err);
int place_file_open(struct place *p, struct place_ref ref, const char *key, uint32_t len, int flags,
		    struct penstock_err *err);
/* For messages. */
int place_file_path(const struct place *p, struct place_ref ref, const char *key, uint32_t len,
		    char out[PLACE_PATH]);
/* It is complete. */
int place_file_done(struct place *p, struct place_ref ref, const char *key, uint32_t len,
		    struct penstock_err *err);
int place_file_remove(struct place *p, struct place_ref ref, const char *key, uint32_t len,
		      struct penstock_err *err);
/* The same of a file with nothing wrong about it: another object may be written over it. */
int place_file_retire(struct place *p, struct place_ref ref, const char *key, uint32_t len,
		      struct penstock_err *err);
/* An NPY 1.0 header of PLACE_HEADER bytes. */
int place_npy_header(char out[PLACE_HEADER], const char *shape, unsigned element, uint64_t size);

/* ---- place_spare.c: files that objects can be written over; paths are below their folder */
int spares_open(struct place *p);
void spares_close(struct place *p);
/* No more than so many bytes of them. */
void spares_trim(struct place *p, uint64_t bytes);
/* Instead of removing @name; false: it is still there. */
bool spare_keep(struct place *p, unsigned dir, const char *name);
/* @name, which was claimed, from now on; at most @bytes long, open.  -ENOENT: none fits; -EEXIST.
 */
int spare_take(struct place *p, unsigned dir, const char *name, uint64_t bytes);

/* ---- place_slab*.c */
bool slab_is_kept(const char *path);
int slab_check(const struct place_opts *o, uint64_t *ret_free_bytes, struct penstock_err *err);
int slab_open(struct place *p, struct penstock_err *err);
int slab_close(struct place *p, struct penstock_err *err);
/* A second descriptor of what is open; -ESTALE where something else has its name now. */
int slab_open_again(const struct place *p);
/* Room for @units more, if that can be had. */
int slab_stretch(struct place *p, uint64_t units);
/* Remember a live object for the index. */
int slab_keep(struct place *p, const struct place_old *o);

/* ---- place_store.c */
bool store_place_is_there(const char *path);
int store_place_check(const char *path, const struct place_opts *o, uint64_t *ret_freed,
		      struct penstock_err *err);
int store_place_open(struct place *p, struct penstock_err *err);
int store_place_close(struct place *p, struct penstock_err *err);

/* ---- place_bucket.c: objects below a prefix */
int bucket_check(const struct place_opts *o, struct penstock_err *err);
bool bucket_is_kept(const struct place_opts *o);
int bucket_open(struct place *p, struct penstock_err *err);
int bucket_close(struct place *p, struct penstock_err *err);
struct place_ref bucket_ref(struct place *p); /* of a new object; the flow's own thread */
/* Free it; NULL: no memory. */
char *bucket_uri(const struct place *p, struct place_ref ref, const char *name, uint32_t len);

/* ---- place.c */
/* Make more of the host memory usable: called outside the flow's thread; 0 or -ENOMEM. */
int place_memory_grow(struct place *p, uint64_t from, uint64_t len);
/* Pin some of it for a GPU, if that can be done; one thread at a time. */
void place_pin(struct place *p, char *from, uint64_t len);
void place_unpin(struct place *p);
struct place_old *place_old_find(struct place *p, const char *name, uint32_t len);
struct place_old *place_old_add(struct place *p); /* NULL: no memory */

#endif
