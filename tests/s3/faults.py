# SPDX-License-Identifier: Apache-2.0
"""Rules by which the server of tests/s3/server.py fails on purpose.

A rule is a line of words.  Those that say which requests it is for, all of which must hold:

    method=GET   key=GLOB   query=NAME (has this parameter)   p=0.1 (of such requests)
    skip=N (not the first N of them)   times=N (not more than N of them)   host=PORT (of this server)

what happens, one of

    status:CODE[:empty]   that status, with or without an Error document
    reset[:K]             RST after K bytes of the body; without K before the answer
    short:K               FIN after K bytes of the body
    drop                  FIN instead of an answer, as a connection that had been idle too long
    bye                   a good answer, and FIN behind it without a word of that
    stall:S               S seconds before the first byte
    stallmid:K:S          S seconds after K bytes of the body
    slow:RATE             bytes a second
    length:N              Content-Length off by N (-N: too small)
    range                 a Content-Range that is not that of the body
    whole                 200 and the whole object for a range
    corrupt[:K]           a bit of byte K of the body changed, on the wire only
    crc                   a checksum in the header that is not that of the body
    etag                  another ETag
    error200[:CODE]       200 with an Error document
    redirect:CODE:URL     301, 307 ... to URL with the same path; URL may be empty: no Location
    region:NAME           301 with x-amz-bucket-region, for what is signed for another
    skew:S                the server's clock is S seconds ahead
    headers:N             N bytes of headers
    bomb                  XML whose entities grow without end
    deep:N                N elements inside each other
    garbage               an answer that is not HTTP

and `late`: the request is carried out before it goes wrong.
"""
import fnmatch
import random
import threading
import urllib.parse

FAULTS = frozenset(('status', 'reset', 'short', 'drop', 'bye', 'stall', 'stallmid', 'slow', 'length', 'range', 'whole',
                    'corrupt', 'crc', 'etag', 'error200', 'redirect', 'region', 'skew', 'headers', 'bomb', 'deep',
                    'garbage'))
# Of these the request itself is carried out, whether `late` is said or not.
MILD = frozenset(('short', 'bye', 'stall', 'stallmid', 'slow', 'length', 'range', 'whole', 'corrupt', 'crc', 'etag',
                  'skew', 'headers'))


class Rule:
    def __init__(self, line):
        self.method = self.query = self.name = None
        self.key, self.args = '*', []
        self.p, self.skip, self.times, self.host = 1.0, 0, None, None
        self.late = False
        self.seen = self.hits = 0
        for word in line.split():
            self._word(word, line)
        if self.name is None:
            raise ValueError(f'{line}: no fault is named')

    def _word(self, word, line):
        name, equals, value = word.partition('=')
        if equals and name in ('method', 'key', 'query'):
            setattr(self, name, value)
        elif equals and name in ('skip', 'times', 'host'):
            setattr(self, name, int(value))
        elif equals and name == 'p':
            self.p = float(value)
        elif word == 'late':
            self.late = True
        else:
            name, *self.args = word.split(':', 2)
            if name not in FAULTS:
                raise ValueError(f'{line}: {word}: no such fault')
            self.name = name

    def is_for(self, request):
        return ((self.method is None or self.method == request.method) and
                (self.query is None or self.query in request.query) and
                (self.host is None or self.host == request.port) and
                (self.name != 'region' or f'/{self.args[0]}/s3/' not in request.headers.get('authorization', '')) and
                (self.key == '*' or fnmatch.fnmatchcase(urllib.parse.unquote(request.key), self.key)))

    def first(self, default=None):
        return int(self.args[0]) if self.args else default

    @property
    def early(self):
        """Does it take the place of what was asked for?"""
        return self.name not in MILD and not self.late and not (self.name == 'reset' and self.args)


class Rules:
    """What is in force; the same seed and order of requests give the same faults."""

    def __init__(self, lines=(), seed=1):
        self.lock = threading.Lock()
        self.set(lines, seed)

    def set(self, lines, seed=1):
        rules = [Rule(line) for line in lines if line.strip() and not line.startswith('#')]
        with self.lock:
            self.rules, self.random = rules, random.Random(seed)

    def pick(self, request):
        """The first rule that this request meets, or None."""
        if not self.rules:
            return None
        with self.lock:
            for rule in self.rules:
                if not rule.is_for(request):
                    continue
                rule.seen += 1
                if rule.seen <= rule.skip or (rule.times is not None and rule.hits >= rule.times):
                    continue
                if rule.p < 1 and self.random.random() >= rule.p:
                    continue
                rule.hits += 1
                return rule
        return None

    def hits(self):
        with self.lock:
            out = {}
            for rule in self.rules:
                out[rule.name] = out.get(rule.name, 0) + rule.hits
            return out
