# SPDX-License-Identifier: Apache-2.0
from ..builder import OpBuilder


class NotImplementedBuilder(OpBuilder):
    BUILD_VAR = 'DS_BUILD_NOT_IMPLEMENTED'
    NAME = 'deepspeed_not_implemented'

    def __init__(self, name=None):
        super().__init__(name or self.NAME)

    def load(self, verbose=False):
        raise ValueError('This op had not been implemented on CPU backend.')
