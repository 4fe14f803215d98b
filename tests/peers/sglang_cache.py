# SPDX-License-Identifier: Apache-2.0
"""SGLang's HiCache controller on penstock.sglang.PenstockStorage: pages of its own host pool are backed up by its
threads and prefetched by those of another one, on the CPU.  The copies between host pool and GPU are not run: SGLang has them
for GPUs alone."""
import functools
import sys
import threading
import warnings
from unittest import mock

from peer import documented, need

warnings.simplefilter('ignore')
need('transformers.image_utils')
for name in ('', '.io', '.transforms', '.transforms.functional', '.transforms.v2'):
    sys.modules['torchvision' + name] = mock.MagicMock(__spec__=None)  # the wheel wants CUDA, and nothing of it is used
controllers, pools, hosts, latent, allocators, context = need(
    'sglang.srt.managers.cache_controller', 'sglang.srt.mem_cache.memory_pool', 'sglang.srt.mem_cache.pool_host.mha',
    'sglang.srt.mem_cache.pool_host.mla', 'sglang.srt.mem_cache.allocator', 'sglang.srt.runtime_context')

import torch
from kit import case, cases, path, run

PAGE, TOKENS = 16, list(range(2400))  # 150 pages: more than one batch of SGLang
context.get_parallel().override_permanently(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_dcp_size=1, attn_dcp_rank=0,
                                            launch_world_size=1, nnodes=1)
controllers.is_dp_attention_enabled = lambda: False


class HiCache:
    """What a rank has for its KV cache, with two layers of four heads."""
    def __init__(self, store, layout='page_first', model='m'):
        size = len(TOKENS)
        pool, info, host = self.memory(size)
        self.host = host(info, 2.0, 0, PAGE, layout, pin_memory=False, device_capacity_tokens=size, start_layer=0,
                         end_layer=1)
        allocator = allocators.TokenToKVPoolAllocator(size, dtype=torch.float16, device='cpu', kvcache=pool, need_sort=False)
        self.controller = controllers.HiCacheController(
            allocator, self.host, PAGE, None, threading.Event(), io_backend='direct', storage_backend='dynamic',
            prefetch_threshold=PAGE, model_name=model,
            storage_backend_extra_config={**documented('sglang'), 'dirs': [store], 'capacity_gb': 1 / 16})

    @staticmethod
    def memory(size):
        pool = pools.MHATokenToKVPool(size=size, page_size=PAGE, dtype=torch.float16, head_num=4, head_dim=64, layer_num=2,
                                      device='cpu', enable_memory_saver=False)
        return pool, pool._mha_buffer_info(), hosts.MHATokenToKVPoolHost

    def pages(self, indices):
        return torch.stack([self.host.get_data_page(i).clone() for i in indices[::PAGE].tolist()])

    def backup(self):
        """The pages, when they are stored."""
        indices = self.host.alloc(len(TOKENS))
        self.host.kv_buffer.copy_(torch.rand(self.host.kv_buffer.shape, generator=torch.Generator().manual_seed(1)))
        self.controller.write_storage(indices, TOKENS, controllers.get_storage_hash_str(TOKENS, None, page_size=PAGE))
        assert self.controller.ack_backup_queue.get(timeout=600).completed_tokens == len(TOKENS)
        return self.pages(indices)

    def prefetch(self, tokens):
        """How many tokens of these the store has, and their pages."""
        operation = self.controller.prefetch('request', tokens)
        assert self.controller.prefetch_hit_queue.get(timeout=600) is operation
        found = operation.storage_hit_count
        if not found:
            return 0, None
        operation.host_indices = self.controller.alloc_prefetch_host_buffers(operation, found)
        self.controller.prefetch_buffer.put(operation)
        got = 0
        while not (ack := self.controller.ack_prefetch_queue.get(timeout=600)).completed_req:
            got = ack.completed_tokens
        assert got == found
        return found, self.pages(operation.host_indices)

    def close(self):
        self.controller.detach_storage_backend()


@case
def pages_that_one_controller_backed_up_another_prefetches():
    store = path('kv')
    one = HiCache(store)
    wants = one.backup()
    one.close()
    other = HiCache(store)
    found, pages = other.prefetch(TOKENS + [1] * 4 * PAGE)
    assert found == len(TOKENS) and torch.equal(pages, wants)
    assert other.prefetch([5, *TOKENS]) == (0, None)
    other.close()


class Latent(HiCache):
    """The same of one of two ranks of a model with MLA."""
    def __init__(self, rank, store):
        with context.get_parallel().override(tp_rank=rank, tp_size=2, attn_tp_rank=rank, attn_tp_size=2, attn_cp_size=1,
                                             attn_dp_size=1):
            super().__init__(store)

    @staticmethod
    def memory(size):
        pool = pools.MLATokenToKVPool(size=size, page_size=PAGE, dtype=torch.float16, kv_lora_rank=192, qk_rope_head_dim=64,
                                      layer_num=2, device='cpu', enable_memory_saver=False)
        return pool, pool._mla_buffer_info(), functools.partial(latent.MLATokenToKVPoolHost, target_layer_num=2)


@case
def pages_that_rank_0_of_an_mla_model_backed_up_rank_1_prefetches():
    store = path('kv')
    ranks = [Latent(i, store) for i in (0, 1)]
    assert [rank.controller.backup_skip for rank in ranks] == [False, True]
    wants = ranks[0].backup()
    for rank in ranks:
        found, pages = rank.prefetch(TOKENS + [1] * 4 * PAGE)
        assert found == len(TOKENS) and torch.equal(pages, wants)
    for rank in ranks:
        rank.close()


@case
def pages_of_another_model_or_layout_are_others():
    store = path('kv')
    one = HiCache(store)
    one.backup()
    one.close()
    for other in ({'model': 'n'}, {'layout': 'page_first_direct'}):
        cache = HiCache(store, **other)
        assert cache.prefetch(TOKENS) == (0, None), other
        cache.close()


run(*cases)
