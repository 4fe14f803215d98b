#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sluice compare`, from outside: its verdicts on data whose truth is known.  compare.py SLUICE ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import copy
import json
import math
import random
import statistics
import subprocess
import tempfile

import tap

SLUICE, ROOT = map(os.path.abspath, sys.argv[1:3])


@contextlib.contextmanager
def folder():
    back = os.getcwd()
    with tempfile.TemporaryDirectory(prefix='sluice-test-', dir=back) as name:
        os.chdir(name)
        try:
            yield name
        finally:
            os.chdir(back)


with open(f'{ROOT}/tests/report/sample-bench.json', encoding='utf-8') as f:
    SAMPLE = json.load(f)


def independent(draw, n, median):
    return [median * draw.lognormvariate(0, 0.12) for _ in range(n)]


def moody(draw, n, median):
    """Each operation resembles the one before."""
    x, out = 0, []
    for _ in range(n):
        x = 0.9 * x + draw.gauss(0, 0.05)
        out.append(median * math.exp(x))
    return out


def result(seed, factors, n=200, noise=independent):
    """Series 'read 0', 'read 1', ..., each slower by its factor."""
    draw = random.Random(seed)
    r = copy.deepcopy(SAMPLE)
    base = r['series'][0]
    r['series'] = []
    for i, factor in enumerate(factors):
        s = copy.deepcopy(base)
        s.update(name=f'read {i}', kind='read', samples=noise(draw, n, 1e-3 * factor))
        s['latency']['median'] = statistics.median(s['samples'])
        r['series'].append(s)
    return r


def save(name, r):
    with open(name, 'w', encoding='utf-8') as f:
        json.dump(r, f)
    return name


def compare(*args, status=0):
    done = subprocess.run([SLUICE, 'compare', *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == status, (args, done)
    return done


def verdicts(a, b, *args, status=0):
    """The JSON of comparing two results."""
    with folder():
        done = compare(save('a.json', a), save('b.json', b), '--json', '-', *args, status=status)
        return json.loads(done.stdout)


def no_difference_is_seen_where_there_is_none():
    for noise in (independent, moody):
        c = verdicts(result(1, [1] * 40, noise=noise), result(2, [1] * 40, noise=noise))
        wrong = [r['name'] for r in c['rows'] if r['verdict'] != 'no difference seen']
        assert not wrong and c['summary'] == 'No difference seen in 40 series.', (noise.__name__, wrong)


def operations_that_resemble_their_neighbours_count_less():
    c = verdicts(result(1, [1], noise=moody), result(2, [1]))
    a, b = c['rows'][0]['a'], c['rows'][0]['b']
    assert a['samples'] == b['samples'] == 200, c['rows'][0]
    assert a['independent'] < 60 and b['independent'] == 200, c['rows'][0]


def a_result_does_not_differ_from_itself():
    c = verdicts(SAMPLE, SAMPLE, '--fail-if', 'slower:0%')
    assert {r['verdict'] for r in c['rows']} == {'no difference seen'}, c
    assert c['gate'] == {'text': 'slower:0%', 'slower': 0.0, 'failed': False}, c['gate']


def a_difference_is_seen_and_measured():
    c = verdicts(result(1, [1, 1, 1]), result(2, [1, 1.06, 0.94]))
    assert [r['verdict'] for r in c['rows']] == ['no difference seen', 'slower', 'faster'], c['rows']
    for row, truth in zip(c['rows'], (1, 1.06, 0.94)):
        low, high = row['interval']
        assert low <= truth <= high and high - low < 0.12, row
        assert abs(row['ratio'] - row['b']['median'] / row['a']['median']) < 1e-12, row
    assert (c['slower'], c['faster'], c['same']) == (1, 1, 1), c


def the_gate_fails_only_beyond_its_limit():
    a, b = result(1, [1, 1]), result(2, [1, 1.12])
    assert verdicts(a, b, '--fail-if', 'slower:5%', status=1)['gate']['failed']
    assert verdicts(a, b, '--fail-if', 'slower:5', status=1)['gate']['failed']
    assert not verdicts(a, b, '--fail-if', 'slower:30%')['gate']['failed']
    assert not verdicts(b, a, '--fail-if', 'slower:5%')['gate']['failed']


def many_series_that_are_a_little_slower_are_a_fact_together():
    a, b = result(1, [1] * 30, n=3), result(2, [1.2] * 30, n=3)
    c = verdicts(a, b, '--fail-if', 'slower:5%', status=1)
    assert {r['why'] for r in c['rows']} == {'too few operations to tell'}, c['rows'][0]
    low, high = c['overall_interval']
    assert low < 1.2 < high and low > 1.05, c['overall_interval']


def the_text_says_the_same_as_the_JSON():
    with folder():
        save('a.json', result(1, [1, 1]))
        save('b.json', result(2, [1, 1.12]))
        lines = compare('a.json', 'b.json', '--fail-if', 'slower:5%', status=1).stdout.splitlines()
        assert lines[0] == 'A: a.json' and lines[1] == 'B: b.json', lines
        row = next(line for line in lines if line.startswith('read 1'))
        assert 'slower' in row and row.endswith('<- gate') and '<0.0001' in row, row
        assert 'no difference seen' in next(line for line in lines if line.startswith('read 0'))
        assert 'B is slower in 1 of 2 series and faster in 0; in 1 no difference is seen.' in lines, lines
        assert lines[-1] == 'Gate slower:5%: failed', lines


def what_else_differs_is_named():
    b = copy.deepcopy(SAMPLE)
    b['machine']['kernel'] = 'Linux 7.0'
    b['settings']['queue_depth'] = 8
    b['targets'][0]['block_device']['model'] = 'Other'
    b['partial'] = True
    b['series'][5]['name'] = 'read 64M'
    c = verdicts(SAMPLE, b)
    notes = '\n'.join(c['notes'])
    for text in ('machine kernel', 'settings queue_depth: 64 and 8', 'device', 'B is a partial result'):
        assert text in notes, (text, notes)
    assert c['only_a'] == ['read 32M'] and c['only_b'] == ['read 64M'], c
    assert len(c['rows']) == 5


def what_cannot_be_compared_says_why():
    b = copy.deepcopy(SAMPLE)
    b['series'][0]['size'] = 4096
    b['series'][1]['samples'] = []
    b['series'][2]['samples'] = b['series'][2]['samples'][:2]
    c = verdicts(SAMPLE, b)
    assert [r['why'] for r in c['rows'][:4]] == ['operations of different size', 'no operations',
                                                 None, None], [r['why'] for r in c['rows']]
    few = copy.deepcopy(SAMPLE)
    for s in few['series']:
        s['samples'] = s['samples'][:3]
    c = verdicts(few, few)
    assert {r['verdict'] for r in c['rows']} == {'not comparable'}, c['rows']
    assert c['summary'] == 'None of 6 series can be compared.', c['summary']


def a_page_comes_with_it():
    with folder():
        save('a.json', SAMPLE)
        done = subprocess.run([SLUICE, 'compare', 'a.json', 'a.json', '--html', 'c.html'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode == 3:
            raise tap.Skip('chartjs', done.stderr.strip())
        with open('c.html', encoding='utf-8') as f:
            assert done.returncode == 0 and '"sluice-compare/1"' in f.read(), done
        assert 'No difference seen in 6 series.' in done.stdout, done.stdout


def bad_command_lines_are_refused():
    with folder():
        save('a.json', SAMPLE)
        with open('x.json', 'w', encoding='utf-8') as f:
            f.write('{}')
        other = copy.deepcopy(SAMPLE)
        for s in other['series']:
            s['name'] = 'other ' + s['name']
        save('other.json', other)
        for args, expected in ((['a.json'], 'two results are needed, not 1'),
                               (['a.json'] * 3, 'not 3'),
                               (['a.json', 'gone.json'], "'gone.json' cannot be read"),
                               (['a.json', 'x.json'], 'has no schema'),
                               (['a.json', 'other.json'], 'no series in common'),
                               *((['a.json', 'a.json', '--fail-if', g], f"'{g}' is not slower:PERCENT") for g in
                                 ('faster:5%', 'slower', 'slower:', 'slower:x', 'slower:5%%', 'slower:nan', 'slower:1e9',
                                  'slower:inf'))):
            done = compare(*args, '--html', 'page.html', '--json', 'out.json', status=2)
            assert done.stderr.count('\n') == 1 and expected in done.stderr, done.stderr
        assert sorted(os.listdir()) == ['a.json', 'other.json', 'x.json'], os.listdir()


tap.run(no_difference_is_seen_where_there_is_none, operations_that_resemble_their_neighbours_count_less,
        a_result_does_not_differ_from_itself, a_difference_is_seen_and_measured, the_gate_fails_only_beyond_its_limit,
        many_series_that_are_a_little_slower_are_a_fact_together, the_text_says_the_same_as_the_JSON,
        what_else_differs_is_named, what_cannot_be_compared_says_why, a_page_comes_with_it,
        bad_command_lines_are_refused)
