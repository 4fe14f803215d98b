# SPDX-License-Identifier: Apache-2.0
"""Device memory without a GPU: on the stand-ins for CUDA and cuFile of tests/gpu.

The memory is a mapping that nobody may touch: a CPU that does so dies.
"""
import contextlib
import ctypes
import errno
import gc
import mmap
import os
import sys
import threading
import weakref

import penstock
from dl import Dl, DlVersioned
from kit import (MIB, PAGE, Skip, case, cases, child_ok, content, data, each, handle, make, path,
                 raises, run)

ENGINES = ['io_uring', 'libaio', 'threads', 'cufile']
LEGACY = 1
INVALID, ILLEGAL = 1, 700


def load():
    """The stand-in driver; the test as a whole is skipped where there is none."""
    try:
        lib = ctypes.CDLL('libcuda.so.1')
        lib.standin_hold  # a real driver has no such function
    except (OSError, AttributeError) as e:
        print(f'1..0 # SKIP no stand-in for libcuda.so.1 in LD_LIBRARY_PATH: {e}')
        sys.exit(0)
    lib.standin_hidden.restype = ctypes.c_void_p
    lib.standin_hidden.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
    lib.standin_fill.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p]
    lib.standin_hold.argtypes = [ctypes.c_void_p]
    lib.standin_fail.argtypes = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_bool]
    lib.cuMemAlloc_v2.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    lib.cuMemAllocManaged.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
    lib.cuMemFree_v2.argtypes = [ctypes.c_uint64]
    lib.cuCtxSetCurrent.argtypes = [ctypes.c_void_p]
    lib.cuStreamCreate.argtypes = [ctypes.c_void_p, ctypes.c_uint]
    lib.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    lib.cuMemcpyDtoHAsync_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t,
                                         ctypes.c_void_p]
    return lib


cuda = load()


def ok(result):
    assert result == 0, f'CUDA says {result}'


def context(device):
    made = ctypes.c_void_p()
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), device))
    return made


ok(cuda.cuInit(0))
contexts = [context(0), context(1)]
ok(cuda.cuCtxSetCurrent(contexts[0]))


@contextlib.contextmanager
def current(device):
    ok(cuda.cuCtxSetCurrent(contexts[device]))
    try:
        yield
    finally:
        ok(cuda.cuCtxSetCurrent(contexts[0]))


def new_stream():
    made = ctypes.c_void_p()
    ok(cuda.cuStreamCreate(ctypes.byref(made), 1))
    return made.value


@contextlib.contextmanager
def failing(function, code=ILLEGAL, nth=1, for_good=False):
    name = ctypes.create_string_buffer(function.encode())  # which is not copied
    cuda.standin_fail(name, nth, code, for_good)
    try:
        yield
    finally:
        cuda.standin_fail(None, 0, 0, False)


class Device:
    """Device memory with this content, to be looked at only through the back door."""

    def __init__(self, content, device=0, managed=False):
        at = ctypes.c_uint64()
        self.nbytes = len(content)
        size = max(self.nbytes, 1)
        with current(device):
            ok(cuda.cuMemAllocManaged(ctypes.byref(at), size, 1) if managed
               else cuda.cuMemAlloc_v2(ctypes.byref(at), size))
        self.at = at.value
        ctypes.memmove(cuda.standin_hidden(self.at, size), content, self.nbytes)

    def __del__(self):
        cuda.cuMemFree_v2(self.at)

    def __bytes__(self):
        return ctypes.string_at(cuda.standin_hidden(self.at, max(self.nbytes, 1)), self.nbytes)

    def array(self, **more):
        return Array(self, **more)

    def dl(self, kind=DlVersioned, shape=None, device=(2, 0), skip=0, **more):
        made = kind(bytes(1), shape or (self.nbytes - skip,), device=device, **more)
        made._tensor.data = self.at + skip
        made.owner = self
        return made


class Array:
    """A part of it, by __cuda_array_interface__."""

    def __init__(self, memory, skip=0, length=None, read_only=False, **more):
        self.memory = memory
        length = memory.nbytes - skip if length is None else length
        self.__cuda_array_interface__ = {
            'shape': (length,), 'typestr': '|u1', 'data': (memory.at + skip, read_only),
            'version': 3, **more}


# ------------------------------------------------------------------ round trips

@each(ENGINES)
def arrays_of_every_size_and_offset_go_both_ways(engine):
    with handle(engine, block=64 << 10, depth=4) as h:
        for size in (0, 1, 511, 512, PAGE, PAGE + 1, 65536, 300001, 3 * MIB + 5):
            for offset, skip in ((0, 0), (1, 1), (4096, 513), (100003, 4095)):
                want = data(size + skip, seed=size + skip)
                name, there = path(), Device(want)
                assert h.write(there.array(skip=skip), name, offset) == size
                assert content(name) == (bytes(offset) + want[skip:] if size else b'')
                back = Device(bytes(size + skip + 7))
                assert h.read(back.array(skip=skip, length=size), name, offset) == size
                assert bytes(back) == bytes(skip) + want[skip:] + bytes(7)
                os.unlink(name)


@each((Dl, DlVersioned))
def dlpack_on_a_device_goes_both_ways(kind):
    want, name = data(MIB + 3), path()
    with handle() as h:
        for device in ((2, 0), (13, 0)):
            there = Device(want, managed=device[0] == 13)
            assert h.write(there.dl(kind, device=device, skip=2), name, 5) == len(want) - 2
            assert content(name)[5:] == want[2:]
            back = Device(bytes(len(want)), managed=device[0] == 13)
            assert h.read(back.dl(kind, device=device), name, 5, len(want) - 2) == len(want) - 2
            assert bytes(back) == want[2:] + bytes(2)


@case
def a_capsule_of_a_device_is_asked_for_in_the_legacy_stream_and_freed():
    class Asked(DlVersioned):
        def __dlpack__(self, *, stream=None, **asked):
            self.stream = stream
            return super().__dlpack__(**asked)

    class Old(Dl):
        def __dlpack__(self, stream=None):
            self.stream = stream
            return super().__dlpack__()

    there, name = Device(data(PAGE)), path()
    with handle() as h:
        for kind in (Asked, Old):
            obj = there.dl(kind)
            h.write(obj, name)
            h.read_async(obj, name).result()
            gc.collect()
            assert obj.stream == LEGACY and (obj.made, obj.freed) == (2, 2)
    assert obj.__dlpack_device__() == (2, 0)


@case
def memory_of_several_devices_goes_in_one_batch_with_the_hosts():
    want = [data(100001, seed=i) for i in range(6)]
    there = [Device(want[i], device=i % 2) for i in range(4)]
    names = [path() for _ in want]
    with handle() as h:
        objs = [d.array() for d in there] + want[4:]
        h.write_batch(list(zip(objs, names)))
        assert [content(name) for name in names] == want
        back = [Device(bytes(100001), device=i % 2) for i in range(4)]
        host = [bytearray(100001), bytearray(100001)]
        h.read_batch(list(zip([d.array() for d in back] + host, names)))
    assert [bytes(b) for b in back + host] == want


@case
def long_runs_move_in_place_and_short_ones_are_refused():
    rows, name = Device(data(8 * 10000)), path()
    # the first 8192 bytes of 8 rows of 10000
    long = rows.array(shape=(8, 8192), strides=(10000, 1))
    want = b''.join(data(8 * 10000)[i * 10000:i * 10000 + 8192] for i in range(8))
    fine = rows.array(shape=(8, 100), strides=(10000, 1))
    with handle() as h:
        assert h.write(long, name) == 65536 and content(name) == want
        before = bytes(rows)
        h.read(rows.array(shape=(8, 8192), strides=(10000, 1)), make(bytes(65536)))
        assert bytes(rows) == b''.join(
            bytes(8192) + before[i * 10000 + 8192:(i + 1) * 10000] for i in range(8))
        for function in (h.write, h.read):
            e = raises(TypeError, function, fine, name)
            assert 'make it contiguous' in str(e) and '8 pieces of 100 bytes' in str(e), e
        raises(TypeError, h.write, rows.dl(shape=(100,), strides=(2,)), name)
        raises(ValueError, h.read, rows.array(shape=(3, 4096), strides=(0, 1)), name)
        assert h.write(rows.array(shape=(8, 1), strides=(1, 77)), name) == 8


@case
def typestr_and_shape_say_how_many_bytes():
    there, name = Device(data(960)), path()
    for typestr, shape, nbytes in (('<f4', (3, 5), 60), ('>i8', (2,), 16), ('|b1', (7,), 7),
                                   ('<c16', (2, 3), 96), ('|V12', (4,), 48), ('<U3', (5,), 60),
                                   ('|u1', (), 1), ('<f4', (0, 5), 0), ('<M8', (3,), 24)):
        with handle() as h:
            assert h.write(there.array(typestr=typestr, shape=shape), name, truncate=True) == nbytes
        assert content(name) == data(960)[:nbytes]


@case
def an_empty_array_may_have_no_address():
    empty = Device(b'').array(data=(0, False))
    with handle() as h:
        assert h.write(empty, path()) == 0 and h.read(empty, make(b'')) == 0


@case
def the_memory_is_kept_until_the_end():
    there, stream = Device(data(PAGE)), new_stream()
    obj = there.array(stream=stream)
    gone = weakref.ref(there)
    ok(cuda.standin_hold(stream))
    with handle() as h:
        f = h.write_async(obj, path())
        del there, obj
        gc.collect()
        assert gone() is not None and not f.done()
        cuda.standin_release()
        assert f.result() == PAGE
        gc.collect()
        assert gone() is None


# ------------------------------------------------------------------ order

@each(['array', 'dlpack'])
def a_write_sees_what_was_queued_before_it(kind):
    there, name = Device(bytes(MIB)), path()
    stream = None if kind == 'dlpack' else new_stream()
    obj = there.dl() if kind == 'dlpack' else there.array(stream=stream)
    with handle() as h:
        ok(cuda.standin_hold(stream))
        ok(cuda.standin_fill(there.at, 7, MIB, stream))
        f = h.write_async(obj, name)
        raises(TimeoutError, f.result, 0.01)
        cuda.standin_release()
        assert f.result() == MIB and content(name) == bytes([7]) * MIB


@case
def a_read_waits_for_who_still_needs_the_old_content():
    there, stream, name = Device(data(MIB)), new_stream(), make(data(MIB, seed=2))
    seen = ctypes.create_string_buffer(MIB)
    ok(cuda.cuMemHostRegister_v2(seen, ctypes.c_size_t(MIB), 0))
    with handle() as h:
        ok(cuda.standin_hold(stream))
        ok(cuda.cuMemcpyDtoHAsync_v2(seen, there.at, MIB, stream))
        f = h.read_async(there.array(stream=stream), name)
        cuda.standin_release()
        assert f.result() == MIB
        ok(cuda.cuStreamSynchronize(stream))
    assert seen.raw == data(MIB) and bytes(there) == data(MIB, seed=2)
    ok(cuda.cuMemHostUnregister(seen))


@case
def a_layer_of_weights_stays_until_the_stream_has_used_it():
    place, size = path('model'), 128 * PAGE
    os.mkdir(place)
    for i in range(3):
        with open(os.path.join(place, f'{i}_param.tensor.swp'), 'wb') as f:
            f.write(data(size, seed=i))
    there, stream = Device(bytes(size + 4 * PAGE)), new_stream()  # one layer, and no other beside it
    seen = ctypes.create_string_buffer(size)
    ok(cuda.cuMemHostRegister_v2(seen, ctypes.c_size_t(size), 0))
    core = penstock._penstock.WeightsCore(place)
    core.begin(there, there.at, there.nbytes, 0)
    for i in range(3):
        group, (at,) = core.next()
        assert group == i and bytes(there)[at:at + size] == data(size, seed=i)
        ok(cuda.standin_hold(stream))
        ok(cuda.cuMemcpyDtoHAsync_v2(seen, there.at + at, size, stream))
        core.release(group, stream)
        later = threading.Timer(0.02, cuda.standin_release)
        later.start()
        ok(cuda.cuStreamSynchronize(stream))
        later.join()
        assert seen.raw == data(size, seed=i)
    assert core.next() is None and core.stats()['bytes_copied'] >= 3 * size
    core.close()
    ok(cuda.cuMemHostUnregister(seen))


@case
def without_a_stream_nothing_is_waited_for():
    there, stream, name = Device(data(MIB)), new_stream(), path()
    ok(cuda.standin_hold(stream))
    with handle() as h:
        for more in ({}, {'stream': None}):
            assert h.write(there.array(**more), name) == MIB
        cuda.standin_release()
        ok(cuda.cuStreamSynchronize(stream))
    assert content(name) == data(MIB)


@case
def a_wait_for_a_stream_can_be_interrupted_by_time():
    there, stream = Device(data(PAGE)), new_stream()
    with handle() as h:
        ok(cuda.standin_hold(stream))
        f = h.write_async(there.array(stream=stream), path())
        raises(TimeoutError, h.wait, 0.01)
        cuda.standin_release()
        assert h.wait() == 1 and f.done()


@case
def threads_move_device_memory_at_once():
    with handle(threads=2) as h:
        def work(seed):
            stream, name = new_stream(), path()
            for i in range(20):
                there = Device(data(50001, seed=seed + i))
                h.write(there.array(stream=stream), name)
                ok(cuda.standin_fill(there.at, 0, 50001, stream))
                h.read_async(there.array(stream=stream), name).result()
                assert bytes(there) == data(50001, seed=seed + i)
            done.append(seed)

        done = []
        threads = [threading.Thread(target=lambda s=s: (cuda.cuCtxSetCurrent(contexts[0]), work(s)))
                   for s in (100, 200, 300)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(done) == [100, 200, 300]


# ------------------------------------------------------------------ ways and counters

@each(['io_uring', 'libaio', 'threads'])
def the_ring_is_told(engine):
    there, name = Device(data(3 * MIB)), path()
    with handle(engine) as h:
        assert h.stats()['pinned_pool_bytes'] == 0
        f = h.write_async(there.array(), name)
        assert f.result() and 'pinned_pool' in f.ways, f.ways
        f = h.read_async(there.array(), name)
        assert f.result() and 'pinned_pool' in f.ways and 'cufile' not in f.ways, f.ways
        stats = h.stats()
        assert stats['blocks_pinned_pool'] > 0 and stats['blocks_cufile'] == 0, stats
        assert 0 < stats['pinned_pool_bytes'] <= 256 * MIB, stats
        f = h.write_async(data(10), name)
        assert f.result() and 'pinned_pool' not in f.ways


@case
def cufile_is_told():
    there, name = Device(data(3 * MIB)), path()
    with handle('cufile') as h:
        for registered in (False, True):
            if registered:
                assert h.register(there.array()) is True
            f = h.write_async(there.array(), name)
            assert f.result() and 'cufile-compat' in f.ways, f.ways
            f = h.read_async(there.array(), name)
            assert f.result() and 'cufile-compat' in f.ways, f.ways
        assert h.stats()['blocks_cufile'] > 0 and h.stats()['fallbacks'] == [], h.stats()
        host = bytearray(MIB)
        assert h.read(host, name) == MIB and host == data(3 * MIB)[:MIB]


CUFILE = '''
import penstock
from gpu import Device, path
there, name = Device(b'x' * 100000), path()
with penstock.Handle('cufile') as h:
    f = h.write_async(there.array(), name)
    f.result()
    print(f.ways, h.stats()['fallbacks'], h.stats()['fallback_why'])
'''


@case
def files_that_cufile_refuses_go_through_the_ring():
    if not any(e['name'] == 'cufile' and e['usable'] for e in penstock.info()['engines']):
        raise Skip('cufile', 'no engine cufile')
    code = CUFILE
    told = child_ok(code, env={'STANDIN_CUFILE': 'refuse_handle=5027'})
    assert "'pinned_pool'" in told and "['cufile']" in told and '(5027)' in told, told
    told = child_ok(code, env={'STANDIN_CUFILE': 'nvfs=2'})
    assert "'cufile'" in told or "'cufile-compat'" in told, told


@case
def info_lists_the_devices():
    gpu = penstock.info()['gpu']
    assert gpu['cuda'] is True and gpu['devices'] == len(gpu['list']) == 2, gpu
    assert [d['name'] for d in gpu['list']] == ['Stand-in 0', 'Stand-in 1']
    assert gpu['list'][1]['pci'] == '0000:02:00.0' and gpu['list'][1]['memory'] > 0
    assert set(gpu['list'][0]) == {'name', 'capability', 'memory', 'pci', 'pcie_gen', 'pcie_width',
                                   'pcie_gen_max', 'pcie_width_max', 'numa_node'}


# ------------------------------------------------------------------ refusals and errors

@case
def what_is_no_array_is_refused():
    there, name = Device(data(64)), path()
    with handle() as h:
        for word, more in (
                ('mask', {'mask': there.array()}), ('typestr', {'typestr': 5}),
                ('typestr', {'typestr': '<'}), ('Python objects', {'typestr': '|O8'}),
                ('whole bytes', {'typestr': '|t3'}), ('shape', {'shape': [64]}),
                ('shape', {'strides': [1]}), ('address', {'data': None}),
                ('address', {'data': (there.at,)}), ('address', {'data': ('x', False)})):
            e = raises(TypeError, h.write, there.array(**more), name)
            assert word in str(e), (more, e)
        for word, more in (('stream 0', {'stream': 0}), ('stream -1', {'stream': -1}),
                           ("stream 'x'", {'stream': 'x'}), ('negative', {'shape': (-1,)}),
                           ('as many strides', {'strides': (1, 1)})):
            e = raises(ValueError, h.write, there.array(**more), name)
            assert word in str(e), (more, e)
        e = raises(ValueError, h.write, there.array(), name, 0, 65)
        assert 'more than the 64 bytes' in str(e)
        broken = there.array()
        broken.__cuda_array_interface__ = None
        assert 'dictionary' in str(raises(TypeError, h.write, broken, name))
    assert not os.path.exists(name)


@case
def memory_that_cuda_does_not_know_is_refused():
    host = bytearray(64)
    at = ctypes.addressof(ctypes.c_char.from_buffer(host))
    with handle() as h:
        for address in (at, 4096):
            wrong = Device(data(64)).array(data=(address, False))
            e = raises(TypeError, h.read, wrong, make(data(64)))
            assert 'knows no memory at its address' in str(e), e
        wrong = Device(data(64)).dl()
        wrong._tensor.data = at
        raises(TypeError, h.read, wrong, make(data(64)))
    assert host == bytes(64)


@case
def read_only_memory_is_only_written_from():
    there, name = Device(data(64)), path()
    with handle() as h:
        for obj in (there.array(read_only=True), there.dl(flags=1)):
            assert h.write(obj, name) == 64
            assert 'read-only' in str(raises(TypeError, h.read, obj, name))
    assert bytes(there) == data(64)


@each(['cuMemcpyHtoDAsync_v2', 'cuEventRecord', 'cuStreamCreate', 'cuPointerGetAttributes',
       'cuDevicePrimaryCtxRetain'])
def a_call_of_cuda_that_fails_is_an_OSError_with_its_name(function):
    there, name = Device(bytes(MIB)), make(data(MIB))
    with handle() as h:
        with failing(function):
            e = raises(OSError, h.read, there.array(stream=LEGACY), name)
        assert e.errno == errno.EIO and e.filename == name, e
        assert 'CUDA_ERROR_ILLEGAL_ADDRESS' in e.strerror, e
        assert function.split('_')[0].rstrip('s') in e.strerror, e
        assert h.read(there.array(stream=LEGACY), name) == MIB  # and the handle goes on
    assert bytes(there) == data(MIB)


@case
def out_of_device_memory_is_ENOMEM():
    there = Device(bytes(MIB))
    with handle() as h:
        with failing('cuStreamCreate', 2):
            e = raises(OSError, h.read, there.array(), make(data(MIB)))
        assert e.errno == errno.ENOMEM and 'CUDA_ERROR_OUT_OF_MEMORY' in e.strerror, e


@case
def a_short_file_is_ENODATA_and_partial_leaves_the_rest():
    there, name = Device(bytes(100000)), make(data(70001))
    with handle() as h:
        assert raises(OSError, h.read, there.array(), name).errno == errno.ENODATA
        assert h.read(there.array(), name, partial=True) == 70001
    assert bytes(there) == data(70001) + bytes(29999)


# ------------------------------------------------------------------ register

@case
def registered_memory_is_kept_until_it_is_unregistered():
    with handle('cufile') as h:
        there = Device(data(MIB))
        gone = weakref.ref(there)
        assert h.register(there.array()) is True
        assert h.register(there.array()) is True  # once more is the same
        at = there.at
        del there
        gc.collect()
        assert gone() is not None and gone().at == at
        h.unregister(gone().array())
        gc.collect()
        assert gone() is None


@case
def registered_memory_is_let_go_with_the_handle():
    there = Device(data(MIB))
    gone = weakref.ref(there)
    h = handle('cufile')
    h.register(there.array())
    del there
    h.close()
    gc.collect()
    assert gone() is None
    for function in (h.register, h.unregister):
        assert 'closed' in str(raises(ValueError, function, bytearray(1)))


@case
def what_is_not_registered_cannot_be_unregistered():
    there, other = Device(data(MIB)), Device(data(MIB))
    with handle() as h:
        h.register(there.array())
        for obj in (other.array(), there.array(length=5), there.array(skip=1), bytearray(5), b''):
            assert 'not registered' in str(raises(ValueError, h.unregister, obj))
        h.unregister(there.array())
        raises(ValueError, h.unregister, there.array())
        for function in (h.register, h.unregister):
            raises(TypeError, function, object())
            raises(TypeError, function)
            strided = memoryview(bytearray(100))[::2]
            assert 'one piece' in str(raises(ValueError, function, strided))
            strided = there.array(shape=(2, 4096), strides=(8192, 1))
            assert 'one piece' in str(raises(ValueError, function, strided))


@case
def an_engine_that_cannot_use_it_says_so():
    there, name = Device(data(MIB)), path()
    with handle('threads') as h:
        assert h.register(there.array()) is False
        assert h.register(bytearray(PAGE)) is False
        assert h.write(there.array(), name) == MIB
        h.unregister(there.array())
        assert h.register(b'') is False
        h.unregister(b'')
    assert content(name) == data(MIB)


@case
def host_memory_is_registered_too():
    with handle('io_uring') as h:
        buffer, name = mmap.mmap(-1, 2 * MIB), path()
        buffer[:] = data(2 * MIB)
        taken = h.register(buffer)
        assert taken in (True, False)
        raises(BufferError, buffer.close)
        assert h.write(buffer, name) == 2 * MIB and content(name) == data(2 * MIB)
        assert not taken or h.stats()['blocks_fixed'] > 0
        h.unregister(buffer)
        buffer.close()
        memory = penstock.Memory(MIB)
        assert h.register(memory) in (True, False)
        assert h.register(memory) == h.register(memory)
        h.unregister(memory)


@case
def threads_register_at_once():
    with handle('cufile') as h:
        there = [Device(data(PAGE)) for _ in range(8)]

        def work(mine):
            for _ in range(50):
                for d in mine:
                    assert h.register(d.array()) is True
                for d in mine:
                    h.unregister(d.array())
            done.append(1)

        done = []
        threads = [threading.Thread(target=work, args=(there[i::4],)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(done) == 4


# ------------------------------------------------------------------ torch

# A tensor of torch without CUDA that is taken for one of a device.
TENSOR = '''
import torch
import penstock._torch
from gpu import Device, content, cuda, new_stream, ok, path

class Fake(torch.Tensor):
    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)
    def data_ptr(self): return self.there.at
    def get_device(self): return 1

asked, streams = [], [0, new_stream()]
penstock._torch.current_stream = lambda device: asked.append(device) or streams[len(asked) % 2]
t = torch.zeros(1000, dtype=torch.int64).as_subclass(Fake)
t.there = Device(bytes(range(250)) * 32)
name = path('tensor')
with penstock.Handle() as h:
    assert h.write(t, name) == 8000 and content(name) == bytes(t.there)
    ok(cuda.standin_fill(t.there.at, 0, 8000, streams[0]))
    f = h.read_async(t, name, 0, 7000)
    assert f.result() == 7000 and 'pinned_pool' in f.ways
    ok(cuda.standin_hold(streams[1]))
    ok(cuda.standin_fill(t.there.at, 5, 8000, streams[1]))
    f = h.write_async(t, name)
    cuda.standin_release()
    assert f.result() == 8000 and content(name) == bytes([5]) * 8000
    assert h.register(t) is False
    h.unregister(t)
print(asked)
'''


@case
def a_cuda_tensor_is_moved_after_the_current_stream_of_its_device():
    try:
        import torch  # noqa: F401
    except ImportError as e:
        raise Skip('torch', str(e))
    assert child_ok(TENSOR) == '[1, 1, 1, 1, 1]\n'


# ------------------------------------------------------------------ DeepSpeed's handles

@case
def a_gds_handle_takes_cufile_and_host_tensors():
    try:
        import torch
        from penstock.deepspeed import aio_handle, gds_handle
    except ImportError as e:
        raise Skip('torch', str(e))
    for made, engine in ((gds_handle(), 'cufile'), (aio_handle(), None)):
        with made as h:
            assert engine is None or h._io._handle.engine == engine
            want, name = torch.arange(300001), path()
            assert h.async_pwrite(want, name) == 0 and h.wait() == 1
            got = torch.zeros_like(want)
            assert h.pin_device_tensor(got) is True if engine else True
            assert h.sync_pread(got, name) == 1 and torch.equal(got, want)
            assert h.unpin_device_tensor(got) is True if engine else True


@case
def checkpoints_are_written_from_and_read_into_device_memory():
    """What penstock.torch and penstock.safetensors do with tensors on a GPU."""
    import zipfile
    from array import array

    from penstock._penstock import ReaderCore, WriterCore

    raw = data(70 * MIB + 12345)
    source, name = Device(raw), path('device.ckpt')
    output = WriterCore(name, size=2 * len(raw) + 4)
    output.write(b'head')
    output.write_memory(source.at, len(raw))
    output.write_memory(source.at, len(raw))
    output.commit()
    assert content(name) == b'head' + raw + raw
    archive = path('device.pt')
    output = WriterCore(archive)
    output.archive(64)
    output.add('a/data/0', source.at, len(raw))
    output.add_bytes('a/version', b'3')
    output.end_archive()
    output.commit()
    with zipfile.ZipFile(archive) as z:  # which checks the CRC-32
        assert z.read('a/data/0') == raw and z.read('a/version') == b'3'
    for verify in 'always', 'never':
        target = Device(bytes(len(raw)))
        file = ReaderCore(name, verify=verify)
        half = len(raw) // 2
        file.fetch(array('Q', (target.at + half, len(raw) - half, 4 + half, target.at, half, 4 + len(raw))))
        assert bytes(target) == raw
        file.close()


@case
def a_copy_that_fails_ends_a_save_and_leaves_the_old_file():
    from penstock._penstock import WriterCore

    source, name = Device(data(40 * MIB)), make(b'old', 'old.ckpt')
    with failing('cuMemcpyAsync', nth=2):
        output = WriterCore(name)
        assert 'ILLEGAL_ADDRESS' in str(raises(OSError, output.write_memory, source.at, 40 * MIB))
        output.abort()
    assert content(name) == b'old'


if __name__ == '__main__':
    run(*cases)
