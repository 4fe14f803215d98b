# SPDX-License-Identifier: Apache-2.0
"""torch.save() and torch.load() at the speed of the device: durable, atomic, checked.

    import penstock.torch

    penstock.torch.save(model.state_dict(), 'model.pt')
    state = penstock.torch.load('model.pt')

The files are torch's own.  torch pickles and unpickles; the bytes of tensors go past it, between
their memory and the storage.  docs/python.md is the manual.
"""
import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._background import start_save
from ._torch_load import load as _load
from ._torch_save import Plan, is_special
from ._atomic_writer import MEMORY, Path, Writer

if TYPE_CHECKING:
    from ._torch_offload import OffloadedModules

_SENDING = 16 << 20  # of a pool, to send a copy through

__all__ = ['load', 'save', 'save_async', 'offload_modules', 'writer']


def writer(path: Path, *, memory: int = MEMORY, durable: bool = True,
           checksum: bool = True) -> Writer:
    """A file to write to from start to end, for torch.save() and all else that calls write().

    Nothing is seen under the name until it is committed: by the end of a `with` block without an
    exception, by close(), or, outside of a `with` block, by the flush() that ends torch.save().  What
    is dropped before that, or fails, leaves an older file as it was.  Of the pool, which is all the
    memory it takes, there are `memory` bytes.
    """
    return Writer(path, memory=memory, durable=durable, checksum=checksum)


def save(obj: object, path: Path, *, memory: int = MEMORY, durable: bool = True,
         checksum: bool = True, pickle_protocol: int = 2) -> None:
    """As torch.save(obj, path); when it returns the file is complete and, if durable, safe.

    An older file of this name is replaced at that moment and not before.  checksum: beside it,
    PATH.crc for load() to verify the bytes with.
    """
    import torch

    if is_special():
        with writer(path, memory=memory, durable=durable, checksum=checksum) as file:
            torch.save(obj, file, pickle_protocol=pickle_protocol)
        return
    with contextlib.ExitStack() as stack:
        def begin(size: int) -> Writer:
            return stack.enter_context(Writer(path, size=size, memory=memory, durable=durable, checksum=checksum))

        plan = Plan(obj, path, pickle_protocol, begin=begin)
        plan.send(plan.file or begin(plan.size))


def save_async(obj: object, path: Path, *, memory: int = MEMORY, durable: bool = True,
               checksum: bool = True,
               pickle_protocol: int = 2) -> 'concurrent.futures.Future[None]':
    """The same, but returns as soon as all bytes are copied; the rest goes on behind.

    The copy is in a pool of `memory` bytes, and takes no more than that: of a larger object the part
    that does not fit yet is waited for.  Tensors may be changed when it has returned.  The future
    is done when the file is complete and durable; what fails fails there.  Saves under one name
    appear in the order of the calls.
    """
    plan = Plan(obj, path, pickle_protocol)
    copied = plan.copy(memory - _SENDING)
    file = Writer(path, size=plan.size, memory=memory - copied, durable=durable, checksum=checksum)
    return start_save(file, lambda: plan.send(file), copied > 0)


def load(path: Path, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, verify: bool | str = True, **pickle_load_args: Any) -> Any:
    """As torch.load() with these arguments; weights_only is True unless a pickle_module is given.

    All tensors are read at once, each into its own memory, of a GPU too; mmap changes nothing.
    verify: bytes are checked with PATH.crc, if there is one; 'require': there must be; False: they are
    not.  What is wrong is an OSError that names the file, the tensor and the offset.
    """
    return _load(os.fspath(path), map_location, pickle_module, weights_only, verify, pickle_load_args)


def offload_modules(modules: Sequence[Any], source: Any, *, prefix: str | None = None,
                   on_grad: Callable[[Any, Any, Any], object] | None = None, **options: Any) -> 'OffloadedModules':
    """Have the modules of a ModuleList run with weights from storage, which may be larger than memory.

    source: a model as for penstock.WeightWindow, whose options follow, or a window with experts=True.
    Module i takes layer PREFIX.i; its parameters may be on device meta, and are so again after its
    forward.  Gradients of inputs are computed, for which layers are read again in reverse order.  Of the
    weights, on_grad(weight, tensor, grad) gets them in backward, one by one: nothing else keeps them.
    remove() of the result, or the end of a `with` block, undoes it.
    """
    from ._torch_offload import offload_modules as hook

    return hook(modules, source, prefix, on_grad, options)
