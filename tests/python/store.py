# SPDX-License-Identifier: Apache-2.0
"""penstock.Store: like a dictionary, in batches, with asyncio."""
import asyncio
import contextlib
import errno
import logging
import mmap
import os
import pathlib
import select
import threading

import penstock.store
from kit import (MIB, case, cases, data, in_fork, make, numpy_or_skip, path, raises,
                 run, torch_or_skip)


def store(**options):
    return penstock.Store([path('store')], 64 * MIB, **options)


@case
def a_store_is_like_a_dictionary():
    with store() as s:
        s['a'] = b'value'
        s[b'b'] = bytearray(70000)
        assert s['a'] == b'value' and s.get('b') == bytes(70000)
        assert 'a' in s and b'a' in s and 'c' not in s
        assert s.get('c') is None and s.get('c', 7) == 7
        del s['a']
        raises(KeyError, lambda: s['a'])
        raises(KeyError, lambda: s.__delitem__('a'))
        assert s.set('e', b'') and s['e'] == b''


@case
def batches_fill_the_memory_they_are_given():
    keys = [f'k{i}' for i in range(50)]
    wants = [data(1000 * i, seed=i) for i in range(50)]
    with store() as s:
        assert s.set_many(keys, wants) == [True] * 50
        got = [bytearray(len(w)) for w in wants]
        assert s.get_many(keys, got) == [True] * 50 and got == wants
        assert s.get_many(keys, got, deadline=60) == [True] * 50 and got == wants
        assert s.delete_many(['k7', 'none']) == [True, False]
        assert s.exists_many(['k6', 'k7']) == [True, False]
        assert s.prefix(keys) == 7 and s.prefix(keys[8:]) == 42 and s.prefix([]) == 0
        assert s.set_many(['k6'], [bytes(len(wants[6]))], absent=True) == [True] and s['k6'] == wants[6]
        assert s.set_many(['k6'], [b'new'], absent=True) == [True] and s['k6'] == b'new'  # another length
        assert s.stats()['deletes'] == 1 and 'penstock_store_hits_total' in s.metrics()


@case
def a_list_of_buffers_is_one_value():
    with store() as s:
        s.set_many(['a'], [[b'abc', b'', b'defg']])
        first, rest = bytearray(2), bytearray(5)
        assert s.get_many(['a'], [[first, rest]]) == [True]
        assert first + rest == b'abcdefg'


@case
def addresses_will_do():
    mem = penstock.Memory(8192)
    memoryview(mem)[:3] = b'xyz'
    with store() as s:
        assert s.set_many(['a'], [(mem.address, 8192)]) == [True]
        assert s['a'][:4] == b'xyz\0' and len(s['a']) == 8192


@case
def memory_is_registered_until_it_is_not_or_the_store_is_closed():
    pool = mmap.mmap(-1, 4 * MIB)  # shared, as the pools of engines are
    with memoryview(pool) as view, store() as s:
        took = s.register(view)
        raises(BufferError, pool.close)  # it is kept
        view[:MIB] = data(MIB)
        assert s.set_many(['a'], [view[:MIB]]) == [True]
        assert s.get_many(['a'], [view[2 * MIB:3 * MIB]]) == [True] and view[2 * MIB:3 * MIB] == data(MIB)
        s.unregister(view)
        assert 'obj: its memory is not registered with this store' in str(raises(ValueError, lambda: s.unregister(view)))
        assert s.get_many(['a'], [view[3 * MIB:]]) == [True] and view[3 * MIB:] == data(MIB)
        assert s.register(view) is took and s.register(view, huge=True) is took
        memory = penstock.Memory(MIB)
        assert s.register(memory) is took and s.register((memory.address, MIB)) is took
        raises(ValueError, lambda: s.register(view[::2]))
        raises(TypeError, lambda: s.register(7))
        raises(OSError, lambda: s.register(b''))
    pool.close()
    raises(ValueError, lambda: s.register(bytearray(MIB)))


@case
def what_is_touched_stays_as_what_is_read_does():
    for touch in (lambda s: s.touch(['old', 'none']), lambda s: s.get('old'), None):
        with penstock.Store([path('store')], 16 * MIB, policy='lru') as s:
            s['old'] = bytes(MIB)
            for i in range(40):
                s[f'{i}'] = bytes(MIB)
                if touch:
                    touch(s)
            assert ('old' in s) is bool(touch) and '0' not in s
            assert s.touch(['39', '0']) == [True, False]


@case
def arrays_and_tensors_are_values():
    np = numpy_or_skip()
    with store() as s:
        a = np.arange(10000, dtype=np.int32).reshape(100, 100)
        assert s.set('a', a) and s.set('columns', a.T)
        b = np.zeros_like(a)
        assert s.get_many(['columns'], [b]) == [True] and (b == a.T).all()
        torch = torch_or_skip()
        t = torch.zeros(100, 100, dtype=torch.int32)
        assert s.get_many(['a'], [t]) == [True] and (t.numpy() == a).all()


@case
def finished_batches_are_drained():
    with store() as s:
        ticket = s.submit(penstock.store.SET, ['a', 'b'], [b'1', b'22'])
        select.select([s.fileno()], [], [])
        assert s.drain() == [(ticket, [1, 2])] and s.drain() == []
        ticket = s.submit(penstock.store.GET, ['a', 'c'], [bytearray(9), bytearray(9)])
        select.select([s.fileno()], [], [])
        assert s.drain() == [(ticket, [1, -errno.ENOENT])]


@case
def batches_can_be_awaited():
    async def go(s):
        keys = [f'k{i}' for i in range(20)]
        await asyncio.gather(*(s.run_async(penstock.store.SET, [k], [k.encode()]) for k in keys))
        got = [bytearray(3) for _ in keys]
        sizes = await asyncio.gather(*(s.run_async(penstock.store.GET, [k], [b])
                                       for k, b in zip(keys, got)))
        assert [bytes(b[:n]) for b, (n,) in zip(got, sizes)] == [k.encode() for k in keys]
    with store() as s:
        asyncio.run(go(s))
        asyncio.run(go(s))


@case
def threads_that_wait_take_nothing_from_who_awaits():
    """Whatever the library hands to a drain: batches that others wait for are left out of it."""
    stop = threading.Event()

    def work(s):
        while not stop.is_set():
            with contextlib.suppress(OSError):  # this is about the one who awaits
                s['thread'] = bytes(5000)

    async def go(s):
        for i in range(300):
            keys = [f'{i}-{j}' for j in range(4)]
            done = await asyncio.gather(*(s.run_async(penstock.store.SET, [k], [bytes(5000)]) for k in keys))
            assert done == [[5000]] * 4

    with store(threads=2) as s:
        failures = []
        thread = threading.Thread(target=work, args=(s,))

        def told(loop, context):
            failures.append(context)
            for task in asyncio.all_tasks(loop):
                task.cancel()  # it would wait for what is lost

        async def guarded():
            asyncio.get_running_loop().set_exception_handler(told)
            await go(s)

        thread.start()
        try:
            asyncio.run(guarded())
        except asyncio.CancelledError:
            pass
        finally:
            stop.set()
            thread.join()
        assert not failures, failures


@case
def a_loop_that_ended_does_not_hold_up_the_next():
    async def leave(s):
        task = asyncio.create_task(s.run_async(penstock.store.SET, ['a'], [bytes(8 * MIB)]))
        await asyncio.sleep(0)
        task.cancel()

    async def go(s):
        return await s.run_async(penstock.store.EXISTS, ['none'])
    with store() as s:
        asyncio.run(leave(s))
        assert asyncio.run(go(s)) == [-errno.ENOENT]
        loop = asyncio.new_event_loop()
        s._loop = loop  # as if it had batches under way
        raises(RuntimeError, lambda: asyncio.run(go(s)))
        loop.close()


@case
def close_ends_the_waiting_for_a_batch():
    async def go(s):
        task = asyncio.create_task(s.run_async(penstock.store.SET, ['a'], [bytes(8 * MIB)]))
        await asyncio.sleep(0)
        s.close()
        try:
            await task
        except ValueError as e:
            return str(e)
    assert asyncio.run(go(store())) == 'the store is closed'


@case
def one_name_is_one_directory():
    name = path('store')
    for one in (name, os.fsencode(name), pathlib.Path(name), (name,)):
        with penstock.Store(one, 16 * MIB) as s:
            s['a'] = b'1'
            assert s['a'] == b'1'
    assert 'penstock-store' in os.listdir(name), os.listdir(name)


@case
def a_restart_finds_the_values():
    name = path('store')
    with penstock.Store([name], 16 * MIB) as s:
        s['a'] = b'1'
        e = raises(OSError, lambda: penstock.Store([name], 16 * MIB))
        assert e.errno == errno.EBUSY
    with penstock.Store([name], 16 * MIB) as s:
        assert s['a'] == b'1'


class Log(logging.Handler):
    """What is logged meanwhile."""

    def __enter__(self):
        self.lines = []
        logging.getLogger('penstock').addHandler(self)
        return self

    def __exit__(self, *_):
        logging.getLogger('penstock').removeHandler(self)

    def emit(self, record):
        assert record.levelno == logging.WARNING
        self.lines.append(record.getMessage())


@case
def what_is_lost_or_left_out_is_logged_and_not_line_by_line():
    name, none = path('store'), make(b'')
    with Log() as log, penstock.Store([name, none], 64 * MIB) as s:
        assert log.lines == [f'penstock.Store: {none}: Not a directory; it is left out']
        s.set_many([f'k{i}' for i in range(100)], [data(5000, seed=i) for i in range(100)])
    with open(os.path.join(name, 'data'), 'r+b') as f:
        f.write(bytes(os.path.getsize(f.name)))
    with Log() as log:
        with penstock.Store(name, 64 * MIB) as s:
            assert not any(s.get(f'k{i}') for i in range(100))
        told = [int(line.split()[1]) if 'more like these' in line else 1 for line in log.lines]
        assert sum(told) == 100 and len(told) < 100, log.lines
        assert f'penstock.Store: {name}: a value is not what was written' in log.lines
    with Log() as log, store() as s:
        s['a'] = b'value'
        assert s['a'] == b'value' and not log.lines


@case
def what_is_cleared_is_gone_and_stays_so():
    keys, name = [f'k{i}' for i in range(50)], path('store')
    with penstock.Store(name, 64 * MIB) as s:
        s.set_many(keys, [data(1000, seed=i) for i in range(50)])
        s.clear()
        assert s.prefix(keys) == 0 and s.get('k7') is None and s.stats()['entries'] == 0
        s['new'] = b'value'
    with penstock.Store(name, 64 * MIB) as s:
        assert s.exists_many(keys) == [False] * 50 and s['new'] == b'value'
        s.clear()
    with penstock.Store(name, 64 * MIB) as s:
        assert s.stats()['recovered'] == 0
    raises(ValueError, s.clear)


@case
def bad_arguments_are_refused():
    assert raises(OSError, lambda: penstock.Store([path('x')], 1000)).errno == errno.EINVAL
    raises(TypeError, lambda: penstock.Store())
    raises(ValueError, lambda: store(policy='best'))
    with store() as s:
        raises(ValueError, lambda: s.get('k' * 5000))
        raises(ValueError, lambda: s.set_many(['a', 'b'], [b'1']))
        raises(TypeError, lambda: s.set('a', 7))
        raises(TypeError, lambda: s.get_many(['a'], [b'read-only']))
        raises(TypeError, lambda: s.get(7))
        raises(TypeError, lambda: s.get((65, 66)))
        raises(TypeError, lambda: s.exists_many('key'))
        raises(TypeError, lambda: s.exists_many(b'key'))
        raises(TypeError, lambda: list(s))
        raises(ValueError, lambda: s.set('a', b'1', ttl=-1))
        assert s.set('a', b'1') and s.get_many(['a'], [bytearray(1)], deadline=float('inf')) == [True]
    raises(ValueError, lambda: s['a'])


@case
def threads_share_a_store():
    def work(s, i):
        for j in range(50):
            value = data(2000 + j, seed=i * 100 + j)
            s[f'{i}-{j}'] = value
            assert s[f'{i}-{j}'] == value
    with store(threads=2) as s:
        threads = [threading.Thread(target=work, args=(s, i)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert s.stats()['entries'] == 200


@case
def after_fork_the_child_gets_ECHILD_and_the_parent_goes_on():
    with store() as s:
        s['a'] = b'value'

        def work():
            for call in (lambda: s['a'], lambda: s.submit(penstock.store.GET, ['a'], [bytearray(5)]), s.drain,
                         s.stats, s.metrics, s.clear, lambda: s.register(bytearray(4096))):
                assert raises(OSError, call).errno == errno.ECHILD, call
            s.close()
            return s.closed

        in_fork(work)
        assert s['a'] == b'value' and s.stats()['entries'] == 1


run(*cases)
