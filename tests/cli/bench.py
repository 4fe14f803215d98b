#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock bench`, from outside: what it prints, measures, leaves behind and refuses.

    bench.py PENSTOCK ROOT
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import csv
import glob
import json
import pty
import re
import shutil
import signal
import subprocess
import time

import clikit
import resultcheck
import tap
from clikit import ROOT, PENSTOCK
from tap import folder

resultcheck.need('jsonschema', 'openpyxl')

bench = clikit.Command('bench')
start = bench.start
NUMBER = r'-?\d+\.\d+'
QUICK = ['--size', '64K', '--iterations', 20, '--no-limit']


def result(*args, **more):
    """Run it in an empty folder and return its JSON, checked."""
    with folder() as f:
        out, _ = bench('--target', f, '--json', '-', *args, **more)
        assert os.listdir(f) == [], os.listdir(f)
    r = json.loads(out)
    resultcheck.check(ROOT, r)
    return r


def series(r):
    return {s['name']: s for s in r['series']}


# ------------------------------------------------------------------- the text

def the_blocks_are_those_of_ds_aio_benchmark():
    with folder() as f:
        out, err = bench('--target', f, '--size', '64K', '256K', '--iterations', 25, '--threads', 2,
                         '--queue-depth', 8, '--block-size', '64K', '--no-limit')
    assert err == '', err
    for kind in 'Write', 'Read':
        block = [f'{kind} Statistics:']
        for what, digits, unit in ('Latency', 9, 's'), ('Bandwidth', 3, ' MB/s'):
            number = rf'-?\d+\.\d{{{digits}}}'  # an interval may reach below 0
            block += [rf'  {what} Mean: {number}{unit}', rf'  {what} Median: {number}{unit}',
                      rf'  {what} Std Dev: {number}{unit}',
                      rf'  {what} 95% CI: \({number}, {number}\)',
                      rf"  {what} Percentiles: \{{'50th': {number}, '90th': {number}, "
                      r"'99th': -\}"]
        assert len(re.findall('^' + '\n'.join(block) + '$', out, re.M)) == 2, out
    for name in 'write 64K', 'read 64K', 'write 256K', 'read 256K':
        assert re.search(rf'^{name}: 25 operations$', out, re.M), out


def the_text_and_the_json_agree():
    with folder() as f:
        out, _ = bench('--target', f, *QUICK, '--json', 'r.json')
        with open('r.json') as file:
            r = json.load(file)
        assert os.listdir(f) == ['r.json']
    for s in r['series']:
        block = out[out.index(f'{s["name"]}: 20'):]
        mean = float(re.search(rf'Latency Mean: ({NUMBER})s', block)[1])
        assert abs(mean - s['latency']['mean']) < 1e-9, (mean, s['latency'])
        speed = float(re.search(rf'Bandwidth Mean: ({NUMBER}) MB/s', block)[1])
        assert abs(speed - s['bandwidth']['mean'] / 1e6) < 1e-3, (speed, s['bandwidth'])
        assert re.search(r'Percentiles: p50 .*, p95 [\d.]+ .*, p99 -, p99.9 -, p99.99 -$', block, re.M), block
        assert 'Distribution: ' in block


def sizes_are_words_or_have_commas_between_them():
    for words in ['--size', '4K', '8K'], ['--size=4K', '8K'], ['--size', '4K,8K'], ['-s4K,8K']:
        r = result(*words, '-n', 3, '--no-limit')
        assert r['settings']['size'] == [4096, 8192], (words, r['settings'])
        assert words[0] in r['command_line'] and words[-1] in r['command_line'], r['command_line']


def percentiles_and_moments_are_those_of_the_samples():
    r = result('--size', '64K', '--iterations', 200, '--no-limit')
    for s in r['series']:
        assert s['latency']['exact'] and s['latency']['n'] == 200  # the rest is in resultcheck
        known = [name for name, value in s['latency']['percentiles'].items() if value is not None]
        assert known == ['p1', 'p5', 'p50', 'p90', 'p95', 'p99'], known


def what_one_iteration_does_not_tell_is_a_dash():
    r = result('--size', '4K', '--iterations', 1, '--no-limit')
    assert series(r)['read 4K']['latency']['stddev'] is None
    with folder():
        out, _ = bench('--size', '4K', '-n', 1, '--no-limit')
    assert 'Latency Std Dev: -\n  Latency 95% CI: (-, -)' in out and 'nan' not in out, out


def a_terminal_sees_both_bars_and_a_pipe_none():
    with folder() as f:
        main, other = pty.openpty()
        process = subprocess.Popen([PENSTOCK, 'bench', '--target', f, '--size', '8M', '-n', '60',
                                    '--no-limit'], stdout=subprocess.DEVNULL, stderr=other)
        os.close(other)
        seen = b''
        with contextlib.suppress(OSError):
            while chunk := os.read(main, 65536):
                seen += chunk
        os.close(main)
        assert process.wait() == 0
        assert b'Writes:' in seen and b'Reads:' in seen, seen
        assert b'/s' in seen, seen
        _, err = bench('--target', f, *QUICK)
        assert err == '', err


# ------------------------------------------------------------------- the work

def without_arguments_there_are_200_of_three_sizes():
    with folder() as f:
        out, _ = bench('--dry-run')
        assert os.listdir(f) == []
    for size in '2M', '8M', '32M':
        assert f'writes, then reads of {size}, 200 iterations each' in out, out
    assert re.search(r'^writes: +at most [\d.]+ GiB \(\d+ bytes\), up to 2 GiB of it to measure the limit$', out, re.M), out
    assert re.search(r'^time: +about \d+ s at ', out, re.M), out


def a_dry_run_counts_a_mix_once():
    with folder():
        for args, text in (['--iterations', 200], '200 iterations in all after 3'), (['--runtime', 9], '9 s in all'):
            out, _ = bench('--random', '--rwmix', 70, '--size', '64K', '--dry-run', *args)
            assert f'random reads and writes of 64K, {text}' in out, out


def planned(*args):
    """Bytes that --dry-run says would be written."""
    with folder() as f:
        out, _ = bench('--target', f, *args, '--dry-run')
        assert os.listdir(f) == []
    return int(re.search(r'^writes: .*\((\d+) bytes\)', out, re.M)[1])


def a_dry_run_knows_the_rate():
    with folder():
        out, _ = bench('--rate', '5M', '--iterations', 1, '--size', '1M', '--dry-run')
        assert re.search(r'^time: +about \d+ s at 5 MB/s \(as --rate says\)$', out, re.M), out
        assert ', 1 iteration each' in out, out
        out, _ = bench('--rate', '900G', '--dry-run')
        assert 'assumed' in out and 'as --rate says' not in out, out


def a_dry_run_promises_no_less_than_is_written():
    for more in [], ['--rewrite'], ['--read-only'], ['--write-only', '--verify'], ['--rwmix', 30], \
            ['--random', '--span', '8M'], ['--random', '--rwmix', 60, '--span', '8M']:
        args = ['--size', '64K', '1M', '-n', 40, '--no-limit', *more]
        said, written = planned(*args), result(*args)['bytes_written']
        room = 1.5 if '--rwmix' in more else 1.1  # how many of a mix are writes is drawn
        assert written <= said <= room * written, (more, said, written)


def the_limit_is_measured_with_few_writes_that_a_dry_run_tells():
    for args in ['--size', '64K', '-n', 20], ['--size', '8M', '-n', 100, '--write-only']:
        said, alone = planned(*args), planned(*args, '--no-limit')
        assert said == alone + max(alone, 512 << 20), (said, alone)
        written = result(*args)['bytes_written']
        assert alone - 100 <= written <= said, (alone, said, written)


def what_fio_writes_is_in_the_dry_run():
    if not shutil.which('fio'):
        raise tap.Skip('fio', 'fio is not installed')
    for more in [], ['--rewrite'], ['--read-only'], ['--rwmix', 50]:
        args = ['--size', '256K', '-n', 40, '--no-limit', '--compare-fio', *more]
        said, written = planned(*args), result(*args)['bytes_written']
        room = 1.5 if '--rwmix' in more else 1.15  # how many of a mix are writes is drawn
        assert written <= said <= room * written, (more, said, written)


def a_time_limit_says_that_it_is_no_bound():
    with folder():
        out, _ = bench('--runtime', 5, '--dry-run')
        assert re.search(r'^writes: +about .*; more on a faster device', out, re.M), out
        out, _ = bench('--runtime', 5, '--dry-run', '--rate', '1M', '--size', '1M')
        assert re.search(r'^writes: +at most ', out, re.M), out


def without_arguments_it_works_in_a_private_folder():
    with folder() as f:
        with open('mine', 'w') as file:
            file.write('precious')
        os.mkdir('sub')
        process = start('--size', '1M', '--no-limit')
        seen = set()
        while process.poll() is None:
            seen.update(os.listdir(f))
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert any(re.fullmatch(r'penstock-bench-\w{6}', name) for name in seen), seen
        assert sorted(os.listdir(f)) == ['mine', 'sub']
        with open('mine') as file:
            assert file.read() == 'precious'


def every_byte_is_verified():
    for more in [], ['--rewrite'], ['--in-flight', 4], ['--random', '--span', '1M'], \
            ['--rwmix', 50], ['--direct', 'never'], ['--memory', 'odd'], ['--memory', 'plain'], \
            ['--open-once'], ['--engine', 'threads'], \
            ['--random', '--rwmix', 30, '--in-flight', 3, '--span', '1M']:
        r = result('--size', '20K', '--iterations', 30, '--no-limit', '--verify', *more)
        assert sum(s['verified_bytes'] for s in r['series']) >= 20 * 1024 * 30, more
        assert sum(s['ops'] for s in r['series']) == (30 if '--rwmix' in more else 60), more


def verifying_is_not_in_the_cpu_time():
    def cpu(*more):
        r = result('--size', '4M', '-n', 100, '--no-limit', *more)
        return sum(s['cpu']['sec_per_gib'] for s in r['series'])
    plain, verified = cpu(), cpu('--verify')
    # it takes many times what moving the bytes takes
    assert verified < 3 * plain, (plain, verified)


def a_wrong_byte_is_found_and_named():
    with folder() as f:
        process = start('--size', '64K', '--iterations', 1000000, '--files', 3, '--no-limit',
                        '--verify', '--read-only')
        filled = 0
        while filled < 3:  # what is written into a file before may be all that it holds
            assert process.poll() is None, process.communicate()
            filled = 0
            for name in glob.glob('penstock-bench-*/tensor-?'):
                with open(name, 'rb') as file:
                    data = file.read()
                filled += len(data) == 65536 and data[:4096].count(0) < 64 and data[-4096:].count(0) < 64
        while process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                with open(glob.glob('penstock-bench-*/tensor-1')[0], 'r+b') as file:
                    file.seek(1000)
                    file.write(b'xx')
        out, err = process.communicate()
        assert process.returncode == 1, (out, err)
        assert 'tensor-1: offset 1000 holds 0x78' in err or 'tensor-1: offset 1001' in err, err
        assert os.listdir(f) == []


def a_failure_ends_the_run_and_leaves_a_partial_result():
    with folder() as f:
        _, err = bench(*QUICK, '--engine', 'fault:nth=5', '--json', 'r.json', status=1)
        assert err.count('\n') == 1 and 'tensor-' in err, err
        with open('r.json') as file:
            r = json.load(file)
        assert os.listdir(f) == ['r.json']
    resultcheck.validate(ROOT, r)
    assert r['partial'] and r['series'][-1]['partial'] and r['series'][-1]['errors'] == 1, r


def one_direction_alone():
    assert list(series(result(*QUICK, '--read-only'))) == ['read 64K']
    assert list(series(result(*QUICK, '--write-only'))) == ['write 64K']


def reads_of_files_that_had_to_be_made_count_as_wear():
    r = result(*QUICK, '--read-only')
    assert r['series'][0]['bytes_written'] == r['bytes_written'] == 20 * 65536, r['bytes_written']
    r = result(*QUICK, '--warmup', 5)
    assert series(r)['write 64K']['bytes_written'] == (25 + 3) * 65536  # one before each later repeat
    assert series(r)['read 64K']['bytes_written'] == 0


def a_mix_has_a_series_of_each_kind():
    r = result('--size', '16K', '--iterations', 400, '--no-limit', '--rwmix', 75)
    reads, writes = r['series']
    assert reads['kind'] == 'read' and writes['kind'] == 'write'
    assert reads['ops'] + writes['ops'] == 400 and 250 < reads['ops'] < 350, reads['ops']
    assert reads['sec'] == writes['sec'] and reads['cpu'] == writes['cpu'] and reads['cpu']['shared']


def one_seed_is_one_mix():
    counts = [result('--size', '4K', '-n', 100, '--no-limit', '--rwmix', 50, '--seed', seed)
              ['series'][0]['ops'] for seed in (1, 1, 2, 3, 4)]
    assert counts[0] == counts[1] and len(set(counts)) > 1, counts


def a_runtime_ends_in_time():
    r = result('--size', '64K', '--runtime', 1, '--no-limit', '--read-only')
    s = r['series'][0]
    assert s['ops'] > 0 and s['sec'] <= 1.000001 and not s['partial'], s['sec']
    assert r['settings']['iterations'] is None and r['settings']['runtime'] == 1


def a_runtime_makes_few_files():
    for size, seconds, files in ('4K', 1, 1024), ('4K', 8, 2048), ('1M', 1, 512), ('1M', 100, 2048), ('1G', 1, 1):
        with folder():
            out, _ = bench('--size', size, '--runtime', seconds, '--dry-run')
        assert re.search(rf'{size}, {seconds} s each, in {files} files?$', out, re.M), out
    with folder():
        out, _ = bench('--size', '4K', '--runtime', 1, '--files', 5000, '--dry-run')
    assert 'in 5000 files' in out, out


def the_time_around_the_series_is_told():
    with folder():
        out, _ = bench('--size', '64K', '--runtime', 1, '--no-limit', '--rwmix', 50, '--json', 'r.json')
        with open('r.json') as file:
            r = json.load(file)
    whole, measured = map(float, re.search(r'^time: +([\d.]+) s in all, ([\d.]+) s of it measured$', out, re.M).groups())
    assert abs(measured - r['series'][0]['sec']) <= 0.051, (measured, r['series'][0]['sec'])
    assert measured <= whole <= r['duration_sec'] + 0.051, (whole, r['duration_sec'])


def a_rate_is_not_exceeded():
    for more in ['-n', 3], ['--runtime', 1], ['-n', 6, '--in-flight', 3], ['-n', 6, '--rwmix', 50]:
        r = result('--size', '256K', '--no-limit', '--rate', '1M', *more)
        for s in r['series']:
            assert s['bytes_per_sec'] <= 2**20, (more, s['bytes_per_sec'])
            assert not s['ops'] or s['late']['max'] >= s['late']['mean'] >= 0
        if '--rwmix' in more:
            assert sum(s['bytes_per_sec'] for s in r['series']) <= 2**20, r['series']


def a_rate_is_not_exceeded_by_what_an_interruption_leaves():
    with folder():
        process = start('--size', '1M', '-n', 1000, '--warmup', 0, '--no-limit', '--rate', '4M', '--json', 'r.json')
        while not any(map(os.path.getsize, glob.glob('penstock-bench-*/tensor-1'))):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
        with open('r.json') as file:
            s = json.load(file)['series'][0]
    assert s['partial'] and s['ops'] >= 1 and s['bytes_per_sec'] <= 4 << 20, (s['ops'], s['bytes_per_sec'])


def fresh_files_and_overwriting_differ_in_wear():
    r = result(*QUICK, '--write-only', '--rewrite', '--files', 4, '--warmup', 0)
    assert r['bytes_written'] == (20 + 4) * 65536, r['bytes_written']
    assert r['settings']['rewrite'] is True
    r = result(*QUICK, '--write-only', '--files', 4, '--warmup', 0)
    assert r['bytes_written'] == 20 * 65536, r['bytes_written']


def what_ran_is_told():
    r = result(*QUICK, '--engine', 'threads', '--queue-depth', 7, '--threads', 3, '--direct', 'never',
               '--memory', 'plain', '--single-submit', '--sequential-requests', '--spare-cpu')
    for s in r['series']:
        ran = s['ran']
        assert (ran['engine'], ran['queue_depth'], ran['io_parallel']) == ('threads', 7, 3), ran
        assert ran['direct'] == 'page cache' and ran['path'] == 'host' and not ran['registered']
        assert s['settings']['memory'] == 'plain' and s['settings']['single_submit']
        assert s['settings']['sequential_requests']
    assert r['settings']['spare_cpu'] is True
    assert series(r)['read 64K']['cache'] in ('cold (dropped)',) or \
        series(r)['read 64K']['cache'].startswith('warm'), r['series'][1]['cache']
    assert r['machine']['cpus'] >= 1 and r['targets'][0]['file_system']


def settings_have_every_option_as_it_was_asked_for():
    done = subprocess.run([PENSTOCK, '--dump-options'], stdout=subprocess.PIPE, text=True, check=True)
    command, = (c for c in json.loads(done.stdout)['commands'] if c['name'] == 'bench')
    other = {'threads': 'io_parallel'}
    names = [o['name'].replace('-', '_') for o in command['options'] if o['group'] != 'Output']
    asked = result('--size', '64K', '-n', 2, '--random', '--no-limit')['settings']
    assert {other.get(n, n) for n in names} == set(asked), set(asked) ^ {other.get(n, n) for n in names}
    # what it chose itself, or what follows, was not asked for
    assert asked['files'] is asked['span'] is asked['limit'] is None, asked
    assert not asked['rewrite'] and not asked['open_once'] and not asked['compare_fio'] and asked['no_limit'], asked


def a_given_limit_gives_a_share():
    r = result('--size', '64K', '-n', 5, '--limit', '1T')
    for s in r['series']:
        assert s['limit']['how'] == 'as given' and s['limit']['bytes_per_sec'] == 2**40


def the_limit_is_measured():
    r = result('--size', '64K', '-n', 5)
    for s in r['series']:
        if s['ran']['direct'] != 'O_DIRECT':
            raise tap.Skip('direct', 'no O_DIRECT here')
        assert 0 < s['limit']['share'] <= 1 and ': plain p' in s['limit']['how'].replace(';', ':'), s['limit']
    assert r['bytes_written'] > sum(s['bytes_written'] for s in r['series'])


def a_limit_of_other_writes_is_told():
    for more, said in ([], True), (['--rewrite'], False), (['--limit', '1G'], False):
        with folder():
            out, _ = bench('--size', '64K', '-n', 5, '--write-only', *more)
        if 'O_DIRECT' not in out:
            raise tap.Skip('direct', 'no O_DIRECT here')
        assert out.count('fill fresh files') == said, out


def the_null_engine_wears_nothing_and_has_no_limit():
    args = ['--size', '64K', '-n', 50, '--engine', 'null']
    r = result(*args)
    assert r['bytes_written'] == 0 and planned(*args) == 0, r['bytes_written']
    for s in r['series']:
        assert s['bytes_written'] == 0 and s['ran']['direct'] == 'nothing moved', s
        assert s['limit']['bytes_per_sec'] is s['limit']['share'] is None, s['limit']
    # files that are made beforehand are real
    assert result(*args, '--read-only')['bytes_written'] == planned(*args, '--read-only') == 50 * 65536


def more_operations_than_samples():
    r = result('--size', '4K', '-n', 12000, '--no-limit', '--engine', 'null', '--random',
               '--span', '1M', '--read-only')
    s = r['series'][0]
    assert s['ops'] == 12000 and len(s['samples']) == 10000 and not s['latency']['exact']
    middle = resultcheck.percentile(s['samples'], 50)
    assert abs(middle / s['latency']['median'] - 1) < 0.1, (middle, s['latency']['median'])


def fio_does_the_same_work():
    if not shutil.which('fio'):
        raise tap.Skip('fio', 'fio is not installed')
    for more in [], ['--rwmix', 50], ['--random', '--span', '4M']:
        r = result('--size', '256K', '-n', 20, '--no-limit', '--compare-fio', *more)
        assert len(r['fio']) == (1 if '--rwmix' in more else 2), r['fio']
        for f in r['fio']:
            assert f['why_not'] is None and f['ratio_ci95'][0] <= f['ratio'] <= f['ratio_ci95'][1], f
            assert f['bytes_per_sec'] > 0 and f['ours_bytes_per_sec'] > 0, f
            assert {'--bs=262144', '--iodepth=1', '--io_size=1310720'} <= set(f['command_line']), f
            assert f['series'].endswith('256K of 50% reads' if '--rwmix' in more else '256K'), f
            assert '--random' in more or 'opens files beforehand' in f['differs'], f


def fio_has_the_files_of_the_turn_before():
    with folder() as f:
        os.mkdir('bin')
        with open('bin/fio', 'w') as file:
            file.write(f'#!/bin/sh\npwd >> {f}/log\nls >> {f}/log\necho "$@" >> {f}/log\n')
        os.chmod('bin/fio', 0o755)
        os.mkdir('data')
        bench('--target', 'data', '--size', '64K', '-n', 20, '--warmup', 0, '--no-limit', '--compare-fio', '--read-only',
              env={'PATH': f'{f}/bin:' + os.environ['PATH']})
        with open('log') as file:
            used = re.findall(r'--filename=(\S+)', file.read())
        assert used == [':'.join(f'tensor-{i}' for i in range(k, k + 5)) for k in (0, 5, 10, 15)], used


def the_line_of_fio_has_both_figures_and_their_ratio():
    if not shutil.which('fio'):
        raise tap.Skip('fio', 'fio is not installed')
    with folder():
        out, _ = bench('--size', '256K', '-n', 40, '--no-limit', '--compare-fio', '--random', '--span', '4M', '--rwmix', 60)
    assert re.search(r'^fio: +random read and write 256K of 60% reads: [\d.]+ MB/s, ours [\d.]+ MB/s; '
                     r'ratio [\d.]+ \([\d.]+ to [\d.]+ at 95 %\)', out, re.M), out


def size_of(text):
    """'7.8 GiB' to bytes, about."""
    number, unit = text.split()
    return float(number) * 1024 ** ['bytes', 'KiB', 'MiB', 'GiB'].index(unit)


def what_fio_writes_is_in_the_text():
    if not shutil.which('fio'):
        raise tap.Skip('fio', 'fio is not installed')
    with folder():
        out, _ = bench('--size', '256K', '-n', 40, '--no-limit', '--compare-fio', '--json', 'r.json')
        with open('r.json') as file:
            r = json.load(file)
    # ours and fio's
    assert r['bytes_written'] == (43 + 7 + 40) * 262144, r['bytes_written']
    assert resultcheck.near(size_of(re.search('^written: +(.*) in all$', out, re.M)[1]), r['bytes_written'], 0.01), out


def an_interruption_of_fio_leaves_a_partial_result():
    with folder() as f:
        os.mkdir('bin')
        with open('bin/fio', 'w') as file:
            file.write(f'#!/bin/sh\ntouch {f}/started\nexec sleep 100000\n')
        os.chmod('bin/fio', 0o755)
        os.mkdir('data')
        process = start('--target', 'data', *QUICK, '--write-only', '--compare-fio', '--json', 'r.json',
                        env={'PATH': f'{f}/bin:' + os.environ['PATH']})
        while not os.path.exists('started'):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == 130 and 'interrupted' in err and err.count('\n') == 1, err
        with open('r.json') as file:
            r = json.load(file)
        assert os.listdir('data') == []
    resultcheck.check(ROOT, r)
    assert r['partial'] and r['partial_why'] == 'interrupted', r['partial_why']
    assert [s['name'] for s in r['series']] == ['write 64K'] and r['fio'][0]['why_not'] == 'interrupted', r['fio']


def without_fio_it_says_so_first():
    with folder() as f:
        _, err = bench(*QUICK, '--compare-fio', status=3, env={'PATH': '/nonexistent'})
        assert err == 'penstock bench: --compare-fio: fio is not installed\n', err
        assert os.listdir(f) == []


# --------------------------------------------------------------------- files

def csv_and_workbook_have_what_the_json_has():
    try:
        import openpyxl
    except ImportError:
        raise tap.Skip('openpyxl', 'python3-openpyxl is not installed')
    with folder() as f:
        _, err = bench(*QUICK, '--json', 'r.json', '--csv', 'r.csv', '--xlsx', 'r.xlsx')
        if 'libxlsxwriter' in err:
            raise tap.Skip('xlsxwriter', err.strip())
        with open('r.json') as file:
            r = json.load(file)
        with open('r.csv', newline='') as file:
            rows = list(csv.DictReader(file))
        book = openpyxl.load_workbook('r.xlsx')
        sheet = list(book['series'].values)
        assert sorted(os.listdir(f)) == ['r.csv', 'r.json', 'r.xlsx']
    assert book.sheetnames == ['series', 'per second', 'histogram', 'about'], book.sheetnames
    assert len(rows) == len(r['series']) == len(sheet) - 1
    for s, row, line in zip(r['series'], rows, sheet[1:]):
        cells = dict(zip(sheet[0], line))
        assert list(cells) == list(row)
        assert row['latency_p99.9'] == '' and cells['latency_p99.9'] is None, (row, cells)
        for name, value in (('latency_p95', s['latency']['percentiles']['p95']),
                            ('bandwidth_mean', s['bandwidth']['mean']), ('bytes', s['bytes']),
                            ('latency_ci95_low', s['latency']['ci95'][0]),
                            ('cpu_sec_per_gib', s['cpu']['sec_per_gib'])):
            assert resultcheck.near(float(row[name]), value), (name, row[name], value)
            assert resultcheck.near(float(cells[name]), value), (name, cells[name], value)
        assert row['name'] == cells['name'] == s['name'] and row['kind'] == s['kind']
    counts = [line[3] for line in list(book['histogram'].values)[1:]]
    assert sum(counts) == sum(s['ops'] for s in r['series'])


def a_page_with_plots_can_be_had_at_once():
    with folder() as f:
        process = start(*QUICK, '--html', 'r.html')
        _, err = process.communicate()
        if process.returncode == 3:
            raise tap.Skip('chart', err.strip())
        assert process.returncode == 0, err
        with open('r.html') as file:
            assert 'write 64K' in file.read()
        assert os.listdir(f) == ['r.html']


def csv_can_be_the_output():
    with folder():
        out, _ = bench(*QUICK, '--csv', '-')
    assert [line.split(',')[0] for line in out.splitlines()] == ['name', 'write 64K', 'read 64K']


def a_result_that_cannot_be_written_is_noticed_first():
    with folder() as f:
        for option in '--json', '--csv', '--xlsx', '--html':
            for name, why in ('no/such/file', 'No such file'), ('.', 'Is a directory'), ('', 'No such file'):
                out, err = bench(*QUICK, option, name, status=2)
                assert err.count('\n') == 1 and f"{option}: '{name}' cannot be written: {why}" in err and not out, err
        assert os.listdir(f) == []


def a_full_device_is_called_so():
    with folder():
        for option in '--json', '--csv', '--html':
            _, err = bench('--size', '4K', '-n', 2, '--no-limit', option, '/dev/full', status=1)
            assert err == f"penstock bench: {option}: '/dev/full' was not written: No space left on device\n", err


def a_workbook_that_cannot_be_written_is_one_line():
    with folder() as f:
        _, err = bench('--size', '4K', '-n', 2, '--no-limit', '--xlsx', 'r.xlsx')
        if 'libxlsxwriter' in err:
            raise tap.Skip('xlsxwriter', err.strip())
        _, err = bench('--size', '4K', '-n', 2, '--no-limit', '--xlsx', '/dev/full', status=1)
        assert err == "penstock bench: --xlsx: '/dev/full' was not written: No space left on device\n", err
        assert os.listdir(f) == ['r.xlsx'], os.listdir(f)


def without_its_library_a_workbook_is_a_table():
    """A library of that name that is none stands for one that is missing."""
    with folder() as lib, folder() as f:
        for end in '', *(f'.{n}' for n in range(4, 11)):
            clikit.save(f'{lib}/libxlsxwriter.so{end}', '')
        environ = dict(os.environ, LD_LIBRARY_PATH=lib)
        work = '--target', f, '--size', '4K', '-n', 2, '--no-limit', '--xlsx', 'r.xlsx'
        _, err = bench(*work, '--csv', 'want.csv', env=environ)
        assert err == 'penstock bench: note: --xlsx: libxlsxwriter is not installed; the table is in r.csv\n', err
        assert clikit.load('r.csv') == clikit.load('want.csv')
        assert sorted(os.listdir(f)) == ['r.csv', 'want.csv'], os.listdir(f)
        clikit.save('r.csv', 'mine')
        _, err = bench(*work, env=environ, status=1)
        assert err == "penstock bench: --xlsx: libxlsxwriter is not installed, and 'r.csv' is there already\n", err
        assert clikit.load('r.csv') == b'mine'
        done = clikit.call('kv', '--io-trace-log', 'ops.csv', '--num-users', 3, '--runtime', 60, '--seed', 1,
                           '--model', 'tiny-1b', '--output', 'o.json', '--xlsx', 'k.xlsx', env=environ)
        assert done.returncode == 0, done
        assert '--xlsx: libxlsxwriter is not installed; the table is in k.csv\n' in done.err, done
        assert len(clikit.load('k.csv').splitlines()) == 2, clikit.load('k.csv')


def one_file_cannot_be_two_results():
    with folder() as f:
        with open('old', 'w') as file:
            file.write('x')
        os.symlink('old', 'link')
        for a, b in ('x', 'x'), ('x', './x'), ('x', f + '/x'), ('old', 'link'), ('-', '-'):
            for more in [], ['--dry-run']:
                _, err = bench(*QUICK, '--json', a, '--csv', b, *more, status=2)
                assert err.startswith('penstock bench: --json and --csv: ') and err.count('\n') == 1, err
        _, err = bench(*QUICK, '--html', 'x', '--xlsx', 'x', status=2)
        assert '--html and --xlsx' in err, err
        bench('--size', '4K', '-n', 2, '--no-limit', '--json', '/dev/null', '--csv', '/dev/null')
        assert sorted(os.listdir(f)) == ['link', 'old']


def a_failure_leaves_an_older_result_alone():
    with folder() as f:
        with open('r.json', 'w') as file:
            file.write('old')
        bench(*QUICK, '--json', 'r.json', '--engine', 'nonsense', status=2)
        with open('r.json') as file:
            assert file.read() == 'old'
        assert os.listdir(f) == ['r.json']


# ------------------------------------------------------------------- refusals

BAD = {
    'a size that does not parse': (['--size', '2M', 'lots'], "--size: 'lots'"),
    'a size of nothing': (['--size', '0'], "--size: '0'"),
    'a size that is there twice': (['--size', '1M', '1024K'], '1M is there twice'),
    'zero iterations': (['--iterations', '0'], "--iterations: '0' is outside"),
    'iterations that are no number': (['--iterations', 'x'], 'not a whole number'),
    'a folder that is missing': (['--target', 'no/such'], 'no/such'),
    'a file as a folder': (['--target', '/etc/passwd'], ' --target: /etc/passwd: is not a directory'),
    'more than fits': (['--size', '512G', '--files', '64'], 'not enough free space'),
    'reads only and writes only': (['--read-only', '--write-only'], 'exclude each other'),
    'a mix of reads only': (['--rwmix', '50', '--read-only'], 'exclude each other'),
    'a time and a number': (['--runtime', '1', '--iterations', '5'], 'exclude each other'),
    'a span without random places': (['--span', '1G'], '--span goes with --random'),
    'a span below the size': (['--random', '--span', '1M', '--size', '2M'], ' --span: 1M'),
    'a rate too low for the time': (['--rate', '1M', '--runtime', '5', '--size', '8M'],
                                    ' --rate: at 1M per second a tensor of 8M takes 8.0 s, but a series 5.0 s'),
    'a rate too low for the default': (['--rate', '1M'], '; give --iterations or --runtime'),
    'a limit and none': (['--limit', '1G', '--no-limit'], 'exclude each other'),
    'a check of what is not moved': (['--verify', '--engine', 'null'], 'which moves nothing, exclude'),
    'fio on files to be verified': (['--compare-fio', '--verify'], 'exclude each other'),
    'fio against what is not moved': (['--compare-fio', '--engine', 'null'], 'which moves nothing, exclude'),
    'reads that write over data': (['--read-only', '--rewrite'], 'exclude each other'),
    'durable reads': (['--read-only', '--durability', 'full'], 'of writes, exclude each other'),
    'locked memory of a GPU': (['--lock', '--memory', 'gpu'], 'exclude each other'),
    'a limit of what is not moved': (['--limit', '1G', '--engine', 'null'], 'which moves nothing, exclude'),
    'an empty size': (['--size', '1M,,2M'], 'there is an empty value'),
    'an unknown engine': (['--engine', 'warp'], "'warp' is unknown"),
    'a block size that is odd': (['--block-size', '1000'], 'multiple of 512'),
    'a depth out of range': (['--queue-depth', '0'], 'outside 1..4096'),
    'an unknown option': (['--sise', '1M'], "did you mean '--size'"),
    'an operand': (['somewhere'], 'not expected'),
    'all of a mix': (['--rwmix', '100'], 'outside 1..99'),
    'too few files to verify': (['--verify', '--files', '2', '--in-flight', '3'], ' --files: 2'),
    'two results on standard output': (['--json', '-', '--csv', '-'], 'only one'),
}


def a_folder_that_cannot_be_written_to_is_refused():
    if os.geteuid() == 0:
        args = ['--target', '/proc']
    else:
        args = ['--target', '/']
    _, err = bench(*args, status=2)
    assert err.count('\n') == 1, err


def gpu_memory_that_is_not_there_is_status_3():
    with folder() as f:
        process = start(*QUICK, '--memory', 'gpu')
        _, err = process.communicate()
        if process.returncode == 0:
            raise tap.Skip('gpu', 'there is a GPU')
        assert process.returncode == 3 and err.count('\n') == 1, err
        assert os.listdir(f) == []


# ------------------------------------------------------------------- stopping

def stopping_case(number, *args):
    def case():
        with folder() as f:
            process = start('--target', f, '--size', '256K', '--iterations', 100000000, '--files', 4,
                            '--no-limit', '--json', 'r.json', *args)
            while not glob.glob('penstock-bench-*/tensor-0') or \
                    not os.path.getsize(glob.glob('penstock-bench-*/tensor-0')[0]):
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate()
            assert process.returncode == 128 + number, (process.returncode, err)
            assert err.count('\n') == 1 and 'interrupted' in err, err
            assert os.listdir(f) == ['r.json'], os.listdir(f)
            with open('r.json') as file:
                r = json.load(file)
        resultcheck.check(ROOT, r)
        assert r['partial'] and r['partial_why'] == 'interrupted', r['partial_why']
        # nothing is in it when the signal came while files were being made
        assert not r['series'] or r['series'][-1]['partial'], r['series']
    return f'{number.name} with {" ".join(args) or "nothing"} leaves a partial result', case


tap.run(
    the_blocks_are_those_of_ds_aio_benchmark,
    the_text_and_the_json_agree,
    sizes_are_words_or_have_commas_between_them,
    percentiles_and_moments_are_those_of_the_samples,
    what_one_iteration_does_not_tell_is_a_dash,
    a_terminal_sees_both_bars_and_a_pipe_none,
    without_arguments_there_are_200_of_three_sizes,
    a_dry_run_counts_a_mix_once,
    a_dry_run_knows_the_rate,
    a_dry_run_promises_no_less_than_is_written,
    the_limit_is_measured_with_few_writes_that_a_dry_run_tells,
    what_fio_writes_is_in_the_dry_run,
    a_time_limit_says_that_it_is_no_bound,
    without_arguments_it_works_in_a_private_folder,
    every_byte_is_verified,
    verifying_is_not_in_the_cpu_time,
    a_wrong_byte_is_found_and_named,
    a_failure_ends_the_run_and_leaves_a_partial_result,
    one_direction_alone,
    reads_of_files_that_had_to_be_made_count_as_wear,
    a_mix_has_a_series_of_each_kind,
    one_seed_is_one_mix,
    a_runtime_ends_in_time,
    a_runtime_makes_few_files,
    the_time_around_the_series_is_told,
    a_rate_is_not_exceeded,
    a_rate_is_not_exceeded_by_what_an_interruption_leaves,
    fresh_files_and_overwriting_differ_in_wear,
    what_ran_is_told,
    settings_have_every_option_as_it_was_asked_for,
    a_given_limit_gives_a_share,
    the_limit_is_measured,
    a_limit_of_other_writes_is_told,
    the_null_engine_wears_nothing_and_has_no_limit,
    more_operations_than_samples,
    fio_does_the_same_work,
    fio_has_the_files_of_the_turn_before,
    the_line_of_fio_has_both_figures_and_their_ratio,
    what_fio_writes_is_in_the_text,
    an_interruption_of_fio_leaves_a_partial_result,
    without_fio_it_says_so_first,
    csv_and_workbook_have_what_the_json_has,
    a_page_with_plots_can_be_had_at_once,
    csv_can_be_the_output,
    a_result_that_cannot_be_written_is_noticed_first,
    a_full_device_is_called_so,
    a_workbook_that_cannot_be_written_is_one_line,
    without_its_library_a_workbook_is_a_table,
    one_file_cannot_be_two_results,
    a_failure_leaves_an_older_result_alone,
    *bench.refusals(BAD),
    a_folder_that_cannot_be_written_to_is_refused,
    gpu_memory_that_is_not_there_is_status_3,
    stopping_case(signal.SIGINT),
    stopping_case(signal.SIGTERM, '--in-flight', '4'),
    stopping_case(signal.SIGINT, '--rwmix', '50'),
)
