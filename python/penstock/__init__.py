# SPDX-License-Identifier: Apache-2.0
"""Tensors between storage and memory, at the speed of the device.

    import penstock, torch

    with penstock.Handle() as h:
        h.write(torch.arange(1000), 'numbers')
        t = penstock.empty(1000, torch.int64)
        h.read(t, 'numbers')

docs/python.md is the manual; penstock.deepspeed is a drop-in for DeepSpeed's handles.
"""
from ._io_arrays import empty
from ._penstock import File, Future, Handle, Memory, __version__, info
from ._weight_update import WeightUpdate
from .store import Store
from .weights import WeightWindow

__all__ = ['File', 'Future', 'Handle', 'Memory', 'Store', 'WeightWindow', 'WeightUpdate', '__version__',
           'empty', 'info']
