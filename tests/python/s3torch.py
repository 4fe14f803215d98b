# SPDX-License-Identifier: Apache-2.0
"""penstock.compat.s3torchconnector: the names of that package, against the server of tests/s3."""
import io
import os
import pickle
import sys

import kit
from kit import MIB, case, data

sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 's3'))
import s3kit  # noqa: E402
from penstock import s3  # noqa: E402
from penstock.compat import s3torchconnector as c  # noqa: E402

server = s3kit.Server()
URL, REGION = server.urls[0], 'us-east-1'
os.environ.update(server.env, AWS_EC2_METADATA_DISABLED='true')
for name in ('AWS_PROFILE', 'AWS_SESSION_TOKEN', 'AWS_ENDPOINT_URL', 'S3_ENDPOINT_URIS'):
    os.environ.pop(name, None)
s3.configure(endpoint=URL)
try:
    s3.client().core
except OSError as e:
    kit.run(('objects', lambda e=e: (_ for _ in ()).throw(kit.Skip('curl', str(e)))))
    sys.exit()
CONTENT = {f'set/{i:02}': data(1000 * i + 1, i) for i in range(20)}
s3.put_many([(f's3://bucket/{key}', content) for key, content in CONTENT.items()])


def raises(kind, function, *args, says=''):
    try:
        function(*args)
    except kind as e:
        assert says in str(e), e
        return
    raise AssertionError(f'{kind.__name__} was not raised')


def whole(item):
    return item.key, item.read()


@case
def a_map_dataset_has_what_is_below_the_prefix():
    d = c.S3MapDataset.from_prefix('s3://bucket/set/', region=REGION, endpoint=URL)
    assert len(d) == 20 and d[3].bucket == 'bucket' and d[3].key == 'set/03'
    assert d[3].read() == CONTENT['set/03'] and d[-1].as_view() == CONTENT['set/19']
    d = c.S3MapDataset.from_objects(['s3://bucket/set/05', 's3://bucket/set/02'], region=REGION, endpoint=URL, transform=whole)
    assert len(d) == 2 and d[0] == ('set/05', CONTENT['set/05'])


@case
def an_iterable_dataset_has_all_of_it_in_order():
    d = c.S3IterableDataset.from_prefix('s3://bucket/set/', region=REGION, endpoint=URL, transform=whole)
    assert dict(d) == CONTENT and [key for key, _ in d] == list(CONTENT)
    d = pickle.loads(pickle.dumps(d))
    assert next(iter(d))[0] == 'set/00'


@case
def shares_are_disjoint_and_complete():
    torch = kit.torch_or_skip()
    d = c.S3IterableDataset.from_prefix('s3://bucket/set/', region=REGION, endpoint=URL, transform=whole, enable_sharding=True)
    loader = torch.utils.data.DataLoader(d, batch_size=None, num_workers=2)
    seen = list(loader)
    assert len(seen) == 20 and dict(seen) == CONTENT
    d = c.S3IterableDataset.from_prefix('s3://bucket/set/', region=REGION, endpoint=URL, transform=whole)
    assert len(list(torch.utils.data.DataLoader(d, batch_size=None, num_workers=2))) == 40
    d = c.S3MapDataset.from_prefix('s3://bucket/set/', region=REGION, endpoint=URL, transform=whole)
    assert dict(torch.utils.data.DataLoader(d, batch_size=None, num_workers=2)) == CONTENT


@case
def a_worker_that_is_not_forked_knows_the_rank():
    def keys(d):
        return [key for key, _ in d]
    alone, c._rank = c._rank, lambda: (1, 4)
    try:
        d = c.S3IterableDataset.from_prefix('s3://bucket/set/', region=REGION, endpoint=URL, transform=whole, enable_sharding=True)
        assert keys(d) == list(CONTENT)[1::4]
        c._rank = lambda: (2, 4)  # as when it is made before the ranks know each other
        state = pickle.dumps(d)
    finally:
        c._rank = alone
    assert keys(d) == list(CONTENT)[1::4] and keys(pickle.loads(state)) == list(CONTENT)[2::4]


@case
def a_reader_is_a_file():
    content = data(3 * MIB)
    s3.put_bytes('s3://bucket/file', content)
    client = c.S3Client(REGION, endpoint=URL)
    for window in (None, c.S3ReaderConstructor.range_based(buffer_size=1000), c.S3ReaderConstructor.range_based(buffer_size=0),
                   c.S3ReaderConstructor.range_based()):
        r, f = client.get_object('bucket', 'file', reader_constructor=window), io.BytesIO(content)
        for offset, whence, size in ((0, 0, 10), (5, 0, 4000), (-7, 2, 100), (100, 0, 2 * MIB), (-50, 1, 60), (0, 2, 5), (9 * MIB, 0, 1)):
            assert r.seek(offset, whence) == f.seek(offset, whence)
            assert r.read(size) == f.read(size) and r.tell() == f.tell(), (window, offset)
        r.seek(0)
        into = bytearray(2 * MIB)
        assert r.readinto(into) == 2 * MIB and into == content[:2 * MIB] and r.read() == content[2 * MIB:]


@case
def a_reader_never_mixes_two_objects():
    s3.put_bytes('s3://bucket/mix', b'a' * 3000)
    r = c.S3Client(REGION, endpoint=URL).get_object('bucket', 'mix', reader_constructor=c.S3ReaderConstructor.range_based(buffer_size=100))
    assert r.read(50) == b'a' * 50
    r.seek(0, 2)
    s3.put_bytes('s3://bucket/mix', b'b' * 3000)
    r.seek(1000)
    raises(OSError, r.read, 50)


@case
def checkpoints_go_there_and_back():
    torch = kit.torch_or_skip()
    state = {'w': torch.arange(600000, dtype=torch.float32), 'step': 7}
    k = c.S3Checkpoint(region=REGION, endpoint=URL)
    with k.writer('s3://bucket/ckpt.pt') as f:
        torch.save(state, f)
    with k.reader('s3://bucket/ckpt.pt') as f:
        back = torch.load(f)
    assert back['step'] == 7 and torch.equal(back['w'], state['w'])


@case
def a_writer_that_fails_leaves_nothing():
    k = c.S3Checkpoint(REGION, URL, c.S3ClientConfig(part_size=5 * MIB))

    def broken():
        with k.writer('s3://bucket/broken') as f:
            f.write(bytes(6 * MIB))
            raise KeyError
    raises(KeyError, broken)
    f = k.writer('s3://bucket/broken')
    f.write(b'forgotten')
    del f
    assert not s3.exists('s3://bucket/broken') and server.stats()['uploads'] == 0


@case
def a_client_has_the_calls():
    client = c.S3Client(REGION, endpoint=URL)
    with client.put_object('bucket', 'c/1') as f:
        f.write(b'one')
    client.copy_object('bucket', 'c/1', 'bucket', 'c/d/2')
    info = client.head_object('bucket', 'c/1')
    assert info.size == 3 and info.etag
    pages = list(client.list_objects('bucket', 'c/', '/'))
    assert [i.key for p in pages for i in p.object_info] == ['c/1'] and pages[0].common_prefixes == ['c/d/']
    assert len(list(client.list_objects('bucket', 'set/', max_keys=6))) == 4
    client.delete_object('bucket', 'c/1')
    raises(FileNotFoundError, client.head_object, 'bucket', 'c/1')
    raises(c.S3Exception, client.get_object('bucket', 'c/1').read)


@case
def options_take_effect():
    def told(**options):
        client = c.S3Client(REGION, endpoint=URL, s3client_config=c.S3ClientConfig(**options))
        client.client.exists('s3://bucket/set/01')
        return client
    server.rules('method=HEAD key=tries status:500')
    before = server.stats()['requests']
    raises(OSError, told(max_attempts=3).head_object, 'bucket', 'tries')
    server.rules()
    assert server.stats()['requests'] == before + 1 + 3
    refused = c.S3Client(REGION, endpoint=URL, s3client_config=c.S3ClientConfig(unsigned=True))
    raises(PermissionError, refused.head_object, 'bucket', 'set/01')
    assert told(force_path_style=True).client.stats()['style'] == 'path'
    raises(ValueError, lambda: told(profile='nobody'), says='nobody')
    raises(ValueError, lambda: told(part_size=1000), says='part')
    raises(ValueError, lambda: c.S3ClientConfig(requester_pays=True), says='requester_pays')
    raises(ValueError, lambda: c.S3ClientConfig(throughput_target_gbps=0), says='throughput')
    assert c.S3ClientConfig(throughput_target_gbps=100).options()['connections'] == 640


try:
    kit.run(*kit.cases)
finally:
    server.close()
