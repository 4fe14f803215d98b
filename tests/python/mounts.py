# SPDX-License-Identifier: Apache-2.0
"""Small file systems, for tests that fill them."""
import contextlib
import os
import subprocess

from kit import path
from tap import Skip


def _run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Skip(command[0], f'{command[0]}: {done.stdout.strip()}')


@contextlib.contextmanager
def mounted(kind, nbytes):
    """The folder of an empty file system: tmpfs, or one that mkfs makes in a file."""
    if os.geteuid() != 0:
        raise Skip('root', 'only root can mount file systems')
    at = path('mount')
    os.mkdir(at)
    if kind == 'tmpfs':
        _run('mount', '-t', 'tmpfs', '-o', f'size={nbytes}', 'tmpfs', at)
    else:
        image = at + '.img'
        with open(image, 'wb') as f:
            f.truncate(nbytes)
        _run(f'mkfs.{kind}', '-q', image)
        _run('mount', '-o', 'loop', image, at)
    try:
        yield at
    finally:
        subprocess.run(['umount', '-l', at], check=True)
