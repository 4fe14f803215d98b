#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of the Python package with the programs it works beside, in current versions.

    tools/peers.py

They are installed by pip in a virtual environment under build/, once.  Where there is no pip, no
network or no such version, that is said and skipped: it is not a failure of ours.
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, 'build', 'peers')
LIMIT = 300  # seconds for one peer; all of it is to take ten minutes

# What is asked for, and with which options: what does not name all it needs comes with that.
PEERS = {
    'torch': ['torch==2.13.0', 'numpy', 'safetensors'],
    'deepspeed': ['--no-deps', '--no-build-isolation', 'deepspeed', 'packaging', 'hjson', 'psutil', 'py-cpuinfo',
                  'pydantic', 'pydantic-core', 'annotated-types', 'typing-inspection', 'tqdm', 'einops', 'msgpack'],
}


def run(*words):
    """Why it did not work; None: it did."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=LIMIT)
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()] or ['it says nothing']
    return next((line for line in reversed(lines) if line.lower().startswith('error')), lines[-1])


def install(name, words):
    """Why the peer is not there; None: it is."""
    stamp = os.path.join(PLACE, f'{name}.txt')
    want = ' '.join(words)
    if os.path.exists(stamp):
        with open(stamp, encoding='utf-8') as f:
            if f.read() == want:
                return None
    print(f'peers: installing {name}', flush=True)
    why = run(os.path.join(PLACE, 'bin', 'python'), '-m', 'pip', 'install', '--disable-pip-version-check', *words)
    if why is None:
        with open(stamp, 'w', encoding='utf-8') as f:
            f.write(want)
    return why


def main():
    os.chdir(ROOT)
    python = os.path.join(PLACE, 'bin', 'python')
    os.makedirs(os.path.dirname(PLACE), exist_ok=True)
    why = None if os.path.exists(python) else run(sys.executable, '-m', 'venv', PLACE)
    skipped = [f'everything: {why}'] if why else []
    for name, words in PEERS.items():
        why = None if skipped else install(name, words)
        if why:
            skipped.append(f'{name}: pip: {why}')
    words = [word for what in skipped for word in ('--skipped', what)]
    if not any(what.startswith(('torch', 'everything')) for what in skipped):
        words += ['--python', python, 'build:python']
    os.execv(sys.executable, [sys.executable, os.path.join(ROOT, 'tools', 'run_tests.py'), *words])


if __name__ == '__main__':
    main()
