#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs that several ranks are one run: how far apart they begin, and the CPU time of what keeps them together.

    hosts.py PENSTOCK [--ranks N...] [--rounds N] [--seconds N]

Ranks replay a trace of a few rows against memory, so that they sleep nearly all of the time.  The same trace by a process alone
takes what the replay itself costs; what a rank takes more is the control.  All ranks are on this machine: with more of them than
it has processors, and with others at work, the skew is the machine's.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

LAUNCHERS = {
    'openmpi': ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none'],
    'mpich': ['mpirun.mpich'],
}


def make_trace(path, ranks, seconds):
    with open(path, 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        for at in (0, seconds):
            f.writelines(f'{at},Write,4096,Tier-2,k{i},Prefill\n' for i in range(16 * ranks))


def run(words):
    subprocess.run([*map(str, words), '--json', 'r.json'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open('r.json', encoding='utf-8') as f:
        return json.load(f)


def cpu(result):
    s = result['series'][0]['cpu']
    return s['user_sec'] + s['system_sec']


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('penstock')
    parser.add_argument('--ranks', type=int, nargs='+', default=[4, 16, 64])
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=int, default=10)
    a = parser.parse_args()
    penstock = os.path.abspath(a.penstock)
    print(f'{"":8} {"ranks":>5} {"skew":>24} {"worst error of clocks":>22} {"control, of a core per rank":>28}')
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for mpi, launcher in LAUNCHERS.items():
            if not shutil.which(launcher[0]):
                continue
            for ranks in a.ranks:
                words = [penstock, 'replay', 't.csv', '-f', 'memory']
                make_trace('t.csv', 1, a.seconds)
                alone = statistics.median(cpu(run(words)) for _ in range(a.rounds))
                make_trace('t.csv', ranks, a.seconds)
                all_ = [run([*launcher, '-n', ranks, *words]) for _ in range(a.rounds)]
                skews = sorted(max(s['skew_sec'] for s in r['ranks']['series']) * 1e3 for r in all_)
                error = max(m['clock']['error_sec'] for r in all_ for m in r['ranks']['members']) * 1e6
                cost = statistics.median(cpu(r) for r in all_) / ranks - alone
                print(f'{mpi:8} {ranks:5} {skews[0]:8.3f} to {skews[-1]:8.3f} ms {error:19.0f} us {cost / a.seconds * 100:26.4f} %', flush=True)


main()
