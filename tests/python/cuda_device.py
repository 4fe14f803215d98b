# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors, on a machine with a GPU and a torch that can use it."""
import errno
import gc
import os
import sys
import threading
import weakref

import penstock
from kit import MIB, Skip, case, cases, content, data, each, handle, make, path, raises, run

try:
    import torch
    WHY = '' if torch.cuda.is_available() and torch.version.cuda else 'no CUDA device for torch'
except ImportError as e:
    WHY = str(e)
if WHY:
    if 'cuda' in os.environ.get('PENSTOCK_TEST_REQUIRE', '').split(','):
        print(f'1..1\nnot ok 1 - {WHY}')
        sys.exit(1)
    print(f'1..0 # SKIP {WHY}')
    sys.exit(0)

GPU = torch.device('cuda', torch.cuda.current_device())
SIZES = [0, 1, 3, 511, 512, 4095, 4096, 65537, MIB, 3 * MIB + 5, 20 * MIB + 1]


def engines():
    return [e['name'] for e in penstock.info()['engines']
            if e['usable'] and e['name'] not in ('null', 'fault')]


def on_gpu(content, dtype=None):
    """A tensor on the GPU with this content."""
    host = torch.frombuffer(bytearray(content), dtype=dtype or torch.uint8) if content else \
        torch.empty(0, dtype=dtype or torch.uint8)
    return host.to(GPU)


def as_bytes(t):
    """The values in C order, by torch's own means."""
    t = t.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b''


def busy():
    """Keep the current stream occupied for a good while; returns without waiting."""
    torch.cuda._sleep(200_000_000)  # cycles


def dtypes():
    found = {str(v).removeprefix('torch.') for v in vars(torch).values()
             if isinstance(v, torch.dtype)}
    return sorted(found - {'quint4x2', 'quint2x4'})  # several in a byte: view() makes none


# ------------------------------------------------------------------ weights

@case
def weights_pass_through_a_window_of_the_device():
    import penstock.safetensors
    import penstock.torch
    name = path('model.safetensors')
    blocks = [torch.randn(300, 300) for _ in range(8)]
    penstock.safetensors.save_file({f'layers.{i}.weight': b for i, b in enumerate(blocks)}, name)
    kept = []
    with penstock.WeightWindow(name, window='900KB', device=GPU) as stream:
        for layer in stream:
            busy()
            kept.append(layer[f'{layer.name}.weight'] * 2)  # queued; the room is used after it
    assert all(torch.equal(k.cpu(), b * 2) for k, b in zip(kept, blocks, strict=True))
    modules = torch.nn.ModuleList([torch.nn.Linear(300, 300, bias=False, device='meta') for _ in blocks])
    x, want = torch.randn(4, 300, device=GPU), None
    with torch.no_grad(), penstock.torch.offload_modules(modules, name, window='900KB', device=GPU):
        got = want = x
        for m, b in zip(modules, blocks):
            got, want = m(got), torch.nn.functional.linear(want, b.to(GPU))
        assert torch.equal(got, want)


# ------------------------------------------------------------------ files of torch and safetensors

@each([None, 'cpu', 'cuda', GPU, {'cpu': 'cuda:0'}])
def many_tensors_of_a_file_come_to_where_they_are_wanted(where):
    import penstock.safetensors
    import penstock.torch
    name, other = path('many.pt'), path('many.safetensors')
    obj = {f't{i}': torch.randn(2000 + i, device=GPU if i % 3 else 'cpu') for i in range(600)}
    penstock.torch.save(obj, name)
    want = torch.load(name, where)
    for more in {}, {'weights_only': False}:
        back = penstock.torch.load(name, where, **more)
        assert all(back[k].device == t.device and torch.equal(back[k], t) for k, t in want.items())
    penstock.safetensors.save_file(obj, other)
    for device in 'cpu', GPU:
        back = penstock.safetensors.load_file(other, device)
        assert all(back[k].device == torch.device(device) and torch.equal(back[k].cpu(), t.cpu()) for k, t in obj.items())


class Halved:
    """Is made smaller when it is pickled."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __getstate__(self):
        busy()
        return {'tensor': self.tensor.half()}


@case
def what_is_queued_while_pickling_is_saved_when_it_is_there():
    import penstock.torch
    name = path('halved.pt')
    late = [Halved(torch.full((1 << 20,), float(i), device=GPU)) for i in range(1, 4)]
    penstock.torch.save([[torch.ones(10, device=GPU) for _ in range(300)], late], name)
    _, back = torch.load(name, 'cpu', weights_only=False)
    assert [h.tensor.unique().tolist() for h in back] == [[1.], [2.], [3.]]


# ------------------------------------------------------------------ round trips

@each(engines())
def every_size_and_offset_goes_both_ways(engine):
    with handle(engine) as h:
        for size in SIZES:
            for offset, skip in ((0, 0), (1, 1), (4096, 512), (12345, 77)):
                want, name = data(size + skip), path()
                there = on_gpu(want)[skip:]
                assert h.write(there, name, offset) == size
                assert content(name)[offset:] == want[skip:]
                back = on_gpu(bytes(size + skip + 9))
                assert h.read(back[skip:skip + size], name, offset) == size
                assert as_bytes(back) == bytes(skip) + want[skip:] + bytes(9)
                os.unlink(name)


@each(dtypes())
def a_tensor_goes_both_ways_of(name):
    dtype = getattr(torch, name)
    try:
        size = torch.empty(0, dtype=dtype).element_size()
        want = data(60 * size)
        t = on_gpu(want).view(dtype).reshape(6, 10)
    except (RuntimeError, TypeError, NotImplementedError) as e:
        raise Skip('dtype', f'torch makes no tensor of {dtype}: {str(e).splitlines()[0]}')
    file = path()
    with handle() as h:
        assert h.write(t, file) == len(want) and content(file) == want
        back = torch.zeros(60 * size, dtype=torch.uint8, device=GPU).view(dtype).reshape(6, 10)
        assert h.read(back, file) == len(want)
        assert as_bytes(back.view(torch.uint8)) == want


@each(['t', 'slice', 'rows', 'step', 'flip', 'permute', 'scalar', 'empty', 'diagonal'])
def views_go_both_ways(name):
    view = {'t': lambda t: t[0].t(), 'slice': lambda t: t[1:, 2:5, 3:], 'rows': lambda t: t[:, 3],
            'step': lambda t: t[::2, ::3, 1::2], 'flip': lambda t: t.flip(0)[::2],
            'permute': lambda t: t.permute(2, 0, 1), 'scalar': lambda t: t[1, 2, 3],
            'empty': lambda t: t[:, :0], 'diagonal': lambda t: t[0].diagonal()}[name]
    for dtype in (torch.uint8, torch.bfloat16, torch.float64, torch.complex64):
        size = torch.empty(0, dtype=dtype).element_size()
        base = on_gpu(data(4 * 30 * 50 * size)).view(dtype).reshape(4, 30, 50)
        file = path()
        with handle() as h:
            want = as_bytes(view(base))
            assert h.write(view(base), file) == len(want) and content(file) == want
            new = data(len(want), seed=2)
            other, part = base.clone(), base.clone()
            h.read(view(other), make(new))
            assert as_bytes(view(other)) == (new if name != 'flip' else want)
            if name == 'flip':  # a copy of torch's
                continue
            mask = torch.zeros(base.shape, dtype=torch.bool, device=GPU)
            view(mask).fill_(True)
            same = (other.view(torch.uint8) == base.view(torch.uint8)).reshape(*base.shape, size)
            assert same.all(-1)[~mask].all()  # nothing else has changed
            half = len(new) // 2 // size * size + (1 if len(new) > size else 0)
            assert h.read(view(part), make(new[:half]), partial=True) == half
            assert as_bytes(view(part)) == new[:half] + want[half:]


@case
def rows_of_a_large_matrix_are_moved_in_place():
    base = on_gpu(data(16 * MIB)).reshape(16, MIB)
    part = base[:, 1000:1000 + 300000]
    with handle() as h:
        before = torch.cuda.memory_allocated()
        name = path()
        f = h.write_async(part, name)
        assert torch.cuda.memory_allocated() == before
        assert f.result() == 16 * 300000 and content(name) == as_bytes(part)
        base.zero_()
        h.read(part, name)
    assert as_bytes(part) == content(name) and int(base[:, :1000].sum()) == 0


@case
def conjugated_and_negative_tensors_are_their_values():
    t = torch.randn(1000, dtype=torch.complex64, device=GPU)
    for view in (lambda t: t.conj(), lambda t: t.conj().imag, lambda t: t.real):
        with handle() as h:
            name = path()
            h.write(view(t), name)
            assert content(name) == as_bytes(view(t))
            other = torch.zeros_like(t)
            h.read(view(other), name)
            assert as_bytes(view(other)) == content(name)


@case
def parameters_and_inference_tensors_work():
    parameter = torch.nn.Parameter(torch.ones(100, 100, device=GPU))
    with torch.inference_mode():
        inference = torch.ones(100, 100, device=GPU)
    with handle() as h:
        for t in (parameter, parameter.t(), inference, inference.t()):
            h.read(t, make(data(40000)))
            assert as_bytes(t) == data(40000)
    assert parameter.requires_grad


@case
def what_cannot_be_read_into_is_refused():
    with handle() as h:
        raises(ValueError, h.read, torch.ones(1, device=GPU).expand(10), make(data(40)))
        raises(TypeError, h.write, torch.ones(3, 3, device=GPU).to_sparse(), path())
        raises(ValueError, h.write, torch.ones(3, device=GPU), path(), 0, 13)
        e = raises(OSError, h.read, torch.ones(10, device=GPU), make(data(39)))
        assert e.errno == errno.ENODATA
        raises(FileNotFoundError, h.read, torch.ones(10, device=GPU), path('missing'))


@case
def other_ways_to_the_same_memory_work():
    t, name = on_gpu(data(100003)), path()

    class Interface:
        def __init__(self):
            self.__cuda_array_interface__ = t.__cuda_array_interface__
            self.t = t

    class Dl:
        def __dlpack__(self, stream=None):
            return t.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return t.__dlpack_device__()

    with handle() as h:
        for obj in (Interface(), Dl()):
            t.copy_(on_gpu(data(100003)))
            torch.cuda.synchronize()  # torch's __cuda_array_interface__ names no stream
            assert h.write(obj, name) == 100003 and content(name) == data(100003)
            t.zero_()
            torch.cuda.synchronize()
            h.read(obj, name)
            assert as_bytes(t) == data(100003)


@case
def a_tensor_larger_than_the_ring_goes_both_ways():
    if torch.cuda.mem_get_info()[0] < 5 << 30:
        raise Skip('gpu_memory', 'less than 5 GiB of device memory are free')
    size = (1 << 30) + 12345
    t = torch.arange(size // 8 + 1, device=GPU).view(torch.uint8)[:size]
    name = path()
    with handle() as h:
        f = h.write_async(t, name)
        assert f.result() == size and 'pinned_pool' in f.ways, f.ways
        back = torch.zeros_like(t)
        assert h.read(back, name) == size
        assert torch.equal(back, t)
        assert 0 < h.stats()['pinned_pool_bytes'] <= 256 * MIB
    os.unlink(name)


# ------------------------------------------------------------------ order, without synchronize

STREAMS = ['default', 'own']


def stream_of(kind):
    return torch.cuda.stream(torch.cuda.Stream() if kind == 'own' else None)


@each(STREAMS)
def a_write_sees_what_was_queued_before_it(kind):
    for step in (1, 2):
        with stream_of(kind), handle() as h:
            t, name = torch.zeros(2 * MIB, dtype=torch.int32, device=GPU), path()
            busy()
            t.fill_(7)
            f = h.write_async(t[::step], name)
            assert f.result() and content(name) == as_bytes(t[::step].cpu())
            assert content(name)[:4] == b'\7\0\0\0'
            busy()
            t.fill_(8)
            h.write(t[::step], name)
            assert content(name)[:4] == b'\x08\0\0\0'


@each(STREAMS)
def a_read_does_not_overwrite_what_is_still_needed(kind):
    new = data(4 * MIB, seed=3)
    for step in (1, 2):
        with stream_of(kind), handle() as h:
            t = torch.ones(4 * MIB * step, dtype=torch.uint8, device=GPU)
            busy()
            total = t.sum(dtype=torch.int64)
            f = h.read_async(t[::step], make(new))
            assert f.result() == len(new)
            after = t[::step].sum(dtype=torch.int64)
            assert int(total) == t.numel() and int(after) == sum(new)


@each(STREAMS)
def what_was_read_is_there_for_work_queued_in_any_stream_after_wait(kind):
    new = data(4 * MIB, seed=4)
    name = make(new)
    for step in (1, 2):
        with handle() as h:
            with stream_of(kind):
                t = torch.zeros(4 * MIB * step, dtype=torch.uint8, device=GPU)
                h.read_async(t[::step], name)
                busy()
            h.wait()
            with torch.cuda.stream(torch.cuda.Stream()):
                total = t[::step].sum(dtype=torch.int64)
                host = torch.empty(4 * MIB * step, dtype=torch.uint8, pin_memory=True)
                host.copy_(t, non_blocking=True)
                torch.cuda.current_stream().synchronize()
            assert int(total) == sum(new) and bytes(host[::step][:1000].tolist()) == new[:1000]


@case
def two_streams_do_not_wait_for_each_other():
    with handle() as h:
        slow, fast = torch.cuda.Stream(), torch.cuda.Stream()
        a = torch.zeros(MIB, dtype=torch.uint8, device=GPU)
        b = torch.ones(MIB, dtype=torch.uint8, device=GPU)
        torch.cuda.synchronize()
        names = path(), path()
        with torch.cuda.stream(slow):
            for _ in range(5):
                busy()
            a.fill_(5)
            first = h.write_async(a, names[0])
        with torch.cuda.stream(fast):
            second = h.write_async(b, names[1])
        assert second.result() == MIB and not slow.query() and not first.done()
        assert first.result() == MIB
        assert content(names[0]) == bytes([5]) * MIB and content(names[1]) == b'\1' * MIB


@case
def a_temporary_is_kept_and_not_given_to_others():
    with handle() as h:
        names = [path() for _ in range(20)]
        for i, name in enumerate(names):
            h.write_async(torch.full((MIB,), i, dtype=torch.uint8, device=GPU), name)
            torch.full((MIB,), 99, dtype=torch.uint8, device=GPU)
        assert h.wait() == 20
        assert [content(name) for name in names] == [bytes([i]) * MIB for i in range(20)]
        t = torch.ones(10, device=GPU)
        gone = weakref.ref(t)
        f = h.write_async(t, path())
        del t
        f.result()
        gc.collect()
        assert gone() is None


@case
def several_devices_keep_their_order():
    if torch.cuda.device_count() < 2:
        raise Skip('gpus', 'only one GPU')
    with handle() as h:
        names, tensors = [path(), path()], []
        for i in range(2):
            with torch.cuda.device(i):
                t = torch.zeros(MIB, dtype=torch.uint8, device=f'cuda:{i}')
                busy()
                t.fill_(i + 1)
                tensors.append(t)
        h.write_batch(zip(tensors, names))  # of the device that is not current, too
        assert [content(name) for name in names] == [b'\1' * MIB, b'\2' * MIB]


@case
def threads_with_streams_of_their_own():
    with handle(threads=2) as h:
        def work(seed):
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(20):
                    want, name = data(200001, seed=seed + i), path()
                    t = on_gpu(want)
                    h.write(t, name)
                    t.zero_()
                    h.read_async(t, name).result()
                    assert as_bytes(t) == want
            done.append(seed)

        done = []
        threads = [threading.Thread(target=work, args=(s,)) for s in (100, 200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(done) == [100, 200]


@case
def batches_mix_devices_and_host():
    want = [data(50000 + i, seed=i) for i in range(20)]
    names = [path() for _ in want]
    with handle() as h:
        h.write_batch((on_gpu(w) if i % 2 else w, n) for i, (w, n) in enumerate(zip(want, names)))
        assert [content(n) for n in names] == want
        back = [torch.zeros(len(w), dtype=torch.uint8, device=GPU) if i % 2 else bytearray(len(w))
                for i, w in enumerate(want)]
        h.read_batch(zip(back, names))
        assert [as_bytes(b) if i % 2 else bytes(b) for i, b in enumerate(back)] == want


# ------------------------------------------------------------------ ways, register

@each(engines())
def the_way_is_told(engine):
    t, name = on_gpu(data(3 * MIB)), path()
    with handle(engine) as h:
        taken = h.register(t)
        assert taken in (True, False)
        f = h.write_async(t, name)
        f.result()
        assert {'pinned_pool', 'cufile', 'cufile-compat'} & set(f.ways), f.ways
        assert engine == 'cufile' or 'pinned_pool' in f.ways, f.ways
        stats = h.stats()
        assert stats['blocks_pinned_pool'] + stats['blocks_cufile'] > 0, stats
        h.unregister(t)
        raises(ValueError, h.unregister, t)
        raises(ValueError, h.register, t[::2])
        h.register(t)  # ends with the handle
    assert content(name) == data(3 * MIB)


@case
def info_lists_the_gpus():
    gpu = penstock.info()['gpu']
    assert gpu['cuda'] is True and gpu['devices'] == len(gpu['list']) >= 1, gpu
    assert gpu['list'][0]['memory'] > 1 << 30, gpu


# ------------------------------------------------------------------ DeepSpeed's handles

def deepspeed(kind):
    from penstock import deepspeed
    return getattr(deepspeed, kind)


FLAGS = [(s, o) for s in (True, False) for o in (True, False)]
BUFFERS = ['pinned', 'locked', 'device']


def buffer_of(h, kind, nbytes):
    if kind == 'device':
        return torch.zeros(nbytes, dtype=torch.uint8, device=GPU)
    if kind == 'pinned':
        return torch.zeros(nbytes, dtype=torch.uint8).pin_memory()
    return h.new_cpu_locked_tensor(nbytes, torch.empty(0, dtype=torch.uint8))


@each([(k, b, f) for k in ('aio_handle', 'gds_handle') for b in BUFFERS for f in FLAGS])
def handles_move_every_kind_of_buffer(case):
    kind, buffer, flags = case
    h = deepspeed(kind)(1024, 2, *flags, 2)
    want, name = data(4096), path()
    t = buffer_of(h, buffer, 4096)
    t.copy_(torch.frombuffer(bytearray(want), dtype=torch.uint8))
    assert h.sync_pwrite(t, name, 0) == 1 and content(name) == want
    assert h.async_pwrite(t, path(), 0) == 0 and h.wait() == 1
    for function in (lambda t: h.sync_pread(t, name, 0) == 1,
                     lambda t: h.async_pread(t, name, 0) == 0 and h.wait() == 1,
                     lambda t: h.read(t, name, False) == 0):
        t.zero_()
        assert function(t) and as_bytes(t) == want
    assert h.free_cpu_locked_tensor(t) is (buffer == 'locked')


@each([(k, n) for k in ('aio_handle', 'gds_handle') for n in (2, 3)])
def handles_move_several_at_once(case):
    kind, n = case
    h = deepspeed(kind)(1024, 2, False, True, 2)
    want, names = [data(4096, seed=i) for i in range(n)], [path() for _ in range(n)]
    tensors = [on_gpu(w) for w in want]
    assert [h.async_pwrite(t, name) for t, name in zip(tensors, names)] == [0] * n
    assert h.wait() == n and [content(name) for name in names] == want
    back = [torch.zeros_like(t) for t in tensors]
    assert [h.async_pread(t, name) for t, name in zip(back, names)] == [0] * n
    assert h.wait() == n and [as_bytes(t) for t in back] == want


@each([(k, p, fd) for k in ('aio_handle', 'gds_handle')
       for p in ([1, 1, 1], [1, 1, 2], [1, 2, 1], [2, 1, 1]) for fd in (False, True)])
def handles_write_and_read_at_offsets(case):
    kind, parts, use_fd = case
    h = deepspeed(kind)(1024, 2, False, True, 2)
    want, name, at = data(1024 * sum(parts)), path(), 0
    t = on_gpu(want)
    for part in parts:
        n = 1024 * part
        if use_fd:
            fd = os.open(name, os.O_CREAT | os.O_WRONLY | getattr(os, 'O_DIRECT', 0))
            assert h.async_pwrite(buffer=t.narrow(0, at, n), fd=fd, file_offset=at) == 0
        else:
            assert h.async_pwrite(buffer=t.narrow(0, at, n), filename=name, file_offset=at) == 0
        assert h.wait() == 1
        if use_fd:
            os.close(fd)
        at += n
        assert content(name) == want[:at]
    back, at = torch.zeros_like(t), 0
    for part in parts:
        assert h.sync_pread(back.narrow(0, at, 1024 * part), name, at) == 1
        at += 1024 * part
    assert as_bytes(back) == want


@case
def a_gds_handle_pins_device_tensors():
    h = deepspeed('gds_handle')(256 << 10, 2, True, True, 2)
    for example in (torch.empty(0, dtype=torch.float16), torch.empty(3, device=GPU)):
        for keyword in ('example_tensor', 'example_tenosr'):
            t = h.new_pinned_device_tensor(MIB // 4, **{keyword: example})
            assert t.device == GPU and t.dtype == example.dtype and t.shape == (MIB // 4,)
            name = path()
            t.fill_(2)
            assert h.sync_pwrite(t, name) == 1 and content(name) == as_bytes(t)
            t.zero_()
            assert h.sync_pread(t, name) == 1 and as_bytes(t) == content(name)
            assert h.free_pinned_device_tensor(t) is True
    for t in (torch.zeros(MIB, device=GPU), torch.zeros(0, device=GPU), torch.zeros(10),
              torch.zeros(10, 10, device=GPU).t()[1:]):
        assert h.pin_device_tensor(t) is True and h.pin_device_tensor(t) is True
        assert h.unpin_device_tensor(t) is True and h.unpin_device_tensor(t) is True
        assert h.free_pinned_device_tensor(t) is True
    assert h.new_pinned_device_tensor(0, torch.empty(0)).numel() == 0
    raises(TypeError, h.pin_device_tensor, 5)
    h.close()
    raises(ValueError, h.pin_device_tensor, torch.zeros(10, device=GPU))


@case
def a_gds_handle_keeps_the_order_of_streams():
    h = deepspeed('gds_handle')()
    for pinned in (False, True):
        t, name = torch.zeros(8 * MIB, dtype=torch.uint8, device=GPU), path()
        if pinned:
            h.pin_device_tensor(t)
        busy()
        t.fill_(9)
        assert h.async_pwrite(t, name) == 0 and h.wait() == 1
        assert content(name) == b'\x09' * (8 * MIB)
        t.zero_()
        busy()
        total = t.sum(dtype=torch.int64)
        assert h.sync_pread(t, name) == 1
        assert int(total) == 0 and int(t.sum(dtype=torch.int64)) == 9 * 8 * MIB
        h.unpin_device_tensor(t)


@each(['aio_handle', 'gds_handle'])
def a_missing_or_short_file_is_refused_and_the_handle_goes_on(kind):
    h = deepspeed(kind)()
    t = torch.ones(4096, dtype=torch.uint8, device=GPU)
    assert h.sync_pread(t, path('missing')) == -1 and h.async_pread(t, make(data(100))) == -1
    assert int(t.sum()) == 4096 and h.wait() == 0
    assert h.sync_pread(t, make(data(5000))) == 1 and as_bytes(t) == data(5000)[:4096]


run(*cases)
