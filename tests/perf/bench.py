# SPDX-License-Identifier: Apache-2.0
"""What the parts of `make perf` share: programs that take turns, figures, tables."""
import statistics
import time

import places
from places import GIB

SETTLE = 0.3  # seconds after deleting a large file, whose blocks may be discarded behind our back


class Variant:
    """One of the programs that take turns, and its measurements."""

    def __init__(self, name, run):
        self.name, self.run, self.samples = name, run, []

    def all(self, figure):
        return [figure(s) for s in self.samples]

    def median(self, figure):
        return statistics.median(self.all(figure))

    def spread(self, figure, form):
        values = self.all(figure)
        return f'{min(values):{form}} .. {max(values):{form}}'


def interleave(rounds, all_variants):
    for i in range(rounds):
        at = i % len(all_variants)
        for v in all_variants[at:] + all_variants[:at]:
            v.samples.append(v.run())


def speed(s):
    return s['bytes'] / s['seconds'] / 1e9


def iops(s):
    return s['iops']


def cpu_per_gib(s):
    return s['cpu_seconds'] / (s['bytes'] / GIB)


def cpu_per_op(s):
    return s['cpu_seconds'] / (s['iops'] * s['seconds']) * 1e6


def show(head, rows):
    """A table: first column to the left, the others to the right."""
    table = [head] + rows
    width = [max(len(row[i]) for row in table) for i in range(len(head))]
    for row in table:
        print('  ' + row[0].ljust(width[0]) +
              ''.join('   ' + cell.rjust(w) for cell, w in zip(row[1:], width[1:])))


def ratio(a, b, figure):
    return a.median(figure) / b.median(figure) if a and b else None


def fresh_run(run, path):
    """Around each fresh write: the file is not there before and not there after."""
    def around():
        places.remove(path)
        try:
            return run()
        finally:
            places.remove(path)
            time.sleep(SETTLE)
    return around
