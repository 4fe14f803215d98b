# SPDX-License-Identifier: Apache-2.0
"""What is changed in DeepSpeed's modules, and how it is changed back."""
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import _site
from ._builders import BUILDERS, Builder

PIN_SLOT = '_deepspeed_pin_memory_op_module'  # an attribute of sys, DeepSpeed's cache
NOTHING = object()

_undo: list[Callable[[], None]] = []
_classes: dict[str, type] = {}  # a builder of DeepSpeed's by its name
_filled: list[tuple[dict[str, Any], str]] = []  # tables that DeepSpeed filled by asking us


def set_attribute(owner: Any, name: str, value: Any) -> None:
    old = vars(owner).get(name, NOTHING)
    if old is value:
        return
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if old is NOTHING else setattr(owner, name, old))


def set_item(owner: dict[str, Any], name: str, value: Any) -> None:
    old = owner.get(name, NOTHING)
    if old is value:
        return
    owner[name] = value

    def restore() -> None:
        if old is NOTHING:
            owner.pop(name, None)
        else:
            owner[name] = old

    _undo.append(restore)


def load_of(builder: type[Builder]) -> Callable[..., ModuleType]:
    def load(self: Any, verbose: bool = False) -> ModuleType:
        return builder().load(verbose)

    return load


def is_compatible_of(builder: type[Builder]) -> Callable[..., bool]:
    def is_compatible(self: Any = None, verbose: bool = False) -> bool:
        return builder().is_compatible(verbose)

    return is_compatible


METHODS: dict[str, dict[str, Callable[..., Any]]] = {
    name: {'load': load_of(builder), 'is_compatible': is_compatible_of(builder)}
    for name, builder in BUILDERS.items()
}


def change_class(cls: type) -> None:
    """OpBuilder, which caches loaded operators by name; or one of the builders we replace."""
    loaded = vars(cls).get('_loaded_ops')
    if isinstance(loaded, dict):
        for name, builder in BUILDERS.items():
            set_item(loaded, name, builder().load())
    own = getattr(cls, 'NAME', None)
    if isinstance(own, str) and own in BUILDERS and cls.__name__ == BUILDERS[own].__name__:
        _classes.setdefault(own, cls)
        for method, function in METHODS[own].items():
            set_attribute(cls, method, function)


def change_table(table: dict[str, Any], filled_by_us: bool) -> None:
    """Names of operators and whether they are compatible."""
    for name, builder in BUILDERS.items():
        if filled_by_us and name in table:
            _filled.append((table, name))
        if name in table or name == 'async_io':
            set_item(table, name, builder().is_compatible())


def apply(module: ModuleType, imported_before: bool = False) -> None:
    """Replace what this module of DeepSpeed's holds; what is replaced already is left."""
    set_attribute(sys, PIN_SLOT, BUILDERS['pin_memory']().load())
    for value in list(vars(module).values()):
        if isinstance(value, type) and _site.watched(value.__module__):
            change_class(value)
    for name in ('compatible_ops', '__compatible_ops__'):
        table = vars(module).get(name)
        if isinstance(table, dict):
            change_table(table, not imported_before)


def apply_all() -> None:
    for name, module in list(sys.modules.items()):
        if _site.watched(name) and isinstance(module, ModuleType):
            apply(module, imported_before=True)


def revert() -> None:
    while _undo:
        _undo.pop()()
    for table, name in _filled:
        if name in _classes:
            table[name] = own_answer(_classes[name])
    _filled.clear()
    _classes.clear()


def own_answer(cls: type) -> bool:
    """What a builder of DeepSpeed's says of itself."""
    try:
        return bool(cls().is_compatible())
    except Exception:
        return False
