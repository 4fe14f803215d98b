# SPDX-License-Identifier: Apache-2.0
"""What the tests of `penstock replay` share: traces, runs, and what came of them.  argv: PENSTOCK ROOT."""
import csv
import json
import os
import random

import resultcheck
from clikit import ROOT, call, tree

SIX = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'
EPOCH = 1735689600
FLAT = '--pace', 'flat-out'


def replay(*args, status=0, stdin=None):
    """The result, checked."""
    done = call('replay', *args, '--json', 'result.json', stdin=stdin)
    assert done.returncode == status, (args, done.returncode, done.err)
    assert status == 0 or done.err, args
    with open('result.json') as f:
        result = json.load(f)
    resultcheck.check(ROOT, result)
    result['text'], result['said'] = done.out, done.err
    return result


def refused(*args, says, status=2):
    """One line, and nothing is made."""
    before = tree()
    done = call('replay', *args)
    assert done.returncode == status, (args, done.returncode, done.err)
    assert says in done.err and done.out == '', (says, done.err)
    assert done.err.count('\n') <= 2, done.err
    assert tree() == before, args


def write_trace(name, rows, header=SIX, end='\r\n'):
    """Rows of (seconds, operation, size, tier, key, phase)."""
    with open(name, 'w', encoding='utf-8', newline='') as f:
        writer = csv.writer(f, lineterminator=end)
        writer.writerow(header.split(','))
        for at, op, size, tier, key, phase in rows:
            writer.writerow([f'{EPOCH + at:.6f}', op, size, f'Tier-{tier}', key, phase][:len(header.split(','))])
    return name


def write_rows(name, text):
    """One operation a line: "W key 4096"."""
    rows = []
    for i, line in enumerate(text.split('\n')):
        op, key, size = line.split()
        rows.append((i * 1e-3, {'R': 'Read', 'W': 'Write'}[op[0]], int(size), 2, key, 'Evict' if 'E' in op else 'Decode'))
    return write_trace(name, rows)


def some_rows(n=400, seed=1, keys=None):
    draw, at, live, rows = random.Random(seed), 0.0, [], []
    for i in range(n):
        at += draw.expovariate(10000)
        if not live or draw.random() < 0.3:
            key = keys[i % len(keys)] if keys else f'conv_user_{i:04d}_turn_{i % 5}'
            live.append((key, draw.choice([1, 4096, 65536, 100000, 1 << 20, 3000001])))
            rows.append((at, 'Write', live[-1][1], 2, key, 'Evict'))
            if keys:  # the last one counts
                live = list(dict(live).items())
        else:
            key, size = draw.choice(live)
            rows.append((at, 'Read', size, 2, key, 'Decode'))
    return rows


def done_of(result):
    return {(d['tier'], d['operation']): (d['ops'], d['bytes']) for d in result['replay']['done']}


def counts(rows, tiers=(2,)):
    sums = {}
    for _, op, size, tier, _, _ in rows:
        if tier in tiers:
            ops, total = sums.get((f'Tier-{tier}', op), (0, 0))
            sums[f'Tier-{tier}', op] = ops + 1, total + size
    return sums


def op_log(name, rows):
    """Rows of (operation, bytes, name, error), each a microsecond after the one before."""
    head = 'idx thread op client_id n_objects bytes endpoint file error start first_byte end duration_ns'.split()
    with open(name, 'w') as f:
        f.write('\t'.join(head) + '\n')
        for i, (op, size, file, error) in enumerate(rows):
            f.write('\t'.join(map(str, [i, 0, op, 'c', 1, size, 'http://h', file, error, f'2025-01-01T00:00:00.{i:06d}Z', '',
                                        f'2025-01-01T00:00:01.{i:06d}Z', 1000000])) + '\n')
    return name


def fio_log(name, version, rows):
    """Rows of (file, operation, offset, length), each a millisecond after the one before."""
    names = list(dict.fromkeys(r[0] for r in rows))
    with open(name, 'w') as f:
        f.write(f'fio version {version} iolog\n')
        for i, (file, *rest) in enumerate([(n, 'add') for n in names] + [(n, 'open') for n in names] + rows):
            f.write(' '.join(map(str, ([i] if version == 3 else []) + [file, *rest])) + '\n')
    return name


def left_behind(name):
    return {n for n in os.listdir(name) if n != '.penstock-objects'}
