#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What crafted names in files may do to a terminal, a table or another program: nothing.  harmless.py PENSTOCK ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import json
import pty
import subprocess

import tap
from tap import in_folder

PENSTOCK, ROOT = map(os.path.abspath, sys.argv[1:3])

# Sets the title, goes up a line, one character that begins a sequence, turns the direction, is not seen.
EVIL = '\x1b]0;gotcha\x07\x1b[1A\u009b2J\u202egpj\u200b\r'
HEADER = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n'


def call(*args, status=0):
    done = subprocess.run([PENSTOCK, *args], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == status, (args, done)
    for out in (done.stdout, done.stderr):
        text = out.decode()      # strictly UTF-8
        bad = [c for c in text if c not in '\n\t' and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or c in '\u202e\u200b')]
        assert not bad, (args, bad, text)
    return done.stdout.decode(), done.stderr.decode()


def sample(name='bench'):
    with open(f'{ROOT}/tests/report/sample-{name}.json', encoding='utf-8') as f:
        return json.load(f)


def save(name, result):
    with open(name, 'w', encoding='utf-8') as f:
        json.dump(result, f)
    return name


def on_terminal(*args):
    terminal, inner = pty.openpty()
    process = subprocess.Popen([PENSTOCK, *args], stdout=inner)
    os.close(inner)
    seen = b''
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 4096):
            seen += part
    os.close(terminal)
    assert process.wait() == 0
    assert not [c for c in seen if c not in b'\r\n\t' and not 32 <= c < 127], seen[:300]
    return seen


@in_folder
def names_of_a_result_are_told_harmlessly():
    r = sample()
    r['series'][0]['name'] = 'read' + EVIL + '\nall faster'
    r['series'][1]['name'] = EVIL
    r['series'][0]['errors'], r['series'][0]['first_error'] = 1, 'x' + EVIL
    a = save('a.json', r)
    r['settings']['engine'] = EVIL
    r['machine']['cpu'] = EVIL
    r['series'][1]['name'] = EVIL + '2'
    b = save('b.json', r)
    out, _ = call('compare', a, b)
    lines = out.splitlines()
    assert any(line.startswith('read\\x1b]0;gotcha\\x07') for line in lines), out
    assert not any(line.startswith('all faster') for line in lines), out
    assert 'Only in A: \\x1b]0;' in out and 'operation of A failed: x\\x1b' in out, out


@in_folder
def a_name_makes_no_lines_of_its_own():
    with open('t.csv', 'w') as f:
        f.write(HEADER + '0.0,Read,4096,Tier-2,"k\nlag:        none",Decode\n')
    out, _ = call('replay', 't.csv', '--target', 'd', '--missing', 'fail', status=1)
    assert 'partial: ' in out and '\nlag:' not in out, out
    for name in 'a\nb.json', 'b.json':
        out, _ = call('bench', '--size', '4K', '-n', '2', '--no-limit', '-w', '--json', '-')
        r = json.loads(out)
        r['series'][0]['name'] += '\nall faster'
        r['series'][0].update(partial=True, partial_why='why\nall faster', errors=1, first_error='key\nall faster')
        save(name, r)
    out, _ = call('merge', 'a\nb.json', 'b.json')
    assert 'all faster' in out and '\nall faster' not in out and '\nb.json' not in out, out


@in_folder
def bad_values_are_quoted_harmlessly():
    r = sample()
    r['schema'] = 'penstock' + EVIL
    for command in (['report', '-o', 'p.html'], ['compare', save('good.json', sample())]):
        _, err = call(*command, save('a.json', r), status=2)
        assert err.count('\n') == 1 and '\\x1b' in err, err
    with open('t.csv', 'w') as f:
        f.write(HEADER + f'0.0,Read,1,Tier-9{EVIL},k,Decode\n')
    _, err = call('trace', 'stat', 't.csv')
    assert err.count('\n') == 1, err


@in_folder
def names_of_files_are_told_harmlessly():
    for name in ('t' + EVIL + '\nx', b'\xff\xfet'):
        with open(name, 'w') as f:
            f.write(HEADER + '0.0,Write,4096,Tier-2,k,Prefill\n')
        call('trace', 'stat', name)
        call('replay', name, '--target', 'null', '--dry-run')
        call('report', '-o', 'p.html', name, status=2)
    os.mkdir('d' + EVIL)
    call('bench', '--target', 'd' + EVIL, '--dry-run')
    call('info', 'd' + EVIL)
    call('kv', '--folder', 'd' + EVIL, '--dry-run', '--runtime', '1', '--num-users', '1')


@in_folder
def data_on_standard_output_is_as_it_is():
    os.mkdir('d\u202e')
    done = subprocess.run([PENSTOCK, 'info', 'd\u202e', '--json', '-'], capture_output=True, check=True)
    assert json.loads(done.stdout)['paths'][0]['path'] == 'd\u202e', done.stdout


@in_folder
def data_on_a_terminal_are_text():
    name = 'd\u202e\u009b2J'
    os.mkdir(name)
    seen = on_terminal('info', name, '--json', '-')
    assert json.loads(seen)['paths'][0]['path'] == name, seen


@in_folder
def a_trace_on_a_terminal_is_text():
    with open('t.csv', 'w', encoding='utf-8', newline='') as f:
        f.write(HEADER + '0.0,Write,8192,Tier-2,one' + EVIL + 'end,Prefill\r\n' + '0.0,Write,8192,Tier-2,two,Prefill\r\n' * 3000)
    seen = on_terminal('trace', 'convert', '--to-format', 'kv', 't.csv', '-')
    assert b'one\\x1b]0;gotcha\\x07' in seen and seen.count(b'two,Prefill') == 3000, seen[:300]


@in_folder
def a_name_in_a_job_for_fio_is_no_option():
    name = 't\nexec_prerun=touch gotcha\n.csv'
    with open(name, 'w') as f:
        f.write(HEADER + '0.0,Write,4096,Tier-2,k,Prefill\n')
    call('replay', name, '--target', 'd', '--dry-run', '--export-fio', 'job.fio')
    with open('job.fio') as f:
        lines = f.read().splitlines()
    assert not any(line.startswith('exec_prerun') for line in lines), lines
    assert any(line.startswith('; 1 rows of 1 of t\\x0aexec_prerun') for line in lines), lines


tap.run(
    names_of_a_result_are_told_harmlessly,
    a_name_makes_no_lines_of_its_own,
    bad_values_are_quoted_harmlessly,
    names_of_files_are_told_harmlessly,
    data_on_standard_output_is_as_it_is,
    data_on_a_terminal_are_text,
    a_trace_on_a_terminal_is_text,
    a_name_in_a_job_for_fio_is_no_option,
)
