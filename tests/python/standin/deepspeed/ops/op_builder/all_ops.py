# SPDX-License-Identifier: Apache-2.0
from deepspeed.accelerator import get_accelerator

_names = ('AsyncIOBuilder', 'GDSBuilder', 'PinMemoryBuilder', 'UtilsBuilder')
_builders = [get_accelerator().get_op_builder(name)() for name in _names]
ALL_OPS = {builder.name: builder for builder in _builders}
