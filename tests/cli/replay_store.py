#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock replay` and `penstock kv` on a KV store: what they do, and the hit rates of its policies.  replay_store.py PENSTOCK ROOT"""
import collections
import json
import os
import random
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
import resultcheck

resultcheck.need('jsonschema')

import tap
from clikit import ROOT, call, tree
from replaykit import FLAT, counts, done_of, fio_log, refused, replay, some_rows, write_rows, write_trace
from tap import in_folder

VALUE = 16384


# ----------------------------------------------------------------- what is done

@in_folder
def a_store_does_what_files_do():
    rows = some_rows(200)
    write_trace('t.csv', rows)
    for target in 'store:s', 'store:a,b':
        before = tree()
        result = replay('t.csv', *FLAT, '--verify', '--target', target, '--capacity', '400M')
        assert done_of(result) == counts(rows), target
        cache, store = result['replay']['cache'], result['store']
        reads = sum(r[1] == 'Read' for r in rows)
        assert (cache['hits'], cache['misses'], store['hits'], store['misses']) == (reads, 0, reads, 0), (cache, store)
        assert store['capacity_bytes'] == 400 << 20 and store['directories'] == target.count(',') + 1 and store['policy'] == 's3-fifo'
        assert store['written_per_set'] >= 1 and store['stored'] == len(rows) - reads and cache['objects'] == store['entries']
        assert result['bytes_written'] == store['written_bytes'] and result['series'][0]['ran']['direct'] != 'nothing moved'
        assert '(100.00 %)' in result['text'] and 'a store in ' in result['text'], result['text']
        os.unlink('result.json')
        assert tree() == before, target


@in_folder
def what_is_not_there_is_a_miss_and_set_skipped_or_the_end():
    write_rows('t.csv', 'R a 5000\nR a 5000\nW b 100\nR b 100\nR c 7')
    cache = lambda *more, **kw: replay('t.csv', *FLAT, '--in-flight', '1', '--target', 'store:s', '--capacity', '16M', *more, **kw)['replay']['cache']
    made = cache()
    assert (made['hits'], made['misses'], made['created'], made['objects']) == (2, 2, {'ops': 2, 'bytes': 5007}, 3), made
    skipped = cache('--missing', 'skip')
    assert (skipped['hits'], skipped['misses'], skipped['skipped'], skipped['objects']) == (1, 3, 3, 1), skipped
    failed = cache('--missing', 'fail', status=1)
    assert (failed['misses'], failed['objects']) == (1, 0), failed
    filled = cache('--prefill')
    assert (filled['hits'], filled['misses'], filled['prefilled']) == (4, 0, {'ops': 2, 'bytes': 5007}), filled


@in_folder
def reads_that_leave_and_deletes_delete():
    write_rows('t.csv', 'W a 5000\nRE a 5000\nR a 5000')
    result = replay('t.csv', *FLAT, '--in-flight', '1', '--target', 'store:s', '--capacity', '16M', '--missing', 'skip')
    assert (result['store']['deletes'], result['store']['misses'], result['replay']['cache']['objects']) == (1, 1, 0), result['store']


@in_folder
def what_is_there_is_used_removed_or_left_alone_as_it_is_said():
    write_rows('t.csv', 'R a 5000')
    to = '--target', 'store:s', '--capacity', '16M'
    replay('t.csv', *FLAT, *to, '--keep')
    os.unlink('result.json')
    refused('t.csv', *FLAT, *to, says='s: holds a store already: --reuse goes on with it, --fresh removes it')
    assert replay('t.csv', *FLAT, *to, '--reuse')['store']['hits'] == 1
    assert replay('t.csv', *FLAT, *to, '--reuse')['store']['found_entries'] == 1
    assert replay('t.csv', *FLAT, *to, '--fresh')['store']['hits'] == 0
    assert not os.path.exists('s/data'), os.listdir('s')


@in_folder
def bad_targets_are_refused():
    write_rows('t.csv', 'R a 5000')
    refused('t.csv', *FLAT, '--target', 'store:', says="'store:': give 1 to")
    refused('t.csv', *FLAT, '--target', 'store:a,,b', says='give 1 to')
    refused('t.csv', *FLAT, '--target', 'store:a', '--target', 'b', says='only folders')
    refused('t.csv', *FLAT, '--tier', '1=store:a', '--tier', '2=store:b', says='one store')
    refused('t.csv', *FLAT, '--target', 'store:a', '--capacity', '8K', says='capacity')
    os.mkdir('full')
    open('full/mine', 'w').close()
    refused('t.csv', *FLAT, '--target', 'store:full', says='full: holds mine')
    fio_log('f.log', 2, [('f', 'read', 0, 4096)])
    refused('f.log', *FLAT, '--target', 'store:a', says='parts of files')


# ------------------------------------------------------------------- the policies

def lru(keys, slots):
    """Hits of a cache of so many values of one size."""
    there, hits = collections.OrderedDict(), 0
    for key in keys:
        hits += key in there
        there.pop(key, None)
        there[key] = None
        if len(there) > slots:
            there.popitem(last=False)
    return hits


def s3_fifo(keys, slots):
    """The same by S3-FIFO: a small queue of a tenth, a main one, and what has gone lately."""
    small, main, uses, gone, hits = collections.deque(), collections.deque(), {}, collections.OrderedDict(), 0
    for key in keys:
        if key in uses:
            hits += 1
            uses[key] = min(3, uses[key] + 1)
            continue
        while len(uses) >= slots:
            if len(small) > slots // 10 or not main:
                old = small.popleft()
                if uses[old]:
                    uses[old] = 0
                    main.append(old)
                else:
                    del uses[old]
                    gone[old] = None
                    if len(gone) > slots:
                        gone.popitem(last=False)
            else:
                old = main.popleft()
                if uses[old]:
                    uses[old] -= 1
                    main.append(old)
                else:
                    del uses[old]
        uses[key] = 0
        (main if gone.pop(key, key) is None else small).append(key)
    return hits


def model_keys(nr):
    """Keys in the order in which our own model reads and writes them."""
    done = call('kv', '--model', 'tiny-1b', '--num-users', '20', '--runtime', '20', '--seed', '42', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0',
                '--generation-mode', 'none', '--io-trace-log', 'kv.csv', '--output', 'kv.json')
    assert done.returncode == 0, done.err
    with open('kv.csv') as f:
        return [line.split(',')[4] for line in f][1:nr + 1]


def popular_keys(nr):
    """A few that everybody asks for, among many that are asked for once."""
    draw = random.Random(1)
    return [f'p{min(int(draw.paretovariate(0.6)), 200)}' if draw.random() < 0.6 else f'once{i}' for i in range(nr)]


def hits_of(trace, gets, policy, capacity, *more):
    """Of the real store, one operation after the other, and how many values it could hold."""
    store = replay(trace, *FLAT, '--in-flight', '1', '--target', 'store:s', '--capacity', str(capacity), '--policy', policy, *more)['store']
    assert store['policy'] == policy and store['gets'] == gets and store['disk_bytes'] <= capacity
    return store['hits'], store['entries']


def curve_of(trace, keys, gets, *more):
    """Hits by policy and capacity; each is that of a model with as many values, but for a few."""
    curve = {}
    for policy, model in ('lru', lru), ('s3-fifo', s3_fifo):
        for capacity in 1 << 20, 2 << 20:
            hits, slots = hits_of(trace, gets, policy, capacity, *more)
            expected = model(keys, slots)
            assert abs(hits - expected) <= len(keys) // 50, (policy, capacity, slots, hits, expected)
            curve[policy, capacity] = hits
        assert curve[policy, 1 << 20] < curve[policy, 2 << 20], curve
    return curve


@in_folder
def each_policy_has_the_hits_it_should_at_each_capacity():
    for keys in model_keys(500), popular_keys(500):
        write_trace('t.csv', [(i * 1e-6, 'Read', VALUE, 2, key, 'Decode') for i, key in enumerate(keys)])
        curve = curve_of('t.csv', keys, len(keys))
    # where most is asked for once, what is asked for often stays: why it is the default
    assert curve['s3-fifo', 1 << 20] > curve['lru', 1 << 20], curve


@in_folder
def a_trace_of_mooncake_has_the_hits_it_should_at_each_capacity():
    """Conversations in Mooncake's form: 30 that take turns, each turn with all blocks of the one before and up to 3 new ones."""
    draw, talks, ids, keys = random.Random(1), [[] for _ in range(30)], iter(range(10 ** 6)), []
    with open('m.jsonl', 'w') as f:
        for turn in range(120):
            talk = talks[min(int(draw.paretovariate(0.7)), 30) - 1]
            if len(talk) > 8:
                del talk[1:]  # another one that begins alike
            talk += [next(ids) for _ in range(draw.randint(1, 3))]
            keys += talk
            f.write(json.dumps({'timestamp': turn, 'input_length': 512 * len(talk), 'output_length': 1, 'hash_ids': talk}) + '\n')
    curve_of('m.jsonl', keys, len(keys) - len(set(keys)), '--bytes-per-token', VALUE // 512)


# ----------------------------------------------------------------------- penstock kv

@in_folder
def kv_runs_on_a_store_and_says_so():
    run = ['kv', '--model', 'tiny-1b', '--num-users', '2', '--runtime', '600', '--max-requests', '6', '--seed', '1', '--gpu-mem-gb', '0',
           '--cpu-mem-gb', '0', '--generation-mode', 'none', '--storage-capacity-gb', '0.1', '--folder', 'c', '--output', 'o.json']
    done = call(*run, '--backend', 'store', '--policy', 'lru', '--verify', '--json', 'k.json')
    assert done.returncode == 0, done.err
    with open('k.json') as f:
        result = json.load(f)
    resultcheck.check(ROOT, result)
    store, cache = result['store'], result['kv']['cache']
    assert store['policy'] == 'lru' and store['hits'] == cache['hits'] > 0 and store['disk_bytes'] <= 0.1 * 2 ** 30, store
    assert '### Store ###' in done.out and not os.path.exists('c'), done.out
    assert 'Evictions above the store:' in done.out, done.out  # its own are in its own lines
    for more, says in (['--layout', 'slab'], '--layout'), (['--new-files'], '--new-files'), (['--compat'], '--compat'), (['--io-trace-log', 't'], '--io-trace-log'):
        done = call(*run, '--backend', 'store', *more)
        assert done.returncode == 2 and f'--backend store and {says} exclude' in done.err, done.err


tap.run_all(globals())
