/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/gate.h"

#include <stddef.h>

static void (*gate)(void); /* set before any thread is there */

void gate_set(void (*wait)(void))
{
	gate = wait;
}

void gate_wait(void)
{
	if (gate)
		gate();
}
