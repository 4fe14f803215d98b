# SPDX-License-Identifier: Apache-2.0
"""LMCache's disk tier on penstock.Store: a "native plugin" of its L2 adapters.

    {"type": "native_plugin", "module_path": "penstock.lmcache", "class_name": "LMCacheBackend",
     "adapter_params": {"dirs": ["/nvme0/kv"], "capacity_gb": 500}}

The class has the six methods that LMCache asks for, and submit_batch_delete; nothing of LMCache is
imported. docs/lmcache.md says more.
"""
import threading
from typing import Any

from . import store as _store


class LMCacheBackend:
    """LMCacheBackend(dirs, capacity_gb, deadline_ms=None, **options of penstock.Store)"""

    def __init__(self, dirs: list[str] | str, capacity_gb: float, deadline_ms: float | None = None,
                 **options: Any) -> None:
        self._store = _store.Store(_store.folders(dirs), int(capacity_gb * (1 << 30)),
                                   **{'recent': False, **options})  # what is recent LMCache has in its memory
        self._deadline = None if deadline_ms is None else deadline_ms / 1000
        self._sets: set[int] = set()
        self._sets_lock = threading.Lock()  # one thread submits, another drains: not before it is known what it was

    def event_fd(self) -> int:
        return self._store.fileno()

    def submit_batch_get(self, keys: list[str], memoryviews: list[Any]) -> int:
        return self._store.submit(_store.GET, keys, memoryviews, whole=True, deadline=self._deadline)

    def submit_batch_set(self, keys: list[str], memoryviews: list[Any]) -> int:
        # A key names its content: what is there need not be written again.
        with self._sets_lock:
            ticket = self._store.submit(_store.SET, keys, memoryviews, absent=True)
            self._sets.add(ticket)
        return ticket

    def submit_batch_exists(self, keys: list[str]) -> int:
        return self._store.submit(_store.EXISTS, keys)

    def submit_batch_delete(self, keys: list[str]) -> int:
        return self._store.submit(_store.DELETE, keys)

    def drain_completions(self) -> list[tuple[int, bool, str, list[bool] | None]]:
        """(id, ok, error, per key).

        A miss is a result and no error. Of a set LMCache looks at ok alone, so that means all.
        """
        out: list[tuple[int, bool, str, list[bool] | None]] = []
        with self._sets_lock:
            drained = self._store.drain()
        for ticket, results in drained:
            good = [r >= 0 for r in results]
            ok = ticket not in self._sets or all(good)
            self._sets.discard(ticket)
            out.append((ticket, ok, '' if ok else f'{good.count(False)} values not stored', good))
        return out

    def metrics(self) -> str:
        """Counters as text for Prometheus."""
        return self._store.metrics()

    def close(self) -> None:
        self._store.close()
