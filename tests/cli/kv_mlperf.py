#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock kv mlperf`, from outside: what it runs, where results go, the summary.

    kv_mlperf.py PENSTOCK PACKAGE
"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import glob
import json
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time

import tap
from tap import Skip, folder

PENSTOCK, PACKAGE = map(os.path.abspath, sys.argv[1:])
# The least that is a run: a small model, few users, few requests, in whatever time they take.
SHORT = ['--runtime', '3600', '--delay', '0']
SMALL = ['--model=tiny-1b', '--num-users=2', '--storage-capacity-gb=1', '--max-requests=4']
SUMS = {'aggregated_read_bandwidth_gbps': 'cache_stats.tier_storage_read_bandwidth_gbps',
        'aggregated_write_bandwidth_gbps': 'cache_stats.tier_storage_write_bandwidth_gbps',
        'aggregated_avg_throughput_tokens_per_sec': 'avg_throughput_tokens_per_sec',
        'aggregated_storage_throughput_tokens_per_sec': 'storage_throughput_tokens_per_sec'}
WORST = {'aggregated_p95_latency_ms': 'storage_io_latency_ms.p95',
         'aggregated_device_read_p95_ms': 'cache_stats.storage_read_device_p95_ms',
         'aggregated_device_write_p95_ms': 'cache_stats.storage_write_device_p95_ms'}


def start(*args, cwd=None, **env):
    return subprocess.Popen([sys.executable, '-m', 'penstock', 'kv', 'mlperf', *map(str, args)], stdin=subprocess.DEVNULL, cwd=cwd,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, 'PYTHONPATH': PACKAGE, **env})


def meeting():
    """Where ranks find each other that no MPI has started."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return f'127.0.0.1:{s.getsockname()[1]}:{secrets.token_hex(8)}'


def start_ranks(size, *args):
    at = meeting()
    return [start('--folder', 'cache', '--results-dir', 'run', '--options', 1, *SHORT, *args, *SMALL, PENSTOCK_MEET=at,
                  OMPI_COMM_WORLD_RANK=str(r), OMPI_COMM_WORLD_SIZE=str(size)) for r in range(size)]


def mlperf(*args, status=0, **env):
    process = start(*args, **env)
    out, err = process.communicate()
    assert process.returncode == status, (args, process.returncode, out, err)
    return out, err


def load(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def at(result, path):
    for name in path.split('.'):
        result = result[name]
    return result


def results(option, trial, ranks):
    """The summaries of all ranks."""
    found = []
    for r in range(ranks):
        files = glob.glob(f'run/option_{option}/trial_{trial}/rank_{r}/kvcache_results_*.json')
        assert len(files) == 1 and re.search(r'_\d{8}_\d{6}\.json$', files[0]), files
        found.append(load(files[0]))
    return found


def check_option(o, option, trials, ranks):
    """The arithmetic of the summary, from the results themselves."""
    runs = [results(option, t, ranks) for t in range(1, trials + 1)]
    for name, path in SUMS.items():
        sums = [sum(at(r['summary'], path) for r in trial) for trial in runs]
        assert abs(o[name] - sum(sums) / trials) < 1e-9 * max(1, o[name]), (name, o[name], sums)
    for name, path in WORST.items():
        worst = max(at(r['summary'], path) for trial in runs for r in trial)
        assert o[name] == worst, (name, o[name], worst)
    assert (o['option'], o['rank_count'], o['trial_count']) == (option, ranks, trials), o
    assert o['partial_failure'] is False and o['missing_files'] == [] and o['cpu_tier_ranks'] == [], o
    assert sorted({r['seed'] for trial in runs for r in trial}) == [42 + r for r in range(ranks)]


def the_options_are_those_of_a_submission():
    with folder():
        out, err = mlperf('--folder', 'cache', '--dry-run')
        lines = [line for line in out.splitlines() if line.startswith('  penstock kv')]
        want = [('llama3.1-8b', 200, 0, 16), ('llama3.1-8b', 100, 4, 16), ('llama3.1-70b-instruct', 70, 0, 4)]
        assert len(lines) == 3 and not err and 'submission' not in out, out
        for line, (model, users, cpu, allocs) in zip(lines, want):
            for word in (f'--model={model}', f'--num-users={users}', '--runtime=300', '--gpu-mem-gb=0',
                         f'--cpu-mem-gb={cpu}', f'--max-concurrent-allocs={allocs}', '--generation-mode=none',
                         '--seed=42+RANK', '--folder=cache/rank_RANK'):
                assert word in line.split(), (word, line)
        assert os.listdir() == []


def a_run_leaves_results_and_a_summary():
    with folder():
        out, err = mlperf('--folder', 'cache', '--results-dir', 'run', '--iterations', 2, '--options', '1,3', *SHORT, *SMALL)
        s = load('run/summary.json')
        assert list(s) == ['schema_version', 'run_datetime', 'npernode', 'host_count', 'total_ranks', 'trials_per_option',
                           'options', 'partial_failure', 'penstock'], list(s)
        assert s['schema_version'] == '1.0' and s['partial_failure'] is False and s['trials_per_option'] == 2
        assert (s['npernode'], s['host_count'], s['total_ranks']) == (1, 1, 1)
        assert load(f'run/kvcache_run_summary_{s["run_datetime"]}.json') == s
        assert list(s['options']) == ['1', '3']
        for option in 1, 3:
            check_option(s['options'][str(option)], option, 2, 1)
        assert s['penstock']['as_submitted'] is False
        for word in ('--runtime', '--iterations', 'options'):
            assert word in s['penstock']['why_not'] and word in out, out
        assert err.splitlines() == [f'option {o} ({n}), trial {t} of 2, 1 rank' for o, n in
                                    ((1, 'Max Storage Stress'), (3, 'Large Model')) for t in (1, 2)], err
        assert not os.path.exists('cache'), os.listdir('cache')
        with open('run/option_1/trial_1/rank_0/kv.log', encoding='utf-8') as f:
            assert 'Requests completed' in f.read()


def several_ranks_are_added_up():
    with folder():
        os.mkdir('cache')
        mlperf('--folder', 'cache', '--results-dir', 'run', '--iterations', 1, '--options', 1, '--npernode', 2, *SHORT, *SMALL)
        s = load('run/summary.json')
        assert (s['npernode'], s['host_count'], s['total_ranks']) == (2, 1, 2)
        check_option(s['options']['1'], 1, 1, 2)
        assert os.listdir('cache') == [], 'ours must be gone, the folder itself was there'


def ranks_wait_for_each_other_and_the_first_writes_the_summary():
    """They need no folder that they share."""
    with folder():
        for names in (('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'), ('PMI_RANK', 'PMI_SIZE')):
            at = meeting()
            for r in range(3):
                os.mkdir(f'host{r}')
            ranks = [start('--folder', 'cache', '--results-dir', 'run', '--iterations', 2, '--options', 1, *SHORT, *SMALL, cwd=f'host{r}',
                           **{names[0]: str(r), names[1]: '3', 'OMPI_COMM_WORLD_LOCAL_SIZE': '1', 'PENSTOCK_MEET': at}) for r in range(3)]
            outs = [p.communicate() for p in ranks]
            assert [p.returncode for p in ranks] == [0, 0, 0], outs
            assert 'Summary' in outs[0][0] and outs[1] == outs[2] == ('', ''), outs
            for r in 1, 2:
                assert os.listdir(f'host{r}/run') == ['option_1'], os.listdir(f'host{r}/run')
                for t in 1, 2:
                    os.rename(f'host{r}/run/option_1/trial_{t}/rank_{r}', f'host0/run/option_1/trial_{t}/rank_{r}')
            os.rename('host0/run', 'run')
            s = load('run/summary.json')
            assert (s['npernode'], s['host_count'], s['total_ranks']) == (1, 3, 3), s
            check_option(s['options']['1'], 1, 2, 3)
            assert not [n for n in os.listdir('run') if n.startswith('.')], os.listdir('run')
            subprocess.run(['rm', '-r', 'run', 'host0', 'host1', 'host2'], check=True)


def a_launcher_does_not_make_one_run_of_them():
    """Each rank is a run of its own, with its own seed, trial after trial."""
    for words in (['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none'], ['mpirun.mpich']):
        if not shutil.which(words[0]):
            raise Skip('mpi', f'{words[0]} is not there')
        with folder():
            done = subprocess.run([*words, '-n', '2', sys.executable, '-m', 'penstock', 'kv', 'mlperf', '--folder', 'cache',
                                   '--results-dir', 'run', '--options', '1', *SHORT, *SMALL, '--iterations', '2'], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False, env={**os.environ, 'PYTHONPATH': PACKAGE})
            assert done.returncode == 0, done
            check_option(load('run/summary.json')['options']['1'], 1, 2, 2)


def what_is_in_memory_is_named():
    with folder():
        mlperf('--folder', 'cache', '--results-dir', 'run', '--iterations', 1, '--options', 1, *SHORT, '--', *SMALL, '--cpu-mem-gb=2')
        o = load('run/summary.json')['options']['1']
        assert o['cpu_tier_ranks'] == [0] and o['aggregated_device_read_p95_ms'] is None, o
        assert o['aggregated_read_bandwidth_gbps'] == 0 and o['aggregated_p95_latency_ms'] > 0, o


def a_run_that_fails_is_missing_and_told():
    with folder():
        os.mkdir('cache')
        os.mkdir('cache/rank_1')
        with open('cache/rank_1/precious.txt', 'w', encoding='utf-8') as f:
            f.write('not ours')
        out, err = mlperf('--folder', 'cache', '--results-dir', 'run', '--iterations', 1, '--options', 1, '--npernode', 2,
                          *SHORT, *SMALL, status=1)
        s = load('run/summary.json')
        o = s['options']['1']
        assert s['partial_failure'] and o['partial_failure'] and o['missing_files'] == ['option_1/trial_1/rank_1'], o
        assert s['trial_failures'] == [{'option': 1, 'trial': 1, 'rank': 1, 'exit_status': 1}], s['trial_failures']
        assert o['rank_count'] == 2 and o['trial_count'] == 1 and o['aggregated_read_bandwidth_gbps'] > 0
        assert 'incomplete' in out and 'rank_1: exit status 1' in err and 'kv.log' in err, (out, err)
        with open('cache/rank_1/precious.txt', encoding='utf-8') as f:
            assert f.read() == 'not ours'
        with open('run/option_1/trial_1/rank_1/kv.log', encoding='utf-8') as f:
            assert 'precious.txt' in f.read()


def a_rank_of_the_front_end_runs_once():
    with folder():
        out, _ = mlperf('--rank-output-base', 'out', '--rank-cache-base', 'cache', '--start-delay', 0, '--end-delay', 0,
                        '--seed-base', 7, *SMALL, '--runtime=3600', '--generation-mode=none', '--gpu-mem-gb=0',
                        '--cpu-mem-gb=0', OMPI_COMM_WORLD_RANK='5')
        names = os.listdir('out/rank_5')
        assert len(names) == 1 and re.fullmatch(r'kvcache_results_\d{8}_\d{6}\.json', names[0]), names
        r = load(f'out/rank_5/{names[0]}')
        assert r['seed'] == 12 and r['penstock']['settings']['folder'] == 'cache/rank_5', r['seed']
        assert 'Requests completed' in out
        _, err = mlperf('--rank-output-base', 'out', '--rank-cache-base', 'cache', '--start-delay', 0, '--end-delay', 0,
                        '--num-users', 0, status=1)
        assert '--num-users: 0' in err, err


def a_rank_that_completed_nothing_is_no_missing_file():
    with folder():
        out, err = mlperf('--folder', 'cache', '--results-dir', 'run', '--iterations', 1, '--options', 1, '--delay', 0, '--runtime', 1,
                          '--model', 'tiny-1b', '--num-users', 2, '--storage-capacity-gb', 1, '--generation-mode', 'realistic')
        s = load('run/summary.json')
        o = s['options']['1']
        assert o['missing_files'] == [] and not o['partial_failure'] and o['trial_count'] == 1, o
        assert o['aggregated_read_bandwidth_gbps'] == 0 and o['aggregated_p95_latency_ms'] is None, o
        assert s['penstock']['without_requests'] == ['option_1/trial_1/rank_0'] and 'incomplete' not in out, s
        assert 'option_1/trial_1/rank_0: no request was completed' in err, err


def child_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
        return int(f.read().split()[0])


def killed(generation):
    """Three ranks; of rank 1 a process is killed in its second trial: the rank itself, or the command that is its child."""
    ranks = start_ranks(3, '--iterations', 3)
    while 'trial 2' not in ranks[0].stderr.readline():
        pass
    pid = ranks[1].pid
    for _ in range(generation):
        pid = child_of(pid)
    os.kill(pid, signal.SIGKILL)
    outs = [p.communicate() for p in ranks]
    assert all(p.returncode for p in ranks), [p.returncode for p in ranks]
    return outs, load('run/summary.json')


def when_a_rank_is_lost_the_others_stop():
    with folder():
        outs, s = killed(1)
        assert 'rank 1 (' in outs[0][1] and ' is lost: its connection ended' in outs[0][1], outs
        assert list(s['penstock']['lost_ranks']) == ['1'] and s['partial_failure'], s
        o = s['options']['1']
        assert o['trial_count'] < 3 and 'option_1/trial_3/rank_1' in o['missing_files'], o


def a_command_that_died_is_not_waited_for():
    with folder():
        outs, s = killed(2)
        o = s['options']['1']
        assert s['penstock']['lost_ranks'] == {'1': 'it ended without a result'}, s
        assert o['partial_failure'] and o['trial_count'] == 3, (o, outs)
        assert 'option_1/trial_3/rank_1' in o['missing_files'] and 'option_1/trial_3/rank_2' not in o['missing_files'], o


def a_summary_follows_no_link():
    with folder():
        os.mkdir('run')
        with open('theirs', 'w', encoding='ascii') as f:
            f.write('not ours')
        os.symlink(os.path.abspath('theirs'), 'run/summary.json.new')
        mlperf('--folder', 'cache', '--results-dir', 'run', '--iterations', 1, '--options', 1, *SHORT, *SMALL)
        check_option(load('run/summary.json')['options']['1'], 1, 1, 1)
        with open('theirs', encoding='ascii') as f:
            assert f.read() == 'not ours'


def failures_of_all_ranks_are_in_the_summary():
    with folder():
        os.makedirs('cache/rank_1/theirs')
        ranks = start_ranks(2, '--iterations', 1)
        outs = [p.communicate() for p in ranks]
        assert ranks[0].returncode == 1, outs
        s = load('run/summary.json')
        assert s['trial_failures'] == [{'option': 1, 'trial': 1, 'rank': 1, 'exit_status': 1}], s


def the_command_in_c_says_where_it_is():
    done = subprocess.run([PENSTOCK, 'kv', 'mlperf', '--folder', 'x', '--model', 'y'], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 3 and done.stdout.count('\n') == 1 and 'python3 -m penstock kv mlperf' in done.stdout, done


def an_interruption_ends_with_what_there_is():
    with folder():
        process = start('--folder', 'cache', '--results-dir', 'run', '--options', 1, '--iterations', 1000, *SHORT, *SMALL)
        while 'trial 2' not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130, process.returncode
        s = load('run/summary.json')
        assert s['partial_failure'] and 1 <= s['options']['1']['trial_count'] < 1000, s['options']['1']['trial_count']
        assert not os.path.exists('cache')


def bad_command_lines_create_nothing():
    with folder():
        os.makedirs('old/option_2')
        cases = [([], '--folder: is needed'), (['--folder', 'c', '--options', '4'], "'4' is not one of 1, 2, 3"),
                 (['--folder', 'c', '--options', '1,x'], "'x' is not one of"), (['--folder', 'c', '--iterations', '0'], '--iterations'),
                 (['--folder', 'c', '--results-dir', 'old'], 'has results already'),
                 (['--folder', 'c', '--iteratons', '1'], "did you mean '--iterations'?"),
                 (['--folder', 's3://bucket/kv'], 's3:// is not supported'), (['--folder'], 'needs a value'),
                 (['--rank-output-base', 'o'], 'go together')]
        for args, says in cases:
            _, err = mlperf(*args, status=2)
            assert says in err and err.count('\n') == 1, (args, err)
        _, err = mlperf('--folder', '/etc/kv', status=1)
        assert 'cannot be a system directory' in err
        at = meeting()
        ranks = [start('--folder', 'c', PENSTOCK_MEET=at, PMI_RANK=str(r), PMI_SIZE='2') for r in range(2)]
        assert '--results-dir: is needed' in ranks[0].communicate()[1] and ranks[0].returncode == 2
        ranks[1].communicate()
        _, err = mlperf('--folder', 'c', status=1, PENSTOCK_MEET='here', PMI_RANK='0', PMI_SIZE='2')
        assert 'PENSTOCK_MEET is not HOST:PORT:SECRET' in err, err
        _, err = mlperf('--folder', 'c', status=1, PMI_RANK='x')
        assert 'not a number' in err
        assert os.listdir() == ['old'], os.listdir()


if not glob.glob(f'{PACKAGE}/penstock/_penstock*.so'):
    print('1..0 # SKIP the Python package is not built')
    sys.exit()
def ranks(*words, **more):
    env = {k: v for k, v in more.items() if k.isupper()}
    return subprocess.Popen([PENSTOCK, '--ranks', *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env={**os.environ, **env}, **{k: v for k, v in more.items() if not k.isupper()})


def ranks_may_come_one_after_the_other():
    """Later than one that has met the others may be silent."""
    at = meeting()
    there = []
    for r in range(2):
        there.append(ranks('true', PENSTOCK_MEET=at, PMI_RANK=str(r), PMI_SIZE='2'))
        time.sleep(10 * (r == 0))
    outs = [p.communicate()[0] for p in there]
    assert [p.returncode for p in there] == [0, 0], outs


def a_program_has_its_status_where_children_are_ignored():
    p = ranks('false', preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    out = p.communicate()[0]
    assert p.returncode == 1, (p.returncode, out)


def ranks_that_cannot_meet_are_told():
    with folder():
        _, err = mlperf('--folder', 'cache', '--results-dir', 'run', *SHORT, *SMALL, status=1, SLURM_PROCID='1', SLURM_STEP_NUM_TASKS='2')
        assert 'PENSTOCK_MEET' in err and not os.path.exists('run'), err


def python(*words):
    """Any command that is written in Python: its status and what it says."""
    done = subprocess.run([sys.executable, '-m', 'penstock', *words], stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, 'PYTHONPATH': PACKAGE})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def words_of_the_user_are_told_harmlessly():
    """As harmless.py has it for the other commands."""
    evil = '\x1b]0;gotcha\x07\x1b[1A\u009b2J\u202egpj\u200b\r'
    with folder():
        for words in (['kv', 'mlperf', '--iterations', 'x' + evil], ['kv', 'mlperf', '--mod' + evil], ['kv', 'mlperf', '--folder', '/proc/' + evil],
                      ['kv', 'mlperf', '--dry-run', '--folder', 'c' + evil, '--results-dir', 'r' + evil],
                      ['s3', 'compare', '--foo' + evil], ['s3', 'compare', 's3://b/x', '--compare', 'b' + evil],
                      ['io', '--engine', 'torch_io', '--target', 'no' + evil, '--size', '1M']):
            status, out, err = python(*words)
            assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]', out + err), (words, out, err)
            assert '--dry-run' in words or status and '\\x1b]0;gotcha\\x07\\x1b[1A\\u009b2J\\u202egpj\\u200b\\x0d' in err, (words, status, out, err)


def output_that_cannot_be_written_is_told_once():
    """As names.py has it for the other commands."""
    dry = ['kv', 'mlperf', '--folder', 'c', '--results-dir', 'r', '--dry-run']
    read, closed = os.pipe()
    os.close(read)
    with folder(), open('/dev/full', 'wb') as full:
        for words in dry, ['kv', 'mlperf', '--help'], ['s3', 'compare', '--help'], ['io', '--engine', 'torch_io', '--help']:
            for unbuffered in '', '1':
                for out, says in (full, 'No space left on device'), (closed, 'Broken pipe'), (None, 'Bad file descriptor'):
                    done = subprocess.run([sys.executable, '-m', 'penstock', *words], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
                                          text=True, env={**os.environ, 'PYTHONPATH': PACKAGE, 'PYTHONUNBUFFERED': unbuffered},
                                          preexec_fn=None if out else lambda: os.close(1), check=False)
                    assert (done.returncode, done.stderr) == (1, f'penstock: standard output: {says}\n'), (words, done)
    os.close(closed)


def help_fits_a_terminal_of_24_lines():
    for words in ['kv', 'mlperf'], ['s3', 'compare']:
        status, out, err = python(*words, '--help')
        assert (status, err) == (0, '') and out.count('\n') <= 23 and max(map(len, out.splitlines())) <= 80, out
        assert python(*words, '--help-all') == python('help', *words) == (0, out, ''), out


tap.run(ranks_may_come_one_after_the_other, a_program_has_its_status_where_children_are_ignored, ranks_that_cannot_meet_are_told,
        the_options_are_those_of_a_submission, a_run_leaves_results_and_a_summary, several_ranks_are_added_up,
        ranks_wait_for_each_other_and_the_first_writes_the_summary,
        a_launcher_does_not_make_one_run_of_them, what_is_in_memory_is_named,
        a_run_that_fails_is_missing_and_told, a_rank_of_the_front_end_runs_once,
        a_rank_that_completed_nothing_is_no_missing_file, when_a_rank_is_lost_the_others_stop,
        a_command_that_died_is_not_waited_for, a_summary_follows_no_link, failures_of_all_ranks_are_in_the_summary,
        words_of_the_user_are_told_harmlessly, output_that_cannot_be_written_is_told_once, help_fits_a_terminal_of_24_lines, the_command_in_c_says_where_it_is, an_interruption_ends_with_what_there_is, bad_command_lines_create_nothing)
