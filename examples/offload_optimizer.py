# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed trains with its parameters and its optimizer on storage, through penstock: on the CPU, with nothing compiled."""
import logging
import os
import tempfile
import warnings

warnings.simplefilter('ignore')
os.environ.update(DS_ACCELERATOR='cpu', RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')

import torch

import penstock.deepspeed

penstock.deepspeed.install()  # all that penstock needs

import deepspeed

logging.disable(logging.WARNING)
deepspeed.ops.__compatible_ops__['deepspeed_shm_comm'] = False  # one process alone; it would be compiled


def files(folder):
    """The swap files and their bytes."""
    names = [os.path.join(at, n) for at, _, found in os.walk(folder) for n in found if n.endswith('.swp')]
    return len(names), sum(map(os.path.getsize, names))


with tempfile.TemporaryDirectory(dir='.') as folder:
    nvme = {'device': 'nvme', 'nvme_path': folder}
    config = {
        'train_batch_size': 8,
        'zero_optimization': {
            'stage': 3,
            'sub_group_size': 1 << 20,  # elements that the optimizer has in memory at a time
            'offload_param': {**nvme, 'buffer_size': 1 << 20, 'buffer_count': 4},
            'offload_optimizer': {**nvme, 'pipeline_read': True, 'pipeline_write': True, 'buffer_count': 12},
        },
        'zero_allow_untested_optimizer': True,  # torch's Adam: DeepSpeed's own would be compiled
        'zero_force_ds_cpu_optimizer': False,
    }
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
    torch.distributed.init_process_group('gloo', init_method=f'file://{os.path.abspath(folder)}/meet', rank=0, world_size=1)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3), config=config)
    x, y = torch.randn(8, 512), torch.randn(8, 512)
    for step in range(10):
        loss = (engine(x) - y).square().mean()
        engine.backward(loss)
        engine.step()
    count, nbytes = files(folder)
    print(f'loss {loss.item():.4f} after {step + 1} steps, {nbytes >> 20} MiB in {count} files')
    torch.distributed.destroy_process_group()
