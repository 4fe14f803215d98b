# SPDX-License-Identifier: Apache-2.0
"""The drop-in under an installed DeepSpeed, not its stand-in: `make peers' installs one."""
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys

from kit import Skip, case, cases, child, content, data, folder, path, run

if not importlib.util.find_spec('deepspeed'):
    print('1..0 # SKIP no DeepSpeed: make peers')
    sys.exit()

import torch

import penstock.deepspeed

penstock.deepspeed.install()
os.environ.setdefault('DS_ACCELERATOR', 'cpu')
import deepspeed
from deepspeed.ops.op_builder import AsyncIOBuilder

HERE = os.path.dirname(os.path.abspath(__file__))


def new_handle():
    return AsyncIOBuilder().load().aio_handle(1 << 20, 32, False, True, 1)


@case
def its_builder_loads_our_handle():
    assert AsyncIOBuilder.__module__.startswith('deepspeed.') and AsyncIOBuilder().is_compatible()
    assert isinstance(new_handle(), penstock.deepspeed.aio_handle)
    assert deepspeed.accelerator.get_accelerator().create_op_builder('AsyncIOBuilder').load() is AsyncIOBuilder().load()


@case
def its_swap_functions_move_what_they_are_given():
    from deepspeed.runtime.swap_tensor.utils import swap_in_tensors, swap_out_tensors

    handle = new_handle()
    names = [path() for _ in range(8)]
    tensors = [torch.frombuffer(bytearray(data(4 * n, seed=n)), dtype=torch.float32) for n in range(1000, 9000, 1000)]
    swap_out_tensors(handle, tensors, names)
    assert handle.wait() == 8
    back = [torch.empty_like(t) for t in tensors]
    swap_in_tensors(handle, back, names)
    assert handle.wait() == 8
    assert all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(tensors, back))
    assert content(names[0]) == data(4000, seed=1000)


@case
def its_swapper_writes_through_buffers_of_our_handle():
    from deepspeed.runtime.swap_tensor.utils import SwapBufferPool

    handle = new_handle()
    buffers = [handle.new_cpu_locked_tensor(1 << 16, torch.empty(0)) for _ in range(2)]
    pool = SwapBufferPool(buffers, handle)
    tensor, name = torch.arange(5000.0), path()
    pool.insert_tensor(tensor, name, 1 << 16)
    pool.swap_out(handle)
    assert torch.equal(torch.frombuffer(bytearray(content(name)), dtype=torch.float32)[:5000], tensor)


@case
def nothing_of_ours_stands_in_the_way_of_inspect():
    for name, module in sys.modules.copy().items():
        if name.startswith('penstock') and hasattr(module, '__file__'):
            assert inspect.getfile(module)


IO = """
import sys
import penstock.deepspeed
if __name__ == '__main__':
    penstock.deepspeed.install()
    from deepspeed.nvme import ds_io_main
    sys.argv = ['ds_io', '--folder', sys.argv[1], '--io_size', '4M', '--loops', '1', *sys.argv[2:]]
    ds_io_main()
"""


@case
def its_ds_io_runs_on_our_handles_in_processes_of_its_own():
    place = path('io')
    os.mkdir(place)
    program = path('io.py')
    with open(program, 'w', encoding='utf-8') as f:
        f.write(IO)
    code = "import runpy, sys; sys.argv[:] = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = child(code, program, place)
    assert done.returncode == 0 and 'Write Speed' in done.stdout, (done.stdout, done.stderr)


def script(name, *words, **env):
    """One of DeepSpeed's, as it was installed; install() has set what it needs to find us."""
    program = os.path.join(os.path.dirname(sys.executable), name)
    if not os.path.exists(program):
        raise Skip(name, f'{program} is not there')
    done = subprocess.run([sys.executable, program, *words], cwd=folder, env={**os.environ, **env}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@case
def its_ds_report_finds_ours_where_nothing_can_be_compiled():
    """Its own answer is a program that has to compile and link."""
    for switch, verdict in (('1', '[OKAY]'), ('0', '[NO]')):
        line = next(x for x in script('ds_report', CC='/bin/false', PENSTOCK_DEEPSPEED=switch).splitlines()
                    if x.startswith('async_io'))
        assert re.sub('\033\\[[0-9]+m', '', line).endswith(verdict), (switch, line)


@case
def its_ds_nvme_tune_runs_ds_io_on_our_handles():
    place, logs, sweep = path('tune'), path('logs'), path('sweep.json')
    os.mkdir(place)
    with open(sweep, 'w', encoding='utf-8') as f:
        json.dump({'block_size': ['1M'], 'queue_depth': [8], 'single_submit': [False], 'io_parallel': [1]}, f)
    said = script('ds_nvme_tune', '--nvme_dir', place, '--sweep_config', sweep, '--io_size', '4M', '--log_dir', logs,
                  CC='/bin/false')
    assert json.loads(said[said.index('{'):])['aio']['block_size'] == 1 << 20, said
    names = sorted(n for _, _, names in os.walk(logs) for n in names)
    assert len(names) == 2 and names[0].startswith('read_') and names[1].startswith('write_'), names


TRAIN = """
import os, sys, torch
nvme = sys.argv[1]
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1', LOCAL_RANK='0', DS_ACCELERATOR='cpu')
import penstock.deepspeed
penstock.deepspeed.install()
import deepspeed
sys.modules['deepspeed.comm.torch'].build_shm_op = lambda: None  # would be compiled
torch.distributed.init_process_group('gloo', init_method=f'file://{nvme}/meet', rank=0, world_size=1)

def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 64))

def losses(step):
    torch.manual_seed(2)
    x, y = torch.randn(4, 256), torch.randn(4, 64)
    return [step(x, y) for _ in range(4)]

plain = model()
optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)

def plain_step(x, y):
    loss = ((plain(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)

want = losses(plain_step)
place = {'device': 'nvme', 'nvme_path': nvme}
config = {'train_batch_size': 4, 'zero_allow_untested_optimizer': True, 'zero_force_ds_cpu_optimizer': False,
          'zero_optimization': {'stage': 3, 'sub_group_size': 300000, 'offload_optimizer': place,
                                'offload_param': {**place, 'buffer_size': 600000, 'buffer_count': 5}},
          'aio': {'block_size': 262144, 'queue_depth': 32, 'single_submit': False, 'overlap_events': True}}
other = model()
engine, *_ = deepspeed.initialize(model=other, optimizer=torch.optim.Adam(other.parameters(), lr=1e-3), config=config)

def engine_step(x, y):
    loss = ((engine(x) - y) ** 2).mean()
    engine.backward(loss)
    engine.step()
    return float(loss)

got = losses(engine_step)
assert all(abs(a - b) < 0.05 for a, b in zip(want, got)), (want, got)  # it adds up gradients in bfloat16
files = [os.path.join(p, n) for p, _, names in os.walk(nvme) for n in names if n.endswith('.swp')]
print('trained', len(files), sum(map(os.path.getsize, files)))
"""


@case
def a_model_trains_with_its_parameters_and_optimizer_on_storage():
    place = path('nvme')
    os.mkdir(place)
    done = child(TRAIN, place)
    assert done.returncode == 0 and 'trained' in done.stdout, (done.stdout[-3000:], done.stderr[-3000:])
    files, nbytes = map(int, done.stdout.rpartition('trained')[2].split())
    assert files and nbytes > 1 << 20, done.stdout


run(*cases)
