# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and other signals end a wait; the operation goes on and the handle stays usable."""
import concurrent.futures
import contextlib
import errno
import gc
import os
import signal
import threading
import time
import weakref

from kit import (MIB, PAGE, BlockingMemory, case, cases, child, content, data, each, handle, make, numpy_or_skip, path, raises,
                 run, torch_or_skip)

TICKS = 5


class Bell(Exception):
    pass


@contextlib.contextmanager
def handler(number, function):
    before = signal.signal(number, function)
    try:
        yield
    finally:
        signal.signal(number, before)


def interrupted(call, kind=KeyboardInterrupt, number=signal.SIGINT):
    """Call, which must be ended by the signal.

    It is sent when handlers of harmless ones have run several times within the call, which
    is then certainly waiting.
    """
    entered, ticks = threading.Event(), []

    def peer():
        entered.wait()
        for n in range(TICKS):
            os.kill(os.getpid(), signal.SIGUSR1)
            while len(ticks) <= n:
                time.sleep(0)
        os.kill(os.getpid(), number)

    with handler(signal.SIGUSR1, lambda *_: ticks.append(1)):
        thread = threading.Thread(target=peer)
        thread.start()
        try:
            entered.set()
            got = call()
        except kind:
            return
        finally:
            thread.join()
    raise AssertionError(f'not interrupted, the result is {got!r}')


def goes_on(call_of):
    """A call that waits for one operation is interrupted, and all is well afterwards."""
    name = make(data(PAGE))
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, name)
        gate.reached()
        interrupted(call_of(h, future))
        assert not h.closed and not future.done() and h.pending == 1
        gate.open()
        assert future.result() == PAGE and gate.memory[:] == data(PAGE)
        assert h.read(bytearray(PAGE), name) == PAGE
        assert h.wait() == 1


@case
def ctrl_C_ends_wait():
    goes_on(lambda h, future: h.wait)


@case
def ctrl_C_ends_wait_with_a_timeout():
    goes_on(lambda h, future: lambda: h.wait(1e6))


@case
def ctrl_C_ends_result():
    goes_on(lambda h, future: future.result)


@case
def ctrl_C_ends_result_with_a_timeout():
    goes_on(lambda h, future: lambda: future.result(1e6))


@case
def ctrl_C_ends_exception():
    goes_on(lambda h, future: future.exception)


@case
def ctrl_C_ends_close_and_leaves_the_handle_open():
    goes_on(lambda h, future: h.close)


@case
def ctrl_C_ends_a_blocking_read_of_several_blocks():
    want = data(8 * MIB)
    name = make(want)
    with handle(block=65536) as h, BlockingMemory(bytes(8 * MIB)) as gate:
        interrupted(lambda: h.read(gate.memory, name))
        assert h.pending == 1
        gate.open()
        h.wait()
        assert gate.memory[:] == want
        assert h.pending == 0 and h.read(bytearray(10), name) == 10


@case
def ctrl_C_ends_a_blocking_write_of_several_blocks_and_it_is_written():
    want, name = data(8 * MIB), path()
    with handle(block=65536) as h, BlockingMemory(want) as gate:
        interrupted(lambda: h.write(gate.memory, name, truncate=True))
        gate.open()
        h.wait()
        assert content(name) == want
        assert h.write(b'abc', name) == 3


@case
def ctrl_C_ends_a_blocking_batch():
    name = make(data(PAGE))
    buffers = [bytearray(PAGE) for _ in range(10)]
    with handle() as h, BlockingMemory() as gate:
        interrupted(lambda: h.read_batch([(gate.memory, name)] + [(b, name) for b in buffers]))
        gate.open()
        h.wait()
        assert all(b == data(PAGE) for b in buffers) and gate.memory[:] == data(PAGE)


@case
def the_memory_of_an_interrupted_read_lives_until_it_is_over():
    want = data(8 * MIB)
    name = make(want)
    with handle(block=65536) as h:
        gate = BlockingMemory(bytes(8 * MIB))
        interrupted(lambda: h.read(gate.memory, name))
        raises(BufferError, gate.memory.close)
        gate.open()
        h.wait()
        assert gate.memory[:] == want
        gate.memory.close()


@case
def the_failure_of_an_interrupted_read_is_not_lost():
    name = make(data(MIB))
    with handle(block=65536) as h, BlockingMemory(bytes(4 * MIB)) as gate:
        interrupted(lambda: h.read(gate.memory, name))  # longer than the file
        gate.open()
        e = raises(OSError, h.wait)
        assert e.errno == errno.ENODATA and e.filename == name


@case
def a_handler_that_raises_ends_the_wait_with_its_exception():
    def ring(*_):
        raise Bell

    name = make(data(PAGE))
    with handler(signal.SIGUSR2, ring), handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, name)
        interrupted(future.result, Bell, signal.SIGUSR2)
        interrupted(h.wait, Bell, signal.SIGUSR2)
        gate.open()
        assert future.result() == PAGE and h.wait() == 1


@case
def a_handler_that_returns_ends_nothing():
    name = make(data(PAGE))
    with handle() as h, BlockingMemory() as gate:
        count, entered = [], threading.Event()

        def peer():
            entered.wait()
            for n in range(20):
                os.kill(os.getpid(), signal.SIGUSR1)
                while len(count) <= n:
                    time.sleep(0)
            gate.open()

        with handler(signal.SIGUSR1, lambda *_: count.append(1)):
            thread = threading.Thread(target=peer)
            thread.start()
            future = h.read_async(gate.memory, name)
            entered.set()
            assert future.result() == PAGE
            thread.join()
        assert len(count) == 20


@case
def a_handler_may_use_the_handle_it_interrupts():
    name = make(data(PAGE))
    with handle('threads', threads=2) as h, BlockingMemory() as gate:
        got = []

        def use(*_):
            got.append(h.read(bytearray(PAGE), name))
            gate.open()

        with handler(signal.SIGUSR2, use):
            future = h.read_async(gate.memory, name)
            gate.reached()
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR2)).start()
            assert future.result() == PAGE
        assert got == [PAGE]
        assert h.wait() == 1


@case
def a_timeout_comes_in_spite_of_signals():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        with handler(signal.SIGALRM, lambda *_: None):
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            try:
                raises(TimeoutError, future.result, 0.05)
                raises(TimeoutError, h.wait, 0.05)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        gate.open()
        assert future.result() == PAGE


@case
def signals_do_not_disturb_transfers():
    want, name = data(4 * MIB), path()
    with handler(signal.SIGALRM, lambda *_: None), handle(block=16384) as h:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            for i in range(20):
                assert h.write(want, name) == len(want)
                got = bytearray(len(want))
                assert h.read(got, name) == len(want) and got == want
                small = bytearray(1000)
                assert h.read(small, name, i) == 1000 and small == want[i:i + 1000]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@case
def other_threads_wait_on():
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, make(data(PAGE)))
        out = []
        thread = threading.Thread(target=lambda: out.append(future.result()))
        thread.start()
        interrupted(future.result)
        assert not out
        gate.open()
        thread.join()
        assert out == [PAGE]


@case
def a_handler_may_wait_for_what_it_interrupts_the_end_of():
    """A read into a conjugated tensor is finished by Python code, in which a handler may run."""
    torch = torch_or_skip()
    from penstock import _torch
    put, waits = _torch._copy_back, []
    name = make(data(64))

    def interrupted_put(*args):
        if not waits:
            signal.raise_signal(signal.SIGUSR1)
        return put(*args)

    with handle() as h:
        tensors = [torch.zeros(4, dtype=torch.complex128).conj() for _ in range(3)]
        futures = []

        def handler(*_):
            waits.append(None)
            waits[0] = h.wait(), [f.result() for f in futures]

        before = signal.signal(signal.SIGUSR1, handler)
        _torch._copy_back = interrupted_put
        try:
            futures += [h.read_async(t, name) for t in tensors]
            h.wait()
        finally:
            _torch._copy_back = put
            signal.signal(signal.SIGUSR1, before)
        assert waits[0][1] == [64] * 3
        assert all(bytes(t.resolve_conj().numpy()) == data(64) for t in tensors)


@case
def io_threads_take_no_signals():
    """Handlers of the process run in threads that are Python's."""
    others = set(os.listdir('/proc/self/task'))  # torch has some
    with handle(threads=2) as h:
        h.read_async(bytearray(PAGE), make(data(PAGE))).result()
        want = 1 << (signal.SIGINT - 1)
        python = {str(t.native_id) for t in threading.enumerate()}
        for task in set(os.listdir('/proc/self/task')) - others - python:
            with open(f'/proc/self/task/{task}/status') as f:
                blocked = next(line for line in f if line.startswith('SigBlk')).split()[1]
            with open(f'/proc/self/task/{task}/comm') as f:
                comm = f.read().strip()
            if comm.startswith('iou-'):
                continue  # the kernel's own
            assert int(blocked, 16) & want, f'thread {comm} takes SIGINT'
            assert not int(blocked, 16) & 1 << (signal.SIGSEGV - 1), f'thread {comm} dies dumb'


class Impatient(concurrent.futures.Future):
    """Ctrl-C comes whenever it is waited for."""

    def result(self, timeout=None):
        raise KeyboardInterrupt


@each(['safetensors', 'torch'])
def what_a_thread_reads_into_stays_when_nobody_waits_for_it_any_more(which):
    """Of many tensors, which a thread reads: the first Ctrl-C waits for it, the second does not."""
    from penstock import _background
    from penstock._range_reader import Reader
    if which == 'torch':
        torch = torch_or_skip()
        import penstock.torch
        from penstock import _torch_archive as owner
        how = '_new_storage'
        save, load = penstock.torch.save, lambda name: penstock.torch.load(name, 'cpu')
        tensors = {f't{i}': torch.full((5000,), i) for i in range(300)}
    else:
        numpy = numpy_or_skip()
        from penstock._frameworks import Numpy as owner
        from penstock.safetensors import load_file, save_file
        how = 'share'
        save, load = save_file, lambda name: load_file(name, framework='np')
        tensors = {f't{i}': numpy.full(5000, i) for i in range(300)}
    name, go = path(), threading.Event()
    save(tensors, name)
    read, close, fresh, memory, ended = Reader.read, Reader.close, getattr(owner, how), [], []
    before = _background.Future, _background.wait

    def late(self, ranges):
        go.wait()
        ended.append([m() is not None for m in memory])
        read(self, ranges)

    def used(self):
        raise RuntimeError('another thread is using the file')  # as it is said of one that reads

    def seen(*args):
        made = fresh(*args)
        memory.append(weakref.ref(made[0] if isinstance(made, tuple) else made))
        return made

    Reader.read, Reader.close = late, used
    setattr(owner, how, seen)
    _background.Future, _background.wait = Impatient, lambda futures: Impatient().result()
    try:
        raises(KeyboardInterrupt, load, name)
        gc.collect()
    finally:
        Reader.read, Reader.close = read, close
        setattr(owner, how, fresh)
        _background.Future, _background.wait = before
        go.set()
    for thread in threading.enumerate():
        if thread.name == 'penstock-load':
            thread.join()
    gc.collect()
    assert ended == [[True]], f'memory that was to be read into is gone: {ended}'
    assert memory[0]() is None, 'it stays for ever'


@case
def ctrl_C_ends_a_program_that_waits_and_the_data_is_complete():
    name = path()
    code = '''
import os, signal, sys, threading, time
import penstock
from kit import BlockingMemory, data, MIB
h = penstock.Handle(block=65536)
gate = BlockingMemory(data(4 * MIB))
def peer():
    gate.reached()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=peer).start()
try:
    h.write(gate.memory, sys.argv[1])
    h.write_async(b'never', sys.argv[1])
except KeyboardInterrupt:
    print('interrupted', h.pending)
    gate.open()
'''
    BlockingMemory().open()  # skips here, not there
    done = child(code, name)
    assert done.returncode == 0 and done.stdout == 'interrupted 1\n' and not done.stderr, done
    assert content(name) == data(4 * MIB)


run(*cases)
