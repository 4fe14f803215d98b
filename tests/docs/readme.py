# SPDX-License-Identifier: Apache-2.0
"""What README.md and its companions say is so.

    readme.py SOURCE BUILD LIBPENSTOCK_SO CC...
"""
import importlib
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

source, build, library = sys.argv[1:4]
cc = sys.argv[4:]
folder = tempfile.TemporaryDirectory()
program = os.path.join(folder.name, 'copy')


def text(name):
    with open(os.path.join(source, name)) as f:
        return f.read()


def block(page, language):
    found = re.findall(rf'^```{language}\n(.*?)^```$', text(page), re.M | re.S)
    assert len(found) == 1, f'{len(found)} blocks of {language} in {page}'
    return found[0]


def run_copy(*args):
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library))
    return subprocess.run([program, *args], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def the_example_is_the_one_in_examples():
    assert block('docs/c.md', 'c') == text('examples/copy.c')


def the_example_is_C99_without_a_warning():
    c = os.path.join(folder.name, 'copy.c')
    with open(c, 'w') as f:
        f.write(block('docs/c.md', 'c'))
    subprocess.run([*cc, '-std=c99', '-Wall', '-Wextra', '-pedantic', '-Werror',
                    f'-I{source}/include', f'-I{build}/include', c, '-o', program,
                    f'-L{os.path.dirname(library)}', '-lpenstock'], check=True)


def the_example_copies_a_file():
    a, b = os.path.join(folder.name, 'a'), os.path.join(folder.name, 'b')
    for size in (0, 1, 4096, 3 * 1024 * 1024 + 17):
        data = os.urandom(size)
        with open(a, 'wb') as f:
            f.write(data)
        done = run_copy(a, b)
        assert done.returncode == 0 and not done.stderr, done
        with open(b, 'rb') as f:
            assert f.read() == data, f'{size} bytes differ'


def the_example_says_why_it_fails():
    missing = os.path.join(folder.name, 'missing')
    done = run_copy(missing, missing)
    assert done.returncode == 1, done
    assert missing in done.stderr and done.stderr.count('\n') == 1, done


def the_quick_start_is_two_commands():
    assert block('README.md', 'sh') == 'make bench\nmake check\n'


def the_targets_are_those_of_the_Makefile():
    listed = re.findall(r'^\| `make ?([\w-]*)` \|', text('CONTRIBUTING.md'), re.M)
    phony = re.search(r'^\.PHONY: ((?:.*\\\n)*.*)$', text('Makefile'), re.M)[1]
    exist = set(re.findall(r'(?<![\w$(-])[a-z][\w-]*', phony))
    # Those in between are for the Makefile and the tests only.
    internal = {'all', 'help', 'setup-check'}
    assert set(listed) - {''} == exist - internal, (listed, exist)


def it_opens_with_three_lines_a_picture_and_three_people():
    """The rest is in docs: somebody who does not know what this is reads a page, not a manual."""
    lines = text('README.md').splitlines()
    assert lines[0] == '# penstock' and all(lines[2:5]) and not lines[5] and lines[6].startswith('!['), lines[:7]
    parts = re.split(r'^## (.*)\n', text('README.md'), flags=re.M)
    people = [(title, body) for title, body in zip(parts[1::2], parts[2::2]) if title.startswith('You ')]
    assert [p[0] for p in people] == ['You have DeepSpeed code', 'You have a drive to measure', 'You have a KV cache to size']
    for title, body in people:
        assert len([line for line in body.splitlines() if line.strip() and not line.startswith('```')]) <= 10, title
    assert len(lines) <= 100, len(lines)


def the_picture_is_of_the_run_as_it_is_now():
    sys.path.insert(0, os.path.join(source, 'tools'))
    picture = importlib.import_module('picture')
    with open(picture.PICTURE, 'rb') as f:
        png = f.read()
    assert '](docs/picture.png)' in text('README.md') and len(png) < 200000, len(png)
    assert picture.read_digests(png) == picture.input_digests(), 'run tools/picture.py'
    assert picture.input_digests()['schema'] in text('docs/result.md')


def links_lead_somewhere():
    for name in ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/architecture.md', 'docs/features.md', 'docs/c.md',
                 'docs/from-other-tools.md', 'docs/from-deepspeed.md'):
        for link in re.findall(r'\]\(([^)#:]+)\)', text(name)):
            path = os.path.join(source, os.path.dirname(name), link)
            assert os.path.exists(path), f'{name}: {link}'


def the_changelog_knows_the_version():
    version = re.search(r"version: '([^']+)'", text('meson.build'))[1]
    assert re.search(rf'^## {re.escape(version)}\b', text('CHANGELOG.md'), re.M), version


tap.run(the_example_is_the_one_in_examples, the_example_is_C99_without_a_warning,
        the_example_copies_a_file, the_example_says_why_it_fails, the_quick_start_is_two_commands,
        the_targets_are_those_of_the_Makefile, it_opens_with_three_lines_a_picture_and_three_people,
        the_picture_is_of_the_run_as_it_is_now, links_lead_somewhere,
        the_changelog_knows_the_version)
