# SPDX-License-Identifier: Apache-2.0
"""penstock.deepspeed.FastFileWriter and its kind: torch.save() through a handle, crash-safely."""
import array
import ast
import contextlib
import errno
import gc
import io
import os
import pathlib
import signal
import stat
import warnings

import kit
from kit import MIB, case, cases, content, data, each, make, path, raises
from mounts import mounted
from tap import run

try:
    import torch
except ImportError:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

import penstock.torch
from penstock.deepspeed import (FastFileWriter, FastFileWriterConfig, MockFileWriter, PyFileWriter,
                              aio_handle, cast_to_byte_tensor)

BYTE = torch.empty(0, dtype=torch.uint8)
FORMATS = {'zip': True, 'legacy': False}

handle = aio_handle(MIB, 8, False, True, 1)
locked = handle.new_cpu_locked_tensor(2 * MIB, BYTE)


def fast(name, h=handle, buffer=locked, **more):
    return FastFileWriter(name, FastFileWriterConfig(h, buffer, **more))


WRITERS = {
    'fast': fast,
    'one buffer': lambda name: fast(name, double_buffer=False),
    'small buffer': lambda name: fast(name, buffer=locked[:2048]),
    'plain tensor': lambda name: fast(name, buffer=torch.empty(MIB, dtype=torch.uint8)),
    'python': PyFileWriter,
}


def checkpoint():
    """Something to save: many small and a few large tensors, shared storages, and no tensors."""
    big = torch.arange(1500003, dtype=torch.float32)
    return {
        'big': big,
        'view': big[1000:2000],
        'half': torch.arange(300001).to(torch.bfloat16),
        'bool': torch.arange(1001).remainder(3) == 0,
        'small': [torch.full((i,), float(i)) for i in range(30)],
        'strided': torch.arange(6000).reshape(60, 100).t(),
        'text': 'x' * 1000,
        'empty': torch.empty(0),
    }


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def left_over(folder):
    return [n for n in os.listdir(folder) if '.penstock-' in n]


def names(folder):
    """Files, but for their checksums."""
    return [n for n in os.listdir(folder) if not n.endswith('.crc')]


def own_folder():
    folder = path('folder')
    os.mkdir(folder)
    return folder


# ------------------------------------------------------------------ torch.save()

@each([(w, f) for w in WRITERS for f in FORMATS])
def a_checkpoint_is_loaded_by_torch(combination):
    kind, form = combination
    want, name = checkpoint(), path()
    writer = WRITERS[kind](name)
    torch.save(want, f=writer, _use_new_zipfile_serialization=FORMATS[form])
    writer.close()
    assert same(torch.load(name), want)


@each(FORMATS)
def the_file_is_the_same_as_torchs_own_size(form):
    want, name, theirs = checkpoint(), path(), io.BytesIO()
    torch.save(want, theirs, _use_new_zipfile_serialization=FORMATS[form])
    with fast(name) as writer:
        torch.save(want, f=writer, _use_new_zipfile_serialization=FORMATS[form])
    assert os.path.getsize(name) == len(theirs.getvalue())


@each(FORMATS)
def an_old_file_is_replaced_whatever_its_size(form):
    name, folder = None, own_folder()
    name = os.path.join(folder, 'checkpoint')
    for size in (3000000, 10, 1000000, 1):
        want = torch.arange(size)
        writer = fast(name)
        torch.save(want, f=writer, _use_new_zipfile_serialization=FORMATS[form])
        writer.close()
        assert torch.equal(torch.load(name), want)
    assert names(folder) == ['checkpoint']


@each(WRITERS)
def pieces_of_every_size_make_the_file(kind):
    sizes = [0, 1, 511, 512, 513, 4096, 100000, MIB - 1, MIB, MIB + 1, 3 * MIB + 7, 5, 2 * MIB, 3]
    want, name = data(sum(sizes)), path()
    writer = WRITERS[kind](name)
    at = 0
    for size in sizes:
        assert writer.write(want[at:at + size]) == size
        at += size
    writer.close()
    assert content(name) == want


@each([0, 1, 511, 512, 4095, 4096, 4097, MIB, 2 * MIB, 2 * MIB + 1, 4 * MIB])
def files_of_every_size_end_right_bytes(size):
    want, name = data(size), path()
    for kind in WRITERS.values():
        writer = kind(name)
        assert writer.write(want) == size
        writer.close()
        assert content(name) == want


@case
def everything_with_bytes_can_be_written():
    name, numbers = path(), torch.arange(12, dtype=torch.float32)
    pieces = [b'bytes', bytearray(b'array'), memoryview(b'view'), memoryview(b'every second')[::2],
              memoryview(bytes(12)).cast('B', (3, 4)), array.array('d', [1, 2, 3]), numbers,
              numbers.reshape(3, 4).t(), numbers.to(torch.bfloat16), b'', torch.empty(0)]
    with contextlib.suppress(ImportError):
        import numpy
        pieces += [numpy.arange(10), numpy.arange(10)[::3], numpy.zeros((0, 3))]
    want = b''.join(
        bytes(p.contiguous().reshape(-1).view(torch.uint8).tolist()) if isinstance(p, torch.Tensor)
        else memoryview(p).tobytes() for p in pieces)
    with fast(name) as writer:
        lengths = [writer.write(piece) for piece in pieces]
    assert content(name) == want and sum(lengths) == len(want)
    with fast(name) as writer:
        for wrong in ('text', None, 5, [1]):
            raises(TypeError, writer.write, wrong)
        writer.write(b'still good')
    assert content(name) == b'still good'


@each([str, os.fsencode, pathlib.Path])
def a_path_may_be_of_any_kind(kind):
    name = path()
    for make_writer in (fast, PyFileWriter):
        with make_writer(kind(name)) as writer:
            writer.write(b'abc')
        assert writer.file_path() == name
        assert content(name) == b'abc'


@case
def the_locked_memory_can_be_used_again():
    names = [path() for _ in range(3)]
    for i, name in enumerate(names):
        with fast(name) as writer:
            writer.write(bytes([i]) * 3000001)
    assert [content(name) for name in names] == [bytes([i]) * 3000001 for i in range(3)]


# ------------------------------------------------------------------ storages

def storages():
    tensors = [torch.arange(1001, dtype=torch.float32), torch.arange(3, dtype=torch.int64),
               torch.arange(700000).to(torch.bfloat16), torch.empty(0),
               torch.ones(5, dtype=torch.bool)]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # torch 2: storages with a dtype are out of date
        return [(t.storage(), t.dtype) for t in tensors], tensors


def stream(tensors, save_size):
    return b''.join((t.numel().to_bytes(8, 'little') if save_size else b'') +
                    bytes(cast_to_byte_tensor(t).numpy()) for t in tensors)


@each([False, True])
def storages_are_saved_with_size(save_size):
    objects, tensors = storages()
    for kind in (fast, PyFileWriter):
        name = path()
        with kind(name) as writer:
            writer.write(b'head')
            writer.save_torch_storage_object_list(objects, save_size)
            writer.write(b'tail')
        assert content(name) == b'head' + stream(tensors, save_size) + b'tail'
        state = writer._state()
        assert state['save_storage'] == len(tensors)
        assert state['save_storage_bytes'] == len(stream(tensors, False))


@each([1, 2, 3, 7])
def several_writers_share_the_storages(number):
    objects, tensors = storages()
    for save_size in (False, True):
        base, parts = path(), b''
        for rank in range(number):
            writer = fast(base, num_parallel_writers=number, writer_rank=rank)
            expected = base if number == 1 else f'{base}-{rank}.{number}'
            assert writer.file_path() == expected
            writer.save_torch_storage_object_list(objects, save_size)
            writer.close()
            parts += content(expected)
        assert parts == stream(tensors, save_size)


@case
def bytes_of_tensors_are_an_alias():
    t = torch.arange(10, dtype=torch.int32).reshape(2, 5)
    alias = cast_to_byte_tensor(t)
    assert alias.dtype == torch.uint8 and alias.shape == (40,) and alias.data_ptr() == t.data_ptr()
    alias.zero_()
    assert not t.any()
    many = [t, torch.ones(3, dtype=torch.bool), torch.empty(0), torch.tensor(1.)]
    many = cast_to_byte_tensor(many)
    assert [m.numel() for m in many] == [40, 3, 0, 4]
    assert cast_to_byte_tensor(torch.nn.Parameter(torch.ones(3))).numel() == 12
    raises(ValueError, cast_to_byte_tensor, t.t())
    raises(TypeError, cast_to_byte_tensor, b'bytes')


# ------------------------------------------------------------------ what it says

KEYS = ['path', 'write', 'bytes', 'write_secs', 'write_GB/s', 'aio_write_secs', 'aio_bytes',
        'aio_GB/s', 'slow_bytes', 'slow_write_secs', 'fill_buffer_secs', 'fill_buffer_count',
        'fill_buffer_GB/s', 'save_storage', 'save_storage_bytes', 'flush', 'close', 'fileno']


@each([*WRITERS, 'mock'])
def the_state_can_be_printed(kind):
    writer = {**WRITERS, 'mock': MockFileWriter}[kind](path())
    for _ in range(3):
        writer.write(bytes(MIB + 100))
    writer.flush()
    assert writer.fileno() == -1
    writer.close()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        writer._dump_state()
    assert out.getvalue().startswith('stats = {') and out.getvalue().count('\n') == 1
    stats = ast.literal_eval(out.getvalue().removeprefix('stats = '))
    assert list(stats) == KEYS
    assert stats['path'] == writer.file_path() and stats['write'] == 3
    assert stats['bytes'] == 3 * (MIB + 100)
    assert (stats['flush'], stats['close'], stats['fileno']) == (1, 1, 1)
    if kind not in ('python', 'mock'):
        assert stats['aio_bytes'] + stats['slow_bytes'] == stats['bytes']
        assert stats['slow_bytes'] < 4096 and stats['fill_buffer_count'] > 0


@case
def a_mock_writes_nothing():
    name = path()
    with MockFileWriter(name) as writer:
        torch.save(checkpoint(), f=writer)
        assert writer.write(b'abc') == 3
    assert not os.path.exists(name) and writer._state()['bytes'] > 1000000
    raises(ValueError, writer.write, b'abc')


@case
def the_config_has_deepspeeds_defaults():
    config = FastFileWriterConfig(handle, locked)
    assert (config.double_buffer, config.num_parallel_writers, config.writer_rank,
            config.global_rank) == (True, 1, 0, 0)
    config = FastFileWriterConfig(dnvme_handle=handle, pinned_tensor=locked, double_buffer=False,
                                  num_parallel_writers=4, writer_rank=3, global_rank=9)
    assert config.pinned_tensor is locked and config.dnvme_handle is handle


@case
def a_wrong_config_is_refused():
    folder = own_folder()
    name = os.path.join(folder, 'file')
    for wrong in (locked[:1000], locked[:512], locked[:0]):
        e = raises(ValueError, fast, name, buffer=wrong)
        assert 'pinned_tensor' in str(e), e
    raises(ValueError, fast, name, buffer=locked[:1000], double_buffer=False)
    for wrong in (torch.empty(MIB), locked.reshape(2, -1), locked[::2], None):
        raises(TypeError, fast, name, buffer=wrong)
    for rank in (-1, 2):
        raises(ValueError, fast, name, num_parallel_writers=2, writer_rank=rank)
    assert os.listdir(folder) == []


# ------------------------------------------------------------------ the old file or the new one

@each(WRITERS)
def the_old_file_stays_until_close(kind):
    folder = own_folder()
    name = os.path.join(folder, 'file')
    make_writer = WRITERS[kind]
    for old in (None, b'old' * 1000):
        if old:
            with open(name, 'wb') as f:
                f.write(old)
        writer = make_writer(name)
        writer.write(bytes(5 * MIB))
        assert (content(name) if old else None) == old
        assert old or not os.path.exists(name)
        writer.close()
        assert content(name) == bytes(5 * MIB)
        assert names(folder) == ['file']


@each(WRITERS)
def what_is_dropped_leaves_the_old_file(kind):
    folder = own_folder()
    name = os.path.join(folder, 'file')
    with open(name, 'wb') as f:
        f.write(b'old')
    for end in ('drop', 'abort', 'exception'):
        writer = WRITERS[kind](name)
        writer.write(bytes(3 * MIB + 5))
        if end == 'abort':
            writer.abort()
            writer.abort()
            raises(ValueError, writer.write, b'x')
        elif end == 'exception':
            with contextlib.suppress(KeyError), writer:
                raise KeyError
            raises(ValueError, writer.write, b'x')
        del writer
        gc.collect()
        assert names(folder) == ['file'] and content(name) == b'old'
    assert handle.wait() == 0


END = '''
import os, sys, torch
from penstock.deepspeed import FastFileWriter, FastFileWriterConfig, PyFileWriter, aio_handle
h = aio_handle()
locked = h.new_cpu_locked_tensor(1 << 20, torch.empty(0, dtype=torch.uint8))
writers = [FastFileWriter(sys.argv[1], FastFileWriterConfig(h, locked)), PyFileWriter(sys.argv[1])]
for writer in writers:
    writer.write(bytes(5000000))
'''


HELD = '''
import threading
threading.Thread(target=lambda w: threading.Event().wait(), args=(writers,), daemon=True).start()
del writers, writer
'''


@case
def a_process_that_ends_leaves_the_old_file():
    folder = own_folder()
    name = os.path.join(folder, 'file')
    with open(name, 'wb') as f:
        f.write(b'old')
    for end in ('', 'cycle = [writers]; cycle.append(cycle)', 'sys.exit(0)', HELD):
        kit.child_ok(END + end, name)
        assert names(folder) == ['file'] and content(name) == b'old'


@case
def a_process_that_is_killed_leaves_the_old_file():
    folder = own_folder()
    name = os.path.join(folder, 'file')
    with open(name, 'wb') as f:
        f.write(b'old')
    done = kit.child(END + 'os.kill(os.getpid(), 9)', name)
    assert done.returncode == -signal.SIGKILL
    assert content(name) == b'old'
    fast(name).close()
    assert sorted(os.listdir(folder)) == ['file', 'file.crc']


@each(WRITERS)
def what_a_killed_one_has_left_is_removed_by(kind):
    """As it is where the file system has no files without names."""
    folder = own_folder()
    with open(os.path.join(folder, '.file.penstock-0'), 'wb') as f:
        f.write(b'half')
    with WRITERS[kind](os.path.join(folder, 'file')) as writer:
        writer.write(b'whole')
    assert sorted(os.listdir(folder)) == ['file', 'file.crc']


@each(WRITERS)
def checksums_of_an_older_file_are_renewed(kind):
    name = path()
    for i, writer in enumerate((penstock.torch.writer, WRITERS[kind], penstock.torch.writer, WRITERS[kind])):
        want = checkpoint()
        want['big'] += i
        want['small'] *= 1 + i // 2
        with writer(name) as file:
            torch.save(want, f=file)
        assert same(penstock.torch.load(name, verify='require'), want)
        with open(name, 'r+b') as file:
            file.seek(4000000)
            file.write(b'damaged!')
        assert raises(OSError, penstock.torch.load, name).errno == errno.EBADMSG


@case
def a_child_of_fork_leaves_its_parents_file_alone():
    folder = own_folder()
    name = os.path.join(folder, 'file')
    writers = [fast(name), PyFileWriter(name)]
    for writer in writers:
        writer.write(bytes(3 * MIB))
    before = sorted(os.listdir(folder))

    def child():
        nonlocal writers, writer
        writers[0].abort()
        del writers, writer
        gc.collect()
        return sorted(os.listdir(folder)) == before

    kit.in_fork(child)
    for writer in writers:
        writer.close()
        assert content(name) == bytes(3 * MIB)
    assert names(folder) == ['file']


@case
def close_may_be_repeated_and_is_the_end():
    name = path()
    for kind in (fast, PyFileWriter, MockFileWriter):
        writer = kind(name)
        writer.write(b'abc')
        writer.close()
        writer.close()
        e = raises(ValueError, writer.write, b'd')
        assert name in str(e), e
        objects, _ = storages()
        raises(ValueError, writer.save_torch_storage_object_list, objects, True)
        assert writer.fileno() == -1
        writer.flush()
    assert content(name) == b'abc'


@case
def permissions_and_links_stay():
    name, link = make(b'old'), path('link')
    os.chmod(name, 0o640)
    os.symlink(name, link)
    for kind in (fast, PyFileWriter):
        with kind(link) as writer:
            writer.write(b'new')
        assert os.path.islink(link) and content(name) == b'new'
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o640
    before = os.umask(0o027)
    try:
        with fast(path()) as writer:
            writer.write(b'new')
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(writer.file_path()).st_mode) == 0o640


@case
def what_is_no_file_is_refused():
    folder = own_folder()
    for kind in (fast, PyFileWriter):
        raises(IsADirectoryError, kind, folder)
        raises(FileNotFoundError, kind, os.path.join(folder, 'none', 'file'))
        e = raises(OSError, kind, '/dev/null')
        assert 'regular' in e.strerror, e
    assert os.listdir(folder) == [] and stat.S_ISCHR(os.stat('/dev/null').st_mode)


@each(WRITERS)
def what_fails_does_so_with_the_name_that_was_given(kind):
    name, before = os.path.join('none', 'file'), os.getcwd()
    folder = own_folder()
    os.chdir(folder)
    try:
        assert raises(FileNotFoundError, WRITERS[kind], name).filename == name
        os.symlink('file', 'link')
        writer = WRITERS[kind]('link')
        writer.write(bytes(MIB + 1))
        os.mkdir('file')  # in the way of the rename
        e = raises(OSError, writer.close)
        assert e.filename == 'link' and e.filename2 is None, e
        assert sorted(names('.')) == ['file', 'link']
    finally:
        os.chdir(before)


# ------------------------------------------------------------------ failures

@each(['tmpfs', 'ext4'])
def a_full_file_system_is_an_OSError_and_keeps_the_old_file(kind):
    with mounted(kind, MIB if kind == 'tmpfs' else 12 * MIB) as mount:
        st = os.statvfs(mount)
        room = st.f_bavail * st.f_frsize
        name = os.path.join(mount, 'file')
        for make_writer in WRITERS.values():
            with make_writer(name) as writer:
                writer.write(b'old' * 1000)
            writer = make_writer(name)

            def save():
                for _ in range(4):
                    writer.write(bytes(room // 2))
                writer.close()

            e = raises(OSError, save)
            assert e.errno == errno.ENOSPC and e.filename == name, e
            with contextlib.suppress(OSError):
                writer.close()
            writer.close()
            assert content(name) == b'old' * 1000 and not left_over(mount)
            with make_writer(name) as writer:
                writer.write(b'new')
            assert content(name) == b'new'
        assert handle.wait() == 0


@each(FORMATS)
def torch_save_on_a_full_file_system_is_noticed(form):
    with mounted('tmpfs', MIB) as mount:
        name = os.path.join(mount, 'file')
        writer = fast(name)

        def save():
            torch.save(checkpoint(), f=writer, _use_new_zipfile_serialization=FORMATS[form])

        raises((OSError, RuntimeError), save)
        assert raises(OSError, writer.close).errno == errno.ENOSPC
        assert os.listdir(mount) == []
        assert handle.wait() == 0


@case
def the_error_of_a_write_stays():
    class Failing(Handle):
        def wait(self):
            super().wait()
            raise OSError(errno.EIO, 'planted')

    folder = own_folder()
    writer = fast(os.path.join(folder, 'file'), Failing())
    e = raises(OSError, writer.write, bytes(10 * MIB))
    assert raises(OSError, writer.write, b'x') is e
    assert raises(OSError, writer.close) is e
    writer.close()
    assert os.listdir(folder) == []


# ------------------------------------------------------------------ other handles

class Handle:
    """A handle of somebody else's, as strict as DeepSpeed's own about alignment."""

    def __init__(self, alignment=512):
        self.alignment = alignment
        self.calls, self.pending = [], 0

    def get_alignment(self):
        return self.alignment

    def async_pwrite(self, buffer, fd, offset):
        assert type(fd) is int and self.pending == 0
        assert buffer.numel() % self.alignment == offset % self.alignment == 0
        self.calls.append((offset, buffer.numel()))
        self.write(bytes(buffer.numpy()), offset, f'/proc/self/fd/{fd}')
        self.pending = 1
        return 0

    def write(self, data, offset, name):
        with open(name, 'r+b') as f:
            f.seek(offset)
            f.write(data)

    def wait(self):
        assert self.pending == 1, 'DeepSpeed aborts here'
        self.pending = 0
        return 1


@each([512, 1024, 512 * 3, 4096])
def a_foreign_handle_sees_only_aligned_pieces_of(alignment):
    for double in (False, True):
        h, name = Handle(alignment), path()
        buffer = torch.empty(alignment * 16, dtype=torch.uint8)
        want = data(alignment * 100 + 77)
        with fast(name, h, buffer, double_buffer=double) as writer:
            for at in range(0, len(want), 10007):
                writer.write(want[at:at + 10007])
        assert content(name) == want
        assert h.pending == 0 and h.calls


@case
def a_handle_that_loses_bytes_is_caught():
    class Losing(Handle):
        def write(self, data, offset, name):
            if offset < 2 * MIB:
                super().write(data, offset, name)

    class Refusing(Handle):
        def async_pwrite(self, *args):
            return -1

    class Forgetting(Handle):
        def wait(self):
            super().wait()
            return 0

    for kind in (Losing, Refusing, Forgetting):
        name = make(b'old')

        def save():
            with fast(name, kind()) as writer:
                writer.write(bytes(5 * MIB))

        e = raises(OSError, save)
        assert e.errno == errno.EIO and e.filename == name, e
        assert content(name) == b'old' and not left_over(kit.folder)


@case
def a_handle_with_other_operations_may_count_more():
    name, other = path(), path()
    with fast(name) as writer:
        assert handle.async_pwrite(torch.ones(10), other) == 0
        writer.write(bytes(5 * MIB))
    assert handle.wait() == 0
    assert content(name) == bytes(5 * MIB) and os.path.getsize(other) == 40


# ------------------------------------------------------------------ descriptors

@each([1, 5, 20])
def no_descriptor_of_a_deleted_file_is_left_times(times):
    before = set(kit.descriptors())
    for _ in range(times):
        name = path()
        writer = fast(name)
        torch.save(checkpoint(), f=writer)
        writer.close()
        os.unlink(name)
    assert not [f for f in kit.descriptors().values() if f.endswith('(deleted)')]
    assert set(kit.descriptors()) == before


run(*cases)
