#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock bench`, `io`, `sweep` and `ckpt` on s3://, against the server of tests/s3.  s3_bench.py PENSTOCK ROOT"""
import json
import os
import socket
import subprocess
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(1, os.path.join(sys.path[0], 's3'))

import clikit
import s3kit
import tap
from tap import in_folder

bench, io, sweep, ls, ckpt, cp = (clikit.Command(name) for name in ('bench', 'io', 'sweep', 'ls', 'ckpt', 'cp'))
S = s3kit.Server('--bucket', 'bucket', ports=2)
for variable in [name for name in os.environ if name.startswith(('AWS_', 'S3_')) or name.lower().endswith('_proxy')]:
    del os.environ[variable]
os.environ.update(S.env, AWS_EC2_METADATA_DISABLED='true', HOME='/nonexistent', S3_ENDPOINT_URIS=','.join(S.urls))


def load(name):
    with open(name, encoding='utf-8') as f:
        return json.load(f)


def nothing_is_left():
    assert ls('-r', 's3://bucket').out == '' and not S.stats()['uploads'], ls('-r', 's3://bucket').out


@in_folder
def bench_makes_verifies_and_removes_objects():
    done = bench('-f', 's3://bucket/p/', '-s', '64K', '9M', '-n', '6', '--in-flight', '2', '--verify', '--json', 'r.json')
    for words in ('all right', 'not ours to see', 'limit:      reads: ', 'first byte:', S.urls[0], S.urls[1], 'objects'):
        assert words in done.out, (words, done.out)
    r = load('r.json')
    assert [s['name'] for s in r['series']] == ['write 64K', 'read 64K', 'write 9M', 'read 9M'], r['series']
    assert all(s['ops'] == 6 and s['errors'] == 0 for s in r['series'])
    o = r['objects']
    assert o['retries'] == 0 and o['failed'] == 0 and len(o['endpoints']) == 2, o
    for name, least in ('first_byte', 12), ('last_byte', 12), ('put', 12):
        times = o[name]
        assert times['n'] >= least and 0 < times['p50'] <= times['p99'] <= times['max'] * 1.01 and times['histogram']['buckets'], (name, times)
    assert o['last_byte']['p50'] >= o['first_byte']['p50'] and o['last_byte']['n'] == o['first_byte']['n'], o
    assert sum(e['attempts'] for e in o['endpoints']) == o['attempts']
    nothing_is_left()


def sent_to(port):
    return S.stats()['by'].get(f'PUT {S.ports[port]}', 0)


@in_folder
def each_rank_has_its_endpoint():
    """Of three ranks two have the first of two endpoints."""
    for balance, share in ((None, 2), ('round_robin', 1)):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            env = {'PENSTOCK_MEET': f'127.0.0.1:{s.getsockname()[1]}:x', 'PMI_SIZE': '3'}
        if balance:
            env['S3_LOAD_BALANCE_STRATEGY'] = balance
        before = sent_to(0), sent_to(1)
        ranks = [subprocess.Popen([clikit.PENSTOCK, 'bench', '-f', 's3://bucket/p', '-s', '64K', '-n', '20', '-w', '--no-limit',
                                   '--json', 'all.json'],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, **env, 'PMI_RANK': str(r)}) for r in range(3)]
        outs = [p.communicate()[0] for p in ranks]
        assert [p.returncode for p in ranks] == [0, 0, 0], outs
        first, second = sent_to(0) - before[0], sent_to(1) - before[1]
        assert load('all.json')['series'][0]['ops'] == 60 and abs(first - share * second) <= 3 * (balance is not None), (first, second)
        nothing_is_left()


@in_folder
def the_limit_is_what_a_bare_loop_gets_from_the_same_requests():
    done = bench('-f', 's3://bucket', '-s', '64K', '-n', '6', '--in-flight', '3', '--json', 'r.json')
    r = load('r.json')
    for s, verb in zip(r['series'], ('PUT', 'GET')):
        limit = s['limit']
        assert limit['bytes_per_sec'] > 0 and 0 < limit['share'] <= 1 and limit['note'] is None, limit
        assert f'3 {verb}s of 64 KiB in flight' in limit['how'] or f'plain {verb} got' in limit['how'], limit
    assert 'fresh files' not in done.out, done.out
    # its requests are nobody's but its own
    assert r['objects']['attempts'] < 100 < S.stats()['requests'], (r['objects'], S.stats())
    bench('-f', 's3://bucket', '-s', '20M', '-n', '2', '--in-flight', '2', '--read-only', '--json', 'r.json')
    limit = load('r.json')['series'][0]['limit']
    assert '6 GETs of 8 MiB in flight' in limit['how'] or 'plain GET got' in limit['how'], limit
    io('-f', 's3://bucket/a', 's3://bucket/b', '-s', '1M', '--iterations', '2', '--measure-limit', '--verify', '--json', 'r.json')
    assert 'libcurl' in str(load('r.json')['series'][0]['limit']) or 'PUT' in str(load('r.json')['series'][0]['limit'])
    nothing_is_left()


@in_folder
def all_commands_take_one_table_of_options():
    where = '--endpoint', ','.join(S.urls), '--region', 'us-east-1', '--style', 'path', '--connections', '8'
    gone = os.environ.pop('S3_ENDPOINT_URIS'), os.environ.pop('AWS_ENDPOINT_URL')
    os.environ['AWS_ENDPOINT_URL'] = 'http://127.0.0.1:1'  # nobody is there
    try:
        bench('-f', 's3://bucket', '-s', '64K', '-n', '2', '--no-limit', '--sign-body', '--json', 'r.json', *where)
        assert load('r.json')['objects']['payload'] == 'signed' and len(load('r.json')['objects']['endpoints']) == 2
        io('-f', 's3://bucket/i', '-s', '64K', '--iterations', '1', *where)
        sweep('-f', 's3://bucket/s', '-s', '64K', '-b', '64K', '-d', '4', '-t', '1', '--sequential-requests', 'no', '--single-submit', 'no', '--no-limit', *where)
        with open('m.ckpt', 'wb') as f:
            f.write(b'x' * 1000)
        ckpt('cp', 'm.ckpt', 's3://bucket/', *where)
        ckpt('verify', 's3://bucket/m.ckpt', *where)
        bench.refused('-f', 's3://bucket', '--endpoint', 'ftp://x', says='ftp://x')
        clikit.Command('rm')('-r', 's3://bucket', *where)
        bench('-f', 's3://bucket', '-s', '64K', '-n', '1', '--attempts', '1', status=2)
    finally:
        os.environ['S3_ENDPOINT_URIS'], os.environ['AWS_ENDPOINT_URL'] = gone
    nothing_is_left()


@in_folder
def retries_and_503s_are_told_apart():
    S.rules('p=0.1 status:503', 'method=GET p=0.1 reset:1000')
    try:
        bench('-f', 's3://bucket', '-s', '100K', '-n', '30', '--in-flight', '4', '--verify', '--json', 'r.json')
    finally:
        S.rules()
    o = load('r.json')['objects']
    assert o['throttled'] > 0 and o['broken'] > 0 and o['retries'] >= o['throttled'] + o['broken'] and o['failed'] == 0, o
    nothing_is_left()


def keys():
    return [line.split(maxsplit=3)[-1] for line in ls('-r', '--bytes', 's3://bucket').out.splitlines()]


@in_folder
def what_a_killed_run_left_goes_with_the_next_and_a_living_one_stays():
    small = '-f', 's3://bucket/p', '-s', '64K', '-n', '1', '--no-limit'
    # no answer to the fifth part: the third upload is begun and not ended
    S.rules('method=PUT query=partNumber skip=4 stall:600')
    run = clikit.start('bench', '-f', 's3://bucket/p', '-s', '12M', '--runtime', '600', '-w', '--no-limit')
    try:
        while len(keys()) < 3 or not S.stats()['uploads']:
            assert run.poll() is None, run.communicate()
        with open('foreign', 'w') as f:
            f.write('x')
        cp('-q', 'foreign', 's3://bucket/p/penstock-bench-abcdef/foreign')
        bench(*small)
        assert any('penstock-bench-' in key and key.endswith('.penstock-bed') for key in keys()), keys()
    finally:
        run.kill()
        run.wait()
        S.rules()
    assert len(keys()) > 2, keys()
    bench(*small)
    assert keys() == ['p/penstock-bench-abcdef/foreign'] and not S.stats()['uploads'], (keys(), S.stats())
    clikit.Command('rm')('-r', 's3://bucket')


@in_folder
def results_of_ranks_are_added():
    for i in range(2):
        bench('-f', f's3://bucket/{i}', '-s', '64K', '-n', '5', '--no-limit', '--json', f'{i}.json')
    clikit.Command('merge')('0.json', '1.json', '--json', 'all.json')
    one, two, both = (load(name)['objects'] for name in ('0.json', '1.json', 'all.json'))
    for name in 'requests', 'attempts', 'read_bytes':
        assert both[name] == one[name] + two[name], name
    for name in 'first_byte', 'last_byte', 'put':
        assert both[name]['n'] == one[name]['n'] + two[name]['n'] and both[name]['max'] == max(one[name]['max'], two[name]['max']), name
    assert len(both['endpoints']) == 2 and sum(e['attempts'] for e in both['endpoints']) == both['attempts'], both['endpoints']


@in_folder
def ranges_of_one_object_are_read_at_random():
    bench('-f', 's3://bucket/x', '--random', '--span', '12M', '-s', '64K', '-r', '-n', '20', '--in-flight', '4', '--verify')
    bench('-f', 's3://bucket/x', '--open-once', '-s', '64K', '-r', '-n', '5', '--verify')
    nothing_is_left()


@in_folder
def io_moves_whole_objects_and_can_keep_them():
    done = io('-f', 's3://bucket/a', 's3://bucket/b', '-s', '6M', '--iterations', '2', '--verify')
    assert 'validation: passed' in done.out and 'not ours to see' in done.out, done.out
    nothing_is_left()
    io('-f', 's3://bucket/k', '-r', '-s', '1M', '--iterations', '1', '--keep', '--verify', '--json', 'r.json')
    o = load('r.json')['objects']  # it was looked for before it was made
    assert o['absent'] == 1 and o['failed'] == 0, o
    assert '_aio_read_1048576.pt.0_0' in ls('-r', 's3://bucket').out
    io('-f', 's3://bucket/k', '-r', '-s', '1M', '--iterations', '1', '--verify')
    assert '_aio_read_1048576.pt.0_0' in ls('-r', 's3://bucket').out
    clikit.Command('rm')('-r', 's3://bucket')


@in_folder
def sweep_goes_through_its_configurations():
    sweep('-f', 's3://bucket/s', '-s', '2M', '-b', '1M', '-d', '4', '-t', '1', '--sequential-requests', 'no', '--single-submit', 'no', '--json', 'r.json')
    r = load('r.json')
    assert all(s['limit']['share'] > 0 for s in r['series']), r['series']
    assert len(r['series']) == 2 and all(s['ops'] for s in r['series']) and r['objects']['failed'] == 0, r
    nothing_is_left()


@in_folder
def model_files_are_listed_and_verified_where_they_are():
    header = json.dumps({'t': {'dtype': 'U8', 'shape': [5000000], 'data_offsets': [0, 5000000]}}).encode()
    with open('m.safetensors', 'wb') as f:
        f.write(len(header).to_bytes(8, 'little') + header + bytes(range(250)) * 20000)
    ckpt('cp', 'm.safetensors', 'n.safetensors')
    cp('n.safetensors', 's3://bucket/n.safetensors')
    cp('n.safetensors.crc', 's3://bucket/n.safetensors.crc')
    assert '5000000' in ckpt('ls', 's3://bucket/n.safetensors').out.replace(',', '')
    ckpt('verify', 's3://bucket/n.safetensors')
    with open('n.safetensors', 'r+b') as f:
        f.seek(4000000)
        f.write(b'x')
    os.unlink('n.safetensors.crc')
    cp('n.safetensors', 's3://bucket/n.safetensors')
    assert 's3://bucket/n.safetensors' in ckpt('verify', 's3://bucket/n.safetensors', status=1).err
    clikit.Command('rm')('-r', 's3://bucket')


def shard(name, *tensors):
    at, header, size = 0, {}, 1 << 20
    for tensor in tensors:
        header[tensor] = {'dtype': 'U8', 'shape': [size], 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(name, 'wb') as f:
        f.write(len(text).to_bytes(8, 'little') + text + bytes(range(256)) * (at // 256))


@in_folder
def a_prefix_is_a_model_as_a_folder_is():
    weights = clikit.Command('weights')
    shard('model-1.safetensors', 'layers.0.a', 'layers.0.b')
    shard('model-2.safetensors', 'layers.1.a', 'layers.1.b')
    shard('other.safetensors', 'layers.7.a')  # which the index does not know
    names = {'layers.0.a': 'model-1.safetensors', 'layers.0.b': 'model-1.safetensors', 'layers.1.a': 'model-2.safetensors', 'layers.1.b': 'model-2.safetensors'}
    with open('model.safetensors.index.json', 'w') as f:
        json.dump({'weight_map': names}, f)
    for name in 'model-1.safetensors', 'model-2.safetensors', 'other.safetensors', 'model.safetensors.index.json':
        cp('-q', name, f's3://bucket/model/{name}')
    run = '--runtime', '0.3', '--window', '16M', '--json', 'r.json'
    done = weights('s3://bucket/model/', *run)
    r = load('r.json')
    assert r['weights']['model_bytes'] == 4 << 20 and r['objects']['read_bytes'] >= 4 << 20 and r['objects']['failed'] == 0, r['weights']
    assert 'objects:' in done.out and 'libcurl' in str(r['series'][0]['limit']) + done.out or 'plain GET' in done.out, done.out
    listed = ckpt('ls', '--brief', 's3://bucket/model/').out
    assert all(name in listed for name in ('model-1.safetensors', 'model-2.safetensors', 'other.safetensors')) and 'index' not in listed, listed
    assert 'has no checksums' in ckpt('verify', 's3://bucket/model/', status=1).err
    for name in 'model-1', 'model-2', 'other':
        ckpt('cp', '-q', f'{name}.safetensors', 's3://bucket/summed/')
    assert ckpt('verify', 's3://bucket/summed/').out.count('.safetensors') == 3
    assert 'no model file' in ckpt('ls', 's3://bucket/none/', status=1).err
    clikit.Command('rm')('s3://bucket/model/model.safetensors.index.json')
    weights('s3://bucket/model/', *run)
    assert load('r.json')['weights']['model_bytes'] == 5 << 20
    weights('s3://bucket/model/model-1.safetensors', *run)
    assert load('r.json')['weights']['model_bytes'] == 2 << 20
    assert 'has no *.safetensors' in weights('s3://bucket/none/', status=1).err
    clikit.Command('rm')('-r', 's3://bucket')


@in_folder
def checkpoints_are_copied_to_the_store_and_back():
    content = bytes(range(251)) * 40000
    with open('m.ckpt', 'wb') as f:
        f.write(content)
    ckpt('cp', 'm.ckpt', 'n.ckpt')
    ckpt('cp', 'n.ckpt', 's3://bucket/d/')
    assert ls('-r', 's3://bucket').out.count('d/n.ckpt') == 2  # and its checksums
    ckpt('verify', 's3://bucket/d/n.ckpt')
    with open('n.ckpt', 'r+b') as f:
        f.write(b'x')
    assert 'n.ckpt' in ckpt('cp', 'n.ckpt', 's3://bucket/d/n.ckpt', status=1).err
    ckpt('cp', 's3://bucket/d/n.ckpt', 's3://bucket/o.ckpt')
    ckpt('cp', 's3://bucket/o.ckpt', '.')
    ckpt('verify', 'o.ckpt')
    with open('o.ckpt', 'rb') as f:
        assert f.read() == content
    assert 'same file' in ckpt('cp', 's3://bucket/o.ckpt', 's3://bucket/o.ckpt', status=2).err
    clikit.Command('rm')('-r', 's3://bucket')
    nothing_is_left()


@in_folder
def what_makes_no_sense_is_refused():
    bench.refused('-f', 's3://bucket', '--random', says='written as a whole')
    bench.refused('-f', 's3://bucket', '--open-once', says='written as a whole')
    bench.refused('-f', 's3://bucket', '--engine', 'null', says='exclude each other')
    bench.refused('-f', 'az://bucket', says='only s3:// is built')
    clikit.Command('tune').refused('-f', 's3://bucket', says='--connections')
    assert 'NoSuchBucket' in bench('-f', 's3://nowhere/x', '-s', '64K', '-n', '1', status=2).err


tap.run(
    bench_makes_verifies_and_removes_objects, each_rank_has_its_endpoint,
    the_limit_is_what_a_bare_loop_gets_from_the_same_requests,
    all_commands_take_one_table_of_options,
    retries_and_503s_are_told_apart,
    what_a_killed_run_left_goes_with_the_next_and_a_living_one_stays,
    results_of_ranks_are_added,
    ranges_of_one_object_are_read_at_random,
    io_moves_whole_objects_and_can_keep_them,
    sweep_goes_through_its_configurations,
    model_files_are_listed_and_verified_where_they_are,
    a_prefix_is_a_model_as_a_folder_is,
    checkpoints_are_copied_to_the_store_and_back,
    what_makes_no_sense_is_refused,
)
