#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill a run at a random moment, again and again: the next one always works, and nothing is left.

soak_kill.py PENSTOCK [KILLS] [LAYOUT...]

KILLS kills per layout (5; 1000 is a soak, about twenty minutes a layout), among files, hashed, slab (a name of its own), folder (a slab in a
folder), keep (files that are kept and taken over) and kv.  PENSTOCK_TEST_SEED repeats a soak.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

# Instead of this folder, as its neighbours do.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
import tap

PENSTOCK = os.path.abspath(sys.argv[1])
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
LONGEST = 0.25  # seconds until the kill; a run takes about that long
PRECIOUS = b'precious'

REPLAY = ['replay', 't.csv', '--pace', 'flat-out', '--missing', 'create', '--target']
KV = ['kv', '--model', 'tiny-1b', '--num-users', '4', '--runtime', '1', '--cpu-mem-gb', '0', '--gpu-mem-gb', '0', '--storage-capacity-gb', '0.05',
      '--output', 'result.json', '--folder']
LAYOUTS = {
    'files': [*REPLAY, 'd'],
    'hashed': [*REPLAY, 'd', '--layout', 'hashed'],
    'slab': [*REPLAY, 'd.slab', '--layout', 'slab'],
    'folder': [*REPLAY, 'd/', '--layout', 'slab'],
    'keep': [*REPLAY, 'd', '--keep'],
    'kv': [*KV, 'd'],
}


def write_trace(draw):
    """Objects that come and go, so that there are spare files, too."""
    with open('t.csv', 'w') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        for i in range(400):
            key, size = f'k{draw.randrange(60)}', draw.choice([0, 1, 4096, 70000, 300000])
            operation, phase = draw.choice([('Write', 'Decode'), ('Read', 'Decode'), ('Read', 'Evict')])
            f.write(f'{i * 1e-4:.4f},{operation},{size},Tier-2,{key},{phase}\n')


def run(args):
    return subprocess.run([PENSTOCK, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)


def kill_one(args, after):
    """Returns whether it was still running."""
    process = subprocess.Popen([PENSTOCK, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    err = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL), (args, process.returncode, err)
    return process.returncode < 0


def check_end(args, seed):
    """A last run to its end: with what was there, or without."""
    more = [] if args[0] == 'kv' else ['--fresh'] if seed % 2 else ['--verify']
    done = run([a for a in args if a != '--keep'] + more)
    assert done.returncode == 0, (args, more, done.returncode, done.stderr)
    left = sorted(set(os.listdir('.')) - {'t.csv', 'mine', 'result.json'})
    assert not left or (left == ['d'] and not os.listdir('d')), (args, left)


def soak(name, seed):
    args, draw, hits, begin = LAYOUTS[name], random.Random(seed), 0, time.monotonic()
    with open('mine', 'wb') as f:
        f.write(PRECIOUS)
    for i in range(KILLS):
        write_trace(draw)
        hits += kill_one(args, draw.random() ** 2 * LONGEST)
        if draw.random() < 0.3:
            check_end(args, draw.randrange(1000))
    check_end(args, seed)
    with open('mine', 'rb') as f:
        assert f.read() == PRECIOUS
    print(f'# {name}: {hits} of {KILLS} runs killed in {time.monotonic() - begin:.0f} s')


def case(name, seed):
    def function():
        with tap.folder():
            soak(name, seed)
    return f'killed at any moment, {name} needs nobody', function


SEED = int(os.environ.get('PENSTOCK_TEST_SEED') or random.randrange(1 << 32))
print(f'# PENSTOCK_TEST_SEED={SEED}')
tap.run(*[case(name, SEED + i) for i, name in enumerate(sys.argv[3:] or LAYOUTS)])
