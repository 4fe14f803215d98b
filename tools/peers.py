#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of the Python package with the programs it works beside, in current versions.

    tools/peers.py [--until TIME]

They are installed by pip in a virtual environment under build/, once, in the versions that
tests/peers/*.txt name, and DeepSpeed's own operators are compiled there.  Where there is no pip, no network,
no such version or no compiler, that is said and skipped: it is not a failure of ours.  So is what has not begun at TIME,
in seconds since 1970.
"""
import argparse
import os
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, 'build', 'peers')
LIMIT = 600  # seconds for one peer, or for DeepSpeed's operators, which take two minutes on two idle cores

# Lists in tests/peers, and options of pip that go with them.
PEERS = {
    'torch': [],
    'deepspeed': ['--no-deps', '--no-build-isolation'],
    's3': [],
    'lmcache': ['--no-deps'],
    'vllm': ['--no-deps'],
    'sglang': ['--no-deps'],
}


def run(until, *words):
    """Why it did not work; None: it did."""
    limit = min(LIMIT, until - time.time())
    if limit <= 0:
        return 'the time for all tests was over'
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, start_new_session=True)
        said, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # compilers, too
        child.communicate()
        return f'it took more than {limit:.0f} seconds'
    except OSError as e:
        return str(e)
    if child.returncode == 0:
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ['it says nothing']
    return next((line for line in reversed(lines) if line.lower().startswith('error')), lines[-1])


def install(until, name, options):
    """Why the peer is not there; None: it is."""
    stamp = os.path.join(PLACE, f'{name}.txt')
    listed = os.path.join(ROOT, 'tests', 'peers', f'{name}.txt')
    words = [*options, '-r', listed]
    with open(listed, encoding='utf-8') as f:
        want = f.read()
    if os.path.exists(stamp):
        with open(stamp, encoding='utf-8') as f:
            if f.read() == want:
                return None
    print(f'peers: installing {name}', flush=True)
    why = run(until, os.path.join(PLACE, 'bin', 'python'), '-m', 'pip', 'install', '--disable-pip-version-check', *words)
    if why is None:
        with open(stamp, 'w', encoding='utf-8') as f:
            f.write(want)
    return why


def main():
    parser = argparse.ArgumentParser(description='Run the tests of the Python package with its peers.')
    parser.add_argument('--until', type=float, metavar='TIME', default=float('inf'),
                        help='begin nothing later, in seconds since 1970')
    until = parser.parse_args().until
    os.chdir(ROOT)
    python = os.path.join(PLACE, 'bin', 'python')
    os.makedirs(os.path.dirname(PLACE), exist_ok=True)
    # pip comes last: an environment without it is one that was cut off, and is made again.
    whole = os.path.exists(os.path.join(PLACE, 'bin', 'pip'))
    why = None if whole else run(until, sys.executable, '-m', 'venv', '--clear', PLACE)
    skipped = [f'everything: {why}'] if why else []
    for name, options in () if why else PEERS.items():
        why = install(until, name, options)
        if why:
            skipped.append(f'{name}: pip: {why}')
    if not any(what.startswith(('torch', 'everything', 'deepspeed')) for what in skipped):
        why = run(until, python, os.path.join('tests', 'peers', 'ds_ops.py'))
        skipped += [f"DeepSpeed's own operators: {why}"] if why else []
    words = [word for what in skipped for word in ('--skipped', what)]
    if not any(what.startswith(('torch', 'everything')) for what in skipped):
        words += ['--python', python, 'build:python,peers']
    words += ['--until', str(until)]
    os.execv(sys.executable, [sys.executable, os.path.join(ROOT, 'tools', 'run_tests.py'), *words])


if __name__ == '__main__':
    main()
