# SPDX-License-Identifier: Apache-2.0
"""Write a torch tensor to a file and read it back, and change one row in place."""
import os
import tempfile

import torch

import penstock

with tempfile.TemporaryDirectory(dir='.') as folder, penstock.Handle() as h:
    path = os.path.join(folder, 'weights')
    weights = torch.randn(1000, 4096).to(torch.bfloat16)
    h.write(weights, path, durability='data')

    # Memory on huge pages is fastest to fill; any tensor will do.
    again = penstock.empty(weights.shape, torch.bfloat16)
    h.read(again, path)
    assert torch.equal(weights, again)

    # One row: the same tensor type, at the offset of the row.
    row_bytes = weights[0].numel() * weights.element_size()
    h.write(torch.ones(4096, dtype=torch.bfloat16), path, offset=7 * row_bytes)
    h.read(again[7], path, offset=7 * row_bytes)
    assert again[7].eq(1).all()

    print(f'{os.path.getsize(path)} bytes of {weights.dtype} by {h.engine}, row 7 replaced')
