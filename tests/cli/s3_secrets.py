#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keys of every source reach the store, and no output of any command.  s3_secrets.py PENSTOCK ROOT PACKAGE

All is run with a secret and a token that are marked, those that the store takes and others; then standard output, standard error
and every file that was left are searched for the mark.
"""
import contextlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(1, os.path.join(sys.path[0], 's3'))

import s3kit
import tap
from replaykit import FLAT, some_rows, write_trace
from tap import in_folder

PENSTOCK, PACKAGE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[3])
MARK = 'MARKEDsecret'
RIGHT, WRONG, TOKEN = MARK + 'right', MARK + 'wrong', MARK + 'token'
S = s3kit.Server('--bucket', 'bucket', '--secret', RIGHT)
S.use()
for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'):
    del os.environ[name]
hidden = tempfile.TemporaryDirectory()  # files that have secrets because they must
LATER = '2099-01-01T00:00:00Z'


class Keys(http.server.BaseHTTPRequestHandler):
    """STS and the container's endpoint."""
    secret = RIGHT

    def do_GET(self):  # noqa: N802
        ok = self.headers.get('Authorization') == MARK + 'authorization'
        self.tell(200 if ok else 403, json.dumps({'AccessKeyId': s3kit.ACCESS, 'SecretAccessKey': self.secret, 'Token': TOKEN, 'Expiration': LATER}))

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers['Content-Length'])).decode()
        self.tell(200 if f'WebIdentityToken={MARK}identity' in body else 403,
                  '<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>'
                  f'<AccessKeyId>{s3kit.ACCESS}</AccessKeyId><SecretAccessKey>{self.secret}</SecretAccessKey><SessionToken>{TOKEN}</SessionToken>'
                  f'<Expiration>{LATER}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>')

    def tell(self, status, text):
        data = text.encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


keys = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Keys)
threading.Thread(target=keys.serve_forever, daemon=True).start()
KEYS = f'http://127.0.0.1:{keys.server_port}'


def in_hidden(name, text):
    path = os.path.join(hidden.name, name)
    with open(path, 'w') as f:
        f.write(text)
    return path


# ------------------------------------------------------------------------------------ sources

def environment(secret):
    return {'AWS_ACCESS_KEY_ID': s3kit.ACCESS, 'AWS_SECRET_ACCESS_KEY': secret, 'AWS_SESSION_TOKEN': TOKEN}


def shared_file(secret):
    text = f'[default]\naws_access_key_id = {s3kit.ACCESS}\naws_secret_access_key = {secret}\naws_session_token = {TOKEN}\n'
    return {'AWS_SHARED_CREDENTIALS_FILE': in_hidden('credentials', text)}


def program(secret):
    told = {'Version': 1, 'AccessKeyId': s3kit.ACCESS, 'SecretAccessKey': secret, 'SessionToken': TOKEN, 'Expiration': LATER}
    return {'AWS_CONFIG_FILE': in_hidden('config', f'[default]\ncredential_process = cat {in_hidden("told", json.dumps(told))}\n')}


def web_identity(secret):
    Keys.secret = secret
    return {'AWS_WEB_IDENTITY_TOKEN_FILE': in_hidden('identity', MARK + 'identity'), 'AWS_ROLE_ARN': 'arn:aws:iam::1:role/r',
            'AWS_ENDPOINT_URL_STS': KEYS}


def container(secret):
    Keys.secret = secret
    return {'AWS_CONTAINER_CREDENTIALS_FULL_URI': f'{KEYS}/keys', 'AWS_CONTAINER_AUTHORIZATION_TOKEN': MARK + 'authorization'}


# Instance metadata have an address that no test can have: tests/unit/src/object/cred.c is their test.
SOURCES = (environment, shared_file, program, web_identity, container)


# ----------------------------------------------------------------------------------- commands

def commands():
    """Words of every command that talks to a store."""
    with open('f', 'wb') as f:
        f.write(bytes(range(256)) * 40)
    write_trace('t.csv', some_rows(12))
    to = 's3://bucket/p'
    kv = ('--num-users', '1', '--runtime', '60', '--max-requests', '1', '--model', 'tiny-1b', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0.1',
          '--generation-mode', 'none', '--seed', '3', '--output', 'kv-mlperf.json')
    yield 'cp', 'f', f'{to}/f', '--json', 'cp.json'
    yield 'cp', f'{to}/f', 'g'
    yield 'ls', '-r', to, '--json', 'ls.json'
    yield 'info', 's3://bucket', '--json', 'info.json'
    yield 'ckpt', 'cp', 'f', f'{to}/c', '--json', 'ckpt.json'
    yield 'ckpt', 'ls', f'{to}/c'
    yield 'ckpt', 'verify', f'{to}/c'
    yield 'rm', '-r', to
    yield 'bench', '-f', to, '-s', '64K', '-n', '2', '--json', 'bench.json', '--csv', 'bench.csv', '--html', 'bench.html'
    yield 'io', '--target', to, '--read-only', '--size', '64K', '--iterations', '1', '--json', 'io.json'
    yield ('sweep', '-f', to, '-s', '1M', '-b', '1M', '-d', '2', '-t', '1', '--sequential-requests', 'no', '--single-submit', 'no', '--json', 'sweep.json',
           '--log-dir', 'logs')
    yield 'replay', 't.csv', *FLAT, '--target', f'{to}/r', '--json', 'replay.json'
    yield 'kv', *kv, '--folder', f'{to}/kv', '--json', 'kv.json'


def searched(done):
    """Nothing of it has the mark, and neither has a file."""
    assert MARK not in done.stdout + done.stderr, done
    for folder, _, files in os.walk('.'):
        for name in files:
            with open(os.path.join(folder, name), 'rb') as f:
                assert MARK.encode() not in f.read(), (done.args, name)


def call(words, env):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **env})
    searched(done)
    return done


def refused(done):
    """By the store, whose answers to HEAD have no words."""
    return any(word in done.stdout + done.stderr for word in ('SignatureDoesNotMatch', 'Permission denied', '403'))


@in_folder
def no_command_tells_the_keys():
    for words in commands():
        done = call([PENSTOCK, *words], environment(RIGHT))
        assert done.returncode == 0, (words, done.stderr)


@in_folder
def no_command_tells_keys_that_are_refused():
    for words in commands():
        done = call([PENSTOCK, *words], environment(WRONG))
        assert done.returncode and refused(done), (words, done)


@in_folder
def keys_of_every_source_work_and_are_not_told():
    with open('f', 'wb') as f:
        f.write(b'x')
    for source in SOURCES:
        done = call([PENSTOCK, 'cp', 'f', 's3://bucket/source'], source(RIGHT))
        assert done.returncode == 0, (source.__name__, done)
        done = call([PENSTOCK, 'info', 's3://bucket', '--json', 'info.json'], source(WRONG))
        assert done.returncode == 1 and refused(done), (source.__name__, done)


@in_folder
def what_a_source_answers_wrong_is_not_told():
    broken = {'AWS_CONFIG_FILE': in_hidden('broken', f'[default]\ncredential_process = echo {MARK} not JSON\n')}, \
             {'AWS_CONFIG_FILE': in_hidden('noisy', f'[default]\ncredential_process = sh -c "echo {MARK} >&2; exit 3"\n')}, \
             {'AWS_SHARED_CREDENTIALS_FILE': in_hidden('half', f'[default]\naws_secret_access_key = {RIGHT}\n')}, \
             {**container(RIGHT), 'AWS_CONTAINER_AUTHORIZATION_TOKEN': MARK + 'other'}, \
             {**web_identity(RIGHT), 'AWS_WEB_IDENTITY_TOKEN_FILE': in_hidden('other', MARK + 'other')}, \
             {'AWS_SECRET_ACCESS_KEY': RIGHT}
    for env in broken:
        done = call([PENSTOCK, 'ls', 's3://bucket'], env)
        assert done.returncode != 0 and done.stderr.count('\n') == 1, done


@in_folder
def python_does_not_tell_them():
    if not os.path.exists(f'{PACKAGE}/penstock/_penstock.abi3.so'):
        raise tap.Skip('package', 'the Python package is not built')
    words = [sys.executable, '-m', 'penstock', 's3', 'compare', 's3://bucket/c', '--library', 'penstock', '--files', '2', '--size', '4K', '--iterations', '2',
             '--json', 'compare.json']
    for secret, status in ((RIGHT, 0), (WRONG, 1)):
        assert call(words, {**environment(secret), 'PYTHONPATH': PACKAGE}).returncode == status
    code = ('import pickle, penstock.s3 as s\n'
            f'c = s.Client(key_id={s3kit.ACCESS!r}, secret={WRONG!r}, token={TOKEN!r})\n'
            'print(c, repr(c), vars(c).keys(), c.stats())\n'
            "c.get('s3://bucket/x')\n")
    with open(os.path.join(hidden.name, 'code.py'), 'w') as f:
        f.write(code)
    done = call([sys.executable, os.path.join(hidden.name, 'code.py')], {'PYTHONPATH': PACKAGE})
    assert done.returncode == 1 and 'PermissionError' in done.stderr, done


with contextlib.ExitStack() as stack:
    stack.callback(hidden.cleanup)
    stack.callback(S.close)
    tap.run(no_command_tells_the_keys, no_command_tells_keys_that_are_refused, keys_of_every_source_work_and_are_not_told,
            what_a_source_answers_wrong_is_not_told, python_does_not_tell_them)
