# SPDX-License-Identifier: Apache-2.0
"""What AsyncIOBuilder().load() returns."""
from ._op_functions import aio_read as aio_read
from ._op_functions import aio_write as aio_write
from ._op_functions import deepspeed_memcpy as deepspeed_memcpy
from ._handle import aio_handle as aio_handle
