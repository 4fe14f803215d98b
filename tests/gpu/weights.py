# SPDX-License-Identifier: Apache-2.0
"""penstock.WeightWindow and offload_modules() with a window on a device: what they give, and how fast; for tests/gpu/weights.sh.

    weights.py FOLDER [--device cuda] [--bytes 2G] [--rounds 3]

A model of blocks on the device is saved, and then run with weights from storage beside the plain one: the
results, and the gradients of what went in and of the weights, must be the same, up to the rounding of another kernel, which is
told: a GPU chooses it by where a matrix begins.  Every tensor of the window is compared with the model's, bit for bit.  With --device
cpu it runs where there is no GPU.
"""
import argparse
import os
import statistics
import sys
import time
import traceback

import torch

import penstock
import penstock.safetensors
import penstock.torch

UNITS = {'M': 20, 'G': 30}


def nbytes(text):
    return int(text[:-1]) << UNITS[text[-1].upper()]


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument('folder')
parser.add_argument('--device', default='cuda')
parser.add_argument('--bytes', type=nbytes, default=2 << 30)
parser.add_argument('--rounds', type=int, default=3)
args = parser.parse_args()
on_gpu = args.device != 'cpu'
WIDTH, INNER = (4096, 14336) if on_gpu else (256, 1024)
BLOCK = 2 * (3 * WIDTH * INNER)  # bytes
failed = []


class Block(torch.nn.Module):
    """The part of a llama's layer that has most of its weights."""

    def __init__(self, **how):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(WIDTH, INNER, bias=False, **how) for _ in range(2))
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False, **how)

    def forward(self, x):
        y = torch.nn.functional.rms_norm(x, (WIDTH,))
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def blocks(device):
    n = max(4, args.bytes // BLOCK)
    return torch.nn.ModuleList(Block(device=device, dtype=torch.bfloat16) for _ in range(n)).requires_grad_(False)


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def timed(function):
    synchronize()
    begin = time.perf_counter()
    out = function()
    synchronize()
    return time.perf_counter() - begin, out


def step(function):
    try:
        print(f'{function.__name__.replace("_", " ")}: {function()}', flush=True)
    except Exception:
        traceback.print_exc()
        print(f'{function.__name__.replace("_", " ")}: FAILED', flush=True)
        failed.append(function.__name__)


def same(a, b):
    """How far the two are apart, by their norms; more than rounding explains is an error."""
    if torch.equal(a, b):
        return 0
    apart = float((a.float() - b.float()).norm() / a.float().norm())
    assert apart < 0.02, f'they are {apart:.3g} apart'
    return apart


def said(apart):
    return 'bit for bit' if apart == 0 else f'at most {apart:.2g} apart, by rounding'


def forward(modules, x):
    for module in modules:
        x = module(x)
    return x


torch.manual_seed(3)
plain, empty = blocks(args.device), blocks('meta')
state = {f'model.layers.{n}': t for n, t in plain.state_dict().items()}
total = sum(t.numel() * t.element_size() for t in state.values())
window = max(3 * BLOCK, total // 3)
name = os.path.join(args.folder, 'blocks.safetensors')
x = torch.randn(16, WIDTH, device=args.device, dtype=torch.bfloat16)


def rate(seconds):
    return f'{total / statistics.median(seconds) / 1e9:.2f} GB/s'


def saved():
    seconds, _ = timed(lambda: penstock.safetensors.save_file(state, name))
    return f'{total / 1e9:.2f} GB at {rate([seconds])}'


def every_tensor_is_the_one_of_the_model():
    count = 0
    for turn in range(2):
        with penstock.WeightWindow(name, window=window, device=args.device, framework='pt') as weights:
            for layer in weights:
                for key, tensor in layer.items():
                    # The view is used by work that is queued; it must be done before the room is used again.
                    assert torch.equal(tensor, state[key]), f'{key} differs in turn {turn}'
                    count += 1
    assert count == 2 * len(state)
    return f'{count} compared'


def read_all(device, **how):
    def run():
        with penstock.WeightWindow(name, window=window, device=device, framework='pt', **how) as weights:
            for _ in weights:
                pass
            return weights.stats()
    return timed(run)


def WeightWindow_into_host_and_device():
    kinds = {'host': ('cpu', {}), **({'pinned': ('cpu', {'pinned': True}), 'GPU': (args.device, {})} if on_gpu else {})}
    seconds, stats = {k: [] for k in kinds}, {}
    for number in range(args.rounds):
        for kind in list(kinds) if number % 2 else list(kinds)[::-1]:
            device, how = kinds[kind]
            took, stats[kind] = read_all(device, **how)
            seconds[kind].append(took)
    for kind, s in stats.items():
        copy = f', copied at {s["bytes_copied"] / s["copy_ns"]:.2f} GB/s' if s['copy_ns'] else ''
        print(f'    {kind:7} {rate(seconds[kind])}, read at {s["bytes_read"] / s["disk_ns"]:.2f} GB/s{copy}')
    middle = {k: statistics.median(s) for k, s in seconds.items()}
    return ', '.join(f'{k} {middle["host"] / t:.3f} of host' for k, t in middle.items())


def modules_run_as_the_plain_ones_do():
    with torch.no_grad():
        want = forward(plain, x)
        with penstock.torch.offload_modules(empty, name, window=window, device=args.device) as offloaded:
            apart = max(same(forward(empty, x), want) for _ in range(args.rounds))
            took = [timed(lambda: forward(empty, x))[0] for _ in range(args.rounds)]
            s = offloaded.window.stats()
    synchronize()
    bare = [timed(lambda: forward(plain, x))[0] for _ in range(args.rounds)]
    return (f'{said(apart)}; a pass in {statistics.median(took):.3f} s, {rate(took)} (in memory {statistics.median(bare):.4f} s), '
            f'stalled for the disk {s["stall_disk_ns"] / 1e9:.2f} s, for copies {s["stall_copy_ns"] / 1e9:.2f} s')


def gradients_are_those_of_the_plain_ones():
    a, b = (x.clone().requires_grad_() for _ in range(2))
    forward(plain, a).float().square().mean().backward()
    with penstock.torch.offload_modules(empty, name, window=window, device=args.device):
        forward(empty, b).float().square().mean().backward()
    return said(same(a.grad, b.grad))


def gradients_of_weights_are_those_of_the_plain_ones():
    apart, written = {}, 0
    plain.requires_grad_(True)
    empty.requires_grad_(True)
    forward(plain, x).float().square().mean().backward()
    want = {f'model.layers.{n}': p.grad for n, p in plain.named_parameters()}

    def step(weight, tensor, grad):
        nonlocal written
        assert torch.equal(tensor, state[weight.name])
        apart[weight.name] = same(want[weight.name], grad)
        new.write(weight, -tensor)
        written += weight.nbytes

    with penstock.WeightUpdate(name) as new, \
            penstock.torch.offload_modules(empty, name, window=window, device=args.device, on_grad=step):
        forward(empty, x).float().square().mean().backward()
    plain.requires_grad_(False)
    empty.requires_grad_(False)
    for p in plain.parameters():
        p.grad = None
    assert apart.keys() == state.keys() and written == total
    with penstock.WeightWindow(name, window=window, device=args.device, framework='pt') as weights:
        assert all(torch.equal(tensor, -state[key]) for layer in weights for key, tensor in layer.items()), 'written'
    return f'{said(max(apart.values()))}, {written / 1e9:.2f} GB written beside it'


def nothing_is_left_on_the_device():
    if not on_gpu:
        return 'no device'
    torch.cuda.synchronize()
    left = torch.cuda.memory_allocated() - before
    assert left < BLOCK, f'{left >> 20} MiB more than before'
    return f'{left >> 20} MiB more than before'


before = torch.cuda.memory_allocated() if on_gpu else 0
print(f'{torch.cuda.get_device_name() if on_gpu else "CPU"}, torch {torch.__version__}, {len(plain)} blocks of {BLOCK >> 20} MiB, '
      f'window {window >> 20} MiB')
for each in (saved, every_tensor_is_the_one_of_the_model, WeightWindow_into_host_and_device, modules_run_as_the_plain_ones_do,
             gradients_are_those_of_the_plain_ones, gradients_of_weights_are_those_of_the_plain_ones, nothing_is_left_on_the_device):
    step(each)
sys.exit(1 if failed else 0)
