#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON of `penstock trace stat` is of its schema, whatever the trace.  trace_stat.py PENSTOCK ROOT"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import copy
import json

import clikit
import resultcheck
import tap
from clikit import ROOT, save
from tap import in_folder

resultcheck.need('jsonschema')

SIX = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'
OPLOG = '\t'.join('idx thread op client_id n_objects bytes endpoint file error start first_byte end duration_ns'.split()) + '\n'
BURST = 'Timestamp,Request tokens,Response tokens\n'
# All tiers, phases and operations of kv traces; one row goes back in time, one object is read again.
ROWS = ['5.0,Write,1024,Tier-0,a,Prefill', '5.5,Write,2048,Tier-0,b,Prefill', '6.0,Read,1024,Tier-0,a,Decode', '6.0,Read,1024,Tier-0,a,Evict',
        '6.0,Write,1024,Tier-1,a,Evict', '5.9,Read,1024,Tier-1,a,Both', '7.0,Read,0,Tier-2,c,Decode', '7.5,Delete,0,,c,', '8.0,Stat,7,,c,',
        '9.0,List,7,,c,']

# What it is, its text, options; the rows it has at least.
FORMATS = {
    'six columns': ('kv', SIX + '\n' + '\n'.join(ROWS) + '\n', [], 10),
    'four columns': ('kv', '\n'.join(','.join(row.split(',')[:4]) for row in [SIX, *ROWS[:7]]) + '\n', [], 7),
    'extended columns': ('kv', SIX + ',Request,User,Offset,Duration_ns,Thread,Failed,QoS\n'
                         '1.0,Read,5,Tier-2,a,Decode,1,2,4096,77,3,0,interactive\n2.0,Delete,0,,a,,,,,,,1,\n', [], 2),
    'mooncake': ('mooncake', '{"timestamp": 5, "input_length": 1000, "output_length": 3, "hash_ids": [0, 1]}\n'
                 '{"timestamp": 27.5, "input_length": 1500, "output_length": 3, "hash_ids": [0, 1, 2]}\n', ['--model', 'tiny-1b'], 5),
    'fio 2': ('fio', 'fio version 2 iolog\nf add\nf open\nf read 0 1\nf wait 2000000 0\nf read 0 6\n', [], 2),
    'fio 3': ('fio', 'fio version 3 iolog\n0 f add\n0 f open\n0 f read 0 4096\n5 f write 8192 512\n7 f trim 1 2\n', [], 3),
    'oplog': ('oplog', OPLOG + '0\t3\tPUT\tc\t1\t1048576\th\tk\t\t2025-01-01T00:00:00.000001Z\t\t2025-01-01T00:00:01.5Z\t1499999000\n'
              '1\t0\tGET\tc\t1\t0\th\tk\tbroken\t2025-01-01T00:00:02Z\t\t2025-01-01T00:00:02Z\t0\n'
              '2\t0\tSTAT\tc\t1\t0\th\tk\t\t2025-01-01T00:00:03Z\t\t\t5\n', [], 3),
    'burstgpt': ('burstgpt', BURST + ''.join(f'{i},{100 + i},{20 + i}\n' for i in range(40)), ['--model', 'tiny-1b', '--gpu-mem-gb', '0'], 40),
    'sharegpt': ('sharegpt', json.dumps([{'id': 'c', 'conversations': [{'from': who, 'value': 'word ' * 40} for who in ('human', 'gpt') * 2]}]),
                 ['--model', 'tiny-1b'], 2),
}


def stat(text, *args):
    got = json.loads(clikit.Command('trace', 'stat')('--json', '-', *args, save('in', text)).data)
    resultcheck.validate(ROOT, got, 'penstock-trace/1')
    return got


@in_folder
def every_format_is_of_the_schema():
    for name, (format, text, args, rows) in FORMATS.items():
        got = stat(text, *args)
        assert got['format'] == format and got['rows'] >= rows and got['operations'] and got['working_set']['windows'], (name, got)
        assert got['bad'] == {'rows': 0, 'first': None}, (name, got)
        assert (got['objects']['keys'] == 0) == (name == 'four columns'), (name, got)
    assert {f[0] for f in FORMATS.values()} == set(resultcheck.schema_of(ROOT, 'penstock-trace/1')['properties']['format']['enum'])


@in_folder
def every_word_is_seen():
    words = resultcheck.schema_of(ROOT, 'penstock-trace/1')['properties']['operations']['items']['properties']
    got = stat(FORMATS['six columns'][1])
    for member in 'tier', 'phase', 'operation':
        assert {o[member] for o in got['operations']} == set(words[member]['enum']), (member, got['operations'])
    assert got['backwards'] == 1 and got['reuse']['lru_cache'], got


@in_folder
def one_tier_is_of_the_schema():
    for name, (_, text, args, _) in FORMATS.items():
        for tier in '0', '1', '2', 'none':
            got = stat(text, *args, '--only-tier', tier)
            assert {o['tier'] for o in got['operations']} <= {f'Tier-{tier}', tier}, (name, got)


@in_folder
def bad_rows_are_of_the_schema():
    more = {'kv': 'oops\n', 'mooncake': '{"timestamp": "soon", "hash_ids": [1]}\n', 'fio': 'oops\n', 'oplog': 'oops\n', 'burstgpt': '41,many,1\n'}
    for name, (format, text, args, rows) in FORMATS.items():
        if format in more:
            got = stat(text + 12 * more[format], *args)
            assert got['rows'] >= rows and got['bad']['rows'] == 12 and got['bad']['first'].startswith('line '), (name, got)
    assert stat(SIX + '\n' + 'oops\n')['rows'] == 0


@in_folder
def a_trace_without_rows_is_of_the_schema():
    for format, text in ('kv', SIX + '\n'), ('fio', 'fio version 3 iolog\n'), ('oplog', OPLOG), ('mooncake', ''), ('burstgpt', BURST):
        got = stat(text, '--format', format, *(['--model', 'tiny-1b'] if format == 'mooncake' else []))
        assert got['rows'] == 0 and got['format'] == format and not got['operations'] and not got['working_set']['windows'], got


@in_folder
def the_largest_sizes_are_of_the_schema():
    got = stat(SIX + '\n' + f'0.0,Read,{2**64 - 1},Tier-0,a,Decode\n' * 2)
    assert got['sizes']['max'] == 2**63 - 1, got


@in_folder
def a_wrong_one_is_not_of_the_schema():
    whole = stat(FORMATS['six columns'][1])

    def wrong(change):
        got = copy.deepcopy(whole)
        change(got)
        try:
            resultcheck.validate(ROOT, got, 'penstock-trace/1')
        except AssertionError:
            return
        raise AssertionError('it passed')
    wrong(lambda t: t.pop('bad'))
    wrong(lambda t: t.update(surprise=1))
    wrong(lambda t: t.update(format='auto'))
    wrong(lambda t: t.update(rows=-1))
    wrong(lambda t: t['operations'][0].update(phase=''))
    wrong(lambda t: t['sizes'].update(p50=None))
    wrong(lambda t: t['reuse']['distance_bytes'].pop('p99'))
    wrong(lambda t: t['reuse']['lru_cache'][0].update(share=1.5))
    wrong(lambda t: t['working_set']['windows'][0].update(surprise=1))


tap.run_all(globals())
