# SPDX-License-Identifier: Apache-2.0
"""Clients of object stores for `penstock s3 compare', and one turn of one of them: a process that reads what to do as JSON on
its standard input and says how it went on its standard output.
"""
import concurrent.futures
import hashlib
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import urllib.parse
from typing import Any

BLOCK = 64


class ComparedClient:
    """put() and get() of one object, by any number of threads."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job, self.bucket, self.part = job, job['bucket'], job['part']
        self.endpoint, self.region = job['endpoint'], job['region']

    def put(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def get(self, key: str) -> Any:
        raise NotImplementedError


class Penstock(ComparedClient):
    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        s3 = importlib.import_module('penstock.s3')
        self.s3 = s3.Client(endpoint=self.endpoint, connections=job['threads'], part=max(self.part, 5 << 20), sign_body=job['sign_body'],
                            checksum='none')
        self.core = self.s3.core  # opened here, as the others are, and not by the first object

    def put(self, key: str, data: bytes) -> None:
        self.s3.put_bytes(f's3://{self.bucket}/{key}', data)

    def get(self, key: str) -> Any:
        return memoryview(self.s3.get(f's3://{self.bucket}/{key}', size=self.job['size']))


class Boto3(ComparedClient):
    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        boto3, config = importlib.import_module('boto3'), importlib.import_module('botocore.config')
        transfer = importlib.import_module('boto3.s3.transfer')
        how = config.Config(max_pool_connections=job['threads'], request_checksum_calculation='when_required',
                            response_checksum_validation='when_required',
                            s3={'addressing_style': 'path' if self.endpoint else 'auto', 'payload_signing_enabled': job['sign_body']})
        self.client = boto3.client('s3', endpoint_url=self.endpoint, region_name=self.region, config=how)
        self.parts = transfer.TransferConfig(multipart_threshold=self.part + 1, multipart_chunksize=self.part)

    def put(self, key: str, data: bytes) -> None:
        if len(data) <= self.part:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=data)
        else:
            self.client.upload_fileobj(io.BytesIO(data), self.bucket, key, Config=self.parts)

    def get(self, key: str) -> Any:
        if self.job['size'] <= self.part:
            return self.client.get_object(Bucket=self.bucket, Key=key)['Body'].read()
        out = io.BytesIO()
        self.client.download_fileobj(self.bucket, key, out, Config=self.parts)
        return out.getbuffer()


class Minio(ComparedClient):
    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        minio, urllib3 = importlib.import_module('minio'), importlib.import_module('urllib3')
        url = urllib.parse.urlsplit(self.endpoint or 'https://s3.amazonaws.com')
        self.client = minio.Minio(url.netloc, os.environ.get('AWS_ACCESS_KEY_ID'), os.environ.get('AWS_SECRET_ACCESS_KEY'),
                                  os.environ.get('AWS_SESSION_TOKEN'), secure=url.scheme == 'https', region=self.region,
                                  http_client=urllib3.PoolManager(maxsize=job['threads'], retries=urllib3.Retry(total=5)))

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(self.bucket, key, io.BytesIO(data), len(data), part_size=max(self.part, 5 << 20))

    def get(self, key: str) -> Any:
        answer = self.client.get_object(self.bucket, key)
        try:
            return answer.read()
        finally:
            answer.close()
            answer.release_conn()


class S3Dlio(ComparedClient):
    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.lib = importlib.import_module('s3dlio')

    def put(self, key: str, data: bytes) -> None:
        self.lib.put_bytes(f's3://{self.bucket}/{key}', data)

    def get(self, key: str) -> Any:
        return memoryview(self.lib.get(f's3://{self.bucket}/{key}'))


class S3TorchConnector(ComparedClient):
    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        lib, low = importlib.import_module('s3torchconnector'), importlib.import_module('s3torchconnector._s3client')
        config = lib.S3ClientConfig(part_size=max(self.part, 5 << 20), force_path_style=bool(self.endpoint))
        self.client = low.S3Client(region=self.region, endpoint=self.endpoint, s3client_config=config)

    def put(self, key: str, data: bytes) -> None:
        writer = self.client.put_object(self.bucket, key)
        writer.write(data)
        writer.close()

    def get(self, key: str) -> Any:
        return self.client.get_object(self.bucket, key).read()


class Program(ComparedClient):
    """One process for each object: what such a tool costs who calls it that way."""
    putting: list[str] = []
    getting: list[str] = []
    env: dict[str, str] | None = None

    def run(self, template: list[str], key: str, data: bytes) -> bytes:
        names = {'bucket': self.bucket, 'key': key, 'endpoint': self.endpoint or '', 'region': self.region, 'part': self.part}
        return subprocess.run([word.format(**names) for word in template], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=True, env=self.env).stdout

    def put(self, key: str, data: bytes) -> None:
        self.run(self.putting, key, data)

    def get(self, key: str) -> Any:
        return self.run(self.getting, key, b'')


class AwsCli(Program):
    putting = ['aws', 's3', 'cp', '--quiet', '-', 's3://{bucket}/{key}']
    getting = ['aws', 's3', 'cp', '--quiet', 's3://{bucket}/{key}', '-']


class Rclone(Program):
    where = (':s3,provider=Other,env_auth=true,force_path_style=true,no_check_bucket=true,chunk_size={part}B,endpoint="{endpoint}",'
             'region="{region}":{bucket}/{key}')
    putting = ['rclone', 'rcat', where]
    getting = ['rclone', 'cat', where]

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        # Its SDK cannot take the certificates of AWS's variable, and the user's file is none of ours.
        self.env = dict(os.environ, RCLONE_CONFIG='/dev/null')
        bundle = self.env.pop('AWS_CA_BUNDLE', None)
        if bundle:
            self.env['RCLONE_CA_CERT'] = bundle


# Name: the class, what must be installed, and what of the same terms it cannot be held to.
LIBRARIES: dict[str, tuple[type[ComparedClient], str, str]] = {
    'penstock': (Penstock, 'penstock', ''),
    's3dlio': (S3Dlio, 's3dlio', 'parts and signing are its own'),
    's3torchconnector': (S3TorchConnector, 's3torchconnector', 'signing is its own'),
    'minio': (Minio, 'minio', 'always signs what it sends over http'),
    'boto3': (Boto3, 'boto3', ''),
    'aws-cli': (AwsCli, 'aws', 'a process for each object; parts are its own'),
    'rclone': (Rclone, 'rclone', 'a process for each object'),
}


def is_installed(name: str) -> bool:
    cls, needs, _ = LIBRARIES[name]
    if issubclass(cls, Program):
        path = shutil.which(needs)
        return path is not None and subprocess.run([path, '--version'], stdout=subprocess.DEVNULL,
                                                   stderr=subprocess.DEVNULL).returncode == 0
    return importlib.util.find_spec(needs) is not None


def note_of(name: str) -> str:
    return LIBRARIES[name][2] if name in LIBRARIES else ''


def version_of(name: str) -> str | None:
    """As the client itself says."""
    if name == 'penstock':
        return str(importlib.import_module('penstock').__version__)
    if name not in LIBRARIES:
        return None
    cls, needs, _ = LIBRARIES[name]
    if issubclass(cls, Program):
        version = subprocess.run([needs, '--version'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
        return version[0] if version else None
    try:
        return importlib.metadata.version(needs)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_client(name: str) -> type[ComparedClient]:
    """One of ours, or MODULE:CLASS."""
    if name in LIBRARIES:
        return LIBRARIES[name][0]
    module, _, cls = name.partition(':')
    found: type[ComparedClient] = getattr(importlib.import_module(module), cls)
    return found


def object_content(base: bytes, i: int) -> bytes:
    """Object @i: no two have a block of any size at the same place."""
    k = (i * 7919 + 13) % max(len(base), 1)
    return base[k:] + base[:k]


def make_base(size: int, seed: int) -> bytes:
    return hashlib.shake_128(str(seed).encode()).digest(size)


def _cpu() -> float:
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _memory() -> int:
    return sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) << 10


def run_turn(job: dict[str, Any]) -> dict[str, Any]:
    """One after the other by each thread; keys[] are written, or read and looked at."""
    base = make_base(job['size'], job['seed'])
    client = find_client(job['library'])(job)

    def write(i: int) -> None:
        client.put(job['keys'][i], object_content(base, i))

    def read(i: int) -> None:
        got, k = client.get(job['keys'][i]), (i * 7919 + 13) % max(len(base), 1)
        if len(got) != len(base) or bytes(got[:BLOCK]) != (base[k:] + base[:BLOCK])[:BLOCK]:
            raise ValueError(f'{job["keys"][i]}: is not what was written')

    one = write if job['what'] == 'write' else read
    with concurrent.futures.ThreadPoolExecutor(job['threads']) as pool:
        list(pool.map(lambda _: None, range(job['threads'])))  # they are there
        before, cpu, start = _memory(), _cpu(), time.monotonic()
        list(pool.map(one, range(len(job['keys']))))
        sec, cpu = time.monotonic() - start, _cpu() - cpu
    return {'sec': sec, 'cpu_sec': cpu, 'memory_bytes': _memory(), 'memory_before_bytes': before}


if __name__ == '__main__':
    try:
        print(json.dumps(run_turn(json.load(sys.stdin))))
    except Exception as e:  # whatever a client raises is its failure
        more = getattr(e, 'stderr', None)
        print(json.dumps({'error': ' '.join(f'{type(e).__name__}: {e} {(more or b"").decode(errors="replace")}'.split())[:400]}))
