/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

const struct t_group rg_order = {
	"order", rg_setup, rg_teardown, NULL, 0,
};
