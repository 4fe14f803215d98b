# SPDX-License-Identifier: Apache-2.0
"""Buckets, objects and uploads in memory, with S3's rules; no HTTP here.

Keys below `virtual/N` are objects of N bytes that take no memory; what is put below `discard/` is counted and
forgotten.
"""
import array
import base64
import hashlib
import itertools
import struct
import threading
import time
import zlib

PIECE = 1 << 20
MD5_UP_TO = 1 << 20  # above, an ETag is a number of ours: MD5 would be what is measured


class S3Error(Exception):
    def __init__(self, status, code, message=''):
        super().__init__(message or code)
        self.status, self.code, self.message = status, code, message or code


_CRC32C = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ (0x82F63B78 if _n & 1 else 0)
    _CRC32C.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def check_content(headers, data):
    """What the client said of its content.  CRC-32C is looked at up to 64 KiB: this is Python."""
    want = headers.get('content-md5')
    if want and base64.b64encode(hashlib.md5(data).digest()).decode() != want:
        raise S3Error(400, 'BadDigest')
    want = headers.get('x-amz-content-sha256', '')
    if len(want) == 64 and hashlib.sha256(data).hexdigest() != want:
        raise S3Error(400, 'XAmzContentSHA256Mismatch')
    sums = {'x-amz-checksum-crc32': zlib.crc32, 'x-amz-checksum-crc32c': crc32c}
    for name, function in sums.items():
        want = headers.get(name)
        if want and (name[-1] != 'c' or len(data) <= 65536):
            if base64.b64encode(struct.pack('>I', function(data))).decode() != want:
                raise S3Error(400, 'BadDigest', f'{name} is not that of the content')


class Object:
    def __init__(self, pieces, etag, headers, parts=None):
        self.pieces = [memoryview(piece) for piece in pieces if len(piece)]
        self.size = sum(len(piece) for piece in self.pieces)
        self.etag, self.parts, self.mtime = f'"{etag}"', parts or [self.size], time.time()
        self.type = headers.get('content-type', 'binary/octet-stream')
        self.extra = {name: value for name, value in headers.items()
                      if name.startswith(('x-amz-meta-', 'x-amz-checksum-'))}

    def read(self, offset, length):
        """Views of the bytes."""
        for piece in self.pieces:
            if offset < len(piece) and length > 0:
                view = piece[offset:offset + length]
                length -= len(view)
                offset = 0
                yield view
            else:
                offset -= len(piece)


class Virtual:
    """@size bytes, eight by eight the number of their own offset; made when they are asked for."""

    def __init__(self, size):
        self.size, self.etag, self.parts, self.mtime = size, f'"virtual-{size}"', [size], 0
        self.type, self.extra = 'binary/octet-stream', {}

    def read(self, offset, length):
        while length > 0:
            start = offset & ~7
            count = min(length, PIECE)
            data = array.array('Q', range(start, start + (count + 15) // 8 * 8, 8)).tobytes()
            yield memoryview(data)[offset - start:offset - start + count]
            offset, length = offset + count, length - count


class Upload:
    def __init__(self, bucket, key, headers):
        self.bucket, self.key, self.headers, self.parts, self.begun = bucket, key, headers, {}, time.time()


class Store:
    def __init__(self, buckets=(), least_part=5 << 20, all_md5=False, plain_uploads=False):
        self.lock = threading.RLock()
        self.buckets = {name: {} for name in buckets}
        self.uploads = {}
        self.least_part, self.all_md5 = least_part, all_md5
        self.tail = '' if plain_uploads else '+/='  # which has to be encoded
        self.numbers = itertools.count(1)

    def bucket(self, name):
        try:
            return self.buckets[name]
        except KeyError:
            raise S3Error(404, 'NoSuchBucket', f'no bucket {name}') from None

    def etag(self, data):
        if self.all_md5 or len(data) <= MD5_UP_TO:
            return hashlib.md5(data).hexdigest()
        return f'{next(self.numbers):032x}-0'

    def get(self, bucket, key):
        objects = self.bucket(bucket)
        if key.startswith('virtual/') and key[8:].isdigit():
            return Virtual(int(key[8:]))
        try:
            return objects[key]
        except KeyError:
            raise S3Error(404, 'NoSuchKey', f'no object {key}') from None

    def may_write(self, bucket, key, headers):
        there = self.bucket(bucket).get(key)
        if headers.get('if-none-match') == '*' and there is not None:
            raise S3Error(412, 'PreconditionFailed', 'it is there')
        want = headers.get('if-match')
        if want and there is None:
            raise S3Error(404, 'NoSuchKey')
        if want and want != there.etag:
            raise S3Error(412, 'PreconditionFailed', 'it is another')

    def put(self, bucket, key, data, headers):
        check_content(headers, data)
        made = Object([data], self.etag(data), headers)
        with self.lock:
            self.may_write(bucket, key, headers)
            if not key.startswith('discard/'):
                self.bucket(bucket)[key] = made
        return made

    def delete(self, bucket, key):
        with self.lock:
            self.bucket(bucket).pop(key, None)

    def begin(self, bucket, key, headers):
        self.bucket(bucket)
        with self.lock:
            ident = f'upload.{next(self.numbers)}{self.tail}'
            self.uploads[ident] = Upload(bucket, key, headers)
        return ident

    def upload(self, bucket, key, ident):
        with self.lock:
            there = self.uploads.get(ident)
        if there is None or (there.bucket, there.key) != (bucket, key):
            raise S3Error(404, 'NoSuchUpload')
        return there

    def put_part(self, bucket, key, ident, number, data, headers):
        if not 1 <= number <= 10000:
            raise S3Error(400, 'InvalidArgument', 'partNumber is from 1 to 10000')
        check_content(headers, data)
        etag = f'"{self.etag(data)}"'
        if key.startswith('discard/'):
            data = b''
        there = self.upload(bucket, key, ident)
        with self.lock:
            there.parts[number] = (etag, data)
        return etag

    def complete(self, bucket, key, ident, listed, headers):
        """@listed: (number, ETag) as the client has them."""
        there = self.upload(bucket, key, ident)
        if not listed:
            raise S3Error(400, 'MalformedXML', 'no parts')
        if [number for number, _ in listed] != sorted({number for number, _ in listed}):
            raise S3Error(400, 'InvalidPartOrder')
        pieces = []
        for number, etag in listed:
            have = there.parts.get(number)
            if have is None or have[0].strip('"') != etag.strip('"'):
                raise S3Error(400, 'InvalidPart', f'part {number}')
            pieces.append(have[1])
        if not key.startswith('discard/') and any(len(piece) < self.least_part for piece in pieces[:-1]):
            raise S3Error(400, 'EntityTooSmall')
        name = hashlib.md5(b''.join(etag.encode() for _, etag in listed)).hexdigest()
        made = Object(pieces, f'{name}-{len(listed)}', there.headers, [len(piece) for piece in pieces])
        with self.lock:
            self.may_write(bucket, key, headers)
            if not key.startswith('discard/'):
                self.bucket(bucket)[key] = made
            self.uploads.pop(ident, None)
        return made

    def abort(self, bucket, key, ident):
        self.upload(bucket, key, ident)
        with self.lock:
            self.uploads.pop(ident, None)

    def list(self, bucket, prefix, delimiter, after, limit):
        """([(key, object)], [prefix], the last of both or None where nothing follows)"""
        with self.lock:
            keys = sorted(self.bucket(bucket))
        found, groups, last = [], [], ''
        for key in keys:
            if not key.startswith(prefix) or key <= after:
                continue
            group = None
            if delimiter and delimiter in key[len(prefix):]:
                group = prefix + key[len(prefix):].split(delimiter)[0] + delimiter
                if (groups and groups[-1] == group) or after.startswith(group):
                    continue
            if len(found) + len(groups) == limit:
                return found, groups, last
            if group:
                groups.append(group)
                last = group + '\U0010ffff'
            else:
                found.append((key, self.buckets[bucket][key]))
                last = key
        return found, groups, None
