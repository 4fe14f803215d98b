# SPDX-License-Identifier: Apache-2.0
"""The decisions of the KV cache: rows and final states of the conformance vectors, byte for byte.

    kv_vectors.py PROGRAM ROOT

Of each vector in tests/cli/kv-vectors there are the operations (NAME.ops.csv), the rows they must
give (NAME.trace.csv) and the state they must end in (NAME.final.json), made by the benchmark that
the cache stands in for.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

PROGRAM, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WORK = tempfile.TemporaryDirectory()
VECTORS = sorted(p[:-len('.ops.csv')] for p in glob.glob(f'{ROOT}/tests/cli/kv-vectors/*.ops.csv'))
HEADER = 'Operation,Object_Size_Bytes,Tier,Key,Phase\n'


def vectors(*args, **more):
    done = subprocess.run([PROGRAM, *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def read(path):
    with open(path, newline='') as f:
        return f.read()


def limits(state):
    return ['--model', state['model'], '--gpu-bytes', state['gpu_bytes'], '--cpu-bytes', state['cpu_bytes'],
            '--nvme-bytes', state['nvme_bytes'] or 'unlimited', '--tensor-parallel', state['tensor_parallel']]


def ops_file(text, name='ops.csv'):
    path = os.path.join(WORK.name, name)
    with open(path, 'w', newline='') as f:
        f.write(text)
    return path


def run(text, *args):
    """Rows without the header, and the final state."""
    final = WORK.name + '/run.json'
    status, out, err = vectors(*args, '--final', final, ops_file(text))
    assert (status, err) == (0, ''), err
    assert out.startswith(HEADER)
    return out[len(HEADER):].splitlines(), json.loads(read(final))


def refused(args, *says):
    """Status 2, one line, and nothing written."""
    final = WORK.name + '/refused.json'
    status, out, err = vectors('--final', final, *args)
    assert (status, out, err.count('\n')) == (2, '', 1), (status, out, err)
    assert not os.path.exists(final)
    for word in says:
        assert word in err, f'{word!r} is not in {err!r}'


def matches(base):
    def case():
        state = json.loads(read(base + '.final.json'))
        final = WORK.name + '/final.json'
        status, out, err = vectors(*limits(state), '--final', final, base + '.ops.csv')
        assert (status, err) == (0, ''), err
        assert out == read(base + '.trace.csv')
        assert read(final) == read(base + '.final.json')
    return f'{os.path.basename(base)} gives its rows and its state', case


def every_vector_is_there():
    assert len(VECTORS) >= 7, VECTORS


def line_ends_header_and_standard_input_make_no_difference():
    base = VECTORS[0]
    args = limits(json.loads(read(base + '.final.json')))
    text, want = read(base + '.ops.csv'), read(base + '.trace.csv')
    bare = text.split('\n', 1)[1]
    short = '\n'.join(','.join(line.split(',')[:3]) for line in text.splitlines())
    for same in (text.replace('\n', '\r\n'), bare, short, bare.replace('\n', '\r\n').rstrip()):
        assert vectors(*args, ops_file(same)) == (0, want, '')
        assert vectors(*args, '-', input=same.encode()) == (0, want, '')


def sizes_take_letters():
    rows, state = run('A,a,10\n', '--model', 'tiny-1b', '--gpu-bytes', '2M', '--nvme-bytes', '1G')
    assert rows == ['Write,245760,Tier-0,a,Prefill']
    assert (state['gpu_bytes'], state['nvme_bytes']) == (2 << 20, 1 << 30)


def no_limit_is_0_in_the_state():
    for args in ([], ['--nvme-bytes', 'unlimited'], ['--nvme-bytes', '0']):
        rows, state = run('A,a,10\nA,a,10\nR,b,0\n', '--model', 'tiny-1b', *args)
        assert rows == ['Write,245760,Tier-2,a,Prefill']
        assert state['nvme_bytes'] == 0 and state['nvme_used'] == 245760
        assert (state['hits'], state['misses'], state['storage_tokens_processed']) == (0, 1, 10)


def a_first_tier_that_cannot_give_away_keeps_what_it_has():
    """No room below: the entry goes elsewhere, and nothing moves."""
    token = 24576
    rows, _ = run('A,x,79\nA,y,79\nR,x,0\n', '--model', 'tiny-1b', '--gpu-bytes', 100 * token, '--cpu-bytes', 0)
    assert [r.split(',')[2:4] for r in rows] == [['Tier-0', 'x'], ['Tier-2', 'y'], ['Tier-0', 'x']]


def edges_of_the_first_tier_are_those_of_the_second():
    token = 24576
    for percent, tier in ((79, 0), (80, 0), (81, 0), (95, 0), (96, 1), (100, 1)):
        rows, _ = run(f'A,x,{percent}\nA,y,{percent}\n', '--model', 'tiny-1b', '--gpu-bytes', 100 * token,
                      '--cpu-bytes', 1000 * token)
        assert rows[0] == f'Write,{percent * token},Tier-{tier},x,Prefill'
        assert rows[-1] == f'Write,{percent * token},Tier-{tier},y,Prefill'
        assert len(rows) == (4 if tier == 0 else 2)


def parts_are_rounded_down_and_tokens_counted_once():
    ops = 'A,a,10\nR,a,0\nR,a,0\n'
    for tp, size in ((1, 702720), (4, 175680), (7, 100388)):
        rows, state = run(ops, '--model', 'deepseek-v3', '--tensor-parallel', tp)
        assert [r.split(',')[1] for r in rows] == [str(size)] * 3
        assert state['entries'] == {'a': ['nvme', size]}
        want = 10 + 2 * (size / (70272 / tp))
        assert state['storage_tokens_processed'] == want and isinstance(want, float)


def numbers_are_printed_as_python_does():
    _, state = run('A,a,10\nR,a,0\n', '--model', 'deepseek-v3', '--tensor-parallel', 7)
    text = read(WORK.name + '/run.json')
    assert f'"storage_tokens_processed": {10 + 100388 / (70272 / 7)!r},' in text, text
    assert json.dumps(state, indent=1) == text
    _, state = run('', '--model', 'tiny-1b')
    assert json.dumps(state, indent=1) == read(WORK.name + '/run.json')
    assert state['entries'] == {}


def odd_keys_come_back_as_they_were():
    rows, state = run('A,"a,""b""",1\nA,"two\nlines",1\nA,é ü,1\n', '--model', 'tiny-1b', '--gpu-bytes', '1G')
    assert '\n'.join(rows) == ('Write,24576,Tier-0,"a,""b""",Prefill\nWrite,24576,Tier-0,"two\nlines",Prefill\n'
                               'Write,24576,Tier-0,é ü,Prefill')
    assert list(state['entries']) == ['a,"b"', 'two\nlines', 'é ü']


def entries_are_in_the_order_of_allocation():
    keys = [f'k{i}' for i in (5, 10, 9, 100, 1)]
    _, state = run(''.join(f'A,{k},1\n' for k in keys) + 'R,k5,0\n', '--model', 'tiny-1b')
    assert list(state['entries']) == keys


def the_state_alone_goes_to_standard_output():
    status, out, err = vectors('--model', 'tiny-1b', '--final', '-', ops_file('A,a,10\n'))
    assert (status, err) == (0, '')
    assert json.loads(out)['entries'] == {'a': ['nvme', 245760]}


def a_bad_row_is_named_and_nothing_is_written():
    refused([ops_file('op,key,tokens\nA,a,1\nX,b,1\n')], 'ops.csv: line 3:', "'X'")
    refused([ops_file('A,a,1\nA,b,-5\n')], 'line 2:', "'-5'")
    refused([ops_file('hello\n')], 'line 1:', "'hello'")
    refused([ops_file('A,"a,1\n')], 'line 1:', 'quote')


def what_cannot_be_read_is_refused():
    refused(['/no/such/file'], "'/no/such/file'", 'No such file')
    refused([WORK.name], 'cannot be read')
    refused([], 'one file of operations is needed, not 0')
    refused(['a', 'b'], 'not 2')


def bad_options_are_refused():
    ops = ops_file('A,a,1\n')
    refused(['--model', 'gpt-9', ops], "--model: 'gpt-9' is not known")
    refused(['--nvme-bytes', 'much', ops], "--nvme-bytes: 'much'", 'unlimited')
    refused(['--nvme-bytes', '9E', ops], "--nvme-bytes: '9E'")
    refused(['--tensor-parallel', '0', ops], '--tensor-parallel', 'outside')


def a_full_disk_is_a_failure():
    if not os.path.exists('/dev/full'):
        raise tap.Skip('full', 'no /dev/full')
    status, _, err = vectors('--final', '/dev/full', ops_file('A,a,1\n'))
    assert status == 1 and 'No space left' in err, err


tap.run(every_vector_is_there, *map(matches, VECTORS), line_ends_header_and_standard_input_make_no_difference,
        sizes_take_letters, no_limit_is_0_in_the_state, a_first_tier_that_cannot_give_away_keeps_what_it_has,
        edges_of_the_first_tier_are_those_of_the_second, parts_are_rounded_down_and_tokens_counted_once,
        numbers_are_printed_as_python_does, odd_keys_come_back_as_they_were,
        entries_are_in_the_order_of_allocation, the_state_alone_goes_to_standard_output,
        a_bad_row_is_named_and_nothing_is_written, what_cannot_be_read_is_refused, bad_options_are_refused,
        a_full_disk_is_a_failure)
