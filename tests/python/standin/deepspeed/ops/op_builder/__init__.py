# SPDX-License-Identifier: Apache-2.0
"""Builders.  A source checkout has this folder a second time, as the package op_builder."""
from .async_io import AsyncIOBuilder
from .builder import OpBuilder
from .gds import GDSBuilder
from .pin_memory import PinMemoryBuilder
from .utils import UtilsBuilder
