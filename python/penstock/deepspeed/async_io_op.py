# SPDX-License-Identifier: Apache-2.0
"""What AsyncIOBuilder().load() returns."""
from ._basic import aio_read as aio_read
from ._basic import aio_write as aio_write
from ._basic import deepspeed_memcpy as deepspeed_memcpy
from ._handle import aio_handle as aio_handle
