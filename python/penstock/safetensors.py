# SPDX-License-Identifier: Apache-2.0
"""safetensors files at the speed of the device: durable, atomic, checked.

    from penstock.safetensors import load_file, safe_open, save_file

    save_file({'weight': tensor}, 'model.safetensors')
    tensors = load_file('model.safetensors', device='cuda:0')

Names and arguments are those of the package safetensors, and so are the files, byte for byte.
A folder with an index of shards (model.safetensors.index.json) is one model.  docs/python.md is the manual.
"""
import contextlib
import errno
import itertools
import json
import math
import os
import sys
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from . import _safetensors
from ._background import join_background, gc_disabled, run_in_background
from ._frameworks import Framework, arrays_of, find
from ._range_reader import MANY, Block, Ranges, Reader, blocks, closing, content, is_damage, is_uri
from ._safetensors import Entry, SafetensorError
from ._atomic_writer import MEMORY, Path, Writer

__all__ = ['SafetensorError', 'load_file', 'safe_open', 'save_file']

_RUNS = 1 << 16  # a slice in more pieces than that, or smaller ones, is cut out in memory
_RUN_BYTES = 512
_ALIGNMENT = 8  # where no tensor begins in the midst of an element
_INDEX = '.safetensors.index.json'


# ---- saving


def save_file(tensors: Mapping[str, Any], filename: Path, metadata: dict[str, str] | None = None, *,
              memory: int = MEMORY, durable: bool = True, checksum: bool = True) -> None:
    """Tensors of torch or arrays of numpy, by name; when it returns they are safe.

    An older file of this name is replaced at that moment and not before.
    """
    _require_little_endian()
    _check_metadata(metadata)
    with gc_disabled():
        arrays = arrays_of(tensors)
        head, ordered = _safetensors.build(arrays, metadata)
        ranges = array('Q')
        for name in ordered:
            nbytes = (a := arrays[name]).nbytes
            if nbytes:
                ranges.extend((a.address, nbytes))
    with Writer(filename, size=len(head) + sum(ranges[1::2]), memory=memory, durable=durable,
                checksum=checksum) as file:
        file.write(head)
        file.write_each(ranges)


def _require_little_endian() -> None:
    if sys.byteorder != 'little':
        raise NotImplementedError('safetensors files are little-endian, and this machine is not')


def _check_metadata(metadata: Any) -> None:
    if metadata is not None and not (isinstance(metadata, dict) and all(
            isinstance(k, str) and isinstance(v, str) for k, v in metadata.items())):
        raise TypeError('metadata: not a dict from str to str')


# ---- a file, and a model of several


class _Shard:
    """One file: its entries, and reads that are collected until they are made."""

    def __init__(self, path: Any, verify: bool | str, engine: str | None) -> None:
        self.path = os.fspath(path)
        try:
            self._reader = Reader(path, verify=verify, engine=engine, safetensors=True)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise SafetensorError(error.strerror) from None
        found, metadata = self._reader.tensors()
        self.entries = list(map(Entry._make, found))
        self.metadata = metadata or None
        self.size = self._reader.size
        self._ranges = Ranges()

    def add(self, address: int, nbytes: int, offset: int, fresh: bool) -> None:
        add = self._ranges.add_fresh if fresh else self._ranges.add
        add(address, nbytes, offset)

    def take(self) -> Ranges:
        """What was to be read, and is not any more."""
        ranges, self._ranges = self._ranges, Ranges()
        return ranges

    def read(self, ranges: Ranges) -> None:
        try:
            if len(ranges):
                self._reader.read(ranges)
        except OSError as error:
            if not is_damage(error):
                raise
            raise OSError(error.errno, f'{error.strerror}: in {self._names()}',
                          error.filename) from None

    def _names(self) -> str:
        offset, length = self._reader.bad()
        return ', '.join(e.name for e in self.entries
                         if e.offset < offset + length and offset < e.offset + e.nbytes) or 'the header'

    def close(self) -> None:
        self._reader.close()


def _index_of(path: str) -> str | None:
    """The index file of a model of several files, if the path is one, or its folder."""
    if path.endswith('.json'):
        return path
    if is_uri(path) and path.endswith('/'):
        return f'{path}model{_INDEX}'
    if not os.path.isdir(path):
        return None
    found = sorted(name for name in os.listdir(path) if name.endswith(_INDEX))
    if len(found) == 1:
        return os.path.join(path, found[0])
    if f'model{_INDEX}' in found:
        return os.path.join(path, f'model{_INDEX}')
    if os.path.isfile(os.path.join(path, 'model.safetensors')):
        return None
    raise SafetensorError(f'{path}: no model{_INDEX} and no model.safetensors in there')


def _read_index(index: str) -> dict[str, str]:
    try:
        weight_map = json.loads(bytes(content(index)))['weight_map']
        if not all(isinstance(k, str) and isinstance(v, str) for k, v in weight_map.items()):
            raise TypeError('weight_map is not from text to text')
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SafetensorError(f'{index}: no index of shards: {error!r}') from None
    for name in set(weight_map.values()):
        if os.path.basename(name) != name or name in ('', '.', '..'):
            raise SafetensorError(f'{index}: {name!r} is not the name of a file beside it')
    return dict(weight_map)


class _Model:
    def __init__(self, path: Any, verify: bool | str, engine: str | None) -> None:
        self.shards: list[_Shard] = []
        self.found: dict[str, tuple[_Shard, Entry]] = {}
        text = os.fsdecode(path)
        index = _index_of(text)
        try:
            if index is None:
                whole = os.path.join(text, 'model.safetensors') if os.path.isdir(text) else path
                self._add_shard(whole, verify, engine, None)
            else:
                self._add_shards(index, verify, engine)
        except BaseException:
            self.close()
            raise

    def _add_shards(self, index: str, verify: bool | str, engine: str | None) -> None:
        weight_map = _read_index(index)
        for name in sorted(set(weight_map.values())):
            wanted = {key for key, file in weight_map.items() if file == name}
            self._add_shard(os.path.join(os.path.dirname(index), name), verify, engine, wanted)
        missing = sorted(set(weight_map) - set(self.found))
        if missing:
            raise SafetensorError(f'{index}: {missing[0]!r} is not in {weight_map[missing[0]]}')

    def _add_shard(self, path: Any, verify: bool | str, engine: str | None,
             wanted: set[str] | None) -> None:
        shard = _Shard(path, verify, engine)
        self.shards.append(shard)
        for entry in shard.entries:
            if wanted is None or entry.name in wanted:
                self.found[entry.name] = shard, entry

    def metadata(self) -> dict[str, str] | None:
        return next((s.metadata for s in self.shards if s.metadata is not None), None)

    def find(self, name: str) -> tuple[_Shard, Entry]:
        try:
            return self.found[name]
        except KeyError:
            raise SafetensorError(f'{os.fsdecode(self.shards[0].path)}: there is no tensor '
                                  f'{name!r}') from None

    def read(self) -> None:
        # All are taken first: where Ctrl-C came twice a thread reads on, and others may want more
        # by then.
        for shard, ranges in [(shard, shard.take()) for shard in self.shards]:
            shard.read(ranges)

    def forget(self) -> None:
        """What was to be read: its memory goes."""
        for shard in self.shards:
            shard.take()

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


# ---- slices


class _Slice:
    """A tensor that is read when it is indexed, as far as it is wanted."""

    def __init__(self, opened: 'safe_open', shard: _Shard, entry: Entry) -> None:
        self._opened, self._shard, self._entry = opened, shard, entry

    def get_shape(self) -> list[int]:
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Any:
        entry, bits = self._entry, _safetensors.DTYPES[self._entry.dtype]
        steps = _slice_ranges(index, entry.shape) if bits % 8 == 0 else None
        runs = steps and _slice_runs(steps[0], entry.shape, bits // 8)
        if not steps or runs is None:
            return self._opened.get_tensor(entry.name)[index]
        shape = tuple(len(r) for r in steps[0])
        array, result = self._opened._framework.empty(entry.dtype, shape)
        at = array.address
        with self._opened._reading():
            for offset, nbytes in runs:
                self._shard.add(at, nbytes, entry.offset + offset, False)
                at += nbytes
            self._opened._read_shard(self._shard)
        return self._opened._framework.reshape(result, tuple(
            len(r) for r, keep in zip(*steps) if keep))


def _slice_ranges(index: Any, shape: tuple[int, ...]) -> tuple[list[range], list[bool]] | None:
    """Which indices of each dimension, and which dimensions stay; None: no plain slice."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(i, bool) or not (i is Ellipsis or isinstance(i, (int, slice))) for i in items):
        return None
    if items.count(Ellipsis) > 1:
        return None
    given = len(items) - items.count(Ellipsis)
    if given > len(shape):
        raise IndexError(f'too many indices for tensor of dimension {len(shape)}')
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    items[at:at + 1] = [slice(None)] * (len(shape) - given)
    ranges, keep = [], []
    for dimension, (item, size) in enumerate(zip(items, shape)):
        if isinstance(item, slice):
            if item.step is not None and item.step <= 0:
                raise ValueError('step must be greater than zero')
            ranges.append(range(*item.indices(size)))
        elif not -size <= item < size:
            raise IndexError(f'index {item} is out of bounds for dimension {dimension} with size '
                             f'{size}')
        else:
            ranges.append(range(item % size, item % size + 1))
        keep.append(isinstance(item, slice))
    return ranges, keep


def _slice_runs(ranges: list[range], shape: tuple[int, ...],
          itemsize: int) -> Iterable[tuple[int, int]] | None:
    """The pieces that make it up, as offset and bytes; None: too many, or too small."""
    count = math.prod(len(r) for r in ranges)
    if not count:
        return ()
    strides = [math.prod(shape[i + 1:]) * itemsize for i in range(len(shape))]
    run, outer = itemsize, len(ranges)
    while outer and (ranges[outer - 1].step == 1 or len(ranges[outer - 1]) == 1):
        outer -= 1
        run = strides[outer] * len(ranges[outer])
        if len(ranges[outer]) != shape[outer]:
            break
    pieces = count * itemsize // run
    if pieces > _RUNS or (pieces > 1 and run < _RUN_BYTES):
        return None
    start = sum(r[0] * stride for r, stride in zip(ranges[outer:], strides[outer:]))
    return [(start + sum(i * stride for i, stride in zip(where, strides)), run)
            for where in itertools.product(*ranges[:outer])]


# ---- opening


class safe_open:  # noqa: N801  the name is theirs
    """A file, or a model of several, whose tensors are read when they are asked for.

    framework: 'pt' or 'np'.  device: of torch.  backend is accepted, and changes nothing.  engine
    'cufile' reads into the memory of a GPU past the host's.
    """

    def __init__(self, filename: Path, framework: str = 'pt', device: Any = 'cpu', *,
                 backend: str | None = None, verify: bool | str = True,
                 engine: str | None = None) -> None:
        _require_little_endian()
        self._framework: Framework = find(framework, device)
        self._model = _Model(filename, verify, engine)
        self._turn = threading.Lock()

    def keys(self) -> list[str]:
        return sorted(self._model.found)

    def offset_keys(self) -> list[str]:
        """In the order of the data."""
        return list(self._model.found)

    def metadata(self) -> dict[str, str] | None:
        return self._model.metadata()

    def get_tensor(self, name: str) -> Any:
        shard, entry = self._model.find(name)
        with self._reading():
            result = self._allocate_tensor(shard, entry)
            self._read_shard(shard)
        return result

    def get_tensors(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """All of them, or these, with all reads in flight."""
        wanted = self.offset_keys() if names is None else list(names)
        found = {name: self._model.find(name) for name in wanted}
        result: dict[str, Any] = dict.fromkeys(found)
        with self._reading():
            shared = self._allocate_blocks(found) if len(found) >= MANY else []
            for _, _, block in shared:
                for _, _, entry in block.parts:
                    del found[entry.name]
            for name, where in found.items():
                result[name] = self._allocate_tensor(*where)
            self._framework.synchronize()
            if not shared:
                self._model.read()
                return result
            reading = run_in_background(self._model.read, 'penstock-load', (list(result.values()), shared))
            try:
                for memory, place, block in shared:
                    result.update(self._cut_block(memory, place, block))
            finally:
                join_background(reading)
        return result

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self, *self._model.find(name))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """One thread wants and reads at a time; where that fails, nothing is left to be read."""
        with self._turn:
            try:
                yield
            except BaseException:
                self._model.forget()
                raise

    def _allocate_blocks(self, found: dict[str, tuple[_Shard, Entry]]) -> list[tuple[Any, int, Block]]:
        """Memory for small tensors that are neighbours, to be filled by the next read; for others there is none."""
        parts: dict[_Shard, list[tuple[int, int, Any]]] = {}
        for shard, entry in found.values():
            if entry.nbytes and entry.offset % _ALIGNMENT == 0:
                parts.setdefault(shard, []).append((entry.offset, entry.nbytes, entry))
        shared = []
        for shard, these in parts.items():
            for block in blocks(these, shard.size):
                if not isinstance(block, Block):
                    continue
                memory, address = self._framework.share(block.nbytes)
                place = block.place(address)
                shard.add(address + place, block.end - block.start, block.start,
                          not self._framework.on_device)
                shared.append((memory, place, block))
        return shared

    def _cut_block(self, memory: Any, place: int, block: Block) -> Iterable[tuple[str, Any]]:
        for offset, nbytes, entry in block.parts:
            yield entry.name, self._framework.cut(memory, place + offset - block.start, nbytes, entry.dtype,
                                                  entry.shape)

    def _allocate_tensor(self, shard: _Shard, entry: Entry) -> Any:
        """Memory for it, which is filled by the next read of the shard."""
        array, result = self._framework.empty(entry.dtype, entry.shape)
        if entry.nbytes:
            shard.add(array.address, entry.nbytes, entry.offset, not array.on_device)
        return result

    def _read_shard(self, shard: _Shard) -> None:
        self._framework.synchronize()
        shard.read(shard.take())

    def close(self) -> None:
        self._model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 tb: TracebackType | None) -> None:
        with closing(error):
            self.close()


def load_file(filename: Path, device: Any = 'cpu', *, framework: str | None = None,
              backend: str | None = None, verify: bool | str = True,
              engine: str | None = None) -> dict[str, Any]:
    """All tensors of a file, or of a folder of shards; of torch, or numpy's where there is no torch."""
    kind = framework or _default_framework()
    with gc_disabled(), safe_open(filename, kind, device, backend=backend, verify=verify, engine=engine) as file:
        return file.get_tensors()


def _default_framework() -> str:
    import importlib.util

    return 'pt' if importlib.util.find_spec('torch') else 'np'

