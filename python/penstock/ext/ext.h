/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_EXT_H
#define PENSTOCK_PYTHON_EXT_H

/*
 * The Python extension, against the limited API of CPython 3.11.
 *
 *	module.c	the module and its state
 *	handle.c	penstock.Handle: arguments in, operations out
 *	options.c	its arguments
 *	batch.c		its methods for many transfers at once
 *	shared_io.c	what a handle shares with its futures and files
 *	thread_shard.c	the part of it that a thread has to itself, and waiting
 *	file.c		penstock.File
 *	future.c	penstock.Future: one operation, from submission to result
 *	dispatch.c	the thread that runs callbacks of futures
 *	memory.c	penstock.Memory, and the list of all memory of this kind
 *	register.c	memory that users make known to a handle's engine
 *	buffer.c	from a Python object to addresses
 *	torch.c		the same for torch tensors and DLPack
 *	cuda.c		the same for __cuda_array_interface__
 *	strided.c	strided memory: runs, packing, unpacking; knows no Python
 *	store.c		the core of penstock.Store
 *	event_log.c	its events, for Python's log
 *	s3client.c	the core of penstock.s3: requests
 *	s3fetch.c	its reads
 *	s3_upload.c	its lists and uploads
 *	bytes_view.c	penstock.s3.BytesView: what came from an object store
 *	weights.c	the core of penstock.WeightWindow
 *	info.c		penstock.info()
 *	writer_core.c	_penstock.WriterCore: files that appear when they are complete
 *	reader_core.c	_penstock.ReaderCore: files that are read in batches of ranges
 *	pickle_check.c	which pickles need no careful unpickler
 *	gen.c		_penstock.Content: what tests and benchmarks write
 *	args.c		arguments, paths
 *	error.c		OSError from -errno and a message
 *
 * Who may touch what: Python objects only threads of Python, with the GIL where there is one.
 * Nothing else relies on it: CPython is built without, too, and what threads share is atomic or
 * has a lock, which is held for a few lines without Python code.  "With the GIL" below and
 * elsewhere means a thread that Python knows, between Py_BEGIN_ and Py_END_ALLOW_THREADS none.
 * A completion arrives in an I/O thread of the library, which Python does not know: it fills the
 * plain fields of its future, marks it done and puts it on a list of its handle's (thread_shard.c).
 * The next thread of Python that looks at the future or the handle finalizes it: unpacks, gives up
 * references.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "strided.h"

struct module_state {
	PyTypeObject *handle_type;
	PyTypeObject *file_type;
	PyTypeObject *future_type;
	PyTypeObject *memory_type;
	PyTypeObject *writer_type;
	PyTypeObject *reader_type;
	PyTypeObject *content_type;
	PyTypeObject *store_type;
	PyTypeObject *client_type;
	PyTypeObject *listing_type;
	PyTypeObject *upload_type;
	PyTypeObject *bytes_view_type;
	PyTypeObject *weights_type;
	PyObject *_Atomic torch_tensor; /* torch.Tensor once torch has been imported, else NULL */
};

struct module_state *module_state(void);     /* of the one module; a borrowed pointer, never NULL */
PyObject *module_function(const char *name); /* new reference, or NULL with an exception */

/* __reduce__ of everything that lives in one process only: raises TypeError. */
PyObject *refuse_pickle(PyObject *self, PyObject *unused);

/* ---- error.c */

/* Raise OSError(-code, msg, filename); filename may be NULL.  Returns NULL. */
PyObject *raise_os(int code, const char *msg, PyObject *filename);

/* ---- buffer.c */

/*
 * The memory of one Python object, for one transfer.
 *
 * Contiguous memory is moved in place: @addr.  Strided memory with runs of some
 * size is moved in place too, by a scatter list: @iov.  What is strided more
 * finely goes through @staged, a contiguous copy that is as large as the transfer.
 * Memory of a CUDA device (@device) is moved in place or not at all: nothing here may
 * touch it.
 */
struct buffer {
	PyObject *owner; /* of the memory; referenced until the operation is over */
	Py_buffer view;  /* view.obj is NULL when there is none */
	char *addr;      /* the bytes to move when nr_iov is 0, the copy if there is one */
	uint64_t bytes;  /* how many */
	struct penstock_iov *iov;
	unsigned nr_iov;
	void *staged;            /* malloced copy, or NULL */
	struct strided *strided; /* where the bytes of @staged belong, or NULL */
	PyObject *finish;        /* called with the bytes that a read has moved, or NULL */
	bool copied;             /* @addr is a copy on its device, which @owner owns */
	bool device;             /* set before it is filled */
	bool ordered;            /* only after what is queued in @stream now */
	void *stream;            /* CUstream; NULL: the legacy default one */
};

/*
 * Find the memory of @obj and fill @t.  @into: the transfer will write to it (a
 * read from storage), so it must be writable and must not overlap itself; else
 * what needs a copy is copied now.  @length: only so many bytes from the start in
 * C order, -1: all of them.  Returns 0, or -1 with an exception set and nothing
 * to drop:
 *   TypeError	no memory in this object, object pointers in it, read-only,
 *		sparse, on a device without data, strided finely on a CUDA device
 *   ValueError	@length is larger than the object, or negative but not -1; overlaps itself
 *   BufferError, MemoryError, what the object's own methods raise
 */
int buffer_from_object(struct buffer *t, PyObject *obj, bool into, int64_t length);

/*
 * After a successful read of @bytes bytes: put them where they belong.  Call it
 * without the GIL; does nothing unless the memory is strided.
 */
void buffer_unpack(const struct buffer *t, uint64_t bytes);

/* With the GIL: the same for what needs Python (@finish).  0, or -1 with an exception set. */
int buffer_finish(const struct buffer *t, uint64_t bytes);

/* The memory of an object, all of it in one piece; 0, or -1 with an exception. */
int buffer_from_whole_object(struct buffer *t, PyObject *obj);

/* With the GIL: give everything back.  May be called twice. */
void buffer_release(struct buffer *t);

/*
 * For torch.c and cuda.c.  Fill in what is moved, and how: @bytes bytes that lie together, or an
 * array in C order, strides in bytes (NULL: without gaps).  0, or -1 with an exception set.
 */
int buffer_set(struct buffer *t, void *addr, uint64_t bytes, int64_t length);
int buffer_set_array(struct buffer *t, void *base, uint64_t itemsize, unsigned ndim,
		     const int64_t *shape, const int64_t *strides, bool into, int64_t length);
/* TypeError: "obj: 'NAME' object WHY", with NAME the type of @obj.  Returns -1. */
int refuse_object(PyObject *obj, const char *why);
/* 1 with a new reference in *@out, 0 when there is no such attribute, -1 with an exception. */
int get_attribute(PyObject **out, PyObject *obj, const char *name);

/* ---- torch.c, cuda.c, for buffer.c */

int torch_setup(void); /* once, when the module is loaded; 0 or -1 with an exception */

/* Each: 1 when @obj was of this kind and @t is filled, 0 when it is not, -1 with an exception. */
int buffer_from_torch(struct buffer *t, PyObject *obj, bool into, int64_t length);
int buffer_from_dlpack(struct buffer *t, PyObject *obj, bool into, int64_t length);
int buffer_from_cuda_array(struct buffer *t, PyObject *obj, bool into, int64_t length);

/* For torch.c: as __cuda_array_interface__ and DLPack have it: 1 is the legacy default stream. */
void buffer_set_stream(struct buffer *t, unsigned long long stream);
/* Does CUDA know the memory that @t has been filled with?  0, or -1 with TypeError. */
int buffer_check_cuda(const struct buffer *t, PyObject *obj);
/* Numbers of a tuple of @n, with room for at least one; malloced, NULL with an exception. */
int64_t *numbers_of_tuple(PyObject *tuple, Py_ssize_t n);

/* ---- memory.c */

extern PyType_Spec memory_spec;
PyObject *memory_in_memory(PyObject *module, PyObject *args); /* _penstock.in_memory() */

/* Does [addr, addr + len) lie in memory of this kind?  The caller keeps what it lies in alive. */
bool memory_contains(const void *addr, uint64_t len);

/*
 * Make the memory of this kind in which the bytes lie known to the handle's engine, once per
 * handle; what fails is not an error, transfers work without.  Releases the GIL while registering.
 * Returns whether the engine took it, or -1 where they lie in none.
 */
int memory_register(const void *addr, uint64_t len, struct penstock_io *io);
/* The handle is about to be closed: forget it everywhere. */
void memory_forget_handle(struct penstock_io *io);

/* ---- store.c */

extern PyType_Spec store_spec;

/* ---- weights.c */

extern PyType_Spec weights_spec;

/* ---- info.c */

PyObject *info_stats(const struct penstock_stats *s); /* as a dict */
PyObject *info_info(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *file_state(PyObject *module, PyObject *path);

/* ---- future.c, handle.c, file.c, dispatch.c: see handle.h */

#endif
