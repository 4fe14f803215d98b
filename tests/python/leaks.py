# SPDX-License-Identifier: Apache-2.0
"""Nothing is left behind: descriptors, threads, references, memory."""
import asyncio
import ctypes
import gc
import os
import sys
import threading
import weakref

import penstock
from kit import (PAGE, BlockingMemory, case, cases, data, descriptors, handle, make, module, path, raises,
                 run)

MANY = 10000


TRIES = 5


def least(measure_growth, enough):
    """The least of a few tries, until one is below @enough.

    What leaks does so every time.  On a busy machine a try may grow because threads that let go
    of things have not had their turn; not all of them do.
    """
    grown = []
    while len(grown) < TRIES and not (grown and grown[-1] < enough):
        grown.append(measure_growth())
    return min(grown)


def resident_growth(function, enough):
    """Bytes that the process has more of after a call, at least."""
    def growth():
        before = resident()
        function()
        return resident() - before

    function()
    return least(growth, enough)


def stays_per_call(measure, function, calls=2000, enough=0.1, settle=lambda: None):
    """How much more there is for each call when it is over and @settle() has waited for the rest."""
    def some_calls():
        for _ in range(calls):
            function()
        settle()
        gc.collect()

    def growth():
        before = measure()
        some_calls()
        return (measure() - before) / calls

    some_calls()
    return least(growth, enough)


def blocks_per_call(function, calls=2000, **more):
    """How many of Python's memory blocks stay allocated for each call."""
    return stays_per_call(sys.getallocatedblocks, function, calls, **more)


class Heap(ctypes.Structure):
    """What mallinfo2(3) tells."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        'arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks', 'fsmblks', 'uordblks',
        'fordblks', 'keepcost')]


def heap_bytes():
    """Bytes that malloc(3) has given out, which is memory of C code, and Python's larger blocks."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Heap
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def resident():
    with open('/proc/self/statm') as f:
        return int(f.read().split()[1]) * PAGE


# ------------------------------------------------------------------ descriptors and threads

@case
def no_descriptor_is_left_after_10000_operations():
    name, buffer = make(data(PAGE)), bytearray(512)
    before = descriptors()
    with handle() as h:
        within = descriptors()
        for i in range(MANY // 10):
            h.read(buffer, name)
            h.read_async(buffer, name, 512)
            h.write_async(buffer, name, 1024)
            h.write(buffer, name, 2048)
            h.read_batch_async([(buffer, name), (buffer, name, 512)])
            h.read_batch([(buffer, name), (buffer, name, 512)])
            with h.open(name) as f:
                h.read_async(buffer, f)
            raises(OSError, h.read, buffer, name, 1 << 30)
        h.wait()
        assert descriptors() == within
    assert descriptors() == before


@case
def no_descriptor_is_left_after_failures():
    buffer, folder = bytearray(512), os.path.dirname(path())
    with handle() as h:
        before = descriptors()
        for _ in range(500):
            raises(OSError, h.read, buffer, path('missing'))
            raises(OSError, h.read, buffer, folder)
            raises(OSError, h.read_async, buffer, folder)
            raises(OSError, h.open, folder)
            raises(OSError, h.sync, folder + '/missing')
            raises(TypeError, h.write, object(), path())
        assert descriptors() == before


@case
def no_descriptor_is_left_of_files_that_were_dropped():
    name = make(data(PAGE))
    with handle() as h:
        before = descriptors()
        for _ in range(500):
            h.open(name)
        gc.collect()
        assert descriptors() == before


@case
def no_descriptor_and_no_thread_is_left_of_handles():
    def threads():
        return len(os.listdir('/proc/self/task'))

    name = make(data(PAGE))
    with handle() as h:  # starts what lives as long as the process
        over = threading.Event()
        with BlockingMemory() as gate:
            h.read_async(gate.memory, name).add_done_callback(lambda f: over.set())
        over.wait()
    before = descriptors(), threads()
    for i in range(100):
        h = handle(threads=1 + i % 3)
        h.read_async(bytearray(PAGE), name)
        h.open(name)
        if i % 2:
            h.close()
        del h
    gc.collect()
    assert (descriptors(), threads()) == before


# ------------------------------------------------------------------ references

@case
def buffers_and_paths_have_as_many_references_as_before():
    class Path:
        def __fspath__(self):
            return name

    name = make(data(PAGE))
    buffer, view, like, raw = bytearray(PAGE), memoryview(bytearray(PAGE)), Path(), os.fsencode(name)
    things = [buffer, view, name, like, raw]
    with handle() as h, h.open(name) as f:
        things.append(f)

        def work():
            for obj in (buffer, view):
                for p in (name, like, raw, f):
                    h.read(obj, p)
                    h.read_async(obj, p).result()
                    h.read_async(obj, p)
                    h.read_batch([(obj, p), (obj, p, 0)])
                    raises(OSError, h.read, obj, p, 1 << 40)
                    raises(OSError, h.read_async(obj, p, 1 << 40).result)
                    raises(ValueError, h.read, obj, p, 0, PAGE + 1)
                    raises(ValueError, h.read, obj, p, -1)
                raises(TypeError, h.read, obj, None)
                raises(TypeError, h.read, obj, name, bad=1)
                raises(TypeError, h.read_batch, [(obj, name), (obj, None)])
            h.wait()

        work()
        gc.collect()
        before = [sys.getrefcount(t) for t in things]
        for _ in range(20):
            work()
        gc.collect()
        assert [sys.getrefcount(t) for t in things] == before


@case
def constants_and_types_have_as_many_references_as_before():
    name = make(data(PAGE))
    with handle() as h:
        buffer = bytearray(PAGE)

        def work():
            future = h.read_async(buffer, name, 0, None, partial=True)
            future.add_done_callback(id)
            future.exception(), future.done(), future.cancel(), future.ways
            h.write_async(buffer, name, truncate=False, durability=None).result(None)
            h.wait(), h.closed, h.pending, h.engine, h.stats(), h.sync(name)
            with h.open(name) as f:
                f.stat(), f.name, f.closed
            penstock.Handle('null').close()

        things = [None, True, False, (), penstock.Handle, penstock.File, penstock.Future, OSError, id]
        for _ in range(50):
            work()
        gc.collect()
        before = [sys.getrefcount(t) for t in things]
        for _ in range(500):
            work()
        gc.collect()
        grown = [sys.getrefcount(t) - b for t, b in zip(things, before)]
        assert max(map(abs, grown)) < 100, dict(zip(map(repr, things), grown))


@case
def an_object_dies_with_its_operation_when_the_future_is_dropped():
    class Buffer(bytearray):
        pass

    with handle() as h, BlockingMemory() as gate:
        name = make(data(PAGE))
        buffer = Buffer(PAGE)
        gone = weakref.ref(buffer)
        h.read_async(gate.memory, name)  # holds up the one behind it
        h.read_async(buffer, name)
        del buffer
        gc.collect()
        gate.reached()
        assert gone() is not None
        gate.open()
        assert h.wait() == 2
        assert gone() is None


@case
def an_object_is_let_go_when_its_operation_is_over_even_if_the_future_is_kept():
    class Buffer(bytearray):
        pass

    with handle() as h:
        buffer = Buffer(PAGE)
        gone = weakref.ref(buffer)
        future = h.read_async(buffer, make(data(PAGE)))
        assert future.result() == PAGE
        buffer.extend(b'free to grow')
        del buffer
        gc.collect()
        assert gone() is None


@case
def an_object_of_a_failed_operation_is_let_go_too():
    class Buffer(bytearray):
        pass

    with handle() as h:
        kept = []
        for call in (h.read, h.read_async):
            buffer = Buffer(10)
            gone = weakref.ref(buffer)
            try:
                future = call(buffer, path('missing'))
                kept.append(future)
                future.exception()
            except OSError:
                pass
            del buffer
            gc.collect()
            assert gone() is None


@case
def a_cycle_of_future_and_callback_is_collected():
    class Callback:
        def __call__(self, future):
            self.future = future

    with handle() as h:
        future = h.read_async(bytearray(PAGE), make(data(PAGE)))
        future.result()
        callback = Callback()
        gone = weakref.ref(callback)
        future.add_done_callback(callback)
        del future, callback
        gc.collect()
        assert gone() is None


@case
def a_cycle_through_a_handle_is_collected():
    class Owner:
        pass

    owner = Owner()
    owner.handle = handle()
    owner.self = owner
    owner.file = owner.handle.open(make(data(PAGE)))
    gone = weakref.ref(owner)
    before = len(os.listdir('/proc/self/task'))
    del owner
    gc.collect()
    assert gone() is None
    assert len(os.listdir('/proc/self/task')) < before


# ------------------------------------------------------------------ memory

def calls(h, f, name):
    """Of every kind, and what they are."""
    def call_back(future):
        future.add_done_callback(id)
        future.result()

    buffer, strided, large = bytearray(512), memoryview(bytearray(512))[::2], bytearray(3 * PAGE)
    numpy = module('numpy')
    runs = numpy.zeros((4, 8192), 'u1')[:, :5000] if numpy else strided
    return {
        'read': lambda: h.read(buffer, name),
        'read of a File': lambda: h.read(buffer, f),
        'strided': lambda: (h.write(strided, name), h.read_async(strided, name).result()),
        'long runs': lambda: (h.write(runs, name + '-runs'), h.read(runs, name + '-runs')),
        'Memory': lambda: h.read(penstock.Memory(512, pinned=False), name),
        'future': lambda: h.read_async(buffer, name).result(),
        'future dropped': lambda: (h.read_async(buffer, name), h.wait()),
        'batch': lambda: h.read_batch([(buffer, name), (buffer, f, 7)]),
        'callback': lambda: call_back(h.read_async(buffer, name)),
        'open': lambda: h.open(name).close(),
        'missing': lambda: raises(OSError, h.read, buffer, '/missing/file'),
        'missing later': lambda: raises(OSError, h.read_async, buffer, '/missing/file'),
        'short': lambda: h.engine == 'null' or raises(OSError, h.read, large, f),
        'short later': lambda: h.read_async(large, f).exception(),
        'failed future': lambda: h.read_batch_async([(buffer, '/missing/file')])[0].exception(),
        'failed, unseen': lambda: (h.read_batch_async([(buffer, '/missing/file')]),
                                   raises(OSError, h.wait)),
        'refused': lambda: raises(TypeError, h.read, None, name),
        'refused offset': lambda: raises(ValueError, h.read, buffer, name, -1),
        'stats': lambda: h.stats(),
    }


@case
def python_memory_does_not_grow_with_operations():
    name = make(data(PAGE))
    with handle('null') as h, h.open(name) as f:
        for what, call in calls(h, f, name).items():
            grown = blocks_per_call(call, settle=h.wait)
            assert grown < 0.1, f'{what}: {grown} blocks stay for each call'


@case
def memory_of_c_code_does_not_grow_with_operations():
    name = make(data(PAGE))
    with handle('threads', direct='never') as h, h.open(name, 'r+') as f:
        for what, call in calls(h, f, name).items():
            grown = stays_per_call(heap_bytes, call, 1000, enough=10, settle=h.wait)
            assert grown < 10, f'{what}: {grown} bytes stay for each call'


@case
def python_memory_does_not_grow_with_handles_and_loops():
    name = make(data(PAGE))

    async def work(h):
        await asyncio.gather(*(h.read_async(bytearray(10), name) for _ in range(5)))

    def loop():
        with penstock.Handle('null') as h:
            asyncio.run(work(h))

    assert blocks_per_call(loop, 500, enough=1) < 1
    assert blocks_per_call(lambda: penstock.Handle('null').close(), 200) < 0.1
    assert blocks_per_call(lambda: raises(ValueError, penstock.Handle, depth=-1), 200) < 0.1
    assert blocks_per_call(lambda: raises(OSError, penstock.Handle, 'warp')
                           if False else penstock.Handle('null'), 200) < 0.1


@case
def resident_memory_is_stable_over_100000_operations():
    name, buffer = make(data(PAGE)), bytearray(512)
    with handle('null') as h:
        def thousands(n):
            for _ in range(n):
                for _ in range(100):
                    h.read_async(buffer, name)
                h.read_batch_async([(buffer, name)] * 100)
                for _ in range(50):
                    h.read(buffer, name)
                h.wait()

        grown = resident_growth(lambda: thousands(200), 4 << 20)
    assert grown < 4 << 20, f'{grown} bytes more'


@case
def staged_copies_are_freed():
    name = make(bytes(1 << 20))
    strided = memoryview(bytearray(2 << 20))[::2]  # every second byte: goes through a copy
    with handle() as h:
        def work():
            for _ in range(200):
                h.write(strided, name)
                h.read_async(strided, name).result()

        grown = resident_growth(work, 16 << 20)
    assert grown < 16 << 20, f'{grown} bytes more'


@case
def a_million_bytes_of_error_text_do_not_stay():
    long = '/' + '/'.join(['x' * 200] * 15)
    with handle('null') as h:
        def work(n):
            for _ in range(n):
                h.read_batch_async([(bytearray(1), long)])
            raises(OSError, h.wait)

        grown = resident_growth(lambda: work(10000), 8 << 20)
    assert grown < 8 << 20, f'{grown} bytes more'


run(*cases)
