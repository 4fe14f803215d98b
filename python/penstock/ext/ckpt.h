/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_CKPT_H
#define PENSTOCK_PYTHON_CKPT_H

#include "handle.h"

/*
 * Types that the modules written in Python build on, and users do not see: a file that is
 * written from start to end (writer_core.c), one that is read (reader_core.c), each with a handle
 * of its own; content for tests (gen.c).
 */
extern PyType_Spec writer_spec;
extern PyType_Spec reader_spec;
extern PyType_Spec content_spec;

/*
 * One thread at a time: what two begin at once is the second one's mistake.  0, or -1 with
 * RuntimeError.
 */
int begin_exclusive(int *in_use, const char *what);
void end_exclusive(int *in_use);

/* A handle; @engine as for penstock.Handle, NULL: the first that works.  NULL with an exception. */
struct penstock_io *ckpt_io(const char *engine);

/* Signal handlers, between two pieces of a long call: -1 with an exception where one raised. */
#define CKPT_PIECE (64u << 20)

/* crc32(data, value=0, /): of zip archives, fast. */
PyObject *ckpt_crc32(PyObject *module, PyObject *args);
/* huge(address, nbytes, /): ask for huge pages under memory that is about to be filled. */
PyObject *ckpt_huge(PyObject *module, PyObject *args);
/* copy(moves, /): memory of this process; of each move three numbers of 64 bits, to, from, bytes.
 */
PyObject *ckpt_copy(PyObject *module, PyObject *args);
/*
 * make_persistent_id(skipped_types, name, /): a function for pickle.Pickler.persistent_id, which is
 * asked for all that is pickled: None for what has one of @skipped_types, else what name() says.
 */
PyObject *ckpt_make_persistent_id(PyObject *module, PyObject *args);
/* is_simple_pickle(pickle, /): see pickle_check.c. */
PyObject *ckpt_is_simple_pickle(PyObject *module, PyObject *data);

#endif
