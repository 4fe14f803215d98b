# SPDX-License-Identifier: Apache-2.0
"""What torch.load() would load, with all tensors read in one batch.

What is plain tensors is unpickled here.  Where a storage is asked for there is one that is not
filled yet; when that is done all of them are, from their places in the file, in the memory where
they belong.  Of many storages unpickling takes as long as reading: those of which it is known
before where they will be, on the host or a GPU, are read meanwhile, as the directory of the file
has them, small ones into memory that they share.  All else torch unpickles, with its own checks of
what may be in a file, when all storages are read: it may run code that looks into them.
"""
import collections
import contextlib
import io
import os
import pickle
import sys
from typing import Any

import torch
from torch import _weights_only_unpickler

from ._background import gc_disabled
from ._range_reader import Reader, UnsupportedArchive, content, is_damage, is_uri
from ._penstock import is_simple_pickle
from ._torch_archive import HOST, SEES_MOVES, Archive as Archive, indexed
from ._torch_save import is_special

_serialization: Any = torch.serialization


def _reads_storages_early(map_location: Any) -> bool:
    """Does somebody look into storages on the way?  Then they have to be filled before."""
    if callable(map_location):
        return True
    if not SEES_MOVES and torch.cuda.is_available() and str(map_location) != 'cpu':
        return True  # torch copies to the GPU
    for entry in getattr(_serialization, '_package_registry', ()):
        function = getattr(entry[-1], 'func', entry[-1])
        if not getattr(function, '__module__', '').startswith('torch'):
            return True
    return False


class _DeviceMap:
    """On which device storages will be that were at some location when they were saved; None: torch knows."""

    def __init__(self, map_location: Any) -> None:
        self._map = map_location
        self._devices: dict[Any, torch.device | None] = {}

    def __call__(self, location: Any) -> torch.device | None:
        if location not in self._devices:
            place = location
            if isinstance(self._map, dict):
                place = self._map.get(location, location)
            elif self._map is not None:
                place = str(self._map)
            self._devices[location] = _device_of(place)
        return self._devices[location]


def _device_of(place: Any) -> torch.device | None:
    if place == 'cpu':
        return HOST
    if not str(place).startswith('cuda') or not SEES_MOVES or not torch.cuda.is_available():
        return None
    try:
        device = indexed(torch.device(place))
    except RuntimeError:
        return None
    return device if device.index < torch.cuda.device_count() else None


class _Locations(pickle.Unpickler):
    """What a simple pickle says of storages, and nothing else of it."""

    def __init__(self, data: bytes) -> None:
        self.found: list[Any] = []
        self.persistent_load: Any = self.found.append
        super().__init__(io.BytesIO(data), encoding='utf-8')

    def find_class(self, module: str, name: str) -> Any:
        return collections.OrderedDict if name == 'OrderedDict' else lambda *_: None


def _locations(archive: Archive) -> dict[str, str]:
    """Where storages were, by key; what is not found is not read ahead."""
    try:
        data = archive.get_record('data.pkl')
        if not is_simple_pickle(data):
            return {}
        unpickler = _Locations(data)
        with gc_disabled():
            unpickler.load()
            return {key: location for _, _, key, location, _ in unpickler.found}
    except OSError:
        raise
    except Exception:
        return {}


def _begin_reading(archive: Archive, map_location: Any, where: _DeviceMap) -> None:
    if _reads_storages_early(map_location):
        archive.begin_reading(lambda _: HOST, True)
    elif map_location is not None and not isinstance(map_location, dict):
        device = where(None)
        archive.begin_reading(lambda _: device)
    elif not torch.cuda.is_available():
        archive.begin_reading(lambda _: HOST)
    elif archive.is_many:
        locations = _locations(archive)
        archive.begin_reading(lambda key: where(locations.get(key)))


def _leave_to_torch(archive: Archive, map_location: Any) -> None:
    """UnsupportedArchive: what torch has to load itself."""
    if 'constants.pkl' in archive.records:
        raise UnsupportedArchive('it is a TorchScript archive')
    if archive.has_record('byteorder') and archive.get_record('byteorder') != sys.byteorder.encode():
        raise UnsupportedArchive('it has another byte order')
    places = map_location.values() if isinstance(map_location, dict) else [map_location]
    if is_special() or any(str(place) == 'meta' for place in places):
        raise UnsupportedArchive('nothing is to be read')


def load(path: Any, map_location: Any, module: Any, weights_only: bool | None, verify: bool | str, args: Any) -> Any:
    force = os.environ.get('TORCH_FORCE_WEIGHTS_ONLY_LOAD', '0').lower()
    if weights_only is None:
        weights_only = module is None
    if weights_only or force in ('1', 'y', 'yes', 'true'):
        if module is not None:
            raise RuntimeError('pickle_module: what it unpickles may be any code; say weights_only=False')
        weights_only, module = True, _weights_only_unpickler
    with Reader(path, verify=verify) as reader:
        try:
            return _load(reader, map_location, module or pickle, args)
        except UnsupportedArchive:
            reader.check()
        except OSError as error:
            if not is_damage(error):
                raise
            names = _tensors_at(path, *reader.bad())
            raise OSError(error.errno, f'{error.strerror}: in {", ".join(names)}' if names
                          else error.strerror, error.filename) from None
    source = io.BytesIO(content(path)) if is_uri(path) else path
    return torch.load(source, map_location, None if weights_only else module, weights_only=weights_only, **args)


def unpickle(archive: Archive, map_location: Any, module: Any = _weights_only_unpickler,
             **args: Any) -> Any:
    """What torch makes of it; the storages are still to be filled."""
    return _serialization._load(archive, map_location, module, **{'encoding': 'utf-8', **args})


class _TypedStorage:
    """In the place of torch's storage that knows its dtype: what tensors are made of."""

    __slots__ = ('storage', 'template')

    def __init__(self, storage: Any, template: Any) -> None:
        self.storage, self.template = storage, template


def _rebuild_tensor(typed: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any) -> torch.Tensor:
    """What torch._utils._rebuild_tensor_v2() makes of what is simple."""
    if (type(typed) is not _TypedStorage or type(requires_grad) is not bool or type(hooks) is not collections.OrderedDict
            or hooks):
        raise pickle.UnpicklingError('it is not simple')
    tensor: torch.Tensor = typed.template.new_empty(0).set_(typed.storage, offset, size, stride)
    if requires_grad:
        tensor.requires_grad = True
    tensor._backward_hooks = hooks
    return tensor


_REBUILD: Any = _rebuild_tensor

# Names that nearly all files of tensors get by with.  Not the functions themselves, which a pickle could
# give attributes.
_SIMPLE_GLOBALS: Any = {
    ('collections', 'OrderedDict'): collections.OrderedDict,
    ('torch._utils', '_rebuild_parameter'): torch._utils._rebuild_parameter.__call__,
    ('torch._utils', '_rebuild_tensor_v2'): _REBUILD.__call__,
}


class _SimpleUnpickler(pickle.Unpickler):
    """Of what is simple, in C: torch's takes 60 us for a tensor, and all around it 20 more."""

    def __init__(self, archive: Archive, map_location: Any, where: _DeviceMap) -> None:
        data = archive.get_record('data.pkl')
        if not (archive.has_record('byteorder') and is_simple_pickle(data)):
            raise pickle.UnpicklingError('it is not simple')
        super().__init__(io.BytesIO(data), encoding='utf-8')
        self._archive = archive
        self._restore = _serialization._get_restore_location(map_location)
        self._where: Any = (lambda _: None) if _reads_storages_early(map_location) else where
        self._typed: dict[str, _TypedStorage] = {}
        self._templates: dict[Any, torch.Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        return _serialization.StorageType(name) if 'Storage' in name else _SIMPLE_GLOBALS[module, name]

    def persistent_load(self, pid: Any) -> _TypedStorage:
        what, kind, key, location, numel = pid
        if what != 'storage':
            raise pickle.UnpicklingError('it is not simple')
        typed = self._typed.get(key)
        if typed is None:
            typed = self._make_storage(kind.dtype, key, location, numel)
            if numel:  # torch has one for each use of what is empty
                self._typed[key] = typed
        return typed

    def _make_storage(self, dtype: torch.dtype, key: str, location: str, numel: int) -> _TypedStorage:
        name, nbytes = f'data/{key}', numel * torch._utils._element_size(dtype)
        where = self._where(location)
        stays = where == HOST
        storage: Any = None if where is None or stays else self._archive.find_read_ahead(name, nbytes, where)
        if storage is None:
            storage = self._archive.storage(name, nbytes, stays)
            storage = storage if stays else self._restore(storage, location)
        template = self._templates.get((dtype, device := storage.device))
        if template is None:
            template = self._templates[dtype, device] = torch.empty((0,), dtype=dtype, device=device)
        return _TypedStorage(storage, template)

    def owns_all_storages(self) -> bool:
        """Has nothing but tensors been made of storages?  Else there is somebody who has one of ours."""
        self.memo: Any = {}
        storages = [_TypedStorage(None, None), *self._typed.values()]
        self._typed.clear()
        return len({sys.getrefcount(typed) for typed in storages}) == 1


def _load(reader: Reader, map_location: Any, module: Any, args: Any) -> Any:
    archive, where = Archive(reader), _DeviceMap(map_location)
    try:
        _begin_reading(archive, map_location, where)
        _leave_to_torch(archive, map_location)
        return _unpickle_all(archive, map_location, where, module, args)
    except BaseException:
        with contextlib.suppress(Exception):
            archive.wait()  # the file is about to be closed
        raise
    finally:
        archive.end_reads()


def _unpickle_all(archive: Archive, map_location: Any, where: _DeviceMap, module: Any, args: Any) -> Any:
    try:
        with gc_disabled():
            simple = not args and module in (pickle, _weights_only_unpickler)
            result = _unpickle_simple(archive, map_location, where) if simple else None
            if result is None:
                archive.read_the_rest(where(None) or HOST)  # any code may look into them now
                result = unpickle(archive, map_location, module, **args)
    except (RuntimeError, pickle.UnpicklingError) as error:
        if module is not _weights_only_unpickler:
            raise
        # Not allowed, or no such thing: torch says it better, with advice.
        raise UnsupportedArchive(str(error)) from None
    archive.fill_storages()
    return result


def _unpickle_simple(archive: Archive, map_location: Any, where: _DeviceMap) -> Any:
    """None where torch has to look at it; or it is nothing."""
    try:
        unpickler = _SimpleUnpickler(archive, map_location, where)
        result = unpickler.load()
        if unpickler.owns_all_storages():
            return result
    except OSError:
        raise
    except Exception:
        pass
    archive.forget_reads()
    return None


def _tensors_at(path: Any, offset: int, length: int) -> list[str]:
    """What lies in a part of the file that is damaged, as far as the rest tells."""
    with contextlib.suppress(OSError), Reader(path, verify=False) as reader:
        is_zip = reader.pread(0, 4) == b'PK\3\4'
        with contextlib.suppress(Exception):
            return _tensors_in(reader, offset, length)
        return ['the directory'] if is_zip else []
    return []


def _tensors_in(reader: Reader, offset: int, length: int) -> list[str]:
    """Tensors, or where the pickle does not tell them, records."""
    def is_bad(record: Any) -> bool:
        return bool(record.offset < offset + length and offset < record.offset + record.size)

    records = reader.records()
    names: list[str] = []
    with contextlib.suppress(Exception):
        archive = Archive(reader)
        result = unpickle(archive, 'cpu')
        bad = {read.target.data_ptr() for read in archive.reads if is_bad(read.record)}
        archive.end_reads()
        names = _names_of_tensors(result, bad)
    return (names or [f'record {name}' for name, record in records.items() if is_bad(record)]
            or ['the directory'])


def _names_of_tensors(obj: object, addresses: set[int], at: str = '', depth: int = 8) -> list[str]:
    """Where in an object the tensors are whose storages begin there."""
    if isinstance(obj, torch.Tensor):
        storage = getattr(obj, 'untyped_storage', None)
        address = (storage() if storage else obj.storage()).data_ptr()
        return [at or 'the tensor'] if address in addresses else []
    items: Any = ()
    if isinstance(obj, dict):
        items = obj.items()
    elif isinstance(obj, (list, tuple)):
        items = enumerate(obj)
    if not depth:
        return []
    return [name for key, value in items
            for name in _names_of_tensors(value, addresses, f'{at}.{key}' if at else f'{key}', depth - 1)]
