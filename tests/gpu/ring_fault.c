/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

const struct t_group rg_fault = {
	"fault", rg_setup, rg_teardown, NULL, 0,
};
