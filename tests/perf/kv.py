#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Storage bandwidth of `penstock kv` beside fio's, on the same disk.

    kv.py [--build DIR] [--dir DIR] [--rounds N] [--seconds N] [--users N] [--capacity GIB] [--model NAME]
          [--layout NAME,...] [--precondition] [--huge] [--json FILE]

A run on storage alone (no GPU or CPU memory, no time for generation) takes turns with fio, which moves
blocks of the same size with the same share of reads and the same number in flight:

    mixed      reads and writes of one file as large as the cache
    replayed   block by block what the run does, in its order, in one such file

both with buffers on small pages and on huge ones (--huge: only these, which are faster).  Promised is 0.9 of the
best of them.  The file of fio has been written before; the storage of penstock only with --precondition.  The bytes of `penstock kv` are those storage moved inside the interval.  CPU seconds and peak memory are
those of whole processes.  The exit status says whether everything ran, never how fast.
"""
import argparse
import contextlib
import csv
import json
import os
import shutil
import sys

import fio
import places
from bench import Variant, cpu_per_gib, interleave, show, speed
from fio import measured
from places import GIB, Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK, DEPTH = 1 << 20, 32  # the library's defaults, given to fio


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(HERE, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--seconds', type=int, default=20)
    p.add_argument('--users', type=int, default=100)
    p.add_argument('--capacity', type=float, default=8)
    p.add_argument('--model', default='llama3.1-8b')
    p.add_argument('--layout', default='npy,slab')
    p.add_argument('--precondition', action='store_true')
    p.add_argument('--huge', action='store_true')
    p.add_argument('--json')
    return p.parse_args()


class Workload:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.penstock = os.path.join(os.path.abspath(args.build), 'penstock')
        self.cache = os.path.join(folder, 'cache')
        self.options = ['kv', '--model', args.model, '--num-users', str(args.users), '--runtime', str(args.seconds),
                        '--gpu-mem-gb', '0', '--cpu-mem-gb', '0', '--generation-mode', 'none', '--seed', '42',
                        '--storage-capacity-gb', str(args.capacity), '--log-level', 'ERROR']
        self.before = ['--precondition'] if args.precondition else []

    def run(self, layout):
        """The run itself; bytes and time are of its measured interval."""
        output = os.path.join(self.folder, 'kv.json')
        _, usage = measured([self.penstock, *self.options, *self.before, '--folder', self.cache, '--layout', layout,
                             '--output', output, '--json', os.path.join(self.folder, 'result.json')], self.folder)
        with open(output) as f:
            stats = json.load(f)['summary']
        with open(os.path.join(self.folder, 'result.json')) as f:
            moved = json.load(f)['kv']['storage_moved']
        read, written = moved['read_bytes'], moved['written_bytes']
        return {'bytes': read + written, 'seconds': stats['elapsed_time'], 'read': read, **usage}

    def operations(self):
        """What it does, in order: (operation, bytes, key)."""
        trace = os.path.join(self.folder, 'trace.csv')
        measured([self.penstock, *self.options, '--io-trace-log', trace, '--trace-extended',
                  '--output', os.path.join(self.folder, 'trace.json')], self.folder)
        with open(trace, newline='') as f:
            for row in csv.DictReader(f):
                yield row['Operation'], int(row['Object_Size_Bytes']), row['Key']


class Slots:
    """Where objects are in one file, in blocks: a write takes the blocks that were given back longest ago."""

    def __init__(self, blocks):
        self.free, self.of = list(range(blocks - 1, -1, -1)), {}

    def write(self, key, size):
        if key in self.of:
            self.delete(key)
        self.of[key] = [self.free.pop() for _ in range(-(-size // BLOCK))]
        return self.of[key]

    def delete(self, key):
        self.free[:0] = reversed(self.of.pop(key))


def iolog(path, data, operations, size, most):
    """A log for fio that does the operations up to @most bytes."""
    slots, done = Slots(size // BLOCK), 0
    with open(path, 'w') as f:
        f.write(f'fio version 2 iolog\n{data} add\n{data} open\n')
        for what, length, key in operations:
            if what == 'Delete':
                slots.delete(key)
                continue
            blocks = slots.write(key, length) if what == 'Write' else slots.of[key]
            for i, block in enumerate(blocks):
                part = min(BLOCK, length - i * BLOCK)
                f.write(f'{data} {what.lower()} {block * BLOCK} {part}\n')
            done += length
            if done >= most:
                break
        f.write(f'{data} close\n')


class Fio:
    """fio on one file of the size of the cache."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.size = int(args.capacity * GIB * 1.05) // BLOCK * BLOCK  # objects take whole blocks here
        self.data = os.path.join(folder, 'data')

    def make(self):
        places.make_data(self.data, self.size)

    def run(self, *options):
        command = ['fio', '--name=job', '--ioengine=io_uring', f'--iodepth={DEPTH}', '--direct=1',
                   '--fallocate=none', '--output-format=json', *options]
        text, usage = measured(command, self.folder)
        job = json.loads(text[text.index('{'):])['jobs'][0]
        if job['error']:
            raise fio.Broken(f'{" ".join(command)}\nerror {job["error"]}')
        read, written = (job[x]['io_bytes'] for x in ('read', 'write'))
        return {'bytes': read + written, 'seconds': job['job_runtime'] / 1e3, 'read': read, **usage}

    def mixed(self, share, *options):
        return self.run(f'--filename={self.data}', f'--size={self.size}', '--rw=rw', f'--rwmixread={share}',
                        f'--bs={BLOCK}', '--time_based', f'--runtime={self.args.seconds}', *options)

    def replayed(self, log, *options):
        return self.run(f'--read_iolog={log}', *options)


def variants(args, folder, undo):
    """penstock first; the others move the share of reads that its first run had."""
    kv, other = Workload(args, folder), Fio(args, folder)
    layouts = args.layout.split(',')
    result = [Variant(f'penstock kv, {x}', lambda x=x: kv.run(x)) for x in layouts]
    if not shutil.which('fio'):
        raise Unavailable('fio is not installed')
    other.make()
    first = kv.run(layouts[0])
    share = round(first['read'] / first['bytes'] * 100)
    print(f'of {first["bytes"] / GIB:.1f} GiB {share} % are reads')
    log = os.path.join(folder, 'iolog')
    iolog(log, other.data, kv.operations(), other.size, first['bytes'])
    for name, memory in fio.memories(undo, BLOCK * DEPTH)[args.huge:]:
        result += [Variant(f'fio mixed{name}', lambda m=memory: other.mixed(share, *m)),
                   Variant(f'fio replayed{name}', lambda m=memory: other.replayed(log, *m))]
    return result


def report(all_variants):
    ours = [v for v in all_variants if v.name.startswith('penstock')]
    others = [v for v in all_variants if v not in ours]
    show(['', 'GB/s', 'from .. to', 'reads', 'CPU s/GiB', 'peak memory'],
         [[v.name, f'{v.median(speed):.2f}', v.spread(speed, '.2f'),
           f'{v.median(lambda s: s["read"] / s["bytes"]):.2f}', f'{v.median(cpu_per_gib):.3f}',
           f'{v.median(lambda s: s["rss"]) / (1 << 20):.0f} MiB'] for v in all_variants])
    for v in ours:
        print(f'{v.name}: ' + ', '.join(f'{v.median(speed) / o.median(speed):.2f} of {o.name}' for o in others))
    best = max(v.median(speed) for v in others)
    for v in ours:
        print(f'kv: {v.name}: {v.median(speed) / best:.2f} of the fastest fio (promised 0.9)')


def main():
    args = arguments()
    try:
        with places.scratch(args.dir) as folder, contextlib.ExitStack() as undo:
            folder = os.path.abspath(folder)
            places.need_space(folder, int(2 * args.capacity * GIB))
            places.need_direct(folder)
            for name, text in places.machine(folder).items():
                print(f'{name}: {text}')
            found = variants(args, folder, undo)
            interleave(args.rounds, found)
            report(found)
    except Unavailable as why:
        print(f'kv: skipped: {why}')
        return 0
    except fio.Broken as why:
        print(f'kv: {why}', file=sys.stderr)
        return 1
    if args.json:
        with open(args.json, 'w') as f:
            json.dump({v.name: v.samples for v in found}, f, indent=1)
    return 0


if __name__ == '__main__':
    sys.exit(main())
