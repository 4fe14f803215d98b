# SPDX-License-Identifier: Apache-2.0
"""penstock.deepspeed: every way in which DeepSpeed's handles abort, hang, or lose bytes."""
import contextlib
import errno
import gc
import io
import itertools
import os
import re
import signal
import sys

import kit
from kit import MIB, case, cases, content, data, each, make, path, raises, unraisable
from mounts import mounted
from tap import run

try:
    import torch
except ImportError:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

from penstock.deepspeed import _pending_ops, aio_handle, aio_read, aio_write, deepspeed_memcpy

FAULTY = 'fault:inner=threads,errno=5,'


def tensor(nbytes, seed=1):
    return torch.frombuffer(bytearray(data(nbytes, seed)), dtype=torch.uint8)


def raw_bytes(t):
    return bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist())


@contextlib.contextmanager
def captured_output():
    """What is printed: two texts, filled at the end."""
    out, err = io.StringIO(), io.StringIO()
    texts = []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield texts
    texts += [out.getvalue(), err.getvalue()]


def expect_minus_1(method, *args):
    """The call must give -1 and one line on stderr, which is returned."""
    with captured_output() as texts:
        result = method(*args)
    out, err = texts
    assert result == -1, result
    assert out == '' and err.count('\n') == 1 and err.endswith('\n'), texts
    return err


def handle_on(engine, **options):
    """An aio_handle on this engine."""
    h = aio_handle(65536, 4, False, True, 1)
    h._io._handle.close()
    h._io._handle = kit.handle(engine, block=65536, depth=4, **options)
    return h


def every_read(h):
    return [h.sync_pread, h.async_pread, lambda t, f, *o: h.pread(t, f, False, True, *o),
            lambda t, f, *o: h.pread(t, f, False, False, *o),
            lambda t, f, *o: h.read(t, f, False, *o)]


def every_write(h):
    return [h.sync_pwrite, h.async_pwrite, lambda t, f, *o: h.pwrite(t, f, False, True, *o),
            lambda t, f, *o: h.pwrite(t, f, False, False, *o),
            lambda t, f, *o: h.write(t, f, False, *o)]


# ------------------------------------------------------------------ files that cannot be used

@case
def a_missing_file_is_minus_1():
    h, name = aio_handle(), path('missing')
    for size in (100, 3 * MIB):
        for read in every_read(h):
            line = expect_minus_1(read, tensor(size), name)
            assert name in line and 'No such file' in line, line
    assert not os.path.exists(name)
    assert h.wait() == 0


@case
def a_file_that_cannot_be_opened_is_minus_1():
    h = aio_handle()
    file, folder = make(b'x'), path('folder')
    os.mkdir(folder)
    loop = path('loop')
    os.symlink(loop, loop)
    for name in (path('no') + '/file', file + '/file', folder, loop, path('x' * 300)):
        for size in (100, 3 * MIB):
            for write in every_write(h):
                line = expect_minus_1(write, tensor(size), name)
                assert 'penstock: ' in line, line
    for name in (folder, file + '/file', loop):
        for read in every_read(h):
            expect_minus_1(read, tensor(100), name)
    assert h.wait() == 0


@case
def a_file_of_somebody_else_is_minus_1():
    code = '''
import os, sys, torch
from penstock.deepspeed import aio_handle
h = aio_handle()
t = torch.zeros(100, dtype=torch.uint8)
assert h.async_pwrite(t, sys.argv[2]) == 0 and h.wait() == 1  # imports what transfers need
assert h.sync_pread(t, sys.argv[2]) == 1
if os.geteuid() == 0:
    os.setuid(65534)
print(h.sync_pread(t, sys.argv[1]), h.async_pwrite(t, sys.argv[1]), h.wait())
'''
    with kit.public_folder() as folder:
        name = os.path.join(folder, 'file')
        with open(name, 'wb') as f:
            f.write(bytes(100))
        os.chmod(name, 0o000)
        done = kit.child(code, name, path())
    assert done.stdout == '-1 -1 0\n', (done.stdout, done.stderr)
    assert done.stderr.count('Permission denied') == 2, done.stderr


@case
def a_closed_descriptor_is_minus_1():
    h = aio_handle()
    fd = os.open(make(bytes(4096)), os.O_RDWR)
    os.close(fd)
    for call in (h.async_pwrite, h.sync_pwrite, h.async_pread, h.sync_pread):
        line = expect_minus_1(call, tensor(100), fd)
        assert f'fd {fd}' in line and 'Bad file descriptor' in line, line
    assert h.wait() == 0


@case
def a_descriptor_of_the_wrong_kind_is_an_error():
    h = aio_handle()
    fd = os.open(make(bytes(4096)), os.O_RDONLY)
    try:
        for size in (100, 3 * MIB):
            with captured_output():
                try:
                    assert h.sync_pwrite(tensor(size), fd) == -1
                except OSError as e:
                    assert e.errno == errno.EBADF
        assert h.wait() == 0
    finally:
        os.close(fd)


@case
def a_file_that_is_too_short_is_minus_1():
    h = aio_handle()
    old = data(4096)
    name = make(old)
    for size, offset in ((4097, 0), (1, 4096), (4096, 1), (10, 1 << 40), (3 * MIB, 0)):
        got = torch.full((size,), 7, dtype=torch.uint8)
        for read in every_read(h):
            line = expect_minus_1(read, got, name, offset)
            assert name in line and str(size) in line and '4096' in line, line
        assert bool((got == 7).all()), 'the buffer was touched'
    assert h.wait() == 0
    got = torch.zeros(4096, dtype=torch.uint8)
    assert h.sync_pread(got, name) == 1 and raw_bytes(got) == old


@case
def a_file_that_shrinks_after_submission_is_an_OSError():
    name, late = make(data(4 * MIB)), None
    h = handle_on(None)

    class Shrinking:
        def read_async(self, *args, **kwargs):
            os.truncate(name, 100)
            return late.read_async(*args, **kwargs)

        def close(self):
            late.close()

    late, h._io._handle = h._io._handle, Shrinking()
    assert h.async_pread(torch.zeros(4 * MIB, dtype=torch.uint8), name) == 0
    e = raises(OSError, h.wait)
    assert e.errno == errno.ENODATA and e.filename == name, e
    assert h.wait() == 0


# ------------------------------------------------------------------ sizes DeepSpeed refuses

@case
def a_size_need_not_be_divisible_by_the_number_of_threads():
    for threads in (2, 3, 7):
        h = aio_handle(1024, 4, False, True, threads)
        for size in (1, 1000, 4099, MIB + 1):
            name, want = path(), tensor(size)
            with captured_output() as texts:
                assert h.sync_pwrite(want, name) == 1
                got = torch.zeros_like(want)
                assert h.sync_pread(got, name) == 1
            assert texts == ['', ''] and torch.equal(got, want) and content(name) == raw_bytes(want)


@each([(16 * MIB, 128), (1 << 30, 4), ((1 << 31) - 1, (1 << 31) - 1)])
def block_times_depth_may_be_large(combination):
    block, depth = combination
    size = 20 * MIB
    h = aio_handle(block, depth, False, False, 1)
    want, name = tensor(size), path()
    assert h.sync_pwrite(want, name) == 1
    assert os.path.getsize(name) == size and content(name) == raw_fast(want)
    os.truncate(name, size + 13 * MIB)
    room = torch.full((size + 16 * MIB,), 7, dtype=torch.uint8)
    assert h.sync_pread(room[:size], name) == 1
    assert torch.equal(room[:size], want)
    assert bool((room[size:] == 7).all()), 'bytes behind the tensor were touched'


def raw_fast(t):
    return bytes(t.numpy())


# ------------------------------------------------------------------ storage that fails

@each(['tmpfs', 'ext4'])
def a_full_file_system_is_an_OSError(kind):
    with mounted(kind, MIB if kind == 'tmpfs' else 12 * MIB) as mount:
        h = aio_handle(65536, 8, False, False, 2)
        st = os.statvfs(mount)
        room = st.f_bavail * st.f_frsize
        small, large = tensor(1000), torch.ones(2 * room, dtype=torch.uint8)
        name = os.path.join(mount, 'file')
        for write in every_write(h):
            def until_done():
                if write(large, name) == 0:
                    return h.wait()
            e = raises(OSError, until_done)
            assert e.errno == errno.ENOSPC and e.filename == name, e
            assert h.wait() == 0, 'it is still pending'
            if os.path.exists(name):
                os.unlink(name)
            assert h.sync_pwrite(small, name) == 1
            assert content(name) == raw_bytes(small)
            os.unlink(name)
        h.close()


@case
def of_many_operations_only_the_count_is_lost():
    with mounted('tmpfs', MIB) as mount:
        h = aio_handle()
        names = [os.path.join(mount, str(i)) for i in range(5)]
        sizes = [1000, 4 * MIB, 1000, 4 * MIB, 1000]
        for name, size in zip(names, sizes):
            assert h.async_pwrite(torch.ones(size, dtype=torch.uint8), name) == 0
        e = raises(OSError, h.wait)
        assert e.errno == errno.ENOSPC and e.filename == names[1], e
        assert '2 of 5' in ' '.join(e.__notes__), e.__notes__
        assert h.wait() == 0
        for i in (0, 2, 4):
            assert content(names[i]) == b'\1' * 1000
        h.close()


@each(['sync_pwrite', 'sync_pread', 'write', 'read', 'async_pwrite', 'async_pread'])
def an_error_of_the_device_is_an_OSError(method):
    h, name = handle_on(FAULTY + 'nth=3'), make(data(MIB))
    more = (False,) if method in ('read', 'write') else ()

    def until_done():
        if getattr(h, method)(torch.zeros(MIB, dtype=torch.uint8), name, *more) == 0:
            return h.wait()

    e = raises(OSError, until_done)
    assert e.errno == errno.EIO and e.filename == name, e
    assert h.wait() == 0
    want = tensor(MIB)
    assert h.sync_pwrite(want, name) == 1
    assert content(name) == raw_bytes(want)


@case
def a_synchronous_operation_raises_for_the_pending_ones():
    h, name = handle_on(FAULTY + 'nth=1'), make(data(MIB))
    assert h.async_pread(torch.zeros(MIB, dtype=torch.uint8), name) == 0
    e = raises(OSError, h.sync_pread, torch.zeros(100, dtype=torch.uint8), name)
    assert e.errno == errno.EIO, e
    assert h.wait() == 0


@case
def short_and_repeated_transfers_are_finished():
    h = handle_on('fault:short=0.4,again=0.2,delay=0.3,reorder=1,seed=11')
    want, name = tensor(2 * MIB + 3), path()
    assert h.sync_pwrite(want, name) == 1
    got = torch.zeros_like(want)
    assert h.async_pread(got, name) == 0
    assert h.wait() == 1
    assert torch.equal(got, want)


@case
def a_failure_that_nobody_waited_for_is_told():
    h, name = handle_on(FAULTY + 'nth=1'), make(data(MIB))
    assert h.async_pread(torch.zeros(MIB, dtype=torch.uint8), name) == 0
    with unraisable() as seen:
        del h
        gc.collect()
    assert len(seen) == 1 and seen[0][0].errno == errno.EIO, seen
    h = handle_on(FAULTY + 'nth=1')
    assert h.async_pread(torch.zeros(MIB, dtype=torch.uint8), name) == 0
    assert raises(OSError, h.close).errno == errno.EIO
    h.close()


# ------------------------------------------------------------------ signals and limits

@case
def signals_do_not_hurt():
    h = aio_handle(4096, 8, False, True, 2)
    want, name, alarms = tensor(4 * MIB + 1), path(), []
    before = signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while len(alarms) < 200:
            assert h.sync_pwrite(want, name) == 1
            got = torch.zeros_like(want)
            assert h.async_pread(got, name) == 0
            assert h.wait() == 1
            assert torch.equal(got, want)
            assert h.write(want, name, False) == 0 and h.read(got, name, False) == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@case
def ctrl_c_ends_a_wait_and_leaves_everything_pending():
    h, name = aio_handle(), path()
    with kit.BlockingMemory(data(4096)) as gate:
        held = torch.frombuffer(gate.memory, dtype=torch.uint8)
        assert h.async_pwrite(held, name) == 0
        assert h.async_pwrite(tensor(100), path()) == 0
        before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        try:
            raises(KeyboardInterrupt, h.wait)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        gate.open()
    assert h.wait() == 2
    assert len(content(name)) == 4096


@case
def a_handler_may_use_the_handle_it_interrupts():
    h, t = aio_handle(), tensor(1000)
    names, bells, submitted, counts = [path() for _ in range(3)], [], [], []

    def ring(*_):
        bells.append(1)
        counts.append(h.wait())
        submitted.append(h.async_pwrite(t, names[1]))
        counts.append(h.sync_pwrite(t, names[2]))
        submitted.append(0)
        locked = h.new_cpu_locked_tensor(10, t)
        assert h.is_pinned(locked) and h.free_cpu_locked_tensor(locked)
        signal.setitimer(signal.ITIMER_REAL, 0.0002)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
    try:
        while len(bells) < 500:
            submitted.append(h.async_pwrite(t, names[0]))
            counts.append(h.sync_pwrite(t, names[0], 1000))
            submitted.append(0)
            assert h.free_cpu_locked_tensor(h.new_cpu_locked_tensor(10, t))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    counts.append(h.wait())
    assert not any(submitted) and sum(counts) == len(submitted), (sum(counts), len(submitted))
    assert content(names[0]) == 2 * raw_bytes(t) and content(names[2]) == raw_bytes(t)


def interrupted_in_line(number, call):
    """Call, with Ctrl-C before the line of _pending_ops.py that is the number-th to run."""
    lines = itertools.count()

    def trace(frame, event, arg):
        if frame.f_code.co_filename != _pending_ops.__file__:
            return None
        if event == 'line' and next(lines) == number:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@case
def ctrl_c_anywhere_in_a_wait_leaves_everything_pending():
    h, name, t = aio_handle(), path(), tensor(1000)
    calls = {h.wait: {3}, (lambda: h.sync_pwrite(t, name)): {3, 4}}  # was it submitted already?
    for call, expected in calls.items():
        for number in itertools.count():
            assert [h.async_pwrite(t, name) for _ in range(3)] == [0, 0, 0]
            if not interrupted_in_line(number, call):
                break
            assert h.wait() in expected
        assert number > 20
        assert h.wait() == 0


@case
def locked_memory_has_no_limit_that_kills():
    code = '''
import os, resource, torch
from penstock.deepspeed import aio_handle
h = aio_handle()  # imports what is needed below
h.free_cpu_locked_tensor(h.new_cpu_locked_tensor(1, torch.empty(0, dtype=torch.uint8)))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
if os.geteuid() == 0:
    os.setuid(65534)
h = aio_handle()
t = h.new_cpu_locked_tensor(10 << 20, torch.empty(0, dtype=torch.uint8))
t.fill_(3)
print(int(t.sum()), h.is_pinned(t), h.free_cpu_locked_tensor(t), h.free_cpu_locked_tensor(t))
'''
    assert kit.child_ok(code) == f'{30 << 20} True True False\n'


@case
def memory_that_cannot_be_is_a_MemoryError():
    h = aio_handle()
    for number in (1 << 62, (1 << 63) - 1):
        raises(MemoryError, h.new_cpu_locked_tensor, number, torch.empty(0, dtype=torch.float64))
    raises(ValueError, h.new_cpu_locked_tensor, -1, torch.empty(0))
    raises(TypeError, h.new_cpu_locked_tensor, 1 << 63, torch.empty(0))
    raises(TypeError, h.new_cpu_locked_tensor, 1.5, torch.empty(0))


@case
def a_handle_that_cannot_be_made_is_an_OSError():
    code = '''
import os, resource
from penstock.deepspeed import aio_handle
aio_handle().close()  # imports what is needed below
if os.geteuid() == 0:  # no limit on threads holds root
    os.setgid(65534)
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    aio_handle(1 << 20, 4096, False, False, 256)
    print('made')
except OSError as e:
    print('OSError' if e.errno and e.strerror else e)
'''
    done = kit.child(code)
    assert done.returncode == 0 and done.stdout in ('OSError\n', 'made\n'), done


# ------------------------------------------------------------------ validate

def verdict(kind, name, size, word):
    spaces = '  ' if word == 'Pass' else ' '
    return (f'regular read of {name} returned {size} bytes\n'
            f'{word}: correctness of{spaces}deepspeed_aio_{kind}()using read()\n')


@each([0, 1000, 9 * MIB + 1])
def validation_says_pass_bytes(size):
    h, name, want = aio_handle(), path(), torch.ones(size, dtype=torch.uint8)
    with captured_output() as texts:
        assert h.pwrite(want, name, True, False) == 1
        assert h.pread(want, name, True, False) == 1
        assert h.write(want, name, True) == 0
        assert h.read(want, name, True) == 0
    written, read = (verdict(kind, name, size, 'Pass') for kind in ('write', 'read'))
    assert texts == [written + read + written + read, ''], texts


@case
def validation_happens_in_wait_in_order():
    h, names = aio_handle(), [path() for _ in range(3)]
    with captured_output() as texts:
        for i, name in enumerate(names):
            assert h.pwrite(tensor(1000 + i), name, True, True) == 0
    assert texts == ['', '']
    with captured_output() as texts:
        assert h.wait() == 3
    assert texts[0] == ''.join(verdict('write', n, 1000 + i, 'Pass') for i, n in enumerate(names))


@case
def validation_knows_offsets_and_longer_files():
    name = make(data(100000, seed=5))
    h, t = aio_handle(), tensor(1000)
    with captured_output() as texts:
        assert h.pwrite(t, name, True, False, 777) == 1
        assert h.pread(t, name, True, False, 31) == 1
        assert h.pwrite(t.reshape(10, 100).t(), name, True, False, 12) == 1
    w, r = (verdict(kind, name, 1000, 'Pass') for kind in ('write', 'read'))
    assert texts[0] == w + r + w, texts


@case
def validation_finds_what_is_wrong():
    h, name, t = aio_handle(), path(), tensor(1000)
    large = torch.ones(9 * MIB, dtype=torch.uint8)
    for buffer, at in ((t, 999), (large, 5), (large, 9 * MIB - 1)):
        with captured_output() as texts:
            assert h.pwrite(buffer, name, True, True) == 0
            while h._io._handle.pending:
                os.sched_yield()
            with open(name, 'r+b') as f:
                f.seek(at)
                f.write(bytes([buffer[at] ^ 1]))
            assert h.wait() == 1  # the verdict changes nothing else
        assert texts[0] == verdict('write', name, buffer.numel(), 'Fail'), texts
    os.unlink(name)
    with captured_output() as texts:
        assert h.pwrite(t, name, True, True) == 0
        while h._io._handle.pending:
            os.sched_yield()
        os.truncate(name, 600)
        assert h.wait() == 1
    assert texts[0] == verdict('write', name, 600, 'Fail'), texts
    with captured_output() as texts:
        assert h.pwrite(t, name, True, True) == 0
        while h._io._handle.pending:
            os.sched_yield()
        os.unlink(name)
        assert h.wait() == 1
    assert texts[0] == verdict('write', name, 0, 'Fail'), texts


@case
def validation_works_for_descriptors():
    h, name, t = aio_handle(), path(), tensor(1000)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    try:
        with captured_output() as texts:
            assert h.pwrite(t, fd, True, False) == 1
        assert texts[0] == verdict('write', fd, 1000, 'Pass'), texts
    finally:
        os.close(fd)


# ------------------------------------------------------------------ functions of the module

ELAPSED = re.compile(r'Elapsed time\(usec\): aio = [\d.e+]+ call = [\d.e+]+\n\Z')


@each([0, 1000, MIB, 5 * MIB + 1])
def aio_read_and_aio_write_move_a_whole_file_bytes(size):
    want, name = torch.frombuffer(bytearray(data(size) or b'x'), dtype=torch.uint8)[:size], path()
    with captured_output() as texts:
        assert aio_write(want, name, 65536, 8, False, True, False) == 0
    assert ELAPSED.match(texts[0]) and texts[1] == '', texts
    assert os.path.getsize(name) == size
    got = torch.zeros_like(want)
    with captured_output() as texts:
        assert aio_read(got, name, 65536, 8, True, False, True) == 0
    assert texts[0].startswith(verdict('read', name, size, 'Pass')), texts
    assert ELAPSED.search(texts[0]), texts
    assert torch.equal(got, want)


@case
def aio_read_and_aio_write_refuse():
    name = path('missing')
    line = expect_minus_1(aio_read, tensor(10), name, 4096, 8, False, False, False)
    assert name in line, line
    expect_minus_1(aio_write, tensor(10), name + '/x', 4096, 8, False, False, False)
    expect_minus_1(aio_read, tensor(10), make(b'short'), 4096, 8, False, False, False)
    for function in (aio_read, aio_write):
        raises(TypeError, function, tensor(10), name, 4096, 8, False, False)
        raises(TypeError, lambda: function(tensor(10), name, 4096, 8, False, False, validate=False))
        raises(TypeError, function, bytearray(10), name, 4096, 8, False, False, False)
        raises(ValueError, function, tensor(10), name, 0, 8, False, False, False)
    assert not os.path.exists(name)


@case
def deepspeed_memcpy_copies():
    want = torch.arange(100003, dtype=torch.float32)
    got = torch.zeros_like(want)
    assert deepspeed_memcpy(got, want) == 0
    assert torch.equal(got, want)
    assert deepspeed_memcpy(got[:10], want[5:]) == 0  # of a longer one, its start
    assert torch.equal(got[:10], want[5:15])


@case
def deepspeed_memcpy_knows_layouts_and_dtypes():
    want = torch.arange(6000, dtype=torch.float32).reshape(60, 100)
    got = torch.zeros(100, 60)
    assert deepspeed_memcpy(got.t(), want) == 0
    assert torch.equal(got.t(), want)
    flat = torch.zeros(12000)
    assert deepspeed_memcpy(flat[::2], want.t()) == 0
    assert torch.equal(flat[::2].reshape(100, 60), want.t()) and not flat[1::2].any()
    as_bytes = torch.zeros(24000, dtype=torch.uint8)
    assert deepspeed_memcpy(as_bytes, want) == 0
    assert raw_bytes(as_bytes) == raw_bytes(want)
    back = torch.zeros(120, 100)[::2]
    assert deepspeed_memcpy(back, as_bytes) == 0
    assert torch.equal(back, want)
    assert deepspeed_memcpy(torch.empty(0), torch.empty(0)) == 0


@case
def deepspeed_memcpy_reads_nothing_it_should_not():
    raises(ValueError, deepspeed_memcpy, torch.zeros(11), torch.zeros(10))
    raises(ValueError, deepspeed_memcpy, torch.zeros(10, dtype=torch.float64), torch.zeros(10))
    raises(TypeError, deepspeed_memcpy, bytearray(4), torch.zeros(1))
    raises(TypeError, deepspeed_memcpy, torch.zeros(1), bytearray(4))


run(*cases)
