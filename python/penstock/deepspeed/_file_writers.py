# SPDX-License-Identifier: Apache-2.0
"""Write-only files for torch.save(obj, f=writer): what all kinds share, and the two plain ones."""
import atexit
import errno
import os
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

import torch

from .._penstock import WriterCore
from ._tensor import host_bytes, host_view

FilePath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

GIB = 1 << 30
COUNTERS = (
    'write', 'bytes', 'write_secs', 'aio_write_secs', 'aio_bytes', 'slow_bytes', 'slow_write_secs',
    'fill_buffer_secs', 'fill_buffer_count', 'fill_buffer_bytes', 'save_storage',
    'save_storage_bytes', 'flush', 'close', 'fileno',
)


def as_view(data: Any) -> memoryview:
    """The bytes of anything that has some."""
    if isinstance(data, torch.Tensor):
        return host_view(host_bytes(data))
    view = memoryview(data)
    if view.nbytes == 0:
        return memoryview(b'')
    return view.cast('B') if view.c_contiguous else memoryview(view.tobytes())


def untyped(storage: Any) -> Any:
    """A storage without a dtype.  In torch 2 every method of one with a dtype warns."""
    own = getattr(storage, '_untyped_storage', None)
    if own is not None:
        return own
    return storage.untyped() if hasattr(storage, 'untyped') else storage


def storage_view(storage: Any) -> memoryview:
    return host_view(host_bytes(
        torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)))


def element_count(storage: Any, dtype: torch.dtype) -> bytes:
    """What stands before a storage in torch's legacy format."""
    elements: int = storage.nbytes() // torch.empty(0, dtype=dtype).element_size()
    return elements.to_bytes(8, 'little')


def speed(size: float, seconds: float) -> float:
    return size / seconds / GIB if seconds > 0 else 0.0


class BaseFileWriter:
    """Counts, and leaves the bytes to _put(), _finish() and _abort() of a kind of writer."""

    def __init__(self, file_path: FilePath) -> None:
        self._path = os.fsdecode(file_path)
        self._closed = False
        self._error: BaseException | None = None
        self._stats: dict[str, float] = dict.fromkeys(COUNTERS, 0)
        _open.add(self)

    def write(self, data: Any) -> int:
        """All of it, or OSError; after a failure nothing can be written any more."""
        self._stats['write'] += 1
        view = as_view(data)
        self._write(view)
        return view.nbytes

    def save_torch_storage_object_list(
        self, storage_obj_list: list[tuple[Any, torch.dtype]], save_size: bool
    ) -> None:
        """Storages one after the other, each behind its number of elements if @save_size."""
        storages = [untyped(storage) for storage, _ in storage_obj_list]
        heads = [element_count(storage, dtype) if save_size else b''
                 for storage, (_, dtype) in zip(storages, storage_obj_list)]
        total = sum(storage.nbytes() for storage in storages) + sum(map(len, heads))
        start, end = self._share(total)
        at = 0
        for head, storage in zip(heads, storages):
            self._write(part(memoryview(head), start - at, end - at))
            at += len(head)
            if at < end and at + storage.nbytes() > start:
                view = part(storage_view(storage), start - at, end - at)
                self._write(view)
                self._stats['save_storage_bytes'] += view.nbytes
            at += storage.nbytes()
        self._stats['save_storage'] += len(storages)

    def flush(self) -> None:
        """Counted; bytes are safe after close()."""
        self._stats['flush'] += 1

    def fileno(self) -> int:
        """-1: everything has to go through write()."""
        self._stats['fileno'] += 1
        return -1

    def file_path(self) -> str:
        return self._path

    def close(self) -> None:
        """Make the file durable and give it its name.  Raises what has gone wrong so far."""
        if self._closed:
            return
        self._closed = True
        self._stats['close'] += 1
        try:
            self._raise_earlier()
            self._finish()
        except BaseException:
            self._abort()
            raise

    def abort(self) -> None:
        """Close without saving: the old file, if there is one, stays."""
        if not self._closed:
            self._closed = True
            self._abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if exc is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        if hasattr(self, '_stats'):
            self.abort()

    def _dump_state(self) -> None:
        print(f'stats = {self._state()}')

    def _state(self) -> dict[str, Any]:
        s = self._stats
        return {
            'path': self._path,
            'write': s['write'],
            'bytes': s['bytes'],
            'write_secs': s['write_secs'],
            'write_GB/s': speed(s['bytes'], s['write_secs']),
            'aio_write_secs': s['aio_write_secs'],
            'aio_bytes': s['aio_bytes'],
            'aio_GB/s': speed(s['aio_bytes'], s['aio_write_secs']),
            'slow_bytes': s['slow_bytes'],
            'slow_write_secs': s['slow_write_secs'],
            'fill_buffer_secs': s['fill_buffer_secs'],
            'fill_buffer_count': s['fill_buffer_count'],
            'fill_buffer_GB/s': speed(s['fill_buffer_bytes'], s['fill_buffer_secs']),
            'save_storage': s['save_storage'],
            'save_storage_bytes': s['save_storage_bytes'],
            'flush': s['flush'],
            'close': s['close'],
            'fileno': s['fileno'],
        }

    def _write(self, view: memoryview) -> None:
        if self._closed:
            raise ValueError(f'{self._path}: write to a closed file')
        self._raise_earlier()
        try:
            self._timed('write_secs', self._put, view)
        except BaseException as error:
            self._error = error
            raise
        self._stats['bytes'] += view.nbytes

    def _raise_earlier(self) -> None:
        """A file with a gap is worth nothing: a failed write is the end of it."""
        if isinstance(self._error, Exception):
            raise self._error
        if self._error is not None:
            raise OSError(errno.ECANCELED, 'a write was interrupted', self._path) from self._error

    def _timed(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*args)
        finally:
            self._stats[name] += time.perf_counter() - begin

    def _share(self, total: int) -> tuple[int, int]:
        """Which bytes of a stream of storages are this writer's."""
        return 0, total

    def _put(self, view: memoryview) -> None:
        """Take bytes."""

    def _finish(self) -> None:
        """All of them have been given."""

    def _abort(self) -> None:
        """Leave nothing behind; called after a failed _finish() too."""


def part(view: memoryview, first: int, last: int) -> memoryview:
    return view[max(first, 0):max(last, 0)]


_open: weakref.WeakSet[BaseFileWriter] = weakref.WeakSet()


@atexit.register
def abort_all() -> None:
    """Before handles end: what was not closed leaves no file behind."""
    for writer in list(_open):
        writer.abort()


class PyFileWriter(BaseFileWriter):
    """As penstock.torch.writer() does it."""

    MEMORY = 32 << 20

    def __init__(self, file_path: FilePath) -> None:
        self._file = WriterCore(os.fsdecode(file_path), memory=self.MEMORY)
        super().__init__(file_path)

    def _put(self, view: memoryview) -> None:
        self._file.write(view)

    def _finish(self) -> None:
        self._file.commit()

    def _abort(self) -> None:
        self._file.abort()


class MockFileWriter(BaseFileWriter):
    """Counts and writes nothing."""
