# SPDX-License-Identifier: Apache-2.0
"""Objects on a real server (tools/s3-server.sh), beside the clients that others use.

    s3_peer.py SOURCE BUILD
"""
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import peer

boto3, minio, fsspec, theirs = peer.need('boto3', 'minio', 'fsspec', 's3torchconnector')
from penstock import s3  # noqa: E402
from penstock.compat import s3torchconnector as ours  # noqa: E402
from penstock.fsspec import FileSystem  # noqa: E402
from tap import run  # noqa: E402

SCRIPT = os.path.join(sys.argv[1], 'tools', 's3-server.sh')
MIB = 1 << 20
PORT = 17480 + os.getpid() % 1000 * 8
# Keys of object.md's table: what signers get wrong.
KEYS = ('plain', 'a b', 'a+b=c:d', 'ünï/çødé', 'a//b', "*()'!", '@,$&;', 'x%20y', 'q?r#s', 'meta~-_.')

folder = tempfile.mkdtemp(prefix='penstock-s3-')


def start():
    """The environment of a server, or the end of this program."""
    done = subprocess.run([SCRIPT, 'start', '--gateways', '2', '--tls', '--port', str(PORT), folder], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        print(f'1..0 # SKIP {done.stderr.strip().splitlines()[-1]}')
        sys.exit()
    return dict(line[7:].split('=', 1) for line in done.stdout.splitlines())


env = start()
PLAIN = [f'http://127.0.0.1:{PORT}', f'http://127.0.0.1:{PORT + 1}']
os.environ.update(env, AWS_ENDPOINT_URL=PLAIN[0], AWS_EC2_METADATA_DISABLED='true')
for name in ('AWS_PROFILE', 'AWS_SESSION_TOKEN', 'S3_ENDPOINT_URIS'):
    os.environ.pop(name, None)
KEYS_OF = {'aws_access_key_id': env['AWS_ACCESS_KEY_ID'], 'aws_secret_access_key': env['AWS_SECRET_ACCESS_KEY']}
boto = boto3.client('s3', endpoint_url=PLAIN[0], region_name='us-east-1', **KEYS_OF)
mini = minio.Minio(f'127.0.0.1:{PORT}', env['AWS_ACCESS_KEY_ID'], env['AWS_SECRET_ACCESS_KEY'], secure=False, region='us-east-1')


def data(size, seed=1):
    return random.Random(seed).randbytes(size)


def what_they_put_we_read():
    for i, key in enumerate(KEYS):
        boto.put_object(Bucket='bucket', Key=f'boto/{key}', Body=data(5000, i))
        assert s3.get(f's3://bucket/boto/{key}') == data(5000, i), key
    large = data(17 * MIB)
    boto.upload_fileobj(io.BytesIO(large), 'bucket', 'boto-large')
    mini.put_object('bucket', 'minio-large', io.BytesIO(large), len(large), part_size=5 * MIB)
    writer = theirs.S3Checkpoint('us-east-1', endpoint=PLAIN[0],
                                 s3client_config=theirs.S3ClientConfig(force_path_style=True)).writer('s3://bucket/crt-large')
    writer.write(large)
    try:
        writer.close()
    except Exception as e:  # this server completes an upload without telling its ETag, and that client minds
        assert 'ETag' in str(e), e
    for name in ('boto', 'minio', 'crt'):
        assert s3.get(f's3://bucket/{name}-large') == large, name


def what_we_put_they_read():
    for i, key in enumerate(KEYS):
        s3.put_bytes(f's3://bucket/ours/{key}', data(7000, i))
        assert boto.get_object(Bucket='bucket', Key=f'ours/{key}')['Body'].read() == data(7000, i), key
    large = data(23 * MIB, 2)
    with s3.MultipartUploadWriter('bucket', 'ours-large', part_size=5 * MIB) as w:
        w.write(large)
    assert boto.get_object(Bucket='bucket', Key='ours-large')['Body'].read() == large
    assert mini.get_object('bucket', 'ours-large').read() == large
    reader = theirs.S3Checkpoint('us-east-1', endpoint=PLAIN[0],
                                 s3client_config=theirs.S3ClientConfig(force_path_style=True)).reader('s3://bucket/ours-large')
    assert reader.read() == large
    told = boto.head_object(Bucket='bucket', Key='ours-large')
    assert told['ContentLength'] == len(large) and told['ETag'] == s3.stat('s3://bucket/ours-large')['etag']


def lists_are_the_same():
    pages = boto.get_paginator('list_objects_v2').paginate(Bucket='bucket', Prefix='ours/')
    want = [f's3://bucket/{o["Key"]}' for page in pages for o in page['Contents']]
    assert s3.list('s3://bucket/ours/', recursive=True) == want and len(want) == len(KEYS)
    assert 's3://bucket/ours/ünï/' in s3.list('s3://bucket/ours/')


def datasets_are_the_same():
    def of(module):
        config = module.S3ClientConfig(force_path_style=True)
        d = module.S3MapDataset.from_prefix('s3://bucket/boto/', region='us-east-1', endpoint=PLAIN[0], s3client_config=config)
        i = module.S3IterableDataset.from_prefix('s3://bucket/boto/', region='us-east-1', endpoint=PLAIN[0], s3client_config=config,
                                                 transform=lambda item: item.read())
        return [(d[n].bucket, d[n].key, d[n].read()) for n in range(len(d))], list(i)
    assert of(ours) == of(theirs)


def fsspec_finds_its_way():
    fsspec.register_implementation('penstock', FileSystem)
    fs = fsspec.filesystem('penstock')
    with fs.open('penstock://bucket/fs/a.txt', 'wb') as f:
        f.write(b'one\ntwo\n')
    with fsspec.open('penstock://bucket/fs/a.txt', 'rt') as f:
        assert f.readlines() == ['one\n', 'two\n']
    fs.pipe('bucket/fs/d/b', b'12345')
    assert fs.ls('bucket/fs', detail=False) == ['bucket/fs/a.txt', 'bucket/fs/d'] and fs.isdir('bucket/fs/d')
    assert fs.cat_file('bucket/fs/d/b', 1, 3) == b'23' and fs.cat_file('bucket/fs/d/b', -2) == b'45'
    # all with one call, and each for itself where one fails or is counted from an end
    before = fs.client.stats()['requests']
    assert fs.cat_ranges(['bucket/fs/d/b', 'bucket/fs/a.txt', 'bucket/fs/d/b'], [1, 0, 4], [3, 3, 9]) == [b'23', b'one', b'5']
    assert fs.client.stats()['requests'] == before + 3
    told = fs.cat_ranges(['bucket/fs/d/b', 'bucket/none', 'bucket/fs/d/b'], [-2, 0, 1], [None, 3, 1])
    assert told[0] == b'45' and isinstance(told[1], FileNotFoundError) and told[2] == b'', told
    with fs.open('bucket/fs/a.txt') as f:
        assert (f.size, f.mode, f.path, f.read(3)) == (8, 'rb', 'bucket/fs/a.txt', b'one')
    assert fs.read_block('bucket/fs/a.txt', 1, 4, delimiter=b'\n') == b'two\n' and fs.tail('bucket/fs/a.txt', 4) == b'two\n'
    fs.get('bucket/fs', f'{folder}/got', recursive=True)
    fs.put(f'{folder}/got', 'bucket/fs/put', recursive=True)
    assert fs.cat('bucket/fs/put/d/b') == b'12345' and fs.du('bucket/fs/put') == 13
    assert [(root, sorted(dirs), sorted(files)) for root, dirs, files in fs.walk('bucket/fs/put')] == [
        ('bucket/fs/put', ['d'], ['a.txt']), ('bucket/fs/put/d', [], ['b'])]
    with fsspec.open('penstock://bucket/fs/c.gz', 'wb', compression='gzip') as f:
        f.write(b'z' * 1000)
    with fsspec.open('penstock://bucket/fs/c.gz', 'rb', compression='gzip') as f:
        assert f.read() == b'z' * 1000
    fs.rm('bucket/fs/put', recursive=True)
    fs.rm('bucket/fs/c.gz')
    fs.mv('bucket/fs/d/b', 'bucket/fs/d/c')
    assert fs.find('bucket/fs') == ['bucket/fs/a.txt', 'bucket/fs/d/c'] and fs.glob('bucket/fs/*.txt') == ['bucket/fs/a.txt']
    fs.rm('bucket/fs', recursive=True)
    assert not fs.exists('bucket/fs/a.txt') and fs.find('bucket/fs') == []
    for mode, kind in (('rb', FileNotFoundError), ('ab', ValueError)):
        try:
            fs.open('bucket/none', mode)
            raise AssertionError(mode)
        except kind:
            pass


def tls_and_virtual_hosts_work():
    port = PORT + 2
    for options in ({'endpoint': f'https://127.0.0.1:{port}'}, {'endpoint': f'https://s3.localhost:{port}', 'style': 'virtual'},
                    {'endpoint': f'http://s3.localhost:{PORT}', 'style': 'virtual', 'sign_body': True}):
        c = s3.Client(ca_file=f'{folder}/ca.pem', **options)
        c.put_bytes('s3://bucket/tls', data(9 * MIB, 3))
        assert c.get('s3://bucket/tls') == data(9 * MIB, 3), options
    try:
        s3.Client(endpoint=f'https://127.0.0.1:{port}', ca_file='/etc/hostname', attempts=1).get('s3://bucket/tls')
        raise AssertionError('any certificate will do')
    except OSError as e:
        assert not isinstance(e, FileNotFoundError), e


def conditions_are_kept_by_the_store():
    c = s3.client()
    c.put_bytes('s3://bucket/once', b'1')
    for attempt in (lambda: c.put_bytes('s3://bucket/once', b'2', new=True), lambda: c.put_bytes('s3://bucket/once', b'2', etag='"no"')):
        try:
            attempt()
            raise AssertionError('it was replaced')
        except OSError:
            pass
    assert c.get('s3://bucket/once') == b'1'


def wrong_keys_are_refused_and_not_told():
    try:
        s3.Client(secret='S3CR3TMARK', key_id=env['AWS_ACCESS_KEY_ID'], endpoint=PLAIN[0]).get('s3://bucket/once')
        raise AssertionError('any secret will do')
    except PermissionError as e:
        assert 'S3CR3TMARK' not in str(e), e


def compare(*words):
    done = subprocess.run([sys.executable, '-m', 'penstock', 's3', 'compare', 's3://bucket/compared', '--files', '4', '--size', '9', '--in-flight',
                           '2', '--iterations', '2', '--json', '-', '--compare', *words], stdout=subprocess.PIPE, text=True)
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result['errors'] == {}, result['errors']
    assert s3.list('s3://bucket/compared', recursive=True) == []
    return len(result['rows']), len(result['verdicts'])


def clients_go_through_the_same_comparison():
    assert compare('boto3', 'minio') == (6, 4)
    # Reading alone: it wants an ETag in the head of the answer to a commit of parts, which radosgw 16 does not send.
    assert compare('s3torchconnector', '--skip-write-test') == (2, 1)
    for name, program in (('aws-cli', 'aws'), ('rclone', 'rclone')):
        if shutil.which(program):
            assert compare(name) == (4, 2), name


def traces_are_replayed():
    """Of a KV cache, of Mooncake and of warp, with names that have to be encoded."""
    with open(f'{folder}/kv.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        f.writelines(f'{i / 100},Write,{9 * MIB if i == 3 else 4096 * (i + 1)},Tier-2,k{i},Prefill\n' for i in range(20))
        f.writelines(f'{1 + i / 100},Read,4096,Tier-2,k{i % 20},Decode\n' for i in range(40))
    with open(f'{folder}/mooncake.jsonl', 'w', encoding='utf-8') as f:
        f.writelines(json.dumps({'timestamp': i * 20, 'input_length': 1024, 'output_length': 20, 'hash_ids': [0, 1 + i % 5]}) + '\n' for i in range(10))
    head = 'idx thread op client_id n_objects bytes endpoint file error start first_byte end duration_ns'
    with open(f'{folder}/warp.tsv', 'w', encoding='utf-8') as f:
        f.write(head.replace(' ', '\t') + '\n')
        for i in range(60):
            op = 'PUT' if i < 20 else 'GET' if i < 50 else 'DELETE'
            f.write(f'{i}\t0\t{op}\tc\t1\t{4096 << i % 5}\thttp://h\tset/a b+ü/{i % 20}\t\t2025-01-01T00:00:00.{i:06}Z\t\t2025-01-01T00:00:01.{i:06}Z\t1000\n')
    penstock = os.path.join(sys.argv[2], 'penstock')
    for name, more, ops in (('kv.csv', (), 60), ('mooncake.jsonl', ('--bytes-per-token', '4096'), 20), ('warp.tsv', (), 50)):  # deletes are no series
        words = [penstock, 'replay', f'{folder}/{name}', '--target', 's3://bucket/replay', '--pace', 'flat-out', '--verify', '--endpoint', ','.join(PLAIN),
                 '--json', f'{folder}/r.json', *more]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        with open(f'{folder}/r.json', encoding='utf-8') as f:
            result = json.load(f)
        assert sum(s['ops'] for s in result['series']) == ops and all(s['errors'] == 0 for s in result['series']), (name, result['series'])
        assert result['objects']['failed'] == 0 and len(result['objects']['endpoints']) == 2, result['objects']
        assert s3.list('s3://bucket/replay', recursive=True) == []


def signal_gateway(number, what):
    with open(f'{folder}/rgw.{number}.pid', encoding='ascii') as f:
        os.kill(int(f.read()), what)


def one_of_two_gateways_may_stop():
    c = s3.Client(endpoint=','.join(PLAIN), stall=1)
    uris = [f's3://bucket/gw/{i}' for i in range(50)]
    c.put_many([(uri, uri.encode()) for uri in uris], max_in_flight=8)
    signal_gateway(1, signal.SIGSTOP)  # it takes connections, and never answers
    try:
        for _ in range(2):
            assert all(view == uri.encode() for uri, view in c.get_many(uris))
        c.put_many([(uri, b'again') for uri in uris], max_in_flight=8)
        stats = c.stats()
        assert stats['failed'] == 0 and stats['retries'] > 0 and stats['endpoints'][1]['downs'] >= 1, stats
    finally:
        signal_gateway(1, signal.SIGCONT)
    for _ in range(600):
        assert all(view == b'again' for _, view in c.get_many(uris[:8]))
        if c.stats()['endpoints'][1]['up']:
            return
        time.sleep(0.1)
    raise AssertionError(c.stats())


def one_of_two_gateways_may_die():
    c = s3.Client(endpoint=','.join(PLAIN))
    uris = [f's3://bucket/gw/{i}' for i in range(200)]
    c.put_many([(uri, uri.encode()) for uri in uris], max_in_flight=8)
    signal_gateway(1, signal.SIGKILL)
    for _ in range(3):
        assert all(view == uri.encode() for uri, view in c.get_many(uris))
    c.put_many([(uri, b'again') for uri in uris], max_in_flight=8)
    assert c.stats()['failed'] == 0 and c.stats()['endpoints'][1]['downs'] >= 1, c.stats()


try:
    boto.create_bucket(Bucket='bucket')
    run(what_they_put_we_read, what_we_put_they_read, lists_are_the_same, datasets_are_the_same, fsspec_finds_its_way,
        tls_and_virtual_hosts_work, conditions_are_kept_by_the_store, wrong_keys_are_refused_and_not_told,
        clients_go_through_the_same_comparison, traces_are_replayed, one_of_two_gateways_may_stop, one_of_two_gateways_may_die)
finally:
    subprocess.run([SCRIPT, 'stop', folder])
    shutil.rmtree(folder, ignore_errors=True)
