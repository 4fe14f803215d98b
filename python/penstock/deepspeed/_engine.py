# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's CheckpointEngine: what it saves is torch's, durable, atomic and checked."""
import os
from concurrent.futures import Future
from typing import Any

import penstock.torch

from .._range_reader import is_uri

try:
    from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointEngine as _Base
except ImportError:  # its methods are all here
    _Base = object


class CheckpointEngine(_Base):  # type: ignore[misc]
    """For engine.checkpoint_engine of DeepSpeed's.

    With memory, save() returns when the tensors are copied into a pool of so many bytes, and commit(),
    which DeepSpeed calls at the end of the next step, waits for the files.
    """

    def __init__(self, config_params: Any = None, *, memory: int | None = None,
                 checksum: bool = True) -> None:
        if _Base is not object:
            super().__init__(config_params)
        self.name = 'PenstockCheckpointEngine'
        self._memory, self._checksum = memory, checksum
        self._under_way: list[Future[None]] = []
        self._info: Any = None

    def create(self, info: Any) -> None:
        self._info = info

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if not is_uri(path):  # a bucket has no folders
            os.makedirs(path, exist_ok=exist_ok)

    def save(self, state_dict: Any, path: str) -> None:
        if self._memory is None:
            penstock.torch.save(state_dict, path, checksum=self._checksum)
            return
        self._under_way.append(penstock.torch.save_async(
            state_dict, path, memory=self._memory, checksum=self._checksum))

    def load(self, path: str, map_location: Any = None) -> Any:
        """As DeepSpeed has it, with all that pickle can do: for files that you trust."""
        return penstock.torch.load(path, map_location, weights_only=False)

    def commit(self, info: Any) -> bool:
        """All files of the checkpoint are there, and will stay; raises what failed."""
        under_way, self._under_way = self._under_way, []
        failures = [error for error in (future.exception() for future in under_way) if error]
        self._info = None
        if failures:
            raise failures[0]
        return True

    def is_data_parallel_writer(self, dp_rank: int) -> bool:
        return dp_rank == 0

    def is_decoupled(self) -> bool:
        return self._memory is not None

    def set_commit_info(self, info: Any) -> None:
        self._info = info

    def get_commit_info(self) -> Any:
        return self._info

    def cleanup(self) -> None:
        self.commit(None)

    def preserves_storage_sharing(self) -> bool:
        return True
