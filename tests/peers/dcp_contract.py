# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed.checkpoint promises of any storage, with ours: planners, ranks that come and go, what is refused.

From its documentation, since its own tests are no part of what is installed.  Everything that is saved here
by several processes is read by torch's reader, too.
"""
import io
import os
import subprocess
import sys
import warnings

from kit import case, cases, path, raises, run
from peer import need

need('torch', 'torch.distributed.checkpoint')

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner, _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from penstock.dcp import CheckpointReader, CheckpointWriter

warnings.simplefilter('ignore')
READERS = CheckpointReader, FileSystemReader

# In each process of several: what they have is a function of the seed and the rank.
COMMON = '''
import io, os, sys, warnings
warnings.simplefilter('ignore')
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, penstock.dcp
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
penstock._dcp_read._WHOLE = 32 << 10  # what is larger is read straight into place
place, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group('gloo', init_method=f'file://{place}.meet{world}', rank=rank, world_size=world)
mesh = init_device_mesh('cpu', (world,))
def spread(tensor, how):
    return distribute_tensor(tensor, mesh, [Replicate() if how is None else Shard(how)])
def whole(seed):
    return {'even': torch.arange(600 * 500, dtype=torch.int32).reshape(600, 500) + seed,
            'odd': torch.arange(7 * 5, dtype=torch.float64).reshape(7, 5) * seed,
            'few': torch.arange(2) + seed, 'copied': torch.arange(11) * seed}
def state(seed, how):
    found = {key: spread(tensor, how.get(key)) for key, tensor in whole(seed).items()}
    return {'model': found, 'step': seed, 'text': ['a', seed], f'own{rank}': torch.full((3,), seed + rank),
            'bytes': io.BytesIO(b'raw' * seed)}
def check(got, seed):
    for key, tensor in whole(seed).items():
        assert torch.equal(got['model'][key].full_tensor(), tensor), key
    assert got['step'] == seed and got['text'] == ['a', seed] and got['bytes'].getvalue() == b'raw' * seed
    assert (got[f'own{rank}'] == seed + rank).all()
def load(seed, how, place=place, planner=None):
    for reader in penstock.dcp.CheckpointReader, dcp.FileSystemReader:
        got = state(0, how)
        dcp.load(got, storage_reader=reader(place), planner=planner)
        check(got, seed)
def refused(*args, **kwargs):
    try:
        dcp.load(*args, **kwargs)
    except BaseException as error:
        return error
    raise AssertionError('it was loaded')
'''

# Saved with every kind of writing, over and over in one folder.
SAVE = COMMON + '''
rows = {'even': 0, 'odd': 0, 'few': 0}
dcp.save(state(1, rows), storage_writer=penstock.dcp.CheckpointWriter(place))
load(1, rows)
load(1, {'even': 1, 'odd': 1})
future = dcp.async_save(state(2, rows), storage_writer=penstock.dcp.CheckpointWriter(place))
future.result()
load(2, {})
for seed in 3, 4, 5:  # plans are made once, and kept with what writers have put there
    planner = DefaultSavePlanner(enable_plan_caching=True)
    dcp.save(state(seed, rows), storage_writer=penstock.dcp.CheckpointWriter(place, thread_count=2), planner=planner)
    load(seed, rows)
dcp.save(state(6, {'even': 1}), storage_writer=penstock.dcp.CheckpointWriter(place), planner=DefaultSavePlanner(
    dedup_save_to_lowest_rank=True))
load(6, rows)
dist.barrier()
if rank == 0:
    names = os.listdir(place)
    assert {n.rpartition('.')[2] for n in names} == {'metadata', 'distcp', 'crc'} and len(names) <= 2 * world + 1, names
for seed in 7, 8:  # every rank for itself
    dcp.save(state(seed, rows), storage_writer=penstock.dcp.CheckpointWriter(f'{place}-own'), use_collectives=False)
    dist.barrier()
    names = [n for n in os.listdir(f'{place}-own') if n.startswith(f'__{rank}')]
    assert len(names) == 3, names
    dist.barrier()
    load(seed, rows, f'{place}-own')
dist.barrier()
dist.destroy_process_group()
print('good')
'''

LOAD = COMMON + '''
for how in {}, {'even': 0, 'odd': 0, 'few': 0}, {'even': 1, 'odd': 1}:
    load(6, how)
some = {'model': {'odd': spread(torch.zeros(7, 5, dtype=torch.float64), 1)}, 'own2': torch.zeros(3, dtype=torch.int64)}
dcp.load(some, storage_reader=penstock.dcp.CheckpointReader(place))
assert torch.equal(some['model']['odd'].full_tensor(), whole(6)['odd']) and (some['own2'] == 8).all()
more = {'step': 0, 'new': torch.ones(2)}
dcp.load(more, storage_reader=penstock.dcp.CheckpointReader(place), planner=DefaultLoadPlanner(allow_partial_load=True))
assert more['step'] == 6 and (more['new'] == 1).all()
assert 'new' in str(refused({'new': torch.ones(2)}, storage_reader=penstock.dcp.CheckpointReader(place)))
for wrong in torch.zeros(7, 6, dtype=torch.float64), torch.zeros(35, dtype=torch.float64):
    for reader in penstock.dcp.CheckpointReader, dcp.FileSystemReader:
        refused({'model': {'odd': wrong}}, storage_reader=reader(place))
dist.barrier()
dist.destroy_process_group()
print('good')
'''


def ranks(code, place, world):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS='1')
    started = [subprocess.Popen([sys.executable, '-c', code, place, str(rank), str(world)], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(world)]
    said = [process.communicate()[0] for process in started]
    for process, text in zip(started, said):
        assert process.returncode == 0 and 'good' in text, text[-3000:]


@case
def three_ranks_save_in_every_way_and_two_load_other_parts():
    place = path('ckpt')
    ranks(SAVE, place, 3)
    ranks(LOAD, place, 2)


@case
def a_checkpoint_of_ranks_is_loaded_without_any():
    place = path('ckpt')
    want = {'a': torch.arange(10), 'b': {'c': [torch.ones(3), 'text', None, 5]}, 'raw': io.BytesIO(b'raw')}
    dcp.save(want, storage_writer=CheckpointWriter(place), no_dist=True)
    for reader in READERS:
        got = {}
        _load_state_dict(got, storage_reader=reader(place), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
        assert torch.equal(got['a'], want['a']) and got['b']['c'][1:] == ['text', None, 5], got
        assert got['raw'].getvalue() == b'raw'


@case
def a_state_that_is_not_flattened_is_items_of_bytes():
    place = path('ckpt')
    want = {'deep': {'list': [1, 'x']}, 'tensor': torch.arange(5)}
    dcp.save(want, storage_writer=CheckpointWriter(place), planner=DefaultSavePlanner(flatten_state_dict=False), no_dist=True)
    for reader in READERS:
        got = {'deep': None, 'tensor': torch.zeros(5, dtype=torch.int64)}
        planner = DefaultLoadPlanner(flatten_state_dict=False)
        dcp.load(got, storage_reader=reader(place), planner=planner, no_dist=True)
        assert planner.state_dict['deep'] == want['deep'] and torch.equal(got['tensor'], want['tensor'])


@case
def tensors_that_are_wanted_in_another_way_are_copied_as_torch_does():
    place = path('ckpt')
    base = torch.arange(3000 * 1000, dtype=torch.float32).reshape(3000, 1000)
    dcp.save({'large': base, 'small': base[:4].clone()}, storage_writer=CheckpointWriter(place), no_dist=True)
    for reader in READERS:
        for kind in torch.float32, torch.float64, torch.bfloat16:
            got = {'large': torch.zeros(1000, 3000, dtype=kind).t(), 'small': torch.zeros(4, 1000, dtype=kind)}
            dcp.load(got, storage_reader=reader(place), no_dist=True)
            assert torch.equal(got['large'], base.to(kind)) and torch.equal(got['small'], base[:4].to(kind))
        for wrong in (3000, 999), (3000001,), (3000, 1000, 1):
            raises(BaseException, dcp.load, {'large': torch.zeros(wrong)}, storage_reader=reader(place), no_dist=True)


@case
def one_that_is_there_is_kept_where_that_is_wanted():
    place = path('ckpt')
    dcp.save({'a': torch.ones(3)}, storage_writer=CheckpointWriter(place), no_dist=True)
    raises(BaseException, dcp.save, {'a': torch.zeros(3)}, storage_writer=CheckpointWriter(place, overwrite=False), no_dist=True)
    got = {'a': torch.zeros(3)}
    dcp.load(got, storage_reader=CheckpointReader(place), no_dist=True)
    assert (got['a'] == 1).all() and len(os.listdir(place)) == 3, os.listdir(place)


@case
def the_folder_may_be_told_with_each_save():
    first, second = path('ckpt'), path('ckpt')
    writer, reader = CheckpointWriter(first), CheckpointReader(first)
    for seed, place in enumerate((first, second, first)):
        dcp.save({'a': torch.full((3,), seed)}, checkpoint_id=place, storage_writer=writer, no_dist=True)
    for seed, place in (2, first), (1, second):
        got = {'a': torch.zeros(3, dtype=torch.int64)}
        dcp.load(got, checkpoint_id=place, storage_reader=reader, no_dist=True)
        assert (got['a'] == seed).all() and len(os.listdir(place)) == 3


run(*cases)
