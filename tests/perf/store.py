#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The KV store beside fio with the same sizes and depth on the same disk.

    store.py [--build DIR] [--dir DIR] [--rounds N] [--seconds S] [--only PART,...] [--json FILE]

The two take turns, and ratios of medians are shown.  Promised: get and set of 1 to 20 MiB at least 0.90 of
fio, of 64 KiB 0.85; CPU at most 0.03 s/GiB; 5 million keys a second for exists; 20 us for handing in 128
keys; a million values found in 2 s.  The exit status says whether everything ran.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

import fio

# name: bytes of a value, how many, how many in flight
SIZES = {'64K': (64 << 10, 16384, 128), '1M': (1 << 20, 2048, 32), '4M': (4 << 20, 512, 16), '20M': (20 << 20, 100, 8)}
PARTS = [f'{op}-{size}' for size in SIZES for op in ('get', 'set')] + ['exists', 'open']
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


def store_run(args, folder, op, size, count, depth):
    return fio.program([os.path.join(args.build, 'tests/perf/perf-store'), op, os.path.join(folder, 'store'),
                        str(size), str(count), str(depth), str(args.seconds)])


def fio_run(args, folder, op, size, count, depth):
    """Random I/O of that size within as many bytes; what is written is there already."""
    out, _ = fio.call(['fio', '--name=job', f'--filename={os.path.join(folder, "fio")}',
                       f'--rw={"randread" if op == "get" else "randwrite"}', '--ioengine=io_uring', f'--bs={size}',
                       f'--iodepth={depth}', f'--size={size * count}', '--direct=1', '--iomem=mmaphuge' if huge() else
                       '--iomem=mmap', '--time_based', f'--runtime={args.seconds}', '--output-format=json'])
    job = json.loads(out)['jobs'][0]
    way = job['read' if op == 'get' else 'write']
    seconds = way['runtime'] / 1000
    return {'bytes': way['io_bytes'], 'seconds': seconds,
            'cpu_seconds': seconds * (job['usr_cpu'] + job['sys_cpu']) / 100}


def huge():
    with open('/proc/meminfo') as f:
        return any(line.startswith('HugePages_Free') and int(line.split()[1]) > 128 for line in f)


def compare(args, name):
    op, size = name.split('-')
    rows = {'store': [], 'fio': []}
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='sluice-store-') as folder:
        fio.call(['fio', '--name=fill', f'--filename={os.path.join(folder, "fio")}', '--rw=write', '--bs=1m',
                  f'--size={SIZES[size][0] * SIZES[size][1]}', '--direct=1', '--ioengine=io_uring', '--iodepth=16'])
        for _ in range(args.rounds):
            rows['store'].append(store_run(args, folder, op, *SIZES[size]))
            rows['fio'].append(fio_run(args, folder, op, *SIZES[size]))
    found = {'part': name}
    for who, runs in rows.items():
        found[f'{who}_gb_s'] = statistics.median(r['bytes'] / r['seconds'] / 1e9 for r in runs)
        found[f'{who}_cpu_s_gib'] = statistics.median(r['cpu_seconds'] / (r['bytes'] / GIB) for r in runs)
    found['ratio'] = found['store_gb_s'] / found['fio_gb_s']
    found['wear'] = rows['store'][-1]['wear']
    print(f'{name:9} store {found["store_gb_s"]:6.2f} GB/s {found["store_cpu_s_gib"]:.3f} CPU s/GiB   '
          f'fio {found["fio_gb_s"]:6.2f} GB/s {found["fio_cpu_s_gib"]:.3f}   {found["ratio"]:.2f}')
    return found


def alone(args, name):
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='sluice-store-') as folder:
        runs = [store_run(args, folder, name, 0, 1000000, 4) for _ in range(args.rounds)]
    last = runs[-1]
    found = {'part': name, 'entries': last['entries'], 'bytes_per_entry': last['index_bytes'] / last['entries']}
    if name == 'exists':
        found['keys_per_second'] = statistics.median(r['keys'] / r['seconds'] for r in runs)
        found['call_us'] = statistics.median(r['call_us'] for r in runs)
        print(f'exists    {found["keys_per_second"] / 1e6:.1f} million keys/s; {found["call_us"]:.1f} us to make '
              f'and hand in 128 keys')
    else:
        found['seconds'] = statistics.median(r['seconds'] for r in runs[1:] or runs)
        found['cpu_seconds'] = statistics.median(r['cpu_seconds'] for r in runs[1:] or runs)
        print(f'open      {last["recovered"]} values in {found["seconds"]:.2f} s ({found["cpu_seconds"]:.2f} s CPU), '
              f'{found["bytes_per_entry"]:.0f} bytes of memory each')
    return found


def main():
    args = arguments()
    if not shutil.which('fio'):
        sys.exit('store.py: there is no fio')
    results = [alone(args, p) if p in ('exists', 'open') else compare(args, p) for p in args.only.split(',')]
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(results, f, indent=1)


if __name__ == '__main__':
    main()
