# SPDX-License-Identifier: Apache-2.0
"""LMCache, vLLM and SGLang on penstock.Store: what each of them calls.

The base classes are those of vLLM and SGLang where `make peers` has installed them, else stand-ins; what is
printed first says which.  tests/peers/{lmcache,vllm,sglang}_peer.py go through the packages' own factories.
"""
import contextlib
import errno
import importlib.util
import os
import re
import resource
import select
import sys
import threading
import time
import types
from unittest import mock

standin = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'standin')
sys.path.append(standin)
for name in ('vllm', 'sglang'):
    place = importlib.util.find_spec(name).origin
    print(f'# {name}: a stand-in' if place.startswith(standin) else f'# {name}: the package')

import mmap

import penstock.lmcache
import penstock.sglang
import penstock.vllm
from kit import case, cases, data, path, raises, run, skip, torch_or_skip

CAPACITY_GB = 1 / 16


# ---- LMCache: six methods

def lm(**more):
    return penstock.lmcache.LMCacheBackend(dirs=[path('lm')], capacity_gb=CAPACITY_GB, **more)


def lm_wait(s):
    select.select([s.event_fd()], [], [])
    (done,) = s.drain_completions()
    return done


@case
def lmcache_sets_and_gets_in_batches():
    keys = ['model@0@0@abc', 'model@0@0@def']
    wants = [data(100000, seed=i) for i in (1, 2)]
    s = lm()
    n = s.submit_batch_set(keys, [memoryview(w) for w in wants])
    assert lm_wait(s) == (n, True, '', [True, True])
    n = s.submit_batch_exists([*keys, 'other'])
    assert lm_wait(s) == (n, True, '', [True, True, False])
    got = [bytearray(100000), bytearray(100000), bytearray(5)]
    n = s.submit_batch_get([*keys, 'other'], [memoryview(g) for g in got])
    assert lm_wait(s) == (n, True, '', [True, True, False]) and got[:2] == wants
    n = s.submit_batch_delete(keys[:1])
    assert lm_wait(s) == (n, True, '', [True])
    n = s.submit_batch_exists(keys)
    assert lm_wait(s) == (n, True, '', [False, True])
    s.close()


@case
def lmcache_is_told_what_was_not_stored():
    s = lm()
    s.submit_batch_set(['big', 'small'], [memoryview(bytearray(1 << 27)), memoryview(b'1')])
    _, ok, error, per_key = lm_wait(s)
    assert not ok and '1 values not stored' in error and per_key == [False, True]
    s.close()


@case
def lmcache_knows_what_ended_before_its_submission_returned():
    s = lm()
    real, done = s._store.submit, []
    drains = threading.Thread(target=lambda: done.append(lm_wait(s)))

    def submit(*args, **how):
        ticket = real(*args, **how)
        select.select([s.event_fd()], [], [])
        drains.start()
        drains.join(0.2)  # if it can
        return ticket

    with mock.patch.object(s._store, 'submit', submit):
        s.submit_batch_set(['big'], [memoryview(bytearray(1 << 27))])
    drains.join()
    assert not done[0][1] and not s._sets
    s.close()


@case
def memory_that_a_value_fills_in_part_is_a_miss():
    s = lm()
    s.submit_batch_set(['k'], [memoryview(b'short')])
    assert lm_wait(s)[1]
    for size, hit in ((4, False), (5, True), (6, False)):
        s.submit_batch_get(['k'], [memoryview(bytearray(size))])
        assert lm_wait(s)[3] == [hit], size
    s.close()
    name, model = path('vllm'), 'm'
    t = Tier(model, name)
    key = t.tier._identity + b'hash'
    assert t.tier._store.set(key, bytes(ROW - 1))
    t.tier.submit_load(t.job([b'hash'], [0]))
    assert not t.finish().success
    t.tier.shutdown()


# ---- vLLM: a tier over shared memory

ROW = 3 * 4096


def spec(model, **more):
    Said = types.SimpleNamespace
    return Said(config=Said(model=Said(name=model, dtype='float16'), parallel=Said(tp_size=1), **more))


class Tier:
    def __init__(self, model='m', where=None, engine_id='e', **more):
        self.memory = mmap.mmap(-1, 8 * ROW)
        view = memoryview(self.memory).cast('B', (8, ROW))
        self.tier = penstock.vllm.PenstockTier(spec(model, engine_id=engine_id), view, 'PenstockTier',
                                           dirs=where or path('vllm'), **{'capacity_gb': CAPACITY_GB, **more})
        self.jobs = 0

    def job(self, keys, chunks):
        self.jobs += 1
        return penstock.vllm.base.TransferJob(self.jobs, keys, chunks, False, None)

    def finish(self):
        select.select([self.tier._store.fileno()], [], [])
        (done,) = self.tier.get_finished_jobs()
        return done

    def row(self, i, value=None):
        if value is not None:
            self.memory[i * ROW:(i + 1) * ROW] = value
        return self.memory[i * ROW:(i + 1) * ROW]


@case
def vllm_moves_blocks_between_its_memory_and_the_store():
    t = Tier()
    keys = [b'hash-one....', b'hash-two....']
    wants = [data(ROW, seed=i) for i in (3, 4)]
    t.row(1, wants[0]), t.row(6, wants[1])
    Result = penstock.vllm.base.LookupResult
    assert t.tier.lookup(keys[0], None) == Result.MISS
    t.tier.submit_store(t.job(keys, [1, 6]))
    assert t.tier.lookup(keys[0], None) in (Result.RETRY, Result.HIT)
    assert t.tier.has_pending_work()
    done = t.finish()
    assert done.job_id == 1 and done.success and done.transfer_bytes == 2 * ROW
    assert t.tier.lookup(keys[0], None) == Result.HIT and not t.tier.has_pending_work()
    t.tier.submit_load(t.job(keys, [7, 2]))
    assert t.finish().success
    assert t.row(7) == wants[0] and t.row(2) == wants[1]
    t.tier.submit_load(t.job([keys[1], b'unknown'], [3, 4]))
    done = t.finish()
    assert not done.success and list(done.successful_keys) == [keys[1]]
    assert t.tier.on_new_request(None) is not None
    t.tier.submit_load(t.job(keys, [0, 5]))
    t.tier.drain_jobs()
    assert t.row(5) == wants[1]
    (done,) = t.tier.get_finished_jobs()
    assert done.success and t.tier.get_finished_jobs() == []
    t.tier.shutdown()


@case
def vllm_is_drained_where_descriptors_are_many():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        skip('descriptors')
    resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))
    with contextlib.ExitStack() as many:
        many.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while many.enter_context(open(os.devnull)).fileno() < 1050:
            pass
        t = Tier()
        assert t.tier._store.fileno() > 1023
        t.tier.submit_store(t.job([b'hash'], [1]))
        t.tier.drain_jobs()
        assert t.tier.get_finished_jobs()[0].success
        t.tier.shutdown()


@case
def vllm_blocks_that_are_there_are_not_written_again():
    t = Tier()
    for _ in range(2):
        t.tier.submit_store(t.job([b'same'], [0]))
        assert t.finish().success
    stats = t.tier._store.stats()
    assert stats['stored'] == 1 and stats['sets_present'] == 1
    t.tier.shutdown()


@case
def vllm_blocks_of_another_model_are_others():
    where, want = path('vllm'), data(ROW, seed=5)
    for model, hit in (('one', False), ('one', True), ('other', False)):
        t = Tier(model, where)
        assert (t.tier.lookup(b'tokens', None) == penstock.vllm.base.LookupResult.HIT) is hit
        t.tier.submit_load(t.job([b'tokens'], [1]))
        assert t.finish().success is hit and t.row(1) == (want if hit else bytes(ROW))
        t.row(0, want)
        t.tier.submit_store(t.job([b'tokens'], [0]))
        assert t.finish().success
        t.tier.shutdown()
        t.tier._primary_kv_view.release()  # as vLLM does
        t.memory.close()  # nothing holds it any more
    view = memoryview(bytearray(ROW)).cast('B', (1, ROW))
    raises(ValueError, penstock.vllm.PenstockTier, None, view, 'PenstockTier', dirs=where, capacity_gb=CAPACITY_GB)


@case
def vllm_engines_with_data_parallel_have_a_store_each():
    where = path('vllm')
    for hit in (False, True):
        tiers = [Tier(where=where, engine_id=f'e_dp{i}') for i in range(2)]  # as vLLM names them
        for i, t in enumerate(tiers):
            assert (t.tier.lookup(b'%d' % i) == penstock.vllm.base.LookupResult.HIT) is hit
            t.tier.submit_store(t.job([b'%d' % i], [0]))
            assert t.finish().success
        for t in tiers:
            t.tier.shutdown()
    assert sorted(os.listdir(where)) == ['dp0', 'dp1']


@case
def vllm_blocks_that_it_uses_above_stay_here():
    for touch in (True, False):
        t = Tier(capacity_gb=1 / 64, policy='lru')
        keys = [b'old', *(b'%d' % i for i in range(40))]
        for key in keys:
            assert t.tier._store.set(t.tier._identity + key, bytes(1 << 20))
            if touch:
                t.tier.touch(keys[:1], None)
        assert (t.tier.lookup(b'old') == penstock.vllm.base.LookupResult.HIT) is touch
        t.tier.shutdown()


@case
def copies_of_what_an_engine_has_in_its_memory_are_made_where_they_are_asked_for():
    for more in ({}, {'recent': True}):
        extra = {'dirs': path('sg'), 'capacity_gb': CAPACITY_GB, **more}
        for adapter in (lm(**more), Tier(**more).tier, sg(None, extra_config=extra)):
            store = adapter._store
            assert store.set('k', b'value') and store.get('k') == b'value'
            assert store.stats()['hits_recent'] == len(more), adapter
            store.close()


@case
def pools_are_registered_and_work_where_they_cannot_be():
    t = Tier()
    t.tier._store.unregister(t.tier._view)  # so it was
    t.tier.shutdown()
    torch = torch_or_skip()
    for numel in (2 * PAGE, 0):
        s = sg(path('sg'))
        pool = types.SimpleNamespace(kv_buffer=torch.zeros(numel, dtype=torch.uint8))
        s.register_mem_pool_host(pool)
        if numel:
            s._store.unregister(pool.kv_buffer)
        s.close()


# ---- SGLang: pages of a pool

PAGE = 5000


class Pool:
    """Two buffers per page, keys and values of the attention, as MHA has them."""
    def __init__(self, pages):
        self.memory = penstock.Memory(2 * PAGE * pages)

    def get_page_buffer_meta(self, indices):
        at = self.memory.address
        pointers = [at + (2 * i + half) * PAGE for i in indices for half in (0, 1)]
        return pointers, [PAGE] * len(pointers)

    def page(self, i, value=None):
        view = memoryview(self.memory)[2 * i * PAGE:2 * (i + 1) * PAGE]
        if value is not None:
            view[:] = value
        return bytes(view)


def sg(name, **rank):
    config = types.SimpleNamespace(tp_rank=0, tp_size=1, model_name='m', extra_config={
        'backend_name': 'penstock', 'dirs': [name], 'capacity_gb': CAPACITY_GB})
    vars(config).update(rank)
    return penstock.sglang.PenstockStorage(config, {})


@case
def sglang_moves_pages_of_its_pool():
    s, pool = sg(path('sg')), Pool(6)
    s.register_mem_pool_host(pool)
    keys = ['a', 'b', 'c']
    wants = [data(2 * PAGE, seed=i) for i in range(3)]
    for i, want in enumerate(wants):
        pool.page(i, want)
    assert s.batch_set_v1(keys, [0, 1, 2]) == [True] * 3
    assert s.batch_exists([*keys, 'd']) == 3 and s.batch_exists(['d', *keys]) == 0
    assert s.batch_get_v1([*keys[:2], 'd'], [3, 4, 5]) == [True, True, False]
    assert pool.page(3) == wants[0] and pool.page(4) == wants[1]
    s.close()


@case
def sglang_pages_in_another_order_are_others():
    name = path('sg')
    for layout, hits in (('page_first', 0), ('page_first', 1), ('page_first_direct', 0)):
        s, pool = sg(name), Pool(1)
        pool.layout = layout
        s.register_mem_pool_host(pool)
        assert s.batch_exists(['a']) == hits and s.batch_get_v1(['a'], [0]) == [bool(hits)]
        assert s.batch_set_v1(['a'], [0]) == [True]
        s.close()


@case
def sglang_has_the_simple_calls():
    s = sg(path('sg'))
    assert s.set('x', b'12345') and s.exists('x') and not s.exists('y')
    target = bytearray(5)
    assert s.get('x', target) is target and target == b'12345'
    assert s.get('y', target) is None
    assert s.batch_set(['y', 'z'], [b'1', b'2'])
    assert s.batch_get(['y', 'n'], [bytearray(1), bytearray(1)]) == [b'1', None]
    assert s.delete('x') and not s.exists('x')
    s.close()


@case
def sglang_clears_what_old_weights_have_computed():
    name, keys = path('sg'), ['a', 'b', 'c']
    for again in (False, True):  # nor after a restart
        s, pool = sg(name), Pool(3)
        s.register_mem_pool_host(pool)
        if not again:
            assert s.batch_set_v1(keys, [0, 1, 2]) == [True] * 3 and s.batch_exists(keys) == 3
            s.clear()
        assert s.batch_exists(keys) == 0 and s.batch_get_v1(keys, [0, 1, 2]) == [False] * 3
        s.close()
    raises(ValueError, s.clear)


@case
def sglang_ranks_do_not_meet():
    name = path('sg')
    a, b = sg(name, tp_size=2), sg(name, tp_rank=1, tp_size=2)
    assert a.set('x', b'1') and not b.exists('x')
    a.close(), b.close()
    a, b = sg(name), sg(name, dp_rank=1)  # as SGLang tells it with attention in data parallel
    e = raises(OSError, sg, name)
    assert e.errno == errno.EBUSY and 'SGLang' in str(e), e
    a.close(), b.close()
    config = types.SimpleNamespace(extra_config={})
    raises(ValueError, lambda: penstock.sglang.PenstockStorage(config, {}))


@case
def sglang_replicas_have_a_store_each_and_their_share():
    """The configurations of replicas are equal: only the processes know."""
    name, runs = path('sg'), []
    module = sys.modules['sglang.srt.runtime_context'] = types.ModuleType('runtime_context')
    try:
        for rank in (0, 1):
            module.get_parallel = lambda rank=rank: types.SimpleNamespace(dp_rank=rank, num_dp_ranks=2)
            runs.append(sg(name))
        assert [s._store.stats()['capacity'] for s in runs] == [CAPACITY_GB * 2**30 / 2] * 2
    finally:
        del sys.modules['sglang.srt.runtime_context']
        for s in runs:
            s.close()


def mla(name, rank, **more):
    return sg(name, tp_rank=rank, tp_size=2, is_mla_model=True, **more)


@case
def sglang_ranks_with_the_same_pages_share_those_that_one_writes():
    name, keys, wants = path('sg'), ['a', 'b', 'c'], [data(2 * PAGE, seed=i) for i in range(3)]
    other = mla(name, 1)  # SGLang calls no set on it
    assert other.batch_exists(keys) == 0 and other.metrics() == ''  # there is nobody yet
    for _ in range(2):  # once more after a restart of the one that writes
        pools = [Pool(6), Pool(6)]
        one = mla(name, 0)
        for s, pool in zip((one, other), pools, strict=True):
            s.register_mem_pool_host(pool)
        for i, want in enumerate(wants):
            pools[0].page(i, want)
        assert one.batch_set_v1(keys, [0, 1, 2]) == [True] * 3
        other.batch_exists(['a'])  # the connection to the one before it is found to be dead
        assert other.batch_exists([*keys, 'd']) == 3 and other.batch_exists(['d', *keys]) == 0
        assert other.batch_get_v1([*keys[:2], 'd', 'c'], [3, 4, 1, 5]) == [True, True, False, True]
        assert [pools[1].page(i) for i in (3, 4, 5)] == wants and pools[1].page(1) == bytes(2 * PAGE)
        assert other.set('x', bytearray(b'12345')) and one.exists('x') and other.exists('x')
        assert other.get('x', target := bytearray(5)) is target and target == b'12345'
        assert other.delete('x') and not one.exists('x') and 'penstock_store_hits_total' in other.metrics()
        one.close()
        assert other.batch_exists(keys) == 0 and other.batch_get_v1(keys, [0, 1, 2]) == [False] * 3
    other.close()
    assert os.listdir(name) == ['tp0-pp0-attn_cp0-dp0']


@case
def sglang_clears_the_pages_of_all_ranks_that_have_the_same():
    name = path('sg')
    one, other = ranks = mla(name, 0), mla(name, 1)
    for s in ranks:
        assert one.set('a', b'12345') and other.exists('a') and other.set('b', bytearray(b'1'))
        s.clear()
        assert not any(rank.exists(key) for rank in ranks for key in 'ab')
        assert other.get('a', bytearray(5)) is None and other.set('a', bytearray(b'new')) and one.exists('a')
    with mock.patch('time.monotonic_ns', return_value=time.monotonic_ns()):  # asked for, and not yet heard of
        one.clear()
        assert not other.set('b', bytearray(b'old')) and not one.exists('b')
    assert one.set('a', b'12345')
    one.close()
    raises(OSError, other.clear)  # who has it open next finds what this one had
    one = mla(name, 0)
    assert one.exists('a')
    other.clear()
    assert not one.exists('a')
    one.close(), other.close()


@case
def a_store_is_shared_with_its_user_and_with_nobody_else():
    name = path('sg')
    one, other = mla(name, 0), mla(name, 1)
    (place,) = [os.path.join(name, entry) for entry in os.listdir(name) if entry.endswith('.socket')]
    assert os.stat(place).st_mode & 0o777 == 0o600
    assert one.set('k', b'12345')
    with mock.patch('os.geteuid', return_value=os.geteuid() + 1):
        assert not other.exists('k') and other.get('k', bytearray(5)) is None
    assert other.exists('k')
    other.close(), one.close()


@case
def sglang_pages_go_to_the_other_ranks_in_parts_that_fit():
    name, keys = path('sg'), [f'{i}' for i in range(9)]
    one, other = mla(name, 0), mla(name, 1)
    wants = [bytearray(data(5000 + 4096 * i, seed=i)) for i in range(9)]
    got = [bytearray(len(want)) for want in wants]
    room, penstock._shared_store.BATCH_BYTES = penstock._shared_store.BATCH_BYTES, 16384  # three of the first, and less than one of the last
    assert one.batch_set(keys, wants) and other.batch_get(keys, got) == wants
    penstock._shared_store.BATCH_BYTES = room
    other.close(), one.close()


@case
def sglang_passes_on_every_option_of_the_store():
    with open(os.path.join(os.path.dirname(penstock.__file__), '_penstock.pyi'), encoding='utf-8') as f:
        said = re.search(r'class StoreCore:.*?\*, (.*?)\)', f.read(), re.S)[1]
    assert sorted(penstock.sglang.OPTIONS) == sorted(re.findall(r'(\w+): ', said)), said
    raises(ValueError, sg, path('sg'), extra_config={'dirs': path('sg'), 'capacity_gb': CAPACITY_GB, 'log_bytes': -1})


run(*cases)
