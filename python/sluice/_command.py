# SPDX-License-Identifier: Apache-2.0
"""The command, for `python -m sluice` and for the names that the wheel installs.

It is a program of its own, which the wheel carries beside this file, and takes the place of the
Python that was started to find it.  What it leaves to Python is called here.
"""
import os
import sys
import textwrap
from typing import Any, NoReturn


def program() -> str:
    """The path of the command: in the package, or where an in-place build has it."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, 'bin', 'sluice'),
                 os.path.join(os.path.dirname(os.path.dirname(here)), 'sluice')):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    sys.exit(f'sluice: {here}: the command is missing; install the wheel, or build with make')


def show_help(command: dict[str, Any], more: str = '') -> None:
    """Of a command that is written in Python, as the others have it."""
    print(f'usage: sluice {command["name"]} [OPTION...] {command["usage"]}\n{command["summary"]}')
    group = None
    for o in command['options']:
        if o['group'] != group:
            group = o['group']
            print(f'\n{group}:')
        left = f'      --{o["name"]}' + (f' {o["meta"]}' if o['meta'] else '')
        left += '...' if o['kind'] == 'list' else ''
        text = o['help'] + (f' ({o["default"]})' if o['default'] else '')
        lines = textwrap.wrap(text, 50)
        first = lines.pop(0) if len(left) < 29 else ''
        print(f'{left:30}{first}'.rstrip(), *(f'{"":30}{line}' for line in lines), sep='\n')
    print(f'  -h, --help                  show this help{more and chr(10)}{more}')


def run(*words: str) -> NoReturn:
    if words[:2] == ('kv', 'mlperf') or words[:3] == ('help', 'kv', 'mlperf'):
        from . import _mlperf

        sys.exit(_mlperf.main(['--help'] if words[0] == 'help' else list(words[2:])))
    if words[:2] == ('s3', 'compare') or words[:3] == ('help', 's3', 'compare'):
        from . import _s3_compare

        sys.exit(_s3_compare.main(['--help'] if words[0] == 'help' else list(words[2:])))
    if words[:1] == ('io',):
        from . import _torch_io

        if _torch_io.is_wanted(list(words[1:])):
            sys.exit(_torch_io.main(list(words[1:])))
    path = program()
    os.execv(path, ['sluice', *words])


def main() -> NoReturn:
    run(*sys.argv[1:])


# ---- names that people type: each is a command that takes their options

def ds_io() -> NoReturn:
    run('io', *sys.argv[1:])


def ds_nvme_tune() -> NoReturn:
    run('tune', *sys.argv[1:])


def ds_report() -> NoReturn:
    run('info', *sys.argv[1:])


def kv_cache() -> NoReturn:
    run('kv', *sys.argv[1:])
