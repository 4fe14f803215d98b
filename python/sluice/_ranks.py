# SPDX-License-Identifier: Apache-2.0
"""Ranks of a run on several machines: who this process is, and meeting the others.

There is no MPI here, only a folder that all ranks share.  Each has a file in it that says which
point it has reached and, every few seconds, that it lives; it is replaced as a whole.  A rank that
is dead, or has given up, is not waited for.  Files of another run, which a crash may have left,
mean nothing: the ranks of one run find each other by numbers made up at its start, which rank 0
reads from the others and says back.
"""
import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

LOOK = 0.05  # seconds between looks at files and children
BEAT = 2.0  # seconds between signs of life


def write_whole(path: str, text: str) -> None:
    """Whole, or not at all, and through no link that somebody has put there."""
    fresh = f'{path}.new'
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with open(fd, 'w', encoding='utf-8') as f:
        f.write(text)
    os.replace(fresh, path)


class Rank(NamedTuple):
    """This process among those that mpirun has started; one of one without it."""

    rank: int
    size: int
    local_size: int


def _number(*names: str) -> int | None:
    for name in names:
        text = os.environ.get(name)
        if text is not None:
            if not text.isdecimal() or int(text) > 1000000:
                raise ValueError(f"{name}: '{text}' is not a number of 0..1000000")
            return int(text)
    return None


def this_rank() -> Rank:
    """From the environment; ValueError where that makes no sense."""
    rank = _number('OMPI_COMM_WORLD_RANK', 'PMI_RANK')
    if rank is None:
        return Rank(0, 1, 1)
    size = _number('OMPI_COMM_WORLD_SIZE', 'PMI_SIZE')
    local = _number('OMPI_COMM_WORLD_LOCAL_SIZE', 'MPI_LOCALNRANKS')
    return Rank(rank, 1 if size is None else size, local or 1)


def _born(pid: int) -> str | None:
    """When a process of this machine was started; None where it is no more."""
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as f:
            rest = f.read().rpartition(')')[2].split()
    except OSError:
        return None
    return None if rest[0] in 'ZX' else rest[19]


def _machine() -> str:
    """Where numbers of processes mean the same."""
    with contextlib.suppress(OSError), open('/proc/sys/kernel/random/boot_id', encoding='ascii') as f:
        return f.read().strip() + os.readlink('/proc/self/ns/pid')
    return secrets.token_hex(8)


class Meeting:
    """The other ranks.  One rank alone meets nobody, and leaves no file."""

    def __init__(self, folder: str, me: Rank, timeout: float, say: Callable[[str], None]) -> None:
        self.me, self.timeout = me, timeout
        self.lost: set[int] = set()
        self._folder, self._say, self._beaten = folder, say, 0.0
        self._over = False
        self._seen: dict[int, tuple[Any, float]] = {}
        self._mine: dict[str, Any] = {
            'self': secrets.token_hex(8), 'run': secrets.token_hex(8) if me.rank == 0 else None,
            'ranks': {}, 'at': 0, 'beat': 0, 'gone': False, 'failures': [],
            'pid': os.getpid(), 'born': _born(os.getpid()), 'machine': _machine()}

    # ---- files

    def _path(self, rank: int) -> str:
        return os.path.join(self._folder, f'.meet.{rank}')

    def _write(self) -> None:
        if self.me.size == 1:
            return
        self._mine['beat'] += 1
        self._beaten = time.monotonic()
        write_whole(self._path(self.me.rank), json.dumps(self._mine))

    def _read(self, rank: int) -> dict[str, Any]:
        """What the rank says; {} where nothing, or nothing that makes sense."""
        with contextlib.suppress(OSError, ValueError), open(self._path(rank), encoding='ascii') as f:
            said = json.load(f)
            return said if isinstance(said, dict) else {}
        return {}

    def beat(self) -> None:
        """Say that this rank lives; to be called all the time."""
        if time.monotonic() - self._beaten > BEAT:
            self._write()

    # ---- the others

    def _dead(self, rank: int, said: dict[str, Any]) -> str | None:
        """Why the rank is not to be waited for; None: it is."""
        if said.get('run') == self._mine['run'] is not None:
            if said.get('gone'):
                return 'has given up'
            if said.get('machine') == self._mine['machine']:
                return None if _born(said['pid']) == said['born'] else 'is dead'
        sign, since = self._seen.get(rank, (None, 0.0))
        if not since or sign != said.get('beat'):
            self._seen[rank] = said.get('beat'), time.monotonic()
        elif time.monotonic() - since > self.timeout:
            return f'has given no sign of life for {self.timeout:g} s'
        return None

    def _wait(self, rank: int, there: Callable[[dict[str, Any]], bool]) -> Iterator[None]:
        """Until what the rank says is right, or it is lost."""
        self._seen.pop(rank, None)
        while rank not in self.lost and not there(said := self._read(rank)):
            why = self._dead(rank, said)
            if why:
                self.lost.add(rank)
                self._say(f'rank {rank} {why}: going on without it')
                return
            self.beat()
            yield

    def _gather(self) -> Iterator[None]:
        """Rank 0: all have said who they are, and know which run this is."""
        for rank in range(1, self.me.size):
            def knows(said: dict[str, Any], rank: int = rank) -> bool:
                if said.get('run') == self._mine['run']:
                    return True
                if said.get('self') != self._mine['ranks'].get(str(rank)):
                    self._mine['ranks'][str(rank)] = said.get('self')
                    self._write()
                return False
            yield from self._wait(rank, knows)

    def _join(self) -> Iterator[None]:
        """The others: rank 0 has said who we are.  It waits for the others first."""
        def knows(said: dict[str, Any]) -> bool:
            return said.get('ranks', {}).get(str(self.me.rank)) == self._mine['self']
        self.timeout *= 2
        yield from self._wait(0, knows)
        self.timeout /= 2
        if 0 in self.lost:
            raise TimeoutError(f'rank {self.me.rank}: rank 0 has not taken it into the run')
        self._mine['run'] = self._read(0)['run']
        self._write()

    def begin(self) -> Iterator[None]:
        """Find the others.  As meet()."""
        if self.me.size > 1:
            self._write()
            yield from self._gather() if self.me.rank == 0 else self._join()

    def arrive(self) -> None:
        """At the next point, whoever else is there."""
        self._mine['at'] += 1
        self._write()

    def meet(self) -> Iterator[None]:
        """Arrive, and wait for the others; to be looked at until it ends."""
        self.arrive()
        for rank in range(self.me.size):
            if rank != self.me.rank:
                yield from self._wait(rank, lambda said: said.get('run') == self._mine['run']
                                      and said.get('at', 0) >= self._mine['at'])

    def finish(self) -> None:
        """Arrive at the last point, where only the first rank waits; it removes the files."""
        self.arrive()
        self._over = True

    def is_first(self) -> bool:
        """Is this the rank that speaks for all?"""
        return all(rank in self.lost for rank in range(self.me.rank))

    def fail(self, failure: dict[str, Any]) -> None:
        self._mine['failures'].append(failure)

    def failures(self) -> list[dict[str, Any]]:
        """Of all ranks that have told."""
        said = (self._read(rank) for rank in range(self.me.size) if rank != self.me.rank)
        return [f for s in said if s.get('run') == self._mine['run'] for f in s.get('failures', [])
                ] + list(self._mine['failures'])

    def leave(self) -> None:
        """Do not wait for this rank any more."""
        if not self._over:
            self._mine['gone'] = True
            self._write()

    def end(self) -> None:
        """By the first rank, when nobody waits any more."""
        self._over = True
        for rank in range(self.me.size):
            with contextlib.suppress(OSError):
                os.unlink(self._path(rank))
