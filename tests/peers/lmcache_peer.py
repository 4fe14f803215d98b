# SPDX-License-Identifier: Apache-2.0
"""LMCache on penstock.lmcache.LMCacheBackend, loaded as its native plugin: its benchmark of L2 adapters, and the storage
manager of its server, which is what engines store chunks with and get them back from."""
import json
import os
import subprocess
import sys
import time

from peer import documented, need

os.environ['LMCACHE_LOG_LEVEL'] = 'ERROR'

need('lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter')

import torch
from kit import case, cases, path, run


def adapter():
    return json.dumps({**documented('lmcache'), 'adapter_params': {'dirs': [path('lm')], 'capacity_gb': 1 / 4}})


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


CHUNK, CHUNKS, SHAPE = 512 << 10, 24, (2, 4, 256, 128)  # of keys and values: layers, tokens of a chunk, and their width


def manager(where):
    """That of LMCache's server; its memory holds 16 of the chunks."""
    from lmcache.v1.distributed.config import parse_args
    from lmcache.v1.distributed.storage_manager import StorageManager
    config = {**documented('lmcache'), 'adapter_params': {'dirs': [where], 'capacity_gb': 1 / 8}}
    return StorageManager(parse_args(['--l1-size-gb', str(16 * CHUNK / 2**30), '--l1-init-size-gb', '0', '--eviction-policy', 'LRU',
                                      '--l2-adapter', json.dumps(config)]))


@case
def its_server_gets_from_the_store_what_another_stored():
    from lmcache.v1.distributed.api import GroupedObjectKeys, MemoryLayoutDesc, ObjectKey, PrefetchTaskSpec
    where, layout = path('lm'), MemoryLayoutDesc([torch.Size(SHAPE)], [torch.float16])
    wants = [torch.rand(SHAPE, generator=torch.Generator().manual_seed(i)).half() for i in range(CHUNKS)]
    keys = [ObjectKey(bytes([i]) * 32, 'm', 0) for i in range(CHUNKS)]

    m = manager(where)
    (adapter,) = m._l2_adapters.values()
    for key, want in zip(keys, wants, strict=True):
        while not (room := m.reserve_write([key], layout)):
            time.sleep(0.01)  # what is stored is evicted from memory
        room[key].tensor.copy_(want)
        m.finish_write([key])
    while adapter.get_usage().total_bytes_used < CHUNKS * CHUNK:
        time.sleep(0.01)
    m.close()

    m = manager(where)
    for at in range(0, CHUNKS, 8):
        some = keys[at:at + 8]
        handle = m.submit_prefetch_task(PrefetchTaskSpec([GroupedObjectKeys([*some, ObjectKey(b'x' * 32, 'm', 0)], 0, layout)]))
        assert m.wait_prefetch_status(handle, 600)
        result = m.query_prefetch_status(handle)
        assert result.l2_hit_count == len(some) and result.l1_hit_count == 0, result
        with m.read_prefetched_results(some) as got:
            for memory, want in zip(got, wants[at:], strict=False):
                assert torch.equal(memory.tensor, want)
        m.finish_read_prefetched(some)
        m.delete_l1_keys(some)
    m.close()


run(*cases)
