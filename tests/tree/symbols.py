# SPDX-License-Identifier: Apache-2.0
"""The shared library exports the functions of the public headers and nothing else.

    symbols.py LIBPENSTOCK_SO PENSTOCK_MAP HEADER...
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

library, version_map, headers = sys.argv[1], sys.argv[2], sys.argv[3:]


def declared():
    names = set()
    for header in headers:
        with open(header) as f:
            names |= set(re.findall(r'^PENSTOCK_API[^;(]*?\b(\w+)\s*\(', f.read(), re.M))
    assert names
    return names


def exported():
    text = subprocess.run(['nm', '-D', '--defined-only', library], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    # "ADDRESS T name@@PENSTOCK_0.1"; type A is the name of a version itself
    fields = [line.split() for line in text.splitlines()]
    return {f[2] for f in fields if f[1] != 'A'}


def listed():
    with open(version_map) as f:
        text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
    return re.findall(r'^\s*(\w+);', text, re.M)


def what_the_headers_declare_is_exported():
    missing = declared() - {name.split('@')[0] for name in exported()}
    assert not missing, f'declared but not defined or not in {version_map}: {sorted(missing)}'


def nothing_else_is_exported():
    extra = {name.split('@')[0] for name in exported()} - declared()
    assert not extra, f'exported but in no public header: {sorted(extra)}'


def the_map_names_what_exists():
    stale = set(listed()) - declared()
    assert not stale, f'in {version_map} but in no public header: {sorted(stale)}'
    assert len(listed()) == len(set(listed())), 'a name is listed twice'


def every_symbol_has_a_version():
    bare = [name for name in exported() if '@@' not in name]
    assert not bare, f'without a version: {bare}'


tap.run(what_the_headers_declare_is_exported, nothing_else_is_exported, the_map_names_what_exists,
        every_symbol_has_a_version)
