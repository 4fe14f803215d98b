# SPDX-License-Identifier: Apache-2.0
from .ops.op_builder.all_ops import ALL_OPS

installed_ops = {name: False for name in ALL_OPS}
compatible_ops = {name: builder.is_compatible() for name, builder in ALL_OPS.items()}
