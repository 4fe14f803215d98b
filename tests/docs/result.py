#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schemas of what is written as JSON, samples and their page in docs/ say the same: result.py ROOT"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import resultcheck
import tap

resultcheck.need('jsonschema')

root = sys.argv[1]
# By section of the page; the rest is of results.
OTHERS = {'Comparisons': 'penstock-compare/1', 'info': 'penstock-info/1', 'trace stat': 'penstock-trace/1'}


def load(name):
    with open(os.path.join(root, name)) as f:
        return json.load(f)


def sample_case(name):
    def case():
        resultcheck.check(root, load(f'tests/report/{name}.json'))
    return f'{name} is a valid result', case


def members(schema):
    """Names of all members that the schema defines."""
    if isinstance(schema, dict):
        for name, value in schema.get('properties', {}).items():
            yield name
        for value in schema.values():
            yield from members(value)


def every_member_is_explained():
    with open(os.path.join(root, 'docs/result.md')) as f:
        text = f.read()
    # what machine, target and device have is told by its value
    plain = {'kernel', 'cpu', 'cpus', 'memory_bytes', 'folder', 'file_system', 'mount', 'model',
             'rotational', 'direct_why_not', 'block_device', 'huge_pages', 'registered', 'locked',
             'fallback_why', 'unit', 'n', 'text'}
    sections = dict(section.split('\n', 1) for section in text.split('\n## '))
    pages = [(name, sections.pop(title)) for title, name in OTHERS.items()]
    for name, page in ('penstock-result/1', ''.join(sections.values())), *pages:
        found = set(members(resultcheck.schema_of(root, name)))
        missing = {m for m in found if f'`{m}' not in page} - plain
        assert found and not missing, (name, missing)


def a_wrong_result_is_not_valid():
    def wrong(change):
        result = load('tests/report/sample-bench.json')
        change(result)
        try:
            resultcheck.validate(root, result)
        except AssertionError:
            return
        raise AssertionError('it passed')
    wrong(lambda r: r.pop('machine'))
    wrong(lambda r: r.update(surprise=1))
    wrong(lambda r: r['series'][0].update(ops=-1))
    wrong(lambda r: r['series'][0]['histogram']['buckets'].append([1, 2]))
    wrong(lambda r: r['series'][0]['latency']['percentiles'].pop('p99.99'))


tap.run(sample_case('sample-bench'), sample_case('sample-sweep'), sample_case('sample-kv'), sample_case('sample-ckpt'), every_member_is_explained,
        a_wrong_result_is_not_valid)
