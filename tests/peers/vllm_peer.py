# SPDX-License-Identifier: Apache-2.0
"""penstock.vllm.PenstockTier beside vLLM's own tiers: made by its factory from the configuration that
docs/vllm.md shows, and called as its tiering manager does.  vllm_engine.py runs all of vLLM."""
import mmap
import time
from types import SimpleNamespace as Said

from peer import documented, need

base, factory = need('vllm.v1.kv_offload.tiering.base', 'vllm.v1.kv_offload.tiering.factory')

import numpy
from kit import case, cases, data, path, run

ROW = 16384
SPEC = Said(config=Said(model=Said(name='m', dtype='float16')))


def documented_tier():
    (tier,) = documented('vllm')['kv_connector_extra_config']['secondary_tiers']
    return tier


def finished(tier):
    """As the manager does it: again and again, without waiting."""
    while True:
        done = list(tier.get_finished_jobs())
        if done:
            return done
        assert tier.has_pending_work()
        time.sleep(0)


def store_and_load(config):
    memory = mmap.mmap(-1, 8 * ROW)
    view = memoryview(memory).cast('B', (8, ROW))
    tier = factory.SecondaryTierFactory.create_secondary_tier(config, view, SPEC)
    assert isinstance(tier, base.SecondaryTierManager)
    keys = [bytes([i]) * 36 for i in range(3)]
    for i in range(3):
        memory[i * ROW:(i + 1) * ROW] = data(ROW, seed=i)
    context = base.ReqContext(req_id='r')
    assert isinstance(tier.on_new_request(context), base.RequestOffloadingContext)
    assert all(tier.lookup(key, context) == base.LookupResult.MISS for key in keys)
    tier.submit_store(base.TransferJob(1, keys, numpy.array([0, 1, 2]), False, context))
    (done,) = finished(tier)
    assert isinstance(done, base.JobResult) and done.job_id == 1 and done.success
    assert all(tier.lookup(key, context) == base.LookupResult.HIT for key in keys)
    tier.submit_load(base.TransferJob(2, keys, numpy.array([7, 5, 6]), True, context))
    tier.drain_jobs()
    (done,) = tier.get_finished_jobs()
    assert done.success and done.transfer_bytes == 3 * ROW
    for i, at in enumerate((7, 5, 6)):
        assert memory[at * ROW:(at + 1) * ROW] == data(ROW, seed=i)
    tier.submit_load(base.TransferJob(3, [keys[0], b'other'], numpy.array([3, 4]), True, context))
    (done,) = finished(tier)
    assert not done.success and list(done.successful_keys) == [keys[0]]
    tier.on_request_finished(context)
    tier.shutdown()
    return tier


@case
def its_factory_makes_the_tier_that_the_documentation_shows():
    tier = store_and_load({**documented_tier(), 'dirs': [path('kv')], 'capacity_gb': 1 / 16})
    assert tier.tier_type == 'PenstockTier' and tier.cache_hit_source == base.CacheHitSource.DISK


@case
def its_detector_of_back_pressure_is_taken():
    tier = store_and_load({**documented_tier(), 'dirs': [path('kv')], 'capacity_gb': 1 / 16, 'locality': 'LOCAL',
                           'backpressure': {'backpressure_cls': 'EMABackpressureDetector'}})
    assert tier.bp_detector is not None and tier.locality == base.Locality.LOCAL


run(*cases)
