/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/words.h"

#include <stddef.h>

const char *const io_direct_words[] = {"auto", "always", "never", NULL};
const char *const io_durability_words[] = {"none", "data", "full", NULL};
const char *const io_huge_words[] = {"auto", "reserved", "never", NULL};
