# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training loop: saved behind its back, never half there, checked when loaded."""
import os
import tempfile

import torch

import penstock.torch

with tempfile.TemporaryDirectory(dir='.') as folder:
    name = os.path.join(folder, 'model.pt')
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters())
    save = None
    for step in range(6):
        model(torch.randn(32, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            if save is not None:
                save.result()  # what went wrong with the last one, if anything
            save = penstock.torch.save_async({'step': step, 'model': model.state_dict()}, name, memory=16 << 20)
    save.result()

    state = penstock.torch.load(name, verify='require')
    model.load_state_dict(state['model'])
    print('step', state['step'], 'of', os.path.getsize(name), 'bytes')

    # One flipped bit, as disks and networks do it.
    with open(name, 'r+b') as f:
        f.seek(300000)
        byte = f.read(1)[0]
        f.seek(300000)
        f.write(bytes([byte ^ 1]))
    try:
        penstock.torch.load(name)
    except OSError as error:
        print('found:', error.strerror)
