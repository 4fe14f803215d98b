#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The KV store beside fio with the same sizes and depth on the same disk.

    store.py [--build DIR] [--dir DIR] [--rounds N] [--seconds S] [--only PART,...] [--json FILE]

They take turns, and ratios of medians are shown; beside them the bare loop of perf-bare with the same blocks and
depth, and what CRC-32C takes of the same memory. All go over as many bytes of a file in no order, with memory on huge
pages: fio's are reserved here (root only), else it has small ones, and that is said.  Promised: get and set of 1 to 20 MiB at least 0.90 of fio, of 64 KiB
0.85; CPU at most 0.03 s/GiB; 5 million keys a second for exists; 20 us for handing in 128 keys; 100 bytes of memory a
value, a million of them found in 2 s; batches back 5 ms after their deadline; two directories on two throttled devices
(root only) 1.9 times as fast as one.  The exit status says whether everything ran.
"""
import argparse
import contextlib
import json
import os
import select
import shutil
import statistics
import sys
import tempfile
import time

import fio
import stripe

# name: bytes of a value, how many, how many in flight
SIZES = {'64K': (64 << 10, 16384, 128), '1M': (1 << 20, 2048, 32), '4M': (4 << 20, 512, 16), '20M': (20 << 20, 100, 8)}
PARTS = [f'{op}-{size}' for size in SIZES for op in ('get', 'set')] + ['exists', 'submit', 'python', 'open', 'deadline', 'two']
GIB = 1 << 30


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--seconds', type=float, default=3)
    p.add_argument('--only', default=','.join(PARTS))
    p.add_argument('--json')
    return p.parse_args()


def program(args, name):
    return os.path.join(args.build, 'tests/perf', name)


def store_run(args, folder, op, size, count, depth, *words):
    return fio.program([program(args, 'perf-store'), op, os.path.join(folder, 'store'), str(size), str(count),
                        str(depth), str(args.seconds), *words])


def bare_run(args, folder, op, size, count, depth):
    """As many bytes as 400 MiB has values, anywhere in the file; it does that four times."""
    some = min(count, (400 << 20) // size) * size
    return fio.program([program(args, 'perf-bare'), 'read' if op == 'get' else 'overwrite', os.path.join(folder, 'fio'),
                        str(some), str(size), str(depth), str(size * depth), 'random'])


def fio_run(args, folder, memory, op, size, count, depth):
    """Random I/O of that size within as many bytes; what is written is there already."""
    out, _ = fio.call(['fio', '--name=job', f'--filename={os.path.join(folder, "fio")}',
                       f'--rw={"randread" if op == "get" else "randwrite"}', '--ioengine=io_uring', f'--bs={size}',
                       f'--iodepth={depth}', f'--size={size * count}', '--direct=1', *memory, '--time_based',
                       f'--runtime={args.seconds}', '--output-format=json'])
    job = json.loads(out)['jobs'][0]
    way = job['read' if op == 'get' else 'write']
    seconds = way['runtime'] / 1000
    return {'bytes': way['io_bytes'], 'seconds': seconds,
            'cpu_seconds': seconds * (job['usr_cpu'] + job['sys_cpu']) / 100}


def compare(args, name):
    op, size = name.split('-')
    rows = {'store': [], 'fio': [], 'bare': [], 'crc': []}
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='penstock-store-') as folder, contextlib.ExitStack() as undo:
        memory = fio.memories(undo, SIZES[size][0] * SIZES[size][2])[-1]
        fio.call(['fio', '--name=fill', f'--filename={os.path.join(folder, "fio")}', '--rw=write', '--bs=1m',
                  f'--size={SIZES[size][0] * SIZES[size][1]}', '--direct=1', '--ioengine=io_uring', '--iodepth=16'])
        for _ in range(args.rounds):
            rows['store'].append(store_run(args, folder, op, *SIZES[size], 'register'))
            rows['fio'].append(fio_run(args, folder, memory[1], op, *SIZES[size]))
            rows['bare'].append(bare_run(args, folder, op, *SIZES[size]))
            rows['crc'].append(store_run(args, folder, 'crc', *SIZES[size]))
    found = {'part': name, 'fio_on_huge_pages': bool(memory[1])}
    for who, runs in rows.items():
        found[f'{who}_gb_s'] = statistics.median(r['bytes'] / r['seconds'] / 1e9 for r in runs)
        found[f'{who}_cpu_s_gib'] = statistics.median(r['cpu_seconds'] / (r['bytes'] / GIB) for r in runs)
    found['ratio'] = found['store_gb_s'] / found['fio_gb_s']
    found['wear'] = rows['store'][-1]['wear']
    print(f'{name:9} store {found["store_gb_s"]:5.2f} GB/s {found["store_cpu_s_gib"]:.3f} CPU s/GiB   '
          f'fio {found["fio_gb_s"]:5.2f} {found["fio_cpu_s_gib"]:.3f}   bare {found["bare_gb_s"]:5.2f} '
          f'{found["bare_cpu_s_gib"]:.3f}   CRC {found["crc_cpu_s_gib"]:.3f}   of fio {found["ratio"]:.2f}', flush=True)
    return found


def alone(args, name):
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='penstock-store-') as folder:
        size = 65536 if name == 'submit' else 0
        runs = [store_run(args, folder, name, size, 1024 if size else 1000000, 4) for _ in range(args.rounds)]
    last = runs[-1]
    found = {'part': name, 'entries': last['entries'], 'bytes_per_entry': last['index_bytes'] / last['entries']}
    if name == 'exists':
        found['keys_per_second'] = statistics.median(r['keys'] / r['seconds'] for r in runs)
        print(f'exists    {found["keys_per_second"] / 1e6:.1f} million keys/s, 128 at a time')
    elif name == 'submit':
        found['call_us'] = [statistics.median(r['call_us'][i] for r in runs) for i in range(2)]
        print(f'submit    {found["call_us"][0]:.1f} us to hand in a get of 128 keys, p99 {found["call_us"][1]:.1f}')
    else:
        found['seconds'] = statistics.median(r['seconds'] for r in runs[1:] or runs)
        found['cpu_seconds'] = statistics.median(r['cpu_seconds'] for r in runs[1:] or runs)
        print(f'open      {last["recovered"]} values in {found["seconds"]:.2f} s ({found["cpu_seconds"]:.2f} s CPU), '
              f'{found["bytes_per_entry"]:.0f} bytes of memory each')
    return found


def python(args):
    """The same call from Python, four such batches at once: keys and memory are objects."""
    sys.path.insert(0, os.path.join(args.build, 'python'))
    import penstock.store
    size, nr = 65536, 128
    wall, cpu = [], []
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='penstock-store-') as folder, \
            penstock.Store(os.path.join(folder, 'store'), 1 << 30) as store, \
            memoryview(penstock.Memory(4 * nr * size)) as memory:
        keys = [f'model@0@0@{i:016x}' for i in range(8 * nr)]
        views = [memory[at:at + size] for at in range(0, len(memory), size)]
        assert all(store.set_many(keys[at:at + nr], views[:nr]) == [True] * nr for at in range(0, len(keys), nr))
        end, free = time.monotonic() + args.rounds * args.seconds, list(range(4))
        slots, n = {}, 0
        while slots or time.monotonic() < end:
            while free and time.monotonic() < end:
                some, at, n = keys[n % 8 * nr:][:nr], free.pop(), n + 1
                into = views[at * nr:(at + 1) * nr]
                times = time.perf_counter(), time.thread_time()
                ticket = store.submit(penstock.store.GET, some, into)
                cpu.append(time.thread_time() - times[1])
                wall.append(time.perf_counter() - times[0])
                slots[ticket] = at
            select.select([store.fileno()], [], [])
            for ticket, results in store.drain():
                assert min(results) == size
                free.append(slots.pop(ticket))
        del views, into
    found = {'part': 'python', 'calls': n, 'cpu_us': statistics.median(cpu) * 1e6,
             'call_us': [sorted(wall)[int(len(wall) * share)] * 1e6 for share in (0.5, 0.99)]}
    print(f'python    {found["call_us"][0]:.1f} us to hand in a get of 128 keys from Python, p99 {found["call_us"][1]:.1f}; '
          f'{found["cpu_us"]:.1f} us of CPU time')
    return found


def deadline(args):
    """Batches of 32 values of 1 MiB, four of them at once, which no disk here delivers in 5 or 20 ms."""
    found = {'part': 'deadline'}
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='penstock-store-') as folder:
        for ms in (5, 20):
            runs = [store_run(args, folder, 'deadline', 1 << 20, 512, 4, str(ms)) for _ in range(args.rounds)]
            late, sleep = ([statistics.median(r[of][i] for r in runs) for i in range(3)]
                           for of in ('late_ms', 'sleep_ms'))
            hits = statistics.median(r['hits'] / r['keys'] for r in runs)
            found[f'late_ms_{ms}'], found[f'sleep_ms_{ms}'] = late, sleep
            print(f'deadline  {ms:2} ms: late by ms, median {late[0]:.2f}, p99 {late[1]:.2f}, last {late[2]:.2f} (a thread '
                  f'that only sleeps {sleep[0]:.2f}, {sleep[1]:.2f}, {sleep[2]:.2f}); {hits:.2f} of the keys hit')
    return found


@contextlib.contextmanager
def mounted(devices):
    with tempfile.TemporaryDirectory(prefix='penstock-store-') as folder, contextlib.ExitStack() as stack:
        for i, device in enumerate(devices):
            path = os.path.join(folder, str(i))
            os.mkdir(path)
            fio.call(['mkfs.ext4', '-q', '-E', 'lazy_itable_init=0,lazy_journal_init=0', device])
            fio.call(['mount', device, path])
            stack.callback(fio.call, ['umount', path])
        yield [os.path.join(folder, str(i), 'store') for i in range(len(devices))]


def two(args, rate=200000000):
    """Values of 4 MiB in one directory on a throttled device, and in two on two."""
    got = {}
    with stripe.loops(2, 768 << 20) as devices, mounted(devices) as dirs, \
            contextlib.closing(stripe.Throttle()) as throttle:
        for device in devices:
            throttle.limit(device, rate)
        for _ in range(args.rounds):
            for n in (1, 2):
                for op in ('set', 'get'):
                    line = stripe.run(program(args, 'perf-store'), op, ','.join(dirs[:n]), str(4 << 20), '48', '16',
                                      str(args.seconds), 'register', preexec_fn=throttle.enter)
                    row = json.loads(line)
                    got.setdefault((op, n), []).append(row['bytes'] / row['seconds'])
                for name in dirs[:n]:
                    shutil.rmtree(name)
    found = {'part': 'two'}
    for op in ('get', 'set'):
        one, both = (statistics.median(got[op, n]) for n in (1, 2))
        found[op] = both / one
        print(f'two       {op}: {both / 1e9:.3f} GB/s, {both / one:.2f} of one directory')
    return found


def measure(args, part):
    if part == 'deadline':
        return deadline(args)
    if part == 'two':
        return two(args)
    if part == 'python':
        return python(args)
    return alone(args, part) if part in ('exists', 'submit', 'open') else compare(args, part)


def main():
    args = arguments()
    if not shutil.which('fio'):
        sys.exit('store.py: there is no fio')
    results = [measure(args, part) for part in args.only.split(',')]
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(results, f, indent=1)


if __name__ == '__main__':
    main()
