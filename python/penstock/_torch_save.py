# SPDX-License-Identifier: Apache-2.0
"""What torch.save() would write, without its copies: pickle and headers here, tensors in place."""
import collections
import io
import os
import pickle
import sys
from array import array
from collections.abc import Callable
from typing import Any

import torch

from ._background import gc_disabled
from ._penstock import Memory, WriterCore, copy, make_persistent_id
from ._atomic_writer import Path, Writer

_serialization: Any = torch.serialization

_MANY = 256  # storages from which on writing them while pickling pays
_RECORD = 256  # bytes of a record beside its content, and of the end of an archive, about


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


_SKIPPED_TYPES = frozenset((str, int, float, bool, bytes, tuple, dict, list, type(None), type, type(lambda: 0), type(torch.FloatStorage),
                    collections.OrderedDict, torch.dtype, torch.Tensor))  # what is never a storage
_KINDS: dict[torch.dtype, str] = torch.storage._dtype_to_storage_type_map()
_storage_of: Any = getattr(torch.Tensor, 'untyped_storage', None) or torch.Tensor._storage  # torch 1
_has_names: Any = getattr(torch.Tensor, 'has_names', lambda tensor: False)  # no longer


class _StorageName:
    """A storage that has its name already."""

    __slots__ = ('name',)

    def __init__(self, name: tuple[Any, ...]) -> None:
        self.name = name


def _is_ordinary_tensor(tensor: torch.Tensor) -> bool:
    """Is it nothing but a shape over a storage, in a dtype that was always there?"""
    return (tensor.layout is torch.strided and tensor.device.type in ('cpu', 'cuda') and tensor.dtype in _KINDS
            and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
                     or _has_names(tensor) or tensor._backward_hooks or tensor.__dict__))


def _tags_are_torchs() -> bool:
    """Does nobody else say what storages are called?"""
    return all(getattr(entry[1], '__module__', '').startswith('torch')
               for entry in getattr(_serialization, '_package_registry', (('', None),)))


class _StorageNames:
    """Of storages, instead of which they are pickled, as the format has it.

    on_storage: is called with each storage and its key, when it is met first.
    """

    def __init__(self, location: str | None, on_storage: Callable[[str, Any], None]) -> None:
        self._location, self._on_storage = location, on_storage
        self._on_cpu = location or ('cpu' if _tags_are_torchs() else None)
        self._keys: dict[int, str] = {}
        self._dtypes: dict[int, torch.dtype] = {}

    def reduce(self, obj: Any) -> Any:
        """What torch says of a plain tensor, which it takes 20 us to say."""
        if type(obj) is collections.OrderedDict and not obj and not obj.__dict__:
            return collections.OrderedDict, ()  # the hooks of a tensor
        if type(obj) is not torch.Tensor or not _is_ordinary_tensor(obj):
            return NotImplemented
        dtype, storage = obj.dtype, _storage_of(obj)
        name = self._name(storage, dtype, getattr(torch, _KINDS[dtype]), storage.nbytes() // obj.element_size())
        return torch._utils._rebuild_tensor_v2, (
            _StorageName(name), obj.storage_offset(), tuple(obj.size()), obj.stride(), obj.requires_grad,
            collections.OrderedDict())

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if type(obj) is _StorageName:
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
        place = storage.device.type
        if place == 'meta':
            raise TypeError('obj: a tensor on device meta has no data to save')
        address = storage.data_ptr()
        if address and self._dtypes.setdefault(address, dtype) != dtype:
            raise RuntimeError('Cannot save multiple tensors or storages that view the same data '
                               'as different types')
        key = self._keys.get(storage._cdata)
        if key is None:
            key = self._keys[storage._cdata] = str(len(self._keys))
            self._on_storage(key, storage)
        tag = self._on_cpu if place == 'cpu' else self._location
        return 'storage', kind, key, tag or _serialization.location_tag(storage), numel


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, protocol: int, names: _StorageNames) -> None:
        # Nothing that refers to us: what we have met would live until somebody looks for garbage.
        functions: Any = self
        functions.persistent_id = make_persistent_id(_SKIPPED_TYPES, names.persistent_id)
        functions.reducer_override = names.reduce
        super().__init__(out, protocol)


def _alignment() -> int:
    get = getattr(_serialization, '_get_storage_alignment', None)
    return get() if get else 64


def _archive_name(path: Path | None) -> str:
    name = os.path.basename(os.fsdecode(path or b'')).rpartition('.')
    stem = name[0] if name[1] else name[2]
    return stem if stem and stem.isascii() else 'archive'


def _storage_sizes(obj: Any, seen: dict[int, int], depth: int = 8) -> dict[int, int]:
    """Bytes of the storages that are easily found: what is not reserved is written all the same."""
    if type(obj) is torch.Tensor or type(obj) is torch.nn.Parameter:
        try:
            storage = _storage_of(obj)
            if storage.device.type != 'meta':  # of which nothing is written
                seen[storage._cdata] = storage.nbytes()
        except (RuntimeError, NotImplementedError):
            pass  # a sparse one
    elif depth and isinstance(obj, (dict, list, tuple)):
        for value in obj.values() if isinstance(obj, dict) else obj:
            _storage_sizes(value, seen, depth - 1)
    return seen


class _CopiedStorage:
    """In place of a storage, its bytes somewhere else in memory, which the plan keeps."""

    device = torch.device('cpu')

    def __init__(self, address: int, nbytes: int) -> None:
        self._address, self._nbytes = address, nbytes

    def data_ptr(self) -> int:
        return self._address

    def nbytes(self) -> int:
        return self._nbytes


def _padded_bytes(storage: Any) -> int:
    """Its bytes, up to where the next one may begin."""
    return -(-storage.nbytes() // 64) * 64


class Plan:
    """Everything of a file but the bytes of tensors.

    location: where torch is told that tensors were, if not where they are.
    begin: where there are so many storages that pickling takes its time, this makes the file, for about
    so many bytes, and they are written as pickle meets them.  All else follows them; torch has it before.
    """

    def __init__(self, obj: object, path: Path | None, protocol: int, location: str | None = None,
                 begin: Callable[[int], Writer] | None = None) -> None:
        self._archive = _archive_name(path)
        self._alignment = _alignment()
        self._begin, self._obj = begin, obj
        self._out: WriterCore | None = None  # that is being written while we pickle
        self._kept_alive: list[Any] = []  # memory of copies
        self.file: Writer | None = None  # that was begun
        self.storages: dict[str, Any] = {}
        out = io.BytesIO()
        with gc_disabled():
            _Pickler(out, protocol, _StorageNames(location, self._on_storage)).dump(obj)
        self._begin = self._obj = None
        self._pickle = out.getvalue()

    @property
    def size(self) -> int:
        """Of the file, or some more."""
        return len(self._pickle) + sum(self._record_bytes(s.nbytes()) for s in self.storages.values()) + 16 * _RECORD

    def copy(self, limit: int) -> int:
        """Have the bytes of tensors in memory of our own.

        Returns how much it takes; 0: it was not done, because that is more, or they are on a GPU.
        """
        total = sum(map(_padded_bytes, self.storages.values()))
        if total > limit or any(storage.device.type != 'cpu' for storage in self.storages.values()):
            return 0
        memory, at, moves = Memory(max(total, 1), pinned=False), 0, array('Q')
        for key, storage in self.storages.items():
            nbytes = storage.nbytes()
            moves.extend((memory.address + at, storage.data_ptr(), nbytes))
            self.storages[key] = _CopiedStorage(memory.address + at, nbytes)
            at += _padded_bytes(storage)
        copy(moves)
        self._kept_alive.append(memory)
        return total

    def send(self, file: Writer) -> None:
        """All that is not sent yet.  The memory of tensors goes, also where an error keeps us."""
        try:
            self._send(file)
        finally:
            self.storages.clear()
            self._kept_alive.clear()

    def _send(self, file: Writer) -> None:
        begun = self._out is not None
        out = self._out or file.archive(self._alignment)
        for name, data in (('data.pkl', self._pickle), ('.format_version', b'1'),
                           ('.storage_alignment', str(self._alignment).encode()),
                           ('byteorder', sys.byteorder.encode())):
            out.add_bytes(f'{self._archive}/{name}', data)
        if not begun:
            self._add_storages(out)
        out.add_bytes(f'{self._archive}/version', b'3\n')
        file.end_archive()

    def _record_bytes(self, nbytes: int) -> int:
        return nbytes + self._alignment + _RECORD

    def _on_storage(self, key: str, storage: Any) -> None:
        self.storages[key] = storage  # which lives until the end: its address is its name
        if self._out is not None:
            self._add_storage(self._out, key, storage)
        elif self._begin is not None and len(self.storages) == _MANY:
            self.file = self._begin(sum(map(self._record_bytes, _storage_sizes(self._obj, {}).values())))
            self._out = self.file.archive(self._alignment)
            self._add_storages(self._out)

    def _add_storages(self, out: WriterCore) -> None:
        for key, storage in self.storages.items():
            self._add_storage(out, key, storage)

    def _add_storage(self, out: WriterCore, key: str, storage: Any) -> None:
        device = storage.device
        if device.type == 'cuda':
            # What is queued writes the tensors, and pickling may queue more: a __getstate__() that makes some.
            stream = torch.cuda.current_stream(device)
            if not stream.query():
                stream.synchronize()
        elif device.type != 'cpu':
            storage = storage.cpu()
            self._kept_alive.append(storage)
        out.add(f'{self._archive}/data/{key}', storage.data_ptr(), storage.nbytes())
