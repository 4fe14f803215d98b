#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of penstock beside fio and beside a bare io_uring loop; this is `make perf`.

    perf.py [--build DIR] [--dir DIR] [--rounds N] [--only NAME,...] [--json FILE] [--quick]

What runs is described in docs/performance.md.  Programs that are compared take turns, in an order
that changes from round to round.  The exit status says whether everything ran, never how fast.
"""
import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import sys
import time

import ckpt
import fio
import places
import pysections
from bench import Variant, cpu_per_gib, cpu_per_op, fresh_run, iops, ratio, show, speed
from places import GIB, Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, 'callgrind.json')
MODES = ('null-large', 'null-single', 'null-batch', 'null-ticket')  # whose instructions are recorded

BLOCK, DEPTH = 1 << 20, 32  # the library's defaults, given to the others

FIO_RANDOM = ['--fixedbufs', '--registerfiles', '--iodepth_batch_submit=16',
              '--iodepth_batch_complete_min=1', '--iodepth_batch_complete_max=16']


class Bench:
    def __init__(self, args, folder, undo):
        self.args, self.folder, self.undo = args, folder, undo
        self.targets, self.skipped, self.broken, self.results = [], [], [], {}
        self.section = ''
        self.with_fio = bool(shutil.which('fio'))

    # What sections share, made when first asked for.

    @functools.cached_property
    def data(self):
        places.need_direct(self.folder)
        places.need_space(self.folder, 2 * self.args.size)
        path = os.path.join(self.folder, 'data')
        places.make_data(path, self.args.size)
        return path

    @functools.cached_property
    def small(self):
        path = os.path.join(self.folder, 'small')
        places.make_data(path, 16 << 20)
        return path

    @functools.cached_property
    def huge_page(self):
        """Size of a hugetlb page, with enough of them reserved for fio; None: not here."""
        try:
            return self.undo.enter_context(places.hugetlb(BLOCK * DEPTH + (16 << 20)))
        except Unavailable as why:
            self.skip(f'fio with --iomem=mmaphuge: {why}')
            return None

    def program(self, name):
        for folder in ('tests/perf', ''):
            path = os.path.join(self.args.build, folder, name)
            if os.path.exists(path):
                return os.path.abspath(path)
        raise Unavailable(f'no {name} in {self.args.build}: it is built where liburing is found')

    def mover(self, mode, path, *options):
        command = [self.program('perf-mover'), mode, '-f', path, *map(str, options)]
        return lambda: fio.program(command)

    # Running and reporting.

    def skip(self, what):
        self.skipped.append(f'{self.section}: {what}')
        print(f'  skipped: {what}')

    def interleave(self, variants):
        """Every variant once a round, each round starting with another one."""
        for i in range(self.args.rounds):
            at = i % len(variants)
            for v in variants[at:] + variants[:at]:
                if sys.stderr.isatty():
                    print(f'\r  round {i + 1} of {self.args.rounds}: {v.name}\033[K', end='',
                          file=sys.stderr, flush=True)
                v.samples.append(v.run())
        if sys.stderr.isatty():
            print('\r\033[K', end='', file=sys.stderr, flush=True)
        self.results.setdefault(self.section, {}).update({v.name: v.samples for v in variants})
        for v in variants:
            self.remarks(v)

    def remarks(self, v):
        """What makes a figure mean something else than its name says."""
        last = v.samples[-1]
        if last.get('direct') is False and self.section != 'sync':
            print(f'  note: {v.name}: went through the page cache')
        if last.get('fallbacks'):
            print(f'  note: {v.name}: fallbacks 0x{last["fallbacks"]:x} were taken')
        if last.get('registered') is False:
            print(f'  note: {v.name}: the buffer could not be registered')
        if last.get('memory', 'own') == 'own' and last.get('huge_bytes', 1 << 62) < last['bytes']:
            print(f'  note: {v.name}: only {last["huge_bytes"] >> 20} MiB were on huge pages')
        if self.section in BULK and last.get('block', BLOCK) != BLOCK:
            print(f'  note: {v.name}: blocks of {last["block"]} bytes')

    def target(self, text, value, limit, at_most=False, blur=0.0, form='.2f'):
        """Compare with a target; @blur is what the other side's figure cannot resolve."""
        if value is None:
            met, verdict = None, 'not measured'
        else:
            over = value - limit if at_most else limit - value
            met = over <= blur
            verdict = 'NOT met' if not met else 'met' if over <= 0 else 'met within resolution'
        shown = '' if value is None else f'{value:{form}}'
        print(f'  {verdict:<12}  {shown:>10}  {text}, {"at most" if at_most else "at least"} '
              f'{limit:{form}}')
        self.targets.append({'section': self.section, 'target': text, 'value': value,
                             'limit': limit, 'at_most': at_most, 'met': met, 'verdict': verdict})


# ------------------------------------------------------------ 1 GiB transfers

def fio_fresh(command, path, size):
    """fio preallocates before its clock starts; done here instead, and added to its time."""
    def run():
        wall, cpu = time.monotonic(), time.process_time()
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_DIRECT)
        os.posix_fallocate(fd, 0, size)
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        os.close(fd)
        sample = fio.run(command)
        sample['seconds'] += wall
        sample['cpu_seconds'] += cpu
        return sample
    return run


def fio_bulk(b, mode, path):
    """fio's four ways, as far as they are possible here."""
    if not b.with_fio:
        b.skip('fio is not installed')
        return []
    variants = []
    for huge in (False, True):
        if huge and not b.huge_page:
            continue
        for engine in ('libaio', 'io_uring'):
            command = fio.options(path, 'read' if mode == 'read' else 'write', engine, BLOCK,
                                  DEPTH, b.args.size)
            if huge:
                command += ['--iomem=mmaphuge', f'--hugepage-size={b.huge_page}']
            run = fio_fresh(command, path, b.args.size) if mode == 'fresh' else \
                functools.partial(fio.run, command)
            variants.append(Variant(f'fio {engine}, {"huge pages" if huge else "ordinary"}', run))
    return variants


def bulk(b, mode):
    size = b.args.size
    data = b.data
    path = os.path.join(b.folder, 'fresh') if mode == 'fresh' else data
    print(f'{size >> 20} MiB in one piece, O_DIRECT, blocks of {BLOCK >> 10} KiB, depth {DEPTH}')
    bare_command = [b.program('perf-bare'), mode, path, str(size), str(BLOCK), str(DEPTH)]
    bare = Variant('bare loop', functools.partial(fio.program, bare_command))
    own, plain, odd = (
        Variant(f'penstock, {name}', b.mover(mode, path, '-s', size, '-m', memory))
        for name, memory in (('own buffers', 'own'), ('ordinary', 'plain'), ('odd address', 'odd')))
    rivals = fio_bulk(b, mode, path)
    variants = [bare, own, plain, odd] + rivals
    if mode == 'fresh':
        for v in variants:
            v.run = fresh_run(v.run, path)
    b.interleave(variants)

    ordinary = [v for v in rivals if v.name.endswith('ordinary')]
    best = max(rivals, key=lambda v: v.median(speed), default=None)
    best_ordinary = max(ordinary, key=lambda v: v.median(speed), default=None)
    show(['', 'GB/s', 'min .. max', 'of best fio', 'of bare', 'CPU s/GiB', 'min .. max'],
         [[v.name, f'{v.median(speed):.3f}', v.spread(speed, '.3f'),
           f'{ratio(v, best, speed):.3f}' if best else '-', f'{ratio(v, bare, speed):.3f}',
           f'{v.median(cpu_per_gib):.4f}', v.spread(cpu_per_gib, '.4f')] for v in variants])
    name = best.name if best else 'fio'
    b.target(f'own buffers: speed of the fastest fio ({name})', ratio(own, best, speed), 0.98)
    b.target('own buffers: CPU s/GiB, that of the same fio run',
             own.median(cpu_per_gib) if best else None,
             best.median(cpu_per_gib) if best else 0, at_most=True,
             blur=fio.RESOLUTION_CPU / (size / GIB), form='.4f')
    b.target('own buffers: speed of the bare loop', ratio(own, bare, speed), 0.97)
    b.target('own buffers: CPU s/GiB more than the bare loop',
             own.median(cpu_per_gib) - bare.median(cpu_per_gib), 0.01, at_most=True, form='.4f')
    b.target('ordinary memory: speed of fio with ordinary buffers',
             ratio(plain, best_ordinary, speed), 0.98)
    b.target('ordinary memory: speed of the fastest fio', ratio(plain, best, speed), 0.85)
    b.target('odd address: speed of the fastest fio', ratio(odd, best, speed), 0.5)


# ------------------------------------------------------------- random reads

def random_case(b, path, size, depth, jobs):
    seconds = b.args.seconds
    ours = Variant(f'penstock, depth {depth}, {jobs} I/O thread{"s" * (jobs > 1)}',
                   b.mover('randread', path, '-d', depth, '-t', jobs, '-w', seconds))
    variants, rival = [ours], None
    if b.with_fio:
        command = fio.options(path, 'randread', 'io_uring', 4096, depth, size, jobs)
        command += FIO_RANDOM + ['--norandommap', '--time_based',
                                 f'--runtime={seconds * 1000:.0f}ms']
        rival = Variant(f'fio, depth {depth}, {jobs} job{"s" * (jobs > 1)}',
                        functools.partial(fio.run, command))
        variants.append(rival)
    return variants, ours, rival


def random_reads(b, path, size):
    print(f'4 KiB random reads, O_DIRECT, {size >> 20} MiB file, {b.args.seconds:g} s a run')
    if not b.with_fio:
        b.skip('fio is not installed')
    cases = {(depth, jobs): random_case(b, path, size, depth, jobs)
             for depth in (32, 128) for jobs in (1, 2)}
    b.interleave([v for variants, _, _ in cases.values() for v in variants])
    show(['', 'IOPS', 'min .. max', 'of fio', 'CPU us/op', 'min .. max'],
         [[v.name, f'{v.median(iops):.0f}', v.spread(iops, '.0f'),
           f'{ratio(v, rival, iops):.3f}' if rival else '-',
           f'{v.median(cpu_per_op):.2f}', v.spread(cpu_per_op, '.2f')]
          for variants, _, rival in cases.values() for v in variants])
    for (depth, jobs), (_, ours, rival) in cases.items():
        b.target(f'depth {depth}, {jobs} I/O thread{"s" * (jobs > 1)}: IOPS of fio',
                 ratio(ours, rival, iops), 0.95)


def random_disk(b):
    random_reads(b, b.data, b.args.size)


def random_zram(b):
    size = min(b.args.size, GIB // 2)
    with places.zram_ext4(b.folder, size) as point:
        path = os.path.join(point, 'data')
        places.make_data(path, size)
        random_reads(b, path, size)


# ------------------------------------------------- cost of the library itself

def null(b):
    count = b.args.null_blocks
    print(f'{count} blocks of 4 KiB through engine null, 1 I/O thread')
    variants = [Variant('one large operation', b.mover('null-large', b.small, '-c', count)),
                Variant('operations of one block', b.mover('null-single', b.small, '-c', count))]
    b.interleave(variants)
    show(['', 'million blocks/s', 'min .. max', 'CPU ns/block', 'min .. max'],
         [[v.name, f'{v.median(iops) / 1e6:.2f}', v.spread(lambda s: iops(s) / 1e6, '.2f'),
           f'{v.median(cpu_per_op) * 1e3:.1f}', v.spread(lambda s: cpu_per_op(s) * 1e3, '.1f')]
          for v in variants])
    for v in variants:
        b.target(f'{v.name}: million blocks a second', v.median(iops) / 1e6, 3)


def instructions(b, mode, count):
    """Instructions of one run, counted by callgrind."""
    command = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null',
               b.program('perf-mover'), mode, '-f', b.small, '-c', str(count)]
    return int(re.search(r'Collected : (\d+)', fio.call(command)[1])[1])


def compiler_of(program):
    with open(program, 'rb') as f:
        names = re.findall(rb'clang version [\d.]+|GCC: \([^)]*\) [\d.]+', f.read())
    return min(names, default=b'unknown', key=lambda n: n.startswith(b'GCC')).decode()


def callgrind(b):
    if not shutil.which('valgrind'):
        raise Unavailable('valgrind is not installed')
    few, many = b.args.callgrind_blocks
    print(f'instructions per 4 KiB block, engine null: difference of {many} and {few} blocks')
    now = {'compiler': compiler_of(b.program('perf-mover'))}
    for mode in MODES:
        more = instructions(b, mode, many) - instructions(b, mode, few)
        now[mode] = round(more / (many - few), 1)
    kept = json.loads(places.text_of(RECORD, '{}'))
    show(['', 'instructions', 'recorded', 'drift'],
         [[mode, f'{now[mode]:.1f}', f'{kept[mode]:.1f}' if mode in kept else '-',
           f'{now[mode] / kept[mode] - 1:+.1%}' if mode in kept else '-']
          for mode in MODES])
    if kept and kept['compiler'] != now['compiler']:
        print(f'  note: recorded with {kept["compiler"]}, this is {now["compiler"]}')
    b.results['callgrind'] = {'now': now, 'recorded': kept}
    if b.args.record:
        with open(RECORD, 'w') as f:
            f.write(json.dumps(now, indent=2) + '\n')
        print('  recorded in tests/perf/callgrind.json')


def sync(b):
    print('penstock_pread() of 4 KiB against pread(2): same descriptor, same offsets')
    calls = 512 if b.args.quick else 8192
    variants = [Variant('O_DIRECT', b.mover('sync', b.data, '-c', calls)),
                Variant('page cache', b.mover('sync-cached', b.small, '-c', 8 * calls))]
    b.interleave(variants)
    show(['', 'penstock us', 'pread us', 'difference', 'min .. max', 'quartiles in a run'],
         [[v.name, f'{v.median(lambda s: s["penstock_us"]):.2f}',
           f'{v.median(lambda s: s["bare_us"]):.2f}', f'{v.median(lambda s: s["more_us"]):.2f}',
           v.spread(lambda s: s['more_us'], '.2f'),
           f'{v.median(lambda s: s["more_us_q1"]):.2f} .. '
           f'{v.median(lambda s: s["more_us_q3"]):.2f}'] for v in variants])
    for v in variants:
        b.target(f'{v.name}: microseconds above pread', v.median(lambda s: s['more_us']), 2,
                 at_most=True)


def many(b):
    print('512 asynchronous operations of 128 KiB against one of 64 MiB, own buffers')
    variants = [Variant(f'{what}, {threads} I/O thread{"s" * (threads > 1)}',
                        b.mover(f'many-{what}', b.data, '-t', threads,
                                '-c', 4 if b.args.quick else 16))
                for what in ('read', 'write') for threads in (1, 8)]
    b.interleave(variants)

    def share(s):
        return s['one_seconds'] / s['many_seconds']

    show(['', '512 ops GB/s', 'one op GB/s', 'ratio', 'min .. max', 'CPU s/GiB'],
         [[v.name, f'{(64 << 20) / 1e9 / v.median(lambda s: s["many_seconds"]):.3f}',
           f'{(64 << 20) / 1e9 / v.median(lambda s: s["one_seconds"]):.3f}',
           f'{v.median(share):.3f}', v.spread(share, '.3f'), f'{v.median(cpu_per_gib):.4f}']
          for v in variants])
    for v in variants:
        b.target(f'{v.name}: speed of one operation', v.median(share), 0.9)


BULK = ('read', 'overwrite', 'fresh')
SECTIONS = {
    **{mode: functools.partial(bulk, mode=mode) for mode in BULK},
    'random-disk': random_disk,
    'random-zram': random_zram,
    'null': null,
    'callgrind': callgrind,
    'sync': sync,
    'many': many,
    **ckpt.SECTIONS,
    **pysections.SECTIONS,
}


# ------------------------------------------------------------------------ main

def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--build', default='build', help='where perf-bare and perf-mover are (build)')
    p.add_argument('--dir', help='folder on the disk to measure (the build directory)')
    p.add_argument('--rounds', type=int, default=7, help='runs of each program (7)')
    p.add_argument('--seconds', type=float, default=2, help='of each run of random reads (2)')
    p.add_argument('--only', default='', metavar='NAME,...', help=', '.join(SECTIONS))
    p.add_argument('--json', metavar='FILE', help='every measurement, for other programs')
    p.add_argument('--record', action='store_true',
                   help='keep the instruction counts in tests/perf/callgrind.json')
    p.add_argument('--quick', action='store_true',
                   help='small and short, to see that it runs: the figures mean nothing')
    args = p.parse_args()
    names = [n for n in args.only.split(',') if n]
    for name in names:
        if not any(s.startswith(name) for s in SECTIONS):
            p.error(f'--only: {name} is none of {", ".join(SECTIONS)}')
    if args.rounds < 1 or args.seconds <= 0:
        p.error('--rounds and --seconds must be positive')
    args.sections = [s for s in SECTIONS if not names or any(s.startswith(n) for n in names)]
    args.dir = args.dir or args.build
    args.size, args.null_blocks, args.callgrind_blocks = GIB, 1 << 24, (20000, 220000)
    if args.quick:
        args.rounds, args.seconds = min(args.rounds, 2), min(args.seconds, 0.3)
        args.size, args.null_blocks, args.callgrind_blocks = GIB // 8, 1 << 20, (5000, 25000)
    return args


def interrupted(number, frame):
    """Once: what follows is cleaning up, which must not be cut short."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def run_sections(b):
    for b.section in b.args.sections:
        print(f'\n{b.section}:', end=' ', flush=True)
        try:
            SECTIONS[b.section](b)
        except Unavailable as why:
            b.skip(str(why))
        except fio.Broken as why:
            b.broken.append(b.section)
            print(f'  BROKEN: {why}')
        sys.stdout.flush()


def summary(b):
    count = {met: sum(t['met'] is met for t in b.targets) for met in (True, False, None)}
    print(f'\n{count[True]} targets met, {count[False]} NOT met, {count[None]} not measured')
    for t in b.targets:
        if t['met'] is False:
            print(f'  NOT met: {t["section"]}: {t["target"]}: {t["value"]:.4g}, '
                  f'{"at most" if t["at_most"] else "at least"} {t["limit"]:.4g}')
    for what in b.skipped:
        print(f'  skipped: {what}')
    if b.args.quick or b.args.rounds < 7:
        print('  too few or too short runs to mean anything: 7 rounds or more, without --quick')


def main():
    args = parse()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupted)
    try:
        with contextlib.ExitStack() as undo:
            folder = undo.enter_context(places.scratch(args.dir))
            b = Bench(args, os.path.abspath(folder), undo)
            machine = places.machine(folder)
            for name, text in machine.items():
                print(f'{name:<12} {text}')
            run_sections(b)
            summary(b)
            if args.json:
                with open(args.json, 'w') as f:
                    json.dump({'schema': 1, 'machine': machine, 'settings': vars(args),
                               'samples': b.results, 'targets': b.targets,
                               'skipped': b.skipped, 'broken': b.broken}, f, indent=1)
    except KeyboardInterrupt:
        print('\ninterrupted', file=sys.stderr)
        sys.exit(130)
    sys.exit(1 if b.broken else 0)


if __name__ == '__main__':
    main()
