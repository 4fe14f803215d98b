# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's FastFileWriter: torch.save() at the speed of the device, without a patched torch.

Bytes are collected in locked memory and written from there by a handle, one half being filled
while the other is on its way.  The handle may be any that has get_alignment(), async_pwrite() and
wait(): for the sake of DeepSpeed's own, only aligned pieces are given to it, and what it reports as
done is checked against the size of the file.  Its name and its FILE.crc the library's own writer gives it.
"""
import dataclasses
import errno
import fcntl
import math
import os
from typing import Any

import torch

from .._penstock import WriterCore
from . import _args
from ._tensor import host_view
from ._file_writers import FilePath, BaseFileWriter

PAGE = 4096


@dataclasses.dataclass
class FastFileWriterConfig:
    """@dnvme_handle writes from @pinned_tensor, whose memory is the writer's until it is closed:
    uint8, a multiple of the handle's alignment, and of twice that for two buffers."""

    dnvme_handle: Any
    pinned_tensor: torch.Tensor
    double_buffer: bool = True
    num_parallel_writers: int = 1
    writer_rank: int = 0
    global_rank: int = 0


class Buffer:
    """Memory that is filled from the start."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.used = 0
        self._size: int = tensor.numel()
        self._view = host_view(tensor) if tensor.device.type == 'cpu' else None

    def full(self) -> bool:
        return self.used == self._size

    def fill(self, data: memoryview) -> int:
        """Take as much as there is room for; returns how much that was."""
        n = min(len(data), self._size - self.used)
        if self._view is not None:
            self._view[self.used:self.used + n] = data[:n]
        elif n:
            host = torch.frombuffer(bytearray(data[:n]), dtype=torch.uint8)
            self.tensor.narrow(0, self.used, n).copy_(host)
        self.used += n
        return n


def buffers(config: FastFileWriterConfig, alignment: int) -> list[Buffer]:
    tensor = _args.tensor('pinned_tensor', config.pinned_tensor).detach()
    number = 2 if config.double_buffer else 1
    if tensor.dtype != torch.uint8 or tensor.dim() != 1 or not tensor.is_contiguous():
        raise TypeError('pinned_tensor: a contiguous 1-D tensor of uint8 is needed')
    if tensor.numel() == 0 or tensor.numel() % (alignment * number):
        raise ValueError(f'pinned_tensor: {tensor.numel()} bytes are not a multiple of '
                         f'{alignment * number}')
    size = tensor.numel() // number
    pages = size - size % math.lcm(alignment, PAGE)  # what O_DIRECT takes everywhere
    return [Buffer(tensor.narrow(0, i * size, pages or size)) for i in range(number)]


def path_of(file_path: FilePath, config: FastFileWriterConfig) -> str:
    """Its own file for each of several writers."""
    path, writers = os.fsdecode(file_path), max(config.num_parallel_writers, 1)
    if not 0 <= config.writer_rank < writers:
        raise ValueError(f'writer_rank: {config.writer_rank} is outside 0..{writers - 1}')
    return f'{path}-{config.writer_rank}.{writers}' if writers > 1 else path


def _set_direct(fd: int, direct: bool) -> None:
    """Past the page cache, where the file system can; through it goes what O_DIRECT may refuse."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


class FastFileWriter(BaseFileWriter):
    """A file that is written once, from start to end, and replaces an older one by close()."""

    def __init__(self, file_path: FilePath, config: FastFileWriterConfig) -> None:
        path = path_of(file_path, config)
        self._config = config
        self._handle = config.dnvme_handle
        self._alignment: int = self._handle.get_alignment()
        self._buffers = buffers(config, self._alignment)
        self._sent = 0  # bytes given to the handle
        self._filled = 0  # and to the buffers
        self._in_flight = False
        self._file = WriterCore(path, outside=True)
        self._fd = self._file.fileno()
        _set_direct(self._fd, True)
        super().__init__(path)

    def _share(self, total: int) -> tuple[int, int]:
        writers, rank = max(self._config.num_parallel_writers, 1), self._config.writer_rank
        return total * rank // writers, total * (rank + 1) // writers

    def _put(self, view: memoryview) -> None:
        while view:
            n = self._timed('fill_buffer_secs', self._buffers[0].fill, view)
            self._stats['fill_buffer_count'] += 1
            self._stats['fill_buffer_bytes'] += n
            self._file.sum(view[:n], self._filled)
            self._filled += n
            view = view[n:]
            if self._buffers[0].full():
                self._timed('aio_write_secs', self._send, self._buffers[0].used)
                self._next_buffer()

    def _send(self, size: int) -> None:
        """Write the first bytes of the buffer; with one buffer, until they are written."""
        self._reap()
        if size == 0:
            return
        piece = self._buffers[0].tensor.narrow(0, 0, size)
        if self._handle.async_pwrite(piece, self._fd, self._sent) != 0:
            raise self._failed('the handle did not take the write')
        self._in_flight = True
        self._sent += size
        self._stats['aio_bytes'] += size
        if len(self._buffers) == 1:
            self._reap()

    def _next_buffer(self) -> None:
        self._buffers.append(self._buffers.pop(0))
        self._buffers[0].used = 0

    def _reap(self) -> None:
        """Wait for what is on its way."""
        if not self._in_flight:
            return
        try:
            finished = self._handle.wait()
        except OSError as error:
            self._in_flight = False
            if error.filename == self._fd:  # which tells the caller nothing
                raise OSError(error.errno, error.strerror, self._path) from error
            raise
        self._in_flight = False
        if finished < 1:
            raise self._failed(f'wait() of the handle gave {finished} for a write in flight')

    def _failed(self, why: str) -> OSError:
        return OSError(errno.EIO, f'{why}, at {self._sent}', self._path)

    def _finish(self) -> None:
        used = self._buffers[0].used
        aligned = used - used % math.lcm(self._alignment, PAGE)
        self._timed('aio_write_secs', self._send, aligned)
        self._timed('aio_write_secs', self._reap)
        size = os.fstat(self._fd).st_size
        if size != self._sent:
            raise self._failed(f'only {size} bytes are in the file')
        if used > aligned:
            self._timed('slow_write_secs', self._tail, aligned, used)
        self._file.commit()

    def _tail(self, first: int, last: int) -> None:
        tail = self._buffers[0].tensor.narrow(0, first, last - first).cpu()
        _set_direct(self._fd, False)
        data = host_view(tail)
        try:
            while data:
                data = data[os.pwrite(self._fd, data, self._sent + last - first - len(data)):]
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        self._stats['slow_bytes'] += last - first

    def _abort(self) -> None:
        try:
            self._reap()
        except Exception:
            pass  # whatever it was, nothing of it is kept
        finally:
            self._file.abort()
