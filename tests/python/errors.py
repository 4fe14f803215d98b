# SPDX-License-Identifier: Apache-2.0
"""Failures: the right exception, with errno, file name, offset and length, and none goes unseen."""
import errno
import gc
import os
import pathlib
import pickle
import subprocess

import penstock
from kit import (MIB, PAGE, BlockingMemory, Skip, case, cases, child, content, data, each, failing, folder,
                 handle, in_fork, make, path, public_folder, raises, run, unraisable)


def both(h, word, *args, **kwargs):
    """The failure of a blocking call and of a future, which are alike."""
    now = raises(OSError, getattr(h, word), *args, **kwargs)
    later = raises(OSError, lambda: getattr(h, word + '_async')(*args, **kwargs).result())
    assert type(now) is type(later) and now.errno == later.errno, (now, later)
    assert now.filename == later.filename and type(now.filename) is type(later.filename)
    for e in (now, later):
        assert '\n' not in str(e), e
    return now, later


def names(e, operation, offset, length):
    text = e.strerror
    assert operation in text and f'offset {offset}' in text, text
    assert f'length {length}' in text or f'{length} bytes' in text, text


# ------------------------------------------------------------------ kinds

@case
def a_missing_file_is_FileNotFoundError():
    name = path('missing')
    with handle() as h:
        for e in both(h, 'read', bytearray(100), name, 7):
            assert isinstance(e, FileNotFoundError) and e.errno == errno.ENOENT
            assert e.filename == name and type(e.filename) is str
            assert os.strerror(errno.ENOENT) in e.strerror, e.strerror
            names(e, 'read', 7, 100)


@case
def a_missing_folder_is_FileNotFoundError_for_a_write():
    name = os.path.join(path('missing'), 'file')
    with handle() as h:
        for e in both(h, 'write', bytearray(100), name, 7):
            assert isinstance(e, FileNotFoundError) and e.filename == name
            names(e, 'write', 7, 100)


@case
def a_folder_is_IsADirectoryError():
    with handle() as h:
        for word in ('read', 'write'):
            for e in both(h, word, bytearray(5), folder):
                assert isinstance(e, IsADirectoryError) and e.filename == folder
                names(e, word, 0, 5)


@case
def a_file_as_a_folder_is_NotADirectoryError():
    name = os.path.join(make(b''), 'below')
    with handle() as h:
        for e in both(h, 'write', b'x', name):
            assert isinstance(e, NotADirectoryError)


@case
def what_is_forbidden_is_PermissionError():
    if os.geteuid() != 0:
        name = make(b'abc')
        os.chmod(name, 0)
        with handle() as h:
            for e in both(h, 'read', bytearray(1), name):
                assert isinstance(e, PermissionError) and e.filename == name
        return

    def as_nobody():
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        with penstock.Handle('threads') as h:
            for word, p in (('read', name), ('write', name), ('write', os.path.join(place, 'new'))):
                for e in both(h, word, bytearray(1), p):
                    assert isinstance(e, PermissionError), e
                    assert e.filename == p and e.errno == errno.EACCES, e
                    names(e, word, 0, 1)
        return True

    with public_folder() as place:
        name = os.path.join(place, 'file')
        with open(name, 'wb') as f:
            f.write(b'abc')
        os.chmod(name, 0o600)
        in_fork(as_nobody)


@case
def too_many_open_files_is_EMFILE_and_passes():
    import resource
    name, h = make(data(PAGE)), handle()
    with h:
        h.read(bytearray(1), name)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        in_use = max(int(n) for n in os.listdir('/proc/self/fd'))
        resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 1, hard))
        hold = []
        try:
            try:
                while True:
                    hold.append(os.open('/dev/null', os.O_RDONLY))
            except OSError:
                pass
            for e in both(h, 'read', bytearray(1), name):
                assert e.errno == errno.EMFILE and e.filename == name
        finally:
            for fd in hold:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert h.read(bytearray(1), name) == 1


# ------------------------------------------------------------------ what they say

@each(('str', 'bytes', 'path', 'fd', 'file'))
def the_file_name_is_the_one_given_as(form):
    name = make(b'abc')
    fd = os.open(name, os.O_RDWR)
    try:
        with handle() as h, h.open(name) as f:
            given, shown = {'str': (name, name), 'bytes': (os.fsencode(name),) * 2,
                            'path': (pathlib.Path(name), name), 'fd': (fd, fd),
                            'file': (f, name)}[form]
            for e in both(h, 'read', bytearray(10), given):
                assert e.errno == errno.ENODATA
                assert e.filename == shown and type(e.filename) is type(shown), e.filename
                assert e.filename2 is None
                names(e, 'read', 0, 10)
    finally:
        os.close(fd)


@case
def an_error_can_be_pickled_and_shown():
    with handle() as h:
        e = raises(OSError, h.read, bytearray(10), path('missing'))
        back = pickle.loads(pickle.dumps(e))
        assert type(back) is type(e) and back.args == e.args and back.filename == e.filename
        assert str(errno.ENOENT) in str(e) and e.filename in str(e)


@case
def offset_and_length_are_those_of_the_operation():
    name = make(data(1000))
    with handle() as h:
        for e in both(h, 'read', bytearray(4096), name, 123, 2000):
            names(e, 'read', 123, 2000)
        for e in both(h, 'read', bytearray(4096), name, 1 << 40):
            names(e, 'read', 1 << 40, 4096)


# ------------------------------------------------------------------ faults of the device

FAULTY = 'fault:inner=threads,'


@case
def a_device_error_is_EIO_with_what_failed():
    name, want = make(data(MIB)), data(MIB, seed=5)
    with handle(FAULTY + 'nth=5', block=65536, depth=1) as h:
        e = raises(OSError, h.read, bytearray(MIB), name)
        assert e.errno == errno.EIO and e.filename == name, e
        names(e, 'read', 0, MIB)
        assert 'fault' in e.strerror and os.strerror(errno.EIO) in e.strerror, e.strerror
    with handle(FAULTY + 'nth=5', block=65536, depth=1) as h:
        e = h.write_async(want, name).exception()
        assert e.errno == errno.EIO and e.filename == name, e
        names(e, 'write', 0, MIB)


@case
def the_handle_works_after_a_device_error():
    name = make(data(MIB))
    with handle(FAULTY + 'nth=2', direct='never') as h:  # one request each, at any address
        got = bytearray(1000)
        assert h.read(got, name) == 1000
        assert raises(OSError, h.read, got, name).errno == errno.EIO
        assert h.read(got, name) == 1000 and got == data(MIB)[:1000]
        assert h.read_async(got, name, 5).result() == 1000 and got == data(MIB)[5:1005]


@case
def any_errno_of_the_device_is_told():
    name = make(data(PAGE))
    for number, kind in ((errno.EIO, OSError), (errno.ENOSPC, OSError), (errno.EROFS, OSError),
                         (errno.EACCES, PermissionError), (errno.EPERM, PermissionError),
                         (errno.ETIMEDOUT, TimeoutError), (errno.EREMOTEIO, OSError)):
        with handle(FAULTY + f'error=1,errno={number}') as h:
            for e in both(h, 'read', bytearray(PAGE), name):
                assert e.errno == number and isinstance(e, kind), e


@case
def short_and_repeated_transfers_are_finished():
    name, want = path(), data(2 * MIB + 3)
    with handle('fault:short=0.4,again=0.2,delay=0.3,reorder=1,seed=11', block=8192) as h:
        assert h.write(want, name) == len(want)
        got = bytearray(len(want))
        assert h.read(got, name) == len(want) and got == want
        assert h.stats()['resubmissions'] > 0


@case
def a_full_file_system_is_ENOSPC():
    if os.geteuid() != 0:
        raise Skip('root', 'only root can mount file systems')
    mount = path('small')
    os.mkdir(mount)
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1M', 'tmpfs', mount],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Skip('root', f'no tmpfs: {done.stderr.strip()}')
    try:
        name, want = os.path.join(mount, 'file'), data(4 * MIB)
        with handle() as h:
            for e in both(h, 'write', want, name):
                assert e.errno == errno.ENOSPC and e.filename == name, e
                names(e, 'write', 0, 4 * MIB)
                assert os.strerror(errno.ENOSPC) in e.strerror, e.strerror
            if os.path.exists(name):
                os.unlink(name)
            assert h.write(want[:1000], name) == 1000
            assert content(name) == want[:1000]
    finally:
        subprocess.run(['umount', '-l', mount], check=True)


# ------------------------------------------------------------------ nothing goes unseen

@case
def a_failure_nobody_looked_at_is_raised_by_wait():
    with handle() as h:
        failing(h, 10, 3)
        e = raises(OSError, h.wait)
        assert e.errno == errno.ENODATA and e.filename.endswith('short')
        names(e, 'read', 3, 10)
        assert h.wait() in (0, 1)


@case
def asking_whether_it_is_done_is_not_looking():
    with handle() as h:
        future = failing(h)
        while not future.done():
            os.sched_yield()
        raises(OSError, h.wait)
        raises(OSError, future.result)


@case
def a_failure_nobody_looked_at_is_raised_by_close():
    h = handle()
    future = failing(h)
    assert raises(OSError, h.close).errno == errno.ENODATA
    assert h.closed
    raises(OSError, future.result)


@case
def the_first_of_several_is_raised_and_the_others_are_counted():
    with handle() as h:
        for i in range(5):
            failing(h, name=f'short-{i}').done()
        e = raises(OSError, h.wait)
        assert 'short-' in e.filename, e
        assert '4' in ' '.join(getattr(e, '__notes__', [])), e.__dict__


@case
def a_failure_is_not_lost_with_its_future():
    with handle() as h, BlockingMemory() as gate:
        h.read_async(gate.memory, make(data(10)))  # too short a file
        gc.collect()
        gate.open()
        assert raises(OSError, h.wait).errno == errno.ENODATA


@case
def a_handle_that_is_dropped_tells_sys_unraisablehook():
    with unraisable() as seen:
        h = handle()
        failing(h)
        del h
        gc.collect()
    assert [e.errno for e, _ in seen] == [errno.ENODATA], seen
    assert seen[0][0].filename.endswith('short')


@case
def a_dropped_handle_without_failures_is_silent():
    with unraisable() as seen:
        h = handle()
        h.write_async(data(PAGE), path())
        raises(OSError, failing(h).result)
        del h
        gc.collect()
    assert not seen, seen


@case
def a_dropped_handle_warns_nobody_by_default():
    done = child('import penstock; penstock.Handle()')
    assert done.returncode == 0 and not done.stdout and not done.stderr, done


@case
def a_failed_operation_leaves_the_object_usable_and_unlocked():
    buffer = bytearray(10)
    with handle() as h:
        raises(OSError, h.read, buffer, path('missing'))
        raises(OSError, h.read_async, buffer, path('missing'))
        raises(OSError, h.read_async(buffer, make(b'')).result)
        buffer.extend(b'x')  # a bytearray with a view on it cannot grow


@case
def refusals_before_any_io_leave_no_file_behind():
    with handle() as h:
        for bad in (object(), 5, 'text', None, [1, 2], {}):
            for call in (h.write, h.write_async, h.read, h.read_async):
                name = path()
                assert type(bad).__name__ in str(raises(TypeError, call, bad, name))
                assert not os.path.exists(name)
        for call in (h.read, h.read_async):
            for fixed in (b'abc', memoryview(b'abc'), memoryview(bytearray(3)).toreadonly()):
                raises(TypeError, call, fixed, make(b'abc'))


run(*cases)
