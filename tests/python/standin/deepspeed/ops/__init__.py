# SPDX-License-Identifier: Apache-2.0
from . import aio, gds, op_builder, pin_memory
from ..git_version_info import compatible_ops as __compatible_ops__
