# SPDX-License-Identifier: Apache-2.0
"""Tensors as bytes."""
import ctypes
from typing import Any

import torch

from . import _args


def nbytes(tensor: torch.Tensor) -> int:
    size: int = tensor.numel() * tensor.element_size()
    return size


def cast_to_byte_tensor(tensors: Any) -> Any:
    """A contiguous tensor as a uint8 tensor on the same memory; of a list, one each."""
    if isinstance(tensors, (list, tuple)):
        return [cast_to_byte_tensor(tensor) for tensor in tensors]
    tensor = _args.tensor('tensor', tensors).detach()
    if not tensor.is_contiguous():
        raise ValueError('tensor: its elements do not lie together; a contiguous() copy would do')
    return tensor.reshape(-1).view(torch.uint8)


def host_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes in C order as a uint8 tensor in host memory: the tensor's own, or a copy."""
    return cast_to_byte_tensor(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous())


def host_view(tensor: torch.Tensor) -> memoryview:
    """The memory of a uint8 host tensor."""
    if tensor.numel() == 0:
        return memoryview(bytearray())
    memory = (ctypes.c_ubyte * tensor.numel()).from_address(tensor.data_ptr())
    memory.owner = tensor
    return memoryview(memory).cast('B')


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first address of a strided tensor, and the bytes up to its last element's end."""
    itemsize = tensor.element_size()
    if tensor.numel() == 0:  # whose data_ptr() is 0
        return storage_address(tensor) + tensor.storage_offset() * itemsize, 0
    last = sum((n - 1) * stride for n, stride in zip(tensor.size(), tensor.stride()))
    return tensor.data_ptr(), (last + 1) * itemsize


def storage_address(tensor: torch.Tensor) -> int:
    untyped = getattr(tensor, 'untyped_storage', None)  # torch 2
    address: int = (untyped() if untyped else tensor.storage()).data_ptr()
    return address
