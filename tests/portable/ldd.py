# SPDX-License-Identifier: Apache-2.0
"""The portable command needs libc and nothing else: ldd.py COMMAND"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

command = sys.argv[1]

# The loader, the kernel's page, and the parts glibc comes in.
LIBC = re.compile(r'(ld-linux.*|linux-vdso|linux-gate|lib(c|m|dl|pthread|rt))\.so\.\d+$')


def output(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL).stdout


def only_libc_is_needed():
    names = [os.path.basename(line.split()[0]) for line in output('ldd', command).splitlines()]
    other = [name for name in names if not LIBC.match(name)]
    assert names and not other, f'also needed: {other}'


def nothing_is_looked_for_in_a_private_folder():
    text = output('readelf', '-d', command)
    assert 'RUNPATH' not in text and 'RPATH' not in text, text


def it_starts():
    assert 'sluice' in output(command, '--version')


def both_kernel_engines_are_in_it():
    text = output(command, 'info')
    assert 'io_uring' in text and 'libaio' in text, text


tap.run(only_libc_is_needed, nothing_is_looked_for_in_a_private_folder, it_starts,
        both_kernel_engines_are_in_it)
