# SPDX-License-Identifier: Apache-2.0
"""Each public header stands on its own as C99, C11 and C++11 to C++17, without a warning.

    headers.py SOURCE BUILD CC... -- HEADER...
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

source, build = sys.argv[1:3]
split = sys.argv.index('--')
cc, headers = sys.argv[3:split], sys.argv[split + 1:]

WARNINGS = ['-Wall', '-Wextra', '-pedantic', '-Wundef', '-Wshadow', '-Werror']


def compiles(compiler, language, standard, header):
    if not shutil.which(compiler[0]):
        raise tap.Skip(compiler[0], f'no {compiler[0]}')
    text = f'#include <penstock/{os.path.basename(header)}>\nint main(void);\nint main(void)\n' \
           '{\n\tstruct penstock_opts o = PENSTOCK_OPTS_INIT;\n\treturn o.size == 0;\n}\n'
    done = subprocess.run([*compiler, '-x', language, f'-std={standard}', *WARNINGS, '-fsyntax-only',
                           f'-I{source}/include', f'-I{build}/include', '-'], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def cases():
    for header in headers:
        name = os.path.basename(header)
        for language, compilers, standards in (('c', (cc, ['clang']), ('c99', 'c11')),
                                               ('c++', (['g++'], ['clang++']), ('c++11', 'c++17'))):
            for compiler in compilers:
                for standard in standards:
                    yield (f'{name} with {compiler[-1]} as {standard}',
                           lambda a=(compiler, language, standard, header): compiles(*a))


tap.run(*cases())
