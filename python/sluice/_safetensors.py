# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file that is written; those that are read are parsed by the library."""
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
    offset: int = 0  # in the file; of one that is written, in the data
    nbytes: int = 0


def size_of(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes; None: elements that do not make up whole bytes."""
    bits = DTYPES[dtype] * math.prod(shape)
    return None if bits % 8 else bits // 8


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
