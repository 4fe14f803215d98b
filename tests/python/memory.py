# SPDX-License-Identifier: Apache-2.0
"""penstock.Memory and penstock.empty()."""
import copy
import ctypes
import gc
import mmap
import os
import pickle
import platform
import random
import sys
import threading

import penstock
from kit import (MIB, PAGE, Skip, case, cases, child_ok, content, data, each, handle, in_fork, make,
                 module, numpy_or_skip, path, raises, run, torch_or_skip)
from penstock._penstock import in_memory

numpy, torch = module('numpy'), module('torch')
SIZES = (0, 1, 4095, 4096, 4097, MIB - 1, MIB, 2 * MIB, 2 * MIB + 1, 5 * MIB)


def mapped_pages():
    with open('/proc/self/statm') as f:
        return int(f.read().split()[0])


# ----------------------------------------------------------------------------- Memory

@each(SIZES)
def memory_is_zero_writable_and_aligned_bytes(size):
    for pinned in (False, True):
        m = penstock.Memory(size, pinned=pinned)
        assert len(m) == m.nbytes == size
        assert m.address % PAGE == 0 and m.address
        view = memoryview(m)
        assert not view.readonly and view.nbytes == size and view.contiguous and view.format == 'B'
        assert bytes(view) == bytes(size)
        view[:] = data(size)
        assert bytes(m) == data(size)


@case
def memory_says_what_it_is():
    for pinned in (False, True):
        for size in (PAGE, 8 * MIB):
            m = penstock.Memory(size, pinned=pinned)
            assert m.pinned in ((True, False) if pinned else (False,))
            assert isinstance(m.huge, bool) and isinstance(m.note, str)
            assert m.note or m.pinned == pinned
            assert str(size) in repr(m) and hex(m.address) in repr(m)
            assert ('not pinned' in repr(m)) == (not m.pinned)
            raises(AttributeError, setattr, m, 'pinned', True)


@case
def what_is_refused_is_left_out_and_told():
    out = child_ok('''if True:
        import os, resource, penstock
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        m = penstock.Memory(100000)
        memoryview(m)[:5] = b'hello'
        print(m.pinned, m.note)
    ''')
    if out.startswith('True'):
        raise Skip('memlock', 'the memlock limit does not bind here')
    assert 'not locked' in out and 'RLIMIT_MEMLOCK' in out


@case
def a_size_that_makes_no_sense_is_refused():
    assert str(raises(ValueError, penstock.Memory, -1)) == 'nbytes: -1 is negative'
    for size in (1 << 60, sys.maxsize):
        assert str(size) in str(raises(MemoryError, penstock.Memory, size))
    raises(OverflowError, penstock.Memory, 1 << 64)
    for size in (1.5, 'x', None, b''):
        raises(TypeError, penstock.Memory, size)
    raises(TypeError, penstock.Memory)
    raises(TypeError, penstock.Memory, 1, False)
    raises(TypeError, penstock.Memory, 1, locked=True)


@case
def memory_cannot_be_pickled_copied_or_derived_from():
    m = penstock.Memory(10)
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        assert 'Memory' in str(raises(TypeError, function, m))
    raises(TypeError, type, 'Mine', (penstock.Memory,), {})


@case
def memory_is_freed_with_the_last_object_that_uses_it():
    m = penstock.Memory(3 * MIB)
    address = m.address
    views = [memoryview(m), memoryview(m)[5:9]]
    if numpy is not None:
        views.append(numpy.frombuffer(m, 'f8')[7:])
    if torch is not None:
        views.append(torch.frombuffer(m, dtype=torch.int16).reshape(3, -1).t())
    del m
    while views:
        assert in_memory(address, 3 * MIB)
        views.pop()
    gc.collect()
    assert not in_memory(address, 1)


@case
def freed_memory_goes_back_to_the_system():
    penstock.Memory(4 * MIB)
    before = mapped_pages()
    for i in range(300):
        m = penstock.Memory((1 + i % 9) * MIB - i % 5, pinned=i % 2 == 0)
        memoryview(m)[0] = 1
        del m
    assert mapped_pages() - before < 8 * MIB // PAGE


@case
def an_address_is_in_memory_when_all_of_it_is():
    assert not in_memory(0, 0) and not in_memory(1 << 63, 5)
    m = penstock.Memory(10000)
    a = m.address
    for start, size, want in ((0, 10000, True), (0, 10001, False), (0, 0, True), (9999, 1, True),
                              (9999, 2, False), (10000, 1, False), (-1, 1, False), (-1, 5, False),
                              (5000, 100, True), (1, (1 << 64) - 1, False)):
        assert in_memory(a + start, size) is want, (start, size)
    raises(OverflowError, in_memory, -1, 5)
    raises(OverflowError, in_memory, 5, -1)
    raises(TypeError, in_memory, a)
    raises(TypeError, in_memory, 1.0, 5)


@case
def every_one_of_many_is_found():
    rng = random.Random(5)
    alive = {}
    for i in range(2000):
        if alive and rng.random() < 0.45:
            del alive[rng.choice(list(alive))]
        else:
            m = penstock.Memory(rng.randrange(1, 3 * PAGE), pinned=False)
            assert m.address not in alive
            alive[m.address] = m
            del m
        for m in rng.sample(list(alive.values()), min(3, len(alive))):
            assert in_memory(m.address, m.nbytes) and in_memory(m.address + m.nbytes - 1, 1)
            assert not in_memory(m.address, m.nbytes + 1)
            assert not in_memory(m.address + m.nbytes, 1)
            del m


# ---------------------------------------------------------------------- with handles

def moves_through(h, m, seed=1):
    name, want = path(), data(m.nbytes, seed)
    memoryview(m)[:] = want
    assert h.write(m, name) == m.nbytes
    assert content(name) == want
    memoryview(m)[:] = bytes(m.nbytes)
    assert h.read(m, name) == m.nbytes
    assert bytes(m) == want
    os.unlink(name)


@each((*SIZES, 20 * MIB))
def memory_goes_through_handles_bytes(size):
    m = penstock.Memory(size)
    with handle() as first, handle() as second:
        for h in (first, second, first):
            moves_through(h, m)
    with handle() as third:
        moves_through(third, m)
        del m
        moves_through(third, penstock.Memory(size))


def registers_or_skip(stats):
    """The engine takes memory, unless there is a reason why it cannot."""
    if 'unregistered' in stats['fallbacks']:
        raise Skip('memlock', f'the engine takes no memory here: {stats["fallback_why"]}')
    if tuple(map(int, platform.release().split('.')[:2])) < (5, 19):
        raise Skip('kernel', f'io_uring of Linux {platform.release()} has no table for memory')


@case
def memory_is_known_to_the_engine_once():
    with handle('io_uring') as h:
        m = penstock.Memory(4 * MIB)
        moves_through(h, m)
        first = h.stats()
        registers_or_skip(first)
        assert first['blocks_fixed'] > 0, first
        for _ in range(5):
            moves_through(h, m)
        last = h.stats()
        assert last['blocks_fixed'] == 6 * first['blocks_fixed']
        if torch is not None:  # a tensor over it, or a part of it, is the same memory
            t = torch.frombuffer(m, dtype=torch.float32)[1024:]
            h.write(t, path())
            assert h.stats()['blocks_fixed'] > last['blocks_fixed']


@case
def an_address_that_is_used_again_is_registered_again():
    with handle() as h:
        seen = set()
        for i in range(40):
            m = penstock.Memory((1 + i % 3) * MIB)
            seen.add(m.address)
            moves_through(h, m, i)
            del m
        assert len(seen) < 40


@case
def more_memory_than_an_engine_can_know_works():
    with handle() as h:
        memories = [penstock.Memory(PAGE, pinned=False) for _ in range(1100)]
        name = make(data(PAGE))
        assert h.read_batch([(m, name) for m in memories]) == [PAGE] * len(memories)
        assert all(bytes(m) == data(PAGE) for m in memories)


@case
def memory_may_be_freed_while_handles_are_closed():
    name = make(data(MIB))
    errors = []

    def work(seed):
        try:
            rng = random.Random(seed)
            for _ in range(30):
                with handle() as h, handle() as other:
                    for m in [penstock.Memory(MIB, pinned=False) for _ in range(rng.randrange(1, 4))]:
                        h.read(m, name)
                        other.read(m, name)
                        shared.append(m)
                        del m
                    del shared[:rng.randrange(5)]
        except BaseException as e:
            errors.append(e)

    shared = []
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors
    assert all(bytes(m) == data(MIB) for m in shared)


@case
def one_handle_may_be_used_with_memory_of_many_threads():
    name = make(data(MIB))
    errors = []

    def work():
        try:
            for _ in range(40):
                m = penstock.Memory(MIB, pinned=False)
                assert h.read(m, name) == MIB and bytes(m) == data(MIB)
        except BaseException as e:
            errors.append(e)

    with handle() as h:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not errors, errors


@case
def a_child_of_fork_has_memory_of_its_own():
    m = penstock.Memory(3 * MIB)
    with handle() as h:
        moves_through(h, m)

        def in_child():
            nonlocal m
            ok = in_memory(m.address, 3 * MIB) and bytes(m) == data(3 * MIB)
            memoryview(m)[:] = bytes(3 * MIB)
            with handle() as own:
                moves_through(own, m, 7)
                m = None
                moves_through(own, penstock.Memory(MIB))
            return ok

        in_fork(in_child)
        assert bytes(m) == data(3 * MIB)
        moves_through(h, m, 2)


@case
def memory_in_use_at_the_end_of_python_does_no_harm():
    assert child_ok('''if True:
        import penstock
        m = penstock.Memory(5 << 20)
        h = penstock.Handle()
        h.write(m, 'at-exit')
        f = h.write_async(m, 'at-exit')
        keep = [memoryview(m), h, m]
        keep.append(keep)
        print('end')
    ''') == 'end\n'


# ------------------------------------------------------------------------------ empty

def address_of(a):
    return a.ctypes.data if numpy is not None and isinstance(a, numpy.ndarray) else a.data_ptr()


def check_empty(a, nbytes):
    assert in_memory(address_of(a), nbytes)
    with handle() as h:
        name = path()
        h.write(data(nbytes), name)
        assert h.read(a, name) == nbytes
        assert h.write(a, name) == nbytes
    assert content(name) == data(nbytes)


@case
def empty_gives_arrays_of_every_shape():
    numpy_or_skip()
    shapes = [(5, (5,)), ((5,), (5,)), ([2, 3, 4], (2, 3, 4)), ((), ()), (range(1, 4), (1, 2, 3)),
              (numpy.int64(7), (7,)), ((numpy.int8(2), 3), (2, 3)), (iter([2, 2]), (2, 2)),
              (True, (1,))]
    if torch is not None:
        shapes.append((torch.zeros(2, 3).shape, (2, 3)))
    for shape, want in shapes:
        a = penstock.empty(shape)
        assert a.shape == want and a.dtype == numpy.float64 and a.flags.writeable
        assert a.flags.c_contiguous and a.flags.aligned
        check_empty(a, a.nbytes)


@each(('bool', 'u1', 'i2', '>i4', 'f2', 'longdouble', 'c16', 'S5', 'U7', 'V3', 'M8[ns]', 'm8[s]',
       'i4,f8', '(2,3)f4'))
def empty_gives_arrays_of_dtype(name):
    kind = numpy_or_skip().dtype(name)
    for pinned in (False, True):
        a = penstock.empty((3, 4), name, pinned)
        want = numpy.empty((3, 4), name)
        assert a.dtype == want.dtype and a.shape == want.shape and a.strides == want.strides
        check_empty(a, 12 * kind.itemsize)


def torch_dtypes():
    if torch is None:
        return ['none']
    found = {str(value).removeprefix('torch.') for value in vars(torch).values()
             if isinstance(value, torch.dtype)}
    return sorted(found)


@each(torch_dtypes())
def empty_gives_tensors_of(name):
    dtype = getattr(torch_or_skip(), name)
    try:
        itemsize = torch.frombuffer(bytearray(64), dtype=dtype).element_size()
    except (RuntimeError, ValueError, TypeError):
        itemsize = 0
    if not itemsize or name.startswith('q'):
        assert str(dtype) in str(raises(TypeError, penstock.empty, 3, dtype))
        return
    for pinned in (False, True):
        t = penstock.empty((3, 4), dtype, pinned=pinned)
        assert t.shape == (3, 4) and t.dtype == dtype and t.is_contiguous()
        assert not t.requires_grad and t.device.type == 'cpu'
        check_empty(t, 12 * itemsize)
    assert penstock.empty((), dtype).shape == () and penstock.empty(5, dtype).shape == (5,)


@case
def empty_of_no_elements_works():
    for kind in [numpy and 'f4', torch and torch.bfloat16]:
        for shape in (0, (0,), (3, 0, 2)):
            if kind is not None:
                a = penstock.empty(shape, kind)
                assert tuple(a.shape) == ((0,) if shape == 0 else shape)
                with handle() as h:
                    assert h.write(a, path()) == 0


def locked_bytes():
    with open('/proc/self/status') as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith('VmLck:'))


def locks_or_skip():
    """Memory can be locked here: by our own hands."""
    before, room = locked_bytes(), mmap.mmap(-1, MIB)
    first = ctypes.c_char.from_buffer(room)
    if ctypes.CDLL(None).mlock(ctypes.byref(first), ctypes.c_size_t(MIB)):
        raise Skip('memlock', 'mlock(2) is refused here')
    if locked_bytes() - before < MIB:
        raise Skip('memlock', 'mlock(2) does nothing here, as under AddressSanitizer')


@case
def memory_is_locked_unless_told_otherwise():
    locks_or_skip()
    kinds = {'Memory': penstock.Memory}
    if numpy is not None:
        kinds['numpy'] = lambda n, **more: penstock.empty(n, 'u1', **more)
    if torch is not None:
        kinds['torch'] = lambda n, **more: penstock.empty(n, torch.uint8, **more)
    for name, make_one in kinds.items():
        for more, want in (({}, True), ({'pinned': True}, True), ({'pinned': False}, False)):
            gc.collect()
            before = locked_bytes()
            one = make_one(MIB, **more)
            assert (locked_bytes() - before >= MIB) is want, (name, more)
            del one


@case
def what_empty_cannot_give_is_refused():
    numpy_or_skip()
    for dtype in ['f4'] + ([torch.float32] if torch is not None else []):
        for shape in (-1, (2, -3), (0, -1)):
            assert 'negative' in str(raises(ValueError, penstock.empty, shape, dtype))
        for shape in (1.5, 'abc', None, (1, 2.5), ((1, 2), 3)):
            assert 'shape' in str(raises(TypeError, penstock.empty, shape, dtype))
        for shape in (1 << 63, (1 << 40, 1 << 40), (0, 1 << 62, 4)):
            e = raises(ValueError, penstock.empty, shape, dtype)
            assert 'more than memory can have' in str(e)
        raises(MemoryError, penstock.empty, 1 << 58, dtype)
    for dtype in (object, 'i4,O'):
        assert 'Python objects' in str(raises(TypeError, penstock.empty, 3, dtype))
    raises(TypeError, penstock.empty, 3, 'no such dtype')
    raises(TypeError, penstock.empty)


@case
def what_empty_gave_is_freed_with_the_last_view_of_it():
    kinds = [k for k in (numpy and 'f8', torch and torch.float64) if k is not None]
    for kind in kinds:
        a = penstock.empty((100, 100), kind)
        address = address_of(a)
        view = a[5:, ::2]
        del a
        assert in_memory(address, 80000)
        with handle() as h:
            f = h.write_async(view, path())
            del view
            f.result()
            h.wait()
        del f
        gc.collect()
        assert not in_memory(address, 1)


@case
def empty_needs_no_more_than_it_gives():
    numpy_or_skip()
    assert child_ok('''if True:
        import sys, penstock
        print('torch' in sys.modules, 'numpy' in sys.modules)
        penstock.empty(3, 'f4')
        print('torch' in sys.modules)
    ''').split() == ['False', 'False', 'False']
    assert child_ok('''if True:
        import sys, penstock
        sys.modules['numpy'] = None
        try:
            penstock.empty(3)
        except ImportError as e:
            print(e)
    ''') == 'penstock.empty() needs numpy unless dtype is a torch.dtype\n'


run(*cases)
