#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock replay` from outside: what becomes of objects.  replay_objects.py PENSTOCK ROOT"""
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
import signal
import subprocess
import time

import tap
from clikit import ROOT, PENSTOCK, call, tree
from replaykit import (FLAT, counts, done_of, fio_log, left_behind, op_log, refused, replay, some_rows,
                       write_rows, write_trace)
from tap import in_folder


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
        command = [PENSTOCK, 'replay', 't.csv', *FLAT, '--target', 'd', '--capacity', '4M', '--json', 'r.json', *more]
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
        with open('d/.penstock-objects') as f:
            lines = f.read().replace('!kept\n', '').splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith('=b '))
        lines[at] = lines[at][:8]
        with open('d/.penstock-objects', 'w') as f:
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
        replay('log.tsv', *FLAT, '--target', 'd', '--in-flight', 1, '--verify', '--keep', '--fresh', *more)
        with open('d/.penstock-objects', encoding='utf-8') as f:
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
        result = replay('t.csv', *FLAT, '--target', 'd/', '--layout', layout, '--engine', 'fault:seed=3,error=0.1', '--in-flight', 4, '--missing', 'skip', status=1)
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


@in_folder
def after_a_kill_the_next_run_is_right_and_foreign_files_stay():
    rows = [(i * .001, 'Write', 100000, 2, f'k{i}', 'Evict') for i in range(3000)]
    write_trace('t.csv', rows)
    for target in ['d'], ['h', '--layout', 'hashed'], ['s/', '--layout', 'slab']:
        with subprocess.Popen([PENSTOCK, 'replay', 't.csv', '--target', *target], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
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
    with subprocess.Popen([PENSTOCK, 'replay', 't.csv', '--target', 'd'], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
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
    with subprocess.Popen([PENSTOCK, 'replay', 't.csv', '--in-flight', '2', '--target', 'd', '--json', 'r.json', '--csv', 'r.csv'],
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


tap.run_all(globals())
