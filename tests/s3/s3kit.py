# SPDX-License-Identifier: Apache-2.0
"""The server of tests/s3/server.py, for tests in Python.

    with Server('--bucket', 'b') as s:
        s.rules('method=GET p=0.1 status:503')
        ... s.urls, s.env, s.stats()
"""
import http.client
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ACCESS, SECRET = 'penstockaccess', 'penstocksecretpenstocksecretpenstock'


class Server:
    def __init__(self, *options, ports=1):
        # It ends with this process: its standard input is a pipe of ours.
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, 'server.py'), '--ports', str(ports), *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.urls = [self.process.stdout.readline().strip() for _ in range(ports)]
        if not self.urls[0]:
            raise OSError(f'{HERE}/server.py does not start')
        self.ports = [int(url.rsplit(':', 1)[1]) for url in self.urls]
        self.env = {'AWS_ENDPOINT_URL': self.urls[0], 'AWS_ACCESS_KEY_ID': ACCESS, 'AWS_SECRET_ACCESS_KEY': SECRET,
                    'AWS_REGION': 'us-east-1'}

    def use(self):
        """All that this process starts from now on finds it, and nothing else of the kind."""
        for name in [name for name in os.environ if name.startswith(('AWS_', 'S3_')) or name.lower().endswith('_proxy')]:
            del os.environ[name]
        os.environ.update(self.env, AWS_EC2_METADATA_DISABLED='true', HOME='/nonexistent')

    def ask(self, method, target, body=None, headers=None, port=None):
        """(status, headers, body) of one request, not signed."""
        connection = http.client.HTTPConnection('127.0.0.1', port or self.ports[-1], timeout=60)
        try:
            connection.request(method, target, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def rules(self, *lines, seed=1):
        status, _, body = self.ask('PUT', f'/_rules?seed={seed}', '\n'.join(lines))
        if status != 200:
            raise ValueError(body.decode())

    def stats(self):
        return json.loads(self.ask('GET', '/_stats')[2])

    def stop_port(self, number):
        """Close port @number (0 is the first) with all its connections; by the last, which cannot be stopped."""
        self.ask('PUT', f'/_stop?port={self.ports[number]}')

    def start_port(self, number):
        self.ask('PUT', f'/_start?port={self.ports[number]}')

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
