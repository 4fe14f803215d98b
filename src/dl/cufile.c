/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/cufile.h"

#include <pthread.h>

#include "base/util.h"
#include "dl/load.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sluice_cufile cufile;
static char reason[160];
static bool usable;

static void load(void)
{
	void *driver_open;
	const struct sluice_dl_symbol symbols[] = {
		{"cuFileDriverOpen", &driver_open, 0}, /* is it cuFile at all? */
		{"cuFileGetVersion", (void **)&cufile.version, 1},
	};

	usable = sluice_dl_load("libcufile.so.0", symbols, ARRAY_SIZE(symbols), reason,
				sizeof(reason)) == 0;
}

const struct sluice_cufile *sluice_cufile(const char **why)
{
	pthread_once(&once, load);
	if (why)
		*why = reason;
	return usable ? &cufile : NULL;
}
