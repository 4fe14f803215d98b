# SPDX-License-Identifier: Apache-2.0
"""What torch.save() would write, without its copies: pickle and headers here, tensors in place."""
import io
import os
import pickle
import sys
from array import array
from collections.abc import Callable
from typing import Any

import torch

from . import _zip
from ._sluice import Memory, copy, crc32
from ._writer import Path, Writer

_serialization: Any = torch.serialization



def is_special() -> bool:
    """Is torch told to save something else than the data?  Then it shall do so itself."""
    tls = getattr(_serialization, '_serialization_tls', None)
    if getattr(tls, 'skip_data', False):
        return True
    detect = getattr(getattr(torch, '_guards', None), 'detect_fake_mode', None)
    return detect is not None and detect(None) is not None


def _untyped(storage: Any) -> Any:
    """The storage of a typed one, whose type changes with the versions of torch."""
    found = getattr(storage, '_untyped_storage', None)
    return storage._storage if found is None else found


_PLAIN = frozenset((str, int, float, bool, bytes, tuple, dict, list, type(None), torch.dtype, torch.Tensor))


class _Pickler(pickle.Pickler):
    """Names storages instead of pickling them, as the format has it.

    found: is told of each storage and its key, when it is met first.
    """

    def __init__(self, out: io.BytesIO, protocol: int, location: str | None,
                 found: Callable[[str, Any], None]) -> None:
        super().__init__(out, protocol)
        self._location, self._found = location, found
        self._keys: dict[int, str] = {}
        self._dtypes: dict[int, torch.dtype] = {}

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if type(obj) in _PLAIN:  # asked for everything that is pickled
            return None
        if isinstance(obj, torch.storage.TypedStorage):
            storage, dtype = _untyped(obj), obj.dtype
            kind = getattr(obj, '_pickle_storage_type', None) or obj.pickle_storage_type
            kind, numel = getattr(torch, kind()), (getattr(obj, '_size', None) or obj.size)()
        elif torch.is_storage(obj):
            storage, dtype = obj, torch.uint8
            kind, numel = _serialization.normalize_storage_type(type(obj)), obj.nbytes()
        else:
            return None
        return self._name(storage, dtype, kind, numel)

    def _name(self, storage: Any, dtype: torch.dtype, kind: Any, numel: int) -> tuple[Any, ...]:
        self._check(storage, dtype)
        key = self._keys.get(storage._cdata)
        if key is None:
            key = self._keys[storage._cdata] = str(len(self._keys))
            self._found(key, storage)
        return 'storage', kind, key, self._location or _serialization.location_tag(storage), numel

    def _check(self, storage: Any, dtype: torch.dtype) -> None:
        if storage.device.type == 'meta':
            raise TypeError('obj: a tensor on device meta has no data to save')
        address = storage.data_ptr()
        if address and self._dtypes.setdefault(address, dtype) != dtype:
            raise RuntimeError('Cannot save multiple tensors or storages that view the same data '
                               'as different types')


def _alignment() -> int:
    get = getattr(_serialization, '_get_storage_alignment', None)
    return get() if get else 64


def _archive_name(path: Path | None) -> str:
    name = os.path.basename(os.fsdecode(path or b'')).rpartition('.')
    stem = name[0] if name[1] else name[2]
    return stem if stem and stem.isascii() else 'archive'


class _Copy:
    """In place of a storage, its bytes somewhere else in memory."""

    device = torch.device('cpu')

    def __init__(self, memory: Memory, offset: int, nbytes: int) -> None:
        self._memory, self._address, self._nbytes = memory, memory.address + offset, nbytes

    def data_ptr(self) -> int:
        return self._address

    def nbytes(self) -> int:
        return self._nbytes


def _lines(storage: Any) -> int:
    """Its bytes, up to where the next one may begin."""
    return -(-storage.nbytes() // 64) * 64


class Plan:
    """Everything of a file but the bytes of tensors, and where all of it goes.

    location: where torch is told that tensors were, if not where they are.
    """

    def __init__(self, obj: object, path: Path | None, protocol: int,
                 location: str | None = None) -> None:
        self._archive = _archive_name(path)
        self._alignment = _alignment()
        self._at = 0
        self.storages: dict[str, Any] = {}
        self._records: list[_zip.Record] = []
        self._unsent: list[tuple[_zip.Record, bytes, Any]] = []  # header; bytes or storage
        self._tail = b''  # of the record that was sent last
        self._devices: set[torch.device] = set()
        out = io.BytesIO()
        _Pickler(out, protocol, location, self._found).dump(obj)
        self._add('data.pkl', out.getvalue())
        self._add('.format_version', b'1')
        self._add('.storage_alignment', str(self._alignment).encode())
        self._add('byteorder', sys.byteorder.encode())
        for key, storage in self.storages.items():
            self._add(f'data/{key}', storage)
        self._add('version', b'3\n')
        self._add('.data/serialization_id', bytes(40))  # filled in when the sums are known
        self.size = self._at + _zip.directory_size(self._records)

    def copy(self, room: int) -> int:
        """Have the bytes of tensors in memory of our own.

        Returns how much it takes; 0: it was not done, because that is more, or they are on a GPU.
        """
        total = sum(map(_lines, self.storages.values()))
        if total > room or any(storage.device.type != 'cpu' for storage in self.storages.values()):
            return 0
        memory, at, moves = Memory(max(total, 1), pinned=False), 0, array('Q')
        for i, (record, head, data) in enumerate(self._unsent):
            if not isinstance(data, bytes):
                self._unsent[i] = record, head, _Copy(memory, at, record.size)
                moves.extend((memory.address + at, data.data_ptr(), record.size))
                at += _lines(data)
        copy(moves)
        self.storages.clear()
        return total

    def send(self, file: Writer) -> None:
        for record, head, data in self._unsent:
            if record is self._records[-1]:
                data = self._serialization_id()
            self._send_one(file, record, head, data)
        file.write(self._tail + _zip.directory(self._records, self._at))

    def _found(self, key: str, storage: Any) -> None:
        self.storages[key] = storage  # which lives until the end: its address is its name

    def _add(self, name: str, data: Any) -> None:
        size = len(data) if isinstance(data, bytes) else data.nbytes()
        record = _zip.Record(f'{self._archive}/{name}', size, 0, self._at)
        self._records.append(record)
        self._unsent.append((record, _zip.head(record, self._alignment), data))
        self._at = record.offset + size + _zip.tail_size(record)

    def _send_one(self, file: Writer, record: _zip.Record, head: bytes, data: Any) -> None:
        if isinstance(data, bytes):
            file.write(self._tail + head + data)
            record.crc32 = crc32(data)
        else:
            file.write(self._tail + head)
            record.crc32 = self._send_storage(file, data)
        self._tail = _zip.tail(record)

    def _send_storage(self, file: Writer, storage: Any) -> int:
        device = storage.device
        if device.type == 'cuda' and device not in self._devices:
            torch.cuda.current_stream(device).synchronize()  # what is queued has written the tensors
            self._devices.add(device)
        elif device.type not in ('cpu', 'cuda'):
            storage = storage.cpu()
        nbytes = storage.nbytes()
        return file.write_memory(storage.data_ptr(), nbytes, device.type == 'cuda') if nbytes else 0

    def _serialization_id(self) -> bytes:
        """Two numbers of twenty digits, one from the names and one from the sums of what is there."""
        names = sums = 0
        for record in self._records[:-1]:
            names = (names * 0x9e3779b97f4a7c15 ^ crc32(record.name.encode())) % (1 << 64)
            sums = (sums * 0x9e3779b97f4a7c15 ^ record.crc32) % (1 << 64)
        return f'{names:020}{sums:020}'.encode()
