# SPDX-License-Identifier: Apache-2.0
"""vLLM serves a small model of random weights with penstock.vllm.PenstockTier below it.

What it answers is what transformers answers with the same weights; what it took from the store it says.
vllm_serve.py is the engine, and says what is not vLLM's in it.
"""
import json
import os
import subprocess
import sys

from peer import documented, need

transformers, _, _ = need('transformers', 'vllm.v1.kv_offload.tiering.spec', 'vllm.entrypoints.llm')

import torch
from kit import case, cases, path, run

PROMPTS = [torch.randint(0, 512, (300,), generator=torch.Generator().manual_seed(i)).tolist() for i in range(6)]
WHOLE = 300 // 32 * 32  # tokens of a prompt that are in whole blocks


class Model:
    def __init__(self, seed):
        torch.manual_seed(seed)
        config = transformers.LlamaConfig(
            vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=512, eos_token_id=None, dtype='float32')
        self.net, self.place = transformers.LlamaForCausalLM(config).eval(), path('model')
        self.net.save_pretrained(self.place)

    def wants(self):
        with torch.no_grad():
            return [self.net.generate(torch.tensor([p]), max_new_tokens=8, do_sample=False)[0, 300:].tolist() for p in PROMPTS]

    def serve(self, store, prompts):
        transfer = documented('vllm')
        more = transfer['kv_connector_extra_config']
        more['cpu_bytes_to_use'] = 2 << 20  # three and a half prompts, and vLLM needs some of it to load others
        more['secondary_tiers'][0].update(dirs=[store], capacity_gb=1 / 16)
        child = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), 'vllm_serve.py'), self.place,
                                json.dumps(transfer), json.dumps(prompts)], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, check=False)
        assert child.returncode == 0, child.stderr
        assert 'still exported' not in child.stderr, child.stderr  # the memory of the primary tier
        return json.loads(child.stdout.splitlines()[-1])


@case
def a_model_is_served_from_the_store_and_from_that_of_another_run():
    model, store = Model(1), path('kv')
    wants = model.wants()
    assert len({tuple(want) for want in wants}) == len(wants)
    first = model.serve(store, PROMPTS + PROMPTS)
    assert [tokens for tokens, _ in first] == wants + wants, (first, wants)
    again = model.serve(store, PROMPTS)
    assert [tokens for tokens, _ in again] == wants, (again, wants)
    # vLLM decides what it offloads and when there is room to load: most of it.
    for answers in (first[6:], again):
        assert [cached for _, cached in answers].count(WHOLE) >= 3, (first, again)


@case
def another_model_takes_nothing_from_the_store_of_the_first():
    one, other, store = Model(1), Model(2), path('kv')
    one.serve(store, PROMPTS[:2] * 2)
    got = other.serve(store, PROMPTS[:2])
    assert got == [[want, 0] for want in other.wants()[:2]], got


run(*cases)
