#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run of two ranks, one of which is this test: it says what no other would, or too late.  hosts_wire.py SLUICE ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import json
import secrets
import socket
import struct
import threading
import time

import resultcheck
from clikit import ROOT, load_json, start
from tap import in_folder, run_all

resultcheck.need('jsonschema')

# load/hosts/hosts_in.h
HELLO, SHARE, PING, PONG, CLOCK, READY, GO, STOP, SAID, DONE, END, BEAT = range(12)
HEADER = struct.Struct('=IIQqQ')  # type, rank, a, b, bytes of text
GREETING = struct.Struct('=32sQI60s')  # secret, random number, rank, host

NULL = ['io', '--engine', 'null', '-s', '1M', '--loops', '2']


class Peer:
    """A rank's side of the connection, or rank 0's; both give signs of life as long as they are there."""

    def __init__(self, sock, rank, reads=None):
        self.sock, self.rank, self.sending, self.gone = sock, rank, threading.Lock(), threading.Event()
        self.read = reads or self.exactly
        threading.Thread(target=self.beats, daemon=True).start()

    def exactly(self, size):
        data = b''
        while len(data) < size:
            part = self.sock.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def send(self, kind, a=0, b=0, text=b''):
        with self.sending:
            self.sock.sendall(HEADER.pack(kind, self.rank, a, b, len(text)) + text)

    def beats(self):
        while not self.gone.wait(0.5):
            with contextlib.suppress(OSError):
                self.send(BEAT, 0, -1 if self.rank else 1 << 62)

    def take(self):
        """The next message; questions for the clock are answered."""
        while True:
            kind, _, a, b, size = HEADER.unpack(self.read(HEADER.size))
            text = self.read(size)
            if kind != PING:
                return kind, a, b, text
            self.send(PONG, a, time.monotonic_ns())

    def until(self, *kinds):
        """The next of these."""
        while True:
            kind, a, b, text = self.take()
            if kind in kinds:
                return kind, a, b, text

    def close(self):
        self.gone.set()
        self.sock.close()


def environment(rank, port, secret, more):
    return {**os.environ, 'SLURM_STEP_NUM_TASKS': '2', 'SLURM_PROCID': str(rank), 'SLUICE_MEET': f'127.0.0.1:{port}:{secret}', **more}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def as_rank_1(*args, **env):
    """Rank 0 is a command; this is rank 1, which has been let in."""
    secret, port = secrets.token_hex(16), free_port()
    process = start(*args, env=environment(0, port, secret, env))
    while True:
        try:
            sock = socket.create_connection(('127.0.0.1', port))
            break
        except OSError:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
    sock.sendall(GREETING.pack(secret.encode(), 0, 1, b'test'))
    peer = Peer(sock, 1)
    assert GREETING.unpack(peer.exactly(GREETING.size))[0] == secret.encode()
    try:
        yield process, peer
    finally:
        peer.close()
        process.kill()  # only where it has failed
        process.communicate()


def ended(process):
    """Its output and messages, and how it ended."""
    out, err = process.communicate()
    return process.returncode, out, err


def work(peer, text, gates=1):
    """What a rank does that has nothing to do."""
    peer.until(SHARE)
    for n in range(1, gates + 1):
        peer.send(READY, n)
        peer.until(GO)
    peer.send(SAID, text=json.dumps(text).encode())


@in_folder
def results_that_cannot_be_added_are_in_a_file_for_each_rank():
    with as_rank_1(*NULL, '--json', 'all.json') as (process, peer):
        work(peer, {'schema': 'sluice-result/1', 'command': 'kv', 'series': []})
        peer.send(DONE)
        peer.until(END)
        status, out, err = ended(process)
    assert status == 1 and 'cannot be added' in err and "each rank's own result is in a file beside 'all.json'" in err, (status, out, err)
    assert sorted(os.listdir('.')) == ['all.rank-0.json', 'all.rank-1.json'], os.listdir('.')
    first = load_json('all.rank-0.json')
    resultcheck.check(ROOT, first)
    assert first['series'][0]['ops'] == 2 and first['clock']['rank'] == 0
    assert load_json('all.rank-1.json')['command'] == 'kv'


run_all(globals())
