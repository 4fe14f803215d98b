# SPDX-License-Identifier: Apache-2.0
"""penstock.Handle: options, transfers of every size and place, waiting, closing."""
import errno
import json
import mmap
import os
import pathlib
import stat

import penstock
from kit import (MIB, PAGE, BlockingMemory, case, cases, content, data, each, failing, handle, make, path,
                 raises, run, unraisable)
from tap import Skip

ENGINES = ('io_uring', 'libaio', 'threads')
SIZES = (0, 1, 511, 512, 513, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 5 * MIB + 3)
OFFSETS = (0, 1, 511, 512, 4095, 4096, 4097, 65535, MIB - 1, MIB + 1)


# ------------------------------------------------------------------ sizes and places

@each(SIZES)
def what_was_written_is_read_back_bytes(size):
    want, name = data(size), path()
    with handle() as h:
        assert h.write(want, name) == size
        assert content(name) == want
        got = bytearray(size)
        assert h.read(got, name) == size
        assert got == want


@each(SIZES)
def the_same_by_futures_bytes(size):
    want, name = data(size), path()
    with handle() as h:
        assert h.write_async(want, name).result() == size
        assert content(name) == want
        got = bytearray(size)
        assert h.read_async(got, name).result() == size
        assert got == want


@each(OFFSETS)
def any_offset_works_with_any_size_at(offset):
    before = data(2 * MIB + 100, seed=2)
    with handle() as h:
        for size in (0, 1, 513, 4096, 70001):
            want, name = data(size, seed=offset), make(before)
            assert h.write(want, name, offset) == size
            assert content(name) == before[:offset] + want + before[offset + size:]
            got = bytearray(size)
            assert h.read(got, name, offset) == size
            assert got == want


@each(ENGINES)
def every_engine_moves_the_same_bytes(engine):
    want, name = data(3 * MIB + 77), path()
    with handle(engine, block=65536, depth=8) as h:
        assert h.engine == engine
        parts = [(i, min(i + 100003, len(want))) for i in range(0, len(want), 100003)]
        futures = [h.write_async(want[a:b], name, a) for a, b in parts]
        assert [f.result() for f in futures] == [b - a for a, b in parts]
        assert content(name) == want
        got = bytearray(len(want))
        view = memoryview(got)
        futures = [h.read_async(view[a:b], name, a) for a, b in parts]
        assert sum(f.result() for f in futures) == len(want)
        assert got == want


@each(ENGINES)
def every_engine_works_without_O_DIRECT(engine):
    want, name = data(MIB + 5), path()
    with handle(engine, direct='never') as h:
        future = h.write_async(want, name)
        assert future.result() == len(want) and 'direct' not in future.ways
        assert content(name) == want


@case
def null_moves_nothing_and_says_it_did():
    name = make(data(PAGE))
    got = bytearray(PAGE)
    with handle('null') as h:
        assert h.engine == 'null'
        assert h.read(got, name) == PAGE
        assert h.read_async(got, name).result() == PAGE
        assert h.write(data(PAGE, seed=9), name) == PAGE
    assert got == bytes(PAGE)
    assert content(name) == data(PAGE)


@case
def a_hole_before_a_write_reads_as_zeros():
    name = path()
    with handle() as h:
        h.write(b'end', name, 3 * MIB + 5)
        assert os.path.getsize(name) == 3 * MIB + 8
        got = bytearray(b'x' * (3 * MIB + 8))
        assert h.read(got, name) == len(got)
        assert got == bytes(3 * MIB + 5) + b'end'


@case
def the_middle_is_overwritten_and_nothing_is_cut_off():
    before, name = data(100000), make(data(100000))
    with handle() as h:
        h.write(b'middle', name, 50001)
        h.write_async(b'start', name).result()
    assert content(name) == b'start' + before[5:50001] + b'middle' + before[50007:]


@case
def with_truncate_the_file_ends_where_the_write_ends():
    before = data(100000)
    with handle() as h:
        for offset, size in ((0, 10), (0, 0), (777, 5000), (4096, 4096), (99999, 1), (99990, 100)):
            for write in (h.write, lambda *a, **k: h.write_async(*a, **k).result()):
                name, new = make(before), data(size, seed=3)
                assert write(new, name, offset, truncate=True) == size
                assert content(name) == before[:offset] + new


@case
def length_moves_the_start_of_an_object_only():
    name = path()
    with handle() as h:
        assert h.write(b'abcdefgh', name, 0, 5) == 5
        assert content(name) == b'abcde'
        assert h.write(b'xyz', name, offset=1, length=2) == 2
        assert content(name) == b'axyde'
        got = bytearray(b'........')
        assert h.read(got, name, 1, 3) == 3
        assert got == b'xyd.....'
        assert h.read(got, name, length=0) == 0
        assert h.read_async(got, name, 0, None).exception().errno == errno.ENODATA


@case
def length_beyond_the_object_is_refused_before_anything_happens():
    name = path()
    with handle() as h:
        for call in (h.write, h.write_async, h.read, h.read_async):
            for length in (4, 1 << 62, -1, -5):
                e = raises(ValueError, call, bytearray(3), name, 0, length)
                assert str(length) in str(e), e
        assert not os.path.exists(name)


@case
def a_negative_or_huge_offset_is_refused():
    name = path()
    with handle() as h:
        for call in (h.write, h.write_async, h.read, h.read_async):
            for offset in (-1, 1 << 63, 1 << 70):
                e = raises(ValueError, call, bytearray(3), name, offset)
                assert 'offset' in str(e) and str(offset) in str(e), e
            raises(TypeError, call, bytearray(3), name, 1.0)
            raises(TypeError, call, bytearray(3), name, '1')
        assert not os.path.exists(name)


@case
def a_file_that_ends_early_is_ENODATA():
    name = make(data(1000))
    with handle() as h:
        for offset, left in ((0, 1000), (999, 1), (1000, 0), (5000, 0)):
            e = raises(OSError, h.read, bytearray(4096), name, offset)
            assert e.errno == errno.ENODATA and e.filename == name, e
            assert f'offset {offset}' in e.strerror and 'length 4096' in e.strerror, e
            assert f'after {left} of these bytes' in e.strerror, e
            assert h.read_async(bytearray(4096), name, offset).exception().errno == errno.ENODATA


@case
def with_partial_a_short_file_gives_a_short_count():
    want = data(1000)
    name = make(want)
    with handle() as h:
        for offset in (0, 1, 512, 999, 1000, 5000):
            for read in (h.read, lambda *a, **k: h.read_async(*a, **k).result()):
                got = bytearray(b'.' * 4096)
                n = read(got, name, offset, partial=True)
                assert n == max(0, 1000 - offset)
                assert got[:n] == want[offset:]  # what follows is not defined


@case
def nothing_is_read_from_nothing():
    name = make(b'')
    with handle() as h:
        assert h.read(bytearray(0), name) == 0
        assert h.read(bytearray(10), name, partial=True) == 0
        assert h.read(bytearray(0), name, 12345) == 0


@case
def writing_nothing_makes_an_empty_file():
    name = path()
    with handle() as h:
        assert h.write(b'', name) == 0
    assert content(name) == b''


# ------------------------------------------------------------------ durability, modes

@each(('none', 'data', 'full'))
def durability_is_an_option_of_the_handle_and_of_each_write(word):
    want = data(MIB + 1)
    with handle(durability=word) as h:
        for name in (path(), path()):
            assert h.write(want, name) == len(want)
            assert content(name) == want
    with handle() as h:
        name = path()
        assert h.write(want, name, durability=word) == len(want)
        assert h.write_async(want, name, durability=word).result() == len(want)
        assert h.write(b'', name, durability=word) == 0
        assert content(name) == want


@case
def an_unknown_durability_is_refused_with_the_words_there_are():
    with handle() as h:
        for call in (h.write, h.write_async):
            e = raises(ValueError, call, b'x', path(), durability='very')
            assert all(word in str(e) for word in ('very', 'none', 'data', 'full')), e
            raises(TypeError, call, b'x', path(), durability=1)


@case
def sync_makes_a_file_durable_and_fails_for_a_missing_one():
    name = make(b'abc')
    with handle() as h:
        assert h.sync(name) is None
        with open(name, 'rb+') as f:
            assert h.sync(f.fileno()) is None
        with h.open(name, 'r+') as f:
            assert h.sync(f) is None
        e = raises(FileNotFoundError, h.sync, path('missing'))
        assert e.filename.endswith('missing')


@case
def mode_is_the_permission_of_new_files():
    before = os.umask(0o022)
    try:
        for mode, want in ((0, 0o644), (0o600, 0o600), (0o666, 0o644), (0o777, 0o755)):
            name = path()
            with handle(mode=mode) as h:
                h.write(b'x', name)
                assert stat.S_IMODE(os.stat(name).st_mode) == want, oct(mode)
    finally:
        os.umask(before)


# ------------------------------------------------------------------ options

@case
def all_options_together():
    want, name = data(MIB + 1), path()
    with handle(threads=3, depth=16, block=65536, direct='auto', durability='data',
                huge_pages='never', single_submit=True, overlap=False, mode=0o600) as h:
        assert h.write(want, name) == len(want)
        assert h.write_async(want, name).result() == len(want)
        stats = h.stats()
        assert stats['threads'] == 3 and stats['depth'] == 16, stats
    assert content(name) == want


def _stats_of_a_read(engine, **options):
    """After 256 blocks, at most 16 of them in flight."""
    with handle(engine, block=65536, depth=16, **options) as h:
        assert h.read_async(penstock.Memory(16 * MIB, pinned=False), make(bytes(16 * MIB))).result()
        assert h.stats()['blocks'] == 256, h.stats()
        return h.stats()


@case
def single_submit_is_one_call_for_each_block():
    assert _stats_of_a_read('null', single_submit=True)['submit_calls'] == 256
    assert _stats_of_a_read('null', single_submit=False)['submit_calls'] == 256 / 16
    assert _stats_of_a_read('null')['submit_calls'] == 256 / 16


@case
def without_overlap_the_queue_is_filled_only_when_it_is_empty():
    assert _stats_of_a_read('threads', overlap=False)['submit_calls'] == 256 / 16


@case
def spare_cpu_copies_nothing_that_can_go_straight():
    name = make(data(32 * MIB))

    def bounced(**options):
        with handle(**options) as h, mmap.mmap(-1, 32 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            assert h.read(memory, name) == 32 * MIB
            return h.stats()['blocks_bounced']
    assert bounced(spare_cpu=True) == 0
    if not bounced():
        raise Skip('virtual disk', 'nothing is copied here in any case')


@case
def zero_is_the_default():
    with handle(None, threads=0, depth=0, block=0, mode=0) as h:
        assert h.stats()['threads'] >= 1
        assert h.write(b'x', path()) == 1


def _refused(word, values, *more):
    for value in values:
        e = raises(ValueError, penstock.Handle, **{word: value})
        assert word in str(e) and str(value) in str(e), e
        assert all(text in str(e) for text in more), e
        assert '\n' not in str(e), e


@case
def numbers_out_of_range_are_refused_with_the_range():
    _refused('threads', (-1, 257, 1 << 40), '256')
    _refused('depth', (-1, 4097, 1 << 40), '4096')
    _refused('mode', (-1, 0o10000, 1 << 40))
    _refused('block', (-1, 511, 513, 1000, (1 << 30) + 512, 1 << 70), '512')


def _config(**members):
    return {'aio': members}


@case
def a_configuration_gives_what_the_call_does_not():
    settings = _config(block_size=131072, queue_depth=16, intra_op_parallelism=3, single_submit=True,
                       overlap_events=False)
    name = make(json.dumps(settings).encode())
    for config in name, os.fsencode(name), pathlib.Path(name), settings, settings['aio']:
        with handle(config=config) as h:
            stats = h.stats()
            assert (stats['threads'], stats['depth']) == (3, 16)
            h.write(bytes(MIB), path())
            h.write_async(bytes(MIB), path()).result()
            assert h.stats()['blocks'] >= 8
    with handle(config=_config(engine='threads')) as h:  # as `penstock tune' writes it where one was named
        assert h.stats()['engine'] == 'threads'
    with handle(config=name, threads=2) as h:
        assert (h.stats()['threads'], h.stats()['depth']) == (2, 16)


@case
def a_configuration_takes_old_names_and_flags_as_text():
    for threads in 'num_threads', 'thread_count':
        with handle(config=_config(**{threads: 2}, single_submit='false', overlap_events='true')) as h:
            assert h.stats()['threads'] == 2


@case
def a_bad_configuration_is_refused_with_what_is_wrong():
    for config, kind, words in (
            (_config(depth=3), ValueError, ("'depth'", 'queue_depth')),
            (_config(single_submit=1), ValueError, ('single_submit', 'true')),
            (_config(queue_depth=5000), ValueError, ('depth', '4096')),
            ({'aio': 3}, ValueError, ('aio',)),
            (7, TypeError, ('7',)),
            (make(b'{'), ValueError, ('JSON',)),
            (path(), FileNotFoundError, ())):
        text = str(raises(kind, penstock.Handle, config=config))
        assert all(word in text for word in words), text


@case
def words_that_are_not_known_are_refused_with_those_that_are():
    _refused('direct', ('maybe', '', 'Always'), 'auto', 'always', 'never')
    _refused('durability', ('much', ''), 'none', 'data', 'full')
    _refused('huge_pages', ('often', ''), 'auto', 'reserved', 'never')


@case
def options_of_the_wrong_type_are_a_TypeError():
    for word in ('threads', 'depth', 'block', 'mode'):
        for value in ('2', 2.0, [], b'2'):
            assert word in str(raises(TypeError, penstock.Handle, **{word: value}))
    for word in ('direct', 'durability', 'huge_pages'):
        for value in (1, None, b'never'):
            assert word in str(raises(TypeError, penstock.Handle, **{word: value}))
    raises(TypeError, penstock.Handle, 5)
    raises(TypeError, penstock.Handle, b'threads')
    raises(TypeError, penstock.Handle, 'threads', 2)
    assert 'thread' in str(raises(TypeError, penstock.Handle, thread=2))


@case
def an_unknown_engine_is_refused_by_name():
    for name in ('warp', '', 'IO_URING', 'warp:speed=9'):
        e = raises((ValueError, OSError), penstock.Handle, name)
        assert name.split(':')[0] in str(e) and '\n' not in str(e), e
    raises(ValueError, penstock.Handle, 'thre\0ads')
    e = raises((ValueError, OSError), penstock.Handle, 'fault:nonsense=1')
    assert 'nonsense' in str(e), e


@case
def a_refused_handle_leaves_nothing_behind():
    before = len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))
    for _ in range(50):
        raises(ValueError, penstock.Handle, depth=5000)
        raises((ValueError, OSError), penstock.Handle, 'warp')
        raises((ValueError, OSError), penstock.Handle, 'fault:nonsense=1')
    assert (len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))) == before


@case
def direct_always_is_direct_or_an_error():
    name = make(data(MIB))
    with handle(direct='always') as h:
        try:
            future = h.read_async(bytearray(MIB), name)
            assert future.result() == MIB
            assert 'direct' in future.ways and 'buffered' not in future.ways, future.ways
        except OSError as e:
            assert e.errno == errno.EINVAL and 'O_DIRECT' in e.strerror, e


@case
def direct_always_fails_where_there_is_none():
    with handle(direct='always') as h:
        e = raises(OSError, h.read, bytearray(1), '/proc/self/status')
        assert e.errno == errno.EINVAL and 'O_DIRECT' in e.strerror, e


# ------------------------------------------------------------------ waiting

@case
def wait_counts_what_finished_since_the_last_wait():
    name = make(data(PAGE))
    with handle() as h:
        assert h.wait() == 0
        for n in (1, 7, 300):
            futures = [h.read_async(bytearray(PAGE), name) for _ in range(n)]
            assert h.wait() == n
            assert all(f.done() for f in futures)
            assert h.wait() == 0


@case
def wait_counts_what_was_already_collected_and_what_was_dropped():
    name = make(data(PAGE))
    with handle() as h:
        h.read_async(bytearray(PAGE), name).result()
        h.read_async(bytearray(PAGE), name)
        h.read_batch_async([(bytearray(PAGE), name)] * 3)
        assert h.wait() == 5


@case
def wait_does_not_count_blocking_calls():
    name = make(data(PAGE))
    with handle() as h:
        h.read(bytearray(PAGE), name)
        h.write(b'x', name)
        h.read_batch([(bytearray(PAGE), name)] * 3)
        h.read_async(bytearray(PAGE), name)
        assert h.wait() == 1


@case
def wait_counts_failures_that_were_seen():
    with handle() as h:
        raises(OSError, failing(h).result)
        h.read_async(bytearray(1), make(b'x'))
        assert h.wait() == 2


@case
def wait_does_not_count_what_was_refused_at_submission():
    with handle() as h:
        raises(FileNotFoundError, h.read_async, bytearray(1), path('missing'))
        raises(TypeError, h.read_async, None, path('missing'))
        assert h.wait() == 0 and h.pending == 0


@case
def wait_ends_at_its_timeout_and_later_succeeds():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        for timeout in (0, 0.001, 0.01):
            raises(TimeoutError, h.wait, timeout)
        assert h.pending == 1 and not future.done()
        gate.open()
        assert h.wait(3600) == 1
        assert h.pending == 0 and future.done()
        assert gate.memory[:] == data(PAGE)


@case
def timeouts_of_any_size_are_understood():
    name = make(data(PAGE))
    with handle() as h:
        for timeout in (None, 1e9, 1e18, float('inf'), 3600, True):
            h.read_async(bytearray(PAGE), name)
            assert h.wait(timeout) == 1
            assert h.read_async(bytearray(PAGE), name).result(timeout) == PAGE
            h.wait()
        for timeout in ('1', [], b''):
            raises(TypeError, h.wait, timeout)
            raises(TypeError, h.read_async(bytearray(PAGE), name).result, timeout)
        for timeout in (float('nan'),):
            raises(ValueError, h.wait, timeout)
            raises(ValueError, h.read_async(bytearray(PAGE), name).result, timeout)


@case
def wait_raises_the_first_failure_nobody_has_seen_once():
    with handle() as h:
        failing(h, name='first')
        while h.pending:
            os.sched_yield()
        failing(h, name='second')
        e = raises(OSError, h.wait)
        assert e.errno == errno.ENODATA and e.filename.endswith('first'), e
        assert h.wait() in (0, 2)
        assert h.wait() == 0


@case
def wait_is_silent_about_failures_that_were_seen():
    with handle() as h:
        first, second = failing(h), failing(h)
        assert first.exception() is not None
        raises(OSError, second.result)
        assert h.wait() == 2


@case
def pending_is_what_is_in_flight():
    with handle() as h, BlockingMemory() as gate:
        assert h.pending == 0
        name = make(data(PAGE))
        futures = [h.read_async(gate.memory, name) for _ in range(5)]
        gate.reached()
        assert h.pending == 5
        gate.open()
        for f in futures:
            f.result()
        assert h.wait() == 5 and h.pending == 0


@case
def stats_count_what_was_done():
    name = make(data(MIB))
    with handle('threads', threads=2, depth=4) as h:
        h.read(bytearray(MIB), name)
        h.write(b'x' * 1000, path())
        raises(FileNotFoundError, h.read, bytearray(1), path('missing'))
        stats = h.stats()
        assert stats['engine'] == 'threads', stats
        assert stats['bytes_read'] == MIB and stats['bytes_written'] == 1000, stats
        assert stats['threads'] == 2 and stats['depth'] == 4, stats


# ------------------------------------------------------------------ closing

@case
def a_handle_is_a_context_manager():
    name = path()
    with handle() as h:
        assert isinstance(h, penstock.Handle) and not h.closed
        h.write_async(data(MIB), name)
    assert h.closed
    assert content(name) == data(MIB)


@case
def close_twice_is_one_close():
    h = handle()
    assert h.close() is None
    assert h.close() is None
    with handle() as h:
        h.close()
    assert h.closed


@case
def close_waits_for_what_is_in_flight():
    names = [path() for _ in range(20)]
    h = handle()
    for name in names:
        h.write_async(data(MIB), name)
    h.close()
    for name in names:
        assert content(name) == data(MIB)


@case
def after_close_everything_says_so():
    name, h = make(data(PAGE)), handle()
    f, future = h.open(name), h.read_async(bytearray(PAGE), name)
    h.close()
    buffer = bytearray(PAGE)
    for call in (lambda: h.read(buffer, name), lambda: h.write(buffer, name),
                 lambda: h.read_async(buffer, name), lambda: h.write_async(buffer, name),
                 lambda: h.read_batch([(buffer, name)]), lambda: h.write_batch([(buffer, name)]),
                 lambda: h.read_batch_async([(buffer, name)]),
                 lambda: h.write_batch_async([(buffer, name)]), lambda: h.open(name),
                 lambda: h.sync(name), h.wait, h.stats, h.__enter__):
        assert 'handle is closed' in str(raises(ValueError, call))
    assert h.closed and h.pending == 0
    assert future.result() == PAGE
    assert f.closed
    assert content(name) == data(PAGE)


@case
def leaving_the_block_raises_what_nobody_has_seen():
    def work():
        with handle() as h:
            failing(h)
    assert raises(OSError, work).filename.endswith('short')


@case
def leaving_the_block_does_not_hide_another_exception():
    def work():
        with handle() as h:
            failing(h)
            raise KeyError('mine')
    with unraisable() as seen:
        assert raises(KeyError, work).args == ('mine',)
    assert [e.errno for e, _ in seen] == [errno.ENODATA], seen


@case
def a_closed_handle_reported_its_failure_once():
    h = handle()
    failing(h)
    raises(OSError, h.close)
    assert h.closed
    h.close()


@case
def the_names_say_what_things_are():
    with handle('threads') as h:
        assert 'threads' in repr(h) and 'Handle' in repr(h)
    assert 'closed' in repr(h)


@case
def init_cannot_be_called_a_second_time():
    with handle() as h:
        raises((RuntimeError, TypeError, ValueError), h.__init__)
        assert h.write(b'x', path()) == 1


@case
def a_handle_without_init_is_refused_not_fatal():
    h = penstock.Handle.__new__(penstock.Handle)
    raises((ValueError, RuntimeError), h.read, bytearray(1), make(b'x'))
    raises((ValueError, RuntimeError), h.wait)
    h.close()
    repr(h)


@case
def arguments_are_checked_by_name_and_number():
    with handle() as h:
        raises(TypeError, h.read)
        raises(TypeError, h.read, bytearray(1))
        raises(TypeError, h.read, bytearray(1), make(b'x'), 0, 1, True)
        assert 'truncate' in str(raises(TypeError, h.read, bytearray(1), make(b'x'), truncate=True))
        raises(TypeError, h.write, b'x', path(), partial=True)
        raises(TypeError, h.write, b'x', path(), obj=b'y')
        assert h.write(obj=b'xyz', path=make(b''), offset=0, length=2) == 2


run(*cases)
