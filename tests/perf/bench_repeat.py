#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the intervals of `penstock bench` cover what changes from one run to the next?

    bench_repeat.py [--build DIR] [--dir DIR] [--runs N] [WORD ...]

Runs it N times with the words as further options and looks at pairs of neighbours.  Promised is that
of 20 pairs the intervals of 18 overlap, for every series.  The exit status says whether everything ran.
"""
import argparse
import json
import os
import subprocess
import tempfile


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--runs', type=int, default=21)
    return p.parse_known_args()


def overlap(a, b):
    return a is not None and b is not None and a[0] <= b[1] and b[0] <= a[1]


def main():
    args, words = arguments()
    penstock = os.path.join(os.path.abspath(args.build), 'penstock')
    runs = []
    with tempfile.TemporaryDirectory(prefix='penstock-perf-', dir=args.dir) as folder:
        for _ in range(args.runs):
            out = subprocess.run([penstock, 'bench', '--target', folder, '--no-limit', '--json', '-', *words],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
            runs.append(json.loads(out)['series'])
    pairs = list(zip(runs, runs[1:]))
    for i, s in enumerate(runs[0]):
        all_of = [r[i] for r in runs]
        latency = sum(overlap(a[i]['latency']['ci95'], b[i]['latency']['ci95']) for a, b in pairs)
        speed = sum(overlap(a[i]['bytes_per_sec_ci95'], b[i]['bytes_per_sec_ci95']) for a, b in pairs)
        speeds = [x['bytes_per_sec'] / 1e6 for x in all_of]
        half = sorted((x['bytes_per_sec_ci95'][1] - x['bytes_per_sec']) / x['bytes_per_sec'] for x in all_of
                      if x['bytes_per_sec_ci95'])
        print(f'{s["name"]}: of {len(pairs)} pairs {latency} latencies and {speed} bandwidths overlap; '
              f'{min(speeds):.0f} to {max(speeds):.0f} MB/s'
              + (f', median interval +/- {100 * half[len(half) // 2]:.0f} %' if half else ''))


if __name__ == '__main__':
    main()
