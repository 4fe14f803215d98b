#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects: the library beside a bare loop over libcurl and beside other clients, against the server of tests/s3.

    object.py [--build DIR] [--only PART,...] [--rounds N] [--clients NAME,...] [--large SIZE]

bulk        64 MiB and 4 KiB beside the bare loop, in turns; promised: 0.9 of its rate, 2 GB/s of a core
small       gets of 4 KiB beside the clients that are installed, by `penstock s3 compare'; promised: 3 times boto3's and minio's per
            second of CPU time, 1.5 times s3dlio's
endpoints   one of four, which are processes of their own, is killed while objects are read; promised: at most 1 s and 30 % of the
            rate are lost, and no operation fails
large       an object of 20 GiB is read and written; promised: at most 256 MiB of memory

The server is Python and shares the machine: rates are its rates, too, and CPU time, which is the client's alone, is what to compare.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '../s3'))
import s3kit  # noqa: E402

PARTS = ('bulk', 'small', 'endpoints', 'large')


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    p.add_argument('--build', default=os.path.join(HERE, '../../build'))
    p.add_argument('--only', default=','.join(PARTS))
    p.add_argument('--rounds', type=int, default=11)
    p.add_argument('--clients', default='', help='default: all that are installed for this Python')
    p.add_argument('--large', default='20G')
    return p.parse_args()


def program(a, *words):
    subprocess.run([os.path.join(a.build, 'tests/perf/perf-object'), *words], check=True)


def bulk(a):
    with s3kit.Server('--no-sign') as s:
        program(a, 'bulk', s.urls[0], str(a.rounds))


def large(a):
    with s3kit.Server('--no-sign') as s:
        program(a, 'large', s.urls[0], a.large)


def small(a):
    with s3kit.Server('--plain-uploads') as s:
        s.use()
        words = ['--files', '1000', '--size', '4K', '--threads', '8', '--rounds', str(max(2, a.rounds // 2)), '--endpoint', s.urls[0]]
        words += ['--compare', *a.clients.split(',')] if a.clients else []
        done = subprocess.run([sys.executable, '-m', 'penstock', 's3', 'compare', 's3://bucket/small', *words, '--json', '-'], check=True,
                              stdout=subprocess.PIPE, env={**os.environ, 'PYTHONPATH': os.path.join(a.build, 'python')})
    rows = json.loads(done.stdout)['rows']
    cpu = {(r['library'], r['operation']): statistics.median(t['cpu_sec'] for t in r['turns']) / 1000 for r in rows}
    print(f'{"4 KiB, 8 threads":18}{"a second":>12}{"CPU us/op":>12}{"penstock per CPU second":>24}')
    for r in rows:
        who = r['library'], r['operation']
        times = '' if who[0] == 'penstock' else f'{cpu[who] / cpu["penstock", who[1]]:.1f} times'
        print(f'{" ".join(who):18}{r["bytes_per_sec"] / 4096:12.0f}{cpu[who] * 1e6:12.0f}{times:>24}')


# ------------------------------------------------------------------------------------ endpoints

WINDOW, SECONDS, KILLED = 0.1, 9, 4


class Reader:
    """Threads that read objects of 256 KiB until they are told to stop, and when each read ended."""

    def __init__(self, client, threads):
        self.client, self.ended, self.errors, self.stop = client, [], [], False
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(threads)]
        for t in self.threads:
            t.start()

    def run(self, i):
        while not self.stop:
            try:
                assert len(self.client.get(f's3://bucket/{i}', size=256 << 10)) == 256 << 10
                self.ended.append(time.monotonic())
            except Exception as e:
                self.errors.append(repr(e))
                return

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join()


def told(reader, start, killed):
    counts = [0] * int(SECONDS / WINDOW)
    for when in reader.ended:
        i = int((when - start) / WINDOW)
        if 0 <= i < len(counts):
            counts[i] += 1
    first = int((killed - start) / WINDOW)
    before = statistics.median(counts[5:first])
    after = statistics.median(counts[first + 10:-1])
    below = [i for i in range(first, len(counts) - 1) if counts[i] < 0.7 * before]
    longest = run = 0
    for i in range(first, len(counts)):
        run = run + 1 if i in below else 0
        longest = max(longest, run)
    times = sorted(reader.ended)
    gap = max(b - a for a, b in zip(times, times[1:]) if a >= killed - WINDOW)
    print(f'before {before / WINDOW:.0f} a second, after {after / WINDOW:.0f} ({after / before:.2f}); the first second '
          f'{sum(counts[first:first + 10]) / 10 / before:.2f} of the rate before; below 0.7 of it for {longest * WINDOW:.1f} s in a row; longest gap '
          f'{gap * 1000:.0f} ms; failed {len(reader.errors)}')
    for e in reader.errors[:3]:
        print(f'    {e}')


def endpoints(a):
    sys.path.insert(0, os.path.join(a.build, 'python'))
    from penstock import s3
    servers = [s3kit.Server() for _ in range(4)]
    try:
        servers[0].use()
        for server in servers:
            one = s3.Client(endpoint=server.urls[0])
            one.put_many([(f's3://bucket/{i}', bytes(256 << 10)) for i in range(16)])
        client = s3.Client(endpoint=','.join(s.urls[0] for s in servers))
        start = time.monotonic()
        reader = Reader(client, 16)
        time.sleep(KILLED)
        killed = time.monotonic()
        servers[1].process.kill()
        time.sleep(start + SECONDS - time.monotonic())
        reader.end()
        told(reader, start, killed)
        stats = client.stats()
        print(f'    retries {stats["retries"]}, failed {stats["failed"]}, attempts by endpoint {[e["attempts"] for e in stats["endpoints"]]}')
    finally:
        for server in servers:
            server.close()


def main():
    a = arguments()
    a.build = os.path.abspath(a.build)
    for part in a.only.split(','):
        print(f'== {part}', flush=True)
        {'bulk': bulk, 'small': small, 'endpoints': endpoints, 'large': large}[part](a)


if __name__ == '__main__':
    main()
