#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ZeRO-Inference with parameters on storage: tokens per second with DeepSpeed's operators and with ours.

    ds_infer.py --folder FOLDER [--bytes 12G] [--batch 96] [--rounds 3] [--memory locked,ordinary,pinned,gpu]
                [--device cuda|cpu]

Two engines of DeepSpeed's in one process have the same random weights in files of their own, one with the operators
that DeepSpeed builds and one with penstock.deepspeed.install().  They take turns at decoding one token for each
sequence of the batch, which reads every weight once; the tokens must be the same.  Beside them, in turn too: all of the
files read by penstock.Handle and no model at all, which is the bound.

What the parameters are read into: locked is what DeepSpeed takes, memory of the operator's own; ordinary is torch.empty();
pinned is torch's; gpu is memory of the device.  Needs DeepSpeed, torch, a compiler, libaio with its header.
"""
import argparse
import glob
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

HIDDEN, INNER, HEADS = 4096, 14336, 32
SMALL = (512, 1024, 8)  # for the CPU, to see that it runs
UNITS = {'K': 10, 'M': 20, 'G': 30}
AIO = {'block_size': 1 << 20, 'queue_depth': 32, 'single_submit': False, 'overlap_events': True, 'intra_op_parallelism': 4}
BUFFERS = 24


def size(text):
    return int(text[:-1]) << UNITS[text[-1].upper()] if text[-1].upper() in UNITS else int(text)


def options():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('--folder', required=True)
    p.add_argument('--bytes', type=size, default=12 << 30)
    p.add_argument('--batch', type=int, default=96)
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--device', default='cuda')
    p.add_argument('--memory', default='locked,ordinary,pinned,gpu')
    return p.parse_args()


args = options()
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29571', RANK='0', WORLD_SIZE='1', LOCAL_RANK='0',
                  DS_ACCELERATOR=args.device)
if args.device == 'cpu':
    HIDDEN, INNER, HEADS = SMALL

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

import deepspeed
import penstock
import penstock.deepspeed
from deepspeed.ops.op_builder import AsyncIOBuilder


# ---- a model: llama's shapes, random weights

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x, cache):
        """One token for each sequence, which sees those before it."""
        y = norm(x)
        q, k, v = (f(y).view(len(x), HEADS, 1, -1) for f in (self.q, self.k, self.v))
        cache['k'], cache['v'] = (torch.cat([cache[n], new], 2) if n in cache else new for n, new in (('k', k), ('v', v)))
        x = x + self.o(scaled_dot_product_attention(q, cache['k'], cache['v']).reshape(len(x), HIDDEN))
        y = norm(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


def norm(x):
    return nn.functional.rms_norm(x, (HIDDEN,))


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embed = nn.Linear(INNER, HIDDEN, bias=False)  # of a vocabulary of INNER: no parameter is larger than the others
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(HIDDEN, INNER, bias=False)

    def forward(self, tokens, caches):
        x = self.embed(nn.functional.one_hot(tokens, INNER).to(torch.bfloat16))
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache)
        return self.head(norm(x)).argmax(-1)


def layer_count():
    layer = 2 * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER)
    return max(2, round((args.bytes - 4 * HIDDEN * INNER) / layer))


# ---- an engine of DeepSpeed's

class Engine:
    def __init__(self, name, folder):
        self.name, self.folder = name, os.path.join(folder, name)
        config = {
            'train_batch_size': 1, 'bf16': {'enabled': True}, 'aio': AIO,
            'zero_optimization': {
                'stage': 3, 'stage3_prefetch_bucket_size': 2 * HIDDEN * INNER, 'stage3_param_persistence_threshold': 0,
                'offload_param': {'device': 'nvme', 'nvme_path': self.folder, 'pin_memory': False,
                                  'buffer_size': HIDDEN * INNER, 'buffer_count': BUFFERS}}}
        torch.manual_seed(1)
        begin = time.perf_counter()
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.bfloat16):
            model = Model(layer_count())
        self.engine, *_ = deepspeed.initialize(model=model, config=config)
        self.engine.eval()
        self.swapper = next(model.parameters()).nvme_swapper
        self.memory = {'locked': self.swapper.buffers}
        self.files = sorted(glob.glob(f'{self.folder}/**/*.swp', recursive=True))
        self.bytes = sum(map(os.path.getsize, self.files))
        handle = type(self.swapper.aio_read_handle)
        print(f'{name}: {handle.__module__}, {len(self.files)} files, {self.bytes / 1e9:.2f} GB, '
              f'made in {time.perf_counter() - begin:.1f} s', flush=True)
        self.begin()

    def begin(self):
        self.tokens = torch.arange(args.batch, device=args.device) % INNER
        self.caches = [{} for _ in range(layer_count())]

    def use(self, kind):
        """What the parameters are read into, from the next pass on."""
        assert self.swapper.available_swap_in_buffers() == BUFFERS, 'a buffer is in use'
        locked = self.memory['locked']
        if kind not in self.memory:
            self.memory[kind] = torch.empty(locked.numel(), dtype=locked.dtype, pin_memory=kind == 'pinned',
                                            device=args.device if kind == 'gpu' else 'cpu')
        self.swapper.buffers = self.memory[kind]

    def forget(self, kind):
        self.swapper.buffers = self.memory['locked']
        if kind != 'locked':
            self.memory.pop(kind, None)

    def decode(self):
        """One token for each sequence: the seconds it took."""
        synchronize()
        begin = time.perf_counter()
        with torch.no_grad():
            self.tokens = self.engine(self.tokens, self.caches)
        synchronize()
        return time.perf_counter() - begin


def synchronize():
    if args.device != 'cpu':
        torch.cuda.synchronize()


def read_all(files):
    """Seconds to read the files into memory in their order, with nothing else to do."""
    largest = max(map(os.path.getsize, files))
    memory = [penstock.empty(largest, torch.uint8) for _ in range(8)]
    with penstock.Handle() as handle:
        begin, pending = time.perf_counter(), []
        for name, buffer in zip(files, itertools.cycle(memory)):
            if len(pending) == len(memory):
                pending.pop(0).result()
            pending.append(handle.read_async(buffer[:os.path.getsize(name)], name))
        for future in pending:
            future.result()
        return time.perf_counter() - begin


# ---- in turn

def measure(engines, kind):
    seconds = {name: [] for name in (*(e.name for e in engines), 'bound')}
    for engine in engines:
        engine.use(kind)
        engine.begin()
        engine.decode()  # the first one traces the order of the modules
    for number in range(args.rounds):
        seconds['bound'].append(read_all(engines[number % 2].files))
        for engine in engines if number % 2 else engines[::-1]:
            seconds[engine.name].append(engine.decode())
    same = torch.equal(engines[0].tokens, engines[1].tokens)
    for engine in engines:
        engine.forget(kind)
    row = {'memory': kind, 'bytes': engines[0].bytes, 'batch': args.batch, 'same_tokens': same, 'seconds': seconds}
    report(row)
    return row


def report(row):
    """A line to read, and one to compute with."""
    middle = {name: statistics.median(times) for name, times in row['seconds'].items()}
    for name, seconds in middle.items():
        print(f'{row["memory"]:9} {name:9} {args.batch / seconds:9.2f} tokens/s {row["bytes"] / seconds / 1e9:7.2f} GB/s')
    print(f'{row["memory"]:9} penstock is {middle["original"] / middle["penstock"]:.2f} times as fast, at {middle["bound"] / middle["penstock"]:.2f} '
          f'of the bound; the tokens are {"the same" if row["same_tokens"] else "NOT the same"}')
    print(json.dumps(row), flush=True)


def main():
    folder = tempfile.mkdtemp(prefix='ds-infer-', dir=args.folder)
    try:
        sys.modules['deepspeed.comm.torch'].build_shm_op = lambda: None  # would be compiled
        deepspeed.init_distributed('gloo' if args.device == 'cpu' else 'nccl', init_method=f'file://{folder}/meet',
                                   rank=0, world_size=1)
        begin = time.perf_counter()
        AsyncIOBuilder().load()
        print(f'operators of DeepSpeed built in {time.perf_counter() - begin:.1f} s', flush=True)
        engines = [Engine('original', folder)]
        penstock.deepspeed.install()
        engines.append(Engine('penstock', folder))
        rows = [measure(engines, kind) for kind in args.memory.split(',')]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(row['same_tokens'] for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
