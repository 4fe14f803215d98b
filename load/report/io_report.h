/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_IO_REPORT_H
#define SLUICE_REPORT_IO_REPORT_H

/*
 * What an I/O job found out, for people and for programs, from the same struct.
 * Speeds in the text are what ds_io calls GB: 2^30 bytes.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct io_job;
struct io_result;

/* "[i]: process D <----> F" for each worker, as ds_io prints it. */
void io_report_places(FILE *f, const struct io_job *job);

/* ds_io's four result lines, then what ran. */
void io_report_text(FILE *f, const struct io_job *job, const struct io_result *res);

/*
 * The same as an object of schema "sluice-io/1"; NULL when there is no memory.
 * @machine describes where it was measured; the reference is taken.
 */
json_t *io_report_json(const struct io_job *job, const struct io_result *res, json_t *machine);

/* Bits SLUICE_FELL_* as an array of words. */
json_t *report_fallbacks_json(uint32_t bits);

#endif
