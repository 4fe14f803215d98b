/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_STANDIN_CUFILE_H
#define PENSTOCK_TESTS_STANDIN_CUFILE_H

/*
 * What a test sets in the stand-in libcufile, and what it has counted.  A test finds it
 * with dlsym("standin_cufile") after dlopen("libcufile.so.0").  A program that cannot do
 * that is told by the environment what to set, by the names of the fields:
 *
 *	STANDIN_CUFILE=refuse_handle=5027,nvfs=2
 */
#include <stdatomic.h>

struct standin_cufile {
	/* what to do */
	atomic_int refuse_driver; /* CUfileOpError of cuFileDriverOpen(), 0: none */
	atomic_int refuse_handle; /* of cuFileHandleRegister() */
	atomic_int refuse_buf;    /* of cuFileBufRegister() */
	atomic_int nvfs;          /* major version of nvidia-fs; 0: compatibility mode */
	atomic_int features;      /* as in the driver's properties */
	atomic_int shorten;       /* no call moves more bytes than this; 0: no limit */
	atomic_int fail_nth;      /* that read or write from now on fails, 1 being the next */
	atomic_int fail_with;     /* what it returns: -1, or a negative CUfileOpError */
	atomic_int fail_errno;    /* with -1 */
	atomic_int together;      /* no call ends before so many have been there at once */

	/* what was done */
	atomic_int driver_opens;
	atomic_int handles; /* registered now */
	atomic_int bufs;    /* the same */
	atomic_int handle_registers;
	atomic_int buf_registers;
	atomic_int reads;
	atomic_int writes;
	atomic_int in_registered; /* of these, in registered memory */
	atomic_int ragged;        /* writes by O_DIRECT with a part of a page at either end */
	atomic_int at_once;       /* most calls at the same time */
	char log[256];            /* where the real one would put it */
};

struct standin_cufile *standin_cufile(void);

#endif
