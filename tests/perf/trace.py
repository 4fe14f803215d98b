#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast traces are written and read, in rows per second of CPU time and of wall time.

    tests/perf/trace.py [ROWS] [ROUNDS]

Rows as `penstock kv --io-trace-log` writes them, ROWS (5 million) of them; every case ROUNDS (5) times in turn; the
median is shown.  Reading is one thread; writing is two, one of which compresses.  The file is in the page cache.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
TRACER = os.path.join(ROOT, 'build/tests/perf/perf-tracer')
# Case, arguments, rows per second of CPU time that are asked for.
CASES = (
    ('write to /dev/null', ['write', '/dev/null', 'ROWS'], 5e6),
    ('write a.csv', ['write', 'a.csv', 'ROWS'], 2e6),
    ('write a.csv.zst', ['write', 'a.csv.zst', 'ROWS'], None),
    ('read a.csv', ['read', 'a.csv'], 5e6),
    ('read a.csv.zst', ['read', 'a.csv.zst'], 2e6),
)


def measure(args, rows):
    args = [str(rows) if a == 'ROWS' else a for a in args]
    return json.loads(subprocess.run([TRACER, *args], check=True, stdout=subprocess.PIPE).stdout)


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5000000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    results = {name: [] for name, _, _ in CASES}
    with tempfile.TemporaryDirectory(prefix='penstock-perf-', dir='.') as folder:
        os.chdir(folder)
        for _ in range(rounds):
            for name, args, _ in CASES:
                results[name].append(measure(args, rows))
        os.chdir('..')
    print(f'{"":20} {"Mrows/s CPU":>12} {"Mrows/s":>9} {"peak MiB":>9} {"asked for":>10}')
    for name, _, asked in CASES:
        median = {k: statistics.median(r[k] for r in results[name]) for k in results[name][0]}
        print(f'{name:20} {rows / median["cpu_seconds"] / 1e6:12.1f} {rows / median["seconds"] / 1e6:9.1f} '
              f'{median["peak"] / 2**20:9.1f} {f"{asked / 1e6:.0f}" if asked else "":>10}')


main()
