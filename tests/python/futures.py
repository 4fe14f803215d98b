# SPDX-License-Identifier: Apache-2.0
"""penstock.Future: results, callbacks, asyncio."""
import asyncio
import concurrent.futures
import copy
import errno
import gc
import os
import pickle
import threading
import weakref

import penstock
from kit import (MIB, PAGE, BlockingMemory, case, cases, content, data, failing, handle, make, path, raises,
                 run, unraisable)


# ------------------------------------------------------------------ results

@case
def a_future_gives_its_result_as_often_as_asked():
    name = make(data(PAGE))
    with handle() as h:
        future = h.read_async(bytearray(PAGE), name)
        assert [future.result() for _ in range(3)] == [PAGE] * 3
        assert future.result(0) == PAGE and future.result(timeout=5) == PAGE
        assert future.exception() is None and future.exception(0) is None


@case
def a_failure_is_raised_as_often_as_asked_and_is_the_same():
    with handle() as h:
        future = failing(h)
        first, second = raises(OSError, future.result), raises(OSError, future.result)
        third = future.exception()
        assert first.errno == second.errno == third.errno == errno.ENODATA
        assert str(first) == str(second) == str(third)
        assert type(third) is OSError


@case
def a_future_under_way_is_running_and_not_done():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        gate.reached()
        assert future.running() and not future.done() and not future.cancelled()
        assert 'pending' in repr(future) or 'running' in repr(future), repr(future)
        gate.open()
        assert future.result() == PAGE
        assert future.done() and not future.running() and not future.cancelled()


@case
def a_future_cannot_be_cancelled():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        gate.reached()
        assert future.cancel() is False and future.cancelled() is False
        gate.open()
        assert future.result() == PAGE
        assert future.cancel() is False and future.cancelled() is False


@case
def result_and_exception_end_at_their_timeout_and_later_succeed():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        for timeout in (0, -1, 0.001, 0.02):
            raises(TimeoutError, future.result, timeout)
            raises(TimeoutError, future.exception, timeout=timeout)
        gate.open()
        assert future.result(3600) == PAGE and gate.memory[:] == data(PAGE)


@case
def done_becomes_true_without_being_waited_for():
    with handle() as h:
        future = h.read_async(bytearray(PAGE), make(data(PAGE)))
        while not future.done():
            os.sched_yield()
        assert future.result(0) == PAGE


@case
def a_future_outlives_its_handle():
    name = make(data(PAGE))
    h = handle()
    good, bad = h.read_async(bytearray(PAGE), name), failing(h)
    raises(OSError, h.close)
    assert good.done() and good.result() == PAGE
    raises(OSError, bad.result)
    del h
    gc.collect()
    assert good.result() == PAGE and good.ways
    called = []
    good.add_done_callback(called.append)
    assert called == [good]


@case
def ways_say_how_the_bytes_went():
    name = make(data(MIB))
    known = {'direct', 'buffered', 'bounced', 'retried', 'inline', 'eof'}
    with handle(direct='never') as h:
        future = h.read_async(bytearray(MIB), name)
        future.result()
        assert isinstance(future.ways, tuple) and 'buffered' in future.ways, future.ways
        assert set(future.ways) <= known, future.ways
    with handle('fault:inner=threads,short=0.5,seed=3', block=4096) as h:
        future = h.read_async(bytearray(MIB), name)
        future.result()
        assert 'retried' in future.ways and set(future.ways) <= known, future.ways


@case
def ways_of_a_future_under_way_are_empty():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        assert future.ways == ()
        gate.open()
        future.result()


@case
def concurrent_futures_can_be_made_of_them():
    name = make(data(PAGE))
    with handle() as h:
        pool = []
        for i in range(10):
            outer = concurrent.futures.Future()
            h.read_async(bytearray(PAGE), name).add_done_callback(
                lambda f, outer=outer: outer.set_result(f.result()))
            pool.append(outer)
        done, rest = concurrent.futures.wait(pool)
        assert len(done) == 10 and not rest


# ------------------------------------------------------------------ callbacks

@case
def a_callback_gets_its_future_when_it_is_done():
    with handle() as h, BlockingMemory() as gate:
        called, over = [], threading.Event()
        future = h.read_async(gate.memory, make(data(PAGE)))

        def callback(f):
            called.append((f, f.done(), f.result()))
            over.set()

        assert future.add_done_callback(callback) is None
        gate.reached()
        assert not called
        gate.open()
        over.wait()
        assert called == [(future, True, PAGE)]


@case
def callbacks_run_in_the_order_they_were_added():
    with handle() as h, BlockingMemory() as gate:
        order, over = [], threading.Event()
        future = h.read_async(gate.memory, make(data(PAGE)))
        for i in range(50):
            future.add_done_callback(lambda f, i=i: order.append(i))
        future.add_done_callback(lambda f: over.set())
        gate.open()
        over.wait()
        assert order == list(range(50))


@case
def the_same_callback_added_twice_runs_twice():
    with handle() as h, BlockingMemory() as gate:
        called, over = [], threading.Event()
        future = h.read_async(gate.memory, make(data(PAGE)))
        future.add_done_callback(called.append)
        future.add_done_callback(called.append)
        future.add_done_callback(lambda f: over.set())
        gate.open()
        over.wait()
        assert called == [future, future]


@case
def a_callback_of_a_done_future_runs_at_once_in_this_thread():
    with handle() as h:
        for future in (h.read_async(bytearray(PAGE), make(data(PAGE))),
                       failing(h)):
            future.exception()
            threads = []
            future.add_done_callback(lambda f: threads.append(threading.get_ident()))
            assert threads == [threading.get_ident()]


@case
def callbacks_of_operations_under_way_share_one_thread():
    with handle(threads=3) as h, handle() as other, BlockingMemory() as gate:
        name, threads = make(data(PAGE)), []
        count = threading.Semaphore(0)

        def callback(f):
            threads.append(threading.get_ident())
            count.release()

        for i in range(20):
            (h, other)[i % 2].read_async(gate.memory, name).add_done_callback(callback)
        gate.open()
        for _ in range(20):
            count.acquire()
        assert len(set(threads)) == 1 and threads[0] != threading.get_ident()


@case
def a_callback_that_raises_is_reported_and_disturbs_nobody():
    with handle() as h, BlockingMemory() as gate, unraisable() as seen:
        order, over = [], threading.Event()
        future = h.read_async(gate.memory, make(data(PAGE)))
        future.add_done_callback(lambda f: order.append(1))
        future.add_done_callback(lambda f: 1 // 0)
        future.add_done_callback(lambda f: order.append(2))
        future.add_done_callback(lambda f: over.set())
        gate.open()
        over.wait()
        assert order == [1, 2] and future.result() == PAGE
        assert [type(e) for e, _ in seen] == [ZeroDivisionError]
        future.add_done_callback(lambda f: [][1])
        assert [type(e) for e, _ in seen] == [ZeroDivisionError, IndexError]
        assert h.wait() == 1


@case
def a_callback_may_submit_and_the_work_goes_on():
    name, total = make(data(PAGE)), 500
    with handle() as h:
        over, results = threading.Event(), []

        def next_one(f):
            results.append(f.result())
            if len(results) == total:
                over.set()
            else:
                h.read_async(bytearray(PAGE), name).add_done_callback(next_one)

        h.read_async(bytearray(PAGE), name).add_done_callback(next_one)
        over.wait()
        assert results == [PAGE] * total


@case
def a_callback_may_do_blocking_work_on_the_same_handle():
    name = make(data(PAGE))
    with handle() as h, BlockingMemory() as gate:
        over, got = threading.Event(), bytearray(PAGE)
        out = []

        def callback(f):
            out.append(h.read(got, name))
            out.append(h.read_async(got, name).result())
            out.append(h.write(b'from a callback', name))
            over.set()

        h.read_async(gate.memory, name).add_done_callback(callback)
        gate.open()
        over.wait()
        assert out == [PAGE, PAGE, 15] and content(name)[:15] == b'from a callback'


@case
def a_callback_may_close_the_handle():
    name = make(data(PAGE))
    h = handle()
    with BlockingMemory() as gate:
        over, trouble = threading.Event(), []

        def callback(f):
            try:
                h.close()
            except BaseException as e:
                trouble.append(e)
            over.set()

        future = h.read_async(gate.memory, name)
        future.add_done_callback(callback)
        gate.open()
        over.wait()
        assert not trouble and h.closed and future.result() == PAGE


@case
def a_callback_is_dropped_after_its_run():
    class Callback:
        def __call__(self, future):
            over.set()

    with handle() as h, BlockingMemory() as gate:
        over = threading.Event()
        callback = Callback()
        gone = weakref.ref(callback)
        future = h.read_async(gate.memory, make(data(PAGE)))
        future.add_done_callback(callback)
        del callback
        assert gone() is not None
        gate.open()
        over.wait()
        later = threading.Event()  # the dispatcher has let go of the first when it is here
        future = h.read_async(bytearray(PAGE), make(data(PAGE)))
        future.add_done_callback(lambda f: later.set())
        later.wait()
        gc.collect()
        assert gone() is None


@case
def a_dropped_future_still_calls_back():
    with handle() as h, BlockingMemory() as gate:
        over, results = threading.Event(), []

        def callback(f):
            results.append(f.result())
            over.set()

        h.read_async(gate.memory, make(data(PAGE))).add_done_callback(callback)
        gc.collect()
        gate.open()
        over.wait()
        assert results == [PAGE]


@case
def a_callback_that_cannot_be_called_is_refused():
    with handle() as h:
        future = h.read_async(bytearray(PAGE), make(data(PAGE)))
        for bad in (None, 5, 'f'):
            raises(TypeError, future.add_done_callback, bad)
        raises(TypeError, future.add_done_callback)
        assert future.result() == PAGE
        raises(TypeError, future.add_done_callback, 5)


@case
def a_failure_that_only_a_callback_looked_at_is_seen():
    with handle() as h:
        over, seen = threading.Event(), []

        def callback(f):
            seen.append(f.exception())
            over.set()

        failing(h).add_done_callback(callback)
        over.wait()
        assert seen[0].errno == errno.ENODATA
        assert h.wait() == 1


# ------------------------------------------------------------------ asyncio

@case
def a_future_can_be_awaited():
    name, want = path(), data(MIB + 1)

    async def work(h):
        assert await h.write_async(want, name) == len(want)
        got = bytearray(len(want))
        assert await h.read_async(got, name) == len(want)
        return got

    with handle() as h:
        assert asyncio.run(work(h)) == want


@case
def a_future_that_is_done_can_be_awaited_and_twice():
    async def work(h):
        future = h.read_async(bytearray(PAGE), make(data(PAGE)))
        future.result()
        assert await future == PAGE
        assert await future == PAGE
        bad = failing(h)
        bad.exception()
        for _ in range(2):
            try:
                await bad
                raise AssertionError('no exception')
            except OSError as e:
                assert e.errno == errno.ENODATA

    with handle() as h:
        asyncio.run(work(h))


@case
def hundreds_are_gathered():
    names = [make(data(PAGE, seed=i)) for i in range(50)]

    async def work(h):
        buffers = [bytearray(PAGE) for _ in range(400)]
        got = await asyncio.gather(*(h.read_async(b, names[i % 50])
                                     for i, b in enumerate(buffers)))
        assert got == [PAGE] * 400
        assert all(b == data(PAGE, seed=i % 50) for i, b in enumerate(buffers))

    with handle() as h:
        asyncio.run(work(h))
        assert h.wait() == 400


@case
def the_loop_runs_while_an_operation_is_under_way():
    async def work(h, gate):
        future = h.read_async(gate.memory, make(data(PAGE)))
        task = asyncio.ensure_future(awaiter(future))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        gate.open()
        assert await task == PAGE

    async def awaiter(future):
        return await future

    with handle() as h, BlockingMemory() as gate:
        asyncio.run(work(h, gate))


@case
def a_failure_is_raised_where_it_is_awaited():
    async def work(h):
        try:
            await failing(h)
        except OSError as e:
            assert e.errno == errno.ENODATA and e.filename.endswith('short')
        else:
            raise AssertionError('no exception')
        good = h.read_async(bytearray(PAGE), make(data(PAGE)))
        bad = failing(h)
        results = await asyncio.gather(good, bad, return_exceptions=True)
        assert results[0] == PAGE and results[1].errno == errno.ENODATA

    with handle() as h:
        asyncio.run(work(h))
        assert h.wait() == 3


def trouble_of_the_loop():
    """What callbacks raise in the loop that is running."""
    contexts = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    return contexts


@case
def a_cancelled_task_leaves_the_operation_and_the_handle_alone():
    async def work(h, gate):
        trouble = trouble_of_the_loop()
        future = h.read_async(gate.memory, make(data(PAGE)))

        async def awaiter():
            return await future

        task = asyncio.ensure_future(awaiter())
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
            raise AssertionError('not cancelled')
        except asyncio.CancelledError:
            pass
        assert not future.done() and not future.cancelled()
        gate.open()
        assert await future == PAGE
        assert await h.read_async(bytearray(PAGE), make(data(PAGE))) == PAGE
        assert not trouble, trouble

    with handle() as h, BlockingMemory() as gate:
        asyncio.run(work(h, gate))
        assert gate.memory[:] == data(PAGE)
        assert h.wait() == 2


@case
def the_failure_of_an_operation_whose_task_was_cancelled_is_told_by_wait():
    async def work(h, gate):
        task = asyncio.ensure_future(awaiter(h.read_async(gate.memory, make(data(9), 'short'))))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gate.open()

    async def awaiter(future):
        return await future

    with handle() as h, BlockingMemory() as gate:
        asyncio.run(work(h, gate))
        assert raises(OSError, h.wait).filename.endswith('short')


@case
def wait_for_ends_at_its_timeout():
    async def work(h, gate):
        trouble = trouble_of_the_loop()
        future = h.read_async(gate.memory, make(data(PAGE)))
        try:
            await asyncio.wait_for(future, 0.01)
            raise AssertionError('no timeout')
        except asyncio.TimeoutError:
            pass
        gate.open()
        assert await future == PAGE
        assert not trouble, trouble

    with handle() as h, BlockingMemory() as gate:
        asyncio.run(work(h, gate))


@case
def a_shield_keeps_the_cancelling_of_a_task_from_a_future():
    async def work(h, gate):
        inner = asyncio.ensure_future(awaiter(h.read_async(gate.memory, make(data(PAGE)))))
        outer = asyncio.shield(inner)
        await asyncio.sleep(0)
        outer.cancel()
        gate.open()
        assert await inner == PAGE
        assert await asyncio.shield(h.read_async(bytearray(PAGE), make(data(PAGE)))) == PAGE

    async def awaiter(future):
        return await future

    with handle() as h, BlockingMemory() as gate:
        asyncio.run(work(h, gate))


@case
def several_tasks_await_one_future():
    async def work(h, gate):
        future = h.read_async(gate.memory, make(data(PAGE)))

        async def awaiter():
            return await future

        tasks = [asyncio.ensure_future(awaiter()) for _ in range(20)]
        await asyncio.sleep(0)
        gate.open()
        assert await asyncio.gather(*tasks) == [PAGE] * 20

    with handle() as h, BlockingMemory() as gate:
        asyncio.run(work(h, gate))


@case
def several_loops_in_threads_share_one_handle():
    name = make(data(PAGE))
    trouble = []

    async def work(h):
        for _ in range(20):
            got = await asyncio.gather(*(h.read_async(bytearray(PAGE), name) for _ in range(10)))
            assert got == [PAGE] * 10

    def loop(h):
        try:
            asyncio.run(work(h))
        except BaseException as e:
            trouble.append(e)

    with handle(threads=2) as h:
        threads = [threading.Thread(target=loop, args=(h,)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not trouble, trouble
        assert h.wait() == 4 * 20 * 10


@case
def a_loop_that_is_gone_when_the_operation_ends_is_no_trouble():
    async def work(h, gate):
        task = asyncio.ensure_future(awaiter(h.read_async(gate.memory, make(data(PAGE)))))
        await asyncio.sleep(0)
        assert not task.done()

    async def awaiter(future):
        return await future

    with handle() as h, BlockingMemory() as gate, unraisable() as seen:
        asyncio.run(work(h, gate))  # cancels the task and closes the loop
        gate.open()
        assert h.wait() == 1
        over = threading.Event()
        with BlockingMemory() as second:
            h.read_async(second.memory, make(data(PAGE))).add_done_callback(lambda f: over.set())
        over.wait()
        assert not seen, seen


@case
def awaiting_without_a_loop_is_an_error_not_a_crash():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        raises(RuntimeError, lambda: next(iter(future.__await__())))
        gate.open()
        assert future.result() == PAGE


# ------------------------------------------------------------------ what they are not

@case
def copies_and_pickles_are_refused_with_the_reason():
    name = make(data(PAGE))
    with handle() as h, h.open(name) as f:
        future = h.read_async(bytearray(PAGE), name)
        for thing, word in ((h, 'Handle'), (f, 'File'), (future, 'Future')):
            calls = [lambda: copy.copy(thing), lambda: copy.deepcopy(thing),
                     lambda: copy.deepcopy([thing])]
            calls += [lambda p=p: pickle.dumps(thing, p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
            for call in calls:
                e = raises(TypeError, call)
                assert word in str(e) and '\n' not in str(e) and len(str(e)) > 30, e
        assert future.result() == PAGE


@case
def they_cannot_be_subclassed_or_given_attributes():
    for kind in (penstock.Handle, penstock.File, penstock.Future):
        raises(TypeError, lambda: type('Sub', (kind,), {}))
    with handle() as h:
        raises(AttributeError, setattr, h, 'new', 1)
        raises(AttributeError, setattr, h, 'closed', True)


@case
def their_names_are_those_of_the_package():
    for kind in (penstock.Handle, penstock.File, penstock.Future, penstock.Memory):
        assert kind.__module__ == 'penstock', kind.__module__
        assert kind.__doc__


run(*cases)
