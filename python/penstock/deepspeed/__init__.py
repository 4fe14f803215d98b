# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's asynchronous I/O, on penstock.

The names, arguments and results of DeepSpeed's async_io, gds and pin_memory operators, without
its aborts, lost bytes and alignment rules.  Either use them from here, or let an installed
DeepSpeed use them:

    import penstock.deepspeed
    penstock.deepspeed.install()

Names are looked up when they are used: install() alone, which every child process runs when it
starts, does not import torch.
"""
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._install import install, installed, uninstall

if TYPE_CHECKING:
    from ._op_functions import aio_read, aio_write, deepspeed_memcpy
    from ._builders import AsyncIOBuilder, GDSBuilder, PinMemoryBuilder
    from ._engine import CheckpointEngine
    from ._handle import aio_handle, gds_handle
    from ._locked_memory import pin_handle
    from ._tensor import cast_to_byte_tensor
    from ._fast_file_writer import FastFileWriter, FastFileWriterConfig
    from ._file_writers import MockFileWriter, PyFileWriter

__all__ = [
    'AsyncIOBuilder',
    'CheckpointEngine',
    'FastFileWriter',
    'FastFileWriterConfig',
    'GDSBuilder',
    'MockFileWriter',
    'PinMemoryBuilder',
    'PyFileWriter',
    'aio_handle',
    'aio_read',
    'aio_write',
    'cast_to_byte_tensor',
    'deepspeed_memcpy',
    'gds_handle',
    'install',
    'installed',
    'pin_handle',
    'uninstall',
]

_HOMES = {
    '_op_functions': ('aio_read', 'aio_write', 'deepspeed_memcpy'),
    '_builders': ('AsyncIOBuilder', 'GDSBuilder', 'PinMemoryBuilder'),
    '_engine': ('CheckpointEngine',),
    '_handle': ('aio_handle', 'gds_handle'),
    '_locked_memory': ('pin_handle',),
    '_tensor': ('cast_to_byte_tensor',),
    '_fast_file_writer': ('FastFileWriter', 'FastFileWriterConfig'),
    '_file_writers': ('MockFileWriter', 'PyFileWriter'),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module('.' + home, __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
