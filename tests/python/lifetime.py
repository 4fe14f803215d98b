# SPDX-License-Identifier: Apache-2.0
"""What lives how long: objects, handles, the interpreter, and processes that fork."""
import errno
import gc
import multiprocessing
import os
import subprocess
import threading
import weakref

import penstock
from kit import (MIB, PAGE, BlockingMemory, case, cases, child, child_ok, content, data, each, handle,
                 in_fork, make, module, path, raises, run, skip, torch_or_skip)


class Buffer(bytearray):
    """A bytearray that can be watched."""


# ------------------------------------------------------------------ objects

@case
def an_object_dropped_right_after_submission_is_written_whole():
    want = data(PAGE, seed=2)
    with handle() as h, BlockingMemory(data(PAGE)) as gate:
        first, second = path(), path()
        h.write_async(gate.memory, first)
        gate.reached()
        buffer = Buffer(want)
        gone = weakref.ref(buffer)
        h.write_async(buffer, second)
        del buffer
        gc.collect()
        junk = [bytearray(b'\xff' * PAGE) for _ in range(1000)]
        assert gone() is not None or content(second) == want
        gate.open()
        assert h.wait() == 2
        assert content(second) == want and gone() is None and junk


@case
def thousands_of_temporaries_are_written_whole():
    names = [path() for _ in range(200)]
    with handle() as h:
        for i, name in enumerate(names):
            h.write_async(data(10000 + i, seed=i), name)
        assert h.wait() == 200
    assert all(content(n) == data(10000 + i, seed=i) for i, n in enumerate(names))


@case
def an_object_in_use_cannot_be_resized():
    with handle() as h:
        with BlockingMemory() as gate:
            buffer = bytearray(PAGE)
            first = h.read_async(gate.memory, make(data(PAGE)))
            second = h.read_async(buffer, make(data(PAGE)))
            gate.reached()
            if not second.done():
                raises(BufferError, buffer.append, 1)
            raises(BufferError, gate.memory.close)
        first.result(), second.result()
        buffer.append(1)


@case
def a_view_of_an_object_is_enough():
    want = data(10000)
    with handle() as h:
        name = path()
        h.write_async(memoryview(bytearray(want))[100:9000], name)
        h.wait()
        assert content(name) == want[100:9000]


# ------------------------------------------------------------------ tensors

# Some of these are moved in place, some through a copy.
TENSORS = {
    'contiguous': lambda t: t,
    'long runs': lambda t: t.reshape(4, -1)[:, :2000],
    'every second': lambda t: t[::2],
    'conjugated': lambda t: t.view(torch_or_skip().complex64),
}
IN_PLACE = ('contiguous', 'long runs')
LENGTH = 4 * 4000  # elements of four bytes

# What parts a tensor from its memory.
PARTINGS = {
    'set_()': lambda t: t.set_(),
    'data =': lambda t: setattr(t, 'data', torch_or_skip().empty(0, dtype=t.dtype)),
    'data = as large': lambda t: setattr(t, 'data', torch_or_skip().full_like(t, 7)),
}


def tensor_of(kind, seed=1):
    """A tensor which is a view of no other, and a reference to what owns its memory."""
    torch = torch_or_skip()
    owner = Buffer(data(4 * LENGTH, seed))
    view = TENSORS[kind](torch.frombuffer(owner, dtype=torch.float32))
    storage = getattr(view, 'untyped_storage', view.storage)()
    tensor = torch.empty(0, dtype=view.dtype).set_(storage, view.storage_offset(), view.size(),
                                                   view.stride())
    return tensor.conj() if kind == 'conjugated' else tensor, weakref.ref(owner)


def values(tensor):
    return bytes(tensor.resolve_conj().contiguous().numpy())


@each(TENSORS)
def a_tensor_dropped_right_after_submission_is_written_whole(kind):
    with handle() as h, BlockingMemory(data(PAGE)) as gate:
        h.write_async(gate.memory, path())
        gate.reached()
        tensor, gone = tensor_of(kind)
        want, name = values(tensor), path()
        h.write_async(tensor, name)
        del tensor
        gc.collect()
        junk = [bytearray(b'\xff' * 4 * LENGTH) for _ in range(100)]
        if kind in IN_PLACE:
            assert gone() is not None or content(name) == want
        gate.open()
        assert h.wait() == 2
        assert content(name) == want and gone() is None and junk


@each(TENSORS)
def a_tensor_dropped_right_after_submission_lives_until_it_is_read(kind):
    with handle() as h, BlockingMemory() as gate:
        held = h.read_async(gate.memory, make(data(PAGE)))
        gate.reached()
        tensor, gone = tensor_of(kind)
        future = h.read_async(tensor, make(values(tensor)))
        del tensor
        gc.collect()
        assert gone() is not None or future.done() or kind == 'conjugated'
        gate.open()
        assert held.result() and future.result() and h.wait() == 2
        gc.collect()
        assert gone() is None


@each(TENSORS)
def hundreds_of_temporary_tensors_are_written_whole(kind):
    wants = {}
    with handle() as h:
        for i in range(200):
            tensor, name = tensor_of(kind, seed=i)[0], path()
            wants[name] = values(tensor)
            h.write_async(tensor, name)
            del tensor
        assert h.wait() == 200
    assert all(content(name) == want for name, want in wants.items())


@each([(kind, parting) for kind in TENSORS for parting in PARTINGS])
def a_tensor_that_is_given_other_memory_is_written_as_it_was(combination):
    kind, parting = combination
    with handle() as h, BlockingMemory(data(PAGE)) as gate:
        h.write_async(gate.memory, path())
        gate.reached()
        tensor, gone = tensor_of(kind)
        want, name = values(tensor), path()
        h.write_async(tensor, name)
        PARTINGS[parting](tensor)
        gc.collect()
        junk = [bytearray(b'\xff' * 4 * LENGTH) for _ in range(100)]
        if kind in IN_PLACE:
            assert gone() is not None or content(name) == want
        gate.open()
        assert h.wait() == 2
        del tensor
        assert content(name) == want and gone() is None and junk


@each([(kind, parting) for kind in TENSORS for parting in PARTINGS])
def what_is_read_goes_nowhere_but_to_the_memory_a_tensor_had(combination):
    kind, parting = combination
    with handle() as h, BlockingMemory() as gate:
        h.read_async(gate.memory, make(data(PAGE)))
        gate.reached()
        tensor, gone = tensor_of(kind)
        future = h.read_async(tensor, make(bytes(len(values(tensor)))))
        PARTINGS[parting](tensor)
        gc.collect()
        assert gone() is not None or future.done() or kind == 'conjugated'
        junk = [bytearray(b'\xff' * 4 * LENGTH) for _ in range(100)]
        gate.open()
        if kind != 'conjugated':  # which is put where the tensor is now, if it fits there
            assert future.result()
        future.exception()
        assert h.wait() == 2
        del tensor, future
        gc.collect()
        assert gone() is None and all(j == b'\xff' * 4 * LENGTH for j in junk)


# Of memory that torch has allocated, and can free.
RESIZED = {
    'contiguous': lambda torch: torch.zeros(LENGTH),
    'parameter': lambda torch: torch.nn.Parameter(torch.zeros(LENGTH)),
    'bfloat16': lambda torch: torch.zeros(LENGTH, dtype=torch.bfloat16),
    'complex': lambda torch: torch.zeros(LENGTH, dtype=torch.complex64),
    'long runs': lambda torch: torch.zeros(4, LENGTH)[:, :2000],
    'part of one': lambda torch: torch.zeros(LENGTH)[100:1000],
    'single': lambda torch: torch.tensor(1.0),
}


@each([(kind, way) for kind in RESIZED for way in ('read_async', 'write_async')])
def a_storage_in_use_is_not_resized(combination):
    kind, way = combination
    torch = torch_or_skip()
    tensor = RESIZED[kind](torch)
    nbytes = tensor.numel() * tensor.element_size()
    storage = getattr(tensor.detach(), 'untyped_storage', tensor.detach().storage)()
    with handle() as h, BlockingMemory() as gate:
        h.read_async(gate.memory, make(data(PAGE)))
        gate.reached()
        getattr(h, way)(tensor, make(bytes(nbytes)))
        assert 'not resizable' in str(raises(RuntimeError, storage.resize_, 0))
        gate.open()
        assert h.wait() == 2


ELSEWHERE = """
import _xxsubinterpreters as interpreters
try:
    interpreters.run_string(interpreters.create(), 'import penstock; h = penstock.Handle()')
except interpreters.RunFailedError as e:
    print(e)
import penstock
with penstock.Handle() as h:
    print(h.read(bytearray(1), __import__('sys').executable))
"""


@case
def another_interpreter_cannot_import_it_and_the_process_ends():
    if not module('_xxsubinterpreters'):
        skip('_xxsubinterpreters')
    said = child_ok(ELSEWHERE)
    assert 'ImportError' in said and 'main interpreter' in said and said.endswith('\n1\n'), said


# ------------------------------------------------------------------ handles

@case
def a_handle_dropped_with_operations_in_flight_finishes_them():
    names = [path() for _ in range(20)]
    h = handle()
    futures = [h.write_async(data(MIB, seed=i), n) for i, n in enumerate(names)]
    del h
    gc.collect()
    assert [f.result() for f in futures] == [MIB] * 20
    assert all(content(n) == data(MIB, seed=i) for i, n in enumerate(names))


@case
def a_temporary_handle_does_its_work():
    name = path()
    assert handle().write_async(data(MIB), name).result() == MIB
    assert handle().write(data(MIB), path()) == MIB
    assert content(name) == data(MIB)


@case
def a_handle_dropped_by_the_last_callback_is_no_trouble():
    name = make(data(PAGE))
    for _ in range(50):
        over, box = threading.Event(), [handle()]

        def callback(f):
            box.clear()
            over.set()

        with BlockingMemory() as gate:
            future = box[0].read_async(gate.memory, name)
            future.add_done_callback(callback)
        over.wait()
        assert future.result() == PAGE


@case
def a_future_dropped_by_its_own_callback_is_no_trouble():
    name = make(data(PAGE))
    with handle() as h:
        for _ in range(50):
            over, box = threading.Event(), []
            with BlockingMemory() as gate:
                box.append(h.read_async(gate.memory, name))
                box[0].add_done_callback(lambda f: (box.clear(), over.set()))
            over.wait()


# ------------------------------------------------------------------ the end of the interpreter

WRITES = '''
import penstock, sys
from kit import data, MIB
h = penstock.Handle({options})
for i, name in enumerate(sys.argv[1:]):
    h.write_async(data(2 * MIB + i, seed=i), name)
'''


def complete(names):
    return all(content(n) == data(2 * MIB + i, seed=i) for i, n in enumerate(names))


def fresh(count=8):
    return [path() for _ in range(count)]


@each(('', '"threads"', '"libaio"', '"fault:again=0.3,short=0.3,delay=0.5", block=16384'))
def at_the_end_everything_in_flight_is_finished(options):
    handle(options.split('"')[1].split(':')[0] if options else None).close()
    names = fresh()
    assert child_ok(WRITES.format(options=options), *names) == ''
    assert complete(names)


@case
def at_the_end_a_failure_nobody_saw_is_on_standard_error():
    done = child('import penstock, sys; h = penstock.Handle(); h.read_async(bytearray(9), sys.argv[1], 5)',
                 make(b'', 'short'))
    assert done.returncode == 0 and not done.stdout, done
    assert 'OSError' in done.stderr and '-short' in done.stderr, done.stderr
    assert 'offset 5' in done.stderr and 'length 9' in done.stderr, done.stderr


@case
def at_the_end_a_failure_somebody_saw_is_not():
    out = child_ok('import penstock, sys; h = penstock.Handle()\n'
                   'print(h.read_async(bytearray(9), sys.argv[1]).exception().errno)', make(b''))
    assert out == f'{errno.ENODATA}\n'


@case
def exit_keeps_its_status():
    names = fresh(3)
    done = child(WRITES.format(options='') + 'sys.exit(3)', *names)
    assert done.returncode == 3 and not done.stderr and complete(names), done


@case
def an_exception_that_ends_the_program_loses_nothing():
    names = fresh(3)
    done = child(WRITES.format(options='') + 'raise KeyError("mine")', *names)
    assert done.returncode == 1 and complete(names), done
    assert done.stderr.count('Traceback') == 1 and "KeyError: 'mine'" in done.stderr, done.stderr


@case
def a_handle_in_a_cycle_is_finished_too():
    names = fresh(3)
    assert child_ok(WRITES.format(options='') + '''
class Owner: pass
owner = Owner(); owner.me = owner; owner.h = h
del owner, h
''', *names) == ''
    assert complete(names)


@case
def a_handle_nobody_can_reach_is_finished_too():
    names = fresh(3)
    assert child_ok(WRITES.format(options='') + 'import gc; gc.disable(); l = [h]; l.append(l); '
                    'f = h.open(sys.argv[1]); del h, l, f', *names) == ''
    assert complete(names)


@case
def futures_that_outlive_their_handle_are_no_trouble_at_the_end():
    names = fresh(3)
    assert child_ok(WRITES.format(options='') + '''
import builtins
builtins.kept = [h.read_async(bytearray(1), sys.argv[0] and sys.argv[1]) for _ in range(10)]
builtins.opened = h.open(sys.argv[1])
del h
''', *names) == ''
    assert complete(names)


@case
def exit_functions_can_still_use_a_handle():
    name = path()
    assert child_ok('''
import atexit, penstock, sys
h = penstock.Handle()
def last():
    h.write_async(b'asynchronous', sys.argv[1]).result()
    h.write(b'A', sys.argv[1])
    h.write_async(b'!', sys.argv[1], 12)
atexit.register(last)
''', name) == ''
    assert content(name) == b'Asynchronous!'


@case
def exit_functions_that_run_after_ours_can_use_a_handle_too():
    BlockingMemory().open()
    name = path()
    assert child_ok('''
import atexit, sys, threading
def last():
    over = threading.Event()
    with BlockingMemory(data(PAGE)) as gate:
        h.write_async(gate.memory, sys.argv[1]).add_done_callback(lambda f: over.set())
    over.wait()
    print(h.wait(), h.write(b'A', sys.argv[1]))
atexit.register(last)  # before the import: runs when penstock has finished
import penstock
from kit import PAGE, BlockingMemory, data
h = penstock.Handle()
''', name) == '1 1\n'
    assert content(name) == b'A' + data(PAGE)[1:]


@case
def a_destructor_at_the_very_end_is_refused_or_served():
    name = path()
    done = child('''
import builtins, penstock, sys
class Last:
    def __init__(self): self.h, self.error = penstock.Handle(), OSError
    def __del__(self):
        try:
            self.h.write(b'x', sys.argv[1])
        except (ValueError, OSError):
            pass
builtins.last = Last()
''', name)
    assert done.returncode == 0, done


@case
def callbacks_that_are_due_run_before_the_end():
    code = '''
import atexit, sys
called = []
atexit.register(lambda: print(len(called)))  # before the import: runs when penstock has finished
import penstock
h = penstock.Handle(threads=2)
for i in range(200):
    h.write_async(bytes(4096), sys.argv[1]).add_done_callback(lambda f: called.append(f.result()))
'''
    assert [child_ok(code, path()) for _ in range(10)] == ['200\n'] * 10


@case
def what_callbacks_submit_at_the_end_is_finished_too():
    name = path()
    assert child_ok('''
import penstock, sys
from kit import data
h, want = penstock.Handle(), data(100000)
at = 0
def more(f=None):
    global at
    if at < len(want):
        at += 1000
        h.write_async(want[at - 1000:at], sys.argv[1], at - 1000).add_done_callback(more)
more()
''', name) == ''
    assert content(name) == data(100000)


@case
def exit_inside_a_callback_is_reported_and_ends_nothing():
    done = child('''
import penstock, sys, threading
over = threading.Event()
from kit import BlockingMemory
h, gate = penstock.Handle(), BlockingMemory()
f = h.write_async(gate.memory, sys.argv[1])
f.add_done_callback(lambda f: sys.exit(7))
f.add_done_callback(lambda f: over.set())
gate.open()
over.wait()
print(f.result())
''', path())
    BlockingMemory().open()
    assert done.returncode == 0 and done.stdout == f'{PAGE}\n' and 'SystemExit' in done.stderr, done


@case
def hard_exit_inside_a_callback_ends_at_once():
    done = child('''
import os, penstock, sys, threading
h = penstock.Handle()
h.write_async(bytes(5000000), sys.argv[1]).add_done_callback(lambda f: os._exit(9))
threading.Event().wait()
''', path())
    assert done.returncode == 9 and not done.stderr, done


@case
def a_daemon_thread_that_waits_at_the_end_is_no_trouble():
    names = fresh(3)
    assert child_ok(WRITES.format(options='') + '''
import threading
def loop():
    while True:
        h.read_async(bytearray(4096), sys.argv[1], partial=True).result()
        h.read(bytearray(4096), sys.argv[1], partial=True)
        with h.open(sys.argv[1]) as f:
            h.read_async(bytearray(10), f, partial=True).add_done_callback(id)
for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
''', *names) == ''
    assert complete(names)


@case
def a_loop_that_is_never_finished_is_no_trouble():
    assert child_ok('''
import asyncio, penstock, sys
async def main(h):
    asyncio.ensure_future(task(h))
    await asyncio.sleep(0)
async def task(h):
    await h.write_async(bytes(50000000), sys.argv[1])
h = penstock.Handle()
asyncio.run(main(h))
''', path()) == ''


@case
def importing_and_leaving_is_silent():
    assert child_ok('import penstock') == ''
    assert child_ok('import penstock._penstock') == ''
    assert child_ok('import penstock; h = penstock.Handle(); f = h.open("/proc/self/exe")') == ''
    assert child_ok('import sys, penstock; del sys.modules["penstock"], sys.modules["penstock._penstock"]\n'
                    'import gc; h = penstock.Handle(); del penstock; gc.collect(); h.close()') == ''


@case
def importing_starts_no_thread():
    assert child_ok('import os, penstock; print(len(os.listdir("/proc/self/task")))') == '1\n'


# ------------------------------------------------------------------ fork

def echild(function, *args):
    return raises(OSError, function, *args).errno == errno.ECHILD


@case
def after_fork_the_child_gets_ECHILD_and_the_parent_goes_on():
    name = make(data(PAGE))
    with handle() as h, h.open(name) as f:
        done = h.read_async(bytearray(PAGE), name)
        assert done.result() == PAGE

        def work():
            buffer = bytearray(1)
            for call in (lambda: h.read(buffer, name), lambda: h.write(buffer, name),
                         lambda: h.read(buffer, f), lambda: h.read_async(buffer, name),
                         lambda: h.write_async(buffer, name), lambda: h.read_batch([(buffer, name)]),
                         lambda: h.write_batch_async([(buffer, name)]), lambda: h.open(name),
                         lambda: h.sync(name), h.wait, h.stats, f.stat):
                assert echild(call), call
            assert done.result() == PAGE and done.done()
            return True

        in_fork(work)
        assert h.read(bytearray(PAGE), f) == PAGE and content(name) == data(PAGE)
        assert h.read_async(bytearray(PAGE), name).result() == PAGE
        assert h.wait() == 2


@case
def futures_in_flight_end_with_ECHILD_in_the_child():
    name = make(data(PAGE))
    with handle() as h, BlockingMemory() as gate:
        future = h.read_async(gate.memory, name)
        called = []
        gate.reached()

        def work():
            assert echild(future.result)
            assert echild(future.result, 5)
            try:
                assert future.exception().errno == errno.ECHILD
            except OSError as e:
                assert e.errno == errno.ECHILD
            assert echild(future.add_done_callback, called.append)
            repr(future), future.cancel(), future.running(), future.ways
            return True

        in_fork(work)
        gate.open()
        assert future.result() == PAGE and h.wait() == 1
        assert gate.memory[:] == data(PAGE) and not called


@case
def a_future_that_another_thread_was_settling_ends_with_ECHILD_in_the_child():
    size = 2 * MIB
    name = make(data(size // 2))
    with handle() as h, BlockingMemory(bytes(size)) as gate:
        future = h.read_async(memoryview(gate.memory)[::2], name)  # goes through memory of its own
        settling = threading.Thread(target=future.result)
        settling.start()
        gate.reached()

        def work():
            assert echild(future.result)
            return future.done()

        in_fork(work)
        gate.open()
        settling.join()
        assert future.result() == size // 2 and gate.memory[::2] == data(size // 2)


@case
def what_a_thread_left_is_settled_also_by_who_uses_two_handles_in_turn():
    name = make(data(PAGE))
    with handle() as one, handle() as other:
        buffer = Buffer(PAGE)
        gone = weakref.ref(buffer)
        child = threading.Thread(target=one.read_async, args=(buffer, name))
        child.start()
        child.join()
        del buffer, child
        for _ in range(50 * 64):
            if gone() is None:
                break
            for h in one, other:
                h.read_async(bytearray(1), name).result()
        assert gone() is None


@case
def close_in_the_child_does_no_io_and_does_not_wait():
    name = path()
    with handle() as h, BlockingMemory(data(PAGE)) as gate, h.open(name, 'w') as f:
        future = h.write_async(gate.memory, f)
        gate.reached()

        def work():
            f.close()
            h.close()
            assert h.closed and f.closed
            h.close()
            raises(ValueError, h.read, bytearray(1), name)
            return True

        in_fork(work)
        assert not h.closed and not f.closed
        gate.open()
        assert future.result() == PAGE and content(name) == data(PAGE)


@case
def leaving_a_with_block_in_the_child_is_quiet():
    name = make(data(PAGE))
    with handle() as outer, BlockingMemory() as gate:
        outer.read_async(gate.memory, name)
        gate.reached()

        def work():
            assert outer.__exit__(None, None, None) is None
            return outer.closed

        in_fork(work)
        gate.open()
        assert outer.wait() == 1


@case
def dropping_everything_in_the_child_is_quiet():
    name = make(data(PAGE))
    box = [handle()]
    with BlockingMemory() as gate:
        box.append(box[0].read_async(gate.memory, name))
        box.append(box[0].open(name))
        gate.reached()

        def work():
            box.clear()
            gc.collect()
            return True

        in_fork(work)
        gate.open()
        assert box[1].result() == PAGE and box[0].read(bytearray(PAGE), box[2]) == PAGE
    box[0].close()


@case
def the_child_makes_a_handle_of_its_own():
    name, new = make(data(PAGE)), path()
    with handle() as h, BlockingMemory() as gate:
        over = threading.Event()
        future = h.read_async(gate.memory, name)
        future.add_done_callback(lambda f: over.set())  # starts the thread of callbacks
        gate.reached()

        def work():
            called = threading.Event()
            with penstock.Handle() as mine:
                assert mine.write_async(data(MIB), new).result() == MIB
                with BlockingMemory() as second:
                    mine.read_async(second.memory, name).add_done_callback(lambda f: called.set())
                called.wait()
                assert mine.wait() == 2
            return content(new) == data(MIB)

        in_fork(work)
        gate.open()
        over.wait()
        assert future.result() == PAGE


@case
def a_child_that_ends_as_a_program_does_is_quiet():
    name = path()
    out = child_ok('''
import os, penstock, sys, warnings
from kit import data, MIB
warnings.simplefilter('ignore')  # Python 3.12 does not like fork() with threads
h = penstock.Handle()
f = h.open(sys.argv[1], 'w')
futures = [h.write_async(data(4 * MIB), f) for _ in range(4)]
futures[0].add_done_callback(lambda f: None)
pid = os.fork()
if pid == 0:
    sys.exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(h.wait())
''', name)
    assert out == '4\n4\n', out
    assert content(name) == data(4 * MIB)


@case
def a_fork_while_other_threads_work_is_safe():
    name = make(data(PAGE))
    with handle(threads=2) as h:
        stop, trouble, futures = threading.Event(), [], []

        def worker():
            try:
                while not stop.is_set():
                    assert h.read(bytearray(PAGE), name) == PAGE
                    futures[:] = [h.read_async(bytearray(PAGE), name) for _ in range(20)]
                    assert h.read_async(bytearray(PAGE), name).result() == PAGE
                    over = threading.Event()
                    h.read_async(bytearray(PAGE), name).add_done_callback(lambda f: over.set())
                    over.wait()
            except BaseException as e:
                trouble.append(e)

        def child_work():
            for future in futures:
                future.done(), future.running(), future.ways, repr(future)
                for call in (lambda: future.result(0), lambda: future.add_done_callback(id)):
                    try:
                        call()
                    except OSError as e:
                        assert e.errno == errno.ECHILD, e
            repr(h), h.pending
            return echild(h.read, bytearray(1), name) and h.close() is None

        threads = [threading.Thread(target=worker) for _ in range(3)]
        for t in threads:
            t.start()
        try:
            for _ in range(20 if 'ASAN_OPTIONS' in os.environ else 100):
                in_fork(child_work)
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not trouble, trouble
        h.wait()


@case
def programs_that_are_started_inherit_no_descriptor():
    name = make(data(PAGE))
    with handle() as h, h.open(name), BlockingMemory() as gate:
        future = h.read_async(gate.memory, name)
        gate.reached()
        out = subprocess.run(['sh', '-c', 'ls -l /proc/self/fd'], close_fds=False, check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        assert name not in out and 'io_uring' not in out, out
        gate.open()
        assert future.result() == PAGE


# ------------------------------------------------------------------ multiprocessing

def read_in_a_process(name, connection):
    with penstock.Handle() as h:
        got = bytearray(os.path.getsize(name))
        connection.send((h.read_async(got, name).result(), bytes(got)))


@each(('spawn', 'forkserver', 'fork'))
def a_process_of_multiprocessing_has_handles_of_its_own(method):
    context = multiprocessing.get_context(method)
    name = make(data(PAGE))
    with handle() as h:
        h.read_async(bytearray(PAGE), name).result()
        mine, theirs = context.Pipe()
        process = context.Process(target=read_in_a_process, args=(name, theirs))
        process.start()
        theirs.close()
        assert mine.recv() == (PAGE, data(PAGE))
        process.join()
        assert process.exitcode == 0
        assert h.read(bytearray(PAGE), name) == PAGE


@case
def a_handle_cannot_be_sent_to_another_process():
    context = multiprocessing.get_context('spawn')
    with handle() as h:
        mine, theirs = context.Pipe()
        e = raises(TypeError, mine.send, h)
        assert 'Handle' in str(e) and 'process' in str(e), e


if __name__ == '__main__':
    run(*cases)
