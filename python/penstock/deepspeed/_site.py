# SPDX-License-Identifier: Apache-2.0
"""Watches for DeepSpeed being imported, and then puts our operators in place of its own.

Imported by install(), and at the start of every Python that has PENSTOCK_DEEPSPEED=1 in its
environment.  Light for that reason: torch is imported when DeepSpeed is.
"""
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SWITCH = 'PENSTOCK_DEEPSPEED'


def watched(name: str) -> bool:
    """May this module hold something to replace?  A source checkout has op_builder on its own."""
    package, _, rest = name.partition('.')
    if package == 'deepspeed':
        return rest.partition('.')[0] in ('', 'ops', 'git_version_info')
    return package == 'op_builder'


class Loader:
    """Another loader, and then the patch."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # from here on nobody sees that we were here
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        patch(module)


class Finder:
    """What the finders behind it find, with the loader above where a module is watched."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not watched(name):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, 'find_spec', None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, 'exec_module') and hasattr(spec.loader, 'create_module'):
                    spec.loader = Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


def patch(module: ModuleType) -> None:
    """Never let DeepSpeed's import fail for our sake."""
    if finder not in sys.meta_path:
        return
    try:
        from . import _patch

        _patch.apply(module)
    except Exception as error:
        remove()
        warnings.warn(f'penstock: DeepSpeed keeps operators of its own: {module.__name__}: {error!r}')


finder = Finder()


def add() -> None:
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


def remove() -> None:
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


def wanted() -> bool:
    return os.environ.get(SWITCH, '') not in ('', '0')


if wanted():
    add()
