/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_FUZZ_H
#define PENSTOCK_TESTS_FUZZ_H

/*
 * A fuzz target is one file with this function.  With clang -fsanitize=fuzzer
 * it is a fuzzer; linked with replay.c it runs what is in tests/fuzz/corpus.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                           \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                   \
		}                                                                  \
	} while (0)

#endif
