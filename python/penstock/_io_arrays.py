# SPDX-License-Identifier: Apache-2.0
"""penstock.empty(): arrays and tensors in memory that is made for I/O."""
import math
import operator
import sys
from collections.abc import Iterable
from typing import Any, SupportsIndex

from ._penstock import Memory


def empty(
    shape: SupportsIndex | Iterable[SupportsIndex], dtype: Any = None, pinned: bool = True
) -> Any:
    """A new array whose memory is on huge pages and, with pinned, locked: see Memory.

    A torch.dtype gives a torch tensor; anything numpy takes for a dtype gives a numpy array, of
    float64 when it is None.  Do not rely on the contents.  The memory is freed with the last
    array, tensor or view that uses it.  Where the system refuses to lock it
    (RLIMIT_MEMLOCK) it is not locked, and works all the same.
    """
    sizes = _sizes(shape)
    torch = sys.modules.get('torch')  # who has a torch.dtype has imported it
    if torch is not None and isinstance(dtype, torch.dtype):
        return _empty_tensor(torch, sizes, dtype, pinned)
    return _empty_array(sizes, dtype, pinned)


def _sizes(shape: SupportsIndex | Iterable[SupportsIndex]) -> tuple[int, ...]:
    sizes: tuple[int, ...]
    try:
        sizes = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        try:
            sizes = tuple(map(operator.index, shape))  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(f'shape: {shape!r} is no integer and no sequence of integers') from None
    if any(n < 0 for n in sizes):
        raise ValueError(f'shape: {shape!r} has a negative size')
    return sizes


def _memory(sizes: tuple[int, ...], itemsize: int, pinned: bool) -> Memory:
    # Not only the product: with a 0 in it the rest must still be an array's.
    if math.prod(n or 1 for n in sizes) * itemsize > sys.maxsize:
        raise ValueError(f'shape: {sizes} with {itemsize} bytes each is more than memory can have')
    return Memory(math.prod(sizes) * itemsize, pinned=pinned)


def _empty_tensor(torch: Any, sizes: tuple[int, ...], dtype: Any, pinned: bool) -> Any:
    if str(dtype).startswith('torch.q'):  # quint8, ...
        raise TypeError(f'dtype: {dtype} is quantised, and a scale belongs to it; quantise a '
                        'tensor of numbers')
    try:
        itemsize = torch.empty(0, dtype=dtype).element_size()
        torch.frombuffer(bytearray(itemsize), dtype=dtype)
    except (RuntimeError, ValueError, TypeError):
        raise TypeError(f'dtype: {dtype} is none that memory can be given to') from None
    memory = _memory(sizes, itemsize, pinned)
    if not memory.nbytes:
        return torch.empty(sizes, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).reshape(sizes)


def _empty_array(sizes: tuple[int, ...], dtype: Any, pinned: bool) -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError('penstock.empty() needs numpy unless dtype is a torch.dtype',
                          name='numpy') from None
    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f'dtype: {kind} holds Python objects; only plain data can be moved')
    memory: Any = _memory(sizes, kind.itemsize, pinned)
    return numpy.ndarray(sizes, kind, memory)
