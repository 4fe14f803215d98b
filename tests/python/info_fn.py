# SPDX-License-Identifier: Apache-2.0
"""penstock.info(): what the library, the machine and a path can do."""
import json
import os
import pathlib
import subprocess
import sys

import penstock
from kit import Skip, case, cases, data, folder, make, path, raises, run

BUILD = sys.argv[2] if len(sys.argv) > 2 else None


def as_the_command_says(*args):
    command = os.path.join(BUILD or '', 'penstock')
    if not BUILD or not os.path.exists(command):
        raise Skip('command', 'the penstock command is not given')
    done = subprocess.run([command, 'info', '--json', '-', *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@case
def it_tells_the_version():
    assert penstock.info()['version'] == penstock.__version__


@case
def it_lists_the_engines_best_first_and_why_not():
    engines = penstock.info()['engines']
    names = [e['name'] for e in engines]
    assert 'threads' in names and 'null' in names and 'fault' in names, names
    for e in engines:
        assert isinstance(e['usable'], bool) and e['description'], e
        assert e['usable'] == (not e['why']), e


@case
def an_engine_that_is_usable_can_be_opened():
    for e in penstock.info()['engines']:
        if e['usable']:
            penstock.Handle(e['name']).close()
        else:
            raises(OSError, penstock.Handle, e['name'])


@case
def a_handle_takes_the_first_usable_engine():
    first = next(e['name'] for e in penstock.info()['engines'] if e['usable'])
    with penstock.Handle() as h:
        assert h.engine == first


@case
def it_knows_no_more_than_the_command():
    told = as_the_command_says(folder)
    info = penstock.info(folder)
    for mine, theirs in zip(info['engines'], told['engines'], strict=True):
        assert mine['name'] == theirs['name'] and mine['description'] == theirs['description']
        assert mine['usable'] == theirs['usable'] and mine['why'] == (theirs['reason'] or '')
    mine, theirs = info['path'], told['paths'][0]
    assert (mine['fs'], mine['mount']) == (theirs['file_system'], theirs['mount']), (mine, theirs)
    assert mine['direct'] == theirs['direct']['usable'], (mine, theirs)
    assert mine.get('device', {}).get('name') == (theirs['device'] or {}).get('name')


@case
def it_says_whether_there_is_a_GPU():
    gpu = penstock.info()['gpu']
    assert isinstance(gpu['cuda'], bool) and isinstance(gpu['cufile'], bool), gpu
    assert gpu['cuda'] or gpu['cuda_why'], gpu


@case
def without_a_path_there_is_nothing_about_one():
    assert 'path' not in penstock.info() and 'path' not in penstock.info(None)


@case
def a_folder_is_described():
    about = penstock.info(folder)['path']
    assert about['is_dir'] is True and about['is_device'] is False
    assert about['fs'] and about['mount'] and about['free_bytes'] > 0, about
    assert about['direct'] == (not about['direct_why']), about
    if about['direct']:
        assert about['mem_align'] >= 1 and about['offset_align'] >= 512, about


@case
def a_file_is_described_in_every_form_of_its_name():
    name = make(data(123456))
    for form in (name, os.fsencode(name), pathlib.Path(name)):
        about = penstock.info(form)['path']
        assert about['is_dir'] is False and about['file_bytes'] == 123456, about
        assert about['resident_bytes'] <= 123456 + 4096, about
    assert penstock.info(path=name)['path']['file_bytes'] == 123456


@case
def it_leaves_nothing_behind():
    before = sorted(os.listdir(folder)), len(os.listdir('/proc/self/fd'))
    for _ in range(20):
        penstock.info(folder)
    assert (sorted(os.listdir(folder)), len(os.listdir('/proc/self/fd'))) == before


@case
def a_missing_path_is_FileNotFoundError():
    e = raises(FileNotFoundError, penstock.info, path('missing'))
    assert e.filename.endswith('missing')


@case
def what_is_no_path_is_refused():
    for bad in (5, 1.5, [], object()):
        assert 'path' in str(raises(TypeError, penstock.info, bad))
    raises(ValueError, penstock.info, 'a\0b')
    raises(TypeError, penstock.info, folder, folder)
    raises(TypeError, penstock.info, paths=folder)


run(*cases)
