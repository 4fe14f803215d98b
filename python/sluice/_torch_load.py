# SPDX-License-Identifier: Apache-2.0
"""What torch.load() would load, with all tensors read in one batch.

torch unpickles, with its own checks of what may be in a file.  Where it asks for a storage it gets one
that is not filled yet; when it is done all of them are, from their places in the file, in the
memory where they belong.  Of many storages unpickling takes as long as reading: where all of them will be
in host memory they are read meanwhile, as the directory of the file has them, small ones
into memory that they share.
"""
import collections
import concurrent.futures
import contextlib
import errno
import io
import os
import pickle
import sys
from typing import Any

import torch
from torch import _weights_only_unpickler

from ._async import join, no_garbage, run_behind
from ._reader import MANY, Block, Ranges, Reader, Record, Unusual, blocks, content, is_damage, is_uri
from ._sluice import is_plain
from ._torch_save import is_special

_serialization: Any = torch.serialization

_ALIGNMENT = 64  # of storages, as torch has it in memory and in files


class _Pending(torch.UntypedStorage):  # type: ignore[misc]
    """A storage whose bytes will come; moving it to a GPU moves where they will come to."""

    def to(self, *, device: torch.device, non_blocking: bool = False) -> torch.UntypedStorage:
        return self._moved(torch.device(device), super().to)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> torch.UntypedStorage:
        return self._moved(torch.device('cuda', device), super().cuda)

    def _moved(self, device: torch.device, copy: Any) -> torch.UntypedStorage:
        claim = self.claim
        if device.type == 'cpu':
            return self
        if claim.ahead or device.type != 'cuda':  # the library knows nothing of it, or has begun: torch copies
            claim.archive.read_now(claim)
            return copy(device=device)
        claim.target = torch.UntypedStorage(self.nbytes(), device=device)
        return claim.target


def _takes_pending() -> bool:
    """Does torch make tensors of such storages?  Version 1 wants its own class and no other."""
    try:
        torch.empty(0).set_(_Pending(0))
    except TypeError:
        return False
    return True


_PENDING: Any = _Pending if _takes_pending() else torch.UntypedStorage


def _fresh(nbytes: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(nbytes)


def _settle(storage: Any) -> None:
    """It is a storage like others from here on: torch copies none of another class (copy.deepcopy)."""
    if type(storage) is _Pending:
        storage.__class__ = torch.UntypedStorage
        del storage.claim


class _Claim:
    """A storage, and the record that belongs in it."""

    def __init__(self, archive: 'Archive', record: Record, nbytes: int, target: Any,
                 ahead: bool = False) -> None:
        self.archive: Archive | None = archive  # until it is filled
        self.record, self.nbytes, self.target = record, nbytes, target
        self.ahead = ahead  # is it read without being asked for?
        target.claim = self

    def end(self) -> None:
        """A storage and its claim would keep each other."""
        _settle(self.target)
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

    ahead: all storages are read at once, before torch asks for them ('wait') or while it unpickles ('go'); else
    fill() reads those that it has asked for.
    """

    def __init__(self, reader: Any, ahead: str = '') -> None:
        self._reader = reader
        found = reader.records()
        names = [name for name in found if name.endswith('/data.pkl') and name.count('/') == 1]
        if len(names) != 1:
            raise Unusual('it has no data.pkl')
        start = len(names[0]) - len('data.pkl')
        self.records = {name[start:]: record for name, record in found.items()
                        if name[:start] == names[0][:start]}
        self.claims: list[_Claim] = []
        self._ready: dict[str, tuple[torch.UntypedStorage, int]] = {}  # memory, and where in it
        self._lent: list[torch.UntypedStorage] = []
        self._small: dict[str, bytes] = {}
        self._reading: concurrent.futures.Future[None] | None = None
        self._ahead: _Claim | None = None  # of all storages that are read ahead
        if ahead == 'wait' or (ahead and len(self.records) >= MANY):
            self._read_ahead(ahead == 'wait')

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
        return self._reader.pread(record.offset, record.size)

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
        ready = self._ready.get(name)
        if ready is not None and nbytes == record.size:
            memory, at = ready
            storage = memory[at:at + nbytes]
            if not (stays or self._reading is None):
                self._lend(storage)
            return storage
        storage = _PENDING(nbytes)
        claim = _Claim(self, record, nbytes, storage)
        if nbytes:
            self.claims.append(claim)
        return storage

    def _lend(self, storage: Any) -> None:
        """It is being filled: who moves it has to wait."""
        storage.__class__ = _PENDING
        storage.claim = self._ahead
        self._lent.append(storage)

    def fill(self) -> None:
        """Read everything that was asked for."""
        self.wait()
        self._fill(self.claims)

    def forget(self) -> None:
        """What was asked for, to be asked for again."""
        for claim in self.claims:
            claim.end()
        self.claims.clear()

    def end(self) -> None:
        """What is left are storages like others, that keep each other for nobody."""
        self.forget()
        for storage in self._lent:
            _settle(storage)
        self._lent.clear()
        self._ready.clear()
        if self._ahead:
            self._ahead.end()

    def wait(self) -> None:
        """Until nobody reads ahead any more; raises what failed there."""
        if self._reading is not None:
            join(self._reading)
            self._reading = None

    def read_now(self, claim: _Claim) -> None:
        self.wait()
        if not claim.ahead:
            self.claims.remove(claim)
            self._fill([claim])

    def _fill(self, claims: list[_Claim]) -> None:
        ranges = Ranges()
        for claim in claims:
            self._add(ranges, claim)
        for device in {c.target.device for c in claims if c.target.device.type == 'cuda'}:
            torch.cuda.current_stream(device).synchronize()  # who had this memory before is done
        self._reader.read(ranges)

    @staticmethod
    def _add(ranges: Ranges, claim: _Claim) -> None:
        target = claim.target
        add = ranges.add_fresh if target.device.type == 'cpu' else ranges.add
        add(target.data_ptr(), claim.nbytes, claim.record.offset)

    def _find(self, name: str) -> Record:
        try:
            return self.records[name]
        except KeyError:
            raise RuntimeError(f'the archive has no record {name}') from None

    def _read_ahead(self, wait: bool) -> None:
        ranges = Ranges()
        self._ahead = _Claim(self, Record(0, 0), 0, _PENDING(0), True)
        for part in self._parts(wait):
            if isinstance(part, Block):
                self._share(ranges, part)
                continue
            offset, nbytes, name = part
            storage = _fresh(nbytes)
            self._ready[name] = storage, 0
            if nbytes:
                ranges.add_fresh(storage.data_ptr(), nbytes, offset)
        if wait:
            self._reader.read(ranges)
        else:
            self._reading = run_behind(lambda: self._reader.read(ranges), 'sluice-load',
                                       [memory for memory, _ in self._ready.values()])

    def _parts(self, wait: bool) -> list[Any]:
        """Of the file, that have storages: alone, or in blocks.  Where nobody waits the rest is read now."""
        alone: list[Any] = []
        shared: list[Any] = []
        share = len(self.records) >= MANY
        for name, (offset, nbytes) in self.records.items():
            if name.startswith('data/'):
                fits = share and nbytes and offset % _ALIGNMENT == 0
                (shared if fits else alone).append((offset, nbytes, name))
            elif not wait:
                self._small[name] = self._reader.pread(offset, nbytes)
        return [*alone, *blocks(shared, self._reader.size)]

    def _share(self, ranges: Ranges, block: Block) -> None:
        memory = _fresh(block.nbytes)
        place = block.place(memory.data_ptr())
        ranges.add_fresh(memory.data_ptr() + place, block.end - block.start, block.start)
        for offset, nbytes, name in block.parts:
            self._ready[name] = memory, place + offset - block.start


def _is_looked_into(map_location: Any) -> bool:
    """Does somebody look into storages on the way?  Then they have to be filled before."""
    if callable(map_location):
        return True
    if _PENDING is not _Pending and torch.cuda.is_available() and str(map_location) != 'cpu':
        return True  # torch copies to the GPU
    for entry in getattr(_serialization, '_package_registry', ()):
        function = getattr(entry[-1], 'func', entry[-1])
        if not getattr(function, '__module__', '').startswith('torch'):
            return True
    return False


def _ahead(map_location: Any) -> str:
    if _is_looked_into(map_location):
        return 'wait'
    return 'go' if str(map_location) == 'cpu' or not torch.cuda.is_available() else ''


def _leave_to_torch(archive: Archive, map_location: Any) -> None:
    """Unusual: what torch has to load itself."""
    if 'constants.pkl' in archive.records:
        raise Unusual('it is a TorchScript archive')
    if archive.has_record('byteorder') and archive.get_record('byteorder') != sys.byteorder.encode():
        raise Unusual('it has another byte order')
    places = map_location.values() if isinstance(map_location, dict) else [map_location]
    if is_special() or any(str(place) == 'meta' for place in places):
        raise Unusual('nothing is to be read')


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
        except Unusual:
            reader.check()
        except OSError as error:
            if not is_damage(error):
                raise
            names = _names_at(path, *reader.bad())
            raise OSError(error.errno, f'{error.strerror}: in {", ".join(names)}' if names
                          else error.strerror, error.filename) from None
    source = io.BytesIO(content(path)) if is_uri(path) else path
    return torch.load(source, map_location, None if weights_only else module, weights_only=weights_only, **args)


def unpickle(archive: Archive, map_location: Any, module: Any = _weights_only_unpickler,
             **args: Any) -> Any:
    """What torch makes of it; the claims are still to be filled."""
    return _serialization._load(archive, map_location, module, **{'encoding': 'utf-8', **args})


class _Raw:
    """In the place of torch's storage that knows its dtype: what tensors are made of."""

    __slots__ = ('storage', 'template')

    def __init__(self, storage: Any, template: Any) -> None:
        self.storage, self.template = storage, template


def _rebuild(raw: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any) -> torch.Tensor:
    """What torch._utils._rebuild_tensor_v2() makes of what is plain."""
    if (type(raw) is not _Raw or type(requires_grad) is not bool or type(hooks) is not collections.OrderedDict
            or hooks):
        raise pickle.UnpicklingError('it is not plain')
    tensor: torch.Tensor = raw.template.new_empty(0).set_(raw.storage, offset, size, stride)
    if requires_grad:
        tensor.requires_grad = True
    tensor._backward_hooks = hooks
    return tensor


_MAKE: Any = _rebuild

# Names that nearly all files of tensors get by with.  Not the functions themselves, which a pickle could
# give attributes.
_PLAIN: Any = {
    ('collections', 'OrderedDict'): collections.OrderedDict,
    ('torch._utils', '_rebuild_parameter'): torch._utils._rebuild_parameter.__call__,
    ('torch._utils', '_rebuild_tensor_v2'): _MAKE.__call__,
}


class _Plain(pickle.Unpickler):
    """Of what is plain, in C: torch's takes 60 us for a tensor, and all around it 20 more."""

    def __init__(self, archive: Archive, map_location: Any) -> None:
        data = archive.get_record('data.pkl')
        if not (archive.has_record('byteorder') and is_plain(data)):
            raise pickle.UnpicklingError('it is not plain')
        super().__init__(io.BytesIO(data), encoding='utf-8')
        self._archive = archive
        self._restore = _serialization._get_restore_location(map_location)
        self._stays = str(map_location) in ('None', 'cpu') and not _is_looked_into(map_location)
        self._raws: dict[str, _Raw] = {}
        self._templates: dict[Any, torch.Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        return _serialization.StorageType(name) if 'Storage' in name else _PLAIN[module, name]

    def persistent_load(self, pid: Any) -> _Raw:
        what, kind, key, location, numel = pid
        if what != 'storage':
            raise pickle.UnpicklingError('it is not plain')
        raw = self._raws.get(key)
        if raw is None:
            raw = self._make(kind.dtype, key, location, numel)
            if numel:  # torch has one for each use of what is empty
                self._raws[key] = raw
        return raw

    def _make(self, dtype: torch.dtype, key: str, location: str, numel: int) -> _Raw:
        stays = self._stays and location == 'cpu'
        storage: Any = self._archive.storage(f'data/{key}', numel * torch._utils._element_size(dtype), stays)
        if not stays:
            storage = self._restore(storage, location)
        template = self._templates.get((dtype, device := storage.device))
        if template is None:
            template = self._templates[dtype, device] = torch.empty((0,), dtype=dtype, device=device)
        return _Raw(storage, template)

    def done(self) -> bool:
        """Has nothing but tensors been made of storages?  Else there is somebody who has one of ours."""
        self.memo: Any = {}
        raws = [_Raw(None, None), *self._raws.values()]
        self._raws.clear()
        return len({sys.getrefcount(raw) for raw in raws}) == 1


def _load(reader: Reader, map_location: Any, module: Any, args: Any) -> Any:
    archive = Archive(reader, _ahead(map_location))
    try:
        _leave_to_torch(archive, map_location)
        return _unpickle_all(archive, map_location, module, args)
    except BaseException:
        with contextlib.suppress(Exception):
            archive.wait()  # the file is about to be closed
        raise
    finally:
        archive.end()


def _unpickle_all(archive: Archive, map_location: Any, module: Any, args: Any) -> Any:
    try:
        with no_garbage():
            plain = not args and module in (pickle, _weights_only_unpickler)
            result = _unpickle_plain(archive, map_location) if plain else None
            if result is None:
                result = unpickle(archive, map_location, module, **args)
    except (RuntimeError, pickle.UnpicklingError) as error:
        if module is not _weights_only_unpickler:
            raise
        # Not allowed, or no such thing: torch says it better, with advice.
        raise Unusual(str(error)) from None
    archive.fill()
    return result


def _unpickle_plain(archive: Archive, map_location: Any) -> Any:
    """None where torch has to look at it; or it is nothing."""
    try:
        unpickler = _Plain(archive, map_location)
        result = unpickler.load()
        if unpickler.done():
            return result
    except OSError:
        raise
    except Exception:
        pass
    archive.forget()
    return None


def _names_at(path: Any, offset: int, length: int) -> list[str]:
    """Which tensors lie in a part of the file that is damaged, as far as the rest tells."""
    try:
        with Reader(path, verify=False) as reader:
            archive = Archive(reader)
            result = unpickle(archive, 'cpu')
            bad = {claim.target.data_ptr() for claim in archive.claims
                   if claim.record.offset < offset + length
                   and offset < claim.record.offset + claim.nbytes}
            archive.end()
            return _names_of(result, bad)
    except Exception:
        return []  # it is the directory or the pickle that is damaged


def _names_of(obj: object, addresses: set[int], at: str = '', depth: int = 8) -> list[str]:
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
            for name in _names_of(value, addresses, f'{at}.{key}' if at else f'{key}', depth - 1)]
