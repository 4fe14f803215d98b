# SPDX-License-Identifier: Apache-2.0
"""penstock kv mlperf: the options and trials of a submission, each run a process of `penstock kv', and
the summary over them.  With --rank-output-base it is one run of one rank: what MLPerf's front end
starts by mpirun.
"""
import contextlib
import difflib
import glob
import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

SUBMITTED = {'duration': 300, 'trials': 3, 'seed': 42}
# Name, model, users, CPU memory in GiB, allocations at a time.
OPTIONS = {1: ('Max Storage Stress', 'llama3.1-8b', 200, 0, 16),
           2: ('Storage Throughput', 'llama3.1-8b', 100, 4, 16),
           3: ('Large Model', 'llama3.1-70b-instruct', 70, 0, 4)}


def _option(group: str, name: str, kind: str, meta: str | None, default: str | None, text: str,
            limits: tuple[int, int] | None = None, aliases: tuple[str, ...] = (),
            role: str | None = None) -> dict[str, Any]:
    """An entry as those of `penstock --dump-options', from which manual and completion are made."""
    entry = {'name': name, 'kind': kind, 'role': role, 'group': group, 'letter': None, 'meta': meta,
             'help': text, 'required': False, 'aliases': list(aliases), 'default': default}
    return entry | ({'min': str(limits[0]), 'max': str(limits[1])} if limits else {})


COMMAND: dict[str, Any] = {
    'name': 'kv mlperf', 'summary': 'what an MLPerf submission runs, and its summary',
    'usage': '[KV_OPTION...]', 'operands': None, 'notes': None, 'runs': True, 'options': [
        _option('Run', 'folder', 'string', 'FOLDER', None,
                'on the storage that is measured', aliases=('cache-dir',), role='place'),
        _option('Run', 'results-dir', 'string', 'FOLDER', None,
                'where results go; default: a new folder', role='write'),
        _option('Run', 'options', 'list', 'N', None, 'which of the options; default: 1 2 3', (1, 3)),
        _option('Run', 'iterations', 'integer', 'N', '3', 'runs of each option', (1, 1000), ('trials',)),
        _option('Run', 'npernode', 'integer', 'N', '1', 'ranks at a time on this machine', (1, 1024)),
        _option('Run', 'seed', 'integer', 'N', '42', "of rank 0",
                (0, 2**63 - 1), ('seed-base',)),
        _option('Run', 'delay', 'integer', 'SECONDS', '20', 'pause between options', (0, 86400)),
        _option('Run', 'runtime', 'integer', 'SECONDS', None,
                'of a run, instead of 300', (1, 86400), ('duration',)),
        _option('Run', 'config', 'string', 'FILE', None,
                'settings in YAML: not in a closed submission', role='read'),
        _option('Run', 'dry-run', 'flag', None, None, 'print what would be run'),
        _option('Ranks of mpirun', 'rank-output-base', 'string', 'FOLDER', None,
                "one rank's run: its result goes to rank_N in here", role='write'),
        _option('Ranks of mpirun', 'rank-cache-base', 'string', 'FOLDER', None,
                "the rank's storage is rank_N in here", role='place'),
        _option('Ranks of mpirun', 'start-delay', 'integer', 'SECONDS', '90', 'pause before it',
                (0, 86400)),
        _option('Ranks of mpirun', 'end-delay', 'integer', 'SECONDS', '90', 'pause after it',
                (0, 86400)),
    ]}


class Failed(Exception):
    """One line for the user, and the exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text + (" (see 'penstock kv mlperf --help')" if status == 2 else ''))
        self.status = status


def say(text: str) -> None:
    print(f'penstock kv mlperf: {text}', file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------- the command line

def _option_name(name: str) -> str:
    return name.replace('_', '-')


def _is_option(word: str) -> bool:
    return word.startswith('-') and len(word) > 1 and not word.lstrip('-.')[:1].isdigit()


def _path(o: dict[str, Any], text: str) -> str:
    scheme = re.match(r'([a-z][a-z0-9+.-]*)://', text, re.I)
    if scheme and scheme[1].lower() == 'file' and text.startswith('/', scheme.end()):
        return text[scheme.end():]
    if scheme:
        raise Failed(f"--{o['name']}: '{text}': {scheme[0]} is not supported; give a path or file:///PATH", 2)
    return text


def _value(o: dict[str, Any], text: str) -> Any:
    if o['role']:
        return _path(o, text)
    if o['kind'] != 'integer':
        return text
    try:
        value = int(text)
    except ValueError:
        raise Failed(f"--{o['name']}: '{text}' is not a whole number", 2) from None
    if not int(o['min']) <= value <= int(o['max']):
        raise Failed(f"--{o['name']}: '{text}' is outside {o['min']}..{o['max']}", 2)
    return value


def parse(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """What our options say, and the words for `penstock kv': all others."""
    table = {n: o for o in COMMAND['options'] for n in (o['name'], *o['aliases'])}
    args: dict[str, Any] = {
        o['name'].replace('-', '_'): None if o['default'] is None else _value(o, o['default'])
        for o in COMMAND['options']}
    args |= {'dry_run': False, 'options': []}
    extra: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == '--':
            return args, extra + rest
        name, equals, text = word[2:].partition('=')
        o = table.get(_option_name(name)) if word.startswith('--') else None
        if o is None:
            extra.append(word)
            continue
        key = o['name'].replace('-', '_')
        if o['kind'] == 'flag':
            args[key] = True
            continue
        if not equals and (not rest or _is_option(rest[0])):
            raise Failed(f"--{o['name']}: needs a value ({o['meta']})", 2)
        values = [text if equals else rest.pop(0)]
        while o['kind'] == 'list' and rest and not _is_option(rest[0]):
            values.append(rest.pop(0))
        if o['kind'] == 'list':
            args[key] += [v for text in values for v in text.split(',')]
        else:
            args[key] = _value(o, values[0])
    return args, extra


def check_extra(extra: list[str]) -> None:
    """A misspelt option is neither ours nor theirs: tell before anything is run."""
    dump = subprocess.run([_program(), '--dump-options'], stdout=subprocess.PIPE, check=True).stdout
    kv = next(c for c in json.loads(dump)['commands'] if c['name'] == 'kv')
    known = [_option_name(n) for o in kv['options'] for n in (o['name'], *o['aliases'])]
    ours = [n for o in COMMAND['options'] for n in (o['name'], *o['aliases'])]
    for word in extra:
        name = _option_name(word[2:].partition('=')[0])
        if word.startswith('--') and name and not any(k.startswith(name) for k in known):
            near = difflib.get_close_matches(name, ours + known, 1)
            hint = f"; did you mean '--{near[0]}'?" if near else ''
            raise Failed(f"unknown option '--{name}'{hint}", 2)


def _check_cache_dir(path: str) -> None:
    """As `penstock kv' does, before the first run."""
    full = os.path.realpath(path)
    for folder in ('/etc', '/bin', '/sbin', '/usr/bin', '/usr/sbin', '/boot', '/sys', '/proc', '/dev', '/root'):
        if full == folder or (full.startswith(folder + '/') and folder != '/root'):
            raise Failed(f"--folder: '{path}' cannot be a system directory ({folder})")
    above = os.path.dirname(full)
    if os.path.exists(above) and not os.access(above, os.W_OK):
        raise Failed(f"--folder: '{path}': '{above}' cannot be written to")


# ------------------------------------------------------------------------------------ processes

def _program() -> str:
    # Not at the top: the tools that make the manual read this file alone.
    found: str = importlib.import_module('penstock._command').program()
    return found


def _ranks() -> Any:
    return importlib.import_module('penstock._ranks')


def _now() -> str:
    return time.strftime('%Y%m%d_%H%M%S')


class Stop:
    """The first of the signals that ask us to end."""

    def __init__(self) -> None:
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self.signal = self.signal or number


class Runs:
    """What is run, and where."""

    def __init__(self, args: dict[str, Any], extra: list[str], stop: Stop) -> None:
        ranks = _ranks()
        self.args, self.extra, self.stop, self.look = args, extra, stop, ranks.POLL_SECONDS
        try:
            self.ranks_group = ranks.RankGroup()
        except ValueError as e:
            raise Failed(str(e)) from None
        self.rank = self.ranks_group.me
        self.time = _now()
        self.folder = args['results_dir'] or f'kvcache_run_{self.time}'

    def watch(self, waiting: Iterable[object]) -> None:
        """Until it ends, or we are asked to."""
        for _ in waiting:
            if self.stop.signal:
                return
            time.sleep(self.look)

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds

        def left() -> Iterator[None]:
            while time.monotonic() < end:
                yield
        self.watch(left())

    def start(self, words: list[str], rank: int, out: str, cache: str,
              quiet: bool) -> 'subprocess.Popen[bytes]':
        folder = f'{out}/rank_{rank}'
        os.makedirs(folder, exist_ok=True)
        line = [_program(), 'kv', *words, f'--seed={self.args["seed"] + rank}',
                f'--output={folder}/kvcache_results_{_now()}.json', f'--folder={cache}/rank_{rank}']
        # By the reference each rank has users of its own: a run of its own, whatever started us.
        env = {**os.environ, 'PENSTOCK_MPI': 'off'}
        if not quiet:
            return subprocess.Popen(line, env=env)
        with open(f'{folder}/kv.log', 'wb') as log:
            return subprocess.Popen(line, stdout=log, stderr=log, env=env)

    def wait_all(self, children: list['subprocess.Popen[bytes]']) -> list[int]:
        """Their exit statuses; a wish to stop is passed on once."""
        signal_sent = False
        while any(child.poll() is None for child in children):
            if self.stop.signal and not signal_sent:
                signal_sent = True
                for child in children:
                    child.send_signal(self.stop.signal)
            time.sleep(self.look)
        return [c.returncode if c.returncode >= 0 else 128 - c.returncode for c in children]

    def run_ranks(self, words: list[str], ranks: Iterable[int], out: str, cache: str,
                  quiet: bool = True) -> list[int]:
        children: list[subprocess.Popen[bytes]] = []
        try:
            for rank in ranks:
                children.append(self.start(words, rank, out, cache, quiet))
        except OSError:
            for child in children:  # they are of no use
                child.terminate()
            self.wait_all(children)
            raise
        return self.wait_all(children)


# ------------------------------------------------------------------------------------ one rank

def run_rank(r: Runs) -> int:
    """What upstream's mlperf_wrapper.py does."""
    a = r.args
    if not a['rank_output_base'] or not a['rank_cache_base']:
        raise Failed('--rank-output-base and --rank-cache-base go together', 2)
    words = list(r.extra)
    words += [f'--config={a["config"]}'] if a['config'] else []
    words += [f'--runtime={a["runtime"]}'] if a['runtime'] else []
    r.pause(a['start_delay'])
    os.makedirs(a['rank_cache_base'], exist_ok=True)
    status = 0 if r.stop.signal else r.run_ranks(
        words, [_ranks().this_rank().rank], a['rank_output_base'], a['rank_cache_base'], quiet=False)[0]
    r.pause(a['end_delay'])
    return 128 + r.stop.signal if r.stop.signal else status


# ---------------------------------------------------------------------------- all of a submission

class Submission:
    def __init__(self, r: Runs) -> None:
        self.r, a = r, r.args
        for text in a['options']:
            if text not in ('1', '2', '3'):
                raise Failed(f"--options: '{text}' is not one of 1, 2, 3", 2)
        self.options = sorted({int(text) for text in a['options']}) or list(OPTIONS)
        self._set_ranks()
        if not a['folder']:
            raise Failed('--folder: is needed (FOLDER: on the storage that is measured)', 2)
        _check_cache_dir(a['folder'])
        for o in OPTIONS:
            if os.path.lexists(f'{r.folder}/option_{o}'):
                raise Failed(f"--results-dir: '{r.folder}' has results already: option_{o}", 2)
        self.why_not = ', '.join(self._why_not()) or None
        self.failures: list[dict[str, Any]] = []

    def _set_ranks(self) -> None:
        r, npernode = self.r.rank, self.r.args['npernode']
        if r.size > 1 and npernode > 1:
            raise Failed(f'--npernode: mpirun has started {r.size} ranks already', 2)
        if r.size > 1 and not self.r.args['results_dir']:
            raise Failed('--results-dir: is needed with mpirun', 2)
        self.npernode = r.local_size if r.size > 1 else npernode
        self.ranks = r.size if r.size > 1 else npernode
        self.own = [r.rank] if r.size > 1 else list(range(npernode))

    def _why_not(self) -> Iterator[str]:
        """What keeps the run from being what CLOSED asks for."""
        a = self.r.args
        if a['runtime'] not in (None, SUBMITTED['duration']):
            yield '--runtime is not 300'
        if a['iterations'] != SUBMITTED['trials']:
            yield '--iterations is not 3'
        if self.options != list(OPTIONS):
            yield 'not all of the options'
        if a['seed'] != SUBMITTED['seed']:
            yield '--seed is not 42'
        if a['config']:
            yield '--config is given'
        if a['delay'] < 20:
            yield '--delay is below 20'
        if self.r.extra:
            yield 'options of penstock kv are given'

    def words(self, option: int) -> list[str]:
        """The option as `penstock kv' takes it."""
        _, model, users, cpu, allocs = OPTIONS[option]
        a = self.r.args
        return [f'--model={model}', f'--num-users={users}',
                f'--runtime={a["runtime"] or SUBMITTED["duration"]}', '--gpu-mem-gb=0',
                f'--cpu-mem-gb={cpu}', f'--max-concurrent-allocs={allocs}', '--generation-mode=none',
                *([f'--config={a["config"]}'] if a['config'] else []), *self.r.extra]

    def plan(self) -> int:
        a, ranks = self.r.args, f'{self.ranks} rank{"s" * (self.ranks > 1)}'
        if self.r.rank.rank:  # what all would do says one
            return 0
        for o in self.options:
            print(f'option {o}, {OPTIONS[o][0]}: {a["iterations"]} trial{"s" * (a["iterations"] > 1)} of {ranks}:\n'
                  f'  penstock kv {" ".join(self.words(o))} --seed={a["seed"]}+RANK '
                  f'--folder={a["folder"]}/rank_RANK')
        seconds = len(self.options) * a['iterations'] * (a['runtime'] or SUBMITTED['duration'])
        print(f'Results in {self.r.folder}; at least {seconds} s.')
        if self.why_not:
            print(f'Not as a submission must be: {self.why_not}')
        return 0

    # ---- runs

    def run_trial(self, option: int, trial: int) -> None:
        r, trials = self.r, self.r.args['iterations']
        r.ranks_group.barrier()
        if r.stop.signal:
            return
        if not r.rank.rank:
            print(f'option {option} ({OPTIONS[option][0]}), trial {trial} of {trials}, {self.ranks} '
                  f'rank{"s" * (self.ranks > 1)}', file=sys.stderr, flush=True)
        out = f'{r.folder}/option_{option}/trial_{trial}'
        statuses = r.run_ranks(self.words(option), self.own, out, r.args['folder'])
        for rank, status in zip(self.own, statuses):
            if status:
                place = f'option_{option}/trial_{trial}/rank_{rank}'
                say(f'{place}: exit status {status}; see {r.folder}/{place}/kv.log')
                self.failures.append({'option': option, 'trial': trial, 'rank': rank, 'exit_status': status})
        if statuses[0] == 2:  # a bad option will not get better
            raise Failed(_last_line(f'{out}/rank_{self.own[0]}/kv.log'), 2)

    def run_all(self) -> None:
        r = self.r
        for i, option in enumerate(self.options):
            if i:
                r.pause(r.args['delay'])
            for trial in range(1, r.args['iterations'] + 1):
                if not r.stop.signal:
                    self.run_trial(option, trial)

    def run(self) -> int:
        r, cache = self.r, self.r.args['folder']
        made = not os.path.lexists(cache)
        os.makedirs(r.folder, exist_ok=True)
        os.makedirs(cache, exist_ok=True)
        try:
            self.run_all()
            said = r.ranks_group.gather(json.dumps({'failures': self.failures, 'results': self.results()}))
            if not r.rank.rank:
                self.summarize(said)
        finally:
            if made:
                with contextlib.suppress(OSError):
                    os.rmdir(cache)
        return 0

    # ---- the summary

    def results(self) -> dict[str, Any]:
        """Of this process, by the folders they are in."""
        places = [f'option_{o}/trial_{t}/rank_{rank}' for o in self.options
                  for t in range(1, self.r.args['iterations'] + 1) for rank in self.own]
        return {place: _read_result(f'{self.r.folder}/{place}') for place in places}

    def summarize(self, said: list[tuple[str | None, str]]) -> None:
        reports = [json.loads(text) for text, _ in said if text is not None]
        failures = [f for t in reports for f in t['failures']]
        lost = {rank: why for rank, (text, why) in enumerate(said) if text is None}
        results = {place: result for t in reports for place, result in t['results'].items()}
        options = {str(o): self.sum_up(o, results) for o in self.options}
        idle = [place for o in options.values() for place in o.pop('idle')]
        partial = bool(failures or lost) or any(o['partial_failure'] for o in options.values())
        summary = {
            'schema_version': '1.0', 'run_datetime': self.r.time, 'npernode': self.npernode,
            'host_count': -(-self.ranks // self.npernode), 'total_ranks': self.ranks,
            'trials_per_option': self.r.args['iterations'], 'options': options, 'partial_failure': partial,
            **({'trial_failures': failures} if failures else {}),
            'penstock': {'version': _version(), 'as_submitted': not self.why_not and not partial,
                       'why_not': self.why_not, **({'lost_ranks': lost} if lost else {}), **({'without_requests': idle} if idle else {})}}
        text = json.dumps(summary, indent=2, ensure_ascii=False) + '\n'
        for name in (f'kvcache_run_summary_{self.r.time}.json', 'summary.json'):
            _ranks().write_atomically(f'{self.r.folder}/{name}', text)
        _print_summary(summary)
        for place in idle:
            say(f'{place}: no request was completed')
        print(f'Summary: {self.r.folder}/summary.json', flush=True)
        if partial and not self.r.stop.signal:
            raise Failed('not all results are there')

    def sum_up(self, option: int, all_results: dict[str, Any]) -> dict[str, Any]:
        """Sums over ranks, averaged over trials; of latencies the worst."""
        sums, worst = dict.fromkeys(SUMS, 0.0), dict.fromkeys(WORST, -math.inf)
        missing: list[str] = []
        idle: list[str] = []
        in_memory = set()
        trials = 0
        for trial in range(1, self.r.args['iterations'] + 1):
            results = {}
            for rank in range(self.ranks):
                place = f'option_{option}/trial_{trial}/rank_{rank}'
                results[rank] = result = all_results.get(place)
                if result is None:
                    missing.append(place)
                elif 'summary' not in result:
                    idle.append(place)
            trials += any(result is not None for result in results.values())
            for rank, result in results.items():
                for name in sums:
                    sums[name] += _number_in(result, SUMS[name], 0)
                for name in worst:
                    worst[name] = max(worst[name], _number_in(result, WORST[name], -math.inf))
                # everything stayed in memory: storage was not measured
                if _number_in(result, 'cache_stats.storage_entries', -1) == 0:
                    in_memory.add(rank)
        return {'option': option,
                **{name: value / trials if trials else None for name, value in sums.items()},
                **{name: value if value > -math.inf else None for name, value in worst.items()},
                'rank_count': self.ranks, 'trial_count': trials, 'partial_failure': bool(missing),
                'missing_files': missing, 'cpu_tier_ranks': sorted(in_memory), 'idle': idle}


# By their way in the "summary" of a result.
SUMS = {'aggregated_read_bandwidth_gbps': 'cache_stats.tier_storage_read_bandwidth_gbps',
        'aggregated_write_bandwidth_gbps': 'cache_stats.tier_storage_write_bandwidth_gbps',
        'aggregated_avg_throughput_tokens_per_sec': 'avg_throughput_tokens_per_sec',
        'aggregated_storage_throughput_tokens_per_sec': 'storage_throughput_tokens_per_sec'}
WORST = {'aggregated_p95_latency_ms': 'storage_io_latency_ms.p95',
         'aggregated_device_read_p95_ms': 'cache_stats.storage_read_device_p95_ms',
         'aggregated_device_write_p95_ms': 'cache_stats.storage_write_device_p95_ms',
         'storage_read_p95_ms': 'cache_stats.storage_read_p95_ms',
         'storage_write_p95_ms': 'cache_stats.storage_write_p95_ms'}


def _version() -> str:
    version: str = importlib.import_module('penstock').__version__
    return version


def _last_line(path: str) -> str:
    with open(path, encoding='utf-8', errors='backslashreplace') as f:
        lines = [''.join(c if c.isprintable() else '?' for c in line) for line in f.read().splitlines()]
    return lines[-1].removeprefix('penstock kv: ') if lines else path


def _read_result(folder: str) -> dict[str, Any] | None:
    """The last of the results in a folder, by name and so by time; None where none can be read."""
    for path in sorted(glob.glob(f'{glob.escape(folder)}/kvcache_results_*.json'))[-1:]:
        with contextlib.suppress(OSError, ValueError), open(path, encoding='utf-8') as f:
            result = json.load(f)
            if isinstance(result, dict) and 'requests_completed' in result:
                return result
    return None


def _number_in(result: Any, path: str, otherwise: float) -> float:
    for name in ('summary', *path.split('.')):
        result = result.get(name) if isinstance(result, dict) else None
    number = isinstance(result, (int, float)) and not isinstance(result, bool)
    return result if number and math.isfinite(result) else otherwise


def _print_summary(summary: dict[str, Any]) -> None:
    columns = (('R GiB/s', 'aggregated_read_bandwidth_gbps', 10, 3, 1),
               ('W GiB/s', 'aggregated_write_bandwidth_gbps', 10, 3, 1),
               ('tok/s', 'aggregated_avg_throughput_tokens_per_sec', 10, 1, 1),
               ('P95 s', 'aggregated_p95_latency_ms', 10, 3, 1000),
               ('device R ms', 'aggregated_device_read_p95_ms', 12, 1, 1),
               ('device W ms', 'aggregated_device_write_p95_ms', 12, 1, 1))
    print(f'{"option":24}', *(f'{title:>{width}}' for title, _, width, _, _ in columns))
    for key, o in summary['options'].items():
        cells = ['-'.rjust(width) if o[name] is None else f'{o[name] / unit:{width}.{digits}f}'
                 for _, name, width, digits, unit in columns]
        print(f'{key} {OPTIONS[int(key)][0]:22}', *(cells if o['trial_count'] else ['no results']),
              end='  incomplete\n' if o['trial_count'] and o['partial_failure'] else '\n')
    if summary['penstock']['why_not']:
        print(f'Not as a submission must be: {summary["penstock"]["why_not"]}')


# ------------------------------------------------------------------------------------------ main

def _main(words: list[str]) -> int:
    args, extra = parse(words)
    one = args['rank_output_base'] or args['rank_cache_base']
    try:
        if not one:
            _ranks().exec_under_ranks(_program(), ['kv', 'mlperf', *words])
        else:
            _ranks().this_rank()
    except ValueError as e:
        raise Failed(str(e)) from None
    stop = Stop()
    check_extra(extra)
    r = Runs(args, extra, stop)
    if one:
        return run_rank(r)
    s = Submission(r)
    status = s.plan() if args['dry_run'] else s.run()
    if stop.signal:
        raise Failed('interrupted', 128 + stop.signal)
    return status


def main(words: list[str]) -> int:
    """The exit status."""
    until = words.index('--') if '--' in words else len(words)
    if {'-h', '--help', '--help-all', '--help_all'} & set(words[:until]):
        importlib.import_module('penstock._command').show_help(
            COMMAND, "Other options are those of `penstock kv', for each of its runs.")
        return 0
    try:
        return _main(words)
    except Failed as e:
        say(str(e))
        return e.status
    except OSError as e:
        say(f"'{e.filename}': {e.strerror}" if e.filename else str(e))
        return 1
