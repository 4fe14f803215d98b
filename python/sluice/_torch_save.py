# SPDX-License-Identifier: Apache-2.0
"""What torch.save() would write, without its copies: pickle and headers here, tensors in place."""
import collections
import contextlib
import gc
import io
import os
import pickle
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _zip
from ._sluice import Memory, copy, crc32
from ._writer import Path, Writer

_serialization: Any = torch.serialization

_MANY = 256  # storages from which on writing them while pickling pays
_BATCH = 32  # that are handed over at once


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
_KINDS: dict[torch.dtype, str] = torch.storage._dtype_to_storage_type_map()
_storage_of: Any = getattr(torch.Tensor, 'untyped_storage', None) or torch.Tensor._storage  # torch 1
_has_names: Any = getattr(torch.Tensor, 'has_names', lambda tensor: False)  # no longer


class _Named:
    """A storage that has its name already."""

    __slots__ = ('name',)

    def __init__(self, name: tuple[Any, ...]) -> None:
        self.name = name


def _is_plain(tensor: torch.Tensor) -> bool:
    """Is it nothing but a shape over a storage, in a dtype that was always there?"""
    return (tensor.layout is torch.strided and tensor.device.type == 'cpu' and tensor.dtype in _KINDS
            and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
                     or _has_names(tensor) or tensor._backward_hooks or tensor.__dict__))


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

    def reducer_override(self, obj: Any) -> Any:
        """What torch says of a plain tensor, which it takes 20 us to say."""
        if type(obj) is collections.OrderedDict and not obj and not obj.__dict__:
            return collections.OrderedDict, ()  # the hooks of a tensor
        if type(obj) is not torch.Tensor or not _is_plain(obj):
            return NotImplemented
        dtype, storage = obj.dtype, _storage_of(obj)
        name = self._name(storage, dtype, getattr(torch, _KINDS[dtype]), storage.nbytes() // obj.element_size())
        return torch._utils._rebuild_tensor_v2, (
            _Named(name), obj.storage_offset(), tuple(obj.size()), obj.stride(), obj.requires_grad,
            collections.OrderedDict())

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if type(obj) in _PLAIN:  # asked for everything that is pickled
            return None
        if type(obj) is _Named:
            return obj.name
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


def _sizes(obj: Any, seen: dict[int, int], depth: int = 8) -> dict[int, int]:
    """Bytes of the storages that are easily found: what is not reserved is written all the same."""
    if isinstance(obj, torch.Tensor):
        if _is_plain(obj):
            storage = _storage_of(obj)
            seen[storage._cdata] = storage.nbytes()
    elif depth and isinstance(obj, (dict, list, tuple)):
        for value in obj.values() if isinstance(obj, dict) else obj:
            _sizes(value, seen, depth - 1)
    return seen


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Pickle keeps all that it meets: looking for garbage among it takes as long as pickling."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
    begin: where there are so many storages that pickling takes its time, this makes the file, for about
    so many bytes, and they are written as pickle meets them.  All else follows them; torch has it before.
    """

    def __init__(self, obj: object, path: Path | None, protocol: int, location: str | None = None,
                 begin: Callable[[int], Writer] | None = None) -> None:
        self._archive = _archive_name(path)
        self._alignment = _alignment()
        self._at = 0
        self._begin, self._obj = begin, obj
        self.file: Writer | None = None  # that was begun
        self.storages: dict[str, Any] = {}
        self._records: list[_zip.Record] = []
        self._unsent: list[tuple[_zip.Record, bytes, Any]] = []  # header; bytes or storage
        self._tail = b''  # of the record that was sent last
        self._with_thread: list[_zip.Record] = []  # that are sent by one
        self._devices: set[torch.device] = set()
        out = io.BytesIO()
        with _no_garbage():
            _Pickler(out, protocol, location, self._found).dump(obj)
        if self.file is not None:
            self._flush(self.file)
            self._end_records(self.file)
        self._add('data.pkl', out.getvalue())
        self._add('.format_version', b'1')
        self._add('.storage_alignment', str(self._alignment).encode())
        self._add('byteorder', sys.byteorder.encode())
        if self.file is None:
            self._add_storages()
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
        if self._begin is None or len(self.storages) < _MANY:
            return
        if self.file is None:
            self.file = self._begin(sum(_sizes(self._obj, {}).values()))
            self._add_storages()
        else:
            self._add(f'data/{key}', storage)
        if len(self._unsent) >= _BATCH:
            self._flush(self.file)

    def _flush(self, file: Writer) -> None:
        """All that is not sent yet, by a thread as far as it can."""
        numbers = array('Q')
        heads: list[bytes] = []
        for record, head, data in self._unsent:
            if data.device.type != 'cpu':
                self._hand_over(file, heads, numbers)
                self._end_records(file)
                self._send_one(file, record, head, data)
                continue
            heads.append(self._tail + head)
            self._tail = b''
            numbers.extend((len(heads[-1]), data.data_ptr(), record.size, _zip.tail_size(record)))
            self._with_thread.append(record)
        self._hand_over(file, heads, numbers)
        self._unsent.clear()

    @staticmethod
    def _hand_over(file: Writer, heads: list[bytes], numbers: 'array[int]') -> None:
        if heads:
            file.add_records(b''.join(heads), numbers)
            heads.clear()
            del numbers[:]

    def _end_records(self, file: Writer) -> None:
        for record, crc in zip(self._with_thread, file.end_records()):
            record.crc32 = crc
        self._with_thread.clear()

    def _add_storages(self) -> None:
        for key, storage in self.storages.items():
            self._add(f'data/{key}', storage)

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
