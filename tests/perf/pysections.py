# SPDX-License-Identifier: Apache-2.0
"""The parts of `make perf` that measure the Python package: pymover.py beside perf-mover."""
import os
import shutil
import subprocess

import fio
from bench import Variant, cpu_per_gib, fresh_run, iops, ratio, show, speed
from places import Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ('penstock', 'numpy', 'torch', 'preadv')


def interpreter(b):
    """A command that runs pymover.py with the package of the build directory."""
    path = os.path.abspath(os.path.join(b.args.build, 'python'))
    if not os.path.exists(path + '/penstock/_penstock.abi3.so'):
        raise Unavailable(f'no Python package in {b.args.build}: make python')
    for python in filter(None, ['/usr/bin/python3', shutil.which('python3')]):
        command = ['env', f'PYTHONPATH={path}', python]
        if subprocess.run([*command, '-c', 'import numpy, penstock, torch'],
                          capture_output=True).returncode == 0:
            return command
    raise Unavailable('no Python with numpy and torch')


def mover(b, mode, path, *options):
    command = [*interpreter(b), HERE + '/pymover.py', mode, '-f', path, *map(str, options)]
    return lambda: fio.program(command)


def peak_gib(s):
    return s['extra'] / (1 << 30)


def bulk(b):
    print(f'{b.args.size >> 20} MiB by one blocking call: from Python and from C')
    for mode in ('read', 'overwrite', 'fresh'):
        path = os.path.join(b.folder, 'fresh') if mode == 'fresh' else b.data
        size = ('-s', b.args.size)
        from_c = Variant(f'{mode}: C', b.mover(mode, path, *size, '-m', 'own'))
        pinned = Variant(f'{mode}: Python, pinned', mover(b, mode, path, *size, '-m', 'pinned'))
        ordinary = Variant(f'{mode}: Python, ordinary', mover(b, mode, path, *size, '-m', 'plain'))
        variants = [from_c, pinned, ordinary]
        if mode == 'fresh':
            for v in variants:
                v.run = fresh_run(v.run, path)
        b.interleave(variants)
        show(['', 'GB/s', 'min .. max', 'of C', 'CPU s/GiB'],
             [[v.name, f'{v.median(speed):.3f}', v.spread(speed, '.3f'),
               f'{ratio(v, from_c, speed):.3f}', f'{v.median(cpu_per_gib):.4f}']
              for v in variants])
        b.target(f'{mode}: speed of the same through the C API', ratio(pinned, from_c, speed), 0.98)
        b.target(f'{mode}: ordinary tensor, speed of a pinned one', ratio(ordinary, pinned, speed),
                 0.85)


def submit(b):
    count = 20000 if b.args.quick else 400000
    print(f'{count} asynchronous reads on engine null from one Python thread')
    variants = [Variant(f'{size >> 10} KiB', mover(b, 'submit', b.small, '-s', size, '-c', count))
                for size in (4096, 65536)]
    b.interleave(variants)
    show(['', 'submits/s', 'min .. max', 'in batches of 1000'],
         [[v.name, f'{v.median(iops):.0f}', v.spread(iops, '.0f'),
           f'{v.median(lambda s: s["batch_iops"]):.0f}'] for v in variants])
    for v in variants:
        b.target(f'{v.name}: submits a second', v.median(iops), 200000, form='.0f')


def others(b):
    print(f'{b.args.size >> 20} MiB, cold from the file and durable in it, memory fresh')
    for mode, path in (('load', b.data), ('store', os.path.join(b.folder, 'fresh'))):
        variants = [Variant(f'{mode}: {way}', mover(b, mode, path, '-s', b.args.size, '-w', way))
                    for way in WAYS]
        if mode == 'store':
            for v in variants:
                v.run = fresh_run(v.run, path)
        b.interleave(variants)
        show(['', 'GB/s', 'min .. max', 'CPU s/GiB', 'more memory, GiB'],
             [[v.name, f'{v.median(speed):.3f}', v.spread(speed, '.3f'),
               f'{v.median(cpu_per_gib):.3f}', f'{v.median(peak_gib):.2f}'] for v in variants])


SECTIONS = {'python-bulk': bulk, 'python-submit': submit, 'python-others': others}
