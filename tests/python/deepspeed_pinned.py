# SPDX-License-Identifier: Apache-2.0
"""penstock.deepspeed: locked host memory, of which there is one register for all handles."""
import copy
import gc
import mmap
import pickle
import threading

import kit
from kit import case, cases, content, each, path, raises
from tap import Skip, run

try:
    import torch
except ImportError:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

from penstock import _penstock
from penstock.deepspeed import _locked_memory, aio_handle, gds_handle, pin_handle

BYTE = torch.empty(0, dtype=torch.uint8)
HANDLES = [aio_handle, gds_handle, pin_handle]


@each(HANDLES)
def a_locked_tensor_is_flat_and_of_the_examples_dtype(kind):
    h = kind()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int64,
                  torch.bool, torch.complex64):
        for example in (torch.empty(0, dtype=dtype), torch.empty(3, 4, dtype=dtype)):
            t = h.new_cpu_locked_tensor(1000, example)
            assert type(t) is torch.Tensor
            assert t.shape == (1000,) and t.dtype == dtype and t.device.type == 'cpu'
            assert t.is_contiguous() and not t.requires_grad
            assert t.data_ptr() % mmap.PAGESIZE == 0
            t.zero_()
            assert h.is_pinned(t) is True
            assert h.free_cpu_locked_tensor(t) is True


@each(HANDLES)
def the_example_has_two_spellings(kind):
    h = kind()
    for keywords in ({'example_tensor': BYTE}, {'example_tenosr': BYTE}):
        t = h.new_cpu_locked_tensor(num_elem=10, **keywords)
        assert t.dtype == torch.uint8 and h.free_cpu_locked_tensor(t)
    raises(TypeError, h.new_cpu_locked_tensor, 10)
    raises(TypeError, h.new_cpu_locked_tensor, 10, BYTE, example_tenosr=BYTE)
    raises(TypeError, h.new_cpu_locked_tensor, 10, torch.uint8)


@each(HANDLES)
def only_the_base_address_frees_and_only_once(kind):
    h = kind()
    t = h.new_cpu_locked_tensor(1000, torch.empty(0))
    assert h.free_cpu_locked_tensor(t[1:]) is False
    assert h.is_pinned(t)
    assert h.free_cpu_locked_tensor(t) is True
    assert h.free_cpu_locked_tensor(t) is False
    assert h.is_pinned(t) is False
    assert h.free_cpu_locked_tensor(torch.empty(1000)) is False
    assert h.free_cpu_locked_tensor(BYTE) is False
    for other in (None, 4096, bytearray(10)):
        raises(TypeError, h.free_cpu_locked_tensor, other)
        raises(TypeError, h.is_pinned, other)


@case
def views_count():
    h = aio_handle()
    t = h.new_cpu_locked_tensor(1000, torch.empty(0))
    for view in (t.narrow(0, 0, 10), t.narrow(0, 990, 10), t[::7], t.reshape(10, 100).t(), t[5],
                 t.view(torch.uint8), t.detach(), torch.nn.Parameter(t), t[3:3], t[1000:]):
        expected = view.numel() > 0 or view.storage_offset() < 1000
        assert h.is_pinned(view) is expected, view.shape
    assert h.free_cpu_locked_tensor(t.narrow(0, 0, 10)) is True
    assert h.is_pinned(t.narrow(0, 990, 10)) is False


@case
def what_reaches_beyond_a_region_is_not_pinned():
    h = aio_handle()
    t = h.new_cpu_locked_tensor(1000, BYTE)
    regions = _locked_memory._regions
    assert regions.contain(t.data_ptr(), 1000)
    assert not regions.contain(t.data_ptr(), 1001)
    assert not regions.contain(t.data_ptr() - 1, 10)
    assert not regions.contain(t.data_ptr() + 991, 10)
    assert not regions.contain(t.data_ptr() + 1000, 0)
    assert h.free_cpu_locked_tensor(t)


@case
def what_nobody_locked_is_not_pinned():
    h = aio_handle()
    assert h.is_pinned(torch.empty(1000)) is False
    assert h.is_pinned(torch.empty(0)) is False
    assert h.is_pinned(torch.empty(10, device='meta')) is False
    assert h.free_cpu_locked_tensor(torch.empty(10, device='meta')) is False
    assert h.is_pinned(torch.eye(3).to_sparse()) is False
    assert h.free_cpu_locked_tensor(torch.eye(3).to_sparse()) is False


@case
def no_elements_are_a_tensor_too():
    h = aio_handle()
    a, b = (h.new_cpu_locked_tensor(0, torch.empty(0, dtype=torch.float64)) for _ in range(2))
    assert a.numel() == b.numel() == 0 and a.dtype == torch.float64
    assert h.is_pinned(a) and h.is_pinned(b)
    assert h.free_cpu_locked_tensor(a) is True
    assert h.free_cpu_locked_tensor(a) is False
    assert h.is_pinned(b) and h.free_cpu_locked_tensor(b) is True


@case
def every_handle_knows_the_memory_of_the_others():
    handles = [kind() for kind in HANDLES] + [aio_handle()]
    for owner in handles:
        for other in handles:
            t = owner.new_cpu_locked_tensor(100, BYTE)
            assert other.is_pinned(t) and other.is_pinned(t.narrow(0, 10, 20))
            assert other.free_cpu_locked_tensor(t) is True
            assert not owner.is_pinned(t) and owner.free_cpu_locked_tensor(t) is False


@case
def memory_outlives_its_handle_and_its_tensor():
    h = aio_handle()
    t = h.new_cpu_locked_tensor(100, BYTE)
    address = t.data_ptr()
    del h, t
    gc.collect()
    assert _penstock.in_memory(address, 100)
    assert pin_handle().free_cpu_locked_tensor_by_ptr(address) is True
    assert not _penstock.in_memory(address, 100)


@case
def a_freed_tensor_in_use_keeps_its_memory():
    h = aio_handle()
    t = h.new_cpu_locked_tensor(100000, BYTE).fill_(7)
    view, address = t[10:20], t.data_ptr()
    assert h.free_cpu_locked_tensor(t)
    del t
    gc.collect()
    assert bool((view == 7).all()) and _penstock.in_memory(address, 100000)
    del view
    gc.collect()
    assert not _penstock.in_memory(address, 1)


@case
def memory_freed_during_a_write_is_written():
    h, name = aio_handle(), path()
    t = h.new_cpu_locked_tensor(3 << 20, BYTE).fill_(9)
    address = t.data_ptr()
    assert h.async_pwrite(t, name) == 0
    assert h.free_cpu_locked_tensor(t)
    del t
    assert _penstock.in_memory(address, 1)
    assert h.wait() == 1
    assert content(name) == b'\11' * (3 << 20)
    gc.collect()
    assert not _penstock.in_memory(address, 1)


@case
def a_pin_handle_frees_by_address():
    h = pin_handle()
    t = h.new_cpu_locked_tensor(10, torch.empty(0))
    assert h.free_cpu_locked_tensor_by_ptr(t.data_ptr() + 4) is False
    assert h.free_cpu_locked_tensor_by_ptr(address=t.data_ptr()) is True
    assert h.free_cpu_locked_tensor_by_ptr(t.data_ptr()) is False
    assert h.free_cpu_locked_tensor_by_ptr(0) is False
    raises(TypeError, h.free_cpu_locked_tensor_by_ptr, '0')
    t = h.new_cpu_locked_tensor(10, torch.empty(0))
    assert h.free_cpu_locked_tensor(locked_tensor=t) is True
    raises(TypeError, pin_handle, 3)
    for function in (pickle.dumps, copy.copy):
        raises(TypeError, function, h)


@case
def many_threads_lock_and_free():
    h, wrong = aio_handle(), []
    together = threading.Barrier(4)

    def work(seed):
        together.wait()
        mine = []
        for i in range(200):
            mine.append(h.new_cpu_locked_tensor(100 + i, BYTE).fill_(seed))
            if i % 3 == 0:
                t = mine.pop((i * 7 + seed) % len(mine))
                if not h.is_pinned(t) or not h.free_cpu_locked_tensor(t) or h.is_pinned(t):
                    wrong.append(i)
        for t in mine:
            if not bool((t == seed).all()) or h.free_cpu_locked_tensor(t) is not True:
                wrong.append(t)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@case
def memory_is_locked_and_freed_while_another_thread_reads():
    h = aio_handle(65536, 8, False, True, 2)
    name, got = kit.make(kit.data(300001)), torch.zeros(300001, dtype=torch.uint8)
    freed, counts = [], []

    def lock():
        for _ in range(32):
            t = h.new_cpu_locked_tensor(4096, BYTE)
            freed.append(h.free_cpu_locked_tensor(t))

    thread = threading.Thread(target=lock)
    thread.start()
    for _ in range(32):
        counts.append(h.sync_pread(got, name))
    thread.join()
    assert freed == [True] * 32 and counts == [1] * 32
    assert bytes(got.tolist()) == content(name)


@case
def memory_that_torch_pinned_counts():
    if not torch.cuda.is_available():
        raise Skip('cuda', 'no CUDA device')
    h = aio_handle()
    t = torch.empty(100).pin_memory()
    assert h.is_pinned(t) and h.is_pinned(t[5:10]) and h.free_cpu_locked_tensor(t) is False
    assert not h.is_pinned(t.cuda()) and h.free_cpu_locked_tensor(t.cuda()) is False


@case
def the_register_forgets_what_is_freed():
    regions = _locked_memory._regions._regions
    h, before = aio_handle(), len(regions)
    tensors = [h.new_cpu_locked_tensor(n, BYTE) for n in range(100)]
    assert len(regions) == before + 100
    assert all(map(h.free_cpu_locked_tensor, tensors))
    assert len(regions) == before


run(*cases)
