/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_WORDS_H
#define SLUICE_MEASURE_WORDS_H

/*
 * How users spell the values of enum sluice_direct, sluice_durability and sluice_huge, on the
 * command line and in results, in their order; NULL-terminated.
 */
extern const char *const io_direct_words[];
extern const char *const io_durability_words[];
extern const char *const io_huge_words[];

#endif
