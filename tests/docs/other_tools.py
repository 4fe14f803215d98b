# SPDX-License-Identifier: Apache-2.0
"""docs/from-other-tools.md: every command runs, and every option is there.

    other_tools.py SOURCE BUILD
"""
import functools
import json
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap

source, build = map(os.path.abspath, sys.argv[1:3])
PAGE = os.path.join(source, 'docs', 'from-other-tools.md')

# What makes a command small, or says only what it would do.
SMALL = {'io': ['--size=64K', '--iterations=1'], 'bench': ['--dry-run'], 'sweep': ['--dry-run'], 'tune': ['--dry-run'],
         'kv': ['--max-requests=2', '--runtime=3600', '--storage-capacity-gb=1', '--cpu-mem-gb=0', '--gpu-mem-gb=0',
                '--generation-mode=none', '--model=tiny-1b', '--num-users=2'],
         'replay': ['--dry-run'], 'info': []}
INPUTS = {'space.json': '{"block_size": ["128K"], "queue_depth": [32]}',
          'log.fio': 'fio version 2 iolog\na add\na open\na write 0 4096\na read 0 4096\na close\n'}


def rows():
    """The cells of all tables, and those of their heads."""
    head = None
    with open(PAGE, encoding='utf-8') as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip('|').split(' | ')] if line.startswith('|') else None
            if cells and head and set(line) - set('|- \n'):
                yield head, cells
            head = cells and (head or cells)


def options_in(text):
    return re.findall(r'(?<![\w-])--([a-z][\w-]*)', ' '.join(re.findall(r'`([^`]*)`', text)))


@functools.cache
def tables():
    dump = subprocess.run([f'{build}/penstock', '--dump-options'], check=True, stdout=subprocess.PIPE).stdout
    return {c['name']: {n.replace('_', '-') for o in c['options'] for n in (o['name'], *o['aliases'])}
            for c in json.loads(dump)['commands']}


def the_page_has_commands_and_options_of_every_tool():
    with open(PAGE, encoding='utf-8') as f:
        text = f.read()
    for tool in ('DeepSpeed', 'DS-AIO-Benchmark', 'KV-cache benchmark', 'fio', 'elbencho'):
        assert re.search(rf'^## .*{tool}', text, re.M), tool
    assert len([1 for head, _ in rows() if head[1] == 'penstock']) > 20
    assert len([1 for head, _ in rows() if head[1] != 'penstock']) > 30


def every_option_is_there():
    for head, cells in rows():
        for command in re.findall(r'`penstock (\w+)`', head[1]):
            named = options_in(cells[0] if cells[1].startswith('the same') else cells[1])
            missing = [n for n in named if n.replace('_', '-') not in tables()[command]]
            assert not missing, f'penstock {command}: {missing}: {cells}'


def commands():
    return [re.fullmatch(r'`penstock ([^`]*)`', cells[1])[1] for head, cells in rows() if head[1] == 'penstock']


def run(words, folder):
    if words[:2] == ['kv', 'mlperf']:
        start = [sys.executable, '-m', 'penstock']
        more = SMALL['kv'] if '--rank-output-base' in words else ['--dry-run']
    else:
        start, more = [f'{build}/penstock'], SMALL[words[0]]
    env = dict(os.environ, PYTHONPATH=f'{build}/python')
    done = subprocess.run([*start, *words, *more], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    # 3: no GPU, or no fio, here
    fine = (0, 3) if {'--gds', '--compare-fio'} & set(words) else (0,)
    assert done.returncode in fine, (words, done.returncode, done.stdout[-2000:])


def every_command_runs():
    if not os.path.exists(f'{build}/python/penstock/_penstock.abi3.so'):
        raise tap.Skip('package', 'the Python package is not built')
    for command in commands():
        with tap.folder():
            for name in ('nvme', 'a', 'b'):
                os.mkdir(name)
            for name, text in INPUTS.items():
                with open(name, 'w', encoding='ascii') as f:
                    f.write(text)
            run(shlex.split(command.replace('/mnt/', os.getcwd() + '/')), os.getcwd())


tap.run(the_page_has_commands_and_options_of_every_tool, every_option_is_there, every_command_runs)
