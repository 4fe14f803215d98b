#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock compare`, from outside: its verdicts on data whose truth is known.  compare.py PENSTOCK ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import copy
import json
import math
import random
import statistics

import clikit
import resultcheck
import tap
from clikit import ROOT, save
from tap import folder

resultcheck.need('jsonschema')

compare = clikit.Command('compare')
SEEN = []    # all comparisons


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


def fill(s, samples):
    """The figures of a series, as a run of one operation after the other has them."""
    s['samples'] = samples
    s['latency'].update(n=len(samples), median=statistics.median(samples))
    s['latency']['percentiles']['p99'] = percentile(samples, 99)
    s['sec'] = sum(samples)
    s['bytes'] = len(samples) * s['size']
    s['bytes_per_sec'] = s['bytes'] / s['sec']
    return s


def percentile(samples, p):
    v, at = sorted(samples), (len(samples) - 1) * p / 100
    k = min(int(at), len(v) - 2) if len(v) > 1 else 0
    return v[k] + (v[min(k + 1, len(v) - 1)] - v[k]) * (at - k)


def result(seed, factors, n=200, noise=independent):
    """Series 'read 0', 'read 1', ..., each slower by its factor."""
    draw = random.Random(seed)
    r = copy.deepcopy(SAMPLE)
    base = r['series'][0]
    r['series'] = []
    for i, factor in enumerate(factors):
        s = copy.deepcopy(base)
        s.update(name=f'read {i}', kind='read')
        r['series'].append(fill(s, noise(draw, n, 1e-3 * factor)))
    return r


FIGURES = ('median', 'bandwidth', 'p99')


def verdicts(a, b, *args, status=0):
    """The JSON of comparing two results."""
    with folder():
        done = compare(save('a.json', a), save('b.json', b), '--json', '-', *args, status=status)
        SEEN.append(json.loads(done.out))
    return SEEN[-1]


def no_difference_is_seen_where_there_is_none():
    for noise in (independent, moody):
        c = verdicts(result(1, [1] * 40, noise=noise), result(2, [1] * 40, noise=noise), '--fail-if', 'slower:0%')
        wrong = [r for r in c['rows'] if r['verdict'] != 'no difference seen']
        assert not wrong and c['summary'] == 'No difference seen in 40 series.', (noise.__name__, wrong)


def operations_that_resemble_their_neighbours_count_less():
    c = verdicts(result(1, [1], noise=moody), result(2, [1]))
    a, b = c['rows'][0]['a'], c['rows'][0]['b']
    assert a['samples'] == b['samples'] == 200, c['rows'][0]
    assert a['independent'] < 60 and b['independent'] == 200, c['rows'][0]


def a_result_does_not_differ_from_itself():
    c = verdicts(SAMPLE, SAMPLE, '--fail-if', 'slower:0%')
    assert {r['verdict'] for r in c['rows']} == {'no difference seen'}, c
    assert c['gate'] == {'text': 'slower:0%', 'limits': [{'figure': None, 'slower': 0.0}], 'allow_missing': False,
                         'failed': False, 'reasons': []}, c['gate']


def a_difference_is_seen_and_measured():
    c = verdicts(result(1, [1, 1, 1]), result(2, [1, 1.06, 0.94]))
    assert [r['verdict'] for r in c['rows']] == ['no difference seen', 'slower', 'faster'], c['rows']
    for row, truth in zip(c['rows'], (1, 1.06, 0.94)):
        for name in FIGURES:
            figure = row[name]
            low, high = figure['interval']
            real = 1 / truth if name == 'bandwidth' else truth
            if name != 'p99':    # of which 200 operations know little
                assert low <= real <= high and high - low < 0.12, (name, figure)
            assert abs(figure['ratio'] - figure['b'] / figure['a']) < 1e-12, figure
    assert (c['slower'], c['faster'], c['same']) == (1, 1, 1), c


def the_gate_fails_only_beyond_its_limit():
    a, b = result(1, [1, 1]), result(2, [1, 1.12])
    assert verdicts(a, b, '--fail-if', 'slower:5%', status=1)['gate']['failed']
    assert verdicts(a, b, '--fail-if', 'slower:5', status=1)['gate']['failed']
    assert not verdicts(a, b, '--fail-if', 'slower:30%')['gate']['failed']
    assert not verdicts(b, a, '--fail-if', 'slower:5%')['gate']['failed']


def a_change_that_may_be_smaller_than_the_limit_passes():
    a, b = result(1, [1]), result(2, [1.06])
    c = verdicts(a, b, '--fail-if', 'slower:median:5%')
    assert c['rows'][0]['median']['verdict'] == 'slower' and c['rows'][0]['median']['interval'][0] < 1.05, c['rows']
    assert not c['gate']['failed'] and not c['gate']['reasons'], c['gate']


def worse(figure):
    """A, and B that is worse in this figure and not in the median."""
    a, b = result(1, [1, 1, 1]), result(2, [1, 1, 1])
    draw = random.Random(3)
    s = b['series'][1]
    if figure == 'p99':    # one in 16, and the others a little faster, so that the sum stays
        fill(s, [x * (4 if i % 16 == 7 else 0.8) for i, x in enumerate(s['samples'])])
        a['series'][1]['bytes_per_sec'] = s['bytes_per_sec']
    else:                  # 40 % that are much slower: below the median, beyond p99 of nobody
        fill(s, [x * (1.6 if draw.random() < 0.4 else 1) for x in s['samples']])
        s['latency']['median'] = a['series'][1]['latency']['median']
        s['latency']['percentiles']['p99'] = a['series'][1]['latency']['percentiles']['p99']
    return a, b


def bandwidth_and_p99_are_judged_too():
    for figure in ('bandwidth', 'p99'):
        a, b = worse(figure)
        c = verdicts(a, b, '--fail-if', 'slower:5%', status=1)
        row = c['rows'][1]
        assert row[figure]['verdict'] == 'slower' and row[figure]['fails'], row
        assert row['median']['verdict'] != 'slower' and not row['median']['fails'], row
        assert any(x.startswith('read 1: ' + figure) for x in c['gate']['reasons']), c['gate']
        assert not verdicts(b, a, '--fail-if', f'slower:{figure}:5%')['gate']['failed']


def a_gate_may_look_at_one_figure_and_there_may_be_several():
    a, b = worse('bandwidth')
    verdicts(a, b, '--fail-if', 'slower:bandwidth:5%', status=1)
    verdicts(a, b, '--fail-if', 'slower:bandwidth:40%')
    verdicts(a, b, '--fail-if', 'slower:median:5%', '--fail-if', 'slower:p99:5%')
    c = verdicts(a, b, '--fail-if', 'slower:median:5%', '--fail-if=slower:bandwidth:5%', status=1)
    assert c['gate']['limits'] == [{'figure': 'median', 'slower': 0.05}, {'figure': 'bandwidth', 'slower': 0.05}]
    assert c['gate']['text'] == 'slower:median:5%, slower:bandwidth:5%', c['gate']
    with folder():    # operands may follow it
        compare('--fail-if', 'slower:median:5%', save('a.json', a), save('b.json', b))


def long_runs_are_judged_by_their_seconds():
    a, b = result(1, [1]), result(2, [1])
    for r, factor in ((a, 1), (b, 0.9)):
        draw, s = random.Random(factor), r['series'][0]
        n, rate = 30, 1e9 * factor
        s['per_second'] = {'t': list(range(n)), 'span': [1] * n, 'ops': [1] * n, 'latency_mean': [1] * n,
                           'bytes': [int(rate * draw.uniform(0.98, 1.02)) for _ in range(n)], 'latency_max': [1] * n}
        s['bytes_per_sec'] = sum(s['per_second']['bytes']) / n
    c = verdicts(a, b, '--fail-if', 'slower:bandwidth:5%', status=1)
    figure = c['rows'][0]['bandwidth']
    assert figure['method'] == 'seconds' and figure['interval'][0] < 0.9 < figure['interval'][1] < 0.92, figure


def a_slower_tail_and_a_faster_middle_are_mixed():
    a, b = result(1, [1]), result(2, [0.8])
    fill(b['series'][0], [x * (6 if i % 16 == 7 else 1) for i, x in enumerate(b['series'][0]['samples'])])
    c = verdicts(a, b)
    row = c['rows'][0]
    assert (row['median']['verdict'], row['p99']['verdict'], row['verdict']) == ('faster', 'slower', 'mixed'), row
    assert c['mixed'] == 1 and 'slower in one figure and faster in another' in c['summary'], c['summary']


def many_series_that_are_a_little_slower_are_a_fact_together():
    a, b = result(1, [1] * 30, n=3), result(2, [1.2] * 30, n=3)
    c = verdicts(a, b, '--fail-if', 'slower:5%', status=1)
    low, high = c['overall']['median']['interval']
    assert low < 1.2 < high and low > 1.05, c['overall']
    assert any(x.startswith('all series together: median latency') for x in c['gate']['reasons']), c['gate']


def a_few_loops_are_compared_with_wide_intervals():
    tight = lambda draw, n, median: [median * draw.lognormvariate(0, 0.01) for _ in range(n)]
    c = verdicts(result(1, [1, 1], n=3, noise=tight), result(2, [1, 1.15], n=3, noise=tight),
                 '--fail-if', 'slower:5%', status=1)
    same, slow = c['rows']
    assert same['verdict'] == 'no difference seen' and slow['verdict'] == 'slower', c['rows']
    for name, truth in (('median', 1.15), ('bandwidth', 1 / 1.15)):
        assert slow[name]['method'] == 't' and slow[name]['fails'], slow
        low, high = slow[name]['interval']
        assert low < truth < high and high - low > 0.02, slow
    assert slow['p99']['why'] == 'fewer than 100 independent operations', slow
    with folder():
        text = compare(save('a.json', result(1, [1], n=3)), save('b.json', result(2, [1], n=3))).out
        assert '(of 3 and 3 operations)' in text, text


def one_operation_cannot_be_compared():
    c = verdicts(result(1, [1], n=1), result(2, [9], n=1))
    assert c['rows'][0]['verdict'] == 'not comparable' and c['rows'][0]['why'] == 'one operation only', c['rows']
    assert c['summary'] == 'None of 1 series can be compared.', c['summary']


def what_was_not_compared_has_not_passed():
    good = result(1, [1, 1])

    def reasons(change, *args, status=1):
        b = copy.deepcopy(good)
        change(b)
        return verdicts(good, b, '--fail-if', 'slower:5%', *args, status=status)['gate']['reasons']

    cases = (
        (lambda b: b['series'].pop(), 'read 1: is in A, but not in B'),
        (lambda b: b.update(partial=True, partial_why='interrupted'), 'B is a partial result: interrupted'),
        (lambda b: b['series'][0].update(errors=3, first_error='read: EIO'),
         'read 0: 3 operations of B failed: read: EIO'),
        (lambda b: fill(b['series'][0], [1e-3]), 'read 0: cannot be compared: one operation only'),
        (lambda b: b['series'][1].update(size=4096), 'read 1: cannot be compared: operations of different size'))
    for change, expected in cases:
        assert reasons(change) == [expected], (expected, reasons(change))
        assert reasons(change, '--allow-missing', status=0) == [], expected

    def all_of_it(b):
        for s in b['series']:
            s['size'] = 4096
    assert 'no series could be compared by its median latency' in reasons(all_of_it)
    assert reasons(all_of_it, '--allow-missing') == ['no series could be compared by its median latency']


def a_figure_asked_for_by_name_must_be_there():
    a, b = result(1, [1], n=50), result(2, [1], n=50)
    verdicts(a, b, '--fail-if', 'slower:20%')
    reasons = verdicts(a, b, '--fail-if', 'slower:p99:20%', status=1)['gate']['reasons']
    assert reasons[0] == 'read 0: p99 latency cannot be compared: fewer than 100 independent operations', reasons


def the_text_says_the_same_as_the_JSON():
    with folder():
        save('a.json', result(1, [1, 1]))
        save('b.json', result(2, [1, 1.12]))
        lines = compare('a.json', 'b.json', '--fail-if', 'slower:5%', status=1).out.splitlines()
        assert lines[0] == 'A: a.json' and lines[1] == 'B: b.json', lines
        row = lines.index(next(line for line in lines if line.startswith('read 1')))
        assert 'slower' in lines[row] and lines[row].endswith('<- gate') and '<0.0001' in lines[row], lines[row]
        assert lines[row].split()[2] == 'median' and 'MB/s' in lines[row + 1] and lines[row + 2].split()[0] == 'p99'
        assert 'no difference seen' in next(line for line in lines if line.startswith('read 0'))
        assert 'B is slower in 1 of 2 series and faster in 0; in 1 no difference is seen.' in lines, lines
        gate = lines.index('Gate slower:5%: failed')
        assert lines[gate + 1].startswith('  read 1: median latency +'), lines
        assert lines[gate + 1].endswith('beyond slower:5%'), lines


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


def failed_operations_are_named_without_a_gate():
    a, b = copy.deepcopy(SAMPLE), copy.deepcopy(SAMPLE)
    a['series'][0].update(errors=1, first_error='write: EIO')
    b['series'][3].update(errors=7, first_error=None)
    expected = [f'{a["series"][0]["name"]}: 1 operation of A failed: write: EIO',
                f'{b["series"][3]["name"]}: 7 operations of B failed']
    assert verdicts(a, b)['notes'] == expected, verdicts(a, b)['notes']
    with folder():
        out = compare(save('a.json', a), save('b.json', b)).out
    assert [line[6:] for line in out.splitlines() if line.startswith('Note: ')] == expected, out


def what_cannot_be_compared_says_why():
    b = copy.deepcopy(SAMPLE)
    b['series'][0]['size'] = 4096
    b['series'][1]['samples'] = []
    b['series'][2]['samples'] = b['series'][2]['samples'][:2]
    c = verdicts(SAMPLE, b)
    assert [r['why'] for r in c['rows'][:4]] == ['operations of different size', 'no operations',
                                                 None, None], [r['why'] for r in c['rows']]


def every_comparison_is_of_the_schema():
    assert {c['gate'] is None for c in SEEN} == {True, False}
    figures = [row[name] for c in SEEN for row in c['rows'] for name in FIGURES]
    assert {f['method'] for f in figures} == {'rank', 'tail', 'seconds', 'operations', 't', None}
    for c in SEEN:
        resultcheck.validate(ROOT, c, 'penstock-compare/1')


def a_page_comes_with_it():
    with folder():
        save('a.json', SAMPLE)
        done = clikit.call('compare', 'a.json', 'a.json', '--html', 'c.html')
        if done.returncode == 3:
            raise tap.Skip('chartjs', done.err.strip())
        with open('c.html', encoding='utf-8') as f:
            assert done.returncode == 0 and '"penstock-compare/1"' in f.read(), done
        assert 'No difference seen in 6 series.' in done.out, done.out


def outputs_that_cannot_be_written_are_found_first():
    with folder():
        save('a.json', SAMPLE)
        os.mkdir('d')
        for args, expected in ((['--json', 'gone/x.json'], "--json: 'gone/x.json' cannot be written"),
                               (['--html', 'd'], "--html: 'd' cannot be written"),
                               (['--json', 'd', '--html', 'page.html'], "--json: 'd' cannot be written")):
            done = compare('a.json', 'a.json', *args, status=2)
            assert done.err.count('\n') == 1 and expected in done.err and not done.out, done
        assert sorted(os.listdir()) == ['a.json', 'd'], os.listdir()
        done = compare('a.json', 'a.json', '--json', '/dev/full', status=1)
        assert 'No space left' in done.err, done.err


def one_name_is_not_taken_for_two_files():
    with folder():
        save('a.json', SAMPLE)
        save('b.json', SAMPLE)
        os.link('a.json', 'same.json')
        os.mkdir('d')
        for args, expected in ((['--html', '-', '-j', '-'], "only one can be standard output"),
                               (['--html', 'x', '-j', 'x'], "'x' can be only one of them"),
                               (['--html', './x', '-j', 'd/../x'], "can be only one of them"),
                               (['--html', 'same.json'], "--html: 'same.json' is read by A"),
                               (['--json', './b.json'], "--json: './b.json' is read by B")):
            done = compare('a.json', 'b.json', *args, status=2)
            assert done.err.count('\n') == 1 and expected in done.err and not done.out, done
        assert sorted(os.listdir()) == ['a.json', 'b.json', 'd', 'same.json'], os.listdir()
        for name in ('a.json', 'b.json'):
            with open(name, encoding='utf-8') as f:
                assert json.load(f) == SAMPLE


def bad_command_lines_are_refused():
    with folder():
        save('a.json', SAMPLE)
        with open('x.json', 'w', encoding='utf-8') as f:
            f.write('{}')
        with open('empty.json', 'w', encoding='utf-8'):
            pass
        other = copy.deepcopy(SAMPLE)
        for s in other['series']:
            s['name'] = 'other ' + s['name']
        save('other.json', other)
        for args, expected in ((['a.json'], 'two results are needed, not 1'),
                               (['a.json'] * 3, 'not 3'),
                               (['a.json', 'gone.json'], "'gone.json' cannot be read"),
                               (['a.json', 'x.json'], 'has no schema'),
                               (['a.json', 'other.json'], 'no series in common'),
                               (['a.json', '.'], "'.' cannot be read: Is a directory"),
                               (['a.json', 'empty.json'], "'empty.json' is not JSON: line 1: "),
                               (['a.json', 'a.json', '--allow-missing'], 'there is no gate'),
                               (['a.json', 'a.json', *['--fail-if=slower:5%'] * 9], '--fail-if'),
                               *((['a.json', 'a.json', '--fail-if', g], f"'{g}' is not slower:PERCENT") for g in
                                 ('faster:5%', 'slower', 'slower:', 'slower:x', 'slower:5%%', 'slower:nan', 'slower:1e9',
                                  'slower:inf', 'slower:p98:5%', 'slower:p99:', 'slower:p99', 'slower:median:x'))):
            done = compare(*args, '--html', 'page.html', '--json', 'out.json', status=2)
            assert done.err.count('\n') == 1 and expected in done.err, done.err
        assert sorted(os.listdir()) == ['a.json', 'empty.json', 'other.json', 'x.json'], os.listdir()


def reference(scale=1.0, n=400):
    """What kv-cache.py writes, with latencies of @scale."""
    with open(f'{ROOT}/tests/report/sample-reference.json', encoding='utf-8') as f:
        r = json.load(f)
    draw = random.Random(7)
    for name in ('prefill', 'decode', 'end_to_end', 'storage'):
        r[name + '_latencies'] = [v * scale for v in independent(draw, n, 0.1)]
    return r


def results_of_the_reference_benchmark_are_compared():
    ours = {**reference(), 'penstock': {'schema': 'penstock-result/1'}}
    for a, b, verdict in ((reference(), reference(1.5), 'slower'), (reference(1.5), reference(), 'faster'),
                          (reference(), ours, 'no difference seen')):
        rows = verdicts(a, b)['rows']
        assert [r['name'] for r in rows] == ['prefill', 'decode', 'request'], rows
        assert all(r['median']['verdict'] == verdict for r in rows), (verdict, rows)
        assert rows[2]['bandwidth']['why'] == 'nothing was moved', rows[2]
    bad = reference()
    bad['decode_latencies'][3] = 'x'
    with folder():
        good = save('a.json', reference())
        for other, says in ((bad, 'decode_latencies[3] is "x", not a number'),
                            ({'schema_version': '1.0', 'options': {}}, 'is the summary of a run')):
            done = compare(good, save('b.json', other), status=2)
            assert done.err.count('\n') == 1 and says in done.err, done.err


tap.run(results_of_the_reference_benchmark_are_compared, no_difference_is_seen_where_there_is_none, operations_that_resemble_their_neighbours_count_less,
        a_result_does_not_differ_from_itself, a_difference_is_seen_and_measured, the_gate_fails_only_beyond_its_limit,
        a_change_that_may_be_smaller_than_the_limit_passes, bandwidth_and_p99_are_judged_too,
        a_gate_may_look_at_one_figure_and_there_may_be_several, long_runs_are_judged_by_their_seconds,
        a_slower_tail_and_a_faster_middle_are_mixed, many_series_that_are_a_little_slower_are_a_fact_together,
        a_few_loops_are_compared_with_wide_intervals, one_operation_cannot_be_compared,
        what_was_not_compared_has_not_passed, a_figure_asked_for_by_name_must_be_there,
        the_text_says_the_same_as_the_JSON, what_else_differs_is_named,
        failed_operations_are_named_without_a_gate, what_cannot_be_compared_says_why, every_comparison_is_of_the_schema,
        a_page_comes_with_it, outputs_that_cannot_be_written_are_found_first, one_name_is_not_taken_for_two_files,
        bad_command_lines_are_refused)
