# SPDX-License-Identifier: Apache-2.0
"""What torch.save() would write, without its copies: pickle and headers here, tensors in place."""
import io
import os
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import torch

from . import _zip
from ._sluice import crc32
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
    """Names storages instead of pickling them, as the format has it."""

    def __init__(self, out: io.BytesIO, protocol: int, location: str | None) -> None:
        super().__init__(out, protocol)
        self._location = location
        self.storages: dict[str, Any] = {}
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
        self._check(storage, dtype)
        key = self._keys.setdefault(storage._cdata, str(len(self._keys)))
        self.storages[key] = storage
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


class Plan:
    """Everything of a file but the bytes of tensors, and where all of it goes.

    location: where torch is told that tensors were, if not where they are.
    """

    def __init__(self, obj: object, path: Path | None, protocol: int,
                 location: str | None = None) -> None:
        out = io.BytesIO()
        pickler = _Pickler(out, protocol, location)
        pickler.dump(obj)
        self.storages = pickler.storages
        self._archive = _archive_name(path)
        self._alignment = _alignment()
        self._at = 0
        self.records: list[tuple[_zip.Record, bytes, Any]] = []  # header; bytes or storage
        self._add('data.pkl', out.getvalue())
        self._add('.format_version', b'1')
        self._add('.storage_alignment', str(self._alignment).encode())
        self._add('byteorder', sys.byteorder.encode())
        for key, storage in self.storages.items():
            self._add(f'data/{key}', storage)
        self._add('version', b'3\n')
        self._add('.data/serialization_id', bytes(40))  # filled in when the sums are known
        records = [record for record, _, _ in self.records]
        self.end = self._at
        self.size = self._at + len(_zip.directory(records, self._at))

    def _add(self, name: str, data: Any) -> None:
        size = len(data) if isinstance(data, bytes) else data.nbytes()
        record = _zip.Record(f'{self._archive}/{name}', size, 0, self._at)
        self.records.append((record, _zip.head(record, self._alignment), data))
        self._at = record.offset + size + len(_zip.tail(record))

    def serialization_id(self) -> bytes:
        """Two numbers of twenty digits, one from the names and one from the sums of what is there."""
        names = sums = 0
        for record, _, _ in self.records[:-1]:
            names = (names * 0x9e3779b97f4a7c15 ^ crc32(record.name.encode())) % (1 << 64)
            sums = (sums * 0x9e3779b97f4a7c15 ^ record.crc32) % (1 << 64)
        return f'{names:020}{sums:020}'.encode()


def _synchronize(storages: Iterator[Any]) -> None:
    """What is queued on GPUs has written the tensors when this returns."""
    for device in {storage.device for storage in storages if storage.device.type == 'cuda'}:
        torch.cuda.current_stream(device).synchronize()


def send(plan: Plan, file: Writer) -> None:
    _synchronize(iter(plan.storages.values()))
    for record, head, data in plan.records:
        file.write(head)
        if isinstance(data, bytes):
            if record is plan.records[-1][0]:
                data = plan.serialization_id()
            file.write(data)
            record.crc32 = crc32(data)
        else:
            record.crc32 = _send_storage(file, data)
        file.write(_zip.tail(record))
    file.write(_zip.directory([record for record, _, _ in plan.records], plan.end))


def _send_storage(file: Writer, storage: Any) -> int:
    if storage.device.type not in ('cpu', 'cuda'):
        storage = storage.cpu()
    nbytes = storage.nbytes()
    if not nbytes:
        return 0
    return file.write_memory(storage.data_ptr(), nbytes, storage.device.type == 'cuda')
