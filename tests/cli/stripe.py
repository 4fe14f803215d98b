#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock stripe: made, shown, checked and removed.

    stripe.py PENSTOCK PYTHON

PYTHON is the folder of the Python package, which writes to the files.
"""
import json
import os
import re
import subprocess
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import clikit
import tap
from tap import in_folder

sys.path.insert(0, sys.argv[2])
try:
    import penstock
    from penstock._atomic_writer import Writer
except ImportError:
    print('1..0 # SKIP the Python package is not built')
    sys.exit(0)

create, info, check, rm = (clikit.Command('stripe', word) for word in ('create', 'info', 'check', 'rm'))
UNIT = 64 << 10
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')


def make(name='t', members=3):
    folders = [f'd{i}' for i in range(members)]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    create(name, '--unit', str(UNIT), *folders)
    return folders


def look(name='t'):
    return json.loads(info('--json', '-', name).out)[0]


@in_folder
def a_tensor_goes_through_by_its_name():
    make()
    data = os.urandom(1000001)
    with penstock.Handle() as h:
        assert h.write(data, 't') == len(data)
        back = bytearray(len(data))
        assert h.read(back, 't') == len(data) and back == data
        with h.open('t') as f:
            assert f.stat()['bytes'] == len(data), f.stat()
    for i in range(3):
        with open(look()['members'][i]['path'], 'rb') as f:
            f.seek(1 << 20)
            assert f.read(UNIT) == data[i * UNIT:(i + 1) * UNIT]


@in_folder
def info_tells_size_unit_and_members():
    make()
    with penstock.Handle() as h:
        h.write(b'x' * (5 * UNIT), 't')
    out = info('t').out
    assert out.startswith('t: 320 KiB in 3 members, units of 64 KiB, id '), out
    assert out.count('  good ') == 3, out
    got = look()
    assert (got['name'], got['unit'], got['bytes'], got['good']) == ('t', UNIT, 5 * UNIT, True), got
    assert [m['bytes'] for m in got['members']] == [2 * UNIT, 2 * UNIT, UNIT], got
    assert check('t').out == 't: 3 members are good\n'


@in_folder
def check_names_what_is_wrong():
    make()
    with penstock.Handle() as h:
        h.write(b'x' * (5 * UNIT), 't')
    second = look()['members'][1]['path']
    os.truncate(second, os.path.getsize(second) - 1)
    done = check('t', status=1)
    assert done.out.startswith('t: member 2 of 3, ') and 'is short' in done.out, done
    os.remove(second)
    assert 'No such file' in check('t', status=1).out
    got = json.loads(check('--json', '-', 't', status=1).out)[0]
    assert [m['state'] for m in got['members']] == ['good', 'missing', 'good'], got
    assert 'member 2 of 3' in got['members'][1]['why'], got
    info('t')


@in_folder
def rm_leaves_nothing():
    make()
    rm('t')
    assert not os.path.exists('t') and not any(os.listdir(f'd{i}') for i in range(3))
    rm.refused('t', says='t: No such file')
    make()
    os.symlink('t', 'link')
    rm('link')
    assert not os.path.lexists('link') and not os.path.lexists('t') and not any(os.listdir(f'd{i}') for i in range(3))
    create('--as-folder', 'swap', 'd0', 'd1')
    os.symlink('swap', 'link')
    rm('link')
    assert not os.path.lexists('link') and not os.path.lexists('swap') and not os.listdir('d0')


@in_folder
def mistakes_are_named_and_nothing_is_made():
    os.mkdir('a')
    with open('plain', 'w') as f:
        f.write('x')
    create.refused(says='a NAME and the folders')
    create.refused('t', says='a NAME and the folders')
    create.refused('t', 'a', 'nowhere', says='nowhere: No such file')
    create.refused('t', 'a', 'plain', says='plain: is neither a folder nor a block device')
    create.refused('plain', 'a', says='plain: is there already')
    create.refused('t', 'a', '--unit', '5000', says='unit: 5000 is no multiple of 4096')
    info.refused('plain', says='plain: is not a striped file')
    rm.refused('plain', says='plain: is not a striped file')
    assert open('plain').read() == 'x'


@in_folder
def a_striped_file_in_the_place_of_a_folder_is_named():
    make()
    before = look()
    with open('w.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n0.01,Write,65536,Tier-2,k,Prefill\n')
    kv = ['--model', 'tiny-1b', '--num-users', '1', '--runtime', '1', '--output', os.devnull]
    for words in (['replay', 'w.csv', '-f', 't'], ['replay', 'w.csv', '--tier', '2=t'], ['replay', 'w.csv', '-f', 't', '--layout', 'slab'],
                  ['kv', *kv, '--folder', 't'], ['kv', *kv, '--folder', 't', '--layout', 'slab'], ['bench', '-f', 't', '-s', '4K'],
                  ['io', '-f', 't', '-s', '1M'], ['tune', '-f', 't'], ['sweep', '-f', 't'], ['ckpt', 'bench', '-f', 't', '-s', '1M']):
        done = clikit.call(*words)
        assert done.returncode and 'is a striped file, ' in done.err and 'stripe create --as-folder' in done.err, done
    assert look() == before
    check('t')


@in_folder
def what_replaces_a_file_leaves_a_striped_one_alone():
    make()
    with penstock.Handle() as h:
        h.write(b'x' * 300000, 't')
    before = look()
    clikit.Command('bench').refused('-s', '4K', '-n', '1', '--json', 't', status=2, says="--json: 't' is a striped file")
    kv = ['--model', 'tiny-1b', '--num-users', '1', '--runtime', '1', '--io-trace-log', 't', '--output', os.devnull]
    done = clikit.call('kv', *kv)
    assert done.returncode and 't: is a striped file' in done.err or "'t' is a striped file" in done.err, done
    assert look() == before
    check('t')


def write_safetensors(name):
    import struct
    head = json.dumps({'a': {'dtype': 'U8', 'shape': [500000], 'data_offsets': [0, 500000]}}).encode()
    head += b' ' * (-len(head) % 8)
    data = struct.pack('<Q', len(head)) + head + os.urandom(500000)
    with open(name, 'wb') as f:
        f.write(data)
    return data


@in_folder
def the_examples_of_the_manual_run():
    with open(os.path.join(SOURCE, 'docs/man/penstock-stripe.md'), encoding='utf-8') as f:
        lines = re.findall('^penstock (.*)$', f.read(), re.M)
    assert len(lines) == 7, lines
    for i in range(4):
        os.makedirs(f'nvme{i}/t')
    write_safetensors('model.safetensors')
    for line in lines:
        done = clikit.call(*line.replace('/nvme', 'nvme').replace('8G', '8M').split())
        assert done.returncode == 0, (line, done)
    assert files() == ['./model.safetensors', './nvme0/w.safetensors.crc'], files()


def save_load(name):
    """A checkpoint of safetensors under the name, by command and by Python."""
    data = write_safetensors('plain.safetensors')
    ckpt = {word: clikit.Command('ckpt', word) for word in ('cp', 'verify', 'ls')}
    ckpt['cp']('plain.safetensors', name)
    assert look(name)['bytes'] == len(data) and check(name), look(name)
    ckpt['verify'](name)
    assert '500000  U8 ' in ckpt['ls'](name).out, ckpt['ls'](name).out
    ckpt['cp'](name, 'back.safetensors')
    assert open('back.safetensors', 'rb').read() == data
    with Writer(name) as w:
        w.write(data[:-1])
    with penstock.Handle() as h:
        back = bytearray(len(data) - 1)
        assert h.read(back, name) == len(data) - 1 and back == data[:-1]
    assert look(name)['bytes'] == len(data) - 1
    assert os.path.exists(name + '.crc')


@in_folder
def checkpoints_take_the_place_of_a_striped_file_and_keep_its_folders():
    folders = make('t.safetensors')
    save_load('t.safetensors')
    paths = [m['path'] for m in look('t.safetensors')['members']]
    assert [os.path.dirname(p) for p in paths] == [os.path.abspath(f) for f in folders], paths
    assert all(os.listdir(f) == [os.path.basename(p)] for f, p in zip(folders, paths)), files()
    clikit.Command('gen')('t.safetensors', '-s', '1M', '--overwrite')
    assert look('t.safetensors')['bytes'] == 1 << 20
    check('t.safetensors')
    assert all(len(os.listdir(f)) == 1 for f in folders), files()
    # a damaged name is told, not replaced
    with open('t.safetensors', 'r+b') as f:
        f.seek(30)
        f.write(b'x')
    clikit.Command('gen').refused('t.safetensors', '-s', '1M', '--overwrite', status=1, says='damaged manifest')


@in_folder
def checkpoints_in_a_striped_folder_are_striped():
    for folder in ('a', 'b'):
        os.mkdir(folder)
    create('swap', '--as-folder', '--unit', '64K', 'a', 'b')
    before = files()
    save_load('swap/m.safetensors')
    assert len(look('swap/m.safetensors')['members']) == 2
    rm('swap/m.safetensors')
    os.remove('swap/m.safetensors.crc')
    for name in ('plain.safetensors', 'back.safetensors', 'back.safetensors.crc'):
        os.remove(name)
    assert files() == before, files()
    rm('swap')


@in_folder
def torch_and_safetensors_save_and_load_striped_names():
    try:
        import torch
        import penstock.safetensors
        import penstock.torch
    except ImportError as error:
        raise tap.Skip('torch', str(error))
    for folder in ('a', 'b'):
        os.mkdir(folder)
    create('swap', '--as-folder', '--unit', '64K', 'a', 'b')
    state = {'w': torch.arange(100000, dtype=torch.float32), 'b': torch.ones(7)}
    for turn in range(2):
        penstock.torch.save(state, 'swap/s.pt')
        penstock.safetensors.save_file(state, 'swap/s.safetensors')
        for got in (penstock.torch.load('swap/s.pt'), penstock.safetensors.load_file('swap/s.safetensors')):
            assert all(torch.equal(state[k], got[k]) for k in state), got
        assert look('swap/s.pt')['good'] and look('swap/s.safetensors')['good']


def objects_in(where, *layout):
    """Objects of kv and replay in a striped folder, or below one."""
    before = files()
    size = 300000
    head = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n'
    write = head + ''.join(f'0.0{n},Write,{size + n},Tier-2,k{n},Prefill\n' for n in range(5))
    read = head + ''.join(f'0.0{n},Read,{size + n},Tier-2,k{n},Decode\n' for n in range(5))
    for name, rows in (('w.csv', write), ('r.csv', read)):
        with open(name, 'w', encoding='utf-8') as f:
            f.write(rows)
    inputs = ['./r.csv', './w.csv']
    replay, there = clikit.Command('replay'), ['-f', where, *layout]
    # objects stay, and a second run finds them at their size; --verify reads each byte
    replay('w.csv', *there, '--keep', '--verify')
    kept = [f for f in files() if f.startswith(f'./{where}/') and os.path.basename(f)[0] != '.']
    assert sorted(look(f)['bytes'] for f in kept) == [size + n for n in range(5)], kept
    assert all(m['bytes'] > size / 3 for f in kept for m in look(f)['members']), [look(f) for f in kept]
    done = replay('r.csv', *there, '--reuse', '--verify')
    assert files() == sorted(before + inputs), (files(), done.out)
    # with objects that go and come, so that spare files are used
    clikit.Command('kv')('--model', 'tiny-1b', '--num-users', '2', '--runtime', '2', '--folder', where, '--verify', '--cpu-mem-gb', '0', '--gpu-mem-gb', '0',
                         '--output', os.devnull)
    assert files() == sorted(before + inputs), files()
    # what a killed run left goes with its members, also of a file that was about to be removed
    replay('w.csv', *there, '--keep')
    assert len(files()) > len(before) + 2
    os.remove(kept[0])
    replay('r.csv', *there, '--fresh')
    assert files() == sorted(before + inputs), files()
    # a slab is one file of its own
    for slab in (where, where + '/slab'):
        done = clikit.call('replay', 'w.csv', '-f', slab, '--layout', 'slab')
        assert done.returncode and f'{slab}: files are striped there, and a slab is one file' in done.err, done
    for name in inputs:
        os.remove(name)
    assert files() == before, files()


@in_folder
def kv_and_replay_keep_objects_in_striped_folders():
    swap_folder()
    objects_in('swap')
    rm('swap')


@in_folder
def kv_and_replay_keep_objects_below_a_striped_folder():
    swap_folder()
    objects_in('swap/sub/there')
    objects_in('swap/sub', '--layout', 'hashed')
    rm('swap')


def files():
    return sorted(os.path.join(where, name) for where, _, names in os.walk('.') for name in names)


@in_folder
def a_folder_is_measured_like_any_and_nothing_is_left():
    for folder in ('a', 'b'):
        os.mkdir(folder)
    create('swap', '--as-folder', '--unit', '64K', 'a', 'b')
    assert info('swap').out.startswith('swap: a folder in 2 members'), info('swap').out
    assert check('swap').out == 'swap: 2 members are good\n'
    before = files()
    done = clikit.Command('bench')('-f', 'swap', '-s', '1M', '-n', '3', '--verify')
    assert 'the files are striped' in done.out, done.out
    assert files() == before, files()
    clikit.Command('io')('-f', 'swap', '-s', '1M')
    assert files() == before, files()
    clikit.Command('io')('-f', 'swap', '-s', '1000000', '--keep')
    kept = [f for f in files() if f.startswith('./swap/_')]
    assert len(kept) == 1 and look(kept[0])['bytes'] == 1000000, files()
    clikit.Command('io')('-f', 'swap', '-s', '1000000', '--read-only')
    assert look(kept[0])['bytes'] == 1000000
    rm.refused('swap', says='swap: is not empty')
    rm(kept[0])
    rm('swap')
    assert not os.path.exists('swap') and not files(), files()


def swap_folder():
    """A striped folder, and what there is in it and around it."""
    for folder in ('a', 'b'):
        os.mkdir(folder)
    create('swap', '--as-folder', '--unit', '64K', 'a', 'b')
    return files()


@in_folder
def the_room_is_that_of_the_members_drives():
    for folder in ('a', 'b', 'small'):
        os.mkdir(folder)
    sh = f"""
        mount -t tmpfs -o size=8M none small && mkdir small/c || exit 77
        exec 2>&1
        {clikit.PENSTOCK} stripe create --as-folder from_small a small/c || exit 1
        {clikit.PENSTOCK} io -f from_small -s 20M
        [ $? = 2 ] || exit 2
        {clikit.PENSTOCK} stripe create --as-folder small/to_large a b || exit 3
        {clikit.PENSTOCK} io -f small/to_large -s 20M || exit 4"""
    done = subprocess.run(['unshare', '-m', 'sh', '-c', sh], capture_output=True, text=True)
    if os.geteuid() or done.returncode == 77 or done.stderr:
        raise tap.Skip('root', f'no mount: {done.stderr}')
    assert done.returncode == 0 and 'from_small: not enough free space: 20 MiB ' in done.stdout, done


@in_folder
def tune_and_sweep_measure_a_striped_folder():
    with open('space.json', 'w', encoding='utf-8') as f:
        json.dump({'block_size': ['64K', '128K'], 'queue_depth': [4]}, f)
    before = swap_folder()
    done = clikit.Command('tune')('-f', 'swap', '-s', '1M', '--sweep-config', 'space.json', '--budget', '1', '--no-limit')
    assert '"block_size": 65536' in done.out, done.out  # a unit is the most that one block is
    assert files() == before, files()
    os.mkdir('logs')
    clikit.Command('sweep')('-f', 'swap', '-s', '256K', '-b', '64K', '128K', '-d', '4', '-t', '1', '--single-submit', 'no', '--sequential-requests', 'no',
                            '--no-limit', '--log-dir', 'logs')
    assert [f for f in files() if not f.startswith('./logs/')] == before, files()
    assert sum('_bs' in f for f in files()) == 4, files()


CKPT = ['-f', 'swap', '-s', '1M', '-p', '2', '--loads', '2', '--no-limit', '--chunk', '1M', '--saves']


@in_folder
def ckpt_bench_saves_to_striped_names_and_removes_their_members():
    before = swap_folder()
    done = clikit.Command('ckpt', 'bench')(*CKPT, '3')
    assert 'save streaming' in done.out and 'verified:' in done.out, done.out
    assert files() == before, files()
    # a killed one leaves files, and some that have not got their name yet
    process = clikit.Command('ckpt', 'bench').start(*CKPT, '100000')
    while not any(f.endswith('.1') for f in files()):
        assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()  # its ranks are gone, too: they have the same pipes
    assert files() != before, files()
    clikit.Command('ckpt', 'bench')(*CKPT, '1')
    assert files() == before, files()


@in_folder
def fio_is_not_let_at_striped_files():
    os.mkdir('a')
    create('swap', '--as-folder', 'a')
    os.mkdir('swap/below')
    for folder in 'swap', 'swap/below':
        clikit.Command('bench').refused('-f', folder, '-s', '1M', '--compare-fio', says=f'{folder} is a striped folder')


@in_folder
def a_swap_folder_of_deepspeed_may_be_striped():
    try:
        import torch
        from penstock.deepspeed import aio_handle
    except ImportError as error:
        raise tap.Skip('torch', str(error))
    for folder in ('a', 'b', 'c'):
        os.mkdir(folder)
    create('swap', '--as-folder', '--unit', '64K', 'a', 'b', 'c')
    os.makedirs('swap/zero_stage_3/rank0')
    name = 'swap/zero_stage_3/rank0/p.tensor.swp'
    handle = aio_handle(1 << 20, 8, False, False, 1)
    for turn in range(2):
        tensor = torch.arange(300000 + turn, dtype=torch.float32)
        back = torch.zeros_like(tensor)
        handle.async_pwrite(tensor, name)
        assert handle.wait() == 1
        assert handle.sync_pread(back, name) == 1 and torch.equal(tensor, back)
        got = look(name)
        assert got['bytes'] == tensor.numel() * 4 and len(got['members']) == 3, got
    fd = os.open(name, os.O_RDONLY)
    back.zero_()
    assert handle.sync_pread(back, fd) == 1 and torch.equal(tensor, back)
    os.close(fd)
    rm(name)


tap.run(a_tensor_goes_through_by_its_name, info_tells_size_unit_and_members, check_names_what_is_wrong,
        rm_leaves_nothing, mistakes_are_named_and_nothing_is_made,
        a_folder_is_measured_like_any_and_nothing_is_left, a_swap_folder_of_deepspeed_may_be_striped,
        the_room_is_that_of_the_members_drives, tune_and_sweep_measure_a_striped_folder, ckpt_bench_saves_to_striped_names_and_removes_their_members,
        fio_is_not_let_at_striped_files, checkpoints_take_the_place_of_a_striped_file_and_keep_its_folders,
        checkpoints_in_a_striped_folder_are_striped, torch_and_safetensors_save_and_load_striped_names, what_replaces_a_file_leaves_a_striped_one_alone,
        kv_and_replay_keep_objects_in_striped_folders, kv_and_replay_keep_objects_below_a_striped_folder, the_examples_of_the_manual_run,
        a_striped_file_in_the_place_of_a_folder_is_named)
