# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed does with its NVMe operators, with its own or with ours: see ds_train.py.

    ds_job.py original|penstock FOLDER STEPS

Trains by ZeRO-3 with parameters, gradients and optimizer on storage, saves by FastPersist, infers with parameters on
storage.  Prints what came out as JSON: the bits of every loss, and seconds.
"""
import hashlib
import json
import os
import sys
import time

import ds_ops


class Utils:
    def load(self):
        import penstock.deepspeed
        return penstock.deepspeed


which, folder, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
# The CPU has no pinned memory of torch's; the writer of checkpoints wants some.
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1', LOCAL_RANK='0', CROSS_RANK='0', CROSS_SIZE='1',
                  DS_PIN_MEMORY_BACKEND='native')

import torch

if which == 'penstock':
    import penstock.deepspeed
    penstock.deepspeed.install()
ds_ops.use()
import deepspeed
from deepspeed.ops.op_builder import AsyncIOBuilder

sys.modules['deepspeed.comm.torch'].build_shm_op = lambda: None  # would be compiled
sys.modules['deepspeed.io.fast_file_writer'].UtilsBuilder = Utils  # there is none for the CPU
torch.set_num_threads(1)  # sums in one order
torch.distributed.init_process_group('gloo', init_method=f'file://{folder}/meet', rank=0, world_size=1)
WIDTH, INNER, BATCH = 512, 2048, 4


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, INNER), torch.nn.ReLU(), torch.nn.Linear(INNER, WIDTH),
                               torch.nn.Linear(WIDTH, INNER), torch.nn.ReLU(), torch.nn.Linear(INNER, WIDTH))


def config(name, **zero):
    place = {'device': 'nvme', 'nvme_path': os.path.join(folder, name)}
    return {
        'train_batch_size': BATCH, 'bf16': {'enabled': True},
        'zero_optimization': {
            'stage': 3, 'sub_group_size': 1 << 20, 'offload_param': {**place, 'buffer_size': 1 << 21, 'buffer_count': 5},
            **{key: {**place, **value} for key, value in zero.items()}},
        'aio': {'block_size': 1 << 18, 'queue_depth': 8, 'single_submit': False, 'overlap_events': True},
        'checkpoint': {'writer': {'type': 'fast', 'io_buffer_size': 4 << 20}},
    }


def batch():
    torch.manual_seed(2)
    return torch.randn(BATCH, WIDTH).bfloat16(), torch.randn(BATCH, WIDTH).bfloat16()


def train(name, pipelined, count):
    with_optimizer = config(name, offload_optimizer={
        'pipeline_read': pipelined, 'pipeline_write': pipelined, 'buffer_count': 12})
    with_optimizer['optimizer'] = {'type': 'Adam', 'params': {'lr': 1e-3}}
    made = model()
    engine, *_ = deepspeed.initialize(model=made, model_parameters=made.parameters(), config=with_optimizer)
    x, y = batch()
    losses, begin = [], time.perf_counter()
    for _ in range(count):
        loss = (engine(x) - y).float().square().mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item().hex())
    swapper = type(engine.optimizer.optimizer_swapper).__name__
    return engine, {'losses': losses, 'seconds': time.perf_counter() - begin, 'swapper': swapper}


def save(engine, name):
    begin = time.perf_counter()
    engine.save_checkpoint(os.path.join(folder, name), tag='saved')
    return {'engine': type(engine.checkpoint_engine).__name__, 'seconds': time.perf_counter() - begin}


def infer(name, count):
    engine, *_ = deepspeed.initialize(model=model(), config=config(name))
    engine.eval()
    x, _ = batch()
    begin = time.perf_counter()
    with torch.no_grad():
        for _ in range(count):
            x = engine(x)
    digest = hashlib.sha256(x.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
    return {'output': digest, 'seconds': time.perf_counter() - begin}


def main():
    handle = AsyncIOBuilder().load().aio_handle
    got = {'handle': f'{handle.__module__}.{handle.__qualname__}'}
    engine, got['train'] = train('train', True, steps)
    got['save'] = save(engine, 'checkpoint')
    _, got['shared'] = train('shared', False, steps // 5)
    got['infer'] = infer('infer', steps // 5)
    print('\n' + json.dumps(got))


main()
