#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Striped files on throttled block devices: n of them against one, one that is slow, and saves.

    stripe.py [--penstock PROGRAM] [--mover PROGRAM] [--behind PROGRAM] [--rate MB/S] [--size MIB] [--rounds N]
              [--only rates,saves,behind]

Loop devices on files in memory, each limited by the kernel's own throttle (cgroup), so that a
machine with one disk has four. Root only. One round measures every case in turn; what is printed are
medians over the rounds and their ratios.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
V1, V2 = '/sys/fs/cgroup/blkio', '/sys/fs/cgroup'


def run(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, **more).stdout.decode().strip()


@contextlib.contextmanager
def loops(count, size):
    """Block devices of @size bytes."""
    with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
        devices = []
        try:
            for i in range(count):
                path = os.path.join(folder, str(i))
                with open(path, 'wb') as f:
                    os.posix_fallocate(f.fileno(), 0, size)
                devices.append(run('losetup', '-f', '--show', path))
            yield devices
        finally:
            for device in devices:
                run('losetup', '-d', device)


class Throttle:
    """A group of processes with a limit on each device."""

    def __init__(self):
        self.old = os.path.exists(V1 + '/blkio.throttle.read_bps_device')
        self.path = (V1 if self.old else V2) + f'/penstock-perf-{os.getpid()}'
        os.mkdir(self.path)

    def put(self, name, text):
        with open(os.path.join(self.path, name), 'w') as f:
            f.write(text)

    def limit(self, device, rate):
        number = os.stat(device).st_rdev
        dev = f'{os.major(number)}:{os.minor(number)}'
        if self.old:
            self.put('blkio.throttle.read_bps_device', f'{dev} {rate}')
            self.put('blkio.throttle.write_bps_device', f'{dev} {rate}')
        else:
            self.put('io.max', f'{dev} rbps={rate} wbps={rate}')

    def enter(self):
        self.put('cgroup.procs', str(os.getpid()))

    def close(self):
        os.rmdir(self.path)


def measure(throttle, mover, mode, path, size):
    line = run(mover, mode, '-f', path, '-s', str(size), preexec_fn=throttle.enter)
    return json.loads(line)


def rates(throttle, args, devices):
    """n members against one, and with one at half speed."""
    rate, size = args.rate * 1000000, args.size << 20
    got = {}
    with tempfile.TemporaryDirectory() as folder:
        stripes = {n: os.path.join(folder, f'of-{n}') for n in (2, 4)}
        for _ in range(args.rounds):
            for n, slow in ((1, False), (2, False), (4, False), (4, True)):
                for i, device in enumerate(devices):
                    throttle.limit(device, rate // 2 if slow and i == 0 else rate)
                path = devices[0]
                if n > 1:
                    path = stripes[n]
                    run(args.penstock, 'stripe', 'create', path, '--force', *devices[:n])
                for mode in ('overwrite', 'read'):
                    sample = measure(throttle, args.mover, mode, path, size)
                    got.setdefault((mode, n, slow), []).append(size / sample['seconds'])
                if n > 1:
                    run(args.penstock, 'stripe', 'rm', path)
    print(f'{"":10} {"members":>8} {"GB/s":>7} {"of one":>7} {"of what the layout gives":>25}')
    for mode in ('read', 'overwrite'):
        one = statistics.median(got[mode, 1, False])
        for n, slow in ((1, False), (2, False), (4, False), (4, True)):
            median = statistics.median(got[mode, n, slow])
            best = n * one / (2 if slow else 1)
            print(f'{mode:10} {n:>8} {median / 1e9:7.3f} {median / one:7.2f} {median / best:25.3f}'
                  + ('  one at half speed' if slow else ''))


def saves(throttle, penstock, devices, size, rate, rounds):
    """Checkpoints (penstock gen) on one device's file system, and striped over two; each replaces the one before."""
    got = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        rooms = []
        for i, device in enumerate(devices[:2]):
            rooms.append(os.path.join(folder, str(i)))
            os.mkdir(rooms[i])
            run('mkfs.ext4', '-q', '-F', '-m', '0', device)
            run('mount', device, rooms[i])
            ends.callback(run, 'umount', rooms[i])
            throttle.limit(device, rate * 10**6)
        both = os.path.join(rooms[0], 'both')
        run(penstock, 'stripe', 'create', '--as-folder', both, *rooms)
        for _ in range(rounds + 1):  # the first replaces nothing
            for n, name in ((1, rooms[0] + '/plain'), (2, both + '/striped')):
                start = time.monotonic()
                run(penstock, 'gen', name, '-s', str(size), '--overwrite', preexec_fn=throttle.enter)
                got[n].append(size / (time.monotonic() - start))
    one, two = (statistics.median(got[n][1:]) for n in (1, 2))
    print(f'save       {1:>8} {one / 1e9:7.3f} {1:7.2f}')
    print(f'save       {2:>8} {two / 1e9:7.3f} {two / one:7.2f} {two / one / 2:25.3f}')


# Of each member, the first of which has a twentieth of the speed: bytes of a read, how many, what else.
BEHIND = {'units of 2 MiB': (2 << 20, 24), 'late by 0.5 s': (2 << 20, 24, '-w', '500'),
          'odd address': (2 << 20, 24, '-o'), '1 MiB, odd address': (1 << 20, 48, '-o'),
          '4 KiB': (4096, 2000), '4 KiB, odd address': (4096, 2000, '-o'), '4 KiB, depth 32': (4096, 2000, '-d', '32')}


def behind(throttle, penstock, program, devices, rate, rounds):
    """Reads of one member behind those of a slow one."""
    got = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'striped')
        run(penstock, 'stripe', 'create', path, '--force', '--unit', '2M', *devices[:2])
        throttle.limit(devices[0], rate * 10**6 // 20)
        throttle.limit(devices[1], rate * 10**6)
        for _ in range(rounds):
            for name, (size, count, *more) in BEHIND.items():
                line = run(program, '-f', path, '-u', str(2 << 20), '-s', str(size), '-c', str(count), *more,
                           preexec_fn=throttle.enter)
                got.setdefault(name, []).append(json.loads(line))
        run(penstock, 'stripe', 'rm', path)
    print(f'{"behind a slow member":22} {"alone s":>8} {"behind s":>8} {"all s":>8}')
    for name, samples in got.items():
        print(f'{name:22}', *(f'{statistics.median(s[key] for s in samples):8.3f}' for key in ('alone', 'behind', 'all')))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--penstock', default=os.path.join(ROOT, 'build', 'penstock'))
    p.add_argument('--mover', default=os.path.join(ROOT, 'build', 'tests', 'perf', 'perf-mover'))
    p.add_argument('--behind', default=os.path.join(ROOT, 'build', 'tests', 'perf', 'perf-behind'))
    p.add_argument('--only', default='rates,saves,behind')
    p.add_argument('--rate', type=int, default=200, help='of each device, MB/s')
    p.add_argument('--size', type=int, default=128, help='of a transfer, MiB')
    p.add_argument('--rounds', type=int, default=3)
    args = p.parse_args()
    size = args.size << 20
    only = args.only.split(',')
    with loops(4, size + (64 << 20)) as devices, contextlib.closing(Throttle()) as throttle:
        if 'rates' in only:
            rates(throttle, args, devices)
        if 'saves' in only:  # old and new one of both
            saves(throttle, args.penstock, devices, size // 4, args.rate, args.rounds)
        if 'behind' in only:
            behind(throttle, args.penstock, args.behind, devices, args.rate, args.rounds)


if __name__ == '__main__':
    main()
