# SPDX-License-Identifier: Apache-2.0
"""LMCache's own benchmark of L2 adapters on sluice.lmcache.Store, loaded as its native plugin."""
import json
import os
import subprocess
import sys

from peer import need

need('lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter')

from kit import case, cases, path, run


def adapter():
    return json.dumps({'type': 'native_plugin', 'module_path': 'sluice.lmcache', 'class_name': 'Store',
                       'adapter_params': {'dirs': [path('lm')], 'capacity_gb': 1 / 4}})


def lmcache(*words):
    environ = dict(os.environ, LMCACHE_DISABLE_BANNER='1', LMCACHE_TRACK_USAGE='false')
    child = subprocess.run([sys.executable, '-m', *words, '--l2-adapter', adapter()], text=True, env=environ,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert child.returncode == 0, child.stdout
    return child.stdout


@case
def its_benchmark_stores_finds_and_loads_every_key_and_compares_them():
    said = lmcache('lmcache.cli.main', 'bench', 'l2', '--num-keys', '16', '--rounds', '2', '--in-flight', '2',
                   '--lookup-max-hit-rate', '1', '--no-skip-verify', '--format', 'json')
    results = json.JSONDecoder().raw_decode(said[said.index('\n{\n'):].strip())[0]
    ops = {op['operation']: op for op in results['metrics'].values() if 'operation' in op}
    assert set(ops) == {'Store', 'Lookup', 'Load'}, said
    for op in ops.values():
        assert op['total_success'] == op['total_keys'] and not op['rounds_timed_out'], said


run(*cases)
