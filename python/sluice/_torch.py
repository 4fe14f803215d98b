# SPDX-License-Identifier: Apache-2.0
"""Tensors that are not simply contiguous host memory; ext/torch.c asks, nobody else."""
from collections.abc import Callable
from typing import TypeAlias

import torch

# What owns the memory, its address, bytes of an element, shape, strides in bytes, and what to
# call with the number of bytes after a read.
Description: TypeAlias = tuple[
    object, int, int, tuple[int, ...], tuple[int, ...], Callable[[int], None] | None]

# Elements that share bytes: how many to a byte.
_PACKED = {getattr(torch, name): n for name, n in (('quint4x2', 2), ('quint2x4', 4))
           if hasattr(torch, name)}


def sort(dtype: torch.dtype) -> int:
    """Bytes of an element; negative: complex, may be conjugated; 0: less than one byte."""
    if dtype in _PACKED:
        return 0
    itemsize = torch.empty(0, dtype=dtype).element_size()
    return -itemsize if dtype.is_complex else itemsize


def describe(tensor: torch.Tensor, into: bool) -> Description:
    """Where the bytes are; copies what is somewhere else, or looks different in memory."""
    _check(tensor)
    if tensor.device.type != 'cpu' or tensor.is_conj() or tensor.is_neg():
        return _stage_read(tensor) if into else _stage_write(tensor)
    if tensor.dtype in _PACKED:
        return _packed(tensor)
    return _in_place(tensor)


def _refuse(tensor: torch.Tensor, why: str) -> TypeError:
    return TypeError(f"obj: '{type(tensor).__name__}' object {why}")


def _check(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        kind = str(tensor.layout).removeprefix('torch.').lstrip('_')
        raise _refuse(tensor, f'has layout {kind}, which is no array in memory; move its parts, or '
                              'its to_dense()')
    if tensor.device.type == 'meta':
        raise _refuse(tensor, 'is on device meta, where tensors have no data')
    if tensor.device.type == 'cuda':
        _address(tensor)  # now, not when the data has come


def _address(tensor: torch.Tensor) -> int:
    try:
        address = tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        address = 0
    if not address and tensor.numel():
        raise _refuse(tensor, 'has no memory of its own')
    return address


def _in_place(tensor: torch.Tensor,
              finish: Callable[[int], None] | None = None) -> Description:
    itemsize = tensor.element_size()
    strides = tuple(n * itemsize for n in tensor.stride())
    return tensor, _address(tensor), itemsize, tuple(tensor.shape), strides, finish


def _packed(tensor: torch.Tensor) -> Description:
    if not tensor.is_contiguous() or tensor.storage_offset():
        raise _refuse(tensor, f'of {tensor.dtype} is part of another; its elements are no whole '
                              'bytes: move a copy')
    per_byte = _PACKED[tensor.dtype]
    nbytes = (tensor.numel() + per_byte - 1) // per_byte
    return tensor, _address(tensor), 1, (nbytes,), (1,), None


def _host_copy(tensor: torch.Tensor) -> torch.Tensor:
    """The values as they are in C order, in host memory."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().cpu()


def _stage_write(tensor: torch.Tensor) -> Description:
    return _in_place(_host_copy(tensor))


def _stage_read(tensor: torch.Tensor) -> Description:
    if any(n > 1 and stride == 0 for n, stride in zip(tensor.shape, tensor.stride())):
        raise ValueError('obj: some of its elements share memory, so that a read would write them '
                         'twice; read into a copy')
    host = torch.empty(tensor.shape, dtype=tensor.dtype)
    total = host.numel() * host.element_size()

    def finish(nbytes: int) -> None:
        values = host
        if nbytes < total:  # the rest keeps its values
            values = _host_copy(tensor).clone(memory_format=torch.contiguous_format)
            _as_bytes(values)[:nbytes] = _as_bytes(host)[:nbytes]
        with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
            tensor.copy_(values)

    return _in_place(host, finish)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
