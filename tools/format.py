#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Format the C files of the tree, or with --check say as TAP which are not formatted.

Needs clang-format 14, for which .clang-format is written: other versions disagree with it.
"""
import glob
import os
import shutil
import subprocess
import sys

TOOL = 'clang-format-14'
FOLDERS = ('include', 'src', 'load', 'cli', 'python', 'tests', 'examples')


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    check = '--check' in sys.argv[1:]
    if not shutil.which(TOOL):
        print(f'# no {TOOL}')
        return 77 if check else 1
    files = sorted(f for d in FOLDERS for e in ('c', 'h')
                   for f in glob.glob(f'{d}/**/*.{e}', recursive=True))
    if not check:
        return subprocess.run([TOOL, '-i', *files]).returncode
    done = subprocess.run([TOOL, '--dry-run', '-Werror', *files], stderr=subprocess.PIPE, text=True)
    wrong = sorted({line.split(':')[0] for line in done.stderr.splitlines() if ' error: ' in line})
    print('1..1')
    print(f'{"not ok" if wrong else "ok"} 1 - {len(files)} files are formatted: `make format`')
    for name in wrong:
        print(f'# {name}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
