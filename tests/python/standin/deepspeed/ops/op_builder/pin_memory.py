# SPDX-License-Identifier: Apache-2.0
import ctypes
import sys

from .builder import OpBuilder


class PinMemoryBuilder(OpBuilder):
    BUILD_VAR = 'DS_BUILD_PIN_MEMORY'
    NAME = 'pin_memory'

    def __init__(self, name=None):
        super().__init__(name or self.NAME)

    def absolute_name(self):
        return 'deepspeed.ops.pin_memory.pin_memory_op'

    def load(self, verbose=False):
        module = getattr(sys, '_deepspeed_pin_memory_op_module', None)
        if module is None:
            module = super().load(verbose)
            sys._deepspeed_pin_memory_op_module = module
        if getattr(module, '__file__', None):
            ctypes.CDLL(module.__file__, mode=ctypes.RTLD_GLOBAL)
        return module
