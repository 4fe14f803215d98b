#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock's adapters beside the disk tiers that vLLM and LMCache bring themselves, on the same disk.

    store_engines.py [--build DIR] [--dir DIR] [--rounds N] [--sizes MIB,...] [--only PART,...] [--json FILE]

Needs the packages that tests/peers/{vllm,lmcache}.txt name; a part whose package is missing is skipped in
one line.  vLLM's tiers are called as its manager calls them, jobs of 16 blocks, all handed in at once; part
vllm-why has the store with one thing different each, to find what its speed comes from.  LMCache's are
measured by `lmcache bench l2`.  Contenders take turns, medians are shown.  What is loaded was stored by an
instance that is closed by then.  No contender but the one that says so flushes what it writes.
"""
import argparse
import functools
import importlib.util
import json
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace as Said

MIB, GIB = 1 << 20, 1 << 30
JOB, TOTAL = 16, 512 * MIB


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--sizes', default='1,4')
    p.add_argument('--only', default='vllm,lmcache')
    p.add_argument('--json')
    return p.parse_args()


# ---- vLLM

def vllm_spec():
    model = Said(name='m', dtype='float16')
    sizes = dict.fromkeys(('tp_size', 'pp_size', 'pcp_size', 'dcp_size', 'world_size'), 1)
    return Said(config=Said(model=model, groups=(), cache=Said(tokens_per_hash=16), canonical_layout=False,
                            replicated_layout=False, parallel=Said(rank=0, is_parallelism_agnostic=False, **sizes)),
                blocks_per_chunk=1, storage_format=None)


OPTIONS = {'penstock, durable': {'durable': True}, 'penstock, copies': {'recent': True}, 'penstock, two workers': {'threads': 2}}


def vllm_tier(who, folder, view):
    from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager

    import penstock.vllm
    if who == 'fs':
        return FileSystemTierManager(vllm_spec(), view, 'fs', root_dir=folder)
    tier = penstock.vllm.PenstockTier(vllm_spec(), view, 'PenstockTier', dirs=folder, capacity_gb=2 * TOTAL / GIB,
                                  **OPTIONS.get(who, {}))
    if who == 'penstock, not registered':
        tier._store.unregister(tier._view)
    return tier


def vllm_grow(who, folder, view, keys, rows):
    """A store whose files are as large as they will be, and which has nothing in it."""
    tier = vllm_tier(who, folder, view)
    vllm_pass(tier, False, keys, rows)
    assert all(tier._store.delete_many([tier._identity + key for key in keys]))
    tier.shutdown()


def vllm_pass(tier, loads, keys, rows):
    """Seconds, and seconds of the processor."""
    from vllm.v1.kv_offload.tiering import base
    context = base.ReqContext(req_id='r')
    since, cpu = time.monotonic(), time.process_time()
    left = 0
    for at in range(0, len(keys), JOB):
        job = base.TransferJob(at, keys[at:at + JOB], rows[at:at + JOB], loads, context)
        (tier.submit_load if loads else tier.submit_store)(job)
        left += 1
    while left:
        for done in tier.get_finished_jobs():
            assert done.success, done
            left -= 1
        time.sleep(0.0002)  # a scheduler has other things to do
    return time.monotonic() - since, time.process_time() - cpu


@functools.cache
def vllm_memory():
    memory = mmap.mmap(-1, TOTAL)
    memory[:] = random.randbytes(MIB) * (TOTAL // MIB)
    return memory


def vllm_round(args, who, folder, size):
    import numpy
    count, memory = TOTAL // size, vllm_memory()
    view = memoryview(memory).cast('B', (count, size))
    keys = [n.to_bytes(32, 'big') + bytes(4) for n in random.sample(range(1 << 40), count)]
    place = tempfile.mkdtemp(dir=folder)
    found = {}
    if who == 'penstock, files grown':
        vllm_grow(who, place, view, keys, numpy.arange(count))
    for op, rows in (('store', range(count)), ('load', random.sample(range(count), count))):
        tier = vllm_tier(who, place, view)
        wants = bytes(memory[:4096])
        seconds, cpu = vllm_pass(tier, op == 'load', keys, numpy.array(rows))
        tier.shutdown()
        if op == 'load':
            at = list(rows)[0] * size
            assert memory[at:at + 4096] == wants
        found[op] = {'gb_s': TOTAL / seconds / 1e9, 'cpu_s_gib': cpu / (TOTAL / GIB)}
    shutil.rmtree(place)
    return found


# ---- LMCache

def lmcache_bench(args, op, size, adapter):
    environ = dict(os.environ, LMCACHE_TRACK_USAGE='false', LMCACHE_LOG_LEVEL='ERROR',
                   PYTHONPATH=os.pathsep.join([os.path.join(args.build, 'python'), os.environ.get('PYTHONPATH', '')]))
    child = subprocess.run([sys.executable, '-m', 'lmcache.cli.main', 'bench', 'l2', '--only', op, '--num-keys', str(JOB),
                            '--in-flight', '4', '--rounds', str(TOTAL // size // JOB // 4), '--warmup-rounds', '0', '--data-size-kb',
                            str(size >> 10), '--l1-align-bytes', '4096', '--format', 'json', '--l2-adapter', json.dumps(adapter)],
                           text=True, env=environ, capture_output=True, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    metrics = json.JSONDecoder().raw_decode(child.stdout[child.stdout.index('{\n'):])[0]['metrics']
    (row,) = [m for m in metrics.values() if m.get('operation', '').lower() == op]
    assert row['total_success'] == row['total_keys'] == TOTAL // size, row
    return {'gb_s': row['keys_per_round'] * size / row['duration_avg_ms'] / 1e6}


def lmcache_round(args, who, folder, size):
    place = tempfile.mkdtemp(dir=folder)
    adapter = {'type': 'native_plugin', 'module_path': 'penstock.lmcache', 'class_name': 'LMCacheBackend',
               'adapter_params': {'dirs': [place], 'capacity_gb': 2 * TOTAL / GIB, 'durable': who == 'penstock, durable'}}
    if who.startswith('fs_native'):
        adapter = {'type': 'fs_native', 'base_path': place, 'use_odirect': 'O_DIRECT' in who}
    try:
        return {op: lmcache_bench(args, op, size, adapter) for op in ('store', 'load')}
    finally:
        shutil.rmtree(place)


# ---- both

PARTS = {'vllm': (vllm_round, ('penstock', 'penstock, durable', 'fs')),
         'vllm-why': (vllm_round, ('penstock', 'penstock, copies', 'penstock, two workers', 'penstock, not registered',
                                   'penstock, files grown', 'fs')),
         'lmcache': (lmcache_round, ('penstock', 'penstock, durable', 'fs_native, O_DIRECT', 'fs_native, page cache'))}


def compare(args, folder, part, size):
    one, contenders = PARTS[part]
    runs = {who: [] for who in contenders}
    for n in range(args.rounds):
        for who in contenders[n % len(contenders):] + contenders[:n % len(contenders)]:
            runs[who].append(one(args, who, folder, size))
    found = []
    for who, rows in runs.items():
        row = {'part': part, 'mib': size // MIB, 'who': who}
        for op in ('store', 'load'):
            for what in rows[0][op]:
                row[f'{op}_{what}'] = statistics.median(r[op][what] for r in rows)
        found.append(row)
        print('  '.join([f'{part:8} {size // MIB:3} MiB  {who:22}', *(f'{k} {row[k]:.3f}' for k in list(row)[3:])]), flush=True)
    return found


def main():
    args = arguments()
    sys.path.insert(0, os.path.join(args.build, 'python'))
    found = []
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='penstock-engines-') as folder:
        for part in args.only.split(','):
            if importlib.util.find_spec(part.partition('-')[0]) is None:
                print(f'{part}: skipped: it is not installed')
                continue
            for size in args.sizes.split(','):
                found += compare(args, folder, part, int(size) * MIB)
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(found, f, indent=1)


main()
