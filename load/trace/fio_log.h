/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_TRACE_FIO_LOG_H
#define SLUICE_TRACE_FIO_LOG_H

#include <stdbool.h>
#include <stddef.h>

#define FIO_NAME_MAX 255 /* bytes of a file's name in an iolog */

/* Can it be the name of a file in an iolog: not too long, without blanks? */
bool fio_name_fits(const char *key, size_t len);

#endif
