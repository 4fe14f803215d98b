#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock kv`, from outside: its options, its configuration and what it writes.  kv.py PENSTOCK ROOT

Bounds, defaults and names are those of kv-cache.py, written down here once more.
"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import contextlib
import glob
import datetime
import json
import re
import subprocess
import time

import clikit
import resultcheck
import tap
from clikit import ROOT, PENSTOCK, save
from tap import folder

resultcheck.need('numpy', 'jsonschema', 'openpyxl')

kv = clikit.Command('kv')
QUICK = ['--num-users', '5', '--runtime', '5', '--generation-mode', 'none', '--seed', '42']


def accepted(*args):
    """All options are looked at before the list of models is printed; nothing is run."""
    out, err = kv('--model', 'list', *args)
    assert 'llama3.1-8b' in out, out
    return err


def problems(*args):
    """What is wrong, a line each, without the name of the program."""
    out, err = kv('--model', 'list', *args, status=1)
    assert not out and err.endswith('\n'), (out, err)
    lines = err.splitlines()
    assert all(line.startswith('penstock kv: ') for line in lines), lines
    return [line[len('penstock kv: '):] for line in lines]


def refused(*args):
    """A bad command line: one line, status 2."""
    out, err = kv(*args, status=2)
    assert not out and err.count('\n') == 1, (args, out, err)
    return err


def trace(*args, status=0):
    """A run that stores nothing: text, and the result as upstream writes it."""
    out, err = kv(*QUICK, '--io-trace-log', 'trace.csv', '--output', 'out.json', *args, status=status)
    with open('out.json', encoding='utf-8') as f:
        return out, err, json.load(f)


# ---------------------------------------------------------------------------------------- options

# name: (default, bad values, good values)
BOUNDS = {
    'num-users': ('100', [0, -1, 100001], [1, 100000]),
    'runtime': ('60', [0, -5, 86401], [1, 86400]),
    'gpu-mem-gb': ('16', [-1, -0.5, 65537], [0, 0.5, 65536]),
    'num-gpus': ('1', [0, -2], [1, 4096]),
    'tensor-parallel': ('1', [0, -1, 2], [1]),
    'cpu-mem-gb': ('32', [-1, 131073], [0, 1.5, 131072]),
    'rag-num-docs': ('10', [-1], [0, 1000]),
    'target-saturation': ('0.8', [-0.1, 1.1], [0, 0.5, 1]),
    'max-conversations': ('500', [0, -3], [1, 100000]),
    'max-concurrent-allocs': ('0', [-1], [0, 16]),
    'request-rate': ('0', [-1, -0.001], [0, 0.5, 1000]),
    'max-requests': ('0', [-1], [0, 10 ** 12]),
    'storage-capacity-gb': ('0', [-1], [0, 0.001, 100000]),
    'precondition-size-gb': ('0', [-0.1], [0, 10]),
    'precondition-threads': ('0', [-1], [0, 64]),
    'trace-speedup': ('1.0', [-1], [0, 0.1, 100]),
    'replay-cycles': ('0', [-1], [0, 7]),
}
WHOLE = ['num-users', 'runtime', 'num-gpus', 'tensor-parallel', 'rag-num-docs', 'max-conversations',
         'max-concurrent-allocs', 'max-requests', 'precondition-threads', 'replay-cycles', 'seed']
CHOICES = {
    'log-level': ('INFO', ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL']),
    'generation-mode': ('realistic', ['none', 'fast', 'realistic']),
    'performance-profile': ('latency', ['latency', 'throughput']),
    'autoscaler-mode': ('qos', ['qos', 'capacity']),
}
FLAGS = ['disable-multi-turn', 'disable-prefix-caching', 'enable-rag', 'enable-autoscaling', 'use-burst-trace',
         'precondition', 'prefill-only', 'decode-only', 'enable-latency-tracing']
TEXTS = {'model': 'llama3.1-8b', 'folder': None, 'burst-trace-path': 'BurstGPT/data/BurstGPT_1.csv',
         'validation-trace': None, 'dataset-path': None, 'output': None, 'seed': None, 'xlsx': None,
         'config': None, 'io-trace-log': None}
# Ours, where kv-cache.py has another name.
RENAMED = {'runtime': 'duration', 'folder': 'cache-dir', 'xlsx': 'xlsx-output'}
UPSTREAM = sorted(RENAMED.get(name, name) for name in [*BOUNDS, *CHOICES, *FLAGS, *TEXTS])


def table():
    done = subprocess.run([PENSTOCK, '--dump-options'], stdout=subprocess.PIPE, check=True)
    return {o['name']: o for c in json.loads(done.stdout)['commands'] if c['name'] == 'kv' for o in c['options']}


def every_option_of_upstream_is_there_with_its_default():
    options = table()
    known = {*options, *(a for o in options.values() for a in o['aliases'])}
    assert not set(UPSTREAM) - known, set(UPSTREAM) - known
    for ours, theirs in RENAMED.items():
        assert options[ours]['aliases'] == [theirs] and options[ours]['tools'] == {theirs: 'kv-cache.py'}, options[ours]
    for name, (default, *_) in {**BOUNDS, **CHOICES}.items():
        assert options[name]['default'] == default, (name, options[name]['default'])
    for name, default in TEXTS.items():
        assert options[name]['default'] == default, (name, options[name]['default'])
    for name, (_, words) in CHOICES.items():
        assert options[name]['choices'] == words, name
    for name in FLAGS:
        assert options[name]['kind'] == 'flag', name


def every_bound_is_upstreams():
    for name, (_, bad, good) in BOUNDS.items():
        for v in bad:
            lines = problems(f'--{name}={v}')
            assert len(lines) == 1 and lines[0].startswith(f'--{name}: {v} is '), (name, v, lines)
        for v in good:
            accepted(f'--{name}', v)
    accepted('--num-gpus', 8, '--tensor-parallel', 8)
    assert problems('--num-gpus', 2, '--tensor-parallel', 4) == ['--tensor-parallel: 4 is more than --num-gpus 2']


def everything_wrong_is_said_at_once():
    with folder():
        save('c.yaml', 'rag: {tok_k: 1}\nfoo: 1\n')
        lines = problems('--num-users', '0', '--runtime', '-1', '--gpu-mem-gb', '-1', '--seed', '-3', '--folder',
                         '/etc/kv', '--config', 'c.yaml', '--trace-speedup', '-2', '--use-burst-trace',
                         '--burst-trace-path', 'gone*.csv')
        for part in ('--num-users', '--runtime', '--gpu-mem-gb', '--seed', '--folder', "'rag.tok_k'", "'foo'",
                     '--trace-speedup', "--burst-trace-path: gone*.csv: no CSV file there"):
            assert sum(part in line for line in lines) == 1, (part, lines)
        assert len(lines) == 9, lines
        lines = kv('--model', 'gpt5', '--num-users', '0', status=1).err.splitlines()
        assert len(lines) == 2 and 'tiny-1b' in lines[1], lines
        assert os.listdir() == ['c.yaml'], os.listdir()


def what_is_no_number_or_no_choice_is_status_2():
    for name in [*BOUNDS, 'seed']:
        for junk in ('x', '', '1x', 'nan'):
            assert f'--{name}' in refused(f'--{name}={junk}')
    for name in WHOLE:
        refused(f'--{name}', '1.5')
    for name in CHOICES:
        assert CHOICES[name][1][0] in refused(f'--{name}', 'nothing')
        assert f'--{name}' in refused(f'--{name}')
    for name in FLAGS:
        refused(f'--{name}=1')
    assert 'exclude' in refused('--prefill-only', '--decode-only')
    for live in '--closed-loop', '--compat', '--enable-autoscaling':
        assert 'exclude' in refused(live, '--order', 'seed')
    assert 'exclude' in refused('--verify', '--io-trace-log', 'x')
    assert 'a.json' in refused('--output', 'a.json', '--json', 'a.json')
    refused('what')


def names_can_be_cut_short_as_long_as_upstream_knows_what_is_meant():
    options = table()
    values = {**{n: v[2][0] for n, v in BOUNDS.items()}, **{n: v[0] for n, v in CHOICES.items()},
              **{n: 'list' if n == 'model' else '1' if n == 'seed' else 'x' for n in TEXTS}}
    values |= {theirs: values[ours] for ours, theirs in RENAMED.items()}
    for name in UPSTREAM:
        for n in range(1, len(name)):
            short = name[:n]
            meant = [other for other in UPSTREAM if other.startswith(short)]
            if short in options:
                assert short in UPSTREAM or RENAMED.get(short) == name, f'--{short} of ours hides --{name} cut short'
                continue
            args = [f'--{short}'] + ([] if name in FLAGS else [values[name]])
            if len(meant) > 1:
                err = refused(*args)
                assert f"'--{short}' may be short for" in err and f'--{meant[0]}' in err, err
                continue
            # stopped by what comes behind, not by the option
            assert "'--xyzzy'" in refused(*args, '--xyzzy'), args


def a_folder_of_the_system_is_refused():
    with folder() as here:
        os.symlink('/etc', 'link')
        os.symlink('/usr/bin', 'bin')
        for path in ('/etc', '/etc/kv/x', '/bin/x', '/sbin', '/usr/bin', '/usr/sbin/kv', '/boot/kv', '/sys/x', '/proc/1',
                     '/dev/shm/kv', '/root', '/root/../root', 'link', 'link/deep/er', 'bin/../bin/x',
                     '/tmp/../etc/kv', '/tmp/gone/../../etc/kv', './gone/.././link/x'):
            lines = problems('--folder', path)
            assert len(lines) == 1 and 'cannot be a system directory' in lines[0] and path in lines[0], (path, lines)
        for path in ('kv', './kv/deep', f'{here}/new/folder', '/var/tmp/kv', 'etc', '/etc/../var/tmp/kv',
                     *(() if os.getuid() else ('/root/kv', '/rootfs', '/etcetera'))):
            accepted('--folder', path)
        assert sorted(os.listdir()) == ['bin', 'link'], os.listdir()
        if os.getuid():
            os.mkdir('closed', 0o500)
            assert 'cannot be written to' in problems('--folder', 'closed/kv')[0]


def odd_but_possible_options_give_a_warning():
    err = accepted('--num-gpus', 6, '--tensor-parallel', 6)
    assert 'warning: --tensor-parallel: 6 is not a power of two' in err, err
    err = accepted('--dataset-path', 'gone.json')
    assert 'warning: --dataset-path' in err and 'synthetic' in err, err
    err = accepted('--enable-latency-tracing')
    assert 'warning: --enable-latency-tracing' in err and 'bpftrace' in err, err
    err = accepted('--precondition', '--io-trace-log', 'x')
    assert 'warning: --precondition' in err, err
    for more in (['--storage-capacity-gb', 1], ['--precondition-size-gb', 1]):
        assert accepted('--precondition', '--io-trace-log', 'x', *more) == ''
    with folder():
        for more, told in ([], False), (['--storage-capacity-gb', 1], True):
            out, err, _ = trace('--precondition', *more)
            assert ('preconditioning' in out) == told, (more, out)
    for level in ('ERROR', 'CRITICAL'):
        assert accepted('--enable-latency-tracing', '--log-level', level) == ''


# ----------------------------------------------------------------------------------- configuration

with open(os.path.join(ROOT, 'tests/fuzz/corpus/kvconfig/all-keys'), encoding='utf-8') as full:
    ALL_KEYS = full.read()


def config(text, *args):
    return problems('--config', save('c.yaml', text), *args)


def a_file_with_every_key_is_taken():
    with folder():
        assert accepted('--config', save('c.yaml', ALL_KEYS)) == ''
        for text in ('', '# nothing\n', '{}\n', '~\n', '---\n', 'rag: {}\n'):
            assert accepted('--config', save('c.yaml', text)) == '', text


def every_key_is_in_the_documentation():
    with open(os.path.join(ROOT, 'docs/kv.md'), encoding='utf-8') as f:
        text = f.read()
    for key in set(re.findall(r'(\w+):', ALL_KEYS)) - {'mine', 'anything', 'a', '1b'}:
        words = [key, re.sub(r'_(min|max)$', '', key), re.sub(r'^target_latency', '', key)]
        assert any(word in text for word in words), key


def an_unknown_key_is_answered_with_the_valid_ones():
    with folder():
        for text, key, valid in (
                ('foo: {a: 1}\n', 'foo', 'user_templates'), ('rag: {top_k: 5}\n', 'rag.top_k', 'top_k_chunks'),
                ('user_templates: {poet: {}}\n', 'user_templates.poet', 'chatbot, coding, document'),
                ('user_templates: {coding: {range: [1, 2]}}\n', 'user_templates.coding.range', 'context_range'),
                ('qos_profiles: {batch: {p95: 3}}\n', 'qos_profiles.batch.p95', 'target_latency_p95_ms'),
                ('"rag.top_k_chunks": 5\n', 'rag.top_k_chunks', 'model_configs')):
            lines = config(text)
            assert len(lines) == 1 and f"Unknown configuration key: '{key}'" in lines[0] and valid in lines[0], lines
        assert len(config('a: 1\nb: 2\nrag: {c: 3, d: 4}\n')) == 4


def sections_and_values_of_the_wrong_kind_are_refused():
    with folder():
        for text, says in (
                ('rag:\n', 'rag: is not a mapping'), ('rag: 5\n', 'rag: is not a mapping'),
                ('rag: [a]\n', 'rag: is not a mapping'), ('- rag\n', 'is not a mapping'), ('rag\n', 'is not a mapping'),
                ('model_configs:\n', 'model_configs: is not'), ('model_configs: {m: 3}\n', 'model_configs.m: is not'),
                ('decode: {batch_size: "32"}\n', "'32' is not a whole number"),
                ('decode: {batch_size: 32.5}\n', "'32.5' is not a whole number"),
                ('decode: {batch_size: [32]}\n', 'a list of 1 is not'), ('decode: {batch_size: }\n', 'is not a whole'),
                ('decode: {batch_size: 0}\n', 'of 1 or more'),
                ('eviction: {target_usage_ratio: high}\n', "'high' is not a number"),
                ('eviction: {target_usage_ratio: 2}\n', 'of 0 to 1'),
                ('rag: {retrieval_distribution: 5}\n', 'one of zipfian'),
                ('user_templates: {coding: {context_range: 5}}\n', "'5' is not a list of two"),
                ('user_templates: {coding: {context_range: [5]}}\n', 'a list of 1 is not a list of two'),
                ('user_templates: {coding: {context_range: [9, 5]}}\n', '9 is larger than 5'),
                ('user_templates: {coding: {context_range: [1.5, 5]}}\n', "'1.5' is not a whole number"),
                ('decode: {batch_size: 3\n', 'line'), ('decode: {batch_size: 3, batch_size: 4}\n', 'duplicate'),
                ('a: b: c\n', 'line'), ('rag: {}\n---\nrag: {}\n', 'more than one document'), ('\x00', 'not text')):
            lines = config(text)
            assert len(lines) == 1 and says in lines[0] and 'c.yaml' in lines[0], (text, lines)
        assert 'No such file' in problems('--config', 'gone.yaml')[0]
        assert problems('--config', '.')


def numbers_are_read_as_upstream_reads_them():
    with folder():
        for text in ('eviction: {target_usage_ratio: 1}\n', 'decode: {batch_size: true}\n',
                     'decode: {batch_size: 1_000}\n', 'rag: {max_chunk_bytes: 0x10000}\n',
                     'decode: {batch_size: yes}\n', 'rag: {max_documents: 010}\n',
                     'user_templates: {coding: {think_time_range: [1, 2]}}\n', 'decode: &x {batch_size: 3}\n'):
            assert accepted('--config', save('c.yaml', text)) == '', text
        err = accepted('--config', save('c.yaml', 'rag: {retrieval_distribution: normal}\n'))
        assert "'normal' is not one of zipfian, uniform, random; zipfian is used" in err, err


def models_can_be_described_and_changed():
    with folder():
        save('c.yaml', '''model_configs:
  mine: {name: My own, num_layers: 10, hidden_dim: 1000, num_heads: 10, kv_heads: 5}
  latent: {attention_type: mla, num_layers: 61, kv_lora_rank: 512, qk_rope_head_dim: 64}
  plain: {}
  tiny-1b: {num_layers: 24, anything: [else, {is: ignored}]}
  bytes: {dtype: int8, num_layers: 1, kv_heads: 1, kv_dim_per_head: 7}
''')
        out, _ = kv('--config', 'c.yaml', '--model', 'list')
        sizes = {line.split()[0]: int(line.split()[-1]) for line in out.splitlines()[1:]}
        assert sizes['mine'] == 10 * 5 * 100 * 2 * 2 and sizes['latent'] == 61 * 576 * 2, sizes
        assert sizes['plain'] == 32 * 8 * 128 * 2 * 2 and sizes['tiny-1b'] == 2 * 24576 and sizes['bytes'] == 14, sizes
        assert sizes['llama3.1-8b'] == 131072 and len(sizes) == 13, sizes
        result = trace('--config', 'c.yaml', '--model', 'mine')[2]
        assert result['penstock']['kv']['model']['bytes_per_token'] == 20000
        assert 'num_layers is 0' in config('model_configs: {m: {num_layers: 0}}\n')[0]
        lines = kv('--model', 'mine', status=1).err
        assert "'mine' is unknown" in lines and 'gpt-oss-20b' in lines, lines


def keys_that_are_dead_upstream_live_here_unless_compat():
    with folder():
        c = save('c.yaml', 'validation_limits: {max_users: 10, max_duration_seconds: 20, max_gpu_memory_gb: 3, '
                            'max_cpu_memory_gb: 4}\n')
        small = ['--num-users', 10, '--runtime', 20, '--gpu-mem-gb', 3, '--cpu-mem-gb', 4]
        accepted('--config', c, *small)
        large = ['--num-users', 11, '--runtime', 21, '--gpu-mem-gb', 3.5, '--cpu-mem-gb', 4.5]
        assert len(problems('--config', c, *large)) == 4
        accepted('--config', c, '--compat', *large)
        # a bad value of a dead key is still one
        assert problems('--config', save('d.yaml', 'validation_limits: {max_users: x}\n'), '--compat')
        q = save('q.yaml', 'qos_profiles: {interactive: {target_latency_p95_ms: 7}}\n')
        for more, want in ([], 7), (['--compat'], 50):
            result = trace('--config', q, '--num-users', 60, '--enable-rag', *more)[2]
            sla = result['summary']['qos_metrics']['interactive']['sla']
            assert sla['target_p95_ms'] == want, (more, sla)


# ------------------------------------------------------------------------------------------ results

TOP = ['requests_completed', 'total_tokens_generated', 'total_storage_io_latency', 'total_generation_latency',
       'end_to_end_latencies', 'storage_latencies', 'generation_latencies', 'throughput_timeline', 'prefill_latencies',
       'decode_latencies', 'multi_turn_cache_hits', 'multi_turn_cache_misses', 'seed', 'summary']
SUMMARY = ['total_requests', 'total_tokens', 'elapsed_time', 'avg_throughput_tokens_per_sec', 'total_storage_io_time',
           'storage_throughput_tokens_per_sec', 'requests_per_second', 'end_to_end_latency_ms', 'storage_io_latency_ms',
           'generation_latency_ms', 'cache_stats', 'qos_metrics', 'prefix_cache_stats', 'autoscaling_stats',
           'autoscaling_summary', 'multi_turn_stats']
LEVELS = ['p50', 'p95', 'p99', 'p999', 'p9999']
TIERS = ['gpu', 'cpu', 'storage']
CACHE = ['cache_hit_rate', 'cache_hits', 'cache_misses', 'gpu_entries', 'cpu_entries', 'storage_entries',
         'gpu_memory_used_gb', 'cpu_memory_used_gb', 'offloads_cpu', 'offloads_storage', 'storage_health',
         'prefill_writes', 'decode_reads',
         *[f'tier_{t}_kv_bytes_{w}_gb' for t in TIERS for w in ('written', 'read')],
         *[f'tier_{t}_{w}_bandwidth_gbps' for t in TIERS for w in ('read', 'write')],
         'system_prompt_hits', 'common_phrase_hits', 'user_cache_hits', 'multi_turn_hits', 'total_read_bytes',
         'total_write_bytes', 'total_read_gb', 'total_write_gb', 'read_write_ratio', 'read_iops', 'write_iops',
         'storage_tokens_processed']


def the_JSON_has_upstreams_names():
    with folder():
        _, _, result = trace('--num-users', '30')
        assert list(result) == [*TOP, 'penstock'], list(result)
        summary = result['summary']
        assert list(summary) == SUMMARY, list(summary)
        for name in ('end_to_end', 'storage_io', 'generation'):
            assert list(summary[f'{name}_latency_ms']) == ['mean', *LEVELS]
        cache = summary['cache_stats']
        assert [n for n in cache if n in CACHE] == CACHE, list(cache)
        rest = [n for n in cache if n not in CACHE]
        known = {f'{t}_{w}_{p}_ms' for t in TIERS for w in ('read', 'write') for p in LEVELS} | \
                {f'storage_{w}_{k}_{p}_ms' for w in ('read', 'write') for k in ('device', 'host') for p in LEVELS}
        assert set(rest) <= known and {'gpu_read_p9999_ms', 'storage_write_device_p50_ms'} <= set(rest), rest
        assert list(cache['storage_health']) == ['overall_status', 'criteria', 'passed_count', 'total_count']
        assert list(summary['prefix_cache_stats']) == ['prefix_hits', 'prefix_misses', 'system_prompt_reuse',
                                                       'common_phrase_reuse', 'bytes_saved']
        assert list(summary['multi_turn_stats']) == ['cache_hits', 'cache_misses', 'hit_rate']
        assert summary['autoscaling_summary'] is None and summary['autoscaling_stats'] == []
        assert list(summary['qos_metrics']) == ['interactive', 'responsive', 'batch']
        batch = summary['qos_metrics']['batch']
        assert list(batch) == ['total_requests', 'latency_ms', 'sla'], batch
        assert list(batch['latency_ms']) == ['mean', 'p50', 'p95', 'p99', 'max']
        assert list(batch['sla']) == ['target_p95_ms', 'actual_p95_ms', 'compliance', 'met']
        with open('out.json', encoding='utf-8') as f:
            text = f.read()
        assert text.startswith('{\n    "requests_completed": ') and text.endswith('}\n'), text[:40]


def the_numbers_fit_together():
    import numpy
    with folder():
        _, _, result = trace('--num-users', '30', '--generation-mode', 'fast')
        s, c = result['summary'], result['summary']['cache_stats']
        assert s['total_requests'] == result['requests_completed'] == len(result['end_to_end_latencies']) > 50
        assert s['elapsed_time'] == 5 and result['seed'] == 42
        assert s['avg_throughput_tokens_per_sec'] == s['total_tokens'] / 5
        assert abs(s['requests_per_second'] - s['total_requests'] / 5) < 1e-9
        for name, values in ('end_to_end', result['end_to_end_latencies']), ('generation', result['generation_latencies']):
            stats = s[f'{name}_latency_ms']
            assert abs(stats['mean'] - numpy.mean(values) * 1e3) < 1e-6, name
            for level, p in zip(LEVELS, (50, 95, 99, 99.9, 99.99)):
                assert abs(stats[level] - numpy.percentile(values, p) * 1e3) < 1e-6, (name, level)
        assert abs(sum(result['generation_latencies']) - result['total_generation_latency']) < 1e-6
        assert c['cache_hit_rate'] == c['cache_hits'] / (c['cache_hits'] + c['cache_misses'])
        assert c['total_read_gb'] == c['total_read_bytes'] / 2 ** 30
        assert c['read_write_ratio'] == c['total_read_bytes'] / c['total_write_bytes']
        assert c['cache_hits'] == sum(c[n] for n in ('system_prompt_hits', 'common_phrase_hits', 'user_cache_hits',
                                                     'multi_turn_hits'))
        for t in TIERS:
            assert abs(c[f'tier_{t}_read_bandwidth_gbps'] - c[f'tier_{t}_kv_bytes_read_gb'] / 5) < 1e-9
        requests = sum(q.get('total_requests', 0) for q in s['qos_metrics'].values())
        assert requests == s['total_requests']


def the_common_result_is_inside_and_follows_the_schema():
    with folder():
        _, _, result = trace('--json', 'common.json', '--html', 'page.html', '--csv', 'series.csv')
        with open('common.json', encoding='utf-8') as f:
            common = json.load(f)
        inside = result['penstock']
        assert {k: v for k, v in common.items() if k != 'duration_sec'} == \
               {k: v for k, v in inside.items() if k != 'duration_sec'}
        resultcheck.check(ROOT, common)
        k = common['kv']
        assert common['command'] == 'kv' and k['mode'] == 'trace' and common['series'] == [], k['mode']
        assert [t['name'] for t in k['tiers']] == ['gpu', 'cpu', 'nvme']
        assert {t['kind'] for t in k['tiers']} == {'trace'} and k['tiers'][2]['limit_bytes'] is None
        assert k['requests'] == result['requests_completed'] == sum(k['seconds']['requests'])
        assert sum(k['seconds']['hits']) == k['cache']['hits']
        assert len(k['seconds']['t']) == 5, k['seconds']['t']
        assert common['settings']['num_users'] == 5 and common['settings']['seed'] == 42
        with open('trace.csv', encoding='utf-8', newline='') as f:
            rows = f.read().count('\r\n') - 1
        assert k['rows'] == rows > 0
        for name in ('common.json', 'out.json'):
            subprocess.run([PENSTOCK, 'report', name, '-o', 'again.html'], check=True)
            assert os.path.getsize('again.html') > 10000 and os.path.getsize('page.html') > 10000


COLUMNS = '''Timestamp, Model, Num Users, Duration (s), GPU Memory per Card (GiB), Num GPUs, Tensor Parallel, Total GPU Memory (GiB),
CPU Memory (GiB), Generation Mode, Performance Profile, Multi-turn, Prefix Caching, RAG Enabled, Autoscaling, Seed,
Max Concurrent Allocs, Request Rate, Max Requests, Dataset Path, Cache Dir, Storage Capacity (GiB), Precondition,
Precondition Size (GiB), Precondition Threads, Trace Speedup, Replay Cycles'''
METRICS = ['Total Requests', 'Total Tokens', 'Elapsed Time (s)', 'Avg Throughput (tok/s)', 'Storage Throughput (tok/s)',
           'Requests/sec',
           *[f'{k} Latency {p} (ms)' for k in ('E2E', 'Storage') for p in ('Mean', 'P50', 'P95', 'P99', 'P99.9', 'P99.99')],
           *[f'Gen Latency {p} (ms)' for p in ('Mean', 'P50', 'P95', 'P99')],
           *[f'Storage Tier {w} {k} {p} (ms)' for k in ('Total', 'Device', 'Host') for w in ('Read', 'Write')
             for p in ('P50', 'P95', 'P99', 'P99.9', 'P99.99')],
           'Cache Hit Rate', 'Read/Write Ratio', 'Total Read (GiB)', 'Total Write (GiB)',
           *[f'Tier {t} KV Bytes {w} (GiB)' for w in ('Written', 'Read') for t in ('GPU', 'CPU', 'Storage')],
           *[f'Tier {t} {w} Bandwidth (GiB/s)' for t in ('GPU', 'CPU', 'Storage') for w in ('Read', 'Write')],
           'GPU Entries', 'CPU Entries', 'Storage Entries', 'Multi-turn Hit Rate']


def member(column):
    """Where the number of a column is in the summary."""
    level = {'Mean': 'mean', 'P50': 'p50', 'P95': 'p95', 'P99': 'p99', 'P99.9': 'p999', 'P99.99': 'p9999'}
    m = re.fullmatch(r'(E2E|Storage|Gen) Latency (\S+) \(ms\)', column)
    if m:
        return [{'E2E': 'end_to_end', 'Storage': 'storage_io', 'Gen': 'generation'}[m[1]] + '_latency_ms', level[m[2]]]
    m = re.fullmatch(r'Storage Tier (\S+) (\S+) (\S+) \(ms\)', column)
    if m:
        part = '' if m[2] == 'Total' else f'_{m[2].lower()}'
        return ['cache_stats', f'storage_{m[1].lower()}{part}_{level[m[3]]}_ms']
    m = re.fullmatch(r'Tier (\S+) KV Bytes (\S+) \(GiB\)', column)
    if m:
        return ['cache_stats', f'tier_{m[1].lower()}_kv_bytes_{m[2].lower()}_gb']
    m = re.fullmatch(r'Tier (\S+) (\S+) Bandwidth \(GiB/s\)', column)
    if m:
        return ['cache_stats', f'tier_{m[1].lower()}_{m[2].lower()}_bandwidth_gbps']
    return {'Total Requests': ['total_requests'], 'Total Tokens': ['total_tokens'], 'Elapsed Time (s)': ['elapsed_time'],
            'Avg Throughput (tok/s)': ['avg_throughput_tokens_per_sec'],
            'Storage Throughput (tok/s)': ['storage_throughput_tokens_per_sec'], 'Requests/sec': ['requests_per_second'],
            'Cache Hit Rate': ['cache_stats', 'cache_hit_rate'], 'Read/Write Ratio': ['cache_stats', 'read_write_ratio'],
            'Total Read (GiB)': ['cache_stats', 'total_read_gb'], 'Total Write (GiB)': ['cache_stats', 'total_write_gb'],
            'GPU Entries': ['cache_stats', 'gpu_entries'], 'CPU Entries': ['cache_stats', 'cpu_entries'],
            'Storage Entries': ['cache_stats', 'storage_entries'], 'Multi-turn Hit Rate': ['multi_turn_stats', 'hit_rate']}[column]


def columns():
    return [c.strip() for c in COLUMNS.replace('\n', ' ').split(',')]


def the_workbook_has_upstreams_sheets_and_columns():
    import openpyxl
    with folder():
        _, err, result = trace('--xlsx', 'out.xlsx', '--num-users', '40', '--cpu-mem-gb', '8', '--gpu-mem-gb', '4',
                               '--generation-mode', 'fast')
        if 'libxlsxwriter' in err:
            raise tap.Skip('xlsxwriter', err.strip())
        book = openpyxl.load_workbook('out.xlsx')
        assert book.sheetnames == ['Summary', 'Run Parameters', 'Performance Metrics', 'QoS Metrics']
        names, values = book['Summary'].values
        assert list(names) == columns() + METRICS and len(names) == 99, names
        row = dict(zip(names, values))
        s = result['summary']
        assert row['Model'] == 'llama3.1-8b' and row['Num Users'] == 40 and row['Seed'] == 42
        assert row['Dataset Path'] == 'N/A' and row['Cache Dir'] == 'temp'
        # switches are booleans, and threads that were left to the program are told
        assert row['Multi-turn'] is True and row['RAG Enabled'] is False and row['Precondition'] is False, row
        assert row['Precondition Threads'] == os.cpu_count(), row
        for column in METRICS:
            want = s
            for name in member(column):
                want = want.get(name)
            assert row[column] == want or abs(row[column] - want) < 1e-12 * abs(want), (column, row[column], want)
        upright = list(book['Run Parameters'].values)
        assert upright[0] == ('Parameter', 'Value') and [r[0] for r in upright[1:]] == columns()
        upright = list(book['Performance Metrics'].values)
        assert upright[0] == ('Metric', 'Value') and [r[0] for r in upright[1:]] == METRICS and len(upright) == 73
        qos = list(book['QoS Metrics'].values)
        assert qos[0] == ('QoS Level', 'Total Requests', 'Latency P95 (ms)', 'Latency P99 (ms)', 'SLA Met', 'SLA Compliance')
        assert sum(r[1] for r in qos[1:]) == s['total_requests'] and all(isinstance(r[4], bool) for r in qos[1:]), qos
        trace('--xlsx', 'through.xlsx', '--performance-profile', 'throughput')
        qos = list(openpyxl.load_workbook('through.xlsx')['QoS Metrics'].values)
        assert all(r[4] == r[5] == 'N/A (throughput mode)' for r in qos[1:]), qos


def a_table_with_another_name_is_CSV():
    import csv
    with folder():
        for name, becomes in ('out.csv', 'out.csv'), ('table', 'table.csv'), ('a.txt', 'a.txt.csv'):
            trace('--xlsx', name)
            with open(becomes, encoding='utf-8', newline='') as f:
                names, values = csv.reader(f)
            assert names == columns() + METRICS and len(values) == 99, becomes
            assert values[names.index('Multi-turn')] == 'True' and values[names.index('Autoscaling')] == 'False', values
            assert values[1] == 'llama3.1-8b' and float(values[names.index('Avg Throughput (tok/s)')]) > 0
            assert name == becomes or not os.path.exists(name)


def the_output_has_upstreams_name_when_none_is_given():
    with folder():
        kv(*QUICK, '--io-trace-log', 'trace.csv')
        names = os.listdir()
        names.remove('trace.csv')
        assert len(names) == 1 and re.fullmatch(r'benchmark_results_\d{8}_\d{6}\.json', names[0]), names


def a_seed_that_is_not_given_is_null_and_told():
    with folder():
        out, _ = kv(*QUICK[:-2], '--io-trace-log', 't.csv', '--output', 'o.json')
        with open('o.json', encoding='utf-8') as f:
            result = json.load(f)
        seed = result['penstock']['settings']['seed']
        assert result['seed'] is None and f'seed {seed} (drawn)' in out, (seed, out)
        again = trace('--seed', seed)[2]
        with open('t.csv', 'rb') as a, open('trace.csv', 'rb') as b:
            assert a.read() == b.read() and again['seed'] == seed


def without_requests_there_is_no_summary():
    with folder():
        slow = save('slow.yaml', ''.join(f'  {t}: {{think_time_range: [1000, 1000]}}\n' for t in
                                          ('chatbot', 'coding', 'document')).join(['user_templates:\n', '']))
        for more in [], ['--compat']:
            out, err, result = trace('--config', slow, '--xlsx', 'o.xlsx', *more)
            assert list(result) == [n for n in TOP if n != 'summary'] + ['penstock'], list(result)
            assert result['requests_completed'] == 0 and not os.path.exists('o.xlsx'), os.listdir()
            assert 'No request was completed' in out and ('warning: no request was completed' in err) == (not more), err
            resultcheck.check(ROOT, result['penstock'])


def only_one_output_is_standard_output():
    with folder():
        out, _ = kv(*QUICK, '--io-trace-log', 't.csv', '--output', '-')
        assert json.loads(out)['requests_completed'] > 0
        out, _ = kv(*QUICK, '--io-trace-log', '-', '--output', 'o.json')
        assert out.startswith('Timestamp,Operation,') and 'Overall' not in out
        refused(*QUICK, '--io-trace-log', '-', '--output', '-')
        refused(*QUICK, '--xlsx', '-')


def changes_of_the_number_of_users_have_upstreams_members():
    with folder():
        for mode, more in ('qos', []), ('capacity', ['--compat']):
            summary = trace('--enable-autoscaling', '--autoscaler-mode', mode, '--runtime', 1000, '--generation-mode', 'realistic',
                            '--num-users', 5, *more)[2]['summary']
            events = summary['autoscaling_stats']
            assert events and len(events) == summary['autoscaling_summary']['total_scale_events'], summary['autoscaling_summary']
            for e in events:
                assert e['mode'] == mode and e['action'] in ('scale_up', 'scale_down', 'stop'), e
                rest = ['peak_throughput_tokens_per_sec'] if e['action'] == 'stop' else [
                    'read_latency_p95_ms', 'write_latency_p95_ms', 'throughput_tokens_per_sec']
                assert list(e) == ['timestamp', 'mode', 'action', 'users', 'saturation_level'] + rest, e
                datetime.datetime.fromisoformat(e['timestamp'])
            assert mode == 'qos' or events[-1]['action'] == 'stop', events


def the_hit_rate_is_compared_with_a_recorded_one():
    with folder():
        rate = trace()[2]['summary']['cache_stats']['cache_hit_rate']
        record = {'timestamp': 1.0, 'request_id': 'r', 'user_id': 'u', 'context_tokens': 100, 'generation_tokens': 10,
                  'phase': 'decode', 'cache_tier': 'gpu', 'read_bytes': 5, 'write_bytes': 0, 'read_latency_ms': 1.0,
                  'write_latency_ms': 0.0, 'model_name': 'm'}
        for hits, passed in (round(rate * 1000), True), (round(rate * 960), True), (round(rate * 940), False):
            save('v.json', json.dumps([dict(record, cache_hit=i < hits) for i in range(1000)]))
            out, _, result = trace('--validation-trace', 'v.json')
            v = result['validation']
            assert list(v) == ['passed', 'avg_error_pct', 'comparison', 'trace_stats'] and v['passed'] is passed, v
            error = abs(rate - hits / 1000) / (hits / 1000) * 100
            assert abs(v['avg_error_pct'] - error) < 1e-9 and v['trace_stats']['total_requests'] == 1000, v
            assert v['trace_stats'] == {'total_requests': 1000, 'cache_hit_rate': hits / 1000, 'read_write_ratio': 5000,
                                        'context_tokens_mean': 100, 'generation_tokens_mean': 10}, v
            assert list(v['comparison']['cache_hit_rate']) == ['benchmark', 'trace', 'error_pct', 'within_5pct'], v
            assert v['comparison']['cache_hit_rate']['within_5pct'] is passed, v
            assert ('passed' if passed else 'failed') in out
        v = trace('--validation-trace', 'gone.json')[2]['validation']
        assert v['trace_stats'] == {'total_requests': 1000, 'duration_seconds': 100, 'cache_hit_rate': 0.65, 'read_write_ratio': 10,
                                    'context_tokens_mean': 1024, 'generation_tokens_mean': 200}, v
        for text in ('{}', '[', '[]', '[{"a": 1}]'):
            err = kv(*QUICK, '--io-trace-log', 't.csv', '--output', 'o.json', '--validation-trace', save('v.json', text),
                     status=1).err
            assert '--validation-trace' in err, err


def a_rank_says_that_it_is_one():
    """Whose bytes they are is said wherever there are any, and limits are of the same rank as what they hold."""
    args = ['--num-gpus', 8, '--gpu-mem-gb', 0.25, '--cpu-mem-gb', 1, '--storage-capacity-gb', 64]
    with folder():
        for compat, part in ([], 8), (['--compat'], 1):
            out, _, result = trace(*args, '--tensor-parallel', 8, *compat)
            assert '128 KiB of KV cache per token, 16 KiB on each rank\n' in out, out
            assert 'GPU memory:  8 of 0.25 GiB, together 2 GiB; CPU memory: 1 GiB\n' in out, out
            assert ('has all of that' if compat else 'its part of that, the node\'s; bytes below are this rank\'s') in out, out
            for head in 'Tiers', 'Notes':
                assert f'### {head}, of one of 8 ranks ###' in out, out
            own = result['penstock']['kv']
            assert own['tensor_ranks'] == 8 and own['model']['object_bytes_per_1000_tokens'] == 1000 * 131072 // 8, own['model']
            assert [t['limit_bytes'] for t in own['tiers']] == [(2 << 30) // part, (1 << 30) // part, (64 << 30) // part], own['tiers']
            assert all(t['used_bytes'] <= t['limit_bytes'] for t in own['tiers']), own['tiers']
        assert 'Would do, of one of 8 ranks, if' in kv('--dry-run', *QUICK, *args, '--tensor-parallel', 8, '--folder', 'cache').out
        out, _, result = trace(*args)
        assert 'rank' not in out and result['penstock']['kv']['tensor_ranks'] == 1, out


def a_dry_run_tells_and_creates_nothing():
    with folder():
        out, err = kv('--dry-run', *QUICK, '--folder', 'cache', '--gpu-mem-gb', 0, '--cpu-mem-gb', 0)
        assert 'requests' in out and 'Would write' in out and 'cache' in out and not err, (out, err)
        assert not re.search(r'storage +0 B written', out), out
        out, _ = kv('--dry-run', *QUICK, '--io-trace-log', 't.csv')
        rows = int(re.search(r'Would write (\d+) rows', out)[1])
        assert os.listdir() == [], os.listdir()
        kv(*QUICK, '--io-trace-log', 't.csv', '--output', 'o.json')
        with open('t.csv', encoding='utf-8') as f:
            assert len(f.readlines()) == rows + 1


def what_a_run_is_refused_for_is_a_warning_of_a_dry_run():
    with folder():
        for much in ['--cpu-mem-gb', 131072], ['--cpu-mem-gb', 0, '--storage-capacity-gb', 1e9]:
            args = [*QUICK, '--folder', 'cache', '--gpu-mem-gb', 0, *much]
            _, err = kv(*args, status=1)
            assert 'needed' in err and 'warning' not in err, err
            out, err = kv('--dry-run', *args)
            assert 'Would write' in out and 'warning: a run would be refused: ' in err and 'needed' in err, err
            assert kv('--dry-run', *args, '--log-level', 'ERROR').err == ''
        save('mine', 'precious')
        assert 'mine' in kv('--dry-run', *QUICK, '--folder', '.', '--cpu-mem-gb', 0, '--gpu-mem-gb', 0, status=1).err


def the_default_of_memory_fits_the_machine():
    with open('/proc/meminfo', encoding='utf-8') as f:
        total = int(f.readline().split()[1]) << 10
    args = ['--model', 'tiny-1b', '--num-users', 2, '--runtime', 1, '--folder', 'cache', '--dry-run']
    with folder():
        out, err = kv(*args)
        gib = float(re.search(r'CPU memory: ([0-9.]+) GiB', out)[1])
        if total < 64 << 30:
            assert gib <= total / 2 ** 31 and f'--cpu-mem-gb: {gib:g} instead of the default of 32' in err, (out, err)
        assert 'would be refused' not in err, err
        assert 'CPU memory: 32 GiB' in kv(*args, '--io-trace-log', 't.csv').out
        assert 'instead of' not in kv(*args, '--cpu-mem-gb', 32).err


def a_small_file_system_is_never_filled():
    """Not even while files that wait to be written over are cut or removed."""
    if os.geteuid():
        raise tap.Skip('root', 'a file system of memory cannot be mounted')
    script = ('mount -t tmpfs -o size=600m none mnt && "$0" kv --model tiny-1b --num-users 8 --runtime 5 --gpu-mem-gb 0 --cpu-mem-gb 0 '
              '--generation-mode none --seed 3 --folder mnt/kv --output out.json')
    with folder():
        os.mkdir('mnt')
        done = subprocess.run(['unshare', '-m', 'sh', '-c', script, PENSTOCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0 and not done.stderr, done


def a_recorded_input_is_looked_for_first_and_may_be_empty():
    burst = ['--use-burst-trace', '--burst-trace-path']
    with folder():
        os.mkdir('[none]')
        for path, why in ('gone.csv', 'No such file'), ('[none]', 'no CSV file there'), ('g?ne', 'no CSV file there'):
            assert problems(*burst, path) == [f'--burst-trace-path: {path}: {why}' + ' or directory' * (why[0] == 'N')]
        save('[none]/a.csv', 'Timestamp,Request tokens,Response tokens\n1,two,three\n')
        for path in '[none]', '[none]/a.csv', '?none?/*.csv':
            assert accepted(*burst, path) == ''
        out, err, result = trace(*burst, '[none]')
        assert "warning: --burst-trace-path: '[none]' has no row that can be used" in err, err
        assert 'no request was completed' in err and 'No request was completed' in out and 'summary' not in result, (out, err)
        assert trace(*burst, '[none]', '--compat')[1].count('\n') == 1
        assert 'has no row that can be used' in real(*burst, '[none]', '--folder', 'cache')[1]
        save('some.csv', 'Timestamp,Request tokens,Response tokens\n1,20,3\n1,two,3\n')
        for run in trace(*burst, 'some.csv'), real(*burst, 'some.csv', '--folder', 'cache'):
            assert "a bad row was left out: line 3: Request tokens 'two' is not valid" in run[1], run[1]
        assert trace(*burst, 'some.csv', '--log-level', 'WARNING')[1] == ''


def health_is_judged_by_the_profile():
    with folder():
        for profile in 'latency', 'throughput':
            health = trace('--performance-profile', profile, '--gpu-mem-gb', 0,
                           '--cpu-mem-gb', 0)[2]['summary']['cache_stats']['storage_health']
            names = [c['name'] for c in health['criteria']]
            if profile == 'latency':
                assert names == ['Storage Tier Write Device P95 < 500ms', 'Storage Tier Read Device P95 < 200ms',
                                 'Cache Hit Rate > 30%'], names
                assert health['criteria'][2]['unit'] == 'ratio' and health['criteria'][2]['target'] == 0.3
            else:
                assert names == ['Storage KV Read Bandwidth', 'Storage KV Write Bandwidth'], names
                assert all(c['target'] == '>0' and re.fullmatch(r'\d+\.\d\d', c['actual']) and c['unit'] == 'GiB/s'
                           for c in health['criteria']), health
            assert health['overall_status'] == 'PASS' and health['passed_count'] == health['total_count'] == len(names)


# -------------------------------------------------------------------------------------- on storage

# Few small requests, in whatever time they take.
REAL = ['--model', 'tiny-1b', '--num-users', '2', '--runtime', '3600', '--max-requests', '6', '--generation-mode', 'none',
        '--gpu-mem-gb', '0', '--cpu-mem-gb', '0', '--storage-capacity-gb', '2', '--seed', '42', '--output', 'out.json']


def real(*args, status=0):
    out, err = kv(*REAL, *args, status=status)
    with open('out.json', encoding='utf-8') as f:
        return out, err, json.load(f)


def a_run_on_storage_is_measured_and_leaves_nothing():
    with folder():
        out, err, result = real('--folder', 'cache', '--verify', '--export-fio', 'job.fio', '--csv', 'series.csv')
        assert sorted(os.listdir()) == ['job.fio', 'out.json', 'series.csv'] and not err, (os.listdir(), err)
        common = result['penstock']
        resultcheck.check(ROOT, common)
        k, c = common['kv'], result['summary']['cache_stats']
        assert k['mode'] == 'real' and result['requests_completed'] == 6
        assert [t['kind'] for t in k['tiers']][1:] == ['host memory', 'storage'] and k['tiers'][0]['how'], k['tiers'][0]
        read, written = common['series']
        assert read['kind'] == 'read' and written['kind'] == 'write'
        assert read['bytes'] == k['tiers'][2]['read_bytes'] == c['total_read_bytes'] > 0
        assert written['bytes'] == k['tiers'][2]['written_bytes'] == c['total_write_bytes'] > 0
        for name in ('storage_read_device_p95_ms', 'storage_write_host_p50_ms', 'storage_read_p9999_ms'):
            assert c[name] >= 0, name
        assert c['storage_read_device_p50_ms'] <= c['storage_read_p50_ms']
        assert common['bytes_written'] >= written['bytes']
        assert 'compared with what was written' in out
        (line,) = (line for line in out.split('\n') if 'end to end' in line)
        assert line.split().count('-') == 4, line  # of 6 requests mean and median
        assert all(f'page cache, {s["kind"]}s: {s["cache"]}\n' in out for s in (read, written)), out
        with open('job.fio', encoding='utf-8') as f:
            job = f.read()
        assert 'rw=randrw' in job and 'bssplit=' in job and 'ioengine=libaio' in job, job


def the_same_seed_does_the_same_on_storage_and_in_a_trace():
    with folder():
        a = real('--folder', 'cache')[2]['summary']['cache_stats']
        b = real('--layout', 'slab', '--folder', 'cache')[2]['summary']['cache_stats']
        c = real('--io-trace-log', 't.csv')[2]['summary']['cache_stats']
        for name in ('cache_hits', 'cache_misses', 'total_read_bytes', 'total_write_bytes', 'storage_entries', 'decode_reads'):
            assert a[name] == b[name] == c[name], (name, a[name], b[name], c[name])


def files_of_others_are_not_touched():
    with folder():
        os.mkdir('cache')
        save('cache/mine.npy', 'precious')
        _, err = kv(*REAL, '--folder', 'cache', status=1)
        assert 'mine.npy' in err and os.listdir('cache') == ['mine.npy'] and not os.path.exists('out.json'), err
        with open('cache/mine.npy', encoding='utf-8') as f:
            assert f.read() == 'precious'


def journal_of_a_run(*args):
    """What the run wrote down about its files, up to the last look at it."""
    journal = ''
    with open('said', 'w', encoding='utf-8') as said:
        process = subprocess.Popen([PENSTOCK, 'kv', *QUICK, '--model', 'tiny-1b', '--gpu-mem-gb', '0', '--cpu-mem-gb', '0',
                                    '--storage-capacity-gb', '0.1', '--max-requests', '10', '--folder', 'cache', *args],
                                   stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        while process.poll() is None:
            with contextlib.suppress(FileNotFoundError), open('cache/.penstock-objects', encoding='utf-8') as f:
                journal = f.read() or journal
            time.sleep(0.001)
    assert process.returncode == 0, process.returncode
    return journal


def files_of_evicted_entries_are_written_over_unless_new_ones_are_asked_for():
    with folder():
        assert '~spare~' in journal_of_a_run()
        for option in '--new-files', '--compat':
            journal = journal_of_a_run(option)
            assert '\n-' in journal and 'spare' not in journal, option


def an_interruption_ends_with_what_was_measured():
    import signal
    with folder():
        args = [a for a in REAL if a not in ('--max-requests', '6')]
        process = subprocess.Popen([PENSTOCK, 'kv', *args, '--folder', 'cache', '--json', 'j.json'], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not glob.glob('cache/*.npy'):
            assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 130 and 'interrupted' in err, (process.returncode, err)
        with open('j.json', encoding='utf-8') as f:
            result = json.load(f)
        resultcheck.check(ROOT, result)
        assert result['partial'] and not os.path.exists('cache'), os.listdir()


tap.run(every_option_of_upstream_is_there_with_its_default, every_bound_is_upstreams, everything_wrong_is_said_at_once,
        what_is_no_number_or_no_choice_is_status_2, names_can_be_cut_short_as_long_as_upstream_knows_what_is_meant,
        a_folder_of_the_system_is_refused, odd_but_possible_options_give_a_warning, a_file_with_every_key_is_taken, every_key_is_in_the_documentation,
        an_unknown_key_is_answered_with_the_valid_ones, sections_and_values_of_the_wrong_kind_are_refused,
        numbers_are_read_as_upstream_reads_them, models_can_be_described_and_changed,
        keys_that_are_dead_upstream_live_here_unless_compat, the_JSON_has_upstreams_names, the_numbers_fit_together,
        the_common_result_is_inside_and_follows_the_schema, the_workbook_has_upstreams_sheets_and_columns,
        a_table_with_another_name_is_CSV, the_output_has_upstreams_name_when_none_is_given,
        a_seed_that_is_not_given_is_null_and_told, without_requests_there_is_no_summary,
        only_one_output_is_standard_output, the_hit_rate_is_compared_with_a_recorded_one, changes_of_the_number_of_users_have_upstreams_members,
        a_rank_says_that_it_is_one, a_dry_run_tells_and_creates_nothing, what_a_run_is_refused_for_is_a_warning_of_a_dry_run, the_default_of_memory_fits_the_machine,
        a_small_file_system_is_never_filled,
        a_recorded_input_is_looked_for_first_and_may_be_empty, health_is_judged_by_the_profile,
        a_run_on_storage_is_measured_and_leaves_nothing, the_same_seed_does_the_same_on_storage_and_in_a_trace,
        files_of_others_are_not_touched,
        files_of_evicted_entries_are_written_over_unless_new_ones_are_asked_for, an_interruption_ends_with_what_was_measured)
