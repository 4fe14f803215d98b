# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed asks of its NVMe operators, a case for each call: its own, as far as they can be built here, and ours.

Those of GPUDirect Storage cannot be: they want the headers and libraries of CUDA and cuFile, there is no builder of them for the CPU,
and a handle ends the process where there is no GPU.  What they bind is read from their source and compared with ours.
"""
import inspect
import os
import re

os.environ.setdefault('DS_ACCELERATOR', 'cpu')
from kit import MIB, case, cases, child, content, each, path, run
from peer import need

need('torch', 'deepspeed')

import ds_ops
import torch

if not ds_ops.are_built():
    print("1..0 # SKIP DeepSpeed's own operators are not built: make peers")
    raise SystemExit

ds_ops.use()
import deepspeed
from deepspeed.ops.op_builder import AsyncIOBuilder, PinMemoryBuilder
from deepspeed.ops.op_builder.gds import GDSBuilder  # as it is imported where there is CUDA

theirs = AsyncIOBuilder().load()
their_pins = PinMemoryBuilder().load()
import penstock.deepspeed

penstock.deepspeed.install()
OPS = {'original': theirs, 'penstock': AsyncIOBuilder().load()}
PINS = {'original': their_pins, 'penstock': PinMemoryBuilder().load()}
AIO = {'block_size': 1 << 18, 'queue_depth': 8, 'single_submit': False, 'overlap_events': True, 'intra_op_parallelism': 2}
ALIGNED = 1024 * AIO['intra_op_parallelism']
HERE = os.path.dirname(os.path.abspath(__file__))


def handle(which, **more):
    return OPS[which].aio_handle(**{**AIO, **more})


def locked(h, nbytes):
    """As the pools of swappers make them: the example is large, and the result is zeroed."""
    buffer = h.new_cpu_locked_tensor(nbytes, torch.empty(8 * MIB, dtype=torch.uint8))
    assert buffer.numel() == nbytes and buffer.dtype == torch.uint8 and buffer.dim() == 1, buffer.shape
    return buffer.zero_()


def filled(h, nbytes, seed):
    buffer = locked(h, nbytes)
    return buffer.copy_(torch.randint(0, 256, (nbytes,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)))


def raw(t):
    return t.numpy().tobytes()


@case
def the_two_are_not_the_same():
    assert OPS['original'] is not OPS['penstock'] and PINS['original'] is not PINS['penstock']
    assert issubclass(OPS['penstock'].aio_handle, penstock.deepspeed.aio_handle), OPS


@each(OPS)
def aio_handle_is_made_with_keywords(which):
    h = handle(which)
    for name, value in AIO.items():
        assert getattr(h, f'get_{name}')() == value, name
    assert OPS[which].aio_handle().get_block_size() == MIB and OPS[which].aio_handle().get_queue_depth() == 128


@each(OPS)
def async_pread_and_async_pwrite_are_0(which):
    h, name = handle(which), path()
    want, got = filled(h, 4 * MIB, 1), locked(h, 4 * MIB)
    assert h.async_pwrite(want, name, 0) == 0 and h.wait() == 1
    assert content(name) == raw(want)
    assert h.async_pread(got, name, 0) == 0 and h.wait() == 1
    assert torch.equal(got, want)


@each(OPS)
def wait_is_the_exact_number(which):
    h = handle(which)
    pieces, names = [filled(h, ALIGNED * (i + 1), i) for i in range(9)], [path() for _ in range(9)]
    for n in 1, 3, 9:
        assert [h.async_pwrite(p, name, 0) for p, name in zip(pieces[:n], names)] == [0] * n
        assert h.wait() == n
    # Of two callers that share a handle, as those of gradients and of states do.
    back = [locked(h, len(p)) for p in pieces]
    for i in range(4):
        assert h.async_pread(back[i], names[i], 0) == 0 and h.async_pwrite(pieces[i], names[i + 4], 0) == 0
    assert h.wait() == 8
    assert all(map(torch.equal, back[:4], pieces[:4]))
    reader, writer = handle(which), handle(which)  # as the pipelined swapper has them
    assert writer.async_pwrite(pieces[0], names[0], 0) == 0 and reader.async_pread(back[8], names[8], 0) == 0
    assert reader.wait() == 1 and writer.wait() == 1 and torch.equal(back[8], pieces[8])


@each(OPS)
def new_cpu_locked_tensor_is_flat_and_of_the_examples_dtype(which):
    h = handle(which)
    for dtype in torch.float32, torch.bfloat16, torch.float16, torch.uint8:
        t = h.new_cpu_locked_tensor(1000, torch.empty(5, 7, dtype=dtype))
        assert t.shape == (1000,) and t.dtype == dtype and t.device.type == 'cpu' and t.is_contiguous()
        t.zero_()
        assert not t.any()
        again = h.new_cpu_locked_tensor(10, t)  # the example is itself locked
        assert again.dtype == dtype and again.data_ptr() != t.data_ptr()


FREES = """
import sys
sys.path[:0] = {0!r}
import ds_ops
ds_ops.use()
import torch
if {1!r} == 'penstock':
    import penstock.deepspeed
    penstock.deepspeed.install()
from deepspeed.ops.op_builder import AsyncIOBuilder

class Pool:
    def __init__(self):
        self.handle = AsyncIOBuilder().load().aio_handle()
        self.buffer = self.handle.new_cpu_locked_tensor(5000, torch.empty(0))

    def __del__(self):
        self.handle.free_cpu_locked_tensor(self.buffer)
        print('freed')

module = sys.modules['pool'] = type(sys)('pool')  # of those that go last
module.pool = Pool()
print('made')
"""


@each(OPS)
def free_cpu_locked_tensor_is_quiet_at_the_end(which):
    h = handle(which)
    t = locked(h, 5000)
    assert h.is_pinned(t)
    h.free_cpu_locked_tensor(t)
    done = child(FREES.format([HERE], which))
    assert done.returncode == 0 and 'made' in done.stdout and 'freed' in done.stdout, done
    assert 'Exception' not in done.stderr and 'Error' not in done.stderr, done.stderr


@each(OPS)
def is_pinned_knows_views(which):
    h = handle(which)
    t = locked(h, 100_000)
    assert h.is_pinned(t) and h.is_pinned(t.narrow(0, 4096, 1000)) and h.is_pinned(t[99_000:].view(torch.int16))
    assert not h.is_pinned(torch.empty(1000))
    assert handle(which).is_pinned(t)  # all handles know it


@each(PINS)
def pin_handle_frees_by_address(which):
    h = PINS[which].pin_handle()
    t = h.new_cpu_locked_tensor(3000, torch.empty(0, dtype=torch.float32))
    assert t.shape == (3000,) and t.dtype == torch.float32 and h.is_pinned(t[100:200])
    address = t.data_ptr()
    del t
    h.free_cpu_locked_tensor_by_ptr(address)
    assert h.is_pinned(torch.empty(10)) is False


@each(OPS)
def pread_and_pwrite_and_get_alignment(which):
    h, name = handle(which), path()
    assert h.get_alignment() == 512 * AIO['intra_op_parallelism']
    want, got = filled(h, 2 * MIB, 3), locked(h, 2 * MIB)
    assert h.pwrite(want, name, False, False) == 1 and content(name) == raw(want)
    assert h.pread(got, name, False, False) == 1 and torch.equal(got, want)
    got.zero_()
    assert h.pread(got, name, False, True) == 0 and h.wait() == 1 and torch.equal(got, want)
    assert h.sync_pread(got, name) == 1 and h.sync_pwrite(want, name) == 1


@each(OPS)
def async_pwrite_takes_a_descriptor(which):
    h, name = handle(which), path()
    parts = [filled(h, MIB, i) for i in range(3)]
    fd = os.open(name, os.O_CREAT | os.O_WRONLY | getattr(os, 'O_DIRECT', 0), 0o600)
    try:
        for i, part in enumerate(parts):
            assert h.async_pwrite(part, fd, i * MIB) == 0
        assert h.wait() == 3
    finally:
        os.close(fd)
    assert content(name) == b''.join(map(raw, parts))


# ---- GPUDirect Storage


def bound():
    """What the operator of this DeepSpeed has: {method: [(names of the parameters, those with a value)]}."""
    source = os.path.join(os.path.dirname(deepspeed.__file__), 'ops/csrc/gds/py_lib/py_ds_gds.cpp')
    with open(source, encoding='utf-8') as f:
        pieces = f.read().split('.def(')[1:]
    found = {}
    for piece in pieces:
        method = '__init__' if piece.lstrip().startswith('py::init') else re.match(r'\s*"(\w+)"', piece)[1]
        arguments = re.findall(r'"(\w+)"_a(?: = ([^,)]+))?', piece)
        found.setdefault(method, []).append(arguments)
    return found


@case
def gds_handle_has_every_method_that_theirs_binds():
    ours, found = GDSBuilder().load(verbose=False).gds_handle, bound()
    assert len(found) == 23 and len(found['async_pwrite']) == 2, found.keys()
    for method, overloads in found.items():
        parameters = inspect.signature(getattr(ours, method)).parameters
        for arguments in overloads:
            for name, value in arguments:
                assert name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()), (method, name)
                p = parameters.get(name)
                if p is not None and method == '__init__' and p.default is not p.empty:
                    assert int(p.default) == eval(value.title() if value in ('true', 'false') else value), (method, name)


@case
def gds_handle_moves_host_memory_as_the_parameter_swapper_does():
    h, name = GDSBuilder().load(verbose=False).gds_handle(**AIO), path()
    want, got = filled(h, 2 * MIB, 5), locked(h, 2 * MIB)
    assert h.async_pwrite(want, name, 0) == 0 and h.wait() == 1
    assert h.async_pread(got, name, 0) == 0 and h.wait() == 1 and torch.equal(got, want)


@case
def pin_device_tensor_is_true():
    h = GDSBuilder().load(verbose=False).gds_handle(**AIO)
    for t in torch.empty(MIB, dtype=torch.uint8, device='cuda' if torch.cuda.is_available() else 'cpu'), torch.empty(10):
        assert h.pin_device_tensor(t) is True and h.unpin_device_tensor(t) is True


run(*cases)
