# SPDX-License-Identifier: Apache-2.0
"""penstock.deepspeed.CheckpointEngine under a real DeepSpeed, and its FastFileWriter over a longer file."""
import os

os.environ.setdefault('DS_ACCELERATOR', 'cpu')
from kit import MIB, case, cases, child, content, make, path, run
from peer import need

need('torch', 'deepspeed')

import torch
from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointCommitInfo
from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointEngine as Theirs

import penstock.deepspeed
import penstock.torch

INFO = CheckpointCommitInfo(tag='tag', save_dir='folder', save_latest=True)


@case
def it_is_one_of_deepspeeds_and_has_all_of_its_methods():
    engine = penstock.deepspeed.CheckpointEngine()
    assert isinstance(engine, Theirs)
    assert not {n for n in vars(Theirs) if not n.startswith('_')} - set(dir(engine))


@case
def what_it_saves_it_loads_and_torch_does_too():
    for options in ({}, {'memory': 4 * MIB}):
        engine = penstock.deepspeed.CheckpointEngine(None, **options)
        name, state = path('state.pt'), {'a': torch.arange(1 << 20), 'n': 5}
        engine.create(INFO)
        engine.save(state, name)
        state['a'].zero_()
        assert engine.is_decoupled() == bool(options) and engine.commit(engine.get_commit_info()) is True
        for back in engine.load(name), engine.load(name, torch.device('cpu')), torch.load(name):
            assert torch.equal(back['a'], torch.arange(1 << 20)) and back['n'] == 5
        engine.cleanup()


@case
def a_file_over_an_older_longer_one_has_nothing_of_it():
    """What deepspeed.io.FastFileWriter does with its tail, see docs/from-deepspeed.md."""
    for save in (lambda obj, name: penstock.deepspeed.CheckpointEngine().save(obj, name), _by_fast_file_writer):
        name = make(b'\xff' * (5 * MIB + 13), 'older.pt')
        save({'a': torch.full((300001,), 2.)}, name)
        assert torch.equal(torch.load(name)['a'], torch.full((300001,), 2.))
        assert os.path.getsize(name) < 2 * MIB and b'\xff' * 100 not in content(name)


def _by_fast_file_writer(obj, name):
    handle = penstock.deepspeed.aio_handle()
    buffer = handle.new_cpu_locked_tensor(2 * MIB, torch.empty(0, dtype=torch.uint8))
    config = penstock.deepspeed.FastFileWriterConfig(handle, buffer)
    with penstock.deepspeed.FastFileWriter(name, config) as writer:
        torch.save(obj, writer)


@case
def the_original_still_does_it():
    """So that the page says so as long as it is true."""
    import deepspeed.io.fast_file_writer as original

    class Utils:
        def load(self):
            return penstock.deepspeed

    original.UtilsBuilder = Utils
    handle = penstock.deepspeed.aio_handle()
    name = make(b'\xff' * 3_000_000, 'older')
    buffer = handle.new_cpu_locked_tensor(4 * MIB, torch.empty(0, dtype=torch.uint8))
    writer = original.FastFileWriter(name, original.FastFileWriterConfig(dnvme_handle=handle, pinned_tensor=buffer))
    writer.write(b'\2' * 1_000_001)
    writer.close()
    got = content(name)
    print(f'# {len(got)} bytes, of which the last are {got[-1]}, and byte 1,000,000 is {got[1_000_000]}')
    assert len(got) > 3_000_000 and got[1_000_000] == 0xff, 'it is put right: take it out of docs/from-deepspeed.md'


TRAIN = """
import os, sys, torch
folder = sys.argv[1]
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1', LOCAL_RANK='0', DS_ACCELERATOR='cpu')
import deepspeed, penstock.deepspeed
sys.modules['deepspeed.comm.torch'].build_shm_op = lambda: None  # would be compiled
torch.distributed.init_process_group('gloo', init_method=f'file://{folder}/meet', rank=0, world_size=1)

def engine():
    torch.manual_seed(1)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    config = {'train_batch_size': 4, 'zero_optimization': {'stage': 1}, 'zero_allow_untested_optimizer': True,
              'zero_force_ds_cpu_optimizer': False}
    made, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return made

def step(e):
    loss = e(torch.ones(4, 64)).square().mean()
    e.backward(loss)
    e.step()
    return float(loss)

for memory in (None, 8 << 20):
    place = os.path.join(folder, str(memory))
    one = engine()
    one.checkpoint_engine = penstock.deepspeed.CheckpointEngine(memory=memory)
    step(one)
    one.save_checkpoint(place, tag='first')
    want = [step(one), step(one)]
    assert open(os.path.join(place, 'latest')).read() == 'first'
    other = engine()
    other.checkpoint_engine = penstock.deepspeed.CheckpointEngine()
    path, _ = other.load_checkpoint(place)
    assert path, 'nothing was loaded'
    assert [step(other), step(other)] == want
    names = sorted(n for n in os.listdir(os.path.join(place, 'first')))
    assert any(n.endswith('.pt.crc') for n in names), names
print('trained')
"""


@case
def a_model_is_saved_and_trained_on_from_there():
    folder = path('train')
    os.mkdir(folder)
    done = child(TRAIN, folder)
    assert done.returncode == 0 and 'trained' in done.stdout, (done.stdout[-2000:], done.stderr[-3000:])


run(*cases)
