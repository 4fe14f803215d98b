#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock store: what is in the directory of a KV store, whether it is whole, and away with it.

    store.py PENSTOCK PYTHON

PYTHON is the folder of the Python package, which makes the stores.
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import clikit
import tap
from tap import in_folder

sys.path.insert(0, sys.argv[2])
try:
    import penstock
except ImportError:
    print('1..0 # SKIP the Python package is not built')
    sys.exit(0)

info, ls, verify, drop = (clikit.Command('store', word) for word in ('info', 'ls', 'verify', 'drop'))


def make(name='s'):
    store = penstock.Store([name], 16 << 20)
    store['first'] = b'x' * 10000
    store[b'two \\\0'] = b'12345'
    store.set('gone', b'1')
    store.set('dated', b'', ttl=1000000)
    del store['gone']
    return store


@in_folder
def info_counts_values():
    make().close()
    out, err = info('s')
    assert out.startswith('s\n  version        1\n  values         3\n') and not err, out
    assert '\n  of values      9.77 KiB\n' in out, out
    assert info('s', 's').out == 2 * out
    with open('s/log', 'r+b') as f:
        f.seek(100)
        f.write(bytes(16))
    assert '\n  broken ' in info('s', status=1).out


@in_folder
def ls_shows_keys_in_order():
    make().close()
    lines = ls('s').out.splitlines()
    assert lines[:2] == ['10000\t-\tfirst', '5\t-\ttwo\\x20\\x5c\\x00'], lines
    assert lines[2].startswith('0\t20') and lines[2].endswith('Z\tdated'), lines


@in_folder
def verify_finds_what_is_broken():
    make().close()
    assert verify('s').out == 's: 3 values read, 0 bad, 0 records broken\n'
    with open('s/data', 'r+b') as f:
        for block in range(8):
            f.seek(block * 4096 + 7)
            f.write(b'!')
    out, err = verify('s', status=1)
    assert out.splitlines()[0] == 'bad\tnot what was written\tfirst', out
    assert out.endswith('s: 3 values read, 1 bad, 0 records broken\n') and not err, out


@in_folder
def drop_removes_the_store_and_nothing_else():
    make().close()
    assert drop('s').out == '' and not os.path.exists('s')
    make('t').close()
    with open('t/mine', 'w') as f:
        f.write('precious')
    drop('t')
    assert os.listdir('t') == ['mine']


@in_folder
def what_is_no_store_or_in_use_is_refused_in_one_line():
    os.mkdir('empty')
    for command in (info, ls, verify, drop):
        assert command('empty', status=2).err == f'penstock {" ".join(command.words)}: empty: there is no store\n'
        assert 'a directory is needed' in command(status=2).err
        assert 'nowhere' in command('nowhere', status=2).err
    store = make()
    assert 'another store has it open' in verify('s', status=1).err
    store.close()
    with open('s/penstock-store', 'w') as f:
        f.write('penstock-store 9 what it has\n')
    assert 'version 9, and this program knows 1' in drop('s', status=1).err
    assert os.path.exists('s/data')
    os.unlink('s/penstock-store')
    os.mkdir('s/penstock-store')
    assert info('s', status=1).err == 'penstock store info: s/penstock-store: Is a directory\n'


tap.run(info_counts_values, ls_shows_keys_in_order, verify_finds_what_is_broken,
        drop_removes_the_store_and_nothing_else, what_is_no_store_or_in_use_is_refused_in_one_line)
