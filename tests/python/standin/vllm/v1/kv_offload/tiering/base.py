# SPDX-License-Identifier: Apache-2.0
"""The names of vLLM 0.33's secondary tiers that penstock.vllm uses, and nothing behind them."""
import abc
import dataclasses
import enum
from typing import Any


class LookupResult(enum.Enum):
    MISS = enum.auto()
    HIT = enum.auto()
    HIT_PENDING = enum.auto()
    RETRY = enum.auto()


class Medium(enum.Enum):
    CPU = 'cpu'
    STORAGE = 'storage'


class RequestOffloadingContext:
    pass


@dataclasses.dataclass
class TransferJob:
    job_id: int
    keys: list[bytes]
    chunk_ids: Any
    is_promotion: bool
    req_context: Any


@dataclasses.dataclass
class JobResult:
    job_id: int
    success: bool
    successful_keys: Any = None
    transfer_time: float | None = None
    transfer_bytes: int | None = None


class SecondaryTierManager(abc.ABC):
    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
        self.tier_type = tier_type
        self._primary_kv_view = primary_kv_view

    @abc.abstractmethod
    def lookup(self, key, req_context): ...

    @abc.abstractmethod
    def submit_store(self, job_metadata): ...

    @abc.abstractmethod
    def submit_load(self, job_metadata): ...

    @abc.abstractmethod
    def get_finished_jobs(self): ...

    @abc.abstractmethod
    def on_new_request(self, req_context): ...

    @abc.abstractmethod
    def drain_jobs(self): ...
