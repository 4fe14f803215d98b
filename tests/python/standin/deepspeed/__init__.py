# SPDX-License-Identifier: Apache-2.0
"""A stand-in for DeepSpeed: the parts of it that look for operators, as its contract says.

Its own operators cannot be built here, as on a machine without libaio: is_compatible() is False and
load() raises, unless deepspeed.git_version_info is told that they are installed.
"""
from . import ops
from . import comm, utils
from .accelerator import get_accelerator
from .git_version_info import installed_ops

__version__ = '0.19.6+standin'
