# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file that is written; those that are read are parsed by the library."""
import itertools
import json
import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

HEADER_MAX = 100_000_000
DIMS_MAX = 64  # that the library reads
_quoted = json.JSONEncoder(ensure_ascii=False).encode

# Bits of an element, in the order of the reference library, which is also that of the data: the last
# comes first.
DTYPES = {
    'BOOL': 8, 'F4': 4, 'F6_E2M3': 6, 'F6_E3M2': 6, 'U8': 8, 'I8': 8, 'F8_E5M2': 8, 'F8_E4M3': 8,
    'F8_E8M0': 8, 'F8_E4M3FNUZ': 8, 'F8_E5M2FNUZ': 8, 'I16': 16, 'U16': 16, 'F16': 16, 'BF16': 16,
    'I32': 32, 'U32': 32, 'F32': 32, 'C64': 64, 'F64': 64, 'I64': 64, 'U64': 64}


class SafetensorError(ValueError):
    """A file that is not what the format says, or a name that is not in it."""


class Entry(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # in the file
    nbytes: int


def size_of(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes; None: elements that do not make up whole bytes."""
    bits = DTYPES[dtype] * math.prod(shape)
    return None if bits % 8 else bits // 8


class Sized(Protocol):
    """What is to be written."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def nbytes(self) -> int: ...


def build(arrays: Mapping[str, Sized], metadata: dict[str, str] | None) -> tuple[bytes, list[str]]:
    """The head of a file, and the names in the order of their data."""
    if '__metadata__' in arrays:
        raise SafetensorError("a tensor cannot be called '__metadata__'")
    if any('\0' in text for text in itertools.chain(arrays, *(metadata or {}).items())):
        raise SafetensorError('a NUL in a name or in metadata')
    if any(len(a.shape) > DIMS_MAX for a in arrays.values()):
        raise SafetensorError(f'a tensor of more than {DIMS_MAX} dimensions')
    names: dict[str, list[str]] = {}
    for name, a in arrays.items():
        names.setdefault(a.dtype, []).append(name)
    ordered = [name for dtype in reversed(DTYPES) for name in sorted(names.get(dtype, ()))]
    items = []
    if metadata is not None:
        items.append('"__metadata__":' + json.dumps(
            dict(sorted(metadata.items())), ensure_ascii=False, separators=(',', ':')))
    shapes: dict[tuple[int, ...], str] = {}
    at = 0
    for name in ordered:
        dtype, shape, nbytes = (a := arrays[name]).dtype, a.shape, a.nbytes
        text = shapes.get(shape)
        if text is None:
            text = shapes[shape] = ','.join(map(str, shape))
        items.append(f'{_quoted(name)}:{{"dtype":"{dtype}","shape":[{text}],'
                     f'"data_offsets":[{at},{at + nbytes}]}}')
        at += nbytes
    head = f'{{{",".join(items)}}}'.encode()
    head += b' ' * (-len(head) % 8)
    if len(head) > HEADER_MAX:
        raise SafetensorError(f'a header of {len(head)} bytes is more than {HEADER_MAX}')
    return len(head).to_bytes(8, 'little') + head, ordered
