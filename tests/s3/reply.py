# SPDX-License-Identifier: Apache-2.0
"""What S3 answers, from a store, and how it goes over the wire when a rule says that it goes wrong."""
import email.utils
import http.client
import re
import time
import urllib.parse
import xml.etree.ElementTree
from xml.sax.saxutils import escape

from store import S3Error

XMLNS = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
CODES = {429: 'TooManyRequests', 500: 'InternalError', 502: 'BadGateway', 503: 'SlowDown', 504: 'GatewayTimeout',
         408: 'RequestTimeout', 403: 'AccessDenied', 404: 'NoSuchKey', 409: 'ConditionalRequestConflict',
         412: 'PreconditionFailed', 416: 'InvalidRange'}
BOMB = (b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "aaaaaaaaaa">' +
        b''.join(b'<!ENTITY a%d "%s">' % (i, b'&a%d;' % (i - 1) * 10) for i in range(1, 30)) + b']><Error><Code>&a29;</Code></Error>')


def date(now):
    return email.utils.formatdate(now, usegmt=True)


def iso_time(now):
    return time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(now))


class Reply:
    """@body: bytes, or an iterable of views of @length bytes in all."""

    def __init__(self, status, headers=None, body=b'', length=None):
        self.status, self.headers = status, dict(headers or {})
        self.body = [body] if isinstance(body, bytes) else body
        self.length = len(body) if length is None else length


def document(text, status=200):
    return Reply(status, {'Content-Type': 'application/xml'}, b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.encode())


def error(status, code, message=''):
    return document(f'<Error><Code>{code}</Code><Message>{escape(message)}</Message><RequestId>0</RequestId></Error>', status)


def unchunk(data):
    """The content of a body in AWS's chunks; signatures and trailers are not looked at."""
    out, at = bytearray(), 0
    while True:
        end = data.index(b'\r\n', at)
        size = int(bytes(data[at:end]).split(b';')[0], 16)
        if not size:
            return out
        out += data[end + 2:end + 2 + size]
        at = end + 4 + size


# --------------------------------------------------------------------------- what is answered

def parse_range(request, there):
    """(offset, length, a range?) of what is to be sent"""
    if 'partNumber' in request.query:
        number = int(request.query['partNumber'])
        if number > len(there.parts):
            raise S3Error(416, 'InvalidPartNumber')
        return sum(there.parts[:number - 1]), there.parts[number - 1], True
    found = re.fullmatch(r'bytes=(\d*)-(\d*)', request.headers.get('range', ''))
    if not found or found.groups() == ('', ''):
        return 0, there.size, False
    first, last = found.groups()
    if first == '':
        first, last = max(0, there.size - int(last)), there.size - 1
    first, last = int(first), min(int(last or there.size - 1), there.size - 1)
    if first > last:
        raise S3Error(416, 'InvalidRange')
    return first, last - first + 1, True


def get(store, request):
    there = store.get(request.bucket, request.key)
    want = request.headers.get('if-match')
    if want and want != '*' and want != there.etag:
        raise S3Error(412, 'PreconditionFailed', 'it is another')
    headers = {'ETag': there.etag, 'Last-Modified': date(there.mtime), 'Content-Type': there.type,
               'Accept-Ranges': 'bytes', **there.extra}
    if request.headers.get('if-none-match') in (there.etag, '*'):
        return Reply(304, headers)
    offset, length, ranged = parse_range(request, there)
    if ranged:
        headers['Content-Range'] = f'bytes {offset}-{offset + length - 1}/{there.size}'
        headers = {name: value for name, value in headers.items() if not name.startswith('x-amz-checksum-')}
        headers['x-amz-mp-parts-count'] = str(len(there.parts))
    return Reply(206 if ranged else 200, headers, there.read(offset, length), length)


def copy_source(store, request):
    name = urllib.parse.unquote(request.headers['x-amz-copy-source']).lstrip('/')
    there = store.get(*name.split('/', 1))
    want = request.headers.get('x-amz-copy-source-if-match')
    if want and want != there.etag:
        raise S3Error(412, 'PreconditionFailed')
    first, last = 0, there.size - 1
    if found := re.fullmatch(r'bytes=(\d+)-(\d+)', request.headers.get('x-amz-copy-source-range', '')):
        first, last = map(int, found.groups())
    return b''.join(there.read(first, last - first + 1))


def put(store, request):
    bucket, key, query, headers = request.bucket, request.key, request.query, request.headers
    copied = 'x-amz-copy-source' in headers
    data = copy_source(store, request) if copied else request.body
    if copied:  # the hash is that of the request, which has no body
        headers = {name: value for name, value in headers.items() if name != 'x-amz-content-sha256'}
    if 'uploadId' in query:
        etag = store.put_part(bucket, key, query['uploadId'], int(query['partNumber']), data, headers)
        kind = 'CopyPartResult'
    else:
        etag, kind = store.put(bucket, key, data, headers).etag, 'CopyObjectResult'
    if copied:
        return document(f'<{kind}><ETag>{escape(etag)}</ETag><LastModified>{iso_time(time.time())}</LastModified></{kind}>')
    return Reply(200, {'ETag': etag, **{name: value for name, value in headers.items() if name.startswith('x-amz-checksum-')}})


def elements(data, name):
    for e in xml.etree.ElementTree.fromstring(bytes(data)).iter():
        if e.tag.rpartition('}')[2] == name:
            yield {child.tag.rpartition('}')[2]: child.text or '' for child in e}


def post(store, request):
    bucket, key, query = request.bucket, request.key, request.query
    if 'delete' in query:
        done = []
        for entry in elements(request.body, 'Object'):
            store.delete(bucket, entry['Key'])
            done.append(f'<Deleted><Key>{escape(entry["Key"])}</Key></Deleted>')
        return document(f'<DeleteResult{XMLNS}>{"".join(done)}</DeleteResult>')
    if 'uploads' in query:
        ident = store.begin(bucket, key, request.headers)
        return document(f'<InitiateMultipartUploadResult{XMLNS}><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>'
                        f'<UploadId>{ident}</UploadId></InitiateMultipartUploadResult>')
    listed = [(int(part['PartNumber']), part['ETag']) for part in elements(request.body, 'Part')]
    made = store.complete(bucket, key, query['uploadId'], listed, request.headers)
    return document(f'<CompleteMultipartUploadResult{XMLNS}><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>'
                    f'<ETag>{escape(made.etag)}</ETag></CompleteMultipartUploadResult>')


def list_objects(store, request):
    query = request.query
    quote = (lambda t: urllib.parse.quote(t, '-_.~/')) if query.get('encoding-type') == 'url' else escape
    after = query.get('continuation-token', '')
    after = bytes.fromhex(after.partition('+/=')[2]).decode() if after else query.get('start-after', query.get('marker', ''))
    limit = min(int(query.get('max-keys', 1000)), 1000)
    found, groups, last = store.list(request.bucket, query.get('prefix', ''), query.get('delimiter', ''), after, limit)
    text = ''.join(f'<Contents><Key>{quote(key)}</Key><LastModified>{iso_time(o.mtime)}</LastModified><ETag>{escape(o.etag)}</ETag>'
                   f'<Size>{o.size}</Size><StorageClass>STANDARD</StorageClass></Contents>' for key, o in found)
    text += ''.join(f'<CommonPrefixes><Prefix>{quote(group)}</Prefix></CommonPrefixes>' for group in groups)
    more = ''
    if last is not None:
        more = f'<NextContinuationToken>t+/={last.encode().hex()}</NextContinuationToken><NextMarker>{quote(last)}</NextMarker>'
    kind = '<EncodingType>url</EncodingType>' if query.get('encoding-type') == 'url' else ''
    return document(f'<ListBucketResult{XMLNS}><Name>{request.bucket}</Name><Prefix>{quote(query.get("prefix", ""))}</Prefix>'
                    f'<KeyCount>{len(found) + len(groups)}</KeyCount><MaxKeys>{limit}</MaxKeys>{kind}'
                    f'<IsTruncated>{"false" if last is None else "true"}</IsTruncated>{more}{text}</ListBucketResult>')


def list_uploads(store, request):
    prefix = request.query.get('prefix', '')
    with store.lock:
        found = sorted((u.key, ident, u.begun) for ident, u in store.uploads.items()
                       if u.bucket == request.bucket and u.key.startswith(prefix))
    text = ''.join(f'<Upload><Key>{escape(key)}</Key><UploadId>{ident}</UploadId><Initiated>{iso_time(begun)}</Initiated></Upload>'
                   for key, ident, begun in found)
    return document(f'<ListMultipartUploadsResult{XMLNS}><Bucket>{request.bucket}</Bucket><IsTruncated>false</IsTruncated>'
                    f'{text}</ListMultipartUploadsResult>')


def list_parts(store, request):
    there = store.upload(request.bucket, request.key, request.query['uploadId'])
    text = ''.join(f'<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag><Size>{len(data)}</Size></Part>'
                   for number, (etag, data) in sorted(there.parts.items()))
    return document(f'<ListPartsResult{XMLNS}><IsTruncated>false</IsTruncated>{text}</ListPartsResult>')


def bucket_reply(store, request):
    method, name = request.method, request.bucket
    if method == 'PUT':
        with store.lock:
            store.buckets.setdefault(name, {})
        return Reply(200)
    there = store.bucket(name)
    if method == 'HEAD':
        return Reply(200, {'x-amz-bucket-region': 'us-east-1'})
    if method == 'DELETE':
        if there:
            raise S3Error(409, 'BucketNotEmpty')
        del store.buckets[name]
        return Reply(204)
    if method == 'POST':
        return post(store, request)
    if 'location' in request.query:
        return document(f'<LocationConstraint{XMLNS}/>')
    return list_uploads(store, request) if 'uploads' in request.query else list_objects(store, request)


def make_reply(store, request):
    method = request.method
    if not request.bucket:
        text = ''.join(f'<Bucket><Name>{name}</Name><CreationDate>{iso_time(0)}</CreationDate></Bucket>' for name in store.buckets)
        return document(f'<ListAllMyBucketsResult{XMLNS}><Buckets>{text}</Buckets></ListAllMyBucketsResult>')
    if not request.key:
        return bucket_reply(store, request)
    if method in ('GET', 'HEAD'):
        return list_parts(store, request) if 'uploadId' in request.query else get(store, request)
    if method == 'PUT':
        return put(store, request)
    if method == 'POST':
        return post(store, request)
    if method == 'DELETE':
        if 'uploadId' in request.query:
            store.abort(request.bucket, request.key, request.query['uploadId'])
        else:
            store.delete(request.bucket, request.key)
        return Reply(204)
    raise S3Error(405, 'MethodNotAllowed')


# --------------------------------------------------------------------------- how it is sent

def replacement_reply(request, rule):
    """The answer of a rule that takes the place of the real one."""
    name, args = rule.name, rule.args
    if name == 'status':
        status = rule.first()
        reply = error(status, CODES.get(status, 'Error'), 'on purpose')
        return Reply(status) if args[1:] == ['empty'] else reply
    if name == 'error200':
        return error(200, args[0] if args else 'InternalError', 'on purpose')
    if name == 'redirect':
        return Reply(rule.first(), {'Location': args[1] + request.target} if args[1:] and args[1] else {})
    if name == 'region':
        reply = error(301, 'PermanentRedirect', 'on purpose')
        reply.headers['x-amz-bucket-region'] = args[0]
        return reply
    if name == 'bomb':
        return Reply(200, {'Content-Type': 'application/xml'}, BOMB)
    if name == 'deep':
        return Reply(200, {'Content-Type': 'application/xml'}, b'<a>' * rule.first())
    return Reply(200)


def alter_reply(request, reply, rule):
    """Lies in the head of an answer, or in its body; the reply to be sent."""
    name, headers = rule.name, reply.headers
    if name == 'length':
        headers['Content-Length'] = str(max(0, reply.length + rule.first()))
    elif name == 'range' and 'Content-Range' in headers:
        headers['Content-Range'] = f'bytes 1-{reply.length}/{reply.length + 1}'
    elif name == 'etag':
        headers['ETag'] = '"0123456789abcdef0123456789abcdef"'
    elif name == 'crc':
        headers['x-amz-checksum-crc32c'] = 'AAAAAA=='
    elif name == 'corrupt':
        reply.body = corrupted(reply.body, rule.first(0))
    return reply


def corrupted(body, at):
    for piece in body:
        if 0 <= at < len(piece):
            piece = bytearray(piece)
            piece[at] ^= 1
        at -= len(piece)
        yield piece


def status_and_headers(reply, request):
    headers = {'Content-Length': str(reply.length), 'Date': date(time.time()), 'Server': 'penstock-test',
               'x-amz-request-id': '0', **reply.headers}
    if request.headers.get('connection', '').lower() == 'close':
        headers['Connection'] = 'close'
    if reply.status in (204, 304):
        del headers['Content-Length']
    lines = ''.join(f'{name}: {value}\r\n' for name, value in headers.items())
    return f'HTTP/1.1 {reply.status} {http.client.responses.get(reply.status, "?")}\r\n{lines}\r\n'.encode('utf-8')


def send_limited(sock, body, limit):
    """Send the first @limit bytes of @body; the rest of it."""
    rest = iter(body)
    for piece in rest:
        sock.sendall(piece[:limit])
        if len(piece) >= limit:
            return [piece[limit:], *rest]
        limit -= len(piece)
    return []


def send_endless(sock, size):
    sock.sendall(b'HTTP/1.1 200 OK\r\n')
    sent = 0
    while sent < size:
        line = b'x-amz-meta-%d: %s\r\n' % (sent, b'a' * 4000)
        sock.sendall(line)
        sent += len(line)
    raise ConnectionError


def send_faulty(connection, request, reply, rule):
    """Rules by which the connection does not survive, or takes its time."""
    name, sock = rule.name, connection.sock
    if name == 'drop' or (name == 'reset' and not rule.args):
        if name == 'reset':
            connection.reset()
        raise ConnectionError
    if name == 'garbage':
        sock.sendall(b'\x00\x01SSH-2.0 not what you think\r\n\r\n' * 10)
        raise ConnectionError
    if name == 'headers':
        send_endless(sock, rule.first())
    head, body = status_and_headers(reply, request), [] if request.method == 'HEAD' else reply.body
    sock.sendall(head)
    if name in ('reset', 'short'):
        send_limited(sock, body, rule.first())
        if name == 'reset':
            connection.reset()
        raise ConnectionError
    if name == 'stallmid':
        body = send_limited(sock, body, rule.first())
        time.sleep(float(rule.args[1]))
    for piece in body:
        if name == 'slow':
            for at in range(0, len(piece), max(1, rule.first() // 20)):
                sock.sendall(piece[at:at + max(1, rule.first() // 20)])
                time.sleep(0.05)
        else:
            sock.sendall(piece)
    if name in ('bye', 'length'):
        raise ConnectionError


def send(connection, request, reply, rule):
    if rule is None:
        head = status_and_headers(reply, request)
        if request.method == 'HEAD' or not reply.length:
            return connection.sock.sendall(head)
        for piece in reply.body:
            if head and len(piece) <= 65536:
                piece = head + piece
            elif head:
                connection.sock.sendall(head)
            head = b''
            connection.sock.sendall(piece)
        return None
    if reply is None or (rule.late and rule.name in ('status', 'error200')):
        reply = replacement_reply(request, rule)
    return send_faulty(connection, request, alter_reply(request, reply, rule), rule)
