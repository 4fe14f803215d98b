# SPDX-License-Identifier: Apache-2.0
"""A store that several processes of a machine use: one has it open and serves it, the others are its clients.

Requests are lines of JSON on a Unix socket; values go through memory that both have mapped, with one
copy. While no process serves the store, a client has misses.
"""
import contextlib
import ctypes
import errno
import json
import logging
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .store import Store

BATCH_BYTES = 64 << 20  # bytes of values that go at once; one value may be larger


@contextlib.contextmanager
def _socket_name(path: str) -> Iterator[str]:
    """For a path of any length: addresses of sockets have at most 107 bytes."""
    folder = os.open(os.path.dirname(path) or '.', os.O_PATH | os.O_DIRECTORY)
    try:
        yield f'/proc/self/fd/{folder}/{os.path.basename(path)}'
    finally:
        os.close(folder)


def _page_offsets(sizes: Sequence[int]) -> list[int]:
    """Where each value is in the memory, on pages of its own, and the end."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
    return offsets


class SharedStoreServer:
    """Answers at @path until close(), which leaves the store open."""

    def __init__(self, store: Store, path: str) -> None:
        self._store, self._path = store, path
        self._clear_lock, self._cleared_ns = threading.Lock(), 0  # when, of a clock that all processes have
        self._clients: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        os.fchmod(self._listener.fileno(), 0o600)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a process that was killed: only one process has the store open
        with _socket_name(path) as name:
            self._listener.bind(name)
        self._listener.listen()
        self._start_thread(self._listen)

    def _start_thread(self, what: Any, *args: Any) -> None:
        thread = threading.Thread(target=what, args=args, daemon=True, name='penstock-shared-store')
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                self._start_thread(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            (fd,) = socket.recv_fds(client, 1, 1)[1]
            try:
                memory = mmap.mmap(fd, 0)
            finally:
                os.close(fd)
            with memoryview(memory) as view, client.makefile('rw') as lines:
                for line in lines:
                    lines.write(json.dumps(self._handle_request(view, json.loads(line))) + '\n')
                    lines.flush()

    def _handle_request(self, view: memoryview, request: dict[str, Any]) -> Any:
        keys, sizes = [bytes.fromhex(key) for key in request['keys']], request['sizes']
        values = [view[at:at + size] for at, size in zip(_page_offsets(sizes), sizes, strict=False)]
        if request['op'] == 'get':
            return self._store.get_many(keys, values, deadline=request['deadline'])
        if request['op'] == 'set':
            with self._clear_lock:  # what was asked for before a clear is not stored after it
                return self._store.set_many(keys, values, absent=True) if request['began'] > self._cleared_ns else [False] * len(keys)
        if request['op'] == 'clear':
            self.clear()
            return True
        if request['op'] == 'delete':
            return self._store.delete_many(keys)
        return self._store.prefix(keys) if request['op'] == 'prefix' else self._store.metrics()

    def clear(self) -> None:
        """The store, and what others have asked to be set in it."""
        with self._clear_lock:
            self._cleared_ns = time.monotonic_ns()
            self._store.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # no new connections from here on
        self._listener.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()


class _Connection:
    """One connection to the server, and memory for @capacity bytes of values."""

    def __init__(self, path: str, capacity: int) -> None:
        self.capacity = capacity
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            with _socket_name(path) as name:
                self._socket.connect(name)
            _, uid, _ = struct.unpack('3i', self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid != os.geteuid():
                raise PermissionError(errno.EPERM, 'another user serves it')
            fd = os.memfd_create('penstock-shared-store', os.MFD_CLOEXEC)
            try:
                os.ftruncate(fd, capacity)
                self._memory = mmap.mmap(fd, capacity)
                socket.send_fds(self._socket, [b'.'], [fd])
            finally:
                os.close(fd)
        except BaseException:
            self._socket.close()
            raise
        self._lines = self._socket.makefile('rw')
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def request(self, **what: Any) -> Any:
        self._lines.write(json.dumps(what) + '\n')
        self._lines.flush()
        return json.loads(self._lines.readline())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
        self._socket.close()


def _memory_ranges(value: Any) -> list[tuple[int, int]]:
    """Addresses and sizes of a value in host memory, as penstock.Store takes it."""
    if isinstance(value, list):
        return [piece for part in value for piece in _memory_ranges(part)]
    if isinstance(value, tuple):
        address, size = value
        return [(address, size)]
    if hasattr(value, 'data_ptr'):
        if not value.is_contiguous() or value.device.type != 'cpu':
            raise ValueError('a tensor that is contiguous and in host memory is needed')
        return [(value.data_ptr(), value.nbytes)]
    view = memoryview(value).cast('B')
    return [(ctypes.addressof(ctypes.c_char.from_buffer(view)), len(view))] if len(view) else []


class SharedStoreClient:
    """What a store adapter needs of a Store, from the process that serves it at @path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle_connections: list[_Connection] = []  # threads take one each
        self._warned = False

    def _request(self, default: Any, op: str, keys: Sequence[bytes] = (), values: Sequence[Any] = (),
                 deadline: float | None = None, began: int = 0) -> Any:
        sizes = [sum(size for _, size in value) for value in values]
        offsets = _page_offsets(sizes)
        try:
            try:
                connection = self._idle_connections.pop()
            except IndexError:  # another thread may just have taken the last one
                connection = _Connection(self._path, max(offsets[-1], BATCH_BYTES))
            if connection.capacity < offsets[-1]:
                connection.close()
                connection = _Connection(self._path, offsets[-1])
            try:
                if op == 'set':
                    self._copy(connection, offsets, values, False)
                reply = connection.request(op=op, keys=[key.hex() for key in keys], sizes=sizes, deadline=deadline,
                                           began=began)
            except BaseException:
                connection.close()
                raise
        except (OSError, ValueError) as why:
            if not self._warned:
                logging.getLogger('penstock').warning(
                    '%s: no process serves this store (%s); everything is a miss until one does', self._path, why)
            self._warned = True
            return default
        if op == 'get':
            self._copy(connection, offsets, [value if ok else [] for value, ok in zip(values, reply, strict=True)], True)
        self._warned = False
        self._idle_connections.append(connection)
        return reply

    @staticmethod
    def _copy(connection: _Connection, offsets: list[int], values: Sequence[Any], out: bool) -> None:
        for at, value in zip(offsets, values, strict=False):
            for address, size in value:
                own = connection.address + at
                ctypes.memmove(*((address, own) if out else (own, address)), size)
                at += size

    def _transfer_values(self, op: str, keys: Sequence[bytes], values: Sequence[Any], **how: Any) -> list[bool]:
        remaining, good = [_memory_ranges(value) for value in values], list[bool]()
        while remaining:
            n, free = 0, BATCH_BYTES
            while n < len(remaining) and (not n or free > 0):
                free -= _page_offsets([sum(size for _, size in remaining[n])])[-1]
                n += free >= 0 or not n
            good += self._request([False] * n, op, keys[len(good):len(good) + n], remaining[:n], **how)
            remaining = remaining[n:]
        return good

    def get_many(self, keys: Sequence[bytes], values: Sequence[Any], *, deadline: float | None = None) -> list[bool]:
        return self._transfer_values('get', keys, values, deadline=deadline)

    def set_many(self, keys: Sequence[bytes], values: Sequence[Any], *, absent: bool = True) -> list[bool]:
        return self._transfer_values('set', keys, values, began=time.monotonic_ns())

    def prefix(self, keys: Sequence[bytes]) -> int:
        found: int = self._request(0, 'prefix', keys)
        return found

    def __contains__(self, key: bytes) -> bool:
        return self.prefix([key]) == 1

    def delete_many(self, keys: Sequence[bytes]) -> list[bool]:
        gone: list[bool] = self._request([False] * len(keys), 'delete', keys)
        return gone

    def clear(self) -> None:
        self.close()  # connections to an earlier server
        if not self._request(False, 'clear'):
            raise OSError(errno.ENOTCONN, f'{self._path}: no process serves this store, or it cannot be cleared')

    def metrics(self) -> str:
        """Those of the store; empty while no process serves it."""
        text: str = self._request('', 'metrics')
        return text

    def register(self, obj: Any) -> bool:
        """Values go through memory of ours."""
        return False

    def close(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle_connections.pop().close()
