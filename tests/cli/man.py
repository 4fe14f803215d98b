# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completion: complete, current, and clean.

    man.py SLUICE ROOT [MADE]

MADE is the folder that the build has made with tools/mkman.py.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MADE = sys.argv[3] if len(sys.argv) > 3 else None
WORK = tempfile.TemporaryDirectory()
OUT = WORK.name + '/out'


def options():
    return json.loads(subprocess.run([SLUICE, '--dump-options'], check=True,
                                     stdout=subprocess.PIPE).stdout)


def mkman(table, prose=ROOT + '/docs/man', out=OUT):
    with open(WORK.name + '/options.json', 'w') as f:
        json.dump(table, f)
    headers = [f'--header={ROOT}/include/sluice/{h}.h' for h in ('sluice', 'probe', 'gpu')]
    return subprocess.run([sys.executable, ROOT + '/tools/mkman.py', '--options', f.name, '--prose', prose,
                           *headers, '--out', out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def read(name):
    with open(os.path.join(OUT, name)) as f:
        return f.read()


def every_option_has_a_paragraph():
    done = mkman(options())
    assert done.returncode == 0, done.stdout
    assert done.stdout == '', done.stdout


def an_option_without_a_paragraph_is_noticed():
    table = options()
    for cmd in table['commands']:
        cmd['options'].append(dict(cmd['options'][0], name='made-up'))
        done = mkman(table, out=WORK.name + '/no')
        assert done.returncode == 1
        assert f'sluice-{cmd["name"]}.md: no paragraph "### --made-up"' in done.stdout, done.stdout
        cmd['options'].pop()


def a_paragraph_without_an_option_is_noticed():
    table = options()
    for cmd in table['commands']:
        gone = cmd['options'].pop()
        done = mkman(table, out=WORK.name + '/no')
        assert done.returncode == 1
        assert f'"### --{gone["name"]}": the command has no such option' in done.stdout, done.stdout
        cmd['options'].append(gone)


def a_command_without_a_page_is_noticed():
    table = options()
    table['commands'].append(dict(table['commands'][0], name='made-up'))
    done = mkman(table, out=WORK.name + '/no')
    assert done.returncode == 1 and 'sluice-made-up.md: is needed' in done.stdout, done.stdout


def what_the_build_has_made_is_current():
    if not MADE:
        raise tap.Skip('made', 'no folder of made pages was named')
    fresh = sorted(os.path.relpath(f, OUT) for f in glob.glob(OUT + '/*/*'))
    assert fresh
    for name in fresh:
        with open(os.path.join(MADE, name)) as f:
            assert f.read() == read(name), f'{name} is stale'


def mandoc_finds_nothing_wrong():
    if not shutil.which('mandoc'):
        raise tap.Skip('mandoc', 'mandoc is not installed')
    for page in sorted(glob.glob(OUT + '/man*/*')):
        done = subprocess.run(['mandoc', '-Tlint', page], stdout=subprocess.PIPE, text=True)
        # Pages carry the version of the sources they are made from, and no date.
        wrong = [w for w in done.stdout.splitlines() if 'missing date' not in w]
        assert not wrong, '\n'.join(wrong)


def every_page_shows_its_name_and_nothing_raw():
    if not shutil.which('mandoc'):
        raise tap.Skip('mandoc', 'mandoc is not installed')
    for page in sorted(glob.glob(OUT + '/man*/*')):
        text = subprocess.run(['mandoc', '-Tutf8', page], check=True, stdout=subprocess.PIPE).stdout.decode()
        text = re.sub('.\b', '', text)
        name = os.path.basename(page).rsplit('.', 1)[0]
        assert f'{name} - ' in text or f'{name} – ' in text, page
        for raw in ('**', '```', '### ', '\\f', '{COMMANDS}'):
            # in C, two stars are a pointer to a pointer
            assert raw not in text or (raw == '**' and page.endswith('.3')), f'{page}: {raw}'


def every_public_function_is_in_the_manual():
    text = read('man3/sluice.3').replace('\\-', '-')
    for header in ('sluice', 'probe', 'gpu'):
        with open(f'{ROOT}/include/sluice/{header}.h') as f:
            names = re.findall(r'^SLUICE_API[^;(]*?\b(\w+)\s*\(', f.read(), re.M)
        assert names
        for name in names:
            assert re.search(rf'\b{name}\(', text), name


def complete(words):
    """What bash offers for the last word."""
    script = f'source {OUT}/bash/sluice; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; ' \
             'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(['bash', '-c', script, 'bash', *words], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def bash_completes_commands_options_and_words():
    table = options()
    names = [c['name'] for c in table['commands']]
    assert set(names) <= set(complete(['sluice', '']))
    assert complete(['sluice', names[0][:2]])[0].startswith(names[0][:2])
    for cmd in table['commands']:
        offered = complete(['sluice', cmd['name'], '--'])
        for opt in cmd['options']:
            assert f'--{opt["name"]}' in offered
            if opt['kind'] == 'choice':
                assert complete(['sluice', cmd['name'], f'--{opt["name"]}', '']) == opt['choices']
        assert complete(['sluice', cmd['name'], '']) == []


def syntax(shell, *args):
    def check():
        if not shutil.which(shell):
            raise tap.Skip(shell, f'{shell} is not installed')
        done = subprocess.run([shell, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0 and not done.stdout, done.stdout
    return f'{shell} takes its completion', check


# The first case makes what the others look at.
tap.run(every_option_has_a_paragraph, an_option_without_a_paragraph_is_noticed,
        a_paragraph_without_an_option_is_noticed, a_command_without_a_page_is_noticed,
        what_the_build_has_made_is_current, mandoc_finds_nothing_wrong,
        every_page_shows_its_name_and_nothing_raw, every_public_function_is_in_the_manual,
        bash_completes_commands_options_and_words,
        syntax('bash', '-n', OUT + '/bash/sluice'), syntax('zsh', '-n', OUT + '/zsh/_sluice'),
        syntax('fish', '--no-execute', OUT + '/fish/sluice.fish'))
