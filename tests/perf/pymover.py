#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One measurement from Python, printed as one line of JSON in the words of perf-mover.

    pymover.py MODE -f FILE [-s SIZE] [-m MEMORY] [-w WAY] [-c COUNT]

    read, overwrite, fresh   one blocking transfer of -s bytes, as perf-mover does it; -m pinned is
                             penstock.empty(), plain a torch tensor as torch allocates it
    load, store              the same bytes, cold from the file into new memory or durable in it, by
                             -w penstock, numpy (fromfile, tofile), torch (load, save), preadv
                             (os.preadv, os.pwritev with O_DIRECT, 1 MiB a call)
    submit                   -c asynchronous reads of -s bytes on engine null from one thread
    threads                  the same from -t Python threads on one handle with as many I/O threads: -w
                             futures (32 at a time, each waited for), batch (of 32) or blocking; -e another engine, -e "" the usual one
    dropin                   -c asynchronous reads of -s bytes by DeepSpeed's calls, 32 and a wait(), the file by
                             its name, intra_op_parallelism -t

For transfers the clock starts after the same has been done WARM_UP times.
"""
import argparse
import json
import mmap
import os
import resource
import threading
import time

import penstock

try:
    import numpy
    import torch
except ImportError:  # not there for every Python; `threads` needs neither
    numpy = torch = None

WARM_UP = 3  # as measure.h
CHUNK = 1 << 20


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(function):
    """What it returns, wall and CPU seconds."""
    wall, used = time.perf_counter(), cpu()
    result = function()
    return result, {'seconds': time.perf_counter() - wall, 'cpu_seconds': cpu() - used}


def report(sample, nbytes, **more):
    print(json.dumps({'bytes': nbytes, **sample, 'peak': peak(), **more}))


def plain(size):
    """A tensor on ordinary pages, filled."""
    return torch.ones(size, dtype=torch.uint8)


# ------------------------------------------------------------- one transfer

def bulk(args):
    with penstock.Handle() as handle:
        memory = penstock.empty(args.size, torch.uint8) if args.memory == 'pinned' else plain(args.size)
        memory.fill_(7)
        mode = {'read': 'r', 'overwrite': 'r+', 'fresh': 'w+'}[args.mode]

        def move(file):
            if args.mode == 'read':
                handle.read(memory, file)
            else:
                handle.write(memory, file)

        def fresh():
            move(handle.open(args.file, mode))

        with handle.open(args.file, mode) as file:
            for _ in range(WARM_UP):
                move(file)
            if args.mode != 'fresh':
                _, sample = timed(lambda: move(file))
        if args.mode == 'fresh':
            os.unlink(args.file)
            _, sample = timed(fresh)
        stats = handle.stats()
    report(sample, args.size, direct=stats['blocks_direct'] > 0, memory=args.memory,
           fixed=stats['blocks_fixed'])


# ------------------------------------------------------- against other ways

def aligned(size):
    return mmap.mmap(-1, size)


def preadv(path, size):
    memory, fd = aligned(size), os.open(path, os.O_RDONLY | os.O_DIRECT)
    view = memoryview(memory)
    for at in range(0, size, CHUNK):
        os.preadv(fd, [view[at:at + CHUNK]], at)
    os.close(fd)
    return memory


def pwritev(path, tensor):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o644)
    view = memoryview(tensor.numpy())
    for at in range(0, len(view), CHUNK):
        os.pwritev(fd, [view[at:at + CHUNK]], at)
    os.fdatasync(fd)
    os.close(fd)


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.close(fd)


def penstock_load(path, size):
    memory = penstock.empty(size, torch.uint8)
    with penstock.Handle() as handle:
        handle.read(memory, path)
    return memory


def penstock_store(path, tensor):
    with penstock.Handle(durability='data') as handle:
        handle.write(tensor, path, truncate=True)


def numpy_store(path, tensor):
    tensor.numpy().tofile(path)
    sync(path)


def torch_store(path, tensor):
    torch.save(tensor, path)
    sync(path)


LOAD = {
    'penstock': penstock_load,
    'numpy': lambda path, size: numpy.fromfile(path, dtype=numpy.uint8),
    'torch': lambda path, size: torch.load(path),
    'preadv': preadv,
}
STORE = {'penstock': penstock_store, 'numpy': numpy_store, 'torch': torch_store, 'preadv': pwritev}


def forget(path):
    """Take a file out of the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def load(args):
    path = args.file
    if args.way == 'torch':  # its own format
        path += '.pt'
        if not os.fork():  # in a process of its own: its memory is not ours
            torch.save(plain(args.size), path)
            os._exit(0)
        os.wait()
    before = peak()
    try:
        for _ in range(WARM_UP + 1):
            forget(path)
            _, sample = timed(lambda: LOAD[args.way](path, args.size))
        report(sample, args.size, extra=max(0, peak() - before - args.size))
    finally:
        if path != args.file:
            os.unlink(path)


def store(args):
    if args.way == 'preadv':  # O_DIRECT is particular about addresses
        tensor = torch.frombuffer(aligned(args.size), dtype=torch.uint8)
        tensor.fill_(7)
    else:
        tensor = plain(args.size)
    before = peak()
    for i in range(WARM_UP + 1):
        if i:
            os.unlink(args.file)
        _, sample = timed(lambda: STORE[args.way](args.file, tensor))
    report(sample, args.size, extra=peak() - before)


# ------------------------------------------------------------------- submit

def submit(args):
    memory = torch.empty(args.size, dtype=torch.uint8)
    count = args.count
    with penstock.Handle('null') as handle, handle.open(args.file, 'r') as file:
        def each():
            for _ in range(count):
                handle.read_async(memory, file)
            handle.wait()

        def batch():
            for at in range(0, count, 1000):
                handle.read_batch_async([(memory, file)] * min(1000, count - at))
            handle.wait()

        each()
        _, sample = timed(each)
        _, together = timed(batch)
    report(sample, args.size * count, iops=count / sample['seconds'],
           batch_iops=count / together['seconds'])


# ------------------------------------------------------------------ threads

IN_FLIGHT = 32


def futures(handle, file, buffers, n):
    for _ in range(n // IN_FLIGHT):
        for f in [handle.read_async(b, file) for b in buffers]:
            f.result()


def batches(handle, file, buffers, n):
    for _ in range(n // IN_FLIGHT):
        handle.read_batch([(b, file) for b in buffers])


def blocking(handle, file, buffers, n):
    for _ in range(n // IN_FLIGHT):
        for b in buffers:
            handle.read(b, file)


THREADS = {'futures': futures, 'batch': batches, 'blocking': blocking}


def threads(args):
    def work(n):
        buffers = [bytearray(args.size) for _ in range(IN_FLIGHT)]
        THREADS[args.way](handle, file, buffers, n)

    def all_of(n):
        workers = [threading.Thread(target=work, args=(n,)) for _ in range(args.threads)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()

    count = args.count // IN_FLIGHT * IN_FLIGHT
    with penstock.Handle(args.engine or None, threads=args.threads) as handle, handle.open(args.file, 'r') as file:
        all_of(min(count, 10 * IN_FLIGHT))
        _, sample = timed(lambda: all_of(count))
    total = count * args.threads
    report(sample, args.size * total, iops=total / sample['seconds'], way=args.way, threads=args.threads,
           us_per_op=1e6 * sample['cpu_seconds'] / total)


def dropin(args):
    from penstock.deepspeed import aio_handle

    count = args.count // IN_FLIGHT * IN_FLIGHT
    handle = aio_handle(1 << 20, 32, False, True, args.threads)
    memory = [torch.empty(args.size, dtype=torch.uint8) for _ in range(IN_FLIGHT)]

    def all_of(n):
        for _ in range(n // IN_FLIGHT):
            for m in memory:
                handle.async_pread(m, args.file, 0)
            if handle.wait() != IN_FLIGHT:
                raise SystemExit('pymover: some reads were lost')

    all_of(10 * IN_FLIGHT)
    _, sample = timed(lambda: all_of(count))
    report(sample, args.size * count, iops=count / sample['seconds'], way='dropin', threads=args.threads,
           us_per_op=1e6 * sample['cpu_seconds'] / count)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = {'read': bulk, 'overwrite': bulk, 'fresh': bulk, 'load': load, 'store': store,
             'submit': submit, 'threads': threads, 'dropin': dropin}
    p.add_argument('mode', choices=modes)
    p.add_argument('-f', dest='file', required=True)
    p.add_argument('-s', dest='size', type=int, default=1 << 30)
    p.add_argument('-m', dest='memory', choices=['pinned', 'plain'], default='pinned')
    p.add_argument('-w', dest='way', choices=[*LOAD, *THREADS], default='penstock')
    p.add_argument('-t', dest='threads', type=int, default=1)
    p.add_argument('-e', dest='engine', default='null')
    p.add_argument('-c', dest='count', type=int, default=200000)
    args = p.parse_args()
    modes[args.mode](args)


if __name__ == '__main__':
    main()
