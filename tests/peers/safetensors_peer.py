# SPDX-License-Identifier: Apache-2.0
"""penstock.safetensors beside the package safetensors: the same files, both ways."""
import os
import random

from kit import case, cases, content, data, path, raises, run
from peer import need

need('safetensors.numpy', 'safetensors.torch', 'torch', 'numpy')

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

from penstock.safetensors import SafetensorError, load_file, safe_open, save_file

KINDS = ('float64', 'float32', 'float16', 'bfloat16', 'complex64', 'int64', 'int32', 'int16', 'int8', 'uint8', 'uint16',
         'uint32', 'uint64', 'bool', 'float8_e4m3fn', 'float8_e5m2', 'float8_e4m3fnuz', 'float8_e5m2fnuz',
         'float8_e8m0fnu', 'float4_e2m1fn_x2')


def tensors():
    found = {}
    for kind in KINDS:
        dtype = getattr(torch, kind)
        for shape in ((), (0, 3), (5, 4), (2, 3, 4)):
            if kind == 'float4_e2m1fn_x2' and not shape:
                continue
            nbytes = int(np.prod(shape, dtype=int)) * torch.empty(0, dtype=dtype).element_size()
            raw = bytearray(b & 1 if kind == 'bool' else b for b in data(nbytes, seed=len(found)))
            flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
            found[f'{kind}/{shape}'] = flat.reshape(shape)
    return found


def bits(tensor):
    return tensor.dtype, tensor.shape, tensor.reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []


@case
def files_are_the_same_byte_for_byte():
    for metadata in (None, {}, {'format': 'pt'}, {'é"\\': '\n\x01\x7f/\u2028'}):
        ours, theirs = path('ours'), path('theirs')
        save_file(tensors(), ours, metadata)
        safetensors.torch.save_file(tensors(), theirs, metadata)
        assert content(ours) == content(theirs), metadata
    names = {f'{chr(c)}x': torch.zeros(1) for c in (0x22, 0x5c, 0x7f, 0xe9, 0x1f600, 0x2028, 0x0b, 0x41)}
    save_file(names, ours)
    safetensors.torch.save_file(names, theirs)
    assert content(ours) == content(theirs)
    save_file({}, ours)
    safetensors.torch.save_file({}, theirs)
    assert content(ours) == content(theirs)


@case
def arrays_of_numpy_are_the_same_byte_for_byte():
    arrays = {k: np.arange(6).astype(k).reshape(2, 3) for k in
              ('float64', 'float32', 'float16', 'int64', 'int32', 'int16', 'int8', 'uint64', 'uint32', 'uint16', 'uint8',
               'bool', 'complex64', '>i4', '>f8')}
    ours, theirs = path('ours'), path('theirs')
    save_file(arrays, ours)
    safetensors.numpy.save_file(arrays, theirs)
    assert content(ours) == content(theirs)
    for name in ours, theirs:
        back, want = load_file(name, framework='np'), safetensors.numpy.load_file(name)
        assert all(np.array_equal(back[k], want[k]) and back[k].dtype == want[k].dtype for k in want)


@case
def each_reads_what_the_other_has_written():
    ours, theirs, want = path('ours'), path('theirs'), tensors()
    save_file(want, ours)
    safetensors.torch.save_file(want, theirs)
    for back in load_file(theirs), safetensors.torch.load_file(ours):
        for key, tensor in want.items():
            if key in back:
                assert bits(back[key]) == bits(tensor), key
        assert set(back) == set(want)


@case
def slices_are_those_of_the_package():
    seed = int(os.environ.get('PENSTOCK_TEST_SEED', random.randrange(1 << 32)))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    rng = random.Random(seed)
    name = path('slices')
    save_file({'w': torch.arange(24000.).reshape(20, 30, 40)}, name)
    with safe_open(name, 'pt') as ours, safetensors.safe_open(name, 'pt') as theirs:
        assert ours.keys() == theirs.keys() and ours.offset_keys() == theirs.offset_keys()
        a, b = ours.get_slice('w'), theirs.get_slice('w')
        assert a.get_shape() == b.get_shape() and a.get_dtype() == b.get_dtype()
        for _ in range(200):
            index = tuple(rng.choice([slice(None), slice(rng.randrange(n), rng.randrange(n + 1)), rng.randrange(-n, n),
                                      slice(None, None, 3)]) for n in (20, 30, 40)[:rng.randrange(1, 4)])
            assert a[index].shape == b[index].shape and torch.equal(a[index], b[index]), index
        for index in (Ellipsis, (Ellipsis, 3), (slice(None), [1, 5]), None):
            assert torch.equal(a[index], b[index]), index


@case
def what_the_package_refuses_is_refused_here():
    seed = int(os.environ.get('PENSTOCK_TEST_SEED', random.randrange(1 << 32)))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    rng = random.Random(seed)
    name = path('good')
    save_file({'a': torch.ones(3), 'b': torch.ones(2, dtype=torch.int8)}, name, checksum=False)
    good = content(name)
    refused = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 3)):
            bad[rng.randrange(len(bad) - 14)] = rng.randrange(256)
        with open(name, 'wb') as f:
            f.write(bad)
        try:
            safetensors.torch.load_file(name)
        except Exception:
            refused += 1
            raises((SafetensorError, OSError), load_file, name)
    assert refused > 30, refused


run(*cases)
