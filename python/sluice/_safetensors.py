# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file: every rule of the format, without I/O."""
import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

HEADER_MAX = 100_000_000

# Bits of an element, in the order of the reference library, which is also that of the data: the last
# comes first.
DTYPES = {
    'BOOL': 8, 'F4': 4, 'F6_E2M3': 6, 'F6_E3M2': 6, 'U8': 8, 'I8': 8, 'F8_E5M2': 8, 'F8_E4M3': 8,
    'F8_E8M0': 8, 'F8_E4M3FNUZ': 8, 'F8_E5M2FNUZ': 8, 'I16': 16, 'U16': 16, 'F16': 16, 'BF16': 16,
    'I32': 32, 'U32': 32, 'F32': 32, 'C64': 64, 'F64': 64, 'I64': 64, 'U64': 64}
_RANK = {name: rank for rank, name in enumerate(DTYPES)}


class SafetensorError(ValueError):
    """A file that is not what the format says, or a name that is not in it."""


@dataclasses.dataclass
class Entry:
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0  # in the data
    nbytes: int = 0


def size_of(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes; None: elements that do not make up whole bytes."""
    bits = DTYPES[dtype] * math.prod(shape)
    return None if bits % 8 else bits // 8


# ---- reading


def header_size(start: bytes, file_size: int) -> int:
    """Of the JSON, from the first eight bytes."""
    if file_size < 8 or len(start) < 8:
        raise SafetensorError(f'it is too short for a header: {file_size} bytes')
    n = int.from_bytes(start[:8], 'little')
    if n > HEADER_MAX:
        raise SafetensorError(f'its header of {n} bytes is more than {HEADER_MAX}')
    if n > file_size - 8:
        raise SafetensorError(f'its header of {n} bytes is longer than the file')
    return n


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SafetensorError(f'its header has {twice!r} twice')
    return found


def _no_constant(name: str) -> Any:
    raise SafetensorError(f'its header has {name} for a number')


def _object(text: bytes) -> dict[str, Any]:
    if text[:1] != b'{':
        raise SafetensorError("its header does not begin with '{'")
    try:
        found = json.loads(text.decode('utf-8'), object_pairs_hook=_unique,
                           parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise SafetensorError(f'its header is not UTF-8: {error}') from None
    except SafetensorError:
        raise
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f'its header is not JSON: {error}') from None
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or set(value) != {'dtype', 'shape', 'data_offsets'}:
        raise SafetensorError(f'{name!r}: not dtype, shape and data_offsets')
    dtype, shape, offsets = value['dtype'], value['shape'], value['data_offsets']
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise SafetensorError(f'{name!r}: dtype {dtype!r} is none of the format')
    if not isinstance(shape, list) or not all(map(_number, shape)):
        raise SafetensorError(f'{name!r}: shape {shape!r} is no list of sizes')
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_number, offsets)):
        raise SafetensorError(f'{name!r}: data_offsets {offsets!r} are no two offsets')
    nbytes = size_of(dtype, tuple(shape))
    if nbytes is None or nbytes >= 1 << 64 or nbytes != offsets[1] - offsets[0]:
        raise SafetensorError(f'{name!r}: {dtype} of shape {shape} does not take up '
                              f'{offsets[1]} - {offsets[0]} bytes')
    return Entry(name, dtype, tuple(shape), offsets[0], nbytes)


def parse(text: bytes, data_size: int) -> tuple[list[Entry], dict[str, str] | None]:
    """Entries in the order of their data, and the metadata."""
    found = _object(text)
    metadata = found.pop('__metadata__', None)
    if metadata is not None and not (isinstance(metadata, dict) and
                                     all(isinstance(v, str) for v in metadata.values())):
        raise SafetensorError('__metadata__: not from text to text')
    entries = [_entry(name, value) for name, value in found.items()]
    entries.sort(key=lambda e: (e.offset, e.nbytes))
    at = 0
    for entry in entries:
        if entry.offset != at:
            what = 'overlaps what is before it' if entry.offset < at else 'leaves a hole'
            raise SafetensorError(f'{entry.name!r}: at {entry.offset}, {what}, which ends at {at}')
        at += entry.nbytes
    if at != data_size:
        raise SafetensorError(f'its tensors take up {at} bytes, and {data_size} are there')
    return entries, metadata


# ---- writing


def build(entries: Iterable[Entry], metadata: dict[str, str] | None) -> tuple[bytes, list[Entry]]:
    """The head of a file, and the entries in the order of their data, with offsets."""
    ordered = sorted(entries, key=lambda e: (-_RANK[e.dtype], e.name))
    header: dict[str, Any] = {}
    if metadata is not None:
        header['__metadata__'] = dict(sorted(metadata.items()))
    at = 0
    for entry in ordered:
        if entry.name == '__metadata__':
            raise SafetensorError("a tensor cannot be called '__metadata__'")
        entry.offset = at
        at += entry.nbytes
        header[entry.name] = {'dtype': entry.dtype, 'shape': list(entry.shape),
                              'data_offsets': [entry.offset, at]}
    text = json.dumps(header, ensure_ascii=False, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    if len(text) > HEADER_MAX:
        raise SafetensorError(f'a header of {len(text)} bytes is more than {HEADER_MAX}')
    return len(text).to_bytes(8, 'little') + text, ordered
