# SPDX-License-Identifier: Apache-2.0
"""penstock.s3: the calls that MLPerf's storage code makes, against the server of tests/s3."""
import errno
import gc
import json
import os
import pickle
import threading

import kit
from kit import MIB, case, data

import penstock
from penstock import s3

server = kit.s3_server(ports=3)


def raises(kind, function, *args, says=''):
    try:
        function(*args)
    except kind as e:
        assert says in str(e), e
        return e
    raise AssertionError(f'{kind.__name__} was not raised')


@case
def a_writer_of_something_new_replaces_nothing():
    for size in (10, 6 * MIB):
        w = s3.MultipartUploadWriter('bucket', 'first-wins', part_size=5 * MIB, new=True)
        w.write(bytes(size))
        s3.put_bytes('s3://bucket/first-wins', b'first')
        raises(FileExistsError, w.close)
        assert s3.get('s3://bucket/first-wins') == b'first'
        s3.delete('s3://bucket/first-wins')
    assert server.stats()['uploads'] == 0


@case
def what_is_put_is_got():
    for size in (0, 1, 4096, MIB - 1, MIB, MIB + 1, 20 * MIB + 5):
        content = data(size, size)
        s3.put_bytes('s3://bucket/a/b', content)
        view = s3.get('s3://bucket/a/b')
        assert len(view) == size and view == content and bytes(view) == content, size


@case
def schemes_may_be_in_capitals():
    with s3.MultipartUploadWriter.from_uri('S3://bucket/capital/b') as w:
        w.write(b'text')
    piece = bytearray(4)
    penstock.Handle().read(piece, 'S3://bucket/capital/b')
    assert piece == b'text' == bytes(s3.get('S3://bucket/capital/b'))
    assert s3.list('S3://bucket/capital/') == ['s3://bucket/capital/b']
    s3.delete('S3://bucket/capital/b')


@case
def results_are_buffers_without_a_copy():
    s3.put_bytes('s3://bucket/view', data(3 * MIB))
    view = s3.get('s3://bucket/view')
    m = memoryview(view)
    assert m.readonly and m.nbytes == 3 * MIB and view.memoryview() == m
    assert view[5] == m[5] and view[2:9] == m[2:9] and view[-1] == m[-1]
    raises(BufferError, view._resize, 5)
    del view
    gc.collect()
    assert bytes(m[:10]) == data(3 * MIB)[:10]  # the view keeps the memory


@case
def a_small_object_takes_one_request():
    s3.put_bytes('s3://bucket/small', b'x' * 100)
    before = server.stats()['requests']
    assert s3.get('s3://bucket/small') == b'x' * 100
    assert server.stats()['requests'] == before + 1


@case
def ranges_are_what_was_asked_for():
    content = data(3 * MIB)
    s3.put_bytes('s3://bucket/r', content)
    assert s3.get_range('s3://bucket/r', 10, 20) == content[10:30]
    assert s3.get_range('s3://bucket/r', 3 * MIB - 5) == content[-5:]
    assert s3.get_range('s3://bucket/r', 3 * MIB - 5, 100) == content[-5:]
    assert len(s3.get_range('s3://bucket/r', 10, 0)) == 0
    raises(ValueError, s3.get_range, 's3://bucket/r', -1)
    into = bytearray(1000)
    assert s3.client().read_into('s3://bucket/r', into, 7) == 1000 and into == content[7:1007]
    raises(TypeError, s3.client().read_into, 's3://bucket/r', b'read-only')


@case
def many_come_in_the_order_they_were_asked_for():
    items = [(f's3://bucket/many/{i}', data(i * 40000, i)) for i in range(60)]
    s3.put_many(items, max_in_flight=8)
    got = s3.get_many([uri for uri, _ in items], max_in_flight=16)
    assert [uri for uri, _ in got] == [uri for uri, _ in items]
    assert all(view == content for (_, view), (_, content) in zip(got, items))
    raises(FileNotFoundError, s3.get_many, ['s3://bucket/many/1', 's3://bucket/none'])


@case
def lists_are_uris():
    for name in ('l/a.npz', 'l/b.txt', 'l/sub/c.npz', 'l/sp ace+ü&<'):
        s3.put_bytes(f's3://bucket/{name}', b'')
    assert s3.list('s3://bucket/l/') == [f's3://bucket/l/{n}' for n in ('a.npz', 'b.txt', 'sp ace+ü&<', 'sub/')] or \
        sorted(s3.list('s3://bucket/l/')) == sorted(f's3://bucket/l/{n}' for n in ('a.npz', 'b.txt', 'sp ace+ü&<', 'sub/'))
    assert s3.list('s3://bucket/l/', recursive=True, pattern=r'\.npz$') == ['s3://bucket/l/a.npz', 's3://bucket/l/sub/c.npz']
    s3.delete('s3://bucket/l/', pattern='npz')
    assert len(s3.list('s3://bucket/l/', recursive=True)) == 2
    raises(FileNotFoundError, s3.list, 's3://nowhere/')


@case
def stat_tells_size_time_and_etag():
    s3.put_bytes('s3://bucket/s', b'12345')
    told = s3.stat('s3://bucket/s')
    assert told['size'] == 5 and told['etag'].startswith('"') and told['last_modified'][:2] == '20', told
    assert s3.exists('s3://bucket/s')
    s3.copy('s3://bucket/s', 's3://bucket/t')
    s3.delete('s3://bucket/s')
    assert not s3.exists('s3://bucket/s') and s3.get('s3://bucket/t') == b'12345'
    raises(FileNotFoundError, s3.stat, 's3://bucket/s', says='s3://bucket/s')


@case
def conditions_are_kept():
    c = s3.client()
    etag = c.put_bytes('s3://bucket/once', b'1')
    raises(FileExistsError, lambda: c.put_bytes('s3://bucket/once', b'2', new=True))
    assert raises(OSError, lambda: c.put_bytes('s3://bucket/once', b'2', etag='"no"')).errno == 116
    c.put_bytes('s3://bucket/once', b'2', etag=etag)
    assert c.get('s3://bucket/once') == b'2'


@case
def uploads_are_there_when_they_are_closed():
    uri, content = 's3://bucket/up', data(13 * MIB)
    with s3.MultipartUploadWriter.from_uri(uri, part_size=5 * MIB, max_in_flight=2) as w:
        assert w.write(content[:3 * MIB]) == 3 * MIB
        m = w.reserve(MIB)
        m[:] = content[3 * MIB:4 * MIB]
        w.commit(MIB)
        w.write(memoryview(content)[4 * MIB:])
        assert not s3.exists(uri)
    assert s3.get(uri) == content
    for most in 1, 2, 3:
        server.rules('query=partNumber stall:0.1')
        with s3.MultipartUploadWriter('bucket', 'up3', part_size=5 * MIB, max_in_flight=most) as w:
            w.write(bytes(23 * MIB))
        assert 1 <= server.stats()['most_parts'] <= most
    server.rules('')
    w = s3.MultipartUploadWriter('bucket', 'up2', part_size=5 * MIB)
    w.write(content)
    told = w.close()
    assert (told['total_bytes'], told['parts']) == (13 * MIB, 3) and told['e_tag'], told
    raises(ValueError, w.write, b'x', says='over')


@case
def a_content_type_is_that_of_the_object_however_small():
    with type(server)('--no-sign', '--bucket', 'bucket') as open_to_all:
        for size in 10, 6 * MIB:
            with s3.MultipartUploadWriter('bucket', 'typed', part_size=5 * MIB, content_type='text/x-penstock',
                                          client=s3.Client(endpoint=open_to_all.urls[0])) as w:
                w.write(bytes(size))
            headers = open_to_all.ask('HEAD', '/bucket/typed')[1]
            assert (headers['Content-Length'], headers['Content-Type']) == (str(size), 'text/x-penstock'), headers


@case
def uploads_that_fail_leave_nothing():
    class Stop(Exception):
        pass

    def stopped():
        with s3.MultipartUploadWriter('bucket', 'gone', part_size=5 * MIB) as w:
            w.write(bytes(11 * MIB))
            raise Stop
    raises(Stop, stopped)
    w = s3.MultipartUploadWriter('bucket', 'gone', part_size=5 * MIB)
    w.write(bytes(11 * MIB))
    del w
    gc.collect()
    assert server.stats()['uploads'] == 0 and not s3.exists('s3://bucket/gone')
    raises(ValueError, lambda: s3.MultipartUploadWriter('bucket', 'x', abort_on_drop=False))


@case
def bad_values_are_named():
    raises(ValueError, lambda: s3.Client(style='sideways'), says='sideways')
    raises(ValueError, lambda: s3.Client(part=1).core, says='part')
    raises(OSError, s3.get, 'gs://bucket/key', says='gs://')
    raises(ValueError, lambda: s3.get_many(['s3://bucket/a'], max_in_flight=0), says='max_in_flight')
    raises(TypeError, s3.put_bytes, 's3://bucket/x', 5)
    raises(TypeError, s3.put_bytes, 's3://bucket/x', 'text')


@case
def faults_are_got_over_and_counted():
    c = s3.Client(endpoint=server.urls[1])
    c.put_bytes('s3://bucket/f', data(2 * MIB))
    server.rules('key=f times=2 status:503', 'key=f times=1 reset:1000', 'key=f times=1 short:5000')
    assert c.get('s3://bucket/f') == data(2 * MIB)
    server.rules()
    told = c.stats()
    assert told['retries'] >= 4 and told['throttled'] == 2 and told['credentials'] == 'environment', told


@case
def clients_go_to_other_processes():
    c = pickle.loads(pickle.dumps(s3.Client(endpoint=server.urls[1])))
    c.put_bytes('s3://bucket/p', b'parent')
    s3.get('s3://bucket/p')
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            c.put_bytes('s3://bucket/p', bytes(c.get('s3://bucket/p')) + b'child')
            ok = s3.get('s3://bucket/p') == b'parentchild'
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert c.get('s3://bucket/p') == b'parentchild'


@case
def threads_share_a_client():
    s3.put_bytes('s3://bucket/th', data(MIB))
    wrong = []

    def work():
        for _ in range(20):
            if s3.get('s3://bucket/th') != data(MIB):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@case
def no_secret_is_told():
    secret = server.env['AWS_SECRET_ACCESS_KEY']
    c = s3.Client(key_id='AKIDWRONG', secret=secret, endpoint=server.urls[0])
    e = raises(PermissionError, c.get, 's3://bucket/x')
    assert secret not in str(e) and secret not in repr(c) and secret not in repr(c.stats())


@case
def a_handle_reads_and_writes_objects_by_name():
    content = data(20 * MIB + 7, 5)
    with penstock.Handle() as h:
        assert h.write(content, 's3://bucket/h/whole', truncate=True) == len(content)
        assert s3.get('s3://bucket/h/whole') == content
        back = bytearray(len(content))
        assert h.read(back, 's3://bucket/h/whole') == len(content) and back == content
        piece = bytearray(1000)
        future = h.read_async(piece, 's3://bucket/h/whole', 123456)
        assert future.result() == 1000 and piece == content[123456:124456]
        raises(OSError, h.write, content, 's3://bucket/h/part', 0, says='as a whole')
        raises(FileNotFoundError, h.read, piece, 's3://bucket/h/none', says='s3://bucket/h/none')
        raises(ValueError, s3.client().core.close, says='in use')
    raises(OSError, penstock.Handle().read, piece, 'gs://bucket/x', says='gs://')


@case
def a_file_of_a_handle_is_an_object_when_it_is_closed_well():
    content = data(13 * MIB, 6)
    piece = bytearray(4096)
    with penstock.Handle() as h:
        with h.open('s3://bucket/h/file', 'w') as f:
            for at in range(0, len(content), MIB):
                h.write_async(content[at:at + MIB], f, at)
            h.wait()
            assert not s3.exists('s3://bucket/h/file')
        assert s3.get('s3://bucket/h/file') == content
        with h.open('s3://bucket/h/file') as f:
            assert f.stat()['bytes'] == len(content)
            assert h.read(piece, f, 5 * MIB) == 4096 and piece == content[5 * MIB:5 * MIB + 4096]
            s3.put_bytes('s3://bucket/h/file', content[1:])
            assert raises(OSError, h.read, piece, f).errno == errno.ESTALE
        try:
            with h.open('s3://bucket/h/raised', 'w') as f:
                h.write(content, f)
                raise KeyError
        except KeyError:
            pass
        f = h.open('s3://bucket/h/raised', 'x')
        h.write(content, f)
        f.abort()
        f = h.open('s3://bucket/h/raised', 'w')
        h.write(content, f)
        del f
        f = h.open('s3://bucket/h/raised', 'w')
        h.write(content, f)
        done = h.open('s3://bucket/h/file')
    assert not s3.exists('s3://bucket/h/raised')
    raises(ValueError, f.close, says='given up')
    f.abort()
    done.close()
    assert not server.stats().get('uploads')


@case
def readers_of_weights_read_objects():
    header = json.dumps({f'model.layers.{i}.w': {'dtype': 'U8', 'shape': [300000], 'data_offsets': [i * 300000, (i + 1) * 300000]}
                         for i in range(4)}).encode()
    values = data(1200000, 8)
    s3.put_bytes('s3://bucket/m/model.safetensors', len(header).to_bytes(8, 'little') + header + values)
    with penstock.WeightWindow('s3://bucket/m/model.safetensors', window='1MiB', framework='bytes') as w:
        got = [bytes(layer['model.layers.%d.w' % i]) for i, layer in enumerate(w)]
    assert b''.join(got) == values
    raises(FileNotFoundError, penstock.WeightWindow, 's3://bucket/m/none.safetensors', says='s3://bucket/m/none')


try:
    kit.run(*kit.cases)
finally:
    server.close()
