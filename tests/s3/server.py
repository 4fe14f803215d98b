#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An S3 server that keeps objects in memory, as fast as loopback, and fails as it is told to.

    tests/s3/server.py [--port N] [--ports 4] [--bucket NAME]... [--rule RULE]... [--no-sign] [--least-part N]

Prints `http://127.0.0.1:PORT`, one line for each port, when it listens; ends when its standard input is closed (so that
it never outlives who started it) or by a signal.  Rules are those of faults.py.  They can be set anew with
`PUT /_rules` (a rule a line; `?seed=N`), from which on `most_parts`, of uploads at once, counts anew; `GET /_stats` tells
as JSON what was asked for, `PUT /_stop?port=N` closes one port with all its connections and `PUT /_start?port=N` opens
it again.

Every connection has a thread: a stall is a sleep, and large bodies are sent and received with the interpreter
unlocked.
"""
import argparse
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults  # noqa: E402
import reply as replies  # noqa: E402
import sign  # noqa: E402
import store as stores  # noqa: E402

HEAD = 64 << 10
DNS = '.s3.localhost'


class ConnectionClosed(Exception):
    """The connection is of no more use."""


class Request:
    """One request: `key` and `bucket` as they stand in the URL, decoded; names of headers in small letters."""

    def __init__(self, head, port):
        lines = head.decode('latin-1').split('\r\n')
        self.method, self.target, _ = lines[0].split(' ', 2)
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(':')
            self.headers[name.strip().lower()] = value.strip()
        self.path, _, self.query_text = self.target.partition('?')
        self.query = dict(urllib.parse.parse_qsl(self.query_text, keep_blank_values=True)) if self.query_text else {}
        self.port, self.body = port, b''
        host = self.headers.get('host', '').rsplit(':', 1)[0]
        path = urllib.parse.unquote(self.path)[1:]
        if host.endswith(DNS):
            self.bucket, self.key = host[:-len(DNS)], path
        else:
            self.bucket, _, self.key = path.partition('/')


class Connection:
    def __init__(self, server, sock, port):
        self.server, self.sock, self.port, self.rest = server, sock, port, bytearray()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def head(self):
        while (end := self.rest.find(b'\r\n\r\n')) < 0:
            if len(self.rest) > HEAD:
                raise ConnectionClosed
            data = self.sock.recv(HEAD)
            if not data:
                raise ConnectionClosed
            self.rest += data
        head = bytes(self.rest[:end])
        del self.rest[:end + 4]
        return head

    def read_exactly(self, size):
        data = bytearray(size)
        view = memoryview(data)
        have = min(size, len(self.rest))
        view[:have] = self.rest[:have]
        del self.rest[:have]
        while have < size:
            got = self.sock.recv_into(view[have:], min(size - have, 4 << 20))
            if not got:
                raise ConnectionClosed
            have += got
        return data

    def line(self):
        while (end := self.rest.find(b'\r\n')) < 0:
            data = self.sock.recv(HEAD)
            if not data:
                raise ConnectionClosed
            self.rest += data
        line = bytes(self.rest[:end])
        del self.rest[:end + 2]
        return line

    def chunks(self):
        """A body in HTTP's chunks."""
        data = bytearray()
        while size := int(self.line().split(b';')[0], 16):
            data += self.read_exactly(size)
            self.line()
        while self.line():
            pass
        return data

    def body(self, request):
        headers = request.headers
        if headers.get('expect', '').lower() == '100-continue':
            self.sock.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')
        if headers.get('transfer-encoding', '').lower() == 'chunked':
            data = self.chunks()
        else:
            data = self.read_exactly(int(headers.get('content-length', 0)))
        if headers.get('x-amz-content-sha256', '').startswith('STREAMING-'):
            data = replies.unchunk(data)
        return data

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        raise ConnectionClosed

    def run(self):
        try:
            while True:
                request = Request(self.head(), self.port)
                request.body = self.body(request)
                self.server.answer(self, request)
                if request.headers.get('connection', '').lower() == 'close':
                    break
        except (ConnectionClosed, OSError, ValueError):
            pass
        finally:
            self.sock.close()


class Server:
    def __init__(self, options):
        self.store = stores.Store(options.bucket, options.least_part, options.md5, options.plain_uploads)
        self.rules = faults.Rules(options.rule, options.seed)
        self.keys = {options.access: options.secret}
        self.signed = not options.no_sign
        self.lock = threading.Lock()
        self.stats = {'requests': 0, 'connections': 0, 'refused': 0, 'in_flight': 0, 'parts': 0, 'most_parts': 0, 'by': {}}
        self.listening, self.open = {}, {}

    # ----------------------------------------------------------------- one request

    def answer(self, connection, request):
        if request.path.startswith('/_'):
            return self.control(connection, request)
        part = 'partNumber' in request.query
        with self.lock:
            s = self.stats
            s['requests'] += 1
            s['by'][f'{request.method} {request.port}'] = s['by'].get(f'{request.method} {request.port}', 0) + 1
            s['in_flight'] += 1
            s['parts'] += part
            s['most_parts'] = max(s['most_parts'], s['parts'])
        try:
            rule = self.rules.pick(request)
            reply = self.reply(request, rule)
            if rule and rule.name == 'stall':
                time.sleep(float(rule.args[0]))
        finally:
            # before the client hears of it, who then asks for these figures or sends the next one
            with self.lock:
                self.stats['in_flight'] -= 1
                self.stats['parts'] -= part
        replies.send(connection, request, reply, rule)

    def reply(self, request, rule):
        now = time.time() + (rule.first(0) if rule and rule.name == 'skew' else 0)
        try:
            if self.signed:
                sign.check(request, self.keys, now)
            if rule and rule.early:
                return None
            if rule and rule.name == 'whole':
                request.headers.pop('range', None)
            reply = replies.make_reply(self.store, request)
        except sign.Refused as e:
            with self.lock:
                self.stats['refused'] += 1
            reply = replies.error(*e.args)
        except stores.S3Error as e:
            reply = replies.error(e.status, e.code, e.message)
        except (KeyError, ValueError, IndexError) as e:
            reply = replies.error(400, 'InvalidArgument', repr(e))
        reply.headers['Date'] = replies.date(now)
        return reply

    # ------------------------------------------------------------------- ourselves

    def control(self, connection, request):
        what, reply = request.path, replies.Reply(200)
        if what == '/_rules' and request.method == 'PUT':
            try:
                self.rules.set(bytes(request.body).decode().splitlines(), int(request.query.get('seed', 1)))
                with self.lock:
                    self.stats['most_parts'] = self.stats['parts']
            except ValueError as e:
                reply = replies.Reply(400, body=f'{e}\n'.encode())
        elif what == '/_stats':
            with self.lock:
                told = dict(self.stats, faults=self.rules.hits(), uploads=len(self.store.uploads))
            reply = replies.Reply(200, body=json.dumps(told).encode())
        elif what == '/_stop' and request.method == 'PUT':
            self.stop(int(request.query['port']), but=connection.sock)
        elif what == '/_start' and request.method == 'PUT':
            self.listen(int(request.query['port']))
        else:
            reply = replies.Reply(404)
        replies.send(connection, request, reply, None)

    def listen(self, port):
        sock = socket.create_server(('127.0.0.1', port), backlog=1024)
        port = sock.getsockname()[1]
        self.listening[port], self.open[port] = sock, set()
        threading.Thread(target=self.accept, args=(sock, port), daemon=True).start()
        return port

    def accept(self, sock, port):
        while True:
            try:
                peer, _ = sock.accept()
            except OSError:
                return
            with self.lock:
                self.stats['connections'] += 1
                if port not in self.open:  # stopped meanwhile
                    peer.close()
                    return
                self.open[port] = {s for s in self.open[port] if s.fileno() >= 0} | {peer}
            threading.Thread(target=Connection(self, peer, port).run, daemon=True).start()

    def stop(self, port, but=None):
        listening = self.listening.pop(port)
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        with self.lock:
            peers = [peer for peer in self.open.pop(port) if peer is not but]
        for peer in peers:
            try:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--port', type=int, default=0, help='the first of them (any that is free)')
    p.add_argument('--ports', type=int, default=1, help='how many, all with the same objects')
    p.add_argument('--bucket', action='append', default=[], help='that is there from the start')
    p.add_argument('--rule', action='append', default=[], help='as faults.py says')
    p.add_argument('--seed', type=int, default=1, help='of the rules with a probability')
    p.add_argument('--no-sign', action='store_true', help='take requests as they come')
    p.add_argument('--md5', action='store_true', help='ETags of large objects too are their MD5')
    p.add_argument('--least-part', type=int, default=5 << 20, help='bytes, of all parts but the last')
    p.add_argument('--plain-uploads', action='store_true', help='names of uploads that clients may leave as they are in a URL')
    p.add_argument('--access', default='penstockaccess')
    p.add_argument('--secret', default='penstocksecretpenstocksecretpenstock')
    return p.parse_args()


def main():
    options = arguments()
    options.bucket = options.bucket or ['bucket']
    try:
        server = Server(options)
    except ValueError as e:
        sys.exit(f'--rule {e}')
    sys.setswitchinterval(0.001)
    for i in range(options.ports):
        print(f'http://127.0.0.1:{server.listen(options.port + i if options.port else 0)}', flush=True)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: os._exit(0))
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == '__main__':
    main()
