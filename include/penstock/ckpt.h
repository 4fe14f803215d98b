/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_H
#define PENSTOCK_CKPT_H

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Checkpoints: files that are written from one end to the other, must never be half there, and
 * are read back in any order.
 *
 *	penstock_writer_open -> penstock_writer_write ... -> penstock_writer_commit
 *	                                              or penstock_writer_abort
 *	penstock_reader_open -> penstock_reader_read / _pread / _fetch ... -> penstock_reader_close
 *
 *	penstock_safetensors_open -> penstock_safetensors_read ... -> penstock_safetensors_close
 *	penstock_safetensors_save
 *
 * What the files hold is the caller's business: a torch zip, anything.  Files of safetensors have
 * calls of their own, on top of them.
 *
 * Checksums.  Beside FILE the writer leaves FILE.crc: a CRC-32C of every chunk of 1 MiB, computed
 * from the memory that was handed over.  Other programs need not know of it.  A reader that finds
 * one checks every chunk it touches, while the next ones are being read, before the caller sees a
 * byte of it.  A file that was copied together with its FILE.crc is checked as the original is; one
 * without is read as it is.  FILE.crc is replaced before FILE is, and describes both the old and
 * the new one for that moment.
 *
 * Objects.  Where the handle has a client (penstock_opts.s3) a path may be s3://BUCKET/KEY,
 * for reading and for writing; FILE.crc is an object beside it.  What is written is sent in parts
 * while more is written, and is visible by penstock_writer_commit() only; of two commits the later
 * wins whole.  What is aborted or fails leaves nothing; a process that is killed leaves parts that
 * nobody sees (PENSTOCK_S3_LIST_UPLOADS).  Such a writer goes one way: a seek back is -ESPIPE,
 * one forward writes zeros.
 *
 * Threads.  A writer or reader is used by one thread at a time; different ones share nothing but
 * the handle.  Device memory: what is queued in streams of the caller's must be done.
 *
 * Processes.  After fork() a writer belongs to the parent.  In the child calls return -ECHILD and
 * penstock_writer_abort() frees memory and touches no file.
 *
 * Errors, versions and structs with @size first: as in penstock.h.
 */
struct penstock_writer; /* a file that is being written */
struct penstock_reader; /* a file that is read */

/* Bytes of the file that have one checksum. */
#define PENSTOCK_CHUNK 0x100000u

/* ------------------------------------------------------------------ writing */

/* Bits of struct penstock_writer_opts.flags. */
#define PENSTOCK_WRITER_NO_SYNC       0x1u /* appears in one step, but may be lost by a power failure */
#define PENSTOCK_WRITER_NO_CRC        0x2u /* without FILE.crc; one that is there is removed */
#define PENSTOCK_WRITER_CALLER_WRITES 0x4u /* the caller writes the bytes: penstock_writer_fd() */

/* Options of penstock_writer_open().  Start from PENSTOCK_WRITER_OPTS_INIT; zero means "default".
 */
struct penstock_writer_opts {
	uint32_t size;         /* set by PENSTOCK_WRITER_OPTS_INIT */
	uint32_t flags;        /* PENSTOCK_WRITER_* */
	uint32_t buffers;      /* 2..64 (4) */
	uint32_t mode;         /* permissions of a new file (0666), less the umask */
	uint64_t buffer_bytes; /* of each, a multiple of 1 MiB, 1 MiB..1 GiB (32 MiB) */
	uint64_t expected;     /* bytes that will be written, if known: reserved at once (0) */
};
/* clang-format off */
#define PENSTOCK_WRITER_OPTS_INIT {sizeof(struct penstock_writer_opts), 0, 0, 0, 0, 0}
/* clang-format on */

/*
 * Begin a file that will be @path.  Nothing of it is visible before penstock_writer_commit(), nor
 * left behind if the process dies: it has no name where the file system allows (O_TMPFILE), else
 * one of the form .NAME.penstock-N beside @path, which the next save to @path removes.
 *
 * Where @path is there already, it must be a regular file that the caller may write to; the new one
 * takes over its permissions and, where permitted, its owner.  A symbolic link stays and what it
 * leads to is replaced, in the folder where that is; links in a folder that all may write to
 * (/tmp) are followed only if they are the caller's or the folder's owner's, and are else -EACCES.
 *
 * Over a striped file the new one has its members in the same folders, and in a striped folder it
 * becomes one (penstock/stripe.h); the manifest is what takes the other's place.
 *
 * Memory: @buffers of @buffer_bytes, allocated as they are first needed, and 24 bytes for each MiB
 * of the file; of an object they are its parts, of 5 MiB at least, and larger where 10,000 would
 * not do for @expected.  @opts may be NULL.  Returns 0, or
 *   -EINVAL	a field is out of range, or @path is no regular file
 *   -E2BIG	@opts sets a field this library does not know
 *   -ENOSPC	there is no room for @expected bytes
 *   -EEXIST	@path.crc is there and is nothing that a writer has made
 *   -EOPNOTSUPP	@path is striped over block devices: there is no room beside it
 * or what open(2) says of the folder.
 */
PENSTOCK_API int penstock_writer_open(struct penstock_writer **out, struct penstock_io *io,
				      const char *path, const struct penstock_writer_opts *opts,
				      struct penstock_err *err);

/*
 * Write at the writer's position, which moves on.  @buf is host or device memory and may be
 * changed as soon as the call returns: it has been copied.  Waits only where all buffers are being
 * written out.  Returns 0 or the first error met so far, be it of an earlier write; after one every
 * further call fails with it.
 */
PENSTOCK_API int penstock_writer_write(struct penstock_writer *w, const void *buf, uint64_t len,
				       struct penstock_err *err);

/*
 * Move the position.  Forward beyond what was written leaves zeros, which cost no time where they
 * are many; backward writes over what was written before.  Moving alone does not make the file
 * longer.
 */
PENSTOCK_API int penstock_writer_seek(struct penstock_writer *w, uint64_t offset,
				      struct penstock_err *err);
PENSTOCK_API uint64_t penstock_writer_tell(const struct penstock_writer *w);

/*
 * With PENSTOCK_WRITER_CALLER_WRITES only, where penstock_writer_write() and _seek() are -EINVAL:
 * bytes are written by calls of the caller's, be it of another library, to this descriptor.  It is
 * the writer's, open for reading and writing, without O_DIRECT, which may be set (fcntl(2)); what
 * the file is at penstock_writer_commit(), when nothing may be under way any more, becomes visible.
 * In a striped folder, too, it is a plain file.
 * @expected is 0, and an object is -EOPNOTSUPP.  Returns the descriptor or -errno.
 *
 * penstock_writer_add_checksum() tells of bytes in host memory that are written at @offset: for
 * FILE.crc, in which what it was not told of counts as zeros.  0 or -errno.
 */
PENSTOCK_API int penstock_writer_fd(struct penstock_writer *w, struct penstock_err *err);
PENSTOCK_API int penstock_writer_add_checksum(struct penstock_writer *w, const void *buf,
					      uint64_t len, uint64_t offset,
					      struct penstock_err *err);

/*
 * Make it durable, then visible under its name in one step, then that durable.  Ends the writer in
 * every case.  Returns 0: the new file is there and will stay.  On failure the old one is there as
 * it was, but for a failure after the step, of the last fsync(2) of the folder: the message then
 * says that the new one is visible.  Of two writers of one name the later commit wins whole; while
 * one takes the step the others of that folder wait (flock(2)), for two minutes at most:
 * -ETIMEDOUT.
 */
PENSTOCK_API int penstock_writer_commit(struct penstock_writer *w, struct penstock_err *err);

/* As if nothing had been written; waits for what is in flight.  NULL is allowed. */
PENSTOCK_API void penstock_writer_abort(struct penstock_writer *w);

/*
 * Remove what writers of @name in the open folder @dir that were killed have left, as the next one
 * would: for who removes a folder that they worked in.
 */
PENSTOCK_API void penstock_writer_remove_stale(int dir, const char *name);

/* ------------------------------------------------------------------ reading */

enum penstock_verify {
	PENSTOCK_VERIFY_AUTO = 0,   /* where there is a FILE.crc */
	PENSTOCK_VERIFY_ALWAYS = 1, /* refuse to read without */
	PENSTOCK_VERIFY_NEVER = 2,
};

/* Options of penstock_reader_open().  Start from PENSTOCK_READER_OPTS_INIT; zero means "default".
 */
struct penstock_reader_opts {
	uint32_t size;         /* set by PENSTOCK_READER_OPTS_INIT */
	uint32_t flags;        /* 0 */
	uint32_t verify;       /* enum penstock_verify */
	uint32_t buffers;      /* 2..64 (4) */
	uint64_t buffer_bytes; /* of each, a multiple of 1 MiB, 1 MiB..1 GiB (8 MiB) */
};
/* clang-format off */
#define PENSTOCK_READER_OPTS_INIT {sizeof(struct penstock_reader_opts), 0, 0, 0, 0}
/* clang-format on */

/*
 * Open a file for reading.  @opts may be NULL.  Returns 0, or
 *   -EINVAL	a field is out of range, or @path is no regular file
 *   -ENODATA	PENSTOCK_VERIFY_ALWAYS, and there are no checksums
 *   -EBADMSG	FILE.crc is damaged, is none, or describes a file of another size: @path was
 *		written by a program that does not know of it.  Remove FILE.crc, or do not verify.
 * or what open(2) says.
 */
PENSTOCK_API int penstock_reader_open(struct penstock_reader **out, struct penstock_io *io,
				      const char *path, const struct penstock_reader_opts *opts,
				      struct penstock_err *err);
/* NULL is allowed. */
PENSTOCK_API void penstock_reader_close(struct penstock_reader *r);

struct penstock_reader_info {
	uint32_t size;   /* sizeof(struct penstock_reader_info), set by the caller */
	uint32_t verify; /* 1: what is read is checked */
	uint64_t bytes;  /* size of the file when it was opened */
	/* What the last call that returned -EBADMSG found; @bad_len is 0 before that. */
	uint64_t bad_offset;
	uint64_t bad_len;
	uint64_t read_bytes; /* read from the file so far, with what was read only to be checked */
};
PENSTOCK_API int penstock_reader_stat(const struct penstock_reader *r,
				      struct penstock_reader_info *info);

/*
 * Read at the reader's position, which moves on; what follows is read ahead.  Returns how many
 * bytes, fewer than @len only at the end of the file, or
 *   -EBADMSG	a chunk is not what was saved; the message names file, offset, both checksums
 *   -ENODATA	the file has become shorter since it was opened
 */
PENSTOCK_API int64_t penstock_reader_read(struct penstock_reader *r, void *buf, uint64_t len,
					  struct penstock_err *err);
PENSTOCK_API int penstock_reader_seek(struct penstock_reader *r, uint64_t offset,
				      struct penstock_err *err);
PENSTOCK_API uint64_t penstock_reader_tell(const struct penstock_reader *r);

/* Read anywhere, without moving the position; returns as penstock_reader_read(). */
PENSTOCK_API int64_t penstock_reader_pread(struct penstock_reader *r, void *buf, uint64_t len,
					   uint64_t offset, struct penstock_err *err);

/* One range of a file and the memory it goes to. */
struct penstock_piece {
	uint64_t offset;
	uint64_t len;
	void *buf; /* host or device memory; NULL: only check it */
};

/*
 * Read many ranges, in any order, that may touch or overlap: all in flight as far as the buffers
 * go, in the order of the file, neighbours that are small in one transfer.  Large ranges of host
 * memory, and of device memory without verification, are read straight into place; others through
 * the buffers.  Every range must lie within the file (-EINVAL).  Returns 0, or as
 * penstock_reader_read(); memory of pieces may be partly written then.
 */
PENSTOCK_API int penstock_reader_fetch(struct penstock_reader *r,
				       const struct penstock_piece *pieces, uint64_t n,
				       struct penstock_err *err);

/* -------------------------------------------------------------- safetensors */

/* What tensors are made of, by increasing alignment: the order in which files are written. */
enum penstock_dtype {
	PENSTOCK_BOOL = 0,
	PENSTOCK_F4,
	PENSTOCK_F6_E2M3,
	PENSTOCK_F6_E3M2,
	PENSTOCK_U8,
	PENSTOCK_I8,
	PENSTOCK_F8_E5M2,
	PENSTOCK_F8_E4M3,
	PENSTOCK_F8_E8M0,
	PENSTOCK_F8_E4M3FNUZ,
	PENSTOCK_F8_E5M2FNUZ,
	PENSTOCK_I16,
	PENSTOCK_U16,
	PENSTOCK_F16,
	PENSTOCK_BF16,
	PENSTOCK_I32,
	PENSTOCK_U32,
	PENSTOCK_F32,
	PENSTOCK_C64,
	PENSTOCK_F64,
	PENSTOCK_I64,
	PENSTOCK_U64,
};

/* "BF16"; NULL where there is none of this number. */
PENSTOCK_API const char *penstock_dtype_name(unsigned dtype);
/* Its number, or -ENOENT. */
PENSTOCK_API int penstock_dtype_find(const char *name);
/* Bits of an element: 4, 6, 8, ... 64; 0 where there is none of this number. */
PENSTOCK_API unsigned penstock_dtype_bits(unsigned dtype);

/* A tensor in a file or, with @buf, in memory: row-major and without gaps. */
struct penstock_tensor {
	const char *name; /* UTF-8 */
	const uint64_t *shape;
	uint32_t rank;   /* 0..64; 0: one element */
	uint32_t dtype;  /* enum penstock_dtype */
	uint64_t len;    /* bytes: what @shape and @dtype say */
	uint64_t offset; /* in the file; writing does not look at it */
	const void *buf; /* host or device memory; reading leaves NULL here */
};

/* An entry of __metadata__, UTF-8. */
struct penstock_meta {
	const char *key;
	const char *value;
};

struct penstock_safetensors; /* a file that is read */

/*
 * Open a file and check its header by every rule of the format: its length, UTF-8, JSON, names that
 * occur once, dtypes, shapes, and ranges without overlap or hole from the header to the end of the
 * file.  @opts as for penstock_reader_open(), and NULL is allowed.  Returns 0, what
 * penstock_reader_open() and penstock_reader_read() say, or
 *   -EINVAL	it is no such file; the message says which rule, where, and of which tensor
 *   -EBADMSG	the chunk of the header is not what was saved; the message says what else is in it,
 *		as far as a header that is not to be trusted tells
 */
PENSTOCK_API int penstock_safetensors_open(struct penstock_safetensors **out,
					   struct penstock_io *io, const char *path,
					   const struct penstock_reader_opts *opts,
					   struct penstock_err *err);
/* NULL is allowed. */
PENSTOCK_API void penstock_safetensors_close(struct penstock_safetensors *s);

/* The @i-th tensor in the order of the file; NULL past the last.  It lives as long as @s. */
PENSTOCK_API const struct penstock_tensor *
penstock_safetensors_get(const struct penstock_safetensors *s, uint64_t i);
/* Its number by its name, or -ENOENT. */
PENSTOCK_API int64_t penstock_safetensors_find(const struct penstock_safetensors *s,
					       const char *name);
/* The @i-th entry of __metadata__ in the order of the header; NULL past the last. */
PENSTOCK_API const struct penstock_meta *
penstock_safetensors_metadata(const struct penstock_safetensors *s, uint64_t i);
/* The reader underneath, for what is not asked for by tensors.  It stays the file's. */
PENSTOCK_API struct penstock_reader *penstock_safetensors_reader(struct penstock_safetensors *s);

/* A tensor, or a slice of it, and the memory it goes to. */
struct penstock_tensor_read {
	uint64_t tensor; /* its number */
	void *buf;       /* host or device memory; NULL: only check it */
	/*
	 * Of each dimension the first index and how many, @rank of each; both NULL: all of it. What
	 * is read is without gaps.  Elements smaller than a byte must come in whole bytes.
	 */
	const uint64_t *start;
	const uint64_t *count;
};

/*
 * Read tensors and slices: all ranges of all of them as one penstock_reader_fetch().  Returns 0 or
 * as that; -EBADMSG names the tensors that are concerned.  -EINVAL: there is no such tensor, or a
 * slice is not within it.
 */
PENSTOCK_API int penstock_safetensors_read(struct penstock_safetensors *s,
					   const struct penstock_tensor_read *reads, uint64_t n,
					   struct penstock_err *err);

/*
 * Write a file through @w, from its position on, which should be 0; the caller commits.  The bytes
 * are those of the reference library for the same tensors: by dtype, the widest first, then by
 * name, and a header that is padded to 8 bytes.  (It writes __metadata__ in an order that changes
 * from run to run; this keeps the caller's.)  -EINVAL: a tensor is not well-formed; the message
 * names it.
 */
PENSTOCK_API int penstock_safetensors_write(struct penstock_writer *w,
					    const struct penstock_tensor *tensors, uint64_t n,
					    const struct penstock_meta *meta, uint64_t nr_meta,
					    struct penstock_err *err);

/* A file of these tensors, complete and durable: open, write, commit.  @opts may be NULL. */
PENSTOCK_API int penstock_safetensors_save(struct penstock_io *io, const char *path,
					   const struct penstock_tensor *tensors, uint64_t n,
					   const struct penstock_meta *meta, uint64_t nr_meta,
					   const struct penstock_writer_opts *opts,
					   struct penstock_err *err);

/* ---- torch ---- */

/* A record of a zip archive. */
struct penstock_record {
	const char *name; /* of any bytes but 0; torch's are UTF-8 */
	uint64_t header;  /* where in the file its header begins ... */
	uint64_t offset;  /* ... and its content, which is stored as it is */
	uint64_t len;     /* of its content */
	uint32_t crc;     /* CRC-32 of its content, as the archive says */
};

struct penstock_archive; /* the directory of one */

/*
 * Read the directory of the zip archive, as torch.save() writes them, that a file is.  Nothing in
 * it is believed before it was seen to lie within the file, and apart from all else.  Headers are
 * read only where records do not lie as torch lays them out.  The reader is not needed any more
 * when it returns.  Returns 0, what penstock_reader_pread() says, or
 *   -EINVAL	it is none, or one with records that are compressed; the message says what is wrong
 */
PENSTOCK_API int penstock_archive_open(struct penstock_archive **out, struct penstock_reader *r,
				       struct penstock_err *err);
/* NULL is allowed. */
PENSTOCK_API void penstock_archive_close(struct penstock_archive *a);
/* The @i-th record in the order of the file; NULL past the last.  It lives as long as @a. */
PENSTOCK_API const struct penstock_record *penstock_archive_get(const struct penstock_archive *a,
								uint64_t i);

/*
 * As penstock_writer_write(), and *@crc goes on: the CRC-32 of zip archives of what had it before
 * (0: of nothing), followed by these bytes.
 */
PENSTOCK_API int penstock_writer_write_crc32(struct penstock_writer *w, const void *buf,
					     uint64_t len, uint32_t *crc, struct penstock_err *err);

/*
 * CRC-32 of zip archives, which torch saves: of what had @crc before (0: of nothing), followed by
 * these bytes.
 */
PENSTOCK_API uint32_t penstock_crc32(uint32_t crc, const void *buf, size_t len);

#ifdef __cplusplus
}
#endif
#endif
