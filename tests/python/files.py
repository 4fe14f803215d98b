# SPDX-License-Identifier: Apache-2.0
"""Paths in all their forms, and penstock.File."""
import errno
import os
import pathlib
import subprocess

import penstock
from kit import (MIB, PAGE, BlockingMemory, Skip, case, cases, content, data, each, folder, handle, make,
                 path, raises, run)


class Like:
    """os.PathLike of str or bytes."""

    def __init__(self, value):
        self.value = value

    def __fspath__(self):
        return self.value


FORMS = {
    'str': lambda name: name,
    'bytes': os.fsencode,
    'pathlib': pathlib.Path,
    'PathLike of str': Like,
    'PathLike of bytes': lambda name: Like(os.fsencode(name)),
}


@each(FORMS)
def a_path_may_be_given_as(form):
    name, want = path(), data(MIB + 1)
    given = FORMS[form](name)
    with handle() as h:
        got = bytearray(len(want))
        assert h.write(want, given) == len(want)
        assert content(name) == want
        assert h.read(got, given) == len(want) and got == want
        assert h.write_async(want, given).result() == len(want)
        assert h.write_batch([(want, given), (b'x', given, 5)]) == [len(want), 1]
        assert h.read_batch([(got, given)]) == [len(want)]
        assert got == want[:5] + b'x' + want[6:]
        h.sync(given)
        with h.open(given) as f:
            assert h.read(got, f) == len(want)


def by_descriptor(flags):
    name, want = make(b''), data(MIB + 1)
    try:
        fd = os.open(name, os.O_RDWR | flags)
    except OSError as e:
        raise Skip('O_DIRECT', f'no O_DIRECT here: {e}')
    try:
        with handle() as h:
            got = bytearray(len(want))
            assert h.write(want, fd) == len(want)
            assert content(name) == want
            assert h.read(got, fd) == len(want) and got == want
            assert h.write_async(b'12345', fd, 3).result() == 5
            assert h.read_async(got, fd).result() == len(want)
            assert got == want[:3] + b'12345' + want[8:]
            assert h.read_batch([(got, fd), (memoryview(got)[:5], fd, 3)]) == [len(want), 5]
            assert got[:5] == b'12345'
        assert os.fstat(fd).st_size == len(want)
    finally:
        os.close(fd)


@case
def a_descriptor_stays_the_callers():
    by_descriptor(0)


@case
def a_descriptor_with_O_DIRECT_takes_odd_sizes_too():
    by_descriptor(os.O_DIRECT)


@case
def a_descriptor_that_cannot_write_is_refused_at_a_write():
    name = make(b'abc')
    fd = os.open(name, os.O_RDONLY)
    try:
        with handle() as h:
            assert h.read(bytearray(3), fd) == 3
            e = raises(OSError, h.write, b'x', fd)
            assert e.errno == errno.EBADF and e.filename == fd, e
            assert raises(OSError, h.write_async, b'x', fd).errno == errno.EBADF
    finally:
        os.close(fd)
    assert content(name) == b'abc'


@case
def a_descriptor_with_O_APPEND_is_refused():
    name = make(b'abc')
    fd = os.open(name, os.O_RDWR | os.O_APPEND)
    try:
        with handle() as h:
            e = raises(OSError, h.write, b'x', fd)
            assert e.errno == errno.EINVAL and 'O_APPEND' in e.strerror, e
    finally:
        os.close(fd)
    assert content(name) == b'abc'


@case
def a_closed_or_impossible_descriptor_is_refused():
    fd = 1 << 30
    with handle() as h:
        e = raises(OSError, h.read, bytearray(1), fd)
        assert e.errno == errno.EBADF and e.filename == fd, e
        for number in (-1, 1 << 31, 1 << 70):
            e = raises((ValueError, OSError), h.read, bytearray(1), number)
            assert str(number) in str(e), e


@case
def a_pipe_a_socket_and_a_terminal_are_refused():
    r, w = os.pipe()
    fifo = path('fifo')
    os.mkfifo(fifo)
    try:
        with handle() as h:
            for p, call in ((r, h.read), (w, h.write), (fifo, h.read), ('/dev/null', h.write)):
                e = raises(OSError, call, bytearray(1), p)
                assert e.errno == errno.ESPIPE and e.filename == p, e
    finally:
        os.close(r)
        os.close(w)


@case
def a_zero_byte_in_a_path_is_refused():
    with handle() as h:
        for bad in ('a\0b', b'a\0b', pathlib.Path('a\0b'), Like(b'\0')):
            for call in (h.read, h.write, h.read_async, h.write_async):
                assert 'null' in str(raises(ValueError, call, bytearray(1), bad))
            raises(ValueError, h.open, bad)
            raises(ValueError, h.sync, bad)
            raises(ValueError, h.write_batch, [(b'x', bad)])


@case
def things_that_are_no_paths_are_refused():
    with handle() as h:
        for bad in (None, 1.5, [], object(), bytearray(b'x'), Like(5)):
            for call in (h.read, h.write, h.read_async, h.write_async):
                e = raises(TypeError, call, bytearray(1), bad)
                assert 'path' in str(e) or 'fspath' in str(e), e


@case
def the_empty_path_does_not_exist():
    with handle() as h:
        for empty in ('', b''):
            e = raises(FileNotFoundError, h.read, bytearray(1), empty)
            assert e.filename == empty, e


@case
def names_that_are_not_UTF_8_work_and_come_back():
    raw = os.fsencode(path('')) + b'\xff\xfe name'
    text = os.fsdecode(raw)
    assert '\udcff' in text
    with handle() as h:
        assert h.write(b'abc', text) == 3
        assert content(raw) == b'abc'
        got = bytearray(3)
        assert h.read(got, raw) == 3 and got == b'abc'
        e = raises(OSError, h.read, bytearray(4), text)
        assert e.filename == text and e.errno == errno.ENODATA
        assert os.fsencode(e.filename) == raw
        with h.open(text) as f:
            assert f.name == text


@case
def names_beyond_ASCII_work():
    name = path('Größe ∞ \U0001f40d')
    with handle() as h:
        h.write(b'abc', name)
        assert content(name) == b'abc'
        e = raises(OSError, h.read, bytearray(4), name)
        assert e.filename == name and 'Größe' in e.strerror, e


@case
def a_relative_path_is_relative_to_where_we_are():
    before = os.getcwd()
    os.chdir(folder)
    try:
        with handle() as h:
            name = os.path.basename(path())
            h.write(b'abc', name)
            assert content(os.path.join(folder, name)) == b'abc'
    finally:
        os.chdir(before)


@case
def a_link_leads_to_its_file():
    name, link = make(b'abc'), path('link')
    os.symlink(name, link)
    with handle() as h:
        h.write(b'x', link)
        assert content(name) == b'xbc' and os.path.islink(link)


@case
def a_name_that_is_too_long_is_refused_by_the_kernel():
    with handle() as h:
        e = raises(OSError, h.write, b'x', os.path.join(folder, 'n' * 300))
        assert e.errno == errno.ENAMETOOLONG
        assert raises(OSError, h.write, b'x', 'd/' * 3000).errno == errno.ENAMETOOLONG


@case
def a_loop_device_is_read_and_written():
    image = make(data(4 * MIB))
    done = subprocess.run(['losetup', '--show', '-f', image], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) if os.geteuid() == 0 else None
    if not done or done.returncode:
        raise Skip('root', 'no loop device: ' + (done.stderr.strip() if done else 'not root'))
    device = done.stdout.strip()
    try:
        with handle() as h:
            got = bytearray(4 * MIB)
            assert h.read(got, device) == 4 * MIB and got == data(4 * MIB)
            assert h.write(b'odd', device, 4097, durability='data') == 3
            assert h.read(got, device) == 4 * MIB
            assert got[4090:4105] == data(4 * MIB)[4090:4097] + b'odd' + data(4 * MIB)[4100:4105]
            assert raises(OSError, h.read, bytearray(10), device, 4 * MIB - 5).errno == errno.ENODATA
    finally:
        subprocess.run(['losetup', '-d', device], check=True)


# ------------------------------------------------------------------ penstock.File

@case
def a_file_takes_the_place_of_a_path():
    name, want = path(), data(3 * MIB + 5)
    with handle() as h:
        with h.open(name, 'w+') as f:
            assert isinstance(f, penstock.File) and not f.closed and f.name == name
            assert h.write(want, f) == len(want)
            assert h.write_async(b'abc', f, 100).result() == 3
            got = bytearray(len(want))
            assert h.read(got, f) == len(want)
            assert h.read_batch([(got, f), (memoryview(got)[:3], f, 100)]) == [len(want), 3]
            h.sync(f)
        assert f.closed
        assert content(name)[100:103] == b'abc'


@case
def r_reads_an_existing_file_only():
    name = make(b'abc')
    with handle() as h:
        with h.open(name) as f:
            assert h.read(bytearray(3), f) == 3
            assert raises(OSError, h.write, b'x', f).errno == errno.EBADF
        with h.open(name, 'r') as f:
            assert h.read(bytearray(3), f) == 3
        e = raises(FileNotFoundError, h.open, path('missing'))
        assert e.filename.endswith('missing')
    assert content(name) == b'abc'


@case
def r_plus_reads_and_writes_an_existing_file():
    name = make(b'abc')
    with handle() as h:
        with h.open(name, 'r+') as f:
            assert h.write(b'x', f) == 1 and h.read(bytearray(3), f) == 3
        raises(FileNotFoundError, h.open, path('missing'), 'r+')
    assert content(name) == b'xbc'


@each(('w', 'w+'))
def a_new_or_emptied_file_by(mode):
    name = make(b'long content')
    with handle() as h:
        with h.open(name, mode) as f:
            assert content(name) == b''
            h.write(b'new', f)
        assert content(name) == b'new'
        other = path()
        h.open(other, mode).close()
        assert content(other) == b''


@each(('x', 'x+'))
def a_file_that_must_be_new_by(mode):
    name = path()
    with handle() as h:
        with h.open(name, mode) as f:
            h.write(data(MIB), f)
        e = raises(FileExistsError, h.open, name, mode)
        assert e.filename == name
        assert content(name) == data(MIB)


@case
def other_modes_are_refused_with_those_there_are():
    name = make(b'abc')
    with handle() as h:
        for mode in ('', 'a', 'a+', 'rw', 'wr', 'r++', 'z', 'rt'):
            e = raises(ValueError, h.open, name, mode)
            assert repr(mode) in str(e) and "'r'" in str(e), e
        for mode in (1, b'r', None):
            raises(TypeError, h.open, name, mode)
    assert content(name) == b'abc'


@case
def stat_says_how_a_file_is_used():
    name = make(data(12345))
    with handle(direct='never') as h, h.open(name) as f:
        info = f.stat()
        assert info['bytes'] == 12345 and not info['direct'] and info['why'], info
    with handle() as h, h.open(name, 'r+') as f:
        info = f.stat()
        assert bool(info['direct']) == (not info['why']), info
        assert info['mem_align'] >= 1 and info['offset_align'] >= 1 and info['block'] >= 512, info
        h.write(b'x', f, 20000)
        assert f.stat()['bytes'] == 20001


@case
def a_file_can_be_made_of_a_descriptor():
    name = make(b'abc')
    fd = os.open(name, os.O_RDWR)
    try:
        with handle() as h:
            with h.open(fd, 'r+') as f:
                assert f.name == fd
                assert h.write(b'x', f) == 1
            assert os.fstat(fd).st_size == 3
    finally:
        os.close(fd)
    assert content(name) == b'xbc'


@case
def a_closed_file_says_so():
    name = make(b'abc')
    with handle() as h:
        f = h.open(name, 'r+')
        assert f.close() is None and f.close() is None and f.closed
        for call in (lambda: h.read(bytearray(1), f), lambda: h.write(b'x', f),
                     lambda: h.read_async(bytearray(1), f), lambda: h.write_async(b'x', f),
                     lambda: h.read_batch([(bytearray(1), f)]), lambda: h.sync(f), f.stat,
                     f.__enter__):
            assert 'closed' in str(raises(ValueError, call))
        assert f.name == name
        assert 'closed' in repr(f)
    assert content(name) == b'abc'


@case
def a_file_of_another_handle_is_refused():
    name = make(b'abc')
    with handle() as a, handle() as b, a.open(name) as f:
        for call in (b.read, b.write, b.read_async, b.write_async):
            assert 'handle' in str(raises(ValueError, call, bytearray(1), f))
        assert a.read(bytearray(3), f) == 3


@case
def closing_a_file_waits_for_its_operations():
    with handle() as h, BlockingMemory(data(PAGE)) as gate:
        name = path()
        f = h.open(name, 'w')
        future = h.write_async(gate.memory, f)
        gate.reached()
        gate.open()
        f.close()
        assert future.done() and future.result() == PAGE
        assert content(name) == data(PAGE)


@case
def a_file_dropped_with_operations_in_flight_lives_until_they_end():
    with handle() as h, BlockingMemory(data(PAGE)) as gate:
        name = path()
        f = h.open(name, 'w')
        future = h.write_async(gate.memory, f)
        del f
        gate.reached()
        gate.open()
        assert future.result() == PAGE
        assert content(name) == data(PAGE)


@case
def a_handle_closes_its_files():
    name = make(b'abc')
    h = handle()
    files = [h.open(name) for _ in range(10)]
    h.close()
    assert all(f.closed for f in files)
    for f in files:
        f.close()
        raises(ValueError, f.stat)


@case
def a_file_keeps_working_when_the_handle_is_dropped():
    name = make(b'abc')
    h = handle()
    f = h.open(name)
    del h
    try:
        assert f.stat()['bytes'] == 3
    except ValueError as e:
        assert 'closed' in str(e) and f.closed, e
    f.close()


@case
def files_are_made_by_open_only():
    raises(TypeError, penstock.File)
    raises(TypeError, penstock.File, 'name')
    raises(TypeError, penstock.Future)


@case
def many_operations_share_one_open_file():
    name, want = path(), data(4 * MIB)
    with handle(threads=2) as h, h.open(name, 'w+') as f:
        step = 30011
        for at in range(0, len(want), step):
            h.write_async(want[at:at + step], f, at)
        assert h.wait() == -(-len(want) // step)
        assert content(name) == want


run(*cases)
