# SPDX-License-Identifier: Apache-2.0
"""penstock.deepspeed.aio_handle: what it is made with, every method, how operations are counted."""
import contextlib
import copy
import errno
import filecmp
import gc
import inspect
import io
import itertools
import os
import pathlib
import pickle
import stat
import threading
import weakref

import kit
from kit import MIB, BlockingMemory, case, cases, content, data, each, make, no_switching, path, raises
from tap import Skip, run

try:
    import torch
except ImportError:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

from penstock.deepspeed import aio_handle, gds_handle

METHODS = ('sync_pread', 'sync_pwrite', 'async_pread', 'async_pwrite')


def tensor(nbytes, seed=1):
    """A tensor of random bytes."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(bytearray(data(nbytes, seed)), dtype=torch.uint8)


def raw(t):
    """The bytes of a tensor in C order."""
    t = t.detach().resolve_conj().contiguous()
    return bytes(t.reshape(-1).view(torch.uint8).tolist())


def gate_tensor(gate):
    return torch.frombuffer(gate.memory, dtype=torch.uint8)


# ------------------------------------------------------------------ construction

@case
def the_defaults_are_deepspeeds():
    h = aio_handle()
    assert h.get_block_size() == 1048576
    assert h.get_queue_depth() == 128
    assert h.get_single_submit() is False
    assert h.get_overlap_events() is False
    assert h.get_intra_op_parallelism() == 1
    assert h.get_thread_count() == 1
    assert h.get_alignment() == 512
    names = list(inspect.signature(aio_handle).parameters)
    assert names[:5] == ['block_size', 'queue_depth', 'single_submit', 'overlap_events',
                         'intra_op_parallelism']


@case
def it_is_made_by_position():
    h = aio_handle(1024, 2, True, True, 2)
    assert (h.get_block_size(), h.get_queue_depth(), h.get_single_submit(), h.get_overlap_events(),
            h.get_intra_op_parallelism()) == (1024, 2, True, True, 2)
    assert h.get_alignment() == 1024


@case
def it_is_made_by_keyword():
    h = aio_handle(intra_op_parallelism=3, overlap_events=True, single_submit=False, queue_depth=7,
                   block_size=8192)
    assert (h.get_block_size(), h.get_queue_depth(), h.get_single_submit(), h.get_overlap_events(),
            h.get_intra_op_parallelism()) == (8192, 7, False, True, 3)


@each(['num_threads', 'thread_count', 'intra_op_parallelism'])
def the_number_of_threads_has_had_names(name):
    h = aio_handle(**{name: 4})
    assert h.get_intra_op_parallelism() == h.get_thread_count() == 4
    assert h.get_alignment() == 2048


@case
def two_names_must_agree():
    assert aio_handle(num_threads=2, thread_count=2).get_thread_count() == 2
    assert aio_handle(intra_op_parallelism=2, num_threads=2).get_thread_count() == 2
    for values in ({'num_threads': 2, 'thread_count': 3},
                   {'intra_op_parallelism': 1, 'num_threads': 2},
                   {'intra_op_parallelism': 4, 'thread_count': 2}):
        e = raises(TypeError, aio_handle, **values)
        assert all(name in str(e) for name in values), e


@each(['block_size', 'queue_depth', 'intra_op_parallelism', 'num_threads', 'thread_count'])
def numbers_are_c_ints(name):
    for value in (1 << 31, 1 << 64, -(1 << 31) - 1, 1.0, '8', [8]):
        e = raises(TypeError, aio_handle, **{name: value})
        assert name in str(e) and ('1..2147483647' in str(e)) == isinstance(value, int), e
    for value in (0, -1, -(1 << 31)):
        e = raises(ValueError, aio_handle, **{name: value})
        assert name in str(e) and '1..2147483647' in str(e), e


@each(['single_submit', 'overlap_events'])
def flags_are_no_text(name):
    for value in ('true', 'false', [], ()):
        raises(TypeError, aio_handle, **{name: value})
    h = aio_handle(**{name: 1})
    assert getattr(h, f'get_{name}')() is True


@case
def unknown_keywords_are_refused():
    raises(TypeError, aio_handle, depth=3)
    raises(TypeError, aio_handle, 1, 2, False, False, 1, 6)


@each([(1 << 31) - 512, 1 << 30, 1000, 513, 1])
def any_block_size_works_and_is_told_as_given(block):
    want = tensor(100003)
    h = aio_handle(block, 4, False, True, 1)
    assert h.get_block_size() == block
    name = path()
    assert h.sync_pwrite(want, name) == 1
    assert content(name) == raw(want)


@case
def more_than_the_library_takes_is_made_to_fit():
    h = aio_handle(1 << 16, 100000, False, False, 1000)
    assert h.get_queue_depth() == 100000 and h.get_intra_op_parallelism() == 1000
    assert h.get_alignment() == 512000
    want, name = tensor(MIB + 1), path()
    assert h.sync_pwrite(want, name) == 1
    assert content(name) == raw(want)


@each([(65536, 16, False, True, 1), (65536, 16, True, False, 3), (MIB, 4, False, False, 2)])
def what_it_was_made_with_is_what_is_done(options):
    block, depth, single, overlap, threads = options
    h = aio_handle(block, depth, single, overlap, threads)
    t = h.new_cpu_locked_tensor(16 * MIB, torch.empty(0, dtype=torch.uint8))
    assert h.async_pread(t, make(bytes(16 * MIB))) == 0 and h.wait() == 1
    stats = h._io._handle.stats()
    assert stats['threads'] == threads and stats['depth'] == depth, stats
    assert stats['blocks'] == 16 * MIB // block, stats
    assert (stats['submit_calls'] == stats['blocks']) is single, stats
    assert h.free_cpu_locked_tensor(t)


@each([aio_handle, gds_handle])
def it_is_no_thing_to_pickle_or_copy(kind):
    h = kind()
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        e = raises(TypeError, function, h)
        assert kind.__name__ in str(e), e
    assert h.wait() == 0


# ------------------------------------------------------------------ the table of methods

@case
def read_and_write_give_0():
    want, name = tensor(70001), path()
    h = aio_handle()
    assert h.write(want, name, False) == 0
    assert content(name) == raw(want)
    got = torch.zeros_like(want)
    assert h.read(got, name, False) == 0
    assert torch.equal(got, want)
    assert h.write(want[:10], name, validate=False, file_offset=100) == 0
    assert h.read(buffer=got[:10], filename=name, validate=False, file_offset=100) == 0
    assert torch.equal(got[:10], want[:10])


@case
def read_and_write_leave_alone_what_is_pending():
    want, name, other = tensor(4096), path(), path()
    h = aio_handle()
    assert h.async_pwrite(want, name) == 0
    assert h.write(want, other, False) == 0
    assert h.write(tensor(3 * MIB), other, False) == 0
    assert h.wait() == 1


@case
def pread_and_pwrite_wait_or_not():
    want, name = tensor(5 * MIB + 1), path()
    got = torch.zeros_like(want)
    h = aio_handle()
    assert h.pwrite(want, name, False, False) == 1
    assert content(name) == raw(want)
    assert h.pread(got, name, False, False) == 1
    assert torch.equal(got, want)
    assert h.pwrite(want, name, False, True) == 0
    assert h.wait() == 1
    got.zero_()
    assert h.pread(got, name, False, True) == 0
    assert h.wait() == 1
    assert torch.equal(got, want)
    assert h.pread(got[:100], name, False, True, 77) == 0
    assert h.wait() == 1
    assert torch.equal(got[:100], want[77:177])


@case
def async_is_a_keyword_all_the_same():
    want, name = tensor(1000), path()
    h = aio_handle()
    asynchronous = {'async': True}
    assert h.pwrite(buffer=want, filename=name, validate=False, **asynchronous, file_offset=0) == 0
    assert h.wait() == 1
    got = torch.zeros_like(want)
    assert h.pread(got, name, False, **{'async': False}) == 1
    assert torch.equal(got, want)
    assert h.pread(got, name, validate=False, **{'async': False, 'file_offset': 0}) == 1


@each(['pread', 'pwrite'])
def validate_and_async_have_no_defaults(method):
    call, t, name = getattr(aio_handle(), method), tensor(10), path()
    raises(TypeError, call, t, name)
    e = raises(TypeError, call, t, name, False)
    assert "'async'" in str(e), e
    raises(TypeError, call, t, name, False, True, 0, 0)
    raises(TypeError, call, t, name, False, True, **{'async': True})
    raises(TypeError, call, t, name, False, True, offset=3)
    raises(TypeError, call, t, name, False, 'yes')
    raises(TypeError, call, t, name, 'no', True)
    assert not os.path.exists(name)


@each(['read', 'write'])
def validate_of_read_and_write_has_no_default(method):
    raises(TypeError, getattr(aio_handle(), method), tensor(10), path())


@case
def sync_methods_give_1():
    want, name = tensor(12345), path()
    h = aio_handle()
    assert h.sync_pwrite(want, name) == 1
    assert h.sync_pwrite(want, name, 12345) == 1
    got = torch.zeros(24690, dtype=torch.uint8)
    assert h.sync_pread(got, name) == 1
    assert raw(got) == 2 * raw(want)
    assert h.sync_pread(got[:10], name, 5) == 1
    assert torch.equal(got[:10], want[5:15])
    assert h.sync_pread(buffer=got[:10], filename=name, file_offset=6) == 1
    assert h.sync_pwrite(buffer=want, filename=name, file_offset=0) == 1


@case
def async_methods_give_0():
    want, name = tensor(12345), path()
    h = aio_handle()
    assert h.async_pwrite(want, name) == 0
    assert h.wait() == 1
    assert h.async_pwrite(buffer=want, filename=name, file_offset=12345) == 0
    assert h.wait() == 1
    got = torch.zeros(24690, dtype=torch.uint8)
    assert h.async_pread(got, name, 0) == 0
    assert h.wait() == 1
    assert raw(got) == 2 * raw(want)
    assert h.async_pread(buffer=got[:7], filename=name, file_offset=1) == 0
    assert h.wait() == 1
    assert torch.equal(got[:7], want[1:8])


@case
def a_descriptor_takes_the_place_of_a_name():
    want, name = tensor(1000), path()
    h = aio_handle()
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        assert h.async_pwrite(want, fd, 0) == 0
        assert h.wait() == 1
        assert h.async_pwrite(buffer=want, fd=fd, file_offset=1000) == 0
        assert h.wait() == 1
        assert content(name) == 2 * raw(want)
        got = torch.zeros_like(want)
        assert h.async_pread(got, fd, 1000) == 0
        assert h.wait() == 1
        assert torch.equal(got, want)
        assert h.sync_pread(buffer=got, fd=fd) == 1
        assert h.sync_pwrite(got, fd, 2000) == 1
        assert len(content(name)) == 3000
        os.fstat(fd)  # still the caller's
    finally:
        os.close(fd)
    raises(TypeError, h.async_pwrite, want, name, fd=3)
    raises(TypeError, h.async_pwrite, want, file_offset=0)


@each(METHODS)
def a_descriptor_is_any_integer_but_no_bool(method):
    class Number:
        def __index__(self):
            return fd

    call, t = getattr(aio_handle(), method), tensor(100)
    with open(make(raw(t)), 'r+b') as f:
        fd = f.fileno()
        count = 1 if method.startswith('sync') else 0
        assert call(t, Number()) == call(t, fd=Number()) == count
        for wrong in (True, False):
            assert 'fd' in str(raises(TypeError, call, t, fd=wrong))
            assert 'filename' in str(raises(TypeError, call, t, wrong))
        for wrong in (1.5, '3', 1 << 31):
            assert 'fd' in str(raises(TypeError, call, t, fd=wrong))


@each(METHODS)
def every_method_has_its_name_and_its_parameters(method):
    function = getattr(aio_handle, method)
    assert function.__name__ == method and function.__qualname__ == f'aio_handle.{method}'
    names = ['self', 'buffer', 'filename', 'file_offset', 'fd']
    assert list(inspect.signature(function).parameters) == names
    assert list(inspect.signature(getattr(aio_handle(), method)).parameters) == names[1:]


@case
def a_descriptor_with_o_direct_takes_odd_lengths():
    want, name = tensor(3 * 4096 + 123), path()
    fd = direct(name)
    h = aio_handle(1024, 2, False, True, 2)
    try:
        assert h.async_pwrite(want, fd, 0) == 0
        assert h.wait() == 1
        assert h.async_pwrite(want, fd, len(want)) == 0
        assert h.wait() == 1
    finally:
        os.close(fd)
    assert content(name) == 2 * raw(want)


def direct(name):
    flags = os.O_CREAT | os.O_WRONLY
    try:
        return os.open(name, flags | os.O_DIRECT, 0o644)
    except OSError:
        return os.open(name, flags, 0o644)


@case
def a_name_is_str_bytes_or_path():
    want, name = tensor(1000), path('näme')
    h = aio_handle()
    for given in (name, os.fsencode(name), pathlib.Path(name)):
        assert h.sync_pwrite(want, given) == 1
        assert content(name) == raw(want)
        got = torch.zeros_like(want)
        assert h.sync_pread(got, given) == 1
        assert torch.equal(got, want)
        os.unlink(name)


@each(METHODS)
def wrong_types_are_type_errors(method):
    name = make(bytes(100))
    call = getattr(aio_handle(), method)
    t = tensor(100)
    for buffer in (bytearray(100), raw(t), None, 100, name):
        e = raises(TypeError, call, buffer, name)
        assert 'buffer' in str(e), e
    for filename in (None, 1.5, True, [name], t):
        e = raises(TypeError, call, t, filename)
        assert 'filename' in str(e), e
    for offset in ('0', 1.0, None, 1 << 63):
        e = raises(TypeError, call, t, name, offset)
        assert 'file_offset' in str(e), e
    e = raises(ValueError, call, t, name, -1)
    assert 'file_offset' in str(e), e
    assert content(name) == bytes(100)


# ------------------------------------------------------------------ files

@case
def new_files_are_for_the_owner_only():
    before = os.umask(0)
    try:
        name = path()
        assert aio_handle().sync_pwrite(tensor(10), name) == 1
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600
    finally:
        os.umask(before)


@case
def a_shorter_write_keeps_the_tail():
    old, h = data(2 * MIB, seed=9), aio_handle()
    for size in (5000, MIB + 5000):
        for write in (h.sync_pwrite, h.async_pwrite, lambda *a: h.write(*a, False)):
            name, want = make(old), tensor(size)
            assert write(want, name) == (1 if write == h.sync_pwrite else 0)
            h.wait()
            assert content(name) == raw(want) + old[size:]


@case
def a_write_past_the_end_leaves_a_hole():
    name = make(b'abc')
    want = tensor(1000)
    assert aio_handle().sync_pwrite(want, name, 100000) == 1
    assert content(name) == b'abc' + bytes(99997) + raw(want)


@case
def a_longer_file_is_read_in_part():
    old = data(100001, seed=9)
    name = make(old)
    got = torch.zeros(1000, dtype=torch.uint8)
    h = aio_handle()
    for offset in (0, 1, 512, 99001):
        assert h.sync_pread(got, name, offset) == 1
        assert raw(got) == old[offset:offset + 1000]


@case
def reads_of_one_file_see_what_takes_its_place():
    h, name, other = aio_handle(), make(data(8192, 1)), path('other')
    for step in range(4):
        for seed in (1, 2):
            with open(other, 'wb') as f:
                f.write(data(8192, seed))
            os.replace(other, name)
            parts = [torch.zeros(4096, dtype=torch.uint8) for _ in range(6)]
            for i, part in enumerate(parts):
                assert h.async_pread(part, name, 4096 * (i % 2)) == 0
            if step % 2:
                assert h.wait() == 6
            else:  # others wait, the file stays as it is
                assert h.sync_pread(torch.zeros(10, dtype=torch.uint8), name) == 7
            for i, part in enumerate(parts):
                assert raw(part) == data(8192, seed)[4096 * (i % 2):][:4096]
    parts = [torch.zeros(8192, dtype=torch.uint8) for _ in range(6)]
    for i, part in enumerate(parts):
        if i == 3:  # while it is open
            with open(other, 'wb') as f:
                f.write(data(8192, 3))
            os.replace(other, name)
        assert h.async_pread(part, name) == 0
    assert h.wait() == 6 and [raw(part) for part in parts] == [data(8192, 2)] * 3 + [data(8192, 3)] * 3
    os.truncate(name, 5)
    with contextlib.redirect_stderr(io.StringIO()):
        assert h.async_pread(torch.zeros(10, dtype=torch.uint8), name) == -1
    h.wait()
    assert h._io._last_read is None, 'a file stays open after wait()'


@case
def ten_thousand_operations_leave_no_descriptor():
    before = kit.descriptors()
    h, name, t = aio_handle(), path(), tensor(1000)
    after_open = set(kit.descriptors())
    with contextlib.redirect_stderr(io.StringIO()):
        for _ in range(2500):
            assert h.async_pwrite(t, name) == 0
            assert h.sync_pread(t, name) == 2
            assert h.sync_pread(t, name + 'x') == -1
            assert h.read(t, name, False) == 0
    assert set(kit.descriptors()) == after_open
    h.close()
    assert not set(kit.descriptors().values()) - set(before.values())


# ------------------------------------------------------------------ sizes, offsets, tensors

@each([1048577, 1000, 12000, 0, 1, 511, 513, 4095, 4097])
def every_size_is_written_and_read(size):
    want, name = tensor(size), path()
    for threads in (1, 3):
        h = aio_handle(1024, 8, False, True, threads)
        assert h.sync_pwrite(want, name) == 1
        assert content(name) == raw(want)
        for longer in (0, 3096):
            os.truncate(name, size + longer)
            got = torch.full((size,), 7, dtype=torch.uint8)
            assert h.sync_pread(got, name) == 1
            assert torch.equal(got, want)
        os.unlink(name)


@case
def every_address_and_offset_works():
    h = aio_handle(4096, 8, False, True, 2)
    pinned = h.new_cpu_locked_tensor(20000, torch.empty(0, dtype=torch.uint8))
    source = tensor(20000)
    places = itertools.product((0, 1, 512, 4095), (0, 100, 512, 4097), (1000, 4096))
    for address, offset, size in places:
        old = data(10000, seed=3)
        name = make(old)
        piece = pinned[address:address + size]
        piece.copy_(source[:size])
        assert h.sync_pwrite(piece, name, offset) == 1
        expected = old[:offset] + raw(piece) + old[offset + size:]
        assert content(name) == expected
        piece.zero_()
        assert h.async_pread(piece, name, offset) == 0
        assert h.wait() == 1
        assert torch.equal(piece, source[:size])
        os.unlink(name)
    assert h.free_cpu_locked_tensor(pinned)


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16,
          torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.complex128]


@each(DTYPES)
def every_dtype_is_bytes(dtype):
    want = torch.arange(1000).remainder(2).to(dtype)
    name, got = path(), torch.zeros(1000, dtype=dtype)
    h = aio_handle()
    assert h.sync_pwrite(want, name) == 1
    assert content(name) == raw(want)
    assert h.sync_pread(got, name) == 1
    assert torch.equal(got, want)


LAYOUTS = {
    '3-D': lambda t: t.reshape(2, 3, -1),
    '0-D': lambda t: t[5],
    'every second': lambda t: t[::2],
    'transposed': lambda t: t.reshape(6, -1).t(),
    'permuted': lambda t: t.reshape(2, 3, -1).permute(2, 0, 1),
    'columns': lambda t: t.reshape(60, -1)[:, 3:77],
    'requires grad': lambda t: t.requires_grad_(),
    'parameter': lambda t: torch.nn.Parameter(t),
    'one element': lambda t: t[7:8],
    'none': lambda t: t[7:7],
}


@each(LAYOUTS)
def every_layout_is_its_values_in_order(kind):
    h = aio_handle(4096, 8)
    for pinned in (False, True):
        source = torch.arange(6000, dtype=torch.float32)
        target = torch.full((6000,), -1.)
        if pinned:
            source = h.new_cpu_locked_tensor(6000, source).copy_(source)
            target = h.new_cpu_locked_tensor(6000, target).copy_(target)
        want, got, name = LAYOUTS[kind](source), LAYOUTS[kind](target), path()
        assert h.async_pwrite(want, name) == 0
        assert h.wait() == 1
        assert content(name) == raw(want)
        assert h.async_pread(got, name) == 0
        assert h.wait() == 1
        assert torch.equal(got, want)
        touched = int((target != -1).sum())
        assert touched == want.numel(), 'other elements were touched'


@case
def elements_that_share_memory_are_not_read_into():
    t = torch.zeros(1).expand(1000)
    name = path()
    h = aio_handle()
    assert h.sync_pwrite(t, name) == 1
    assert content(name) == bytes(4000)
    raises(ValueError, h.sync_pread, t, name)
    raises(ValueError, h.async_pread, t, name)
    assert h.wait() == 0


# ------------------------------------------------------------------ DeepSpeed's own matrix

IO_SIZE = 4096


def buffers(h, pinned, unpinned, fill=None):
    if unpinned or pinned:  # a CPU accelerator's pin_memory() is the tensor itself
        t = torch.empty(IO_SIZE, dtype=torch.uint8)
    else:
        t = h.new_cpu_locked_tensor(IO_SIZE, torch.empty(0, dtype=torch.uint8))
    return t if fill is None else t.copy_(fill)


MATRIX = list(itertools.product((False, True), repeat=4))


@each(MATRIX)
def reads_and_writes_as_deepspeed_tests_them_pinned_single_overlap_unpinned(combination):
    pinned, single, overlap, unpinned = combination
    want = tensor(IO_SIZE)
    reference = make(raw(want))
    h = aio_handle(1024, 2, single, overlap, 2)
    assert (h.get_block_size(), h.get_queue_depth(), h.get_single_submit(), h.get_overlap_events(),
            h.get_intra_op_parallelism()) == (1024, 2, single, overlap, 2)
    got = buffers(h, pinned, unpinned)
    assert h.sync_pread(got, reference, 0) == 1
    assert torch.equal(got, want)
    got.zero_()
    assert h.async_pread(got, reference, 0) == 0
    assert h.wait() == 1
    assert torch.equal(got, want)
    source = buffers(h, pinned, unpinned, want)
    for submit, count in ((h.sync_pwrite, 1), (h.async_pwrite, 0)):
        name = path()
        assert submit(source, name, 0) == count
        assert count or h.wait() == 1
        assert os.path.isfile(name) and filecmp.cmp(reference, name, shallow=False)
    freed = h.free_cpu_locked_tensor(got), h.free_cpu_locked_tensor(source)
    assert freed == ((False, False) if pinned or unpinned else (True, True))


@each(list(itertools.product((False, True), (2, 3))))
def one_wait_ends_many_pinned_files(combination):
    pinned, number = combination
    h = aio_handle(1024, 2, False, True, 2)
    wants = [tensor(IO_SIZE, seed=i) for i in range(number)]
    names = [path() for _ in wants]
    for want, name in zip(wants, names):
        assert h.async_pwrite(buffers(h, not pinned, False, want), name, 0) == 0
    assert h.wait() == number
    assert [content(name) for name in names] == [raw(want) for want in wants]
    gots = [buffers(h, not pinned, False) for _ in wants]
    for got, name in zip(gots, names):
        assert h.async_pread(got, name, 0) == 0
    assert h.wait() == number
    assert all(map(torch.equal, gots, wants))


PARTS = ([1, 1, 1], [1, 1, 2], [1, 2, 1], [2, 1, 1])  # of 1024 bytes


@each(list(itertools.product((False, True), PARTS, (False, True))))
def parts_at_offsets_make_a_file_pinned_parts_fd(combination):
    pinned, parts, use_fd = combination
    total = sum(parts) * 1024
    h = aio_handle(1024, 2, False, True, 2)
    want = tensor(total)
    source = h.new_cpu_locked_tensor(total, want).copy_(want) if pinned else want
    name, at = path(), 0
    for units in parts:
        size = units * 1024
        piece = source.narrow(0, at, size)
        if use_fd:
            fd = direct(name)
            assert h.async_pwrite(buffer=piece, fd=fd, file_offset=at) == 0
        else:
            assert h.async_pwrite(buffer=piece, filename=name, file_offset=at) == 0
        assert h.wait() == 1
        if use_fd:
            os.close(fd)
        at += size
        assert content(name) == raw(want)[:at]
    got, at = torch.zeros(total, dtype=torch.uint8), 0
    for units in parts:
        piece = got.narrow(0, 0, units * 1024)
        assert h.sync_pread(piece, name, at) == 1
        assert torch.equal(piece, want[at:at + units * 1024])
        at += units * 1024


# ------------------------------------------------------------------ counting

@case
def nothing_pending_is_0():
    h = aio_handle()
    assert h.wait() == 0
    assert h.wait() == 0
    assert h.sync_pwrite(tensor(10), path()) == 1
    assert h.wait() == 0


@case
def reads_and_writes_are_counted_together_and_once():
    h, name = aio_handle(), make(data(1000))
    for _ in range(3):
        assert h.async_pread(torch.zeros(100), name) == 0
        assert h.async_pwrite(torch.zeros(100), path()) == 0
    assert h.wait() == 6
    assert h.wait() == 0


@each([100, 5 * MIB])
def a_synchronous_operation_ends_the_pending_ones_too_bytes(size):
    h, name = aio_handle(), path()
    assert h.async_pwrite(tensor(size), path()) == 0
    assert h.sync_pwrite(tensor(size), name) == 2
    assert h.wait() == 0
    for _ in range(4):
        assert h.async_pread(tensor(size, seed=2), name) == 0
    assert h.pread(tensor(size, seed=3), name, False, False) == 5
    assert h.wait() == 0


@case
def what_was_refused_is_not_counted():
    h, missing = aio_handle(), path('missing')
    assert h.async_pwrite(tensor(10), path()) == 0
    with contextlib.redirect_stderr(io.StringIO()):
        assert h.async_pread(tensor(10), missing) == -1
        assert h.sync_pread(tensor(10), missing) == -1
        assert h.pread(tensor(10), missing, False, False) == -1
    assert h.wait() == 1


@case
def thousands_of_small_operations_are_counted():
    h = aio_handle(4096, 32, False, True, 2)
    name = make(data(1000 * 100))
    want = content(name)
    gots = [torch.zeros(100, dtype=torch.uint8) for _ in range(1000)]
    for i, got in enumerate(gots):
        assert h.async_pread(got, name, 100 * i) == 0
    assert h.wait() == 1000
    assert b''.join(map(raw, gots)) == want


# ------------------------------------------------------------------ threads, references, the end

@case
def a_buffer_is_kept_until_somebody_waits():
    h, name = aio_handle(), path()
    t = tensor(4096)
    alive = weakref.ref(t)
    assert h.async_pwrite(t, name) == 0
    del t
    while h._io._handle.pending:
        os.sched_yield()
    gc.collect()
    assert alive() is not None
    assert h.wait() == 1
    gc.collect()
    assert alive() is None
    assert len(content(name)) == 4096


@each([4096, 3 * MIB])
def two_threads_get_their_own_count_bytes(size):
    h = aio_handle(65536, 8, False, True, 2)
    wants = [tensor(size, seed=i) for i in range(2)]
    names = [make(raw(want)) for want in wants]
    gots, results = [torch.zeros_like(want) for want in wants], [[], []]
    together = threading.Barrier(2)

    def work(i):
        together.wait()
        for _ in range(50):
            gots[i].zero_()
            results[i].append(h.sync_pread(gots[i], names[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[1] * 50, [1] * 50]
    assert all(map(torch.equal, gots, wants))


@case
def others_submit_while_one_waits():
    h = aio_handle(4096, 32, False, True, 2)
    name, counts = path(), []
    with BlockingMemory(data(4096)) as gate:
        assert h.async_pwrite(gate_tensor(gate), name) == 0
        waiter = threading.Thread(target=lambda: counts.append(h.wait()))
        waiter.start()
        while not h._io._pending.empty():  # until it has taken what is pending
            os.sched_yield()
        assert h.sync_pwrite(tensor(100), path()) == 1
        assert h.async_pwrite(tensor(100), path()) == 0
        assert counts == []
        gate.open()
        waiter.join()
    assert counts == [1]
    assert h.wait() == 1


@case
def a_second_wait_waits_for_what_the_first_has_taken():
    h = aio_handle(4096, 32, False, True, 2)
    order = []
    with BlockingMemory(data(4096)) as gate:
        assert h.async_pwrite(gate_tensor(gate), path()) == 0

        def wait():
            order.append(('counted', h.wait()))

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert gate.reached()
        assert order == []
        gate.open()
        for thread in threads:
            thread.join()
    assert sorted(order) == [('counted', 0), ('counted', 1)]


@each(['pread', 'pwrite', 'sync_pread', 'sync_pwrite', 'read', 'write', 'wait'])
def another_thread_runs_while_one_is_in(method):
    size = 3 * MIB
    h, t = aio_handle(65536, 4, False, True, 1), tensor(size)
    name = make(raw(t))

    def call():
        if method == 'wait':
            assert h.async_pread(t, name) == 0
            return h.wait()
        more = {'pread': (False, False), 'pwrite': (False, False), 'read': (False,),
                'write': (False,)}
        return getattr(h, method)(t, name, *more.get(method, ()))

    go, ran, seen = threading.Semaphore(0), threading.Semaphore(0), []
    steps = []

    def peer():
        while go.acquire() and not seen:
            steps.append(1)
            ran.release()
        ran.release()

    thread = threading.Thread(target=peer)
    with no_switching():
        thread.start()
        for _ in range(1000):
            before = len(steps)
            go.release()
            assert call() == (0 if method in ('read', 'write') else 1)
            progress = len(steps) > before
            ran.acquire()
            if progress:
                break
        seen.append(progress)
        go.release()
        thread.join()
    assert progress, 'the other thread never ran during the call'


@case
def a_dropped_handle_ends_what_is_pending():
    wants = [tensor(2 * MIB + i, seed=i) for i in range(4)]
    names = [path() for _ in wants]
    h = aio_handle(65536, 2, False, False, 1)
    for want, name in zip(wants, names):
        assert h.async_pwrite(want, name) == 0
    del h
    gc.collect()
    assert [content(name) for name in names] == [raw(want) for want in wants]


@case
def a_process_that_ends_finishes_what_is_pending():
    name = path()
    out = kit.child_ok('''
import sys, torch
from penstock.deepspeed import aio_handle
h = aio_handle(65536, 2)
assert h.async_pwrite(torch.full((3000001,), 5, dtype=torch.uint8), sys.argv[1]) == 0
''', name)
    assert out == ''
    assert content(name) == b'\5' * 3000001


@case
def it_can_be_closed():
    name = path()
    with aio_handle() as h:
        assert h.async_pwrite(tensor(1000), name) == 0
    assert len(content(name)) == 1000
    h.close()
    assert h.wait() == 0
    assert h.get_block_size() == MIB
    for call in (h.sync_pread, h.async_pread, h.sync_pwrite, h.async_pwrite):
        e = raises(ValueError, call, tensor(1000), name)
        assert 'closed' in str(e), e
    raises(RuntimeError, fail_inside, name)


def fail_inside(name):
    with aio_handle() as h:
        h.async_pread(tensor(1000), name)
        raise RuntimeError('the caller\'s own')


@case
def a_child_of_fork_leaves_its_parents_handle_alone():
    h = aio_handle()
    name, existing = path(), make(data(4096))
    with BlockingMemory(data(4096)) as gate:
        assert h.async_pwrite(gate_tensor(gate), name) == 0

        def child():
            nonlocal h
            for method in METHODS:
                e = raises(OSError, getattr(h, method), tensor(10), existing)
                assert e.errno == errno.ECHILD, (method, e)
            del h
            gc.collect()
            return True

        kit.in_fork(child)
        gate.open()
    assert h.wait() == 1
    assert len(content(name)) == 4096


# ------------------------------------------------------------------ gds_handle

@case
def a_gds_handle_does_the_same():
    h = gds_handle(256 << 10, 2, True, True, 2)
    assert isinstance(h, aio_handle)
    assert (h.get_block_size(), h.get_queue_depth(), h.get_single_submit(), h.get_overlap_events(),
            h.get_intra_op_parallelism()) == (256 << 10, 2, True, True, 2)
    assert h.get_alignment() == 512
    want, name = tensor(MIB + 1), path()
    assert h.async_pwrite(want, name) == 0
    assert h.wait() == 1
    got = torch.zeros_like(want)
    assert h.sync_pread(got, name) == 1
    assert torch.equal(got, want)
    locked = h.new_cpu_locked_tensor(10, want)
    assert h.is_pinned(locked) and h.free_cpu_locked_tensor(locked)


@case
def a_gds_handle_writes_nothing_into_the_current_folder():
    before, folder = os.getcwd(), path('folder')
    os.mkdir(folder)
    os.chdir(folder)
    try:
        environment = dict(os.environ)
        h = gds_handle()
        t = tensor(100)
        assert h.pin_device_tensor(t) is True and h.unpin_device_tensor(t) is True
        assert h.free_pinned_device_tensor(t) is True
        assert os.listdir('.') == [] and dict(os.environ) == environment
    finally:
        os.chdir(before)


@case
def without_cuda_there_is_no_device_tensor():
    if torch.cuda.is_available():
        raise Skip('cpu', 'there is a CUDA device')
    for keyword in ('example_tensor', 'example_tenosr'):
        e = raises(RuntimeError, gds_handle().new_pinned_device_tensor, 10,
                   **{keyword: torch.empty(0)})
        assert 'CUDA' in str(e), e
    raises(TypeError, gds_handle().new_pinned_device_tensor, 10)


@case
def with_cuda_device_tensors_are_moved():
    if not torch.cuda.is_available():
        raise Skip('cuda', 'no CUDA device')
    for h in (gds_handle(), aio_handle(1024, 2, False, True, 2)):
        want = torch.arange(100003, dtype=torch.int32, device='cuda')
        assert not h.is_pinned(want) and not h.free_cpu_locked_tensor(want)
        name, got = path(), torch.zeros_like(want)
        assert h.async_pwrite(want, name) == 0 and h.wait() == 1
        assert h.sync_pread(got, name) == 1
        assert torch.equal(got, want)
    t = gds_handle().new_pinned_device_tensor(10, torch.empty(0, dtype=torch.float16))
    assert t.is_cuda and t.dtype == torch.float16 and t.numel() == 10


run(*cases)
