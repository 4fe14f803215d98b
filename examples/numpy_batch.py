# SPDX-License-Identifier: Apache-2.0
"""Several numpy arrays in one file: one call writes them all, one reads some of them."""
import os
import tempfile

import numpy as np

import penstock

arrays = {
    'tokens': np.arange(100000, dtype=np.uint16),
    'weights': np.random.default_rng(1).random((300, 333)),  # any shape
    'mask': np.arange(12345) % 3 == 0,  # any size: nothing needs to be aligned
}

with tempfile.TemporaryDirectory(dir='.') as folder, penstock.Handle() as h:
    path = os.path.join(folder, 'arrays')
    offsets, end = {}, 0
    for name, array in arrays.items():
        offsets[name] = end
        end += array.nbytes
    counts = h.write_batch((array, path, offsets[name]) for name, array in arrays.items())
    print(f'{sum(counts)} bytes in {len(counts)} operations by {h.engine}')

    # Back, into memory of our choice: here every second column of a larger array.
    weights = np.zeros((300, 666))[:, ::2]
    mask = penstock.empty(12345, np.bool_)
    h.read_batch([(weights, path, offsets['weights']), (mask, path, offsets['mask'])])
    assert (weights == arrays['weights']).all() and (mask == arrays['mask']).all()
    print('weights and mask are back')
