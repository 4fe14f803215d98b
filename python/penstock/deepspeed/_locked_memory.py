# SPDX-License-Identifier: Apache-2.0
"""Locked host memory, one register of it for the whole process.

A region is in the register, and so stays allocated, until it is freed by its address.  A tensor
that is still in use then keeps its memory; what ends is only the register's hold on it.
"""
from typing import Any, NoReturn

import torch

from .. import _penstock
from . import _args
from ._tensor import extent


class LockedRegions:
    """Memory by address.

    There is no lock, which a signal handler in the midst of a call would wait for in vain: one
    dict, changed and copied in single steps that nothing comes between.
    """

    def __init__(self) -> None:
        self._regions: dict[int, tuple[int, _penstock.Memory]] = {}  # start: end, owner

    def add(self, start: int, size: int, owner: _penstock.Memory) -> None:
        self._regions[start] = start + size, owner

    def remove(self, start: int) -> bool:
        return self._regions.pop(start, None) is not None

    def contain(self, start: int, size: int) -> bool:
        """Does one region hold all of it?"""
        return any(first <= start and start + size <= end and (start < end or start == first)
                   for first, (end, _) in self._regions.copy().items())


_regions = LockedRegions()


def new_tensor(num_elem: Any, example: torch.Tensor) -> torch.Tensor:
    number = _args.count('num_elem', num_elem)
    itemsize = example.element_size()
    try:
        memory = _penstock.Memory(max(number, 1) * itemsize, pinned=True)
    except OverflowError:
        raise MemoryError(f'num_elem: {number} elements of {itemsize} bytes are too many') from None
    # No view of a larger one: DeepSpeed watches for the end of this very tensor, whose views keep it.
    tensor = torch.frombuffer(memory, dtype=example.dtype, count=max(number, 1))
    tensor = tensor if number else tensor[:0]
    _regions.add(extent(tensor)[0], number * itemsize, memory)
    return tensor


def in_host_memory(tensor: torch.Tensor) -> bool:
    return bool(tensor.device.type == 'cpu' and tensor.layout == torch.strided)


def free_tensor(tensor: torch.Tensor) -> bool:
    return in_host_memory(tensor) and _regions.remove(extent(tensor)[0])


# When Python ends, the names of this module may be gone before DeepSpeed frees its buffers; the memory goes with the process.
_interpreter_runs = True


class LockedTensorMethods:
    """What all handles offer."""

    def new_cpu_locked_tensor(
        self, num_elem: int, example_tensor: torch.Tensor | None = None, *,
        example_tenosr: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """A 1-D tensor of @num_elem elements, of the example's dtype, in locked memory.

        Ends with free_cpu_locked_tensor(), not with the last reference.
        """
        return new_tensor(num_elem, _args.example(example_tensor, example_tenosr))

    def free_cpu_locked_tensor(self, tensor: torch.Tensor) -> bool:
        """False for a tensor that does not start where a locked one does, or is freed already."""
        if not _interpreter_runs:
            return True
        return free_tensor(_args.tensor('tensor', tensor))

    def is_pinned(self, buffer: torch.Tensor) -> bool:
        """Is all of it in locked memory, torch's or ours?"""
        if not _interpreter_runs or not in_host_memory(_args.tensor('buffer', buffer)):
            return False
        return _regions.contain(*extent(buffer)) or bool(buffer.is_pinned())

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f'{type(self).__name__} cannot be pickled or copied: it belongs to this '
                        'process; make a new one')


class pin_handle(LockedTensorMethods):
    """DeepSpeed's pin_memory operator."""

    def free_cpu_locked_tensor(self, locked_tensor: torch.Tensor) -> bool:
        if not _interpreter_runs:
            return True
        return free_tensor(_args.tensor('locked_tensor', locked_tensor))

    def free_cpu_locked_tensor_by_ptr(self, address: int) -> bool:
        """The same by the address of the first byte."""
        return _regions.remove(_args.integer('address', address, _args.INT64_MAX))
