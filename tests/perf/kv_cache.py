#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a decision of the KV cache costs, in a cache of ten thousand entries and in one of ten millions.

    kv_cache.py [--build DIR] [--rounds N] [--entries N,...] [--seconds S] [--json FILE]

perf-kv_cache does the work: `turns' is what users do, `random' reads any entry and so shows the memory of
the machine, `ahead' is the same with kv_cache_prefetch().  Sizes take turns; CPU time counts.  Promised are
more than 10 million events a second at ten thousand entries, a cost that does not grow with their number,
and at most 100 bytes per entry.  The exit status says whether everything ran.
"""
import argparse
import json
import os
import statistics
import subprocess

from bench import show


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--entries', default='10000,100000,1000000,10000000')
    p.add_argument('--seconds', default='0.5')
    p.add_argument('--json')
    return p.parse_args()


def main():
    args = arguments()
    program = os.path.join(args.build, 'tests/perf/perf-kv_cache')
    sizes = [int(n) for n in args.entries.split(',')]
    runs = {n: [] for n in sizes}
    for turn in range(args.rounds):
        for n in sizes if turn % 2 else reversed(sizes):
            done = subprocess.run([program, str(n), args.seconds], check=True, stdout=subprocess.PIPE)
            runs[n].append(json.loads(done.stdout))

    def median(n, name):
        return statistics.median(r[name] for r in runs[n])

    print('KV cache: events per second and core, by entries (medians)')
    show(['entries', 'turns', 'random', 'ahead', 'put in, ns', 'bytes per entry'],
         [[f'{n:,}', *(f'{median(n, name) / 1e6:.1f} M' for name in ('turns', 'random', 'ahead')),
           f'{median(n, "grow_ns"):.0f}', f'{median(n, "bytes_per_entry"):.0f}'] for n in sizes])
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(runs, f, indent=2)


if __name__ == '__main__':
    main()
