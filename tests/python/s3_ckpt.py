# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in an object store: what files do, against the server of tests/s3."""
import json
import os
import sys

import kit
from kit import MIB, case, raises

try:
    torch = kit.torch_or_skip()
except kit.Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()

import penstock.safetensors  # noqa: E402
import penstock.torch  # noqa: E402
from penstock import s3  # noqa: E402
from penstock.compat import StreamingCheckpointing  # noqa: E402
from penstock.deepspeed import CheckpointEngine  # noqa: E402

server = kit.s3_server(ports=1)


def state(seed):
    torch.manual_seed(seed)
    return {'large': torch.rand(3 * MIB), 'small': [torch.arange(seed)], 'text': 'x'}


def same(a, b):
    return torch.equal(a['large'], b['large']) and torch.equal(a['small'][0], b['small'][0]) and a['text'] == b['text']


@case
def a_save_is_there_when_it_returns_and_is_verified():
    uri = 's3://bucket/a/model.pt'
    for seed in 1, 2:
        penstock.torch.save(state(seed), uri, memory=24 * MIB)
        assert same(penstock.torch.load(uri, verify='require'), state(seed))
    assert sorted(s3.list('s3://bucket/a/')) == [uri, f'{uri}.crc']
    future = penstock.torch.save_async(state(3), uri)
    future.result()
    assert same(penstock.torch.load(uri, verify='require'), state(3))
    torch.save(state(4), penstock.torch.writer(uri))
    assert same(penstock.torch.load(uri, verify='require'), state(4))


@case
def deepspeeds_engine_saves_and_makes_no_folder_of_that_name():
    tag = 's3://bucket/deep/global_step1'
    here = os.getcwd()
    os.chdir(kit.folder)
    try:
        for seed, memory in (1, None), (2, 64 * MIB), (3, 2 * MIB):
            engine = CheckpointEngine(memory=memory)
            engine.create(tag)
            engine.makedirs(tag, exist_ok=True)
            engine.save(state(seed), f'{tag}/model.pt')
            assert engine.commit(tag)
            assert same(engine.load(f'{tag}/model.pt'), state(seed))
        assert not os.path.exists('s3:')
    finally:
        os.chdir(here)
    server.rules('method=PUT status:403')
    engine.save(state(4), f'{tag}/model.pt')
    raises(PermissionError, engine.commit, tag)
    server.rules('')
    assert same(engine.load(f'{tag}/model.pt'), state(3))


@case
def what_fails_leaves_the_old_one():
    uri = 's3://bucket/b/model.pt'
    penstock.torch.save(state(1), uri)

    def fail():
        with penstock.torch.writer(uri) as file:
            file.write(b'x' * 20 * MIB)
            raise KeyError

    raises(KeyError, fail)
    server.rules('method=PUT status:403')
    raises(PermissionError, penstock.torch.save, state(2), uri)
    assert isinstance(penstock.torch.save_async(state(2), uri).exception(), PermissionError)
    server.rules('')
    assert same(penstock.torch.load(uri, verify='require'), state(1))
    assert 's3://bucket/b/none' in str(raises(FileNotFoundError, penstock.torch.load, 's3://bucket/b/none'))


@case
def damage_is_found_and_named():
    uri = 's3://bucket/c/model.pt'
    penstock.torch.save(state(1), uri)
    data = bytearray(s3.get(uri))
    data[9 * MIB] ^= 1
    s3.put_bytes(uri, data)
    assert 'large' in str(raises(OSError, penstock.torch.load, uri))


@case
def safetensors_and_a_model_of_shards():
    tensors = {'x': torch.rand(2 * MIB), 'y': torch.arange(10)}
    where = 's3://bucket/d/'
    penstock.safetensors.save_file({'x': tensors['x']}, f'{where}1.safetensors')
    penstock.safetensors.save_file({'y': tensors['y']}, f'{where}2.safetensors')
    index = {'weight_map': {'x': '1.safetensors', 'y': '2.safetensors'}}
    s3.put_bytes(f'{where}model.safetensors.index.json', json.dumps(index).encode())
    for name in where, f'{where}model.safetensors.index.json':
        back = penstock.safetensors.load_file(name, verify='require')
        assert list(back) == ['x', 'y'] and all(torch.equal(back[k], tensors[k]) for k in back)
    with penstock.safetensors.safe_open(f'{where}1.safetensors') as file:
        assert torch.equal(file.get_slice('x')[5:9], tensors['x'][5:9])


@case
def streamed_checkpoints_go_there_too():
    uri, total = 's3://bucket/stream/ckpt', 17 * MIB + 5
    for backend in None, 's3dlio':
        ckpt = StreamingCheckpointing(chunk_size=2 * MIB, backend=backend, seed=len(backend or ''))
        saved = ckpt.save(uri, total)
        assert saved['backend_stats']['backend'] == 's3' and 0 < saved['io_time'] <= saved['total_time']
        assert ckpt.load(uri, total, verify=True)['chunks'] == 9
        assert len(s3.get(uri)) == total and sorted(s3.list('s3://bucket/stream/')) == [uri, f'{uri}.crc']

    def fail(buffer, size):
        raise ZeroDivisionError

    raises(ZeroDivisionError, ckpt.save, uri, total, fail)
    assert ckpt.load(uri, total, verify=True)['total_bytes'] == total


@case
def streamed_checkpoints_are_sent_in_the_parts_that_were_asked_for():
    uri, total = 's3://bucket/parts/ckpt', 33 * MIB
    for options, parts, most in (({'part_size': 5 * MIB}, 7, 4), ({'part_size': 6 * MIB + 5, 'max_in_flight': 2}, 6, 2),
                                 ({'num_parallel_uploads': 3}, 5, 3), ({'part_size': 5 * MIB, 'max_in_flight': 64}, 7, 7)):
        server.rules('query=partNumber stall:0.1')
        StreamingCheckpointing(chunk_size=8 * MIB, num_buffers=6, seed=parts, **options).save(uri, total)
        seen = server.stats()['most_parts']
        server.rules('')
        assert s3.stat(uri)['etag'].endswith(f'-{parts}"'), (options, s3.stat(uri))
        assert 1 <= seen <= most, (options, seen)
        assert StreamingCheckpointing(seed=parts).load(uri, total, verify=True)['total_bytes'] == total


@case
def distributed_checkpoints_are_replaced_whole():
    if torch.__version__.startswith('1.'):
        raise kit.Skip('torch', 'DCP of this torch is another one')
    import torch.distributed.checkpoint as dcp

    import penstock.dcp

    for seed in 1, 2:
        torch.manual_seed(seed)
        old = {'a': torch.rand(3 * MIB), 'b': torch.rand(9)}
        dcp.save(old, storage_writer=penstock.dcp.CheckpointWriter('s3://bucket/dcp'))
        new = {key: torch.zeros_like(value) for key, value in old.items()}
        dcp.load(new, storage_reader=penstock.dcp.CheckpointReader('s3://bucket/dcp', verify='require'))
        assert all(torch.equal(new[key], old[key]) for key in old)
        assert len(s3.list('s3://bucket/dcp/')) == 3  # data, checksums and metadata of the last


kit.run(*kit.cases)
