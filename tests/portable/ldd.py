# SPDX-License-Identifier: Apache-2.0
"""The portable command needs libc and nothing else: ldd.py COMMAND"""
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

command = sys.argv[1]
start = [*shlex.split(os.environ.get('PENSTOCK_TEST_RUN', '')), command]

# The loader, and the parts glibc comes in.
LIBC = re.compile(r'(ld-linux.*|lib(c|m|dl|pthread|rt))\.so\.\d+$')


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL).stdout


def only_libc_is_needed():
    names = re.findall(r'\(NEEDED\).*\[(.*)\]', output('readelf', '--dynamic', '--wide', command))
    other = [name for name in names if not LIBC.match(name)]
    assert names and not other, f'also needed: {other}'


def nothing_is_looked_for_in_a_private_folder():
    text = output('readelf', '-d', command)
    assert 'RUNPATH' not in text and 'RPATH' not in text, text


def it_starts():
    assert 'penstock' in output(*start, '--version')


def both_kernel_engines_are_in_it():
    text = output(*start, 'info')
    assert 'io_uring' in text and 'libaio' in text, text


tap.run(only_libc_is_needed, nothing_is_looked_for_in_a_private_folder, it_starts,
        both_kernel_engines_are_in_it)
