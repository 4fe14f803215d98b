#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference and `penstock kv` on the same folder with the same options, side by side.

    kv_reference.py [--build DIR] [--dir DIR] [--python PROGRAM] [--rounds N] [--json FILE] [PATH [-- OPTION...]]

PATH is MLPerf Storage's kv-cache.py, which is not part of this project: without it nothing is run and the
exit status is 3.  The options go to all; without any a small run on storage alone is made.  penstock runs twice
a round: as it is, and with --compat, which counts what the reference counts.  Where rounds are many, figures
are medians.  CPU and memory are those of whole processes, and the time on the wall of a run is from its start
to its end: the reference goes on counting after the time that it divides by.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import time

import fio
import places
from bench import show

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = ['--model', 'llama3.1-8b', '--num-users', '8', '--duration', '60', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0',
           '--max-concurrent-allocs', '2', '--generation-mode', 'none', '--storage-capacity-gb', '24', '--seed', '42']

# What is printed: name, member of the summary (or of its cache_stats), form.
FIGURES = [
    ('requests', 'total_requests', '.0f'), ('tokens', 'total_tokens', '.0f'),
    ('measured interval, s', 'elapsed_time', '.1f'), ('tokens/s', 'avg_throughput_tokens_per_sec', '.1f'),
    ('tokens/s of storage', 'storage_throughput_tokens_per_sec', '.2f'),
    ('end to end p95, ms', 'end_to_end_latency_ms.p95', '.0f'), ('storage p95, ms', 'storage_io_latency_ms.p95', '.0f'),
    ('read, GiB', 'cache_stats.tier_storage_kv_bytes_read_gb', '.2f'),
    ('written, GiB', 'cache_stats.tier_storage_kv_bytes_written_gb', '.2f'),
    ('read, GiB/s', 'cache_stats.tier_storage_read_bandwidth_gbps', '.3f'),
    ('write, GiB/s', 'cache_stats.tier_storage_write_bandwidth_gbps', '.3f'),
    ('hit rate', 'cache_stats.cache_hit_rate', '.3f'), ('hits', 'cache_stats.cache_hits', '.0f'),
    ('misses', 'cache_stats.cache_misses', '.0f'), ('entries', 'cache_stats.storage_entries', '.0f'),
    ('read p95, ms', 'cache_stats.storage_read_p95_ms', '.1f'),
    ('read p95 at the device, ms', 'cache_stats.storage_read_device_p95_ms', '.1f'),
    ('write p95, ms', 'cache_stats.storage_write_p95_ms', '.1f'),
    ('write p95 at the device, ms', 'cache_stats.storage_write_device_p95_ms', '.1f'),
]
OWN = [('on the wall, s', 'wall', '.1f'), ('CPU, s', 'cpu_seconds', '.1f'), ('peak memory, MiB', 'rss_mib', '.0f')]


def arguments():
    words = sys.argv[1:]
    options = words[words.index('--') + 1:] if '--' in words else OPTIONS
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(HERE, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--python', default=sys.executable)
    p.add_argument('--rounds', type=int, default=1)
    p.add_argument('--json')
    p.add_argument('path', nargs='?')
    args = p.parse_args(words[:words.index('--')] if '--' in words else words)
    return args, options


def member(summary, path):
    """A number of the summary, or None where there is none."""
    for word in path.split('.'):
        summary = summary.get(word) if isinstance(summary, dict) else None
    return summary


def run(command, folder, options):
    """One run in a fresh cache folder: its figures, and its own CPU, memory and time."""
    cache, output = os.path.join(folder, 'cache'), os.path.join(folder, 'output.json')
    os.makedirs(cache)
    begin = time.monotonic()
    try:
        _, usage = fio.measured([*command, *options, '--cache-dir', cache, '--output', output], folder)
        wall = time.monotonic() - begin
        with open(output) as f:
            summary = json.load(f).get('summary', {})
    finally:
        shutil.rmtree(cache)
    figures = {path: member(summary, path) for _, path, _ in FIGURES}
    return {**figures, 'wall': wall, 'cpu_seconds': usage['cpu_seconds'], 'rss_mib': usage['rss'] / (1 << 20)}


def cell(samples, key, form):
    values = [s[key] for s in samples if s[key] is not None]
    return f'{statistics.median(values):{form}}' if values else '-'


def main():
    args, options = arguments()
    if not args.path:
        print('kv_reference: no path to kv-cache.py was given, so there is nothing to compare with')
        return 3
    if not os.path.isfile(args.path):
        print(f'kv_reference: {args.path}: no such file', file=sys.stderr)
        return 2
    penstock = [os.path.join(os.path.abspath(args.build), 'penstock'), 'kv']
    runs = {'reference': [args.python, os.path.abspath(args.path)], 'penstock --compat': [*penstock, '--compat'],
            'penstock': penstock}
    samples = {name: [] for name in runs}
    try:
        with places.scratch(args.dir) as folder:
            folder = os.path.abspath(folder)
            for name, text in places.machine(folder).items():
                print(f'{name}: {text}')
            for turn in range(args.rounds):
                names = list(runs)
                for name in names[turn % 3:] + names[:turn % 3]:
                    samples[name].append(run(runs[name], folder, options))
    except fio.Broken as why:
        print(f'kv_reference: {why}', file=sys.stderr)
        return 1
    print(' '.join(options))
    show(['', *samples], [[name, *(cell(s, key, form) for s in samples.values())] for name, key, form in FIGURES + OWN])
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(samples, f, indent=1)
    return 0


if __name__ == '__main__':
    sys.exit(main())
