#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make docs/options.md, the options of all commands, and look whether each name means one thing.

    tools/mkoptions.py --options FILE.json --python MODULE.py [--out docs/options.md]

FILE is the output of `penstock --dump-options`, the modules are those of commands that are written in
Python, as for mkman.py.  An option that several commands describe with different words has its meaning in
MEANINGS, with the commands that were looked at.  Fails, with a line for each, where a name or a letter
could mean two things: then the new option needs another name, or, where it means the same, its command
goes into the list.
"""
import argparse
import json
import re
import sys
from typing import Any

from mkman import add_python

Command = dict[str, Any]
Option = dict[str, Any]

# Name: what it means in every command, and the commands that say it in words of their own.
MEANINGS: dict[str, tuple[str, str]] = {
    'block-size': ('bytes of a block, into which transfers are cut', 'sweep'),
    'compress': ('what zstd makes of the content that is generated', 'ckpt bench, gen'),
    'config': ('a file of settings', 'io, kv, kv mlperf'),
    'cpu-mem-gb': ('memory of the second tier, in GiB', 'kv, trace convert, trace stat, replay'),
    'dedup': ('blocks of 4 KiB of content for each different one', 'ckpt bench, gen'),
    'dry-run': ('say what would be done, and do nothing', 'kv, replay, ckpt bench, rm, kv mlperf'),
    'endpoint': ('where the object store is', 's3 compare'),
    'engine': ('what moves the bytes, as `penstock info` lists them', 'sweep'),
    'export-fio': ('write a job for fio that does the same', 'kv, replay'),
    'files': ('how many files or objects', 'bench, gen, s3 compare'),
    'flush-page-cache': ("drop the machine's page cache before reads; tune has no need", 'sweep, tune'),
    'folder': ('where to work; also a name of `--target`', 'tune, kv, ckpt bench, weights, kv mlperf'),
    'folder-to-device-mapping': ('folders to work in, and the GPU of each', ''),
    'gpu': ('memory of a GPU', 'io, bench, tune, sweep, weights'),
    'gpu-mem-gb': ('memory of a GPU of the first tier, in GiB', 'kv, trace convert, trace stat, replay'),
    'html': ('write a page with plots', 'compare'),
    'in-flight': ('operations at the same time', 'bench, replay, s3 compare'),
    'iterations': ('how often it is done', 'io, bench, sweep, tune, kv mlperf, s3 compare'),
    'json': ('write the result as JSON', 's3 compare'),
    'keep': ('leave the files that the run made', 'io, replay'),
    'layout': ('how objects lie in a folder', 'kv, replay'),
    'limit': ('what the device can do, in bytes per second', 'io'),
    'log-dir': ('where logs go; tune writes none', 'sweep, tune'),
    'max-conversations': ('conversations of a ShareGPT file', 'kv'),
    'max-requests': ('end after so many requests', 'kv'),
    'measure-limit': ('find out what the device can do', ''),
    'memory': ("what the buffers are: the library's, plain, at an odd address, or a GPU's", 'io, sweep'),
    'model': ('the language model that gives the sizes', 'kv, ckpt bench, trace convert, trace stat, trace cut, replay'),
    'new-files': ('make new files instead of writing over those of what was deleted', 'kv, replay'),
    'no-crc': ('write no file of checksums', 'ckpt cp, gen, cp'),
    'no-limit': ('do not find out what the device can do', ''),
    'num-gpus': ('GPUs of the first tier', 'kv, trace convert, trace stat, replay'),
    'num-users': ('users of the model', 'kv, trace convert, trace stat, replay'),
    'output': ('the file that the command is there to make', 'tune, kv, report'),
    'overwrite': ('replace files that are there', 'io, gen'),
    'part': ('bytes of each request of a large object', 's3 compare'),
    'queue-depth': ('blocks in flight, for each I/O thread', 'sweep'),
    'quiet': ('say nothing when all is well', 'ckpt verify, ckpt cp, cp'),
    'read-only': ('only reads', 'io, tune'),
    'recursive': ('all that is below', 'cp, ls, rm'),
    'runtime': ('how long to run, in seconds', 'bench, kv, weights, kv mlperf'),
    'seed': ('another number, other content, order or sample', 'io, bench, sweep, tune, kv, trace convert, trace stat, '
             'trace cut, replay, ckpt bench, gen, weights, kv mlperf'),
    'sequential-requests': ('let the queue run empty before it is filled again', 'sweep'),
    'shared': ('files are ranges of one, which the ranks of a run share', 'io, bench'),
    'single-submit': ('submit blocks one by one', 'sweep'),
    'size': ('bytes of an operation, a file or an object', 'io, bench, sweep, tune, ckpt bench, gen, weights, s3 compare'),
    'span': ('bytes of the file in which --random goes anywhere', ''),
    'storage-capacity-gb': ('limit of the third tier, in GiB', 'kv, trace convert, trace stat, replay'),
    'sweep-config': ('a file of the settings to choose from', 'sweep, tune'),
    'target': ('where to work, which may be an object store', 'io, bench, sweep, replay'),
    'threads': ('I/O threads', 'sweep'),
    'trace-extended': ('columns for what the six of a kv trace cannot hold, and Delete rows', 'kv, trace convert'),
    'uploads': ('uploads that were begun and not ended', 'ls, rm'),
    'verbose': ('say more', 'sweep, tune'),
    'verify': ('compare every byte', 'kv, replay, gen'),
    'warmup': ('operations before those that count', 'io, bench'),
    'workers': ('workers in each folder', ''),
    'xlsx': ('write a workbook', 'kv'),
}

# A letter that another program has made known for another thing, and in which commands: cp(1), rm(1).
LETTERS = {('n', 'new'): 'cp', ('r', 'recursive'): 'cp, ls, rm'}
# What is a name of its own in some commands, and in others an alias: of what.
ALIASES = {'folder': 'target', 'html': 'output', 'threads': 'in-flight'}
# The same kind of value, as far as a user sees it.
KINDS = {'integer': 'number', 'signed': 'number', 'number': 'number', 'choice': 'word', 'string': 'word', 'flag': 'flag'}


def named(commands: list[Command]) -> dict[str, list[tuple[str, Option]]]:
    """Of each name the commands that have it, and their options."""
    found: dict[str, list[tuple[str, Option]]] = {}
    for cmd in commands:
        for opt in cmd['options']:
            found.setdefault(opt['name'], []).append((cmd['name'], opt))
    return dict(sorted(found.items()))


def usual(users: list[tuple[str, Option]], key: str) -> Any:
    """What most of them have."""
    values = [o[key] for _, o in users]
    return max(dict.fromkeys(values), key=values.count)


def split(words: str) -> set[str]:
    return set(words.split(', ')) - {''}


def check_kind(name: str, users: list[tuple[str, Option]]) -> list[str]:
    """A list is of what others have one of, or of words for what is a flag elsewhere."""
    kinds = {KINDS.get(o['kind'], o['kind']) for _, o in users if o['kind'] != 'list'}
    metas = {o['meta'] for _, o in users if o['kind'] not in ('choice', 'flag') and o['meta']}
    out = [f'--{name} is a {" and a ".join(sorted(kinds))}'] if len(kinds) > 1 else []
    if len(metas) > 1 and not any(o['kind'] == 'choice' for _, o in users):
        out.append(f'--{name} takes {" and ".join(sorted(metas))}')
    return out


def check_text(name: str, users: list[tuple[str, Option]]) -> list[str]:
    text = usual(users, 'help')
    means, known = MEANINGS.get(name, (text, ''))
    return [f"--{name} of '{c}' says '{o['help']}'; is that '{means}'?" for c, o in users
            if o['help'] != text and c not in split(known)]


def check_letters(commands: list[Command]) -> list[str]:
    """A letter goes with a name: all options that have the one answer to the other."""
    letters: dict[str, list[tuple[str, Option]]] = {}
    out = []
    for cmd in commands:
        for opt in cmd['options']:
            if opt['letter'] and cmd['name'] not in split(LETTERS.get((opt['letter'], opt['name']), '')):
                letters.setdefault(opt['letter'], []).append((cmd['name'], opt))
    for letter, users in letters.items():
        common = set.intersection(*({o['name'], *o['aliases']} for _, o in users))
        if not common:
            names = sorted({f"--{o['name']} of '{c}'" for c, o in users})
            out.append(f'-{letter} is {", ".join(names)}')
    for name, users in named(commands).items():
        has = {o['letter'] for _, o in users if o['letter']}
        if len(has) > 1:
            out.append(f'--{name} has the letters {", ".join(sorted(has))}')
    return out


def check_aliases(commands: list[Command]) -> list[str]:
    names = named(commands)
    out = []
    for cmd in commands:
        for opt in cmd['options']:
            for alias in opt['aliases']:
                plain = alias.replace('_', '-')
                if plain in names and ALIASES.get(plain) != opt['name']:
                    out.append(f"--{alias} of '{cmd['name']}' is --{opt['name']}, and an option of its own elsewhere")
    return out


def complaints(commands: list[Command]) -> list[str]:
    out = check_letters(commands) + check_aliases(commands)
    for name, users in named(commands).items():
        out += check_kind(name, users) + check_text(name, users)
        if '_' in name:
            out.append(f'--{name}: names are written with -')
    for name, (_, known) in MEANINGS.items():
        gone = split(known) - {c for c, _ in named(commands).get(name, [])}
        if gone:
            out.append(f'MEANINGS: --{name} is no option of {", ".join(sorted(gone))}')
    return out


# ---------------------------------------------------------------------------------------- the page

def cell(text: str) -> str:
    return text.replace('|', '\\|')


def spelled(opt: Option) -> str:
    return (f'`-{opt["letter"]}` ' if opt['letter'] else '') + f'`--{opt["name"]}`'


def also(users: list[tuple[str, Option]]) -> str:
    """Other names, whose they are, and where."""
    owners: dict[tuple[str, str], list[str]] = {}
    for cmd, opt in users:
        for alias in opt['aliases']:
            owners.setdefault((alias, opt.get('tools', {}).get(alias, '')), []).append(cmd)
    return ', '.join(f'`--{a}`' + (f' ({tool})' if tool else '') + ('' if len(where) == len(users) else ' of ' + ' and '.join(where))
                     for (a, tool), where in owners.items())


def meaning(name: str, users: list[tuple[str, Option]]) -> str:
    text = MEANINGS[name][0] if name in MEANINGS else users[0][1]['help']
    return cell(re.sub(r"`([^`']*)'", r'`\1`', text))  # as the help quotes


def values(users: list[tuple[str, Option]]) -> list[str]:
    """What the option takes, each form once, in the order of the commands."""
    forms = dict.fromkeys(cell('|'.join(o['choices']) if o.get('choices') else o.get('meta') or '') for _, o in users)
    return [form for form in forms if form]


def page(commands: list[Command]) -> str:
    names = named(commands)
    out = ['<!-- Made by tools/mkoptions.py from the option tables. -->',
           '# Options', '',
           'An option has one name and one meaning in all commands, and a letter stands for one option (`-r` and `-n` of `cp`, `ls` and',
           '`rm` are those of cp(1)). Where a command speaks for another tool, the names of that tool are other names of the same option.',
           'In names `-` and `_` are the same. `penstock COMMAND --help-all` and the manual say what an option does in a command.', '',
           '## By command', '', '| command | options |', '|---|---|']
    for cmd in commands:
        if cmd['options']:
            out.append(f'| `{cmd["name"]}` | ' + ', '.join(spelled(o) for o in sorted(cmd['options'], key=lambda o: o['name'])) + ' |')
    out += ['', '## By name', '', '| option | value | what it means | also | commands |', '|---|---|---|---|---|']
    for name, users in names.items():
        first = next((o for _, o in users if o['letter']), users[0][1])
        value = ', '.join(values(users))
        out.append(f'| {spelled(first)} | {value} | {meaning(name, users)} | {also(users)} | ' + ', '.join(c for c, _ in users) + ' |')
    return '\n'.join(out) + '\n'


def read(options: str, python: list[str]) -> list[Command]:
    with open(options, encoding='utf-8') as f:
        commands: list[Command] = json.load(f)['commands']
    for path in python:
        add_python(commands, path)
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--options', required=True, help='output of penstock --dump-options')
    parser.add_argument('--python', action='append', default=[], help='module of a command')
    parser.add_argument('--out', help='the page; without it only look')
    args = parser.parse_args()
    commands = read(args.options, args.python)
    wrong = complaints(commands)
    if wrong:
        sys.exit('\n'.join('mkoptions: ' + line for line in wrong))
    if args.out:
        with open(args.out, 'w', encoding='utf-8') as f:
            f.write(page(commands))


if __name__ == '__main__':
    main()
