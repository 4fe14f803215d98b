#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock sweep`, from outside: grid, logs, interruption, refusals.

    sweep.py PENSTOCK ROOT
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import glob
import itertools
import json
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

resultcheck.need('jsonschema')

sweep = clikit.Command('sweep')
start, result = sweep.start, sweep.result
SMALL = ['--size', '256K', '--block-size', '64K', '128K', '--queue-depth', 4, 8, '--threads', 1, 2,
         '--sequential-requests', 'no', '--single-submit', 'no', '--no-limit']
STATE = 'penstock-sweep-state.jsonl'


def logs(kind, log_dir='_aio_bench_logs'):
    return sorted(os.listdir(f'{log_dir}/_aio_bench_{kind}_logs'))


def upstream_speeds(log_dir):
    """What DeepSpeed's parser would take from the logs: {(key fields): E2E speed}.  Its tuner needs 7 fields."""
    units = {'K': 2**10, 'M': 2**20}
    found = {}
    for name in os.listdir(log_dir):
        fields = []
        for field in name[:-len('.txt')].split('_'):
            if m := re.fullmatch(r'bs(\d+)([KM])', field):
                fields.append(int(m[1]) * units[m[2]])
            elif m := re.fullmatch(r'[dp](\d+)', field):
                fields.append(int(m[1]))
            else:
                fields.append(field)
        assert len(fields) == 7 and all(isinstance(n, int) for n in fields[4:]), name
        with open(os.path.join(log_dir, name)) as f:
            for line in f:
                if line.startswith(('E2E Read Speed', 'E2E Write Speed')):
                    found[tuple(fields)] = float(line.split()[-2])
    return found


# --------------------------------------------------------------------- the grid

def the_default_space_is_that_of_ds_nvme_tune():
    with folder() as f:
        out, _ = sweep('--dry-run')
        assert os.listdir(f) == []
    assert 'Would measure 64 configurations, read and write, 1 loop of 400M in 1 folder: 128 measurements' \
        in out, out
    assert '  block_size: 1M 8M\n  queue_depth: 32 128\n' in out and 'io_parallel: 1 2 4 8' in out, out
    assert re.search(r'^writes: +at most 27.* GiB \(\d+ bytes\), up to 2 GiB of it', out, re.M), out
    assert re.search(r'^time: +about \d+ s', out, re.M), out


def planned(*args):
    """Bytes that --dry-run says would be written."""
    out, _ = sweep('--dry-run', *args)
    return int(re.search(r'^writes: .*\((\d+) bytes\)', out, re.M)[1])


def a_dry_run_promises_no_less_than_is_written():
    small = [word for word in SMALL if word != '--no-limit']
    for more in [], ['--write-only'], ['--read-only'], ['--iterations', 3]:
        with folder():
            said = planned(*SMALL, *more)
            assert result(*SMALL, *more)['bytes_written'] == said, (more, said)
        with folder():  # the limit is measured with few writes, and they are in it
            said = planned(*small, *more)
            written = result(*small, *more)['bytes_written']
            assert written <= said <= written + (512 << 20), (more, said, written)


def the_limit_is_measured_between_the_points():
    with folder():
        result(*SMALL[:-1], '--write-only')
        with open(f'_aio_bench_logs/{STATE}') as f:
            lines = [json.loads(line) for line in f][1:]
        what = ''.join('w' if 'wear' in line else 'p' for line in lines)
        if 'w' not in what[1:]:
            raise tap.Skip('limit', 'it cannot be measured here')
        assert what.count('p') == 8 and re.fullmatch('w(p+w){6}', what), what


def every_point_is_there_once():
    with folder():
        r = result(*SMALL)
        names = {f'{kind}_block_overlap_ftd1_d{d}_bs{b}_p{p}' for kind, d, b, p in
                 itertools.product(('read', 'write'), (4, 8), ('64K', '128K'), (1, 2))}
        assert {s['name'] for s in r['series']} == names
        assert r['grid']['axes'][:2] == [{'name': 'block_size', 'values': [65536, 131072]},
                                         {'name': 'queue_depth', 'values': [4, 8]}], r['grid']
        for s in r['series']:
            _, _, _, _, depth, block, parallel = s['name'].split('_')
            ran = s['ran']
            assert f'd{ran["queue_depth"]}' == depth and f'p{ran["io_parallel"]}' == parallel, s
            assert f'bs{ran["block_size"] // 1024}K' == block, s
            assert s['settings']['queue_depth'] == ran['queue_depth']
        assert sorted(os.listdir('.')) == ['_aio_bench_logs']
    assert r['bytes_written'] == 256 * 1024 * (8 + 1), r['bytes_written']


def the_best_is_the_fastest():
    with folder():
        r = result(*SMALL, '--iterations', 2)
    for kind in 'read', 'write':
        fastest = max((s for s in r['series'] if s['kind'] == kind), key=lambda s: s['bytes_per_sec'])
        best = r['grid']['best'][kind]
        assert resultcheck.near(best['bytes_per_sec'], fastest['bytes_per_sec'])
        for name, value in best['settings'].items():
            assert fastest['settings'][name] == value, (best, fastest['settings'])
        assert all(s['ops'] == 2 for s in r['series'])


def the_logs_are_upstreams():
    with folder():
        r = result(*SMALL, '--iterations', 2, '--sequential-requests', 'yes', '--single-submit', 'yes')
        for kind in 'read', 'write':
            found = upstream_speeds(f'_aio_bench_logs/_aio_bench_{kind}_logs')
            assert len(found) == 32, found
            for s in (s for s in r['series'] if s['kind'] == kind):
                _, submit, how, ftd, depth, block, parallel = s['name'].split('_')
                key = (kind, submit, how, ftd, int(depth[1:]), s['ran']['block_size'], int(parallel[1:]))
                assert abs(found[key] - s['bytes_per_sec'] / 2**30) < 1e-6 * found[key] + 1e-8, s['name']
                assert s['settings']['single_submit'] == (submit == 'single')
                assert s['settings']['sequential_requests'] == (how == 'sequential')
        with open('_aio_bench_logs/_aio_bench_read_logs/' + logs('read')[0]) as f:
            lines = f.read().splitlines()
        number = r'\d+\.\d+'
        for line, pattern in zip(lines, [
                r'Configuring 1 process to folder mapping', r'\[0\]: process 0 <----> \.',
                f'Task Read Latency = {number} sec', f'Task Read Speed = {number} GB/sec',
                f'E2E Read Latency = {number} sec', f'E2E Read Speed = {number} GB/sec']):
            assert re.fullmatch(pattern, line), (line, pattern)


def a_sweep_json_of_upstream_is_understood():
    with folder():
        with open('space.json', 'w') as f:
            json.dump({'block_size': ['128K', '256K'], 'queue_depth': [4], 'io_parallel': [1, 2],
                       'sequential_requests': [True, False], 'single_submit': [False],
                       'threads': [1]}, f)
        r = result('--sweep-config', 'space.json', '--size', '256K', '--read-only', '--no-limit')
        assert [a['name'] for a in r['grid']['axes']] == ['block_size', 'queue_depth', 'io_parallel',
                                                          'sequential_requests', 'single_submit']
        assert len(r['series']) == 8 and {s['kind'] for s in r['series']} == {'read'}
        assert logs('write') == [] and len(logs('read')) == 8


DS_IO = {'io_size': ['128K'], 'loops': [2], 'multi_process': [1], 'validate': [False], 'engine': ['aio_handle'], 'gpu': [False],
         'use_gds': [False], 'include_warmup_time': [False], 'different_file_each_iteration': [False]}
DS_IO_IGNORED = {'warmup_loops': [1], 'fast_io_size': ['64M'], 'torch_legacy_save': [True], 'slow_bounce_buffer': [True],
                 'use_accelerator_pin_memory': [True]}


def a_sweep_json_takes_every_option_of_ds_io():
    with folder():
        with open('space.json', 'w') as f:
            json.dump({'queue_depth': [1, 4], **DS_IO}, f)
        args = ['--sweep-config', 'space.json', '--read-only', '--no-limit']
        r = result(*args, '--log-dir', 'a')
        assert r['settings']['size'] == 128 << 10 and r['settings']['iterations'] == 2, r['settings']
        assert [s['ops'] for s in r['series']] == [2, 2] and [a['name'] for a in r['grid']['axes']] == ['queue_depth']
        r = result(*args, '--log-dir', 'b', '--size', '256K', '--iterations', 3)
        assert r['settings']['size'] == 256 << 10 and r['settings']['iterations'] == 3, r['settings']
        with open('space.json', 'w') as f:
            json.dump({'queue_depth': [1], **DS_IO, **DS_IO_IGNORED}, f)
        _, err = sweep(*args, '--log-dir', 'c')
        assert [line.split()[4] for line in err.splitlines()] == list(DS_IO_IGNORED), err
        assert all(line.startswith('penstock sweep: note: --sweep-config: ') for line in err.splitlines()), err


def both_ways_have_a_word():
    with folder():
        r = result(*SMALL[:11], '--read-only', '--single-submit', 'both', '--sequential-requests', 'both', '--no-limit')
        axes = {a['name']: a['values'] for a in r['grid']['axes']}
        assert axes['single_submit'] == axes['sequential_requests'] == [False, True], axes
        assert len(r['series']) == 32


def an_engine_of_ds_io_is_the_first_usable():
    with folder():
        r = result(*SMALL, '--read-only', '--engine', 'aio_handle')
        assert 'engine' not in [a['name'] for a in r['grid']['axes']] and r['settings']['engine'] is None, r['grid']


def engines_and_memory_are_axes():
    with folder():
        r = result('--size', '64K', '--block-size', '64K', '--queue-depth', 2, '--threads', 1,
                   '--sequential-requests', 'no', '--single-submit', 'no', '--engine', 'threads', 'null',
                   '--memory', 'own', 'plain', 'odd', '--no-limit')
        assert len(r['series']) == 12
        for s in r['series']:
            assert s['ran']['engine'] == s['settings']['engine'] and \
                s['ran']['memory'] == s['settings']['memory'], s
            assert f'_ftd1-{s["ran"]["engine"]}-{s["ran"]["memory"]}_d2_' in s['name'], s['name']
        assert len(upstream_speeds('_aio_bench_logs/_aio_bench_read_logs')) == 6


def the_null_engine_wears_nothing_and_has_no_limit():
    args = ['--size', '64K', '--block-size', '64K', '--queue-depth', 2, '--threads', 1, '--sequential-requests', 'no',
            '--single-submit', 'no', '--iterations', 3]
    with folder():
        assert planned(*args, '--engine', 'null') == 65536  # the file is real
        assert result(*args, '--engine', 'null')['bytes_written'] == 65536
    with folder():
        assert planned(*args, '--engine', 'null', 'threads', '--no-limit') == 4 * 65536
        r = result(*args, '--engine', 'null', 'threads', '--limit', '1G')
        assert r['bytes_written'] == 4 * 65536, r['bytes_written']
        for s in r['series']:
            null = s['ran']['engine'] == 'null'
            assert (s['limit']['share'] is None) == null, s['limit']
            assert s['bytes_written'] == (0 if null or s['kind'] == 'read' else 3 * 65536), s


def names_of_logs_know_k_and_m_only():
    with folder():
        args = ['--size', '256K', '--queue-depth', 1, '--threads', 1, '--sequential-requests', 'no', '--single-submit', 'no',
                '--engine', 'threads', '--read-only', '--no-limit', '--block-size', '1G', '64K']
        _, err = sweep(*args, '--log-dir', 'a')
        assert err == '' and logs('read', 'a') == ['read_block_overlap_ftd1_d1_bs1024M_p1.txt',
                                                   'read_block_overlap_ftd1_d1_bs64K_p1.txt'], (err, logs('read', 'a'))
        assert len(upstream_speeds('a/_aio_bench_read_logs')) == 2
        _, err = sweep(*args, 512, '--log-dir', 'b')
        assert err.count('\n') == 1 and 'note: --block-size: 512 is no multiple of 1K' in err, err
        assert 'read_block_overlap_ftd1_d1_bs512_p1.txt' in logs('read', 'b')


def several_folders_have_a_worker_each():
    with folder() as f:
        os.mkdir('a')
        os.mkdir('b')
        r = result('--target', 'a', 'b', '--size', '128K', '--block-size', '64K', '--queue-depth', 4,
                   '--threads', 1, '--sequential-requests', 'no', '--single-submit', 'no', '--iterations', 3,
                   '--no-limit')
        assert [t['folder'] for t in r['targets']] == ['a', 'b']
        assert [s['name'] for s in r['series']] == ['read_block_overlap_ftd2_d4_bs64K_p1',
                                                    'write_block_overlap_ftd2_d4_bs64K_p1']
        for s in r['series']:
            assert s['ops'] == 6 and s['bytes'] == 6 * 128 * 1024
        assert os.listdir('a') == os.listdir('b') == []
        assert sorted(os.listdir(f)) == ['_aio_bench_logs', 'a', 'b']


def the_text_has_a_table_and_a_heat_map():
    with folder():
        out, err = sweep(*SMALL[:-1], '--limit', '1T')
        assert err == ''
        assert re.search(r'^ +\d+\.\d{3} +100 % +\d+ % +- +read_block_overlap_ftd1_d\d_bs\d+K_p\d$', out,
                         re.M), out
        assert 'read, GiB/s, block_size down, queue_depth across' in out, out
        assert re.search(r'^ +64K( [█▓▒░] +\d+\.\d{3}){2}$', out, re.M), out
        assert re.search(r'^Best performance \(GB/sec\): read = [ \d.]+, write = [ \d.]+$', out, re.M)


def the_best_performance_is_that_of_one_configuration():
    """A state with speeds of our choice: no point is the fastest in both directions, and the best sum is a third."""
    with folder():
        sweep(*SMALL)
        state = os.path.join('_aio_bench_logs', STATE)
        with open(state) as f:
            head, wear, *lines = map(json.loads, f)
        gib = 2**18 / 2**30  # of a measurement
        for line in lines:
            point, read = line['point'] % 8, line['point'] < 8
            line['sec'] = gib / {2: 5 if read else 1, 3: 1 if read else 4, 6: 3.5}.get(point, 0.5)
        with open(state, 'w') as f:
            f.writelines(json.dumps(line) + '\n' for line in [head, wear, *lines])
        out, _ = sweep(*SMALL, '--resume')
        names = {line['point']: f'block_overlap_ftd1_d{d}_bs{b}_p{p}' for line, (b, d, p) in zip(
            sorted(lines, key=lambda line: line['point']), itertools.product(('64K', '128K'), (4, 8), (1, 2)))}
        assert '\nBest performance (GB/sec): read =  3.50, write =  3.50\n' \
               f'best sum:   {names[6]}\n' \
               f'best read:  5.00 GiB/s, read_{names[2]}\n' \
               f'best write: 4.00 GiB/s, write_{names[3]}\n' in out, (names, out)
        r = result(*SMALL, '--resume')
        assert resultcheck.near(r['grid']['best']['both']['bytes_per_sec'], 7 * 2**30, 1e-5), r['grid']['best']


def what_was_not_measured_has_no_speed():
    with folder():
        for no, other in ('write', 'read'), ('read', 'write'):
            out, _ = sweep(*SMALL, f'--no_{no}', '--log-dir', no)
            assert re.search(rf'^Best performance \(GB/sec\): {other} = +\d+\.\d\d\nbest {other}:  ?\d', out, re.M), out
            assert f'{no} =' not in out and f'best {no}:' not in out and 'best sum' not in out, out


def an_interval_needs_three_loops():
    with folder():
        for loops in 1, 2, 3:
            out, _ = sweep(*SMALL, '--iterations', loops, '--log-dir', str(loops))
            rows = re.findall(r'^ +\d+\.\d{3} +\d+ % +- +(.*?)  (?:read|write)_', out, re.M)
            assert len(rows) == 16, out
            good = re.compile(r'-' if loops < 3 else r'\d{1,2}\.\d %|100\.0 %|> 100 %')
            assert all(good.fullmatch(row) for row in rows), (loops, rows)


def verbose_shows_all():
    with folder():
        args = ['--size', '64K', '--read-only', '--no-limit', '--log-dir']
        short, _ = sweep(*args, 'a')
        long, _ = sweep(*args, 'b', '--verbose')
        assert short.count('  read_') == 10 and 'and 54 more' in short, short
        assert long.count('  read_') == 64, long


def a_page_can_be_had_at_once():
    with folder():
        process = start(*SMALL, '--html', 'r.html')
        _, err = process.communicate()
        if process.returncode == 3:
            raise tap.Skip('chart', err.strip())
        assert process.returncode == 0, err
        assert os.path.getsize('r.html') > 10000


def order_of(log_dir):
    with open(os.path.join(log_dir, STATE)) as f:
        return [(line['loop'], line['point']) for line in map(json.loads, f)
                if 'point' in line]


def loops_are_interleaved_in_an_order_of_the_seed():
    with folder():
        for name, seed in ('a', 1), ('b', 1), ('c', 2):
            sweep(*SMALL, '--read-only', '--iterations', 3, '--seed', seed, '--log-dir', name)
        a, b, c = map(order_of, 'abc')
    assert a == b and a != c
    assert [loop for loop, _ in a] == sorted(loop for loop, _ in a)
    rounds = [[point for loop, point in a if loop == i] for i in range(3)]
    assert all(sorted(r) == list(range(8)) for r in rounds)
    assert rounds[0] != rounds[1] or rounds[1] != rounds[2]


def a_terminal_sees_how_far_it_is():
    with folder():
        main, other = pty.openpty()
        process = subprocess.Popen([PENSTOCK, 'sweep', '--size', '16M', '--no-limit'],
                                   stdout=subprocess.DEVNULL, stderr=other)
        os.close(other)
        seen = b''
        with contextlib.suppress(OSError):
            while chunk := os.read(main, 65536):
                seen += chunk
        os.close(main)
        assert process.wait() == 0
        assert b'_ftd1_d' in seen and b'/s' in seen, seen[:500]


# ------------------------------------------------------------ logs, resumption

def a_stale_log_folder_is_refused():
    with folder():
        os.makedirs('logs/_aio_bench_read_logs')
        _, err = sweep(*SMALL, '--log-dir', 'logs', status=2)
        assert err.count('\n') == 1 and 'logs is not empty' in err, err
        assert os.listdir('.') == ['logs'] and os.listdir('logs') == ['_aio_bench_read_logs']
        os.mkdir('empty')
        sweep(*SMALL, '--log-dir', 'empty')
        _, err = sweep(*SMALL, '--log-dir', 'empty', status=2)
        assert 'not empty' in err


def interrupted_case(when, lines):
    """Stop it when its state has so many lines, and let it go on."""
    args = ['--size', '4M', '--block-size', '128K', '256K', '--queue-depth', 1, 2, 4, '--threads', 1, 2,
            '--sequential-requests', 'yes', '--single-submit', 'yes', '--iterations', 20, '--no-limit',
            '--engine', 'threads', '--log-dir', 'logs']

    def case():
        with folder():
            process = start(*args, '--json', 'one.json')
            state = os.path.join('logs', STATE)
            while not os.path.exists(state) or open(state).read().count('\n') < lines:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate()
            assert process.returncode == 130 and err.count('\n') == 1, (process.returncode, err)
            assert 'interrupted; --resume goes on' in err, err
            with open('one.json') as f:
                one = json.load(f)
            resultcheck.check(ROOT, one)
            assert one['partial'] and one['partial_why'] == 'interrupted'
            before = open(state).read()
            for name in logs('read', 'logs'):
                os.unlink(f'logs/_aio_bench_read_logs/{name}')  # as if it had been killed before
            with open(state, 'a') as f:
                f.write('{"point": 3, "lo')  # as a crash leaves it
            assert sorted(os.listdir('.')) == ['logs', 'one.json']

            two = result(*args, '--resume')
            assert not two['partial'], two['partial_why']
            assert len(two['series']) == 24 and all(s['ops'] == 20 for s in two['series'])
            assert open(state).read().startswith(before)
            assert len(logs('read', 'logs')) == len(logs('write', 'logs')) == 12
            # what the first one measured is in the second, as it was
            for s in one['series']:
                (t,) = [t for t in two['series'] if t['name'] == s['name']]
                assert not set(s['samples']) - set(t['samples']), s['name']
            # all measurements once, and the file was made twice
            done = sum(s['ops'] for s in one['series'] if s['kind'] == 'write')
            assert two['bytes_written'] == one['bytes_written'] + (12 * 20 - done + 1) * 4 * 2**20, \
                (one['bytes_written'], done, two['bytes_written'])
            assert two['bytes_written'] == (12 * 20 + 2) * 4 * 2**20, two['bytes_written']
    return f'a sweep that is interrupted {when} goes on where it was', case


def the_time_of_the_interrupted_sweep_counts():
    with folder():
        first = result(*SMALL)
        state = os.path.join('_aio_bench_logs', STATE)
        with open(state) as f:
            lines = f.read().splitlines()[:-1]
        assert 0 < json.loads(lines[3])['elapsed'] < json.loads(lines[-1])['elapsed'] < first['duration_sec'], lines
        lines[-1] = json.dumps(json.loads(lines[-1]) | {'elapsed': 5000})
        with open(state, 'w') as f:
            f.write('\n'.join(lines) + '\n')
        out, _ = sweep(*SMALL, '--resume')
        assert '\nresumed:    15 of 16 measurements were there, of 5000.0 s before\n' in out, out
        with open(state) as f:
            assert json.loads(f.read().splitlines()[-1])['elapsed'] > 5000
        again = result(*SMALL, '--resume')
        assert 5000 < again['duration_sec'] < 10000, again['duration_sec']


def another_sweep_cannot_be_resumed():
    with folder():
        sweep(*SMALL)
        for more, word in (['--iterations', 2], 'loops'), (['--seed', 5], 'seed'), \
                (['--read-only'], 'write'), (['--direct', 'never'], 'direct'), \
                (['--memory', 'plain'], 'axes'):
            _, err = sweep(*SMALL, '--resume', *more, status=2)
            assert err.count('\n') == 1 and f'another sweep: {word} differs' in err, err
        _, err = sweep(*SMALL, '--resume', '--log-dir', 'elsewhere', status=2)
        assert 'nothing to resume' in err and not os.path.exists('elsewhere'), err


def started(*args):
    """A sweep that would take long, with a measurement behind it."""
    process = start(*SMALL, '--iterations', 100000, '--log-dir', 'logs', *args)
    state = os.path.join('logs', STATE)
    while not os.path.exists(state) or open(state).read().count('\n') < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def a_sweep_can_be_repeated_in_one_place():
    with folder():
        sweep(*SMALL)
        _, err = sweep(*SMALL)
        assert err == 'penstock sweep: note: logs go to _aio_bench_logs-2: _aio_bench_logs has those of another sweep\n', err
        assert sorted(os.listdir('.')) == ['_aio_bench_logs', '_aio_bench_logs-2']
        with open(os.path.join('_aio_bench_logs-2', STATE)) as f:
            lines = f.readlines()
        with open(os.path.join('_aio_bench_logs-2', STATE), 'w') as f:
            f.writelines(lines[:-1])
        out, _ = sweep(*SMALL, '--resume')
        assert f'resumed:    {len(lines) - 3} of ' in out, out
        _, err = sweep(*SMALL, '--log-dir', '_aio_bench_logs', status=2)
        assert 'not empty' in err, err


def sweeps_that_begin_together_have_logs_of_their_own():
    with folder():
        all_of_them = [start(*SMALL, '--read-only') for _ in range(5)]
        for process in all_of_them:
            out, err = process.communicate()
            assert process.returncode == 0, (out, err)
        assert len(glob.glob('_aio_bench_logs*/' + STATE)) == 5, os.listdir('.')


def a_sweep_that_still_runs_cannot_be_resumed():
    with folder():
        process = started()
        second = start(*SMALL, '--iterations', 100000, '--log-dir', 'logs', '--resume')
        try:
            while second.poll() is None:  # a second process that begins makes a folder
                assert len(glob.glob('penstock-sweep-*')) == 1
                time.sleep(0.01)
            out, err = second.communicate()
            assert second.returncode == 2 and process.poll() is None, (second.returncode, process.poll())
            assert out == '' and err.count('\n') == 1 and 'the sweep is still running' in err, (out, err)
        finally:
            second.kill()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate()
        assert process.returncode == 130, (process.returncode, err)
        assert os.listdir('.') == ['logs']
        with open(os.path.join('logs', STATE)) as f:
            lines = [json.loads(line) for line in f]  # nobody wrote into another's lines
        assert all('sweep' in line or 'wear' in line or 'point' in line for line in lines), lines


def what_a_killed_sweep_left_is_removed_by_resume():
    with folder():
        os.mkdir('d')
        process = started('--target', 'd')
        process.kill()
        process.communicate()
        (left,) = os.listdir('d')
        os.mkdir('d/penstock-sweep-mine')  # of somebody else
        again = start(*SMALL, '--iterations', 100000, '--log-dir', 'logs', '--target', 'd', '--resume')
        state = os.path.join('logs', STATE)
        before = open(state).read().count('\n')
        while open(state).read().count('\n') < before + 3:
            assert again.poll() is None, again.communicate()
            time.sleep(0.01)
        again.send_signal(signal.SIGINT)
        again.communicate()
        assert left.startswith('penstock-sweep-') and os.listdir('d') == ['penstock-sweep-mine'], os.listdir('d')


def a_dry_run_of_a_resumption_counts_what_is_left():
    with folder():
        whole, _ = sweep(*SMALL, '--dry-run')
        assert planned(*SMALL) == 9 * 256 * 1024
        sweep(*SMALL)
        state = os.path.join('_aio_bench_logs', STATE)
        with open(state) as f:
            lines = f.read().splitlines()
        with open(state, 'w') as f:
            f.write('\n'.join(lines[:-3]) + '\n')  # all reads, and 5 of 8 writes
        out, _ = sweep(*SMALL, '--dry-run', '--resume')
        assert 'resumes:    13 of 16 are there, 3 are left\n' in out and 'resumes' not in whole, (out, whole)
        assert planned(*SMALL, '--resume') == 4 * 256 * 1024


def a_log_of_another_sweep_is_not_resumed_with():
    with folder():
        sweep(*SMALL)
        foreign = '_aio_bench_logs/_aio_bench_read_logs/read_block_overlap_ftd1_d77_bs1M_p1.txt'
        with open(foreign, 'w') as f:
            f.write('E2E Read Speed = 99.0 GB/sec\n')
        for more in [], ['--dry-run']:
            out, err = sweep(*SMALL, '--resume', *more, status=2)
            assert out == '' and err.count('\n') == 1 and foreign in err, (out, err)
        os.unlink(foreign)
        sweep(*SMALL, '--resume')


def a_folder_that_takes_no_files_is_bad_input():
    with folder():
        os.mkdir('d')
        for where in ['/proc'], ['d', '/proc']:
            out, err = sweep(*SMALL, '--target', *where, '--log-dir', 'logs', '--json', 'r.json', status=2)
            assert out == '' and err.count('\n') == 1 and '/proc' in err, (out, err)
            assert os.listdir('.') == ['d'] and os.listdir('d') == [], where
        out, err = sweep(*SMALL, '--target', 'd', '--log-dir', '/proc/logs', status=2)
        assert out == '' and err.count('\n') == 1 and ' --log-dir: /proc/logs' in err, (out, err)
        assert os.listdir('.') == ['d'] and os.listdir('d') == []


def a_failure_ends_it_with_one_line():
    with folder() as f:
        _, err = sweep(*SMALL, '--engine', 'fault:nth=3', '--json', 'r.json', status=1)
        assert err.count('\n') == 1 and 'data' in err, err
        with open('r.json') as file:
            r = json.load(file)
        resultcheck.validate(ROOT, r)
        assert r['partial']
        assert sorted(os.listdir(f)) == ['_aio_bench_logs', 'r.json']


# -------------------------------------------------------------------- refusals

BAD = {
    'neither reads nor writes': (['--write-only', '--read-only'], 'exclude each other'),
    'a folder that is missing': (['--target', 'no/such'], 'no/such'),
    'a file as a folder': (['--target', '/etc/passwd'], ' --target: /etc/passwd: is not a directory'),
    'a folder named twice': (['--target', '.', '/proc/self/cwd'], '/proc/self/cwd: is the same as .;'),
    'more than fits': (['--size', '1T'], 'not enough free space'),
    'no loops': (['--iterations', '0'], 'outside 1..'),
    'a size that does not parse': (['--size', 'much'], 'not a size'),
    'a block size that does not parse': (['--block-size', 'big'], "--block-size: 'big'"),
    'a block size that is odd': (['--block-size', '1000'], 'multiple of 512'),
    'a depth out of range': (['--queue-depth', '5000'], 'outside 1..4096'),
    'a value twice': (['--queue-depth', '4', '4'], 'there twice'),
    'an unknown engine': (['--engine', 'warp'], "'warp' is unknown"),
    'an unknown kind of memory': (['--memory', 'pink'], "--memory: 'pink'"),
    'an unknown way of submitting': (['--single-submit', 'twice'], "--single-submit: 'twice'"),
    'both ways and one of them': (['--single-submit', 'both', 'yes'], '--single-submit: a value is there twice'),
    'ds_io\'s engine beside others': (['--engine', 'aio_handle', 'null'], 'aio_handle is the first usable'),
    'GDS without a GPU': (['--gds'], '--gds goes with --gpu'),
    'a flush and none': (['--flush-page-cache', '--no-sudo'], 'exclude each other'),
    'a space that is missing': (['--sweep-config', 'none.json'], 'none.json'),
    'durable reads': (['--read-only', '--durability', 'data'], 'of writes, exclude each other'),
    'a flush before no read': (['--write-only', '--flush-page-cache'], 'of reads, exclude each other'),
    'a limit of what is not moved': (['--limit', '1G', '--engine', 'null'], 'which moves nothing, exclude'),
    'a limit and none': (['--limit', '1G', '--no-limit'], 'exclude each other'),
}

BAD_JSON = {
    'an unknown key': ('{"block_sizes": ["1M"]}', "unknown key 'block_sizes'"),
    'a value that is no list': ('{"block_size": "1M"}', 'not a list'),
    'a string for a flag': ('{"single_submit": ["true"]}', 'not true or false'),
    'a size that does not parse': ('{"block_size": ["1Q"]}', 'block_size'),
    'a list instead of an object': ('[1]', 'not an object'),
    'half a file': ('{"block_size": [', 'line 1'),
    'an empty list': ('{"queue_depth": []}', 'not a list of values'),
    'two sizes': ('{"io_size": ["1M", "2M"]}', 'io_size: cannot vary here: there is one size for all'),
    'a size of nothing': ('{"io_size": [0]}', 'io_size: 0 is outside 1..'),
    'a number of loops that is none': ('{"loops": ["3"]}', 'loops: is not a number'),
    'too many loops': ('{"loops": [100001]}', 'is outside 1..100000'),
    'a flag that is none': ('{"validate": [0]}', 'validate: is not true or false'),
    'validation': ('{"validate": [true]}', 'validate: cannot be had here'),
    'a file for each loop': ('{"different_file_each_iteration": [true]}', 'cannot be had here'),
    'a folder': ('{"folder": ["/tmp"]}', 'folder: is not a setting: use --target'),
    'a direction': ('{"read": [true]}', 'read: is not a setting: use --read-only or --write-only'),
    'an engine of torch': ('{"engine": ["torch_io"]}', 'not an engine of this build'),
    'a GPU and memory': ('{"gpu": [true], "memory": ["own"]}', 'gpu and memory exclude each other'),
    'GDS and an engine': ('{"gpu": [true], "use_gds": [true], "engine": ["null"]}', 'leave out engine'),
    'GDS without a GPU': ('{"use_gds": [true]}', 'use_gds goes with gpu only'),
    'an ignored option and a bad one': ('{"warmup_loops": [2], "depth": [1]}', "unknown key 'depth'"),
}


def a_gpu_asked_for_in_two_places_is_refused():
    with folder():
        with open('s.json', 'w') as f:
            f.write('{"memory": ["own", "plain"], "engine": ["null", "threads"]}')
        for args, message in (['--gpu'], '--gpu and memory of --sweep-config'), \
                (['--gds', '--gpu'], '--gpu and memory of --sweep-config'):
            _, err = sweep('--sweep-config', 's.json', *args, status=2)
            assert err.count('\n') == 1 and message in err, err


def bad_json_case(what):
    text, message = BAD_JSON[what]

    def case():
        with folder() as f:
            with open('s.json', 'w') as file:
                file.write(text)
            out, err = sweep('--sweep-config', 's.json', status=2)
            assert out == '' and err.count('\n') == 1 and message in err, (out, err)
            assert os.listdir(f) == ['s.json']
    return f'a space with {what} is refused with one line', case


def what_needs_a_gpu_is_status_3():
    with folder() as f:
        for args in ['--gpu'], ['--gpu', '--gds'], ['--memory', 'own', 'gpu']:
            process = start('--size', '64K', *args)
            _, err = process.communicate()
            if process.returncode == 0:
                raise tap.Skip('gpu', 'there is a GPU')
            assert process.returncode == 3 and err.count('\n') == 1, (process.returncode, err)
            assert os.listdir(f) == []


tap.run(
    the_default_space_is_that_of_ds_nvme_tune,
    a_dry_run_promises_no_less_than_is_written,
    the_limit_is_measured_between_the_points,
    every_point_is_there_once,
    the_best_is_the_fastest,
    the_logs_are_upstreams,
    a_sweep_json_of_upstream_is_understood,
    a_sweep_json_takes_every_option_of_ds_io,
    both_ways_have_a_word,
    an_engine_of_ds_io_is_the_first_usable,
    engines_and_memory_are_axes,
    the_null_engine_wears_nothing_and_has_no_limit,
    names_of_logs_know_k_and_m_only,
    several_folders_have_a_worker_each,
    the_text_has_a_table_and_a_heat_map,
    the_best_performance_is_that_of_one_configuration,
    what_was_not_measured_has_no_speed,
    an_interval_needs_three_loops,
    verbose_shows_all,
    a_page_can_be_had_at_once,
    loops_are_interleaved_in_an_order_of_the_seed,
    a_terminal_sees_how_far_it_is,
    a_stale_log_folder_is_refused,
    interrupted_case('while it reads', 20),
    interrupted_case('while it writes', 260),
    the_time_of_the_interrupted_sweep_counts,
    another_sweep_cannot_be_resumed,
    a_sweep_can_be_repeated_in_one_place,
    sweeps_that_begin_together_have_logs_of_their_own,
    a_sweep_that_still_runs_cannot_be_resumed,
    what_a_killed_sweep_left_is_removed_by_resume,
    a_dry_run_of_a_resumption_counts_what_is_left,
    a_log_of_another_sweep_is_not_resumed_with,
    a_folder_that_takes_no_files_is_bad_input,
    a_failure_ends_it_with_one_line,
    *sweep.refusals(BAD),
    *map(bad_json_case, BAD_JSON),
    a_gpu_asked_for_in_two_places_is_refused,
    what_needs_a_gpu_is_status_3,
)
