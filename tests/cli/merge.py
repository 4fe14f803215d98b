#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock merge`, from outside: what each command wrote, added up.  merge.py PENSTOCK ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import json
import statistics

import clikit
import resultcheck
from clikit import Command, start
from tap import in_folder, run_all

resultcheck.need('jsonschema')

merge = Command('merge')


def load(name):
    with open(name, encoding='utf-8') as f:
        return json.load(f)


def two(*args, place, nr=2):
    """Two processes at the same time, each with a folder; returns their results."""
    running = []
    for i in range(nr):
        os.mkdir(f'{i}')
        running.append(start(*args, place, f'{i}', '--json', f'{i}.json'))
    for process in running:
        out, err = process.communicate()
        assert process.returncode == 0, err
    return [load(f'{i}.json') for i in range(nr)]


def merged():
    """The sum of both, right in itself, and as text, page and comparison."""
    result = merge.result('0.json', '1.json')
    assert '1.json' in merge('0.json', '1.json', '--json', 'm.json').out
    assert load('m.json') == result
    Command('compare')('0.json', 'm.json')
    done = clikit.call('report', 'm.json', '-o', 'm.html')
    assert done.returncode in (0, 3), done
    return result


def counts_add_up(a, b, sum_):
    for s in sum_['series']:
        x, y = (next(o for o in r['series'] if o['name'] == s['name']) for r in (a, b))
        for key in 'ops', 'bytes', 'errors', 'bytes_written':
            assert s[key] == x[key] + y[key], (s['name'], key)
        starts, ends = zip(*(t for r in (x, y) for t in r['interval']['turns'][:1]))
        assert s['interval']['turns'][0] == [min(starts), max(ends)], s['interval']
    assert sum_['bytes_written'] == a['bytes_written'] + b['bytes_written']


@in_folder
def bench_of_two_processes():
    a, b = two('bench', '-s', '64K', '-n', '40', '--no-limit', place='-f')
    m = merged()
    counts_add_up(a, b, m)
    assert m['settings']['target'] is None and len(m['targets']) == 2


@in_folder
def intervals_are_those_of_ranks():
    """By Student's t over three means, and in the text."""
    three = two('bench', '-s', '64K', '-n', '40', '--no-limit', '-w', place='-f', nr=3)
    names = [f'{i}.json' for i in range(3)]
    m = merge.result(*names)
    s, of = m['series'][0], m['ranks']['series'][0]

    def interval(values):
        mean = statistics.fmean(values)
        half = 4.302652729911275 * statistics.stdev(values) / 3 ** 0.5
        return [max(0, mean - half), mean + half]
    for key, values in (('rate_ci95', [r['series'][0]['bytes_per_sec'] for r in three]), ('latency_ci95', [r['series'][0]['latency']['mean'] for r in three])):
        assert all(resultcheck.near(x, y, 1e-6) for x, y in zip(of[key], interval(values))), (key, of[key], interval(values))
    out = merge(*names).out
    low, high = (x / 1e6 for x in of['rate_ci95'])
    assert f'; a rank {low:.1f} to {high:.1f} MB/s at 95 %, its mean latency ' in out and s['ops'] == 120, out
    assert merge.result(*names[:2])['ranks']['series'][0]['latency_ci95'] is None
    assert 'its mean latency' not in merge(*names[:2]).out


@in_folder
def a_clock_that_was_ahead_is_put_right():
    a, b = two('bench', '-s', '64K', '-n', '40', '--no-limit', '-w', place='-f')
    assert set(a['wall_clock']) == {'synchronised', 'max_error_sec'}, a['wall_clock']
    right = merge.result('0.json', '1.json')
    for s in b['series']:
        s['interval'] = {'turns': [[t + 1000.5 for t in turn] for turn in s['interval']['turns']],
                         **{k: s['interval'][k] + 1000.5 for k in ('first_done', 'last_done')}}
    b['wall_clock'] = {'synchronised': True, 'max_error_sec': 0.0125}
    clikit.save('0.json', {**a, 'wall_clock': {'synchronised': False, 'max_error_sec': 16}})
    clikit.save('1.json', b)
    assert merge.result('0.json', '1.json')['ranks']['series'][0]['skew_sec'] > 900
    out = merge('0.json', '1.json').out
    assert "clock:      0.json: the host's own, which nothing keeps in step" in out and "clock:      1.json: the host's own, within 12.500 ms by its kernel" in out, out
    put = merge.result('0.json', '1.json', '--offset', '1.json=1000.5')
    for s, t in zip(put['series'], right['series']):
        assert all(abs(x - y) < 1e-3 for k, l in zip(s['interval']['turns'], t['interval']['turns']) for x, y in zip(k, l)), (s['interval'], t['interval'])
    assert put['ranks']['members'][1]['wall_clock']['ahead_sec'] == 1000.5
    assert 'clock:      1.json: 1000.500 s ahead, as was said' in merge('0.json', '1.json', '--offset', '1.json=1000.5').out
    for bad, says in (('1.json', 'not FILE=SECONDS'), ('1.json=x', 'not FILE=SECONDS'), ('1.json=nan', 'not FILE=SECONDS'), ('x=1', "'x' is none of the results")):
        merge.refused('0.json', '1.json', '--offset', bad, says=says)


@in_folder
def io_of_two_processes():
    a, b = two('io', '-s', '1M', '--iterations', '5', place='-f')
    m = merged()
    counts_add_up(a, b, m)
    assert len(m['io']['workers']) == 2


@in_folder
def kv_of_two_processes():
    a, b = two('kv', '--seed', '1', '--num-users', '2', '--runtime', '1', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0',
               '--model', 'tiny-1b', '--output', os.devnull, place='--folder')
    m = merged()
    counts_add_up(a, b, m)
    for key in 'requests', 'tokens':
        assert m['kv'][key] == a['kv'][key] + b['kv'][key]
    ref = m['ranks']['reference']
    for name, of in {'read_bytes_per_sec': lambda k: k['tiers'][2]['read_bytes'], 'write_bytes_per_sec': lambda k: k['tiers'][2]['written_bytes'],
                     'tokens_per_sec': lambda k: k['tokens']}.items():
        assert resultcheck.near(ref[name], sum(of(r['kv']) / r['kv']['elapsed_sec'] for r in (a, b))), (name, ref)
    for name, of in {'storage_p95': lambda k: k['latency']['storage'], 'device_write_p95': lambda k: k['tiers'][2]['device_write']}.items():
        assert ref[name] == max((of(r['kv'])['p95'] for r in (a, b) if of(r['kv'])), default=None), (name, ref)
    x, y, s = (r['kv']['tiers'][2]['write'] for r in (a, b, m))
    assert s['n'] == x['n'] + y['n'] == sum(bucket[2] for bucket in s['histogram']['buckets'])
    assert s['max'] == max(x['max'], y['max']) and min(x['p50'], y['p50']) * 0.99 <= s['p50'] <= max(x['p50'], y['p50']) * 1.01
    assert resultcheck.near(s['mean'], (x['n'] * x['mean'] + y['n'] * y['mean']) / s['n'])


@in_folder
def replay_of_two_processes():
    with open('trace.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        for i in range(40):
            f.write(f'{i / 1000},{"Write" if i < 20 else "Read"},65536,Tier-2,key_{i % 20},{"Prefill" if i < 20 else "Decode"}\n')
    a, b = two('replay', 'trace.csv', '--pace', 'flat-out', place='-f')
    m = merged()
    counts_add_up(a, b, m)
    assert m['replay']['rows'] == 80 and sum(c['ops'] for c in m['replay']['classes']) == 80
    assert sum(m['replay']['seconds']['read_ops']) == 40 and m['replay']['trace'] == a['replay']['trace']


@in_folder
def what_failed_and_fell_behind_is_told():
    with open('trace.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        f.writelines(f'{i / 1000},Write,4096,Tier-2,key_{i},Prefill\n' for i in range(5))
    _, b = two('replay', 'trace.csv', place='-f')
    b['replay']['lag'].update(overloaded=True, slope=0.25)
    b['series'][0].update(errors=3, first_error='key_1: Input/output error')
    clikit.save('1.json', b)
    out = merge('0.json', '1.json').out
    assert '  failed: 3 operations; the first: key_1: Input/output error\n' in out, out
    assert '\nlag:        mean ' in out and '\nOVERLOADED: a rank falls behind by 0.250 s per second' in out, out


@in_folder
def checkpoints_of_two_processes_are_one():
    a, b = two('ckpt', 'bench', '-s', '1M', '-p', '1', '--saves', '3', '--loads', '2', '--methods', 'memory', '--no-limit',
               place='-f')
    m = merged()
    for s, x, y in zip(m['series'], a['series'], b['series']):
        assert s['ops'] == x['ops'] and s['bytes'] == x['bytes'] + y['bytes']
        slowest = [max(pair) for pair in zip(x['samples'], y['samples'])]
        assert resultcheck.near(s['sec'], sum(slowest), 1e-5), (s['sec'], slowest)
    assert m['ckpt']['processes'] == 2 and m['ckpt']['checkpoint_bytes'] == 2 << 20


@in_folder
def of_checkpoints_the_slowest_process_of_each_counts():
    """Two that are slow in turns: by the definition every operation was slow, while the mean of either is not."""
    two('ckpt', 'bench', '-s', '1M', '-p', '1', '--saves', '4', '--loads', '2', '--methods', 'memory', '--no-limit', place='-f')
    sec = {'0.json': [0.1, 0.4, 0.1, 0.4], '1.json': [0.4, 0.1, 0.5, 0.1]}
    for name, each in sec.items():
        r = load(name)
        ref = r['ckpt']['methods'][0]['save']['reference']
        assert len(ref['operations_sec']) == 4
        assert resultcheck.near(ref['duration_sec'], sum(ref['operations_sec']) / 4), ref
        assert resultcheck.near(ref['throughput'], sum((1 << 20) / s for s in ref['operations_sec']) / 4), ref
        ref['operations_sec'] = each
        clikit.save(name, r)
    slowest = [0.4, 0.4, 0.5, 0.4]
    ref = merged()['ckpt']['methods'][0]['save']['reference']
    assert ref['operations_sec'] == slowest and resultcheck.near(ref['duration_sec'], sum(slowest) / 4), ref
    assert resultcheck.near(ref['throughput'], sum((1 << 20) / s for s in slowest) / 4), ref
    assert 'by MLPerf:  save memory: 425' in merge('0.json', '1.json').out, merge('0.json', '1.json').out
    del r['ckpt']['methods'][0]['save']['reference']['operations_sec']
    clikit.save('1.json', r)
    merge.refused('0.json', '1.json', says=('1.json', 'operations_sec', 'older version'))


@in_folder
def what_cannot_be_added_is_refused_in_one_line():
    two('bench', '-s', '64K', '-n', '5', '--no-limit', place='-f')
    Command('bench')('-s', '64K', '-n', '6', '--no-limit', '--json', 'other.json')
    assert merge('0.json', '1.json', '--json', 'm.json').out.startswith('bench by 2 ranks\n')
    assert merge('0.json').out.startswith('bench by 1 rank\n')
    merge.refused('0.json', 'other.json', says=('other.json', 'settings.iterations is 6, not 5'))
    merge.refused('0.json', 'm.json', says=('m.json', 'ranks', 'merged already'))
    merge.refused('0.json', 'nothing.json', says='nothing.json')
    merge.refused(says='results are needed')
    old = load('0.json')
    for s in old['series']:
        del s['interval']
    with open('old.json', 'w', encoding='utf-8') as f:
        json.dump(old, f)
    merge.refused('0.json', 'old.json', says=('old.json', 'interval', 'older version'))


@in_folder
def one_result_counts_once():
    two('bench', '-s', '64K', '-n', '5', '--no-limit', place='-f')
    merge.refused('0.json', '1.json', './0.json', says=("'./0.json': is the same result as '0.json'",))
    clikit.save('copy.json', load('0.json'))
    merge.refused('0.json', 'copy.json', '--offset', 'copy.json=5', says='the same result')
    # of one rank of one run there may be two files, whose clocks were measured twice
    for name, rank, offset in (('0.json', 0, 0), ('1.json', 1, 0), ('copy.json', 0, .5)):
        clikit.save(name, {**load(name), 'clock': {'rank': rank, 'offset_sec': offset, 'error_sec': 0, 'run': '0123456789abcdef'}})
    merge('0.json', '1.json')
    merge.refused('0.json', '1.json', 'copy.json', says="'copy.json': is the same result as '0.json'")


run_all(globals())
