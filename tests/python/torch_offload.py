# SPDX-License-Identifier: Apache-2.0
"""penstock.WeightWindow with tensors, and penstock.torch.offload_modules."""
import gc
import sys
import weakref

from kit import Skip, case, cases, descriptors, each, path, raises, run, torch_or_skip

try:
    torch = torch_or_skip()
except Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()

import penstock.safetensors
import penstock.torch

N, WIDTH = 5, 48


class Block(torch.nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH, **how)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False, **how)
        self.register_buffer('scale', torch.full((1,), 0.5, **how))
        self.fails = False

    def forward(self, x, *, gain=1):
        y = self.down(torch.tanh(self.up(x))) * self.scale * gain
        if self.fails:
            raise ArithmeticError('as asked')
        return x + y


def blocks(**how):
    return torch.nn.ModuleList([Block(**how) for _ in range(N)]).requires_grad_(False)


def saved(modules, prefix='model.layers.'):
    name = path('model.safetensors')
    state = {prefix + n: t for n, t in modules.state_dict().items()}
    penstock.safetensors.save_file({**state, 'embed.weight': torch.ones(300), 'lm_head.weight': torch.ones(7)}, name)
    return name


def model():
    """A model, its file, and the same modules without weights."""
    torch.manual_seed(7)
    full = blocks()
    return full, saved(full), blocks(device='meta')


def forward(modules, x, **how):
    for module in modules:
        x = module(x, **how)
    return x


def is_as_before(modules):
    return all(p.device.type == 'meta' for p in modules.parameters()) and \
        all(b.device.type == 'meta' for b in modules.buffers()) and \
        not any('forward' in m.__dict__ for m in modules)


@case
def tensors_are_views_with_dtype_and_shape():
    tensors = {f'l.{i}.{n}': t for i in range(3) for n, t in (
        ('a', torch.randn(7, 9)), ('b', torch.randn(5).bfloat16()), ('c', torch.arange(4)), ('d', torch.tensor([True])),
        ('e', torch.empty(0, 3)), ('f', torch.tensor(2.5)))}
    name = path('m.safetensors')
    penstock.safetensors.save_file(tensors, name)
    with penstock.WeightWindow(name) as window:
        seen = 0
        for layer in window:
            for key, tensor in layer.items():
                want = tensors[key]
                assert tensor.dtype == want.dtype and torch.equal(tensor, want), key
                seen += 1
            a, b = layer[f'{layer.name}.a'], layer._window
            assert b.data_ptr() <= a.data_ptr() < b.data_ptr() + b.numel() and not a.requires_grad
        assert seen == len(tensors)
    with penstock.WeightWindow(name, framework='bytes') as window:
        assert isinstance(next(window)['l.0.a'], memoryview)


@case
def a_tensor_where_none_can_begin_is_a_copy():
    name, head = path('odd.safetensors'), b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
    want = torch.tensor([1.5, 2.5, 3.5])
    with open(name, 'wb') as f:
        f.write(len(head).to_bytes(8, 'little') + head + bytes(want.numpy().tobytes()))
    assert (8 + len(head)) % 4
    with penstock.WeightWindow(name) as window:
        assert torch.equal(next(window)['a'], want)


@case
def devices_that_are_not_there_are_refused():
    _, name, _ = model()
    if not torch.cuda.is_available():
        assert 'cuda:0' in str(raises(ValueError, penstock.WeightWindow, name, device='cuda:0'))
    raises(ValueError, penstock.WeightWindow, name, device='meta')


@case
def modules_run_with_weights_from_storage():
    full, name, empty = model()
    x = torch.randn(3, WIDTH)
    with torch.no_grad():
        want = forward(full, x, gain=2)
        with penstock.torch.offload_modules(empty, name, window='128KiB') as offloaded:
            for _ in range(3):
                assert torch.equal(forward(empty, x, gain=2), want)
                assert all(p.device.type == 'meta' for p in empty.parameters())
            assert offloaded.window.stats()['groups'] == 3 * N and offloaded._reader._current is None
            assert torch.equal(empty[3](x), full[3](x))  # in any order
            assert torch.equal(empty[1](x), full[1](x))
            assert torch.equal(forward(empty, x, gain=2), want)
        assert is_as_before(empty) and offloaded.window.closed


@case
def a_model_that_fits_is_read_once():
    full, name, empty = model()
    x = torch.randn(3, WIDTH)
    with torch.no_grad(), penstock.torch.offload_modules(empty, name) as offloaded:
        for _ in range(4):
            forward(empty, x)
        stats = offloaded.window.stats()
        assert stats['misses'] <= N and stats['hits'] >= 3 * N, stats


@case
def gradients_of_inputs_are_computed():
    full, name, empty = model()
    x = torch.randn(3, WIDTH, requires_grad=True)
    forward(full, x).square().sum().backward()
    want = x.grad
    for window in '128KiB', None:
        with penstock.torch.offload_modules(empty, name, window=window) as offloaded:
            for _ in range(2):
                x.grad = None
                y = forward(empty, x).square().sum()
                with torch.no_grad():
                    forward(empty, torch.randn(1, WIDTH))  # the window has other things by now
                y.backward()
                assert torch.equal(x.grad, want)
            assert offloaded.window.stats()['groups'] >= 5 * N  # layers were read again
        assert is_as_before(empty)


@case
def gradients_without_a_place_are_refused():
    full, name, empty = model()
    empty.requires_grad_(True)
    with penstock.torch.offload_modules(empty, name):
        e = raises(RuntimeError, forward, empty, torch.ones(1, WIDTH))
        assert 'requires_grad_(False)' in str(e) and 'on_grad' in str(e)
        with torch.no_grad():
            # One row by a vector: rounded by where the memory begins.
            x = torch.ones(1, WIDTH)
            assert torch.allclose(forward(empty, x), forward(full, x))


def trained():
    """As model(), of which one parameter of each block stays as it is."""
    if not hasattr(torch.Tensor, 'register_post_accumulate_grad_hook'):
        raise Skip('torch 2.1', 'torch is older than 2.1')
    full, name, empty = model()
    for modules in full, empty:
        modules.requires_grad_(True)
        for block in modules:
            block.down.weight.requires_grad_(False)
    return full, name, empty


def loss(modules, x):
    return forward(modules, x).square().mean()


@each([None, '128KiB'])
def gradients_of_weights_are_told_once_each(window):
    full, name, empty = trained()
    x, got = torch.randn(3, WIDTH), {}
    loss(full, x).backward()
    want = {f'model.layers.{n}': p.grad for n, p in full.named_parameters() if p.requires_grad}

    def keep(weight, tensor, grad):
        assert weight.name not in got and tensor.shape == grad.shape == weight.shape and not torch.is_grad_enabled()
        assert torch.equal(tensor, full.get_parameter(weight.name.removeprefix('model.layers.')))
        got[weight.name] = grad.clone()

    with penstock.torch.offload_modules(empty, name, window=window, on_grad=keep):
        loss(empty, x).backward()
    assert got.keys() == want.keys() and all(torch.equal(got[n], want[n]) for n in want)
    assert is_as_before(empty) and all(p.grad is None for p in empty.parameters())


@each([None, '128KiB'])
def weights_in_storage_are_trained(window):
    """A step for each weight as soon as its gradient is there; the model is what came of it when all are done."""
    full, name, empty = trained()

    def step(weight, tensor, grad):
        new.write(weight, tensor.sub(grad, alpha=0.1))

    for i in range(4):
        x = torch.randn(3, WIDTH)
        with penstock.WeightUpdate(name) as new, penstock.torch.offload_modules(empty, name, window=window, on_grad=step):
            want, got = loss(full, x), loss(empty, x)
            want.backward()
            got.backward()
            assert torch.equal(want, got), (i, want, got)
            assert torch.equal(loss(empty, x), want)  # the state it was opened with
        with torch.no_grad():
            for p in full.parameters():
                if p.grad is not None:
                    p.sub_(p.grad, alpha=0.1)
                    p.grad = None
    there = penstock.safetensors.load_file(name, verify='require')
    assert all(torch.equal(there[f'model.layers.{n}'], t) for n, t in full.state_dict().items())


@case
def an_exception_in_on_grad_ends_backward_and_nothing_else():
    full, name, empty = trained()
    x = torch.randn(3, WIDTH)

    def fails(weight, tensor, grad):
        raise ArithmeticError('as asked')

    with penstock.torch.offload_modules(empty, name, window='128KiB', on_grad=fails):
        for _ in range(20):
            raises(ArithmeticError, loss(empty, x).backward)
            assert torch.equal(loss(empty, x), loss(full, x))
    assert is_as_before(empty)


@case
def an_exception_in_a_module_leaves_nothing_behind():
    full, name, empty = model()
    x = torch.randn(3, WIDTH)
    with penstock.torch.offload_modules(empty, name, window='128KiB'):
        for _ in range(20):  # would fill the window if layers were not given back
            empty[2].fails = True
            raises(ArithmeticError, forward, empty, x)
            assert all(p.device.type == 'meta' for p in empty.parameters())
            empty[2].fails = False
            y = torch.ones(2, requires_grad=True).exp()  # no hooks of ours are left: nothing is packed
            y.sum().backward()
            assert torch.equal(forward(empty, x), forward(full, x))


@case
def what_does_not_fit_is_named():
    full, name, empty = model()

    def why(*args, **how):
        return str(raises(ValueError, penstock.torch.offload_modules, *args, **how))

    assert 'model.layers.0.up.weight' in why(blocks(device='meta', dtype=torch.float16), name)
    assert 'model.layers.0.weight' in why([torch.nn.Linear(3, 3)], name)
    assert '0 to 5' in why([*empty, *empty[:1]], name)
    assert 'other' in why(empty, name, prefix='other')
    assert 'none' in why([], name)
    with penstock.WeightWindow(name) as window:
        assert 'experts' in why(empty, window)
    assert is_as_before(empty)


@case
def a_stream_that_is_given_stays_open():
    full, name, empty = model()
    x = torch.randn(2, WIDTH)
    with penstock.WeightWindow(name, experts=True) as window, torch.no_grad():
        for _ in range(2):
            handle = penstock.torch.offload_modules(empty, window, prefix='model.layers')
            assert torch.equal(empty[0](x), full[0](x))  # the rest is wanted, and never taken
            handle.remove()
            handle.remove()
            assert is_as_before(empty) and not window.closed
        assert window.next() is None


@case
def hooks_leak_nothing():
    full, name, empty = model()
    x = torch.randn(2, WIDTH, requires_grad=True)
    own = [id(p) for p in empty.parameters()]
    train = hasattr(torch.Tensor, 'register_post_accumulate_grad_hook')
    empty.requires_grad_(train)
    count = 0

    def told(weight, tensor, grad):
        nonlocal count
        count += 1

    def once():
        handle = penstock.torch.offload_modules(empty, name, window='128KiB', on_grad=told if train else None)
        forward(empty, x).sum().backward()
        window = weakref.ref(handle.window)
        handle.remove()
        return window

    once()
    gc.collect()
    before, files = len(gc.get_objects()), descriptors()
    gone = [once() for _ in range(20)]
    gc.collect()
    assert not any(ref() for ref in gone)
    assert len(gc.get_objects()) - before < 20 + 20, len(gc.get_objects()) - before  # the list itself
    assert count == (21 * len(own) if train else 0)
    assert descriptors() == files and own == [id(p) for p in empty.parameters()] and is_as_before(empty)


run(*cases)
