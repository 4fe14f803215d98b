# SPDX-License-Identifier: Apache-2.0
"""ds_io's engines torch_io and torch_fastio, by `python -m penstock io`."""
import os
import re
import subprocess
import sys

from kit import Skip, case, cases, path, run, torch_or_skip

try:
    torch_or_skip()
except Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()


def io(*words, folder=None):
    where = ['--folder', folder] if folder else []
    return subprocess.run([sys.executable, '-m', 'penstock', 'io', *words, *where], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))


def new_folder():
    name = path('io')
    os.mkdir(name)
    return name


@case
def both_engines_write_and_tell_what_ds_io_tells():
    for words in (['--engine', 'torch_io'], ['--engine=torch_fastio', '--fast_io_size', '2M', '--torch_legacy_save'],
                  ['--engine', 'torch_fastio', '--multi_process', '2', '--loops', '2', '--keep']):
        folder = new_folder()
        done = io(*words, '--io_size', '3M', folder=folder)
        assert done.returncode == 0, done.stderr
        assert [re.split(' = ', line)[0] for line in done.stdout.splitlines()] == [
            'Task Write Latency', 'Task Write Speed', 'E2E Write Latency', 'E2E Write Speed'], done.stdout
        found = set(os.listdir(folder))
        files = sorted(n for n in found if not n.endswith('.crc'))
        assert len(files) == (2 if '--keep' in words else 0), files
        assert found - set(files) <= {f'{n}.crc' for n in files}, found
        assert all(os.path.getsize(os.path.join(folder, n)) > 3 << 20 for n in files)


@case
def bad_options_are_one_line():
    for words in (['--engine', 'torch_io'], ['--engine', 'torch_io', '--io_size', 'x'],
                  ['--engine', 'torch_io', '--io_size', '1M', '--folder', '/no/such'],
                  ['--engine', 'torch_io', '--io_size', '1M', '--read', '--folder', '.'],
                  ['--engine', 'torch_io', '--io_size', '1M', '--folder_to_device_mapping', 'x'],
                  ['--engine', 'torch_io', '--io_size', '1M', '--loops', '0', '--folder', '.']):
        done = io(*words)
        assert done.returncode == 2 and done.stderr.count('\n') == 1 and not done.stdout, (words, done.stderr)


@case
def a_write_that_fails_fails_the_run():
    folder = new_folder()
    os.chmod(folder, 0o500)
    if os.access(folder, os.W_OK):
        os.mkdir(os.path.join(folder, '_aio_write_1048576.pt.0_0'))
    done = io('--engine', 'torch_fastio', '--io_size', '1M', '--fast_io_size', '2M', folder=folder)
    assert done.returncode == 1 and 'Error' in done.stderr and not done.stdout, (done.stdout, done.stderr)


run(*cases)
