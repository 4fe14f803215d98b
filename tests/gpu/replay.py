#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock replay` into the memory of a GPU, with a stand-in for CUDA.  replay.py PENSTOCK ROOT"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import json
import subprocess
import tempfile

import resultcheck
import tap

resultcheck.need('jsonschema')

PENSTOCK, ROOT = map(os.path.abspath, sys.argv[1:3])
HEAD = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'
ROWS = ['0.0,Write,3000001,Tier-0,a,Prefill', '0.1,Write,70000,Tier-0,b,Prefill', '0.2,Read,3000001,Tier-0,a,Decode',
        '0.3,Read,3000001,Tier-0,a,Evict', '0.3,Write,3000001,Tier-1,a,Evict', '0.4,Read,3000001,Tier-1,a,Evict',
        '0.4,Write,3000001,Tier-2,a,Evict', '0.5,Read,3000001,Tier-2,a,Decode', '0.6,Read,70000,Tier-0,b,Decode']


def replay(work, *args, env=None):
    with open(f'{work}/t.csv', 'w') as f:
        f.write('\n'.join([HEAD, *ROWS]) + '\n')
    done = subprocess.run([PENSTOCK, 'replay', 't.csv', '--pace', 'flat-out', '--json', 'r.json', *args], cwd=work, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return done
    with open(f'{work}/r.json') as f:
        result = json.load(f)
    resultcheck.check(ROOT, result)
    return result


def tiers_can_be_a_GPU_memory_and_a_folder():
    with tempfile.TemporaryDirectory(prefix='penstock-test-', dir='.') as work:
        r = replay(work, '--tier', '0=gpu', '--tier', '1=memory', '--tier', '2=d', '--verify')
        done = {(d['tier'], d['operation']): d['ops'] for d in r['replay']['done']}
        assert done == {('Tier-0', 'Write'): 2, ('Tier-0', 'Read'): 3, ('Tier-1', 'Write'): 1, ('Tier-1', 'Read'): 1,
                        ('Tier-2', 'Write'): 1, ('Tier-2', 'Read'): 1}, done
        assert r['replay']['cache']['objects'] == 2 and r['replay']['errors']['reads'] == 0
        assert r['bytes_written'] >= 3000001


def a_GPU_that_is_not_there_is_status_3_and_nothing_is_made():
    with tempfile.TemporaryDirectory(prefix='penstock-test-', dir='.') as work:
        for args, env in (['--tier', '0=gpu:200'], None), (['--tier', '0=gpu'], {**os.environ, 'LD_LIBRARY_PATH': ''}):
            done = replay(work, *args, '--tier', '2=d', env=env)
            assert not isinstance(done, dict) and done.returncode == 3 and done.stderr.count('\n') == 1, done
            assert os.listdir(work) == ['t.csv'], os.listdir(work)


tap.run(tiers_can_be_a_GPU_memory_and_a_folder, a_GPU_that_is_not_there_is_status_3_and_nothing_is_made)
