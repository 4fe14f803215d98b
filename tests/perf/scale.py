#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One handle with T I/O threads beside fio with T jobs: 4 KiB random reads.

    scale.py --program perf-mover (--file FILE | --dir DIR [--zram]) [--rounds N] [--seconds S]

Both keep 32 a thread in flight, with O_DIRECT, on FILE, which is there and written, or on a file
made for it in DIR, or with --zram on ext4 on compressed memory, mounted there (root only); they take
turns, and figures are medians.  The exit status says whether all of it ran, never how fast.
"""
import argparse
import contextlib
import os
import statistics
import sys

import fio
import places

SIZE = places.GIB // 2


def ours(args, path, threads):
    return fio.program([args.program, 'randread', '-f', path, '-e', 'io_uring', '-d', '32',
                        '-t', str(threads), '-w', str(args.seconds)])['iops']


def theirs(args, path, jobs):
    command = fio.options(path, 'randread', 'io_uring', 4096, 32, os.path.getsize(path), jobs)
    command += ['--time_based', f'--runtime={max(1, round(args.seconds))}', '--thread',
                '--norandommap']
    return fio.run(command)['iops']


@contextlib.contextmanager
def data(args):
    """The file that is read."""
    if args.file:
        yield args.file
        return
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(places.scratch(args.dir))
        if args.zram:
            folder = undo.enter_context(places.zram_ext4(folder, SIZE))
        places.need_space(folder, SIZE)
        path = os.path.join(folder, 'data')
        places.make_data(path, SIZE)
        yield path


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--program', default='perf-mover', help='where perf-mover is')
    where = p.add_mutually_exclusive_group(required=True)
    where.add_argument('--file', help='what is read')
    where.add_argument('--dir', help='where a file to be read is made')
    p.add_argument('--zram', action='store_true', help='with --dir: on compressed memory mounted there')
    p.add_argument('--rounds', type=int, default=5, help='of each contender (5)')
    p.add_argument('--seconds', type=float, default=1, help='of each measurement (1)')
    args = p.parse_args()
    if args.zram and not args.dir:
        p.error('--zram: needs --dir')
    try:
        with data(args) as path:
            print(f'{"threads":>8} {"penstock":>10} {"fio":>10} {"ratio":>6}')
            for jobs in [n for n in (1, 2, 4, 8, 16) if n <= os.cpu_count()]:
                turns = [(ours(args, path, jobs), theirs(args, path, jobs))
                         for _ in range(args.rounds)]
                a, b = (statistics.median(column) for column in zip(*turns))
                print(f'{jobs:8} {a:10.0f} {b:10.0f} {a / b:6.2f}')
    except places.Unavailable as e:
        sys.exit(f'scale: {e}')


if __name__ == '__main__':
    main()
