# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completion: complete, current, and clean.

    man.py PENSTOCK ROOT [MADE]

MADE is the folder that the build has made with tools/mkman.py.
"""
import glob
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

PENSTOCK, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MADE = sys.argv[3] if len(sys.argv) > 3 else None
WORK = tempfile.TemporaryDirectory()
OUT = WORK.name + '/out'


def options():
    """The tables of all commands, those that are written in Python too."""
    table = json.loads(subprocess.run([PENSTOCK, '--dump-options'], check=True,
                                      stdout=subprocess.PIPE).stdout)
    sys.path.insert(0, ROOT + '/tools')
    for module in '_mlperf.py', '_s3_compare.py':
        importlib.import_module('mkman').add_python(table['commands'], f'{ROOT}/python/penstock/{module}')
    return table


def public_headers():
    with open(f'{ROOT}/include/penstock/meson.build') as f:
        return re.findall(r"'(\w+\.h)'", re.search(r'^public_headers = .*$', f.read(), re.M)[0])


def mkman(table, prose=ROOT + '/docs/man', out=OUT):
    headers = [f'--header={ROOT}/include/penstock/{h}' for h in public_headers()]
    with open(WORK.name + '/options.json', 'w') as f:
        json.dump(table, f)
    return subprocess.run([sys.executable, ROOT + '/tools/mkman.py', '--options', f.name, '--prose', prose,
                           *headers, '--out', out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def page_name(cmd):
    return 'penstock-' + cmd['name'].replace(' ', '-')


def read(name):
    with open(os.path.join(OUT, name)) as f:
        return f.read()


def every_option_has_a_paragraph():
    done = mkman(options())
    assert done.returncode == 0, done.stdout
    assert done.stdout == '', done.stdout


def an_option_without_a_paragraph_is_noticed():
    table = options()
    some = table['commands'][0]['options'][0]
    for cmd in table['commands']:
        cmd['options'].append(dict(some, name='made-up'))
        done = mkman(table, out=WORK.name + '/no')
        assert done.returncode == 1
        assert f'{page_name(cmd)}.md: no paragraph "### --made-up"' in done.stdout, done.stdout
        cmd['options'].pop()


def a_paragraph_without_an_option_is_noticed():
    table = options()
    for cmd in [c for c in table['commands'] if c['options']]:
        gone = cmd['options'].pop()
        done = mkman(table, out=WORK.name + '/no')
        assert done.returncode == 1
        assert f'"### --{gone["name"]}": the command has no such option' in done.stdout, done.stdout
        cmd['options'].append(gone)


def a_command_without_a_page_is_noticed():
    table = options()
    table['commands'].append(dict(table['commands'][0], name='made-up'))
    done = mkman(table, out=WORK.name + '/no')
    assert done.returncode == 1 and 'penstock-made-up.md: is needed' in done.stdout, done.stdout


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
    text = read('man3/penstock.3').replace('\\-', '-')
    for header in public_headers():
        with open(f'{ROOT}/include/penstock/{header}') as f:
            names = re.findall(r'^PENSTOCK_API[^;(]*?\b(\w+)\s*\(', f.read(), re.M)
        assert names
        for name in names:
            assert re.search(rf'\b{name}\(', text), name


def complete(words, out=OUT):
    """What bash offers for the last word."""
    script = f'source {out}/bash/penstock; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock; ' \
             'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(['bash', '-c', script, 'bash', *words], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.split()


def made_up_tables():
    """The tables with a command `box` that has commands of its own, `box open` and `box shut`."""
    table, prose = options(), WORK.name + '/prose'
    shutil.copytree(ROOT + '/docs/man', prose, dirs_exist_ok=True)
    flag = table['commands'][0]['options'][0]
    for name, words, runs in (('box', [], False), ('box open', ['wide'], True), ('box shut', ['soft', 'hard'], True)):
        opts = [dict(flag, name=w, kind='flag', aliases=[], letter=None, required=False, default=None) for w in words]
        table['commands'].append({'name': name, 'summary': 'a box', 'usage': None, 'notes': None, 'runs': runs,
                                  'options': opts})
        with open(f'{prose}/{page_name(table["commands"][-1])}.md', 'w') as f:
            print(f'# x(1): a box\n\n## Options\n\n' + ''.join(f'### --{w}\n\nHow.\n\n' for w in words), file=f)
    return table, prose


def commands_of_commands_have_pages_and_completion():
    table, prose = made_up_tables()
    out = WORK.name + '/box'
    done = mkman(table, prose, out)
    assert done.returncode == 0, done.stdout
    with open(out + '/man1/penstock-box-shut.1') as f:
        assert 'penstock box shut\\fR [\\fIOPTION' in f.read()
    with open(out + '/man1/penstock-box.1') as f:
        text = f.read()
    assert 'penstock box\\fR \\fBopen' in text and 'penstock box\\fR [' not in text, text
    assert 'box' in complete(['penstock', ''], out) and 'open' not in complete(['penstock', ''], out)
    assert complete(['penstock', 'box', ''], out) == ['open', 'shut']
    assert complete(['penstock', 'help', 'box', 's'], out) == ['shut']
    assert complete(['penstock', 'box', '--'], out) == ['--help', '--help-all']
    assert complete(['penstock', 'box', 'shut', '--'], out) == ['--soft', '--hard', '--help', '--help-all']
    assert complete(['penstock', 'box', 'open', '--'], out) == ['--wide', '--help', '--help-all']
    for shell, arg, name in (('zsh', '-n', 'zsh/_penstock'), ('fish', '--no-execute', 'fish/penstock.fish')):
        if shutil.which(shell):
            subprocess.run([shell, arg, f'{out}/{name}'], check=True)


def bash_completes_commands_options_and_words():
    table = options()
    names = [c['name'] for c in table['commands'] if ' ' not in c['name']]
    assert set(names) <= set(complete(['penstock', '']))
    assert complete(['penstock', names[0][:2]])[0].startswith(names[0][:2])
    for cmd in table['commands']:
        words = ['penstock', *cmd['name'].split()]
        offered = complete([*words, '--'])
        for opt in cmd['options']:
            assert f'--{opt["name"]}' in offered
            if opt['kind'] == 'choice':
                assert complete([*words, f'--{opt["name"]}', '']) == opt['choices']
        own = [c['name'].split()[1] for c in table['commands'] if c['name'].startswith(cmd['name'] + ' ')]
        assert complete([*words, '']) == own


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
        bash_completes_commands_options_and_words, commands_of_commands_have_pages_and_completion,
        syntax('bash', '-n', OUT + '/bash/penstock'), syntax('zsh', '-n', OUT + '/zsh/_penstock'),
        syntax('fish', '--no-execute', OUT + '/fish/penstock.fish'))
