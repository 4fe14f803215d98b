# SPDX-License-Identifier: Apache-2.0
"""The zip archives that torch.save() writes: stored records, each on its alignment.

What is written here is what torch writes, byte for byte, so that all that is known of such files
holds: the header of a record is padded up to the alignment of its data, its checksum follows the
data.  What is read is any archive of stored records.
"""
import dataclasses
import struct
from collections.abc import Callable, Iterable

_LOCAL = struct.Struct('<4sHHHHHIIIHH')
_CENTRAL = struct.Struct('<4sHHHHHHIIIHHHHHII')
_END = struct.Struct('<4sHHHHIIH')
_END64 = struct.Struct('<4sQHHIIQQQQ')
_LOCATOR = struct.Struct('<4sIQI')
_LARGE = 0xffffffff  # sizes and offsets from here on are in a field of 64 bits
_UTF8, _SUM_BEHIND = 0x800, 0x8

Read = Callable[[int, int], bytes]  # offset, length; fewer bytes only at the end


class Unusual(Exception):
    """Not an archive of stored records: for torch to look at."""


@dataclasses.dataclass
class Record:
    name: str
    size: int
    crc32: int
    header: int  # where its header begins
    offset: int = -1  # where its data begins


# ---- writing


def _large_extra(size: int, header: int) -> bytes:
    fields = [size, size] if size >= _LARGE else []
    fields += [header] if header >= _LARGE else []
    if not fields:
        return b''
    return struct.pack(f'<HH{len(fields)}Q', 1, 8 * len(fields), *fields)


def head(record: Record, alignment: int) -> bytes:
    """What precedes the data of a record, whose offset it fills in."""
    name = record.name.encode()
    extra = _large_extra(record.size, record.header)
    start = record.header + _LOCAL.size + len(name) + len(extra) + 4
    padding = -start % alignment
    extra += struct.pack('<2sH', b'FB', padding) + b'Z' * padding
    record.offset = start + padding
    flags = _UTF8 | (_SUM_BEHIND if record.size else 0)
    return _LOCAL.pack(b'PK\3\4', 0, flags, 0, 0, 0, 0, 0, 0, len(name), len(extra)) + name + extra


def tail_size(record: Record) -> int:
    """How much follows the data."""
    if not record.size:
        return 0
    return 24 if record.size >= _LARGE or record.header >= _LARGE else 16


def tail(record: Record) -> bytes:
    """What follows the data."""
    form = {0: '', 16: '<4sIII', 24: '<4sIQQ'}[tail_size(record)]
    return struct.pack(form, b'PK\7\x08', record.crc32, record.size, record.size) if form else b''


def _central(record: Record) -> bytes:
    name = record.name.encode()
    extra = _large_extra(record.size, record.header)
    size, header = min(record.size, _LARGE), min(record.header, _LARGE)
    flags = _UTF8 | (_SUM_BEHIND if record.size else 0)
    return _CENTRAL.pack(b'PK\1\2', 0, 0, flags, 0, 0, 0, record.crc32, size, size, len(name),
                         len(extra), 0, 0, 0, 0, header) + name + extra


def directory_size(records: Iterable[Record]) -> int:
    return _END64.size + _LOCATOR.size + _END.size + sum(
        _CENTRAL.size + len(record.name.encode()) + len(_large_extra(record.size, record.header))
        for record in records)


def directory(records: Iterable[Record], at: int) -> bytes:
    """The end of the archive, which begins at this offset."""
    entries = [_central(record) for record in records]
    n, size = len(entries), sum(map(len, entries))
    entries += [
        _END64.pack(b'PK\6\6', _END64.size - 12, 0x31e, 45, 0, 0, n, n, size, at),
        _LOCATOR.pack(b'PK\6\7', 0, at + size, 1),
        _END.pack(b'PK\5\6', 0, 0, min(n, 0xffff), min(n, 0xffff), min(size, _LARGE),
                  min(at, _LARGE), 0)]
    return b''.join(entries)


def is_complete(end: bytes, total: int) -> bool:
    """Do these last bytes of a stream of so many bytes end an archive that has a pickle?"""
    at = len(end) - _END.size
    if at < 0 or end[at:at + 4] != b'PK\5\6':
        return False
    _, _, _, _, n, size, start, comment = _END.unpack_from(end, at)
    return n > 0 and comment == 0 and (start == _LARGE or start + size <= total)


# ---- reading


def _find_end(read: Read, size: int) -> tuple[int, int, int]:
    """How many records, and the directory's offset and size."""
    at = max(0, size - _END.size - _LOCATOR.size - _END64.size)
    end = read(at, size - at)
    if len(end) < _END.size or end[-_END.size:-_END.size + 4] != b'PK\5\6':
        raise Unusual('it does not end as an archive without a comment')
    _, _, _, _, n, length, start, _ = _END.unpack_from(end, len(end) - _END.size)
    locator = len(end) - _END.size - _LOCATOR.size
    if locator >= _END64.size and end[locator:locator + 4] == b'PK\6\7':
        where = _LOCATOR.unpack_from(end, locator)[2]
        if where - at != locator - _END64.size or end[where - at:where - at + 4] != b'PK\6\6':
            raise Unusual('its second directory is somewhere else')
        *_, n, length, start = _END64.unpack_from(end, where - at)
    if start + length > size:
        raise Unusual('its directory is larger than the file')
    return n, start, length


def _large_fields(extra: bytes, size: int, stored: int, header: int) -> tuple[int, int, int]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from('<HH', extra, at)
        if kind == 1:
            fields = iter(struct.unpack_from(f'<{length // 8}Q', extra, at + 4))
            size = next(fields) if size == _LARGE else size
            stored = next(fields) if stored == _LARGE else stored
            header = next(fields) if header == _LARGE else header
        at += 4 + length
    return size, stored, header


def _entries(data: bytes, n: int) -> list[Record]:
    records, at = [], 0
    for _ in range(n):
        (magic, _, _, flags, method, _, _, crc32, stored, size, name_len, extra_len, comment_len,
         _, _, _, header) = _CENTRAL.unpack_from(data, at)
        if magic != b'PK\1\2' or method != 0 or flags & 1:
            raise Unusual('a record is compressed or encrypted')
        at += _CENTRAL.size
        name = data[at:at + name_len].decode('utf-8' if flags & _UTF8 else 'cp437')
        if _LARGE in (size, stored, header):
            extra = data[at + name_len:at + name_len + extra_len]
            size, stored, header = _large_fields(extra, size, stored, header)
        if size != stored:
            raise Unusual('a record has two sizes')
        records.append(Record(name, size, crc32, header))
        at += name_len + extra_len + comment_len
    return records


def _read_place(record: Record, read: Read) -> None:
    local = read(record.header, _LOCAL.size)
    if len(local) < _LOCAL.size or local[:4] != b'PK\3\4':
        raise Unusual(f'{record.name}: no header at {record.header}')
    name_len, extra_len = _LOCAL.unpack(local)[-2:]
    record.offset = record.header + _LOCAL.size + name_len + extra_len


def _place(records: list[Record], read: Read, alignment: int, end: int) -> None:
    """Where the data of each begins.

    As torch lays them out, if that leads from each header to the next one; else its header is read.
    """
    ordered = sorted(records, key=lambda record: record.header)
    for record, following in zip(ordered, [*(r.header for r in ordered[1:]), end]):
        head(record, alignment)
        if record.offset + record.size + tail_size(record) != following:
            _read_place(record, read)
        if record.offset + record.size > following:
            raise Unusual(f'{record.name}: its data are longer than their place')


def _alignment(by_name: dict[str, Record], read: Read) -> int:
    for name, record in by_name.items():
        if name.endswith('/.storage_alignment') and 0 < record.size < 10:
            _read_place(record, read)
            text = read(record.offset, record.size)
            if text.isdigit() and int(text):
                return int(text)
    return 64


def records(read: Read, size: int) -> dict[str, Record]:
    """All records by name; Unusual where it is another kind of file."""
    try:
        n, start, length = _find_end(read, size)
        if n * _CENTRAL.size > length:
            raise Unusual('its directory is too short')
        found = _entries(read(start, length), n)
        by_name = {record.name: record for record in found}
        if len(by_name) != len(found):
            raise Unusual('two records have one name')
        _place(found, read, _alignment(by_name, read), start)
    except (struct.error, StopIteration, UnicodeDecodeError) as error:
        raise Unusual(f'its directory is damaged: {error}') from None
    return by_name
