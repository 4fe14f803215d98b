#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock tune`, from outside: what it prints, writes, refuses and leaves behind.  tune.py PENSTOCK ROOT

Whether it finds the best settings is tests/unit/load/jobs/tune_race.c and tests/perf/tune.py.
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import glob
import json
import math
import re
import signal

import clikit
import resultcheck
import tap
from clikit import ROOT, save

resultcheck.need('jsonschema', 'openpyxl')

tune = clikit.Command('tune')
start = tune.start
SMALL = {'block_size': ['256K', '1M'], 'queue_depth': [4, 16], 'single_submit': [False, True]}
QUICK = ['--size', '4M', '--no-limit', '--budget', '3']


@contextlib.contextmanager
def folder():
    """An empty folder on a disk, current while it lasts; a job leaves nothing but what it was told to."""
    with tap.folder() as name:
        save('space.json', SMALL)
        yield name


def left():
    return sorted(os.listdir())


def the_summary_is_ds_nvme_tunes_and_the_JSON_a_configuration():
    with folder():
        out, _ = tune('--sweep-config', 'space.json', *QUICK)
        lines = out.splitlines()
        assert lines[0] == "Running DeepNVMe performance tuning on ['.']", lines[0]
        assert re.fullmatch(r'Best performance \(GB/sec\): read = +\d+\.\d\d, write = +\d+\.\d\d', lines[1]), lines[1]
        end = lines.index('}', 2)
        config = json.loads('\n'.join(lines[2:end + 1]))
        assert lines[3] == '   "aio": {', lines[3]
        aio = config['aio']
        assert set(aio) == {'single_submit', 'overlap_events', 'intra_op_parallelism', 'queue_depth', 'block_size'}
        assert isinstance(aio['single_submit'], bool) and aio['overlap_events'] is True
        assert aio['block_size'] in (256 << 10, 1 << 20) and aio['queue_depth'] in (4, 16), aio
        for word in ('goal:', 'search:', 'verdict:', 'mattered:', 'limit:', 'written:'):
            assert any(line.startswith(word) for line in lines[end:]), (word, lines)
        assert left() == ['space.json'], left()


def the_result_follows_the_schema_and_names_every_try():
    with folder():
        r = tune.result('--sweep-config', 'space.json', *QUICK)
        resultcheck.check(ROOT, r)
        t = r['tune']
        assert r['command'] == 'tune' and t['configurations'] == 8, t
        assert t['tried'] == len(t['contenders']) and len(r['series']) == 2 * t['tried']
        assert sum(c['probes'] for c in t['contenders']) == t['probes']
        assert t['winner'] in [c['name'] for c in t['contenders']]
        names = {s['name'] for s in r['series']}
        assert {f'read_{t["winner"]}', f'write_{t["winner"]}'} <= names, names
        assert r['series'][0]['name'] == f'read_{t["winner"]}'
        assert r['bytes_written'] >= sum(s['bytes_written'] for s in r['series']) > 0
        assert {i['name'] for i in t['importance']} == set(SMALL)
        for s in r['series']:
            assert s['cache'].startswith('cold') or s['kind'] == 'write' or s['ran']['direct'] != 'O_DIRECT', s['cache']


def what_it_writes_penstock_io_reads():
    with folder():
        tune('--sweep-config', 'space.json', *QUICK, '-o', 'best.json')
        with open('best.json', encoding='utf-8') as f:
            aio = json.load(f)['aio']
        process = clikit.start('io', '--config', 'best.json', '--size', '1M', '--iterations', '1', '--json', '-')
        out, err = process.communicate()
        assert process.returncode == 0, err
        ran = json.loads(out)['series'][0]['ran']
        assert ran['queue_depth'] == aio['queue_depth'] and ran['block_size'] == aio['block_size'], (ran, aio)
        assert ran['io_parallel'] == aio['intra_op_parallelism'], (ran, aio)


def io_refuses_a_configuration_it_does_not_understand():
    with folder():
        for text, says in (('{', 'line'), ('{}', "has no object 'aio'"), ('{"aio": {"depth": 3}}', "unknown member 'depth'"),
                           ('{"aio": {"queue_depth": "3"}}', 'queue_depth is not a number'),
                           ('{"aio": {"queue_depth": 0}}', 'queue_depth is not a number of 1..4096'),
                           ('{"aio": {"single_submit": "no"}}', 'neither true nor false'),
                           ('', 'is not JSON: line 1'),
                           ('{"aio": {"engine": "warp"}}', 'engine is none of this build'),
                           ('{"aio": {"use_gds": 1}}', 'neither true nor false'),
                           ('{"aio": {"thread_count": 0}}', 'thread_count is not a number of 1..256')):
            with open('c.json', 'w', encoding='utf-8') as f:
                f.write(text)
            process = clikit.start('io', '--config', 'c.json')
            _, err = process.communicate()
            assert process.returncode == 2 and says in err and err.count('\n') == 1, (text, err)


def io_ran(*args, **aio):
    """The settings of a run with this configuration and these options."""
    with open('c.json', 'w', encoding='utf-8') as f:
        json.dump({'aio': aio, 'zero_optimization': {}}, f)
    process = clikit.start('io', '--config', 'c.json', '--size', '1M', '--iterations', '1', '--json', '-', *args)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out)['series'][0]['settings']


def io_takes_the_names_and_words_of_other_tools():
    with folder():
        for name in 'intra_op_parallelism', 'thread_count', 'num_threads':
            s = io_ran(**{name: 3}, single_submit='true', overlap_events='false', use_gds='false')
            assert s['io_parallel'] == 3 and s['single_submit'] and s['sequential_requests'], s
            assert s['queue_depth'] == 32 and s['engine'] is None, s
        s = io_ran(single_submit='false', overlap_events='true')
        assert not s['single_submit'] and not s['sequential_requests'] and s['io_parallel'] == 1, s


def an_option_of_io_wins_over_the_configuration():
    with folder():
        aio = {'queue_depth': 7, 'block_size': 65536, 'thread_count': 3, 'single_submit': False,
               'overlap_events': True, 'use_gds': True}
        s = io_ran('--queue-depth', 32, '--block-size', '128K', '--threads', 1, '--single_submit',
                   '--sequential_requests', '--engine', 'aio_handle', **aio)
        assert (s['queue_depth'], s['block_size'], s['io_parallel']) == (32, 131072, 1), s
        assert s['single_submit'] and s['sequential_requests'] and s['engine'] is None, s
        s = io_ran('--engine', 'threads', **aio)
        assert (s['queue_depth'], s['block_size'], s['io_parallel'], s['engine']) == (7, 65536, 3, 'threads'), s


def every_goal_finds_a_winner():
    with folder():
        for goal in ('both', 'read', 'write', 'latency', 'cpu'):
            size = ['--size', '64K'] if goal == 'latency' else ['--size', '4M']
            r = tune.result('--sweep-config', 'space.json', '--goal', goal, *size, '--no-limit', '--budget', '3')
            resultcheck.check(ROOT, r)
            kinds = {s['kind'] for s in r['series']}
            assert kinds == ({goal} if goal in ('read', 'write') else {'read', 'write'}), (goal, kinds)
            assert (r['tune']['floor'] is not None) == (goal in ('latency', 'cpu')), r['tune']['floor']
            assert r['tune']['goal'] == goal and left() == ['space.json']


def exhaustive_measures_everything_as_often_as_asked_for():
    with folder():
        r = tune.result('--sweep-config', 'space.json', '--exhaustive', '--iterations', '3', '--size', '1M', '--no-limit')
        t = r['tune']
        assert t['end'] == 'all' and t['tried'] == 8 and t['probes'] == 24 and t['exhaustive'], t
        assert {c['probes'] for c in t['contenders']} == {3}


def what_was_not_measured_has_no_speed():
    with folder():
        for args, word in (['--read-only'], 'read'), (['--write-only'], 'write'), (['--goal', 'write'], 'write'), \
                (['--goal', 'read', '--read-only'], 'read'):
            out, _ = tune('--sweep-config', 'space.json', *QUICK, *args)
            assert re.search(rf'^goal: +{word}$', out, re.M), out
            assert re.search(rf'^Best performance \(GB/sec\): {word} = +\d+\.\d\d$', out, re.M), out


def the_floor_is_explained():
    with folder():
        args = ['--sweep-config', 'space.json', '--size', '64K', '--no-limit', '--budget', '1', '--goal', 'latency']
        number = r'\d+\.\d\d'
        for more, says in ([], f'{number} GiB/s of reading and writing together, 50 % of what the default settings did; '
                               f'the winner did {number}'), \
                (['--floor', '512M', '--write-only'], f'0.50 GiB/s, as --floor says; the winner did {number}'), \
                (['--floor', '900T'], '921600.00 GiB/s of reading and writing together, as --floor says; '
                                      f'the winner did {number}, as nothing faster was found'):
            out, _ = tune(*args, *more)
            (line,) = re.findall('^floor: +(.*)$', out, re.M)
            assert re.fullmatch(says + '(, as nothing faster was found)?', line), line


def check_claims(t):
    """Dropped is only what is behind by more than its interval; the numbers are those of the contenders."""
    dropped = [c for c in t['contenders'] if c['dropped_in_round'] is not None]
    for c in dropped:
        assert c['probes'] >= 2 and c['behind'] > 0.02 and math.log1p(c['behind']) > c['behind_margin'] and c['against'], c
    assert t['worse'] == len(dropped) and t['worse'] + t['equals'] + t['undecided'] == t['tried'], t
    untried = t['configurations'] - t['tried']
    assert t['end'] == 'budget' or (t['equals'] == 1) == (t['end'] == 'clear'), t
    assert len(t['any_of']) == t['equals'] and t['winner'] in t['any_of'] and t['leader'] in t['any_of'], t
    assert (t['equals'] > 1) == t['verdict'].startswith('any of these '), t['verdict']
    # it is over early for no other reason
    assert t['end'] != 'budget' or t['spent_sec'] >= t['budget_sec'] or 'may be written was used up' in t['verdict'], t
    for number, says in (untried, r'; (\d+) of \d+ configurations were not tried$'), (t['worse'], r'(\d+) others? .*at 95 %'), \
            (t['undecided'], r'; (\d+) promised less and '):
        said = re.search(says, t['verdict'])
        assert (int(said[1]) if said else 0) == number, (t['verdict'], number)
    for c in t['contenders']:
        assert (c['behind_margin'] is None) or c['probes'] >= 2, c


def the_verdict_claims_no_more_than_was_compared():
    big = {'block_size': ['64K', '128K', '256K', '512K'], 'queue_depth': [1, 4, 16, 64], 'io_parallel': [1, 2, 4, 8]}
    with folder():
        with open('big.json', 'w', encoding='utf-8') as f:
            json.dump(big, f)
        for args in ['--engine', 'null', '--size', '1M', '--goal', 'read'], ['--engine', 'threads', '--size', '2M', '--goal', 'read'], \
                ['--goal', 'latency', '--size', '64K']:
            t = tune.result('--sweep-config', 'big.json', '--no-limit', '--budget', '2', *args)['tune']
            check_claims(t)


def loops_without_a_walk_are_told_to_be_ignored():
    with folder():
        _, err = tune('--dry-run', '--iterations', '3')
        assert err == 'penstock tune: note: --iterations: ignored without --exhaustive: the race decides\n', err
        for args in ['--exhaustive', '--iterations', '3'], ['--exhaustive'], []:
            out, err = tune('--dry-run', '--sweep-config', 'space.json', *args)
            assert err == '', err
            assert ('3 probes of each' in out) == ('3' in args) and ('5 probes of each' in out) == (len(args) == 1), out


def a_space_may_say_what_is_the_same_for_all():
    with folder():
        with open('space.json', 'w', encoding='utf-8') as f:
            json.dump({'queue_depth': [1, 4], 'io_size': ['1M'], 'loops': [2], 'engine': ['aio_handle'], 'gpu': [False]}, f)
        r = tune.result('--sweep-config', 'space.json', '--exhaustive', '--no-limit')
        assert r['tune']['op_size'] == 1 << 20 and r['tune']['probes'] == 4, r['tune']
        r = tune.result('--sweep-config', 'space.json', '--exhaustive', '--no-limit', '--size', '2M', '--iterations', '3')
        assert r['tune']['op_size'] == 2 << 20 and r['tune']['probes'] == 6, r['tune']


def several_folders_work_at_once():
    with folder():
        os.mkdir('a')
        os.mkdir('b')
        r = tune.result('--folder', 'a', 'b', '--sweep-config', 'space.json', '--read-only', *QUICK)
        resultcheck.check(ROOT, r)
        assert [t['folder'] for t in r['targets']] == ['a', 'b']
        assert all('_ftd2_' in s['name'] and s['kind'] == 'read' for s in r['series'])
        for s in r['series']:
            probes = next(c['probes'] for c in r['tune']['contenders'] if s['name'].endswith(c['name']))
            assert s['bytes'] == 2 * probes * (4 << 20), s
        assert os.listdir('a') == os.listdir('b') == []


def the_limit_and_its_share_are_told():
    with folder():
        r = tune.result('--sweep-config', 'space.json', '--goal', 'read', '--size', '4M', '--limit', '1G', '--budget', '2')
        s = r['series'][0]
        assert s['limit']['bytes_per_sec'] == 1 << 30 and s['limit']['how'] == 'as given', s['limit']
        assert abs(s['limit']['share'] - s['bytes_per_sec'] / (1 << 30)) < 1e-9


def a_short_budget_is_mostly_for_the_race():
    with folder():
        for args in ['--budget', '2'], ['--budget', '1', '--size', '4M'], ['--budget', '1', '--goal', 'latency']:
            r = tune.result(*args)
            resultcheck.check(ROOT, r)
            assert r['tune']['probes'] > 0 and r['tune']['winner'], r['tune']
            how = {s['limit']['how'] for s in r['series']}
            assert how == {'not measured: the budget is too short for it'}, how
        # the time is over when the files are there, and still there is a result
        t = tune.result('--budget', '1', '--size', '512M', '--no-limit', '--max-write', '1T')['tune']
        assert t['probes'] > 0 and t['end'] == 'budget', t
        out, _ = tune('--sweep-config', 'space.json', '--budget', '4', '--size', '4M')
        assert re.search(r'^limit: .*plain p', out, re.M), out


def planned(*args):
    """Bytes that --dry-run says would be written at most."""
    out, err = tune('--dry-run', *args)
    assert not err and left() == ['space.json'], (err, left())
    return int(re.search(r'^would write: +at most .*\((\d+) bytes\)', out, re.M)[1])


def the_wear_is_bounded():
    with folder():
        for args in ['--no-limit', '--max-write', '100M'], ['--max-write', '600M'], \
                ['--no-limit', '--max-write', '600M', '--goal', 'cpu'], ['--read-only']:
            args = ['--sweep-config', 'space.json', '--size', '4M', '--budget', '3', *args]
            said = planned(*args)
            r = tune.result(*args)
            assert r['bytes_written'] <= said <= 600 << 20, (args, r['bytes_written'], said)
            assert r['tune']['end'] in ('budget', 'clear', 'tied'), r['tune']['end']


def an_exhaustive_search_writes_what_was_said():
    with folder():
        args = ['--sweep-config', 'space.json', '--exhaustive', '--iterations', '2', '--size', '4M']
        said = planned(*args, '--no-limit')
        assert said == (4 + 8 * 2 * 5) << 20, said
        assert tune.result(*args, '--no-limit')['bytes_written'] == said
        assert planned(*args) == said + (512 << 20), planned(*args)


def a_bound_that_no_measurement_keeps_is_refused():
    with folder():
        _, err = tune('--size', '16M', '--no-limit', '--max-write', '20M', status=2)
        assert 'max-write: 20 MiB is less than' in err and '33 MiB' in err and err.count('\n') == 1, err


def a_dry_run_creates_nothing():
    with folder():
        out, err = tune('--dry-run')
        assert 'configurations: 64' in out and 'would take:' in out and not err, out
        assert 'would write:    at most 8 GiB (8589934592 bytes), up to 1 GiB of it to measure the limit\n' in out, out
        assert left() == ['space.json']


def an_interruption_ends_with_what_is_known():
    with folder():
        process = start('--sweep-config', 'space.json', '--exhaustive', '--iterations', '1000000', '--size', '1M',
                        '--no-limit', '--verbose', '--json', 'r.json')
        while 'in the race' not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == 130 and 'interrupted' in err, (process.returncode, err)
        assert 'Best performance' in out, out
        with open('r.json', encoding='utf-8') as f:
            r = json.load(f)
        resultcheck.check(ROOT, r)
        assert r['partial'] and r['tune']['end'] == 'stopped', r['tune']['end']
        assert left() == ['r.json', 'space.json'], left()


def the_settings_can_be_the_output():
    with folder():
        out, err = tune('--sweep-config', 'space.json', *QUICK, '--output', '-')
        assert set(json.loads(out)) == {'aio'} and not err, (out, err)


def the_workbook_has_the_verdict():
    try:
        import openpyxl
    except ImportError:
        raise tap.Skip('openpyxl', 'python3-openpyxl is not installed')
    with folder():
        _, err = tune('--sweep-config', 'space.json', *QUICK, '--json', 'r.json', '--xlsx', 'r.xlsx')
        if 'libxlsxwriter' in err:
            raise tap.Skip('xlsxwriter', err.strip())
        about = {row[0]: row[1] for row in openpyxl.load_workbook('r.xlsx')['about'].values}
        with open('r.json', encoding='utf-8') as f:
            t = json.load(f)['tune']
    assert about['verdict'] == t['verdict'] and about['winner'] == t['winner'], about
    assert about['any_of.0'] == t['any_of'][0] and about['config.aio.queue_depth'] == t['config']['aio']['queue_depth'], about


def an_early_interruption_leaves_a_result_without_a_winner():
    with folder():
        process = start('--sweep-config', 'space.json', '--size', '1G', '--no-limit', '--max-write', '1T',
                        '--json', 'r.json', '--html', 'r.html', '--output', 'o.json')
        while not glob.glob('penstock-*/data'):
            assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == 130 and 'interrupted' in err, (process.returncode, err)
        with open('r.json', encoding='utf-8') as f:
            r = json.load(f)
        resultcheck.check(ROOT, r)
        assert r['partial'] and r['partial_why'] == 'interrupted' and r['series'] == [] and 'tune' not in r, r
        assert left() == ['r.html', 'r.json', 'space.json'], left()


def a_folder_that_takes_no_files_is_bad_input():
    with folder():
        os.mkdir('d')
        for where in ['/proc'], ['d', '/proc']:
            out, err = tune('--folder', *where, '--size', '1M', '-o', 'out.json', '--json', 'r.json', status=2)
            assert out == '' and err.count('\n') == 1 and '/proc' in err, (out, err)
            assert left() == ['d', 'space.json'] and os.listdir('d') == [], left()


def a_failed_measurement_leaves_no_settings():
    with folder():
        with open('space.json', 'w', encoding='utf-8') as f:
            json.dump({'engine': ['threads', 'fault:nth=1'], 'queue_depth': [1, 2, 4, 8]}, f)
        for seed in range(20):
            _, err = tune('--sweep-config', 'space.json', '--size', '1M', '--no-limit', '--seed', seed, '--exhaustive',
                          '-o', 'out.json', '--json', 'r.json', status=1)
            assert err.count('\n') == 1 and 'by fault' in err, err
            assert 'out.json' not in left(), left()
            if 'r.json' in left():
                return  # something had been measured before
        raise AssertionError('the failure always came first')


def the_engine_is_among_the_settings():
    with folder():
        args = ['--size', '1M', '--no-limit', '--budget', '1', '--json', 'r.json', '-o', 'best.json']
        for engine, more in ('threads', ['--sweep-config', 'space.json', '--engine', 'threads']), \
                ('threads', ['--sweep-config', 'engines.json']), (None, ['--sweep-config', 'space.json']):
            with open('engines.json', 'w', encoding='utf-8') as f:
                json.dump({'engine': ['threads'], 'queue_depth': [1, 4]}, f)
            tune(*args, *more)
            with open('r.json', encoding='utf-8') as f:
                resultcheck.check(ROOT, json.load(f))
            with open('best.json', encoding='utf-8') as f:
                aio = json.load(f)['aio']
            assert aio.get('engine') == engine, aio
            ran = io_ran(**aio)
            assert not engine or ran['engine'] == engine, ran


def an_exhaustive_search_says_how_long_it_takes():
    with folder():
        args = ['--dry-run', '--sweep-config', 'space.json', '--exhaustive', '--iterations', '2', '--size', '4M', '--no-limit',
                '--limit', '1M']
        out, err = tune(*[a for a in args if a != '--no-limit'])
        # the file once, then 8 configurations, 2 times, both directions, 1M of each to warm up
        assert f'2 probes of each configuration, about {4 + 8 * 2 * 2 * 5} s at 1 MiB per second (as --limit says)' in out, out
        assert err == '', err


def one_of_a_kind_is_told_so():
    with folder():
        with open('space.json', 'w', encoding='utf-8') as f:
            json.dump({'queue_depth': [4]}, f)
        out, _ = tune('--sweep-config', 'space.json', '--exhaustive', '--iterations', '1', '--size', '1M', '--no-limit')
        assert re.search(r'^search: +1 of 1 configuration in 1 round, 1 probe of ', out, re.M), out


def bad_command_lines_create_nothing():
    with folder():
        with open('file', 'w', encoding='utf-8') as f:
            f.write('x')
        spaces = {'[]': 'is not an object', '{': 'line', '{"depth": [1]}': "unknown key 'depth'",
                  '{"queue_depth": 3}': 'is not a list', '{"queue_depth": []}': 'is not a list',
                  '{"queue_depth": [0]}': 'is outside 1..4096', '{"queue_depth": ["x"]}': 'is not a number',
                  '{"block_size": [1000]}': 'is not a multiple of 512', '{"block_size": ["1X"]}': 'is not a size',
                  '{"single_submit": [1]}': 'is not true or false', '{"engine": ["warp"]}': 'is not an engine',
                  '{"queue_depth": [3, 3]}': 'twice', '{"multi_process": [2]}': 'multi_process: cannot be had here: one worker per folder',
                  '{"engine": ["torch_io"]}': 'is not an engine'}
        cases = [(['--folder', 'gone'], 'No such file'), (['--folder', 'file'], 'is not a directory'),
                 (['--folder', '.', '/proc/self/cwd'], 'name each folder once'),
                 (['--write-only', '--read-only'], 'exclude'), (['--goal', 'read', '--write-only'], 'exclude'),
                 (['--goal', 'both', '--read-only'], '--goal both and --read-only exclude'),
                 (['--goal', 'both', '--write-only'], '--goal both and --write-only exclude'),
                 (['--goal', 'write', '--read-only'], '--goal write and --read-only exclude'),
                 (['--exhaustive', '--budget', '60'], '--exhaustive and --budget exclude'),
                 (['--exhaustive', '--max-write', '1G'], '--exhaustive and --max-write exclude'),
                 (['--floor', '1G'], '--floor goes with'), (['--limit', '1G', '--no-limit'], 'exclude'),
                 (['--gpu', '--memory', 'own'], '--gpu and --memory own exclude'), (['--memory', 'soft'], "'soft' is not one of own"),
                 (['--budget', '0'], '--budget'), (['--iterations', '0'], '--iterations'), (['--size', 'big'], '--size'),
                 (['--size', '900G'], 'not enough'), (['--engine', 'warp'], '--engine'),
                 (['--sweep-config', 'gone.json'], "--sweep-config: 'gone.json' cannot be read: No such file"),
                 (['--sweep-config', '.'], "--sweep-config: '.' cannot be read: Is a directory"),
                 (['--sweep-config', 'engines.json', '--engine', 'null'], '--engine and engine of --sweep-config'),
                 (['-t', '5'], "unknown option '-t'"),
                 (['--output', 'r.json'], "--output and --json: 'r.json' can be only one"),
                 (['--output', '-', '--csv', '-'], '--output and --csv: only one'),
                 (['--output', 'no/such'], "--output: 'no/such' cannot be written"),
                 (['--json', 'no/such'], "--json: 'no/such' cannot be written")]
        with open('engines.json', 'w', encoding='utf-8') as f:
            json.dump({'engine': ['null', 'threads']}, f)
        for text, says in spaces.items():
            with open('bad.json', 'w', encoding='utf-8') as f:
                f.write(text)
            _, err = tune('--sweep-config', 'bad.json', status=2)
            assert err.count('\n') == 1 and says in err, (text, err)
        for args, says in cases:
            _, err = tune('-o', 'out.json', '--json', 'r.json', *args, status=2)
            assert err.count('\n') == 1 and says in err, (args, err)
        assert left() == ['bad.json', 'engines.json', 'file', 'space.json'], left()


tap.run(the_summary_is_ds_nvme_tunes_and_the_JSON_a_configuration, the_result_follows_the_schema_and_names_every_try,
        what_it_writes_penstock_io_reads, io_refuses_a_configuration_it_does_not_understand, every_goal_finds_a_winner,
        io_takes_the_names_and_words_of_other_tools, an_option_of_io_wins_over_the_configuration,
        exhaustive_measures_everything_as_often_as_asked_for, loops_without_a_walk_are_told_to_be_ignored,
        a_space_may_say_what_is_the_same_for_all,
        what_was_not_measured_has_no_speed, the_floor_is_explained, the_verdict_claims_no_more_than_was_compared, the_workbook_has_the_verdict, several_folders_work_at_once,
        the_limit_and_its_share_are_told, a_short_budget_is_mostly_for_the_race, the_wear_is_bounded, an_exhaustive_search_writes_what_was_said,
        a_bound_that_no_measurement_keeps_is_refused, a_dry_run_creates_nothing, an_interruption_ends_with_what_is_known,
        an_early_interruption_leaves_a_result_without_a_winner, the_settings_can_be_the_output,
        a_folder_that_takes_no_files_is_bad_input, a_failed_measurement_leaves_no_settings, the_engine_is_among_the_settings,
        an_exhaustive_search_says_how_long_it_takes, one_of_a_kind_is_told_so,
        bad_command_lines_create_nothing)
