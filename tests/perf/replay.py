# SPDX-License-Identifier: Apache-2.0
"""Replays flat out, in turn with fio doing I/O of the same sizes, mix and depth.

    replay.py [--dir DIR] [--build BUILD] [--rounds N] [--requests N] [--objects N] [--only kv,small] [--layouts files,slab] [--json FILE]

    kv      a storage-only KV-cache trace, as files and in a slab; fio has a file of its own
    small   objects of 64 KiB in a slab, written once and read at random; a million of them by default, which
            takes 61 GiB of disk.  The slab is made beforehand, and fio works in the same file

fio has its buffers on small pages and, where there are some, on huge ones.  Speed is bytes over time, CPU seconds
are per GiB; ratios are of medians, to the fastest fio.  What it needs is written to DIR and removed.
"""
import argparse
import contextlib
import csv
import json
import os
import random
import subprocess
import sys
import tempfile

import fio
import places
from bench import Variant, cpu_per_gib, interleave, show, speed
from places import GIB, Unavailable

SLAB_HEAD = 1 << 20  # bytes of a slab before the first object


def penstock_replay(penstock, trace, target, layout, *more):
    """One replay: bytes, seconds, CPU seconds of the measured part."""
    out, _ = fio.call([penstock, 'replay', trace, '--pace', 'flat-out', '--target', target, '--layout', layout, '--json', '-', *more])
    result = json.loads(out)
    r = result['replay']
    assert not result['partial'] and not r['errors']['reads'] + r['errors']['writes'], r['errors']
    return {'bytes': sum(d['bytes'] for d in r['done']), 'seconds': r['elapsed_sec'],
            'cpu_seconds': r['cpu']['user_sec'] + r['cpu']['system_sec'], 'ops': sum(d['ops'] for d in r['done'])}


def fio_job(penstock, trace, *more):
    """The job that penstock exports for a trace, as options."""
    with tempfile.NamedTemporaryFile('r', suffix='.fio') as f:
        fio.call([penstock, 'replay', trace, '--target', 'null', '--pace', 'flat-out', '--dry-run', '--export-fio', f.name, *more])
        with open(f.name) as job:
            lines = [line.strip() for line in job]
    keep = ('rw=', 'rwmixread=', 'bssplit=', 'iodepth=')
    return [f'--{line}' for line in lines if line.startswith(keep)]


def run_fio(path, size, total, job):
    text, _ = fio.call(['fio', '--name=job', f'--filename={path}', '--ioengine=io_uring', '--direct=1', f'--size={size}',
                        f'--io_size={total}', '--norandommap', '--randrepeat=0', '--output-format=json', *job])
    job = json.loads(text[text.index('{'):])['jobs'][0]
    moved = job['read']['io_bytes'] + job['write']['io_bytes']
    return {'bytes': moved, 'seconds': job['job_runtime'] / 1e3, 'ops': job['read']['total_ios'] + job['write']['total_ios'],
            'cpu_seconds': (job['usr_cpu'] + job['sys_cpu']) / 100 * job['job_runtime'] / 1e3}


def lay_out(path, size):
    """fio's file, written through: what it measures must not be the allocation."""
    fio.call(['fio', '--name=lay', f'--filename={path}', '--rw=write', '--bs=1M', '--ioengine=io_uring', '--iodepth=32', '--direct=1',
              f'--size={size}', '--output-format=json'])


def kv_trace(penstock, path, requests):
    fio.call([penstock, 'kv', '--model', 'tiny-1b', '--num-users', '20', '--runtime', '600', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0',
              '--storage-capacity-gb', '4', '--generation-mode', 'none', '--seed', '42', '--max-requests', str(requests),
              '--io-trace-log', path, '--trace-extended', '--output', path + '.json'])


def small_trace(path, objects):
    """Every object once, then as many reads of any of them."""
    draw = random.Random(1)
    with open(path, 'w', newline='') as f:
        writer = csv.writer(f)
        writer.writerow('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'.split(','))
        writer.writerows([f'{i * 1e-6:.6f}', 'Write', 65536, 'Tier-2', f'key_{i}', 'Prefill'] for i in range(objects))
        writer.writerows([f'{(objects + i) * 1e-6:.6f}', 'Read', 65536, 'Tier-2', f'key_{draw.randrange(objects)}', 'Decode']
                         for i in range(objects))


def compare(name, rounds, variants):
    """The first against the fastest of the others."""
    interleave(rounds, variants)
    print(f'{name}:')
    show(['', 'GB/s', 'from .. to', 'ops/s', 'CPU s/GiB'],
         [[v.name, f'{v.median(speed):.2f}', v.spread(speed, '.2f'),
           f'{v.median(lambda s: s["ops"] / s["seconds"]):.0f}', f'{v.median(cpu_per_gib):.3f}'] for v in variants])
    best = max(variants[1:], key=lambda v: v.median(speed))
    ratio = variants[0].median(speed) / best.median(speed)
    print(f'{name}: {ratio:.3f} of the speed of the fastest ({best.name}), '
          f'{variants[0].median(cpu_per_gib) / best.median(cpu_per_gib):.2f} of its CPU time (promised 0.9)', flush=True)
    return {'name': name, 'speed': ratio, 'rounds': {v.name: v.samples for v in variants}}


def measure_kv(a, work, undo):
    trace, file = f'{work}/kv.csv', f'{work}/fio.file'
    kv_trace(a.penstock, trace, a.requests)
    job, size = fio_job(a.penstock, trace), 4 * GIB
    lay_out(file, size)
    total = penstock_replay(a.penstock, trace, 'null', 'files')['bytes']
    print(f'kv: {total / GIB:.1f} GiB, fio {" ".join(job)}')
    results = []
    for layout in a.layouts.split(','):
        variants = [Variant('penstock', lambda layout=layout: penstock_replay(a.penstock, trace, f'{work}/target/', layout))]
        variants += [Variant(f'fio{name}', lambda memory=memory: run_fio(file, size, total, job + memory))
                     for name, memory in fio.memories(undo, 64 << 20)]
        results.append(compare(f'kv, {layout}', a.rounds, variants))
    os.unlink(file)
    return results


def measure_small(a, work, undo):
    trace, slab, size = f'{work}/small.csv', f'{work}/slab', a.objects * 65536
    small_trace(trace, a.objects)
    job = [o for o in fio_job(a.penstock, trace) if o.startswith('--iodepth')] + ['--bs=64K', f'--offset={SLAB_HEAD}']
    places.need_space(work, int(size * 1.01))
    penstock_replay(a.penstock, trace, slab, 'slab', '--keep')

    def theirs(memory):
        """The same: all of it written, then as much read at random."""
        parts = [run_fio(slab, size, size, job + memory + [f'--rw={rw}']) for rw in ('randwrite', 'randread')]
        return {k: sum(p[k] for p in parts) for k in parts[0]}
    variants = [Variant('penstock', lambda: penstock_replay(a.penstock, trace, slab, 'slab', '--keep', '--reuse'))]
    variants += [Variant(f'fio{name}', lambda memory=memory: theirs(memory)) for name, memory in fio.memories(undo, 64 << 16)]
    result = compare(f'{a.objects} objects of 64 KiB, slab', a.rounds, variants)
    os.unlink(slab)
    return [result]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--dir', default='.')
    p.add_argument('--build', default='build')
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--requests', type=int, default=60)
    p.add_argument('--objects', type=int, default=1000000)
    p.add_argument('--only', default='kv,small')
    p.add_argument('--layouts', default='files,slab')
    p.add_argument('--json')
    a = p.parse_args()
    a.penstock = os.path.join(a.build, 'penstock')
    results = []
    with tempfile.TemporaryDirectory(prefix='penstock-perf-', dir=a.dir) as work, contextlib.ExitStack() as undo:
        for part, measure in ('kv', measure_kv), ('small', measure_small):
            if part in a.only.split(','):
                results += measure(a, work, undo)
    if a.json:
        with open(a.json, 'w') as f:
            json.dump(results, f, indent=1)


try:
    main()
except Unavailable as why:
    print(f'replay: skipped: {why}')
except (fio.Broken, subprocess.SubprocessError) as e:
    sys.exit(f'replay.py: {e}')
