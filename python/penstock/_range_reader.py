# SPDX-License-Identifier: Apache-2.0
"""Files that are read in batches of ranges, and checked on the way."""
import contextlib
import errno
import os
from array import array
from collections.abc import Iterable, Iterator
from operator import itemgetter
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from ._penstock import ReaderCore, huge

_HUGE = 4 << 20  # fresh memory of this size gets huge pages
_BLOCK = 64 << 20  # of smaller ones this much together; malloc() gives it back to the system when it is freed
_GAP = 64 << 10  # bytes nobody wants that are read rather than skipped
_PAGE = 4096

MANY = 256  # parts of a file from which on small ones share memory, and are read while the rest is made of them


def _mode(verify: bool | str) -> Literal['auto', 'always', 'never']:
    """What a user says: True, False or 'require'."""
    if verify == 'require':
        return 'always'
    if not isinstance(verify, bool):
        raise ValueError(f"verify: {verify!r} is not True, False or 'require'")
    return 'auto' if verify else 'never'


class Ranges:
    """Which parts of a file go where."""

    def __init__(self) -> None:
        self.numbers = array('Q')

    def add(self, address: int, nbytes: int, offset: int) -> None:
        self.numbers.extend((address, nbytes, offset))

    def add_fresh(self, address: int, nbytes: int, offset: int) -> None:
        """Memory of the host that nobody has written to yet."""
        if nbytes >= _HUGE:
            huge(address, nbytes)
        self.numbers.extend((address, nbytes, offset))

    def __len__(self) -> int:
        return len(self.numbers) // 3


class Block(NamedTuple):
    """Parts of a file that share memory, which has its bytes as they lie there."""

    start: int
    end: int
    parts: list[tuple[int, int, Any]]
    nbytes: int  # of the memory

    def place(self, address: int) -> int:
        """Where in memory at this address the first byte belongs: pages are the same as in the file."""
        return (self.start - address) % _PAGE


def blocks(parts: Iterable[tuple[int, int, Any]], size: int) -> Iterator[Block | tuple[int, int, Any]]:
    """Parts (offset, bytes, anything) of a file of @size bytes: neighbours that are small in blocks, others alone.

    Memory of one each would be touched for the first time in small pages, which takes longer than
    to read it.
    """
    run: list[tuple[int, int, Any]] = []
    end = 0
    for part in sorted(parts, key=itemgetter(0)):
        offset, nbytes, _ = part
        if run and not (end <= offset <= end + _GAP and offset + nbytes <= run[0][0] + _BLOCK
                        and nbytes < _HUGE):
            yield from _together(run, end, size)
            run = []
        run.append(part)
        end = offset + nbytes
        if nbytes >= _HUGE:
            yield part
            run = []
    if run:
        yield from _together(run, end, size)


def _together(run: list[tuple[int, int, Any]], end: int,
              size: int) -> Iterable[Block | tuple[int, int, Any]]:
    start = run[0][0] // _PAGE * _PAGE
    if len(run) == 1 or end - start < _HUGE:
        return run
    end = min(-(-end // _PAGE) * _PAGE, size)
    return [Block(start, end, run, end - start + _PAGE)]


class UnsupportedArchive(Exception):
    """Not an archive of records that are stored as they are: for torch to look at."""


class Record(NamedTuple):
    """Of a zip archive: where its content is in the file."""

    offset: int
    size: int


class Reader:
    """A file; closed at the end of a `with` block."""

    def __init__(self, path: Any, *, verify: bool | str = True, engine: str | None = None,
                 safetensors: bool = False) -> None:
        self.name = os.fspath(path)
        self._core = ReaderCore(path, verify=_mode(verify), engine=engine, safetensors=safetensors)
        self.size = self._core.size

    def pread(self, offset: int, length: int) -> bytes:
        """So many bytes, fewer at the end of the file."""
        return self._core.pread(offset, length)

    def read(self, ranges: Ranges) -> None:
        """All of them at once; the memory must stay where it is."""
        self._core.fetch(ranges.numbers)

    def records(self) -> dict[str, Record]:
        """Of the zip archive that the file is; UnsupportedArchive where it is something else."""
        try:
            found = self._core.records()
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise UnsupportedArchive(error.strerror) from None
        by_name = {name: Record(at, size) for name, at, size in found}
        if len(by_name) != len(found):
            raise UnsupportedArchive('two records have one name')
        return by_name

    def check(self) -> None:
        """Read all of the file, where there is something to check it with."""
        if self._core.verifies and self.size:
            self._core.fetch(array('Q', (0, self.size, 0)))

    def bad(self) -> tuple[int, int]:
        """Offset and length of what was found to be wrong, after an OSError with EBADMSG."""
        return self._core.bad

    def tensors(self) -> tuple[list[tuple[str, str, tuple[int, ...], int, int]], dict[str, str]]:
        """What the header of safetensors says: name, dtype, shape, offset in the file and bytes; the metadata."""
        return self._core.tensors, self._core.metadata

    def close(self) -> None:
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 tb: TracebackType | None) -> None:
        with closing(error):
            self.close()


def closing(error: BaseException | None) -> contextlib.AbstractContextManager[None]:
    """Around a close() after this error: where Ctrl-C came twice a thread reads on, and closes when it drops the file."""
    return contextlib.nullcontext() if error is None else contextlib.suppress(RuntimeError)


def is_uri(path: Any) -> bool:
    """Is it the name of an object, and not of a file?"""
    return isinstance(path, str) and path[:5].lower() == 's3://'


def content(path: Any) -> Any:
    """All bytes of a small file or object, unchecked."""
    if is_uri(path):
        from . import s3

        return s3.get(path)
    with open(path, 'rb') as file:
        return file.read()


def is_damage(error: OSError) -> bool:
    return error.errno == errno.EBADMSG
