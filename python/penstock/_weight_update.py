# SPDX-License-Identifier: Apache-2.0
"""Weights of a model in storage that change: penstock.WeightUpdate."""
import fcntl
import json
import os
import re
from types import TracebackType
from typing import Any, Self

from ._frameworks import _KINDS, Array, arrays_of
from ._range_reader import Reader, is_uri
from ._atomic_writer import MEMORY, Path, Writer
from .safetensors import _index_of, _read_index
from .weights import Weight

_COPY = 16 << 20
_FILE_MEMORY_MIN = 4 << 20  # of memory for a file
_GENERATION = re.compile(r'\.g(\d+)\.safetensors$')  # in names that nobody else gives


class _NextFile:
    """What one file will be: the weights that were written, and the rest as it was."""

    def __init__(self, old: str, new: str, options: dict[str, Any]) -> None:
        self.old, self.new = old, new
        self._places = None
        if old.endswith('.safetensors'):
            with Reader(old, verify=False, safetensors=True) as header:
                self._places = {t[0]: t[3:] for t in header.tensors()[0]}
        self._reader = Reader(old)
        try:
            self._writer = Writer(new, size=self._reader.size, **options)
        except BaseException:
            self._reader.close()
            raise
        self._written: list[tuple[int, int]] = []

    def write(self, name: str, offset: int, array: Array) -> None:
        if self._places is not None and tuple(self._places.get(name, ())) != (offset, array.nbytes):
            raise ValueError(f'{self.old}: {name} is not there any more: the file was replaced since the window was opened')
        self._writer.seek(offset)
        self._writer.write_memory(array.address, array.nbytes)
        self._written.append((offset, offset + array.nbytes))

    def commit(self) -> None:
        at, size = 0, self._reader.size
        for begin, end in [*sorted(self._written), (size, size)]:
            while at < begin:
                part = self._reader.pread(at, min(_COPY, begin - at))
                if not part:
                    raise OSError(f'{self.old} has become shorter')
                self._writer.seek(at)
                self._writer.write(part)
                at += len(part)
            at = max(at, end)
        self._reader.close()
        self._writer.commit()

    def abort(self) -> None:
        self._reader.close()
        self._writer.abort()


class WeightUpdate:
    """WeightUpdate(path, *, memory=134217728, durable=True, checksum=True)

        with penstock.WeightUpdate('model/') as new:
            new.write(weight, tensor)                # a Weight of a window of this model

    The model as it will be: written beside the one that is there, which stays what it is until commit(), or the end
    of the block, and is then replaced in one step.  What was not written is copied; after an exception, or a crash, the
    old one is there.  A window that is open keeps the old one.  memory: for all files together.
    """

    def __init__(self, path: Path, *, memory: int = MEMORY, durable: bool = True, checksum: bool = True) -> None:
        self._path = os.fsdecode(path)
        if is_uri(self._path):
            raise ValueError(f'{self._path}: an object, whose parts cannot be written in any order')
        self._files: dict[str, _NextFile] = {}  # by the path of the old one
        self._lock = -1
        self._index = _index_of(self._path) if self._has_index() else None
        self._map: dict[str, str] = {}
        self._others: set[str] = set()  # files that other indexes beside it name
        if self._index is not None:
            self._begin(self._index)
        share = max(_FILE_MEMORY_MIN, memory // max(1, len(set(self._map.values()))))
        self._options: dict[str, Any] | None = {'memory': share, 'durable': durable, 'checksum': checksum}

    def _has_index(self) -> bool:
        return self._path.endswith('.json') or os.path.isdir(self._path) and any(
            name.endswith('.index.json') for name in os.listdir(self._path))

    def _begin(self, index: str) -> None:
        """Alone from now on; what one that was killed has left is removed."""
        self._take(index)
        try:
            self._map = _read_index(index)
            self._refuse_link(index)
            names = set(self._map.values())
            ours = {_base_name(name) for name in names}
            there = os.listdir(os.path.dirname(index) or '.')
            self._others = {file for name in there if name.endswith('.index.json') and name != os.path.basename(index)
                            for file in _read_index(self._beside(name)).values()}
            for name in there:
                shard = name.removesuffix('.crc')
                if shard not in names | self._others and _GENERATION.search(shard) and _base_name(shard) in ours:
                    os.unlink(self._beside(name))  # of a step that was not taken, or before one that was
        except BaseException:
            self._unlock()
            raise

    def _take(self, path: str) -> None:
        self._lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._lock), os.stat(path)):
                raise BlockingIOError
        except BlockingIOError:
            self._unlock()
            raise BlockingIOError(f'{path}: the model is being updated') from None

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _beside(self, name: str) -> str:
        return os.path.join(os.path.dirname(self._index or ''), name)

    @staticmethod
    def _refuse_link(path: str) -> None:
        if os.path.islink(path):  # as those of a hub's cache, whose blobs are what their names say
            raise ValueError(f'{path} is a link to a file that others may use: update a copy of the model')

    def _next(self, path: str) -> _NextFile:
        path = os.path.abspath(path)
        there = self._files.get(path)
        if there is not None:
            return there
        new, name = path, os.path.basename(path)
        if self._index is not None:
            if name not in self._map.values() or path != os.path.abspath(self._beside(name)):
                raise ValueError(f'{path} is no file of {self._index}')
            number = re.search(r'\.g(\d+)\.safetensors$', name)
            new = os.path.join(os.path.dirname(path), f'{_base_name(name)}.g{int(number[1]) + 1 if number else 1}.safetensors')
        elif self._files:
            raise ValueError(f'{path}: a second file, and there is no index to replace both by in one step')
        elif os.path.abspath(self._path) not in (path, os.path.dirname(path)):
            raise ValueError(f'{path} is no file of {self._path}')
        self._refuse_link(path)
        if self._index is None:
            self._take(path)
        try:
            self._files[path] = _NextFile(path, new, self._open())
        except BaseException:
            if self._index is None:
                self._unlock()
            raise
        return self._files[path]

    def _open(self) -> dict[str, Any]:
        if self._options is None:
            raise ValueError('the update was committed or given up')
        return self._options

    def write(self, weight: Weight, tensor: Any) -> None:
        """What a weight will be; it may be written again, and the tensor be changed when this returns."""
        self._open()
        array = arrays_of({weight.name: tensor})[weight.name]
        if array.nbytes != weight.nbytes or \
                weight.dtype in _KINDS and (array.dtype, array.shape) != (weight.dtype, weight.shape):
            raise ValueError(f'{weight.name} is {weight.dtype} of {list(weight.shape)} in the file, and {array.dtype} of '
                             f'{list(array.shape)} here')
        if array.nbytes:
            self._next(weight.path).write(weight.name, weight.offset, array)

    # ---- the end

    def commit(self) -> None:
        """Make it durable, and the model; raises what failed, and then the old one is there."""
        files, durable = list(self._files.values()), self._open()['durable']
        shown: list[_NextFile] = []
        replacing = False
        try:
            for file in files:
                file.commit()
                shown.append(file)
            if self._index is not None and files:
                names = {os.path.basename(f.old): os.path.basename(f.new) for f in files}
                with open(self._index, 'rb') as old:
                    text = json.load(old)
                text['weight_map'] = {k: names.get(v, v) for k, v in text['weight_map'].items()}
                replacing = True  # from here on it may name the new files, whatever is raised
                with Writer(self._index, durable=durable, checksum=False) as index:
                    index.write(json.dumps(text, indent=2).encode() + b'\n')
        except BaseException:
            for file in shown if self._index is not None and not replacing else []:
                _remove(file.new)
            self.abort()
            raise
        if self._index is not None:
            for file in files:
                if os.path.basename(file.old) not in self._others:
                    _remove(file.old)
        self._files.clear()
        self.abort()

    def abort(self) -> None:
        """As if nothing had been written.  Does nothing after the end."""
        self._options = None
        for file in self._files.values():
            file.abort()
        self._files.clear()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 tb: TracebackType | None) -> None:
        if error is not None:
            self.abort()
        elif self._options is not None:
            self.commit()


def _base_name(name: str) -> str:
    return re.sub(r'(\.g\d+)?\.safetensors$', '', name)


def _remove(path: str) -> None:
    for name in path, f'{path}.crc':
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


WeightUpdate.__module__ = 'penstock'
