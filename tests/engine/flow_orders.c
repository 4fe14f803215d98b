/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/flowkit.h"
static void nothing(void)
{
}
static const struct t_case cases[] = {T_CASE(nothing)};
const struct t_group fk_orders = {"orders", fk_setup, fk_teardown, cases, T_COUNT(cases)};
