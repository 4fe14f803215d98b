# SPDX-License-Identifier: Apache-2.0
"""docs/options.md is what the option tables say, and a name of an option means one thing in all commands.

    options.py SOURCE BUILD
"""
import copy
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap

source, build = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(source, 'tools'))
import mkoptions

PYTHON = [f'{source}/python/penstock/{name}.py' for name in ('_mlperf', '_s3_compare')]


def commands():
    with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
        subprocess.run([f'{build}/penstock', '--dump-options'], check=True, stdout=f)
        return mkoptions.read(f.name, PYTHON)


COMMANDS = commands()


def the_page_is_current():
    with open(f'{source}/docs/options.md', encoding='utf-8') as f:
        assert f.read() == mkoptions.page(COMMANDS), \
            'made anew by: build/penstock --dump-options > o.json; tools/mkoptions.py --options o.json ' \
            '--python python/penstock/_mlperf.py --python python/penstock/_s3_compare.py --out docs/options.md'


def a_name_means_one_thing():
    wrong = mkoptions.complaints(COMMANDS)
    assert not wrong, '\n'.join(wrong)
    assert len(COMMANDS) > 30 and len(mkoptions.named(COMMANDS)) > 150


def planted(change, of='gen', **fields):
    """What is said when an option of a command becomes another, or with @change None when one is added."""
    table = copy.deepcopy(COMMANDS)
    options = next(c for c in table if c['name'] == of)['options']
    if change:
        next(o for o in options if o['name'] == change).update(fields)
    else:
        options.append({'letter': None, 'kind': 'integer', 'meta': 'N', 'aliases': [], 'help': 'x', 'choices': None} | fields)
    return mkoptions.complaints(table)


def a_second_meaning_is_found():
    for what, wrong in (
            ('another text', planted(None, of='ls', name='seed', help='where to sow')),
            ('another kind', planted('seed', kind='string')),
            ('another unit', planted('size', meta='SECONDS')),
            ('a letter that another option has', planted(None, name='sort', letter='s')),
            ('two letters', planted('size', letter='z')),
            ('an alias that is a name elsewhere', planted('files', aliases=['threads'])),
            ('a name of an older style', planted(None, name='new_name')),
            ('a text that most have not', planted('direct', help='go straight'))):
        assert wrong, f'{what} is not found'
        print('#', what + ':', '; '.join(wrong))
    assert not planted(None, name='nowhere-else', letter='y')


def the_lists_of_exceptions_are_short():
    assert len(mkoptions.LETTERS) <= 2 and len(mkoptions.ALIASES) <= 3


tap.run(the_page_is_current, a_name_means_one_thing, a_second_meaning_is_found, the_lists_of_exceptions_are_short)
