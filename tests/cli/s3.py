#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock cp`, `ls`, `rm` and `info` of s3://, against the server that fails on purpose.  s3.py PENSTOCK ROOT"""
import json
import os
import re
import signal
import sys
import time

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(1, os.path.join(sys.path[0], 's3'))

import clikit
import s3kit
import tap
from tap import in_folder

cp, ls, rm, info = (clikit.Command(name) for name in ('cp', 'ls', 'rm', 'info'))
S = s3kit.Server('--bucket', 'bucket', ports=2)
S.use()


def fill(name, size, seed=1):
    data = (bytes(range(256)) * (size // 256 + 1))[seed:seed + size]
    with open(name, 'wb') as f:
        f.write(data)
    return data


def content(name):
    with open(name, 'rb') as f:
        return f.read()


def clean():
    S.rules()
    rm('-r', 's3://bucket')


@in_folder
def files_and_objects_are_copied_from_either_to_either():
    clean()
    data = fill('f', 20 << 20)
    assert 's3://bucket/a b/f: 20 MiB' in cp('f', 's3://bucket/a b/').out
    cp('s3://bucket/a b/f', 's3://bucket/copy')
    cp('s3://bucket/copy', 'g')
    assert content('g') == data and os.path.exists('g.crc')
    cp('g', 'h', '--quiet')
    assert content('h') == data
    cp('s3://bucket/copy', 's3://bucket/a b/f', '.', '--no-crc')
    assert content('copy') == data and not os.path.exists('copy.crc')
    fill('empty', 0)
    cp('empty', 'S3://bucket')
    cp('s3://bucket/empty', 'none')
    assert content('none') == b''
    assert ls('S3://bucket').out == ls('s3://bucket').out != ''
    rm('S3://bucket/empty')
    assert 'empty' not in ls('s3://bucket').out
    assert S.stats()['uploads'] == 0


def listed(*where):
    return {e['name']: e['bytes'] for e in json.loads(ls('-r', '--json', '-', *where).out)['entries']}


@in_folder
def trees_are_copied_in_all_directions():
    clean()
    data = {f'deep/{i}/f {i}': fill_in(f'tree/deep/{i}/f {i}', 1000 * i, i) for i in range(20)}
    data['large'] = fill_in('tree/large', 20 << 20)
    os.symlink('large', 'tree/link')
    cp('tree/large', 'tree/again')  # with its checksums beside it
    data['again'] = data['large']
    done = cp('-r', 'tree', 's3://bucket/up')
    assert '22 copied' in done.out and '1 below tree are no files' in done.err, done
    assert listed('s3://bucket/') == {f'up/{k}': len(v) for k, v in data.items()}
    entries = json.loads(cp('-r', 's3://bucket/up/', 's3://bucket/copy/', '--json', '-').out)
    assert len(entries['entries']) == 22 and entries['objects']['failed'] == 0, entries
    assert {e['to'] for e in entries['entries']} == {f's3://bucket/copy/{k}' for k in data}
    cp('-r', 's3://bucket/copy', 'down', '--no-crc', '-q')
    assert {k: content(f'down/{k}') for k in data} == data and len(clikit.tree()) == len(set(clikit.tree()))
    cp('-r', 'down', 'here')
    assert {k: content(f'here/{k}') for k in data} == data and S.stats()['uploads'] == 0
    assert cp('-r', 's3://bucket/nothing there', 'x').out.startswith('0 copied') and not os.path.exists('x')


def fill_in(name, size, seed=1):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    return fill(name, size, seed)


@in_folder
def of_a_tree_each_is_whole_or_not_there():
    clean()
    for i in range(30):
        fill_in(f'tree/{i:02}', 100000)
    S.rules('method=PUT key=p/1* p=0.3 status:503', 'method=PUT key=p/05 status:403')
    done = cp('-r', 'tree', 's3://bucket/p', '--json', 'j', status=1)
    assert 'p/05' in done.err and done.err.count('\n') <= 2, done
    with open('j') as f:
        told = {e['to'][len('s3://bucket/'):] for e in json.load(f)['entries']}
    S.rules()
    there = listed('s3://bucket/')
    assert set(there) == told and 'p/05' not in there and set(there.values()) <= {100000}, (there, told)
    again = cp('-rn', 'tree', 's3://bucket/p', status=1)
    assert 'p/0' in again.err, again
    cp('-r', 's3://bucket/p', 'back')
    assert 'is there already' in cp('-rn', 's3://bucket/p', 'back', status=1).err
    there = listed('s3://bucket/')
    gone = json.loads(rm('-r', '--json', '-', 's3://bucket/p').out)
    assert {e['name'] for e in gone['entries']} == {f's3://bucket/{k}' for k in there} and all(e['removed'] for e in gone['entries'])


@in_folder
def keys_that_name_no_file_are_refused_before_anything_is_copied():
    clean()
    fill('f', 10)
    for key in 'p/../../up', 'p//two', 'p/./x':
        cp('f', 's3://bucket/p/good', '-q')
        cp('f', f's3://bucket/{key}', '-q')
        assert 'names no file below there' in cp('-r', 's3://bucket/p', 'there', status=1).err
        assert os.listdir() == ['f']
        clean()
    cp.refused('-r', 'f', 'f', 's3://bucket/x', says='one FROM')
    assert 'is no folder' in cp('-r', 'f', 's3://bucket/x', status=1).err


@in_folder
def what_is_listed_can_be_removed():
    clean()
    fill('x', 1000)
    for key in ('p/1', 'p/2', 'p/q/3', 'top'):
        cp('x', f's3://bucket/{key}', '-q')
    lines = ls('--bytes', 's3://bucket/p/').out.splitlines()
    assert [line.split()[-1] for line in lines] == ['p/q/', 'p/1', 'p/2'] or \
        sorted(line.split()[-1] for line in lines) == ['p/1', 'p/2', 'p/q/'], lines
    assert ' 1000 p/1' in '\n'.join(lines)
    assert len(ls('-r', 's3://bucket/').out.splitlines()) == 4
    assert '3 would be removed' in rm('-r', '--dry-run', 's3://bucket/p/').out
    assert len(ls('-r', 's3://bucket/').out.splitlines()) == 4
    assert '3 removed' in rm('-r', 's3://bucket/p/').out
    assert ls('-r', 's3://bucket/').out.split()[-1] == 'top'
    rm('s3://bucket/top', 's3://bucket/never there', 'x')
    assert ls('s3://bucket').out == '' and not os.path.exists('x')


@in_folder
def failures_that_pass_are_told_and_no_more():
    clean()
    data = fill('f', 30 << 20)
    S.rules('method=PUT query=partNumber times=2 status:503', 'method=PUT query=partNumber times=1 reset',
            'method=POST times=1 error200:InternalError')
    done = cp('f', 's3://bucket/k')
    # A reset before the answer is libcurl's own to try again.
    assert re.search('note: [34] of .* 2 after an answer that it is too much', done.err), done
    S.rules('method=GET times=3 short:100000', 'method=GET times=1 reset:5000', 'method=GET times=2 status:500:empty')
    done = cp('s3://bucket/k', 'g')
    assert content('g') == data and 'note: 6 of ' in done.err, done


@in_folder
def failures_that_stay_leave_nothing():
    clean()
    fill('f', 12 << 20)
    S.rules('method=PUT query=partNumber skip=1 status:403')
    done = cp('f', 's3://bucket/k', status=1)
    assert 's3://bucket/k: upload: ' in done.err and '(403)' in done.err, done
    S.rules('method=POST query=uploadId status:503')
    done = cp('f', 's3://bucket/k', '--attempts', '2', status=1)
    assert 'after 2 attempts' in done.err, done
    S.rules()
    assert ls('-r', 's3://bucket').out == '' and S.stats()['uploads'] == 0
    done = cp('s3://bucket/k', 'g', status=1)
    assert done.err == 'penstock cp: s3://bucket/k: stat: No such file or directory (404)\n', done
    cp('f', 's3://bucket/k')
    S.rules('method=GET range')
    done = cp('s3://bucket/k', 'g', '--attempts', '2', status=1)
    assert 'contradicts' in done.err and not os.path.exists('g'), done


@in_folder
def a_killed_upload_is_found_and_removed():
    clean()
    fill('f', 20 << 20)
    S.rules('method=PUT query=partNumber stall:60')
    run = cp.start('f', 's3://bucket/left')
    while not S.stats()['uploads']:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    S.rules()
    assert ls('s3://bucket').out == ''
    assert ls('--uploads', 's3://bucket').out.startswith('left ')
    assert '1 removed' in rm('--uploads', 's3://bucket/le').out
    assert ls('--uploads', 's3://bucket').out == '' and S.stats()['uploads'] == 0


@in_folder
def new_means_new():
    clean()
    fill('f', 12 << 20)
    fill('small', 10)
    for name in ('f', 'small'):
        cp('--new', name, 's3://bucket/')
        done = cp('--new', name, f's3://bucket/{name}', status=1)
        assert f's3://bucket/{name}' in done.err and 'is there already' in done.err, done
    assert 'is there already' in cp('--new', 's3://bucket/f', 'small', status=1).err


@in_folder
def an_endpoint_that_is_gone_costs_nothing_but_time():
    clean()
    data = fill('f', 30 << 20)
    both = ','.join(S.urls)
    S.stop_port(0)
    try:
        cp('--endpoint', both, 'f', 's3://bucket/k')
        cp('--endpoint', both, 's3://bucket/k', 'g')
        done = info('--endpoint', both, 's3://bucket', status=1)
        assert 'FAILED: ' in done.out and S.urls[0] in done.err, done
    finally:
        S.start_port(0)
    assert content('g') == data


@in_folder
def a_store_is_checked_in_five_points():
    clean()
    done = info('--try-put', 's3://bucket/x')
    for words in ('127.0.0.1', 'us-east-1, path style', 'clock is within', 'list, put, read', 'conditional writes: yes'):
        assert words in done.out, done
    assert ls('-r', 's3://bucket').out == ''
    info('--json', 'r.json', 's3://bucket')
    store = json.loads(content('r.json'))['stores'][0]
    assert [p['good'] for p in store['points']] == [True, True, True, True, None], store
    S.rules('skew:7200')
    done = info('s3://bucket', status=1)
    assert 'ahead of' in done.err, done
    S.rules()
    assert 'nowhere' in info('s3://nowhere', status=1).err


@in_folder
def what_makes_no_sense_is_refused():
    fill('f', 10)
    cp.refused(says='FROM and TO')
    cp.refused('f', 'f', says='are the same file')
    cp.refused('f', 'f', 's3://bucket/x', says='no folder')
    cp.refused('f', 'az://bucket/x', says='only s3:// is built')
    cp.refused('f', 's3://bucket/x', '--endpoint', 'ftp://x', says=['endpoint', 'ftp://x'])
    cp.refused('f', 's3://bucket/x', '--style', 'virtual', says=['style path'])
    ls.refused(says='s3://BUCKET/PREFIX')
    ls.refused('-r', '.', says='is a path')
    rm.refused(says='s3://BUCKET/KEY')
    rm.refused('-r', '-u', 's3://bucket', says='exclude each other')
    assert 'is a folder' in rm('.', status=1).err
    assert 'has no key' in rm('s3://bucket', status=1).err
    assert 'is no bucket' in cp('f', 's3://b/x', status=1).err


tap.run(
    files_and_objects_are_copied_from_either_to_either,
    trees_are_copied_in_all_directions,
    of_a_tree_each_is_whole_or_not_there,
    keys_that_name_no_file_are_refused_before_anything_is_copied,
    what_is_listed_can_be_removed,
    failures_that_pass_are_told_and_no_more,
    failures_that_stay_leave_nothing,
    a_killed_upload_is_found_and_removed,
    new_means_new,
    an_endpoint_that_is_gone_costs_nothing_but_time,
    a_store_is_checked_in_five_points,
    what_makes_no_sense_is_refused,
)
