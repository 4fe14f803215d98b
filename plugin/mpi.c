/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous by MPI; plugin/rendezvous.h says why it is so little. */
#include <mpi.h>
#include <stddef.h>

#include "plugin/rendezvous.h"

static int mpi_open(int *ret_rank, int *ret_size)
{
	int r = MPI_Init(NULL, NULL);

	if (r == MPI_SUCCESS)
		r = MPI_Comm_rank(MPI_COMM_WORLD, ret_rank);
	if (r == MPI_SUCCESS)
		r = MPI_Comm_size(MPI_COMM_WORLD, ret_size);
	return r;
}

static int mpi_broadcast(void *data, int len)
{
	return MPI_Bcast(data, len, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static int mpi_close(void)
{
	return MPI_Finalize();
}

extern const struct rendezvous penstock_rendezvous;
__attribute__((visibility("default"))) const struct rendezvous penstock_rendezvous = {
	.version = RENDEZVOUS_VERSION,
	.open = mpi_open,
	.broadcast = mpi_broadcast,
	.close = mpi_close,
};
