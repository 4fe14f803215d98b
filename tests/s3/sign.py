# SPDX-License-Identifier: Apache-2.0
"""Signature version 4 of S3, as a server checks it: from what came over the wire, byte for byte."""
import calendar
import hashlib
import hmac
import time
import urllib.parse


class Refused(Exception):
    """status, code of S3, message"""


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature(secret, scope, to_sign):
    key = ('AWS4' + secret).encode()
    for word in scope.split('/'):
        key = _hmac(key, word)
    return _hmac(key, to_sign).hex()


def _canonical_query(text):
    pairs = []
    for part in text.split('&') if text else ():
        name, _, value = part.partition('=')
        pairs.append((urllib.parse.quote(urllib.parse.unquote(name), '-_.~'),
                      urllib.parse.quote(urllib.parse.unquote(value), '-_.~')))
    return '&'.join(f'{name}={value}' for name, value in sorted(pairs))


def canonical(request, signed):
    path = urllib.parse.quote(urllib.parse.unquote_to_bytes(request.path), '-_.~/')
    headers = ''.join(f'{name}:{" ".join(request.headers.get(name, "").split())}\n' for name in signed.split(';'))
    return '\n'.join((request.method, path, _canonical_query(request.query_text), headers, signed,
                      request.headers.get('x-amz-content-sha256', 'UNSIGNED-PAYLOAD')))


def check(request, keys, now):
    """@keys: secrets by id; @now: what the server takes for the time."""
    text = request.headers.get('authorization', '')
    if not text.startswith('AWS4-HMAC-SHA256 '):
        raise Refused(403, 'AccessDenied', 'the request is not signed')
    fields = dict(word.strip().partition('=')[::2] for word in text[17:].split(','))
    ident, _, scope = fields.get('Credential', '').partition('/')
    if ident not in keys:
        raise Refused(403, 'InvalidAccessKeyId', 'no such key')
    date = request.headers.get('x-amz-date', '')
    try:
        then = calendar.timegm(time.strptime(date, '%Y%m%dT%H%M%SZ'))
    except ValueError:
        raise Refused(403, 'AccessDenied', 'x-amz-date is not a date') from None
    signed = fields.get('SignedHeaders', '')
    need = [name for name in request.headers if name.startswith('x-amz-')] + ['host']
    if not set(need) <= set(signed.split(';')):
        raise Refused(403, 'AccessDenied', f'there were headers that are not signed: {need}')
    form = canonical(request, signed)
    to_sign = '\n'.join(('AWS4-HMAC-SHA256', date, scope, hashlib.sha256(form.encode()).hexdigest()))
    if not hmac.compare_digest(signature(keys[ident], scope, to_sign), fields.get('Signature', '')):
        raise Refused(403, 'SignatureDoesNotMatch', 'the canonical request is ' + form.replace('\n', '|'))
    if abs(then - now) > 900:
        raise Refused(403, 'RequestTimeTooSkewed', 'the clocks differ too much')
