# SPDX-License-Identifier: Apache-2.0
"""Files and places that options name: what is read is not overwritten, what is written is whole.

    names.py PENSTOCK
"""
import json
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
from tap import in_folder, run_all

PENSTOCK = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ['PENSTOCK'])
BENCH = ['bench', '--size', '64K', '-n', '3', '--no-limit']
ROLES = {'r': 'read', 'w': 'write', 'p': 'place', 'o': 'object', 'i': 'read object'}


def penstock(*args, status=0, **more):
    done = subprocess.run([PENSTOCK, *args], capture_output=True, text=True, **more)
    assert done.returncode == status, f'{args}: {done.returncode} {done.stderr}'
    return done


def refused(*args, says):
    done = penstock(*args, status=2)
    assert done.stderr.count('\n') == 1 and not done.stdout, f'{args}: {done}'
    for word in says:
        assert word in done.stderr, f'{args}: {word!r} is not in {done.stderr!r}'


def commands():
    """Every command that runs: its words and [(role, [words that name a file], what it is called)]."""
    for cmd in json.loads(penstock('--dump-options').stdout)['commands']:
        named = [(o['role'], [f'--{o["name"]}'], f'--{o["name"]}') for o in cmd['options'] if o['role']]
        words = (cmd['usage'] or '').replace('[', '').replace(']', '').split()
        for word, letter in zip(words, cmd['operands'] or ''):
            named.append((ROLES[letter], [], word.split('.')[0]))
        if cmd['runs']:
            yield cmd['name'].split(), named


def save(name, text):
    with open(name, 'w', encoding='utf-8') as f:
        f.write(text)


def load(name):
    with open(name, encoding='utf-8') as f:
        return f.read()


@in_folder
def no_command_writes_over_what_it_reads():
    save('in', '{}')
    os.link('in', 'linked')
    os.symlink('in', 'symbolic')
    pairs = 0
    for words, named in commands():
        for role, option, who in named:
            for other, out, what in named:
                if 'read' not in role or other != 'write':
                    continue
                pairs += 1
                for name in ('in', './in', 'linked', 'symbolic'):
                    refused(*words, *option, 'in', *out, name, says=[what, f"'{name}'", f'is read by {who}'])
    assert pairs > 30, pairs
    assert load('in') == '{}' and sorted(os.listdir()) == ['in', 'linked', 'symbolic'], os.listdir()


@in_folder
def what_is_in_a_folder_or_a_pattern_that_is_read_is_not_written_over():
    os.mkdir('in[1]')
    save('in[1]/a.csv', 'precious')
    os.symlink('in[1]/a.csv', 'symbolic')
    os.link('in[1]/a.csv', 'linked')
    for read in ('in[1]', 'in[1]/', 'in?1?/*.csv', '*/a*'):
        for name in ('in[1]/a.csv', 'symbolic', 'linked'):
            refused('kv', '--burst-trace-path', read, '--use-burst-trace', '--output', name,
                    says=['--output', f"'{name}'", 'is among what is read by --burst-trace-path'])
    assert load('in[1]/a.csv') == 'precious'


@in_folder
def no_file_is_written_twice():
    save('there', 'x')
    for words, named in commands():
        outputs = [n for n in named if n[0] == 'write']
        for i, (_, option, who) in enumerate(outputs):
            for _, other, what in outputs[:i]:
                for a, b in (('new', './new'), ('there', '../' + os.path.basename(os.getcwd()) + '/there')):
                    refused(*words, *option, a, *other, b, says=[who, what, 'can be only one of them'])
                refused(*words, *option, '-', *other, '-', says=['only one can be standard output'])
    assert os.listdir() == ['there'] and load('there') == 'x'


@in_folder
def a_name_that_is_made_of_another_is_looked_at_too():
    save('in.csv', 'decode: {batch_size: 3}')
    refused('kv', '--config', 'in.csv', '--xlsx', 'in', '--output', 'o', '--runtime', '1', '--num-users', '1',
            '--io-trace-log', '/dev/null', says=["'in.csv' is read by --config"])
    assert load('in.csv').startswith('decode')


@in_folder
def unknown_schemes_are_refused_wherever_a_name_is_given():
    for words, named in commands():
        for role, option, who in named:
            if not option and words == ['report']:
                option = ['-o', 'x']  # without which it goes no further
            stores = ('s3://bucket/x', 'az://x', 'gs://x')
            if 'object' in role:
                for uri in stores[1:]:
                    refused(*words, *option, uri, says=[uri, 'only s3:// is built'])
            for uri in (*((*stores, 'S3://bucket/x') if 'object' not in role else ()), 'direct://x', 'http://x', 'S3+x://y'):
                refused(*words, *option, uri, says=[f"'{uri}'", uri.split(':')[0] + ':// is not supported'])
            refused(*words, *option, 'file://host/x', says=['another machine'])
    refused('replay', 'x', '--tier', '2=gs://x', says=['--tier', 'only s3:// is built'])
    assert os.listdir() == []


@in_folder
def an_empty_place_is_said_of_the_option_that_names_it():
    tried = 0
    for command, named in commands():
        for role, option, who in named:
            if option and role in ('place', 'object'):
                refused(*command, *option, '', says=[f'{who}: is empty'])
                tried += 1
    assert tried > 10, tried


@in_folder
def file_in_front_of_a_path_is_taken_off():
    here = os.getcwd()
    done = penstock(*BENCH, '--target', f'file://{here}', '--json', f'file://{here}/r.json')
    assert 'write 64K' in done.stdout
    assert json.loads(load('r.json'))['targets'][0]['folder'] == here
    assert f'\n{here}\n' in penstock('info', f'FILE://{here}').stdout
    os.makedirs('s3:/x')
    penstock(*BENCH, '--target', './s3://x')


@in_folder
def what_is_wrong_with_a_place_is_said_of_the_option_that_names_it():
    """By the name under which it was given."""
    save('file', 'x')
    save('t.csv', 'Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n0.0,Write,4096,Tier-2,k,Prefill\n')
    os.mkdir('d')
    no, nowhere = 'no: No such file', '/proc: cannot make a folder in it: '  # nor can root
    for words, option, place, says in (
            (['bench'], '--nvme-path', 'no', no), (['bench'], '--folder', 'no', no), (['bench'], '--folder', '/proc', nowhere),
            (['bench', '--size', '512G', '--files', '64'], '--folder', 'd', 'd: not enough free space'),
            (['io'], '--folder', '/proc', nowhere), (['io'], '--folder-to-device-mapping', 'no:0', no),
            (['sweep'], '--folder', 'no', no), (['sweep'], '--nvme_dir', '/proc', nowhere), (['sweep', '--nvme_dir', 'd'], '--log-dir', 'file', 'file'),
            (['tune'], '--folder', 'file', 'file: is not a directory'), (['tune', '--nvme_dir', 'd'], '--folder', './d/', './d/: is the same as d'),
            (['ckpt', 'bench'], '--folder', 'no', no), (['ckpt', 'bench'], '--folder', '/proc', nowhere),
            (['kv', '--num-users', '1', '--runtime', '1', '--cpu-mem-gb', '0'], '--cache-dir', 'file', 'file: '),
            (['replay', 't.csv'], '--target', 'file', 'file: is not a slab'), (['replay', 't.csv'], '--tier', '2=file', 'file: is not a slab'),
            (['replay', 't.csv', '--target', 'd'], '--tier', '0=store:file', 'file: ')):
        done = subprocess.run([PENSTOCK, *words, option, place], capture_output=True, text=True)
        assert done.returncode in (1, 2) and f' {option}: {says}' in done.stderr.splitlines()[-1], (words, option, place, done)
    done = subprocess.run([PENSTOCK, 'bench'], cwd='/proc', capture_output=True, text=True)
    assert ' --target: .: cannot make' in done.stderr, done
    refused('gen', 'no/x', '1M', says=['penstock gen: no: No such file'])  # an operand's


@in_folder
def a_place_that_is_called_like_an_option_is_no_option():
    save('files', 'x')
    os.mkdir('seed')
    refused('bench', '--folder', 'files', says=['penstock bench: --folder: files: is not a directory'])
    refused('gen', 'seed', '1M', says=['penstock gen: seed: is no regular file'])
    refused('gen', 'count/x', '1M', says=['penstock gen: count: No such file'])
    refused('bench', '--size', '64K', '64K', says=['penstock bench: --size: 64K is there twice'])


@in_folder
def a_file_that_is_rewritten_keeps_its_rights():
    for mode in (0o600, 0o640, 0o444 if os.geteuid() == 0 else 0o644):
        save('r.json', 'old')
        os.chmod('r.json', mode)
        penstock('info', '--json', 'r.json')
        assert os.stat('r.json').st_mode & 0o7777 == mode, oct(os.stat('r.json').st_mode)
        assert json.loads(load('r.json'))['schema'] and os.listdir() == ['r.json']
        os.remove('r.json')
    old = os.umask(0o027)
    penstock('info', '--json', 'r.json')
    os.umask(old)
    assert os.stat('r.json').st_mode & 0o7777 == 0o640


@in_folder
def nothing_is_left_beside_a_result_that_was_killed():
    save('b.json', 'old')
    for name in ('a.json', 'b.json'):
        job = subprocess.Popen([PENSTOCK, 'bench', '--size', '64K', '--runtime', '1000', '--no-limit', '--json', name],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while not any(f.startswith('penstock-bench-') for f in os.listdir()):
            assert job.poll() is None
        job.send_signal(signal.SIGKILL)
        job.communicate()
    left = [f for f in os.listdir() if not f.startswith('penstock-bench-')]
    assert left == ['b.json'] and load('b.json') == 'old', left


def no_proc():
    """Whether a mount namespace without /proc can be had here."""
    return subprocess.run(['unshare', '-m', 'umount', '-l', '/proc'], capture_output=True).returncode == 0


@in_folder
def without_proc_a_result_is_written_as_well():
    if os.geteuid() != 0 or not no_proc():
        return
    subprocess.run(['unshare', '-m', 'sh', '-c', f'umount -l /proc && {PENSTOCK} info --json r.json > /dev/null'], check=True)
    assert json.loads(load('r.json'))['schema'] and os.listdir() == ['r.json']


def one_line(args, word, **more):
    done = subprocess.run([PENSTOCK, *args], stderr=subprocess.PIPE, text=True, **more)
    assert done.returncode == 1 and done.stderr.count('\n') == 1 and word in done.stderr, f'{args}: {done}'


@in_folder
def why_a_result_could_not_be_written_is_said_once():
    job = ['io', '--folder', '.', '--size', '64K', '--iterations', '1']
    with open('/dev/full', 'w') as full:
        for args in (['info'], BENCH, job, ['--help'], ['--dump-options']):
            one_line(args, 'standard output: No space left on device', stdout=full)
        one_line([*BENCH, '--json', '-'], "--json: '-' was not written: No space left on device", stdout=full)
        for option in ('--json', '--csv', '--html'):
            one_line([*BENCH, option, '/dev/full'], f"{option}: '/dev/full' was not written: No space left on device",
                     stdout=subprocess.DEVNULL)
    trace = ['trace', 'convert', 'ops.csv', '-', '--to-format', 'kv']
    kv = ['kv', '--num-users', '2', '--runtime', '20', '--model', 'tiny-1b', '--io-trace-log', 'ops.csv', '--output', 'o.json']
    replay = ['replay', 'ops.csv', '--tier', '0=d', '--tier', '1=d1', '--target', 'd2', '--pace', 'flat-out']
    sweep = ['sweep', '--nvme_dir', '.', '--sweep-config', 'one.json', '--size', '1M', '--iterations', '1', '--no-limit', '--log-dir', 'logs']
    tune = ['tune', '--nvme_dir', '.', '--sweep-config', 'one.json', '--dry-run']
    save('one.json', '{"block_size": ["64K"], "queue_depth": [1]}')
    for args in (BENCH, job, kv, replay, ['trace', 'stat', 'ops.csv'], trace, sweep, tune):
        read, write = os.pipe()
        os.close(read)
        one_line(args, "'-' was not written: Broken pipe" if args is trace else 'standard output: Broken pipe', stdout=write)
        os.close(write)


@in_folder
def a_trace_that_could_not_be_written_says_why():
    save('a.tsv', 'idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n'
         '0\t0\tPUT\t\t1\t4096\t\tk\t\t2024-01-01T00:00:00Z\t\t2024-01-01T00:00:01Z\t1000000000\n')
    one_line(['trace', 'convert', 'a.tsv', '/dev/full', '--to-format', 'kv'], 'No space left on device', stdout=subprocess.DEVNULL)
    with open('/dev/full', 'w') as full:
        one_line(['trace', 'convert', 'a.tsv', '-', '--to-format', 'kv'], 'No space left on device', stdout=full)


@in_folder
def a_limit_on_files_is_named_as_such():
    """The writer notices only at the end; what the first write came to is told."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
    penstock(*BENCH, '--json', 'r.json')
    done = subprocess.run([PENSTOCK, 'report', *['r.json'] * 8, '-o', 'p.html'], capture_output=True, text=True, preexec_fn=limit)
    assert (done.returncode, os.path.exists('p.html')) in ((1, False), (-signal.SIGXFSZ, False)), done
    assert done.returncode < 0 or 'File too large' in done.stderr, done


@in_folder
def a_yaml_file_of_many_keys_is_read_in_linear_time():
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))  # of which 1 is needed, or 70 when it is not linear
    save('c.yaml', ''.join(f'k{i}: 1\n' for i in range(60000)))
    done = penstock('kv', '--config', 'c.yaml', '--model', 'list', status=1, preexec_fn=limit)
    assert 'and 59900 more' in done.stderr
    save('c.yaml', 'decode:\n  batch_size: 1\ndecode:\n  batch_size: 2\n')
    assert "line 3: duplicate key 'decode'" in penstock('kv', '--config', 'c.yaml', '--model', 'list', status=1).stderr
    save('c.yaml', 'model_configs:\n' + ''.join(f'  m{i}: {{num_layers: 2}}\n' for i in range(1001)))
    assert 'more than 1000 models' in penstock('kv', '--config', 'c.yaml', '--model', 'list', status=1).stderr


run_all(globals())
