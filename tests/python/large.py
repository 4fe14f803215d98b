# SPDX-License-Identifier: Apache-2.0
"""Transfers of 0 bytes to 2.5 GiB, through penstock.Handle and through the drop-in for DeepSpeed.

Sizes around 2 GiB are where counts in 32 bits end.  Every byte is looked at, in chunks.
"""
import mmap
import os
import shutil

import penstock
from kit import MIB, case, cases, each, path
from tap import Skip, run

try:
    import torch
except ImportError:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

from penstock.deepspeed import FastFileWriter, FastFileWriterConfig, aio_handle

GIB = 1 << 30
CHUNK = 4 * MIB
SIZES = [0, 1, 4095, MIB + 1, 100 * MIB + 3]  # and 2 GiB below, in other ways

_words = torch.arange(CHUNK // 8, dtype=torch.int64) * 0x1E3779B97F4A7C15
_pattern = torch.empty_like(_words)


def room(memory, disk):
    """Skip where there is not as much memory and disk free, and some to spare."""
    with open('/proc/meminfo') as f:
        info = dict(line.split(':') for line in f)
    available = int(info['MemAvailable'].split()[0]) << 10
    if available < memory + GIB:
        raise Skip('memory', f'{available >> 20} MiB of memory are free, '
                             f'{(memory + GIB) >> 20} MiB are needed')
    st = os.statvfs(os.environ.get('PENSTOCK_TEST_DIR', '.'))
    free = st.f_bavail * st.f_frsize
    if free < disk + GIB:
        raise Skip('disk', f'{free >> 20} MiB of disk are free, '
                           f'{(disk + GIB) >> 20} MiB are needed')


def pattern(at, size, seed):
    """Bytes that depend on where they are, until the next are asked for; @at is a multiple of CHUNK."""
    return torch.add(_words, at + seed, out=_pattern).view(torch.uint8)[:size]


def chunks(size):
    return ((at, min(CHUNK, size - at)) for at in range(0, size, CHUNK))


def fill(tensor, seed):
    for at, n in chunks(tensor.numel()):
        tensor[at:at + n] = pattern(at, n, seed)


def holds(tensor, seed):
    return all(torch.equal(tensor[at:at + n], pattern(at, n, seed))
               for at, n in chunks(tensor.numel()))


def file_holds(name, offset, size, seed):
    """By plain reads."""
    buffer = bytearray(CHUNK)
    there = torch.frombuffer(buffer, dtype=torch.uint8)
    with open(name, 'rb', buffering=0) as f:
        f.seek(offset)
        for at, n in chunks(size):
            view = memoryview(buffer)[:n]
            while view:
                got = f.readinto(view)
                if not got:
                    return False
                view = view[got:]
            if not torch.equal(there[:n], pattern(at, n, seed)):
                return False
        return f.read(1) == b''


@each(SIZES)
def a_tensor_is_written_and_read_bytes(size):
    room(size, size)
    name, seed = path(), size % 1000
    tensor = torch.empty(size, dtype=torch.uint8)
    fill(tensor, seed)
    h = aio_handle(MIB, 32, False, True, 2)
    assert h.sync_pwrite(tensor, name) == 1
    assert os.path.getsize(name) == size and file_holds(name, 0, size, seed)
    tensor.zero_()
    assert h.async_pread(tensor, name) == 0
    assert h.wait() == 1
    assert holds(tensor, seed)
    os.unlink(name)


@each([3 * GIB + 513])
def it_may_begin_anywhere_at(offset):
    size = 2 * GIB + 1
    room(size, size)
    name, seed = path(), offset % 1000
    tensor = torch.empty(size, dtype=torch.uint8)
    fill(tensor, seed)
    h = aio_handle(8 * MIB, 8, False, False, 1)
    assert h.async_pwrite(tensor, name, offset) == 0
    assert h.wait() == 1
    assert os.path.getsize(name) == offset + size and file_holds(name, offset, size, seed)
    tensor.zero_()
    assert h.sync_pread(tensor, name, offset) == 1
    assert holds(tensor, seed)
    os.unlink(name)


@case
def a_tensor_with_gaps_may_be_as_large():
    rows, columns = 2500, MIB
    size = rows * (columns - 4099)
    room(rows * columns, size)
    name = path()
    tensor = torch.empty(rows * columns, dtype=torch.uint8)
    fill(tensor, 5)
    inner = tensor.view(rows, columns)[:, 3:-4096]
    h = aio_handle(MIB, 32, False, True, 1)
    assert h.sync_pwrite(inner, name) == 1
    assert os.path.getsize(name) == size > 2 * GIB
    inner.zero_()
    assert h.sync_pread(inner, name) == 1
    assert holds(tensor, 5)
    os.unlink(name)


@case
def a_handle_of_the_package_moves_as_much():
    size = 2 * GIB + 4097
    room(size, size)
    name = path()
    memory = mmap.mmap(-1, size)
    tensor = torch.frombuffer(memory, dtype=torch.uint8)
    fill(tensor, 9)
    with penstock.Handle() as h:
        assert h.write(memory, name) == size
        assert file_holds(name, 0, size, 9)
        tensor.zero_()
        assert h.read_async(memory, name).result() == size
        assert holds(tensor, 9)
    os.unlink(name)


@case
def a_store_keeps_a_value_of_1_GiB():
    room(GIB, 3 * GIB)
    name = path()
    tensor = torch.empty(GIB, dtype=torch.uint8)
    fill(tensor, 10)
    with penstock.Store(name, 5 * GIB // 2) as store:
        assert store.set('large', tensor) and store.set('empty', b'')
        tensor.zero_()
    with penstock.Store(name, 5 * GIB // 2) as store:
        assert store.get_many(['large', 'empty'], [tensor, bytearray()]) == [True, True]
        assert holds(tensor, 10)
    shutil.rmtree(name)


@case
def a_checkpoint_takes_as_much_in_one_write():
    size = 2 * GIB + 123
    room(size, size)
    name = path()
    tensor = torch.empty(size, dtype=torch.uint8)
    fill(tensor, 11)
    h = aio_handle(8 * MIB, 8, False, True, 1)
    pinned = h.new_cpu_locked_tensor(64 * MIB, tensor)
    with FastFileWriter(name, FastFileWriterConfig(h, pinned)) as writer:
        assert writer.write(tensor) == size
    assert h.free_cpu_locked_tensor(pinned)
    assert os.path.getsize(name) == size and file_holds(name, 0, size, 11)
    os.unlink(name)


@case
def archives_of_more_than_4_GiB_have_their_large_numbers():
    import zipfile

    from penstock._penstock import ReaderCore, WriterCore, crc32

    size = 4 * GIB + 5
    room(0, size)
    zeros, name = mmap.mmap(-1, size, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE), path('large.pt')
    at = torch.frombuffer(zeros, dtype=torch.uint8).data_ptr()
    output = WriterCore(name, durable=False, checksum=False)
    output.archive(64)
    output.add('a/data/0', at, size)
    output.add_bytes('a/data/1', b'behind it')
    output.end_archive()
    output.commit()
    found = {name: (offset, length) for name, offset, length in ReaderCore(name).records()}
    with zipfile.ZipFile(name) as z:
        infos = {info.filename: info for info in z.infolist()}
        assert z.read('a/data/1') == b'behind it' and list(found) == list(infos)
        assert [infos[key].file_size for key in infos] == [found[key][1] for key in infos] == [size, 9, 40]
        assert infos['a/data/1'].header_offset > 1 << 32
        assert infos['a/data/0'].CRC == crc32(zeros)
    with open(name, 'rb') as file:
        file.seek(found['a/data/1'][0])
        assert found['a/data/1'][0] % 64 == 0 and file.read(9) == b'behind it'
    os.unlink(name)


run(*cases)
