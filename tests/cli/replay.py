#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock replay` from outside: traces, targets, pace.  replay.py PENSTOCK ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
import resultcheck

resultcheck.need('jsonschema')

import csv
import json
import random
import shutil
import subprocess

import tap
from clikit import PENSTOCK, call, tree
from replaykit import (FLAT, SIX, counts, done_of, fio_log, left_behind, op_log, refused, replay, some_rows,
                       write_rows, write_trace)
from tap import in_folder


# ------------------------------------------------------------------- targets

def every_target(*more):
    return [['files'], ['hashed', '--layout', 'hashed'], ['slab/', '--layout', 'slab'], ['one.slab', '--layout', 'slab'], ['memory'],
            ['a', '--target', 'b'], ['a.slab', '--target', 'b.slab', '--layout', 'slab']]


@in_folder
def a_percentile_of_too_few_is_not_told():
    for nr in 99, 100:
        write_trace('t.csv', [(0, 'Write', 4096, 2, f'k{i}', 'Evict') for i in range(nr)])
        (line,) = (line for line in replay('t.csv', *FLAT, '--target', 'null')['text'].split('\n') if 'up to' in line)
        assert (line.split()[-3] == '-') == (nr < 100), line


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
    assert min(map(len, names)) > 20 and len(names[0] & names[1] - {'.penstock-objects'}) == 0, names


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
    made = call('kv', '--model', 'tiny-1b', '--num-users', 20, '--runtime', 20, '--gpu-mem-gb', 1, '--cpu-mem-gb', 1, '--storage-capacity-gb', 8,
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
    refused('m.jsonl', '--target', 'd', says='--bytes-per-token')


@in_folder
def operation_logs_are_replayed_failed_and_other_operations_passed_over():
    op_log('log.tsv', [
        ('PUT', 100000, 'b/x', ''), ('GET', 100000, 'b/x', ''), ('GET', 100000, 'b/y', 'gone'), ('STAT', 0, 'b/x', ''),
        ('DELETE', 0, 'b/x', ''), ('PUT', 5, 'b/x', ''), ('GET', 5, 'b/x', '')])
    result = replay('log.tsv', *FLAT, '--target', 'd', '--verify')
    assert done_of(result) == {('no tier', 'Write'): (2, 100005), ('no tier', 'Read'): (2, 100005), ('no tier', 'Delete'): (1, 0)}
    assert result['replay']['passed_failed'] == 1 and result['replay']['passed_operation'] == 1


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

ODD = ['with/slash', '../up', '/etc/passwd', 'grüß dich', 'k' * 4096, '.', '..', 'a,b', 'say "hi"', 'two\r\nlines', '.penstock-objects', 'CON', '~', '%41']


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
    piped = ['bash', '-c', '"$0" replay <(cat t.csv) --pace flat-out --target d --verify --json pipe.json', PENSTOCK]
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
        result = replay(trace, '--target', 'null:15M', '--in-flight', depth)
        lag = result['replay']['lag']
        assert lag['overloaded'] and lag['slope'] > 1 and lag['last'] > 1 and 'OVERLOADED' in result['text'], (trace, depth, lag)
        assert max(x for x in result['replay']['seconds']['lag_max'] if x is not None) == lag['max']
    lag = replay('t.csv', '--target', 'null:2G')['replay']['lag']
    assert not lag['overloaded'] and lag['spread']['n'] == len(rows), lag
    # reads that are skipped are done at once, which says nothing of the others
    write_trace('skips.csv', [row for r in rows for row in [r] + [(r[0], 'Read', 1 << 20, 2, f'none{i}', 'Decode') for i in range(3)]])
    lag = replay('skips.csv', '--target', 'null:15M', '--missing', 'skip', '--in-flight', 1024)['replay']['lag']
    assert lag['overloaded'] and lag['last'] > 1 and lag['spread']['n'] == len(rows), lag


@in_folder
def what_is_said_of_the_page_cache_is_proven():
    rows = [(0, 'Write', 5000, 2, 'k', 'Evict'), (0, 'Read', 5000, 2, 'k', 'Decode')]
    write_trace('t.csv', rows)
    for options, read, write in ([], 'cold (O_DIRECT)', 'used, flushed within the time'), \
            (['--direct', 'never'], 'warm (written through the page cache before)', 'used, flushed within the time'):
        result = replay('t.csv', *FLAT, '--target', 'd', '--durability', 'data', *options)
        series = {s['kind']: s['cache'] for s in result['series']}
        assert all(f'cache:      {kind}s: {state}\n' in result['text'] for kind, state in series.items()), result['text']
        assert series == {'read': read, 'write': write} or 'warm' in series['read'], (options, series)
    series = replay('t.csv', *FLAT, '--target', 'memory')['series']
    assert {s['cache'] for s in series} == {'not used (no files)'}, series


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
    done = call('replay', 't.csv', '--target', 'd', '--dry-run', '--export-fio', 'job.fio', '--in-flight', 16, *FLAT)
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
            (['t.csv', '--target', '/dev/null'], 'neither'), (['t.csv', '--target', 'd', '--in-flight', '0'], '--in-flight')]:
        refused(*args, says=says)


tap.run_all(globals())
