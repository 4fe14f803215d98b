# SPDX-License-Identifier: Apache-2.0
"""Objects of S3 stores, under the names that MLPerf's storage code calls.

    from penstock import s3

    s3.put_bytes('s3://bucket/key', data)
    view = s3.get('s3://bucket/key')              # a buffer: memoryview(view), numpy.frombuffer(view, ...)
    s3.get_many(uris)                             # [(uri, view)], all in flight together
    with s3.MultipartUploadWriter.from_uri('s3://bucket/large') as w:
        w.write(chunk)

Endpoints, keys and region come from the environment (docs/objects.md), or from `configure()`.  A process has one
client of its own, made when it is first needed; a child of fork() makes its own.  Errors are OSErrors: FileNotFoundError,
PermissionError, FileExistsError, TimeoutError, ...
"""
import builtins
import datetime
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._range_reader import is_uri
from ._penstock import BytesView, S3Client

__all__ = ['BytesView', 'Client', 'MultipartUploadWriter', 'configure', 'copy', 'delete', 'exists', 'get', 'get_many', 'get_range',
           'list', 'put_bytes', 'put_many', 'stat', 'stats']

_MIB = 1 << 20
_FIRST = _MIB  # asked for before the length is known: small objects take one request
_TIGHT = 64 << 10  # results up to this size are moved into memory of just that size
_PARTS_FROM = 64 * _MIB  # what is larger is put in parts, in flight together
_ROUND = 1024  # reads that are begun together
_FLAT, _NEW = 1, 1

STYLES = {'auto': 0, 'path': 1, 'virtual': 2}
BALANCES = {'round_robin': 0, 'least_connections': 1, 'random': 2, 'rank': 3}
CHECKSUMS = {'auto': 0, 'crc32c': 1, 'crc64nvme': 2, 'none': 3}


def _choice(name: str, value: str, among: dict[str, int]) -> int:
    if value not in among:
        raise ValueError(f'{name}: {value!r} is none of {", ".join(among)}')
    return among[value]


def split(uri: str) -> tuple[str, str]:
    """Bucket and key of s3://BUCKET/KEY."""
    if not is_uri(uri) or len(uri) == 5:
        raise ValueError(f'{uri!r} is not of the form s3://BUCKET/KEY')
    bucket, _, key = uri[5:].partition('/')
    return bucket, key


class Client:
    """Client(*, endpoint=None, region=None, profile=None, ca_file=None, style='auto', ...)

    endpoint: URLs behind commas, {1...8} in one for eight of them, @FILE; style: auto, path, virtual; balance: round_robin,
    least_connections, random, rank; checksum: auto, crc32c, crc64nvme, none; connections, attempts, timeout and stall (seconds),
    part (bytes), anonymous, sign_body.  It is opened when it is first used, once in each process, and can be pickled.
    """

    def __init__(self, *, endpoint: str | None = None, region: str | None = None, profile: str | None = None,
                 key_id: str | None = None, secret: str | None = None, token: str | None = None, ca_file: str | None = None,
                 style: str = 'auto', balance: str | None = None, rank: int = 0, checksum: str = 'auto', connections: int = 0,
                 attempts: int = 0, timeout: float = 0, stall: float = 0, part: int = 0, anonymous: bool = False,
                 sign_body: bool = False) -> None:
        self._options: dict[str, Any] = {
            'endpoint': endpoint, 'region': region, 'profile': profile, 'key_id': key_id, 'secret': secret, 'token': token,
            'ca_file': ca_file, 'style': _choice('style', style, STYLES), 'rank': rank,
            'checksum': _choice('checksum', checksum, CHECKSUMS), 'connections': connections, 'attempts': attempts,
            'timeout_ms': int(timeout * 1000), 'stall_ms': int(stall * 1000), 'part': part,
            'flags': (1 if anonymous else 0) | (2 if sign_body else 0),
            'balance': 0 if balance is None else _choice('balance', balance, BALANCES)}
        self._core: S3Client | None = None
        self._process = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return self._options

    def __setstate__(self, options: dict[str, Any]) -> None:
        self._options, self._core, self._process, self._lock = options, None, 0, threading.Lock()

    def __repr__(self) -> str:
        return f'penstock.s3.Client(endpoint={self._options["endpoint"]!r}, region={self._options["region"]!r})'

    @property
    def core(self) -> S3Client:
        """The client of this process."""
        if self._core is not None and self._process == os.getpid():
            return self._core
        with self._lock:
            if self._core is not None and self._process != os.getpid():
                _forked.append(self._core)  # its thread is the parent's: it must not be closed here
                self._core = None
            if self._core is None:
                self._core, self._process = S3Client(**self._options), os.getpid()
            return self._core

    # ---- reads

    def get(self, uri: str, *, size: int | None = None) -> BytesView:
        """The whole object.  size: where it is known already, which saves a request."""
        return self.get_many([uri], sizes=None if size is None else [size])[0][1]

    def get_range(self, uri: str, offset: int, length: int | None = None) -> BytesView:
        """length bytes from offset on, or all from there on; fewer only at the end of the object."""
        if offset < 0 or (length is not None and length < 0):
            raise ValueError(f'offset {offset} and length {length} must not be negative')
        etag = None
        if length is None:
            size, _, etag = self.core.stat(uri)
            length = max(0, size - offset)
        view = BytesView(length)
        if length:
            (got, _), = self.core.fetch([(uri, view, 0, offset, length, etag)])
            if got < length:
                view._resize(got)
        return view

    def get_many(self, uris: Sequence[str], max_in_flight: int = 64, *,
                 sizes: Sequence[int] | None = None) -> builtins.list[tuple[str, BytesView]]:
        """[(uri, view)] in the order of the URIs; the first error is raised."""
        if max_in_flight < 1:
            raise ValueError(f'max_in_flight: {max_in_flight} is less than 1')
        out: builtins.list[tuple[str, BytesView]] = []
        step = max_in_flight if max_in_flight < 64 else _ROUND
        for at in range(0, len(uris), step):
            some = builtins.list(uris[at:at + step])
            views = self._read_known(some, sizes[at:at + step]) if sizes is not None else self._read_all(some)
            out += zip(some, views)
        return out

    def _read_known(self, uris: builtins.list[str], sizes: Sequence[int]) -> builtins.list[BytesView]:
        views = [BytesView(size) for size in sizes]
        told = self.core.fetch([(uri, view, 0, 0, len(view), None) for uri, view in zip(uris, views)])
        for view, (got, _) in zip(views, told):
            if got < len(view):
                view._resize(got)
        return views

    def _read_all(self, uris: builtins.list[str]) -> builtins.list[BytesView]:
        core = self.core
        views = [BytesView(_FIRST) for _ in uris]
        told = core.fetch([(uri, view, 0, 0, _FIRST, None) for uri, view in zip(uris, views)])
        more = []
        for i, (got, etag) in enumerate(told):
            if got == _FIRST:
                more.append((i, etag))
            elif got <= _TIGHT:
                tight = BytesView(got)
                tight._fill(views[i])
                views[i] = tight
            else:
                views[i]._resize(got)
        if more:
            self._read_rest(uris, views, more)
        return views

    def _read_rest(self, uris: builtins.list[str], views: builtins.list[BytesView], more: builtins.list[tuple[int, str]]) -> None:
        """Of objects that are longer than what was read: what is behind it, of the same object."""
        for (i, etag), (size, _, now) in zip(more, _together(self.core.stat, [uris[i] for i, _ in more], 32)):
            if now != etag:
                raise OSError(116, f'{uris[i]}: replaced while it was read')  # ESTALE
            views[i]._resize(size)
        self.core.fetch([(uris[i], views[i], _FIRST, _FIRST, len(views[i]) - _FIRST, etag)
                         for i, etag in more if len(views[i]) > _FIRST])

    def read_into(self, uri: str, memory: Any, offset: int = 0, *, etag: str | None = None) -> int:
        """Fill memory (anything with a writable buffer, without gaps) from offset on; how many bytes there were."""
        (got, _), = self.core.fetch([(uri, memory, 0, offset, memoryview(memory).nbytes, etag)])
        return got

    # ---- writes

    def put_bytes(self, uri: str, data: Any, *, new: bool = False, etag: str | None = None) -> str:
        """Put an object; its ETag.  new: it must not be there; etag: only in place of this one."""
        if memoryview(data).nbytes <= _PARTS_FROM or etag is not None:
            return self.core.put(uri, data, _NEW if new else 0, etag)
        upload = self.core.upload(uri, flags=_NEW if new else 0, expected=memoryview(data).nbytes)
        upload.write(data)
        return upload.commit() or self.core.stat(uri)[2]  # not every store tells it

    def put_many(self, items: Iterable[tuple[str, Any]], max_in_flight: int = 64) -> builtins.list[str]:
        """[(uri, data)], in flight together; all are tried, and the first error is raised."""
        return _together(lambda item: self.put_bytes(*item), builtins.list(items), max_in_flight)

    def copy(self, source: str, target: str) -> None:
        """Within the store, by the store."""
        self.core.copy(source, target)

    def delete(self, uri: str | Sequence[str], pattern: str | None = None) -> None:
        """One or several; with a pattern all that is below the URI and that the regular expression is found in."""
        if pattern is not None:
            if not isinstance(uri, str):
                raise TypeError('with a pattern: one URI')
            uris = self.list(uri, recursive=True, pattern=pattern)
        else:
            uris = [uri] if isinstance(uri, str) else builtins.list(uri)
        if uris:
            self.core.delete(uris)

    # ---- what is there

    def entries(self, uri: str, recursive: bool = False) -> Iterator[tuple[str, int, int, str, bool]]:
        """(URI, bytes, seconds since 1970, ETag, is it a prefix?), as they come."""
        bucket, _ = split(uri)
        for key, size, when, etag, prefix, _ in self.core.list(uri, _FLAT if recursive else 0):
            yield f's3://{bucket}/{key}', size, when, etag, prefix

    def list(self, uri: str, recursive: bool = False, pattern: str | None = None) -> builtins.list[str]:
        """URIs below a prefix; not recursive: up to the next slash, and those that end with one stand for more."""
        want = re.compile(pattern) if pattern is not None else None
        return [entry[0] for entry in self.entries(uri, recursive) if want is None or want.search(entry[0])]

    def stat(self, uri: str) -> dict[str, Any]:
        """size, last_modified, etag"""
        size, when, etag = self.core.stat(uri)
        stamp = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).isoformat() if when else None
        return {'size': size, 'last_modified': stamp, 'etag': etag}

    def exists(self, uri: str) -> bool:
        try:
            self.core.stat(uri)
        except FileNotFoundError:
            return False
        return True

    def stats(self) -> dict[str, Any]:
        """Requests, retries, bytes, endpoints of this process's client."""
        return self.core.stats()


def _together(function: Any, items: Sequence[Any], workers: int) -> builtins.list[Any]:
    if len(items) <= 1 or workers == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(len(items), workers)) as pool:
        return builtins.list(pool.map(function, items))


_forked: builtins.list[S3Client] = []
_default = Client()


def configure(**options: Any) -> None:
    """Options of Client() for the functions of this module, from now on."""
    global _default
    _default = Client(**options)


def client() -> Client:
    """The one that the functions of this module use."""
    return _default


class MultipartUploadWriter:
    """MultipartUploadWriter(bucket, key, *, part_size=16 MiB, max_in_flight=4, content_type=None, abort_on_drop=True)

    An object that is written bit by bit, its parts sent meanwhile; it is there when close() has returned, or
    not at all.  What is left without close(), or by an exception, is removed.  new: close() fails where it is there already.
    """

    def __init__(self, bucket: str, key: str, *, part_size: int = 16 * _MIB, max_in_flight: int = 4,
                 content_type: str | None = None, abort_on_drop: bool = True, client: Client | None = None, new: bool = False) -> None:
        if not abort_on_drop:
            raise ValueError('abort_on_drop: parts that nobody ends are always removed')
        if max_in_flight < 1:
            raise ValueError(f'max_in_flight: {max_in_flight} is less than 1')
        self.uri, self._part, self._bytes = f's3://{bucket}/{key}', part_size, 0
        self._reserved: bytearray | None = None
        self._core = (client or _default).core
        self._upload = self._core.upload(self.uri, part=part_size, in_flight=min(max_in_flight, 64), content_type=content_type,
                                         flags=_NEW if new else 0)

    @classmethod
    def from_uri(cls, uri: str, **options: Any) -> 'MultipartUploadWriter':
        return cls(*split(uri), **options)

    def write(self, data: Any) -> int:
        """The next bytes; how many."""
        count = memoryview(data).nbytes
        self._upload.write(data)
        self._bytes += count
        return count

    def reserve(self, size: int) -> memoryview:
        """Memory for the next bytes, to be filled and then committed."""
        if self._reserved is not None:
            raise ValueError('what was reserved has not been committed')
        self._reserved = bytearray(size)
        return memoryview(self._reserved)

    def commit(self, size: int) -> None:
        """So many bytes of what was reserved are the next."""
        if self._reserved is None or not 0 <= size <= len(self._reserved):
            raise ValueError(f'{size} bytes have not been reserved')
        data, self._reserved = self._reserved, None
        self.write(memoryview(data)[:size])

    def close(self) -> dict[str, Any]:
        """Make it the object: e_tag, total_bytes, parts."""
        etag = self._upload.commit() or self._core.stat(self.uri)[2]
        return {'e_tag': etag, 'total_bytes': self._bytes, 'parts': max(1, -(-self._bytes // self._part))}

    def abort(self) -> None:
        self._upload.abort()

    def __enter__(self) -> 'MultipartUploadWriter':
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def get(uri: str) -> BytesView:
    """The whole object."""
    return _default.get(uri)


def get_range(uri: str, offset: int, length: int | None = None) -> BytesView:
    """length bytes from offset on, or all from there on."""
    return _default.get_range(uri, offset, length)


def get_many(uris: Sequence[str], max_in_flight: int = 64) -> builtins.list[tuple[str, BytesView]]:
    """[(uri, view)], all in flight together."""
    return _default.get_many(uris, max_in_flight)


def put_bytes(uri: str, data: Any) -> None:
    """Put an object."""
    _default.put_bytes(uri, data)


def put_many(items: Iterable[tuple[str, Any]], max_in_flight: int = 64) -> None:
    """[(uri, data)], in flight together."""
    _default.put_many(items, max_in_flight)


def list(uri: str, recursive: bool = False, pattern: str | None = None) -> builtins.list[str]:
    """URIs below a prefix."""
    return _default.list(uri, recursive, pattern)


def stat(uri: str) -> dict[str, Any]:
    """size, last_modified, etag"""
    return _default.stat(uri)


def exists(uri: str) -> bool:
    return _default.exists(uri)


def delete(uri: str | Sequence[str], pattern: str | None = None) -> None:
    """One or several objects, or with a pattern those below the URI that it is found in."""
    _default.delete(uri, pattern)


def copy(source: str, target: str) -> None:
    """Within the store, by the store."""
    _default.copy(source, target)


def stats() -> dict[str, Any]:
    """Requests, retries, bytes, endpoints."""
    return _default.stats()
