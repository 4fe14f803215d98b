#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock s3 compare` with penstock and a client of this test's own.  s3_compare.py PENSTOCK PACKAGE"""
import json
import os
import subprocess
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(1, os.path.join(sys.path[0], 's3'))

import resultcheck
import s3kit
import tap
from tap import in_folder

resultcheck.need('jsonschema')
PACKAGE = os.path.abspath(sys.argv[2])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
S = s3kit.Server('--bucket', 'bucket')
S.use()
FAKE = """
import time
from penstock._s3_clients import Penstock

class Slow(Penstock):
    def put(self, key, data):
        time.sleep(0.02)
        super().put(key, data)

    def get(self, key):
        time.sleep(0.02)
        return super().get(key)

class Broken(Penstock):
    def get(self, key):
        return super().get(key)[1:]
"""


def compare(*words, status=0, stdout=subprocess.PIPE):
    if not os.path.exists(f'{PACKAGE}/penstock/_penstock.abi3.so'):
        raise tap.Skip('package', 'the Python package is not built')
    with open('fake.py', 'w') as f:
        f.write(FAKE)
    done = subprocess.run([sys.executable, '-m', 'penstock', 's3', 'compare', *words], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, env={**os.environ, 'PYTHONPATH': f'{PACKAGE}:{os.getcwd()}'})
    assert done.returncode == status, (words, done)
    assert s3kit.SECRET not in (done.stdout or '') + done.stderr
    return done


SMALL = 's3://bucket/tests', '--files', '6', '--size', '20K', '--in-flight', '2', '--iterations', '3'


@in_folder
def the_same_objects_go_through_both():
    before = S.stats()['by']
    result = json.loads(compare(*SMALL, '--library', 'fake:Slow', '--json', '-').stdout)
    assert [(e['name'], bool(e['version'])) for e in result['libraries']] == [('penstock', True), ('fake:Slow', False)] and result['errors'] == {}
    rows = {(r['library'], r['operation']): r for r in result['rows']}
    assert len(rows) == 4 and all(len(r['turns']) == 3 and r['cpu_sec_per_gib'] > 0 and r['memory_bytes'] > 1 << 20 for r in rows.values())
    # sleeping is slower, by far more than anything else here can be
    assert {v['operation']: v['verdict'] for v in result['verdicts']}.keys() == {'write', 'read'}
    assert all(v['ratio_ci95'][0] <= v['ratio'] <= v['ratio_ci95'][1] for v in result['verdicts']), result['verdicts']
    puts = sum(n for who, n in S.stats()['by'].items() if who.startswith('PUT')) - sum(n for who, n in before.items() if who.startswith('PUT'))
    assert puts == 2 * 3 * 6, puts
    assert S.ask('GET', '/_stats') and left() == []


def left():
    done = subprocess.run([sys.argv[1], 'ls', '-r', 's3://bucket/'], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


@in_folder
def reads_alone_and_the_table():
    out = compare(*SMALL, '--compare', 'fake:Slow', '--skip-write-test').stdout
    assert 'penstock' in out and 'fake:Slow' in out and ' read ' in out and '\nwrite ' not in out and ' write ' not in out, out
    assert 'read   against fake:Slow: ' in out and 'payload not signed' in out and left() == [], out


@in_folder
def a_client_that_fails_is_named_and_the_others_are_told():
    S.rules('method=GET key=tests/* p=0.2 status:503')
    out = compare(*SMALL, '--library', 'fake:Broken', status=1).stdout
    S.rules()
    assert 'fake:Broken: failed: read: ValueError' in out and 'is not what was written' in out and 'against' not in out, out
    assert out.count('\npenstock ') == 2 and left() == [], out


@in_folder
def statistics_say_when_nothing_is_decided():
    sys.path.insert(1, f'{PACKAGE}/..')
    code = ('import math\n'
            'from penstock._s3_compare import rate_interval, ratio_interval\n'
            'm, (low, high) = rate_interval([math.exp(v) for v in (1, 2, 3, 4, 5)])\n'
            'assert abs(math.log(m) - 3) < 1e-9 and abs(math.log(high) - 4.963) < 1e-3 and abs(math.log(low) - 1.037) < 1e-3\n'
            'r, (low, high) = ratio_interval([10, 20, 40], [5, 10, 20])\n'
            'assert abs(r - 2) < 1e-9 and low > 1.99 and high < 2.01\n'
            'r, (low, high) = ratio_interval([10, 5, 12], [5, 10, 11])\n'
            'assert low < 1 < high\n'
            'assert ratio_interval([10, 20], [5, 10])[1] is None\n')
    subprocess.run([sys.executable, '-c', code], check=True, env={**os.environ, 'PYTHONPATH': PACKAGE})


@in_folder
def the_result_is_of_the_schema():
    resultcheck.validator_of(ROOT, 'penstock-s3-compare/1')
    S.rules('method=GET key=tests/* p=0.2 status:503')
    for words, status in ((('--library', 'fake:Slow'), 0), (('--library', 'fake:Broken'), 1), (('--compare', 'fake:Slow', '--iterations', '2'), 0)):
        result = json.loads(compare(*SMALL, *words, '--json', '-', status=status).stdout)
        resultcheck.validate(ROOT, result, 'penstock-s3-compare/1')
    S.rules()
    # two rounds tell nothing, however far apart they are
    assert all(v['verdict'] == 'not decided' and v['ratio_ci95'] is None for v in result['verdicts']) and result['verdicts']


@in_folder
def bad_input_is_one_line():
    for words, says, status in (((), 'one s3://BUCKET/PREFIX', 2), (('s3://b/x', '--files', '0'), '--files', 2), (('x',), 'x', 2),
                                (('s3://b/x', '--size', 'huge'), '--size', 2), (('s3://b/x', '--part', '1M'), '--part', 2),
                                (('s3://b/x', '--library', 'nobody'), "'nobody' is unknown", 2), (('s3://b/x', '--wrong'), '--wrong', 2),
                                (('s3://b/x', '--library', 'warp'), 'warp', 2), (('s3://b/x', '--compare-all', '--library', 'boto3'), 'exclude', 2)):
        done = compare(*words, status=status)
        assert says in done.stderr and done.stderr.count('\n') == 1 and done.stdout == '', (words, done)
    assert '--skip-write-test' in compare('--help').stdout


@in_folder
def a_result_that_cannot_be_written_is_told_once():
    with open('/dev/full', 'wb') as full:
        for json_to in ((), ('--json', '-')):
            done = compare(*SMALL, '--library', 'fake:Slow', *json_to, status=1, stdout=full)
            assert done.stderr == 'penstock: standard output: No space left on device\n' and left() == [], done


tap.run(
    the_same_objects_go_through_both,
    reads_alone_and_the_table,
    a_client_that_fails_is_named_and_the_others_are_told,
    statistics_say_when_nothing_is_decided,
    the_result_is_of_the_schema,
    bad_input_is_one_line,
    a_result_that_cannot_be_written_is_told_once,
)
