# SPDX-License-Identifier: Apache-2.0
"""Data of distributed checkpoints: several files at once, and of each all that is wanted in two batches.

The first has the ends of large blobs, which say where in them the tensor lies; the second brings tensors
to their places.  All else comes in batches with its header, the next being read while the last is taken apart.
Threads read; the planner is called by the one that wants the data, since it may be anybody's.
"""
import concurrent.futures
import contextlib
import io
import os
import pickle
import queue
import struct
import threading
import zipfile
from array import array
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch.distributed.checkpoint import filesystem as _torchs
from torch.distributed.checkpoint.planner import LoadItemType

from ._range_reader import Ranges, Reader, Record, UnsupportedArchive, is_damage
from ._penstock import copy, huge
from ._torch_archive import Archive
from ._torch_load import _unpickle_simple, _DeviceMap, unpickle

_FILES = 8  # that are open at once
_WHOLE = 8 << 20  # what is smaller is read with its header, and copied
_SLACK = 64 << 20  # for what is copied, twice: while one is taken apart the next is read
_HEAD, _TAIL = 16 << 10, 4 << 10  # of a blob: pickle and headers, and the directory
_HUGE = 4 << 20

_LOCAL = struct.Struct('<4s22xHH')  # header of a record in a zip archive: magic, length of name and extra field


class _ArchiveInMemory(io.RawIOBase):
    """An archive as far as it is in memory, with its offsets: for Archive, and for what reads its directory."""

    def __init__(self, name: str, size: int, parts: list[tuple[int, memoryview]]) -> None:
        self.name, self.size, self._parts, self._at = name, size, parts, 0

    def _find(self, offset: int, length: int) -> memoryview:
        for start, data in self._parts:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start:offset - start + length]
        raise UnsupportedArchive('the archive is laid out in another way')

    def pread(self, offset: int, length: int) -> bytes:
        return bytes(self._find(offset, length))

    def read(self, what: Any = -1, /) -> Any:
        """As a file; or, as Archive has it, ranges."""
        if isinstance(what, Ranges):
            self._copy(what)
            return None
        length = self.size - self._at if what < 0 else min(what, self.size - self._at)
        data = self.pread(self._at, length)
        self._at += length
        return data

    def _copy(self, ranges: Ranges) -> None:
        moves, numbers = array('Q'), ranges.numbers
        for address, nbytes, offset in zip(numbers[::3], numbers[1::3], numbers[2::3]):
            moves.extend((address, _address(self._find(offset, nbytes)), nbytes))
        copy(moves)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        at = offset + (0, self._at, self.size)[whence]
        if at < 0:
            raise OSError('before the beginning')
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def records(self) -> dict[str, Record]:
        try:
            with zipfile.ZipFile(cast(Any, self)) as archive:
                return {info.filename: self._record(info) for info in archive.infolist()}
        except (zipfile.BadZipFile, OSError, struct.error, ValueError) as error:
            raise UnsupportedArchive(str(error)) from None

    def _record(self, info: zipfile.ZipInfo) -> Record:
        magic, name, extra = _LOCAL.unpack(self._find(info.header_offset, _LOCAL.size))
        start = info.header_offset + _LOCAL.size + name + extra
        if magic != b'PK\3\4' or info.compress_type != zipfile.ZIP_STORED or start + info.file_size > self.size:
            raise UnsupportedArchive('it is no archive of torch')
        return Record(start, info.file_size)


def _address(data: memoryview) -> int:
    return torch.frombuffer(data, dtype=torch.uint8).data_ptr() if len(data) else 0


def _tensor(blob: _ArchiveInMemory, fill: bool) -> tuple[torch.Tensor, list[Any]]:
    """What is in it, without its data if not @fill, and the records that belong to it; or UnsupportedArchive."""
    archive = Archive(blob)
    try:
        found = _unpickle_simple(archive, 'cpu', _DeviceMap('cpu'))
        if found is None:
            found = unpickle(archive, 'cpu')
        if type(found) is not torch.Tensor:
            raise UnsupportedArchive('it is no plain tensor')
        records = [read.record for read in archive.reads]
        if fill:
            archive.fill_storages()
        return found, records
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise UnsupportedArchive(str(error)) from None
    finally:
        archive.end_reads()


class _FileRead:
    """What is read of a file: read by a thread, planned by the thread that loads."""

    def __init__(self, load: 'CheckpointLoad', name: str, items: list[Any]) -> None:
        self._load, self._name = load, name
        self._infos = [(item, load.info(item)) for item in sorted(items, key=lambda i: load.info(i).offset)]
        self._planned: concurrent.futures.Future[Ranges] = concurrent.futures.Future()
        self._placed: list[tuple[Any, Any]] = []
        self._copied: list[tuple[Any, Any]] = []

    def cancel(self) -> None:
        self._planned.cancel()

    # -- in a thread

    def run(self) -> None:
        with self._load.open(self._name) as file, self._name_tensors_in_errors(file):
            blobs = self._read_directories(file)
            self._load.call_in_planner(lambda: self._plan(blobs))
            file.read(self._planned.result())
            self._load.call_in_planner(self._commit)
            for some in self._batches():
                self._load.acquire_batch()
                memory = self._read_batch(file, some)
                self._load.call_in_planner(lambda some=some, memory=memory: self._load_items(some, memory))  # type: ignore[misc]

    def _read_directories(self, file: Reader) -> list[_ArchiveInMemory | None]:
        """Of blobs that may be read straight into place."""
        large = [item.type != LoadItemType.BYTE_IO and info.length >= _WHOLE and not _transforms(info)
                 for item, info in self._infos]
        memory, ranges, at = memoryview(bytearray(sum(large) * (_HEAD + _TAIL))), Ranges(), 0
        blobs: list[_ArchiveInMemory | None] = []
        for (_, info), is_large in zip(self._infos, large):
            if not is_large:
                blobs.append(None)
                continue
            parts = []
            for start, length in (0, _HEAD), (info.length - _TAIL, _TAIL):
                parts.append((start, memory[at:at + length]))
                ranges.add(_address(memory) + at, length, info.offset + start)
                at += length
            blobs.append(_ArchiveInMemory(file.name, info.length, parts))
        file.read(ranges)
        return blobs

    def _batches(self) -> Iterator[list[tuple[Any, Any]]]:
        some: list[tuple[Any, Any]] = []
        room = 0
        for item, info in self._copied:
            if some and room + info.length > _SLACK:
                yield some
                some, room = [], 0
            some.append((item, info))
            room += info.length
        if some:
            yield some

    @staticmethod
    def _read_batch(file: Reader, some: list[tuple[Any, Any]]) -> memoryview:
        memory, ranges = memoryview(bytearray(sum(info.length for _, info in some))), Ranges()
        address = _address(memory)
        if len(memory) >= _HUGE:
            huge(address, len(memory))
        for _, info in some:
            ranges.add(address, info.length, info.offset)
            address += info.length
        file.read(ranges)
        return memory

    @contextlib.contextmanager
    def _name_tensors_in_errors(self, file: Reader) -> Iterator[None]:
        """What is found to be wrong is named."""
        try:
            yield
        except OSError as error:
            if not is_damage(error):
                raise
            first, last = file.bad()[0], sum(file.bad())
            names = sorted({item.storage_index.fqn for item, i in self._infos
                            if i.offset < last and first < i.offset + i.length})
            raise OSError(error.errno, f'{error.strerror}: in {", ".join(names)}', error.filename) from None

    # -- in the planner's

    def _plan(self, blobs: list[_ArchiveInMemory | None]) -> None:
        ranges = Ranges()
        for (item, info), blob in zip(self._infos, blobs):
            target = blob and self._place_item(item, info, blob, ranges)
            if target is None:
                self._copied.append((item, info))
            else:
                self._placed.append((item, target))
        for device in {t.device for _, t in self._placed if t.device.type == 'cuda'}:
            torch.cuda.current_stream(device).synchronize()
        self._planned.set_result(ranges)

    def _place_item(self, item: Any, info: Any, blob: _ArchiveInMemory, ranges: Ranges) -> Any:
        """The tensor that part of the file goes to as it is; None: it has to be copied."""
        try:
            stored, records = _tensor(blob, False)
        except UnsupportedArchive:
            return None
        _check_part(item, stored)
        part = _run_offset(stored, item.storage_offsets, item.lengths)
        target = self._load.planner.resolve_tensor(item).detach()
        if part is None or len(records) != 1 or not _same_layout(target, stored, item.lengths):
            return None
        ranges.add(target.data_ptr(), target.nbytes, info.offset + records[0].offset + part)
        return target

    def _commit(self) -> None:
        for item, target in self._placed:
            self._load.planner.commit_tensor(item, target)

    def _load_items(self, some: list[tuple[Any, Any]], memory: memoryview) -> None:
        at = 0
        for item, info in some:
            self._load_item(item, info, memory[at:at + info.length])
            at += info.length
        self._load.release_batch()

    def _load_item(self, item: Any, info: Any, data: memoryview) -> None:
        planner = self._load.planner
        if _transforms(info):
            stream = self._load.transforms.transform_load_stream(item, _transforms(info), io.BytesIO(data))
            data = memoryview(bytearray(stream.read(-1)))
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(data))
            return
        try:
            tensor = _tensor(_ArchiveInMemory(self._name, len(data), [(0, data)]), True)[0]
        except UnsupportedArchive:
            tensor = torch.load(io.BytesIO(data), map_location='cpu', weights_only=True)
        _check_part(item, tensor)
        tensor = _torchs.narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.size() != tensor.size():
            raise AssertionError(f'{item.storage_index}: the file has {tuple(tensor.size())}, '
                                 f'{tuple(target.size())} is wanted')
        target.copy_(tensor)
        planner.commit_tensor(item, target)


class CheckpointLoad:
    """One call of read_data()."""

    def __init__(self, open_file: Callable[[str], Reader], infos: Any, planner: Any, transforms: Any) -> None:
        self.open, self.planner, self.transforms = open_file, planner, transforms
        self._infos = infos
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._batch_slots = threading.Semaphore(2)
        self._stopped = False

    def info(self, item: Any) -> Any:
        return self._infos[item.storage_index]

    def run(self, items: list[Any]) -> None:
        per_file: dict[str, list[Any]] = {}
        for item in items:
            per_file.setdefault(self.info(item).relative_path, []).append(item)
        reads = [_FileRead(self, name, some) for name, some in per_file.items()]
        with concurrent.futures.ThreadPoolExecutor(min(_FILES, max(len(reads), 1))) as pool:
            try:
                futures = [pool.submit(read.run) for read in reads]
                for future in futures:
                    future.add_done_callback(lambda _: self._calls.put(None))
                self._run_calls(futures)
            finally:  # where Ctrl-C came while threads were being started, too
                self._stopped = True
                pool.shutdown(False, cancel_futures=True)
                for read in reads:
                    read.cancel()
                    self._batch_slots.release()  # for a thread that waits there

    def _run_calls(self, futures: list[Any]) -> None:
        """The calls that threads have queued, until all of them have ended; one that failed is the end."""
        left = len(futures)
        while left:
            call = self._calls.get()
            if call is not None:
                call()
                continue
            left -= 1
            for future in futures:
                if future.done():
                    future.result()

    # -- for threads

    def call_in_planner(self, what: Callable[[], None]) -> None:
        self._calls.put(what)

    def acquire_batch(self) -> None:
        self._batch_slots.acquire()
        if self._stopped:
            raise concurrent.futures.CancelledError

    def release_batch(self) -> None:
        self._batch_slots.release()


def _transforms(info: Any) -> Any:
    return getattr(info, 'transform_descriptors', None) or ()


def _check_part(item: Any, stored: torch.Tensor) -> None:
    """What the metadata want of a tensor must lie in the file's, which others' bytes follow."""
    offsets, lengths, shape = tuple(item.storage_offsets), tuple(item.lengths), tuple(stored.shape)
    if len(lengths) != len(shape) or any(
            at < 0 or at + length > size for at, length, size in zip(offsets, lengths, shape)):
        raise AssertionError(f'{item.storage_index}: the file has {shape}, {lengths} from '
                             f'{offsets} on are wanted')


def _same_layout(target: torch.Tensor, stored: torch.Tensor, lengths: Any) -> bool:
    return (target.dtype == stored.dtype and tuple(target.shape) == tuple(lengths)
            and target.device.type in ('cpu', 'cuda') and target.layout == torch.strided
            and target.is_contiguous() and not target.is_conj() and not target.is_neg()
            and not stored.is_conj() and not stored.is_neg())


def _run_offset(stored: torch.Tensor, offsets: Any, lengths: Any) -> int | None:
    """Where in its storage this part of a tensor begins, in bytes, if it lies there in one run."""
    if not stored.is_contiguous():
        return None
    start, step, whole = stored.storage_offset(), 1, True
    for size, offset, length in zip(reversed(stored.shape), reversed(offsets), reversed(lengths)):
        if not whole and length != 1:
            return None
        start += offset * step
        step *= size
        whole = whole and length == size
    return cast(int, start) * stored.element_size()
