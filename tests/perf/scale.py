#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One handle with T I/O threads beside fio with T jobs: 4 KiB random reads.

    scale.py --program perf-mover --file FILE [--rounds N] [--seconds S]

Both keep 32 a thread in flight, with O_DIRECT, on FILE, which is there and written; they take
turns, and figures are medians.  The exit status says whether all of it ran, never how fast.
"""
import argparse
import os
import statistics

import fio


def ours(args, threads):
    return fio.program([args.program, 'randread', '-f', args.file, '-e', 'io_uring', '-d', '32',
                        '-t', str(threads), '-w', str(args.seconds)])['iops']


def theirs(args, jobs):
    command = fio.options(args.file, 'randread', 'io_uring', 4096, 32,
                          os.path.getsize(args.file), jobs)
    command += ['--time_based', f'--runtime={max(1, round(args.seconds))}', '--thread',
                '--norandommap']
    return fio.run(command)['iops']


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--program', default='perf-mover', help='where perf-mover is')
    p.add_argument('--file', required=True, help='what is read')
    p.add_argument('--rounds', type=int, default=5, help='of each contender (5)')
    p.add_argument('--seconds', type=float, default=1, help='of each measurement (1)')
    args = p.parse_args()
    print(f'{"threads":>8} {"sluice":>10} {"fio":>10} {"ratio":>6}')
    for jobs in [n for n in (1, 2, 4, 8, 16) if n <= os.cpu_count()]:
        turns = [(ours(args, jobs), theirs(args, jobs)) for _ in range(args.rounds)]
        a, b = (statistics.median(column) for column in zip(*turns))
        print(f'{jobs:8} {a:10.0f} {b:10.0f} {a / b:6.2f}')


if __name__ == '__main__':
    main()
