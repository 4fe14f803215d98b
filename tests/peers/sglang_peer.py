# SPDX-License-Identifier: Apache-2.0
"""penstock.sglang.PenstockStorage made by SGLang's own factory of HiCache back ends, from the configuration that
docs/sglang.md shows.  The pool of pages is a stand-in: SGLang's own wants its kernels."""
import os

from peer import documented, need

factory, storage = need('sglang.srt.mem_cache.storage.backend_factory', 'sglang.srt.mem_cache.hicache_storage')

import torch
from kit import case, cases, path, run

PAGE, TOKENS = 8192, 4  # bytes of half a page, tokens of a page


class Pool:
    """Keys and values of 8 pages of 4 tokens, as SGLang's MHATokenToKVPoolHost has them in layout page_first."""
    def __init__(self):
        self.memory = torch.arange(16 * PAGE, dtype=torch.int64).to(torch.uint8)

    def get_page_buffer_meta(self, indices):
        pages = [int(i) // TOKENS for i in indices[::TOKENS]]
        at = self.memory.data_ptr()
        return [at + (half * 8 + page) * PAGE for page in pages for half in (0, 1)], [PAGE] * (2 * len(pages))

    def page(self, i):
        return torch.cat([self.memory[(half * 8 + i) * PAGE:][:PAGE] for half in (0, 1)])


def backend(**more):
    extra = {**documented('sglang'), 'dirs': [path('kv')], 'capacity_gb': 1 / 16}
    config = storage.HiCacheStorageConfig(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
                                          is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=True,
                                          model_name='m', extra_config=extra)
    return factory.StorageBackendFactory.create_backend('dynamic', config, None, **more)


def tokens(*pages):
    return torch.tensor([page * TOKENS + i for page in pages for i in range(TOKENS)])


def moves_pages(s):
    pool = Pool()
    s.register_mem_pool_host(pool)
    keys = ['a', 'b', 'c']
    want = [pool.page(i).clone() for i in range(3)]
    set_ = s.batch_set_v1(keys, tokens(0, 1, 2), storage.HiCacheStorageExtraInfo())
    present = s.batch_exists([*keys, 'd'])
    pool.memory[3 * PAGE:8 * PAGE] = 0
    pool.memory[11 * PAGE:] = 0
    got = s.batch_get_v1([*keys, 'd'], tokens(4, 5, 6, 7))
    for i, ok in enumerate(got[:3]):
        assert not ok or torch.equal(pool.page(4 + i), want[i])
    return set_, present, got


@case
def its_factory_makes_the_back_end_that_the_documentation_shows():
    s = backend()
    assert isinstance(s, storage.HiCacheStorage)
    assert moves_pages(s) == ([True] * 3, 3, [True, True, True, False])
    tensor = torch.arange(100)
    assert s.set('t', tensor) and torch.equal(s.get('t', torch.empty_like(tensor)), tensor)
    assert s.get('none', torch.empty_like(tensor)) is None
    s.clear()
    assert s.batch_exists(['a', 'b', 'c']) == 0 and not s.exists('t')
    s.close()


@case
def its_injector_of_failures_gets_misses_and_never_other_bytes():
    os.environ['SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE'] = '0.5'
    try:
        s = backend()
    finally:
        del os.environ['SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE']
    assert isinstance(s, storage.HiCacheStorageFailureInjector)
    for _ in range(20):
        moves_pages(s)
    s._backend.close()


run(*cases)
