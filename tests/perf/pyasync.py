#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long penstock.torch.save_async() keeps its caller, beside a copy of the same tensors.

    PYTHONPATH=build/python PYTHON tests/perf/pyasync.py [--size 96M] [--tensors 1] [--rounds 15] [--dir .] [--device cuda] [--memory 128M]

The copies go into memory that is as fresh as a save's own: torch's, as clone() has it, and a penstock.Memory, on huge pages, by one memcpy(3).
With --device cuda they are clone(), which stays on the GPU, and a copy to pinned memory that is there before.
All take turns, and a save is over before the next one begins; what is printed are medians, with the quartiles.
"""
import argparse
import ctypes
import os
import statistics
import tempfile
import time

import torch

import penstock
import penstock.torch
from pyckpt import size_of


def cloned(state, _):
    found = {name: tensor.clone() for name, tensor in state.items()}
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return lambda: found.clear()


def copied(state, _):
    memory = penstock.Memory(sum(t.numel() * t.element_size() for t in state.values()), pinned=False)
    at = memory.address
    for tensor in state.values():
        nbytes = tensor.numel() * tensor.element_size()
        ctypes.memmove(at, tensor.data_ptr(), nbytes)
        at += nbytes
    return lambda: memory


def pinned(state, _):
    """What a copy of a GPU's tensors takes at least: pinned memory, which is made before."""
    for name, tensor in state.items():
        PINNED[name].copy_(tensor, non_blocking=True)
    torch.cuda.synchronize()
    return lambda: None


CONTENDERS = {'clone()': cloned, 'memcpy into penstock.Memory': copied}
ON_DEVICE = {'clone()': cloned, 'copy to pinned memory': pinned}
PINNED = {}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--size', type=size_of, default=96 << 20)
    p.add_argument('--tensors', type=int, default=1)
    p.add_argument('--rounds', type=int, default=15)
    p.add_argument('--dir', default='.')
    p.add_argument('--device', default='cpu')
    p.add_argument('--memory', type=size_of, default=128 << 20, help='of save_async()')
    a = p.parse_args()
    state = {str(i): torch.rand(a.size // 4 // a.tensors, device=a.device) for i in range(a.tensors)}
    contenders = CONTENDERS if a.device == 'cpu' else ON_DEVICE
    if a.device != 'cpu':
        PINNED.update((name, torch.empty(t.shape, pin_memory=True)) for name, t in state.items())
        torch.cuda.synchronize()
    contenders = {**contenders, 'save_async()': lambda s, path: penstock.torch.save_async(s, path, memory=a.memory).result}
    seen = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory(prefix='async-', dir=a.dir) as place:
        for turn in range(a.rounds + 1):  # of which the first is not counted
            for name, call in contenders.items():
                start = time.perf_counter()
                end = call(state, os.path.join(place, 'model.pt'))
                took = time.perf_counter() - start
                end()
                if turn:
                    seen[name].append(took)
    print(f'torch {torch.__version__}, {a.size >> 20} MiB in {a.tensors} on {a.device}, medians of {a.rounds}, in {a.dir}')
    for name, times in seen.items():
        quarter, half, most = statistics.quantiles(times, n=4)
        print(f'{name:26} {half * 1e3:7.1f} ms ({quarter * 1e3:.1f} to {most * 1e3:.1f})')
    for name in list(contenders)[:2]:
        share = statistics.median(ours / theirs for ours, theirs in zip(seen['save_async()'], seen[name]))
        print(f'save_async() / {name:26} {share:.2f}')


if __name__ == '__main__':
    main()
