# SPDX-License-Identifier: Apache-2.0
"""The names of s3torchconnector on penstock: a program moves over by its import.

    from penstock.compat.s3torchconnector import S3Checkpoint, S3ClientConfig, S3IterableDataset, S3MapDataset

Arguments and results are theirs.  Every option takes effect or is refused; docs/objects.md says how.  Objects of a
dataset are read when they are asked for; those of an iterable dataset are fetched ahead, several at once.
"""
import collections
import dataclasses
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._penstock import BytesView
from ..s3 import Client, MultipartUploadWriter, split

try:
    import torch.utils.data as _data
    _Dataset: Any = _data.Dataset
    _IterableDataset: Any = _data.IterableDataset
except ImportError:  # the datasets work without, for whoever iterates over them
    _data, _Dataset, _IterableDataset = None, object, object

__all__ = ['S3Checkpoint', 'S3Client', 'S3ClientConfig', 'S3Exception', 'S3IterableDataset', 'S3Item', 'S3MapDataset', 'S3Reader',
           'S3ReaderConstructor', 'S3Writer']

S3Exception = OSError  # what everything here raises when a store fails

_MIB = 1 << 20
_STRAIGHT = _MIB  # reads of this size and more go into the caller's memory
_AHEAD = 8  # objects of an iterable dataset that are fetched before they are asked for
_AHEAD_BYTES = 256 * _MIB  # and their bytes


@dataclasses.dataclass(frozen=True)
class S3ClientConfig:
    """Of a client: requests in flight follow throughput_target_gbps, 64 for 10 Gbit/s."""

    throughput_target_gbps: float = 10.0
    part_size: int = 8 * _MIB
    unsigned: bool = False
    force_path_style: bool = False
    max_attempts: int = 10
    profile: str | None = None
    requester_pays: bool = False

    def __post_init__(self) -> None:
        if self.requester_pays:
            raise ValueError('requester_pays: not supported')
        if not self.throughput_target_gbps > 0:
            raise ValueError(f'throughput_target_gbps: {self.throughput_target_gbps} is not above 0')

    def options(self) -> dict[str, Any]:
        """The same as arguments of penstock.s3.Client()."""
        return {'connections': max(4, min(1024, math.ceil(self.throughput_target_gbps * 6.4))), 'part': self.part_size,
                'anonymous': self.unsigned, 'style': 'path' if self.force_path_style else 'auto',
                'attempts': self.max_attempts, 'profile': self.profile}


@dataclasses.dataclass(frozen=True)
class ObjectInfo:
    key: str
    etag: str
    size: int
    last_modified: int = 0


@dataclasses.dataclass(frozen=True)
class ListObjectResult:
    object_info: list[ObjectInfo]
    common_prefixes: list[str]


class S3ReaderConstructor:
    """How a reader reads what is smaller than 1 MiB: through a window of so many bytes."""

    @staticmethod
    def sequential() -> int:
        return 8 * _MIB

    @staticmethod
    def range_based(buffer_size: int | None = None) -> int:
        if buffer_size is None:
            return 8 * _MIB
        if buffer_size < 0:
            raise ValueError(f'buffer_size: {buffer_size} is negative')
        return buffer_size

    @staticmethod
    def default() -> int:
        return 8 * _MIB


class S3Reader(io.BufferedIOBase):
    """An object as a file: bucket, key, read, readinto, seek, tell; as_view() is all of it without a copy."""

    def __init__(self, client: Client, bucket: str, key: str, info: ObjectInfo | None = None, window: int = 8 * _MIB) -> None:
        super().__init__()
        self.bucket, self.key = bucket, key
        self._client, self._info, self._window = client, info, window
        self._at = self._start = 0
        self._held: Any = b''

    @property
    def _uri(self) -> str:
        return f's3://{self.bucket}/{self.key}'

    @property
    def info(self) -> ObjectInfo:
        if self._info is None:
            size, when, etag = self._client.core.stat(self._uri)
            self._info = ObjectInfo(self.key, etag, size, when)
        return self._info

    def as_view(self) -> BytesView:
        """The whole object, where it arrived."""
        return self._client.get(self._uri, size=None if self._info is None else self._info.size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        if base is None:
            base = self.info.size
        if base + offset < 0:
            raise ValueError(f'seek: {base + offset} is before the start')
        self._at = base + offset
        return self._at

    def readinto(self, memory: Any) -> int:
        into = memoryview(memory).cast('B')
        count = max(0, min(len(into), self.info.size - self._at))
        if not count:
            return 0
        if count >= max(_STRAIGHT, 1) or not self._window:
            got = self._client.read_into(self._uri, into[:count], self._at, etag=self.info.etag or None)
        else:
            if not self._start <= self._at <= self._start + len(self._held) - count:
                length = min(max(self._window, count), self.info.size - self._at)
                held = bytearray(length)
                self._client.read_into(self._uri, held, self._at, etag=self.info.etag or None)
                self._held, self._start = memoryview(held), self._at
            first = self._at - self._start
            into[:count] = self._held[first:first + count]
            got = count
        self._at += got
        return got

    readinto1 = readinto

    def read(self, size: int | None = -1) -> bytes:
        if (size is None or size < 0) and self._at == 0 and self._info is None:
            data = bytes(self.as_view())  # without asking for its size first
            self._at = len(data)
            return data
        rest = max(0, self.info.size - self._at)
        data = bytearray(rest if size is None or size < 0 else min(size, rest))
        got = self.readinto(data) if data else 0
        return bytes(memoryview(data)[:got])

    read1 = read


S3Item = S3Reader


class S3Writer(io.RawIOBase):
    """An object that is written from start to end; there when it is closed, not at all after an exception."""

    def __init__(self, client: Client, bucket: str, key: str, part: int, new: bool = False) -> None:
        super().__init__()
        self._at, self._over = 0, False
        self._writer = MultipartUploadWriter(bucket, key, part_size=part, max_in_flight=8, client=client, new=new)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        count = self._writer.write(data)
        self._at += count
        return count

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._writer.close()
        super().close()

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None and not self._over:
            self._over = True
            self._writer.abort()
        self.close()

    def __del__(self) -> None:
        # Who forgets to close has not said that it is complete.
        self._over = True


class S3Client:
    """S3Client(region, *, endpoint=None, user_agent=None, s3client_config=None)"""

    def __init__(self, region: str, *, endpoint: str | None = None, user_agent: Any = None,
                 s3client_config: S3ClientConfig | None = None) -> None:
        self.region, self.endpoint = region, endpoint
        self.s3client_config = s3client_config or S3ClientConfig()
        self.client = Client(region=region, endpoint=endpoint or None, **self.s3client_config.options())

    def get_object(self, bucket: str, key: str, *, object_info: ObjectInfo | None = None,
                   reader_constructor: int | None = None) -> S3Reader:
        window = S3ReaderConstructor.default() if reader_constructor is None else reader_constructor
        return S3Reader(self.client, bucket, key, object_info, window)

    def put_object(self, bucket: str, key: str, storage_class: str | None = None) -> S3Writer:
        if storage_class not in (None, 'STANDARD'):
            raise ValueError(f'storage_class: {storage_class} is not supported')
        return S3Writer(self.client, bucket, key, self.s3client_config.part_size)

    def list_objects(self, bucket: str, prefix: str = '', delimiter: str = '',
                     max_keys: int = 1000) -> Iterator[ListObjectResult]:
        """In groups of max_keys."""
        if delimiter not in ('', '/'):
            raise ValueError(f'delimiter: {delimiter!r} is neither empty nor /')
        objects: list[ObjectInfo] = []
        prefixes: list[str] = []
        for key, size, when, etag, is_prefix, _ in self.client.core.list(f's3://{bucket}/{prefix}', 0 if delimiter else 1):
            if is_prefix:
                prefixes.append(key)
            else:
                objects.append(ObjectInfo(key, etag, size, when))
            if len(objects) + len(prefixes) >= max_keys:
                yield ListObjectResult(objects, prefixes)
                objects, prefixes = [], []
        if objects or prefixes:
            yield ListObjectResult(objects, prefixes)

    def head_object(self, bucket: str, key: str) -> ObjectInfo:
        size, when, etag = self.client.core.stat(f's3://{bucket}/{key}')
        return ObjectInfo(key, etag, size, when)

    def delete_object(self, bucket: str, key: str) -> None:
        self.client.delete(f's3://{bucket}/{key}')

    def copy_object(self, src_bucket: str, src_key: str, dst_bucket: str, dst_key: str) -> None:
        self.client.copy(f's3://{src_bucket}/{src_key}', f's3://{dst_bucket}/{dst_key}')


def identity(item: Any) -> Any:
    return item


class _Objects:
    """Which objects a dataset has: those below a prefix, or those that are named."""

    def __init__(self, prefix: str | None, uris: Iterable[str] | str | None) -> None:
        self.prefix = prefix
        self.named = [split(uri) for uri in ([uris] if isinstance(uris, str) else uris or [])]
        if prefix is not None:
            split(prefix)

    def find(self, client: S3Client) -> Iterator[tuple[str, str, ObjectInfo | None]]:
        if self.prefix is None:
            yield from ((bucket, key, None) for bucket, key in self.named)
            return
        bucket, prefix = split(self.prefix)
        for page in client.list_objects(bucket, prefix):
            yield from ((bucket, info.key, info) for info in page.object_info if not info.key.endswith('/'))


class _S3Dataset:
    def __init__(self, region: str, objects: _Objects, endpoint: str | None, transform: Callable[[S3Reader], Any],
                 s3client_config: S3ClientConfig | None, reader_constructor: int | None) -> None:
        self._region, self._endpoint, self._objects, self._transform = region, endpoint, objects, transform
        self._client = S3Client(region, endpoint=endpoint, s3client_config=s3client_config)
        self._constructor = reader_constructor

    @property
    def region(self) -> str:
        return self._region

    @property
    def endpoint(self) -> str | None:
        return self._endpoint

    @classmethod
    def from_objects(cls, object_uris: str | Iterable[str], *, region: str, endpoint: str | None = None,
                     transform: Callable[[S3Reader], Any] = identity, s3client_config: S3ClientConfig | None = None,
                     reader_constructor: int | None = None, **options: Any) -> Any:
        return cls(region, _Objects(None, object_uris), endpoint, transform, s3client_config, reader_constructor, **options)

    @classmethod
    def from_prefix(cls, s3_uri: str, *, region: str, endpoint: str | None = None,
                    transform: Callable[[S3Reader], Any] = identity, s3client_config: S3ClientConfig | None = None,
                    reader_constructor: int | None = None, **options: Any) -> Any:
        return cls(region, _Objects(s3_uri, None), endpoint, transform, s3client_config, reader_constructor, **options)

    def _reader(self, found: tuple[str, str, ObjectInfo | None]) -> S3Reader:
        bucket, key, info = found
        return self._client.get_object(bucket, key, object_info=info, reader_constructor=self._constructor)


class S3MapDataset(_S3Dataset, _Dataset):  # type: ignore[misc]
    """Objects by number; which there are is found out once, when it is first needed."""

    _list: list[tuple[str, str, ObjectInfo | None]] | None = None

    def _all(self) -> list[tuple[str, str, ObjectInfo | None]]:
        if self._list is None:
            self._list = list(self._objects.find(self._client))
        return self._list

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, i: int) -> Any:
        return self._transform(self._reader(self._all()[i]))


class _Ahead(S3Reader):
    """One whose bytes are there, or on their way."""

    def __init__(self, reader: S3Reader, future: Any) -> None:
        super().__init__(reader._client, reader.bucket, reader.key, reader._info, reader._window)
        self._future = future

    def as_view(self) -> BytesView:
        return self._future.result()

    def readinto(self, memory: Any) -> int:
        into, view = memoryview(memory).cast('B'), self.as_view().memoryview()[self._at:]
        count = min(len(into), len(view))
        into[:count] = view[:count]
        self._at += count
        return count


class S3IterableDataset(_S3Dataset, _IterableDataset):  # type: ignore[misc]
    """Objects one after the other; with enable_sharding each of them in one worker of one rank only."""

    def __init__(self, *args: Any, enable_sharding: bool = False) -> None:
        super().__init__(*args)
        self._sharding, self._ranks = enable_sharding, _rank()

    def __getstate__(self) -> dict[str, Any]:
        """Workers that are not forked know of no ranks: they are told here."""
        return {**self.__dict__, '_ranks': self._rank_now()}

    def _rank_now(self) -> tuple[int, int]:
        now = _rank()
        return now if now[1] > 1 else self._ranks

    def _share(self) -> tuple[int, int]:
        """(number of this one, of how many)"""
        if not self._sharding:
            return 0, 1
        rank, ranks = self._rank_now()
        worker = _data.get_worker_info() if _data else None
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        return rank * count + number, ranks * count

    def __iter__(self) -> Iterator[Any]:
        mine, of = self._share()
        found = (self._reader(one) for i, one in enumerate(self._objects.find(self._client)) if i % of == mine)
        waiting: collections.deque[tuple[S3Reader, int]] = collections.deque()
        held = 0
        with ThreadPoolExecutor(_AHEAD) as pool:
            for reader in found:
                size = reader._info.size if reader._info else 0
                ahead = size <= _AHEAD_BYTES // _AHEAD
                waiting.append((_Ahead(reader, pool.submit(reader.as_view)) if ahead else reader, size if ahead else 0))
                held += waiting[-1][1]
                while len(waiting) > _AHEAD or held > _AHEAD_BYTES:
                    held -= waiting[0][1]
                    yield self._transform(waiting.popleft()[0])
            while waiting:
                yield self._transform(waiting.popleft()[0])


def _rank() -> tuple[int, int]:
    try:
        import torch.distributed as dist
    except ImportError:
        return 0, 1
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class S3Checkpoint:
    """S3Checkpoint(region, endpoint=None, s3client_config=None, reader_constructor=None)

        with checkpoint.writer(uri) as f: torch.save(state, f)
        with checkpoint.reader(uri) as f: state = torch.load(f)
    """

    def __init__(self, region: str, endpoint: str | None = None, s3client_config: S3ClientConfig | None = None,
                 reader_constructor: int | None = None) -> None:
        self.region, self.endpoint, self._constructor = region, endpoint, reader_constructor
        self._client = S3Client(region, endpoint=endpoint, s3client_config=s3client_config)

    def reader(self, s3_uri: str) -> S3Reader:
        return self._client.get_object(*split(s3_uri), reader_constructor=self._constructor)

    def writer(self, s3_uri: str) -> S3Writer:
        return self._client.put_object(*split(s3_uri))
