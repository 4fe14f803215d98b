# SPDX-License-Identifier: Apache-2.0
"""Weights from storage: a model larger than memory passes through a window.

    for layer in penstock.WeightWindow('llama-70b/', window='8GiB', device='cuda:0'):
        use(layer['model.layers.0.mlp.up_proj.weight'])     # a view into the window

docs/weights.md says what it promises.
"""
import itertools
import mmap
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from ._frameworks import Viewer, viewer
from ._penstock import WeightsCore

__all__ = ['Layer', 'Weight', 'WeightWindow']

_CYCLIC, _EXPERTS = 1, 2
_UNITS = {'': 0, 'K': 10, 'M': 20, 'G': 30, 'T': 40}
_GAP = 64 << 10  # between tensors of a layer, read along
_USUAL = 1 << 30
_SPARE = 4  # pages: around the window, and for the fences of a device


class Weight(NamedTuple):
    """What is numbers of a tensor without reading it."""

    name: str
    path: str
    dtype: str | None  # as safetensors and GGUF call it
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class Layer(Mapping[str, Any]):
    """What is used at once: tensors by their names, views into the window until it is released."""

    def __init__(self, owner: 'WeightWindow', index: int, places: list[int]) -> None:
        # Not the window, which knows its layers: what is dropped is gone at once.
        self._core: WeightsCore | None = owner._core
        self._viewer, self._window = owner._viewer, owner._window
        self._places = places
        self._views: dict[str, Any] = {}
        self.index = index
        self.name, self.weights = owner._groups[index]
        self.nbytes = sum(w.nbytes for w in self.weights)
        self._numbers = owner._numbers(index)

    def __getitem__(self, name: str) -> Any:
        if self._core is None:
            raise ValueError(f'{self.name}: the layer is released, and its memory is used for others')
        view = self._views.get(name)
        if view is None:
            number = self._numbers[name]
            view = self._viewer.view(self._window, self._places[number], self.weights[number])
            self._views[name] = view
        return view

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def released(self) -> bool:
        """Its memory is used for others."""
        return self._core is None

    def release(self) -> None:
        """Its total is for the layers to come; what was made of it must not be used any more.

        On a device: as soon as torch's current stream has done what is queued in it by now.
        """
        if self._core is not None:
            self._core.release(self.index, self._viewer.stream())
            self._core, self._window = None, None
            views, self._views = self._views, {}
            self._viewer.forget(views)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = 'released' if self.released else f'{self.nbytes} bytes'
        return f'<penstock layer {self.name!r}: {len(self)} tensors, {state}>'


class WeightWindow:
    """WeightWindow(path, *, window=None, device='cpu', by='layer', cyclic=False, ...)

    path: a file of safetensors or GGUF, an index of several, a folder of these, or a swap folder of
    DeepSpeed.  window: bytes, or text as '8GiB'.  by: 'layer', 'expert' or 'tensor'.  experts: nothing
    is read but what want() and hint() name, and what was released stays while there is total.
    framework: 'pt', 'np' or 'bytes'; else torch, then numpy, if the program has imported it.
    """

    def __init__(self, path: Any, *, window: int | str | None = None, device: Any = 'cpu',
                 by: str = 'layer', cyclic: bool = False, experts: bool = False,
                 framework: str | None = None, pinned: bool = False,
                 engine: str | None = None) -> None:
        if cyclic and experts:
            raise ValueError('a window is cyclic or of experts, not both')
        nbytes = None if window is None else _parse_window(window)
        self._unreleased: list[Layer] = []
        self._current: Layer | None = None
        self._viewer: Viewer = viewer(framework or _imported_framework(device), device, pinned)
        self._core = WeightsCore(path, by=by, engine=engine)
        try:
            self._groups = [(name, [Weight(*w) for w in weights])
                            for name, weights in self._core.groups()]
            self._index = {name: i for i, (name, _) in enumerate(self._groups)}
            self._names: dict[int, dict[str, int]] = {}
            self._window, address, nbytes = self._viewer.window(_choose_window(self._groups, nbytes))
            self._core.begin(self._window, address, nbytes,
                             (_CYCLIC if cyclic else 0) | (_EXPERTS if experts else 0))
        except BaseException:
            self._core.close()
            raise
        self.experts = experts
        self.closed = False

    # ---- in order

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Layer:
        """The next layer; the one that this gave before is released."""
        if self._current is not None:
            self._current.release()
            self._current = None
        self._current = self.next()
        if self._current is None:
            raise StopIteration
        return self._current

    def next(self) -> Layer | None:
        """The next layer as soon as all of it is there, or None; those before stay as they are."""
        found = self._core.next()
        if found is None:
            return None
        layer = Layer(self, *found)
        self._unreleased = [held for held in self._unreleased if not held.released] + [layer]
        return layer

    def skip(self, n: int = 1) -> int:
        """The next n layers are not needed; how many there were."""
        return self._core.skip(n)

    # ---- in another order

    def want(self, layers: str | int | Iterable[str | int]) -> None:
        """These come next, by name or number, behind those wanted before."""
        self._core.want(self._find(layers))

    def hint(self, layers: str | int | Iterable[str | int]) -> None:
        """Of a window of experts: these may be wanted; read when nothing else is left to read."""
        self._core.hint(self._find(layers))

    def follow(self, trace: Any, *, ahead: bool = True) -> Iterator[Iterator[Layer]]:
        """Of a window of experts: sets of them in turn, each as the layers of it as soon as they are there.

        trace: sets of names or numbers, one after the other as somebody makes them; or a file as for `penstock
        weights --experts`, with by='expert'.  ahead: the next set is hinted at, and therefore asked for before
        this one is used.  A layer is released when the loop goes on; what was not taken of a set is skipped.
        """
        if not self.experts:
            raise ValueError('follow() is for a window that was opened with experts=True')
        if isinstance(trace, (str, os.PathLike)):
            trace = self._read_trace(os.fspath(trace))
        sets = (self._find(one) for one in trace)
        to_come = next(sets, None) if ahead else None
        while (now := to_come if ahead else next(sets, None)) is not None:
            self.want(now)
            if ahead and (to_come := next(sets, None)) is not None:
                self.hint(to_come)
            came = itertools.islice(self, len(now))
            yield came
            for _ in came:
                pass
            if self._current is not None:
                self._current.release()

    def _read_trace(self, path: str) -> Iterator[list[int]]:
        """Lines of a layer and its experts, as numbers."""
        numbers = {(int(m[1]), int(m[2])): i for i, name in enumerate(self.names)
                 if (m := re.match(r'.*?\.(\d+)\..*?experts\.(\d+)', name))}
        with open(path, encoding='utf-8') as f:
            for number, line in enumerate(f, 1):
                try:
                    layer, *experts = map(int, line.split())
                except ValueError:
                    raise ValueError(f'{path}: line {number}: {line.strip()!r} is no layer and its experts, as '
                                     'numbers') from None
                for expert in experts:
                    if (layer, expert) not in numbers:
                        raise KeyError(f'{path}: line {number}: layer {layer} has no expert {expert}')
                yield [numbers[layer, expert] for expert in experts]

    @property
    def hit_rate(self) -> float | None:
        """Of what was wanted of a window of experts, the part that was there; None: nothing was."""
        s = self.stats()
        asked = s['hits'] + s['misses']
        return s['hits'] / asked if asked else None

    def _find(self, layers: str | int | Iterable[str | int]) -> list[int]:
        found = []
        for layer in [layers] if isinstance(layers, (str, int)) else layers:
            number = self._index.get(layer) if isinstance(layer, str) else layer
            if number is None or not 0 <= number < len(self._groups):
                raise KeyError(f'{layer!r} is no layer; there are {len(self._groups)}, the first is '
                               f'{next(iter(self._index), None)!r}')
            found.append(number)
        return found

    # ---- what it is

    @property
    def names(self) -> list[str]:
        """The layers in order of use."""
        return [name for name, _ in self._groups]

    def weights(self, layer: str | int) -> list[Weight]:
        """What a layer consists of; nothing is read for it."""
        return self._groups[self._find(layer)[0]][1]

    def __len__(self) -> int:
        return len(self._groups)

    def stats(self) -> dict[str, int]:
        """Counters and times in nanoseconds, as docs/weights.md has them."""
        return self._core.stats()

    def close(self) -> None:
        """At any moment; layers are released, and what was made of them keeps the window alive."""
        if not self.closed:
            for layer in self._unreleased:
                layer.release()
            self._core.close()
            self._window, self._current, self._unreleased = None, None, []
            self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- for layers

    def _numbers(self, index: int) -> dict[str, int]:
        found = self._names.get(index)
        if found is None:
            found = {w.name: i for i, w in enumerate(self._groups[index][1])}
            self._names[index] = found
        return found


WeightWindow.__module__ = 'penstock'


def _imported_framework(device: Any) -> str:
    if 'torch' in sys.modules or str(device) != 'cpu':
        return 'pt'
    return 'np' if 'numpy' in sys.modules else 'bytes'


def _parse_window(window: int | str) -> int:
    if isinstance(window, str):
        match = re.fullmatch(r'(\d+)\s*([KMGT]?)(i?B)?', window.strip(), re.I)
        nbytes = int(match[1]) << _UNITS[match[2].upper()] if match else 0
    else:
        nbytes = int(window)
    if nbytes <= 0:
        raise ValueError(f"window: {window!r} is no size: a number of bytes, or text as '8GiB'")
    return nbytes


def _window_bytes_of(weights: list[Weight]) -> int:
    """What a layer takes in the window, or some pages more: neighbours lie together as in the file."""
    page, total, path, end = mmap.PAGESIZE, 2 * mmap.PAGESIZE, None, 0
    for w in sorted((w for w in weights if w.nbytes), key=lambda w: (w.path, w.offset)):
        if w.path != path or w.offset > end + _GAP + 2 * page:
            path, end = w.path, w.offset - w.offset % page
            total += 2 * page
        more = max(0, w.offset + w.nbytes - end)
        total, end = total + more, end + more
    return total + -total % page


def _choose_window(groups: list[tuple[str, list[Weight]]], asked: int | None) -> int:
    """Never more than the whole model takes."""
    sizes = [_window_bytes_of(weights) for _, weights in groups] or [0]
    every = sum(sizes)
    usual = max(min(every, _USUAL), min(every, 2 * max(sizes)))
    return min(every, usual if asked is None else asked) + _SPARE * mmap.PAGESIZE
