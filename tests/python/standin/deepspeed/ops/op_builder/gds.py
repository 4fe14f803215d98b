# SPDX-License-Identifier: Apache-2.0
from .async_io import AsyncIOBuilder


class GDSBuilder(AsyncIOBuilder):
    BUILD_VAR = 'DS_BUILD_GDS'
    NAME = 'gds'

    def absolute_name(self):
        return 'deepspeed.ops.gds.gds_op'
