# SPDX-License-Identifier: Apache-2.0
"""The command, for `python -m penstock` and for the names that the wheel installs.

It is a program of its own, which the wheel carries beside this file, and takes the place of the
Python that was started to find it.  What it leaves to Python is called here.
"""
import errno
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn, TextIO, cast


def program() -> str:
    """The path of the command: in the package, or where an in-place build has it."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, 'bin', 'penstock'),
                 os.path.join(os.path.dirname(os.path.dirname(here)), 'penstock')):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    sys.exit(f'penstock: {here}: the command is missing; install the wheel, or build with make')


# As the other commands have it (load/report/result/text.c): what moves the cursor, is not seen or turns text.
_UNSEEN = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff'
                     '\ufff9-\ufffb\ud800-\udfff]')


def _written_out(found: re.Match[str]) -> str:
    c = ord(found[0])
    return f'\\x{c & 0xff:02x}' if c < 0x80 or c >= 0xd800 and c < 0xe000 else f'\\u{c:04x}'


class _EscapedOutput(io.TextIOBase):
    """Standard output or error for people: names out of files and results do nothing to a terminal.

    As in C the first error stays until somebody asks for it, and all that follows is lost.
    """

    def __init__(self, to: TextIO | None) -> None:
        self._to = to
        self.error = '' if to else os.strerror(errno.EBADF)

    def write(self, text: str) -> int:
        self._unless_failed(lambda to: to.write(_UNSEEN.sub(_written_out, text)))
        return len(text)

    def flush(self) -> None:
        self._unless_failed(lambda to: to.flush())

    def _unless_failed(self, do: Callable[[TextIO], object]) -> None:
        try:
            if self._to and not self.error:
                do(self._to)
        except OSError as error:
            self.error = error.strerror or str(error)

    def isatty(self) -> bool:
        return bool(self._to and self._to.isatty())


def _exit(main: Callable[[list[str]], int], words: list[str]) -> NoReturn:
    out = _EscapedOutput(sys.stdout)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, _EscapedOutput(sys.stderr))
    status: int | str | None
    try:
        status = main(words)
    except SystemExit as end:  # of argparse
        status = end.code
    out.flush()
    if out.error:
        print(f'penstock: standard output: {out.error}', file=sys.stderr, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what the interpreter still tries to write
        status = status or 1
    sys.exit(status)


def show_help(command: dict[str, Any], more: str = '') -> None:
    """Of a command that is written in Python, as the others have it."""
    print(f'usage: penstock {command["name"]} [OPTION...] {command["usage"]}\n{command["summary"]}')
    group = None
    for o in command['options']:
        if o['group'] != group:
            print(f'{group and chr(10) or ""}{o["group"]}:')
            group = o['group']
        left = f'      --{o["name"]}' + (f' {o["meta"]}' if o['meta'] else '')
        left += '...' if o['kind'] == 'list' else ''
        text = o['help'] + (f' ({o["default"]})' if o['default'] else '')
        text += ''.join((', ' if i else '; also ') + '--' + a for i, a in enumerate(o['aliases']))
        lines = textwrap.wrap(text, 50, break_on_hyphens=False)
        first = lines.pop(0) if len(left) < 29 else ''
        print(f'{left:30}{first}'.rstrip(), *(f'{"":30}{line}' for line in lines), sep='\n')
    print(f'  -h, --help                  show this help{more and chr(10)}{more}')


def run(*words: str) -> NoReturn:
    if words[:2] == ('kv', 'mlperf') or words[:3] == ('help', 'kv', 'mlperf'):
        from . import _mlperf

        _exit(_mlperf.main, ['--help'] if words[0] == 'help' else list(words[2:]))
    if words[:2] == ('s3', 'compare') or words[:3] == ('help', 's3', 'compare'):
        from . import _s3_compare

        _exit(_s3_compare.main, ['--help'] if words[0] == 'help' else list(words[2:]))
    if words[:1] == ('io',):
        from . import _torch_io

        if _torch_io.is_wanted(list(words[1:])):
            _exit(_torch_io.main, list(words[1:]))
    path = program()
    os.execv(path, ['penstock', *words])


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
