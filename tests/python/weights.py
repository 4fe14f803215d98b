# SPDX-License-Identifier: Apache-2.0
"""penstock.WeightWindow: models that pass through a window, as bytes and as arrays."""
import errno
import gc
import json
import os
import struct
import threading
import weakref

import penstock
from kit import MIB, PAGE, case, cases, data, descriptors, each, in_fork, make, numpy_or_skip, path, raises, run
from penstock._safetensors import Entry, build

LAYERS = 6
SIZE = 100_000


def shard(name, tensors):
    """A file of safetensors; tensors by name: (dtype, shape, bytes)."""
    head, ordered = build({n: Entry(n, d, s, 0, len(b)) for n, (d, s, b) in tensors.items()}, None)
    with open(name, 'wb') as f:
        f.write(head + b''.join(tensors[n][2] for n in ordered))


def of_layer(i):
    start = f'model.layers.{i}.'
    return {f'{start}up': ('U8', (SIZE,), data(SIZE, i)), f'{start}down': ('F32', (5, 7), data(140, 100 + i))}


def model(name='model'):
    """A folder of two files with an index; its tensors."""
    place = path(name)
    os.mkdir(place)
    tensors, where = {'embed.weight': ('U8', (10, 3), data(30, 77)), 'norm.weight': ('BF16', (4,), data(8, 78))}, {}
    for i in range(LAYERS):
        tensors |= of_layer(i)
    for number in range(2):
        some = {n: t for at, (n, t) in enumerate(tensors.items()) if at % 2 == number}
        file = f'model-{number}.safetensors'
        shard(os.path.join(place, file), some)
        where |= dict.fromkeys(some, file)
    with open(os.path.join(place, 'model.safetensors.index.json'), 'w') as f:
        json.dump({'weight_map': where}, f)
    return place, {n: b for n, (_, _, b) in tensors.items()}


def order():
    return ['embed', *(f'model.layers.{i}' for i in range(LAYERS)), 'norm']


def weights(place, **options):
    return penstock.WeightWindow(place, **{'framework': 'bytes', 'window': '512KiB', **options})


@case
def layers_come_in_order_of_use_and_are_views():
    place, tensors = model()
    seen, names = {}, []
    with weights(place) as s:
        assert s.names == order() and len(s) == len(order())
        for layer in s:
            names.append(layer.name)
            assert layer.index == len(names) - 1 and layer.nbytes == sum(len(v) for v in layer.values())
            for name, view in layer.items():
                assert isinstance(view, memoryview) and view.readonly
                seen[name] = bytes(view)
        assert names == order() and seen == tensors
        stats = s.stats()
        assert stats['groups'] == len(order()) and stats['bytes'] == sum(map(len, tensors.values()))
        assert stats['window'] <= 600 << 10 and stats['stall_disk_ns'] >= 0 and stats['direct'] in (True, False)


@case
def what_is_kept_of_a_released_layer_is_refused():
    place, _ = model()
    with weights(place) as s:
        first = next(s)
        kept = first['embed.weight']
        second = next(s)
        assert first.released and not second.released
        assert 'embed' in str(raises(ValueError, lambda: first['embed.weight']))
        raises(ValueError, lambda: kept[0])
        with second:
            assert len(second['model.layers.0.up']) == SIZE
        assert second.released
        second.release()  # twice is once
        third, fourth = s.next(), s.next()
        assert bytes(third['model.layers.1.down']) == of_layer(1)['model.layers.1.down'][2]
        assert bytes(fourth['model.layers.2.down']) == of_layer(2)['model.layers.2.down'][2]
        raises(KeyError, lambda: third['none'])
    assert third.released and fourth.released and s.closed
    raises(ValueError, s.next)
    s.close()


@case
def what_is_held_leaves_no_room_and_is_told():
    place, _ = model()
    with weights(place, window=3 * SIZE) as s:
        held = []
        e = raises(OSError, lambda: [held.append(s.next()) for _ in range(LAYERS)])
        assert e.errno == errno.ENOBUFS and held


@case
def a_cycle_begins_again():
    place, tensors = model()
    with weights(place, cyclic=True) as s:
        for turn in range(3):
            for name in order():
                layer = next(s)
                assert layer.name == name and all(bytes(v) == tensors[n] for n, v in layer.items()), turn


@case
def layers_are_wanted_and_skipped():
    place, _ = model()
    with weights(place) as s:
        s.want(['model.layers.4', 2])
        assert [next(s).name, next(s).name] == ['model.layers.4', 'model.layers.1']
        assert s.skip(2) == 2
        assert next(s).name == 'model.layers.1'
        assert 'none' in str(raises(KeyError, s.want, 'none'))
        raises(KeyError, s.want, [len(order())])
        assert s.skip(100) == len(order()) - 3 and s.next() is None


@case
def experts_are_read_when_they_are_wanted():
    place, tensors = model()
    with weights(place, experts=True) as s:
        assert s.next() is None and s.stats()['reads'] == 0
        for _ in range(2):
            s.want('model.layers.3')
            with s.next() as layer:
                assert bytes(layer['model.layers.3.up']) == tensors['model.layers.3.up']
        s.hint(['norm'])
        assert s.stats()['hits'] == 1 and s.stats()['misses'] == 1


def of_experts():
    """A file of 2 layers with 4 experts each, and its tensors."""
    tensors = {f'model.layers.{i}.mlp.experts.{e}.w': ('U8', (SIZE,), data(SIZE, 10 * i + e))
               for i in range(2) for e in range(4)}
    shard(name := path('experts.safetensors'), tensors)
    return name, {n: b for n, (_, _, b) in tensors.items()}


@each([False, True])
def a_trace_of_experts_is_followed(ahead):
    name, tensors = of_experts()
    recorded = make(b'0 1 2\n1 3\n0 2 1\n1 3\n0 1\n', 'trace')
    wanted = [[(0, 1), (0, 2)], [(1, 3)], [(0, 1), (0, 2)], [(1, 3)], [(0, 1)]]
    with weights(name, by='expert', experts=True, window='512KiB') as s:  # of four experts
        seen = []
        for experts in s.follow(recorded, ahead=ahead):
            seen.append([])
            for layer in experts:
                assert bytes(layer[f'{layer.name}.w']) == tensors[f'{layer.name}.w']
                seen[-1].append((int(layer.name.split('.')[2]), int(layer.name.split('.')[-1])))
        assert [sorted(one) for one in seen] == wanted
        misses = s.stats()['misses']  # one less where what was hinted at came in time
        assert s.stats()['hits'] == 7 - misses and misses in ((2, 3) if ahead else (3,)), s.stats()
        assert s.hit_rate == (7 - misses) / 7 and s.stats()['bytes_read'] < 3 * (SIZE + 2 * PAGE)
        assert s.next() is None  # all are given back


@case
def sets_of_experts_come_from_anywhere_and_may_be_left_early():
    name, _ = of_experts()
    with weights(name, by='expert', experts=True, window='512KiB') as s:
        assert s.hit_rate is None
        made = []

        def router():
            for e in range(4):
                made.append(e)
                yield [f'model.layers.0.mlp.experts.{e}', 4 + e]

        for number, experts in enumerate(s.follow(router())):
            assert made == list(range(min(number + 2, 4)))  # one ahead, no more
            layer = next(experts)
            assert layer.name.endswith(f'experts.{number}')
        assert number == 3 and layer.released and s.next() is None
        for bad, says in (b'0 9\n', 'line 1: layer 0 has no expert 9'), (b'0 1\n0 x\n', "line 2: '0 x'"):
            e = raises((KeyError, ValueError), lambda: list(map(list, s.follow(make(bad, 'trace')))))
            assert says in str(e), e
        raises(FileNotFoundError, lambda: list(s.follow(path('none'))))
    with weights(name) as s:
        assert 'experts=True' in str(raises(ValueError, lambda: list(s.follow([]))))


@case
def groups_are_made_as_asked():
    place, tensors = model()
    with weights(place, by='tensor') as s:
        assert sorted(s.names) == sorted(tensors)
    with weights(place) as s:
        w = {w.name: w for w in s.weights('model.layers.0')}['model.layers.0.down']
        assert (w.dtype, w.shape, w.nbytes) == ('F32', (5, 7), 140) and w.path.startswith(place)


@case
def arrays_have_shape_and_dtype():
    np = numpy_or_skip()
    place, tensors = model()
    with weights(place, framework='np') as s:
        s.want(['model.layers.2', 'norm'])
        layer = next(s)
        a = layer['model.layers.2.down']
        assert a.dtype == np.float32 and a.shape == (5, 7) and a.tobytes() == tensors['model.layers.2.down']
        assert not a.flags.writeable and layer['model.layers.2.down'] is a
        assert next(s)['norm.weight'].tobytes() == tensors['norm.weight']


@case
def swap_folders_and_GGUF_are_models():
    place = path('swap')
    os.mkdir(place)
    for i in range(3):
        with open(os.path.join(place, f'{i}_param.tensor.swp'), 'wb') as f:
            f.write(data(PAGE * (i + 1), i))
    with weights(place) as s:
        assert [bytes(v) for layer in s for v in layer.values()] == [data(PAGE * (i + 1), i) for i in range(3)]
    name, raw = b'blk.0.w', data(64, 5)
    head = b'GGUF' + struct.pack('<IQQ', 3, 1, 0) + struct.pack('<Q', len(name)) + name + struct.pack(
        '<IQQIQ', 2, 8, 2, 0, 0)
    with weights(make(head + bytes(-len(head) % 32) + raw, 'm.gguf')) as s:
        (layer,) = [(layer.name, bytes(layer['blk.0.w']), layer.weights[0].shape) for layer in s]
        assert layer == ('blk.0', raw, (2, 8)), layer


@case
def the_window_is_as_asked():
    place, _ = model()
    for window, most in ((None, MIB), ('8GiB', MIB), (300_000, 400_000), ('256k', 300_000)):
        with weights(place, window=window) as s:
            assert s.stats()['largest'] <= s.stats()['window'] <= most, (window, s.stats())
    assert 'model.layers' in str(raises(ValueError, weights, place, window='8KiB'))


@case
def bad_arguments_are_refused():
    place, _ = model()
    for options in ({'window': 'much'}, {'window': 0}, {'by': 'size'}, {'framework': 'jax'}, {'pinned': True},
                    {'device': 'cuda:0'}, {'cyclic': True, 'experts': True}):
        raises(ValueError, weights, place, **options)
    raises(FileNotFoundError, weights, path('none'))
    raises(TypeError, weights, 5)
    e = raises(ValueError, weights, make(b'nothing', 'x.safetensors'))
    assert 'x.safetensors' in str(e)


@case
def a_file_that_is_cut_is_an_error_of_its_layer():
    place, tensors = model()
    with weights(place, window=260_000, cyclic=True) as s:
        for name in os.listdir(place):
            if name.endswith('.safetensors'):
                os.truncate(os.path.join(place, name), PAGE)
        seen = []
        for _ in range(3 * len(order())):
            try:
                seen.append(next(s).name)
            except OSError as e:
                seen.append(e.errno)
        assert errno.ENODATA in seen, seen


@case
def nothing_is_left_behind():
    place, _ = model()
    with weights(place) as s:
        next(s)
    before = descriptors()
    for close in False, True:
        s = weights(place)
        layer = next(s)
        layer['embed.weight']
        memory, gone = weakref.ref(layer), weakref.ref(s)
        if close:
            s.close()
        gc.disable()
        try:
            del s, layer  # no cycles: at once
            assert memory() is None and gone() is None
        finally:
            gc.enable()
    assert descriptors() == before


@case
def views_outlive_the_stream():
    np = numpy_or_skip()
    place, tensors = model()
    s = weights(place, window=MIB, framework='np')
    s.want('model.layers.5')
    kept = next(s)['model.layers.5.up']
    s.close()
    assert kept.tobytes() == tensors['model.layers.5.up'] and np.asarray(kept).size == SIZE


@case
def another_thread_is_refused_while_one_waits_and_a_child_too():
    place, _ = model()
    with weights(place, cyclic=True) as s:
        errors = []

        def work():
            for _ in range(200):
                try:
                    layer = s.next()
                    layer.release()
                except (RuntimeError, OSError) as e:
                    errors.append(e)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        # A release that was refused leaves its layer held; nothing else may come of it.
        assert all('another thread' in str(e) or e.errno == errno.ENOBUFS for e in errors), errors

    def in_child():
        return raises(OSError, s.next).errno == errno.ECHILD

    with weights(place) as s:
        next(s)
        in_fork(in_child)
        assert next(s).name == 'model.layers.0'


run(*cases)
