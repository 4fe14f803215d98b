#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole objects through a flow, beside fio with the same sizes and the same mix on the same disk.

    flow.py [--build DIR] [--dir DIR] [--rounds N] [--seconds S] [--only PART,...] [--json FILE]

The two take turns.  Promised is at least 0.9 of fio's bandwidth: small objects in the slab against
random I/O of that size, large ones against sequential I/O of 1 MiB.  The exit status says whether
everything ran.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

import fio
from bench import show

SMALL, LARGE = 64 << 10, 1 << 30

# name: arguments of perf-flow, arguments of fio
PARTS = {
    'small-read': (['read', '-k', 'slab', '-s', '64K', '-n', '16384'], ['randread', '64k', 128]),
    'small-write': (['write', '-k', 'slab', '-s', '64K', '-n', '16384'], ['randwrite', '64k', 128]),
    'small-mixed': (['mixed', '-k', 'slab', '-s', '64K', '-n', '16384'], ['randrw', '64k', 128]),
    'large-read': (['read', '-k', 'slab', '-s', '1G', '-n', '3', '-q', '3'], ['read', '1m', 32]),
    'large-write': (['write', '-k', 'slab', '-s', '1G', '-n', '2', '-q', '2'], ['write', '1m', 32]),
    'npy-read': (['read', '-k', 'npy', '-s', '1G', '-n', '3', '-q', '3'], ['read', '1m', 32]),
    'npy-write': (['write', '-k', 'npy', '-s', '128M', '-n', '16', '-q', '4'], ['fresh', '1m', 32]),
}


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--seconds', type=float, default=4)
    p.add_argument('--only', default=','.join(PARTS))
    p.add_argument('--json')
    return p.parse_args()


def fio_run(args, folder, rw, block, depth):
    """Both directions together; files of their own where each is to be written afresh."""
    path = os.path.join(folder, 'fio')
    fresh = rw == 'fresh'
    command = ['fio', '--name=job', f'--rw={"write" if fresh else rw}', '--ioengine=io_uring', f'--bs={block}',
               f'--iodepth={depth}', '--direct=1', '--group_reporting', '--output-format=json',
               '--rwmixread=75']
    if fresh:
        command += [f'--directory={folder}', '--size=2g', '--nrfiles=16', '--create_on_open=1',
                    '--fallocate=native', '--file_service_type=sequential', '--unlink=1']
    else:
        command += [f'--filename={path}', f'--size={1 << 30 if block == "64k" else 3 << 30}',
                    '--time_based', f'--runtime={args.seconds}']
    text = fio.call(command)[0]
    job = json.loads(text[text.index('{'):])['jobs'][0]
    if job['error']:
        raise fio.Broken(f'{" ".join(command)}\nerror {job["error"]}')
    sides = [job['read'], job['write']]
    size = sum(s['io_bytes'] for s in sides)
    return {'bytes': size, 'seconds': max(s['runtime'] for s in sides) / 1e3,
            'cpu_seconds': (job['usr_cpu'] + job['sys_cpu']) / 100 * job['job_runtime'] / 1e3}


def flow_run(args, folder, options):
    program = os.path.join(os.path.abspath(args.build), 'tests/perf/perf-flow')
    kind = options[options.index('-k') + 1]
    path = os.path.join(folder, 'objects' if kind == 'npy' else 'slab')
    return fio.program([program, *options, '-f', path, '-w', str(args.seconds)])


def speed(s):
    return s['bytes'] / s['seconds'] / 1e9


def cpu(s, unit):
    return s['cpu_seconds'] / (s['bytes'] / unit) * 1e6


def measure(args, folder, name):
    options, theirs = PARTS[name]
    ours, fios = [], []
    for turn in range(args.rounds):
        for first in (turn % 2, 1 - turn % 2):
            if first:
                ours.append(flow_run(args, folder, options))
            else:
                fios.append(fio_run(args, folder, *theirs))
    for left in os.listdir(folder):
        os.remove(os.path.join(folder, left))
    return {'name': name, 'flow': ours, 'fio': fios}


def row(part):
    unit = SMALL if part['name'].startswith('small') else 1 << 20
    a, b = ([f(s) for s in part[k]] for k in ('flow', 'fio') for f in (speed,))
    median = statistics.median
    return [part['name'], f'{median(a):.2f}', f'{median(b):.2f}',
            f'{median(x / y for x, y in zip(a, b)):.2f}',
            f'{median(cpu(s, unit) for s in part["flow"]):.1f}',
            f'{median(cpu(s, unit) for s in part["fio"]):.1f}']


def main():
    args = arguments()
    parts = []
    folder = tempfile.mkdtemp(prefix='penstock-perf-', dir=args.dir)
    try:
        for name in args.only.split(','):
            parts.append(measure(args, folder, name))
    except fio.Broken as e:
        print(e, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    show(['', 'flow GB/s', 'fio GB/s', 'ratio', 'flow us CPU', 'fio us CPU'], [row(p) for p in parts])
    print('  CPU per object of 64 KiB, or per MiB of larger ones')
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(parts, f, indent=1)
    return 0


if __name__ == '__main__':
    sys.exit(main())
