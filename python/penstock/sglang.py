# SPDX-License-Identifier: Apache-2.0
"""SGLang's HiCache storage on penstock.Store, as a dynamic back end:

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{"backend_name": "penstock",
      "module_path": "penstock.sglang", "class_name": "PenstockStorage", "interface_v1": 1,
      "dirs": ["/nvme0/kv"], "capacity_gb": 500}'

Each rank has a folder of its own in each directory and an equal share of the capacity. Where all ranks have
the same pages (MLA), SGLang has them written by one: that one has the store, and serves it to the others on its
machine. Pages are read into and written from the host pool in place (v1); the simple calls work on tensors.
docs/sglang.md says more.
"""
import contextlib
import errno
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

from . import _shared_store
from . import store as _store

# Of extra_config, which is SGLang's, too, what penstock.Store takes.
OPTIONS = ('policy', 'threads', 'io_threads', 'ttl', 'memory', 'log_bytes', 'engine', 'second_touch', 'durable', 'recent',
           'below')


def _parallel_value(name: str, default: int) -> int:
    """Of the processes of SGLang what a back end is not told: replicas (--dp-size) have configurations that are equal."""
    try:
        from sglang.srt.runtime_context import get_parallel
        return getattr(get_parallel(), name, None) or default
    except (ImportError, ValueError, RuntimeError):
        return default  # another version, or no such processes


def _ranks(config: Any) -> tuple[str, int, bool]:
    """A name for the store of this rank, how many there are, and whether it is this rank that writes it."""
    values = {name: getattr(config, name, None) for name in ('tp_rank', 'tp_size', 'dcp_rank', 'dcp_size')}
    writes = True
    if getattr(config, 'is_mla_model', False):
        values['tp_rank'], values['tp_size'] = values['dcp_rank'] or 0, values['dcp_size'] or 1
        writes = getattr(config, 'tp_rank', 0) == values['tp_rank']
    parts, count = [], _parallel_value('num_dp_ranks', 1)
    for name in ('tp', 'pp', 'attn_cp'):
        parts.append(f'{name}{values.get(f"{name}_rank", getattr(config, f"{name}_rank", 0)) or 0}')
        count *= values.get(f'{name}_size', getattr(config, f'{name}_size', 1)) or 1
    return '-'.join([*parts, f'dp{getattr(config, "dp_rank", 0) or _parallel_value("dp_rank", 0)}']), count, writes


def _open(folders: list[str], capacity: int, options: dict[str, Any]) -> _store.Store:
    try:
        return _store.Store(folders, capacity, **options)
    except OSError as why:
        if why.errno != errno.EBUSY:
            raise
        raise OSError(why.errno, f'{why.strerror}: "dirs" of another server of SGLang, or of a replica that this '
                      'version does not tell apart; each needs its own') from why


class PenstockStorage(HiCacheStorage):  # type: ignore[misc]
    """PenstockStorage(storage_config, kwargs); its options are in extra_config."""

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None) -> None:
        extra = dict(getattr(storage_config, 'extra_config', None) or {}) | dict(kwargs or {})
        dirs = extra.get('dirs')
        if not dirs or not extra.get('capacity_gb'):
            raise ValueError('extra_config needs "dirs" and "capacity_gb"')
        rank, count, writes = _ranks(storage_config)
        folders = _store.folders(dirs, rank)
        self._model = f'{getattr(storage_config, "model_name", None) or ""}\0'.encode()
        self._layout = b''
        deadline = extra.get('deadline_ms')
        self._deadline = None if deadline is None else deadline / 1000
        self._server: _shared_store.SharedStoreServer | None = None
        self._store: _store.Store | _shared_store.SharedStoreClient
        socket_path = f'{folders[0]}.socket'
        if not writes:
            self._store = _shared_store.SharedStoreClient(socket_path)
            return
        options = {'recent': False} | {name: extra[name] for name in OPTIONS if name in extra}  # SGLang has that in its pool
        self._store = _open(folders, int(extra['capacity_gb'] * (1 << 30)) // count, options)
        if getattr(storage_config, 'is_mla_model', False) and storage_config.tp_size > 1:
            self._server = _shared_store.SharedStoreServer(self._store, socket_path)

    def _keys(self, keys: list[str]) -> list[bytes]:
        return [self._model + self._layout + key.encode() for key in keys]

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Pages of another model, or whose bytes lie in another order, are others: SGLang's hash is of tokens."""
        super().register_mem_pool_host(mem_pool_host)
        attributes = [getattr(mem_pool_host, name, '') for name in ('layout', 'dtype', 'page_size', 'layer_num', 'head_num',
                                                              'start_layer', 'end_layer', 'storage_format_tag')]
        self._layout = f'{attributes}\0'.encode()
        pool = getattr(mem_pool_host, 'kv_buffer', None)
        if getattr(pool, 'is_contiguous', bool)():  # a tensor; some pools have several, which work as they are
            with contextlib.suppress(OSError):
                self._store.register(pool)

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

    def clear(self) -> None:
        """Forget all pages, for all ranks that have these; an error if that is not so when it returns."""
        (self._server or self._store).clear()

    def get_stats(self) -> Any:
        return None  # SGLang has a type of its own for these; see metrics()

    def metrics(self) -> str:
        """Counters as text for Prometheus."""
        return self._store.metrics()

    def close(self) -> None:
        if self._server:
            self._server.close()
        self._store.close()
