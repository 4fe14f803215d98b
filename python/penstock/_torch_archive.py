# SPDX-License-Identifier: Apache-2.0
"""The archive of a file that torch.save() has made, as torch.load() sees it: its storages are filled behind it."""
import concurrent.futures
import errno
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._background import join_background, run_in_background
from ._range_reader import MANY, Block, Ranges, Record, UnsupportedArchive, blocks

HOST = torch.device('cpu')
_ALIGNMENT = 64  # of storages, as torch has it in memory and in files


class _UnfilledStorage(torch.UntypedStorage):  # type: ignore[misc]
    """A storage whose bytes will come; moving it to a GPU moves where they will come to."""

    def to(self, *, device: torch.device, non_blocking: bool = False) -> torch.UntypedStorage:
        return self._move(torch.device(device), super().to)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> torch.UntypedStorage:
        return self._move(torch.device('cuda', device), super().cuda)

    def _move(self, device: torch.device, copy: Any) -> torch.UntypedStorage:
        pending = self.pending_read
        if device.type == 'cpu':
            return self
        if pending.ahead or device.type != 'cuda':  # the library knows nothing of it, or has begun: torch copies
            pending.archive.read_now(pending)
            return copy(device=device)
        pending.target = pending.archive.take_read_ahead(pending, indexed(device)) or _new_storage(self.nbytes(), device)
        return pending.target


def _accepts_unfilled() -> bool:
    """Does torch make tensors of such storages?  Version 1 wants its own class and no other."""
    try:
        torch.empty(0).set_(_UnfilledStorage(0))
    except TypeError:
        return False
    return True


UNFILLED_STORAGE: Any = _UnfilledStorage if _accepts_unfilled() else torch.UntypedStorage
SEES_MOVES = UNFILLED_STORAGE is _UnfilledStorage  # does an unfilled storage see where torch moves it?


def _new_storage(nbytes: int, device: torch.device = HOST) -> torch.UntypedStorage:
    return torch.UntypedStorage(nbytes) if device.type == 'cpu' else torch.UntypedStorage(nbytes, device=device)


def indexed(device: torch.device) -> torch.device:
    return device if device.index is not None else torch.device('cuda', torch.cuda.current_device())


def _make_ordinary(storage: Any) -> None:
    """It is a storage like others from here on: torch copies none of another class (copy.deepcopy)."""
    if type(storage) is _UnfilledStorage:
        storage.__class__ = torch.UntypedStorage
        del storage.pending_read


class _StorageRead:
    """A storage that is to be read, and the record that belongs in it."""

    def __init__(self, archive: 'Archive', name: str, record: Record, nbytes: int, target: Any,
                 ahead: bool = False) -> None:
        self.archive: Archive | None = archive  # until it is filled
        self.name, self.record, self.nbytes, self.target = name, record, nbytes, target
        self.ahead = ahead  # is it read without being asked for?
        target.pending_read = self

    def end(self) -> None:
        """A storage and its read would keep each other alive."""
        _make_ordinary(self.target)
        self.archive = self.target = None


class _Storages:
    """What torch expects of a record that it reads: a tensor, asked for its storage in two ways."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._untyped_storage = storage

    def _typed_storage(self) -> '_Storages':
        return self

    storage = _typed_storage  # torch 1

    def untyped(self) -> torch.UntypedStorage:
        return self._untyped_storage


class Archive:
    """torch's PyTorchFileReader, as far as torch.load() uses it.

    fill_storages() reads the storages that torch has asked for; begin_reading() reads them before.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        found = reader.records()
        names = [name for name in found if name.endswith('/data.pkl') and name.count('/') == 1]
        if len(names) != 1:
            raise UnsupportedArchive('it has no data.pkl')
        start = len(names[0]) - len('data.pkl')
        self.records = {name[start:]: record for name, record in found.items()
                        if name[:start] == names[0][:start]}
        self.reads: list[_StorageRead] = []
        self._read_ahead: dict[str, tuple[torch.UntypedStorage, int, torch.device]] = {}  # memory, and where in it
        self._handed_out: list[torch.UntypedStorage] = []
        self._small: dict[str, bytes] = {}
        self._reading: concurrent.futures.Future[None] | None = None
        self._ahead_read: _StorageRead | None = None  # of all storages that are read ahead
        self.is_many = len(self.records) >= MANY

    # -- for torch

    def get_all_records(self) -> list[str]:
        return list(self.records)

    def has_record(self, name: str) -> bool:
        return name in self.records

    def get_record(self, name: str) -> bytes:
        record = self._find(name)
        if name in self._small:
            return self._small[name]
        self.wait()
        return self._small.setdefault(name, self._reader.pread(record.offset, record.size))

    def get_record_offset(self, name: str) -> int:
        return self._find(name).offset

    def get_storage_from_record(self, name: str, nbytes: int, kind: object) -> _Storages:
        return _Storages(self.storage(name, nbytes))

    def serialization_id(self) -> str:
        name = '.data/serialization_id'
        return self.get_record(name).decode('ascii', 'replace') if name in self.records else ''

    # -- for us

    def storage(self, name: str, nbytes: int, stays: bool = False) -> torch.UntypedStorage:
        """Of a record, whose bytes are there or will come.  stays: nobody moves it anywhere."""
        record = self._find(name)
        if nbytes > record.size:
            # Not for torch to try again, which in some versions reads on in memory.
            raise OSError(errno.EBADMSG, f'{name}: {nbytes} bytes are needed, {record.size} are in '
                                         'the file', self._reader.name)
        storage: Any = self.find_read_ahead(name, nbytes, HOST)
        if storage is not None:
            if not (stays or self._reading is None):
                self._hand_out_unfilled(storage)
            return storage
        storage = UNFILLED_STORAGE(nbytes)
        read = _StorageRead(self, name, record, nbytes, storage)
        if nbytes:
            self.reads.append(read)
        return storage

    def find_read_ahead(self, name: str, nbytes: int, device: torch.device) -> Any:
        """The storage, if it is read ahead to where it is wanted."""
        memory, at, where = self._read_ahead.get(name, (None, 0, None))
        if memory is None or where != device or nbytes != self._find(name).size:
            return None
        # Of its own memory all of it: torch resizes no storage that is a part of another.
        return memory if 0 < nbytes == memory.nbytes() else memory[at:at + nbytes]

    def take_read_ahead(self, read: _StorageRead, device: torch.device) -> Any:
        """The same for a pending read, which is then done."""
        storage = self.find_read_ahead(read.name, read.nbytes, device)
        if storage is not None and read.nbytes:
            self.reads.remove(read)
        return storage

    def _hand_out_unfilled(self, storage: Any) -> None:
        """It is being filled: who moves it has to wait."""
        storage.__class__ = UNFILLED_STORAGE
        storage.pending_read = self._ahead_read
        self._handed_out.append(storage)

    def fill_storages(self) -> None:
        """Read everything that was asked for."""
        self.wait()
        self._fill_storages(self.reads)

    def begin_reading(self, where: Callable[[str], torch.device | None], wait: bool = False) -> None:
        """Read storages before they are asked for: now, or, of many, while torch unpickles.

        where: says of a storage, by its key, on which device it will be; None: nobody knows.
        """
        if not (wait or self.is_many):
            return
        ranges, memories = Ranges(), []
        self._ahead_read = self._ahead_read or _StorageRead(self, '', Record(0, 0), 0, UNFILLED_STORAGE(0), True)
        for device, part in self._parts(where, wait):
            block = part if isinstance(part, Block) else None
            offset, nbytes = (block.start, block.end - block.start) if block else part[:2]
            memory = _new_storage(block.nbytes if block else nbytes, device)
            at = block.place(memory.data_ptr()) if block else 0
            for start, _, name in block.parts if block else [part]:
                self._read_ahead[name] = memory, at + start - offset, device
            if nbytes:
                self._add_range(ranges, device, memory.data_ptr() + at, nbytes, offset)
                memories.append(memory)
        _synchronize({device for _, _, device in self._read_ahead.values()})
        if wait:
            self._reader.read(ranges)
        else:
            self._reading = run_in_background(lambda: self._reader.read(ranges), 'penstock-load', memories)

    def read_the_rest(self, device: torch.device) -> None:
        """From here on storages are filled when they are asked for.

        device: where those are read to that nobody has begun to read.
        """
        self.wait()
        self.begin_reading(lambda key: None if f'data/{key}' in self._read_ahead else device, True)

    def forget_reads(self) -> None:
        """What was asked for, to be asked for again."""
        for read in self.reads:
            read.end()
        self.reads.clear()

    def end_reads(self) -> None:
        """What is left are storages like others, that keep each other for nobody."""
        self.forget_reads()
        for storage in self._handed_out:
            _make_ordinary(storage)
        self._handed_out.clear()
        self._read_ahead.clear()
        if self._ahead_read:
            self._ahead_read.end()

    def wait(self) -> None:
        """Until nobody reads ahead any more; raises what failed there."""
        if self._reading is not None:
            join_background(self._reading)
            self._reading = None

    def read_now(self, read: _StorageRead) -> None:
        self.wait()
        if not read.ahead:
            self.reads.remove(read)
            self._fill_storages([read])

    def _fill_storages(self, reads: list[_StorageRead]) -> None:
        ranges = Ranges()
        for read in reads:
            self._add_range(ranges, read.target.device, read.target.data_ptr(), read.nbytes, read.record.offset)
        _synchronize({read.target.device for read in reads})
        self._reader.read(ranges)

    @staticmethod
    def _add_range(ranges: Ranges, device: torch.device, address: int, nbytes: int, offset: int) -> None:
        add = ranges.add_fresh if device.type == 'cpu' else ranges.add
        add(address, nbytes, offset)

    def _find(self, name: str) -> Record:
        try:
            return self.records[name]
        except KeyError:
            raise RuntimeError(f'the archive has no record {name}') from None

    def _parts(self, where: Callable[[str], torch.device | None], wait: bool) -> Iterator[tuple[torch.device, Any]]:
        """Of the file, that have storages: alone, or in blocks.  Where nobody waits the rest is read now."""
        shared: dict[torch.device, list[Any]] = {}
        for name, (offset, nbytes) in self.records.items():
            if name.startswith('data/'):
                device = where(name[len('data/'):])
                if device is None:
                    continue
                if self.is_many and nbytes and offset % _ALIGNMENT == 0:
                    shared.setdefault(device, []).append((offset, nbytes, name))
                else:
                    yield device, (offset, nbytes, name)
            elif not wait:
                self.get_record(name)
        for device, parts in shared.items():
            for part in blocks(parts, self._reader.size):
                yield device, part


def _synchronize(devices: set[torch.device]) -> None:
    """Who had fresh memory of theirs before is done with it."""
    for device in devices:
        if device.type == 'cuda':
            torch.cuda.current_stream(device).synchronize()
