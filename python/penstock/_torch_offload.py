# SPDX-License-Identifier: Apache-2.0
"""penstock.torch.offload_modules(): modules that run with weights from storage."""
import collections
import functools
import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import torch

from ._frameworks import _NAMES
from .weights import Layer, Weight, WeightWindow

# What on_grad is called with: the weight, its tensor in the window, its gradient.
OnGrad = Callable[[Weight, Any, Any], object]


class _LayerReader:
    """Layers one at a time, read ahead in the order in which modules run."""

    def __init__(self, window: WeightWindow, layers: list[int]) -> None:
        self.window = window
        self._layers = layers
        self._expected: collections.deque[int] = collections.deque()
        self._current: tuple[int, Layer] | None = None

    def read_layer(self, i: int, backward: bool) -> Layer:
        if self._current is not None:
            if self._current[0] == i:
                return self._current[1]
            self.release_layer()
        if i in self._expected:
            before = self._expected.index(i)
        else:
            before = len(self._expected)
            to_come = range(i, -1, -1) if backward else range(i, len(self._layers))
            for j in to_come:  # one by one: of one call, what is in the window would come first
                self.window.want(self._layers[j])
            self._expected.extend(to_come)
        if before:
            self.window.skip(before)
        for _ in range(before + 1):
            self._expected.popleft()
        layer = self.window.next()
        assert layer is not None
        self._current = i, layer
        return layer

    def release_layer(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current[1].release()

    def close(self, window_too: bool) -> None:
        self.release_layer()
        if window_too:
            self.window.close()
        elif self._expected and not self.window.closed:
            self.window.skip(len(self._expected))
            self._expected.clear()


class _ModuleHook:
    """One module: its forward runs while its parameters are those of a layer."""

    def __init__(self, reader: _LayerReader, i: int, module: Any, names: dict[str, str], on_grad: OnGrad | None) -> None:
        self._reader = reader
        self._i = i
        self._on_grad = on_grad
        self._names = names  # of the file's, by the module's
        self._module = module
        self._forward = module.forward
        self._own = module.__dict__.get('forward')
        self._slots = [(name, *_parameter_slot(module, name)) for name in names]
        module.forward = functools.wraps(self._forward)(functools.partial(_ModuleHook.run, self))

    def run(self, *args: Any, **kwargs: Any) -> Any:
        train = torch.is_grad_enabled() and any(p.requires_grad for p in self._module.parameters())
        if train and self._on_grad is None:
            raise RuntimeError('gradients of weights that come from storage have no place: say on_grad=, call '
                               'requires_grad_(False) of the modules, or run them under torch.no_grad()')
        layer = self._reader.read_layer(self._i, False)
        window = layer._window
        own = [holder[key] for _, holder, key in self._slots]
        try:
            for name, holder, key in self._slots:
                tensor, was = layer[self._names[name]], holder[key]
                if isinstance(was, torch.nn.Parameter):
                    tensor = torch.nn.Parameter(tensor, train and was.requires_grad)
                    if tensor.requires_grad:
                        tensor.register_post_accumulate_grad_hook(functools.partial(self._pass_gradient, self._names[name]))
                holder[key] = tensor
            if not torch.is_grad_enabled():
                return self._forward(*args, **kwargs)
            with torch.autograd.graph.saved_tensors_hooks(*_saved_tensor_hooks(self._reader, self._i, layer, window)):
                return self._forward(*args, **kwargs)
        finally:
            for (_, holder, key), tensor in zip(self._slots, own):
                holder[key] = tensor
            self._reader.release_layer()

    def _pass_gradient(self, name: str, parameter: Any) -> None:
        """Its gradient is complete, and nothing of this pass needs the weight any more."""
        grad, parameter.grad = parameter.grad, None  # or all of them would stay until the pass is over
        layer = self._reader.read_layer(self._i, True)
        weight = layer.weights[layer._numbers[name]]
        assert self._on_grad is not None
        with torch.no_grad():
            self._on_grad(weight, layer[name], grad)

    def remove(self) -> None:
        if self._own is None:
            self._module.__dict__.pop('forward', None)
        else:
            self._module.forward = self._own


def _saved_tensor_hooks(reader: _LayerReader, i: int, layer: Layer,
            window: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """What backward needs of the window is read again then, and nothing of it is kept."""
    first = window.data_ptr()
    last = first + window.numel()
    base = layer._places[0] if layer._places else 0

    def pack(tensor: Any) -> Any:
        if not tensor.numel() or not first <= tensor.data_ptr() < last:
            return tensor
        at = tensor.data_ptr() - first - base
        return at, tensor.dtype, tensor.shape, tensor.stride()

    def unpack(saved: Any) -> Any:
        if not isinstance(saved, tuple):
            return saved
        at, dtype, shape, stride = saved
        again = reader.read_layer(i, True)
        whole = again._window
        start = again._places[0] + at
        itemsize = torch.empty(0, dtype=dtype).element_size()
        span = (sum((n - 1) * s for n, s in zip(shape, stride)) + 1) * itemsize
        return whole[start:start + span].view(dtype).as_strided(shape, stride)

    return pack, unpack


def _parameter_slot(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """Where a module keeps a parameter or buffer."""
    path, _, key = name.rpartition('.')
    owner = module.get_submodule(path)
    return (owner._parameters if key in owner._parameters else owner._buffers), key


class OffloadedModules:
    """Modules that run with weights from storage, until remove()."""

    def __init__(self, modules: Sequence[Any], window: WeightWindow, layers: list[int],
                 names: list[dict[str, str]], on_grad: OnGrad | None, close: bool) -> None:
        self.window = window
        self._close = close
        self._reader = _LayerReader(window, layers)
        self._hooks = [_ModuleHook(self._reader, i, module, names[i], on_grad) for i, module in enumerate(modules)]

    def remove(self) -> None:
        """The modules are as they were; a window that was opened for them is closed."""
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook.remove()
        self._reader.close(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.remove()


def offload_modules(modules: Sequence[Any], source: Any, prefix: str | None, on_grad: OnGrad | None,
                   options: dict[str, Any]) -> OffloadedModules:
    if not len(modules):
        raise ValueError('modules: there are none')
    if on_grad is not None and not hasattr(torch.Tensor, 'register_post_accumulate_grad_hook'):
        raise ValueError(f'on_grad: torch {torch.__version__} does not tell when a gradient is complete; 2.1 does')
    given = isinstance(source, WeightWindow)
    if given and (not source.experts or options):
        raise ValueError('source: a window that is given is opened with experts=True, and with all '
                         'other options, too')
    window = source if given else WeightWindow(source, experts=True, framework='pt', **options)
    try:
        layers = _find_layers(window, len(modules), prefix)
        names = [_names_in_file(window, layer, module) for layer, module in zip(layers, modules)]
        return OffloadedModules(modules, window, layers, names, on_grad, not given)
    except BaseException:
        if not given:
            window.close()
        raise


def _find_layers(window: WeightWindow, n: int, prefix: str | None) -> list[int]:
    """The layers PREFIX.0 to PREFIX.(n - 1)."""
    found: dict[str, dict[int, int]] = {}
    for i, name in enumerate(window.names):
        match = re.fullmatch(r'(?:(.*)\.)?(\d+)', name)
        if match:
            found.setdefault(match[1] or '', {})[int(match[2])] = i
    fit = [p for p, numbers in found.items() if all(i in numbers for i in range(n))]
    if prefix is None and len(fit) != 1:
        raise ValueError(f'prefix: layers 0 to {n - 1} are there under {", ".join(map(repr, fit)) or "no name"}; '
                         'say which')
    which = fit[0] if prefix is None else prefix.removesuffix('.')
    if which not in fit:
        raise ValueError(f'prefix: {prefix!r} has no layers 0 to {n - 1}')
    return [found[which][i] for i in range(n)]


def _names_in_file(window: WeightWindow, layer: int, module: Any) -> dict[str, str]:
    """The file's names of what a module has; every parameter must be there, as it is."""
    start = window.names[layer] + '.'
    there = {w.name.removeprefix(start): w for w in window.weights(layer)}
    parts = list(module.named_modules())  # not named_parameters(), which has what is shared once
    parameters = {f'{path}.{key}'.lstrip('.'): p for path, part in parts
                  for key, p in part._parameters.items() if p is not None}
    for name, parameter in parameters.items():
        if name not in there:
            raise ValueError(f'{start}{name} is a parameter of the module, and not in the file')
        w, kind = there[name], str(parameter.dtype).removeprefix('torch.')
        if w.dtype != _NAMES.get(kind) or w.shape != tuple(parameter.shape):
            raise ValueError(f'{w.name} is {w.dtype} of {list(w.shape)} in the file, and {kind} of '
                             f'{list(parameter.shape)} in the module')
    buffers = {name for name, _ in module.named_buffers()}
    return {name: w.name for name, w in there.items() if name in parameters or name in buffers}
