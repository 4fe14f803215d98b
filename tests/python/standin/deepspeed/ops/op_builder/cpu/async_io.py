# SPDX-License-Identifier: Apache-2.0
from ..builder import OpBuilder
from ..pin_memory import PinMemoryBuilder


class AsyncIOBuilder(OpBuilder):
    BUILD_VAR = 'DS_BUILD_AIO'
    NAME = 'async_io'

    def __init__(self):
        super().__init__(self.NAME)

    def absolute_name(self):
        return 'deepspeed.ops.aio.async_io_op'

    def load(self, verbose=False):
        PinMemoryBuilder().load(verbose)
        return super().load(verbose)
