# SPDX-License-Identifier: Apache-2.0
"""Tensors that are not simply contiguous memory; ext/torch.c asks, nobody else."""
import functools
from collections.abc import Callable
from typing import TypeAlias

import torch

Finish: TypeAlias = Callable[[int], None]

# What owns the memory, its address, bytes of an element, shape, strides in bytes, what to call
# with the number of bytes after a read, and of CUDA memory the stream that it is used in.
Description: TypeAlias = tuple[
    object, int, int, tuple[int, ...], tuple[int, ...], Finish | None, int | None]

# Elements that share bytes: how many to a byte.
_PACKED = {getattr(torch, name): n for name, n in (('quint4x2', 2), ('quint2x4', 4))
           if hasattr(torch, name)}

# What numpy does not know, by something as large that it does know.
_NUMPY_DTYPES = {getattr(torch, name): like for name, like in (
    ('bfloat16', torch.int16), ('float8_e4m3fn', torch.uint8), ('float8_e5m2', torch.uint8),
    ('float8_e4m3fnuz', torch.uint8), ('float8_e5m2fnuz', torch.uint8),
    ('float8_e8m0fnu', torch.uint8), ('complex32', torch.int32)) if hasattr(torch, name)}


def itemsize_code(dtype: torch.dtype) -> int:
    """Bytes of an element; negative: complex, may be conjugated; 0: less than one byte."""
    if dtype in _PACKED:
        return 0
    itemsize = torch.empty(0, dtype=dtype).element_size()
    return -itemsize if dtype.is_complex else itemsize


def describe_memory(tensor: torch.Tensor, into: bool) -> Description:
    """Where the bytes are; copies what is somewhere else, or looks different in memory."""
    _check(tensor)
    if current_stream is not None and tensor.device.type == 'cuda':
        return _on_cuda(tensor, into)
    if tensor.device.type != 'cpu' or tensor.is_conj() or tensor.is_neg():
        return _host_copy_for_read(tensor) if into else _host_copy_for_write(tensor)
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


def freeze_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Another tensor on the same storage, which cannot be resized from now on.

    That is what torch does with memory that numpy has seen, and it has no other way to say it.
    """
    second = tensor.detach()
    seen = _NUMPY_DTYPES.get(second.dtype)
    try:
        (second if seen is None else second.view(seen)).numpy()
    except (RuntimeError, TypeError):
        pass  # no numpy, or not the host's memory: docs/python.md says what is left to the user
    return second


def _owners(tensor: torch.Tensor) -> object:
    """The tensor and its storage, of which it may be parted while a transfer is under way."""
    if tensor.device.type != 'cpu':
        return tensor, tensor.detach()
    return tensor, freeze_storage(tensor.as_strided((0,), (1,)))  # of any shape, larger than memory too


def _in_place(tensor: torch.Tensor, finish: Finish | None = None,
              order: int | None = None) -> Description:
    itemsize = tensor.element_size()
    strides = tuple(n * itemsize for n in tensor.stride())
    address = _address(tensor)
    return _owners(tensor), address, itemsize, tuple(tensor.shape), strides, finish, order


def _packed(tensor: torch.Tensor) -> Description:
    if not tensor.is_contiguous() or tensor.storage_offset():
        raise _refuse(tensor, f'of {tensor.dtype} is part of another; its elements are no whole '
                              'bytes: move a copy')
    per_byte = _PACKED[tensor.dtype]
    nbytes = (tensor.numel() + per_byte - 1) // per_byte
    address = _address(tensor)
    return _owners(tensor), address, 1, (nbytes,), (1,), None, None


# ---- copies: of what looks different in memory, or is where the library does not reach

def _values(tensor: torch.Tensor) -> torch.Tensor:
    """The values as they are in C order, on the tensor's device."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _host_copy_for_write(tensor: torch.Tensor) -> Description:
    return _in_place(_values(tensor).cpu())


def _host_copy_for_read(tensor: torch.Tensor) -> Description:
    _refuse_shared(tensor)
    host = torch.empty(tensor.shape, dtype=tensor.dtype)
    return _in_place(host, lambda nbytes: _copy_back(tensor, host, nbytes))


def _refuse_shared(tensor: torch.Tensor) -> None:
    if any(n > 1 and stride == 0 for n, stride in zip(tensor.shape, tensor.stride())):
        raise ValueError('obj: some of its elements share memory, so that a read would write them '
                         'twice; read into a copy')


def _copy_back(tensor: torch.Tensor, packed: torch.Tensor, nbytes: int) -> None:
    """The first bytes of @packed, in C order; the rest of the tensor keeps its values."""
    values = packed
    if nbytes < packed.numel() * packed.element_size():
        values = _values(tensor).to(packed.device).clone(memory_format=torch.contiguous_format)
        _as_bytes(values)[:nbytes] = _as_bytes(packed)[:nbytes]
    with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
        tensor.copy_(values)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


# ---- CUDA

# Pieces of device memory that are copied one by one are at least so large, and not more.
_PIECE_MIN = 64 << 10
_PIECES_MAX = 4096

_raw_stream: Callable[[int], int] | None = getattr(torch._C, '_cuda_getCurrentRawStream', None)


@functools.cache
def _private_stream(device: int, use: str) -> torch.cuda.Stream:
    """A stream of our own."""
    return torch.cuda.Stream(device)


def _current_stream(device: int) -> int:
    """The current stream of a device, by its address."""
    current: int = (_raw_stream(device) if _raw_stream
                    else torch.cuda.current_stream(device).cuda_stream)
    if current or device == torch.cuda.current_device():
        return current
    # 0 would be the default stream of another device, the current one.
    side = _private_stream(device, 'order')
    side.wait_stream(torch.cuda.default_stream(device))
    return side.cuda_stream


# None where tensors on 'cuda' are not CUDA's: torch for ROCm, or without any GPU.
current_stream: Callable[[int], int] | None = _current_stream if torch.version.cuda else None


def _on_cuda(tensor: torch.Tensor, into: bool) -> Description:
    """Copies are made on the device; they are complete before anybody else sees them."""
    device = tensor.get_device()
    if tensor.dtype in _PACKED:
        return (*_packed(tensor)[:-1], _current_stream(device))
    if _in_large_pieces(tensor):
        return _in_place(tensor, order=_current_stream(device))
    if not into:
        copy = _values(tensor)  # first: the transfer waits for it, too
        return _in_place(copy, order=_current_stream(device))
    _refuse_shared(tensor)
    packed = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return _in_place(packed, lambda nbytes: _copy_back_on_cuda(tensor, packed, nbytes),
                     _current_stream(device))


def _in_large_pieces(tensor: torch.Tensor) -> bool:
    if tensor.is_conj() or tensor.is_neg():
        return False
    run = 1
    for n, step in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if n != 1 and step != run:
            break
        run *= n
    if run >= tensor.numel():
        return True
    return run * tensor.element_size() >= _PIECE_MIN and tensor.numel() // run <= _PIECES_MAX


def _copy_back_on_cuda(tensor: torch.Tensor, packed: torch.Tensor, nbytes: int) -> None:
    """In a stream of our own, so that no work of the user's is waited for."""
    side = _private_stream(tensor.get_device(), 'copy')
    with torch.cuda.stream(side):
        _copy_back(tensor, packed, nbytes)
    side.synchronize()
