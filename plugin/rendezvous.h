/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PLUGIN_RENDEZVOUS_H
#define PENSTOCK_PLUGIN_RENDEZVOUS_H

/*
 * What penstock needs of MPI: that the processes of a run find each other.  Everything else goes
 * over connections of their own, so that MPI is over before anything is measured: its libraries
 * turn round and round while they wait, and end all ranks when one is lost.
 *
 * MPI has no ABI that Open MPI and MPICH share, so this is compiled once for each, with its mpicc,
 * into a shared object that the command loads when a launcher has started it.
 */
#define RENDEZVOUS_VERSION 1
#define RENDEZVOUS_SYMBOL  "penstock_rendezvous"

struct rendezvous {
	unsigned version;
	/* 0, or the error of the library. */
	int (*open)(int *ret_rank, int *ret_size);
	/* @len bytes of rank 0 to all. */
	int (*broadcast)(void *data, int len);
	int (*close)(void);
};

#endif
