#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights streamed through a window beside a bare loop that reads the same file into as much memory.

    weights.py [--build DIR] [--dir DIR] [--size BYTES] [--window BYTES] [--rounds N] [--seconds S]
              [--only PART,...] [--gpu] [--json FILE]

Parts: large (tensors of 32 MiB, nothing computed), small (as many bytes in 100,000 tensors), overlap (each group
is held for the time that reading it takes), stripes (over 1, 2 and 4 throttled devices, and overlap on one; root).  --gpu adds windows in
the memory of a GPU.  What is compared takes turns, and ratios of medians are shown.  Promised: 0.97 of the limit, with less
than 1 % of the bytes left in the page cache; small 0.9 of large; overlap 0.95; a GPU 0.95 of the host; 4 devices 3.8 of one.
Where perf-bare is not built, the limit is what the command finds between its turns.  The exit status says whether
everything ran.
"""
import argparse
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile

import fio
import places
import stripe
from bench import Variant, interleave, ratio, show, speed

PARTS = ['large', 'small', 'overlap', 'stripes']
LAYERS, TENSORS, SMALL = 32, 4, 100000
UNITS = {'K': 10, 'M': 20, 'G': 30}
RATE = 100 << 20  # of a throttled device, bytes a second


def nbytes(text):
    return int(text[:-1]) << UNITS[text[-1].upper()] if text[-1].upper() in UNITS else int(text)


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('--build', default=os.path.join(here, '../../build'))
    p.add_argument('--dir', default='.')
    p.add_argument('--size', type=nbytes, default=4 << 30)
    p.add_argument('--window', type=nbytes, default=min(2 << 30, places.meminfo('MemAvailable') // 4))
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--seconds', type=float, default=4)
    p.add_argument('--only', default=','.join(PARTS))
    p.add_argument('--gpu', action='store_true')
    p.add_argument('--json')
    return p.parse_args()


# ---- models

def header(size, tensors, layers=LAYERS):
    """The beginning of a file of safetensors of exactly @size bytes, in so many tensors."""
    names = [f'model.layers.{i * layers // tensors}.t{i:06}' for i in range(tensors)]

    def text(data):
        ends = [data * i // tensors for i in range(tensors + 1)]
        return json.dumps({name: {'dtype': 'U8', 'shape': [e - b], 'data_offsets': [b, e]}
                           for name, b, e in zip(names, ends, ends[1:])}, separators=(',', ':')).encode()

    room = len(text(size)) + 7 & ~7  # with the longest numbers there can be
    return struct.pack('<Q', room) + text(size - 8 - room).ljust(room)


def make_model(path, size, tensors):
    """Bytes repeat after 64 MiB, which no disk looks for."""
    block = os.urandom(64 << 20)
    with open(path, 'wb') as f:
        left = size - f.write(header(size, tensors))
        while left:
            left -= f.write(memoryview(block)[:min(left, len(block))])
        f.flush()
        os.fsync(f.fileno())
    places.drop_cache(path)
    return path


# ---- the command, and the limit

class Streams:
    def __init__(self, args, folder):
        self.args, self.folder, self.results = args, folder, {}
        self.bare = os.path.join(args.build, 'tests/perf/perf-bare')
        self.large = self.model('large', LAYERS * TENSORS)

    def model(self, name, tensors):
        return make_model(os.path.join(self.folder, f'{name}.safetensors'), self.args.size, tensors)

    def limit(self):
        return Variant('limit: a bare loop', lambda: fio.program(
            [self.bare, 'read', self.large, str(self.args.size >> 20 << 20), '1M', '32', str(self.args.window)]))

    def stream(self, name, model, *options):
        def run():
            return command(self.args, model, *options)
        return Variant(name, run)

    def both(self, name, model, *options):
        """In memory, and with --gpu in that of the GPU."""
        kinds = [('', [])] + ([(', GPU', ['--gpu'])] if self.args.gpu else [])
        return [self.stream(name + kind, model, *options, *more) for kind, more in kinds]

    def take_turns(self, variants, head=(), cells=lambda v: ()):
        interleave(self.args.rounds, variants)
        rows = [[v.name, f'{v.median(speed):.3f}', v.spread(speed, '.3f'), *cells(v)] for v in variants]
        show(['', 'GB/s', 'min .. max', *head], rows)
        self.results.update({v.name: v.samples for v in variants})
        sys.stdout.flush()


def command(args, model, *options, **how):
    words = [os.path.join(args.build, 'penstock'), 'weights', model, '--window', str(args.window), '--runtime', str(args.seconds),
             '--json', '-', *map(str, options)]
    r = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, **how).stdout)
    one, s = r['series'][0], r['weights']
    return {'bytes': one['bytes'], 'seconds': one['sec'], 'cpu_seconds': one['cpu']['user_sec'] + one['cpu']['system_sec'],
            'limit': (one['limit'] or {}).get('bytes_per_sec') or 0, 'overlap': s['overlap'], 'stall': s['stall'],
            'cached': s['cached_bytes'] / s['bytes_read']}


def promise(text, got, want):
    print(f'  {text}: {got:.3f}, promised {want}', flush=True)


# ---- parts

def large_and_small(s):
    bare = os.path.exists(s.bare)
    variants = s.both('large', s.large, *(['--no-limit'] if bare else []))
    small = []
    if 'small' in s.args.only:
        small = s.both('small', s.model('small', SMALL), '--no-limit')
    limit = [s.limit()] if bare else []
    host = variants[0]

    def share(v):
        """Without a bare loop, of the limit that the command found between its turns in memory of the host."""
        return v.median(speed) / (limit[0].median(speed) if limit else host.median(lambda x: x['limit'] / 1e9))

    s.take_turns(limit + variants + small, ['of the limit', 'page cache'], lambda v: (
        ('', '') if v in limit else (f'{share(v):.3f}', f'{v.median(lambda x: x["cached"]):.4f}')))
    promise('share of the limit', share(host), 0.97)
    for a, b in zip(small, variants):
        promise(f'{a.name} of {b.name}', ratio(a, b, speed), 0.9)
    if s.args.gpu:
        promise('GPU of host', ratio(variants[1], host, speed), 0.95)
    return host.median(speed) * 1e9


def overlap(s, rate):
    compute = s.args.size / LAYERS / rate * 1e3
    print(f'each group held for {compute:.1f} ms, as long as it is read for')
    variants = s.both('compute = read', s.large, '--compute-ms', compute)
    s.take_turns(variants, ['overlap', 'disk idle, s'], lambda v: (
        f'{v.median(overlapped):.3f}', f'{v.median(lambda x: x["stall"]["caller_sec"]):.2f}'))
    for v in variants:
        promise(v.name, v.median(overlapped), 0.95)


def overlapped(sample):
    return sample['overlap'] or 0


def stripes(s):
    """As stripe.py does it: devices in memory, which the kernel throttles."""
    if os.geteuid() or not os.path.exists('/dev/loop-control'):
        raise places.Unavailable('loop devices take root')
    member = 128 << 20
    with stripe.loops(4, member + (1 << 20)) as devices, contextlib.closing(stripe.Throttle()) as throttle:
        for device in devices:
            throttle.limit(device, RATE)
        variants = []
        for n in 1, 2, 4:
            variants.append(Variant(f'{n} throttled', lambda n=n: striped(s, throttle, devices[:n], n * member)))
        # A device whose speed does not vary: what is missing here is the stream's own.
        held = Variant('1, compute = read', lambda: striped(
            s, throttle, devices[:1], member, '--compute-ms', member / LAYERS / RATE * 1e3, '--limit', RATE))
        s.take_turns([*variants, held])
    for v, n in zip(variants[1:], (2, 4)):
        promise(f'{n} devices of one', ratio(v, variants[0], speed), 0.95 * n)
    promise('compute = read, overlap', held.median(overlapped), 0.95)


def striped(s, throttle, devices, size, *options):
    """The devices are those of the round before: each round makes its file anew."""
    path = os.path.join(s.folder, 'striped.safetensors')
    penstock = os.path.join(s.args.build, 'penstock')
    stripe.run(penstock, 'stripe', 'create', path, '--force', *devices)
    try:
        for at, device in enumerate(devices):
            with open(device, 'r+b') as f:
                f.seek(1 << 20)  # behind the header of a member, whose first unit begins the file
                f.write(header(size, LAYERS * TENSORS) if at == 0 else b'')
        return command(s.args, path, '--window', size // 2, *(options or ['--no-limit']), preexec_fn=throttle.enter)
    finally:
        stripe.run(penstock, 'stripe', 'rm', path)


def main():
    args = arguments()
    args.only = args.only.split(',')
    with tempfile.TemporaryDirectory(dir=args.dir, prefix='penstock-weights-') as folder:
        places.need_space(folder, 2 * args.size)
        s = Streams(args, folder)
        print(f'weight streams: {args.size >> 20} MiB through a window of {args.window >> 20} MiB')
        rate = large_and_small(s)
        if 'overlap' in args.only:
            overlap(s, rate)
        if 'stripes' in args.only:
            try:
                stripes(s)
            except places.Unavailable as why:
                print(f'stripes: skipped, {why}')
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as f:
            json.dump(s.results, f, indent=1)


if __name__ == '__main__':
    main()
