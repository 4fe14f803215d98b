#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock trace convert`, `stat` and `cut`, from outside.  trace.py PENSTOCK"""
import os
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import csv
import io
import json
import random
import resource
import shutil
import signal
import subprocess
import time

import clikit
import tap
from clikit import PENSTOCK, load, save
from tap import in_folder

trace = clikit.Command('trace')
SIX = 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'
OPLOG = 'idx thread op client_id n_objects bytes endpoint file error start first_byte end duration_ns'.split()


def unpack(name):
    trace('convert', name, 'unpacked.csv')
    return load('unpacked.csv')


KEYS = ['conv_user_0001_17_turn_1', 'plain', 'with/slash', 'a,b', 'say "hi"', 'two\r\nlines', 'grüß', 'k' * 4096, 'blank in it']


def kv_rows(n, seed=1):
    draw = random.Random(seed)
    us = 1735689600_000000
    rows = []
    for _ in range(n):
        us += draw.randrange(100000) - draw.choice([0, 0, 0, 0, 9000])
        op = draw.choice(['Read', 'Write'])
        size = draw.choice([0, 1, 1 << 40, draw.randrange(1 << 30)])
        rows.append([f'{us // 1000000}.{us % 1000000:06d}', op, str(size), f'Tier-{draw.randrange(3)}', draw.choice(KEYS),
                     draw.choice(['Prefill', 'Decode', 'Evict'])])
    return rows


def kv_text(rows, header=SIX, end='\r\n'):
    out = io.StringIO(newline='')
    writer = csv.writer(out, lineterminator=end)
    writer.writerow(header.split(','))
    writer.writerows(rows)
    return out.getvalue()


def kv_read(name):
    """As the benchmark's own tools would."""
    with open(name, encoding='utf-8', newline='') as f:
        return list(csv.reader(f))


# ------------------------------------------------------------------- convert

@in_folder
def a_kv_trace_there_and_back_is_identical():
    text = kv_text(kv_rows(3000))
    save('a.csv', text)
    done = trace('convert', 'a.csv', 'b.csv.zst')
    assert done.err == done.out == '', done
    assert load('b.csv.zst')[:4] == b'\x28\xb5\x2f\xfd' and len(load('b.csv.zst')) < len(text) / 2
    trace('convert', 'b.csv.zst', 'c.csv')
    assert load('c.csv') == text.encode()


@in_folder
def rows_written_anew_are_those_of_pythons_csv_module():
    rows = kv_rows(3000)
    save('a.csv', kv_text(rows, end='\n'))
    trace('convert', '--default-tier', '1', 'a.csv', 'b.csv')  # an option, so that rows are not copied as they are
    assert load('b.csv') == kv_text(rows).encode()
    trace('convert', '--lf', 'b.csv', 'c.csv')
    assert load('c.csv') == load('a.csv')


@in_folder
def unknown_columns_and_other_orders_survive():
    text = 'Note,' + SIX + '\n"x,y",1.5,Read,1,Tier-0,a,Decode\nz,2.5,Read,1,Tier-0,b,Decode\n'
    save('a.csv', text)
    trace('convert', 'a.csv', 'b.csv.zst')
    assert unpack('b.csv.zst').decode() == text


@in_folder
def an_operation_log_goes_to_kv_and_back():
    rows = [['0', '3', 'PUT', 'c', '1', '1048576', 'http://h', 'bucket/ä b', '', '2025-01-01T00:00:00.000001Z', '',
             '2025-01-01T00:00:01.5Z', '1499999000'],
            ['1', '0', 'GET', 'c', '1', '0', 'http://h', 'k', 'broken', '2025-01-01T00:00:02Z', '', '2025-01-01T00:00:02Z', '0'],
            ['2', '7', 'DELETE', 'c', '1', '0', '', 'k', '', '2025-01-01T00:00:03+01:00', '', '', '5']]
    save('a.tsv', '\n'.join('\t'.join(r) for r in [OPLOG, *rows]) + '\n# end\n')
    done = trace('convert', '--trace-extended', 'a.tsv', 'b.csv')
    assert 'lost: client_id' in done.err and done.err.count('\n') == 1, done
    assert kv_read('b.csv') == [
        SIX.split(',') + ['Duration_ns', 'Thread', 'Failed'],
        ['1735689600.000001', 'Write', '1048576', '', 'bucket/ä b', '', '1499999000', '3', '0'],
        ['1735689602.000000', 'Read', '0', '', 'k', '', '0', '0', '1'],
        ['1735686003.000000', 'Delete', '0', '', 'k', '', '5', '7', '0']], kv_read('b.csv')
    assert trace('convert', 'b.csv', 'c.tsv').err == ''
    assert [line.split('\t') for line in load('c.tsv').decode().splitlines()] == [
        OPLOG,
        ['0', '3', 'PUT', '', '1', '1048576', '', 'bucket/ä b', '', '2025-01-01T00:00:00.000001Z', '',
         '2025-01-01T00:00:01.5Z', '1499999000'],
        ['1', '0', 'GET', '', '1', '0', '', 'k', 'failed', '2025-01-01T00:00:02Z', '', '2025-01-01T00:00:02Z', '0'],
        ['2', '7', 'DELETE', '', '1', '0', '', 'k', '', '2024-12-31T23:00:03Z', '', '2024-12-31T23:00:03.000000005Z', '5']]
    trace('convert', '--trace-extended', 'c.tsv', 'd.csv')
    assert load('d.csv') == load('b.csv')


@in_folder
def extended_columns_of_a_kv_trace_stay():
    header = SIX + ',Offset,Duration_ns,Thread,Failed'
    rows = [['1.000000', 'Read', '5', 'Tier-2', 'a', 'Decode', '4096', '77', '3', '0'],
            ['2.000000', 'Delete', '0', '', 'a', '', '0', '0', '', '1']]
    save('a.csv', kv_text(rows, header=header))
    assert trace('convert', '--trace-extended', '--lf', 'a.csv', 'b.csv').err == ''
    assert load('b.csv').decode() == kv_text(rows, header=header, end='\n')
    assert trace('convert', '--trace-extended', 'b.csv', 'c.csv').err == ''
    assert load('c.csv') == load('a.csv')
    # one of two that are lost together where there is no column for them
    save('u.csv', kv_text([['1.000000', 'Read', '5', 'Tier-2', 'a', 'Decode', '9']], header=SIX + ',User'))
    assert trace('convert', '--trace-extended', 'u.csv', 'v.csv').err == '' and load('v.csv') == load('u.csv')
    assert 'lost: user and QoS (1 of 1 row)' in trace('convert', '--lf', 'u.csv', 'v.csv').err
    # and none of them: those of the model
    save('n.csv', kv_text([['1.000000', 'Read', '5', 'Tier-2', 'a', 'Decode']]))
    trace('convert', '--trace-extended', 'n.csv', 'v.csv')
    assert kv_read('v.csv')[0] == SIX.split(',') + ['Request', 'User', 'QoS'], kv_read('v.csv')


@in_folder
def columns_nobody_knows_are_named_where_they_are_lost():
    save('a.csv', kv_text([['1.000000', 'Read', '5', 'Tier-2', 'a', 'Decode', 'x', '7', 'y']], header=SIX + ',Foo,Thread,B\tr'))
    told = "penstock trace convert: lost: columns of unknown meaning: 'Foo', 'B?r'\n"
    assert trace('convert', '--trace-extended', 'a.csv', 'b.csv').err == told
    assert kv_read('b.csv') == [SIX.split(',') + ['Thread'], ['1.000000', 'Read', '5', 'Tier-2', 'a', 'Decode', '7']]
    assert told in trace('convert', 'a.csv', 'b.iolog').err
    assert trace('convert', 'a.csv', 'c.csv').err == '' and load('c.csv') == load('a.csv')
    names = [f'column-{i:02}' + 'x' * 60 for i in range(60)]
    save('a.csv', kv_text([['1.000000', 'Read', '5', 'Tier-2', 'a', 'Decode', *names]], header=','.join([SIX, *names])))
    err = trace('convert', '--lf', 'a.csv', 'b.csv').err
    shown = err.count('column-')
    assert 1 < shown < 10 and f", and {60 - shown} more\n" in err and 'x' * 40 not in err, err
    save('a.tsv', '\t'.join([*OPLOG, 'zone']) + '\n0\t1\tGET\tc\t1\t5\th\tk\t\t2025-01-01T00:00:00Z\t\t\t9\teast\n')
    assert "lost: columns of unknown meaning: 'zone'\n" in trace('convert', 'a.tsv', 'b.csv').err


@in_folder
def a_fio_log_goes_to_kv_and_back():
    text = ('fio version 3 iolog\n0 f add\n0 f open\n0 f read 0 4096\n5 f write 8192 512\n'
            '7 g add\n7 g open\n7 g trim 1 2\n9 f read 0 4096\n')
    save('a.iolog', text)
    done = trace('convert', '--trace-extended', 'a.iolog', 'b.csv')
    assert done.err == 'penstock trace convert: lost: lines that open, close and sync files\n', done
    assert kv_read('b.csv')[2] == ['0.000005', 'Write', '512', '', 'f', '', '8192'], kv_read('b.csv')
    assert trace('convert', 'b.csv', 'c.iolog').err == ''
    assert load('c.iolog').decode() == text


@in_folder
def sizes_that_a_mooncake_trace_lacks_are_asked_for_by_option():
    save('a.jsonl', '{"timestamp": 5, "input_length": 1024, "output_length": 3, "hash_ids": [0, 1]}\n')
    for words in ['trace', 'convert', 'a.jsonl', 'b.csv'], ['trace', 'stat', 'a.jsonl'], ['replay', 'a.jsonl', '--target', 'null']:
        err = clikit.Command(*words).refused(says='a.jsonl: a mooncake trace has no sizes; give --bytes-per-token or --model')
        assert '(' not in err.split(' (see')[0], err


@in_folder
def a_mooncake_trace_goes_to_kv_and_back():
    save('a.jsonl', '{"timestamp": 5, "input_length": 1024, "output_length": 3, "hash_ids": [0, 1]}\n'
                    '{"timestamp": 27.5, "input_length": 1500, "output_length": 3, "hash_ids": [0, 1, 2]}\n')
    done = trace('convert', '--model', 'llama3.1-8b', '--trace-extended', '--default-tier', '2', 'a.jsonl', 'b.csv')
    assert 'lost: input_length and output_length' in done.err, done
    assert kv_read('b.csv')[1:] == [['0.005000', 'Write', '67108864', 'Tier-2', '0', 'Prefill', '0'],
                                    ['0.005000', 'Write', '67108864', 'Tier-2', '1', 'Prefill', '0'],
                                    ['0.027500', 'Read', '67108864', 'Tier-2', '0', 'Decode', '1'],
                                    ['0.027500', 'Read', '67108864', 'Tier-2', '1', 'Decode', '1'],
                                    ['0.027500', 'Write', '62390272', 'Tier-2', '2', 'Prefill', '1']]
    done = trace('convert', 'b.csv', 'c.jsonl')
    for word in 'size', 'tier', 'phase', 'operation':
        assert f'lost: {word}' in done.err, done
    got = [json.loads(line) for line in load('c.jsonl').splitlines()]
    assert got == [{'timestamp': 5, 'input_length': 1024, 'output_length': 0, 'hash_ids': [0, 1]},
                   {'timestamp': 27.5, 'input_length': 1536, 'output_length': 0, 'hash_ids': [0, 1, 2]}], got
    trace('convert', '--bytes-per-token', '128K', '--trace-extended', '--default-tier', '2', 'c.jsonl', 'd.csv')
    assert [row[4:] for row in kv_read('d.csv')] == [row[4:] for row in kv_read('b.csv')]
    assert kv_read('d.csv')[-1][2] == '67108864', 'blocks are whole where nobody knows better'
    assert trace('convert', 'a.jsonl', 'e.jsonl').err == ''
    assert load('e.jsonl') == load('a.jsonl')


@in_folder
def what_is_lost_is_said_with_the_number_of_rows():
    save('a.csv', kv_text([['1.5', 'Read', '5', 'Tier-0', 'a b', 'Decode'], ['1.5', 'Read', '0', '', 'c', ''],
                           ['1.5', 'Stat', '5', '', 'c', ''], ['1.5000005', 'Read', '7', '', 'c', '']]))
    done = trace('convert', 'a.csv', 'b.iolog')
    assert done.err.splitlines() == [
        'penstock trace convert: lost: rows whose operation the format does not have (1 of 4 rows)',
        'penstock trace convert: lost: rows of 0 bytes (1 of 4 rows)',
        'penstock trace convert: lost: fractions of a microsecond (1 of 4 rows)',
        'penstock trace convert: lost: the date: times count from the first row',
        'penstock trace convert: lost: tier (1 of 4 rows)',
        'penstock trace convert: lost: phase (1 of 4 rows)',
        'penstock trace convert: lost: name: the object has another one (1 of 4 rows)'], done.err
    lines = load('b.iolog').decode().splitlines()
    assert len(lines) == 7 and lines[1].startswith('0 a_b-') and lines[1].endswith(' add'), lines
    done = trace('convert', 'a.csv', 'c.csv', '--lf')
    assert '(1 of 4 rows)' in done.err and kv_read('c.csv')[-1][0] == '1.500000', done


@in_folder
def times_before_the_first_row_are_told_where_they_are_lost():
    times = '5.000000', '3.000000', '5.100000', '1.000000'
    save('a.csv', kv_text([[t, 'Read', '5', '', 'k', ''] for t in times]))
    told = 'penstock trace convert: lost: times earlier than that of the first row: they become 0 (2 of 4 rows)'
    assert told in trace('convert', 'a.csv', 'b.iolog').err.splitlines()
    assert [line.split()[0] for line in load('b.iolog').decode().splitlines()[3:]] == ['0', '0', '100000', '0']
    # a row that is left out is not the first
    save('c.csv', kv_text([[t, 'Read', str(i), '', 'k', ''] for i, t in enumerate(('1.0', '0.0', '0.5'))]))
    err = trace('convert', 'c.csv', 'c.iolog').err
    assert 'times' not in err and load('c.iolog').decode().splitlines()[-1] == '500000 k read 0 2', err
    for name in 'b.tsv', 'b.jsonl':  # keep all of them, in their order
        assert 'time' not in trace('convert', 'a.csv', name).err
        trace('convert', '--bytes-per-token', '1', name, 'back.csv')
        assert [row[0] for row in kv_read('back.csv')[1:]] == list(times)


@in_folder
def fio_takes_what_is_written_for_it():
    if not shutil.which('fio'):
        raise tap.Skip('fio', 'no fio')
    rows = [['1.0', 'Write', '4096', 'Tier-2', 'one', 'Prefill'], ['1.1', 'Write', '8192', 'Tier-2', 'a/two', 'Prefill'],
            ['1.2', 'Read', '4096', 'Tier-2', 'one', 'Decode']]
    save('a.csv', kv_text(rows))
    trace('convert', 'a.csv', 'b.iolog')
    names = {line.split()[1] for line in load('b.iolog').decode().splitlines()[1:]}
    assert len(names) == 2 and not any('/' in name for name in names), names
    for name in names:
        save(name, b'\0' * 8192)
    done = subprocess.run(['fio', '--name=x', '--read_iolog=b.iolog', '--replay_no_stall=1', '--ioengine=psync', '--output-format=json'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done
    job = json.loads(done.stdout[done.stdout.index('{'):])['jobs'][0]
    assert job['write']['io_bytes'] == 12288 and job['read']['io_bytes'] == 4096, job


@in_folder
def standard_input_and_output_are_files_too():
    text = kv_text(kv_rows(100)).encode()
    assert trace('convert', '--to-format', 'kv', '-', '-', stdin=text).data == text
    assert json.loads(trace('stat', '--json', '-', '-', stdin=text).data)['rows'] == 100


@in_folder
def memory_does_not_grow_with_the_length():
    """A hundred megabytes of rows in 80 of address space; the buffers of compression take most of it."""
    block = ''.join(','.join(row) + '\r\n' for row in kv_rows(2000) if not set('",\n') & set(row[4]) and len(row[4]) < 100).encode()

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (80 << 20, 80 << 20))

    for args in ['convert', '--to-format', 'oplog', '-', '/dev/null'], ['stat', '-'], ['cut', '--keys', '1/2', '-', 'b.csv.zst']:
        child = subprocess.Popen([PENSTOCK, 'trace', *args], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 preexec_fn=limit)
        with child.stdin:
            child.stdin.write(SIX.encode() + b'\r\n')
            for _ in range((100 << 20) // len(block)):
                child.stdin.write(block)
        told = child.stderr.read().decode()
        assert child.wait() == 0, (args, told)


@in_folder
def memory_does_not_grow_with_the_number_of_requests():
    """A million of them, which would not fit into the address space; and what is kept, from a pipe, gives the same rows."""
    header = 'Timestamp,Request tokens,Response tokens\n'
    storage = '--model', 'tiny-1b', '--gpu-mem-gb', '0.01', '--cpu-mem-gb', '0.01', '--storage-capacity-gb', '1'
    save('many.csv', header + '0.1,20,3\n' * 1100000)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (80 << 20, 80 << 20))

    done = subprocess.run([PENSTOCK, 'trace', 'convert', *storage, 'many.csv', 'many.tsv.zst'], stderr=subprocess.PIPE, preexec_fn=limit)
    assert done.returncode == 0, done
    draw = random.Random(5)
    text = header + ''.join(f'{i / 9:.3f},{draw.randrange(3000)},{draw.randrange(500)}\n' for i in range(70000)) + 'soon,1,1\n'
    save('burst.csv', text)
    told = trace('convert', *storage, 'burst.csv', 'a.csv').err
    assert told.count('bad row') == 1 and told == trace('convert', '--format', 'burstgpt', *storage, '-', 'b.csv', stdin=text.encode()).err
    assert load('a.csv') == load('b.csv')


# ------------------------------------------------------------------ mistakes

@in_folder
def bad_rows_are_counted_or_end_it():
    save('a.csv', kv_text(kv_rows(10)) + 'oops\r\n' + '1.0,Read,x,Tier-0,k,Decode\r\n')
    done = trace('convert', 'a.csv', 'b.csv')
    at = load('a.csv').split(b'oops')[0].count(b'\n') + 1
    told = f'''penstock trace convert: a bad row was left out: line {at}: 1 column instead of 6
penstock trace convert: a bad row was left out: line {at + 1}: Object_Size_Bytes 'x' is not valid
'''
    assert done.err == told, done
    assert len(kv_read('b.csv')) == 11
    os.unlink('b.csv')
    for command in ['convert', 'a.csv', 'b.csv'], ['stat', 'a.csv'], ['cut', '--keys', '50%', 'a.csv', 'b.csv']:
        done = trace(*command, '--strict', status=2)
        assert 'a.csv: line ' in done.err and '1 column instead of 6' in done.err, done
        assert os.listdir('.') == ['a.csv'], os.listdir('.')


@in_folder
def ten_bad_rows_are_told_and_how_many_there_are():
    good = '1.0,Read,1,Tier-0,k,Decode\n'
    for bad in 9, 10, 11, 200:
        save('a.csv', SIX + '\n' + (good + 'oops\n') * bad)
        lines = [f'a bad row was left out: line {3 + 2 * i}: 1 column instead of 6' for i in range(min(bad, 10))]
        if bad > 10:
            lines.append(f'{bad} bad rows were left out in all')
        for name, args in ('convert', ['a.csv', 'b.csv']), ('stat', ['a.csv']), ('cut', ['--from', '+0', 'a.csv', 'b.csv']):
            assert trace(name, *args).err.splitlines() == [f'penstock trace {name}: {line}' for line in lines]
    save('burst.csv', 'Timestamp,Request tokens,Response tokens\n' + '1,2,3\n1,two,3\n' * 12)
    told = trace('stat', 'burst.csv').err.splitlines()
    assert len(told) == 11 and told[9].endswith("line 21: Request tokens 'two' is not valid") and '12 bad rows' in told[10], told


@in_folder
def a_compressed_trace_that_was_cut_off_gives_its_rows():
    text = kv_text(kv_rows(20000))
    save('a.csv', text)
    trace('convert', 'a.csv', 'a.csv.zst')
    whole = load('a.csv.zst')
    save('b.csv.zst', whole[:len(whole) * 3 // 4])
    done = trace('convert', 'b.csv.zst', 'c.csv')
    assert 'a bad row was left out: line ' in done.err and 'ends inside a frame' in done.err, done
    got = load('c.csv').decode()
    assert len(got) > 1000 and text.startswith(got)
    done = trace('convert', '--strict', 'b.csv.zst', 'd.csv', status=2)
    assert 'ends inside a frame' in done.err and not os.path.exists('d.csv'), done
    save('f.csv.zst', whole[:40])
    for more in [], ['--format', 'kv']:
        done = trace('convert', *more, 'f.csv.zst', 'd.csv', status=2)
        assert 'f.csv.zst: line 1: the compressed data ends inside a frame' in done.err and not os.path.exists('d.csv'), done
    save('e.csv.zst', whole[:-5] + bytes(5))
    done = trace('convert', 'e.csv.zst', 'd.csv', status=2)
    assert 'cannot be decompressed' in done.err and not os.path.exists('d.csv'), done


@in_folder
def requests_become_the_operations_of_the_model():
    save('burst.csv', 'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n' +
         ''.join(f'{i},ChatGPT,{100 + i},{20 + i},{120 + 2 * i},Conversation log\n' for i in range(40)) + '41,m,many,1,1,l\n')
    save('share.json', json.dumps([{'id': f'c{i}', 'conversations': [{'from': who, 'value': 'word ' * (40 + i)} for who in ('human', 'gpt') * 2]}
                                   for i in range(20)]))
    storage = '--model', 'tiny-1b', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0'
    for name, bad in ('burst.csv', 1), ('share.json', 0):
        done = trace('convert', name, 'out.csv', *storage)
        assert ('a bad row was left out' in done.err) == bool(bad), done
        with open('out.csv', newline='') as f:
            rows = list(csv.reader(f))
        assert rows[0] == 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase'.split(','), rows[0]
        assert {r[3] for r in rows[1:]} == {'Tier-2'} and {r[1] for r in rows[1:]} == {'Read', 'Write'}
        writes = sum(r[1] == 'Write' for r in rows[1:])
        assert writes >= 20, writes
        # stat says the same of the requests as of the operations
        told = [json.loads(trace('stat', file, *more, '--json', '-').data) for file, more in ((name, storage), ('out.csv', ()))]
        assert told[0]['format'] == {'burst.csv': 'burstgpt', 'share.json': 'sharegpt'}[name] and told[0]['bad']['rows'] == bad, told[0]
        assert all(told[0][k] == told[1][k] for k in ('rows', 'bytes', 'operations', 'objects')), told
        # and the same requests, the same rows
        trace('convert', name, 'again.csv', *storage)
        with open('out.csv', 'rb') as a, open('again.csv', 'rb') as b:
            assert a.read() == b.read()
        if bad:
            done = trace('convert', name, 'strict.csv', *storage, '--strict', status=2)
            assert 'line 42' in done.err and not os.path.exists('strict.csv'), done


@in_folder
def what_cannot_be_done_is_refused_before_anything_is_created():
    save('a.csv', kv_text(kv_rows(3)))
    save('junk', 'hello\n')
    save('s.json', '[{"conversations": []}]')
    save('burst.csv', 'Timestamp,Request tokens,Response tokens\n1,2,3\n')
    save('m.jsonl', '{"timestamp": 0, "hash_ids": [1]}\n')
    before = sorted(os.listdir('.'))
    for args, word in (
            (['convert', 'a.csv'], 'IN and OUT'),
            (['convert', 'a.csv', 'b.csv', 'c.csv'], 'IN and OUT'),
            (['convert', 'a.csv', 'a.csv'], "'a.csv' is read by IN"),
            (['convert', 'a.csv', './a.csv'], 'is read by IN'),
            (['convert', 'a.csv', 'b'], '--to-format'),
            (['convert', 'a.csv', 'b.zst'], '--to-format'),
            (['convert', 'a.csv', 'b', '--to-format', 'sharegpt'], 'requests'),
            (['convert', 'a.csv', 'b', '--to-format', 'csv'], "'csv' is not one of"),
            (['convert', 'a.csv', 'b.iolog', '--trace-extended'], '--trace-extended is for kv'),
            (['convert', 'a.csv', 'b.iolog', '--lf'], '--lf is for kv'),
            (['convert', 'a.csv', 'b.csv', '--default-tier', '3'], "'3' is not one of"),
            (['convert', 'nowhere', 'b.csv'], 'nowhere: No such file'),
            (['convert', '.', 'b.csv'], 'directory'),
            (['convert', 'junk', 'b.csv'], 'known format'),
            (['convert', 's.json', 'b.csv'], 'has no conversation that can be used'),
            (['convert', 'burst.csv', 'b.csv', '--tensor-parallel', '2'], '--tensor-parallel: 2 is more than --num-gpus 1'),
            (['cut', '--from', '+1', 'burst.csv', 'b.csv'], "'penstock trace convert IN OUT.csv'"),
            (['convert', 'm.jsonl', 'b.csv'], '--bytes-per-token'),
            (['convert', 'm.jsonl', 'b.csv', '--model', 'gpt-9'], "'gpt-9'"),
            (['convert', 'm.jsonl', 'b.csv', '--model', 'tiny-1b', '--bytes-per-token', '5'], 'exclude'),
            (['convert', '--format', 'fio', 'a.csv', 'b.csv'], 'fio version'),
            (['stat'], 'one trace'),
            (['stat', 'a.csv', 'junk'], 'one trace'),
            (['stat', 'junk'], 'known format'),
            (['cut', 'a.csv', 'b.csv'], '--from, --to or --keys'),
            (['cut', '--from', 'noon', 'a.csv', 'b.csv'], "'noon' is not a time"),
            (['cut', '--to', '+-1', 'a.csv', 'b.csv'], 'is not a time'),
            (['cut', '--from', '+10', '--to', '+5', 'a.csv', 'b.csv'], "--to: '+5' is not later than --from '+10'"),
            (['cut', '--from', '7', '--to', '7', 'a.csv', 'b.csv'], "--to: '7' is not later than --from '7'"),
            (['cut', '--keys', '0%', 'a.csv', 'b.csv'], "'0%' is not a share"),
            (['cut', '--keys', '101%', 'a.csv', 'b.csv'], 'is not a share'),
            (['cut', '--keys', '0.1', 'a.csv', 'b.csv'], 'is not a share'),
            (['cut', '--keys', '1/0', 'a.csv', 'b.csv'], 'is not a share'),
            (['cut', '--keys', '1/10x', 'a.csv', 'b.csv'], 'is not a share'),
            (['paste'], "'paste'")):
        done = trace(*args, status=2)
        assert word in done.err, (args, done)
        assert sorted(os.listdir('.')) == before, (args, os.listdir('.'))


@in_folder
def one_row_is_not_told_as_several():
    save('a.csv', SIX + '\n2,Write,1,Tier-2,k,Prefill\n')
    assert b'kv, 1 row over 0.000 s' in trace('stat', 'a.csv').data
    assert '(1 of 1 row)' in trace('convert', 'a.csv', 'b.iolog').err
    save('a.csv', SIX + '\n2,Write,1,Tier-2,k,Prefill\n1,Read,1,Tier-2,k,Decode\n')
    assert b'  1 row is earlier than the one before' in trace('stat', 'a.csv').data


@in_folder
def an_output_that_cannot_be_written_is_a_failure():
    save('a.csv', kv_text(kv_rows(30000)))
    done = trace('convert', '--to-format', 'kv', 'a.csv', '/dev/full', status=1)
    assert '/dev/full' in done.err and 'No space' in done.err, done
    done = trace('convert', 'a.csv', 'nowhere/b.csv', status=2)
    assert 'nowhere/b.csv' in done.err, done


@in_folder
def what_comes_through_a_pipe_is_all_there():
    for n in 50, 5000:
        save('in.csv', kv_text(kv_rows(n)))
        for args, out in ('convert <(cat in.csv) out.csv', 'out.csv'), ('stat --json stat.json <(cat in.csv)', 'stat.json'):
            subprocess.run(['bash', '-c', f'"$0" trace {args}', PENSTOCK], check=True, stdout=subprocess.DEVNULL)
        assert load('out.csv') == load('in.csv')
        assert json.loads(load('stat.json'))['rows'] == n


@in_folder
def a_file_that_was_there_stays_until_the_new_one_is_complete():
    save('b.csv', 'old')
    save('a.csv', kv_text(kv_rows(10)) + 'oops\r\n')
    trace('convert', '--strict', 'a.csv', 'b.csv', status=2)
    assert load('b.csv') == b'old'
    trace('convert', 'a.csv', 'b.csv')
    assert len(kv_read('b.csv')) == 11


def is_writing(pid):
    """It reads, and has a file that has no name yet, or one of the moment."""
    with contextlib.suppress(FileNotFoundError):
        files = [os.readlink(f'/proc/{pid}/fd/{n}') for n in os.listdir(f'/proc/{pid}/fd')]
        return any(f.startswith(os.getcwd() + '/') and not f.endswith('/in') for f in files)
    return False


@in_folder
def an_interrupted_command_leaves_nothing():
    os.mkfifo('in')
    child = subprocess.Popen([PENSTOCK, 'trace', 'convert', 'in', 'b.csv'], stderr=subprocess.PIPE)
    with open('in', 'wb') as f:
        while not is_writing(child.pid):
            f.write(kv_text(kv_rows(10)).encode())
            f.flush()
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(BrokenPipeError):
            while child.poll() is None:
                f.write(b'1.0,Read,1,Tier-0,k,Decode\r\n' * 1000)
                f.flush()
    assert child.wait() == 1 and child.stderr.read() == b'penstock trace convert: stopped\n'
    assert os.listdir('.') == ['in'], os.listdir('.')


# ----------------------------------------------------------------------- cut

def window(*args):
    trace('cut', *args, 'a.csv', 'b.csv')
    return kv_read('b.csv')[1:]


@in_folder
def a_window_is_cut_by_recorded_or_relative_time():
    rows = [[f'{100 + i}.500000', 'Read', str(i), 'Tier-0', f'k{i}', 'Decode'] for i in range(10)]
    save('a.csv', kv_text(rows))
    assert window('--from', '103.5') == rows[3:]
    assert window('--to', '103.5') == rows[:3]
    assert window('--from', '101', '--to', '104') == rows[1:4]
    assert window('--from', '+2', '--to', '+4.000001') == rows[2:5]
    assert window('--from', '+1', '--to', '105') == rows[1:5]
    assert window('--from', '+100') == []
    assert load('b.csv') == kv_text([]).encode()


@in_folder
def rows_out_of_order_are_judged_by_their_own_time():
    rows = [[t, 'Read', '1', 'Tier-0', 'k', 'Decode'] for t in ('10.0', '12.0', '11.0', '13.0', '9.0')]
    save('a.csv', kv_text(rows))
    assert [r[0] for r in window('--from', '11', '--to', '13')] == ['12.0', '11.0']


@in_folder
def a_share_of_the_keys_keeps_all_rows_of_each():
    draw = random.Random(3)
    rows = [[f'{i}.000000', 'Read', '1', 'Tier-0', f'key_{draw.randrange(2000)}', 'Decode'] for i in range(20000)]
    save('a.csv', kv_text(rows))
    some = window('--keys', '1/10')
    kept = {r[4] for r in some}
    assert some == [r for r in rows if r[4] in kept]
    assert 140 < len(kept) < 260, len(kept)
    assert window('--keys', '10%') == some
    assert {r[4] for r in window('--keys', '5%')} < kept < {r[4] for r in window('--keys', '20%')}
    other = {r[4] for r in window('--keys', '10%', '--seed', '7')}
    assert other != kept and len(other & kept) < 60
    assert window('--keys', '100%') == rows
    # for good: samples that were published stay what they are
    assert sorted(kept)[:5] == ['key_1017', 'key_1079', 'key_1082', 'key_1083', 'key_1089'], sorted(kept)[:5]


@in_folder
def other_formats_are_cut_too():
    save('a.jsonl', ''.join(json.dumps({'timestamp': 1000 * i, 'hash_ids': list(range(10 * i + 10)), 'extra': i}) + '\n' for i in range(5)))
    assert trace('cut', '--from', '1', '--to', '3', 'a.jsonl', 'b.jsonl').err == ''
    assert load('b.jsonl') == b''.join(load('a.jsonl').splitlines(True)[1:3])
    done = trace('cut', '--keys', '50%', '--block-tokens', '16', 'a.jsonl', 'c.jsonl')
    assert done.err == 'penstock trace cut: lost: input_length and output_length, and what else its lines have\n', done
    got = [json.loads(line) for line in load('c.jsonl').splitlines()]
    assert len(got) == 5 and 10 < len(got[4]['hash_ids']) < 40
    assert all(line['input_length'] == 16 * len(line['hash_ids']) for line in got), got
    assert set(got[3]['hash_ids']) == {i for i in got[4]['hash_ids'] if i < 40}
    save('a.iolog', 'fio version 2 iolog\nf add\nf open\nf read 0 1\nf wait 2000000 0\nf read 5 6\n')
    done = trace('cut', '--from', '1', 'a.iolog', 'b.iolog')
    assert 'penstock trace cut: lost: the date: times count from the first row\n' in done.err, done
    assert load('b.iolog').decode().splitlines() == ['fio version 3 iolog', '0 f add', '0 f open', '0 f read 5 6']


# ---------------------------------------------------------------------- stat

@in_folder
def stat_tells_what_is_in_a_trace():
    save('a.csv', SIX + '\n' + '100.0,Write,1024,Tier-0,a,Prefill\n100.5,Write,2048,Tier-0,b,Prefill\n'
         '101.0,Read,1024,Tier-0,a,Decode\n101.0,Read,1024,Tier-0,a,Evict\n101.0,Write,1024,Tier-2,a,Evict\n'
         '100.9,Read,1024,Tier-2,a,Decode\n110.0,Read,4096,Tier-2,c,Decode\n')
    got = json.loads(trace('stat', '--json', '-', 'a.csv').data)
    assert got['schema'] == 'penstock-trace/1' and got['format'] == 'kv' and got['rows'] == 7 and got['bytes'] == 11264, got
    assert got['span_seconds'] == 10 and got['first_seconds'] == 100 and got['backwards'] == 1
    assert {'tier': 'Tier-2', 'phase': 'Evict', 'operation': 'Write', 'rows': 1, 'bytes': 1024} in got['operations']
    assert sum(o['rows'] for o in got['operations']) == 7
    assert got['sizes']['min'] == 1024 and got['sizes']['max'] == 4096
    assert got['sizes']['powers_of_two'] == [{'from': 1024, 'rows': 5}, {'from': 2048, 'rows': 1}, {'from': 4096, 'rows': 1}]
    assert got['objects'] == {'keys': 3, 'bytes': 7168, 'peak_bytes': 7168, 'exact': True, 'one_of': 1}, got
    assert got['reuse']['reads'] == 3 and got['reuse']['first_reads'] == 1
    assert sum(w['rows'] for w in got['working_set']['windows']) == 7
    text = trace('stat', 'a.csv').data.decode()
    for line in ('a.csv: kv, 7 rows over 10.000 s', 'Tier-2  Evict    Write', 'Objects: 3 different ones, 7 KiB', 'LRU cache'):
        assert line in text, text
    got = json.loads(trace('stat', '--only-tier', '2', '--json', 'x.json', 'a.csv').data and load('x.json'))
    assert got['rows'] == 3 and got['objects']['keys'] == 2 and got['reuse']['reads'] == 2, got


@in_folder
def an_object_that_moves_out_is_not_in_its_tier_any_more():
    rows = []
    for i in range(50):  # one at a time, each of 1000 bytes: comes, is read, leaves
        rows += [[f'{i}.0', 'Write', '1000', 'Tier-1', f'k{i}', 'Evict'], [f'{i}.1', 'Read', '1000', 'Tier-1', f'k{i}', 'Decode'],
                 [f'{i}.2', 'Read', '1000', 'Tier-1', f'k{i}', 'Evict'], [f'{i}.2', 'Write', '1000', 'Tier-2', f'k{i}', 'Evict']]
    rows.append(['60.0', 'Read', '1000', 'Tier-1', 'k7', 'Decode'])  # is not there
    save('a.csv', kv_text(rows))

    def stat(tier):
        return json.loads(trace('stat', '--only-tier', tier, '--json', '-', 'a.csv').data)

    got = stat('1')
    assert got['objects'] == {'keys': 50, 'bytes': 50000, 'peak_bytes': 1000, 'exact': True, 'one_of': 1}, got['objects']
    assert got['reuse']['reads'] == 101 and got['reuse']['first_reads'] == 1, got['reuse']
    assert {'tier': 'Tier-1', 'phase': 'Evict', 'operation': 'Read', 'rows': 50, 'bytes': 50000} in got['operations'], got['operations']
    assert stat('2')['objects']['peak_bytes'] == 50000


@in_folder
def stat_says_when_it_estimates():
    n = 600000
    save('a.csv', SIX + '\n' + ''.join(f'{i}.0,Write,10,Tier-0,key_{i},Prefill\n' for i in range(n)))
    got = json.loads(trace('stat', '--json', '-', 'a.csv').data)['objects']
    assert not got['exact'] and got['one_of'] == 2 and abs(got['keys'] - n) < n / 50, got
    assert 'estimates' in trace('stat', 'a.csv').data.decode()


@in_folder
def stat_of_an_empty_trace_is_nothing():
    save('a.csv', SIX + '\n')
    assert json.loads(trace('stat', '--json', '-', 'a.csv').data)['rows'] == 0
    assert '0 rows' in trace('stat', 'a.csv').data.decode()


@in_folder
def huge_sizes_do_not_become_negative():
    save('a.csv', SIX + '\n' + f'0.0,Read,{2**64 - 1},Tier-0,a,Decode\n' * 2)
    got = json.loads(trace('stat', '--json', '-', 'a.csv').data)
    assert got['sizes']['max'] == 2**63 - 1 and got['objects']['bytes'] == 2**63 - 1, got


tap.run_all(globals())
