#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the server that others are tested with do what it says?  Asked with plain requests."""
import hashlib
import http.client
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import s3kit  # noqa: E402
import sign  # noqa: E402
from tap import run  # noqa: E402

S = s3kit.Server('--no-sign', '--least-part', '10', ports=2)
ask = S.ask


def objects_have_ranges_and_conditions():
    assert ask('PUT', '/bucket/a%20b', b'0123456789')[0] == 200
    status, headers, body = ask('GET', '/bucket/a%20b', headers={'Range': 'bytes=2-4'})
    assert (status, headers['Content-Range'], body) == (206, 'bytes 2-4/10', b'234')
    assert ask('GET', '/bucket/a%20b', headers={'Range': 'bytes=-3'})[2] == b'789'
    assert ask('GET', '/bucket/a%20b', headers={'Range': 'bytes=10-'})[0] == 416
    etag = '"' + hashlib.md5(b'0123456789').hexdigest() + '"'
    assert headers['ETag'] == etag
    assert ask('GET', '/bucket/a%20b', headers={'If-Match': '"x"'})[0] == 412
    assert ask('GET', '/bucket/a%20b', headers={'If-None-Match': etag})[0] == 304
    assert ask('PUT', '/bucket/a%20b', b'', headers={'If-None-Match': '*'})[0] == 412
    assert ask('PUT', '/bucket/a%20b', b'new', headers={'If-Match': etag})[0] == 200
    assert ask('HEAD', '/bucket/a%20b')[1]['Content-Length'] == '3'
    assert ask('GET', '/bucket/none')[0] == 404 and ask('GET', '/nowhere/a')[0] == 404
    assert ask('DELETE', '/bucket/a%20b')[0] == 204 and ask('HEAD', '/bucket/a%20b')[0] == 404


def content_is_checked():
    for name, value in (('Content-MD5', 'AAAAAAAAAAAAAAAAAAAAAA=='), ('x-amz-checksum-crc32c', 'AAAAAA=='),
                        ('x-amz-content-sha256', '0' * 64)):
        assert ask('PUT', '/bucket/c', b'123456789', headers={name: value})[0] == 400, name
    assert ask('PUT', '/bucket/c', b'123456789', headers={'x-amz-checksum-crc32c': '4waSgw=='})[0] == 200


def uploads_have_their_rules():
    def begin():
        return ask('POST', '/bucket/up?uploads')[2].split(b'<UploadId>')[1].split(b'<')[0].decode()

    def part(number, data):
        return ask('PUT', f'/bucket/up?partNumber={number}&uploadId={ident}'.replace('+', '%2B'), data)[1]['ETag']

    def complete(*parts):
        text = ''.join(f'<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>' for n, e in parts)
        return ask('POST', f'/bucket/up?uploadId={ident}'.replace('+', '%2B'),
                   f'<CompleteMultipartUpload>{text}</CompleteMultipartUpload>')

    ident = begin()
    one, two, small = part(1, b'x' * 20), part(2, b'y' * 5), part(3, b'z')
    assert b'InvalidPartOrder' in complete((2, two), (1, one))[2]
    assert b'InvalidPart' in complete((1, one), (2, one))[2]
    assert b'EntityTooSmall' in complete((1, one), (2, two), (3, small))[2]
    assert ident.encode() in ask('GET', '/bucket?uploads')[2]
    assert complete((1, one), (2, two))[0] == 200 and S.stats()['uploads'] == 0
    assert ask('GET', '/bucket/up', headers={'Range': 'bytes=18-21'})[2] == b'xxyy'
    assert ask('GET', '/bucket/up?partNumber=2')[2] == b'y' * 5
    ident = begin()
    assert ask('DELETE', f'/bucket/up?uploadId={ident}'.replace('+', '%2B'))[0] == 204
    assert complete((1, one))[0] == 404


def lists_are_paged():
    for i in range(7):
        ask('PUT', f'/bucket/l/{i}/x', b'')
    ask('PUT', '/bucket/l/top', b'')
    token, seen = '', []
    while True:
        body = ask('GET', f'/bucket?list-type=2&prefix=l/&delimiter=/&max-keys=3{token}')[2].decode()
        seen += [p.split('</Prefix>')[0] for p in body.split('<CommonPrefixes><Prefix>')[1:]]
        seen += [p.split('</Key>')[0] for p in body.split('<Key>')[1:]]
        if '<IsTruncated>false' in body:
            break
        token = '&continuation-token=' + body.split('<NextContinuationToken>')[1].split('<')[0].replace('+', '%2B')
    assert seen == [f'l/{i}/' for i in range(7)] + ['l/top'], seen


def copies_and_batches_of_deletes():
    ask('PUT', '/bucket/from', b'abc')
    assert b'<ETag>' in ask('PUT', '/bucket/to', headers={'x-amz-copy-source': '/bucket/from'})[2]
    assert ask('GET', '/bucket/to')[2] == b'abc'
    ask('POST', '/bucket?delete', '<Delete><Object><Key>from</Key></Object><Object><Key>to</Key></Object></Delete>')
    assert ask('HEAD', '/bucket/to')[0] == 404


def what_takes_no_memory_has_content():
    body = ask('GET', '/bucket/virtual/100000000000', headers={'Range': 'bytes=99999999996-'})[2]
    assert body == (99999999992).to_bytes(8, 'little')[4:], body


def rules_fail_as_they_say():
    ask('PUT', '/bucket/r', b'x' * 1000)

    def outcome(rule):
        S.rules('key=r ' + rule)
        try:
            status, headers, body = ask('GET', '/bucket/r', headers={'Range': 'bytes=0-99'})
            return status, len(body)
        except (http.client.HTTPException, OSError) as e:
            return type(e).__name__
        finally:
            S.rules()

    want = {'status:503': (503, 128), 'status:500:empty': (500, 0), 'reset': 'ConnectionResetError',
            'short:10': 'IncompleteRead', 'drop': 'RemoteDisconnected', 'bye': (206, 100), 'length:7': 'IncompleteRead',
            'length:-1': (206, 99), 'whole': (200, 1000), 'garbage': 'BadStatusLine', 'corrupt:3': (206, 100),
            'reset:10': 'ConnectionResetError', 'headers:1000000': 'HTTPException', 'stall:0.01': (206, 100)}
    for rule, told in want.items():
        assert outcome(rule) == told, (rule, outcome(rule))
    S.rules('key=r skip=1 times=1 status:429')
    assert [ask('GET', '/bucket/r')[0] for _ in range(3)] == [200, 429, 200]
    assert S.stats()['faults'] == {'status': 1}
    S.rules('key=r etag', 'key=r crc')
    assert ask('GET', '/bucket/r')[1]['ETag'] == '"0123456789abcdef0123456789abcdef"'
    S.rules('method=PUT late status:500')
    assert ask('PUT', '/bucket/r', b'late')[0] == 500
    S.rules()
    assert ask('GET', '/bucket/r')[2] == b'late'


def a_part_that_was_answered_is_not_counted_any_more():
    """Though the server is not done with it, which it is held up by here."""
    ident = ask('POST', '/bucket/part?uploads')[2].split(b'<UploadId>')[1].split(b'<')[0].decode().replace('+', '%2B')
    S.rules('query=partNumber stallmid:0:0.5')
    assert ask('PUT', f'/bucket/part?partNumber=1&uploadId={ident}', b'x' * 20)[0] == 200
    told = S.stats()
    assert told['most_parts'] == 1 and told['parts'] == 0, told
    S.rules()
    assert ask('DELETE', f'/bucket/part?uploadId={ident}')[0] == 204


def a_port_can_be_stopped_and_opened_again():
    S.stop_port(0)
    try:
        ask('GET', '/bucket?list-type=2', port=S.ports[0])
        raise AssertionError('it answers')
    except ConnectionRefusedError:
        pass
    S.start_port(0)
    assert ask('GET', '/bucket?list-type=2', port=S.ports[0])[0] == 200


def signatures_are_those_that_aws_publishes():
    class Request:
        method, path, query_text = 'GET', '/test.txt', ''
        headers = {'host': 'examplebucket.s3.amazonaws.com', 'range': 'bytes=0-9', 'x-amz-date': '20130524T000000Z',
                   'x-amz-content-sha256': 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}
    form = sign.canonical(Request, 'host;range;x-amz-content-sha256;x-amz-date')
    scope = '20130524/us-east-1/s3/aws4_request'
    to_sign = '\n'.join(('AWS4-HMAC-SHA256', '20130524T000000Z', scope, hashlib.sha256(form.encode()).hexdigest()))
    want = 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41'
    assert sign.signature('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', scope, to_sign) == want


def who_does_not_sign_is_refused():
    with s3kit.Server() as signed:
        assert signed.ask('GET', '/bucket/x')[0] == 403 and signed.stats()['refused'] == 1


try:
    run(objects_have_ranges_and_conditions, content_is_checked, uploads_have_their_rules, lists_are_paged,
        copies_and_batches_of_deletes, what_takes_no_memory_has_content, rules_fail_as_they_say,
        a_part_that_was_answered_is_not_counted_any_more,
        a_port_can_be_stopped_and_opened_again, signatures_are_those_that_aws_publishes, who_does_not_sign_is_refused)
finally:
    S.close()
