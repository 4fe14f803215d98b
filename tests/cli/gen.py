#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock gen`: files of stated content, and what it says of them later.  gen.py PENSTOCK ROOT"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import signal
import time

import clikit
import tap
from tap import in_folder

gen = clikit.Command('gen')


def content(name):
    with open(name, 'rb') as f:
        return f.read()


@in_folder
def files_are_written_and_verified():
    out, _ = gen('-s', '3M', '-s', '1000001', '--files', '3', 'f')
    assert 'wrote 3 files' in out and 'durable' in out, out
    assert sorted(os.listdir('.')) == ['f.0', 'f.0.crc', 'f.1', 'f.1.crc', 'f.2', 'f.2.crc']
    assert [os.path.getsize(f'f.{i}') for i in range(3)] == [3 << 20, 1000001, 3 << 20]
    assert content('f.0') != content('f.2')
    assert 'all right' in gen('-s', '3M', '-s', '1000001', '--files', '3', '--verify', 'f').out


@in_folder
def a_wrong_byte_is_named():
    gen('-s', '1M', 'a', 'b')
    with open('b', 'r+b') as f:
        f.seek(777777)
        byte = f.read(1)[0]
        f.seek(777777)
        f.write(bytes([byte ^ 1]))
    done = gen('-s', '1M', '--verify', 'a', 'b', status=1)
    assert f'b: byte 777777 is 0x{byte ^ 1:02x}, not 0x{byte:02x}' in done.err, done
    with open('a', 'r+b') as f:
        f.truncate(5000)
    assert 'a: has 5000 bytes, not 1048576' in gen('-s', '1M', '--verify', 'a', status=1).err
    assert 'byte 0 ' in gen('-s', '1M', '--seed', '2', '--verify', 'b', status=1).err


@in_folder
def the_ratio_is_that_of_all_files_together():
    gen('-s', '64K', '--files', '64', '--dedup', '2', 'f')
    blocks = [content(f'f.{i}')[at:at + 4096] for i in range(64) for at in range(0, 65536, 4096)]
    assert len(blocks) == 1024 and len(set(blocks)) == 512, len(set(blocks))


@in_folder
def the_result_is_of_the_schema():
    result = gen.result('-s', '64K', '--files', '4', '--compress', '1.5', 'f')
    s = result['series'][0]
    assert result['command'] == 'gen' and s['name'] == 'write files' and s['ops'] == 4 and s['bytes'] == 4 * 65536, result
    assert result['settings']['compress'] == 1.5 and result['settings']['size'] == [65536]
    assert result['bytes_written'] == 4 * 65536
    result = gen.result('-s', '64K', '--files', '4', '--compress', '1.5', '--verify', 'f')
    assert result['series'][0]['verified_bytes'] == 4 * 65536 and result['bytes_written'] == 0


@in_folder
def what_is_there_is_replaced_only_when_asked():
    with open('f', 'w') as f:
        f.write('mine')
    gen.refused('-s', '64K', 'f', says=['f: is there already', '--overwrite'])
    gen.refused('-s', '64K', 'none/f', says='penstock gen: none: No such file')
    assert content('f') == b'mine'
    gen('-s', '64K', '--overwrite', '--no-crc', 'f')
    assert os.path.getsize('f') == 65536 and os.listdir('.') == ['f']


@in_folder
def bad_options_are_refused():
    gen.refused(says='FILE')
    gen.refused('--dedup', '0.5', 'f', says=['--dedup', '0.5'])
    gen.refused('--compress', '17', 'f', says=['--compress', '17'])
    gen.refused('-s', 'many', 'f', says=['--size', "'many'"])
    gen.refused('--verify', 'f', says='f: No such file')
    gen.refused('-s', '1P', 'f', says=['not enough free space'])
    gen.refused('-s', '1K', 'nowhere/f', says='nowhere')
    gen.refused('-s', '1K', '--json', 'f', 'f', says='f')


@in_folder
def an_interrupted_run_leaves_whole_files_only():
    process = gen.start('-s', '1M', '--files', '2000', 'f')
    while not os.path.exists('f.3'):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGINT and 'interrupted' in err, err
    assert all(os.path.getsize(name) == 1 << 20 for name in os.listdir('.') if not name.endswith('.crc')), os.listdir('.')


tap.run(files_are_written_and_verified, a_wrong_byte_is_named, the_ratio_is_that_of_all_files_together, the_result_is_of_the_schema,
        what_is_there_is_replaced_only_when_asked, bad_options_are_refused, an_interrupted_run_leaves_whole_files_only)
