# SPDX-License-Identifier: Apache-2.0
"""The functions of DeepSpeed's async_io operator: a whole file at once, and a copy of memory."""
import time
from typing import Any

import torch

from . import _args
from ._tensor import cast_to_byte_tensor, host_bytes, nbytes
from ._transfer import Kind, Transfers, check_call


def transfer_file(
    kind: Kind, buffer: Any, filename: Any, block_size: Any, queue_depth: Any, single_submit: Any,
    overlap_events: Any, validate: Any,
) -> int:
    begin = time.perf_counter()
    c = check_call(f'aio_{kind}', kind, buffer, _args.target(filename), 0, validate)
    _args.flag('overlap_events', overlap_events)
    io = Transfers(_args.positive('block_size', block_size),
                   _args.positive('queue_depth', queue_depth),
                   _args.flag('single_submit', single_submit), 1)
    try:
        start = time.perf_counter()
        result = io.run_alone(c)
        end = time.perf_counter()
    finally:
        io.close()
    if result == 0:
        call_usec = (time.perf_counter() - begin) * 1e6
        print(f'Elapsed time(usec): aio = {(end - start) * 1e6:g} call = {call_usec:g}')
    return result


def aio_read(
    buffer: torch.Tensor, filename: str, block_size: int, queue_depth: int, single_submit: bool,
    overlap_events: bool, validate: bool, /,
) -> int:
    """Fill a tensor from the start of a file.  0, or -1 when the file cannot be used."""
    return transfer_file('read', buffer, filename, block_size, queue_depth, single_submit, overlap_events,
                 validate)


def aio_write(
    buffer: torch.Tensor, filename: str, block_size: int, queue_depth: int, single_submit: bool,
    overlap_events: bool, validate: bool, /,
) -> int:
    """Write a tensor to the start of a file.  0, or -1 when the file cannot be used."""
    return transfer_file('write', buffer, filename, block_size, queue_depth, single_submit, overlap_events,
                 validate)


def deepspeed_memcpy(dest: torch.Tensor, src: torch.Tensor, /) -> int:
    """Fill @dest with the first bytes of @src, whatever their shapes and dtypes.  0."""
    dest, src = _args.tensor('dest', dest).detach(), _args.tensor('src', src).detach()
    if nbytes(src) < nbytes(dest):
        raise ValueError(f'src: {nbytes(src)} bytes do not fill the {nbytes(dest)} bytes of dest')
    if dest.dtype == src.dtype and dest.numel() == src.numel():
        dest.copy_(src.reshape(dest.shape))
    elif dest.is_contiguous():
        cast_to_byte_tensor(dest).copy_(host_bytes(src)[:nbytes(dest)])
    else:
        packed = torch.empty(dest.shape, dtype=dest.dtype)
        deepspeed_memcpy(packed, src)
        dest.copy_(packed)
    return 0
