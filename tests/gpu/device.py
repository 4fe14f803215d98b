# SPDX-License-Identifier: Apache-2.0
"""Device memory against checksums that the device computes; for tests/gpu/run.sh.

    device.py [WAY]

WAY is what the engine cufile must say of its transfers: pinned_pool (cuFile refuses the files here; then
only this engine is tried), cufile or cufile-compat; without it any will do.
"""
import os
import sys
import threading

from kit import MIB, case, cases, each, handle, path, raises, run

import penstock
import torch

WAY = sys.argv[1] if len(sys.argv) > 1 else ''
GIB = 1 << 30
CHUNK = 64 * MIB
# Around every size at which the way changes: sector, page, blocks, pieces of the pinned pool, requests of
# cuFile, the pinned pool itself.
SIZES = [1, 7, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537, MIB - 1, MIB, MIB + 1,
         4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 16 * MIB + 1, 33 * MIB + 513, 65 * MIB + 1]
OFFSETS = [(0, 0), (1, 0), (0, 1), (511, 13), (4096, 512), (4097, 4095), (3 * MIB + 5, 77)]


def engines():
    usable = {e['name'] for e in penstock.info()['engines'] if e['usable']} - {'null', 'fault'}
    return sorted(usable & {'cufile'} if WAY == 'pinned_pool' else usable)


def checksum(bytes_, at=0):
    """Of every byte and its place; computed where the tensor is.  @at: of the first, a multiple of 8."""
    total = 0
    for first in range(0, len(bytes_), CHUNK):
        part = bytes_[first:first + CHUNK]
        words = torch.zeros((len(part) + 7) // 8 * 8, dtype=torch.uint8, device=part.device)
        words[:len(part)] = part
        words = words.view(torch.int64)
        place = torch.arange(len(words), device=part.device) + (at + first) // 8
        total += int(((words ^ place) * (2 * place + 0x9e3779b97f4a7c1)).sum())
    return total % (1 << 64)


def checksum_of_file(name, offset):
    """The same of a file, which gets to the device without us."""
    total, at, chunk = 0, 0, bytearray(min(CHUNK, os.path.getsize(name)))
    with open(name, 'rb') as f:
        f.seek(offset)
        while n := f.readinto(chunk):
            total += checksum(torch.frombuffer(chunk, dtype=torch.uint8)[:n].to('cuda'), at)
            at += n
    return total % (1 << 64)


def random(nbytes, seed=1):
    generator = torch.Generator('cuda').manual_seed(seed)
    return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device='cuda', generator=generator)


def there_and_back(h, size, offset=0, skip=0, seed=1, back=None):
    """Write and read at an odd place; the bytes around must stay."""
    name, whole = path(), random(size + skip + 9, seed)
    want = checksum(whole[skip:skip + size])
    assert h.write(whole[skip:skip + size], name, offset) == size
    assert os.path.getsize(name) == offset + size
    assert checksum_of_file(name, offset) == want, f'{size} at {offset}, written'
    got = torch.full_like(whole, 0xa5)
    assert (back or h).read(got[skip:skip + size], name, offset) == size
    assert checksum(got[skip:skip + size]) == want, f'{size} at {offset}, read'
    assert bool((got[:skip] == 0xa5).all()) and bool((got[skip + size:] == 0xa5).all())
    os.unlink(name)


def in_threads(*functions):
    failures = []

    def guarded(function):
        try:
            function()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


@case
def the_checksum_sees_one_byte_and_its_place():
    a, b = random(100003), random(100003)
    assert checksum(a) == checksum(b) == checksum(a.cpu())
    b[99999] ^= 1
    assert checksum(a) != checksum(b)
    b.copy_(a.roll(8))
    assert checksum(a) != checksum(b)


@each([(e, d) for e in engines() for d in ('auto', 'never')])
def every_size_class_and_offset(case):
    engine, direct = case
    with handle(engine, direct=direct) as h:
        for i, size in enumerate(SIZES):
            for j, (offset, skip) in enumerate(OFFSETS):
                if size < 20 * MIB or j in (0, 1 + i % 6):
                    there_and_back(h, size, offset, skip, seed=i * 10 + j)


@each(engines())
def one_operation_of_more_than_3_GiB(engine):
    with handle(engine) as h:
        there_and_back(h, 3 * GIB + 4097, *((4097, 1) if engine == 'threads' else (0, 0)))
        assert h.stats()['pinned_pool_bytes'] <= 256 * MIB


@each([(e, o) for e in engines() for o in engines() if e <= o])
def two_handles_at_once(case):
    with handle(case[0]) as one, handle(case[1]) as other:
        tensor, names = random(128 * MIB + 14), [path(), path()]
        halves = tensor[:64 * MIB + 7], tensor[64 * MIB + 7:]
        want = [checksum(half) for half in halves]
        flights = [h.write_async(half, name) for h, half, name in zip((one, other), halves, names)]
        assert [f.result() for f in flights] == [len(half) for half in halves]
        assert [checksum_of_file(name, 0) for name in names] == want
        tensor.zero_()
        flights = [h.read_async(half, name) for h, half, name in zip((other, one), halves, names)]
        assert [f.result() for f in flights] == [len(half) for half in halves]
        assert [checksum(half) for half in halves] == want
        there_and_back(one, 5 * MIB + 3, 77, 5, back=other)


@each(engines())
def two_threads_with_one_handle(engine):
    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(12):
                there_and_back(h, SIZES[(i * 7 + seed) % 17], *OFFSETS[i % 7], seed=seed * 100 + i)
            there_and_back(h, 40 * MIB + seed, seed, seed, seed=seed)

    with handle(engine, threads=2) as h:
        in_threads(lambda: work(1), lambda: work(2))


@each(engines())
def two_threads_with_a_handle_each(engine):
    def work(seed):
        with handle(engine) as h:
            for i in range(6):
                there_and_back(h, 7 * MIB + i * 511 + seed, i * 513, i, seed=seed * 100 + i)

    in_threads(lambda: work(1), lambda: work(2))


@case
def many_in_flight_of_all_sizes():
    with handle(threads=2) as h:
        tensors = [random(SIZES[i % 17] + i, i) for i in range(170)]
        names = [path() for _ in tensors]
        want = [checksum(t) for t in tensors]
        h.write_batch([(t, name, i) for i, (t, name) in enumerate(zip(tensors, names))])
        assert [checksum_of_file(name, i) for i, name in enumerate(names)] == want
        for t in tensors:
            t.zero_()
        h.read_batch([(t, name, i) for i, (t, name) in enumerate(zip(tensors, names))])
        assert [checksum(t) for t in tensors] == want
        for name in names:
            os.unlink(name)


@case
def cufile_or_its_fallback_is_told():
    if 'cufile' not in engines():
        assert not WAY, 'the engine cufile is not usable'
        return
    with handle('cufile') as h:
        tensor, name = random(40 * MIB), path()
        h.register(tensor)
        flight = h.write_async(tensor, name)
        flight.result()
        assert checksum_of_file(name, 0) == checksum(tensor)
        ways = {'pinned_pool', 'cufile', 'cufile-compat'} & set(flight.ways)
        stats = h.stats()
        assert len(ways) == 1 and (not WAY or ways == {WAY}), flight.ways
        assert (ways == {'pinned_pool'}) == ('cufile' in stats['fallbacks']), stats
        assert ways != {'pinned_pool'} or 'CU_FILE_' in stats['fallback_why'], stats


@case
def a_failure_leaves_the_handle_usable():
    with handle() as h:
        raises(FileNotFoundError, h.read, random(10), path('missing'))
        raises(OSError, h.write, random(10), '/dev/full', 0)
        there_and_back(h, MIB + 1)


run(*cases)
