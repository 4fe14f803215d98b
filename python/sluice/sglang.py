# SPDX-License-Identifier: Apache-2.0
"""SGLang's HiCache storage on sluice.Store, as a dynamic back end:

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{"backend_name": "sluice",
      "module_path": "sluice.sglang", "class_name": "SluiceStorage", "interface_v1": 1,
      "dirs": ["/nvme0/kv"], "capacity_gb": 500}'

Each rank has a folder of its own in each directory and an equal share of the capacity. Pages are read into
and written from the host pool in place (v1); the simple calls work on tensors.
"""
import os
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

from . import store as _store


def _ranks(config: Any) -> tuple[str, int]:
    """A name for this rank, and how many there are."""
    parts, count = [], 1
    for name in ('tp', 'pp', 'attn_cp', 'dp'):
        rank, size = getattr(config, f'{name}_rank', 0), getattr(config, f'{name}_size', 1) or 1
        parts.append(f'{name}{rank}')
        count *= size
    return '-'.join(parts), count


class SluiceStorage(HiCacheStorage):  # type: ignore[misc]
    """SluiceStorage(storage_config, kwargs); its options are in extra_config."""

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None) -> None:
        extra = dict(getattr(storage_config, 'extra_config', None) or {}) | dict(kwargs or {})
        dirs = extra.get('dirs')
        if not dirs or not extra.get('capacity_gb'):
            raise ValueError('extra_config needs "dirs" and "capacity_gb"')
        rank, count = _ranks(storage_config)
        names = [dirs] if isinstance(dirs, str) else list(dirs)
        for name in names:
            if '://' not in name:
                os.makedirs(name, exist_ok=True)
        options = {k: v for k, v in extra.items()
                   if k in ('policy', 'ttl', 'memory', 'threads', 'io_threads', 'second_touch',
                            'recent', 'engine', 'below')}
        self._model = f'{getattr(storage_config, "model_name", None) or ""}\0'.encode()
        self._layout = b''
        deadline = extra.get('deadline_ms')
        self._deadline = None if deadline is None else deadline / 1000
        self._store = _store.Store([os.path.join(name, rank) for name in names],
                                   int(extra['capacity_gb'] * (1 << 30)) // count, **options)

    def _keys(self, keys: list[str]) -> list[bytes]:
        return [self._model + self._layout + key.encode() for key in keys]

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Pages of another model, or whose bytes lie in another order, are others: SGLang's hash is of tokens."""
        super().register_mem_pool_host(mem_pool_host)
        said = [getattr(mem_pool_host, name, '') for name in ('layout', 'dtype', 'page_size', 'layer_num', 'head_num',
                                                              'start_layer', 'end_layer', 'storage_format_tag')]
        self._layout = f'{said}\0'.encode()

    # ---- pages of the host pool, in place

    def _pages(self, keys: list[str], host_indices: Any) -> list[Any]:
        """Per key the addresses of its page: one, or several that together are the value."""
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        each, rest = divmod(len(pointers), len(keys)) if keys else (1, 0)
        if rest or not each and keys:
            raise ValueError(f'{len(pointers)} buffers for {len(keys)} pages')
        pairs = list(zip(map(int, pointers), map(int, sizes), strict=True))
        return [pairs[i * each:(i + 1) * each] for i in range(len(keys))]

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._store.get_many(self._keys(keys), self._pages(keys, host_indices),
                                    deadline=self._deadline)

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._store.set_many(self._keys(keys), self._pages(keys, host_indices), absent=True)

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        return self._store.prefix(self._keys(keys))

    # ---- the simple ones

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self.batch_get([key], [target_location], target_sizes)[0]

    def batch_get(self, keys: list[str], target_locations: Any = None,
                  target_sizes: Any = None) -> list[Any]:
        """Per key the tensor that was given, filled, or None."""
        targets = list(target_locations or [None] * len(keys))
        if any(t is None for t in targets):
            raise ValueError('a tensor to read into is needed for each key')
        good = self._store.get_many(self._keys(keys), targets, deadline=self._deadline)
        return [t if ok else None for t, ok in zip(targets, good, strict=True)]

    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        return self.batch_set([key], [value if value is not None else target_location])

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        values = values if values is not None else target_locations
        return all(self._store.set_many(self._keys(keys), values, absent=True))

    def exists(self, key: str) -> bool:
        return self._keys([key])[0] in self._store

    def delete(self, key: str) -> bool:
        return self._store.delete_many(self._keys([key]))[0]

    def get_stats(self) -> Any:
        return None  # SGLang has a type of its own for these; see metrics()

    def metrics(self) -> str:
        """Counters as text for Prometheus."""
        return self._store.metrics()

    def close(self) -> None:
        self._store.close()
