#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How calls from Python scale with threads: a table of pymover.py threads, medians of rounds.

    pythreads.py [--threads 1,2,4,8] [--ways futures,batch] [--rounds 3] [PYTHON ...]

Engine null, 4 KiB, one handle for all threads; per PYTHON (with penstock in its path), else this one.  Per
line: threads, thousand operations a second, of one thread's, CPU microseconds an operation.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MOVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'pymover.py')


def sample(python, path, way, threads, count):
    out = subprocess.run([python, MOVER, 'threads', '-f', path, '-s', '4096', '-w', way, '-t', str(threads),
                          '-c', str(count)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def table(python, way, args, path):
    first = None
    for threads in args.threads:
        got = [sample(python, path, way, threads, args.count) for _ in range(args.rounds)]
        rate = statistics.median(s['iops'] for s in got)
        first = first or rate
        print(f'{way:9} {threads:3} {rate / 1e3:9.0f} {rate / first:6.2f} '
              f'{statistics.median(s["us_per_op"] for s in got):6.2f}', flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--threads', type=lambda s: [int(n) for n in s.split(',')], default=[1, 2, 4, 8])
    p.add_argument('--ways', type=lambda s: s.split(','), default=['futures', 'batch'])
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--count', type=int, default=100000)
    p.add_argument('python', nargs='*', default=[sys.executable])
    args = p.parse_args()
    with tempfile.NamedTemporaryFile() as f:
        f.truncate(1 << 20)
        for python in args.python:
            print(python)
            for way in args.ways:
                table(python, way, args, f.name)


if __name__ == '__main__':
    main()
