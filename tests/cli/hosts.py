#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several ranks as one run.  hosts.py PENSTOCK ROOT LAUNCHER...

The launchers are those of MPI whose plug-in was built, "meet" for none, and "srun-pmix", "srun-pmi2" and "srun-meet": a Slurm of two
nodes is started for these (tools/slurm.sh).
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import collections
import contextlib
import csv
import glob
import json
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import resultcheck
from clikit import ROOT, PENSTOCK
from tap import Skip, folder, run

BUSY = 5  # tries of what a busy machine may upset; what is wrong is so in all of them

resultcheck.need('jsonschema')

LAUNCHERS = {
    'openmpi': ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none', '-n'],
    'mpich': ['mpirun.mpich', '-n'],
    # none: variables as srun has them, and where rank 0 is
    'meet': ['sh', '-c', 'r=0; all=; while [ $r -lt $1 ]; do SLURM_PROCID=$r; export SLURM_PROCID; (shift; exec "$@") & '
             'all="$all $!"; r=$((r + 1)); done; s=0; for p in $all; do wait $p || s=1; done; exit $s', 'meet'],
    **{f'srun-{how}': ['srun', '--mpi', 'none' if how == 'meet' else how, '-N', '2', '-n'] for how in ('pmix', 'pmi2', 'meet')},
}


def meet(host='127.0.0.1', ranks=2):
    with socket.socket() as s:
        s.bind(('', 0))
        return {'PENSTOCK_MEET': f'{host}:{s.getsockname()[1]}:{secrets.token_hex(16)}', 'SLURM_STEP_NUM_TASKS': str(ranks)}


def is_meet(mpi):
    return mpi.endswith('meet')


def is_pmix(mpi):
    """Its servers are reached over the network, which no other network namespace can."""
    return mpi in ('openmpi', 'srun-pmix')


NULL = ['io', '--engine', 'null', '-s', '1M', '--iterations', '2']


def launch(mpi, ranks, *args, env=None):
    return launch_words(mpi, ranks, PENSTOCK, *args, env=env)


def launch_words(mpi, ranks, *args, env=None):
    words = [*LAUNCHERS[mpi], ranks, *args]
    return subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, **(meet(ranks=ranks) if is_meet(mpi) else {}), **(env or {})})


def done(process, status=0):
    out, err = process.communicate()
    assert (process.returncode == 0) == (status == 0), (process.returncode, out, err)
    return out, err


def result(mpi, ranks, *args):
    """One result of all, right in itself."""
    out, err = done(launch(mpi, ranks, *args, '--json', 'all.json'))
    with open('all.json', encoding='utf-8') as f:
        j = json.load(f)
    resultcheck.check(ROOT, j)
    assert j['ranks']['how'] == 'mpi' and len(j['ranks']['members']) == ranks, j['ranks']
    assert out.count('by %d ranks' % ranks) == 1, out
    assert not j['partial']
    late = [of for s, of in zip(j['series'], j['ranks']['series']) if of['skew_sec'] > 0.01 * s['sec']]
    assert [of for of in j['ranks']['series'] if of['skewed']] == late and out.count('warning: ranks began') == len(late), out
    return j, out


def clocks_are_told(j, out):
    for i, m in enumerate(j['ranks']['members']):
        assert m['clock']['rank'] == i
        # processes of one host have one clock
        assert abs(m['clock']['offset_sec']) <= m['clock']['error_sec'] < 1, m
    assert out.count('clock: ') == len(j['ranks']['members']) - 1, out


def bench(mpi):
    j, out = result(mpi, 3, 'bench', '-s', '64K', '-n', '30', '--no-limit')
    for s, of in zip(j['series'], j['ranks']['series']):
        assert s['ops'] == 90 and len(s['interval']['turns']) > 1
        assert [r['share'] for r in of['rows']] == [1 / 3] * 3
    clocks_are_told(j, out)
    assert os.listdir('.') == ['all.json'], os.listdir('.')


def tables(mpi):
    """CSV and workbook have what the JSON has."""
    j, _ = result(mpi, 2, *NULL, '--csv', 'all.csv', '--xlsx', 'book.xlsx')
    with open('all.csv', encoding='utf-8', newline='') as f:
        rows = list(csv.DictReader(f))
    assert [(r['name'], int(r['ops']), int(r['bytes'])) for r in rows] == [(s['name'], s['ops'], s['bytes']) for s in j['series']] and rows, rows
    assert [float(r['latency_p50']) for r in rows] == [float(f"{s['latency']['percentiles']['p50']:.9g}") for s in j['series']], rows
    assert len(os.listdir('.')) == 3, os.listdir('.')  # CSV instead of a workbook where there is no libxlsxwriter


def io(mpi):
    """In one folder: each rank has files of its own."""
    os.mkdir('shared')
    j, _ = result(mpi, 2, 'io', '-f', 'shared', '-s', '1M', '--iterations', '3', '--keep', '--verify')
    assert j['series'][0]['ops'] == 6 and len(os.listdir('shared')) == 2, os.listdir('shared')
    j, _ = result(mpi, 16, *NULL)
    assert j['series'][0]['ops'] == 32, j['series']


def ranges_of_one_file(mpi):
    """It is there once, as long as what all have of it; each finds in its range what it has written there."""
    process = launch(mpi, 3, 'bench', '--shared', '-s', '100001', '--files', '4', '--runtime', '2', '-w', '--verify', '--json', 'all.json')
    seen = set()
    while process.poll() is None:
        with contextlib.suppress(OSError):
            seen |= {(name, os.path.getsize(name)) for name in glob.glob('penstock-bench-*/t*')}
        time.sleep(0.01)
    done(process)
    assert len({name for name, _ in seen}) == 1 and max(size for _, size in seen) == 3 * 4 * 102400, seen
    os.mkdir('shared')
    for words in ([], ['-r']):
        j, _ = result(mpi, 2, 'io', '-f', 'shared', '--shared', '-s', '1M', '--workers', '2', '--verify', *words)
        assert j['series'][0]['ops'] == 12 and j['series'][0]['verified_bytes'] > 0 and not os.listdir('shared'), j['series']
    result(mpi, 2, 'bench', '-f', 'shared', '--shared', '--random', '--span', '1M', '-s', '64K', '-n', '20', '--verify')
    assert not os.listdir('shared')


FORBID = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = b''.join(struct.pack('HBBI', *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 1, 425), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)))
kept = ctypes.create_string_buffer(code)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, struct.pack('HP', 4, ctypes.addressof(kept))):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


def only_rank(rank, *words):
    """A script that starts a rank by these words, and the others as they are."""
    with open('host.sh', 'w', encoding='utf-8') as f:
        f.write(f'[ ${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-$SLURM_PROCID}}}} = {rank} ] && exec {shlex.join(map(str, words))} "$@"\nexec "$@"\n')
    return 'sh', os.path.abspath('host.sh')


def hosts_that_fell_back_differently(mpi):
    """One has no io_uring: that is told, and no reason to throw away what all have measured."""
    words = ['bench', '-s', '64K', '-n', '20', '-w', '--no-limit', '--json', 'all.json']
    out, _ = done(launch_words(mpi, 2, *only_rank(1, sys.executable, '-c', FORBID), PENSTOCK, *words))
    with open('all.json', encoding='utf-8') as f:
        j = json.load(f)
    resultcheck.check(ROOT, j)
    s = j['series'][0]
    if s['ran']['engine'] in ('libaio', 'threads'):
        raise Skip('io_uring', 'no rank has io_uring')
    assert s['ops'] == 40 and re.match(r'differs: io_uring; rank 1 \(.*\): (libaio|threads)$', s['ran']['engine']), s['ran']
    assert f'note: engine {s["ran"]["engine"]}' in out and s['ran']['fallbacks'], (out, s['ran'])


def checkpoints(mpi):
    j, _ = result(mpi, 2, 'ckpt', 'bench', '-s', '1M', '-p', '1', '--saves', '2', '--loads', '2', '--methods', 'memory',
                  '--no-limit')
    assert j['ckpt']['processes'] == 2 and all(s['size'] == 2 << 20 and s['ops'] == 2 for s in j['series'])


def rows_of(*names):
    """Of traces: rows without their time, in any order."""
    rows = []
    for name in names:
        with open(name, encoding='utf-8') as f:
            rows += [line.split(',', 1)[1] for line in f.readlines()[1:]]
    return sorted(rows)


KV = ['kv', '--model', 'tiny-1b', '--num-users', '20', '--seed', '7', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0']


def kv(mpi):
    """All ranks together do what one does: the rows of their traces are its rows, for a seed that rank 0 has drawn, too."""
    words = [*KV, '--runtime', '60', '--disable-prefix-caching', '--io-trace-log', 't.csv', '--trace-extended']
    done(subprocess.Popen([PENSTOCK, *words, '--output', '/dev/null'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    j, _ = result(mpi, 3, *words)
    parts = [f't.rank-{i}.csv' for i in range(3)]
    assert rows_of(*parts) == rows_of('t.csv') and j['kv']['rows'] == len(rows_of('t.csv')) > 100, j['kv']
    assert sorted(os.listdir('.')) == ['all.json', 't.csv', *parts], os.listdir('.')
    # with prefix caching all but this: what one process reads of a system prompt, a rank may have to write first
    words.remove('--disable-prefix-caching')
    done(subprocess.Popen([PENSTOCK, *words, '--output', '/dev/null'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    result(mpi, 3, *words)
    one, many = (collections.Counter(rows_of(*names)) for names in (['t.csv'], parts))
    read, written = one - many, many - one
    assert sum(read.values()) > 0 and all(r.startswith('Read,') and ',kv_system_' in r for r in read), read
    assert collections.Counter(r.replace('Read,', 'Write,').replace(',Decode,', ',Prefill,') for r in read.elements()) == written, (read, written)
    words += ['--disable-prefix-caching']
    words.remove('--seed')
    words.remove('7')
    j, _ = result(mpi, 2, *words)
    words += ['--seed', str(j['settings']['seed'])]
    done(subprocess.Popen([PENSTOCK, *words, '--output', '/dev/null'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    assert rows_of(*parts[:2]) == rows_of('t.csv')


def kv_on_storage(mpi):
    """The same requests, however they are done; each rank has its own folder."""
    words = [*KV, '--generation-mode', 'none', '--runtime', '3600', '--max-requests', '20', '--storage-capacity-gb', '1', '--verify']
    os.mkdir('one')
    done(subprocess.Popen([PENSTOCK, *words, '--folder', 'one', '--json', 'one.json', '--output', '/dev/null'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    with open('one.json', encoding='utf-8') as f:
        one = json.load(f)
    j, _ = result(mpi, 2, *words, '--folder', 'many')
    assert j['kv']['requests'] == one['kv']['requests'] == 20 and j['kv']['tokens'] == one['kv']['tokens']
    assert [t['folder'].split('/')[-1] for t in j['targets']] == ['rank-0', 'rank-1'] and not os.path.exists('many'), j['targets']


def objects_below_a_mark(mpi):
    """The folders of ranks are below a striped one: objects are striped there, and go with their members."""
    for name in 'a', 'b':
        os.mkdir(name)
    subprocess.run([PENSTOCK, 'stripe', 'create', '--as-folder', '--unit', '64K', 'f', 'a', 'b'], check=True)
    before = [f for f in glob.glob('**', recursive=True, include_hidden=True) if os.path.isfile(f)]
    with open('t.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        f.writelines(f'{i * 1e-4:.6f},Write,300000,Tier-2,conv_{i}_turn_0,Prefill\n' for i in range(8))
    for words in (['--keep'], ['--fresh']):
        j, _ = result(mpi, 2, 'replay', 't.csv', '--target', 'f', '--verify', *words)
        assert j['series'][0]['ops'] == 8, j['series']
        kept = [f for f in glob.glob('f/rank-*/*') if os.path.isfile(f)]
        assert len(kept) == (8 if words == ['--keep'] else 0), kept
        for file in kept:
            told = json.loads(subprocess.run([PENSTOCK, 'stripe', 'info', '--json', '-', file], check=True, capture_output=True).stdout)[0]
            assert told['bytes'] == 300000 and told['good'] and len(told['members']) == 2, told
    now = [f for f in glob.glob('**', recursive=True, include_hidden=True) if os.path.isfile(f)]
    assert sorted(now) == sorted([*before, 'all.json', 't.csv']), now


def replay(mpi):
    with open('t.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        for i, op in enumerate(['Write', 'Read'] * 15):
            f.write(f'{i * 1e-4:.6f},{op},{512 << i // 2},Tier-2,conv_{i // 6}_turn_{i // 2},Decode\n')
    j, _ = result(mpi, 3, 'replay', 't.csv', '--target', 'x', '--verify', '--pace', 'flat-out')
    assert {s['name']: (s['ops'], s['bytes']) for s in j['series']} == {f'{op} Tier-2 Decode': (15, 512 * (2**15 - 1)) for op in ('Write', 'Read')}, j['series']
    assert j['replay']['rows'] == 30 and not os.path.exists('x'), j['replay']
    # sizes are powers of two, so what a rank has done tells its rows: each is of one rank, written and read, with its conversation
    masks = [[round((row['share'] or 0) * (2**15 - 1)) for row in of['rows']] for of in j['ranks']['series']]
    assert masks[0] == masks[1] and masks[0][0] | masks[0][1] | masks[0][2] == sum(masks[0]) == 2**15 - 1, masks
    assert all(mask >> 3 * conv & 7 in (0, 7) for mask in masks[0] for conv in range(5)) and max(masks[0]) < 2**15 - 1, masks
    # more ranks than there is to do
    with open('t.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n0.0,Write,4096,Tier-2,k,Prefill\n')
    j, _ = result(mpi, 3, 'replay', 't.csv', '--target', 'x')
    assert [s['ops'] for s in j['series']] == [1], j['series']


def bad_command_line(mpi):
    """Each rank says what is wrong with it, and nobody waits for another."""
    _, err = done(launch(mpi, 2, 'bench', '-s', 'x'), status=2)
    assert "'x' is not a size" in err, err
    _, err = done(launch(mpi, 2, *KV, '--io-trace-log', '-'), status=2)
    assert '--io-trace-log: each of several ranks has its own' in err, err
    _, err = done(launch(mpi, 2, *KV, '--enable-autoscaling'), status=2)
    assert '--enable-autoscaling: several ranks' in err, err
    _, err = done(launch(mpi, 2, 'replay', '-', '-f', 'null'), status=2)
    assert 'has to be a file' in err, err


def by_themselves(mpi):
    _, err = done(launch(mpi, 2, 'tune', '--nothing'), status=2)
    assert err.count('note: tune is no run of several ranks: each runs by itself') == 1, err
    out, _ = done(launch(mpi, 2, 'bench', '-s', '4K', '-n', '3', '-w', '--no-limit', env={'PENSTOCK_MPI': 'off'}))
    assert 'ranks' not in out and out.count('Write Statistics') == 2, out
    if mpi == 'srun-meet':
        out, err = done(launch(mpi, 2, *NULL, env={'PENSTOCK_MEET': ''}))
        assert 'ranks' not in out and err.count('srun has started several tasks without PMI') == 1, (out, err)
    if is_meet(mpi):
        _, err = done(launch(mpi, 2, 'bench', env={'PENSTOCK_MEET': 'here'}), status=1)
        assert 'PENSTOCK_MEET is not HOST:PORT:SECRET' in err, err
        for rank, says in (('2', 'SLURM_PROCID is 2, which is none of the 2 ranks of SLURM_STEP_NUM_TASKS'), (None, 'SLURM_PROCID is not set, ')):
            env = {k: v for k, v in {**os.environ, **meet(), 'SLURM_PROCID': rank}.items() if v is not None}
            one = subprocess.run([PENSTOCK, *NULL], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            assert one.returncode == 1 and says in one.stderr, one
        return
    _, err = done(launch(mpi, 2, 'bench', '-s', '4K', env={'PENSTOCK_MPI_PLUGIN': '/nothing.so'}), status=3)
    assert 'plug-in' in err and 'PENSTOCK_MPI=off' in err, err


def worker_of(rank, word):
    """The process of a rank that works: the child of the one that the launcher started."""
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as e, open(f'/proc/{pid}/cmdline', 'rb') as c, open(f'/proc/{pid}/stat') as s:
                if c.read().startswith(PENSTOCK.encode()) and re.search(rb'(OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID)=%d\0' % rank, e.read()):
                    if os.readlink(f'/proc/{pid}/cwd') == word:
                        found[int(pid)] = int(s.read().rsplit(')', 1)[1].split()[1])
        except OSError:
            pass
    return next((pid for pid, parent in found.items() if parent in found), None)


def held(process, pid, off, on):
    """Hold a rank for some of the time, to the end."""
    while process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(off)
            os.kill(pid, signal.SIGCONT)
        time.sleep(on)


def while_it_runs(mpi, *length, rank=1, ranks=3, host=(), env=None):
    """A run of three ranks that has begun, and the process of a rank."""
    here = os.path.realpath('.')
    process = launch_words(mpi, ranks, *host, PENSTOCK, 'bench', '-s', '64K', *(length or ('--runtime', '600')), '-w', '--rewrite', '--files', '4',
                           '--no-limit', '--json', 'all.json', env=env)
    seen, changes = {}, collections.Counter()  # files are filled, and then written to in the time that counts
    while not (pid := worker_of(rank, here)) or len(changes) < ranks or min(changes.values()) < 5:
        assert process.poll() is None, process.communicate()
        for folder in filter(os.path.isdir, glob.glob('penstock-bench*')):
            with contextlib.suppress(OSError):
                last = max((e.stat().st_mtime_ns for e in os.scandir(folder)), default=0)
                changes[folder] += seen.get(folder) != last
                seen[folder] = last
        time.sleep(0.05)
    return process, pid


def named_as_lost(process, why):
    _, err = done(process, status=1)
    assert not why or re.search(rf'rank 1 \(.*\) is lost: {why}', err), err
    with open('all.json', encoding='utf-8') as f:
        j = json.load(f)
    resultcheck.check(ROOT, j)
    assert j['partial'] and j['partial_why'].startswith('rank 1 ('), j['partial_why']
    assert j['series'][0]['ops'] > 0 and j['ranks']['members'][1]['lost'], j['ranks']
    return err


def a_slow_rank(mpi):
    """It does nothing four fifths of the time: it is in the first line."""
    here = os.path.realpath('.')
    for _ in range(BUSY):
        process = launch(mpi, 3, 'bench', '-s', '64K', '-n', '1500', '-w', '--rewrite', '--files', '4', '--no-limit', '--json', 'all.json')
        while not (pid := worker_of(1, here)) and process.poll() is None:
            time.sleep(0.02)
        held(process, pid, 0.04, 0.01)
        out, _ = done(process)
        with open('all.json', encoding='utf-8') as f:
            of = json.load(f)['ranks']['series'][0]
        if min(of['rows'], key=lambda row: row['bytes_per_sec'])['rank'] == 1:
            break
    assert of['slowest'] == 1 and min(of['rows'], key=lambda row: row['bytes_per_sec'])['rank'] == 1, of
    assert re.search(r'idle tail\n  rank 1 \(', out) and of['straggler_cost'] > 0, out


def a_rank_that_begins_late(mpi):
    """Rank 2 is held, so that the others wait for it, and rank 1 until the others have begun."""
    here = os.path.realpath('.')
    for _ in range(BUSY):
        process = launch(mpi, 3, 'bench', '-s', '64K', '--runtime', '3', '-w', '--rewrite', '--files', '4', '--no-limit', '--json', 'all.json')
        while not ((second := worker_of(2, here)) and (first := worker_of(1, here))) or \
                sum(n.startswith('penstock-bench') for n in os.listdir('.')) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        os.kill(second, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(first, signal.SIGSTOP)
        os.kill(second, signal.SIGCONT)
        time.sleep(1.5)
        os.kill(first, signal.SIGCONT)
        out, _ = done(process)
        with open('all.json', encoding='utf-8') as f:
            of = json.load(f)['ranks']['series'][0]
        if of['skewed']:
            break
    assert of['skewed'] and of['skew_sec'] > 0.1 and 'warning: ranks began' in out, of


def a_lost_rank(mpi):
    process, pid = while_it_runs(mpi)
    os.kill(pid, signal.SIGKILL)
    named_as_lost(process, 'its connection ended')


def rank_0_is_lost(mpi):
    """What the others have measured is in files of theirs, which can be added: they are of one run, on one clock."""
    process, pid = while_it_runs(mpi, rank=0)
    os.kill(pid, signal.SIGKILL)
    _, err = done(process, status=1)
    assert 'rank 0 is lost: its connection ended' in err and err.count('is in its own file beside') == 2, err
    # it could remove nothing of its own
    assert sorted(n for n in os.listdir('.') if not n.startswith('penstock-bench')) == ['all.rank-1.json', 'all.rank-2.json'], os.listdir('.')
    parts = []
    for i in 1, 2:
        with open(f'all.rank-{i}.json', encoding='utf-8') as f:
            parts.append(json.load(f))
        resultcheck.check(ROOT, parts[-1])
        assert parts[-1]['clock']['rank'] == i and parts[-1]['partial'] and parts[-1]['series'][0]['ops'] > 0, parts[-1]['partial_why']
    out = subprocess.run([PENSTOCK, 'merge', 'all.rank-1.json', 'all.rank-2.json', '--json', '-'], capture_output=True, check=True).stdout
    j = json.loads(out)
    resultcheck.check(ROOT, j)
    assert j['series'][0]['ops'] == sum(p['series'][0]['ops'] for p in parts) and j['partial']
    assert [m['clock'] for m in j['ranks']['members']] == [p['clock'] for p in parts]


def a_launcher_that_dies(mpi):
    """Nobody is left who wants the run: it stops, and what was measured is there.  With PENSTOCK_MEET who started a rank may leave."""
    if is_meet(mpi) or mpi.startswith('srun'):
        raise Skip(mpi, 'who started a rank is not the process that was started here')
    process, pid = while_it_runs(mpi)
    process.kill()
    process.communicate()
    while os.path.exists(f'/proc/{pid}') or not os.path.exists('all.json'):
        time.sleep(0.1)
    with open('all.json', encoding='utf-8') as f:
        assert json.load(f)['partial']


def a_rank_that_hangs(mpi):
    process, pid = while_it_runs(mpi)
    os.kill(pid, signal.SIGSTOP)
    err = named_as_lost(process, 'its connection ended')
    assert 'penstock: rank 1 gives no sign of life' in err, err
    assert not os.path.exists(f'/proc/{pid}')


@contextlib.contextmanager
def freezer(path):
    """A file system of its own; what is returned freezes it, and is called with False to thaw it."""
    image = f'{path}.img'
    with open(image, 'wb') as f:
        f.truncate(256 << 20)
    os.mkdir(path)
    for words in (['mkfs.ext4', '-q', image], ['mount', '-o', 'loop', image, path]):
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as e:
            raise Skip('mount', f'no file system can be mounted: {e}') from None

    def freeze(on=True):
        return subprocess.run(['fsfreeze', '-f' if on else '-u', path], check=on, capture_output=True)
    try:
        yield freeze
    finally:
        freeze(False)
        subprocess.run(['umount', '-l', path], check=False)


def in_its_own_folder(mpi, ranks, *args, env=None):
    with open('there.sh', 'w', encoding='utf-8') as f:
        f.write('cd ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}} && exec "$@"\n')
    return launch_words(mpi, ranks, 'sh', 'there.sh', PENSTOCK, *args, env=env)


def a_rank_whose_storage_hangs(mpi):
    """It lives, and its operations do not end: who waits for it gives it up.  It stops when it can."""
    os.mkdir('0')
    os.mkdir('2')
    with freezer('1') as freeze:
        process = in_its_own_folder(mpi, 3, 'bench', '-s', '64K', '-n', '10000', '-w', '--rewrite', '--files', '4', '--no-limit', '--json',
                                    '../all.json', env={'PENSTOCK_RANK_TIMEOUT': '4'})
        times = set()  # of its files: they are filled, and then written to in the time that counts
        while len(times) < 5:
            assert process.poll() is None, process.communicate()
            with contextlib.suppress(OSError):
                times |= {os.stat(name).st_mtime_ns for name in glob.glob('1/penstock-bench*/*')[:1]}
            time.sleep(0.02)
        freeze()
        said = ''
        while 'is lost' not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        freeze(False)
        err = said + named_as_lost(process, None)
    assert re.search(r'rank 1 \(.*\) is lost: nothing of it has moved for [0-9]+ s', err) and 'rank 0 is lost' not in err, err


def a_rank_with_a_pause(mpi):
    """It has nothing to do for longer than others would wait for one that hangs."""
    with open('t.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        f.writelines(f'0.0,Write,4096,Tier-2,k{i},Prefill\n' for i in range(20))
        f.write('7.0,Read,4096,Tier-2,k1,Decode\n')
    _, err = done(launch(mpi, 3, 'replay', 't.csv', '-f', 'x', env={'PENSTOCK_RANK_TIMEOUT': '2'}))
    assert 'lost' not in err, err


def a_rank_that_does_not_come(mpi):
    """It cannot tell how far it is: no program can that is started as a rank."""
    with open('late.py', 'w', encoding='utf-8') as f:
        f.write('import os, socket, sys, time\n'
                's = socket.socket(fileno=int(os.environ["PENSTOCK_RANKS_FD"])).makefile("rw")\n'
                'time.sleep(600 * s.readline().startswith("1 "))\n'
                's.write("gate\\n")\ns.flush()\ns.readline()\n')
    _, err = done(launch(mpi, 3, '--ranks', sys.executable, 'late.py', env={'PENSTOCK_RANK_TIMEOUT': '3'}), status=1)
    assert re.search(r'rank 1 \(.*\) is lost: the others have waited for it for [0-9]+ s', err), err
    _, err = done(launch(mpi, 2, *NULL, env={'PENSTOCK_RANK_TIMEOUT': 'x'}), status=1)
    assert "PENSTOCK_RANK_TIMEOUT: 'x' is no number of seconds" in err, err


def a_rank_that_failed(mpi):
    """All have the status of the one that did not find what it had written."""
    os.mkdir('x')
    with open('t.csv', 'w', encoding='utf-8') as f:
        f.write('Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n')
        f.writelines(f'0.0,Write,4096,Tier-2,k{i},Prefill\n' for i in range(20))
        f.write('0.0,Read,4096,Tier-2,missing,Decode\n')
    _, err = done(launch(mpi, 3, 'replay', 't.csv', '-f', 'x', '--missing', 'fail'), status=1)
    assert 'missing is read, but nothing has written it' in err, err


# ---- hosts of their own: namespaces for the network and for clocks

RELAY = """
import ctypes, fcntl, os, select, struct, sys, time
libc, ends, late = ctypes.CDLL(None, use_errno=True), [], []
for pid in sys.argv[1:3]:
    with open(f'/proc/{pid}/ns/net') as ns:
        if libc.setns(ns.fileno(), 0):
            sys.exit(os.strerror(ctypes.get_errno()))
    tun = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH14x', b'sl0', 0x1001))
    ends.append(tun)
print('ready', flush=True)
while True:
    wait = max(0, late[0][0] - time.monotonic()) if late else None
    for end in select.select(ends, [], [], wait)[0]:
        late.append((time.monotonic() + float(sys.argv[3]), ends[1 - ends.index(end)], os.read(end, 65536)))
    while late and late[0][0] <= time.monotonic():
        _, end, packet = late.pop(0)
        try:
            os.write(end, packet)
        except OSError:
            pass
"""


class TwoHosts:
    """Two network namespaces with a link between them that delays what goes through it."""

    def __init__(self, delay, *addresses):
        self.processes = []
        self.first = addresses[0].split('/')[0] if addresses else '127.0.0.1'
        if os.geteuid():
            raise Skip('root', 'network namespaces need root')
        try:
            self.hosts = [self.start('unshare', '-n', 'sh', '-c', 'echo ready; exec sleep infinity') for _ in addresses]
            if addresses:
                self.start(sys.executable, '-c', RELAY, *(h.pid for h in self.hosts), delay)
            for host, address in zip(self.hosts, addresses):
                for line in ('link set lo up', 'link set sl0 up', f'addr add {address} dev sl0' + ' nodad' * (':' in address)):
                    subprocess.run(['nsenter', f'--net=/proc/{host.pid}/ns/net', 'ip', *line.split()], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as e:
            self.close()
            raise Skip('netns', f'no network namespaces, or no TUN devices: {e}') from None

    def start(self, *words):
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        if process.stdout.readline() != 'ready\n':
            raise OSError(process.communicate()[1].strip() or 'no permission')
        return process

    def close(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def script(self, clocks):
        """What starts one rank on each; to the clock of rank 1 so many seconds are added."""
        shifted = f'unshare --time --monotonic {clocks} --fork' if clocks else ''
        with open('host.sh', 'w', encoding='utf-8') as f:
            first, second = [f'nsenter --net=/proc/{h.pid}/ns/net' for h in self.hosts] or ('', '')
            f.write(f'[ ${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-$SLURM_PROCID}}}} = 0 ] && exec {first} "$@"\nexec {second} {shifted} "$@"\n')
        return 'sh', 'host.sh'

    def cut(self):
        """What goes through the link from now on does not arrive, and nobody is told."""
        self.processes[-1].send_signal(signal.SIGSTOP)

    def run(self, mpi, clocks, *args):
        done(launch_words(mpi, 2, *self.script(clocks), PENSTOCK, *args, '--json', 'all.json', env=meet(self.first) if is_meet(mpi) else {}))
        with open('all.json', encoding='utf-8') as f:
            j = json.load(f)
        resultcheck.check(ROOT, j)
        return j


def a_slow_link_and_another_clock(mpi):
    """The offset is found, to within its bound, which is at least half of the way there and back."""
    if subprocess.run(['unshare', '--time', '--monotonic', '1', '--fork', 'true'], capture_output=True, check=False).returncode:
        raise Skip('timens', 'no time namespaces')
    apart = not is_pmix(mpi)
    two = TwoHosts(0.004, *['10.99.0.1/24', '10.99.0.2/24'] * apart)
    try:
        j = two.run(mpi, 1000, *NULL)
    finally:
        two.close()
    clock = j['ranks']['members'][1]['clock']
    assert abs(clock['offset_sec'] - 1000) <= clock['error_sec'] + 1e-6 and (clock['error_sec'] >= 0.004 or not apart), clock
    # on one clock they began together: not 1000 s apart
    assert abs(j['ranks']['series'][0]['skew_sec']) < 500, j['ranks']['series'][0]


def a_link_that_is_cut(mpi):
    """No end of the connection is told.  It is known in seconds, before the signs of life that fail to come would say so."""
    if is_pmix(mpi):
        raise Skip('netns', 'a launcher with PMIx cannot be reached from another network namespace')
    two = TwoHosts(0, '10.99.0.1/24', '10.99.0.2/24')
    try:
        process, _ = while_it_runs(mpi, ranks=2, host=two.script(0), env=meet(two.first) if is_meet(mpi) else {})
        two.cut()
        named_as_lost(process, 'its connection ended')
    finally:
        two.close()
    # who is on the other side of it keeps what it has
    with open('all.rank-1.json', encoding='utf-8') as f:
        assert json.load(f)['series'][0]['ops'] > 0


def no_ipv4_between_them(mpi):
    if is_pmix(mpi):
        raise Skip('netns', 'a launcher with PMIx cannot be reached from another network namespace')
    if is_meet(mpi):
        raise Skip('ipv6', 'PENSTOCK_MEET takes names of hosts, or addresses of IPv4')
    two = TwoHosts(0, 'fd00:99::1/64', 'fd00:99::2/64')
    try:
        j = two.run(mpi, 0, *NULL)
    finally:
        two.close()
    assert j['series'][0]['ops'] == 4, j['series']


@contextlib.contextmanager
def slurm():
    """A Slurm of two nodes, or the reason why there is none."""
    script = os.path.join(ROOT, 'tools', 'slurm.sh')
    with tempfile.TemporaryDirectory() as place:
        started = subprocess.run([script, 'start', '--nodes', '2', '--port', str(free_ports(3)), place], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, check=False)
        os.environ['SLURM_CONF'] = os.path.join(place, 'slurm.conf')
        try:
            yield started.stderr.strip().replace('\n', '; ') if started.returncode else None
        finally:
            subprocess.run([script, 'stop', place], capture_output=True, check=False)


def free_ports(nr):
    """The first of so many that follow each other."""
    for first in range(20000 + os.getpid() % 1000 * 10, 65000, nr):
        with contextlib.suppress(OSError), contextlib.ExitStack() as all_:
            for port in range(first, first + nr):
                all_.enter_context(socket.socket()).bind(('', port))
            return first
    raise AssertionError('no ports')


def case(mpi, function):
    def there():
        if not shutil.which(LAUNCHERS[mpi][0]):
            raise Skip(mpi, f'{LAUNCHERS[mpi][0]} is not there')
        with folder():
            function(mpi)
    return f'{mpi}: {function.__name__}', there


def main(launchers):
    run(*[case(mpi, f) for mpi in launchers for f in (
        bench, tables, io, ranges_of_one_file, hosts_that_fell_back_differently, checkpoints, kv, kv_on_storage, objects_below_a_mark, replay, bad_command_line, by_themselves, a_slow_rank,
        a_rank_that_begins_late, a_lost_rank, rank_0_is_lost, a_launcher_that_dies, a_rank_that_hangs, a_rank_whose_storage_hangs, a_rank_with_a_pause, a_rank_that_does_not_come, a_rank_that_failed,
        a_slow_link_and_another_clock, a_link_that_is_cut, no_ipv4_between_them)])


if any(mpi.startswith('srun') for mpi in sys.argv[3:]):
    with slurm() as missing:
        if missing:
            print(f'1..0 # SKIP {missing}')
        else:
            main(sys.argv[3:])
else:
    main(sys.argv[3:])
