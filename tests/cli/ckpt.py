#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock ckpt ls`, `verify` and `cp` on files of safetensors, torch's zip and others.  ckpt.py PENSTOCK ROOT"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import json
import random
import struct
import zipfile

import clikit
import resultcheck
import tap
from clikit import ROOT
from tap import in_folder

ls, verify, cp = (clikit.Command('ckpt', word) for word in ('ls', 'verify', 'cp'))
draw = random.Random(5)


def save(name, data):
    with open(name, 'wb') as f:
        f.write(data)


def content(name):
    with open(name, 'rb') as f:
        return f.read()


def safetensors(name='m.safetensors', damage=b''):
    """Two tensors, one of several MiB, and metadata; the tensor `b' begins at the end of the header."""
    big = draw.randbytes(3 << 20)
    header = json.dumps({'__metadata__': {'made': 'by hand'}, 'b': {'dtype': 'F32', 'shape': [768, 1024], 'data_offsets': [0, 3 << 20]},
                         'a': {'dtype': 'U8', 'shape': [], 'data_offsets': [3 << 20, (3 << 20) + 1]}}).encode()
    save(name, struct.pack('<Q', len(header)) + header + big + b'x' + damage)
    return 8 + len(header)


def torch_zip(name='m.pt', records=3):
    with zipfile.ZipFile(name, 'w', zipfile.ZIP_STORED) as z:
        z.writestr('archive/data.pkl', b'\x80\x02}.')
        for i in range(records):
            z.writestr(f'archive/data/{i}', draw.randbytes(1 << 20 if i else 0))


def flip(name, offset):
    with open(name, 'r+b') as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 4]))


def listing(command, *args, **more):
    got = json.loads(command('--json', '-', *args, **more).out)
    resultcheck.validate(ROOT, got, 'penstock-ckpt/1')
    return got['files']


@in_folder
def tensors_and_records_are_listed():
    at = safetensors()
    torch_zip()
    save('other', b'anything')
    out = ls('m.safetensors', 'm.pt', 'other').out
    assert 'm.safetensors: safetensors, 2 tensors, ' in out and 'checksums: none' in out, out
    assert '3145728  F32      [768, 1024]' in out and 'm.pt: torch, 4 records' in out and 'archive/data.pkl' in out and 'other: other, 8 B' in out, out
    tensors, zipped, other = listing(ls, 'm.safetensors', 'm.pt', 'other')
    assert tensors['entries'][0] == {'name': 'b', 'dtype': 'F32', 'shape': [768, 1024], 'offset': at, 'bytes': 3 << 20}, tensors
    assert tensors['entries'][1]['shape'] == [] and tensors['metadata'] == {'made': 'by hand'} and tensors['checksums'] is None
    assert [e['bytes'] for e in zipped['entries']] == [4, 0, 1 << 20, 1 << 20] and zipped['entries'][0]['dtype'] is None
    assert other['format'] == 'other' and other['entries'] == []
    assert ls('--brief', 'm.safetensors').out.count('\n') == 1


@in_folder
def a_copy_is_the_same_and_has_checksums():
    safetensors()
    torch_zip()
    save('other', draw.randbytes(5000001))
    os.mkdir('to')
    for name in ('m.safetensors', 'm.pt', 'other'):
        done = cp(name, 'to/')
        assert f'-> to/{name}:' in done.out, done
        assert content(name) == content(f'to/{name}') and os.path.exists(f'to/{name}.crc'), done
        assert ('has no checksums' in done.err) == (name != 'm.pt'), done
        assert 'all right by FILE.crc' in verify(f'to/{name}').out
        cp('-q', f'to/{name}', 'again')
        assert content('again') == content(name)
    cp('--no-crc', 'to/m.pt', 'again')
    assert not os.path.exists('again.crc') and content('again') == content('m.pt')


@in_folder
def a_flipped_bit_is_found_and_named():
    at = safetensors('plain')
    cp('-q', 'plain', 'm.safetensors')
    flip('m.safetensors', at + (2 << 20) + 5)
    done = verify('m.safetensors', status=1)
    assert "m.safetensors" in done.err and "there is 'b'" in done.err, done
    torch_zip()
    with zipfile.ZipFile('m.pt') as z:
        flip('m.pt', z.getinfo('archive/data/2').header_offset + 100)
    assert "record 'archive/data/2'" in verify('m.pt', status=1).err
    # The others are looked at all the same.
    save('plain', b'12345')
    cp('-q', 'plain', 'good')
    right = [f['right'] for f in listing(verify, 'm.safetensors', 'good', 'm.pt', status=1)]
    assert right == [False, True, False]


@in_folder
def damage_in_the_same_chunk_as_the_header_or_directory_is_named():
    """Nothing can be opened then: what lists the tensors is read without being believed."""
    def told(name, offset):
        cp('-q', f'plain.{name}', f'm.{name}')
        flip(f'm.{name}', offset)
        save('to', b'old')
        says = {done.err.split('; ')[1:][0].strip() for done in (verify(f'm.{name}', status=1), cp(f'm.{name}', 'to', status=1))}
        assert content('to') == b'old' and len(says) == 1, says
        return says.pop()

    at = safetensors('plain.safetensors')
    for offset in 0, 7, 8, 20:
        assert told('safetensors', offset) == 'there is the header', offset
    assert told('safetensors', at) == "there is the header, 'b'"
    assert told('safetensors', at + (3 << 20)) == "there is 'b' and 1 other"
    torch_zip('plain.pt')
    with zipfile.ZipFile('plain.pt') as z:
        last, directory = z.getinfo('archive/data/2').header_offset + 100 + (1 << 19), z.start_dir
    assert told('pt', 50) == 'there is the directory or the header of a record'
    assert told('pt', 47) == "there is 'archive/data.pkl' and 1 other"
    assert told('pt', last) == "there is 'archive/data/1' and 1 other"
    assert told('pt', directory - 1) == "there is the directory, 'archive/data/2'"
    assert told('pt', directory) == 'there is the directory'
    cp('-q', 'plain.pt', 'm.pt')
    flip('m.pt', directory)
    assert verify('m.pt', status=1).err.count('m.pt: ') == 1, 'the name is there twice'


@in_folder
def a_damaged_file_is_not_copied():
    safetensors('plain')
    cp('-q', 'plain', 'from')
    flip('from', 2 << 20)
    save('to', b'old')
    cp('from', 'to', status=1)
    assert content('to') == b'old' and sorted(os.listdir('.')) == ['from', 'from.crc', 'plain', 'to'], os.listdir('.')


@in_folder
def nothing_to_verify_by_is_no_success():
    safetensors()
    done = verify('m.safetensors', status=1)
    assert 'has no checksums' in done.err and 'ckpt cp' in done.err, done
    assert 'No such file' in verify('nothing', status=1).err


@in_folder
def hostile_files_are_harmless():
    safetensors('tail', damage=b'more')
    assert 'tail' in ls('tail', status=1).err
    torch_zip('cut')
    save('cut', content('cut')[:-30])
    assert 'is it complete?' in ls('cut', status=1).err
    with zipfile.ZipFile('packed', 'w', zipfile.ZIP_DEFLATED) as z:
        z.writestr('a\x1b[31m', b'a' * 100)
    err = ls('packed', status=1).err
    assert 'compressed' in err and '\x1b' not in err, err
    with zipfile.ZipFile('colours', 'w') as z:
        z.writestr('a\x1b[31m', b'a' * 100)
    assert '\x1b' not in ls('colours').out
    for name in sorted(os.listdir(f'{ROOT}/tests/fuzz/corpus/zip')):
        done = clikit.call('ckpt', 'verify', f'{ROOT}/tests/fuzz/corpus/zip/{name}')
        assert done.returncode in (0, 1), done


@in_folder
def bad_command_lines_are_refused():
    save('a', b'a')
    for command in (ls, verify):
        command.refused(says='FILE')
    cp.refused('a', says='FROM and TO')
    cp.refused('a', 'a', says='same file')
    cp.refused('a', '.', says='same file')


tap.run(tensors_and_records_are_listed, a_copy_is_the_same_and_has_checksums, a_flipped_bit_is_found_and_named,
        damage_in_the_same_chunk_as_the_header_or_directory_is_named, a_damaged_file_is_not_copied, nothing_to_verify_by_is_no_success, hostile_files_are_harmless, bad_command_lines_are_refused)
