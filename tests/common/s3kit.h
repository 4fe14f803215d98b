/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_S3KIT_H
#define PENSTOCK_TESTS_S3KIT_H

/* The server of tests/s3, a program of its own that fails by rules, and clients of it. */
#include <penstock/s3.h>

#include "tests/common/t.h"

enum { S3_PORTS = 4, S3_PART = 5 << 20 };

extern char s3_urls[S3_PORTS][64]; /* one store, four endpoints */
extern char s3_all_urls[S3_PORTS * 64];

/* Skips the program where libcurl is missing. */
void s3_start(const char *python, const char *script);
void s3_stop(void);
/* Tell the server, by the last port, which is never stopped. */
void s3_send_command(const char *what, const char *body);
void s3_set_fault_rules(const char *lines);
void s3_set_port(unsigned i, bool up);

struct penstock_s3 *s3_client(const char *endpoint, uint32_t attempts, uint32_t timeout_ms);
void s3_put_pattern(struct penstock_s3 *c, const char *uri, uint64_t seed, size_t len);
/* Begun in the bucket of the tests, and not ended. */
unsigned s3_nr_uploads(struct penstock_s3 *c);

#endif
