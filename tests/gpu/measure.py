#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock bench` and `penstock sweep` on device memory, with stand-ins for CUDA and cuFile.

    measure.py PENSTOCK ROOT
"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import json
import subprocess

import resultcheck
import tap
from tap import folder

resultcheck.need('jsonschema')

PENSTOCK = os.path.abspath(sys.argv[1])
ROOT = sys.argv[2]


def run(*args, status=0, **more):
    done = subprocess.run([PENSTOCK, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, **more})
    assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def result(*args):
    with folder():
        r = json.loads(run(*args, '--json', '-', '--no-limit')[0])
    resultcheck.check(ROOT, r)
    return r


def bench_verifies_what_went_through_the_pool():
    # 20M is more than the window through which the program looks at device memory
    for more in [], ['--rwmix', 50], ['--random', '--span', '64M', '--in-flight', 3]:
        r = result('bench', '--size', '300K', '20M', '-n', 6, '--memory', 'gpu', '--verify', *more)
        assert {s['ran']['path'] for s in r['series']} == {'pinned_pool'}, r['series']
        assert all(s['verified_bytes'] > 0 for s in r['series']), more
        assert r['machine']['gpu'], r['machine']


def bench_finds_a_wrong_byte_in_device_memory():
    with folder() as f:
        _, err = run('bench', '--size', '20M', '-n', 3, '--memory', 'gpu', '--verify', '--no-limit', '--engine',
                     'fault:inner=null', status=1)
        assert err.count('\n') == 1, err
        assert os.listdir(f) == []


def cufile_is_a_path_of_its_own():
    r = result('bench', '--size', '1M', '-n', 5, '--memory', 'gpu', '--engine', 'cufile', '--verify')
    assert {s['ran']['path'] for s in r['series']} == {'cufile'}, r['series']


def sweep_has_gpu_rows():
    args = ['--size', '1M', '--block-size', '256K', '--queue-depth', 4, 8, '--threads', 1,
            '--sequential-requests', 'no', '--single-submit', 'no']
    r = result('sweep', *args, '--gpu')
    assert len(r['series']) == 4 and {s['ran']['path'] for s in r['series']} == {'pinned_pool'}, r['series']
    r = result('sweep', *args, '--gpu', '--gds')
    assert {s['ran']['path'] for s in r['series']} == {'cufile'}, r['series']
    r = result('sweep', *args, '--memory', 'own', 'gpu')
    assert {s['ran']['path'] for s in r['series']} == {'host', 'pinned_pool'}, r['series']


def without_a_gpu_it_is_status_3():
    paths = os.environ['LD_LIBRARY_PATH'].split(':')
    no_gpu = ':'.join(p for p in paths if not os.path.exists(p + '/libcuda.so.1'))
    with folder() as f:
        for args in ['bench', '--memory', 'gpu'], ['io', '--gpu'], ['sweep', '--gpu'], ['weights', 'llama-8b', '--gpu']:
            _, err = run(*args, status=3, LD_LIBRARY_PATH=no_gpu)
            assert err.count('\n') == 1 and err.count('no GPU memory') == 1, err
            assert os.listdir(f) == []


tap.run(bench_verifies_what_went_through_the_pool, bench_finds_a_wrong_byte_in_device_memory,
        cufile_is_a_path_of_its_own, sweep_has_gpu_rows, without_a_gpu_it_is_status_3)
