/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_DL_CRYPTO_H
#define PENSTOCK_DL_CRYPTO_H

#include <stddef.h>

/*
 * Of libcrypto (OpenSSL 3 or 1.1) SHA-256 and MD5, loaded at run time like dl/cuda.h.  The plain
 * functions of 1.1 that 3 still has: those that replace them look their method up for every few
 * bytes.
 */
struct penstock_sha256 {
	unsigned long long state[32]; /* SHA256_CTX has 112 bytes */
};

struct penstock_crypto {
	int (*sha256_init)(struct penstock_sha256 *s);
	int (*sha256_update)(struct penstock_sha256 *s, const void *data, size_t len);
	int (*sha256_final)(unsigned char md[32], struct penstock_sha256 *s);
	/* NULL where it was left out of the library. */
	unsigned char *(*md5)(const void *data, size_t len, unsigned char md[16]);
};

/* The functions, or NULL with the reason in *@why. */
const struct penstock_crypto *penstock_crypto(const char **why);

#endif
