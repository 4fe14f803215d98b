# SPDX-License-Identifier: Apache-2.0
"""Arrays of torch and numpy, as safetensors knows them: dtype by its name, shape, memory."""
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from ._safetensors import SafetensorError, size_of
from ._penstock import Memory

# How torch and numpy call them.
_NAMES = {
    'bool': 'BOOL', 'uint8': 'U8', 'int8': 'I8', 'float8_e5m2': 'F8_E5M2',
    'float8_e4m3fn': 'F8_E4M3', 'float8_e8m0fnu': 'F8_E8M0', 'float8_e4m3fnuz': 'F8_E4M3FNUZ',
    'float8_e5m2fnuz': 'F8_E5M2FNUZ', 'int16': 'I16', 'uint16': 'U16', 'float16': 'F16',
    'bfloat16': 'BF16', 'int32': 'I32', 'uint32': 'U32', 'float32': 'F32', 'complex64': 'C64',
    'float64': 'F64', 'int64': 'I64', 'uint64': 'U64', 'float4_e2m1fn_x2': 'F4'}
_KINDS = {code: name for name, code in _NAMES.items()}


class Array(NamedTuple):
    """The memory of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    address: int
    nbytes: int
    on_device: bool
    keep: Any  # owns the memory


class Framework(Protocol):
    on_device: bool

    def empty(self, dtype: str, shape: tuple[int, ...]) -> tuple[Array, Any]:
        """Fresh memory, and the tensor that is on it."""

    def share(self, nbytes: int) -> tuple[Any, int]:
        """Fresh memory for many, and its address."""

    def cut(self, memory: Any, at: int, nbytes: int, dtype: str, shape: tuple[int, ...]) -> Any:
        """A tensor on a part of it, which is all that it knows of."""

    def reshape(self, tensor: Any, shape: tuple[int, ...]) -> Any: ...

    def synchronize(self) -> None:
        """What had the memory before has done with it."""


class Torch:
    def __init__(self, device: Any) -> None:
        import torch

        self._torch = torch
        self._templates: dict[str, Any] = {}  # empty tensors, for new ones of their dtype
        self._device = torch.device('cuda', device) if isinstance(device, int) else torch.device(device)
        self.on_device = self._device.type == 'cuda'
        if self._device.type not in ('cpu', 'cuda'):
            raise ValueError(f"device: {device!r} is not 'cpu' and not of CUDA; load to 'cpu', and move it")

    def _find_dtype(self, dtype: str) -> Any:
        kind = getattr(self._torch, _KINDS.get(dtype, '-'), None)
        if kind is None:
            raise SafetensorError(f'torch {self._torch.__version__} has no dtype for {dtype}')
        return kind

    def share(self, nbytes: int) -> tuple[Any, int]:
        memory = self._torch.UntypedStorage(nbytes, device=self._device)
        return memory, memory.data_ptr()

    def cut(self, memory: Any, at: int, nbytes: int, dtype: str, shape: tuple[int, ...]) -> Any:
        stored = (*shape[:-1], shape[-1] // 2) if dtype == 'F4' else shape
        template = self._templates.get(dtype)
        if template is None:
            template = self._templates[dtype] = self._torch.empty((0,), dtype=self._find_dtype(dtype), device=memory.device)
        return template.new_empty(0).set_(memory[at:at + nbytes], 0, stored)

    def empty(self, dtype: str, shape: tuple[int, ...]) -> tuple[Array, Any]:
        stored = (*shape[:-1], shape[-1] // 2) if dtype == 'F4' else shape
        tensor = self._torch.empty(stored, dtype=self._find_dtype(dtype), device=self._device)
        nbytes = size_of(dtype, shape) or 0
        return Array(dtype, shape, tensor.data_ptr(), nbytes, self.on_device, tensor), tensor

    def reshape(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def synchronize(self) -> None:
        if self.on_device:
            self._torch.cuda.current_stream(self._device).synchronize()


class Numpy:
    on_device = False

    def __init__(self, device: Any) -> None:
        import numpy

        self._numpy = numpy
        if str(device) != 'cpu':
            raise ValueError(f"device: {device!r} is not 'cpu', where the arrays of numpy are")

    def _find_dtype(self, dtype: str) -> Any:
        try:
            return self._numpy.dtype(_KINDS[dtype])
        except (KeyError, TypeError):
            pass
        try:
            return self._numpy.dtype(getattr(import_module('ml_dtypes'), _KINDS[dtype]))
        except (ImportError, AttributeError, KeyError):
            raise SafetensorError(f'numpy has no dtype for {dtype}') from None

    def share(self, nbytes: int) -> tuple[Any, int]:
        memory = self._numpy.empty(nbytes, 'u1')
        return memory, memory.ctypes.data

    def cut(self, memory: Any, at: int, nbytes: int, dtype: str, shape: tuple[int, ...]) -> Any:
        return self._numpy.ndarray(shape, self._find_dtype(dtype), memory, at)

    def empty(self, dtype: str, shape: tuple[int, ...]) -> tuple[Array, Any]:
        array = self._numpy.empty(shape, self._find_dtype(dtype))
        return Array(dtype, shape, array.ctypes.data, array.nbytes, False, array), array

    def reshape(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def synchronize(self) -> None:
        pass


def find(name: str, device: Any) -> Framework:
    if name in ('pt', 'torch', 'pytorch'):
        return Torch(device)
    if name in ('np', 'numpy'):
        return Numpy(device)
    raise SafetensorError(f"framework: {name!r} is not 'pt' or 'np'")


# ---- views of a window, for penstock.weights


class Viewer(Protocol):
    def window(self, nbytes: int) -> tuple[Any, int, int]:
        """The window, its address and its size."""

    def view(self, window: Any, at: int, weight: Any) -> Any:
        """A tensor in it; what has no dtype here is bytes without a shape."""

    def forget(self, views: dict[str, Any]) -> None:
        """Their memory is used for others."""

    def stream(self) -> int | None:
        """Of a device: what uses the views, and has to come so far first."""


class _Bytes:
    def window(self, nbytes: int) -> tuple[Any, int, int]:
        memory = Memory(nbytes, pinned=False)
        return memory, memory.address, memory.nbytes

    def view(self, window: Any, at: int, weight: Any) -> Any:
        return memoryview(window)[at:at + weight.nbytes].toreadonly()

    def forget(self, views: dict[str, Any]) -> None:
        for view in views.values():
            try:
                view.release()  # who uses it after that is told
            except BufferError:
                pass  # something else was made of it

    def stream(self) -> int | None:
        return None


class _Arrays(_Bytes):
    def __init__(self) -> None:
        self._framework = Numpy('cpu')

    def view(self, window: Any, at: int, weight: Any) -> Any:
        array = self._framework._numpy.frombuffer(window, 'u1', weight.nbytes, at)
        array.flags.writeable = False
        try:
            return array.view(self._framework._find_dtype(weight.dtype)).reshape(weight.shape)
        except SafetensorError:
            return array

    def forget(self, views: dict[str, Any]) -> None:
        pass


class _Tensors:
    def __init__(self, device: Any, pinned: bool) -> None:
        self._torch = (framework := Torch(device))._torch
        self._device = framework._device
        self._pinned = pinned
        if self._device.type == 'cuda':
            from ._torch import current_stream

            if current_stream is None or not self._torch.cuda.is_available():
                raise ValueError(f'device: {device!r} is not there, for torch has no CUDA')
            self._index = self._device.index
            if self._index is None:
                self._index = self._torch.cuda.current_device()
            self._stream = current_stream

    def window(self, nbytes: int) -> tuple[Any, int, int]:
        torch = self._torch
        if self._device.type == 'cuda':
            window = torch.empty(nbytes, dtype=torch.uint8, device=self._device)
            # What had the memory before has done with it.
            torch.cuda.current_stream(self._device).synchronize()
        elif self._pinned:
            window = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        else:
            window = torch.frombuffer(Memory(nbytes, pinned=False), dtype=torch.uint8)
        return window, window.data_ptr(), nbytes

    def view(self, window: Any, at: int, weight: Any) -> Any:
        flat = window[at:at + weight.nbytes]
        kind = getattr(self._torch, _KINDS.get(weight.dtype, '-'), None)
        if kind is None:
            return flat
        shape = weight.shape
        if weight.dtype == 'F4':
            shape = (*shape[:-1], shape[-1] // 2)
        if not weight.nbytes:
            return flat.new_empty(shape, dtype=kind)
        if (window.data_ptr() + at) % self._torch.empty(0, dtype=kind).element_size():
            flat = flat.clone()  # where the file has it, no tensor of this kind can begin
        return flat.view(kind).view(shape)

    def forget(self, views: dict[str, Any]) -> None:
        pass

    def stream(self) -> int | None:
        return self._stream(self._index) if self._device.type == 'cuda' else None


def viewer(name: str, device: Any, pinned: bool) -> Viewer:
    if name in ('pt', 'torch', 'pytorch'):
        return _Tensors(device, pinned)
    if str(device) != 'cpu' or pinned:
        raise ValueError(f"framework: {name!r} is for device 'cpu' and memory that is not pinned; "
                         "the rest takes 'pt'")
    if name in ('np', 'numpy'):
        return _Arrays()
    if name == 'bytes':
        return _Bytes()
    raise ValueError(f"framework: {name!r} is not 'pt', 'np' or 'bytes'")


# ---- saving


def arrays_of(tensors: Mapping[str, Any]) -> dict[str, Array]:
    """Their memory, all of one kind; refuses what the format cannot say."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f'tensors: {type(tensors).__name__} is no dict of tensors')
    torch = sys.modules.get('torch')
    found: dict[str, Array] = {}
    codes: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f'tensors: {name!r} is not a str')
        if torch is not None and isinstance(tensor, torch.Tensor):
            dtype = codes.get(tensor.dtype)
            if dtype is None:
                dtype = codes[tensor.dtype] = _dtype_code(name, str(tensor.dtype).removeprefix('torch.'))
            found[name] = _torch_array(torch, name, tensor, dtype)
        else:
            found[name] = _numpy_array(name, tensor)
    _refuse_shared(found)
    if torch is not None and any(array.on_device for array in found.values()):
        for device in {a.keep.device for a in found.values() if a.on_device}:
            torch.cuda.current_stream(device).synchronize()
    return found


def _dtype_code(name: str, kind: str) -> str:
    try:
        return _NAMES[kind]
    except KeyError:
        raise SafetensorError(f'{name!r}: the format has no {kind}') from None


def _torch_array(torch: Any, name: str, tensor: Any, dtype: str) -> Array:
    if tensor.layout != torch.strided:
        raise ValueError(f'{name!r}: a sparse tensor; save its to_dense()')
    if not tensor.is_contiguous():
        raise ValueError(f'{name!r}: not contiguous; save its contiguous()')
    kind = tensor.device.type
    if kind == 'meta':
        raise ValueError(f'{name!r}: on device meta, where tensors have no data')
    if kind not in ('cpu', 'cuda'):
        tensor = tensor.cpu()
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    shape = tuple(tensor.shape)
    if dtype == 'F4':
        shape = (*shape[:-1], shape[-1] * 2)
    return Array(dtype, shape, tensor.data_ptr(), tensor.numel() * tensor.element_size(),
                 kind == 'cuda', tensor)


def _numpy_array(name: str, array: Any) -> Array:
    numpy = sys.modules.get('numpy')
    if numpy is None or not isinstance(array, numpy.ndarray):
        raise TypeError(f'{name!r}: {type(array).__name__} is no tensor of torch and no array of numpy')
    dtype = _dtype_code(name, array.dtype.name)
    if not array.flags.c_contiguous:
        raise ValueError(f'{name!r}: not contiguous; save its numpy.ascontiguousarray()')
    if array.dtype.byteorder == '>':
        array = array.astype(array.dtype.newbyteorder('<'))
    return Array(dtype, tuple(array.shape), array.ctypes.data, array.nbytes, False, array)


def _refuse_shared(arrays: dict[str, Array]) -> None:
    """Tensors on the same memory would be saved twice, and be two when they are loaded."""
    spans = sorted([(a.on_device, a.address, a.nbytes, name) for name, a in arrays.items() if a.nbytes])
    dev, name, end = False, '', 0
    for dev2, start2, nbytes, name2 in spans:
        if start2 < end and dev == dev2 and _all_torch(arrays[name], arrays[name2]):
            raise RuntimeError(f'{name!r} and {name2!r} share memory, and would be saved twice: '
                               'save one of them, or a clone()')
        dev, name, end = dev2, name2, start2 + nbytes


def _all_torch(*arrays: Array) -> bool:
    """numpy's may share, as in the package safetensors."""
    return all(type(a.keep).__module__.partition('.')[0] == 'torch' for a in arrays)
