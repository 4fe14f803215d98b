# SPDX-License-Identifier: Apache-2.0
"""penstock s3 compare: the same objects through penstock and the clients of others, in turns, and who was faster."""
import contextlib
import importlib
import json
import math
import os
import re
import secrets
import subprocess
import sys
from typing import Any

MIB = 1 << 20
# Of Student's t, both ends 2.5 %, for 1, 2, ... degrees of freedom; beyond them the last is good enough.
T975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
        2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


def _option(group: str, name: str, kind: str, meta: str | None, default: str | None, text: str,
            limits: tuple[int, int] | None = None, role: str | None = None,
            aliases: dict[str, str] | None = None) -> dict[str, Any]:
    """An entry as those of `penstock --dump-options', from which manual and completion are made."""
    entry: dict[str, Any] = {'name': name, 'kind': kind, 'role': role, 'group': group, 'letter': None, 'meta': meta,
             'help': text, 'required': False, 'aliases': list(aliases or ()), 'tools': aliases or {},
             'default': default}
    return entry | ({'min': str(limits[0]), 'max': str(limits[1])} if limits else {})


COMMAND: dict[str, Any] = {
    'name': 's3 compare', 'summary': 'the same objects through penstock and other clients, in turns',
    'usage': 's3://BUCKET/PREFIX', 'operands': 'o', 'notes': None, 'runs': True, 'options': [
        _option('Who', 'library', 'list', 'NAME', None, 'this one alone, beside penstock', (1, 16)),
        _option('Who', 'compare', 'list', 'NAME', None, 'these, beside penstock', (1, 16)),
        _option('Who', 'compare-all', 'flag', None, None, 'all that are installed; the default'),
        _option('What', 'files', 'integer', 'N', '64', 'objects in each turn', (1, 1000000)),
        _option('What', 'size', 'size', 'BYTES', '16M', "of each; a number alone counts MiB", (1, 1 << 32)),
        _option('What', 'in-flight', 'integer', 'N', '8', 'objects in flight', (1, 1024),
                aliases={'threads': "MLPerf's scripts"}),
        _option('What', 'part', 'size', 'BYTES', '8M', 'of large objects, where a client takes it', (5 << 20, 1 << 32)),
        _option('What', 'sign-body', 'flag', None, None, 'make what is sent part of the signature'),
        _option('What', 'skip-write-test', 'flag', None, None, 'measure reads alone, of objects that penstock puts'),
        _option('What', 'iterations', 'integer', 'N', '5', 'turns of each client', (2, 1000)),
        _option('Where', 'endpoint', 'string', 'URL', None, "of the store; default: the environment's, else AWS"),
        _option('Output', 'json', 'string', 'FILE', None, 'write the result as JSON', role='write'),
    ]}


class Failed(Exception):
    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text + (" (see 'penstock s3 compare --help')" if status == 2 else ''))
        self.status = status


# ---------------------------------------------------------------------------- the command line

def size_of(name: str, text: str, default_unit: int) -> int:
    """Bytes; a bare number counts @default_unit."""
    m = re.fullmatch(r'(\d+)([KMG]?)(i?B)?', text, re.I)
    value = int(m[1]) * ({'K': 1 << 10, 'M': MIB, 'G': 1 << 30}.get(m[2].upper(), default_unit)) if m else 0
    if not 1 <= value <= 1 << 32:
        raise Failed(f"--{name}: '{text}' is no size between 1 and 4G", 2)
    return value


def parse_words(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    table = {name: o for o in COMMAND['options'] for name in (o['name'], *o['aliases'])}
    args: dict[str, Any] = {o['name']: [] if o['kind'] == 'list' else o['default'] for o in COMMAND['options']}
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, text = word[2:].partition('=')
        o = table.get(name.replace('_', '-')) if word.startswith('--') else None
        if not o and word.startswith('-'):
            raise Failed(f"unknown option '{word}'", 2)
        if not o:
            operands.append(word)
            continue
        if o['kind'] == 'flag':
            args[o['name']] = True
            continue
        if not equals and not rest:
            raise Failed(f'--{o["name"]}: needs a value ({o["meta"]})', 2)
        values = [text if equals else rest.pop(0)]
        while o['name'] == 'compare' and rest and not rest[0].startswith('-') and '://' not in rest[0]:
            values.append(rest.pop(0))
        if o['kind'] == 'list':
            args[o['name']] += [v for value in values for v in value.split(',') if v]
        else:
            args[o['name']] = values[0]
    for o in COMMAND['options']:
        if o['kind'] == 'integer':
            value = args[o['name']]
            if not str(value).isdigit() or not int(o['min']) <= int(value) <= int(o['max']):
                raise Failed(f"--{o['name']}: '{value}' is outside {o['min']}..{o['max']}", 2)
            args[o['name']] = int(value)
    return args, operands


def choose_libraries(args: dict[str, Any], clients: Any) -> list[str]:
    if (args['library'] or args['compare']) and args['compare-all']:
        raise Failed('--compare-all and the names of libraries exclude each other', 2)
    named = list(dict.fromkeys(args['library'] + args['compare']))
    for name in named:
        if name not in clients.LIBRARIES and ':' not in name:
            what = 'is not built: it cannot be held to the same objects' if name == 'warp' else 'is unknown'
            raise Failed(f"'{name}' {what}; there are {', '.join(clients.LIBRARIES)}, and MODULE:CLASS", 2)
        if name in clients.LIBRARIES and not clients.is_installed(name):
            raise Failed(f"'{name}' is not installed", 3)
    if not named:
        named = [name for name in clients.LIBRARIES if clients.is_installed(name)]
    return list(dict.fromkeys(['penstock', *named]))


# --------------------------------------------------------------------------------- statistics

Interval = tuple[float, float] | None  # at 95 %; None of fewer than three, as everywhere in results


def rate_interval(rates: list[float]) -> tuple[float, Interval]:
    """Their geometric mean, since what disturbs a turn makes it slower by a share, and its interval."""
    logs, n = [math.log(v) for v in rates], len(rates)
    mean = math.fsum(logs) / n
    if n < 3:
        return math.exp(mean), None
    half = T975[min(n - 1, len(T975)) - 1] * math.sqrt(math.fsum((v - mean) ** 2 for v in logs) / (n - 1) / n)
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def ratio_interval(ours: list[float], theirs: list[float]) -> tuple[float, Interval]:
    """Of penstock's rates to those of another, round by round: turns of a round share what the server does meanwhile."""
    return rate_interval([a / b for a, b in zip(ours, theirs)])


# ------------------------------------------------------------------------------------- the run

class Run:
    def __init__(self, args: dict[str, Any], libraries: list[str], uri: str) -> None:
        self.args, self.libraries = args, libraries
        s3 = importlib.import_module('penstock.s3')
        try:
            bucket, prefix = s3.split(uri)
        except ValueError as e:
            raise Failed(str(e), 2) from None
        self.client = s3.Client(endpoint=args['endpoint'])
        self.prefix = (prefix.rstrip('/') + '/' if prefix else '') + f'penstock-compare-{secrets.token_hex(8)}/'
        self.uri, self.bucket = f's3://{bucket}/{self.prefix}', bucket
        self.size, self.part = size_of('size', args['size'], MIB), size_of('part', args['part'], 1)
        if self.part < 5 * MIB:
            raise Failed(f"--part: '{args['part']}' is less than the 5M that stores take", 2)
        self.turns: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.errors: dict[str, str] = {}

    def run_turn(self, library: str, what: str, folder: str) -> dict[str, Any]:
        region = os.environ.get('AWS_REGION') or os.environ.get('AWS_DEFAULT_REGION') or 'us-east-1'
        endpoint = self.args['endpoint'] or os.environ.get('AWS_ENDPOINT_URL_S3') or os.environ.get('AWS_ENDPOINT_URL')
        job = {'library': library, 'what': what, 'bucket': self.bucket, 'endpoint': endpoint, 'region': region, 'size': self.size,
               'part': self.part, 'threads': self.args['in-flight'], 'sign_body': bool(self.args['sign-body']),
               'seed': sum(folder.encode()), 'keys': [f'{self.prefix}{folder}/{i:07}' for i in range(self.args['files'])]}
        env = dict(os.environ, **({'AWS_ENDPOINT_URL': endpoint} if endpoint else {}))
        done = subprocess.run([sys.executable, '-m', 'penstock._s3_clients'], input=json.dumps(job), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env)
        try:
            answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            answer = {'error': f'ended with status {done.returncode}: {" ".join(done.stderr.split())[-300:]}'}
        return answer

    def measure(self, library: str, what: str, folder: str, counted: bool = True) -> None:
        if library in self.errors:
            return
        answer = self.run_turn(library, what, folder)
        if 'error' in answer:
            self.errors[library] = f'{what}: {answer["error"]}'
        elif counted:
            self.turns.setdefault((library, what), []).append(answer)

    def run_round(self, i: int) -> None:
        """Each begins in its turn, so that none always comes after the same one."""
        n = len(self.libraries)
        order = [self.libraries[(i + k) % n] for k in range(n)]
        folders = {name: f'{i}-{self.libraries.index(name)}' for name in order}
        for name in order:
            self.measure('penstock' if self.args['skip-write-test'] else name, 'write', folders[name], not self.args['skip-write-test'])
        for name in order:
            self.measure(name, 'read', folders[name])
        self.delete_objects()

    def delete_objects(self) -> None:
        self.client.delete([u for u in self.client.list(self.uri, recursive=True)])

    def rates(self, library: str, what: str) -> list[float]:
        total = self.size * self.args['files']
        return [total / t['sec'] for t in self.turns.get((library, what), [])]

    def rows(self) -> list[dict[str, Any]]:
        gib = self.size * self.args['files'] / 2**30
        rows = []
        for what in ('write', 'read'):
            for name in self.libraries:
                turns = self.turns.get((name, what))
                if not turns or name in self.errors:
                    continue
                rate, interval = rate_interval(self.rates(name, what))
                rows.append({'library': name, 'operation': what, 'bytes_per_sec': rate, 'bytes_per_sec_ci95': interval,
                             'cpu_sec_per_gib': math.fsum(t['cpu_sec'] for t in turns) / len(turns) / gib,
                             'memory_bytes': max(t['memory_bytes'] for t in turns),
                             'memory_before_bytes': max(t['memory_before_bytes'] for t in turns), 'turns': turns})
        return rows

    def verdicts(self) -> list[dict[str, Any]]:
        out = []
        for what in ('write', 'read'):
            for name in self.libraries[1:]:
                ours, theirs = self.rates('penstock', what), self.rates(name, what)
                if name in self.errors or 'penstock' in self.errors or not ours or len(ours) != len(theirs):
                    continue
                ratio, interval = ratio_interval(ours, theirs)
                low, high = interval or (0, math.inf)
                verdict = 'faster' if low > 1 else 'slower' if high < 1 else 'not decided'
                out.append({'library': name, 'operation': what, 'ratio': ratio, 'ratio_ci95': interval, 'verdict': verdict})
        return out


def format_interval(interval: Interval, unit: float, digits: int) -> str:
    return f'{interval[0] / unit:.{digits}f}..{interval[1] / unit:.{digits}f}' if interval else '-'


def print_result(run: Run, clients: Any) -> None:
    a = run.args
    size = f'{run.size / MIB:g} MiB' if run.size >= MIB else f'{run.size} bytes'
    print(f'{a["files"]} objects of {size}, {a["in-flight"]} in flight, parts of {run.part / MIB:g} MiB, payload '
          f'{"signed" if a["sign-body"] else "not signed"}, {a["iterations"]} rounds in turns; {run.uri}')
    print(f'\n{"":18}{"":8}{"MB/s":>10} {"95 % interval":>19} {"CPU s/GiB":>10} {"memory":>10}')
    for row in run.rows():
        print(f'{row["library"]:18}{row["operation"]:8}{row["bytes_per_sec"] / 1e6:10.1f} '
              f'{format_interval(row["bytes_per_sec_ci95"], 1e6, 1):>19} {row["cpu_sec_per_gib"]:10.2f} {row["memory_bytes"] / MIB:6.0f} MiB')
    print()
    for v in run.verdicts():
        how = {'faster': f'penstock is {v["ratio"]:.2f} times as fast', 'slower': f'penstock has {v["ratio"]:.2f} of its speed',
               'not decided': f'nothing is decided: {v["ratio"]:.2f} times'}[v['verdict']]
        print(f'{v["operation"]:6} against {v["library"]}: {how} ({format_interval(v["ratio_ci95"], 1, 2)})')
    for name in run.libraries:
        if clients.note_of(name) and name not in run.errors:
            print(f'note: {name}: {clients.note_of(name)}')
    for name, why in run.errors.items():
        print(f'{name}: failed: {why}')


def write_json(run: Run, clients: Any, path: str) -> None:
    version = importlib.import_module('penstock').__version__
    result = {'schema': 'penstock-s3-compare/1', 'penstock': version, 'files': run.args['files'], 'size_bytes': run.size,
              'part_bytes': run.part, 'threads': run.args['in-flight'], 'sign_body': bool(run.args['sign-body']),
              'rounds': run.args['iterations'], 'rows': run.rows(), 'verdicts': run.verdicts(), 'errors': run.errors,
              'libraries': [{'name': n, 'version': clients.version_of(n), 'note': clients.note_of(n) or None} for n in run.libraries]}
    text = json.dumps(result, indent=2) + '\n'
    if path == '-':
        sys.stdout.write(text)
        return
    with open(path + '.part', 'w', encoding='utf-8') as f:
        f.write(text)
    os.replace(path + '.part', path)


def _main(words: list[str]) -> int:
    args, operands = parse_words(words)
    if len(operands) != 1:
        raise Failed(f'one s3://BUCKET/PREFIX is needed, not {len(operands)} operands', 2)
    clients = importlib.import_module('penstock._s3_clients')
    run = Run(args, choose_libraries(args, clients), operands[0])
    try:
        for i in range(args['iterations']):
            run.run_round(i)
            if sys.stderr.isatty():
                print(f'\r{i + 1} of {args["iterations"]} rounds', end='', file=sys.__stderr__, flush=True)
    finally:
        with contextlib.suppress(OSError):
            run.delete_objects()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if args['json'] != '-':
        print_result(run, clients)
    if args['json']:
        write_json(run, clients, args['json'])
    return 1 if run.errors else 0


def main(words: list[str]) -> int:
    """The exit status."""
    if {'-h', '--help', '--help-all', '--help_all'} & set(words):
        importlib.import_module('penstock._command').show_help(COMMAND)
        return 0
    try:
        return _main(words)
    except Failed as e:
        text, status = str(e), e.status
    except OSError as e:
        text, status = f"'{e.filename}': {e.strerror}" if e.filename else str(e), 1
    except KeyboardInterrupt:
        text, status = 'interrupted; the objects were removed', 130
    print(f'penstock s3 compare: {text}', file=sys.stderr, flush=True)
    return status
