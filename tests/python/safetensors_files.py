# SPDX-License-Identifier: Apache-2.0
"""penstock.safetensors: the rules of the format, slices, shards; with what of torch and numpy is here."""
import json
import os
import random
import struct
import sys
import threading

from kit import Skip, case, cases, content, data, each, folder, make, module, path, raises, run

np, torch = module('numpy'), module('torch')
if np is None:
    print('1..0 # SKIP no numpy')
    sys.exit()

from penstock.safetensors import SafetensorError, load_file, safe_open, save_file

KINDS = ('float64', 'float32', 'float16', 'complex64', 'int64', 'int32', 'int16', 'int8', 'uint64', 'uint32', 'uint16',
         'uint8', 'bool')


def array(kind, shape, seed=1):
    count = int(np.prod(shape, dtype=int))
    raw = bytearray(data(count * np.dtype(kind).itemsize, seed))
    if kind == 'bool':
        raw = bytearray(b & 1 for b in raw)
    return np.frombuffer(raw, dtype=kind).reshape(shape)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def file_of(header, body=b'', pad=b''):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += pad
    return make(struct.pack('<Q', len(text)) + text + body, 'hand.safetensors')


def entry(dtype, shape, first, last):
    return {'dtype': dtype, 'shape': shape, 'data_offsets': [first, last]}


@case
def arrays_come_back_as_they_were():
    arrays = {f'{kind} {shape}': array(kind, shape) for kind in KINDS for shape in ((), (0,), (3, 0, 2), (7,), (5, 6, 7))}
    name = path('all.safetensors')
    save_file(arrays, name, {'who': 'süß', 'what': 'a\n"b"'})
    back = load_file(name, framework='np')
    assert set(back) == set(arrays) and all(same(back[k], arrays[k]) for k in arrays)
    with safe_open(name, 'np') as f:
        assert f.keys() == sorted(arrays) and f.metadata() == {'who': 'süß', 'what': 'a\n"b"'}
        assert all(same(f.get_tensor(k), arrays[k]) for k in arrays)
        some = f.get_tensors(list(arrays)[:3])
        assert list(some) == list(arrays)[:3]


@case
def a_file_is_laid_out_as_the_format_says():
    name = path('layout.safetensors')
    save_file({'b': array('float32', (2,)), 'a': array('float32', (1,)), 'x': array('int64', (1,)),
               'y': array('uint8', (3,))}, name)
    raw = content(name)
    n = struct.unpack('<Q', raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    assert n % 8 == 0 and list(header) == ['x', 'a', 'b', 'y']
    assert [header[k]['data_offsets'] for k in header] == [[0, 8], [8, 12], [12, 20], [20, 23]]
    assert len(raw) == 8 + n + 23 and raw[8 + n:8 + n + 8] == array('int64', (1,)).tobytes()


@case
def torch_tensors_of_every_dtype_come_back():
    if torch is None:
        raise Skip('torch', 'no torch')
    kinds = [k for k in (*KINDS, 'bfloat16', 'float8_e4m3fn', 'float8_e5m2', 'float8_e8m0fnu', 'float4_e2m1fn_x2')
             if hasattr(torch, k)]
    tensors = {}
    for kind in kinds:
        for shape in ((0, 3), (6,), (4, 2)):
            size = torch.empty(0, dtype=getattr(torch, kind)).element_size()
            count = int(np.prod(shape))
            raw = bytearray(b & 1 if kind == 'bool' else b for b in data(count * size))
            flat = torch.frombuffer(raw, dtype=getattr(torch, kind)) if raw else torch.empty(0, dtype=getattr(torch, kind))
            tensors[f'{kind} {shape}'] = flat.reshape(shape)
    name = path('torch.safetensors')
    save_file(tensors, name)
    back = load_file(name)
    for key, tensor in tensors.items():
        got = back[key]
        assert got.dtype == tensor.dtype and got.shape == tensor.shape, key
        if tensor.numel():
            assert got.reshape(-1).view(torch.uint8).tolist() == tensor.reshape(-1).view(torch.uint8).tolist(), key


@case
def what_the_format_cannot_say_is_refused_before_anything_is_written():
    name = make(b'old', 'old.safetensors')
    grid = np.ones((4, 4))
    bad = [{'t': grid.T[:, 1:]}, {'t': grid[:, ::2]}, {'t': [1, 2]}, {1: grid}, [grid], {'t': np.array(['a'])},
           {'t': np.array([None])}, {'__metadata__': grid}, {'t': np.ones(2, np.complex128)},
           {'a\0b': grid}]
    for tensors in bad:
        raises((ValueError, TypeError), save_file, tensors, name)
    raises(TypeError, save_file, {'t': grid}, name, {'a': 1})
    for metadata in {'a\0': 'b'}, {'a': '\0'}:
        raises(SafetensorError, save_file, {'t': grid}, name, metadata)
    if torch is not None:
        t = torch.ones(10)
        assert 'share' in str(raises(RuntimeError, save_file, {'a': t, 'b': t[3:]}, name))
        save_file({'a': t[:5], 'b': t[5:]}, path('halves.safetensors'))
        raises(ValueError, save_file, {'a': torch.ones(3, 3).t()[1:]}, name)
        raises(ValueError, save_file, {'a': torch.ones(3).to_sparse()}, name)
        raises(SafetensorError, save_file, {'a': torch.empty([1] * 65)}, name)
    assert content(name) == b'old'


@case
def slices_read_what_they_are():
    seed = int(os.environ.get('PENSTOCK_TEST_SEED', random.randrange(1 << 32)))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    rng = random.Random(seed)
    whole = {'cube': array('float32', (20, 30, 40)), 'flat': array('int16', (50000,)), 'thin': array('int8', (3, 1, 7)),
             'none': array('int8', (3, 0, 7))}
    name = path('slices.safetensors')
    save_file(whole, name)

    def part(size):
        if rng.random() < 0.3 and size:
            return rng.randrange(-size, size)
        a, b = (rng.choice([None, rng.randrange(-size - 2, size + 3)]) for _ in 'ab')
        return slice(a, b, rng.choice([None, 1, 2, 7]))

    with safe_open(name, 'np') as f:
        for _ in range(300):
            key = rng.choice(list(whole))
            want = whole[key]
            index = tuple(part(n) for n in want.shape[:rng.randrange(want.ndim + 1)])
            if rng.random() < 0.2:
                index = (*index, Ellipsis)
            got = f.get_slice(key)[index]
            assert np.shape(got) == np.shape(want[index]) and np.asarray(got).tobytes() == want[index].tobytes(), (key, index)
        piece = f.get_slice('cube')
        assert piece.get_shape() == [20, 30, 40] and piece.get_dtype() == 'F32'
        for index in (20, (0, 0, 0, 0), -21):
            raises(IndexError, piece.__getitem__, index)
        raises(ValueError, piece.__getitem__, slice(None, None, -1))


BROKEN = {
    'an empty file': lambda: make(b''),
    'half a length': lambda: make(b'\0\0\0'),
    'a header beyond the end': lambda: make(struct.pack('<Q', 100) + b'{}'),
    'a header of more than 100 MB': lambda: make(struct.pack('<Q', 100_000_001) + b'{}'),
    'a length of 2^64': lambda: make(struct.pack('<Q', (1 << 64) - 1) + b'{}'),
    'no JSON': lambda: file_of(b'{"a":'),
    'a list': lambda: file_of(b'[]'),
    'a blank before it': lambda: file_of(b' {}'),
    'bad UTF-8': lambda: file_of(b'{"\xff":{}}'),
    'half a surrogate': lambda: file_of(b'{"\xed\xa0\x80":{}}'),
    'a name twice': lambda: file_of(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                    b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b'x'),
    'an unknown dtype': lambda: file_of({'a': entry('F12', [1], 0, 1)}, b'x'),
    'a dtype that is a list': lambda: file_of({'a': entry([], [1], 0, 1)}, b'x'),
    'a negative size': lambda: file_of({'a': entry('U8', [-1], 0, 1)}, b'x'),
    'a size that is true': lambda: file_of({'a': entry('U8', [True], 0, 1)}, b'x'),
    'a size with a fraction': lambda: file_of({'a': entry('U8', [1.0], 0, 1)}, b'x'),
    'a shape that overflows': lambda: file_of({'a': entry('F64', [1 << 62, 8], 0, 0)}),
    'a size and offsets that differ': lambda: file_of({'a': entry('F32', [1], 0, 3)}, b'xyz'),
    'offsets the wrong way round': lambda: file_of({'a': entry('U8', [1], 1, 0)}, b'x'),
    'three offsets': lambda: file_of({'a': {'dtype': 'U8', 'shape': [1], 'data_offsets': [0, 1, 2]}}, b'x'),
    'a hole': lambda: file_of({'a': entry('U8', [1], 0, 1), 'b': entry('U8', [1], 2, 3)}, b'xyz'),
    'a hole at the start': lambda: file_of({'a': entry('U8', [1], 1, 2)}, b'xy'),
    'an overlap': lambda: file_of({'a': entry('U8', [2], 0, 2), 'b': entry('U8', [2], 1, 3)}, b'xyz'),
    'more data than tensors': lambda: file_of({'a': entry('U8', [1], 0, 1)}, b'xy'),
    'less data than tensors': lambda: file_of({'a': entry('U8', [2], 0, 2)}, b'x'),
    'metadata that are numbers': lambda: file_of({'__metadata__': {'a': 1}}),
    'metadata that are a list': lambda: file_of({'__metadata__': []}),
    'half a byte': lambda: file_of({'a': entry('F4', [1], 0, 1)}, b'x'),
    'lists in lists without end': lambda: file_of(b'{"a":' + b'[' * 100000),
    'not a number': lambda: file_of(b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', b'x'),
}


@each(BROKEN)
def against_the_rules(what):
    name = BROKEN[what]()
    error = raises(SafetensorError, load_file, name, framework='np')
    assert name in str(error) and '\n' not in str(error), error


@case
def a_field_that_nobody_knows_is_passed_over():
    name = file_of({'a': {**entry('U8', [1], 0, 1), 'b': 1}}, b'x')
    assert load_file(name, framework='np')['a'].tobytes() == b'x'


@case
def flipped_bits_are_found_and_named():
    name = path('flip.safetensors')
    save_file({'one': np.zeros(1 << 18), 'two': np.zeros(1 << 18)}, name)
    with open(name, 'r+b') as f:
        f.seek(3 << 20)
        f.write(b'\1')
    error = raises(OSError, load_file, name, framework='np')
    said = str(error).replace(os.path.dirname(name), '')  # where it is may have 'one' in it
    assert 'two' in said and 'one' not in said and name in str(error), error
    with safe_open(name, 'np') as f:
        f.get_tensor('one')
    load_file(name, framework='np', verify=False)


def shards(index=None, **change):
    place = path('model')
    os.mkdir(place)
    for i in (1, 2):
        save_file({f't{i}': np.full(5, i), f'u{i}': np.full(3, -i)}, os.path.join(place, f'model-{i}-of-2.safetensors'))
    weight_map = {f'{k}{i}': f'model-{i}-of-2.safetensors' for k in 'tu' for i in (1, 2)}
    weight_map.update(change)
    with open(os.path.join(place, 'model.safetensors.index.json'), 'w', encoding='utf-8') as f:
        f.write(index or json.dumps({'metadata': {}, 'weight_map': weight_map}))
    return place


@case
def a_folder_of_shards_is_one_model():
    place = shards()
    for name in place, os.path.join(place, 'model.safetensors.index.json'):
        back = load_file(name, framework='np')
        assert sorted(back) == ['t1', 't2', 'u1', 'u2'] and all((back[f't{i}'] == i).all() for i in (1, 2))
    with safe_open(place, 'np') as f:
        assert f.get_slice('t2')[1:3].tolist() == [2, 2]
    alone = path('alone')
    os.mkdir(alone)
    save_file({'x': np.ones(1)}, os.path.join(alone, 'model.safetensors'))
    assert list(load_file(alone, framework='np')) == ['x']


@case
def an_index_that_lies_is_refused():
    for place in (shards(t9='model-1-of-2.safetensors'), shards(t1='../elsewhere.safetensors'), shards(t1='/etc/passwd'),
                  shards('{}'), shards('no JSON'), shards('{"weight_map": {"a": 5}}'), shards('{"weight_map": []}')):
        raises(SafetensorError, load_file, place, framework='np')
    raises(FileNotFoundError, load_file, shards(t1='not-there.safetensors'), framework='np')
    empty = path('empty')
    os.mkdir(empty)
    raises(SafetensorError, load_file, empty, framework='np')


@case
def what_is_not_there_is_told():
    name = path('one.safetensors')
    save_file({'x': np.ones(1)}, name)
    with safe_open(name, 'np') as f:
        for call in f.get_tensor, f.get_slice:
            assert "'y'" in str(raises(SafetensorError, call, 'y'))
    raises(SafetensorError, safe_open, name, 'tf')
    raises(ValueError, safe_open, name, 'np', 'cuda:0')
    assert raises(FileNotFoundError, load_file, path('no')).filename
    assert not [n for n in os.listdir(folder) if n.endswith('.tmp')]


@each([('np', True), ('np', False), ('pt', True), ('pt', False)])
def small_tensors_that_share_memory_know_nothing_of_it(how):
    framework, verify = how
    if framework == 'pt' and torch is None:
        raise Skip('torch', 'no torch')
    kinds = ('float64', 'float32', 'int8', 'float16')
    arrays = {f't{i}': array(kinds[i % 4], ((i * 37) % 5000, 2), i) for i in range(700)}
    arrays['large'] = array('uint8', (5 << 20,))
    arrays['last'] = array('int8', (3,))
    name = path('many.safetensors')
    save_file(arrays, name)
    back = load_file(name, framework=framework, verify=verify)
    assert set(back) == set(arrays) and list(back) == safe_open(name, framework).offset_keys()
    as_arrays = {k: v if framework == 'np' else v.numpy() for k, v in back.items()}
    assert all(same(as_arrays[k], arrays[k]) for k in arrays)
    found = sorted(a.ctypes.data for a in as_arrays.values() if a.size)
    assert sum(b - a < 100000 for a, b in zip(found, found[1:])) > 500
    if framework == 'pt' and hasattr(torch.Tensor, 'untyped_storage'):
        assert back['t5'].untyped_storage().nbytes() == arrays['t5'].nbytes
    for key, value in as_arrays.items():
        if key != 't5':
            value[...] = 0
    assert same(as_arrays['t5'], arrays['t5']), 'a tensor reached into its neighbour'
    with safe_open(name, framework) as f:
        some = f.get_tensors([f't{i}' for i in range(0, 700, 2)])
        assert list(some) == [f't{i}' for i in range(0, 700, 2)]
        assert all(same(np.asarray(some[k]), arrays[k]) for k in some)


@each([1, 300])
def tensors_come_back_in_host_memory_whatever_the_default_device_is(number):
    if not hasattr(torch, 'set_default_device'):
        raise Skip('torch2', 'torch 1 has no default device')
    name = path('default.safetensors')
    arrays = {f't{i}': array('float32', (5000,), i) for i in range(number)}
    save_file(arrays, name)
    torch.set_default_device('meta')
    try:
        back = load_file(name, framework='pt')
    finally:
        torch.set_default_device(None)
    assert all(back[k].device.type == 'cpu' and same(back[k].numpy(), arrays[k]) for k in arrays)


@case
def what_was_to_be_read_when_a_dtype_failed_is_forgotten():
    header, at = {}, 0
    for i in range(300):
        header[f't{i}'] = entry('F32', [5000], at, at + 20000)
        at += 20000
    header['odd'] = entry('F8_E8M0', [8], at, at + 8)
    name = file_of(header, data(at + 8), b' ' * (-len(json.dumps(header)) % 8))
    with safe_open(name, 'np') as f:
        try:
            f.get_tensors(['t1', 'odd'])
        except SafetensorError:
            pass
        else:
            raise Skip('numpy1', 'numpy has this dtype here')
        raises(SafetensorError, f.get_tensors)
        assert not sum(len(shard._ranges) for shard in f._model.shards)
        assert f.get_tensor('t1').shape == (5000,)


@each([2, 300])
def what_was_to_be_read_behind_a_damaged_shard_is_forgotten(number):
    place = path('damaged')
    os.mkdir(place)
    shape = (1500000 // number,)
    files = {f'model-{i}-of-2.safetensors':
             {f'{i}.{k}': array('float32', shape, k) for k in range(number)} for i in (1, 2)}
    for name, arrays in files.items():
        save_file(arrays, os.path.join(place, name))
    with open(os.path.join(place, 'model.safetensors.index.json'), 'w', encoding='utf-8') as f:
        weight_map = {key: name for name, arrays in files.items() for key in arrays}
        json.dump({'weight_map': weight_map}, f)
    with open(os.path.join(place, 'model-1-of-2.safetensors'), 'r+b') as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)[0]
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last ^ 1]))
    with safe_open(place, 'np') as f:
        raises(OSError, f.get_tensors)
        assert not sum(len(shard._ranges) for shard in f._model.shards)
        assert same(f.get_tensor('2.1'), files['model-2-of-2.safetensors']['2.1'])


@case
def threads_may_read_from_one_opened_file():
    arrays = {f't{i}': np.full(5000 + i, i) for i in range(40)}
    name = path('threads.safetensors')
    save_file(arrays, name)
    wrong = []

    def read(first):
        try:
            for i in range(first, first + 200):
                got, key = i % 3, f't{i % 40}'
                if got == 0:
                    tensor = f.get_tensor(key)
                elif got == 1:
                    tensor = f.get_slice(key)[:]
                else:
                    tensor = f.get_tensors([key])[key]
                if not same(tensor, arrays[key]):
                    wrong.append(key)
        except Exception as error:
            wrong.append(error)

    with safe_open(name, 'np') as f:
        threads = [threading.Thread(target=read, args=(5 * i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:5]


@case
def large_and_small_tensors_are_written_by_one_call():
    arrays = {f't{i}': array('uint8', (n,), i) for i, n in enumerate((1, 70 << 20, 0, 5, 64 << 20, 1 << 20, 63 << 20, 7))}
    name = path('mixed.safetensors')
    save_file(arrays, name)
    back = load_file(name, framework='np')
    assert all(same(back[k], arrays[k]) for k in arrays)


run(*cases)
