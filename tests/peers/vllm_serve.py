# SPDX-License-Identifier: Apache-2.0
"""vLLM's engine on the CPU of any machine: one model, some prompts, the answers as a line of JSON.

    vllm_serve.py MODEL KV_TRANSFER_CONFIG PROMPTS        (the latter two are JSON)

The wheel that pip finds has no kernels for CPUs, and vLLM offloads from GPUs alone.  What is missing for a
small model is here in terms of torch: six kernels, and the copies between the memory of the engine and that
of the primary tier.  All the rest is vLLM's: scheduler, block manager, OffloadingConnector, tiering manager.
"""
import json
import os
import sys

os.environ.update(VLLM_TARGET_DEVICE='cpu', VLLM_ENABLE_V1_MULTIPROCESSING='0', VLLM_USE_V2_MODEL_RUNNER='0',
                  VLLM_NO_USAGE_STATS='1', HF_HUB_OFFLINE='1', VLLM_LOGGING_LEVEL='WARNING')

import torch
from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


# ---- kernels

def slot_mapping(starts, positions, table, slots, size):
    slots.fill_(-1)
    for i in range(len(starts) - 1):
        a, b = int(starts[i]), int(starts[i + 1])
        slots[a:b] = table[i][positions[a:b] // size].long() * size + positions[a:b] % size


def reshape_and_cache(key, value, keys, values, slots, *_):
    size = keys.shape[2]
    for cache, new in ((keys, key), (values, value)):
        cache[slots // size, :, slots % size] = new[:len(slots)]


def attention(query, keys, values, output, starts, lengths, scale, *more, **_):
    table = more[3]
    for i, length in enumerate(lengths.tolist()):
        a, b = starts[i:i + 2].tolist()
        blocks = table[i][:-(-length // keys.shape[2])].long()
        k, v = (cache[blocks].transpose(0, 1).flatten(1, 2)[:, :length] for cache in (keys, values))
        seen = torch.ones(b - a, length, dtype=torch.bool).tril(length - (b - a))
        output[a:b] = torch.nn.functional.scaled_dot_product_attention(
            query[a:b].transpose(0, 1), k, v, seen, scale=scale, enable_gqa=True).transpose(0, 1)


kernels = torch.ops._C
kernels.init_cpu_memory_env = lambda nodes: None
kernels.get_scheduler_metadata = lambda *_: torch.empty(0)
kernels.compute_slot_mapping_kernel_impl = slot_mapping
kernels.cpu_attn_reshape_and_cache = reshape_and_cache
kernels.cpu_attention_with_kv_cache = attention
kernels.greedy_argmax = lambda logits: logits.argmax(-1)


# ---- copies

class Copies(OffloadingWorker):
    """Between the KV cache of the engine and the shared memory of the primary tier."""
    def __init__(self, caches, region):
        self.region, self.ended = region, []
        self.engine = [t.tensor.view(torch.int8).view(-1, t.page_size_bytes) for t in caches.tensors]
        self.tier = [region.create_next_worker_view(t.page_size_bytes) for t in caches.tensors]

    def copy(self, job_id, to, to_ids, source, from_ids):
        for a, b in zip(to, source, strict=True):
            for i, j in zip(to_ids, from_ids, strict=True):
                a[i].copy_(b[j])
        self.ended.append(TransferResult(job_id, True))
        return True

    def submit_store(self, job_id, src_spec, dst_spec):
        return self.copy(job_id, self.tier, dst_spec.block_ids, self.engine, src_spec.block_ids)

    def submit_load(self, job_id, src_spec, dst_spec, expedited=False):
        return self.copy(job_id, self.engine, dst_spec.block_ids, self.tier, src_spec.block_ids)

    def get_finished(self):
        ended, self.ended = self.ended, []
        return ended

    def wait(self, job_ids):
        pass

    def shutdown(self):
        self.tier.clear()
        self.region.cleanup()


class Spec(TieringOffloadingSpec):
    def get_worker(self, kv_caches):
        return Copies(kv_caches, SharedOffloadRegion(
            engine_id=self._engine_id, num_chunks=self.num_chunks, rank=0,
            kv_bytes_per_chunk=self.kv_bytes_per_chunk, cpu_page_size=self.cpu_page_size_per_worker))


def main(model, transfer, prompts):
    transfer = json.loads(transfer)
    transfer['kv_connector_extra_config'].update(spec_name='Spec', spec_module_path='vllm_serve')
    engine = LLM(model, skip_tokenizer_init=True, enforce_eager=True, max_model_len=512, dtype='float32', block_size=32,
                 num_gpu_blocks_override=24, compilation_config={'custom_ops': ['none']}, kv_transfer_config=transfer,
                 kv_cache_memory_bytes=1 << 26)
    how = SamplingParams(max_tokens=8, temperature=0, detokenize=False)
    answers = []
    for prompt in json.loads(prompts):
        (out,) = engine.generate([TokensPrompt(prompt_token_ids=prompt)], how, use_tqdm=False)
        answers.append([out.outputs[0].token_ids, out.num_cached_tokens])
    print(json.dumps(answers))


if __name__ == '__main__':
    sys.modules['vllm_serve'] = sys.modules['__main__']
    main(*sys.argv[1:])
