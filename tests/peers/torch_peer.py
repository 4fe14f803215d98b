# SPDX-License-Identifier: Apache-2.0
"""penstock.torch with today's torch: what torch 1 does not have."""
import os
import struct
import warnings
import zipfile

from kit import Skip, case, cases, content, path, run
from peer import need

torch = need('torch')
try:
    from torch.utils.serialization import config
except ImportError:
    need('torch.utils.serialization')

import penstock.torch

warnings.simplefilter('ignore')


def saved_by_both(obj, **options):
    """What both write, in files of one name."""
    files = []
    for save in penstock.torch.save, torch.save:
        place = path('by')
        os.mkdir(place)
        name = os.path.join(place, 'x.pt')
        save(obj, name, **options)
        files.append(name)
    return files


def differences(a, b):
    """Offsets at which two files differ, without the record of the random number and its sums."""
    one, other = content(a), content(b)
    assert len(one) == len(other), (len(one), len(other))
    with zipfile.ZipFile(b) as z:
        at = z.getinfo('x/.data/serialization_id').header_offset
    at += 30 + sum(struct.unpack('<HH', one[at + 26:at + 30]))
    central = one.rindex(b'x/.data/serialization_id') - 46
    return [i for i in range(len(one)) if one[i] != other[i]
            and not at <= i < at + 40 + 8 and not central + 16 <= i < central + 20]


@case
def files_are_the_same_at_every_alignment():
    before = config.save.storage_alignment
    try:
        for alignment in 64, 512, 4096, 16384:
            config.save.storage_alignment = alignment
            obj = {str(i): torch.full((i,), i) for i in range(0, 3000, 997)}
            ours, theirs = saved_by_both(obj)
            assert differences(ours, theirs) == [], alignment
            back = penstock.torch.load(ours)
            assert all(torch.equal(back[k], obj[k]) for k in obj)
    finally:
        config.save.storage_alignment = before


@case
def torch_finds_storages_in_our_files_by_calculation():
    name = path('calc.pt')
    obj = {str(i): torch.full((i,), i) for i in range(0, 300, 7)}
    penstock.torch.save(obj, name)
    before, os.environ['TORCH_SERIALIZATION_DEBUG'] = config.load.calculate_storage_offsets, '1'
    try:
        config.load.calculate_storage_offsets = True
        for mmap in False, True:
            back = torch.load(name, mmap=mmap)
            assert all(torch.equal(back[k], obj[k]) for k in obj)
    finally:
        config.load.calculate_storage_offsets = before
        del os.environ['TORCH_SERIALIZATION_DEBUG']


@case
def skip_data_is_left_to_torch():
    name = path('holes.pt')
    with torch.serialization.skip_data():
        penstock.torch.save({'a': torch.ones(1000)}, name)
    back = torch.load(name)
    assert back['a'].shape == (1000,)
    assert os.path.getsize(name) > 4000


@case
def fake_tensors_get_their_offsets():
    from torch._subclasses.fake_tensor import FakeTensorMode

    name = path('fake.pt')
    penstock.torch.save({'a': torch.arange(1000)}, name)
    with FakeTensorMode():
        fake = penstock.torch.load(name)
    offset = fake['a'].untyped_storage()._checkpoint_offset
    assert content(name)[offset:offset + 8000] == torch.arange(1000).numpy().tobytes()


@case
def archives_of_more_than_4_GiB_are_laid_out_as_torch_does():
    """What torch writes is counted, and kept where it is not zeros."""
    class Kept:
        def __init__(self):
            self.pieces, self.at = [], 0

        def write(self, data):
            n = len(data)
            if n < 1 << 20:
                self.pieces.append((self.at, bytes(data)))
            self.at += n
            return n

        def flush(self):
            pass

    if not hasattr(os, 'sysconf') or os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') < 8 << 30:
        raise Skip('memory', 'less than 8 GiB of memory')
    theirs, name = Kept(), os.path.join(os.path.dirname(path()), 'archive.pt')  # as torch calls one without a name
    torch.serialization.set_crc32_options(False)
    try:
        big = torch.zeros(5 << 30, dtype=torch.uint8)
        obj = {'big': big, 'small': torch.ones(3)}
        torch.save(obj, theirs)
        penstock.torch.save(obj, name, durable=False, checksum=False)
    finally:
        torch.serialization.set_crc32_options(True)
    assert os.path.getsize(name) == theirs.at, (os.path.getsize(name), theirs.at)
    wrong = []
    with open(name, 'rb') as file:
        for at, data in theirs.pieces:
            file.seek(at)
            ours = file.read(len(data))
            wrong += [at + i for i in range(len(data)) if ours[i] != data[i]]
    os.unlink(name)
    # Checksums, which torch was told to leave out, and the random number.
    assert len(wrong) < 200, (len(wrong), wrong[:20])


@case
def tensor_subclasses_and_sparse_tensors_come_back():
    class Mine(torch.Tensor):
        pass

    globals()['Mine'] = Mine
    Mine.__qualname__ = 'Mine'
    name = path('sub.pt')
    obj = {'sparse': torch.eye(5).to_sparse(), 'csr': torch.eye(4).to_sparse_csr(), 'mine': torch.ones(3).as_subclass(Mine),
           'quantized': torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
           'nested': torch.nn.Parameter(torch.ones(2)), 'conj': torch.ones(3, dtype=torch.complex64).conj()}
    penstock.torch.save(obj, name)
    want, got = torch.load(name, weights_only=False), penstock.torch.load(name, weights_only=False)
    for key in obj:
        assert type(got[key]) is type(want[key]) is type(obj[key]), key
        assert torch.equal(got[key].to_dense() if key in ('sparse', 'csr') else got[key],
                           obj[key].to_dense() if key in ('sparse', 'csr') else obj[key]), key


run(*cases)
