# SPDX-License-Identifier: Apache-2.0
"""The examples and the Python code in README.md, docs/features.md and docs/python.md run as they stand.

    examples.py [SOURCE BUILD]
"""
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

from kit import Skip, folder, run

SOURCE = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..', '..')
PAGES = ('README.md', 'docs/features.md', 'docs/python.md', 'docs/from-deepspeed.md')


def runs(code, label):
    """In an empty folder, which is empty again afterwards; what it prints."""
    for needed in ('torch', 'numpy', 'deepspeed'):
        if re.search(rf'^import {needed}\b|^\s*from {needed}\b|import .*, {needed}\b', code, re.M) \
                and not importlib.util.find_spec(needed):
            raise Skip(needed, f'no {needed} here')
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path[1:] if p))
        done = subprocess.run([sys.executable, '-c', code], cwd=empty, env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0 and not done.stderr, \
            f'{label}\n{done.stdout}\n{done.stderr}'
        return done.stdout, sorted(os.listdir(empty))


def example(name):
    with open(name) as f:
        printed, left = runs(f.read(), name)
    assert printed.strip(), 'it prints nothing'
    assert not left, f'it left {left}'


def blocks():
    for page in PAGES:
        with open(os.path.join(SOURCE, page)) as f:
            text = f.read()
        for match in re.finditer(r'^```python\n(.*?)^```$', text, re.M | re.S):
            yield page, text.count('\n', 0, match.start()) + 1, match[1]


def examples():
    names = sorted(glob.glob(os.path.join(SOURCE, 'examples', '*.py')))
    assert names, 'no examples'
    for name in names:
        yield f'{os.path.basename(name)} runs', lambda name=name: example(name)
    for page, line, code in blocks():
        yield (f'the code in {page} at line {line} runs',
               lambda page=page, line=line, code=code: runs(code, f'{page}:{line}'))


def every_example_is_named_in_the_manual():
    with open(os.path.join(SOURCE, 'docs', 'python.md')) as f:
        text = f.read()
    for name in glob.glob(os.path.join(SOURCE, 'examples', '*.py')):
        assert os.path.basename(name) in text, name


run(*examples(), every_example_is_named_in_the_manual)
