# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's aio_handle and gds_handle."""
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, SupportsIndex, TypeAlias, cast

import torch

from .. import _penstock
from . import _args
from ._locked_memory import LockedTensorMethods
from ._transfer import SECTOR, Call, Kind, Transfers, check_call

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes] | SupportsIndex


class Default(int):
    """A number that can be told from the same number given by the caller."""


ONE = Default(1)


def thread_count_of(given: int, **old_names: int | None) -> int:
    """The number of I/O threads, which has had three names."""
    names = {'intra_op_parallelism': None if given is ONE else given, **old_names}
    values = {name: _args.positive(name, n) for name, n in names.items() if n is not None}
    if len(set(values.values())) > 1:
        said = ', '.join(f'{name}={n}' for name, n in values.items())
        raise TypeError(f'{said}: different values for one thing')
    return next(iter(values.values()), 1)


class Method(Protocol):
    """One that transfers by name or descriptor, as it is called on a handle."""

    def __call__(
        self, buffer: torch.Tensor, filename: Path | None = None, file_offset: int = 0, *,
        fd: SupportsIndex | None = None,
    ) -> int: ...


def transfer(name: str, kind: Kind, run: Callable[[Transfers, Call], int]) -> Method:
    def method(
        self: 'aio_handle', buffer: torch.Tensor, filename: Path | None = None,
        file_offset: int = 0, *, fd: SupportsIndex | None = None,
    ) -> int:
        target = filename if fd is None and type(filename) is str else _args.target(filename, fd)
        return run(self._io, check_call(name, kind, buffer, target, file_offset))

    method.__name__, method.__qualname__ = name, f'aio_handle.{name}'
    return cast(Method, method)


class aio_handle(LockedTensorMethods):
    """Reads and writes tensors of every size and layout, at every offset.

    A transfer that is submitted gives 0, a call that waits gives the number of operations that
    have ended.  A file that cannot be used as asked gives -1 and a line on stderr; a transfer that
    fails raises OSError from the call that waits for it.
    """

    def __init__(
        self,
        block_size: int = 1 << 20,
        queue_depth: int = 128,
        single_submit: bool = False,
        overlap_events: bool = False,
        intra_op_parallelism: int = ONE,
        *,
        num_threads: int | None = None,
        thread_count: int | None = None,
    ) -> None:
        self._block_size = _args.positive('block_size', block_size)
        self._queue_depth = _args.positive('queue_depth', queue_depth)
        self._single_submit = _args.flag('single_submit', single_submit)
        self._overlap_events = _args.flag('overlap_events', overlap_events)
        self._parallelism = thread_count_of(
            intra_op_parallelism, num_threads=num_threads, thread_count=thread_count)
        self._pid = os.getpid()
        self._io = self._open()

    def _open(self) -> Transfers:
        return Transfers(self._block_size, self._queue_depth, self._single_submit,
                         self._parallelism)

    # ---- what it was made with

    def get_block_size(self) -> int:
        return self._block_size

    def get_queue_depth(self) -> int:
        return self._queue_depth

    def get_single_submit(self) -> bool:
        return self._single_submit

    def get_overlap_events(self) -> bool:
        return self._overlap_events

    def get_intra_op_parallelism(self) -> int:
        return self._parallelism

    def get_thread_count(self) -> int:
        return self._parallelism

    def get_alignment(self) -> int:
        """What DeepSpeed's own handle would need.  This one needs none."""
        return SECTOR * self._parallelism

    # ---- 0 or -1

    def read(
        self, buffer: torch.Tensor, filename: Path, validate: bool, file_offset: int = 0
    ) -> int:
        return self._io.run_alone(
            check_call('read', 'read', buffer, _args.target(filename), file_offset, validate))

    def write(
        self, buffer: torch.Tensor, filename: Path, validate: bool, file_offset: int = 0
    ) -> int:
        return self._io.run_alone(
            check_call('write', 'write', buffer, _args.target(filename), file_offset, validate))

    # ---- submit: 0 or -1; wait: number of operations or -1

    def pread(
        self, buffer: torch.Tensor, filename: Path, validate: bool, *rest: Any, **more: Any
    ) -> int:
        """pread(buffer, filename, validate, async, file_offset=0)"""
        asynchronous, offset = _args.async_and_offset('pread', rest, more)
        c = check_call('pread', 'read', buffer, _args.target(filename), offset, validate)
        return self._io.submit(c) if asynchronous else self._io.run_and_wait(c)

    def pwrite(
        self, buffer: torch.Tensor, filename: Path, validate: bool, *rest: Any, **more: Any
    ) -> int:
        """pwrite(buffer, filename, validate, async, file_offset=0)"""
        asynchronous, offset = _args.async_and_offset('pwrite', rest, more)
        c = check_call('pwrite', 'write', buffer, _args.target(filename), offset, validate)
        return self._io.submit(c) if asynchronous else self._io.run_and_wait(c)

    sync_pread = transfer('sync_pread', 'read', Transfers.run_and_wait)
    sync_pwrite = transfer('sync_pwrite', 'write', Transfers.run_and_wait)
    async_pread = transfer('async_pread', 'read', Transfers.submit)
    async_pwrite = transfer('async_pwrite', 'write', Transfers.submit)

    def wait(self) -> int:
        """Until nothing is pending.  Returns how many operations that were, which may be 0."""
        return self._io.wait()

    # ---- the end, which DeepSpeed's handle leaves to the garbage collector

    def close(self) -> None:
        """Wait for what is pending, as wait() does, and end the I/O threads."""
        self._io.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            self.close()
        except OSError:
            if exc is None:
                raise

    # Bound here: when Python ends, the names of this module may be gone before the last handle.
    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        if hasattr(self, '_io') and getpid() == self._pid:
            self.close()


class gds_handle(aio_handle):
    """The same, by cuFile for tensors on a GPU where it works.

    Where it does not, and for files it does not take, data goes through the library's pool of
    pinned host memory.  Nothing has to be pinned for a transfer; cuFile is faster with it.
    """

    def _open(self) -> Transfers:
        try:
            return Transfers(self._block_size, self._queue_depth, self._single_submit,
                             self._parallelism, cufile_engine())
        except OSError:  # refused in spite of all
            return super()._open()

    def get_alignment(self) -> int:
        return SECTOR

    def new_pinned_device_tensor(
        self,
        num_elem: int,
        example_tensor: torch.Tensor | None = None,
        *,
        example_tenosr: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """A 1-D tensor of @num_elem elements, of the example's dtype, on the current GPU."""
        example = _args.example(example_tensor, example_tenosr)
        number = _args.count('num_elem', num_elem)
        if not torch.cuda.is_available():
            raise RuntimeError('new_pinned_device_tensor: there is no CUDA device here; '
                               'new_cpu_locked_tensor() gives host memory')
        tensor = torch.empty(number, dtype=example.dtype, device='cuda')
        self.pin_device_tensor(tensor)
        return tensor

    def free_pinned_device_tensor(self, tensor: torch.Tensor) -> bool:
        """The memory goes with the tensor."""
        return self.unpin_device_tensor(tensor)

    def pin_device_tensor(self, tensor: torch.Tensor) -> bool:
        """Make its memory known to cuFile, until it is unpinned or the handle is closed.

        True, also where there is nothing to do: another engine, host memory, gaps.
        """
        if on_cuda(_args.tensor('tensor', tensor)):
            self._io.pin(tensor)
        return True

    def unpin_device_tensor(self, tensor: torch.Tensor) -> bool:
        """True, for a tensor that is not pinned too."""
        if on_cuda(_args.tensor('tensor', tensor)):
            self._io.unpin(tensor)
        return True


def cufile_engine() -> str | None:
    """The engine for cuFile, or None for the default where there is no cuFile or no GPU."""
    gpu = _penstock.info()['gpu']
    return 'cufile' if gpu['cuda'] and gpu['devices'] and gpu['cufile'] else None


def on_cuda(tensor: torch.Tensor) -> bool:
    """Does it have device memory in one piece, which can be registered?"""
    return bool(torch.version.cuda and tensor.is_cuda and tensor.layout == torch.strided
                and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg())
