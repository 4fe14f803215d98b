# SPDX-License-Identifier: Apache-2.0
"""The types that the package announces are those it has.

    stubs.py SOURCE BUILD
"""
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

build = sys.argv[2]
folder = tempfile.TemporaryDirectory(dir=os.environ.get('PENSTOCK_TEST_DIR'))

# In the stubs and not in the module: names for types, and what classes written in C have from
# Python 3.12 on.
ALLOWED = r'''
penstock\._penstock\.(Data|Durability|Item|Path)
penstock\._penstock\.(BytesView|Memory)\.__buffer__
'''

# What numpy and torch say of themselves changes with their versions; here they may be anything.
CONFIG = '''
[mypy]
strict = True
warn_return_any = False
[mypy-fsspec.*,torch.*,numpy.*,deepspeed.*,vllm.*,sglang.*]
follow_imports = skip
ignore_missing_imports = True
'''

# A program as users write it.  Lines that must be refused say so; mypy --strict complains about
# an "ignore" that is not needed, too.
SAMPLE = '''
import asyncio
import pathlib

import penstock


def copy(source: str, target: pathlib.Path) -> int:
    buffer = bytearray(4096)
    with penstock.Handle('threads', threads=2, depth=8, durability='data') as h:
        n = h.read(buffer, source, partial=True)
        return n + h.write(memoryview(buffer)[:n], target, truncate=True)


def both(h: penstock.Handle, a: bytearray, b: bytearray) -> list[int]:
    futures = h.read_batch_async([(a, 'a'), (b, b'b', 512)])
    futures[0].add_done_callback(lambda f: print(f.result(timeout=1.5)))
    error: OSError | None = futures[1].exception()
    assert error is None
    return [f.result() for f in futures] + h.write_batch([(a, 3)]) + [h.wait()]


async def later(h: penstock.Handle, data: bytes) -> int:
    return await h.write_async(data, 'x') + await asyncio.wait_for(h.read_async(bytearray(1), 'x'), 1)


def memory() -> penstock.Memory:
    m = penstock.Memory(1 << 20, pinned=False)
    with penstock.Handle() as h, h.open('x', 'r+') as f:
        h.write(m, f)
        print(f.stat()['bytes'], m.nbytes + len(m), m.note.upper())
    return m


def wrong(h: penstock.Handle) -> None:
    h.read(bytearray(1))  # type: ignore[call-arg]
    h.read(bytearray(1), 1.5)  # type: ignore[arg-type]
    h.write(b'', 'x', partial=True)  # type: ignore[call-arg]
    h.write(b'', 'x', durability='some')  # type: ignore[arg-type]
    penstock.Handle(direct='sometimes')  # type: ignore[arg-type]
    penstock.Handle(None, 4)  # type: ignore[misc]
    penstock.Memory('1 MiB')  # type: ignore[arg-type]
    h.closed = True  # type: ignore[misc]
    name: str = penstock.info()  # type: ignore[assignment]
'''


def mypy(*words):
    if not importlib.util.find_spec('mypy'):
        raise tap.Skip('mypy', f'{sys.executable} has no mypy')
    env = dict(os.environ, MYPYPATH=f'{build}/python', PYTHONPATH=f'{build}/python')
    done = subprocess.run([sys.executable, '-m', *words], env=env, cwd=folder.name, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def write(name, text):
    path = os.path.join(folder.name, name)
    with open(path, 'w') as f:
        f.write(text)
    return path


def the_stubs_say_what_the_package_has():
    mypy('mypy.stubtest', 'penstock._penstock', '--mypy-config-file', write('config', CONFIG),
         '--allowlist', write('allowed', ALLOWED), '--ignore-unused-allowlist')


def the_package_is_strictly_typed():
    mypy('mypy', '--config-file', write('config', CONFIG), '-p', 'penstock')


def a_program_that_uses_it_is_checked():
    mypy('mypy', '--config-file', write('config', CONFIG), write('sample.py', SAMPLE))


tap.run(the_stubs_say_what_the_package_has, the_package_is_strictly_typed,
        a_program_that_uses_it_is_checked)
