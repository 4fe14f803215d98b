# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: help, version, and what is said about mistakes.

    usage.py PENSTOCK
"""
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

PENSTOCK = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ['PENSTOCK'])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')


def penstock(*args, **more):
    """Exit status, standard output, standard error."""
    done = subprocess.run([PENSTOCK, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors='replace')


def tables():
    """All commands; `words` is what is typed to get there: ['kv', 'vectors']."""
    status, out, _ = penstock('--dump-options')
    assert status == 0
    commands = json.loads(out)['commands']
    for cmd in commands:
        cmd['words'] = cmd['name'].split()
        cmd['subs'] = [c['name'].split()[1] for c in commands if c['name'].startswith(cmd['name'] + ' ')]
    return commands


def refused(*args, says=()):
    """One line on standard error that names what is wrong, nothing else, status 2."""
    status, out, err = penstock(*args)
    assert status == 2, f'{args}: status {status}'
    assert out == '', f'{args}: {out!r}'
    assert err.endswith('\n') and err.count('\n') == 1, f'{args}: {err!r}'
    assert err.startswith('penstock'), err
    for word in says:
        assert word in err, f'{args}: {word!r} is not in {err!r}'


def on_one_screen(out):
    """Of 24 lines, the last of which the prompt has."""
    assert max(map(len, out.splitlines())) <= 80 and out.count('\n') <= 23 and ' \n' not in out, out


def help_lists_every_command():
    for args in (['--help'], ['-h'], ['help']):
        status, out, err = penstock(*args)
        assert (status, err) == (0, '')
        for cmd in tables():
            assert (f'\n  {cmd["name"]} ' in out) == (len(cmd['words']) == 1), cmd['name']
        on_one_screen(out)
    for arg in ('--help-all', '--help_all'):
        status, full, err = penstock(arg)
        assert (status, err) == (0, '') and full.startswith(out[:out.rindex('\nEach')]), full
        assert 'Exit status: ' in full and '2MB and 2MiB are both 2M' in full, full
        assert max(map(len, full.splitlines())) <= 80


def help_of_a_command_lists_every_option():
    for cmd in tables():
        words = cmd['words']
        status, out, err = penstock(*words, '--help-all')
        assert (status, err) == (0, '')
        for opt in cmd['options']:
            assert f'--{opt["name"]}' in out, opt['name']
            assert not opt['letter'] or f'-{opt["letter"]}, --{opt["name"]}' in out
        assert max(map(len, out.splitlines())) <= 80
        assert penstock(*words, 'x', '--help_all') == (0, out, '')


def the_short_help_fits_one_screen():
    for cmd in tables():
        words = cmd['words']
        texts = [penstock('help', *words), penstock(*words, '--help'), penstock(*words, '-h'),
                 penstock(*words, 'x', '--help')]
        for status, out, err in texts:
            assert (status, err) == (0, '')
            assert out == texts[0][1]
        assert all(f'\n  {sub} ' in out for sub in cmd['subs']), out
        on_one_screen(out)
        shown = [opt for opt in cmd['options'] if f'--{opt["name"]}' in out]
        assert len(shown) == len(cmd['options']) or f'  all {len(cmd["options"])} options\n' in out, out
        assert not cmd['options'] or len(shown) >= 3 or len(shown) == len(cmd['options']), out


# Whose options the messages of a file name: of all these commands, or the message is wrong in one of them.
MESSAGES_OF = (
    ('cli/kv/', 'kv'), ('cli/replay_args', 'replay'), ('cli/cli_trace.c', 'trace convert, trace stat, replay'), ('cli/ranks', 'bench, io, kv'),
    ('cli/cli_output', 'bench, io, sweep, tune, replay, ckpt bench'), ('cli/opt/axes', 'io, bench, sweep, tune, kv, replay'),
    ('cli/opt/config', 'io, kv'), ('cli/opt/transfer_opts', 'io, bench, sweep, tune'), ('cli/opt/places', 'io'), ('cli/opt/opt_space', 'sweep, tune'),
    ('load/weights/weights_', 'weights'), ('load/jobs/bench', 'bench'), ('load/jobs/io', 'io'), ('load/jobs/sweep', 'sweep'),
    ('load/jobs/tune', 'tune'), ('load/jobs/ckpt', 'ckpt bench'), ('load/kv/', 'kv'), ('load/replay/', 'replay'),
)


def commands_of(path, names):
    own = re.match(r'cli/(?:\w+/)?cmd_(\w+)\.c$', path)
    if own and own[1].replace('_', ' ') in names:
        return [own[1].replace('_', ' ')]
    return next((of.split(', ') for start, of in MESSAGES_OF if path.startswith(start)), [])


def messages_name_options_that_exist():
    """Of the command that prints them, or of the one that the message names: `penstock replay --keep'."""
    known = {cmd['name']: {name.replace('_', '-') for opt in cmd['options'] for name in [opt['name'], *opt['aliases']]}
             | {'help', 'version', 'ranks'} for cmd in tables()}
    found = 0
    for path in glob.glob('cli/**/*.c', root_dir=ROOT, recursive=True) + glob.glob('load/**/*.c', root_dir=ROOT, recursive=True):
        with open(f'{ROOT}/{path}') as f:
            text = f.read()
        for m in re.finditer(r'\b(?:penstock_fail|cli_usage|cli_fail|cli_note)\(([^;]*);', text):
            words = ' '.join(re.findall(r'"((?:[^"\\]|\\.)*)"', m[1]))
            for option in re.finditer(r"(?:`penstock ([a-z ]+) )?--([a-z][a-z_-]+)\b(?!%)", words):
                commands = [option[1]] if option[1] else commands_of(path, known)
                assert commands, f'{path} names --{option[2]}: whose is it?'
                for command in commands:
                    assert option[2].replace('_', '-') in known[command], f'{path}: --{option[2]} is no option of {command}'
                found += 1
    assert found > 100, found


W = 'a-name-that-is-said-once'
FAILING = '\n'.join(line.strip() for line in '''
    io --folder W
    io --folder W.txt
    io --verify --read-only --size 900T
    bench --target W
    bench --target W.txt --size 4K
    bench --size 900T
    bench --size 4K --json W/x
    sweep --sweep_config W.json
    sweep --target W
    tune --folder W.txt
    kv --config W
    kv --burst-trace-path W --use-burst-trace --io-trace-log t --output o
    trace stat W.txt
    trace convert W.csv out --to-format kv
    trace convert W out --to-format kv
    replay W --target d
    replay W.csv --target d
    report W.json
    compare W W
    ckpt ls W.safetensors
    ckpt verify W
    ckpt cp W.safetensors W/y
    gen W/x
    gen W.txt
    gen --verify W.txt
    weights W
    weights W.safetensors
    store info W.txt
    stripe check W.txt
    cp W y
    cp W.txt W/y
    ls W
    rm W'''.strip().splitlines()).replace('W', W)


def a_message_says_neither_a_path_nor_a_length_twice():
    """Each layer adds what it knows: so a path was in a message once for each of them."""
    with tap.folder():
        for name, content in ('.txt', b'x'), ('.json', b'{"a": ['), ('.csv', b'Timestamp,Operation\n1,2\n'), \
                ('.safetensors', b'\xff\0\0\0\0\0\0\0{}'):
            with open(W + name, 'wb') as f:
                f.write(content)
        before = sorted(os.listdir())
        for line in FAILING.splitlines():
            status, out, err = penstock(*line.split())
            assert status in (1, 2) and not out and err.count('\n') == 1, (line, status, out, err)
            assert err.count(W) <= 1, err
            numbers = re.findall(r'\d{3,}', err.replace(W, ''))
            assert len(numbers) == len(set(numbers)), err
        assert sorted(os.listdir()) == before, os.listdir()


def version_is_one_line():
    for arg in ('--version', '-V'):
        status, out, err = penstock(arg)
        assert (status, err) == (0, '')
        assert out.startswith('penstock ') and out.count('\n') == 1


def no_command_shows_the_help_and_is_status_2():
    status, out, err = penstock()
    assert (status, out) == (2, '')
    assert 'usage: penstock COMMAND' in err


def an_unknown_command_gets_a_suggestion():
    refused('inof', says=["unknown command 'inof'", "did you mean 'info'?"])
    refused('xyzzy', says=["unknown command 'xyzzy'", 'penstock --help'])
    refused('help', 'inof', says=["did you mean 'info'?"])
    refused('--versoin', says=["unknown option '--versoin'", "did you mean '--version'?"])
    refused('--help-al', says=["did you mean '--help-all'?"])
    refused('', says=["unknown command ''"])
    refused('info\nx', says=["unknown command 'info\\x0ax'"])


def every_table_is_sound():
    """Names are unique in either spelling, letters are unique, each option has a help text."""
    for cmd in tables():
        names, letters = set(), set('h')
        for opt in cmd['options']:
            for name in [opt['name'], *opt['aliases']]:
                name = name.replace('_', '-')
                assert name not in names and name != 'help', f'{cmd["name"]}: --{name} twice'
                names.add(name)
            if opt['letter']:
                assert opt['letter'] not in letters, f'{cmd["name"]}: -{opt["letter"]} twice'
                letters.add(opt['letter'])
                assert opt['letter'] != 't' or opt['name'] in ('threads', 'io_parallel'), f'{cmd["name"]}: -t is threads'
            assert opt['help'] and opt['group'], opt
            assert opt['kind'] in ('flag', 'choice') or opt['meta'], opt


def stands_alone(opt):
    return opt['kind'] == 'flag' or opt['kind'] == 'list' and opt['min'] == '0'


def every_option_refuses_what_is_wrong():
    for cmd in tables():
        for opt in cmd['options']:
            long, words = f'--{opt["name"]}', cmd['words']
            if opt['kind'] == 'flag':
                refused(*words, f'{long}=yes', says=[long, "'yes'", 'takes no value'])
                continue
            if stands_alone(opt):
                continue
            refused(*words, long, says=[long, 'needs a value'])
            if opt['kind'] == 'choice':
                refused(*words, long, 'x-x', says=[long, "'x-x'", *opt['choices']])
            if opt['kind'] in ('integer', 'size'):
                for junk in ('', 'x', '1x', '-1', '1 ', '0x', '1e3'):
                    refused(*words, f'{long}={junk}', says=[long, f"'{junk}'"])
                refused(*words, long, '9' * 30, says=[long, 'is outside'])
                if int(opt['min']) > 0:
                    refused(*words, long, str(int(opt['min']) - 1), says=[long, 'is outside'])
                if int(opt['max']) < 2**64 - 1:
                    refused(*words, long, str(int(opt['max']) + 1), says=[long, 'is outside'])
            if opt['kind'] in ('signed', 'number'):
                for junk in ('', 'x', '1x', '1 ', ' 1', '0x1', '--1', '1.5.', 'nan', 'inf'):
                    refused(*words, f'{long}={junk}', says=[long, f"'{junk}'", 'is not a'])
                if 'max' in opt:
                    refused(*words, long, str(float(opt['max']) * 2 + 1), says=[long, 'is outside'])


def unknown_options_are_refused():
    for cmd in tables():
        refused(*cmd['words'], '--xyzzy', says=["unknown option '--xyzzy'"])
        refused(*cmd['words'], '-\x01', says=['unknown option'])
        if any(opt['name'] == 'json' for opt in cmd['options']):
            refused(*cmd['words'], '--jsno', 'x', says=["did you mean '--json'?"])
        refused(*cmd['words'], '--json\nforged: line', says=['\\x0aforged'])


def both_spellings_of_every_option_are_known():
    for cmd in tables():
        for opt in cmd['options']:
            for name in [opt['name'], *opt['aliases']]:
                for spelled in {name.replace('_', '-'), name.replace('-', '_')}:
                    # stopped by the unknown option behind it, not by this one
                    args = [f'--{spelled}'] if stands_alone(opt) else []
                    refused(*cmd['words'], *args, '--xyzzy', says=["'--xyzzy'"])
                    if not args:
                        refused(*cmd['words'], f'--{spelled}', says=['needs a value'])


def a_command_of_a_command_gets_a_suggestion():
    for cmd in tables():
        if not cmd['subs']:
            continue
        sub = cmd['subs'][0]
        for words in ([*cmd['words'], sub + 'x'], ['help', *cmd['words'], sub + 'x']):
            refused(*words, says=[f"penstock {cmd['name']}: unknown command '{sub}x'; did you mean '{sub}'?",
                                  f"'penstock {cmd['name']} --help'"])
        if cmd['usage'] is None:
            refused(*cmd['words'], 'xyzzy', says=["unknown command 'xyzzy'"])
        if not cmd['runs']:
            refused(*cmd['words'], says=['a command is needed: one of', *cmd['subs']])


def operands_are_refused_where_none_are_taken():
    for cmd in tables():
        if cmd['usage'] is None and not cmd['subs']:
            # the one command of kv, and of s3, is written in Python, and not in the tables
            refused(*cmd['words'], 'what', says=["'what'", 'unknown command' if cmd['name'] in ('kv', 's3') else 'takes options only'])


def a_full_disk_is_a_failure():
    if not os.path.exists('/dev/full'):
        raise tap.Skip('full', 'no /dev/full')
    for args in (['--help'], ['--dump-options'], ['--version'], ['info']):
        with open('/dev/full', 'w') as full:
            done = subprocess.run([PENSTOCK, *args], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1, args
        assert 'No space left' in done.stderr


def a_closed_pipe_is_no_crash():
    for args in (['--help'], ['--dump-options']):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([PENSTOCK, *args], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert done.returncode in (1, -13), done.returncode


tap.run(help_lists_every_command, help_of_a_command_lists_every_option, the_short_help_fits_one_screen, messages_name_options_that_exist,
        a_message_says_neither_a_path_nor_a_length_twice, version_is_one_line,
        no_command_shows_the_help_and_is_status_2, an_unknown_command_gets_a_suggestion,
        every_table_is_sound, every_option_refuses_what_is_wrong, unknown_options_are_refused,
        both_spellings_of_every_option_are_known, a_command_of_a_command_gets_a_suggestion,
        operands_are_refused_where_none_are_taken,
        a_full_disk_is_a_failure, a_closed_pipe_is_no_crash)
