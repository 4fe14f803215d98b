#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the picture of README.md: the top of the page that `penstock report` makes of a run.

    tools/picture.py [PENSTOCK [FOLDER]]

With a folder the run is made first, there, in half a minute, and kept in docs/bench.json.

Needs chromium and python3-selenium, as the tests of the page do.  The schema of the result and its
hash are written into the picture, where a test finds them: with another schema or another run
run this again.
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT, PICTURE = f'{ROOT}/docs/bench.json', f'{ROOT}/docs/picture.png'
WIDTH = 1000
KEY = b'penstock'
END = b'IEND'


def measure(penstock, folder):
    """A run, and nothing of where it was made but what a result says."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        subprocess.run(['penstock', 'bench', '--size', '256K', '2M', '16M', '--json', 'bench.json'], executable=penstock,
                       cwd=work, check=True, stdout=subprocess.DEVNULL)
        with open(f'{work}/bench.json') as f:
            run = json.load(f)
    with open(RESULT, 'w') as f:
        json.dump(run, f, separators=(',', ':'))
        f.write('\n')


def input_digests():
    """What the picture shows, as it is written into it."""
    with open(RESULT, 'rb') as f:
        data = f.read()
    return {'schema': json.loads(data)['schema'], 'sha256': hashlib.sha256(data).hexdigest()}


def read_digests(png):
    """The same, out of a picture; None: nothing is there."""
    at = 8
    while at < len(png):
        length, kind = struct.unpack('>I4s', png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b'tEXt' and body.startswith(KEY + b'\0'):
            return json.loads(body[len(KEY) + 1:])
        at += length + 12
    return None


def add_digests(png, facts):
    chunk = b'tEXt' + KEY + b'\0' + json.dumps(facts).encode('ascii')
    chunk = struct.pack('>I', len(chunk) - 4) + chunk + struct.pack('>I', zlib.crc32(chunk))
    at = png.rindex(END) - 4
    return png[:at] + chunk + png[at:]


def draw(page):
    """The page down to the charts of bandwidth and latency."""
    sys.path.insert(0, f'{ROOT}/tests/report')
    import browser

    missing = browser.missing()
    if missing:
        sys.exit(f'picture: {missing}')
    b = browser.Browser()
    try:
        browser.SIZES['picture'] = (WIDTH, 900)
        b.open(page, 'picture')
        bottom = b.js('''
            const rest = [...document.querySelectorAll('h2')].find(h => /distribution/i.test(h.textContent));
            return rest.closest('section').getBoundingClientRect().top + scrollY;''')
        with tempfile.NamedTemporaryFile() as f:
            b.screenshot(f.name, height=int(bottom) - 8)
            return f.read()
    finally:
        b.close()


def main():
    penstock = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else f'{ROOT}/build/penstock'
    if len(sys.argv) > 2:
        measure(penstock, sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        page = f'{folder}/page.html'
        subprocess.run([penstock, 'report', RESULT, '--output', page], check=True, stdout=subprocess.DEVNULL)
        png = draw(page)
    with open(PICTURE, 'wb') as f:
        f.write(add_digests(png, input_digests()))
    print(f'{PICTURE}: {os.path.getsize(PICTURE)} bytes')


if __name__ == '__main__':
    main()
