# SPDX-License-Identifier: Apache-2.0
"""The object store below a penstock.Store: what is evicted goes there, comes back for a get, and is never wrong."""
import concurrent.futures
import errno
import os
import subprocess
import sys
import time

import kit
from kit import MIB, case, cases, data, path, raises, run

import penstock.store
from penstock import s3

server = kit.s3_server('--bucket', 'bucket', ports=2)

SIZE, KEYS = 100_000, 60  # 6 MB, of which less than 4 MiB fit


def below(name=None, capacity=4 * MIB, **more):
    server.rules()
    name = name or path('kv')
    return penstock.Store([name, f's3://bucket/{os.path.basename(name)}/'], capacity, policy='lru', **more)


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
        all_down(store)


def all_down(store):
    wait(store, lambda s: s['demoted'] + s['demotions_lost'] == s['evictions'])


@case
def what_is_evicted_comes_back():
    with below() as store:
        fill(store)
        stats = store.stats()
        assert stats['demotions_lost'] == 0 and stats['demoted'] == stats['below_entries'] > 15
        assert stats['below_bytes'] == SIZE * stats['below_entries']
        assert store._run(penstock.store.GET, ['k0'], [bytearray(SIZE - 1)]) == [-errno.EMSGSIZE]
        assert 'k0' in store and store.prefix([f'k{i}' for i in range(KEYS)]) == KEYS
        for i in range(KEYS):
            assert store[f'k{i}'] == value(i), i
            all_down(store)  # what made room for it
        stats = store.stats()
        assert stats['promoted'] >= stats['demoted'] // 2 > 0 and stats['corrupt'] == 0
        assert stats['disk_bytes'] <= 4 * MIB


@case
def the_memory_of_its_index_is_counted():
    with penstock.Store([path('alone')], 4 * MIB, policy='lru') as alone:
        for i in range(KEYS):
            alone[f'k{i}'] = value(i)
        before = alone.stats()['index_bytes']
    with below() as store:
        fill(store)
        stats = store.stats()
        assert stats['index_bytes'] > before + 64 * stats['below_entries'], (before, stats)


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
        ticket = store.submit(penstock.store.GET, ['k0'], [old])
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


def ours(name):
    return {key for key in objects() if f'/{os.path.basename(name)}/' in key}


@case
def what_is_cleared_is_gone_below_too():
    keys, name = [f'k{i}' for i in range(KEYS)], path('kv')
    with below(name) as store:
        fill(store)
        assert ours(name)
        store.clear()
        assert store.prefix(keys) == 0 and store.stats()['below_entries'] == 0
        assert all(store.get(key) is None for key in keys)
        while ours(name):  # deleted in the background
            time.sleep(0.001)
        fill(store)  # another time
        for i in range(KEYS):
            assert store[f'k{i}'] == value(i), i
            all_down(store)  # what made room for it
        server.rules('method=DELETE status:503', 'method=POST status:503')
        store.clear()
    for _ in range(2):  # objects are there, and of no key; then they go
        with below(name) as store:
            assert store.stats()['below_entries'] == 0 and store.prefix(keys) == 0
            while ours(name):
                time.sleep(0.001)


@case
def what_is_on_its_way_is_cleared_too():
    for method in 'PUT', 'GET':
        name = path(method)
        with below(name) as store:
            if method == 'GET':
                fill(store)
            server.rules(f'method={method} stall:1')
            if method == 'GET':
                ticket = store.submit(penstock.store.GET, ['k0'], [bytearray(SIZE)])
            else:
                for i in range(KEYS):
                    store[f'k{i}'] = value(i)
            while not server.stats()['in_flight']:
                time.sleep(0.001)
            store.clear()
            server.rules()
            if method == 'GET':
                done = []
                while not done:
                    done = store.drain()
                assert done == [(ticket, [-errno.ENOENT])]
            left = True
            while left:  # what is still put is deleted
                left = server.stats()['in_flight'] or ours(name)
                assert not any(store.get(f'k{i}') for i in range(KEYS))
            assert store.stats()['below_entries'] == store.stats()['promoted'] == 0


@case
def the_next_run_finds_what_is_below():
    name = path('kv')
    with below(name) as store:
        fill(store)
        for i in range(3000):  # the log is rewritten
            store['small'] = b'%d' % i
        stats = store.stats()
        assert stats['log_bytes'] > 200_000
    for _ in range(2):
        with below(name) as store:
            again = store.stats()
            assert again['below_entries'] == stats['below_entries'] and again['below_bytes'] == stats['below_bytes']
            assert store.prefix([f'k{i}' for i in range(KEYS)]) == KEYS
    with below(name) as store:
        for i in range(KEYS):
            assert store[f'k{i}'] == value(i), i
            wait(store, lambda s: s['demoted'] + s['demotions_lost'] == s['evictions'])
        assert store.stats()['promoted'] >= stats['below_entries']
    with below(name) as store:  # of this run and of those before
        assert all(store.get(f'k{i}') in (value(i), None) for i in range(KEYS))
        assert store.stats()['corrupt'] == 0


@case
def what_is_out_of_date_is_so_after_a_restart():
    name = path('kv')
    with below(name) as store:
        fill(store)
        del store['k0']
        store['k1'] = b'new'
        del store['k1']
        store['k2'] = b'new'
        assert store['k3'] == value(3)
        del store['k3']
    with below(name) as store:
        assert [store.get(f'k{i}') for i in (0, 1, 2, 3)] == [None, None, b'new', None]
        assert store['k4'] == value(4)


@case
def a_run_without_the_tier_forgets_it():
    name = path('kv')
    with below(name) as store:
        fill(store)
    with penstock.Store(name, 4 * MIB, policy='lru') as store:
        assert store.get('k0') is None
        store['k0'] = b'new'
        del store['k0']
    with below(name) as store:
        assert store.stats()['below_entries'] == 0 and store.get('k0') is None


@case
def objects_that_are_gone_or_damaged_are_misses_after_a_restart():
    for damage in (lambda key: s3.delete([key]), lambda key: s3.put_bytes(key, data(SIZE, seed=1000))):
        name = path('kv' + str(id(damage)))
        with below(name) as store:
            fill(store)
        for key in ours(name):
            damage(key)
        with below(name) as store:
            assert 'k0' in store
            got = [store.get(f'k{i}') for i in range(KEYS)]
            assert got[0] is None and all(g is None or g == value(i) for i, g in enumerate(got))
            assert 'k0' not in store and store.stats()['promoted'] == 0


@case
def the_next_run_removes_what_no_log_knows_of():
    name = path('kv')
    with below(name) as store:
        fill(store)
    known = ours(name)
    place = min(known).rsplit('/', 2)[0]
    strays = {f'{place}/0000000000000001/{"0" * 32}-7', min(known) + '0'}
    foreign = f'{place}/x'  # no name that a store gives
    for key in strays | {foreign}:
        s3.put_bytes(key, b'stray')
    with below(name) as store:
        while strays & objects():
            time.sleep(0.001)
        assert known | {foreign} <= objects()
        s3.delete([foreign])
        assert store['k0'] == value(0)


CHILD = '''
import random, sys, penstock
store = penstock.Store(sys.argv[2:], 4 << 20, policy='lru')
n = int(sys.argv[1])
rng = random.Random(n)
while True:
    key, n = rng.randrange(60), n + 1
    if rng.random() < 0.15:
        print(f'del {key} 0', flush=True)
        store.delete_many([f'k{key}'])
    elif rng.random() < 0.3:
        store.get(f'k{key}')
        continue
    else:
        print(f'set {key} {n}', flush=True)
        store[f'k{key}'] = n.to_bytes(8, 'little') * 12500
    print('done', flush=True)
'''


def killed(names, n, steps):
    """Which values each key may have: the last that was complete, or what was under way."""
    child = subprocess.Popen([sys.executable, '-c', CHILD, str(n), *names], stdout=subprocess.PIPE, text=True)
    told = []
    for line in child.stdout:
        told.append(line.split())
        if len(told) == steps:
            child.kill()
    child.wait()
    return told


@case
def a_killed_process_leaves_nothing_wrong_below():
    names = [path('a'), path('b'), 's3://bucket/killed/']
    server.rules()
    may = {key: {0} for key in range(KEYS)}  # 0: none
    found = 0
    for i in range(6):
        told = killed(names, 1000000 * (i + 1), 150 + 37 * i)
        for what, *rest in told:
            if what == 'done':
                may[key] = {now, 0} if now else {0}
            else:
                key, now = map(int, rest)
                may[key] = may[key] | {now, 0}
        with penstock.Store(names, 4 * MIB, policy='lru') as store:
            for key in range(KEYS):
                got = store.get(f'k{key}')
                n = int.from_bytes(got[:8], 'little') if got else 0
                assert n in may[key] and (not got or got == n.to_bytes(8, 'little') * 12500), (i, key, n, may[key])
            # An extent may be written to again before the log says that what was there is gone: a miss, and `corrupt'.
            found += store.stats()['promoted']
    assert found


@case
def a_list_that_takes_long_holds_up_nothing():
    """Of what earlier runs have left.  A machine that is slower than the list tries again."""
    for _ in range(5):
        server.rules('method=GET query=list-type stall:5')
        with penstock.Store([path('kv'), 's3://bucket/list/'], 4 * MIB, policy='lru') as store:
            fill(store)
            if server.stats()['in_flight']:  # it is still being told
                assert store.stats()['demoted'] > 10
                break
    else:
        raise AssertionError('nothing is put before all is listed')


@case
def several_come_up_at_once():
    with below() as store:
        fill(store)
        keys, most = [f'k{i}' for i in range(8)], 0
        while server.stats()['in_flight']:
            time.sleep(0.001)
        server.rules('method=GET stall:1')
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            got = pool.submit(store.get_many, keys, [bytearray(SIZE) for _ in keys])
            while not got.done():
                most = max(most, server.stats()['in_flight'])
                time.sleep(0.001)
        assert all(got.result()), got.result()
        assert most >= 3, most  # and what makes room goes down by one more


@case
def names_that_cannot_be_are_refused():
    raises(OSError, lambda: penstock.Store(['s3://bucket/x'], 4 * MIB))
    raises(OSError, lambda: penstock.Store(['s3://bucket/x', path('d')], 4 * MIB))
    for name in 'gs://bucket/x', 's3://', 's3:///x', 's3://No/x':
        raises(OSError, lambda name=name: penstock.Store([path('d'), name], 4 * MIB))


run(*cases)
