# SPDX-License-Identifier: Apache-2.0
"""Ranks of a run on several machines, for a command that is Python.

`penstock --ranks` is the rank, as of the commands in C (docs/hosts.md): it finds the others, waits for
them and notices who is lost.  The command is its child, asks it over a socket, and gets a signal
when the others have to stop.
"""
import contextlib
import os
import socket
import sys
from typing import NamedTuple

POLL_SECONDS = 0.05  # seconds between looks at children


def write_atomically(path: str, text: str) -> None:
    """Whole, or not at all, and through no link that somebody has put there."""
    fresh = f'{path}.new'
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with open(fd, 'w', encoding='utf-8') as f:
        f.write(text)
    os.replace(fresh, path)


class Rank(NamedTuple):
    """This process among those that a launcher has started; one of one without it."""

    rank: int
    size: int
    local_size: int


def _read_env_number(*names: str) -> int | None:
    for name in names:
        text = os.environ.get(name)
        if text is not None:
            if not text.isdecimal() or int(text) > 1000000:
                raise ValueError(f"{name}: '{text}' is not a number of 0..1000000")
            return int(text)
    return None


def this_rank() -> Rank:
    """From the environment; ValueError where that makes no sense."""
    rank = _read_env_number('OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'SLURM_PROCID')
    if rank is None:
        return Rank(0, 1, 1)
    size = _read_env_number('OMPI_COMM_WORLD_SIZE', 'PMI_SIZE', 'SLURM_STEP_NUM_TASKS')
    local = _read_env_number('OMPI_COMM_WORLD_LOCAL_SIZE', 'MPI_LOCALNRANKS')
    return Rank(rank, 1 if size is None else size, local or 1)


def exec_under_ranks(program: str, words: list[str]) -> None:
    """Where a launcher has started several of us: go on as the child of a rank."""
    if this_rank().size > 1 and 'PENSTOCK_RANKS_FD' not in os.environ and os.environ.get('PENSTOCK_MPI') != 'off':
        os.execv(program, ['penstock', '--ranks', sys.executable, '-m', 'penstock', *words])


class RankGroup:
    """This rank and the others, through the process that `penstock --ranks` runs.  One rank alone waits for none."""

    def __init__(self) -> None:
        self.me = Rank(0, 1, 1)
        fd = os.environ.get('PENSTOCK_RANKS_FD')
        if fd is None:
            return
        self._socket = socket.socket(fileno=int(fd))
        os.set_inheritable(int(fd), False)
        self._file = self._socket.makefile('rwb')
        rank, size = map(int, self._read_line().split())
        if size == 1 and this_rank().rank > 0:
            raise ValueError('the ranks cannot find each other: start them by MPI, or set PENSTOCK_MEET')
        self.me = Rank(rank, size, this_rank().local_size)

    def _read_line(self) -> str:
        line = self._file.readline()
        if not line.endswith(b'\n'):
            raise ConnectionError('the process that knows the other ranks is gone')
        return line.decode().rstrip('\n')

    def barrier(self) -> None:
        """Wait for all others that are not lost."""
        if self.me.size > 1:
            self._file.write(b'gate\n')
            self._file.flush()
            self._read_line()

    def gather(self, text: str) -> list[tuple[str | None, str]]:
        """In rank 0: what each has texts, or None and why it has not; in others nothing."""
        if self.me.size == 1:
            return [(text, '')]
        data = text.encode()
        self._file.write(b'say %d\n' % len(data) + data)
        self._file.flush()
        if self.me.rank:
            self._read_line()
            return []
        texts: list[tuple[str | None, str]] = []
        for _ in range(self.me.size):
            line = self._read_line()
            if line.isdecimal():
                texts.append((self._file.read(int(line)).decode(), ''))
            else:
                texts.append((None, line.removeprefix('lost ')))
        return texts
