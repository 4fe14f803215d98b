# SPDX-License-Identifier: Apache-2.0
"""The calls of DeepSpeed's aio_handle, as its tensor swapper makes them, on penstock."""
import os
import tempfile

import torch

import penstock.deepspeed

# An installed DeepSpeed uses penstock from here on, in child processes too.
penstock.deepspeed.install()

# The same by hand; with DeepSpeed: from deepspeed.ops.op_builder import AsyncIOBuilder
aio = penstock.deepspeed.AsyncIOBuilder().load()
handle = aio.aio_handle(block_size=1 << 20, queue_depth=8, overlap_events=True)

with tempfile.TemporaryDirectory(dir='.') as folder:
    out = [torch.randn(100003) for _ in range(4)]  # no size needs to be aligned
    paths = [os.path.join(folder, f'{i}.tensor.swp') for i in range(4)]
    for tensor, path in zip(out, paths):
        assert handle.async_pwrite(tensor, path) == 0
    assert handle.wait() == 4

    pinned = handle.new_cpu_locked_tensor(4 * 100003, out[0])
    for i, path in enumerate(paths):
        assert handle.async_pread(pinned.narrow(0, i * 100003, 100003), path) == 0
    assert handle.wait() == 4
    assert torch.equal(pinned, torch.cat(out))
    handle.free_cpu_locked_tensor(pinned)
    print('4 tensors swapped out and in')

penstock.deepspeed.uninstall()
