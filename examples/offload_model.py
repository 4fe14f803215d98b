# SPDX-License-Identifier: Apache-2.0
"""A model that does not fit into its memory: the weights of each block come from storage when it runs."""
import os
import tempfile

import torch

import penstock
import penstock.torch
from penstock.safetensors import save_file

WIDTH, BLOCKS = 256, 16


def block(device):
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 4 * WIDTH, device=device), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH, device=device))


def forward(blocks, x):
    for b in blocks:
        x = x + b(x)
    return x


with tempfile.TemporaryDirectory(dir='.') as folder, torch.no_grad():
    torch.manual_seed(1)
    model = torch.nn.ModuleList(block('cpu') for _ in range(BLOCKS))
    file = os.path.join(folder, 'model.safetensors')
    save_file({f'layers.{name}': tensor for name, tensor in model.state_dict().items()}, file)
    x = torch.randn(4, WIDTH)
    expected = forward(model, x)
    del model

    # Layer by layer, as views into the window.
    with penstock.WeightWindow(file, window='6MiB') as window:
        biases = sum(layer[f'{layer.name}.0.bias'].numel() for layer in window)

    # The same model without memory of its own.
    empty = torch.nn.ModuleList(block('meta') for _ in range(BLOCKS))
    with penstock.torch.offload_modules(empty, file, window='6MiB') as offloaded:
        for _ in range(3):
            assert torch.equal(forward(empty, x), expected)
        stats = offloaded.window.stats()
    print(f'{biases} biases seen, {stats["groups"]} layers, {stats["bytes_read"] >> 20} MiB through a window of '
          f'{stats["window"] >> 20} MiB, {stats["stall_disk_ns"] / 1e6:.0f} ms waited for')
