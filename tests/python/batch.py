# SPDX-License-Identifier: Apache-2.0
"""Lists of (object, path, offset) in one call."""
import errno
import os
import pathlib

from kit import (MIB, PAGE, BlockingMemory, case, cases, content, data, handle, make, path, raises, run)


@case
def a_batch_writes_and_reads_all_of_it():
    wants = [data(n, seed=n) for n in (0, 1, 513, 4096, 70001, MIB + 1)]
    names = [path() for _ in wants]
    with handle() as h:
        assert h.write_batch(list(zip(wants, names))) == [len(w) for w in wants]
        assert [content(n) for n in names] == wants
        buffers = [bytearray(len(w)) for w in wants]
        assert h.read_batch(zip(buffers, names)) == [len(w) for w in wants]
        assert buffers == wants


@case
def an_offset_may_follow_the_path():
    name = path()
    with handle() as h:
        assert h.write_batch([(b'abc', name), (b'def', name, 3), [b'ghi', name, 6]]) == [3, 3, 3]
        assert content(name) == b'abcdefghi'
        a, b = bytearray(2), bytearray(3)
        assert h.read_batch([(a, name, 7), (b, name)]) == [2, 3]
        assert (a, b) == (b'hi', b'abc')


@case
def a_batch_of_futures_is_a_list_in_the_same_order():
    wants = [data(n, seed=n) for n in range(0, 20000, 997)]
    with handle() as h:
        names = [path() for _ in wants]
        futures = h.write_batch_async(zip(wants, names))
        assert isinstance(futures, list)
        assert [f.result() for f in futures] == [len(w) for w in wants]
        buffers = [bytearray(len(w)) for w in wants]
        futures = h.read_batch_async((b, n, 0) for b, n in zip(buffers, names))
        assert h.wait() == 2 * len(wants)
        assert buffers == wants


@case
def an_empty_batch_is_done():
    with handle() as h:
        for empty in ([], (), iter([]), {}):
            assert h.read_batch(empty) == []
            assert h.write_batch(empty) == []
            assert h.read_batch_async(empty) == []
            assert h.write_batch_async(empty) == []
        assert h.wait() == 0


@case
def thousands_fit_in_one_batch():
    name, want = make(data(MIB)), data(MIB)
    buffers = [bytearray(100) for _ in range(5000)]
    with handle() as h:
        got = h.read_batch((b, name, i * 200) for i, b in enumerate(buffers))
        assert got == [100] * 5000
        assert all(b == want[i * 200:i * 200 + 100] for i, b in enumerate(buffers))


@case
def the_options_hold_for_all_of_a_batch():
    names = [make(data(PAGE)) for _ in range(3)]
    with handle() as h:
        assert h.write_batch([(b'abc', n) for n in names], truncate=True, durability='data') == [3] * 3
        assert [content(n) for n in names] == [b'abc'] * 3
        futures = h.write_batch_async([(b'x', n, 1) for n in names], truncate=True,
                                      durability='full')
        assert [f.result() for f in futures] == [1] * 3
        assert [content(n) for n in names] == [b'ax'] * 3
        buffers = [bytearray(b'....') for _ in names]
        assert h.read_batch(zip(buffers, names), partial=True) == [2] * 3
        assert buffers == [b'ax..'] * 3
        futures = h.read_batch_async(zip(buffers, names), partial=True)
        assert [f.result() for f in futures] == [2] * 3
        assert raises(OSError, h.read_batch, zip(buffers, names)).errno == errno.ENODATA
        raises(ValueError, h.write_batch, [(b'x', names[0])], durability='much')
        raises(TypeError, h.write_batch, [(b'x', names[0])], partial=True)
        raises(TypeError, h.read_batch, [(buffers[0], names[0])], truncate=True)


@case
def everything_is_checked_before_anything_is_done():
    wrong = [
        (TypeError, lambda n: (object(), n)),
        (TypeError, lambda n: (b'x', None)),
        (TypeError, lambda n: (b'x', n, 'offset')),
        (TypeError, lambda n: (b'x', n, 1.5)),
        (ValueError, lambda n: (b'x', n, -1)),
        (ValueError, lambda n: (b'x', 'a\0b')),
        ((TypeError, ValueError), lambda n: (b'x',)),
        ((TypeError, ValueError), lambda n: (b'x', n, 0, 5)),
        ((TypeError, ValueError), lambda n: ()),
        (TypeError, lambda n: 5),
        (TypeError, lambda n: None),
    ]
    with handle() as h:
        for call in (h.write_batch, h.write_batch_async):
            for kind, make_wrong in wrong:
                names = [path() for _ in range(4)]
                items = [(b'x', n) for n in names]
                items[2] = make_wrong(names[2])
                raises(kind, call, items)
                assert not any(os.path.exists(n) for n in names), make_wrong(names[2])
        assert h.wait() == 0 and h.pending == 0


@case
def a_read_only_object_stops_the_whole_batch():
    name = make(data(PAGE))
    buffer = bytearray(PAGE)
    with handle() as h:
        for call in (h.read_batch, h.read_batch_async):
            raises(TypeError, call, [(buffer, name), (b'fixed', name)])
        assert h.wait() == 0 and buffer == bytes(PAGE)
        buffer.append(1)  # and nothing holds on to it


@case
def an_iterable_that_raises_stops_the_whole_batch():
    names = [path() for _ in range(3)]

    def items():
        yield b'x', names[0]
        yield b'x', names[1]
        raise KeyError('mine')

    with handle() as h:
        for call in (h.write_batch, h.write_batch_async):
            assert raises(KeyError, call, items()).args == ('mine',)
        assert not any(os.path.exists(n) for n in names)


@case
def what_is_no_iterable_is_refused():
    with handle() as h:
        for bad in (None, 5, object()):
            for call in (h.write_batch, h.write_batch_async, h.read_batch, h.read_batch_async):
                raises(TypeError, call, bad)
        raises(TypeError, h.write_batch)
        raises((TypeError, ValueError), h.write_batch, 'text')


@case
def an_iterable_that_closes_the_handle_is_told():
    h = handle()
    name = make(data(PAGE))

    def items():
        yield bytearray(1), name
        h.close()
        yield bytearray(1), name

    raises(ValueError, h.read_batch, items())


@case
def a_blocking_batch_finishes_all_and_raises_the_first_failure():
    good = [make(data(PAGE, seed=i)) for i in range(3)]
    missing = [path(f'missing-{i}') for i in range(3)]
    buffers = [bytearray(PAGE) for _ in range(6)]
    order = [good[0], missing[0], good[1], missing[1], missing[2], good[2]]
    with handle() as h:
        e = raises(FileNotFoundError, h.read_batch, zip(buffers, order))
        assert e.filename == missing[0], e
        assert len(e.__notes__) == 1 and '2' in e.__notes__[0], e.__notes__
        assert [buffers[i] for i in (0, 2, 5)] == [data(PAGE, seed=i) for i in range(3)]
        assert h.wait() == 0


@case
def a_single_failure_has_no_note():
    with handle() as h:
        e = raises(FileNotFoundError, h.read_batch,
                   [(bytearray(1), make(b'x')), (bytearray(1), path('missing'))])
        assert not getattr(e, '__notes__', None), e.__notes__


@case
def failures_of_different_kinds_are_told_apart_by_futures():
    short, gone = make(b'x'), path('missing')
    with handle() as h:
        futures = h.read_batch_async([(bytearray(1), short), (bytearray(2), short),
                                      (bytearray(1), gone), (bytearray(1), '/')])
        assert futures[0].result() == 1
        assert futures[1].exception().errno == errno.ENODATA
        assert isinstance(futures[2].exception(), FileNotFoundError)
        assert isinstance(futures[3].exception(), IsADirectoryError)
        assert h.wait() == 2  # the other two were never started


@case
def a_batch_with_device_errors_tells_each():
    name = make(data(MIB))
    with handle('fault:inner=threads,error=0.5,seed=2') as h:
        futures = h.read_batch_async([(bytearray(512), name, i * 512) for i in range(200)])
        failed = [f for f in futures if f.exception()]
        assert 0 < len(failed) < 200
        assert all(f.exception().errno == errno.EIO for f in failed)
        e = raises(OSError, h.read_batch, [(bytearray(512), name, i * 512) for i in range(200)])
        assert e.errno == errno.EIO and e.__notes__, e


@case
def one_batch_mixes_all_kinds_of_paths():
    name = make(data(PAGE))
    fd = os.open(name, os.O_RDWR)
    try:
        with handle() as h, h.open(name) as f:
            forms = [name, os.fsencode(name), pathlib.Path(name), fd, f]
            buffers = [bytearray(PAGE) for _ in forms]
            assert h.read_batch(zip(buffers, forms)) == [PAGE] * 5
            assert all(b == data(PAGE) for b in buffers)
    finally:
        os.close(fd)


@case
def a_batch_in_flight_does_not_hold_up_what_comes_after_it():
    name = make(data(PAGE))
    with handle('threads', threads=2) as h, BlockingMemory() as gate:
        futures = h.read_batch_async([(gate.memory, name)])
        gate.reached()
        assert h.read_batch([(bytearray(PAGE), name)] * 3) == [PAGE] * 3
        assert not futures[0].done()
        gate.open()
        assert futures[0].result() == PAGE


run(*cases)
