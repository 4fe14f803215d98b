# SPDX-License-Identifier: Apache-2.0
"""Arguments: what DeepSpeed's operators accept, with TypeError and ValueError for the rest."""
import operator
import os
from typing import Any, TypeAlias

import torch

INT_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

Target: TypeAlias = str | bytes | int  # a path, or the caller's descriptor


def integer(name: str, value: Any, top: int, least: int | None = None) -> int:
    """An integer of C, whose largest is @top, and of these those from @least on."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f'{name}: {type(value).__name__} is not an integer') from None
    lowest = -top - 1
    first = lowest if least is None else least
    if first <= number <= top:
        return number
    kind = ValueError if lowest <= number <= top else TypeError
    raise kind(f'{name}: {number} is outside {first}..{top}')


def positive(name: str, value: Any) -> int:
    return integer(name, value, INT_MAX, 1)


def count(name: str, value: Any) -> int:
    return integer(name, value, INT64_MAX, 0)


def descriptor(name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f'{name}: bool is not a file descriptor')
    return integer(name, value, INT_MAX)


def flag(name: str, value: Any) -> bool:
    """What has a truth value of its own; not text, of which 'false' would be true."""
    if not hasattr(type(value), '__bool__'):
        raise TypeError(f'{name}: {type(value).__name__} is not a bool')
    return bool(value)


def tensor(name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f'{name}: {type(value).__name__} is not a torch.Tensor')
    return value


def target(filename: Any, fd: Any = None) -> Target:
    """The file of a call that may have been given a name or a descriptor."""
    if fd is not None:
        if filename is not None:
            raise TypeError('filename and fd: only one of them can be given')
        return descriptor('fd', fd)
    if isinstance(filename, (str, bytes)):
        return filename
    if isinstance(filename, os.PathLike):
        path: str | bytes = os.fspath(filename)
        return path
    if hasattr(type(filename), '__index__'):
        return descriptor('filename', filename)
    raise TypeError(f'filename: {type(filename).__name__} is none of str, bytes, os.PathLike, int')


def example(tensor_: Any, misspelled: Any) -> torch.Tensor:
    """The example tensor, whose keyword has two spellings."""
    if tensor_ is not None and misspelled is not None:
        raise TypeError('example_tensor and example_tenosr: only one of them can be given')
    return tensor('example_tensor', misspelled if tensor_ is None else tensor_)


def async_and_offset(method: str, rest: tuple[Any, ...], more: dict[str, Any]) -> tuple[bool, int]:
    """The last two arguments of pread() and pwrite(): no parameter can have the name 'async'."""
    names = ('async', 'file_offset')
    if len(rest) > len(names):
        raise TypeError(f'{method}() takes at most 5 arguments, {3 + len(rest)} given')
    given = dict(zip(names, rest))
    for name, value in more.items():
        if name not in names:
            raise TypeError(f'{method}() got an unexpected keyword argument {name!r}')
        if name in given:
            raise TypeError(f'{method}() got multiple values for argument {name!r}')
        given[name] = value
    if 'async' not in given:
        raise TypeError(f"{method}() missing 1 required argument: 'async'")
    return flag('async', given['async']), count('file_offset', given.get('file_offset', 0))
