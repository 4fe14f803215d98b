# SPDX-License-Identifier: Apache-2.0
"""A store that several processes of a machine use: one has it open and lends it, the others borrow it.

Requests are lines of JSON on a Unix socket; values go through memory that both have mapped, with one
copy. Who borrows while nobody lends has misses.
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

ROOM = 64 << 20  # bytes of values that go at once; one value may be larger


@contextlib.contextmanager
def _name(path: str) -> Iterator[str]:
    """For a path of any length: addresses of sockets have at most 107 bytes."""
    folder = os.open(os.path.dirname(path) or '.', os.O_PATH | os.O_DIRECTORY)
    try:
        yield f'/proc/self/fd/{folder}/{os.path.basename(path)}'
    finally:
        os.close(folder)


def _places(sizes: Sequence[int]) -> list[int]:
    """Where each value is in the memory, on pages of its own, and the end."""
    places = [0]
    for size in sizes:
        places.append(places[-1] + -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
    return places


class Lender:
    """Answers at @path until close(), which leaves the store open."""

    def __init__(self, store: Store, path: str) -> None:
        self._store, self._path = store, path
        self._turn, self._cleared = threading.Lock(), 0  # when, of a clock that all processes have
        self._peers: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._door = socket.socket(socket.AF_UNIX)
        os.fchmod(self._door.fileno(), 0o600)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a process that was killed: who has the store open is alone here
        with _name(path) as name:
            self._door.bind(name)
        self._door.listen()
        self._start(self._listen)

    def _start(self, what: Any, *args: Any) -> None:
        thread = threading.Thread(target=what, args=args, daemon=True, name='penstock-lend')
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                peer, _ = self._door.accept()
                self._peers.append(peer)
                self._start(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            (fd,) = socket.recv_fds(peer, 1, 1)[1]
            try:
                memory = mmap.mmap(fd, 0)
            finally:
                os.close(fd)
            with memoryview(memory) as view, peer.makefile('rw') as lines:
                for line in lines:
                    lines.write(json.dumps(self._answer(view, json.loads(line))) + '\n')
                    lines.flush()

    def _answer(self, view: memoryview, ask: dict[str, Any]) -> Any:
        keys, sizes = [bytes.fromhex(key) for key in ask['keys']], ask['sizes']
        values = [view[at:at + size] for at, size in zip(_places(sizes), sizes, strict=False)]
        if ask['op'] == 'get':
            return self._store.get_many(keys, values, deadline=ask['deadline'])
        if ask['op'] == 'set':
            with self._turn:  # what was asked for before a clear is not stored after it
                return self._store.set_many(keys, values, absent=True) if ask['began'] > self._cleared else [False] * len(keys)
        if ask['op'] == 'clear':
            self.clear()
            return True
        if ask['op'] == 'delete':
            return self._store.delete_many(keys)
        return self._store.prefix(keys) if ask['op'] == 'prefix' else self._store.metrics()

    def clear(self) -> None:
        """The store, and what others have asked to be set in it."""
        with self._turn:
            self._cleared = time.monotonic_ns()
            self._store.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self._door.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # nobody comes any more
        self._door.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()


class _Line:
    """One conversation with a lender, and memory for @room bytes of values."""

    def __init__(self, path: str, room: int) -> None:
        self.room = room
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            with _name(path) as name:
                self._socket.connect(name)
            _, uid, _ = struct.unpack('3i', self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid != os.geteuid():
                raise PermissionError(errno.EPERM, 'another user lends it')
            fd = os.memfd_create('penstock-lend', os.MFD_CLOEXEC)
            try:
                os.ftruncate(fd, room)
                self._memory = mmap.mmap(fd, room)
                socket.send_fds(self._socket, [b'.'], [fd])
            finally:
                os.close(fd)
        except BaseException:
            self._socket.close()
            raise
        self._lines = self._socket.makefile('rw')
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def ask(self, **what: Any) -> Any:
        self._lines.write(json.dumps(what) + '\n')
        self._lines.flush()
        return json.loads(self._lines.readline())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
        self._socket.close()


def _pieces(value: Any) -> list[tuple[int, int]]:
    """Addresses and sizes of a value in host memory, as penstock.Store takes it."""
    if isinstance(value, list):
        return [piece for one in value for piece in _pieces(one)]
    if isinstance(value, tuple):
        address, size = value
        return [(address, size)]
    if hasattr(value, 'data_ptr'):
        if not value.is_contiguous() or value.device.type != 'cpu':
            raise ValueError('a tensor that is contiguous and in host memory is needed')
        return [(value.data_ptr(), value.nbytes)]
    view = memoryview(value).cast('B')
    return [(ctypes.addressof(ctypes.c_char.from_buffer(view)), len(view))] if len(view) else []


class Borrower:
    """What a store adapter needs of a Store, from the process that lends it at @path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[_Line] = []  # threads take one each
        self._told = False

    def _ask(self, otherwise: Any, op: str, keys: Sequence[bytes] = (), values: Sequence[Any] = (),
             deadline: float | None = None, began: int = 0) -> Any:
        sizes = [sum(size for _, size in value) for value in values]
        places = _places(sizes)
        try:
            try:
                line = self._idle.pop()
            except IndexError:  # another thread may just have taken the last one
                line = _Line(self._path, max(places[-1], ROOM))
            if line.room < places[-1]:
                line.close()
                line = _Line(self._path, places[-1])
            try:
                if op == 'set':
                    self._copy(line, places, values, False)
                reply = line.ask(op=op, keys=[key.hex() for key in keys], sizes=sizes, deadline=deadline,
                                 began=began)
            except BaseException:
                line.close()
                raise
        except (OSError, ValueError) as why:
            if not self._told:
                logging.getLogger('penstock').warning(
                    '%s: nobody lends this store (%s), and all is a miss until somebody does', self._path, why)
            self._told = True
            return otherwise
        if op == 'get':
            self._copy(line, places, [value if ok else [] for value, ok in zip(values, reply, strict=True)], True)
        self._told = False
        self._idle.append(line)
        return reply

    @staticmethod
    def _copy(line: _Line, places: list[int], values: Sequence[Any], out: bool) -> None:
        for at, value in zip(places, values, strict=False):
            for address, size in value:
                ours = line.address + at
                ctypes.memmove(*((address, ours) if out else (ours, address)), size)
                at += size

    def _move(self, op: str, keys: Sequence[bytes], values: Sequence[Any], **how: Any) -> list[bool]:
        left, good = [_pieces(value) for value in values], list[bool]()
        while left:
            n, room = 0, ROOM
            while n < len(left) and (not n or room > 0):
                room -= _places([sum(size for _, size in left[n])])[-1]
                n += room >= 0 or not n
            good += self._ask([False] * n, op, keys[len(good):len(good) + n], left[:n], **how)
            left = left[n:]
        return good

    def get_many(self, keys: Sequence[bytes], values: Sequence[Any], *, deadline: float | None = None) -> list[bool]:
        return self._move('get', keys, values, deadline=deadline)

    def set_many(self, keys: Sequence[bytes], values: Sequence[Any], *, absent: bool = True) -> list[bool]:
        return self._move('set', keys, values, began=time.monotonic_ns())

    def prefix(self, keys: Sequence[bytes]) -> int:
        found: int = self._ask(0, 'prefix', keys)
        return found

    def __contains__(self, key: bytes) -> bool:
        return self.prefix([key]) == 1

    def delete_many(self, keys: Sequence[bytes]) -> list[bool]:
        gone: list[bool] = self._ask([False] * len(keys), 'delete', keys)
        return gone

    def clear(self) -> None:
        self.close()  # connections to who lent it before
        if not self._ask(False, 'clear'):
            raise OSError(errno.ENOTCONN, f'{self._path}: nobody lends this store, or it cannot be cleared')

    def metrics(self) -> str:
        """Those of the store; empty while nobody lends it."""
        text: str = self._ask('', 'metrics')
        return text

    def register(self, obj: Any) -> bool:
        """Values go through memory of ours."""
        return False

    def close(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()
