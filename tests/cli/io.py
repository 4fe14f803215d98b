#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock io`, from outside: what it prints, leaves behind, refuses and finds.

    io.py PENSTOCK ROOT
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import csv
import ctypes
import glob
import json
import mmap
import pty
import re
import signal
import subprocess
import time

import clikit
import resultcheck
import tap
from clikit import ROOT, PENSTOCK
from tap import folder

resultcheck.need('jsonschema', 'openpyxl')

io = clikit.Command('io')
start, result = io.start, io.result
MIB = 1 << 20
NUMBER = r'\d+\.\d+'
ENGINES = ['io_uring', 'libaio', 'threads']


def series(*args, **more):
    """The same, only its series."""
    return result(*args, **more)['series'][0]


def lines_of(out):
    """{'Task Read Speed': 1.5, ...} and {'engine': ..., ...} of the text."""
    numbers = {m[1]: float(m[2]) for m in re.finditer(rf'^(\w+ \w+ \w+) = ({NUMBER}) ', out, re.M)}
    facts = dict(re.findall(r'^(\w+): +(.*)$', out, re.M))
    return numbers, facts


def need_engine(name):
    _, err = subprocess.Popen([PENSTOCK, 'io', '--engine', name, '--size', '4K', '--iterations', '1'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True).communicate()
    if err:
        raise tap.Skip(name, err.strip())


# ------------------------------------------------------------------- the text

def the_four_result_lines_are_those_of_ds_io():
    for word, args in ('Read', ['--read-only']), ('Write', []):
        with folder() as f:
            out, err = io('--target', f, '--size', '1M', *args)
        assert err == '', err
        lines = out.splitlines()
        assert lines[0] == 'Configuring 1 process to folder mapping', out
        assert lines[1] == f'[0]: process 0 <----> {f}', out
        expected = [f'Task {word} Latency = {NUMBER} sec', f'Task {word} Speed = {NUMBER} GB/sec',
                    f'E2E {word} Latency = {NUMBER} sec', f'E2E {word} Speed = {NUMBER} GB/sec']
        for line, pattern in zip(lines[2:6], expected):
            assert re.fullmatch(pattern, line), (line, pattern)


def speed_is_bytes_over_latency():
    with folder() as f:
        out, _ = io('--target', f, '--size', '4M', '--iterations', 2, '--read-only')
    numbers, _ = lines_of(out)
    for kind in 'Task', 'E2E':
        speed = 2 * 4 * MIB / numbers[f'{kind} Read Latency'] / 2**30
        assert abs(speed / numbers[f'{kind} Read Speed'] - 1) < 1e-3, numbers
    assert numbers['E2E Read Latency'] >= numbers['Task Read Latency'], numbers


def the_text_says_what_ran():
    with folder() as f:
        out, _ = io('--target', f, '--size', '1M', '--engine', 'threads', '--queue-depth', 7)
    _, facts = lines_of(out)
    assert facts['engine'].startswith('threads, queue depth 7, 1 I/O thread, blocks of '), facts
    assert facts['path'].startswith(f + ': '), facts
    assert re.match(rf'{NUMBER} s per GiB \(user {NUMBER} s, system {NUMBER} s\)', facts['CPU'])
    assert facts['limit'] == 'not measured', facts
    assert 'cache' in facts


def both_spellings_of_an_option_work():
    with folder() as f:
        a = result('--target', f, '--size', '64K', '--warmup', 0, '--queue-depth=5')
        b = result('--target', f, '--size', '64K', '--warmup', 0, '--queue-depth=5')
    assert a['settings'] == b['settings']


def a_pipe_sees_no_progress():
    with folder() as f:
        _, err = io('--target', f, '--size', '8M', '--read-only', '--verify')
    assert err == '', err


def a_terminal_sees_progress():
    terminal, inner = pty.openpty()
    with folder() as f:
        process = subprocess.Popen([PENSTOCK, 'io', '--target', f, '--size', '4M', '--iterations', '5'],
                                   stdout=subprocess.PIPE, stderr=inner, text=True)
        os.close(inner)
        seen = b''
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 4096):
                seen += part
        out, _ = process.communicate()
    os.close(terminal)
    assert process.returncode == 0, seen
    assert b'prepare' in seen and seen.endswith(b'\r\x1b[K'), seen
    assert 'prepare' not in out and '\r' not in out, out


# ------------------------------------------------------------------ the files

def nothing_is_left_behind():
    for args in [], ['--read-only'], ['--different-file-each-iteration'], ['--verify'], \
            ['--read-only', '--verify', '--different-file-each-iteration']:
        with folder() as f:
            io('--target', f, '--size', '256K', *args)
            assert os.listdir(f) == [], (args, os.listdir(f))


def without_arguments_it_makes_its_own_folder_and_removes_it():
    with folder() as f:
        out, _ = io('--size', '1M')
        assert re.search(r'^\[0\]: process 0 <----> \./penstock-io-\w{6}$', out, re.M), out
        assert os.listdir(f) == []
        _, err = io('--size', '1M', '--keep')
        assert re.fullmatch(r'penstock io: note: \./penstock-io-\w{6} was left: .*\n', err), err
        assert len(glob.glob('penstock-io-*/_aio_write_1048576.pt.0_0')) == 1


def kept_files_have_ds_io_names():
    with folder() as f:
        io('--target', f, '--size', '128K', '--keep', '--workers', 2)
        assert sorted(os.listdir(f)) == ['_aio_write_131072.pt.0_0', '_aio_write_131072.pt.1_0']
        io('--target', f, '--size', '128K', '--keep', '--read-only', '--iterations', 2,
           '--different-file-each-iteration')
        reads = [f'_aio_read_131072.pt.0_{i}' for i in range(3)]
        assert sorted(os.listdir(f))[:3] == reads, os.listdir(f)
        assert all(os.path.getsize(name) == 131072 for name in os.listdir(f))


def files_of_an_earlier_run_are_used_and_left():
    with folder() as f:
        for args in [], ['--read-only']:
            io('--target', f, '--size', '1M', '--keep', *args)
            kept = os.listdir(f)
            first = result('--target', f, '--size', '1M', '--verify', *args)
            assert first['io']['workers'][0]['files_created'] == 0
            assert os.listdir(f) == kept
            for name in kept:
                os.remove(name)


def a_file_that_is_not_ours_is_not_overwritten():
    with folder() as f:
        for name in '_aio_write_65536.pt.0_0', '_aio_write_65536.pt.1_0':
            with open(name, 'wb') as stranger:
                stranger.write(b'precious' * 8192)
            out, err = io('--target', f, '--size', '64K', '--workers', 2, status=1)
            assert err.count('\n') == 1 and name in err and '--overwrite' in err, err
            assert 'Speed' not in out
            assert os.listdir(f) == [name]
            with open(name, 'rb') as stranger:
                assert stranger.read() == b'precious' * 8192
            os.remove(name)


def overwrite_allows_it_and_leaves_the_file():
    with folder() as f:
        name = '_aio_write_65536.pt.0_0'
        with open(name, 'wb') as stranger:
            stranger.write(b'precious' * 100000)
        io('--target', f, '--size', '64K', '--overwrite', '--verify')
        assert os.path.getsize(name) == 65536
        io('--target', f, '--size', '64K', '--verify')


def a_foreign_file_of_the_right_size_is_read_but_not_validated():
    with folder() as f:
        name = '_aio_read_65536.pt.0_0'
        with open(name, 'wb') as stranger:
            stranger.write(b'precious' * 8192)
        before = os.stat(name)
        io('--target', f, '--size', '64K', '--read-only')
        assert os.stat(name).st_mtime_ns == before.st_mtime_ns
        _, err = io('--target', f, '--size', '64K', '--read-only', '--verify', status=1)
        assert name in err and '--verify' in err and err.count('\n') == 1, err
        assert os.stat(name).st_mtime_ns == before.st_mtime_ns


def a_file_of_the_wrong_size_is_not_read():
    with folder() as f:
        name = '_aio_read_65536.pt.0_0'
        with open(name, 'wb') as stranger:
            stranger.write(b'short')
        _, err = io('--target', f, '--size', '64K', '--read-only', status=1)
        assert name in err and '65536' in err and err.count('\n') == 1, err
        assert os.path.getsize(name) == 5


def links_and_folders_in_the_way_are_refused():
    with folder() as f:
        name = '_aio_write_65536.pt.0_0'
        with open('target', 'wb') as target:
            target.write(b'x' * 65536)
        os.symlink('target', name)
        io('--target', f, '--size', '64K', '--overwrite', status=1)
        with open('target', 'rb') as target:
            assert target.read() == b'x' * 65536
        os.remove(name)
        os.mkdir(name)
        io('--target', f, '--size', '64K', '--overwrite', status=1)
        assert os.path.isdir(name)


def two_runs_in_one_folder_do_not_meet():
    """The one that came first must not take the file of the other away when it ends."""
    for args, name in (['--read-only'], 'rchar'), ([], 'wchar'):
        with folder() as f:
            runs = []
            for _ in range(2):
                runs.append(start('--target', f, '--size', '64K', '--iterations', 1000000, '--engine', 'threads', *args))
                while moved(runs[-1], name) < MIB:
                    assert runs[-1].poll() is None, runs[-1].communicate()
            for process in runs:
                more = moved(process, name) + MIB
                while moved(process, name) < more:
                    assert process.poll() is None, process.communicate()
                process.send_signal(signal.SIGINT)
                _, err = process.communicate()
                assert process.returncode == 130 and 'interrupted' in err, err
            assert os.listdir(f) == []


def the_time_that_a_dry_run_tells_is_in_the_unit_of_the_rest():
    """MB/s would be of another kind than the GiB/s of --limit and of results."""
    for command in io, clikit.Command('sweep'):
        with folder():
            out, _ = command('--dry-run', '--limit', '2.5G')
        assert re.search(r'^time: +about \d+ s at 2\.50 GiB/s \(as --limit says\)$', out, re.M), out
        assert 'MB' not in out, out


def a_dry_run_tells_and_makes_nothing():
    with folder() as f:
        for args in ['--target', f], []:
            out, err = io(*args, '--size', '1M', '--iterations', 2, '--workers', 2, '--dry-run')
            assert 'Would write 1M by 2 workers, 2 loops after 1 to warm up\n' in out and err == '', (out, err)
            assert 'writes:     at most 6 MiB (6291456 bytes)\n' in out and 'disk space: 2 MiB\n' in out, out
            assert os.listdir(f) == []
        io('--target', f, '--size', '1M', '--read-only', '--keep')
        out, _ = io('--target', f, '--size', '1M', '--read-only', '--dry-run')
        assert 'writes:     at most 0 B (0 bytes)\n' in out and 'disk space: 0 B\n' in out, out
        out, err = io('--target', f, '--size', '900T', '--dry-run', status=2)
        assert out == '' and 'not enough free space' in err, (out, err)


# ----------------------------------------------------------------- validation

def what_was_kept_by_a_write_is_what_the_seed_says():
    with folder() as f:
        io('--target', f, '--size', '1M', '--keep', '--seed', 7)
        with open('_aio_write_1048576.pt.0_0', 'rb') as file:
            data = file.read()
        assert len(set(data)) == 256
        io('--target', f, '--size', '1M', '--seed', 7)
        _, err = io('--target', f, '--size', '1M', '--seed', 8, status=1)
        assert 'seed 8' in err, err


def validate_names_the_first_byte_that_is_wrong():
    for offset in 5000, 300001, MIB - 5001:
        with folder() as f:
            io('--target', f, '--size', '1M', '--keep', '--read-only')
            name = os.path.join(f, '_aio_read_1048576.pt.0_0')
            with open(name, 'r+b') as file:
                for at in offset, offset + 77:
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 0x10]))
            out, err = io('--target', f, '--size', '1M', '--read-only', '--verify', status=1)
            assert name in err and f'offset {offset} ' in err and err.count('\n') == 1, err
            assert 'Speed' not in out, out
            assert os.path.exists(name)
            io('--target', f, '--size', '1M', '--read-only')


def validate_passes_on_every_engine_and_memory():
    with folder() as f:
        for engine in ENGINES:
            with contextlib.suppress(tap.Skip):
                need_engine(engine)
                for memory in 'own', 'plain', 'odd':
                    for size in '1M', '1000003':
                        for args in [], ['--read-only']:
                            s = series('--target', f, '--size', size, '--engine', engine,
                                       '--memory', memory, '--iterations', 2, '--verify', *args)
                            assert s['verified_bytes'] == (3 if args else 1) * s['size']
        assert os.listdir(f) == []


def an_engine_that_moves_nothing_does_not_pass():
    with folder() as f:
        for args in [], ['--read-only']:
            _, err = io('--target', f, '--size', '64K', '--engine', 'null', '--verify', *args,
                        status=1)
            assert re.search('offset 0 |end of file|shorter', err), err
            assert os.listdir(f) == []


def the_null_engine_wears_nothing():
    with folder() as f:
        r = result('--target', f, '--size', '64K', '--engine', 'null')
        assert r['bytes_written'] == r['series'][0]['bytes_written'] == 0, r['bytes_written']


def faults_that_can_be_mended_are_mended():
    with folder() as f:
        for args in [], ['--read-only']:
            r = result('--target', f, '--size', '1M', '--block-size', '64K', '--verify', *args,
                       '--engine', 'fault:inner=threads,seed=3,short=0.3,again=0.2,reorder=1')
            assert r['series'][0]['verified_bytes'] > 0
            assert r['io']['workers'][0]['stats']['resubmissions'] > 0, r


def a_fault_that_cannot_be_mended_is_a_failure():
    with folder() as f:
        for args in [], ['--read-only'], ['--workers', 3]:
            out, err = io('--target', f, '--size', '1M', *args,
                          '--engine', 'fault:inner=threads,nth=2,errno=5', '--block-size', '64K',
                          status=1)
            assert 'Speed' not in out
            assert '_aio_' in err and 'offset' in err and err.count('\n') == 1, err
            assert os.listdir(f) == []


def a_failure_names_the_way_of_the_file_even_where_nothing_moved():
    with folder() as f:
        args = ['--target', f, '--size', '1M']
        if series(*args)['ran']['direct'] != 'O_DIRECT':
            raise tap.Skip('disk', 'no O_DIRECT here')
        for direct, way in ('always', 'direct'), ('never', 'buffered'):
            _, err = io(*args, '--direct', direct, '--engine', 'fault:nth=1', status=1)
            assert f'({way})' in err and 'after 0 bytes' in err, err


# ------------------------------------------------------------------ workers

def several_folders_have_a_worker_each():
    with folder() as f:
        for name in 'a', 'b', 'c':
            os.mkdir(name)
        for args in (['--target', 'a', 'b', 'c'], ['--target', 'a', '--target', 'b', '--target=c'],
                     ['--folder-to-device-mapping', 'a:0', 'b:1', 'c:1']):
            out, _ = io(*args, '--size', '256K', '--keep')
            assert 'Configuring 3 process to folder mapping\n' in out, out
            assert '[1]: process 1 <----> b\n' in out, out
            assert glob.glob('*/_aio_*') and sorted(glob.glob('*/_aio_*')) == [
                'a/_aio_write_262144.pt.0_0', 'b/_aio_write_262144.pt.1_0',
                'c/_aio_write_262144.pt.2_0']
            r = result(*args, '--size', '256K', '--iterations', 2)
            assert r['series'][0]['bytes'] == 3 * 2 * 256 * 1024
            assert [w['folder'] for w in r['io']['workers']] == ['a', 'b', 'c']
            assert [t['folder'] for t in r['targets']] == ['a', 'b', 'c']
            for name in glob.glob('*/_aio_*'):
                os.remove(name)


def multi_process_means_workers_in_one_folder():
    with folder() as f:
        r = result('--target', f, '--workers', 4, '--size', '64K', '--verify', '--read-only')
    assert len(r['io']['workers']) == 4 and len(r['targets']) == 1
    assert r['series'][0]['bytes'] == 4 * 3 * 65536


# ---------------------------------------------------------------- bad input

BAD = [
    (['--size', '0'], 'io'),
    (['--limit', '1G', '--engine', 'null'], 'which moves nothing'),
    (['--read-only', '--durability', 'data'], 'of writes, exclude'),
    (['--measure-limit', '--engine', 'null'], 'which moves nothing'),
    (['--size', 'many'], 'many'),
    (['--size'], '--size'),
    (['--block-size', '100'], '100'),
    (['--block-size', '1000'], '512'),
    (['--queue-depth', '0'], '0'),
    (['--queue-depth', '99999'], '99999'),
    (['--iterations', '0'], '0'),
    (['--iterations', '-3'], '-3'),
    (['--threads', '0'], '0'),
    (['--workers', '0'], '0'),
    (['--engine', 'warp'], 'warp'),
    (['--engine', 'fault:inner=warp'], 'warp'),
    (['--direct', 'perhaps'], 'perhaps'),
    (['--durability', 'eternal'], 'eternal'),
    (['--target', 'absent'], 'absent'),
    (['--target', 'plainfile'], 'plainfile'),
    (['--target', '.', '--folder-to-device-mapping', '.:0'], 'exclude'),
    (['--folder-to-device-mapping', 'nocolon'], 'nocolon'),
    (['--folder-to-device-mapping', '.:gpu'], 'gpu'),
    (['--folder-to-device-mapping', '.:0', '--workers', '2'], '--workers'),
    (['--limit', '1G', '--measure-limit'], 'exclude'),
    (['--use_gds'], 'needs --gpu'),
    (['--gpu', 'first'], 'first'),
    (['--gpu', '--lock'], '--lock'),
    (['--gpu', '--gds', '--engine', 'threads'], 'cufile'),
    (['--gpu', '0', '--folder-to-device-mapping', '.:0'], 'mapping'),
    (['--no_such_option'], 'no_such_option'),
    (['operand'], 'operand'),
]


def bad_input_case(args, word):
    def case():
        with folder() as f:
            with open('plainfile', 'w'):
                pass
            extra = [] if '--size' in args else ['--size', '64K']
            out, err = io(*extra, *args, status=2)
            assert err.count('\n') == 1 and word in err, err
            assert out == '', out
            assert os.listdir(f) == ['plainfile']
    return 'bad input: ' + ' '.join(args).replace('_', '-'), case


def what_needs_torch_is_refused_with_status_3():
    with folder() as f:
        for args, word in ((['--engine', 'torch_io'], 'torch'),
                           (['--engine', 'torch_fastio'], 'torch')):
            out, err = io('--size', '64K', *args, status=3)
            assert out == '' and word in err and err.count('\n') == 1, (out, err)
            assert os.listdir(f) == []


def without_a_gpu_there_is_a_reason_and_status_3():
    with folder() as f:
        env = {**os.environ, 'CUDA_VISIBLE_DEVICES': ''}
        for args in ['--gpu'], ['--gpu', '--use_gds'], ['--gpu', '0', '--gds']:
            out, err = io('--size', '64K', *args, status=3, env=env)
            assert out == '' and 'GPU' in err and err.count('\n') == 1, (out, err)
            assert os.listdir(f) == []


def options_that_mean_nothing_here_are_noted():
    with folder() as f:
        for option in '--slow-bounce-buffer', '--use-accelerator-pin-memory':
            _, err = io('--target', f, '--size', '64K', option)
            assert err.count('\n') == 1 and option in err and 'ignored' in err, err


def ds_io_engine_names_mean_automatic():
    with folder() as f:
        automatic = series('--target', f, '--size', '64K')['ran']['engine']
        for name in 'aio_handle', 'aio_basic':
            assert series('--target', f, '--size', '64K', '--engine', name)['ran'][
                'engine'] == automatic


def an_unwritable_json_file_is_noticed_first():
    with folder() as f:
        _, err = io('--target', f, '--size', '64K', '--json', 'absent/x.json', status=2)
        assert 'absent/x.json' in err and err.count('\n') == 1, err
        assert os.listdir(f) == []


def too_little_space_is_noticed_first():
    with folder() as f:
        out, err = io('--target', f, '--size', '900T', status=2)
        assert out == '' and err.count('\n') == 1 and 'free space' in err and 'available' in err, err
        assert os.listdir(f) == []


def a_folder_that_cannot_be_written_to_is_bad_input():
    with small_tmpfs('4m,ro') as mnt:
        out, err = io('--target', mnt, '--size', '64K', status=2)
        assert out == '' and err.count('\n') == 1 and f'{mnt}: cannot be written to' in err, (out, err)


@contextlib.contextmanager
def small_tmpfs(size):
    with folder() as f:
        os.mkdir('mnt')
        if subprocess.call(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', 'mnt'],
                           stderr=subprocess.DEVNULL) != 0:
            raise tap.Skip('mount', 'cannot mount a tmpfs')
        try:
            yield os.path.join(f, 'mnt')
        finally:
            subprocess.check_call(['umount', os.path.join(f, 'mnt')])


def a_file_system_that_is_too_small_is_refused_before_it_is_full():
    with small_tmpfs('4m') as mnt:
        for args in ['--size', '5M'], ['--size', '3M', '--workers', '2'], \
                ['--size', '2M', '--different-file-each-iteration']:
            for more in [], ['--read-only']:
                out, err = io('--target', mnt, *args, *more, status=2)
                assert out == '' and err.count('\n') == 1 and 'not enough free space' in err, err
                assert os.listdir(mnt) == []
        io('--target', mnt, '--size', '3M', '--verify')


def the_default_size_fits_a_small_file_system():
    with small_tmpfs('16m') as mnt:
        r = result('--target', mnt, '--verify')
        assert MIB <= r['settings']['size'] <= 8 * MIB, r['settings']
        assert os.listdir(mnt) == []


def files_in_memory_are_never_called_cold():
    with small_tmpfs('16m') as mnt:
        for direct in 'auto', 'never':
            s = series('--target', mnt, '--size', '1M', '--read-only', '--direct', direct)
            assert s['cache'].startswith('warm'), s['cache']


# --------------------------------------------------------------------- JSON

def the_numbers_of_the_json_agree():
    with folder() as f:
        r = result('--target', f, '--workers', 2, '--size', '512K', '--iterations', 4,
                   '--warmup', 2, '--read-only', '--verify', '--seed', 99)
    assert r['schema'] == 'penstock-result/1' and r['command'] == 'io'
    assert r['settings']['read_only'] is True and r['settings']['seed'] == 99
    assert r['settings']['workers'] == 2 and r['settings']['target'] == [f]
    for w in r['io']['workers']:
        assert len(w['task']) == 4 and len(w['warmup_task']) == 2
        assert w['stats']['bytes_read'] == 6 * 512 * 1024
        assert w['files_created'] == 1
    (s,), (target,) = r['series'], r['targets']
    assert s['name'] == 'read 512K' and s['kind'] == 'read' and s['ops'] == 2 * 4
    assert s['bytes'] == 2 * 4 * 512 * 1024 and s['verified_bytes'] == 2 * 6 * 512 * 1024
    assert target['folder'] == f and target['file_system']
    assert s['ran']['path'] == 'host' and s['ran']['memory'] == 'own'
    c = s['cpu']
    assert resultcheck.near(c['sec_per_gib'], (c['user_sec'] + c['system_sec']) / (s['bytes'] / 2**30))
    assert c['shared'] is False and c['library_sec'] <= c['user_sec'] + c['system_sec'] + 0.05, c
    assert s['limit']['bytes_per_sec'] is None and s['limit']['how'] == 'not measured'


def all_that_was_written_is_counted():
    size = 512 * 1024
    with folder() as f:
        args = ['--target', f, '--size', size, '--workers', 2]
        r = result(*args, '--iterations', 4, '--warmup', 2)
        assert r['series'][0]['bytes_written'] == r['bytes_written'] == 2 * 6 * size
        r = result(*args, '--read-only', '--keep')
        assert r['series'][0]['bytes_written'] == r['bytes_written'] == 2 * size
        assert result(*args, '--read-only')['bytes_written'] == 0
        r = result(*args, '--measure-limit')  # whose two later turns have a warm-up each
        assert r['series'][0]['bytes_written'] == 2 * 6 * size
        assert (r['bytes_written'] > 2 * 6 * size) == (r['series'][0]['limit']['share'] is not None)


def the_warm_up_counts_when_asked_for():
    with folder() as f:
        r = result('--target', f, '--size', '64K', '--iterations', 2, '--warmup', 3,
                   '--include-warmup-time')
    assert r['series'][0]['bytes'] == r['bytes_written'] == 5 * 65536
    assert len(r['io']['workers'][0]['task']) == 5


def a_json_file_stands_beside_the_text():
    with folder() as f:
        os.mkdir('data')
        out, _ = io('--target', 'data', '--size', '64K', '--json', 'r.json')
        with open('r.json') as file:
            r = json.load(file)
        numbers, facts = lines_of(out)
        for kind in 'Task', 'E2E':
            assert abs(numbers[f'{kind} Write Latency'] - r['io'][f'{kind.lower()}_sec']) < 2e-9
            speed = r['io'][f'{kind.lower()}_bytes_per_sec'] / 2**30
            assert abs(numbers[f'{kind} Write Speed'] - speed) < 2e-9
        assert facts['cache'] == r['series'][0]['cache']
        assert sorted(os.listdir(f)) == ['data', 'r.json']


def csv_and_workbook_say_the_same():
    try:
        import openpyxl
    except ImportError:
        raise tap.Skip('openpyxl', 'python3-openpyxl is not installed')
    with folder():
        os.mkdir('data')
        _, err = io('--target', 'data', '--size', '64K', '--iterations', 5, '--json', 'r.json', '--csv',
                    'r.csv', '--xlsx', 'book.xlsx')
        with open('r.json') as file:
            s = json.load(file)['series'][0]
        with open('r.csv', newline='') as file:
            (row,) = csv.DictReader(file)
        assert row['name'] == s['name'] == 'write 64K' and row['engine'] == s['ran']['engine']
        for name in 'ops', 'bytes', 'sec', 'bytes_per_sec', 'bytes_written':
            assert resultcheck.near(float(row[name]), s[name]), (name, row[name], s[name])
        if 'libxlsxwriter' in err:
            raise tap.Skip('libxlsxwriter', err.strip())
        names, values = openpyxl.load_workbook('book.xlsx')['series'].values
        cells = dict(zip(names, values))
        assert cells['name'] == s['name'] and resultcheck.near(cells['bytes_per_sec'], s['bytes_per_sec'])
    with folder():
        out, err = io('--size', '64K', '--csv', '-')
        assert len(list(csv.reader(out.splitlines()))) == 2 and err == '', (out, err)
        _, err = io('--size', '64K', '--csv', '-', '--json', '-', status=2)
        assert err.count('\n') == 1 and os.listdir('.') == [], err


def report_and_compare_take_the_results():
    def penstock(*args):
        return subprocess.run([PENSTOCK, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    with folder():
        for name in 'a.json', 'b.json':
            io('--size', '256K', '--read-only', '--iterations', 20, '--json', name)
        done = penstock('compare', 'a.json', 'b.json')
        assert done.returncode == 0 and 'read 256K' in done.stdout, done
        done = penstock('report', 'a.json', 'b.json', '-o', 'page.html')
        if done.returncode == 3:
            raise tap.Skip('page', done.stderr.strip())
        assert done.returncode == 0 and os.path.getsize('page.html') > 0, done
        io('--size', '4K', '--iterations', 30000, '--html', 'own.html', '--engine', 'null',
           '--direct', 'never')
        with open('own.html', encoding='utf-8') as page:
            text = page.read()
        assert 'write 4K' in text and len(text) < 2 << 20, len(text)
        assert sorted(os.listdir('.')) == ['a.json', 'b.json', 'own.html', 'page.html']


def a_failure_leaves_no_json_file():
    with folder() as f:
        os.mkdir('data')
        io('--target', 'data', '--size', '64K', '--engine', 'null', '--verify', '--json',
           'r.json', status=1)
        assert os.listdir(f) == ['data']


def names_that_are_not_utf8_do_not_break_the_json():
    with folder():
        os.mkdir(b'f\xff\xe9')
        r = result('--size', '64K', '--target', os.fsdecode(b'f\xff\xe9'))
        (worker,) = r['io']['workers']
        assert worker['folder'].startswith('f') and worker['folder_hex'] == '66ffe9', worker


# ----------------------------------------------------- what ran, cache, limit

def each_engine_runs_by_name(name):
    def case():
        need_engine(name)
        with folder() as f:
            for args in [], ['--read-only']:
                ran = series('--target', f, '--size', '1M', '--engine', name, '--queue-depth', 4,
                             '--threads', 2, '--block-size', '64K', *args)['ran']
                assert ran['engine'] == name and ran['block_size'] == 65536, ran
                assert ran['queue_depth'] == 4 and ran['io_parallel'] == 2
                assert 'engine' not in ran['fallbacks']
    return f'the {name} engine runs by name', case


def single_submit_and_sequential_requests_work():
    with folder() as f:
        for option in '--single_submit', '--sequential_requests':
            r = result('--target', f, '--size', '1M', '--block-size', '32K', '--verify',
                       option)
            assert r['settings'][option[2:]] is True
            assert r['series'][0]['settings'][option[2:]] is True


def buffered_reads_are_not_called_direct():
    with folder() as f:
        s = series('--target', f, '--size', '1M', '--read-only', '--direct', 'never')
    assert s['ran']['direct'] == 'page cache', s['ran']
    assert re.fullmatch(r'cold \(dropped\)|warm \(\d+ % resident\)', s['cache']), s['cache']


def direct_reads_are_cold():
    with folder() as f:
        r = result('--target', f, '--size', '1M', '--read-only')
    (s,) = r['series']
    if s['ran']['direct'] != 'O_DIRECT':
        raise tap.Skip('direct', 'no O_DIRECT here')
    assert s['cache'] == 'cold (O_DIRECT)', s['cache']
    assert r['io']['workers'][0]['stats']['blocks_buffered'] == 0


def an_odd_end_does_not_make_all_of_it_cached():
    with folder() as f:
        s = series('--target', f, '--size', 8 * MIB + 1001)
        if 'O_DIRECT' not in s['ran']['direct']:
            raise tap.Skip('direct', 'no O_DIRECT here')
        assert re.fullmatch(r'not used \(O_DIRECT\) but for \d of \d+ blocks', s['cache']), s['cache']
        assert series('--target', f, '--size', 8 * MIB + 1001, '--read-only')['cache'] == 'cold (O_DIRECT)'


def a_file_that_cannot_be_dropped_is_warm():
    """Pages that are mapped and locked stay; the result must not be called cold."""
    with folder() as f:
        io('--target', f, '--size', '64K', '--read-only', '--keep')
        libc = ctypes.CDLL(None, use_errno=True)
        with open('_aio_read_65536.pt.0_0', 'r+b') as file, mmap.mmap(file.fileno(), 0) as pages:
            address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(65536)) != 0:
                raise tap.Skip('mlock', 'mlock is refused')
            s = series('--target', f, '--size', '64K', '--read-only', '--direct', 'never')
            libc.munlock(ctypes.c_void_p(address), ctypes.c_size_t(65536))
            assert s['cache'] == 'warm (100 % resident)', s['cache']


def a_buffered_write_says_whether_it_was_flushed():
    with folder() as f:
        args = ['--target', f, '--size', '256K', '--direct', 'never']
        assert 'not flushed' in series(*args)['cache']
        for level in 'data', 'full':
            assert 'flushed within' in series(*args, '--durability', level)['cache']


def fresh_and_repeated_writes_are_told_apart():
    with folder() as f:
        args = ['--target', f, '--size', '256K']
        for more, fresh in ([], 0), (['--different-file-each-iteration'], 3), \
                (['--warmup', 0], 1), (['--include-warmup-time'], 1), (['--keep'], 0):
            assert result(*args, *more)['io']['fresh_loops'] == fresh, more
        assert result(*args, '--warmup', 0)['io']['fresh_loops'] == 0
        assert result(*args, '--read-only')['io']['fresh_loops'] is None


def a_given_limit_gives_a_share():
    with folder() as f:
        r = result('--target', f, '--size', '1M', '--limit', '1T')
    limit = r['series'][0]['limit']
    assert resultcheck.near(limit['share'], r['io']['e2e_bytes_per_sec'] / 2**40), limit
    assert limit['how'] == 'as given' and r['settings']['limit'] == 2**40, limit


def the_limit_is_measured_between_the_loops():
    with folder() as f:
        for more, turns in ([], 1), (['--measure-limit'], 4):
            s = series('--target', f, '--size', '1M', '--read-only', '--iterations', 4, *more)
            found = s['interval']['turns']
            assert s['ops'] == 4 and len(found) == turns, (more, found)
            if s['limit']['share'] is not None:  # a quarter of 1.5 s for plain threads
                assert all(b[0] - a[1] > 0.3 for a, b in zip(found, found[1:])), found


def the_limit_is_measured_on_the_same_files():
    with folder() as f:
        for args in ['--size', '4M', '--read-only'], ['--size', '3000001', '--memory', 'odd']:
            s = series('--target', f, '--measure-limit', '--verify', *args)
            if s['ran']['direct'] == 'page cache':
                raise tap.Skip('direct', 'no O_DIRECT here')
            assert s['limit']['bytes_per_sec'] > 0 and s['limit']['share'] > 0, s['limit']
            assert 'plain p' in s['limit']['how'] and s['limit']['share'] <= 1, s['limit']
            assert s['verified_bytes'] > 0
        assert os.listdir(f) == []


# ------------------------------------------------------------------ stopping

def moved(process, name):
    """Bytes it has read or written so far, by its own calls."""
    with open(f'/proc/{process.pid}/io', encoding='ascii') as f:
        return int(re.search(rf'^{name}: (\d+)$', f.read(), re.M)[1])


def stopping_case(number, *args):
    def case():
        with folder() as f:
            os.mkdir('data')
            process = start('--target', 'data', '--size', '4M', '--iterations', 1000000, '--engine', 'threads',
                            '--json', 'r.json', *args)
            while moved(process, 'rchar' if '--read-only' in args else 'wchar') < 100 * MIB:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate()
            assert process.returncode == 128 + number, (process.returncode, err)
            assert err.count('\n') == 1 and 'interrupted; the result is partial' in err, err
            assert os.listdir('data') == [] and sorted(os.listdir(f)) == ['data', 'r.json']
            with open('r.json', encoding='utf-8') as file:
                r = json.load(file)
        resultcheck.check(ROOT, r)
        (s,) = r['series']
        assert r['partial'] and r['partial_why'] == 'interrupted', r['partial_why']
        assert s['partial'] and s['partial_why'] == f'interrupted: {len(r["io"]["workers"][0]["task"])} of 1000000 loops'
        assert 5 <= s['ops'] < 1000000 and s['bytes'] == s['ops'] * 4 * MIB, s['ops']
        if '--verify' in args:
            assert s['bytes'] + s['ops'] * 4 * MIB >= s['verified_bytes'] > 0, s['verified_bytes']
        assert r['bytes_written'] >= (4 * MIB if '--read-only' in args else s['bytes'] + 4 * MIB), r['bytes_written']
        assert re.search(r'^partial: +interrupted, \d+ of 1000000 loops$', out, re.M) and ' Speed = ' in out, out
    return f'{number.name} during a {" ".join(args) or "write"} leaves a partial result and no files', case


def stopping_before_the_first_loop_leaves_an_empty_result():
    with folder() as f:
        process = start('--size', '1G', '--iterations', 3, '--warmup', 0, '--read-only', '--json', 'r.json')
        while not glob.glob('penstock-io-*/_aio*'):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == 130 and 'interrupted' in err and ' Speed = ' not in out, (err, out)
        with open('r.json', encoding='utf-8') as file:
            r = json.load(file)
        assert os.listdir(f) == ['r.json']
    resultcheck.check(ROOT, r)
    assert r['partial'] and r['series'][0]['ops'] == 0 and r['bytes_written'] <= 1 << 30, r['series']


def stopping_removes_the_private_folder():
    with folder() as f:
        process = start('--size', '16M', '--iterations', 1000000)
        while not glob.glob('penstock-io-*/_aio*'):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # as timeout(1) does: to the program and to its group
        process.communicate()
        assert process.returncode == 130
        assert os.listdir(f) == []


tap.run(
    the_four_result_lines_are_those_of_ds_io,
    speed_is_bytes_over_latency,
    the_text_says_what_ran,
    both_spellings_of_an_option_work,
    a_pipe_sees_no_progress,
    a_terminal_sees_progress,
    nothing_is_left_behind,
    without_arguments_it_makes_its_own_folder_and_removes_it,
    kept_files_have_ds_io_names,
    files_of_an_earlier_run_are_used_and_left,
    a_file_that_is_not_ours_is_not_overwritten,
    overwrite_allows_it_and_leaves_the_file,
    a_foreign_file_of_the_right_size_is_read_but_not_validated,
    a_file_of_the_wrong_size_is_not_read,
    links_and_folders_in_the_way_are_refused, two_runs_in_one_folder_do_not_meet, a_dry_run_tells_and_makes_nothing,
    the_time_that_a_dry_run_tells_is_in_the_unit_of_the_rest,
    what_was_kept_by_a_write_is_what_the_seed_says,
    validate_names_the_first_byte_that_is_wrong,
    validate_passes_on_every_engine_and_memory,
    an_engine_that_moves_nothing_does_not_pass, the_null_engine_wears_nothing,
    faults_that_can_be_mended_are_mended,
    a_fault_that_cannot_be_mended_is_a_failure,
    a_failure_names_the_way_of_the_file_even_where_nothing_moved,
    several_folders_have_a_worker_each,
    multi_process_means_workers_in_one_folder,
    *(bad_input_case(*bad) for bad in BAD),
    what_needs_torch_is_refused_with_status_3, without_a_gpu_there_is_a_reason_and_status_3,
    options_that_mean_nothing_here_are_noted,
    ds_io_engine_names_mean_automatic,
    an_unwritable_json_file_is_noticed_first,
    too_little_space_is_noticed_first,
    a_folder_that_cannot_be_written_to_is_bad_input,
    a_file_system_that_is_too_small_is_refused_before_it_is_full,
    the_default_size_fits_a_small_file_system,
    files_in_memory_are_never_called_cold,
    the_numbers_of_the_json_agree,
    all_that_was_written_is_counted,
    the_warm_up_counts_when_asked_for,
    a_json_file_stands_beside_the_text,
    csv_and_workbook_say_the_same,
    report_and_compare_take_the_results,
    a_failure_leaves_no_json_file,
    names_that_are_not_utf8_do_not_break_the_json,
    *map(each_engine_runs_by_name, ENGINES + ['null']),
    single_submit_and_sequential_requests_work,
    buffered_reads_are_not_called_direct,
    direct_reads_are_cold,
    an_odd_end_does_not_make_all_of_it_cached, a_file_that_cannot_be_dropped_is_warm,
    a_buffered_write_says_whether_it_was_flushed,
    fresh_and_repeated_writes_are_told_apart,
    a_given_limit_gives_a_share,
    the_limit_is_measured_between_the_loops,
    the_limit_is_measured_on_the_same_files,
    stopping_case(signal.SIGINT),
    stopping_case(signal.SIGINT, '--read-only'),
    stopping_case(signal.SIGINT, '--read-only', '--verify'),
    stopping_case(signal.SIGTERM, '--workers', '2'),
    stopping_before_the_first_loop_leaves_an_empty_result,
    stopping_removes_the_private_folder,
)
