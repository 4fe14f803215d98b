# SPDX-License-Identifier: Apache-2.0
"""A secondary tier for vLLM's KV offloading on penstock.Store, loaded by module path:

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
      "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": N,
        "secondary_tiers": [{"type": "PenstockTier", "module_path": "penstock.vllm",
                             "dirs": ["/nvme0/kv"], "capacity_gb": 500}]}}'

Blocks are read from and written into the shared memory of the primary tier in place. No call waits
for a device. vLLM calls this interface experimental, and it has changed names: those of 0.33 and of
before are known here. docs/vllm.md says more.
"""
import contextlib
import hashlib
import operator
import re
import select
import time
from typing import Any

from vllm.v1.kv_offload.tiering import base

from . import store as _store


# What lookup() says, in the terms of this vLLM.
_results = getattr(base, 'LookupResult', None)
MISS, HIT, RETRY = (_results.MISS, _results.HIT, _results.RETRY) if _results else (False, True, None)


# vLLM's hash of a block is one of tokens.  This is what its bytes depend on beside them: the model, and
# how they lie in memory.
_MODEL = 'config.model.name', 'vllm_config.model_config.model'
_LAYOUT = ('config.model.dtype', 'config.cache', 'config.groups', 'config.parallel.tp_size',
           'config.parallel.pp_size', 'config.parallel.pcp_size', 'config.parallel.dcp_size',
           'config.replicated_layout', 'config.canonical_layout', 'config.kv_cache_layout',
           'vllm_config.model_config.dtype', 'vllm_config.cache_config.cache_dtype',
           'vllm_config.cache_config.block_size', 'vllm_config.parallel_config.tensor_parallel_size',
           'vllm_config.parallel_config.pipeline_parallel_size')


def _read_attributes(spec: Any, names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = str(operator.attrgetter(name)(spec))
        except AttributeError:
            pass  # another version of vLLM
    return found


def _identity(spec: Any) -> bytes:
    """The beginning of each key: blocks of another model, or in another layout, are other blocks."""
    model = _read_attributes(spec, _MODEL)
    if not model:
        raise ValueError('vLLM does not say which model it serves: blocks of several could not be told apart')
    return hashlib.sha256(repr((model, _read_attributes(spec, _LAYOUT))).encode()).digest()[:16]


def _replica(spec: Any) -> str:
    """A folder for this engine of several with data parallel: their names then end in _dpN."""
    engine_id = ''.join(_read_attributes(spec, ('config.engine_id', 'vllm_config.kv_transfer_config.engine_id')).values())
    found = re.search(r'_(dp\d+)$', engine_id)
    return found[1] if found else ''


def _make_supported(cls: type, **values: Any) -> Any:
    """An object of a data class with those of the fields that it has."""
    fields = getattr(cls, '__dataclass_fields__', values)
    return cls(**{name: value for name, value in values.items() if name in fields})


class PenstockTier(base.SecondaryTierManager):  # type: ignore[misc]
    """PenstockTier(spec, view, tier_type, dirs, capacity_gb, deadline_ms=None, **options)"""

    if hasattr(base, 'Medium'):
        medium = base.Medium.STORAGE

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, *,
                 dirs: list[str] | str, capacity_gb: float, deadline_ms: float | None = None,
                 locality: str | None = None, backpressure_detector: Any = None,
                 **options: Any) -> None:
        more = () if backpressure_detector is None else (backpressure_detector,)
        super().__init__(offloading_spec, primary_kv_view, tier_type, *more)
        if locality is not None:
            self.locality = base.Locality(locality)
        if not primary_kv_view.strides or not primary_kv_view.c_contiguous:
            raise ValueError('the memory of the primary tier is not contiguous')
        self._identity = _identity(offloading_spec)
        row = primary_kv_view.strides[0]
        self._view = primary_kv_view.cast('B') if primary_kv_view.ndim > 1 else primary_kv_view
        self._rows = [self._view[at:at + row] for at in range(0, len(self._view), row)]
        self._store = _store.Store(_store.folders(dirs, _replica(offloading_spec)), int(capacity_gb * (1 << 30)),
                                   **{'recent': False, **options})  # what is recent vLLM has in its memory
        with contextlib.suppress(OSError):  # it works without
            self._store.register(self._view)
        self._deadline = None if deadline_ms is None else deadline_ms / 1000
        self._jobs: dict[int, tuple[int, list[bytes], float, bool]] = {}  # by ticket
        self._ended: list[Any] = []
        self._storing: dict[bytes, int] = {}  # keys on their way in, and how often

    def _memory(self, job: Any) -> list[memoryview]:
        ids = getattr(job, 'chunk_ids', None)
        ids = job.block_ids if ids is None else ids
        return [self._rows[i] for i in ids]

    def _start(self, opcode: int, job: Any, **how: Any) -> None:
        keys = list(map(bytes, job.keys))
        ticket = self._store.submit(opcode, [self._identity + k for k in keys], self._memory(job), **how)
        stores = opcode == _store.SET
        self._jobs[ticket] = job.job_id, keys, time.monotonic(), stores
        for key in keys if stores else ():
            self._storing[key] = self._storing.get(key, 0) + 1

    # ---- what vLLM calls

    def lookup(self, key: Any, req_context: Any = None) -> Any:
        if self._identity + bytes(key) in self._store:
            return HIT
        return RETRY if bytes(key) in self._storing else MISS

    def submit_store(self, job_metadata: Any) -> None:
        # A key is the hash of its content: what is there is not written again.
        self._start(_store.SET, job_metadata, absent=True)

    def submit_load(self, job_metadata: Any) -> None:
        self._start(_store.GET, job_metadata, whole=True, deadline=self._deadline)

    def get_finished_jobs(self) -> list[Any]:
        """Jobs that have ended; one whose keys did not all succeed says which ones did."""
        self._collect()
        ended, self._ended = self._ended, []
        return ended

    get_finished = get_finished_jobs

    def _collect(self) -> None:
        self._ended += [self._result(ticket, results) for ticket, results in self._store.drain()]

    def _result(self, ticket: int, results: list[int]) -> Any:
        job_id, keys, since, stores = self._jobs.pop(ticket)
        for key in keys if stores else ():
            self._storing[key] -= 1
            if not self._storing[key]:
                del self._storing[key]
        good = [key for key, r in zip(keys, results, strict=True) if r >= 0]
        return _make_supported(base.JobResult, job_id=job_id, success=len(good) == len(keys),
                     successful_keys=good, transfer_time=time.monotonic() - since,
                     transfer_bytes=sum(r for r in results if r > 0))

    def touch(self, keys: Any, req_context: Any = None) -> None:
        """What is used above stays here, too."""
        self._store.touch([self._identity + bytes(key) for key in keys])

    def on_new_request(self, req_context: Any) -> Any:
        """No preference: whatever is offloaded comes here."""
        context = getattr(base, 'RequestOffloadingContext', None)
        return context() if context else None

    def has_pending_work(self) -> bool:
        return bool(self._jobs or self._ended)

    def drain_jobs(self) -> None:
        """Wait until nothing touches the memory of the primary tier."""
        finished = select.poll()  # select() knows no descriptor above 1023, and servers have many
        finished.register(self._store.fileno(), select.POLLIN)
        while self._jobs:
            finished.poll()
            self._collect()

    def metrics(self) -> str:
        """Counters as text for Prometheus."""
        return self._store.metrics()

    def shutdown(self) -> None:
        self._store.close()
        self._rows.clear()
        self._view.release()  # vLLM unmaps that memory next
