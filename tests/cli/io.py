#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice io`, from outside: what it prints, leaves behind, refuses and finds.

    io.py SLUICE
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import ctypes
import glob
import json
import mmap
import pty
import re
import signal
import subprocess
import tempfile
import time

import tap

SLUICE = os.path.abspath(sys.argv[1])
MIB = 1 << 20
NUMBER = r'\d+\.\d+'
ENGINES = ['io_uring', 'libaio', 'threads']


@contextlib.contextmanager
def folder():
    """An empty folder on a disk, current while it lasts."""
    back = os.getcwd()
    with tempfile.TemporaryDirectory(prefix='sluice-test-', dir=back) as name:
        os.chdir(name)
        try:
            yield name
        finally:
            os.chdir(back)


def start(*args, **more):
    return subprocess.Popen([SLUICE, 'io', *map(str, args)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **more)


def io(*args, status=0, **more):
    """Run it; the exit status must be @status.  Returns (stdout, stderr)."""
    process = start(*args, **more)
    out, err = process.communicate()
    assert process.returncode == status, (args, process.returncode, out, err)
    return out, err


def result(*args, **more):
    """Run it and return its JSON."""
    out, _ = io(*args, '--json', '-', **more)
    return json.loads(out)


def lines_of(out):
    """{'Task Read Speed': 1.5, ...} and {'engine': ..., ...} of the text."""
    numbers = {m[1]: float(m[2]) for m in re.finditer(rf'^(\w+ \w+ \w+) = ({NUMBER}) ', out, re.M)}
    facts = dict(re.findall(r'^(\w+): +(.*)$', out, re.M))
    return numbers, facts


def near(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-9)


def need_engine(name):
    _, err = subprocess.Popen([SLUICE, 'io', '--engine', name, '--io_size', '4K', '--loops', '1'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True).communicate()
    if err:
        raise tap.Skip(name, err.strip())


# ------------------------------------------------------------------- the text

def the_four_result_lines_are_those_of_ds_io():
    for word, args in ('Read', ['--read']), ('Write', []):
        with folder() as f:
            out, err = io('--folder', f, '--io_size', '1M', *args)
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
        out, _ = io('--folder', f, '--io_size', '4M', '--loops', 2, '--read')
    numbers, _ = lines_of(out)
    for kind in 'Task', 'E2E':
        speed = 2 * 4 * MIB / numbers[f'{kind} Read Latency'] / 2**30
        assert abs(speed / numbers[f'{kind} Read Speed'] - 1) < 1e-3, numbers
    assert numbers['E2E Read Latency'] >= numbers['Task Read Latency'], numbers


def the_text_says_what_ran():
    with folder() as f:
        out, _ = io('--folder', f, '--io_size', '1M', '--engine', 'threads', '--queue_depth', 7)
    _, facts = lines_of(out)
    assert facts['engine'].startswith('threads, queue depth 7, 1 I/O thread, blocks of '), facts
    assert facts['path'].startswith(f + ': '), facts
    assert re.match(rf'{NUMBER} s per GiB \(user {NUMBER} s, system {NUMBER} s\)', facts['CPU'])
    assert facts['limit'] == 'not measured', facts
    assert 'cache' in facts


def both_spellings_of_an_option_work():
    with folder() as f:
        a = result('--folder', f, '--io-size', '64K', '--warmup-loops', 0, '--queue-depth=5')
        b = result('--folder', f, '--io_size', '64K', '--warmup_loops', 0, '--queue_depth=5')
    assert a['settings'] == b['settings']


def a_pipe_sees_no_progress():
    with folder() as f:
        _, err = io('--folder', f, '--io_size', '8M', '--read', '--validate')
    assert err == '', err


def a_terminal_sees_progress():
    terminal, inner = pty.openpty()
    with folder() as f:
        process = subprocess.Popen([SLUICE, 'io', '--folder', f, '--io_size', '4M', '--loops', '5'],
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
    for args in [], ['--read'], ['--different_file_each_iteration'], ['--validate'], \
            ['--read', '--validate', '--different_file_each_iteration']:
        with folder() as f:
            io('--folder', f, '--io_size', '256K', *args)
            assert os.listdir(f) == [], (args, os.listdir(f))


def without_arguments_it_makes_its_own_folder_and_removes_it():
    with folder() as f:
        out, _ = io('--io_size', '1M')
        assert re.search(r'^\[0\]: process 0 <----> \./sluice-io-\w{6}$', out, re.M), out
        assert os.listdir(f) == []
        _, err = io('--io_size', '1M', '--keep')
        assert re.fullmatch(r'sluice io: note: \./sluice-io-\w{6} was left: .*\n', err), err
        assert len(glob.glob('sluice-io-*/_aio_write_1048576.pt.0_0')) == 1


def kept_files_have_ds_io_names():
    with folder() as f:
        io('--folder', f, '--io_size', '128K', '--keep', '--multi_process', 2)
        assert sorted(os.listdir(f)) == ['_aio_write_131072.pt.0_0', '_aio_write_131072.pt.1_0']
        io('--folder', f, '--io_size', '128K', '--keep', '--read', '--loops', 2,
           '--different_file_each_iteration')
        reads = [f'_aio_read_131072.pt.0_{i}' for i in range(3)]
        assert sorted(os.listdir(f))[:3] == reads, os.listdir(f)
        assert all(os.path.getsize(name) == 131072 for name in os.listdir(f))


def files_of_an_earlier_run_are_used_and_left():
    with folder() as f:
        for args in [], ['--read']:
            io('--folder', f, '--io_size', '1M', '--keep', *args)
            kept = os.listdir(f)
            first = result('--folder', f, '--io_size', '1M', '--validate', *args)
            assert first['workers'][0]['files_created'] == 0
            assert os.listdir(f) == kept
            for name in kept:
                os.remove(name)


def a_file_that_is_not_ours_is_not_overwritten():
    with folder() as f:
        for name in '_aio_write_65536.pt.0_0', '_aio_write_65536.pt.1_0':
            with open(name, 'wb') as stranger:
                stranger.write(b'precious' * 8192)
            out, err = io('--folder', f, '--io_size', '64K', '--multi_process', 2, status=1)
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
        io('--folder', f, '--io_size', '64K', '--overwrite', '--validate')
        assert os.path.getsize(name) == 65536
        io('--folder', f, '--io_size', '64K', '--validate')


def a_foreign_file_of_the_right_size_is_read_but_not_validated():
    with folder() as f:
        name = '_aio_read_65536.pt.0_0'
        with open(name, 'wb') as stranger:
            stranger.write(b'precious' * 8192)
        before = os.stat(name)
        io('--folder', f, '--io_size', '64K', '--read')
        assert os.stat(name).st_mtime_ns == before.st_mtime_ns
        _, err = io('--folder', f, '--io_size', '64K', '--read', '--validate', status=1)
        assert name in err and '--validate' in err and err.count('\n') == 1, err
        assert os.stat(name).st_mtime_ns == before.st_mtime_ns


def a_file_of_the_wrong_size_is_not_read():
    with folder() as f:
        name = '_aio_read_65536.pt.0_0'
        with open(name, 'wb') as stranger:
            stranger.write(b'short')
        _, err = io('--folder', f, '--io_size', '64K', '--read', status=1)
        assert name in err and '65536' in err and err.count('\n') == 1, err
        assert os.path.getsize(name) == 5


def links_and_folders_in_the_way_are_refused():
    with folder() as f:
        name = '_aio_write_65536.pt.0_0'
        with open('target', 'wb') as target:
            target.write(b'x' * 65536)
        os.symlink('target', name)
        io('--folder', f, '--io_size', '64K', '--overwrite', status=1)
        with open('target', 'rb') as target:
            assert target.read() == b'x' * 65536
        os.remove(name)
        os.mkdir(name)
        io('--folder', f, '--io_size', '64K', '--overwrite', status=1)
        assert os.path.isdir(name)


# ----------------------------------------------------------------- validation

def what_was_kept_by_a_write_is_what_the_seed_says():
    with folder() as f:
        io('--folder', f, '--io_size', '1M', '--keep', '--seed', 7)
        with open('_aio_write_1048576.pt.0_0', 'rb') as file:
            data = file.read()
        assert len(set(data)) == 256
        io('--folder', f, '--io_size', '1M', '--seed', 7)
        _, err = io('--folder', f, '--io_size', '1M', '--seed', 8, status=1)
        assert 'seed 8' in err, err


def validate_names_the_first_byte_that_is_wrong():
    for offset in 5000, 300001, MIB - 5001:
        with folder() as f:
            io('--folder', f, '--io_size', '1M', '--keep', '--read')
            name = os.path.join(f, '_aio_read_1048576.pt.0_0')
            with open(name, 'r+b') as file:
                for at in offset, offset + 77:
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 0x10]))
            out, err = io('--folder', f, '--io_size', '1M', '--read', '--validate', status=1)
            assert name in err and f'offset {offset} ' in err and err.count('\n') == 1, err
            assert 'Speed' not in out, out
            assert os.path.exists(name)
            io('--folder', f, '--io_size', '1M', '--read')


def validate_passes_on_every_engine_and_memory():
    with folder() as f:
        for engine in ENGINES:
            with contextlib.suppress(tap.Skip):
                need_engine(engine)
                for memory in 'own', 'plain', 'odd':
                    for size in '1M', '1000003':
                        for args in [], ['--read']:
                            r = result('--folder', f, '--io_size', size, '--engine', engine,
                                       '--memory', memory, '--loops', 2, '--validate', *args)
                            assert r['validation'] == 'passed'
        assert os.listdir(f) == []


def an_engine_that_moves_nothing_does_not_pass():
    with folder() as f:
        for args in [], ['--read']:
            _, err = io('--folder', f, '--io_size', '64K', '--engine', 'null', '--validate', *args,
                        status=1)
            assert re.search('offset 0 |end of file|shorter', err), err
            assert os.listdir(f) == []


def faults_that_can_be_mended_are_mended():
    with folder() as f:
        for args in [], ['--read']:
            r = result('--folder', f, '--io_size', '1M', '--block_size', '64K', '--validate', *args,
                       '--engine', 'fault:inner=threads,seed=3,short=0.3,again=0.2,reorder=1')
            assert r['validation'] == 'passed'
            assert r['workers'][0]['stats']['resubmissions'] > 0, r


def a_fault_that_cannot_be_mended_is_a_failure():
    with folder() as f:
        for args in [], ['--read'], ['--multi_process', 3]:
            out, err = io('--folder', f, '--io_size', '1M', *args,
                          '--engine', 'fault:inner=threads,nth=2,errno=5', '--block_size', '64K',
                          status=1)
            assert 'Speed' not in out
            assert '_aio_' in err and 'offset' in err and err.count('\n') == 1, err
            assert os.listdir(f) == []


# ------------------------------------------------------------------ workers

def several_folders_have_a_worker_each():
    with folder() as f:
        for name in 'a', 'b', 'c':
            os.mkdir(name)
        for args in (['--folder', 'a', 'b', 'c'], ['--folder', 'a', '--folder', 'b', '--folder=c'],
                     ['--folder_to_device_mapping', 'a:0', 'b:1', 'c:1']):
            out, _ = io(*args, '--io_size', '256K', '--keep')
            assert 'Configuring 3 process to folder mapping\n' in out, out
            assert '[1]: process 1 <----> b\n' in out, out
            assert glob.glob('*/_aio_*') and sorted(glob.glob('*/_aio_*')) == [
                'a/_aio_write_262144.pt.0_0', 'b/_aio_write_262144.pt.1_0',
                'c/_aio_write_262144.pt.2_0']
            r = result(*args, '--io_size', '256K', '--loops', 2)
            assert r['totals']['bytes'] == 3 * 2 * 256 * 1024
            assert [w['folder'] for w in r['workers']] == ['a', 'b', 'c']
            for name in glob.glob('*/_aio_*'):
                os.remove(name)


def multi_process_means_workers_in_one_folder():
    with folder() as f:
        r = result('--folder', f, '--multi_process', 4, '--io_size', '64K', '--validate', '--read')
    assert len(r['workers']) == 4
    assert r['totals']['bytes'] == 4 * 3 * 65536


# ---------------------------------------------------------------- bad input

BAD = [
    (['--io_size', '0'], 'io'),
    (['--io_size', 'many'], 'many'),
    (['--io_size'], 'io_size'),
    (['--block_size', '100'], '100'),
    (['--block_size', '1000'], '512'),
    (['--queue_depth', '0'], '0'),
    (['--queue_depth', '99999'], '99999'),
    (['--loops', '0'], '0'),
    (['--loops', '-3'], '-3'),
    (['--io_parallel', '0'], '0'),
    (['--multi_process', '0'], '0'),
    (['--engine', 'warp'], 'warp'),
    (['--engine', 'fault:inner=warp'], 'warp'),
    (['--direct', 'perhaps'], 'perhaps'),
    (['--durability', 'eternal'], 'eternal'),
    (['--folder', 'absent'], 'absent'),
    (['--folder', 'plainfile'], 'plainfile'),
    (['--folder', '.', '--folder_to_device_mapping', '.:0'], 'exclude'),
    (['--folder_to_device_mapping', 'nocolon'], 'nocolon'),
    (['--folder_to_device_mapping', '.:gpu'], 'gpu'),
    (['--folder_to_device_mapping', '.:0', '--multi_process', '2'], 'multi_process'),
    (['--limit', '1G', '--measure_limit'], 'exclude'),
    (['--use_gds'], 'needs --gpu'),
    (['--gpu', 'first'], 'first'),
    (['--gpu', '--lock'], '--lock'),
    (['--gpu', '--gds', '--engine', 'threads'], 'cufile'),
    (['--gpu', '0', '--folder_to_device_mapping', '.:0'], 'mapping'),
    (['--no_such_option'], 'no_such_option'),
    (['operand'], 'operand'),
]


def bad_input_case(args, word):
    def case():
        with folder() as f:
            with open('plainfile', 'w'):
                pass
            extra = [] if '--io_size' in args else ['--io_size', '64K']
            out, err = io(*extra, *args, status=2)
            assert err.count('\n') == 1 and word in err, err
            assert out == '', out
            assert os.listdir(f) == ['plainfile']
    return 'bad input: ' + ' '.join(args).replace('_', '-'), case


def what_needs_torch_is_refused_with_status_3():
    with folder() as f:
        for args, word in ((['--engine', 'torch_io'], 'torch'),
                           (['--engine', 'torch_fastio'], 'torch')):
            out, err = io('--io_size', '64K', *args, status=3)
            assert out == '' and word in err and err.count('\n') == 1, (out, err)
            assert os.listdir(f) == []


def without_a_gpu_there_is_a_reason_and_status_3():
    with folder() as f:
        env = {**os.environ, 'CUDA_VISIBLE_DEVICES': ''}
        for args in ['--gpu'], ['--gpu', '--use_gds'], ['--gpu', '0', '--gds']:
            out, err = io('--io_size', '64K', *args, status=3, env=env)
            assert out == '' and 'GPU' in err and err.count('\n') == 1, (out, err)
            assert os.listdir(f) == []


def options_that_mean_nothing_here_are_noted():
    with folder() as f:
        for option in '--slow_bounce_buffer', '--use_accelerator_pin_memory':
            _, err = io('--folder', f, '--io_size', '64K', option)
            assert err.count('\n') == 1 and option in err and 'ignored' in err, err


def ds_io_engine_names_mean_automatic():
    with folder() as f:
        automatic = result('--folder', f, '--io_size', '64K')['ran']['engine']
        for name in 'aio_handle', 'aio_basic':
            assert result('--folder', f, '--io_size', '64K', '--engine', name)['ran'][
                'engine'] == automatic


def an_unwritable_json_file_is_noticed_first():
    with folder() as f:
        _, err = io('--folder', f, '--io_size', '64K', '--json', 'absent/x.json', status=1)
        assert 'absent/x.json' in err and err.count('\n') == 1, err
        assert os.listdir(f) == []


def too_little_space_is_noticed_first():
    with folder() as f:
        _, err = io('--folder', f, '--io_size', '900T', status=1)
        assert err.count('\n') == 1 and 'free space' in err and 'available' in err, err
        assert os.listdir(f) == []


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
        for args in ['--io_size', '5M'], ['--io_size', '3M', '--multi_process', '2'], \
                ['--io_size', '2M', '--different_file_each_iteration']:
            for more in [], ['--read']:
                _, err = io('--folder', mnt, *args, *more, status=1)
                assert err.count('\n') == 1 and 'not enough free space' in err, err
                assert os.listdir(mnt) == []
        io('--folder', mnt, '--io_size', '3M', '--validate')


def the_default_size_fits_a_small_file_system():
    with small_tmpfs('16m') as mnt:
        r = result('--folder', mnt, '--validate')
        assert MIB <= r['settings']['io_size'] <= 8 * MIB, r['settings']
        assert os.listdir(mnt) == []


def files_in_memory_are_never_called_cold():
    with small_tmpfs('16m') as mnt:
        for direct in 'auto', 'never':
            r = result('--folder', mnt, '--io_size', '1M', '--read', '--direct', direct)
            assert r['cache'].startswith('warm'), r['cache']


# --------------------------------------------------------------------- JSON

def the_numbers_of_the_json_agree():
    with folder() as f:
        r = result('--folder', f, '--multi_process', 2, '--io_size', '512K', '--loops', 4,
                   '--warmup_loops', 2, '--read', '--validate', '--seed', 99)
    assert r['schema'] == 'sluice-io/1'
    assert {'machine', 'settings', 'ran', 'cache', 'workers', 'totals', 'cpu', 'limit',
            'validation'} <= r.keys()
    assert r['settings']['operation'] == 'read' and r['settings']['seed'] == 99
    for w in r['workers']:
        assert len(w['task_sec']) == 4 and len(w['e2e_sec']) == 4
        assert len(w['warmup_task_sec']) == 2
        assert near(sum(w['task_sec']), w['task_latency_sec'])
        assert near(sum(w['e2e_sec']), w['e2e_latency_sec'])
        assert all(0 < t <= e for t, e in zip(w['task_sec'], w['e2e_sec']))
        assert w['stats']['bytes_read'] == 6 * 512 * 1024
        assert w['file_system'] and w['files_created'] == 1
    t = r['totals']
    assert t['bytes'] == 2 * 4 * 512 * 1024
    for kind in 'task', 'e2e':
        assert near(t[f'{kind}_latency_sec'], max(w[f'{kind}_latency_sec'] for w in r['workers']))
        assert near(t[f'{kind}_gib_per_sec'], t['bytes'] / t[f'{kind}_latency_sec'] / 2**30)
    c = r['cpu']
    assert near(c['sec_per_gib'], (c['user_sec'] + c['system_sec']) / (t['bytes'] / 2**30))
    assert r['limit']['bytes_per_sec'] is None and r['limit']['how'] == 'not measured'


def the_warm_up_counts_when_asked_for():
    with folder() as f:
        r = result('--folder', f, '--io_size', '64K', '--loops', 2, '--warmup_loops', 3,
                   '--include_warmup_time')
    assert r['totals']['bytes'] == 5 * 65536
    assert len(r['workers'][0]['task_sec']) == 5


def a_json_file_stands_beside_the_text():
    with folder() as f:
        os.mkdir('data')
        out, _ = io('--folder', 'data', '--io_size', '64K', '--json', 'r.json')
        with open('r.json') as file:
            r = json.load(file)
        numbers, facts = lines_of(out)
        assert abs(numbers['Task Write Latency'] - r['totals']['task_latency_sec']) < 2e-9
        assert facts['cache'] == r['cache']
        assert sorted(os.listdir(f)) == ['data', 'r.json']


def a_failure_leaves_no_json_file():
    with folder() as f:
        os.mkdir('data')
        io('--folder', 'data', '--io_size', '64K', '--engine', 'null', '--validate', '--json',
           'r.json', status=1)
        assert os.listdir(f) == ['data']


def names_that_are_not_utf8_do_not_break_the_json():
    with folder():
        os.mkdir(b'f\xff\xe9')
        out, _ = io('--io_size', '64K', '--json', '-', '--folder', os.fsdecode(b'f\xff\xe9'))
        assert json.loads(out)['workers'][0]['folder'].startswith('f')


# ----------------------------------------------------- what ran, cache, limit

def each_engine_runs_by_name(name):
    def case():
        need_engine(name)
        with folder() as f:
            for args in [], ['--read']:
                r = result('--folder', f, '--io_size', '1M', '--engine', name, '--queue_depth', 4,
                           '--io_parallel', 2, '--block_size', '64K', *args)
                assert r['ran']['engine'] == name and r['ran']['block_size'] == 65536, r['ran']
                assert r['ran']['queue_depth'] == 4 and r['ran']['io_parallel'] == 2
                assert 'engine' not in r['ran']['fallbacks']
    return f'the {name} engine runs by name', case


def single_submit_and_sequential_requests_work():
    with folder() as f:
        for option in '--single_submit', '--sequential_requests':
            r = result('--folder', f, '--io_size', '1M', '--block_size', '32K', '--validate',
                       option)
            assert r['settings'][option[2:]] is True


def buffered_reads_are_not_called_direct():
    with folder() as f:
        r = result('--folder', f, '--io_size', '1M', '--read', '--direct', 'never')
    assert r['ran']['path'] == 'page cache', r['ran']
    assert re.fullmatch(r'cold \(dropped\)|warm \(\d+ % resident\)', r['cache']), r['cache']


def direct_reads_are_cold():
    with folder() as f:
        r = result('--folder', f, '--io_size', '1M', '--read')
    if r['ran']['path'] != 'O_DIRECT':
        raise tap.Skip('direct', 'no O_DIRECT here')
    assert r['cache'] == 'cold (O_DIRECT)', r['cache']
    assert r['workers'][0]['stats']['blocks_buffered'] == 0


def a_file_that_cannot_be_dropped_is_warm():
    """Pages that are mapped and locked stay; the result must not be called cold."""
    with folder() as f:
        io('--folder', f, '--io_size', '64K', '--read', '--keep')
        libc = ctypes.CDLL(None, use_errno=True)
        with open('_aio_read_65536.pt.0_0', 'r+b') as file, mmap.mmap(file.fileno(), 0) as pages:
            address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(65536)) != 0:
                raise tap.Skip('mlock', 'mlock is refused')
            r = result('--folder', f, '--io_size', '64K', '--read', '--direct', 'never')
            libc.munlock(ctypes.c_void_p(address), ctypes.c_size_t(65536))
            assert r['cache'] == 'warm (100 % resident)', r['cache']


def a_buffered_write_says_whether_it_was_flushed():
    with folder() as f:
        args = ['--folder', f, '--io_size', '256K', '--direct', 'never']
        assert 'not flushed' in result(*args)['cache']
        for level in 'data', 'full':
            assert 'flushed within' in result(*args, '--durability', level)['cache']


def fresh_and_repeated_writes_are_told_apart():
    with folder() as f:
        args = ['--folder', f, '--io_size', '256K']
        for more, fresh in ([], 0), (['--different_file_each_iteration'], 3), \
                (['--warmup_loops', 0], 1), (['--include_warmup_time'], 1), (['--keep'], 0):
            assert result(*args, *more)['ran']['fresh_loops'] == fresh, more
        assert result(*args, '--warmup_loops', 0)['ran']['fresh_loops'] == 0
        assert result(*args, '--read')['ran']['fresh_loops'] is None


def a_given_limit_gives_a_share():
    with folder() as f:
        r = result('--folder', f, '--io_size', '1M', '--limit', '1T')
    share = r['totals']['bytes'] / r['totals']['e2e_latency_sec'] / 2**40
    assert near(r['limit']['share'], share) and r['limit']['how'] == 'as given', r['limit']


def the_limit_is_measured_on_the_same_files():
    with folder() as f:
        for args in ['--io_size', '4M', '--read'], ['--io_size', '3000001', '--memory', 'odd']:
            r = result('--folder', f, '--measure_limit', '--validate', *args)
            if r['ran']['path'] == 'page cache':
                raise tap.Skip('direct', 'no O_DIRECT here')
            assert r['limit']['bytes_per_sec'] > 0 and r['limit']['share'] > 0, r['limit']
            assert r['limit']['how'].startswith('measured: plain p'), r['limit']
            assert r['validation'] == 'passed'
        assert os.listdir(f) == []


# ------------------------------------------------------------------ stopping

def stopping_case(number, *args):
    def case():
        with folder() as f:
            process = start('--folder', f, '--io_size', '16M', '--loops', 1000000, *args)
            deadline = time.monotonic() + 60
            while not os.listdir(f) and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)
            assert process.poll() is None, process.communicate()
            process.send_signal(number)
            out, err = process.communicate()
            assert process.returncode == 128 + number, (process.returncode, err)
            assert err.count('\n') == 1 and 'interrupted' in err, err
            assert 'Speed' not in out
            assert os.listdir(f) == []
    return f'{number.name} during a {" ".join(args) or "write"} leaves nothing behind', case


def stopping_removes_the_private_folder():
    with folder() as f:
        process = start('--io_size', '16M', '--loops', 1000000)
        while not glob.glob('sluice-io-*/_aio*'):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
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
    links_and_folders_in_the_way_are_refused,
    what_was_kept_by_a_write_is_what_the_seed_says,
    validate_names_the_first_byte_that_is_wrong,
    validate_passes_on_every_engine_and_memory,
    an_engine_that_moves_nothing_does_not_pass,
    faults_that_can_be_mended_are_mended,
    a_fault_that_cannot_be_mended_is_a_failure,
    several_folders_have_a_worker_each,
    multi_process_means_workers_in_one_folder,
    *(bad_input_case(*bad) for bad in BAD),
    what_needs_torch_is_refused_with_status_3, without_a_gpu_there_is_a_reason_and_status_3,
    options_that_mean_nothing_here_are_noted,
    ds_io_engine_names_mean_automatic,
    an_unwritable_json_file_is_noticed_first,
    too_little_space_is_noticed_first,
    a_file_system_that_is_too_small_is_refused_before_it_is_full,
    the_default_size_fits_a_small_file_system,
    files_in_memory_are_never_called_cold,
    the_numbers_of_the_json_agree,
    the_warm_up_counts_when_asked_for,
    a_json_file_stands_beside_the_text,
    a_failure_leaves_no_json_file,
    names_that_are_not_utf8_do_not_break_the_json,
    *map(each_engine_runs_by_name, ENGINES + ['null']),
    single_submit_and_sequential_requests_work,
    buffered_reads_are_not_called_direct,
    direct_reads_are_cold,
    a_file_that_cannot_be_dropped_is_warm,
    a_buffered_write_says_whether_it_was_flushed,
    fresh_and_repeated_writes_are_told_apart,
    a_given_limit_gives_a_share,
    the_limit_is_measured_on_the_same_files,
    stopping_case(signal.SIGINT),
    stopping_case(signal.SIGINT, '--read'),
    stopping_case(signal.SIGTERM, '--multi_process', '2'),
    stopping_removes_the_private_folder,
)
