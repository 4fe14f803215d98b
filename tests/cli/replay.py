#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice replay` from outside.  replay.py SLUICE ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
import resultcheck

resultcheck.need('jsonschema')

import contextlib
import csv
import glob
import json
import random
import shutil
import signal
import subprocess
import time

import tap
from tap import in_folder

SLUICE, ROOT = map(os.path.abspath, sys.argv[1:3])
SIX = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'
EPOCH = 1735689600
FLAT = '--pace', 'flat-out'


def call(*args, stdin=None):
    done = subprocess.run([SLUICE, *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    return done


def replay(*args, status=0, stdin=None):
    """The result, checked."""
    done = call('replay', *args, '--json', 'result.json', stdin=stdin)
    assert done.returncode == status, (args, done.returncode, done.err)
    assert status == 0 or done.err, args
    with open('result.json') as f:
        result = json.load(f)
    resultcheck.check(ROOT, result)
    result['text'], result['said'] = done.out, done.err
    return result


def refused(*args, says, status=2):
    """One line, and nothing is made."""
    before = tree()
    done = call('replay', *args)
    assert done.returncode == status, (args, done.returncode, done.err)
    assert says in done.err and done.out == '', (says, done.err)
    assert done.err.count('\n') <= 2, done.err
    assert tree() == before, args


def tree():
    return sorted(os.path.join(top, name) for top, folders, files in os.walk('.') for name in folders + files)


def write_trace(name, rows, header=SIX, end='\r\n'):
    """Rows of (seconds, operation, size, tier, key, phase)."""
    with open(name, 'w', encoding='utf-8', newline='') as f:
        writer = csv.writer(f, lineterminator=end)
        writer.writerow(header.split(','))
        for at, op, size, tier, key, phase in rows:
            writer.writerow([f'{EPOCH + at:.6f}', op, size, f'Tier-{tier}', key, phase][:len(header.split(','))])
    return name


def write_rows(name, text):
    """One operation a line: "W key 4096"."""
    rows = []
    for i, line in enumerate(text.split('\n')):
        op, key, size = line.split()
        rows.append((i * 1e-3, {'R': 'Read', 'W': 'Write'}[op[0]], int(size), 2, key, 'Evict' if 'E' in op else 'Decode'))
    return write_trace(name, rows)


def some_rows(n=400, seed=1, keys=None):
    draw, at, live, rows = random.Random(seed), 0.0, [], []
    for i in range(n):
        at += draw.expovariate(10000)
        if not live or draw.random() < 0.3:
            key = keys[i % len(keys)] if keys else f'conv_user_{i:04d}_turn_{i % 5}'
            live.append((key, draw.choice([1, 4096, 65536, 100000, 1 << 20, 3000001])))
            rows.append((at, 'Write', live[-1][1], 2, key, 'Evict'))
            if keys:  # the last one counts
                live = list(dict(live).items())
        else:
            key, size = draw.choice(live)
            rows.append((at, 'Read', size, 2, key, 'Decode'))
    return rows


def done_of(result):
    return {(d['tier'], d['operation']): (d['ops'], d['bytes']) for d in result['replay']['done']}


def counts(rows, tiers=(2,)):
    sums = {}
    for _, op, size, tier, _, _ in rows:
        if tier in tiers:
            ops, total = sums.get((f'Tier-{tier}', op), (0, 0))
            sums[f'Tier-{tier}', op] = ops + 1, total + size
    return sums


# ------------------------------------------------------------------- targets

def every_target(*more):
    return [['files'], ['hashed', '--layout', 'hashed'], ['slab/', '--layout', 'slab'], ['one.slab', '--layout', 'slab'], ['memory'],
            ['a', '--target', 'b'], ['a.slab', '--target', 'b.slab', '--layout', 'slab']]


@in_folder
def every_target_does_the_same_operations_and_verifies():
    rows = some_rows()
    write_trace('t.csv', rows)
    before = tree()
    for target in every_target():
        result = replay('t.csv', *FLAT, '--verify', '--target', *target)
        assert done_of(result) == counts(rows), target
        cache = result['replay']['cache']
        assert cache['misses'] == 0 and cache['objects'] == sum(r[1] == 'Write' for r in rows), (target, cache)
        assert result['series'][0]['verified_bytes'] is not None
        assert sum(s['verified_bytes'] for s in result['series'] if s['kind'] == 'read') >= counts(rows)['Tier-2', 'Read'][1]
        os.unlink('result.json')
        assert tree() == before, target


@in_folder
def nothing_is_a_target_too_and_has_a_bandwidth_on_request():
    rows = some_rows()
    write_trace('t.csv', rows)
    null = replay('t.csv', *FLAT, '--target', 'null')
    assert done_of(null) == counts(rows)
    for word in 'MB/s, ', 'engine:', 'memory:':
        assert word not in null['text'] and (word == 'MB/s, ') == (word in replay('t.csv', *FLAT, '--target', 'null:5G')['text']), word
    assert all(line.split()[9] == '-' for line in null['text'].split('\n') if 'up to' in line), null['text']
    slow = replay('t.csv', *FLAT, '--target', 'null:500M')
    total = max(size for _, size in done_of(slow).values())
    assert slow['replay']['elapsed_sec'] >= total / (500 << 20), slow['replay']['elapsed_sec']


@in_folder
def objects_of_several_folders_are_spread():
    write_trace('t.csv', some_rows())
    replay('t.csv', *FLAT, '--target', 'a', '--target', 'b', '--keep')
    names = [set(os.listdir(d)) for d in 'ab']
    assert min(map(len, names)) > 20 and len(names[0] & names[1] - {'.sluice-objects'}) == 0, names


@in_folder
def tiers_have_targets_of_their_own_and_moves_leave():
    rows = [(0, 'Write', 5000, 0, 'k', 'Prefill'), (.001, 'Read', 5000, 0, 'k', 'Evict'), (.001, 'Write', 5000, 1, 'k', 'Evict'),
            (.002, 'Read', 5000, 1, 'k', 'Decode'), (.003, 'Read', 5000, 1, 'k', 'Evict'), (.003, 'Write', 5000, 2, 'k', 'Evict'),
            (.004, 'Read', 5000, 2, 'k', 'Decode')]
    write_trace('t.csv', rows)
    result = replay('t.csv', *FLAT, '--verify', '--tier', '0=memory', '--tier', '1=slab', '--tier', '2=files', '--keep', '--layout', 'slab')
    assert done_of(result) == counts(rows, (0, 1, 2))
    assert result['replay']['cache']['objects'] == 1, result['replay']['cache']
    result = replay('t.csv', *FLAT, '--target', 'two')
    assert done_of(result) == counts(rows) and result['replay']['passed_tier'] == 5
    names = {s['name'] for s in result['series']}
    assert names == {'Read Tier-2 Decode', 'Write Tier-2 Evict'}, names


@in_folder
def a_kv_trace_gives_the_operations_that_were_recorded():
    made = call('kv', '--model', 'tiny-1b', '--num-users', 20, '--duration', 20, '--gpu-mem-gb', 1, '--cpu-mem-gb', 1, '--storage-capacity-gb', 8,
                '--generation-mode', 'none', '--seed', 7, '--io-trace-log', 't.csv.zst', '--trace-extended', '--output', 'kv.json')
    assert made.returncode == 0, made.err
    assert call('trace', 'convert', 't.csv.zst', 't.csv').returncode == 0
    sums = {}
    with open('t.csv', newline='') as f:
        for row in csv.DictReader(f):
            ops, size = sums.get((row['Tier'], row['Operation']), (0, 0))
            sums[row['Tier'], row['Operation']] = ops + 1, size + int(row['Object_Size_Bytes']) * (row['Operation'] != 'Delete')
    assert sums['Tier-2', 'Delete'][0] > 10, sums
    result = replay('t.csv.zst', *FLAT, '--tier', '0=null', '--tier', '1=null', '--tier', '2=null')
    assert done_of(result) == sums
    assert result['replay']['cache']['misses'] == 0
    by = {}
    for c in result['replay']['classes']:
        by[c['tier'], c['operation']] = by.get((c['tier'], c['operation']), 0) + c['ops']
    assert by == {k: v[0] for k, v in sums.items()}


@in_folder
def requests_go_through_the_model():
    with open('burst.csv', 'w') as f:
        f.write('Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n')
        f.writelines(f'{i},ChatGPT,{100 + i},{20 + i},{120 + 2 * i},Conversation log\n' for i in range(40))
    with open('share.json', 'w') as f:
        json.dump([{'id': f'c{i}', 'conversations': [{'from': who, 'value': 'word ' * (40 + i)} for who in ('human', 'gpt') * 2]}
                   for i in range(20)], f)
    for name, kind in ('burst.csv', 'burstgpt'), ('share.json', 'sharegpt'):
        result = replay(name, *FLAT, '--target', 'd', '--verify', '--model', 'tiny-1b', '--gpu-mem-gb', 0, '--cpu-mem-gb', 0)
        assert result['replay']['trace']['format'] == kind
        assert done_of(result)['Tier-2', 'Write'][0] >= 20 and done_of(result)['Tier-2', 'Read'][0] >= 20, done_of(result)
    again = replay('share.json', *FLAT, '--target', 'null', '--model', 'tiny-1b', '--gpu-mem-gb', 0, '--cpu-mem-gb', 0)
    assert done_of(again) == done_of(result)


@in_folder
def bad_requests_are_told_and_counted_or_end_it():
    with open('burst.csv', 'w') as f:
        f.write('Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,m,100,20,120,l\n2,m,many,20,1,l\n3,m,1\n')
    with open('share.json', 'w') as f:
        json.dump([{'conversations': [{'from': who, 'value': 'word ' * 40} for who in ('human', 'gpt')]}, 7, {'id': 'none'}], f)
    cache = '--model', 'tiny-1b', '--gpu-mem-gb', 0, '--cpu-mem-gb', 0
    for name, first in ('burst.csv', "line 3: Request tokens 'many' is not valid"), ('share.json', 'item 2: is not an object'):
        result = replay(name, *FLAT, '--target', 'null', *cache)
        assert f'bad row was left out: {first}' in result['said'] and result['said'].count('bad row') == 2, result['said']
        assert result['replay']['bad_rows'] == 2 and result['replay']['first_bad'] == first, result['replay']
        refused(name, *FLAT, '--target', 'd', *cache, '--strict', says=f'{name}: {first}')
    write_trace('t.csv', some_rows(5))
    refused('t.csv', '--format', 'burstgpt', '--target', 'd',
            says="t.csv: has no request that can be used: line 1: is not the header of BurstGPT: there is no column 'Request tokens'")


@in_folder
def hash_ids_of_mooncake_are_objects():
    with open('m.jsonl', 'w') as f:
        for i in range(30):
            f.write(json.dumps({'timestamp': i * 10, 'input_length': 1024, 'output_length': 5, 'hash_ids': [i // 2, 1000 + i]}) + '\n')
    result = replay('m.jsonl', *FLAT, '--target', 'd', '--verify', '--bytes-per-token', 100)
    assert done_of(result) == {('no tier', 'Write'): (45, 45 * 51200), ('no tier', 'Read'): (15, 15 * 51200)}
    refused('m.jsonl', '--target', 'd', says='bytes per token')


def op_log(name, rows):
    """Rows of (operation, bytes, name, error), each a microsecond after the one before."""
    head = 'idx thread op client_id n_objects bytes endpoint file error start first_byte end duration_ns'.split()
    with open(name, 'w') as f:
        f.write('\t'.join(head) + '\n')
        for i, (op, size, file, error) in enumerate(rows):
            f.write('\t'.join(map(str, [i, 0, op, 'c', 1, size, 'http://h', file, error, f'2025-01-01T00:00:00.{i:06d}Z', '',
                                        f'2025-01-01T00:00:01.{i:06d}Z', 1000000])) + '\n')
    return name


@in_folder
def operation_logs_are_replayed_failed_and_other_operations_passed_over():
    op_log('log.tsv', [
        ('PUT', 100000, 'b/x', ''), ('GET', 100000, 'b/x', ''), ('GET', 100000, 'b/y', 'gone'), ('STAT', 0, 'b/x', ''),
        ('DELETE', 0, 'b/x', ''), ('PUT', 5, 'b/x', ''), ('GET', 5, 'b/x', '')])
    result = replay('log.tsv', *FLAT, '--target', 'd', '--verify')
    assert done_of(result) == {('no tier', 'Write'): (2, 100005), ('no tier', 'Read'): (2, 100005), ('no tier', 'Delete'): (1, 0)}
    assert result['replay']['passed_failed'] == 1 and result['replay']['passed_operation'] == 1


def fio_log(name, version, rows):
    """Rows of (file, operation, offset, length), each a millisecond after the one before."""
    names = list(dict.fromkeys(r[0] for r in rows))
    with open(name, 'w') as f:
        f.write(f'fio version {version} iolog\n')
        for i, (file, *rest) in enumerate([(n, 'add') for n in names] + [(n, 'open') for n in names] + rows):
            f.write(' '.join(map(str, ([i] if version == 3 else []) + [file, *rest])) + '\n')
    return name


@in_folder
def a_fio_log_reads_and_writes_parts_of_files():
    draw, rows = random.Random(3), []
    for _ in range(300):
        at, size = draw.randrange(4000) * 512, draw.choice([512, 1024, 4096, 65536, 1 << 20])
        rows.append((draw.choice(['/data/a', '/data/b']), draw.choice(['read', 'write']), at, size))
    rows += [('/data/a', 'trim', 0, 4096), ('/data/a', 'read', 12345, 6789), ('/data/b', 'write', 777, 10001)]
    want = {('no tier', op.capitalize()): (len(sizes), sum(sizes)) for op in ('read', 'write')
            for sizes in [[r[3] for r in rows if r[1] == op]]}
    ends = [max(r[2] + r[3] for r in rows if r[0] == n and r[1] != 'trim') for n in ('/data/a', '/data/b')]
    for version in 2, 3:
        fio_log('t.log', version, rows)
        for target in ['d'], ['s/', '--layout', 'slab'], ['memory']:
            result = replay('t.log', *FLAT, '--verify', '--target', *target)
            assert done_of(result) == want, (version, target)
            assert result['replay']['cache']['prefilled'] == {'ops': 2, 'bytes': sum(ends)}
            assert result['replay']['passed_operation'] == 1 and result['replay']['cache']['objects'] == 2
    replay('t.log', *FLAT, '--target', 'd', '--keep')
    assert sorted(os.path.getsize(f'd/{n}') for n in left_behind('d')) == sorted(ends)
    with open('t.log', 'rb') as f:
        refused_input = call('replay', '-', '--target', 'e', stdin=f.read())
    assert refused_input.returncode == 2 and 'twice' in refused_input.err and not os.path.exists('e'), refused_input.err


@in_folder
def a_part_of_an_object_is_its_beginning_and_none_is_nothing():
    write_rows('t.csv', 'W a 100000\nR a 4097\nR a 0\nR a 100000\nR a 200000')
    result = replay('t.csv', *FLAT, '--target', 'd', '--verify')
    assert done_of(result)['Tier-2', 'Read'] == (4, 4097 + 100000 + 100000)
    assert max(x['verified_bytes'] for x in result['series']) == 4097 + 100000 + 100000
    assert result['replay']['cache']['clipped'] == 1


# --------------------------------------------------------------- odd contents

ODD = ['with/slash', '../up', '/etc/passwd', 'grüß dich', 'k' * 4096, '.', '..', 'a,b', 'say "hi"', 'two\r\nlines', '.sluice-objects', 'CON', '~', '%41']


@in_folder
def odd_keys_are_files_in_the_folder_and_nowhere_else():
    rows = some_rows(keys=ODD)
    write_trace('t.csv', rows)
    for target in ['files'], ['hashed', '--layout', 'hashed'], ['slab/', '--layout', 'slab'], ['memory']:
        result = replay('t.csv', *FLAT, '--verify', '--target', *target, '--keep')
        assert done_of(result) == counts(rows), target
        assert result['replay']['cache']['objects'] == len({r[4] for r in rows if r[1] == 'Write'})
    again = replay('t.csv', *FLAT, '--verify', '--target', 'files', '--reuse')
    assert again['replay']['cache']['reused'] == result['replay']['cache']['objects']
    assert not [n for n in tree() if n.split('/')[1] not in ('t.csv', 'result.json', 'files', 'hashed', 'slab')], tree()


@in_folder
def objects_of_no_bytes_and_of_a_tebibyte():
    write_rows('t.csv', 'W empty 0\nR empty 0\nW huge 1099511627776\nR huge 1099511627776')
    assert done_of(replay('t.csv', *FLAT, '--target', 'null')) == {('Tier-2', 'Write'): (2, 1 << 40), ('Tier-2', 'Read'): (2, 1 << 40)}
    refused('t.csv', '--target', 'd', says='needs 1 TiB at once', status=1)
    write_rows('t.csv', 'W empty 0\nR empty 0')
    for target in ['d'], ['slab/', '--layout', 'slab'], ['memory']:
        replay('t.csv', *FLAT, '--verify', '--target', *target)


@in_folder
def time_that_goes_back_stands_still():
    rows = [(at, 'Write', 100, 2, f'k{i}', 'Evict') for i, at in enumerate([0, .05, .02, .06, .01])]
    write_trace('t.csv', rows)
    result = replay('t.csv', '--target', 'null')
    assert result['replay']['trace']['rows_back'] == 2 and abs(result['replay']['trace']['longest_step_back_sec'] - .05) < 1e-6
    assert result['replay']['elapsed_sec'] >= .06
    assert done_of(result) == counts(rows)


@in_folder
def traces_of_four_columns_and_of_other_line_ends():
    rows = some_rows(100)
    write_trace('four.csv', rows, header='Timestamp,Operation,Object_Size_Bytes,Tier', end='\n')
    result = replay('four.csv', *FLAT, '--target', 'd', '--verify')
    assert done_of(result) == counts(rows)
    assert result['replay']['cache']['objects'] == len({r[2] for r in rows})


@in_folder
def bad_rows_are_counted_or_stop_it():
    rows = some_rows(50)
    write_trace('t.csv', rows)
    with open('t.csv', 'a') as f:
        f.write('nonsense\n')
    result = replay('t.csv', *FLAT, '--target', 'd')
    assert result['replay']['bad_rows'] == 1 and '52' in result['replay']['first_bad'] and 'a bad row' in result['said']
    assert done_of(result) == counts(rows)
    assert 'a bad row was left out: line 52' in call('replay', 't.csv', '--target', 'd', '--dry-run').err
    refused('t.csv', *FLAT, '--target', 'e', '--strict', says='52')


@in_folder
def a_compressed_trace_that_is_cut_off_is_replayed_up_to_there_or_refused():
    rows = some_rows(3000)
    write_trace('t.csv', rows)
    call('trace', 'convert', 't.csv', 't.csv.zst')
    with open('t.csv.zst', 'rb') as f:
        data = f.read()
    with open('cut.csv.zst', 'wb') as f:
        f.write(data[:len(data) * 3 // 4])
    result = replay('cut.csv.zst', *FLAT, '--target', 'null')
    n = result['replay']['rows']
    assert 100 < n < 3000 and done_of(result) == counts(rows[:n]), n
    assert 'ends inside a frame' in result['said'] and result['replay']['bad_rows'] == 1
    refused('cut.csv.zst', *FLAT, '--target', 'd', '--strict', says='ends inside a frame')


@in_folder
def standard_input_is_read_once():
    rows = some_rows(200)
    write_trace('t.csv', rows)
    with open('t.csv', 'rb') as f:
        text = f.read()
    result = replay('-', *FLAT, '--target', 'd', '--verify', stdin=text)
    assert done_of(result) == counts(rows) and result['replay']['trace'] is None
    assert 'not checked' in result['said']
    piped = ['bash', '-c', '"$0" replay <(cat t.csv) --pace flat-out --target d --verify --json pipe.json', SLUICE]
    said = subprocess.run(piped, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr
    with open('pipe.json') as f:
        assert done_of(json.load(f)) == counts(rows) and b'not checked' in said, said
    result = replay('-', *FLAT, '--target', 'slab/', '--layout', 'slab', '--capacity', '1G', stdin=text)
    assert done_of(result) == counts(rows)
    result = replay('t.csv', '--no-check', *FLAT, '--target', 'd')
    assert done_of(result) == counts(rows) and result['said'] == ''
    for args in ['--target', 'memory'], ['--target', 's.slab', '--layout', 'slab']:
        refused('t.csv', '--no-check', *args, says='--capacity')
    refused('t.csv', '--no-check', '--target', 'd', '--prefill', says='twice')


# ------------------------------------------------------- missing, capacity, reuse

MISSING = 'W a 5000\nR a 5000\nR b 70000\nR b 70000\nW b 100\nR b 100\nR c 1'


@in_folder
def what_is_missing_is_created_skipped_or_fails():
    write_rows('t.csv', MISSING)
    made = replay('t.csv', *FLAT, '--target', 'd', '--verify')
    cache = made['replay']['cache']
    assert (cache['hits'], cache['misses'], cache['created']) == (3, 2, {'ops': 2, 'bytes': 70001}), cache
    assert done_of(made)['Tier-2', 'Read'] == (5, 5000 + 140000 + 100 + 1)
    assert made['bytes_written'] >= 5000 + 70000 + 100 + 1
    skipped = replay('t.csv', *FLAT, '--target', 'd', '--missing', 'skip')
    cache = skipped['replay']['cache']
    assert (cache['hits'], cache['misses'], cache['skipped'], cache['created']['ops']) == (2, 3, 3, 0), cache
    assert done_of(skipped)['Tier-2', 'Read'] == (2, 5100)
    failed = replay('t.csv', *FLAT, '--target', 'd', '--missing', 'fail', status=1)
    assert failed['partial'] and 't.csv:4' in failed['said'] and 'b is read' in failed['said'], failed['said']
    assert done_of(failed) == {('Tier-2', 'Write'): (1, 5000), ('Tier-2', 'Read'): (1, 5000)}, done_of(failed)
    assert '1 of what was there, 1 of what was not' in failed['text'], failed['text']
    write_rows('only.csv', 'R a 100')
    failed = replay('only.csv', *FLAT, '--target', 'd', '--missing', 'fail', status=1)
    assert failed['partial'] and failed['replay']['cache']['misses'] == 1 and 'only.csv:2: a is read' in failed['said'], failed['said']
    write_rows('left.csv', 'W a 100\nRE a 100\nR a 100')
    failed = replay('left.csv', *FLAT, '--target', 'd', '--missing', 'fail', status=1)
    assert failed['replay']['cache']['hits'] == 1 and 'left.csv:4: a is read' in failed['said'], failed['said']
    assert not os.path.exists('d')


@in_folder
def deletions_of_what_is_not_there_are_counted():
    op_log('log.tsv', [('DELETE', 0, 'b/x', ''), ('PUT', 5, 'b/x', ''), ('DELETE', 0, 'b/x', ''), ('DELETE', 0, 'b/x', ''), ('GET', 5, 'b/x', '')])
    result = replay('log.tsv', *FLAT, '--target', 'd', '--missing', 'skip')
    cache = result['replay']['cache']
    assert (cache['skipped'], cache['skipped_deletes']) == (1, 2) and '1 reads and 2 deletions of what was not there' in result['text'], cache
    assert result['replay']['started'] == 5 == sum(ops for ops, _ in done_of(result).values()) + 3


@in_folder
def prefill_makes_what_is_read_before_it_is_written():
    write_rows('t.csv', MISSING)
    for target in ['d'], ['s/', '--layout', 'slab'], ['memory']:
        result = replay('t.csv', *FLAT, '--target', *target, '--verify', '--prefill', '--missing', 'fail')
        cache = result['replay']['cache']
        assert (cache['hits'], cache['misses'], cache['created']['ops']) == (5, 0, 0), cache
        assert cache['prefilled'] == {'ops': 2, 'bytes': 70001}
        assert done_of(result) == {('Tier-2', 'Write'): (2, 5100), ('Tier-2', 'Read'): (5, 145101)}
        need, = result['replay']['needs']
        assert need == {'peak_bytes': 8192 + 73728 + 4096, 'peak_objects': 3, 'initial_objects': 2, 'initial_bytes': 70001, 'largest_bytes': 70000}, need


@in_folder
def capacity_deletes_what_was_not_used_for_longest():
    write_rows('t.csv', '\n'.join(['W a 4096', 'W b 4096', 'W c 4096', 'R a 4096', 'W d 4096', 'R b 4096', 'R a 4096', 'R d 4096', 'R c 4096', 'R a 4096']))
    for target in ['d'], ['s/', '--layout', 'slab'], ['memory']:
        result = replay('t.csv', *FLAT, '--target', *target, '--capacity', 3 * 4096, '--missing', 'skip', '--verify')
        cache = result['replay']['cache']
        assert (cache['hits'], cache['misses'], cache['evicted']) == (5, 1, {'ops': 1, 'bytes': 4096}), (target, cache)
        assert cache['objects'] == 3 and cache['used_bytes'] == 3 * 4096
    result = replay('t.csv', *FLAT, '--target', 'd', '--capacity', 2 * 4096, '--verify')
    cache = result['replay']['cache']  # a b | b c | c a | a d | d b | b a | a d | d c | c a
    assert (cache['hits'], cache['misses'], cache['evicted']['ops'], cache['created']['ops']) == (0, 6, 8, 6), cache


def allocated(top):
    """Bytes of the files below, of those that do not vanish meanwhile."""
    total = 0
    for folder, _, files in os.walk(top):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
    return total


@in_folder
def writes_wait_for_deletions_before_they_exceed_the_capacity():
    mib = 1 << 20
    write_trace('t.csv', [(i, op, mib, 2, f'k{i}', 'Evict') for i in range(600) for op in ('Write', 'Read')])  # written, read, gone
    for more in [], ['--new-files'], ['--layout', 'hashed']:
        most = 0
        command = [SLUICE, 'replay', 't.csv', *FLAT, '--target', 'd', '--capacity', '4M', '--json', 'r.json', *more]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            while running.poll() is None:
                most = max(most, allocated('d'))
                time.sleep(0.002)
        with open('r.json') as f:
            assert sum(ops for ops, _ in done_of(json.load(f)).values()) == 1200 and running.returncode == 0
        assert mib <= most <= 8 * mib, most  # files come and go while they are added up


@in_folder
def another_file_under_the_name_of_an_object_is_somebody_elses():
    write_rows('w.csv', 'W a 5000\nW b 70000')
    for layout in 'files', 'hashed':
        args = ['w.csv', *FLAT, '--target', layout, '--layout', layout]
        replay(*args, '--keep')
        mine = next(name for name in tree() if name.endswith('/a'))
        os.remove(mine)
        refused_as_it_was = tree()
        with open(mine, 'w') as f:
            f.write('mine')
        for more in [], ['--reuse']:
            refused(*args, *more, says='was not made here')
        with open(mine) as f:
            assert f.read() == 'mine' and set(tree()) == {*refused_as_it_was, mine}
        os.remove(mine)
        assert replay(*args, '--reuse')['replay']['cache']['reused'] == 1  # b; and it is removed
        assert not os.path.exists(layout)


@in_folder
def a_kept_object_that_became_shorter_is_an_error():
    write_rows('w.csv', 'W a 100000\nW b 100000')
    write_rows('r.csv', 'R a 100000\nR b 100000')
    replay('w.csv', *FLAT, '--target', 'd', '--keep')
    os.truncate('d/a', 50000)
    for more in [], ['--verify']:
        result = replay('r.csv', *FLAT, '--target', 'd', '--reuse', '--keep', *more, status=1)
        assert result['replay']['errors']['reads'] == 1 and ' d/a: ' in result['said'] and '50000' in result['said'], result['said']


@in_folder
def capacity_is_counted_in_blocks_everywhere():
    keys = 'abcdefghij'
    write_rows('t.csv', '\n'.join([f'W {k} 1000' for k in keys] + [f'R {k} 1000' for k in keys]))
    for target in ['d'], ['memory'], ['null'], ['x.slab', '--layout', 'slab']:
        cache = replay('t.csv', *FLAT, '--target', *target, '--capacity', 10000, '--missing', 'skip')['replay']['cache']
        assert (cache['hits'], cache['misses']) == (2, 8), (target, cache)


@in_folder
def what_is_larger_than_the_capacity_is_not_written():
    write_rows('t.csv', 'W a 4096\nW a 9000\nR a 9000\nW b 4096')
    result = replay('t.csv', *FLAT, '--target', 'd', '--capacity', 8192, '--missing', 'skip')
    cache = result['replay']['cache']
    assert (cache['too_large'], cache['misses'], cache['objects']) == (1, 1, 1), cache


@in_folder
def kept_objects_serve_another_run():
    rows = some_rows()
    write_trace('t.csv', rows)
    write_trace('reads.csv', [r for r in rows if r[1] == 'Read'])
    for target in ['d'], ['h', '--layout', 'hashed'], ['s/', '--layout', 'slab'], ['a.slab', '--layout', 'slab', '--capacity', '512M']:
        replay('t.csv', *FLAT, '--target', *target, '--keep')
        for more in [], ['--reuse']:
            again = replay('reads.csv', *FLAT, '--target', *target, '--keep', '--verify', '--missing', 'fail', *more)
            assert again['replay']['cache']['reused'] == sum(r[1] == 'Write' for r in rows), target
            assert again['bytes_written'] == 0 and again['replay']['cache']['misses'] == 0
        refused('reads.csv', *FLAT, '--target', *target, '--reuse', '--fresh', says='exclude each other')
        fresh = replay('reads.csv', *FLAT, '--target', *target, '--missing', 'skip', '--fresh')
        assert fresh['replay']['cache']['reused'] == 0 and fresh['replay']['cache']['hits'] == 0


@in_folder
def kept_objects_survive_a_run_that_cannot_begin():
    write_rows('w.csv', 'W a 100000\nW b 100000')
    write_rows('r.csv', 'R a 100000\nR b 100000')
    for target, layout in ('d', 'files'), ('h', 'hashed'), ('s/', 'slab'), ('x.slab', 'slab'):
        args = [*FLAT, '--target', target, '--layout', layout]
        replay('w.csv', *args, '--keep')
        refused('r.csv', *args, '--engine', 'fault:inner=nothing', says='nothing')
        other = 'hashed' if layout == 'files' else 'files'
        if target != 'x.slab':
            refused('r.csv', *FLAT, '--target', target, '--layout', other, says='--fresh')
            refused('r.csv', *FLAT, '--target', target, '--layout', other, '--dry-run', says='--fresh')
        if layout == 'files':
            refused('r.csv', *FLAT, '--target', target, '--layout', 'slab', says='--fresh')
        if call('replay', 'r.csv', *args, '--engine', 'cufile').returncode:  # there is none here; all else was opened
            assert replay('r.csv', *args, '--verify', '--missing', 'fail')['replay']['cache']['reused'] == 2
        assert not os.path.exists(target)


@in_folder
def a_kept_slab_has_room_for_what_else_a_trace_writes():
    write_rows('a.csv', 'W a 3000000')
    write_rows('b.csv', 'W b 3000000\nR a 3000000\nR b 3000000')
    for target in 's/', 'x.slab':
        replay('a.csv', *FLAT, '--target', target, '--layout', 'slab', '--keep')
        result = replay('b.csv', *FLAT, '--target', target, '--layout', 'slab', '--verify', '--missing', 'fail')
        assert result['replay']['cache']['reused'] == 1 and result['replay']['cache']['objects'] == 2


@in_folder
def a_line_of_the_marker_that_was_cut_off_spoils_nothing():
    write_rows('w.csv', 'W a 100000\nW b 100000')
    write_rows('r.csv', 'R a 100000\nR b 100000')
    for more, found in ([], 0), (['--reuse'], 1):
        replay('w.csv', *FLAT, '--target', 'd', '--keep')
        with open('d/.sluice-objects') as f:
            lines = f.read().replace('!kept\n', '').splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith('=b '))
        lines[at] = lines[at][:8]
        with open('d/.sluice-objects', 'w') as f:
            f.write('\n'.join(lines) + '\n')
        result = replay('r.csv', *FLAT, '--target', 'd', '--missing', 'skip', *more)
        assert result['replay']['cache']['reused'] == found and not os.path.exists('d'), result['replay']['cache']


@in_folder
def a_kept_slab_grows_for_a_larger_trace():
    write_rows('small.csv', 'W a 100000')
    write_rows('large.csv', 'R a 100000\nW b 3000000\nR b 3000000')
    replay('small.csv', *FLAT, '--target', 'x.slab', '--layout', 'slab', '--keep')
    result = replay('large.csv', *FLAT, '--target', 'x.slab', '--layout', 'slab', '--verify', '--missing', 'fail')
    assert result['replay']['cache']['reused'] == 1 and not os.path.exists('x.slab')


@in_folder
def files_of_deleted_objects_are_written_over_unless_new_ones_are_asked_for():
    op_log('log.tsv', [('PUT', 100000, 'b/x', ''), ('DELETE', 0, 'b/x', ''), ('PUT', 90000, 'b/y', ''), ('GET', 90000, 'b/y', '')])
    for more in [], ['--new-files']:
        replay('log.tsv', *FLAT, '--target', 'd', '--depth', 1, '--verify', '--keep', '--fresh', *more)
        with open('d/.sluice-objects', encoding='utf-8') as f:
            assert ('spare' in f.read()) == (not more)
        assert [os.path.getsize(f) for f in glob.glob('d/*')] == [90000], os.listdir('d')


@in_folder
def folders_that_were_made_go_with_the_objects_whichever_run_removes_them():
    write_rows('t.csv', 'W a 5000\nR a 5000')
    os.mkdir('mine')
    before = tree()
    for target in ['new/deep/d'], ['new/h', '--layout', 'hashed'], ['new//s/', '--layout', 'slab'], ['mine'], ['mine/d']:
        for more in [], ['--reuse']:
            replay('t.csv', *FLAT, '--target', *target, '--keep')
            os.remove('result.json')
            replay('t.csv', *FLAT, '--target', *target, '--keep', *more)
            replay('t.csv', *FLAT, '--target', *target, *more)
            os.remove('result.json')
            assert tree() == before, (target, more, tree())
    replay('t.csv', *FLAT, '--target', 'new/d', '--keep')
    with open('new/foreign', 'w'):
        pass
    replay('t.csv', *FLAT, '--target', 'new/d')
    assert os.listdir('new') == ['foreign']
    replay('t.csv', *FLAT, '--target', 'f', '--keep')
    refused('t.csv', *FLAT, '--target', 'f', '--layout', 'hashed', '--reuse', says='are raw files; use the same layout')


@in_folder
def kept_objects_of_traces_without_tiers_serve_another_run():
    with open('moon.jsonl', 'w') as f:
        for i in range(20):
            f.write(json.dumps({'timestamp': i, 'input_length': 2048, 'output_length': 10, 'hash_ids': [i, i + 1, i + 2, i + 3]}) + '\n')
    op_log('ops.tsv', [(op, 70000, f'b/{i}', '') for i in range(10) for op in ('PUT', 'GET')])
    fio_log('log.fio', 3, [('/f', 'write', 0, 65536), ('/f', 'read', 65536, 65536)])
    traces = {'moon.jsonl': (23, '--bytes-per-token', 1000), 'ops.tsv': (10,), 'log.fio': (1,)}
    for trace, (objects, *more) in traces.items():
        for target in ['d'], ['s/', '--layout', 'slab'], ['a.slab', '--target', 'b.slab', '--layout', 'slab']:
            args = trace, *more, *FLAT, '--target', *target, '--keep'
            first = replay(*args)
            for _ in range(3):
                again = replay(*args, '--reuse', '--verify')
                cache = again['replay']['cache']
                assert (cache['reused'], cache['objects']) == (objects, objects), (args, cache)
                assert cache['used_bytes'] == first['replay']['cache']['used_bytes'], (args, cache)
                assert done_of(again) == done_of(first), args
            replay(*args[:-1])


# -------------------------------------------------------------------- verifying

@in_folder
def a_flipped_byte_is_found_with_key_and_offset():
    write_rows('t.csv', 'W some/key 300000\nW other 5000')
    write_rows('r.csv', 'R some/key 300000\nR other 5000')
    replay('t.csv', *FLAT, '--target', 'd', '--keep')
    name, = [n for n in os.listdir('d') if n.startswith('some')]
    with open(f'd/{name}', 'r+b') as f:
        f.seek(200123)
        byte = f.read(1)[0]
        f.seek(200123)
        f.write(bytes([byte ^ 1]))
    result = replay('r.csv', *FLAT, '--target', 'd', '--reuse', '--verify', '--keep', status=1)
    assert result['replay']['errors']['verify'] == 1 and result['replay']['errors']['reads'] == 1
    assert 'some%2Fkey' in result['said'] or 'some/key' in result['said'], result['said']
    assert 'offset 200123' in result['said'], result['said']
    assert '1 reads were wrong' in result['text'] and 'failed:     1 reads, 0 writes, 0 deletions; the first: ' in result['text'], result['text']
    assert 'offset 200123' in result['text'], result['text']
    assert done_of(result) == {('Tier-2', 'Read'): (1, 5000)}
    unseen = replay('r.csv', *FLAT, '--target', 'd', '--reuse', '--keep')
    assert done_of(unseen)['Tier-2', 'Read'] == (2, 305000)
    other = replay('r.csv', *FLAT, '--target', 'd', '--reuse', '--verify', '--seed', 2, status=1)
    assert other['replay']['errors']['verify'] == 2
    for key, shown in ('k' * 200, 'k' * 200), ('a' * 3000 + 'z' * 1000, 'a' * 100), ('grüß ' * 5, 'gr%C3%BC%C3%9F%20' * 5):
        write_trace('long.csv', [(i, op, 5000, 2, key, 'Decode') for i, op in enumerate(['Write', 'Read'])])
        result = replay('long.csv', *FLAT, '--target', 'd', '--verify', '--engine', 'fault:seed=3,error=1,only=read', status=1)
        assert shown in result['said'] and shown in result['replay']['errors']['first'], result['said']


@in_folder
def a_file_that_vanished_is_an_error_and_the_rest_goes_on():
    write_rows('t.csv', 'W a 5000\nW b 5000')
    write_rows('r.csv', 'R a 5000\nR b 5000')
    replay('t.csv', *FLAT, '--target', 'd', '--keep')
    done = call('replay', 'r.csv', *FLAT, '--target', 'd', '--reuse', '--keep')
    assert done.returncode == 0, done.err
    os.unlink('d/a')
    result = replay('r.csv', *FLAT, '--target', 'd', '--reuse', '--missing', 'skip')
    assert result['replay']['cache']['misses'] == 1 and done_of(result) == {('Tier-2', 'Read'): (1, 5000)}


@in_folder
def failures_are_counted_and_the_rest_goes_on():
    rows = some_rows(300)
    write_trace('t.csv', rows)
    for layout in 'files', 'slab':
        result = replay('t.csv', *FLAT, '--target', 'd/', '--layout', layout, '--engine', 'fault:seed=3,error=0.1', '--depth', 4, '--missing', 'skip', status=1)
        errors = result['replay']['errors']
        failed = errors['reads'] + errors['writes']
        assert failed > 3 and errors['first'] in result['said'] and not result['partial'], errors
        done, missed = sum(ops for ops, _ in done_of(result).values()), result['replay']['cache']['skipped']
        assert done + failed + missed == len(rows) and missed > 0, (done, failed, missed)
        assert sum(c['errors'] for c in result['replay']['classes']) == failed == sum(s['errors'] for s in result['series'])
        assert not os.path.exists('d') or not os.listdir('d')


# ----------------------------------------------------------------------- safety

@in_folder
def foreign_files_are_refused_and_untouched():
    write_trace('t.csv', some_rows(50))
    os.mkdir('d')
    for name in 'd/mine', 'file':
        with open(name, 'w') as f:
            f.write('mine')
    refused('t.csv', *FLAT, '--target', 'd', says='mine')
    refused('t.csv', *FLAT, '--target', 'd', '--layout', 'slab', says='mine')
    refused('t.csv', *FLAT, '--target', 'file', says='file')
    for name in 'd/mine', 'file':
        with open(name) as f:
            assert f.read() == 'mine'


def left_behind(name):
    return {n for n in os.listdir(name) if n != '.sluice-objects'}


@in_folder
def after_a_kill_the_next_run_is_right_and_foreign_files_stay():
    rows = [(i * .001, 'Write', 100000, 2, f'k{i}', 'Evict') for i in range(3000)]
    write_trace('t.csv', rows)
    for target in ['d'], ['h', '--layout', 'hashed'], ['s/', '--layout', 'slab']:
        with subprocess.Popen([SLUICE, 'replay', 't.csv', '--target', *target], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            folder_name = target[0]
            while not (os.path.isdir(folder_name) and left_behind(folder_name)):
                assert running.poll() is None, running.stderr.read()
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert left_behind(folder_name), target
        outside = 'beside'
        with open(outside, 'w') as f:
            f.write('mine')
        result = replay('t.csv', *FLAT, '--target', *target, '--verify')
        assert done_of(result) == counts(rows) and result['replay']['cache']['objects'] == 3000
        assert not os.path.exists(folder_name) or not os.listdir(folder_name), os.listdir(folder_name)
        with open(outside) as f:
            assert f.read() == 'mine'
    # A foreign file that came into what a killed run left: refused, and still there.
    with subprocess.Popen([SLUICE, 'replay', 't.csv', '--target', 'd'], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while not (os.path.isdir('d') and left_behind('d')):
            assert running.poll() is None
        running.send_signal(signal.SIGKILL)
        running.wait()
    with open('d/mine', 'w') as f:
        f.write('mine')
    refused('t.csv', *FLAT, '--target', 'd', says='mine')


@in_folder
def an_interruption_leaves_a_partial_result_and_no_objects():
    rows = [(i * .01, 'Write', 4096, 2, f'k{i}', 'Evict') for i in range(100000)]
    write_trace('t.csv', rows)
    with subprocess.Popen([SLUICE, 'replay', 't.csv', '--depth', '2', '--target', 'd', '--json', 'r.json', '--csv', 'r.csv'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while not (os.path.isdir('d') and len(left_behind('d')) >= 5):  # so that some of them are complete
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert running.returncode == 130 and b'partial' in err, (running.returncode, err)
    with open('r.json') as f:
        result = json.load(f)
    resultcheck.check(ROOT, result)
    assert result['partial'] and not os.path.exists('d')
    assert [s['partial_why'] for s in result['series'] if s['partial']] == ['interrupted'] and b'partial:    interrupted' in out
    with open('r.csv', newline='') as f:
        assert {row['partial'] for row in csv.DictReader(f)} == {'1'}
    assert 0 < sum(ops for ops, _ in done_of(result).values()) < len(rows)


# ----------------------------------------------------------- pace, output, usage

@in_folder
def the_recorded_pace_is_kept_or_changed_by_a_factor():
    rows = [(i * .01, 'Write', 100, 2, f'k{i}', 'Evict') for i in range(31)]
    write_trace('t.csv', rows)
    for pace, sec in ([], .3), (['--pace', '3'], .1), (['--pace', '0.5'], .6):
        result = replay('t.csv', '--target', 'null', *pace)
        assert result['replay']['elapsed_sec'] >= sec, (pace, result['replay']['elapsed_sec'])
        assert result['replay']['lag']['max'] >= 0 and result['replay']['lag']['spread']['n'] == 31
    flat = replay('t.csv', '--target', 'null', *FLAT)
    assert flat['replay']['lag'] is None and flat['settings']['pace'] is None


@in_folder
def a_target_that_cannot_keep_up_is_overloaded():
    rows = [(i * .01, 'Write', 1 << 20, 2, f'k{i}', 'Evict') for i in range(30)]  # 100 MiB/s for 0.3 s
    write_trace('t.csv', rows)
    write_trace('one.csv', [row[:4] + ('k',) + row[5:] for row in rows])
    # whether rows wait for a free place, for storage, or for the one before them on their object
    for trace, depth in ('t.csv', 1), ('t.csv', 1024), ('one.csv', 1024):
        result = replay(trace, '--target', 'null:15M', '--depth', depth)
        lag = result['replay']['lag']
        assert lag['overloaded'] and lag['slope'] > 1 and lag['last'] > 1 and 'OVERLOADED' in result['text'], (trace, depth, lag)
        assert max(x for x in result['replay']['seconds']['lag_max'] if x is not None) == lag['max']
    lag = replay('t.csv', '--target', 'null:2G')['replay']['lag']
    assert not lag['overloaded'] and lag['spread']['n'] == len(rows), lag


@in_folder
def a_dry_run_tells_and_makes_nothing():
    write_trace('t.csv', some_rows())
    before = tree()
    done = call('replay', 't.csv', '--target', 'd', '--dry-run')
    assert done.returncode == 0 and 'needs:' in done.out and 'Tier-2' in done.out, done
    done = call('replay', 't.csv', '--target', 'd', '--dry-run', '--capacity', '1M')
    assert done.returncode == 0 and 'needs:      1 MiB at once, for --capacity; without it 72.3 MiB at once' in done.out, done
    assert tree() == before


@in_folder
def a_dry_run_tells_what_the_trace_holds_where_there_is_no_room_too():
    write_trace('t.csv', [(i, 'Write', 1 << 55, 2, f'k{i}', 'Evict') for i in range(3)])
    before = tree()
    for target in ['d'], ['s/', '--layout', 'slab']:
        done = call('replay', 't.csv', '--target', *target, '--dry-run')
        assert done.returncode == 1 and 'needs:' in done.out and 'Tier-2' in done.out, done
        assert done.err.count('\n') == 1 and 'free' in done.err, done
        assert tree() == before


@in_folder
def a_job_for_fio_has_sizes_mix_and_depth():
    write_rows('t.csv', 'W a 65536\nR a 65536\nR a 65536\nR a 65536\nW b 2097152\nR c 3000000')
    done = call('replay', 't.csv', '--target', 'd', '--dry-run', '--export-fio', 'job.fio', '--depth', 16, *FLAT)
    assert done.returncode == 0, done.err
    with open('job.fio') as f:
        job = dict(line.strip().split('=', 1) for line in f if '=' in line and line[0] != ';')
    assert job['rw'] == 'randrw' and job['rwmixread'] == '67', job  # 3 + 3 blocks of 9
    reads, writes = [dict(part.split('/') for part in side.split(':')) for side in job['bssplit'].split(',')]
    assert reads == {'64K': '51', '884K': '16', '1M': '33'} and writes == {'64K': '33', '1M': '67'}, job
    assert 1 <= int(job['iodepth']) <= 32 and job['size'] == '64M'
    assert all(sum(map(int, side.values())) == 100 for side in (reads, writes))
    if not shutil.which('fio'):
        raise tap.Skip('fio', 'fio is not installed')
    with open('job.fio') as f:
        short = f.read().replace('runtime=300', 'runtime=1')
    with open('short.fio', 'w') as f:
        f.write(short)
    subprocess.run(['fio', 'short.fio'], check=True, stdout=subprocess.DEVNULL)


@in_folder
def other_forms_of_the_result():
    write_trace('t.csv', some_rows(100))
    done = call('replay', 't.csv', *FLAT, '--target', 'd', '--csv', 'o.csv', '--xlsx', 'o.xlsx', '--html', 'o.html')
    assert done.returncode == 0, done.err
    with open('o.csv') as f:
        assert len(f.readlines()) == 3
    assert os.path.getsize('o.html') > 1000 and os.path.getsize('o.xlsx') > 100
    done = call('replay', 't.csv', *FLAT, '--target', 'd', '--json', '-')
    assert json.loads(done.out)['command'] == 'replay'


@in_folder
def a_bad_command_line_makes_nothing():
    write_trace('t.csv', some_rows(20))
    with open('empty.csv', 'w') as f:
        f.write(SIX + '\n')
    with open('text', 'w') as f:
        f.write('Lorem ipsum\n')
    write_trace('upper.csv', [(0, 'Write', 5, 0, 'k', 'Prefill')])
    for args, says in [
            (['t.csv'], '--target'), ([], 'one trace'), (['t.csv', 't.csv', '--target', 'd'], 'one trace'),
            (['gone.csv', '--target', 'd'], 'gone.csv'), (['text', '--target', 'd'], 'text'), (['empty.csv', '--target', 'd'], 'no operation'),
            (['upper.csv', '--target', 'd'], 'Tier-0'), (['t.csv', '--target', 'd', '--pace', 'fast'], '--pace'),
            (['t.csv', '--target', 'd', '--pace', '0'], '--pace'), (['t.csv', '--target', 'd', '--pace', '-1'], '--pace'),
            (['t.csv', '--target', 'd', '--missing', 'maybe'], '--missing'), (['t.csv', '--tier', '3=d'], '--tier'),
            (['t.csv', '--tier', '2'], '--tier'), (['t.csv', '--tier', '2=d', '--target', 'e'], 'exclude'),
            (['t.csv', '--target', 'memory', '--target', 'd'], 'several'), (['t.csv', '--target', 'null:fast'], 'bytes per second'),
            (['t.csv', '--target', 'gpu:x'], 'GPU'), (['t.csv', '--target', 'null', '--verify'], '--verify'),
            (['t.csv', '--target', '/dev/null'], 'neither'), (['t.csv', '--target', 'd', '--depth', '0'], '--depth')]:
        refused(*args, says=says)


tap.run_all(globals())
