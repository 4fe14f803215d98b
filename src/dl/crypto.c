/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/crypto.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/util.h"
#include "dl/load.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct penstock_crypto crypto;
static char reason[160];
static bool usable;

static void crypto_load(void)
{
	const struct penstock_dl_symbol symbols[] = {
		{"SHA256_Init", (void **)&crypto.sha256_init, 0},
		{"SHA256_Update", (void **)&crypto.sha256_update, 0},
		{"SHA256_Final", (void **)&crypto.sha256_final, 0},
		{"MD5", (void **)&crypto.md5, 1},
	};
	char other[sizeof(reason)];

	usable = penstock_dl_load("libcrypto.so.3", symbols, ARRAY_SIZE(symbols), reason,
				  sizeof(reason)) == 0 ||
		 penstock_dl_load("libcrypto.so.1.1", symbols, ARRAY_SIZE(symbols), other,
				  sizeof(other)) == 0;
}

const struct penstock_crypto *penstock_crypto(const char **why)
{
	pthread_once(&once, crypto_load);
	if (why)
		*why = reason;
	return usable ? &crypto : NULL;
}
