# SPDX-License-Identifier: Apache-2.0
"""GPU memory beside host memory: checkpoints, the store, striped files, small reads; for tests/gpu/speed.sh.

    speed.py PENSTOCK FOLDER [--device cuda] [--size 4G] [--rounds 3] [--seconds 270] [--only PART,...] [--json FILE]
        [--memory 64M,...]

--memory: what the store has for buffers, one after the other.

Contenders take turns, in an order that changes from round to round, after one turn that is not counted.  Figures are
medians; a ratio is the median of those of the rounds.  What is saved is durable when the clock stops, what is
loaded comes from storage.  Everything that was read is compared, once, outside the clock.  A part begins no round
that would not end in its share of --seconds; how many there were is told.  The last line is JSON: medians in GB/s, of
small reads in operations a second; FILE gets every round.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch

import pyckpt
import penstock
import penstock.safetensors
import penstock.torch

MIB, VALUE, SMALL = 1 << 20, 4 << 20, 4096
parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument('penstock')
parser.add_argument('folder')
parser.add_argument('--device', default='cuda')
parser.add_argument('--size', type=pyckpt.size_of)
parser.add_argument('--rounds', type=int, default=3)
parser.add_argument('--seconds', type=float, default=270)
parser.add_argument('--only', default='small,stripe,store,ckpt')
parser.add_argument('--memory', type=lambda s: [pyckpt.size_of(m) for m in s.split(',')], default=[0])
parser.add_argument('--json')
args = parser.parse_args()
on_gpu = args.device != 'cpu'
size = args.size or (4096 if on_gpu else 64) * MIB
results, targets, failed = [], [], []


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def noise(nbytes, seed):
    generator = torch.Generator(args.device).manual_seed(seed)
    return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device=args.device, generator=generator)


def memories(device):
    """What is on the device, and the same in ordinary memory: {'host': ..., 'GPU': ...}."""
    host = {k: v.to('cpu', copy=True) for k, v in device.items()}
    return {'host': host, 'GPU': device}


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def same(name, got, want):
    for key in want:
        a, b = (t[key].reshape(-1).view(torch.uint8) for t in (got, want))  # as bytes: some are no numbers
        if not torch.equal(a, b.to(a.device)):
            raise AssertionError(f'{name}: {key} is wrong')


def timed(call, before):
    if before:
        before()
    synchronize()
    begin = time.perf_counter()
    out = call()
    synchronize()
    return time.perf_counter() - begin, out


def take_turns(contenders, share, rounds=0, slow=()):
    """@contenders: {name: (call, before, check)}; {name: seconds of each round}.  The @slow ones miss every second turn, and
    their first one counts."""
    end = time.perf_counter() + share * args.seconds
    seconds, names, longest = {name: [] for name in contenders}, list(contenders), 0
    for turn in range((rounds or args.rounds) + 1):
        begin = time.perf_counter()
        if turn > 1 and begin + longest > end:
            break
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            if name in slow and turn % 2:
                continue
            call, before, check = contenders[name]
            took, out = timed(call, before)
            if turn == 0 and check:
                check(out)
            del out
            seconds[name].append(took)
        longest = time.perf_counter() - begin
    return {name: times if name in slow else times[1:] for name, times in seconds.items()}


def add(part, seconds, nbytes, ops=0):
    print(f'\n{part}')
    for name, times in seconds.items():
        middle = statistics.median(times)
        row = {'part': part, 'name': name, 'rounds': len(times), 'seconds': times, 'GB/s': nbytes / middle / 1e9,
               **({'ops/s': ops / middle} if ops else {})}
        results.append(row)
        print(f'  {name:42} {row["GB/s"]:7.3f} GB/s ({nbytes / max(times) / 1e9:.3f} .. {nbytes / min(times) / 1e9:.3f})'
              + (f' {row["ops/s"]:9.0f} a second' if ops else '') + f'  {len(times)} rounds', flush=True)


def target(text, value, limit):
    targets.append({'target': text, 'value': value, 'limit': limit, 'met': value >= limit})
    print(f'  {"met" if value >= limit else "NOT met"}: {text}: {value:.3g}, asked for {limit:.3g}', flush=True)


def of_host(part, seconds, name, limit):
    ratios = [h / g for h, g in zip(seconds[f'{name}, host'], seconds[f'{name}, GPU'])]
    target(f'{part}: {name}, GPU of host', statistics.median(ratios), limit)


# -------------------------------------------------------------------- parts

def ckpt():
    """All in one order of turns; the ways of others are slow and have fewer."""
    own, count = pyckpt.st_torch, 32
    state = memories({f'layer.{i}': noise(size // count, i).view(torch.bfloat16) for i in range(count)})
    ways = {
        'penstock.torch': ('.pt', lambda s, p: penstock.torch.save(s, p), lambda p, d: penstock.torch.load(p, d)),
        'penstock.safetensors': ('.safetensors', lambda s, p: penstock.safetensors.save_file(s, p),
                               lambda p, d: penstock.safetensors.load_file(p, d)),
        'torch': ('.pt', lambda s, p: pyckpt.durable(lambda q: torch.save(s, q), p), lambda p, d: torch.load(p, d))}
    if own:
        ways['safetensors'] = ('.safetensors', lambda s, p: pyckpt.durable(lambda q: own.save_file(s, q), p),
                               lambda p, d: own.load_file(p, d))
    else:
        print("safetensors' own: not here")
    saves, loads = {}, {}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for way, (ending, save, load) in ways.items():
            for place in state:
                path = os.path.join(folder, f'{way}-{place}{ending}')
                where = 'cpu' if place == 'host' else args.device
                saves[f'{way}, {place}'] = (lambda s=save, p=path, k=place: s(state[k], p), None, None)
                loads[f'{way}, {place}'] = (
                    lambda f=load, p=path, d=where: touched(f(p, d)), lambda p=path: pyckpt.drop(p),
                    lambda got, k=place, w=way: same(w, got, state[k]))
        for what, contenders, share in ('save', saves, 0.4), ('load', loads, 0.2):
            part = f'{what}, {size >> 20} MiB, {"durable" if what == "save" else "cold"}'
            seconds = take_turns(contenders, share, slow=[c for c in contenders if not c.startswith('penstock')])
            add(part, seconds, size)
            for way in 'penstock.torch', 'penstock.safetensors':
                of_host(what, seconds, way, 0.95)


def touched(tensors):
    pyckpt.touch(tensors)
    return tensors


def store():
    """Values of 4 MiB in one batch, of which the store has no more than --memory in buffers."""
    for memory in args.memory:
        store_with(memory, f', {memory // MIB} MiB of buffers' if len(args.memory) > 1 else '')


def store_with(memory, label):
    count = max(size // 4, 32 * MIB) // VALUE
    whole = memories({'all': noise(count * VALUE, 100)})
    keys = [f'key {i}' for i in range(count)]
    views = {k: list(w['all'].view(count, VALUE)) for k, w in whole.items()}
    into = {k: torch.zeros_like(w['all']) for k, w in whole.items()}
    got = {k: list(w.view(count, VALUE)) for k, w in into.items()}

    def all_of(done):
        assert all(done), f'{sum(done)} of {count}'

    share = 0.08 / len(args.memory)
    with penstock.Store([os.path.join(args.folder, 'store')], 4 * count * VALUE, memory=memory) as s:
        for what in 'set', 'get':
            contenders = {}
            for place in views:
                name = f'penstock.Store, {place}'
                if what == 'set':
                    contenders[name] = (lambda v=views[place]: all_of(s.set_many(keys, v)), None, None)
                else:
                    contenders[name] = (lambda v=got[place]: all_of(s.get_many(keys, v)), into[place].zero_,
                                        lambda _, k=place: same(what, {'all': into[k]}, whole[k]))
            part = f'{what}, {count} values of 4 MiB{label}'
            seconds = take_turns(contenders, share, 7)
            add(part, seconds, count * VALUE)
            of_host(what + label, seconds, 'penstock.Store', 0.9)
        stats = s.stats()
        print(f'  {stats["hits_recent"] / stats["gets"]:.3f} of the gets from memory')


def stripe():
    """Two folders on one disk: that every byte is where it belongs, at odd places, too."""
    name = os.path.join(args.folder, 'striped')
    folders = [os.path.join(args.folder, f'member{i}') for i in (1, 2)]
    for f in folders:
        os.mkdir(f)
    subprocess.run([args.penstock, 'stripe', 'create', name, '--unit', '2M', *folders], check=True)
    want = memories({'all': noise(max(size // 4, 32 * MIB), 200)})
    into = {k: torch.zeros_like(w['all']) for k, w in want.items()}
    with penstock.Handle() as h:
        def read(place):
            assert h.read(into[place], name) == nbytes(into[place])

        def check(place):
            for k in into:
                into[k].zero_()
                read(k)
                same(f'striped, written from {place}, read into {k}', {'all': into[k]}, want[place])

        for what in 'write', 'read':
            contenders = {
                f'striped, {k}': (lambda k=k: h.write(want[k]['all'], name, 0) if what == 'write' else read(k), None,
                                  (lambda _, k=k: check(k)) if what == 'write' else None) for k in want}
            part = f'{what} {nbytes(into["host"]) >> 20} MiB over two folders of one disk'
            add(part, take_turns(contenders, 0.05), nbytes(into['host']))
        for offset, length in (1, 5 * MIB + 3), (2 * MIB - 1, 2), (4 * MIB + 4095, 9 * MIB), (3 * MIB, 1):
            for k, w in want.items():
                h.write(w['all'][:length], name, offset)
                for other in into:
                    back = torch.zeros(length, dtype=torch.uint8, device=into[other].device)
                    h.read(back, name, offset)
                    same(f'{length} at {offset}', {'all': back}, {'all': want[other]['all'][:length]})
    members = [os.path.getsize(os.path.join(f, n)) for f in folders for n in os.listdir(f)]
    print(f'  right, also at odd places; members of {", ".join(map(str, members))} bytes')
    for command in 'check', 'rm':
        subprocess.run([args.penstock, 'stripe', command, name], check=True, stdout=subprocess.DEVNULL)
    for f in folders:
        os.rmdir(f)


def small():
    """Reads of 4 KiB, one call each and all in flight; where nothing but the calls takes time."""
    count = 8192
    want = noise(count * SMALL, 300)
    into = {k: torch.zeros_like(w['all']) for k, w in memories({'all': want}).items()}
    pieces = {k: list(t.view(count, SMALL)) for k, t in into.items()}
    for where, folder, direct in (('tmpfs', '/dev/shm', 'never'), ('page cache', args.folder, 'never'),
                                  ('O_DIRECT', args.folder, 'auto')):
        path = os.path.join(folder, f'penstock-small-{os.getpid()}')
        part = f'{count} reads of 4 KiB, {where}'
        try:
            with contextlib.ExitStack() as undo:
                contenders = {}
                with open(path, 'wb') as f:
                    f.write(want.cpu().numpy().tobytes())
                    os.fsync(f.fileno())
                for label, options in ('', {}), (', 4 I/O threads', {'threads': 4}):
                    h = undo.enter_context(penstock.Handle(direct=direct, **options))
                    file = undo.enter_context(h.open(path))
                    for k, list_ in pieces.items():
                        items = [(p, file, i * SMALL) for i, p in enumerate(list_)]

                        def each(h=h, items=items):
                            read = h.read_async
                            for item in items:
                                read(*item)
                            h.wait()

                        def check(_, k=k):
                            same(part, {'all': into[k].to(want.device)}, {'all': want})

                        contenders[f'one call each, {k}{label}'] = (each, into[k].zero_, check)
                        contenders[f'one batch, {k}{label}'] = (lambda h=h, items=items: h.read_batch(items), into[k].zero_,
                                                                check)
                seconds = take_turns(contenders, 0.04, 15)
                add(part, seconds, count * SMALL, count)
                best = max(count / statistics.median(t) for n, t in seconds.items() if n.startswith('one call each, GPU'))
                target(f'{where}: one call each into GPU memory, a second', best, 110000)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


print(f'{torch.cuda.get_device_name() if on_gpu else "CPU"}, torch {torch.__version__}, penstock {penstock.__version__}, '
      f'{os.cpu_count()} processors, {size >> 20} MiB')
begin = time.perf_counter()
for word in args.only.split(','):
    try:
        {'ckpt': ckpt, 'store': store, 'stripe': stripe, 'small': small}[word]()
    except Exception:
        traceback.print_exc()
        failed.append(word)
    if on_gpu:
        torch.cuda.empty_cache()
    print(f'-- {word}: {"FAILED" if word in failed else "ok"}, {time.perf_counter() - begin:.0f} s', flush=True)
report = {'device': args.device, 'failed': failed, 'targets': targets, 'results': results}
if args.json:
    with open(args.json, 'w') as f:
        json.dump(report, f, indent=1)
short = {}
for r in results:
    short.setdefault(r['part'], {})[r['name']] = round(r.get('ops/s', r['GB/s']), 3)
print(json.dumps({'failed': failed, 'medians': short, 'targets': {t['target']: round(t['value'], 3) for t in targets}}))
sys.exit(1 if failed else 0)
