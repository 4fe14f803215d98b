# SPDX-License-Identifier: Apache-2.0
"""Transfers on one penstock.Handle, with DeepSpeed's results.

-1 and a line on stderr for a file that cannot be used as asked, which shows at submission; a
transfer that fails raises OSError where it is waited for, a full disk always there, although
some file systems tell it at submission already.
"""
import errno
import os
import sys
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import torch

from .. import _penstock
from . import _args, _validate, _write_warning
from ._args import Target
from ._pending_ops import PendingOp, PendingOps
from ._tensor import nbytes

Kind: TypeAlias = Literal['read', 'write']

SECTOR = 512
MAX_BLOCK = 1 << 30
MAX_DEPTH = 4096
MAX_THREADS = 256
LARGE_BLOCK = 16 << 20  # smaller ones are left to an engine that has a size of its own
INLINE = 1 << 20  # the extension does as much without a thread; there is nothing to interrupt

# What says that a file cannot be used as asked.
REFUSALS = frozenset({
    errno.EACCES, errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.EMFILE,
    errno.ENAMETOOLONG, errno.ENFILE, errno.ENODATA, errno.ENODEV, errno.ENOENT, errno.ENOTDIR,
    errno.ENXIO, errno.EPERM, errno.EROFS, errno.ESPIPE, errno.ETXTBSY,
})


class Call(NamedTuple):
    """The checked arguments of a method."""

    method: str
    kind: Kind
    buffer: torch.Tensor
    target: Target
    offset: int
    validate: bool


class LastRead(NamedTuple):
    """The file of the last read."""

    target: Target
    file_id: tuple[int, int]  # device, inode
    file: _penstock.File | None  # from the second on


def check_call(
    method: str, kind: Kind, buffer: Any, target: Target, offset: Any, validate: Any = False
) -> Call:
    # What nearly every call has is looked at here: a call of a function takes longer.
    if type(offset) is not int or not 0 <= offset <= _args.INT64_MAX:
        offset = _args.count('file_offset', offset)
    if validate is not False:
        validate = _args.flag('validate', validate)
    return Call(method, kind, _args.tensor('buffer', buffer), target, offset, validate)


def report_refusal(c: Call, error: OSError) -> int:
    """-1 for a file that cannot be used; anything else is no answer to that and is raised."""
    if error.errno not in REFUSALS:
        raise error
    print(f'penstock: {c.method}: {error.strerror}', file=sys.stderr)
    return -1


def check_file_size(c: Call) -> tuple[int, int]:
    """A file that is too short is refused before anything is read from it.  Which file it is."""
    there, device, inode = _penstock.file_state(c.target)
    size = nbytes(c.buffer)
    if 0 <= there < c.offset + size:
        raise OSError(errno.ENODATA, f'{name_of(c)}: file_offset {c.offset} + {size} bytes of the '
                      f'buffer are more than the {there} bytes of the file')
    return device, inode


def name_of(c: Call) -> str:
    return f'fd {c.target}' if isinstance(c.target, int) else os.fsdecode(c.target)


def report_validation(c: Call) -> None:
    _validate.report(c.kind, c.target, c.offset, c.buffer)


class Transfers:
    """Queues are always kept full, which DeepSpeed does only with overlap_events."""

    def __init__(
        self, block_size: int, queue_depth: int, single_submit: bool, threads: int,
        engine: str | None = None,
    ) -> None:
        block = min(-(-block_size // SECTOR) * SECTOR, MAX_BLOCK)
        self._inline_bytes = min(block, INLINE)
        self._pending = PendingOps()
        self._last_read: LastRead | None = None
        if engine and block < LARGE_BLOCK:
            block = 0
        self._handle = _penstock.Handle(
            engine,
            threads=min(threads, MAX_THREADS),
            depth=min(queue_depth, MAX_DEPTH),
            block=block,
            single_submit=single_submit,
            mode=0o600,
        )

    def submit(self, c: Call) -> int:
        """Start it.  0, or -1."""
        try:
            op = self._start_op(c)
        except OSError as error:
            return report_refusal(c, error)
        self._pending.add(op)
        return 0

    def run_and_wait(self, c: Call) -> int:
        """Carry it out, and wait for all that was pending.  How many that were together, or -1."""
        if self._pending.empty() and nbytes(c.buffer) <= self._inline_bytes:
            return self._inline(c)
        try:
            op = self._start_op(c)
        except OSError as error:
            return report_refusal(c, error)
        self._last_read = None
        return self._pending.wait_with(op)

    def run_alone(self, c: Call) -> int:
        """Carry it out, whatever is pending.  0, or -1."""
        if nbytes(c.buffer) <= self._inline_bytes:
            return min(self._inline(c), 0)
        try:
            op = self._start_op(c)
        except OSError as error:
            return report_refusal(c, error)
        self._last_read = None
        self._pending.wait_for(op)
        return 0

    def wait(self) -> int:
        self._last_read = None  # what is under way keeps it open
        return self._pending.wait()

    def pin(self, buffer: torch.Tensor) -> None:
        self._handle.register(buffer)

    def unpin(self, buffer: torch.Tensor) -> None:
        """Nothing to do for one that is not pinned."""
        try:
            self._handle.unregister(buffer)
        except ValueError:
            if self._handle.closed:
                raise

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._handle.close()

    def _reuse_open_file(self, c: Call, file_id: tuple[int, int]) -> Target | _penstock.File:
        """The file of a read: open until the next wait(), where the read before it was of the same.

        A name may come to mean another file; one that is open keeps its inode to itself.
        """
        last = self._last_read
        if isinstance(c.target, int):
            return c.target
        if last is None or last.target != c.target or last.file_id != file_id:
            self._last_read = LastRead(c.target, file_id, None)
            return c.target
        if last.file is not None:
            return last.file
        try:
            file = self._handle.open(c.target)
            if _penstock.file_state(c.target)[1:] != file_id:
                return c.target
        except OSError:  # told by who reads
            return c.target
        self._last_read = LastRead(c.target, file_id, file)
        return file

    def _start_op(self, c: Call) -> PendingOp:
        """Raises OSError for a file that cannot be used, and in a child of fork()."""
        try:
            if c.kind == 'read':
                file = self._reuse_open_file(c, check_file_size(c))
                future = self._handle.read_async(c.buffer, file, c.offset)
            else:
                _write_warning.warn_once()
                future = self._handle.write_async(c.buffer, c.target, c.offset)
        except OSError as error:
            if error.errno in REFUSALS or error.errno == errno.ECHILD:
                raise
            return PendingOp(None, c.buffer, error)
        return PendingOp(future, c.buffer, validate=partial(report_validation, c) if c.validate else None)

    def _inline(self, c: Call) -> int:
        """One block: without a thread.  1, or -1."""
        try:
            if c.kind == 'read':
                check_file_size(c)
                self._handle.read(c.buffer, c.target, c.offset)
            else:
                _write_warning.warn_once()
                self._handle.write(c.buffer, c.target, c.offset)
        except OSError as error:
            return report_refusal(c, error)
        if c.validate:
            report_validation(c)
        return 1
