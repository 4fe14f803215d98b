# SPDX-License-Identifier: Apache-2.0
"""Several threads on one handle, and the GIL."""
import gc
import random
import threading

from kit import (MIB, PAGE, BlockingMemory, Lease, case, cases, child_ok, content, data, failing, handle, make,
                 no_switching, path, raises, run)


def together(*functions):
    """Run them at the same time; the first exception is raised."""
    trouble, start = [], threading.Barrier(len(functions))

    def guarded(function):
        start.wait()
        try:
            function()
        except BaseException as e:
            trouble.append(e)

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if trouble:
        raise trouble[0]


# ------------------------------------------------------------------ the GIL

def releases(prepare, nbytes=PAGE):
    """The call sleeps until a peer, which needs the GIL, opens the gate."""
    with handle(block=65536) as h, BlockingMemory(data(nbytes)) as gate:
        call, want = prepare(h, gate)
        opened = []

        def peer():
            gate.reached()
            opened.append(1)
            gate.open()

        with no_switching():
            thread = threading.Thread(target=peer)
            thread.start()
            got = call()
            assert opened
            thread.join()
        assert got == want, got


@case
def the_GIL_is_released_in_a_read_of_one_block():
    releases(lambda h, gate: ((lambda name: lambda: h.read(gate.memory, name))(make(data(PAGE))),
                              PAGE))


@case
def the_GIL_is_released_in_a_read_of_many_blocks():
    releases(lambda h, gate: ((lambda name: lambda: h.read(gate.memory, name))(make(data(2 * MIB))),
                              2 * MIB), 2 * MIB)


@case
def the_GIL_is_released_in_a_write_of_one_block():
    releases(lambda h, gate: (lambda: h.write(gate.memory, path()), PAGE))


@case
def the_GIL_is_released_in_a_write_of_many_blocks():
    releases(lambda h, gate: (lambda: h.write(gate.memory, path()), 2 * MIB), 2 * MIB)


@case
def the_GIL_is_released_in_a_batch_of_reads():
    name = make(data(PAGE))
    releases(lambda h, gate: (lambda: h.read_batch([(gate.memory, name), (bytearray(10), name)]),
                              [PAGE, 10]))


@case
def the_GIL_is_released_in_a_batch_of_writes():
    releases(lambda h, gate: (lambda: h.write_batch([(gate.memory, path()), (b'x', path())]),
                              [PAGE, 1]))


def _waiting(call_of, want):
    def prepare(h, gate):
        future = h.read_async(gate.memory, make(data(PAGE)))
        return call_of(h, future), want
    releases(prepare)


@case
def the_GIL_is_released_in_wait():
    _waiting(lambda h, future: h.wait, 1)


@case
def the_GIL_is_released_in_wait_with_a_timeout():
    _waiting(lambda h, future: lambda: h.wait(1e6), 1)


@case
def the_GIL_is_released_in_result():
    _waiting(lambda h, future: future.result, PAGE)


@case
def the_GIL_is_released_in_exception():
    _waiting(lambda h, future: future.exception, None)


@case
def the_GIL_is_released_in_close():
    _waiting(lambda h, future: h.close, None)


@case
def the_GIL_is_released_when_a_handle_is_dropped():
    name = make(data(PAGE))
    with BlockingMemory() as gate:
        h = handle()
        future = h.read_async(gate.memory, name)

        def peer():
            gate.reached()
            gate.open()

        with no_switching():
            thread = threading.Thread(target=peer)
            thread.start()
            del h
            gc.collect()
            assert future.result() == PAGE
            thread.join()


@case
def the_GIL_is_released_in_the_close_of_a_file():
    def prepare(h, gate):
        f = h.open(make(data(PAGE)))
        h.read_async(gate.memory, f)
        return f.close, None
    releases(prepare)


def opening(call_of):
    """The call sleeps in an open(2) until a peer, which needs the GIL, gives up a lease."""
    with Lease(make(data(PAGE))) as lease, handle() as h:
        given = []

        def peer():
            lease.reached()
            given.append(1)
            lease.give_up()

        call = call_of(h, lease.fd)
        with no_switching():
            thread = threading.Thread(target=peer)
            thread.start()
            call()
            assert given, 'the lease ran out'
            thread.join()
        h.wait()


@case
def the_GIL_is_released_in_a_submission_of_a_read():
    opening(lambda h, fd: lambda: h.read_async(bytearray(PAGE), fd))


@case
def the_GIL_is_released_in_a_submission_of_a_write():
    opening(lambda h, fd: lambda: h.write_async(b'x', fd))


@case
def the_GIL_is_released_in_a_submission_of_a_batch():
    opening(lambda h, fd: lambda: h.read_batch_async([(bytearray(10), fd), (bytearray(1), fd)]))


@case
def the_GIL_is_released_in_open():
    opening(lambda h, fd: lambda: h.open(fd, 'r+'))


@case
def the_GIL_is_released_in_sync():
    opening(lambda h, fd: lambda: h.sync(fd))


# ------------------------------------------------------------------ one handle, many threads

@case
def many_threads_mix_everything_on_one_handle():
    size, step = 4 * MIB, 65536
    want = data(size)
    source = make(want)

    def worker(seed):
        rng = random.Random(seed)
        mine = path()
        mirror = bytearray(size)
        with h.open(mine, 'w+') as f:
            h.write(mirror, f)
            for _ in range(60):
                at, n = rng.randrange(size), rng.randrange(1, 3 * step)
                n = min(n, size - at)
                kind = rng.randrange(7)
                if kind == 0:
                    got = bytearray(n)
                    assert h.read(got, source, at) == n and got == want[at:at + n]
                elif kind == 1:
                    got = bytearray(n)
                    assert h.read_async(got, source, at).result() == n and got == want[at:at + n]
                elif kind == 2:
                    mirror[at:at + n] = want[at:at + n]
                    assert h.write(want[at:at + n], rng.choice((f, mine)), at) == n
                elif kind == 3:
                    mirror[at:at + n] = want[at:at + n]
                    assert h.write_async(want[at:at + n], f, at).result() == n
                elif kind == 4:
                    parts = [bytearray(100) for _ in range(20)]
                    starts = [rng.randrange(size - 100) for _ in parts]
                    h.read_batch(zip(parts, [source] * 20, starts))
                    assert all(p == want[s:s + 100] for p, s in zip(parts, starts))
                elif kind == 5:
                    raises(OSError, failing(h).result)
                else:
                    try:
                        h.wait()
                    except OSError:
                        pass  # of another thread, which has not looked at it yet
                    h.stats(), h.pending
            got = bytearray(size)
            assert h.read(got, f) == size and got == mirror
        assert content(mine) == mirror

    with handle(threads=2, block=65536) as h:
        together(*(lambda seed=seed: worker(seed) for seed in range(6)))
        h.wait()
        assert h.pending == 0


@case
def several_threads_wait_for_one_future():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        out = []
        calls = [lambda: out.append(future.result())] * 8
        together(*calls, gate.open)
        assert out == [PAGE] * 8


@case
def several_threads_wait_for_a_handle_and_count_each_operation_once():
    name = make(data(PAGE))
    with handle(threads=2) as h:
        counts = []

        def worker():
            for _ in range(50):
                futures = [h.read_async(bytearray(PAGE), name) for _ in range(10)]
                counts.append(h.wait())
                assert all(f.done() for f in futures)

        together(*[worker] * 4)
        assert sum(counts) + h.wait() == 4 * 50 * 10


@case
def callbacks_are_added_from_many_threads_and_run_once_each():
    name = make(data(PAGE))
    with handle() as h:
        for _ in range(100):
            future = h.read_async(bytearray(PAGE), name)
            ran, lock = [], threading.Semaphore(0)

            def add():
                for i in range(5):
                    future.add_done_callback(lambda f: (ran.append(1), lock.release()))

            together(*[add] * 4)
            for _ in range(20):
                lock.acquire()
            assert len(ran) == 20


@case
def the_first_callbacks_of_several_threads_share_one_thread():
    BlockingMemory().open()
    code = '''
import sys, threading
import penstock
from kit import PAGE, BlockingMemory, data, make
sys.setswitchinterval(1e-6)
idents, called, start = set(), threading.Semaphore(0), threading.Barrier(8)
def callback(f):
    idents.add(threading.get_ident())
    called.release()
def add(future):
    start.wait()
    future.add_done_callback(callback)
with penstock.Handle() as h:
    gates = [BlockingMemory() for _ in range(8)]
    name = make(data(PAGE))
    threads = [threading.Thread(target=add, args=(h.read_async(g.memory, name),)) for g in gates]
    for t in threads: t.start()
    for t in threads: t.join()
    for g in gates: g.open()
    for _ in gates: called.acquire()
print(len(idents))
'''
    assert [child_ok(code) for _ in range(10)] == ['1\n'] * 10


@case
def a_second_close_waits_for_the_first():
    seen = []
    with handle() as h, BlockingMemory(data(MIB)) as gate:
        h.write_async(gate.memory, path())
        gate.reached()

        def close():
            h.close()
            seen.append(h.closed)

        threads = [threading.Thread(target=close) for _ in range(3)]
        for t in threads:
            t.start()
        assert not seen
        gate.open()
        for t in threads:
            t.join()
    assert seen == [True] * 3


@case
def close_while_others_use_the_handle_tells_them():
    name = make(data(MIB))

    def until_closed(h, call, ended):
        while True:
            try:
                call(h)
            except ValueError as e:
                assert 'closed' in str(e), e
                ended.append(1)
                return

    def wait_a_little(h):
        try:
            h.wait(0.001)
        except TimeoutError:
            pass  # the others go on and on

    def read_file(h):
        with h.open(name) as f:
            assert h.read(bytearray(10), f) == 10
            f.stat()

    calls = [
        lambda h: h.read(bytearray(PAGE), name),
        lambda h: h.read(bytearray(MIB), name),
        lambda h: h.read_async(bytearray(PAGE), name).result(),
        lambda h: h.read_batch([(bytearray(PAGE), name)] * 5),
        lambda h: [f.result() for f in h.read_batch_async([(bytearray(PAGE), name)] * 5)],
        wait_a_little,
        lambda h: h.stats(),
        read_file,
        lambda h: h.sync(name),
    ]
    for _ in range(15):
        h, ended = handle(threads=2, block=65536), []
        ready = threading.Semaphore(0)

        def user(call):
            call(h)
            ready.release()
            until_closed(h, call, ended)

        def closer():
            for _ in calls:
                ready.acquire()
            h.close()
            assert h.closed and h.pending == 0

        together(*(lambda call=call: user(call) for call in calls), closer)
        assert len(ended) == len(calls)


@case
def two_threads_may_close_at_once():
    name = make(data(PAGE))
    for _ in range(100):
        h = handle()
        h.read_async(bytearray(PAGE), name)
        together(h.close, h.close, h.close)
        assert h.closed


@case
def close_in_one_thread_ends_wait_in_another():
    with BlockingMemory() as gate:
        h = handle()
        future = h.read_async(gate.memory, make(data(PAGE)))
        out = []

        def waiter():
            try:
                out.append(h.wait())
            except ValueError as e:
                out.append(str(e))

        def opener():
            gate.reached()
            gate.open()

        together(waiter, h.close, opener)
        assert len(out) == 1 and (out[0] in (0, 1) or 'closed' in out[0]), out
        assert future.result() == PAGE


@case
def a_file_closed_by_another_thread_is_told():
    name = make(data(PAGE))
    with handle() as h:
        for _ in range(50):
            f = h.open(name)
            ended = []

            def reader():
                while True:
                    try:
                        assert h.read(bytearray(10), f) == 10
                        assert h.read_async(bytearray(10), f).result() == 10
                        f.stat()
                    except ValueError as e:
                        assert 'closed' in str(e), e
                        ended.append(1)
                        return

            together(reader, reader, f.close)
            assert len(ended) == 2


@case
def two_threads_may_close_a_file_at_once():
    name = make(data(PAGE))
    with handle() as h:
        for _ in range(100):
            f = h.open(name)
            h.read_async(bytearray(PAGE), f)
            together(f.close, f.close, f.close)
            assert f.closed
        assert h.wait() == 100


@case
def handles_in_threads_share_nothing():
    def worker(seed):
        want, name = data(MIB + seed, seed), path()
        for _ in range(20):
            with handle(block=65536) as h:
                h.write_async(want, name)
                h.wait()
                got = bytearray(len(want))
                assert h.read(got, name) == len(want) and got == want

    together(*(lambda seed=seed: worker(seed) for seed in range(4)))


@case
def a_thread_that_ends_leaves_its_operations_to_the_handle():
    names = [path() for _ in range(10)]
    with handle() as h:
        together(*(lambda n=n: h.write_async(data(MIB), n) for n in names))
        assert h.wait() == 10
    assert all(content(n) == data(MIB) for n in names)


run(*cases)
