#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run of ranks of which this test is one: it says what no other would, or too late.  hosts_wire.py PENSTOCK ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import json
import resource
import secrets
import socket
import struct
import subprocess
import threading
import time

import resultcheck
from clikit import ROOT, PENSTOCK, load_json, start
from tap import Skip, in_folder, run_all

resultcheck.need('jsonschema')

# load/hosts/hosts_internal.h
BROADCAST, PING, PONG, CLOCK, READY, GO, STOP, RESULT, DONE, END, HEARTBEAT = range(1, 12)
HEADER = struct.Struct('=IIQqQ')  # type, rank, a, b, bytes of text
GREETING = struct.Struct('=32sQI60s')  # secret, random number, rank, host

NULL = ['io', '--engine', 'null', '-s', '1M', '--iterations', '2']


class Peer:
    """A rank's side of the connection, or rank 0's; both give signs of life as long as they are there."""

    def __init__(self, sock, rank):
        self.sock, self.rank, self.sending, self.gone = sock, rank, threading.Lock(), threading.Event()
        self.slow = 0  # so often only a little is taken of what comes
        self.ahead = 0  # its clock
        self.still = 0  # since something of it has moved
        self.asked = None  # a list: questions for its clock have no answer

    def read(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.sock.recv(min(size - len(data), 1 << 16 if self.slow else 1 << 20))
            if not part:
                raise EOFError
            data += part
            if self.slow and size > HEADER.size:
                self.slow -= 1
                time.sleep(0.3)
        return bytes(data)

    def send(self, kind, a=0, b=0, text=b'', slow=0):
        """@slow: so many bytes of the text come one by one."""
        whole = HEADER.pack(kind, self.rank, a, b, len(text)) + text
        with self.sending:
            self.sock.sendall(whole[:HEADER.size])
            for i in range(slow):
                self.sock.sendall(text[i:i + 1])
                time.sleep(0.5)
            self.sock.sendall(whole[HEADER.size + slow:])

    def beat(self):
        threading.Thread(target=self.beats, daemon=True).start()

    def beats(self):
        while not self.gone.wait(0.5):
            with contextlib.suppress(OSError):
                self.send(HEARTBEAT, self.still, -1 if self.rank else 1 << 62)

    def take(self):
        """The next message; questions for the clock are answered."""
        while True:
            kind, _, a, b, size = HEADER.unpack(self.read(HEADER.size))
            text = self.read(size)
            if kind != PING:
                return kind, a, b, text
            if self.asked is None:
                self.tell_clock(a)
            else:
                self.asked.append(a)
                self.was_asked()

    def was_asked(self):
        """For tests that have something to do then."""

    def tell_clock(self, asked):
        self.send(PONG, asked, self.clock())

    def clock(self):
        return time.monotonic_ns() + self.ahead

    def until(self, *kinds):
        """The next of these."""
        while True:
            kind, a, b, text = self.take()
            if kind in kinds:
                return kind, a, b, text

    def close(self):
        self.gone.set()
        self.sock.close()


def environment(rank, port, secret, more, host='127.0.0.1'):
    return {**os.environ, 'SLURM_STEP_NUM_TASKS': '2', 'SLURM_PROCID': str(rank), 'PENSTOCK_MEET': f'{host}:{port}:{secret}', **more}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def connect(process, port):
    while True:
        try:
            return socket.create_connection(('127.0.0.1', port))
        except OSError:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)


def knock(process, port, secret, rank):
    """This rank, which has been let in."""
    sock = connect(process, port)
    sock.sendall(GREETING.pack(secret.encode(), 0, rank, b'test'))
    peer = Peer(sock, rank)
    assert GREETING.unpack(peer.read(GREETING.size))[0] == secret.encode()
    peer.beat()
    return peer


def start_rank_0(others, port, secret, *args, files=None, **env):
    """@files: so many may be open."""
    return start(*args, env=environment(0, port, secret, {'SLURM_STEP_NUM_TASKS': str(others + 1), **env}),
                 preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))))


@contextlib.contextmanager
def as_others(others, *args, strangers=0, **env):
    """Rank 0 is a command, and these are the other ranks. Strangers come first, say little or nothing, and stay."""
    secret, port = secrets.token_hex(16), free_port()
    process = start_rank_0(others, port, secret, *args, **env)
    peers, silent = [], []
    try:
        for i in range(strangers):
            silent.append(connect(process, port))
            silent[-1].sendall(b'x' * (i % 2))
        for rank in range(1, others + 1):
            peers.append(knock(process, port, secret, rank))
        yield process, *peers
    finally:
        for one in peers + silent:
            one.close()
        process.kill()  # only where it has failed
        process.communicate()


def as_rank_1(*args, **env):
    return as_others(1, *args, **env)


@contextlib.contextmanager
def as_rank_0(*args, at=('127.0.0.1', 0), host='127.0.0.1', there=(), let_in=lambda: None, others_come=0, **env):
    """Rank 1 is a command; this is rank 0, with the command line of all; for so many seconds it waits for others."""
    secret = secrets.token_hex(16)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        listener.bind(at)
        listener.listen()
        process = subprocess.Popen([*there, PENSTOCK, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment(1, listener.getsockname()[1], secret, env, host))
        sock, _ = listener.accept()
    peer = Peer(sock, 0)
    try:
        assert GREETING.unpack(peer.read(GREETING.size))[0] == secret.encode()
        let_in()
        sock.sendall(GREETING.pack(secret.encode(), 7, 0, b''))
        time.sleep(others_come)
        peer.beat()
        peer.send(BROADCAST, text=b''.join(str(w).encode() + b'\0' for w in ('penstock', *args)))
        yield process, peer
    finally:
        peer.close()
        process.kill()  # only where it has failed
        process.communicate()


def ended(process):
    """Its output and messages, and how it ended."""
    out, err = process.communicate()
    return process.returncode, out, err


def work(peer, text, barriers=1, slow=0):
    """What a rank does that has nothing to do."""
    peer.until(BROADCAST)
    for n in range(1, barriers + 1):
        peer.send(READY, n)
        peer.until(GO)
    peer.send(RESULT, text=json.dumps(text).encode(), slow=slow)


def works_to_the_end(process, peer, text):
    """As one of two ranks, of two operations each."""
    work(peer, text)
    peer.send(DONE)
    peer.until(END)
    status, out, err = ended(process)
    assert status == 0 and load_json('all.json')['series'][0]['ops'] == 4, (status, out, err)


def leads_to_the_end(process, peer):
    """As rank 0."""
    peer.until(READY)
    peer.send(GO, 1, time.monotonic_ns())
    peer.until(DONE)
    peer.send(END)
    status, out, err = ended(process)
    assert status == 0, (status, out, err)


@in_folder
def results_that_cannot_be_added_are_in_a_file_for_each_rank():
    with as_rank_1(*NULL, '--json', 'all.json') as (process, peer):
        work(peer, {'schema': 'penstock-result/1', 'command': 'kv', 'series': []})
        peer.send(DONE)
        peer.until(END)
        status, out, err = ended(process)
    assert status == 1 and 'cannot be added' in err and "each rank's own result is in a file beside 'all.json'" in err, (status, out, err)
    assert sorted(os.listdir('.')) == ['all.rank-0.json', 'all.rank-1.json'], os.listdir('.')
    first = load_json('all.rank-0.json')
    resultcheck.check(ROOT, first)
    assert first['series'][0]['ops'] == 2 and first['clock']['rank'] == 0
    assert load_json('all.rank-1.json')['command'] == 'kv'


def done_by_one():
    """A result that can be added to that of another rank."""
    subprocess.run([PENSTOCK, *NULL, '--json', 'one.json'], check=True, capture_output=True)
    one = load_json('one.json')
    os.remove('one.json')
    return one


@in_folder
def a_clock_that_is_told_late_is_known():
    """The first packets were lost: three questions are answered after the third."""
    one = done_by_one()
    with as_rank_1(*NULL, '--json', 'all.json') as (process, peer):
        peer.ahead, peer.asked = 1000 * 10**9, []

        def after_three():
            if len(peer.asked) == 3:
                for asked in peer.asked:
                    peer.tell_clock(asked)
                peer.asked = None
        peer.was_asked = after_three
        peer.until(BROADCAST)
        peer.send(READY, 1)
        at = peer.until(GO)[2]
        assert abs(at - peer.clock()) < 500 * 10**9, (at, peer.clock())
        peer.send(RESULT, text=json.dumps(one).encode())
        peer.send(DONE)
        peer.until(END)
        status, out, err = ended(process)
    assert status == 0, (status, out, err)
    clock = load_json('all.json')['ranks']['members'][1]['clock']
    assert abs(clock['offset_sec'] - 1000) <= clock['error_sec'] and clock['error_sec'] > 0, clock


@in_folder
def who_knocks_and_says_nothing_holds_up_nobody():
    """Five seconds for each, as it was, were more than the minute in which ranks have to come; and of strangers there may be too many."""
    one = done_by_one()
    for strangers in 14, 200:
        with as_rank_1(*NULL, '--json', 'all.json', strangers=strangers) as (process, peer):
            works_to_the_end(process, peer, one)


@in_folder
def strangers_take_no_files_of_ranks():
    one = done_by_one()
    with as_rank_1(*NULL, '--json', 'all.json', strangers=60, files=32) as (process, peer):
        works_to_the_end(process, peer, one)


@in_folder
def ranks_for_which_there_are_no_files_are_told():
    secret, port, come = secrets.token_hex(16), free_port(), []
    process = start_rank_0(40, port, secret, *NULL, files=32)
    with contextlib.suppress(EOFError, OSError):
        for rank in range(1, 41):
            come.append(knock(process, port, secret, rank))
    status, out, err = ended(process)
    for one in come:
        one.close()
    assert status and f'{len(come) + 1} of 41 ranks have come, and there are no files for more: Too many open files' in err, (status, out, err)


@in_folder
def ports_that_are_none_are_refused():
    for rank in 0, 1:
        for port in '0', '65536', '65537', '9999999':
            done = subprocess.run([PENSTOCK, *NULL], env=environment(rank, port, 'secret', {}), capture_output=True, text=True, check=False)
            assert done.returncode and done.stderr == f'penstock: PENSTOCK_MEET: port {port} is outside 1..65535\n', done


@in_folder
def a_rank_that_does_not_tell_its_clock_is_lost():
    with as_rank_1(*NULL) as (process, peer):
        peer.asked = []
        with contextlib.suppress(EOFError, OSError):
            peer.until(END)
        status, out, err = ended(process)
    assert status and 'rank 1 (test) is lost: it does not tell its clock' in err, (status, out, err)


@in_folder
def a_beginning_that_is_far_away_is_not_waited_for():
    with as_rank_0(*NULL) as (process, peer):
        peer.until(READY)
        peer.send(GO, 1, time.monotonic_ns() + 10**15)
        said = json.loads(peer.until(RESULT)[3])
        assert said['series'][0]['ops'] == 2, said
        peer.until(DONE)
        peer.send(END)
        status, out, err = ended(process)
    assert status == 0, (status, out, err)


@in_folder
def a_rank_that_goes_is_named_within_five_seconds():
    """Seconds of rank 0, which gives a sign of life in each: a busy machine makes fewer of them."""
    with as_others(2, *NULL, '--json', 'all.json') as (process, first, second):
        threading.Thread(target=lambda: first.until(BROADCAST), daemon=True).start()
        second.until(BROADCAST)
        second.until(HEARTBEAT)
        first.sock.shutdown(socket.SHUT_RDWR)
        beats = 0
        while (kind := second.until(HEARTBEAT, STOP)[0]) != STOP:
            beats += kind == HEARTBEAT
        assert beats <= 4, beats
        # the rest stop, and what they have is kept: this one has nothing and does not answer, which is waited for as long
        beats = 0
        while (kind := second.until(HEARTBEAT, STOP, END)[0]) != END:
            beats += kind == HEARTBEAT
        assert beats <= 20, beats
        status, out, err = ended(process)
    assert status and 'rank 1 (test) is lost: its connection ended' in err, (status, out, err)
    assert load_json('all.json')['ranks']['members'][1]['lost'] == 'its connection ended'


@in_folder
def a_rank_that_hangs_at_its_end_is_waited_for_no_longer_than_others():
    """All it had to say is there."""
    one = done_by_one()
    with as_rank_1(*NULL, '--json', 'all.json', PENSTOCK_RANK_TIMEOUT='2') as (process, peer):
        peer.still = (1 << 64) - 1  # it cannot tell
        work(peer, one)
        with contextlib.suppress(EOFError, OSError):
            peer.until(END)
        status, out, err = ended(process)
    assert status == 1 and 'rank 1 (test) is lost: the others have waited for it' in err and 'the others are stopped' not in err, (status, out, err)
    j = load_json('all.json')
    assert not j['partial'] and j['series'][0]['ops'] == 4, j['partial_why']


@in_folder
def somebody_else_at_an_address_of_rank_0_is_passed_by():
    """It takes the connection and says nothing.  The name of rank 0's host has two addresses here, of which the first is another's."""
    with open('hosts', 'w', encoding='utf-8') as f:
        f.write('127.0.0.2 rank-0\n127.0.0.1 rank-0\n')
    there = ['unshare', '-m', 'sh', '-c', 'mount --bind hosts /etc/hosts && exec "$@"', 'there']
    try:
        done = subprocess.run([*there, 'getent', 'ahosts', 'rank-0'], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip('root', f'no /etc/hosts of its own: {e}') from None
    first, second = dict.fromkeys(line.split()[0] for line in done.stdout.splitlines())
    with socket.socket() as other:
        other.bind((first, 0))
        other.listen()

        def has_not_given_up():
            """It is not that it has waited until it did: it asks both."""
            sock, _ = other.accept()
            with sock:
                assert len(sock.recv(1000)) == GREETING.size
                with contextlib.suppress(BlockingIOError):
                    raise AssertionError(sock.recv(1, socket.MSG_DONTWAIT))
        with as_rank_0(*NULL, at=(second, other.getsockname()[1]), host='rank-0', there=there, let_in=has_not_given_up) as (process, peer):
            leads_to_the_end(process, peer)


@in_folder
def rank_0_may_wait_for_others_without_a_word():
    """For longer than it may be silent once all are there."""
    with as_rank_0(*NULL, others_come=14) as (process, peer):
        leads_to_the_end(process, peer)


@in_folder
def an_end_is_not_a_loss():
    """The connection ends right behind the last word; several times, since it is a matter of who is first."""
    for _ in range(10):
        with as_rank_0(*NULL) as (process, peer):
            peer.until(READY)
            peer.send(GO, 1, time.monotonic_ns())
            peer.until(DONE)
            peer.gone.set()
            with peer.sending:
                peer.sock.sendall(HEADER.pack(END, 0, 0, 0, 0))
                peer.sock.shutdown(socket.SHUT_RDWR)
            status, out, err = ended(process)
        assert status == 0 and not err, (status, out, err)


@in_folder
def a_result_that_comes_slowly_holds_up_nobody():
    """For longer than a supervisor waits for a sign of life of rank 0."""
    with as_rank_1(*NULL, '--json', 'all.json') as (process, peer):
        work(peer, {'schema': 'penstock-result/1', 'command': 'kv', 'series': []}, slow=26)
        peer.send(DONE)
        peer.until(END)
        status, out, err = ended(process)
    assert status == 1 and 'cannot be added' in err and 'no sign of life' not in err, (status, out, err)


@in_folder
def a_large_result_is_whole_however_slowly_it_is_taken():
    """And the rank gives signs of life meanwhile, to its supervisor and to rank 0: both wait for less than this."""
    with open('large.py', 'w', encoding='utf-8') as f:
        f.write('import os, socket\ns = socket.socket(fileno=int(os.environ["PENSTOCK_RANKS_FD"])).makefile("rw")\n'
                's.readline()\ns.write("say 24000000\\n" + "0123456789ab" * 2000000)\ns.flush()\nassert s.readline() == "said\\n"\n')
    with as_rank_0('--ranks', sys.executable, 'large.py') as (process, peer):
        peer.slow = 40
        _, _, _, text = peer.until(RESULT)
        assert text == b'0123456789ab' * 2000000, (len(text), text[-100:])
        assert peer.until(DONE)[1] == 0
        peer.send(END)
        status, out, err = ended(process)
    assert status == 0, (status, out, err)


run_all(globals())
