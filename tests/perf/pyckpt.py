#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: how fast penstock.torch and penstock.safetensors save and load, beside others and beside the disk.

    PYTHONPATH=build/python PYTHON tests/perf/pyckpt.py [--size 1G] [--rounds 5] [--device cpu] [--dir .] [--only WORD,...]

All that is saved is durable when the clock stops, all that is loaded comes from storage (what is in
the page cache is dropped before) and is touched once in every page, less what that takes when done again.  Contenders take turns; what is
printed are medians, the share of the limit in the same round, and CPU time.  A moment passes between two of them,
in which the file system gives back the space of the file that was replaced, and then as much memory as is loaded is taken and
given back, for a virtual machine whose host has it fetches it page by page.  The limit is perf-bare, one io_uring loop on one buffer, and for
saving one fsync(2) more; for loading there is a second one, whose buffer nobody has touched before.  PYTHON is that of build/peers for all
contenders; fastsafetensors and runai-model-streamer are in tests/peers/loaders.txt.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch

import penstock.safetensors
import penstock.torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BARE = os.path.join(ROOT, 'build', 'tests', 'perf', 'perf-bare')
PAGE = 4096
SETTLE = 0.5  # seconds


def module(name):
    try:
        return __import__(name, fromlist=['x'])
    except ImportError:
        return None


np, st_torch = module('numpy'), module('safetensors.torch')
dcp = None if torch.__version__.startswith('1.') else module('torch.distributed.checkpoint')
fast, runai = module('fastsafetensors'), module('runai_model_streamer')


def size_of(text):
    unit = {'K': 10, 'M': 20, 'G': 30}.get(text[-1], 0)
    return int(text[:-1] if unit else text) << unit


def sync(path):
    for name in path, os.path.dirname(path):
        fd = os.open(name, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def files(path):
    """Of a distributed checkpoint, or the one."""
    return [entry.path for entry in os.scandir(path)] if os.path.isdir(path) else [path]


def drop(path):
    for name in files(path):
        fd = os.open(name, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def touch(obj):
    for value in obj.values() if isinstance(obj, dict) else [obj]:
        flat = value if isinstance(value, torch.Tensor) else torch.from_numpy(value)
        if flat.device.type == 'cpu' and flat.numel():
            flat.reshape(-1).view(torch.uint8)[::PAGE].sum()
        elif flat.device.type == 'cuda':
            torch.cuda.synchronize()


def durable(call, path):
    call(path)
    sync(path)


def dcp_save(state, writer):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # that there is one already
        dcp.save(state, storage_writer=writer, no_dist=True)


def dcp_load(state, reader):
    found = {key: torch.empty_like(tensor) for key, tensor in state.items()}
    dcp.load(found, storage_reader=reader, no_dist=True)
    return found


def fast_load(path, device):
    loader = fast.SafeTensorsFileLoader(fast.SingleGroup(), device, nogds=True)
    loader.add_filenames({0: [path]})
    buffers = loader.copy_files_to_device()
    found = {key: buffers.get_tensor(key).clone() for key in loader.get_keys()}
    buffers.close()
    loader.close()
    return found


def runai_load(path, device):
    with runai.SafetensorsStreamer() as streamer:
        streamer.stream_file(path)
        return {name: tensor.to(device).clone() for name, tensor in streamer.get_tensors()}


def contenders(state, many, place, device):
    """Of saving: name, file, call; of loading: name, file, call."""
    file = {key: os.path.join(place, name) for key, name in (
        ('pt', 'penstock.pt'), ('many', 'many.pt'), ('torch', 'torch.pt'), ('npy', 'array.npy'),
        ('st', 'penstock.safetensors'), ('st_many', 'many.safetensors'), ('theirs', 'theirs.safetensors'))}
    saves = [
        ('penstock.torch.save', file['pt'], lambda p: penstock.torch.save(state, p)),
        ('penstock.torch.save, 10,000 tensors', file['many'], lambda p: penstock.torch.save(many, p)),
        ('torch.save', file['torch'], lambda p: durable(lambda q: torch.save(state, q), p)),
        ('penstock save_file', file['st'], lambda p: penstock.safetensors.save_file(state, p)),
        ('penstock save_file, 10,000 tensors', file['st_many'], lambda p: penstock.safetensors.save_file(many, p))]
    loads = [
        ('penstock.torch.load', file['pt'], lambda p: penstock.torch.load(p, device)),
        ('penstock.torch.load, not verified', file['pt'], lambda p: penstock.torch.load(p, device, verify=False)),
        ('penstock.torch.load, 10,000 tensors', file['many'], lambda p: penstock.torch.load(p, device)),
        ('torch.load', file['torch'], lambda p: torch.load(p, device)),
        ('penstock load_file', file['st'], lambda p: penstock.safetensors.load_file(p, device)),
        ('penstock load_file, not verified', file['st'],
         lambda p: penstock.safetensors.load_file(p, device, verify=False)),
        ('penstock load_file, 10,000 tensors', file['st_many'],
         lambda p: penstock.safetensors.load_file(p, device))]
    if device != 'cpu':
        loads.append(('penstock.torch.load, 10,000, as they were', file['many'], penstock.torch.load))
    if np and device == 'cpu':
        array = state['0'].numpy()
        saves.append(('numpy.save', file['npy'], lambda p: durable(lambda q: np.save(q, array), p)))
        loads.append(('numpy.load', file['npy'], np.load))
    if st_torch:
        saves.append(('safetensors save_file', file['theirs'],
                      lambda p: durable(lambda q: st_torch.save_file(state, q), p)))
        loads.append(('safetensors load_file', file['theirs'], lambda p: st_torch.load_file(p, device)))
    if dcp:
        from penstock.dcp import CheckpointReader, CheckpointWriter
        for key, what in ('dcp', state), ('dcp, 10,000 tensors', many):
            ours, theirs = os.path.join(place, f'penstock {key}'), os.path.join(place, f'torch {key}')
            saves += [(f'penstock.{key}', ours, lambda p, what=what: dcp_save(what, CheckpointWriter(p))),
                      (f"torch's {key}", theirs, lambda p, what=what: durable(
                          lambda q: dcp_save(what, dcp.FileSystemWriter(q)), p))]
            loads += [(f'penstock.{key}', ours, lambda p, what=what: dcp_load(what, CheckpointReader(p))),
                      (f"torch's {key}", theirs, lambda p, what=what: dcp_load(what, dcp.FileSystemReader(p)))]
    if fast:
        loads.append(('fastsafetensors', file['st'], lambda p: fast_load(p, device)))
    if runai:
        loads.append(('runai-model-streamer', file['st'], lambda p: runai_load(p, device)))
    return saves, loads


def limit(what, path, size):
    """Seconds, CPU seconds of the loop."""
    done = subprocess.run([BARE, what, path, str(size)], check=True, stdout=subprocess.PIPE, text=True)
    got = json.loads(done.stdout)
    seconds = size / got['bytes_per_second'] if 'bytes_per_second' in got else got['seconds']
    if what == 'fresh':
        start = time.perf_counter()
        sync(path)
        seconds += time.perf_counter() - start
    return seconds, got.get('cpu_seconds', 0.0)


def timed(call, path, load):
    if load:
        drop(path)
    time.sleep(SETTLE)
    if load:
        torch.ones(sum(map(os.path.getsize, files(path))), dtype=torch.uint8)
    cpu, start = time.process_time(), time.perf_counter()
    result = call(path)
    if load:
        touch(result)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    if load:  # once more, when all of it is there: what looking takes is not the loader's
        cpu, start = time.process_time(), time.perf_counter()
        touch(result)
        seconds, used = seconds - (time.perf_counter() - start), used - (time.process_time() - cpu)
    return seconds, used


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--size', type=size_of, default=1 << 30)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--device', default='cpu')
    p.add_argument('--dir', default='.')
    p.add_argument('--only', default='')
    a = p.parse_args()
    words = [w for w in a.only.split(',') if w]
    state = {'0': torch.rand(a.size // 4, device=a.device)}
    many = {str(i): torch.rand(a.size // 4 // 10000, device=a.device) for i in range(10000)}
    print(f'torch {torch.__version__}, {a.size / 2 ** 30:g} GiB on {a.device}, medians of {a.rounds}, in {a.dir}')
    with tempfile.TemporaryDirectory(prefix='ckpt-', dir=a.dir) as place:
        saves, loads = contenders(state, many, place, a.device)
        for kind, what, load in ((saves, 'fresh', False), (loads, 'read', True)):
            kind = [c for c in kind if not words or any(w in c[0] for w in words)]
            seen, shares = {}, {}
            for turn in range(a.rounds + 1):  # of which the first is not counted
                base = limit(what, os.path.join(place, 'bare'), a.size)
                fresh = limit('load', os.path.join(place, 'bare'), a.size) if load else base
                for name, path, call in kind:
                    try:
                        one = timed(call, path, load)
                    except Exception as error:
                        print(f'# {name}: {error!r}'[:200], file=sys.stderr)
                        continue
                    if turn:
                        seen.setdefault(name, []).append(one)
                        shares.setdefault(name, []).append((base[0] / one[0], fresh[0] / one[0]))
                if turn:
                    seen.setdefault('the limit', []).append(base)
                if turn and load:
                    seen.setdefault('the limit, fresh memory', []).append(fresh)
            report('save' if not load else 'load', a.size, seen, shares)


def report(what, size, seen, shares):
    gib = size / 2 ** 30
    last = f' {"of fresh":>9}' if what == 'load' else ''
    print(f'\n{what:40} {"GB/s":>6} {"of the limit":>13} {"CPU s/GiB":>10}{last}')
    for name, times in seen.items():
        seconds = statistics.median(t for t, _ in times)
        cpu = statistics.median(c for _, c in times) / gib
        two = [f'{statistics.median(share):.2f}' for share in zip(*shares.get(name, ()))] or ['', '']
        print(f'{name:40} {size / seconds / 1e9:6.2f} {two[0]:>13} {cpu:10.2f}{two[1]:>10}' if last else
              f'{name:40} {size / seconds / 1e9:6.2f} {two[0]:>13} {cpu:10.2f}')


if __name__ == '__main__':
    main()
