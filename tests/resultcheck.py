# SPDX-License-Identifier: Apache-2.0
"""What every result of schema penstock-result/1 must fulfil: the schema, and its own arithmetic; of other
schemas, such as penstock-compare/1, the schema.

    from resultcheck import check
    check(root, result)
"""
import functools
import importlib.util
import json
import math
import os
import subprocess
import sys

import tap

DEBIAN = '/usr/bin/python3'


def need(*modules):
    """Go on with Debian's Python when this one lacks modules that Debian's has."""
    def lacks(python):
        code = f'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, {modules!r})))'
        return subprocess.run([python, '-c', code]).returncode != 0
    if all(map(importlib.util.find_spec, modules)) or not os.path.exists(DEBIAN) or lacks(DEBIAN):
        return
    if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN):
        os.execv(DEBIAN, [DEBIAN, *sys.argv])


def schema_of(root, name):
    with open(os.path.join(root, f'share/{name.replace("/", "-")}.schema.json')) as f:
        return json.load(f)


@functools.cache  # to read and check the schema takes longer than any result
def validator_of(root, name):
    try:
        import jsonschema
    except ImportError:
        raise tap.Skip('jsonschema', 'python3-jsonschema is not installed')
    schema = schema_of(root, name)
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


def validate(root, result, name='penstock-result/1'):
    errors = [f'{"/".join(map(str, e.path))}: {e.message[:200]}'
              for e in validator_of(root, name).iter_errors(result)]
    assert not errors, errors


def near(a, b, tolerance=1e-6):
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-12)


def percentile(values, p):
    """numpy's, linear."""
    values = sorted(values)
    at = (len(values) - 1) * p / 100
    k = int(at)
    if k + 1 >= len(values):
        return values[-1]
    return values[k] + (values[k + 1] - values[k]) * (at - k)


def check_stats(stats, values, repeats):
    n = len(values)
    mean = math.fsum(values) / n
    assert stats['n'] == n and near(stats['mean'], mean), (stats, mean)
    assert near(stats['median'], percentile(values, 50)), stats
    assert near(stats['min'], min(values)) and near(stats['max'], max(values))
    for name, value in stats['percentiles'].items():
        p = float(name[1:])
        if p != 50 and n * min(p, 100 - p) / 100 < 1 - 1e-9:
            assert value is None, (name, n, value)
        else:
            assert near(value, percentile(values, p)), (name, value)
    if n == 1:
        assert stats['stddev'] is None and stats['ci95'] is None, stats
        return
    stddev = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    assert near(stats['stddev'], stddev, 1e-5) or stddev < 1e-9 * mean, (stats['stddev'], stddev)
    if repeats is not None:
        assert (stats['ci95'] is None) == (repeats < 3), (repeats, stats)
    elif n == 200 and stddev > 1e-9 * mean:
        assert near((stats['ci95'][1] - mean) / stddev * math.sqrt(n), 1.971957, 1e-4), stats


def check_series(s):
    assert s['ops'] == sum(s['per_second']['ops']), s['name']
    assert s['bytes'] == sum(s['per_second']['bytes']), s['name']
    assert s['ops'] == sum(b[2] for b in s['histogram']['buckets']), s['name']
    for (_, high, _), (low, _, _) in zip(s['histogram']['buckets'], s['histogram']['buckets'][1:]):
        assert high <= low, s['name']
    if s['sec'] > 0:
        assert near(s['bytes_per_sec'], s['bytes'] / s['sec']), s['name']
    if not s['ops']:
        assert s['latency'] is None and s['bandwidth'] is None
        return
    if s['size']:
        assert s['bytes'] == s['ops'] * s['size'], s['name']
    if s['latency']['exact'] and s['size']:
        assert len(s['samples']) == s['ops']
        check_stats(s['latency'], s['samples'], s.get('repeats'))
        check_stats(s['bandwidth'], [s['size'] / v for v in s['samples']], s.get('repeats'))
    if s['limit']['share'] is not None:
        assert near(s['limit']['share'], s['bytes_per_sec'] / s['limit']['bytes_per_sec'])


def check_io(result):
    """One series; its operations are the counted loops of all workers."""
    (s,), io = result['series'], result['io']
    for w in io['workers']:
        assert len(w['task']) == len(w['e2e']) and len(w['warmup_task']) == len(w['warmup_e2e'])
        assert all(0 < task <= e2e for task, e2e in zip(w['task'], w['e2e'])), w
        assert near(w['task_sec'], math.fsum(w['task'])) and near(w['e2e_sec'], math.fsum(w['e2e'])), w
        assert w['folder'] in {t['folder'] for t in result['targets']}
    for kind in 'task', 'e2e':
        assert near(io[f'{kind}_sec'], max(w[f'{kind}_sec'] for w in io['workers'])), io
        if s['ops']:  # none where it was interrupted before the first
            assert near(io[f'{kind}_bytes_per_sec'], s['bytes'] / io[f'{kind}_sec']), io
    loops = sorted(t for w in io['workers'] for t in w['task'])
    assert s['ops'] == len(loops)
    assert near(s['sec'], io['e2e_sec']) or 'ranks' in result
    if s['ops'] and s['latency']['exact']:
        assert all(near(a, b) for a, b in zip(sorted(s['samples']), loops)), (s['samples'], loops)
    assert (io['fresh_loops'] is None) == (s['kind'] == 'read')
    assert (io['gpu_path'] is None) == (s['ran']['memory'] != 'gpu')


def check_ranks(result):
    """Rows add up to the series they are of."""
    for s, of in zip(result['series'], result.get('ranks', {}).get('series', [])):
        rows = [r for r in of['rows'] if r['share'] is not None]
        assert s['name'] == of['name'] and near(math.fsum(r['share'] for r in rows), 1), of
        assert near(of['sum_bytes_per_sec'], math.fsum(r['bytes_per_sec'] for r in rows)), of
        assert all(r['start'] <= r['first_done'] <= r['last_done'] <= r['end'] + 1e-6 for r in rows), of
        assert min(r['idle_tail'] for r in rows) == 0, of


def check(root, result):
    validate(root, result)
    names = [s['name'] for s in result['series']]
    assert len(set(names)) == len(names), names
    for s in result['series']:
        check_series(s)
    check_ranks(result)
    assert ('io' in result) == (result['command'] == 'io')
    if 'io' in result:
        check_io(result)
    assert result['bytes_written'] >= sum(s['bytes_written'] for s in result['series'])
