#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock replay` and `penstock kv` on s3://, against the server that fails on purpose.  s3_jobs.py PENSTOCK ROOT"""
import os
import signal
import sys
import threading

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(1, os.path.join(sys.path[0], 's3'))

import resultcheck

resultcheck.need('jsonschema')

import clikit
import s3kit
import tap
from replaykit import FLAT, counts, done_of, fio_log, op_log, refused, replay, some_rows, write_rows, write_trace
from tap import in_folder

cp, ls, rm, kv = (clikit.Command(name) for name in ('cp', 'ls', 'rm', 'kv'))
S = s3kit.Server('--bucket', 'bucket', ports=2)
S.use()
TO = '--target', 's3://bucket/run'
KV = ('--num-users', '2', '--runtime', '60', '--max-requests', '4', '--model', 'tiny-1b', '--gpu-mem-gb', '0',
      '--cpu-mem-gb', '0.1', '--generation-mode', 'none', '--seed', '3', '--verify', '--output', 'kv.json')


def below(prefix=''):
    return [line.split(maxsplit=3)[-1] for line in ls('-r', '--bytes', f's3://bucket/{prefix}').out.splitlines()]


def clean():
    S.rules()
    rm('-r', 's3://bucket')


def put(key):
    with open('foreign', 'w') as f:
        f.write('x')
    cp('-q', 'foreign', f's3://bucket/{key}')
    os.unlink('foreign')


# ------------------------------------------------------------------------- what is done

@in_folder
def objects_do_what_files_do():
    clean()
    rows = [*some_rows(150), *[(1 + i, op, 21 << 20, 2, 'large', 'Decode') for i, op in enumerate(('Write', 'Read', 'Write', 'Read'))]]
    write_trace('t.csv', rows)
    result = replay('t.csv', *FLAT, '--verify', *TO)
    assert done_of(result) == counts(rows), done_of(result)
    read, written = (sum(r[2] for r in rows if r[1] == op) for op in ('Read', 'Write'))
    objects = result['objects']
    assert objects['failed'] == 0 == objects['retries'] and objects['read_bytes'] >= read, objects
    assert result['bytes_written'] == written <= objects['written_bytes'], (result['bytes_written'], written, objects)
    assert (objects['checksum'], objects['payload'], objects['style']) == ('crc32c', 'unsigned', 'path'), objects
    assert all('not known' in s['cache'] for s in result['series']), result['series']
    assert result['targets'][0]['folder'] == 's3://bucket/run' and 'objects:    ' in result['text']
    assert below() == [] and S.stats()['uploads'] == 0


@in_folder
def ranges_of_an_operation_log_are_read_as_ranges():
    clean()
    op_log('t.tsv', [('PUT', 9 << 20, 'a/b c', ''), ('GET', 4096, 'a/b c', ''), ('PUT', 7, 'd', ''), ('GET', 7, 'd', ''), ('DELETE', 0, 'd', ''),
                     ('GET', 100, 'was there before', '')])
    result = replay('t.tsv', *FLAT, '--in-flight', '1', '--verify', *TO)
    cache = result['replay']['cache']
    assert (cache['hits'], cache['misses'], cache['created'], cache['objects']) == (2, 1, {'ops': 1, 'bytes': 100}, 2), cache
    assert result['objects']['read_bytes'] < 1 << 20 and below() == [], result['objects']


@in_folder
def a_cache_has_its_third_tier_in_a_bucket():
    clean()
    result = kv.result(*KV, '--folder', 's3://bucket/kv/tier')
    storage = result['kv']['tiers'][2]
    assert result['kv']['requests'] >= 4 and storage['written_bytes'] > 0, storage
    assert result['objects']['written_bytes'] >= storage['written_bytes'] and not result['objects']['failed']
    assert result['kv']['errors'].get('first') is None, result['kv']['errors']
    assert below() == [] and S.stats()['uploads'] == 0


@in_folder
def a_store_has_a_fourth_tier_below_it():
    clean()
    with open('small.yaml', 'w') as f:
        f.write('model_configs:\n  small: {dtype: int8, num_layers: 1, kv_heads: 1, kv_dim_per_head: 64}\n')  # 128 bytes per token
    args = (*KV, '--config', 'small.yaml', '--model', 'small', '--max-requests', '60', '--num-users', '8', '--cpu-mem-gb', '0',
            '--backend', 'store', '--folder', 'store', '--storage-capacity-gb', '0.02')
    plain = kv.result(*args)
    assert 'below' not in plain['store'] and plain['store']['evictions'] > 0, plain['store']
    result = kv.result(*args, '--below', 's3://bucket/deep')
    below_it = result['store']['below']
    assert below_it['demoted'] > 0 and below_it['errors'] == 0, result['store']
    assert result['kv']['errors'].get('first') is None, result['kv']['errors']
    assert below() == [], below()
    kv.refused(*KV, '--below', 's3://bucket/deep', says='--backend store')
    kv.refused(*args, '--below', 'folder', says='s3://BUCKET/PREFIX')


@in_folder
def what_is_kept_is_found_again():
    clean()
    write_rows('w.csv', 'W a 5000\nW b/c 100000\nW d 0')
    write_rows('r.csv', 'R a 5000\nR b/c 100000\nR d 0\nR a 5000')
    replay('w.csv', *FLAT, *TO, '--keep')
    assert len(below()) == 4, below()
    assert 'replay --keep' in kv(*KV, '--folder', 's3://bucket/run', status=1).err
    again = replay('r.csv', *FLAT, '--verify', '--missing', 'fail', '--keep', *TO)
    assert again['replay']['cache']['reused'] == 3 and len(below()) == 4, again['replay']['cache']
    fresh = replay('r.csv', *FLAT, '--fresh', *TO)
    assert fresh['replay']['cache']['reused'] == 0 and fresh['replay']['cache']['misses'] == 3 and below() == []


# ------------------------------------------------------------------------- what goes wrong

@in_folder
def what_passes_is_tried_again_and_told():
    clean()
    rows = some_rows(80)
    write_trace('t.csv', rows)
    S.rules('method=GET key=run/*~* times=4 status:503', 'method=PUT key=run/*~* times=3 status:503:empty',
            'method=GET key=run/*~* times=3 skip=4 short:100', 'method=PUT key=run/*~* times=2 skip=3 reset')
    result = replay('t.csv', *FLAT, '--verify', *TO)
    objects = result['objects']
    assert done_of(result) == counts(rows)
    # libcurl itself tries again what fails on a connection that was used before
    assert objects['throttled'] == 7 and objects['retries'] >= 7 and objects['failed'] == 0, objects
    assert {'status', 'reset', 'short'} <= set(S.stats()['faults']), S.stats()
    assert '7 after 429 or 503' in result['text'], result['text']
    assert below() == []


@in_folder
def one_endpoint_that_ends_costs_no_operation():
    clean()
    rows = some_rows(120)
    write_trace('t.csv', rows)
    # no answer after ten, so that nothing can be over before the port is closed
    S.rules(f'method=PUT key=run/*~* host={S.ports[0]} skip=10 stall:600')
    stopper = threading.Thread(target=stop_when_used)
    stopper.start()
    result = replay('t.csv', *FLAT, '--in-flight', '8', '--verify', *TO, '--endpoint', ','.join(S.urls))
    stopper.join()
    S.start_port(0)
    first, second = result['objects']['endpoints']
    assert done_of(result) == counts(rows) and result['objects']['failed'] == 0, result['objects']
    assert first['left_out'] >= 1 and first['failed'] >= 1 and second['attempts'] > first['attempts'] > 0, (first, second)
    assert f'{first["url"]}: ' in result['text'] and below() == []


def stop_when_used():
    while S.stats()['by'].get(f'PUT {S.ports[0]}', 0) < 10:
        pass
    S.stop_port(0)


@in_folder
def what_cannot_be_put_is_a_failed_write_with_its_reason():
    clean()
    write_rows('t.csv', 'W a 5000\nW b 5000\nR b 5000')
    S.rules('method=PUT key=run/a* status:403')
    result = replay('t.csv', *FLAT, *TO, status=1)
    errors = result['replay']['errors']
    assert errors['writes'] == 1 and 'a: ' in errors['first'] and '403' in errors['first'], errors
    assert result['objects']['failed'] == 1 and below() == []
    S.rules('method=GET key=run/b* corrupt:4000')
    wrong = replay('t.csv', *FLAT, '--verify', *TO, status=1)
    assert wrong['replay']['errors']['verify'] == 1 and 'offset 4000' in wrong['replay']['errors']['first'], wrong['replay']['errors']


@in_folder
def what_is_not_ours_is_refused_and_left():
    clean()
    write_rows('t.csv', 'W a 5000')
    for key in 'run/theirs', 'run/deeper/x', 'run/a~00000000-0123456789abcdef':
        put(key)
        refused('t.csv', *FLAT, *TO, says=f'holds {key[4:]}')
        assert 'holds ' in kv(*KV, '--folder', 's3://bucket/run/', status=1).err
        assert below() == [key]
        rm(f's3://bucket/{key}')
    put('runner')  # begins with the same letters
    replay('t.csv', *FLAT, *TO)
    assert below() == ['runner']
    put('run/.penstock-objects')
    refused('t.csv', *FLAT, *TO, says='is no marker')
    assert below() == ['run/.penstock-objects', 'runner']


@in_folder
def what_a_killed_run_left_is_removed_by_the_next_and_nobody_joins_a_living_one():
    clean()
    write_trace('slow.csv', [(0, 'Write', 20 << 20, 2, 'a', 'Decode'), (0, 'Write', 5000, 2, 'b', 'Decode'), (3600, 'Write', 5, 2, 'c', 'Decode')])
    write_rows('t.csv', 'W a 5000')
    run = clikit.start('replay', 'slow.csv', *TO)
    while not any(key.startswith('run/a~') for key in below()):
        assert run.poll() is None, run.communicate()
    refused('t.csv', *FLAT, *TO, says=f'process {run.pid} is using it', status=1)
    run.send_signal(signal.SIGKILL)
    run.wait()
    left = below()
    assert len(left) == 3, left
    put('run/theirs')
    refused('t.csv', *FLAT, *TO, says='holds theirs')
    assert sorted(below()) == sorted([*left, 'run/theirs'])
    rm('s3://bucket/run/theirs')
    result = replay('t.csv', *FLAT, *TO)
    assert result['replay']['cache']['reused'] == 0 and below() == []


@in_folder
def bad_input_is_one_line():
    clean()
    write_rows('t.csv', 'W a 5000')
    fio_log('log.fio', 2, [('f', 'write', 0, 4096)])
    refused('log.fio', *FLAT, *TO, says='parts of files')
    refused('t.csv', *FLAT, '--target', 's3://nowhere/x', says='nowhere')
    refused('t.csv', *FLAT, '--target', 's3://', says='s3://')
    refused('t.csv', *FLAT, *TO, '--target', 'folder', says='can be several')
    refused('t.csv', *FLAT, *TO, '--endpoint', 'ftp://x', says='ftp://x')
    kv.refused(*KV, '--folder', 's3://bucket/run', '--layout', 'raw', says='--layout')
    kv.refused(*KV, '--folder', 's3://bucket/run', '--backend', 'store', says='--backend store')
    assert below() == []


@in_folder
def without_keys_every_job_ends_alike():
    """Keys are no part of the command line, and a dry run fails where the run would."""
    write_rows('t.csv', 'W a 5000')
    none = {name: value for name, value in os.environ.items() if not name.startswith('AWS_')}
    none |= {'HOME': os.getcwd(), 'AWS_EC2_METADATA_DISABLED': 'true', 'AWS_ENDPOINT_URL': S.urls[0]}
    jobs = {'bench': ['-f', TO[1]], 'io': ['--target', TO[1], '--size', '64K'], 'sweep': ['--target', TO[1]],
            'kv': [*KV, '--folder', TO[1]], 'replay': ['t.csv', *TO]}
    for name, args in jobs.items():
        for dry in [], ['--dry-run']:
            done = clikit.Command(name)(*args, *dry, status=1, env=none)
            assert not done.out and done.err.count('\n') == 1 and ': credentials: none in' in done.err, done
    done = clikit.Command('replay')('t.csv', *TO, status=1, env=none | {'AWS_ACCESS_KEY_ID': 'nobody', 'AWS_SECRET_ACCESS_KEY': 'x'})
    assert done.err.count('\n') == 1 and '403' in done.err, done


tap.run(
    objects_do_what_files_do,
    ranges_of_an_operation_log_are_read_as_ranges,
    a_cache_has_its_third_tier_in_a_bucket,
    a_store_has_a_fourth_tier_below_it,
    what_is_kept_is_found_again,
    what_passes_is_tried_again_and_told,
    one_endpoint_that_ends_costs_no_operation,
    what_cannot_be_put_is_a_failed_write_with_its_reason,
    what_is_not_ours_is_refused_and_left,
    what_a_killed_run_left_is_removed_by_the_next_and_nobody_joins_a_living_one,
    bad_input_is_one_line,
    without_keys_every_job_ends_alike,
)
