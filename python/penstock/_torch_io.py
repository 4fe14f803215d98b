# SPDX-License-Identifier: Apache-2.0
"""`penstock io --engine torch_io` and `torch_fastio`: what torch.save() reaches, as in ds_io.

torch_io is torch.save() to a file and fsync(2); torch_fastio is torch.save() through a
FastFileWriter.  Both are durable, so that they can be compared.  The result lines are ds_io's.
"""
import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from typing import Any

ENGINES = ('torch_io', 'torch_fastio')
_UNITS = {'K': 10, 'M': 20, 'G': 30}


def is_wanted(words: list[str]) -> bool:
    """Do the words after `io` ask for an engine of torch's?"""
    pairs = zip([*words, ''], [*words[1:], '', ''])
    return any(value in ENGINES for word, value in pairs if word == '--engine') or \
        any(word == f'--engine={engine}' for word in words for engine in ENGINES)


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 0)
    try:
        n = int(text[:-1] if unit else text) << unit
    except ValueError:
        n = 0
    if n <= 0:
        raise argparse.ArgumentTypeError(f'{text!r} is no size: a number with K, M or G')
    return n


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f'{text!r} is no number from 1 on')
    return int(text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        print(f'penstock io: {message}', file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    p = _Parser(prog='penstock io --engine torch_io', allow_abbrev=False,
                description='Write by torch.save(), durably, and tell how fast that is.')
    p.add_argument('--engine', choices=ENGINES, required=True)
    p.add_argument('--size', '--io_size', dest='io_size', type=_size, required=True,
                   help='bytes of the tensor')
    p.add_argument('--target', '--folder', dest='folder', help='for all processes')
    p.add_argument('--folder-to-device-mapping', '--folder_to_device_mapping', nargs='+', default=[], metavar='FOLDER:DEVICE',
                   help='one process each')
    p.add_argument('--fast-io-size', '--fast_io_size', type=_size, default=64 << 20,
                   help='locked memory of torch_fastio (64M)')
    p.add_argument('--torch-legacy-save', '--torch_legacy_save', action='store_true', help="torch's older format")
    p.add_argument('--workers', '--multi_process', dest='multi_process', type=_count, default=1, metavar='N', help='processes (1)')
    p.add_argument('--iterations', '--loops', dest='loops', type=_count, default=3, metavar='N', help='measured repetitions (3)')
    p.add_argument('--warmup', '--warmup_loops', dest='warmup_loops', type=int, default=1, help='repetitions before (1)')
    p.add_argument('--include-warmup-time', '--include_warmup_time', action='store_true')
    p.add_argument('--different-file-each-iteration', '--different_file_each_iteration', action='store_true')
    p.add_argument('--block-size', '--block_size', type=_size, default=1 << 20, help='of torch_fastio (1M)')
    p.add_argument('--queue-depth', '--queue_depth', type=_count, default=32, help='of torch_fastio (32)')
    p.add_argument('--threads', '--io_parallel', dest='io_parallel', type=_count, default=1, metavar='N', help='of torch_fastio (1)')
    p.add_argument('--single-submit', '--single_submit', action='store_true', help='of torch_fastio')
    p.add_argument('--sequential-requests', '--sequential_requests', action='store_true', help='of torch_fastio')
    p.add_argument('--gpu', action='store_true', help='the tensor is in GPU memory')
    p.add_argument('--keep', action='store_true', help='leave the files')
    p.add_argument('--read-only', '--read', dest='read', action='store_true', help=argparse.SUPPRESS)
    return p


def _folders(p: argparse.ArgumentParser, a: argparse.Namespace) -> list[tuple[str, str]]:
    if bool(a.folder) == bool(a.folder_to_device_mapping):
        p.error('one of --target and --folder_to_device_mapping is needed')
    pairs = [(a.folder, str(i)) for i in range(a.multi_process)] if a.folder else [
        (folder, device) for folder, _, device in
        (item.rpartition(':') for item in a.folder_to_device_mapping)]
    for folder, device in pairs:
        if not folder or not device.isdigit():
            p.error(f'--folder_to_device_mapping: {folder}:{device} is not FOLDER:DEVICE')
        if not os.path.isdir(folder):
            p.error(f'{folder}: no such folder')
    return pairs


class _Writes:
    """One process: a tensor, and how it is saved."""

    def __init__(self, a: argparse.Namespace, device: int) -> None:
        import torch

        import penstock.deepspeed as ours

        self._torch, self._ours, self._a = torch, ours, a
        where = f'cuda:{device}' if a.gpu else 'cpu'
        self._tensor = torch.empty(a.io_size, dtype=torch.uint8, device=where).fill_(device + 1)
        if a.engine == 'torch_fastio':
            self._handle = ours.aio_handle(a.block_size, a.queue_depth, a.single_submit,
                                           not a.sequential_requests, a.io_parallel)
            self._buffer = self._handle.new_cpu_locked_tensor(
                a.fast_io_size, torch.empty(0, dtype=torch.uint8))

    def save(self, path: str) -> None:
        new = not self._a.torch_legacy_save
        if self._a.engine == 'torch_io':
            with open(path, 'wb') as file:
                self._torch.save(self._tensor, file, _use_new_zipfile_serialization=new)
                file.flush()
                os.fsync(file.fileno())
            return
        config = self._ours.FastFileWriterConfig(self._handle, self._buffer)
        with self._ours.FastFileWriter(path, config) as writer:
            self._torch.save(self._tensor, writer, _use_new_zipfile_serialization=new)


def _work(a: argparse.Namespace, number: int, folder: str, device: int, barrier: Any,
          results: Any) -> None:
    made: set[str] = set()
    try:
        writes = _Writes(a, device)
        task = e2e = 0.0
        barrier.wait()
        for loop in range(a.warmup_loops + a.loops):
            name = f'_aio_write_{a.io_size}.pt.{number}_{loop if a.different_file_each_iteration else 0}'
            path = os.path.join(folder, name)
            made.add(path)
            start = time.perf_counter()
            writes.save(path)
            one = time.perf_counter() - start
            barrier.wait()
            if loop >= a.warmup_loops or a.include_warmup_time:
                task, e2e = task + one, e2e + time.perf_counter() - start
        results.put((task, e2e, ''))
    except BaseException as error:
        barrier.abort()
        results.put((0.0, 0.0, f'{type(error).__name__}: {error}'))
    finally:
        for path in () if a.keep else made:
            for name in path, f'{path}.crc':
                with contextlib.suppress(OSError):
                    os.unlink(name)


def main(words: list[str]) -> int:
    parser = _parser()
    a = parser.parse_args(words)
    if a.read:
        parser.error(f'--read-only: {a.engine} writes; what torch reads is measured by tests/perf/pyckpt.py')
    pairs = _folders(parser, a)
    context = multiprocessing.get_context('spawn')
    barrier, results = context.Barrier(len(pairs)), context.SimpleQueue()
    started = [context.Process(target=_work, args=(a, i, folder, int(device), barrier, results))
               for i, (folder, device) in enumerate(pairs)]
    for process in started:
        process.start()
    got = [results.get() for _ in started]
    for process in started:
        process.join()
    failed = [why for _, _, why in got if why and not why.startswith('BrokenBarrierError')]
    if failed:
        print(f'penstock io: {failed[0]}', file=sys.stderr)
        return 1
    loops = a.loops + (a.warmup_loops if a.include_warmup_time else 0)
    total = a.io_size * loops * len(pairs) / (1 << 30)
    for i, name in enumerate(('Task', 'E2E')):
        seconds = max(times[i] for times in got)
        print(f'{name} Write Latency = {seconds} sec')
        print(f'{name} Write Speed = {total / seconds} GB/sec')
    return 0
