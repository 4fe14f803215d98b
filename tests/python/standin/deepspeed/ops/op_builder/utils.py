# SPDX-License-Identifier: Apache-2.0
from .builder import OpBuilder


class UtilsBuilder(OpBuilder):
    BUILD_VAR = 'DS_BUILD_UTILS'
    NAME = 'utils'

    def __init__(self):
        super().__init__(self.NAME)

    def absolute_name(self):
        return 'deepspeed.ops.utils_op'
