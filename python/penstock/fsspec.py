# SPDX-License-Identifier: Apache-2.0
"""Objects of S3 stores for fsspec: penstock://BUCKET/KEY.

    fsspec.open('penstock://bucket/key'), pandas.read_parquet('penstock://bucket/table.parquet'), ...
    fsspec.filesystem('penstock', endpoint='http://host:9000')     # options of penstock.s3.Client()

Found by fsspec where penstock is installed as a package; elsewhere fsspec.register_implementation('penstock', FileSystem).
Folders are prefixes: mkdir does nothing, and what has no objects is not there.
"""
import datetime
import os
from typing import Any

from fsspec.spec import AbstractFileSystem

from .compat.s3torchconnector import S3Reader, S3Writer
from .s3 import BytesView, Client, split

__all__ = ['FileSystem']

_PART = 16 << 20


class _File(S3Reader):
    """With what fsspec and its users ask a file for beside its bytes."""

    mode = 'rb'

    def __init__(self, fs: 'FileSystem', path: str, block_size: Any) -> None:
        super().__init__(fs.client, *split(fs._uri(path)), window=block_size if isinstance(block_size, int) else 8 << 20)
        self.fs, self.path, self.size = fs, path, self.info.size  # which says whether it is there


class FileSystem(AbstractFileSystem):  # type: ignore[misc]
    """FileSystem(**options of penstock.s3.Client())"""

    protocol = 'penstock'
    root_marker = ''

    def __init__(self, *args: Any, **options: Any) -> None:
        mine = {k: v for k, v in options.items() if k not in ('asynchronous', 'loop', 'use_listings_cache', 'skip_instance_cache')}
        super().__init__(*args, **options)
        self.client = Client(**mine)

    def _uri(self, path: str) -> str:
        return 's3://' + str(self._strip_protocol(path))

    @staticmethod
    def _entry(name: str, size: int, when: int, etag: str, prefix: bool) -> dict[str, Any]:
        if prefix:
            return {'name': name.rstrip('/'), 'size': 0, 'type': 'directory'}
        return {'name': name, 'size': size, 'type': 'file', 'ETag': etag,
                'LastModified': datetime.datetime.fromtimestamp(when, datetime.timezone.utc)}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        uri = self._uri(path)
        name = uri[5:]
        if '/' in name:
            try:
                size, when, etag = self.client.core.stat(uri)
                return self._entry(name, size, when, etag, False)
            except FileNotFoundError:
                pass
        # A bucket is there without objects, a folder is not.
        below = next(iter(self.client.core.list(uri + '/', 0)), None)
        if below is None and '/' in name:
            raise FileNotFoundError(path)
        return self._entry(name, 0, 0, '', True)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        uri = self._uri(path)
        if uri == 's3://':
            raise ValueError('penstock://: the name of a bucket is needed')
        below = uri.rstrip('/') + '/'
        found = [self._entry(e[0][5:], e[1], e[2], e[3], e[4]) for e in self.client.entries(below) if e[0] != below]
        if not found:
            only = self.info(path)
            found = [only] if only['type'] == 'file' else []
        found.sort(key=lambda entry: str(entry['name']))
        return found if detail else [entry['name'] for entry in found]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        uri = self._uri(path)
        if not start and end is None:
            return self.client.get(uri).to_bytes()
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.client.core.stat(uri)[0]
            start = max(0, size + start) if start is not None and start < 0 else start
            end = size + end if end is not None and end < 0 else end
        first = start or 0
        return self.client.get_range(uri, first, None if end is None else max(0, end - first)).to_bytes()

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: int | None = None, on_error: str = 'return',
                   **options: Any) -> list[Any]:
        """All in flight together; where one fails, or is counted from an end, each for itself."""
        starts, ends = ([v] * len(paths) if v is None or isinstance(v, int) else list(v) for v in (starts, ends))
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError(f'{len(paths)} paths, {len(starts)} starts and {len(ends)} ends')
        if all(start is not None and end is not None and 0 <= start < end for start, end in zip(starts, ends)):
            views = [BytesView(end - start) for start, end in zip(starts, ends)]
            try:
                told = self.client.core.fetch([(self._uri(path), view, 0, start, len(view), None)
                                               for path, view, start in zip(paths, views, starts)])
                return [bytes(view.memoryview()[:got]) for view, (got, _) in zip(views, told)]
            except OSError:
                pass
        return list(super().cat_ranges(paths, starts, ends, max_gap, on_error=on_error, **options))

    def pipe_file(self, path: str, value: Any, mode: str = 'overwrite', **_: Any) -> None:
        self.client.put_bytes(self._uri(path), value, new=mode == 'create')

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        self.client.copy(self._uri(path1), self._uri(path2))

    def rm_file(self, path: str) -> None:
        self.client.core.stat(self._uri(path))  # a store says nothing of what was not there
        self.client.delete(self._uri(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        paths = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        self.client.delete([self._uri(one) for one in paths if '/' in one])

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Folders are there when something is in them."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Folders are there when something is in them."""

    def modified(self, path: str) -> Any:
        return self.info(path)['LastModified']

    def _open(self, path: str, mode: str = 'rb', block_size: int | None = None, **_: Any) -> Any:
        bucket, key = split(self._uri(path))
        if mode == 'rb':
            return _File(self, path, block_size)
        if mode in ('wb', 'xb'):
            if mode == 'xb' and self.exists(path):
                raise FileExistsError(path)
            return S3Writer(self.client, bucket, key, _PART, new=mode == 'xb')  # another may put it meanwhile
        raise ValueError(f'{os.fspath(path)}: mode {mode} is neither rb nor wb: objects are written as a whole')
