# SPDX-License-Identifier: Apache-2.0
"""The object store below a sluice.Store: what is evicted goes there, comes back for a get, and is never wrong."""
import concurrent.futures
import errno
import os
import time

import kit
from kit import MIB, case, cases, data, path, raises, run

import sluice.store
from sluice import s3

server = kit.s3_server('--bucket', 'bucket', ports=2)

SIZE, KEYS = 100_000, 60  # 6 MB, of which less than 4 MiB fit


def below(name=None, capacity=4 * MIB, **more):
    server.rules()
    name = name or path('kv')
    return sluice.Store([name, f's3://bucket/{os.path.basename(name)}/'], capacity, policy='lru', **more)


def wait(store, ready):
    """For what happens in the background."""
    while not ready(store.stats()):
        time.sleep(0.001)


def objects():
    return set(s3.client().list('s3://bucket/', recursive=True))


def value(i):
    return data(SIZE, seed=i)


def fill(store):
    """One after another, none lost: the queue has room for a few only."""
    for i in range(KEYS):
        store[f'k{i}'] = value(i)
        wait(store, lambda s: s['demoted'] + s['demotions_lost'] == s['evictions'])


@case
def what_is_evicted_comes_back():
    with below() as store:
        fill(store)
        stats = store.stats()
        assert stats['demotions_lost'] == 0 and stats['demoted'] == stats['below_entries'] > 15
        assert stats['below_bytes'] == SIZE * stats['below_entries']
        assert store._run(sluice.store.GET, ['k0'], [bytearray(SIZE - 1)]) == [-errno.EMSGSIZE]
        assert 'k0' in store and store.prefix([f'k{i}' for i in range(KEYS)]) == KEYS
        for i in range(KEYS):
            assert store[f'k{i}'] == value(i), i
        stats = store.stats()
        assert stats['promoted'] >= stats['demoted'] // 2 > 0 and stats['corrupt'] == 0
        assert stats['disk_bytes'] <= 4 * MIB


@case
def what_is_set_or_deleted_again_never_comes_back():
    with below() as store:
        fill(store)
        del store['k0']
        assert 'k0' not in store and store.get('k0') is None
        store['k1'] = b'new'
        assert store['k1'] == b'new'
        del store['k1']
        assert store.get('k1') is None
        raises(KeyError, lambda: store['k1'])


@case
def what_is_set_while_the_old_one_comes_up_stays():
    with below() as store:
        fill(store)
        server.rules('method=GET times=1 stall:1')
        old = bytearray(SIZE)
        ticket = store.submit(sluice.store.GET, ['k0'], [old])
        store['k0'] = b'new'
        done = []
        while not done:
            done = store.drain()
        ((got, (result,)),) = done
        assert got == ticket and (result == 3 and old[:3] == b'new' or result == SIZE and old == value(0)), result
        assert store['k0'] == b'new'


@case
def a_damaged_object_is_a_miss():
    with below() as store:
        fill(store)
        for name in objects():
            s3.put_bytes(name, data(SIZE, seed=1000))
        before = store.stats()['promoted']
        got = [store.get(f'k{i}') for i in range(KEYS)]
        assert all(g is None or g == value(i) for i, g in enumerate(got)) and got[0] is None
        stats = store.stats()
        assert stats['promoted'] == before and stats['corrupt'] > 0


@case
def the_tier_has_a_limit_of_its_own():
    with below(below=5 * SIZE) as store:
        fill(store)
        assert store.stats()['below_entries'] == 5
        assert sum(store.get(f'k{i}') == value(i) for i in range(10)) == 0


@case
def a_dead_object_store_is_a_miss_and_disk_goes_on():
    with below() as store:
        fill(store)
        server.stop_port(0)
        try:
            assert store.get('k0') is None
            assert store[f'k{KEYS - 1}'] == value(KEYS - 1)
            for i in range(KEYS):  # evicts, and nothing can go down
                store[f'n{i}'] = value(i)
                assert store[f'n{i}'] == value(i)
            wait(store, lambda s: s['below_errors'] >= 4)
            assert store.get('k1') is None
            assert store.stats()['errors'] == 0
        finally:
            server.start_port(0)


@case
def gets_of_many_threads_get_their_own():
    with below() as store:
        fill(store)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            got = list(pool.map(store.get, [f'k{i}' for i in range(KEYS)]))
        assert all(g is None or g == value(i) for i, g in enumerate(got))


@case
def the_next_run_removes_what_this_one_has_left():
    name = path('kv')
    with below(name) as store:
        fill(store)
    left = {key for key in objects() if os.path.basename(name) in key}
    assert left
    with below(name) as store:
        while left & objects():
            time.sleep(0.001)
        assert store.stats()['below_entries'] == 0 and store.get('k0') is None


@case
def names_that_cannot_be_are_refused():
    raises(OSError, lambda: sluice.Store(['s3://bucket/x'], 4 * MIB))
    raises(OSError, lambda: sluice.Store(['s3://bucket/x', path('d')], 4 * MIB))
    raises(OSError, lambda: sluice.Store([path('d'), 'gs://bucket/x'], 4 * MIB))


run(*cases)
