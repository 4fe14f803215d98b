# SPDX-License-Identifier: Apache-2.0
"""Files that are written from start to end and appear when they are complete."""
import io
import os
import struct
import sys
import threading
import warnings
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from ._range_reader import is_uri
from ._penstock import WriterCore

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

MEMORY = 128 << 20  # of the pool, unless the user says something else
_ZIP_END = struct.Struct('<4sHHHHIIH')  # of a zip archive


def _is_complete(end: bytes, total: int) -> bool:
    """Do these last bytes of a stream of so many bytes end an archive that has a pickle?"""
    if len(end) < _ZIP_END.size or end[:4] != b'PK\5\6':
        return False
    _, _, _, _, n, size, start, comment = _ZIP_END.unpack(end)
    return n > 0 and comment == 0 and (start == 0xffffffff or start + size <= total)


class _CommitQueues:
    """Files that are committed in the background, by name: they appear in the order of the calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, list[threading.Event]] = {}

    def add(self, name: str | bytes) -> '_QueuedCommit':
        queued = _QueuedCommit(_real(name), threading.Event(), [])
        with self._lock:
            queue = self._queues.setdefault(queued.name, [])
            queued.before.extend(queue)
            queue.append(queued.done)
        return queued

    def events(self, name: str | bytes) -> list[threading.Event]:
        with self._lock:
            return list(self._queues.get(_real(name), ())) if self._queues else []

    def remove(self, queued: '_QueuedCommit') -> None:
        with self._lock:
            queue = self._queues[queued.name]
            queue.remove(queued.done)
            if not queue:
                del self._queues[queued.name]
        queued.done.set()


class _QueuedCommit(NamedTuple):
    """A commit, the event that is set when it is over, and the events of those before it."""

    name: str
    done: threading.Event
    before: list[threading.Event]


_commit_queues = _CommitQueues()


def _reset_after_fork() -> None:
    global _commit_queues
    _commit_queues = _CommitQueues()  # of the parent's, no thread is here


os.register_at_fork(after_in_child=_reset_after_fork)


def _wait_all(before: list[threading.Event]) -> None:
    for event in before:
        event.wait()


def _real(name: str | bytes) -> str:
    text = os.fsdecode(name)
    return text if is_uri(text) else os.path.realpath(text)


def _exception() -> BaseException | None:
    return sys.exc_info()[1]


class Writer(io.RawIOBase):
    """Made by penstock.torch.writer(), whose manual says what commits it."""

    def __init__(self, path: Path, *, size: int = 0, memory: int = MEMORY, durable: bool = True,
                 checksum: bool = True) -> None:
        self._core: WriterCore | None = None
        self.name = os.fspath(path)
        self._core = WriterCore(path, size=size, memory=memory, durable=durable, checksum=checksum)
        self._in_with = False
        self._last_bytes = b''
        self._outer_exception = _exception()  # what is being handled where we are made
        self._pid = os.getpid()
        self._queued: _QueuedCommit | None = None

    def _open(self) -> WriterCore:
        if self._core is None:
            raise ValueError('the file is closed: it was committed or given up')
        return self._core

    # -- as a file

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        n = self._open().write(data)
        if n and not self._in_with:  # where flush() does not commit
            self._last_bytes = (self._last_bytes + bytes(memoryview(data).cast('B')[-_ZIP_END.size:]))[-_ZIP_END.size:]
        return n

    def write_memory(self, address: int, nbytes: int) -> None:
        """Memory of the process, or of a CUDA device."""
        self._open().write_memory(address, nbytes)

    def write_each(self, ranges: Any) -> None:
        """The same of many: an array of addresses and bytes by turns."""
        self._open().write_each(ranges)

    def archive(self, alignment: int) -> WriterCore:
        """Begin a zip archive as torch has them; until end_archive() nothing else may be written."""
        output = self._open()
        output.archive(alignment)
        return output

    def end_archive(self) -> None:
        self._open().end_archive()

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_CUR:
            offset += self.tell()
        elif whence != os.SEEK_SET:
            raise io.UnsupportedOperation('whence: only from the start, or from here')
        return self._open().seek(offset)

    def tell(self) -> int:
        return self._open().tell()

    def flush(self) -> None:
        """Commits what torch.save() has completed, outside of a `with` block; else does nothing.

        torch.save() calls it at the end, of a save that failed as well: then there is an exception
        that was not there when the file was made.
        """
        if self._core is None or self._in_with or _exception() is not self._outer_exception:
            return
        if _is_complete(self._last_bytes, self._core.tell()):
            self.commit()

    # -- the end

    @property
    def closed(self) -> bool:
        return getattr(self, '_core', None) is None

    def queue_commit(self) -> None:
        """Will be committed in the background: what comes later under this name is later there, too."""
        self._queued = _commit_queues.add(self.name)

    def commit(self) -> None:
        """Make it durable and visible; raises what failed, and then nothing of it is seen.

        Waits for those of this name that were to be committed in the background before.
        """
        output, self._core = self._open(), None
        try:
            _wait_all(self._queued.before if self._queued else _commit_queues.events(self.name))
            output.commit()
        except BaseException:
            output.abort()
            raise
        finally:
            self._leave_queue()

    def abort(self) -> None:
        """As if nothing had been written.  Does nothing after the end."""
        output, self._core = self._core, None
        if output is not None:
            output.abort()
        self._leave_queue()

    def _leave_queue(self) -> None:
        queued, self._queued = self._queued, None
        if queued is not None and os.getpid() == self._pid:
            _commit_queues.remove(queued)

    def close(self) -> None:
        if self._core is not None:
            self.commit()

    def __enter__(self) -> Self:
        self._open()
        self._in_with = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 tb: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        output = getattr(self, '_core', None)
        if output is not None:
            if os.getpid() == self._pid and _exception() is None:
                warnings.warn(f'{self.name!r}: dropped without close(): nothing is saved',
                              RuntimeWarning, stacklevel=2)
            self.abort()
