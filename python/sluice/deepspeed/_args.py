# SPDX-License-Identifier: Apache-2.0
"""Arguments: what DeepSpeed's operators accept, with TypeError and ValueError for the rest."""
import operator
import os
from typing import Any, TypeAlias

import torch

INT_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

Target: TypeAlias = str | bytes | int  # a path, or the caller's descriptor


def integer(name: str, value: Any, top: int) -> int:
    """An integer of C, whose largest is @top."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f'{name}: {type(value).__name__} is not an integer') from None
    if not -top - 1 <= number <= top:
        raise TypeError(f'{name}: {number} is outside {-top - 1}..{top}')
    return number


def positive(name: str, value: Any) -> int:
    number = integer(name, value, INT_MAX)
    if number < 1:
        raise ValueError(f'{name}: {number} is outside 1..{INT_MAX}')
    return number


def flag(name: str, value: Any) -> bool:
    """What has a truth value of its own; not text, of which 'false' would be true."""
    if not hasattr(type(value), '__bool__'):
        raise TypeError(f'{name}: {type(value).__name__} is not a bool')
    return bool(value)


def tensor(name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f'{name}: {type(value).__name__} is not a torch.Tensor')
    return value


def offset(value: Any) -> int:
    number = integer('file_offset', value, INT64_MAX)
    if number < 0:
        raise ValueError(f'file_offset: {number} is outside 0..{INT64_MAX}')
    return number


def count(name: str, value: Any) -> int:
    number = integer(name, value, INT64_MAX)
    if number < 0:
        raise ValueError(f'{name}: {number} is outside 0..{INT64_MAX}')
    return number


def target(filename: Any, fd: Any = None) -> Target:
    """The file of a call that may have been given a name or a descriptor."""
    if fd is not None:
        if filename is not None:
            raise TypeError('filename and fd: only one of them can be given')
        return integer('fd', fd, INT_MAX)
    if isinstance(filename, (str, bytes)):
        return filename
    if isinstance(filename, os.PathLike):
        path: str | bytes = os.fspath(filename)
        return path
    if isinstance(filename, int) and not isinstance(filename, bool):
        return integer('fd', filename, INT_MAX)
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
    return flag('async', given['async']), offset(given.get('file_offset', 0))
