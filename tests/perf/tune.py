#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is what `penstock tune` finds as good as what a walk of the whole grid finds, and how much sooner?

    tune.py [--build DIR] [--dir DIR] [--rounds N] [--io_size BYTES] [--loops N] [--json FILE]

In each round the grid of ds_nvme_tune (64 configurations) is measured exhaustively, then raced with a
fifth of that time as its budget.  Then both winners are measured in turn with `penstock io`, which
neither of them was chosen by: the highest of 64 noisy figures is too high by luck.  Promised is a
ratio of at least 0.97 in at most a fifth of the time.  The exit status says whether everything ran.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TURNS = 7


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--io_size', default='128M')
    p.add_argument('--loops', type=int, default=5)
    p.add_argument('--json')
    return p.parse_args()


class Tuner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.penstock = os.path.join(os.path.abspath(args.build), 'penstock')

    def json(self, *args):
        return json.loads(subprocess.run([self.penstock, *args, '--json', '-'], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)

    def tune(self, *args):
        return self.json('tune', '--folder', self.folder, '--size', self.args.io_size, '--no-limit', *args)['tune']

    def speed(self, config):
        """The sum of both directions, GB/s, as one fresh run of each sees it."""
        total = 0
        for direction in ([], ['--read-only']):
            r = self.json('io', '--target', self.folder, '--size', self.args.io_size, '--config', config,
                          '--loops', '3', *direction)
            total += r['io']['task_bytes_per_sec'] / 2**30
        return total

    def config(self, tune, name):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as f:
            json.dump(tune['config'], f)
        return path

    def round(self, number):
        seed = ['--seed', str(number)]
        grid = self.tune('--exhaustive', '--loops', str(self.args.loops), *seed)
        race = self.tune('--budget', str(max(1, int(grid['spent_sec'] / 5))), *seed)
        configs = [self.config(grid, 'grid.json'), self.config(race, 'race.json')]
        speeds = [[], []]
        for turn in range(TURNS):
            for i in (0, 1) if turn % 2 else (1, 0):
                speeds[i].append(self.speed(configs[i]))
        return {'grid': grid['winner'], 'race': race['winner'], 'tried': race['tried'], 'end': race['end'],
                'ratio': statistics.median(speeds[1]) / statistics.median(speeds[0]),
                'grid_sec': grid['spent_sec'], 'race_sec': race['spent_sec'],
                'share': race['spent_sec'] / grid['spent_sec']}


def main():
    args = arguments()
    rounds = []
    with tempfile.TemporaryDirectory(prefix='penstock-perf-', dir=args.dir) as folder:
        tuner = Tuner(args, folder)
        for number in range(1, args.rounds + 1):
            r = tuner.round(number)
            rounds.append(r)
            print(f'tune {number}: {r["ratio"]:.3f} of the exhaustive winner in {r["share"]:.3f} of its time '
                  f'({r["race_sec"]:.1f} of {r["grid_sec"]:.1f} s, {r["tried"]} of 64 tried, ended by {r["end"]}); '
                  f'{r["race"]} against {r["grid"]}')
            sys.stdout.flush()
    ratio = statistics.median(r['ratio'] for r in rounds)
    share = max(r['share'] for r in rounds)
    print(f'tune: median ratio {ratio:.3f} (promised 0.97), largest share of the time {share:.3f} (promised 0.2)')
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(rounds, f, indent=2)


if __name__ == '__main__':
    main()
