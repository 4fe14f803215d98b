# SPDX-License-Identifier: Apache-2.0
"""penstock.WeightUpdate: a model is the old one or the new one, whatever happens on the way."""
import json
import os
import random
import signal
import sys
import time

import penstock
import penstock.safetensors
from kit import Skip, case, cases, descriptors, each, numpy_or_skip, path, raises, run

try:
    numpy = numpy_or_skip()
except Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()

LAYERS, SIZE, KILLS = 4, 300_001, 40
INDEX = 'model.safetensors.index.json'


def tensors(generation):
    """Every byte of what is trained says of which generation it is."""
    trained = {f'model.layers.{i}.w': numpy.full((SIZE + i,), generation, 'u1') for i in range(LAYERS)}
    small = {f'model.layers.{i}.b': numpy.full((7,), generation, 'f4') for i in range(LAYERS)}
    rest = {'embed.weight': numpy.arange(1, 1_000_000, dtype='u4'), 'norm.weight': numpy.full(5, 0.1, 'f2')}
    return {**trained, **small, **rest}


def one():
    place = path('model')
    os.mkdir(place)
    name = os.path.join(place, 'model.safetensors')
    penstock.safetensors.save_file(tensors(0), name)
    return name


def several():
    """Three shards, the last without anything that is trained."""
    place = path('model')
    os.mkdir(place)
    where = {n: f'model-{3 if "layers" not in n else 1 + int(n.split(".")[2]) % 2}.safetensors' for n in tensors(0)}
    for shard in sorted(set(where.values())):
        some = {n: t for n, t in tensors(0).items() if where[n] == shard}
        penstock.safetensors.save_file(some, os.path.join(place, shard))
    with open(os.path.join(place, INDEX), 'w') as f:
        json.dump({'metadata': {'total_size': 5}, 'weight_map': where}, f)
    return place


def train(name, generation, **options):
    """One pass over the model, from the last layer to the first, as backward has it."""
    with penstock.WeightUpdate(name, **options) as new, penstock.WeightWindow(name, framework='np') as stream:
        for layer in reversed(stream.names):
            for weight in stream.weights(layer):
                if 'layers' in weight.name:
                    new.write(weight, tensors(generation)[weight.name])


def generation(name):
    """Of the model, all of it, checked against its checksums."""
    with penstock.safetensors.safe_open(name, 'np', verify='require') as f:
        there = {n: f.get_tensor(n) for n in f.keys()}
    found = {int(v) for n, t in there.items() if 'layers' in n for v in numpy.unique(t)}
    assert len(found) == 1, f'a mixture of {sorted(found)}'
    want = tensors(found.copy().pop())
    assert there.keys() == want.keys() and all(numpy.array_equal(there[n], t) for n, t in want.items())
    return found.pop()


def files(name):
    """What there is that nobody needs: beyond the model and its checksums."""
    place = name if os.path.isdir(name) else os.path.dirname(name)
    needed = {os.path.basename(name)}
    if os.path.isdir(name):
        with open(os.path.join(place, INDEX)) as f:
            needed = {*json.load(f)['weight_map'].values(), INDEX}
    return {n for n in os.listdir(place) if n.removesuffix('.crc') not in needed}


MODELS = {'one file': one, 'shards': several}


@each(MODELS)
def what_was_written_is_the_model_and_the_rest_is_as_it_was(kind):
    name = MODELS[kind]()
    for g in 1, 2, 3:
        train(name, g)
        assert generation(name) == g and not files(name)
    if kind == 'shards':
        shards = {n for n in os.listdir(name) if n.endswith('.safetensors')}
        assert shards == {'model-1.g3.safetensors', 'model-2.g3.safetensors', 'model-3.safetensors'}, shards
        with open(os.path.join(name, INDEX)) as f:
            assert json.load(f)['metadata'] == {'total_size': 5}
    before = descriptors()
    train(name, 4)
    assert descriptors() == before


@each(MODELS)
def until_the_end_the_old_one_is_there(kind):
    name = MODELS[kind]()
    with penstock.WeightWindow(name, framework='np', window='32MiB') as stream:
        with penstock.WeightUpdate(name) as new:
            weights = [w for layer in stream.names for w in stream.weights(layer) if 'layers' in w.name]
            for w in weights:
                new.write(w, numpy.zeros(w.shape, tensors(0)[w.name].dtype))  # and again
                new.write(w, tensors(1)[w.name])
            assert generation(name) == 0
        assert generation(name) == 1
        got = {n: t.copy() for layer in stream for n, t in layer.items()}  # which has its files open
        assert all(numpy.array_equal(got[n], t) for n, t in tensors(0).items())


@each(MODELS)
def an_exception_leaves_the_old_one(kind):
    name = MODELS[kind]()
    for g in 1, 2:
        try:
            with penstock.WeightUpdate(name) as new, penstock.WeightWindow(name, framework='np') as stream:
                new.write(stream.weights('model.layers.1')[0], tensors(g)[stream.weights('model.layers.1')[0].name])
                raise ArithmeticError('as asked')
        except ArithmeticError:
            pass
        assert generation(name) == 0 and not files(name)
    train(name, 3)
    assert generation(name) == 3


@case
def what_is_wrong_is_refused():
    name, place = one(), several()
    with penstock.WeightWindow(place, framework='np') as stream, penstock.WeightWindow(name, framework='np') as other:
        (w,) = [w for w in stream.weights('model.layers.0') if w.name.endswith('.b')]
        with penstock.WeightUpdate(place) as new:
            for wrong in numpy.ones(8, 'f4'), numpy.ones(7, 'i4'), numpy.ones((7, 1), 'f4'):
                assert w.name in str(raises(ValueError, new.write, w, wrong))
            raises(ValueError, new.write, other.weights('model.layers.0')[0], tensors(0)['model.layers.0.b'])
            raises(BlockingIOError, penstock.WeightUpdate, place)  # two at once
        raises(ValueError, new.write, w, numpy.ones(7, 'f4'))
        raises(ValueError, new.commit)
        os.unlink(os.path.join(place, INDEX))
        with penstock.WeightUpdate(place) as new:  # files that nothing holds together
            a, b = (next(w for w in stream.weights(f'model.layers.{i}') if w.name.endswith('.b')) for i in (0, 1))
            new.write(a, numpy.ones(7, 'f4'))
            assert 'no index' in str(raises(ValueError, new.write, b, numpy.ones(7, 'f4')))
            new.abort()
    raises(ValueError, penstock.WeightUpdate, 's3://bucket/model')


@case
def what_links_lead_to_stays():
    name = one()
    link = path('linked.safetensors')
    os.symlink(name, link)
    with penstock.WeightUpdate(link) as new, penstock.WeightWindow(link, framework='np') as stream:
        w = stream.weights('model.layers.0')[0]
        assert 'link' in str(raises(ValueError, new.write, w, tensors(1)[w.name]))
    assert generation(name) == 0 and os.path.islink(link)


@each(MODELS)
def a_file_that_is_damaged_is_not_made_new(kind):
    name = MODELS[kind]()
    victim = name if kind == 'one file' else os.path.join(name, 'model-1.safetensors')
    with penstock.WeightWindow(name, framework='np') as stream:
        (w,) = [w for w in stream.weights('model.layers.0') if w.name.endswith('.b')]
    with open(victim, 'r+b') as f:
        f.seek(-1, os.SEEK_END)  # in what is copied
        f.write(b'~')
    with open(victim, 'rb') as f:
        there = f.read()
    with penstock.WeightUpdate(name) as new:
        raises(OSError, lambda: (new.write(w, numpy.ones(7, 'f4')), new.commit()))
    with open(victim, 'rb') as f:
        assert f.read() == there
    assert not files(name)


@case
def what_a_dead_one_has_left_is_removed():
    name = several()
    train(name, 1)
    for left in 'model-1.g3.safetensors', 'model-2.g2.safetensors', 'model-2.g2.safetensors.crc':
        with open(os.path.join(name, left), 'w') as f:
            f.write('behind the one step')
    # Somebody may be copying the first of them back, and of the others none was made here.
    mine = {'model-1.safetensors', 'model-9.g1.safetensors', 'model-1.bak.safetensors', 'notes'}
    for other in mine:
        open(os.path.join(name, other), 'w').close()
    with penstock.WeightUpdate(name):
        pass
    assert files(name) == mine and generation(name) == 1


@case
def what_another_index_names_stays():
    name = several()
    train(name, 1)
    with open(os.path.join(name, INDEX), 'rb') as f, open(os.path.join(name, 'base.index.json'), 'wb') as copy:
        copy.write(f.read())
    train(name, 2)
    assert generation(name) == 2 and generation(os.path.join(name, 'base.index.json')) == 1
    with penstock.WeightUpdate(os.path.join(name, 'base.index.json')):
        pass
    assert generation(name) == 2 and generation(os.path.join(name, 'base.index.json')) == 1


@case
def an_error_behind_the_one_step_loses_neither():
    """As a signal, or a folder that cannot be synced, after the index has got its name."""
    name, update = several(), sys.modules['penstock._weight_update']

    class Late(update.Writer):
        def __exit__(self, *what):
            super().__exit__(*what)
            raise KeyboardInterrupt

    plain, update.Writer = update.Writer, lambda where, **more: (Late if where.endswith('.json') else plain)(where, **more)
    try:
        raises(KeyboardInterrupt, train, name, 1)
    finally:
        update.Writer = plain
    assert generation(name) == 1
    train(name, 2)
    assert generation(name) == 2


@case
def a_file_is_updated_by_one_at_a_time():
    name = one()
    with penstock.WeightWindow(name, framework='np') as stream:
        w = stream.weights('model.layers.0')[0]
        with penstock.WeightUpdate(name) as new, penstock.WeightUpdate(name) as other:
            new.write(w, tensors(0)[w.name])
            raises(BlockingIOError, other.write, w, tensors(0)[w.name])
            other.abort()
    train(name, 1)
    assert generation(name) == 1


@case
def weights_of_a_file_that_was_replaced_are_refused():
    name = one()
    with penstock.WeightWindow(name, framework='np') as stream:
        w = stream.weights('model.layers.0')[0]
        penstock.safetensors.save_file({'another': numpy.zeros(SIZE, 'u1'), **tensors(0)}, name)
        with penstock.WeightUpdate(name) as new:
            assert w.name in str(raises(ValueError, new.write, w, tensors(1)[w.name]))
            new.abort()
    with penstock.safetensors.safe_open(name, 'np') as f:
        assert 'another' in f.keys()


@each(MODELS)
def a_kill_at_any_moment_leaves_one_of_the_two(kind):
    name, last, rng = MODELS[kind](), 0, random.Random(18)
    for _ in range(KILLS):
        down, up = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(down)
                for g in range(last + 1, 250):
                    train(name, g, durable=False)
                    os.write(up, bytes([g]))
            finally:
                os._exit(1)
        os.close(up)
        first = os.read(down, 1)  # it is under way
        time.sleep(rng.random() * 0.04)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        said = max(first + os.read(down, 1000))
        os.close(down)
        now = generation(name)
        assert said <= now <= said + 1, (said, now)
        last = now
        if last > 200:
            break
    train(name, last + 1)
    assert generation(name) == last + 1 and not files(name), files(name)


run(*cases)
