# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints of torch, written and read by penstock.

    import torch.distributed.checkpoint as dcp
    import penstock.dcp

    dcp.save(state, storage_writer=penstock.dcp.CheckpointWriter('checkpoint'))
    dcp.load(state, storage_reader=penstock.dcp.CheckpointReader('checkpoint'))

Planning, metadata and resharding are torch's, and so are the files: each side reads what the other
has written.  What is different: every file appears complete, durable and with checksums; a checkpoint
in the same folder stays whole until the new one is; tensors are read straight into their places.
"""
import concurrent.futures
import contextlib
import io
import os
import pickle
import uuid
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint import filesystem as _torch_filesystem
from torch.distributed.checkpoint.planner import WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _dcp_files, s3
from ._atomic_writer import MEMORY, Writer
from ._dcp_read import CheckpointLoad
from ._penstock import crc32
from ._range_reader import Reader, content, is_uri
from ._torch_save import Plan

__all__ = ['CheckpointReader', 'CheckpointWriter']


class _FileSystem(_torch_filesystem.FileSystem):  # type: ignore[misc]
    """Files that appear when they are complete, for what torch itself writes."""

    def __init__(self, options: dict[str, Any], verify: bool | str = True) -> None:
        self._options, self._verify = options, verify

    def init_path(self, path: Any) -> Any:
        return path.rstrip('/') if is_uri(path) else super().init_path(path)

    def concat_path(self, path: Any, suffix: str) -> Any:
        return f'{path}/{suffix}' if is_uri(path) else super().concat_path(path, suffix)

    def mkdir(self, path: Any) -> None:
        if not is_uri(path):
            super().mkdir(path)

    def exists(self, path: Any) -> bool:
        return s3.exists(path) if is_uri(path) else super().exists(path)

    def rm_file(self, path: Any) -> None:
        if is_uri(path):
            s3.delete(path)
        else:
            super().rm_file(path)

    def rename(self, path: Any, new_path: Any) -> None:
        if is_uri(path):
            s3.copy(path, new_path)
            s3.delete(path)
        else:
            super().rename(path, new_path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return is_uri(checkpoint_id) or super().validate_checkpoint_id(checkpoint_id)

    @contextlib.contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        if mode == 'rb':
            yield io.BytesIO(_dcp_files.check_crc(bytes(content(path)), path, self._verify))
            return
        with Writer(path, **self._options) as output:
            yield _Stream(output)


class _Stream(io.RawIOBase):
    """For torch, which closes what it was given before it knows that all went well."""

    def __init__(self, output: Writer) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._output.write(data)

    def tell(self) -> int:
        return self._output.tell()


class CheckpointWriter(FileSystemWriter):  # type: ignore[misc]
    """In place of torch.distributed.checkpoint.FileSystemWriter; same arguments, and of our own:

    memory: of the pool of each file that is being written; checksum: a FILE.crc beside each.
    """

    def __init__(self, path: str | os.PathLike[str], single_file_per_rank: bool = True,
                 sync_files: bool = True, thread_count: int = 1, *args: Any,
                 memory: int = MEMORY, checksum: bool = True, **kwargs: Any) -> None:
        # What torch syncs it syncs with all else that the machine has to write; our files are
        # synced when they are committed.
        super().__init__(path, single_file_per_rank, False, thread_count, *args, **kwargs)
        self._options: dict[str, Any] = {'memory': memory, 'durable': sync_files, 'checksum': checksum}
        self.fs = _FileSystem(self._options)
        self.path = self.fs.init_path(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return _FileSystem.validate_checkpoint_id(checkpoint_id)

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        _dcp_files.begin_save(self.path, self._own_rank())  # finish() ends it, of a save that failed the next one
        return cast(list[Any], super().prepare_global_plan(plans))

    def write_data(self, plan: Any, planner: Any) -> 'Future[list[WriteResult]]':
        torchs_format = getattr(self, 'serialization_format', None)
        if self.transforms.extensions or getattr(torchs_format, 'value', '') == 'safetensors':
            return super().write_data(plan, planner)
        buckets = [[item] for item in plan.items]
        if self.single_file_per_rank:
            buckets = _torch_filesystem._split_by_size_and_type(self.thread_count, plan.items)
        # Names that no checkpoint has had, so that an older one in the folder stays whole.
        names = [f'{plan.storage_data.prefix}{i}.{uuid.uuid4().hex}{_torch_filesystem.DEFAULT_SUFFIX}'
                 for i in range(len(buckets))]
        with concurrent.futures.ThreadPoolExecutor(self.thread_count) as pool:
            results = list(pool.map(lambda a: self._write_file(planner, *a), zip(names, buckets)))
        future: Future[list[WriteResult]] = Future()
        future.set_result([result for some in results for result in some])
        return future

    def _write_file(self, planner: Any, name: str, items: list[Any]) -> list[WriteResult]:
        results = []
        with Writer(self.fs.concat_path(self.path, name), **self._options) as output:
            # As torch has it: first what is not a tensor.
            for item in sorted(items, key=lambda item: item.type != WriteItemType.BYTE_IO):
                start = output.tell()
                data = planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    output.write(data.getbuffer())
                else:
                    Plan(_alone(data), None, 2, location='cpu').send(output)
                length = output.tell() - start
                info = _torch_filesystem._StorageInfo(name, start, length)
                results.append(WriteResult(item.index, length, info))
        return results

    def finish(self, metadata: Any, results: list[list[WriteResult]]) -> None:
        """The new metadata take the place of the old in one step; what was only theirs goes then."""
        path = self._get_metadata_path(None if self.use_collectives else self.rank)
        metadata.version = _torch_filesystem.CURRENT_DCP_VERSION
        metadata.storage_data = {r.index: r.storage_data for some in results for r in some}
        metadata.storage_meta = self.storage_meta()
        named = {info.relative_path for info in metadata.storage_data.values()}
        data = pickle.dumps(metadata)
        try:
            with Writer(path, **{**self._options, 'checksum': False}) as output:
                output.write(data + _dcp_files.END % crc32(data))
                _dcp_files.require_files(self.path, named)
                before, since = _dcp_files.names_in(path), _dcp_files.time_of(path)
            _dcp_files.remove_old(path, before, since, self._own_rank())
        finally:
            _dcp_files.end_save(self.path)

    def _own_rank(self) -> str:
        """Of one that publishes metadata for itself alone."""
        return '' if getattr(self, 'use_collectives', True) or self.rank is None else str(self.rank)


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose storage holds nothing else."""
    tensor = tensor.detach()
    if tensor.device.type not in ('cpu', 'cuda'):
        tensor = tensor.cpu()
    if tensor.untyped_storage().size() != tensor.nbytes:
        tensor = tensor.clone()
    return tensor


# ---- reading


class CheckpointReader(FileSystemReader):  # type: ignore[misc]
    """In place of torch.distributed.checkpoint.FileSystemReader; verify as in penstock.torch.load()."""

    def __init__(self, path: str | os.PathLike[str], *args: Any, verify: bool | str = True,
                 **kwargs: Any) -> None:
        super().__init__(path, *args, **kwargs)
        self._verify = verify
        self.fs = _FileSystem({}, verify)
        self.path = self.fs.init_path(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return _FileSystem.validate_checkpoint_id(checkpoint_id)

    def read_data(self, plan: Any, planner: Any) -> 'Future[None]':
        CheckpointLoad(lambda name: Reader(self.fs.concat_path(self.path, name), verify=self._verify),
             self.storage_data, planner, self.transforms).run(plan.items)
        future: Future[None] = Future()
        future.set_result(None)
        return future
