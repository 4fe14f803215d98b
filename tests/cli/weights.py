#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock weights`: the bound, what is reached, and where the time went.  weights.py PENSTOCK ROOT"""
import json
import os
import re
import struct
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import clikit
import tap
from tap import in_folder

weights = clikit.Command('weights')
SMALL = '--window', '4M', '--runtime', '0.3'


def safetensors(name, tensors):
    """A file of (name, bytes of data)."""
    header, data = {}, b''
    for tensor, content in tensors:
        header[tensor] = {'dtype': 'U8', 'shape': [len(content)], 'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(name, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def model(name, layers=6, experts=0):
    tensors = [(f'model.layers.{i}.w', os.urandom(1 << 20)) for i in range(layers)]
    tensors += [(f'model.layers.{i}.mlp.experts.{e}.w', os.urandom(300000)) for i in range(layers) for e in range(experts)]
    safetensors(name, tensors)


def published_figures_follow_from_bytes_and_bandwidth():
    # DeepSpeed's own tables; docs/weights.md has the same rows
    with open(os.path.join(clikit.ROOT, 'docs/weights.md')) as f:
        rows = re.findall(r'^\| ([a-z0-9-]+), batch (\d+) \| ([0-9.]+) GB \| ([0-9.]+) GB/s \| ([0-9.]+) \|', f.read(), re.M)
    assert len(rows) == 6, rows
    for name, batch, size, speed, bound in rows:
        out = weights(name, '--batch', batch, '--limit', round(float(speed) * 1e9), '--dry-run').out
        found = re.search(r'^bound: +([0-9.]+) tokens/s .* over ([0-9.]+) GB$', out, re.M)
        assert float(found.group(1)) == float(bound) and abs(float(found.group(2)) - float(size)) < 0.06, (name, bound, out)


@in_folder
def a_model_on_disk_is_streamed():
    model('m.safetensors')
    r = weights.result('m.safetensors', *SMALL)
    s = r['weights']
    assert s['groups'] == s['weights'] == 6 and s['model_bytes'] == 6 << 20 and not s['synthetic'], s
    assert s['bound_tokens_per_sec'] > 0 and 0 < s['overlap'] <= 1.001 and s['tokens_per_sec'] > 0, s
    one = r['series'][0]
    assert abs(s['tokens_per_sec'] - 96 * one['bytes_per_sec'] / s['model_bytes']) < 1e-6 * s['tokens_per_sec'], (s, one)
    assert s['bytes_read'] >= one['bytes'] and s['experts'] is None and len(s['others']) == 30
    assert r['bytes_written'] == 0
    out = weights('m.safetensors', *SMALL, '--compute-ms', '1').out
    assert 'No model was run' in out and 'inference' not in out, out


@in_folder
def names_that_are_links_are_followed():
    # as in the cache of a hub, where all of a snapshot are links to blobs
    os.makedirs('blobs')
    os.makedirs('snapshots/1')
    where = {}
    for i in range(2):
        safetensors(f'blobs/{i}', [(f'model.layers.{i}.w', os.urandom(3 << 20))])
        where[f'model.layers.{i}.w'] = f'model-{i}.safetensors'
        os.symlink(f'../../blobs/{i}', f'snapshots/1/model-{i}.safetensors')
    with open('blobs/index', 'w') as f:
        json.dump({'weight_map': where}, f)
    os.symlink('../../blobs/index', 'snapshots/1/model.safetensors.index.json')
    os.symlink('snapshots/1', 'main')
    plain = weights.result('blobs/0', *SMALL)['weights']
    for name, size in ('snapshots/1', 6 << 20), ('main', 6 << 20), ('main/model-0.safetensors', 3 << 20):
        for i in range(2):
            with open(f'blobs/{i}', 'rb') as f:
                f.read()  # in the page cache now
        s = weights.result(name, *SMALL)['weights']
        assert s['model_bytes'] == size and (s['overlap'] is None) == (plain['overlap'] is None), s  # there is a limit
        assert s['cached_bytes'] < 1 << 20 or plain['cached_bytes'] >= 3 << 20, s  # else all is in memory there


@in_folder
def computing_goes_on_beside_reading():
    model('m.safetensors')
    s = weights.result('m.safetensors', *SMALL, '--compute-ms', '20')['weights']
    # however slow the machine is: no time is told that was not there
    assert 0 < s['overlap'] <= 1.001 and s['stall']['copy_sec'] == 0, s


@in_folder
def a_shape_is_streamed_from_a_small_file():
    s = weights.result('llama-8b', '--size', '64M', '--window', '32M', '--runtime', '0.3', '--bits', '4')
    assert s['weights']['synthetic'] and s['weights']['model_bytes'] == 8030261248 // 2, s['weights']
    assert s['bytes_written'] == 64 << 20 and os.listdir('.') == []


@in_folder
def experts_hit_or_miss():
    model('m.safetensors', 3, 8)
    r = weights.result('m.safetensors', *SMALL, '--experts', 'zipf', '--batch', '1', '--window', '3M')['weights']
    e = r['experts']
    assert e['groups'] == 24 and e['bytes'] == 24 * 300000 and e['hits'] + e['misses'] > 0, e
    with open('trace', 'w') as f:
        f.write('0 1 2\n1 3\n2 0 7\n0 1 2\n1 3\n2 0 7\n')
    whole = weights.result('m.safetensors', *SMALL, '--experts', 'trace', '--ahead')
    r = whole['weights']
    e = r['experts']
    # five experts fit in, and are read once; what they are used for afterwards is no speed of the storage
    assert e['misses'] <= 5 < e['hits'] and r['bytes_read'] < 6 * 310000, r
    assert whole['series'][0]['bytes'] <= r['bytes_read'], whole['series'][0]
    for text, says in ('0 9\n', 'layer 0 has no expert 9'), ('7 1\n', 'line 1: begins with no layer'), ('0 x\n', 'as numbers'), ('', 'no line'):
        with open('trace', 'w') as f:
            f.write(text)
        done = weights('m.safetensors', *SMALL, '--experts', 'trace', '--dry-run', status=2)
        assert says in done.err and done.err.count('\n') == 1, done


@in_folder
def what_cannot_be_is_told():
    model('m.safetensors', 2)
    weights.refused(says='name one MODEL')
    weights.refused('llama-9b', says=('llama-9b', 'not the name of a shape'))
    weights.refused('no/thing', says=('no/thing', 'No such file'), status=1)
    os.mkdir('empty')
    weights.refused('empty', says='has no *.safetensors', status=1)
    weights.refused('m.safetensors', '--ahead', says='needs --experts')
    weights.refused('m.safetensors', '--bits', '4', says='--bits')
    weights.refused('llama-8b', '--size', '1M', says='--size')
    weights.refused('llama-8b', '--by', 'tensor', says=('--by', 'no model on disk'))
    weights.refused('m.safetensors', '--by', 'tensor', '--experts', 'zipf', says='--by')
    weights.refused('m.safetensors', '--active', '2', says='--active')
    weights.refused('m.safetensors', '--gpu=x', says="--gpu: 'x' is not a GPU's number")
    weights.refused('m.safetensors', '--gpu=1025', says='--gpu')
    weights.refused('--gpu', says='name one MODEL')
    weights.refused('--gpu', 'm.safetensors', '--ahead', says='needs --experts')  # the operand is none of its values
    weights.refused('llama-8b', '--experts', 'zipf', '--dry-run', says='no group with a layer and an expert')
    weights.refused('mixtral-8x7b', '--experts', 'zipf', '--active', '9', '--dry-run', says=('--active', '8 experts'))
    # an expert in parts, of which only one would be read
    weights.refused('mixtral-8x7b', '--experts', 'zipf', '--window', '512M', '--dry-run', says=('336 MiB', '--window'))
    weights.refused('mixtral-8x7b', '--experts', 'zipf', '--size', '64M', '--dry-run', says=('336 MiB', '--size'))
    weights.refused('m.safetensors', '--limit', '1G', '--no-limit', says='exclude')
    safetensors('large.safetensors', [('model.layers.0.w', bytes(3 << 20))])
    weights.refused('large.safetensors', '--window', '2M', says=('--window', '2 MiB', '3 MiB'))
    with open('m.safetensors', 'r+b') as f:
        f.truncate(1 << 20)
    weights.refused('m.safetensors', says='m.safetensors')


@in_folder
def holes_are_refused():
    model('m.safetensors', 2)
    with open('m.safetensors', 'r+b') as f:
        head = 8 + struct.unpack('<Q', f.read(8))[0]
        f.truncate(head)
        f.truncate(head + (2 << 20))
    done = weights('m.safetensors', *SMALL, status=1)
    assert 'has a hole at byte' in done.err and not done.out, done


@in_folder
def a_model_of_a_few_bytes_ends_in_its_time():
    """Its groups take longer than their bytes: what is planned is what a group takes at least."""
    safetensors('m.safetensors', [('w', b'12345678')])
    one = weights.result('m.safetensors', '--window', '4M', '--runtime', '0.6', '--limit', '1000000000')['series'][0]
    assert 0 < one['ops'] <= 0.6 / 20e-6 + 100, one['ops']


tap.run(published_figures_follow_from_bytes_and_bandwidth, a_model_on_disk_is_streamed, names_that_are_links_are_followed,
        computing_goes_on_beside_reading, a_shape_is_streamed_from_a_small_file, experts_hit_or_miss, what_cannot_be_is_told,
        holes_are_refused, a_model_of_a_few_bytes_ends_in_its_time)
