# SPDX-License-Identifier: Apache-2.0
"""A KV store on local drives: values of any size, batches, asyncio.

    with penstock.Store(['/nvme0/kv', '/nvme1/kv'], 500 << 30) as store:
        store['key'] = value                       # bytes, arrays, tensors, GPU tensors
        store['key']                               # a bytearray, or KeyError
        store.set_many(keys, tensors)              # list of bool
        store.get_many(keys, tensors)              # list of bool; what is False holds anything
        store.prefix(keys)                         # how many from the first on are there
        store.clear()                              # forget everything

docs/store.md says what it promises.
"""
import errno
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ._penstock import StoreCore

if TYPE_CHECKING:
    import asyncio

GET, SET, EXISTS, DELETE = 1, 2, 3, 4
_ABSENT, _PREFIX, _TOUCH, _WHOLE = 1, 2, 4, 1 << 31

Key = str | bytes
_ns = 1_000_000_000


def _deadline(seconds: float | None) -> int:
    return 0 if seconds is None or seconds >= 1 << 32 else max(1, int(float(seconds) * _ns))


def folders(dirs: Any, inside: str = '') -> list[Any]:
    """The directories that an adapter is given, one or a list; with @inside those of that name in them."""
    names: list[Any] = [dirs] if isinstance(dirs, (str, bytes, os.PathLike)) else list(dirs)
    if not inside:
        return names
    for name in names:
        if '://' not in name:
            os.makedirs(name, exist_ok=True)
    return [os.path.join(name, inside) for name in names]


class Store(StoreCore):
    """Store(dirs, capacity, *, policy='s3fifo', ttl=0, memory=0, second_touch=False, ...)

    A key is bytes or text. Where a value is wanted or given, any object with memory will do: the
    buffer protocol, DLPack, tensors of torch on any device; a pair (address, bytes); or a list of
    these, which together are one value.
    """

    __iter__ = None  # keys are known by their hashes alone

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting: dict[int, 'asyncio.Future[list[int]]'] = {}
        self._loop: 'asyncio.AbstractEventLoop | None' = None

    def __enter__(self) -> 'Store':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- one key

    def get(self, key: Key, default: Any = None) -> Any:
        """The value as a bytearray, or default."""
        while True:
            (size,) = self._run(EXISTS, [key], None)
            if size < 0:
                return default
            value = bytearray(size)
            (got,) = self._run(GET, [key], [value], _WHOLE)
            if got >= 0:
                return value
            if got != -errno.EMSGSIZE:  # that would be another one meanwhile
                return default

    def set(self, key: Key, value: Any, *, ttl: int = 0, cost: int = 0) -> bool:
        """Whether it is stored."""
        return self._run(SET, [key], [value], 0, 0, ttl, cost)[0] >= 0

    def __getitem__(self, key: Key) -> bytearray:
        value: bytearray | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: Any) -> None:
        (r,) = self._run(SET, [key], [value])
        if r < 0:
            raise OSError(-r, f'{key!r} is not stored')

    def __delitem__(self, key: Key) -> None:
        (r,) = self._run(DELETE, [key], None)
        if r == -errno.ENOENT:
            raise KeyError(key)
        if r < 0:
            raise OSError(-r, f'{key!r}: the log does not know that it is deleted')

    def __contains__(self, key: Key) -> bool:
        return self._run(EXISTS, [key], None)[0] >= 0

    # ---- many keys

    def get_many(self, keys: Iterable[Key], values: Iterable[Any], *,
                 deadline: float | None = None) -> list[bool]:
        """Fill the memory of values; per key whether it holds the value now.

        A value that is longer or shorter than the memory is a miss.
        """
        return [r >= 0 for r in self._run(GET, keys, values, _WHOLE, _deadline(deadline))]

    def set_many(self, keys: Iterable[Key], values: Iterable[Any], *, absent: bool = False,
                 ttl: int = 0, cost: int = 0) -> list[bool]:
        """Per key whether it is stored; with absent, what is there is not written again."""
        flags = _ABSENT if absent else 0
        return [r >= 0 for r in self._run(SET, keys, values, flags, 0, ttl, cost)]

    def exists_many(self, keys: Iterable[Key]) -> list[bool]:
        """Per key whether it is there."""
        return [r >= 0 for r in self._run(EXISTS, keys, None)]

    def touch(self, keys: Iterable[Key]) -> list[bool]:
        """As exists_many(), and those that are there count as used, as if they had been read."""
        return [r >= 0 for r in self._run(EXISTS, keys, None, _TOUCH)]

    def delete_many(self, keys: Iterable[Key]) -> list[bool]:
        """Per key whether it was there, and is gone."""
        return [r >= 0 for r in self._run(DELETE, keys, None)]

    def prefix(self, keys: Sequence[Key]) -> int:
        """How many keys are there, from the first on and without a gap."""
        results = self._run(EXISTS, keys, None, _PREFIX)
        return next((i for i, r in enumerate(results) if r < 0), len(results))

    # ---- without waiting

    def submit(self, opcode: int, keys: Iterable[Key], values: Iterable[Any] | None = None, *,
               absent: bool = False, whole: bool = False, deadline: float | None = None,
               ttl: int = 0, cost: int = 0) -> int:
        """Start a batch (penstock.store.GET, ...); its ticket. Leave the memory alone until then.

        With whole, a value that does not fill the memory is a miss.
        """
        flags = (_ABSENT if absent else 0) | (_WHOLE if whole else 0)
        return self._submit(opcode, keys, values, flags, _deadline(deadline), ttl, cost)

    def drain(self) -> list[tuple[int, list[int]]]:
        """Finished batches: ticket and, per key, bytes or a negative errno value. Never waits."""
        return self._drain()

    async def run_async(self, opcode: int, keys: Iterable[Key],
                        values: Iterable[Any] | None = None, **how: Any) -> list[int]:
        """As submit(), and wait for it without holding up the event loop.

        All batches of a store must then be awaited in one event loop at a time, drain() be left to it,
        and close() be called there.  A task that is cancelled leaves its batch to end by itself.
        """
        import asyncio  # few programs need it, and it is large
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            if not self._loop.is_closed():
                raise RuntimeError('batches of this store are awaited in another event loop')
            self._loop, self._waiting = None, {}  # nobody is there any more
        ticket = self.submit(opcode, keys, values, **how)
        if self._loop is None:
            loop.add_reader(self.fileno(), self._wake)
            self._loop = loop
        self._waiting[ticket] = loop.create_future()
        return await asyncio.shield(self._waiting[ticket])

    def _wake(self) -> None:
        for ticket, results in self._drain():
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(results)
        if not self._waiting and self._loop is not None:
            self._loop.remove_reader(self.fileno())
            self._loop = None

    def close(self) -> None:
        """Wait for what is under way, and end. Who awaits a batch gets a ValueError."""
        fd = -1 if self._loop is None else self.fileno()
        super().close()
        loop, waiting, self._loop, self._waiting = self._loop, self._waiting, None, {}
        if loop is not None and not loop.is_closed():
            loop.remove_reader(fd)
            for future in waiting.values():
                if not future.done():
                    future.set_exception(ValueError('the store is closed'))

    @staticmethod
    def _log(lines: list[str]) -> None:
        """What was lost, and which directories are left out."""
        import logging  # few programs need it
        for line in lines:
            logging.getLogger('penstock').warning('penstock.Store: %s', line)

    def stats(self) -> dict[str, int]:
        """The counters of metrics(), by name."""
        rows = (line.split() for line in self.metrics().splitlines() if not line.startswith('#'))
        return {name.removeprefix('penstock_store_').removesuffix('_total'): int(value)
                for name, value in rows}


Store.__module__ = 'penstock'
