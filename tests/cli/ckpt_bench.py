#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock ckpt bench` as a user starts it.  ckpt_bench.py PENSTOCK ROOT"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import glob
import signal
import time

import clikit
import tap
from tap import in_folder

bench = clikit.Command('ckpt', 'bench')
SMALL = ['-s', '1M', '-p', '2', '--saves', '3', '--loads', '2', '--no-limit', '--chunk', '1M']

# What method `torch' needs of torch, on Python's own modules.  FAULT: what is loaded is not what was saved.
TORCH = '''
import os, pickle, random
uint8 = None
def manual_seed(n): random.seed(n)
def randint(low, high, shape, dtype): return bytearray(random.randbytes(shape[0]))
def save(obj, f): pickle.dump(obj, f)
def load(name):
    with open(name, 'rb') as f:
        obj = pickle.load(f)
    if os.environ.get('FAULT'):
        obj['tensors'][0][-1] ^= 1
    return obj
def equal(a, b): return a == b
'''


def with_torch(text=TORCH):
    os.mkdir('modules')
    with open('modules/torch.py', 'w') as f:
        f.write(text)
    return {**os.environ, 'PYTHONPATH': os.path.abspath('modules'), 'PYTHONDONTWRITEBYTECODE': '1'}


def left():
    return glob.glob('penstock-ckpt-*')


@in_folder
def methods_stand_side_by_side():
    result = bench.result(*SMALL, env=with_torch())
    assert result['command'] == 'ckpt bench' and result['partial'] is False
    names = [s['name'] for s in result['series']]
    assert names == ['save memory', 'load memory', 'save streaming', 'load streaming', 'save torch', 'load torch'], names
    for s in result['series']:
        assert s['ops'] == (3 if s['kind'] == 'write' else 2) and s['size'] == 2 << 20 and s['bytes'] == s['ops'] << 21, s
        assert s['kind'] == 'write' or s['verified_bytes'] == 2 << 20, s
        assert s['cache'].startswith(('cold', 'not used', 'used', 'warm', 'unknown')), s['cache']
    c = result['ckpt']
    assert c['processes'] == 2 and c['process_bytes'] == 1 << 20 and c['checkpoint_bytes'] == 2 << 20 and c['model'] is None
    assert [m['name'] for m in c['methods']] == ['memory', 'streaming', 'torch']
    for m in c['methods']:
        save, load = m['save'], m['load']
        assert m['why_not'] is None and save['operations'] == 3 and load['operations'] == 2, m
        # The slowest process's own clock is within the time of all, and no process is faster than all together.
        mean = result['series'][names.index(save['series'])]['latency']['mean']
        assert 0 < save['reference']['duration_sec'] <= mean * 1.001, (save, mean)
        assert save['reference']['throughput'] > 0 and save['close_sec'] > 0 and save['generation']['sec'] > 0, save
        assert save['generation']['within'] == (m['name'] == 'streaming') and 0 <= save['generation']['share'] <= 1, save
        assert load['generation'] is None and load['bottleneck'] is None
    assert not left()


@in_folder
def torch_that_is_missing_is_left_out_with_a_reason():
    env = with_torch("raise ImportError('no such thing')")
    result = bench.result(*SMALL, '--methods', 'streaming,torch', env=env)
    assert [s['name'] for s in result['series']] == ['save streaming', 'load streaming']
    assert 'no such thing' in result['ckpt']['methods'][1]['why_not'], result['ckpt']
    out, _ = bench(*SMALL, '--python', './nothing', '--methods', 'streaming', '--methods', 'torch')
    assert 'left out:   torch: process' in out and './nothing' in out, out
    done = bench(*SMALL, '--python', './nothing', '--methods', 'torch', status=3)
    assert 'nothing was measured' in done.err, done


@in_folder
def the_slowest_process_is_what_counts():
    """Process 1 of 2 takes a tenth of a second longer, whatever it is given."""
    slow = TORCH + """
import sys, time
quick = save
def save(obj, f):
    quick(obj, f)
    time.sleep(0.1 * int(sys.argv[2]))
"""
    result = bench.result(*SMALL, '--methods', 'torch', env=with_torch(slow))
    way = result['ckpt']['methods'][0]['save']
    assert way['reference']['duration_sec'] >= 0.1 and way['reference']['throughput'] <= (1 << 20) / 0.1, way
    assert result['series'][0]['latency']['min'] >= 0.1 and way['bytes_per_sec'] <= (2 << 20) / 0.1, result['series'][0]


@in_folder
def what_is_not_right_is_found():
    done = bench(*SMALL, '--methods', 'torch', env={**with_torch(), 'FAULT': '1'}, status=1)
    assert 'not what was saved' in done.err and not left(), done


@in_folder
def every_save_is_kept_where_that_is_asked_for():
    result = bench.result(*SMALL, '--methods', 'streaming', '--distinct')
    assert result['series'][1]['verified_bytes'] == 3 * (2 << 20), result['series'][1]
    assert not left()


@in_folder
def the_limit_of_the_device_stands_beside():
    result = bench.result('-s', '4M', '-p', '1', '--saves', '2', '--loads', '2', '--methods', 'streaming')
    for s in result['series']:
        assert s['limit']['bytes_per_sec'] > 0 and 0 < s['limit']['share'] <= 1, s['limit']
    result = bench.result(*SMALL[:-3], '--chunk', '1M', '--methods', 'streaming', '--limit', '1G')
    assert all(s['limit']['bytes_per_sec'] == 1 << 30 for s in result['series'])


@in_folder
def a_dry_run_makes_nothing():
    out, _ = bench('--dry-run', '--model', 'none', '-s', '1M', '-p', '3')
    assert '3 processes, 1 MiB each' in out and 'disk space' in out and os.listdir('.') == [], out


@in_folder
def too_little_room_is_told_before():
    bench.refused('--model', '1t', '--distinct', says='not enough free space')
    bench.refused('-s', '10T', says='not enough free space')


@in_folder
def bad_options_are_refused():
    bench.refused('--model', '9b', says=['--model', '9b'])
    bench.refused('--model', '8b', '--size', '1M', says=['--model', '--size'])
    bench.refused('--methods', 'cleverness', says=['--methods', 'cleverness'])
    bench.refused('--chunk', '1500K', says=['--chunk', '1M'])
    bench.refused('--saves', '0', says='nothing to load')
    bench.refused('--folder', 'nowhere', says='nowhere')


@in_folder
def two_results_can_be_compared():
    for name in ('a.json', 'b.json'):
        bench('-s', '64K', '-p', '1', '--saves', '4', '--loads', '4', '--no-limit', '--methods', 'streaming', '--json', name)
    assert 'save streaming' in clikit.Command('compare')('a.json', 'b.json').out


def started():
    process = bench.start('-s', '1M', '-p', '2', '--saves', '100000', '--methods', 'streaming', '--no-limit')
    while not glob.glob('penstock-ckpt-*/checkpoint-*'):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    return process


@in_folder
def an_interrupted_run_tells_what_it_has_and_removes_its_files():
    process = started()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM and 'interrupted' in err and not left(), (err, left())


@in_folder
def what_a_killed_run_left_is_removed_by_the_next():
    process = started()
    process.kill()
    process.communicate()  # its processes have the same pipes: they are gone, too
    assert left()
    bench('-s', '64K', '-p', '1', '--saves', '1', '--loads', '0', '--no-limit', '--methods', 'streaming')
    assert not left(), os.listdir(left()[0])


tap.run(methods_stand_side_by_side, the_slowest_process_is_what_counts, torch_that_is_missing_is_left_out_with_a_reason, what_is_not_right_is_found,
        every_save_is_kept_where_that_is_asked_for, the_limit_of_the_device_stands_beside, a_dry_run_makes_nothing,
        too_little_room_is_told_before, bad_options_are_refused, two_results_can_be_compared,
        an_interrupted_run_tells_what_it_has_and_removes_its_files, what_a_killed_run_left_is_removed_by_the_next)
