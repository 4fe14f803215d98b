#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock report`, from outside: what it writes, refuses and leaves alone.  report.py PENSTOCK ROOT

What a browser makes of the page is in tests/report/page.py.
"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import copy
import html.parser
import json
import random
import re
import stat
import subprocess

import clikit
import tap
from clikit import ROOT, PENSTOCK, save
from tap import folder

LIMIT = 2_000_000


def sample(name='bench'):
    with open(f'{ROOT}/tests/report/sample-{name}.json', encoding='utf-8') as f:
        return json.load(f)


def report(*args, status=0, **more):
    done = clikit.call('report', *args, **more)
    if done.returncode == 3 and status != 3:
        raise tap.Skip('chartjs', done.err.strip())
    assert done.returncode == status, (args, done)
    return done


class Page(html.parser.HTMLParser):
    """The data of a page, and everything in it that names another file."""

    def __init__(self, text):
        super().__init__()
        self.data, self.links, self.scripts, self.inside = '', [], 0, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.inside = attrs.get('id') if tag == 'script' else None
        self.scripts += tag == 'script'
        self.links += [attrs[a] for a in ('src', 'href', 'action', 'data') if attrs.get(a)]

    def handle_data(self, data):
        if self.inside == 'data':
            self.data += data

    def handle_endtag(self, tag):
        self.inside = None


def page_of(path):
    with open(path, encoding='utf-8') as f:
        return Page(f.read())


def results_of(path):
    return [r['result'] for r in json.loads(page_of(path).data)['results']]


def a_page_holds_the_results_as_they_are():
    with folder():
        save('a.json', sample())
        save('b.json', sample('sweep'))
        done = report('a.json', 'b.json', '-o', 'page.html')
        assert done.out == '' and done.err == '', done
        assert results_of('page.html') == [sample(), sample('sweep')]
        assert sorted(os.listdir()) == ['a.json', 'b.json', 'page.html'], os.listdir()
        assert os.path.getsize('page.html') < LIMIT


def many_results_fit_into_a_page():
    with folder():
        names = [save(f'{i}.json', sample()) for i in range(64)]
        report(*names, '-o', 'page.html')
        assert len(results_of('page.html')) == 64 and os.path.getsize('page.html') < LIMIT
        help_text = subprocess.run([PENSTOCK, 'report', '--help'], stdout=subprocess.PIPE, text=True).stdout
        assert 'Up to 64 results' in help_text, help_text


def a_page_names_no_other_file():
    with folder():
        report(save('a.json', sample()), '-o', 'page.html')
        page = page_of('page.html')
        assert all(link.startswith(('#', 'data:')) for link in page.links), page.links
        assert page.scripts == 3, page.scripts
        with open('page.html', encoding='utf-8') as f:
            text = f.read()
        assert "default-src 'none'" in text
        assert not re.search(r'@import|url\(', re.search('<style>(.*?)</style>', text, re.S)[1])


def the_licence_of_the_charts_is_in_the_page():
    with folder():
        report(save('a.json', sample()), '-o', 'page.html')
        with open('page.html', encoding='utf-8') as f:
            text = f.read()
        assert 'Chart.js Contributors' in text and 'Permission is hereby granted, free of charge' in text
        assert 'THE SOFTWARE IS PROVIDED' in text


def markup_in_a_name_stays_data():
    result = sample()
    result['series'][0]['name'] = '</script><!--<script>alert(1)'
    with folder():
        report(save('a.json', result), '-o', 'page.html')
        assert page_of('page.html').scripts == 3
        assert results_of('page.html') == [result]


def a_large_result_makes_a_small_page():
    result = sample()
    long = result['series'][0]
    long['samples'] = [1e-3 + i * 1.00001e-9 for i in range(10000)]
    long['histogram']['buckets'] = [[i * 1000, i * 1000 + 1000, 2] for i in range(1, 4000)]
    n = 20000
    long['per_second'] = {'t': list(range(n)), 'span': [1] * n, 'ops': [2] * n, 'bytes': [1 << 20] * n,
                          'latency_mean': [0.5] * n, 'latency_max': [None] * (n - 1) + [0.75]}
    result['series'] = [dict(long, name=f'read {i}') for i in range(60)]
    with folder():
        report(save('a.json', result), '-o', 'page.html')
        assert os.path.getsize('page.html') < LIMIT, os.path.getsize('page.html')
        data = json.loads(page_of('page.html').data)
        assert 'thinned' in data['thinned'], data['thinned']
        s = data['results'][0]['result']['series'][0]
        # What can be added up is not lost.
        assert sum(b[2] for b in s['histogram']['buckets']) in (0, 2 * 3999), s['histogram']
        assert sum(s['per_second']['ops']) == 2 * n and sum(s['per_second']['bytes']) == n << 20
        assert s['per_second']['latency_max'][-1] == 0.75
        assert s['latency'] == long['latency'], s['latency']


def counts_that_overflow_do_not_turn_negative():
    r = sample()
    r['series'][0]['histogram']['buckets'] = [[i, i + 1, 2 ** 62] for i in range(1, 9000)]
    with folder():
        report(save('a.json', r), '-o', 'p.html')
        buckets = results_of('p.html')[0]['series'][0]['histogram']['buckets']
        assert len(buckets) < 9000 and all(b[2] == 2 ** 63 - 1 for b in buckets[:-1]), buckets[:3]


def more_than_a_page_can_hold_is_refused():
    result = sample()
    result['series'] = [dict(result['series'][0], name=f'read {i}') for i in range(3000)]
    with folder():
        done = report(save('a.json', result), '-o', 'page.html', status=1)
        assert done.err.count('\n') == 1 and 'larger than' in done.err, done.err
        assert os.listdir() == ['a.json'], os.listdir()


def standard_output_takes_the_page():
    with folder():
        done = report(save('a.json', sample()), '-o', '-')
        assert done.out.startswith('<!DOCTYPE html>') and done.out.rstrip().endswith('</html>')
        assert os.listdir() == ['a.json']


def standard_input_gives_a_result():
    with folder():
        done = clikit.call('report', '-', '-o', 'page.html', stdin=json.dumps(sample()).encode())
        if done.returncode == 3:
            raise tap.Skip('chartjs', done.err)
        assert done.returncode == 0 and results_of('page.html') == [sample()]


def an_old_page_is_replaced_at_once():
    with folder():
        save('a.json', sample())
        save('page.html', 'old')
        os.chmod('page.html', 0o600)
        os.link('page.html', 'other')
        report('a.json', '-o', 'page.html', umask=0o027)
        report('a.json', '-o', 'new.html', umask=0o027)
        with open('other') as f:
            assert f.read() == 'old', 'written into the old file'
        assert stat.S_IMODE(os.stat('page.html').st_mode) == 0o600
        assert stat.S_IMODE(os.stat('new.html').st_mode) == 0o640


def a_pipe_is_written_to_and_not_replaced():
    with folder():
        report(save('a.json', sample()), '-o', '/dev/null')
        os.mkfifo('pipe')
        with subprocess.Popen([PENSTOCK, 'report', 'a.json', '-o', 'pipe'], stderr=subprocess.PIPE) as job:
            with subprocess.Popen(['cat', 'pipe'], stdout=subprocess.PIPE) as cat:
                out, _ = cat.communicate()
        assert job.returncode == 0 and out.startswith(b'<!DOCTYPE'), job.returncode
        assert stat.S_ISFIFO(os.stat('pipe').st_mode)


def a_result_is_not_overwritten_by_its_page():
    with folder():
        save('a.json', sample())
        os.link('a.json', 'same.json')
        for name in ('a.json', 'same.json', './a.json'):
            done = report('a.json', '-o', name, status=2)
            assert 'is read by RESULT and would be lost' in done.err, done.err
        with open('a.json', encoding='utf-8') as f:
            assert json.load(f) == sample()


def a_page_that_cannot_be_written_fails_and_leaves_nothing():
    with folder():
        save('a.json', sample())
        os.mkdir('d')
        for where in ('missing/page.html', 'd/x/page.html', 'd'):
            done = report('a.json', '-o', where, status=2)
            assert done.err.count('\n') == 1 and where in done.err, done.err
        assert sorted(os.listdir()) == ['a.json', 'd'] and not os.listdir('d')
        done = report('a.json', '-o', '/dev/full', status=1)
        assert 'No space left' in done.err, done.err


def damaged(name, change):
    """A sample, changed in one thing."""
    result = sample(name)
    change(result)
    return result


def broken(change):
    return damaged('bench', change)


BAD = {
    'no JSON': ('{', 'is not JSON: line 1'),
    'nothing': ('', 'is not JSON'),
    'a list': ('[]', 'it has no schema'),
    'another schema': ('{"schema": "penstock-result/2"}', "has schema 'penstock-result/2'"),
    'no more than a schema': ('{"schema": "penstock-result/1"}', ': penstock is missing'),
    'a key twice': ('{"schema": "a", "schema": "b"}', 'is not JSON'),
    'a series that is none': (broken(lambda r: r['series'].append(3)), ': series[6] is 3, not an object'),
    'a member of another type': (broken(lambda r: r['series'][2].update(bytes='many')),
                                 'series[2].bytes is "many", not a whole number'),
    'a missing member': (broken(lambda r: r['series'][1]['ran'].pop('engine')), 'series[1].ran.engine is missing'),
    'a kind nobody knows': (broken(lambda r: r['series'][0].update(kind='erase')), 'series[0].kind is "erase", not one of "read", "write"'),
    'samples that are no numbers': (broken(lambda r: r['series'][0].update(samples=['x'])),
                                    'samples[0] is "x", not a number'),
    'buckets of two': (broken(lambda r: r['series'][0]['histogram'].update(buckets=[[1, 2]])),
                       'histogram.buckets[0] has 2 elements, fewer than 3'),
    'seconds of different number': (broken(lambda r: r['series'][0]['per_second'].update(ops=[1, 2])),
                                    'series[0].per_second.ops has 2 elements, but series[0].per_second.t has '),
    'a damaged replay': (damaged('replay', lambda r: r['replay'].update(classes={})), 'replay.classes is an object, not an array'),
    'a damaged cache': (damaged('kv', lambda r: r['kv']['seconds'].update(queued=3)), 'kv.seconds.queued is 3, not an array'),
    'statistics without a mean': (broken(lambda r: r['series'][0]['latency'].pop('mean')),
                                  'series[0].latency.mean is missing'),
}


def bad_input(text, expected):
    def case():
        with folder():
            done = report(save('a.json', text), '-o', 'page.html', status=2)
            assert done.err.count('\n') == 1 and expected in done.err, done.err
            assert os.listdir() == ['a.json'], os.listdir()
    return case


def mutate(draw, value):
    """A copy of a JSON value, changed in one place."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.93:
        value = copy.copy(value)
        key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        if draw.random() < 0.05:
            del value[key]
        else:
            value[key] = mutate(draw, value[key])
        return value
    return draw.choice([None, True, 0, -1, 1e308, 10**30, '', '<x>', 'p50', [], {}, [[]], [1, 2, 3], {'t': []}])


def damaged_results_never_crash_it():
    seed = int(os.environ.get('PENSTOCK_TEST_SEED', 1))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    draw = random.Random(seed)
    with folder():
        good = save('good.json', sample())
        for i in range(150):
            text = json.dumps(mutate(draw, sample(draw.choice(['bench', 'kv', 'replay', 'sweep', 'tune']))))
            if i % 5 == 0:
                at = draw.randrange(len(text))
                text = text[:at] + draw.choice(['', '\0', '\xff', '{', '"']) + text[at + draw.randrange(9):]
            save('bad.json', text)
            for args in (['report', 'bad.json', '-o', '/dev/null'], ['compare', 'bad.json', good]):
                done = clikit.call(*args)
                assert done.returncode in (0, 2, 3), (i, args, done)
                assert done.err.count('\n') == (done.returncode != 0), (i, args, done.err)


def what_is_refused_is_what_the_schema_refuses():
    """An independent reader of the schema agrees, but for members that it does not know."""
    try:
        import jsonschema
    except ImportError:
        raise tap.Skip('jsonschema', 'python3-jsonschema is not installed')
    with open(f'{ROOT}/share/penstock-result-1.schema.json', encoding='utf-8') as f:
        schema = json.loads(f.read().replace('"additionalProperties": false', '"additionalProperties": true'))
    judge = jsonschema.Draft202012Validator(schema)
    draw = random.Random(int(os.environ.get('PENSTOCK_TEST_SEED', 2)))
    with folder():
        for name in ('bench', 'kv', 'replay', 'sweep', 'tune'):
            whole = sample(name)
            del whole['series'][1:]
            for _ in range(30):
                result = mutate(draw, whole)
                if not isinstance(result, dict) or 'schema' not in result:
                    continue
                good = judge.is_valid(result)
                done = subprocess.run([PENSTOCK, 'report', save('a.json', result), '-o', '/dev/null'],
                                      stderr=subprocess.PIPE, text=True)
                if done.returncode == 3:
                    raise tap.Skip('chartjs', done.stderr.strip())
                assert good == (done.returncode == 0) or 'elements, but' in done.stderr \
                    or 'is not JSON' in done.stderr, (name, result, done)


def a_missing_result_is_named():
    with folder():
        done = report('gone.json', '-o', 'page.html', status=2)
        assert "'gone.json' cannot be read: No such file" in done.err, done.err
        assert os.listdir() == []


def bad_command_lines_are_refused():
    with folder():
        save('a.json', sample())
        for args, expected in ((['-o', 'p.html'], 'results are needed, not 0'),
                               (['a.json'] * 65 + ['-o', 'p.html'], 'between 1 and 64 results are needed, not 65'), (['a.json'], '--output')):
            done = report(*args, status=2)
            assert done.err.count('\n') == 1 and expected in done.err, done.err
        assert os.listdir() == ['a.json']


tap.run(a_page_holds_the_results_as_they_are, many_results_fit_into_a_page, a_page_names_no_other_file, the_licence_of_the_charts_is_in_the_page,
        markup_in_a_name_stays_data, a_large_result_makes_a_small_page, more_than_a_page_can_hold_is_refused,
        standard_output_takes_the_page, standard_input_gives_a_result, an_old_page_is_replaced_at_once,
        a_pipe_is_written_to_and_not_replaced, a_result_is_not_overwritten_by_its_page,
        a_page_that_cannot_be_written_fails_and_leaves_nothing,
        *((f'{name} is refused', bad_input(*rest)) for name, rest in BAD.items()),
        damaged_results_never_crash_it, a_missing_result_is_named, bad_command_lines_are_refused)
