# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's builders of operators.  There is nothing to build."""
from importlib import import_module
from types import ModuleType
from typing import ClassVar

import torch


class Builder:
    NAME: ClassVar[str]
    BUILD_VAR: ClassVar[str]
    MODULE: ClassVar[str]  # ours
    PLACE: ClassVar[str]  # where DeepSpeed has a prebuilt one

    def __init__(self) -> None:
        self.name = self.NAME

    @property
    def error_log(self) -> str | None:
        """Why it cannot be used here."""
        return None

    def absolute_name(self) -> str:
        return self.PLACE

    def is_compatible(self, verbose: bool = False) -> bool:
        error = self.error_log
        if error and verbose:
            print(f'[WARNING] {error}')
        return error is None

    def load(self, verbose: bool = False) -> ModuleType:
        return import_module('.' + self.MODULE, __package__)


class AsyncIOBuilder(Builder):
    NAME = 'async_io'
    BUILD_VAR = 'DS_BUILD_AIO'
    MODULE = 'async_io_op'
    PLACE = 'deepspeed.ops.aio.async_io_op'


class GDSBuilder(AsyncIOBuilder):
    NAME = 'gds'
    BUILD_VAR = 'DS_BUILD_GDS'
    MODULE = 'gds_op'
    PLACE = 'deepspeed.ops.gds.gds_op'

    @property
    def error_log(self) -> str | None:
        devices = torch.cuda.device_count()  # asks NVML, so a later fork() is still safe
        return None if devices else 'gds: there is no CUDA device here'


class PinMemoryBuilder(Builder):
    NAME = 'pin_memory'
    BUILD_VAR = 'DS_BUILD_PIN_MEMORY'
    MODULE = 'pin_memory_op'
    PLACE = 'deepspeed.ops.pin_memory.pin_memory_op'


BUILDERS: dict[str, type[Builder]] = {
    builder.NAME: builder for builder in (AsyncIOBuilder, GDSBuilder, PinMemoryBuilder)}
