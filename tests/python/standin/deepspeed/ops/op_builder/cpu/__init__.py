# SPDX-License-Identifier: Apache-2.0
"""Builders for hosts without a GPU."""
from ..pin_memory import PinMemoryBuilder
from ..utils import UtilsBuilder
from .async_io import AsyncIOBuilder
from .no_impl import NotImplementedBuilder
