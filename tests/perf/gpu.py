#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPU memory: the pinned pool and cuFile beside pinned host memory and beside cuFile called directly.

    gpu.py [--dir DIR] [--rounds N] [--size BYTES] [--json FILE]

Needs torch with CUDA and the package on PYTHONPATH.  Contenders take turns, in an order that changes
from round to round; figures are medians.  The exit status says whether everything ran and whether
the data was right, never how fast.  docs/gpu.md has the results.
"""
import argparse
import contextlib
import ctypes
import json
import os
import resource
import statistics
import sys
import tempfile
import time

import penstock
import torch

GIB = 1 << 30


# ------------------------------------------------------- cuFile without us

class Refused(Exception):
    pass


class CuFile:
    """One file and one tensor by cuFile itself: registered until the end, whole transfers."""

    class Error(ctypes.Structure):
        _fields_ = [('err', ctypes.c_int), ('cu', ctypes.c_int)]

    def __init__(self, path, tensor, flags):
        try:
            self.lib = ctypes.CDLL('libcufile.so.0')
        except OSError as why:
            raise Refused(str(why)) from why
        for name in ('cuFileDriverOpen', 'cuFileHandleRegister', 'cuFileBufRegister',
                     'cuFileBufDeregister'):
            getattr(self.lib, name).restype = self.Error
        for name in ('cuFileRead', 'cuFileWrite'):
            function = getattr(self.lib, name)
            function.restype = ctypes.c_ssize_t
            function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64,
                                 ctypes.c_int64]
        self.tensor, self.handle = tensor, ctypes.c_void_p()
        self.address = ctypes.c_void_p(tensor.data_ptr())
        self.undo = contextlib.ExitStack()
        try:
            self.register(path, flags)
        except BaseException:
            self.undo.close()
            raise

    def register(self, path, flags):
        self.fd = os.open(path, flags)
        self.undo.callback(os.close, self.fd)
        descr = (ctypes.c_char * 24)()
        ctypes.c_int.from_buffer(descr, 0).value = 1  # an ordinary descriptor
        ctypes.c_int.from_buffer(descr, 8).value = self.fd
        error = self.lib.cuFileDriverOpen()
        if error.err != 5026:  # open already
            self.check('cuFileDriverOpen', error)
        self.check('cuFileHandleRegister',
                   self.lib.cuFileHandleRegister(ctypes.byref(self.handle), descr))
        self.undo.callback(self.lib.cuFileHandleDeregister, self.handle)
        self.check('cuFileBufRegister', self.lib.cuFileBufRegister(
            self.address, ctypes.c_size_t(self.tensor.nbytes), 0))
        self.undo.callback(self.lib.cuFileBufDeregister, self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo.close()

    @staticmethod
    def check(name, error):
        if error.err:
            raise Refused(f'{name}: {error.err}')

    def move(self, function):
        n = function(self.handle, self.address, self.tensor.nbytes, 0, 0)
        if n != self.tensor.nbytes:
            raise OSError(f'cuFile moved {n} of {self.tensor.nbytes} bytes')

    def read(self):
        self.move(self.lib.cuFileRead)

    def write(self):
        self.move(self.lib.cuFileWrite)


# ------------------------------------------------------------------ running

def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(function):
    torch.cuda.synchronize()
    wall, used = time.perf_counter(), cpu()
    function()
    torch.cuda.synchronize()
    return time.perf_counter() - wall, cpu() - used


def interleave(contenders, rounds):
    """{name: function} -> {name: [(seconds, CPU seconds)]}; two untimed rounds first."""
    samples, names = {name: [] for name in contenders}, list(contenders)
    for i in range(-2, rounds):
        at = i % len(names)
        for name in names[at:] + names[:at]:
            sample = timed(contenders[name])
            if i >= 0:
                samples[name].append(sample)
    return samples


def median(samples, which=0):
    return statistics.median(s[which] for s in samples)


class Table:
    def __init__(self):
        self.results, self.targets = {}, []

    def add(self, part, samples, nbytes, ops=None):
        print(f'\n{part}')
        for name, list_ in samples.items():
            seconds = median(list_)
            row = {'GB/s': nbytes / seconds / 1e9, 'CPU s/GiB': median(list_, 1) / (nbytes / GIB),
                   'min': nbytes / max(s[0] for s in list_) / 1e9,
                   'max': nbytes / min(s[0] for s in list_) / 1e9}
            if ops:
                row['ops/s'] = ops / seconds
            self.results.setdefault(part, {})[name] = row
            print(f'  {name:<34} {row["GB/s"]:8.3f} GB/s ({row["min"]:.3f} .. {row["max"]:.3f})'
                  f' {row["CPU s/GiB"]:8.4f} CPU s/GiB'
                  + (f' {row["ops/s"]:10.0f} ops/s' if ops else ''))

    def target(self, text, value, limit):
        met = value >= limit
        self.targets.append({'target': text, 'value': value, 'limit': limit, 'met': met})
        print(f'  {"met" if met else "NOT met"}: {text}: {value:.3g}, at least {limit:.3g}')

    def figure(self, part, name, key='GB/s'):
        return self.results[part][name][key]


def pattern(nbytes, seed):
    generator = torch.Generator(device='cuda').manual_seed(seed)
    return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device='cuda', generator=generator)


def same(part, got, want):
    if not torch.equal(got, want):
        raise SystemExit(f'{part}: wrong data')


# -------------------------------------------------------------------- parts

def bulk(args, table, path, host, device):
    """One blocking call for everything: the same handle for host and device memory."""
    want = pattern(args.size, 1)
    with penstock.Handle() as handle, contextlib.ExitStack() as undo:
        handle.write(want, path)
        by_cufile, bare = None, None
        try:
            bare = undo.enter_context(CuFile(path, device, os.O_RDWR | os.O_DIRECT))
            by_cufile = undo.enter_context(penstock.Handle('cufile'))
            by_cufile.register(device)
        except (Refused, OSError) as why:
            print(f'  without cuFile: {why}')
        for what in ('read', 'write'):
            part = f'{args.size >> 20} MiB {what}, O_DIRECT'
            ours = getattr(handle, what)
            contenders = {'pinned host memory': lambda: ours(host, path),
                          'GPU memory, pinned pool': lambda: ours(device, path)}
            if bare:
                theirs = getattr(by_cufile, what)
                contenders['GPU memory, engine cufile'] = lambda: theirs(device, path)
                contenders[f'cuFile{what.title()} of everything'] = getattr(bare, what)
            device.copy_(want)
            host.copy_(want)
            if what == 'read':
                device.zero_()
            table.add(part, interleave(contenders, args.rounds), args.size)
            same(part, device, want)
            host_speed = table.figure(part, 'pinned host memory')
            table.target(f'{what}: the pinned pool, of pinned host memory',
                         table.figure(part, 'GPU memory, pinned pool') / host_speed, 0.95)
            if bare:
                table.target(f'{what}: engine cufile, of cuFile itself',
                             table.figure(part, 'GPU memory, engine cufile')
                             / table.figure(part, f'cuFile{what.title()} of everything'), 1.0)
        pool = handle.stats()['pinned_pool_bytes']
        print(f'  the pinned pool has {pool >> 20} MiB')
        table.target('256 MiB, of the size of the pinned pool', (256 << 20) / pool, 1)


def cached(args, table, path, host, device):
    """From the page cache: bound by copies, so I/O threads count."""
    part = f'{args.size >> 20} MiB read, page cache'
    with open(path, 'rb') as f:
        while f.read(64 << 20):
            pass
    with contextlib.ExitStack() as undo:
        contenders = {}
        for name, options in (('pinned pool, 1 I/O thread', {}), ('pinned pool, 4 I/O threads', {'threads': 4}),
                              ('pinned pool, 8 I/O threads', {'threads': 8}),
                              ('pinned pool, engine threads', {'engine': 'threads', 'threads': 4})):
            handle = undo.enter_context(penstock.Handle(direct='never', **options))
            contenders[name] = lambda h=handle: h.read(device, path)
        handle = undo.enter_context(penstock.Handle(direct='never', threads=8))
        contenders['pinned host memory, 8 I/O threads'] = lambda: handle.read(host, path)
        try:
            bare = undo.enter_context(CuFile(path, device, os.O_RDONLY))
            contenders['cuFileRead of everything'] = bare.read
            by_cufile = undo.enter_context(penstock.Handle('cufile', direct='never'))
            by_cufile.register(device)
            contenders['engine cufile'] = lambda: by_cufile.read(device, path)
        except (Refused, OSError) as why:
            print(f'  without cuFile: {why}')
        table.add(part, interleave(contenders, args.rounds), args.size)
        if 'cuFileRead of everything' in contenders:
            best = max(table.figure(part, name) for name in contenders if name.startswith('pinned pool'))
            table.target('the pinned pool, of cuFile in compatibility mode',
                         best / table.figure(part, 'cuFileRead of everything'), 0.8)


SMALL = {4096: ('ops/s', 5 * 25000), 65536: ('ops/s', 4 * 9700), 1 << 20: ('GB/s', 2.5 * 1.5)}


def small(args, table, path, device):
    """Submit all, one wait, as DeepSpeed's figures were taken."""
    for size, (unit, limit) in SMALL.items():
        count = min(args.size // size, 8192 if size < 1 << 20 else 1024)
        part = f'{count} reads of {size >> 10} KiB into GPU memory'
        pieces = list(device[:size * count].view(count, size))
        with contextlib.ExitStack() as undo:
            contenders = {}
            for threads in (1, 4):
                handle = undo.enter_context(penstock.Handle(threads=threads))
                file = undo.enter_context(handle.open(path))
                items = [(piece, file, i * size) for i, piece in enumerate(pieces)]
                name = f'{threads} I/O thread{"s" * (threads > 1)}'
                contenders[name] = lambda h=handle, i=items: h.read_batch(i)

                def each(h=handle, i=items):
                    for piece, f, offset in i:
                        h.read_async(piece, f, offset)
                    h.wait()

                contenders[name + ', one call each'] = each
            table.add(part, interleave(contenders, args.rounds), size * count, count)
        best = max(table.figure(part, name, unit) for name in contenders)
        table.target(f'{size >> 10} KiB: {unit}', best, limit)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--dir', default='.', help='where the file goes (.)')
    p.add_argument('--rounds', type=int, default=7, help='of each contender (7)')
    p.add_argument('--size', type=int, default=GIB, help='bytes of the large transfers (2^30)')
    p.add_argument('--json', metavar='FILE', help='every figure, for other programs')
    args = p.parse_args()
    if not torch.cuda.is_available():
        sys.exit('gpu.py: no CUDA device')
    print(torch.cuda.get_device_name(), '- torch', torch.__version__, '- penstock',
          penstock.__version__)
    os.environ['CUFILE_LOGFILE_PATH'] = os.devnull  # else cuFile leaves a log in this folder
    table = Table()
    device = torch.empty(args.size, dtype=torch.uint8, device='cuda')
    host = penstock.empty(args.size, torch.uint8)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = os.path.join(folder, 'data')
        bulk(args, table, path, host, device)
        small(args, table, path, device)
        cached(args, table, path, host, device)
    missed = [t for t in table.targets if not t['met']]
    print(f'\n{len(table.targets) - len(missed)} targets met, {len(missed)} NOT met')
    if args.json:
        with open(args.json, 'w') as f:
            json.dump({'results': table.results, 'targets': table.targets}, f, indent=1)


if __name__ == '__main__':
    main()
