# SPDX-License-Identifier: Apache-2.0
"""penstock.dcp as torch tests its own storage: both ways, over an older checkpoint, resharded, asynchronously."""
import concurrent.futures
import dataclasses
import functools
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
import warnings
from unittest import mock

import kit
from kit import case, cases, child, content, data, each, path, raises, run
from peer import need

need('torch', 'torch.distributed.checkpoint')

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner

from penstock import _range_reader
from penstock.dcp import CheckpointReader, CheckpointWriter

warnings.simplefilter('ignore')
KINDS = [k for k in ('float64', 'float32', 'float16', 'bfloat16', 'complex64', 'int64', 'int8', 'uint8', 'bool', 'uint16',
                     'float8_e4m3fn') if hasattr(torch, k)]


@functools.lru_cache(1000)
def tensor(kind, shape, seed):
    dtype = getattr(torch, kind)
    count = 1
    for n in shape:
        count *= n
    raw = bytearray(b & 1 if kind == 'bool' else b for b in data(count * torch.empty(0, dtype=dtype).element_size(), seed))
    return (torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)).reshape(shape)


def state(seed):
    base = tensor('float32', (1000,), seed)
    found = {f'{k}{s}': tensor(k, s, seed) for k in KINDS for s in ((), (0,), (7, 3))}
    return {**found, 'view': base[10:20], 'whole': base, 'turned': tensor('int64', (30, 40), seed).t(),
            'large': tensor('int32', (3000, 1000), seed), 'large_turned': tensor('int32', (1500, 2000), seed).t(),
            'text': f'seed {seed}', 'deep': {'list': [seed, tensor('int8', (5,), seed)]}}


def empty():
    def clear(value):
        if isinstance(value, torch.Tensor):
            return torch.zeros_like(value)
        if isinstance(value, dict):
            return {k: clear(v) for k, v in value.items()}
        if isinstance(value, list):
            return [clear(v) for v in value]
        return None
    return clear(state(0))


def same(a, b):
    if isinstance(a, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape or not a.numel():
            return a.dtype == b.dtype and a.shape == b.shape
        return torch.equal(*(t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b)))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def loads(place, seed, reader):
    got = empty()
    dcp.load(got, storage_reader=reader(place))
    want = state(seed)
    return all(same(got[k], want[k]) for k in want)


@case
def each_reads_what_the_other_has_written():
    for seed, writer in ((1, CheckpointWriter), (2, FileSystemWriter)):
        place = path('ckpt')
        dcp.save(state(seed), storage_writer=writer(place))
        for reader in CheckpointReader, FileSystemReader:
            assert loads(place, seed, reader), (writer, reader)


@case
def one_file_for_each_tensor_several_threads_and_the_stream_of_torch_work():
    for options in ({'single_file_per_rank': False}, {'thread_count': 3}, {'sync_files': False}, {'checksum': False},
                    {'memory': 2 << 20}):
        place = path('ckpt')
        dcp.save(state(3), storage_writer=CheckpointWriter(place, **options))
        for reader in CheckpointReader, FileSystemReader:
            assert loads(place, 3, reader), (options, reader)


@case
def a_folder_may_be_saved_to_again_by_either_side():
    place = path('ckpt')
    for seed, writer in enumerate((CheckpointWriter, CheckpointWriter, FileSystemWriter, CheckpointWriter, FileSystemWriter)):
        dcp.save(state(seed), storage_writer=writer(place))
        for reader in CheckpointReader, FileSystemReader:
            assert loads(place, seed, reader), (seed, writer, reader)
    dcp.save(state(9), storage_writer=CheckpointWriter(place))
    files = sorted(n for n in os.listdir(place) if n.endswith('.distcp'))
    assert len(files) == 1, files


class Planner(DefaultSavePlanner):
    """Fails at the last tensor."""

    def resolve_data(self, item):
        if item.index.fqn == 'large_turned':
            raise ZeroDivisionError
        return super().resolve_data(item)


@case
def a_save_that_fails_leaves_the_older_checkpoint_whole():
    place = path('ckpt')
    dcp.save(state(1), storage_writer=CheckpointWriter(place))
    raises(BaseException, dcp.save, state(2), storage_writer=CheckpointWriter(place), planner=Planner())
    for reader in CheckpointReader, FileSystemReader:
        assert loads(place, 1, reader)
    dcp.save(state(3), storage_writer=CheckpointWriter(place))
    assert loads(place, 3, CheckpointReader) and len(os.listdir(place)) == 3, os.listdir(place)


class Overtaken(CheckpointWriter):
    """Another save to the same folder begins and ends between its data and its metadata."""

    def finish(self, metadata, results):
        thread = threading.Thread(target=dcp.save, args=(state(8),), kwargs={'storage_writer': CheckpointWriter(self.path)})
        thread.start()
        thread.join()
        assert loads(self.path, 8, CheckpointReader)
        super().finish(metadata, results)


@case
def of_two_saves_to_one_folder_at_once_the_later_wins_whole():
    for older in False, True:
        place = path('ckpt')
        if older:
            dcp.save(state(7), storage_writer=CheckpointWriter(place))
        dcp.save(state(9), storage_writer=Overtaken(place))
        for reader in CheckpointReader, FileSystemReader:
            assert loads(place, 9, reader)
        assert len(os.listdir(place)) == 3, os.listdir(place)


@case
def metadata_never_name_what_somebody_has_removed():
    class Robbed(CheckpointWriter):
        def finish(self, metadata, results):
            os.unlink(os.path.join(self.path, results[0][0].storage_data.relative_path))
            super().finish(metadata, results)

    place = path('ckpt')
    dcp.save(state(1), storage_writer=CheckpointWriter(place))
    raises(BaseException, dcp.save, state(2), storage_writer=Robbed(place))
    assert loads(place, 1, CheckpointReader)
    dcp.save(state(3), storage_writer=CheckpointWriter(place))
    assert len(os.listdir(place)) == 3, os.listdir(place)


class Trap:
    """Tells when somebody unpickles it."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, 'sprung', True)


@case
def metadata_that_are_damaged_do_not_keep_a_new_checkpoint_away():
    place = path('ckpt')
    dcp.save(state(1), storage_writer=CheckpointWriter(place))
    whole = content(os.path.join(place, '.metadata'))
    bare = whole[:whole.rindex(b'\npenstock')]
    seed = random.randrange(1 << 32)
    print(f'# seed {seed}')
    rng = random.Random(seed)
    damaged = [b'', b'x', b'\x80\x05.', whole[:100], whole[:-1], pickle.dumps(5), b'c\xff\n\n.', b'Vno\\uxyz0\n.',
               b'cno.such\nmodule\n.', pickle.dumps(Trap()), b'\x80\x04\x8c\x03\xff\xff\xff.']
    for _ in range(15):  # as they may be without our checksum
        at = rng.randrange(len(bare))
        damaged.append(bare[:at] + bytes([rng.randrange(256)]) + bare[at + 1:])
    for old in damaged:
        with open(os.path.join(place, '.metadata'), 'wb') as f:
            f.write(old)
        dcp.save({'a': torch.ones(3)}, storage_writer=CheckpointWriter(place))
        got = {'a': torch.zeros(3)}
        dcp.load(got, storage_reader=CheckpointReader(place))
        assert got['a'].sum() == 3 and len(os.listdir(place)) == 3, (old, os.listdir(place))
    assert not Trap.sprung


@case
def a_save_that_is_killed_before_the_metadata_leaves_the_older_checkpoint_whole():
    place = path('ckpt')
    dcp.save(state(1), storage_writer=CheckpointWriter(place))
    code = '''
import os, sys, warnings
warnings.simplefilter('ignore')
import torch, torch.distributed.checkpoint as dcp, penstock.dcp
class Killed(penstock.dcp.CheckpointWriter):
    def finish(self, metadata, results):
        os.kill(os.getpid(), 9)
dcp.save({'large': torch.ones(1000)}, storage_writer=Killed(sys.argv[1]))
'''
    assert child(code, place).returncode == -9
    assert loads(place, 1, CheckpointReader) and loads(place, 1, FileSystemReader)
    dcp.save(state(2), storage_writer=CheckpointWriter(place))
    assert loads(place, 2, CheckpointReader) and len(os.listdir(place)) == 3, os.listdir(place)


class Watching(DefaultLoadPlanner):
    """Must be called by one thread; fails at a tensor of this name."""

    def __init__(self, fails=None):
        super().__init__()
        self.thread, self.fails = threading.get_ident(), fails

    def resolve_tensor(self, item):
        assert threading.get_ident() == self.thread
        if item.storage_index.fqn == self.fails:
            raise ZeroDivisionError
        return super().resolve_tensor(item)

    def commit_tensor(self, item, tensor):
        assert threading.get_ident() == self.thread
        super().commit_tensor(item, tensor)


def many():
    return {**{f'large{i}': tensor('int32', (1600, 1500), i) for i in range(6)},
            **{f'small{i}': tensor('int32', (i, 3), i) for i in range(50)}}


@case
def what_is_wanted_of_a_file_is_read_at_once():
    for writer, threads in (CheckpointWriter, 1), (FileSystemWriter, 1), (CheckpointWriter, 3):
        place = path('ckpt')
        dcp.save(many(), storage_writer=writer(place, thread_count=threads))
        got = {k: torch.zeros_like(v) for k, v in many().items()}
        reads, one_by_one = [], []
        with mock.patch.object(_range_reader.Reader, 'read', autospec=True, side_effect=_range_reader.Reader.read) as read, \
             mock.patch.object(_range_reader.Reader, 'pread', autospec=True, side_effect=_range_reader.Reader.pread) as pread:
            dcp.load(got, storage_reader=CheckpointReader(place), planner=Watching())
            reads, one_by_one = read.call_count, pread.call_count
        assert same(got, many())
        assert reads <= 3 * threads and not one_by_one, (reads, one_by_one)


@case
def a_planner_that_fails_ends_the_reading():
    place = path('ckpt')
    dcp.save(many(), storage_writer=CheckpointWriter(place, single_file_per_rank=False))
    threads, files = threading.active_count(), set(kit.descriptors())
    for fails in 'large0', 'large5', 'small1', 'small49':
        got = {k: torch.zeros_like(v) for k, v in many().items()}
        raises(BaseException, dcp.load, got, storage_reader=CheckpointReader(place), planner=Watching(fails))
        assert threading.active_count() == threads and set(kit.descriptors()) == files
    dcp.load(got, storage_reader=CheckpointReader(place), planner=Watching())
    assert same(got, many())


@case
def ctrl_c_while_threads_are_started_ends_the_reading():
    place = path('ckpt')
    dcp.save(many(), storage_writer=CheckpointWriter(place, thread_count=3))
    threads, pool, begun = threading.active_count(), concurrent.futures.ThreadPoolExecutor, []
    submit = pool.submit

    def stopped(*args):
        begun.append(submit(*args))
        if len(begun) == 2:
            raise KeyboardInterrupt
        return begun[-1]

    got = {k: torch.zeros_like(v) for k, v in many().items()}
    with mock.patch.object(pool, 'submit', stopped):
        raises(BaseException, dcp.load, got, storage_reader=CheckpointReader(place))
    assert len(begun) == 2 and threading.active_count() == threads


@case
def damage_is_found_and_named():
    place = path('ckpt')
    dcp.save(state(1), storage_writer=CheckpointWriter(place))
    name = next(os.path.join(place, n) for n in os.listdir(place) if n.endswith('.distcp'))
    metadata = FileSystemReader(place).read_metadata()
    infos = {index.fqn: info for index, info in metadata.storage_data.items()}
    for fqn in 'large', 'view':
        flip(name, infos[fqn].offset + infos[fqn].length // 2)
        error = raises(BaseException, loads, place, 1, CheckpointReader)
        assert fqn in str(error) and os.path.basename(name) in str(error), error
        flip(name, infos[fqn].offset + infos[fqn].length // 2)
    flip(os.path.join(place, '.metadata'), 100)
    assert 'checksum' in str(raises(BaseException, loads, place, 1, CheckpointReader))


@each([1 << 20, 3 << 20])  # of which one is copied, and the other read into place
def metadata_that_want_more_than_a_file_has_are_refused(count):
    place = path('ckpt')
    two = {'a': torch.ones(count), 'b': torch.ones(count)}
    dcp.save(two, storage_writer=FileSystemWriter(place))
    name = os.path.join(place, '.metadata')
    metadata = pickle.loads(content(name))
    longer = torch.Size([count + 1000])
    entry = metadata.state_dict_metadata['a']
    entry.size, entry.chunks = longer, [dataclasses.replace(entry.chunks[0], sizes=longer)]
    with open(name, 'wb') as f:
        pickle.dump(metadata, f)
    got = {'a': torch.zeros(longer)}
    error = raises(BaseException, dcp.load, got, storage_reader=CheckpointReader(place))
    assert f'the file has ({count},), ({count + 1000},) from (0,) on' in str(error), error


def flip(name, at):
    with open(name, 'r+b') as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 8]))


@case
def verification_can_be_required():
    place = path('ckpt')
    dcp.save(state(1), storage_writer=FileSystemWriter(place))
    raises(BaseException, dcp.load, empty(), storage_reader=CheckpointReader(place, verify='require'))
    dcp.save(state(1), storage_writer=CheckpointWriter(place))
    dcp.load(empty(), storage_reader=CheckpointReader(place, verify='require'))


@case
def torch_saves_asynchronously_through_our_writer():
    place = path('ckpt')
    code = '''
import sys, warnings
warnings.simplefilter('ignore')
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, penstock.dcp
dist.init_process_group('gloo', init_method=f'file://{sys.argv[1]}.meet', rank=0, world_size=1)
t = torch.ones(1 << 20)
future = dcp.async_save({'t': t}, storage_writer=penstock.dcp.CheckpointWriter(sys.argv[1]))
t.zero_()
future.result()
got = {'t': torch.zeros(1 << 20)}
dcp.load(got, storage_reader=penstock.dcp.CheckpointReader(sys.argv[1]))
assert (got['t'] == 1).all()
dist.destroy_process_group()
print('good')
'''
    done = child(code, place)
    assert done.returncode == 0 and 'good' in done.stdout, (done.stdout, done.stderr[-2000:])


SHARDED = '''
import sys, warnings
warnings.simplefilter('ignore')
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, penstock.dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
place, rank, world, dim, what = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
dist.init_process_group('gloo', init_method=f'file://{place}.{what}.{world}.{dim}', rank=rank, world_size=world)
mesh = init_device_mesh('cpu', (world,))
whole = torch.arange(2400 * 1200, dtype=torch.int32).reshape(2400, 1200)
if what == 'save':
    state = {'w': distribute_tensor(whole, mesh, [Shard(dim)]), 'same': torch.arange(10)}
    dcp.save(state, storage_writer=penstock.dcp.CheckpointWriter(place))
else:
    got = {'w': distribute_tensor(torch.zeros_like(whole), mesh, [Shard(dim)]), 'same': torch.zeros(10, dtype=torch.int64)}
    reader = penstock.dcp.CheckpointReader if what == 'load' else dcp.FileSystemReader
    dcp.load(got, storage_reader=reader(place))
    assert torch.equal(got['w'].full_tensor(), whole) and torch.equal(got['same'], torch.arange(10))
dist.barrier()
dist.destroy_process_group()
print('good')
'''


def ranks(place, world, dim, what):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS='1')
    started = [subprocess.Popen([sys.executable, '-c', SHARDED, place, str(r), str(world), str(dim), what], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(world)]
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0 and 'good' in out, (what, world, dim, out, err[-2000:])


@case
def a_checkpoint_of_two_ranks_is_loaded_by_one_and_by_others_cut_another_way():
    place = path('ckpt')
    ranks(place, 2, 0, 'save')
    ranks(place, 1, 0, 'load')
    ranks(place, 2, 1, 'load')
    ranks(place, 2, 0, 'load_torch')


@case
def extensions_of_the_stream_are_left_to_torch():
    try:
        from torch.distributed.checkpoint._extension import ExtensionRegistry, ZStandard
    except ImportError:
        return
    if not ZStandard.__module__ or not _has_zstd():
        return
    place = path('ckpt')
    dcp.save(state(1), storage_writer=CheckpointWriter(place, _extensions=[ZStandard()]))
    registry = ExtensionRegistry()
    got = empty()
    dcp.load(got, storage_reader=CheckpointReader(place, _extension_registry=registry))
    assert same(got['large'], state(1)['large'])


def _has_zstd():
    try:
        import pyzstd  # noqa: F401
    except ImportError:
        try:
            import zstandard  # noqa: F401
        except ImportError:
            return False
    return True


@case
def a_state_that_is_not_there_is_told_as_by_torch():
    place = path('ckpt')
    dcp.save({'a': torch.ones(3)}, storage_writer=CheckpointWriter(place))
    for reader in CheckpointReader, FileSystemReader:
        raises(BaseException, dcp.load, {'b': torch.ones(3)}, storage_reader=reader(place))
        raises(BaseException, dcp.load, {'a': torch.ones(4)}, storage_reader=reader(place))
    shutil.rmtree(place)
    raises(BaseException, dcp.load, {'a': torch.ones(3)}, storage_reader=CheckpointReader(place))


run(*cases)
