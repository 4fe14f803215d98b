#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `penstock kv` writes traces, and what memory that takes.

    kv_trace.py [--build DIR] [--dir DIR] [--rounds N] [--only PART,...] [--quick] [--json FILE]

    model   5 minutes of 1000 users, written to nowhere: planning and formatting
    plain   the same into a file
    zst     the same, compressed
    busy    an hour of 1000 users who wait for 500 workers: the queue grows, memory must not
    hour    an hour of 1000 users, compressed (once): about 120 million rows
    start   100000 users until the first request

Parts take turns.  Shown are medians: rows a second of wall time and of processor time, peak memory, and what
is beyond 50 MB of it divided by the entries that are alive at the end.  Promised are 2 million rows a second of
one core (plain), 200 bytes per entry, the hour in 3 minutes on 2 cores, and 2 s to start.  The exit status says
whether everything ran.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import bench

BASE_MB = 50
MANY = 10000  # of fewer entries the bytes of each say nothing


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--only', default='model,plain,zst,busy,hour,start')
    p.add_argument('--quick', action='store_true', help='seconds instead of minutes and hours')
    p.add_argument('--json')
    return p.parse_args()


def parts(quick):
    """Options of each, the file, and whether once is enough."""
    minute = 1 if quick else 60
    users = ['--num-users', '1000', '--generation-mode', 'none']
    five = [*users, '--runtime', str(5 * minute)]
    return {
        'model': (five, '/dev/null', False),
        'plain': (five, 'trace.csv', False),
        'zst': (five, 'trace.csv.zst', False),
        'busy': (['--num-users', '1000', '--generation-mode', 'realistic', '--runtime', str(60 * minute)],
                 '/dev/null', False),
        'hour': ([*users, '--runtime', str(60 * minute)], 'trace.csv.zst', True),
        'start': (['--num-users', '100000', '--runtime', '60', '--max-requests', '1'], '/dev/null', False),
    }


def measure(penstock, folder, options, name):
    """One run: its time, its processor time and its peak memory are those of the process."""
    result = os.path.join(folder, 'result.json')
    trace = os.path.join(folder, name)
    begin = time.monotonic()
    process = subprocess.Popen([penstock, 'kv', *options, '--seed', '42', '--io-trace-log', trace, '--output', result],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    if status:
        raise RuntimeError(f'penstock kv {" ".join(options)}: status {os.waitstatus_to_exitcode(status)}')
    with open(result, encoding='utf-8') as f:
        j = json.load(f)
    stats = j['summary']['cache_stats']
    size = os.path.getsize(trace)
    if not name.startswith('/'):
        os.unlink(trace)
    return {
        'rows': j['penstock']['kv']['rows'],
        'entries': sum(stats[t + '_entries'] for t in ('gpu', 'cpu', 'storage')),
        'wall_sec': wall,
        'cpu_sec': usage.ru_utime + usage.ru_stime,
        'peak_bytes': usage.ru_maxrss * 1024,
        'file_bytes': size,
    }


def bytes_per_entry(s):
    return max(0, s['peak_bytes'] - BASE_MB * 1e6) / s['entries']


def line(name, samples):
    def median(figure):
        return statistics.median(figure(s) for s in samples)

    last = samples[-1]
    return [name, f'{last["rows"]:,}', f'{median(lambda s: s["wall_sec"]):.2f}',
            f'{median(lambda s: s["cpu_sec"]):.2f}',
            f'{median(lambda s: s["rows"] / s["wall_sec"]) / 1e6:.2f}',
            f'{median(lambda s: s["rows"] / s["cpu_sec"]) / 1e6:.2f}',
            f'{median(lambda s: s["peak_bytes"]) / 1e6:.0f}', f'{last["entries"]:,}',
            f'{median(bytes_per_entry):.0f}' if last['entries'] >= MANY else '', f'{last["file_bytes"] / last["rows"]:.1f}']


def main():
    args = arguments()
    penstock = os.path.join(os.path.abspath(args.build), 'penstock')
    chosen = {k: v for k, v in parts(args.quick).items() if k in args.only.split(',')}
    samples = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory(prefix='penstock-perf-', dir=args.dir) as folder:
        for turn in range(args.rounds):
            for name, (options, path, once) in chosen.items():
                if turn == 0 or not once:
                    samples[name].append(measure(penstock, folder, options, path))
    bench.show(['', 'rows', 's', 'CPU s', 'M rows/s', 'M rows/CPU s', 'peak MB', 'entries', 'B/entry', 'B/row'],
               [line(name, v) for name, v in samples.items()])
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(samples, f, indent=1)
    return 0


if __name__ == '__main__':
    sys.exit(main())
