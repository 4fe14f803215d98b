# SPDX-License-Identifier: Apache-2.0
"""penstock.torch: files that torch reads and writes, with every torch that is here."""
import contextlib
import copy
import ctypes
import errno
import gc
import io
import os
import pickle
import random
import struct
import sys
import threading
import warnings
import weakref
import zipfile
from collections import OrderedDict

from kit import MIB, Skip, case, cases, child, content, data, each, folder, in_fork, make, module, path, raises, run, torch_or_skip

try:
    torch = torch_or_skip()
except Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()

import penstock.torch
from penstock._penstock import crc32, is_simple_pickle
from penstock import _torch_save, _atomic_writer
from penstock._atomic_writer import Writer

DTYPES = [name for name in (
    'float64', 'float32', 'float16', 'bfloat16', 'complex64', 'complex128', 'complex32', 'int64', 'int32', 'int16',
    'int8', 'uint8', 'uint16', 'uint32', 'uint64', 'bool', 'float8_e4m3fn', 'float8_e5m2', 'float8_e4m3fnuz',
    'float8_e5m2fnuz', 'float8_e8m0fnu') if hasattr(torch, name)]
NEW = not torch.__version__.startswith('1.')  # of version 2 the files are the same, byte for byte


def of_bytes(dtype, shape, seed=1):
    """A tensor of random bits."""
    dtype = getattr(torch, dtype)
    count = 1
    for n in shape:
        count *= n
    size = torch.empty(0, dtype=dtype).element_size()
    raw = bytearray(data(count * size, seed))
    if dtype == torch.bool:
        raw = bytearray(b & 1 for b in raw)
    if not raw:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype).reshape(shape)


def bits(tensor):
    """All that makes a tensor what it is."""
    raw = tensor.detach().contiguous()
    size = raw.element_size()
    like = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[min(size, 8)]
    flat = raw.reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if raw.dtype in (torch.complex64, torch.complex128) else flat
    like = {torch.complex64: torch.int32, torch.complex128: torch.int64}.get(raw.dtype, like)
    values = flat.view(like).tolist() if flat.numel() else []
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), values


def same(a, b):
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and bits(a) == bits(b) and a.requires_grad == b.requires_grad
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


class Forbidden:
    """In place of torch.load, where it must not be needed."""

    def __enter__(self):
        self._before, torch.load = torch.load, self._refuse

    def __exit__(self, *_):
        torch.load = self._before

    def _refuse(self, *args, **kwargs):
        raise AssertionError('torch.load() was called')


def fast_load(*args, **kwargs):
    with Forbidden():
        return penstock.torch.load(*args, **kwargs)


def plain_load(name):
    return torch.load(name, weights_only=True)


def addresses(tensors):
    get = getattr(torch.Tensor, 'untyped_storage', torch.Tensor.storage)
    return [get(t).data_ptr() for t in tensors]


def sample():
    base = torch.arange(1000, dtype=torch.float32)
    return {'a': base, 'view': base[10:20], 'turned': base[:100].reshape(10, 10).t(), 'empty': torch.empty(0, 3),
            'scalar': torch.tensor(5), 'parameter': torch.nn.Parameter(torch.ones(3)), 'number': 7, 'text': 'näme',
            'list': [torch.zeros(2), (torch.ones(1), None)]}


# ---- both ways

@each(DTYPES)
def what_is_saved_is_loaded_by_torch_and_the_other_way_round(dtype):
    obj = {str(shape): of_bytes(dtype, shape) for shape in ((), (0,), (3, 0, 2), (7,), (5, 6, 7), (1 << 17,))}
    ours, theirs = path('ours.pt'), path('theirs.pt')
    try:
        torch.save(obj, theirs)
    except KeyError:
        raise Skip(dtype, f'torch {torch.__version__} does not save {dtype}')
    penstock.torch.save(obj, ours)
    for name in ours, theirs:
        assert same(obj, plain_load(name)), (dtype, name)
        assert same(obj, fast_load(name)), (dtype, name)


@case
def views_shared_storages_and_other_objects_come_back_as_they_were():
    obj = sample()
    for save in penstock.torch.save, torch.save:
        name = path('all.pt')
        save(obj, name)
        for load in plain_load, fast_load, lambda n: fast_load(n, weights_only=False):
            back = load(name)
            assert same(obj, back)
            assert len(set(addresses([back['a'], back['view'], back['turned']]))) == 1
            back['a'][10] = -1
            assert back['view'][0] == -1


@case
def the_files_are_those_of_torch_but_for_their_random_name():
    if not NEW:
        raise Skip('torch2', 'torch 1 writes fewer records')
    for number, obj in enumerate((sample(), torch.ones(3), {}, [torch.ones(100, i) for i in range(40)])):
        ours = path(f'{number}.pt')
        theirs = os.path.join(folder, f'same-{number}', os.path.basename(ours))
        os.mkdir(os.path.dirname(theirs))
        penstock.torch.save(obj, ours)
        torch.save(obj, theirs)
        a, b = content(ours), content(theirs)
        assert len(a) == len(b), (len(a), len(b))
        with zipfile.ZipFile(theirs) as z:
            stem = os.path.basename(ours).removesuffix('.pt')
            info = z.getinfo(f'{stem}/.data/serialization_id')
        differ = [i for i in range(len(a)) if a[i] != b[i]]
        at = info.header_offset
        central = a.rindex(f'{stem}/.data/serialization_id'.encode()) - 46
        for i in differ:
            assert at <= i < at + 200 or central <= i < central + 20, i


@case
def every_record_has_the_right_checksum():
    name = path('sums.pt')
    penstock.torch.save({'a': of_bytes('float32', (100000,)), 'b': of_bytes('int8', (77,))}, name)
    with zipfile.ZipFile(name) as z:
        assert z.testzip() is None
        assert all(i.CRC == crc32(z.read(i)) for i in z.infolist())


@case
def the_checksum_is_that_of_zlib():
    import zlib

    seed = int(os.environ.get('PENSTOCK_TEST_SEED', random.randrange(1 << 32)))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    rng = random.Random(seed)
    raw = data(70000)
    for _ in range(300):
        start, length, value = rng.randrange(64), rng.choice([rng.randrange(300), rng.randrange(60000)]), rng.getrandbits(32)
        assert crc32(raw[start:start + length], value) == zlib.crc32(raw[start:start + length], value), (start, length)


@case
def archives_that_others_have_packed_are_read_too():
    name, other = path('plain.pt'), path('repacked.pt')
    torch.save(sample(), name)
    with zipfile.ZipFile(name) as a, zipfile.ZipFile(other, 'w') as b:
        for info in a.infolist():
            b.writestr(info.filename, a.read(info))
    assert same(sample(), fast_load(other))
    with zipfile.ZipFile(name) as a, zipfile.ZipFile(other, 'w', zipfile.ZIP_DEFLATED) as b:
        for info in a.infolist():
            b.writestr(info.filename, a.read(info))
    try:
        want = plain_load(other)
    except RuntimeError:
        raises(RuntimeError, penstock.torch.load, other)
    else:
        assert same(want, penstock.torch.load(other))


@case
def the_legacy_format_is_loaded_by_torch_itself():
    name = path('legacy.pt')
    torch.save({'a': torch.arange(10)}, name, _use_new_zipfile_serialization=False)
    assert same({'a': torch.arange(10)}, penstock.torch.load(name))


@case
def map_location_may_be_all_that_torch_takes():
    name = path('map.pt')
    penstock.torch.save(sample(), name)
    seen = []
    for where in ('cpu', torch.device('cpu'), {'cpu': 'cpu'}, lambda s, l: seen.append((bytes(s)[:1], l)) or s, None):
        assert same(sample(), fast_load(name, where))
    assert seen and all(where == 'cpu' for _, where in seen)
    meta = penstock.torch.load(name, 'meta')
    assert meta['a'].device.type == 'meta' and meta['a'].shape == (1000,)


@case
def other_arguments_are_those_of_torch():
    class Own:
        """Someone's pickle."""

        class Unpickler(pickle.Unpickler):
            def load(self):
                seen.append(1)
                return super().load()

    name, seen = path('arguments.pt'), []
    penstock.torch.save([Custom(), torch.ones(3)], name)
    for call in (lambda: penstock.torch.load(name, None, Own), lambda: penstock.torch.load(name, pickle_module=Own, weights_only=False)):
        assert isinstance(call()[0], Custom) and seen.pop()
    assert 'pickle_module' in str(raises(RuntimeError, penstock.torch.load, name, pickle_module=Own, weights_only=True))
    raises(pickle.UnpicklingError, penstock.torch.load, name, weights_only=None)
    penstock.torch.save(sample(), name)
    for mmap in True, False, None:
        assert same(sample(), fast_load(name, mmap=mmap))
    assert same(sample(), fast_load(name, encoding='utf-8', weights_only=False))
    assert 'whatever' in str(raises(TypeError, penstock.torch.load, name, whatever=1))


@case
def map_location_sees_storages_that_are_filled():
    name = path('filled.pt')
    penstock.torch.save(torch.arange(256).to(torch.uint8), name)
    seen = []
    fast_load(name, lambda storage, _: seen.append(bytes(storage.tolist())) or storage)
    assert seen == [bytes(range(256))], seen


class Custom:
    pass


def first_and_last(tensor):
    return tensor.tolist()[::len(tensor) - 1]


class Looked:
    """A tensor that somebody looks into while it is unpickled."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __reduce__(self):
        return first_and_last, (self._tensor,)


@each([1, 300])
def code_in_a_pickle_sees_storages_that_are_filled(number):
    name = path('looked.pt')
    penstock.torch.save([Looked(torch.full((5000,), i + 1)) for i in range(number)], name)
    for where in None, 'cpu', {'cpu': 'cpu'}:
        back = fast_load(name, where, weights_only=False)
        assert back == [[i + 1] * 2 for i in range(number)], where
    penstock.torch.save({'plain': torch.ones(7), 'code': Looked(torch.arange(5000))}, name)
    back = fast_load(name, weights_only=False, verify='require')
    assert back['code'] == [0, 4999] and same(back['plain'], torch.ones(7))
    assert back['plain'].resize_(10000).numel() == 10000


@case
def what_is_not_allowed_is_refused_as_by_torch():
    name = path('code.pt')
    penstock.torch.save({'a': torch.ones(3), 'c': Custom()}, name)
    error = raises(pickle.UnpicklingError, penstock.torch.load, name)
    assert 'weights_only' in str(error) or 'Weights only' in str(error), error
    assert isinstance(penstock.torch.load(name, weights_only=False)['c'], Custom)


@case
def damaged_archives_are_errors_and_nothing_worse():
    seed = int(os.environ.get('PENSTOCK_TEST_SEED', random.randrange(1 << 32)))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    rng = random.Random(seed)
    name = path('good.pt')
    penstock.torch.save(sample(), name, checksum=False)
    good = bytearray(content(name))
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = len(bad) - 1 - rng.randrange(1200) if rng.random() < 0.7 else rng.randrange(len(bad))
            bad[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del bad[rng.randrange(len(bad)):]
        other = make(bytes(bad), 'bad.pt')
        try:
            penstock.torch.load(other)
        except Exception as error:
            assert not isinstance(error, (MemoryError, SystemError)), error
        os.unlink(other)


@case
def a_storage_that_is_longer_than_its_record_is_refused():
    name = path('short.pt')
    with zipfile.ZipFile(name, 'w') as z:
        out = io.BytesIO()
        torch.save(torch.zeros(1000), out)
        with zipfile.ZipFile(out) as source:
            for info in source.infolist():
                raw = source.read(info)
                z.writestr(info.filename, raw[:100] if info.filename.endswith('data/0') else raw)
    assert 'data/0' in str(raises(OSError, penstock.torch.load, name))


# ---- the writer

@case
def torch_save_to_a_writer_commits_at_its_end():
    name = path('bare.pt')
    torch.save(sample(), penstock.torch.writer(name))
    assert same(sample(), fast_load(name)) and same(sample(), plain_load(name))


@case
def a_with_block_commits_at_its_end_and_not_before():
    name = path('with.pt')
    with penstock.torch.writer(name) as file:
        torch.save(torch.ones(3), file)
        assert not os.path.exists(name)
    assert file.closed and same(torch.ones(3), fast_load(name))


@case
def an_exception_in_the_block_leaves_the_old_file():
    name = make(b'old', 'old.pt')
    with_error = raises(ZeroDivisionError, lambda: _divide(name))
    assert with_error and content(name) == b'old'
    assert [n for n in os.listdir(folder) if os.path.basename(name) in n] == [os.path.basename(name)]


def _divide(name):
    with penstock.torch.writer(name) as file:
        file.write(b'new')
        1 / 0


@case
def a_save_that_fails_does_not_commit_the_archive_that_torch_ends_all_the_same():
    name = make(b'old', 'old.pt')
    raises((AttributeError, pickle.PicklingError), torch.save, {'a': torch.ones(3), 'f': lambda: 0},
           penstock.torch.writer(name))
    gc.collect()
    assert content(name) == b'old'
    try:
        raise ValueError('a save while an error is handled is a save like any other')
    except ValueError:
        torch.save(torch.ones(2), penstock.torch.writer(name))
    assert same(torch.ones(2), fast_load(name))


@case
def the_legacy_format_commits_at_close():
    name = path('legacy.pt')
    file = penstock.torch.writer(name)
    torch.save({'a': torch.arange(10)}, file, _use_new_zipfile_serialization=False)
    assert not os.path.exists(name)
    file.close()
    assert same({'a': torch.arange(10)}, penstock.torch.load(name))


@case
def a_writer_that_is_dropped_says_so_and_leaves_nothing():
    name = path('dropped')
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.filterwarnings('ignore', category=ResourceWarning)  # as Python does unless it is told
        file = penstock.torch.writer(name)
        file.write(b'x' * 100)
        del file
        gc.collect()
    assert [w.category for w in seen] == [RuntimeWarning] and not os.path.exists(name)
    assert not [n for n in os.listdir(folder) if os.path.basename(name) in n]


@case
def after_the_end_a_writer_refuses():
    file = penstock.torch.writer(path('ended'))
    file.write(b'abc')
    file.close()
    file.close()
    file.abort()
    for call in lambda: file.write(b'd'), file.commit, file.tell, file.__enter__:
        assert 'closed' in str(raises(ValueError, call))


@case
def a_writer_takes_any_buffer_and_tells_its_position():
    name = path('raw')
    with penstock.torch.writer(name, memory=2 * MIB) as file:
        assert file.write(b'abc') == 3 and file.tell() == 3
        assert file.write(memoryview(bytearray(5 * MIB))) == 5 * MIB
        file.seek(1)
        file.write(b'X')
        file.seek(5 * MIB + 3)
    assert content(name) == b'aXc' + bytes(5 * MIB)


@case
def what_is_empty_in_any_shape_writes_nothing():
    empties = [b'', bytearray(), memoryview(b''), (ctypes.c_double * 3 * 0)(), (ctypes.c_char * 0 * 3)()]
    if np := module('numpy'):
        empties += [np.empty(shape, dtype, order) for shape in ((0,), (0, 3), (3, 0), (2, 0, 5)) for dtype in ('u1', 'f8', 'c16') for order in 'CF']
        empties += [np.ones((4, 6))[:0, ::2], memoryview(np.ones((4, 6))[::2, :0]), torch.empty((0, 3)).numpy()]
    for inside in True, False:
        name = path('empty')
        file = penstock.torch.writer(name)
        with file if inside else contextlib.nullcontext():
            for empty in [b'some', *empties]:
                assert file.write(empty) == memoryview(empty).nbytes and file.tell() == 4, empty
        file.close()
        assert content(name) == b'some'


@case
def what_cannot_be_opened_is_told_with_its_name():
    name = os.path.join(folder, 'no', 'such', 'folder.pt')
    for call in (penstock.torch.save, penstock.torch.save_async):
        assert raises(FileNotFoundError, call, torch.ones(1), name).filename == name
    assert raises(FileNotFoundError, penstock.torch.load, name).filename == name
    raises((IsADirectoryError, OSError), penstock.torch.save, torch.ones(1), folder)
    for bad in (None, 5, object()):
        raises(TypeError, penstock.torch.save, torch.ones(1), bad)
    for memory in (0, -1, 1 << 64):
        assert 'memory' in str(raises((ValueError, OverflowError), penstock.torch.writer, path(), memory=memory))
    assert 'verify' in str(raises(ValueError, penstock.torch.load, path(), verify='perhaps'))


@case
def paths_may_be_str_bytes_and_path_like():
    import pathlib

    name = path('paths.pt')
    for form in (name, os.fsencode(name), pathlib.Path(name)):
        penstock.torch.save(torch.ones(3), form)
        assert same(torch.ones(3), fast_load(form))
        os.unlink(name)


@case
def a_writer_belongs_to_the_process_that_made_it():
    name = make(b'old')
    file = penstock.torch.writer(name)
    file.write(b'new')

    def in_child():
        raises(OSError, file.write, b'x')
        file.abort()
        return True

    in_fork(in_child)
    file.write(b'er')
    file.close()
    assert content(name) == b'newer'


# ---- checksums

def flip(name, offset):
    with open(name, 'r+b') as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 4]))


def damaged(name, offset, **how):
    """What is said of a file with a flipped bit, which is mended again."""
    flip(name, offset)
    error = raises(OSError, penstock.torch.load, name, **how)
    assert error.errno == errno.EBADMSG and name in str(error), error
    penstock.torch.load(name, verify=False, **how)
    flip(name, offset)
    return str(error)


@case
def flipped_bits_are_found_and_named():
    name = path('flip.pt')
    obj = {'first': torch.zeros(1 << 19), 'deep': {'second': [torch.zeros(1 << 19)]}}
    penstock.torch.save(obj, name)
    with zipfile.ZipFile(name) as z:
        infos = {i.filename.rpartition('/')[2]: i for i in z.infolist() if '/data/' in i.filename}
    for key, tensor in (('0', 'first'), ('1', 'deep.second.0')):
        assert tensor in damaged(name, infos[key].header_offset + (1 << 20))
    assert same(obj, fast_load(name, verify='require'))


@case
def flipped_bits_where_no_tensor_can_be_told_name_their_record():
    name = path('flip.pt')
    penstock.torch.save({'a': torch.zeros(1 << 19), 'b': torch.zeros(1 << 19), 'no': Custom()}, name)
    with zipfile.ZipFile(name) as z:
        records, directory = {i.filename.partition('/')[2]: i for i in z.infolist()}, z.start_dir
    second = records['data/1']
    assert f": in record {second.filename}: '" in damaged(name, second.header_offset + (1 << 20), weights_only=False)
    for offset, says in (records['data.pkl'].header_offset + 64, f'record {records["data.pkl"].filename}, '), (directory, 'the directory'):
        flip(name, offset)
        assert f': in {says}' in str(raises(OSError, penstock.torch.load, name, weights_only=False)), says


@case
def without_checksums_verification_can_be_required_and_is_then_an_error():
    name = path('bare.pt')
    penstock.torch.save(torch.ones(3), name, checksum=False)
    assert not os.path.exists(name + '.crc')
    assert same(torch.ones(3), fast_load(name))
    raises(OSError, penstock.torch.load, name, verify='require')
    penstock.torch.save(torch.ones(3), name)
    assert os.path.exists(name + '.crc') and same(torch.ones(3), fast_load(name, verify='require'))


# ---- in the background

@case
def tensors_may_be_changed_when_save_async_has_returned():
    for memory in 2 * MIB, 64 * MIB:
        name = path('async.pt')
        obj = {'a': torch.full((1 << 20,), 1.), 'b': torch.full((1 << 20,), 2.)}
        future = penstock.torch.save_async(obj, name, memory=memory)
        obj['a'].fill_(-1.)
        obj['b'].fill_(-1.)
        assert future.result() is None and future.done()
        back = fast_load(name)
        assert (back['a'] == 1).all() and (back['b'] == 2).all()


@case
def what_cannot_be_pickled_or_opened_is_raised_at_once_and_what_fails_later_by_the_future():
    name = make(b'old')
    raises((AttributeError, pickle.PicklingError), penstock.torch.save_async, lambda: 0, name)
    before = Writer.commit, Writer.end_archive
    for method in 'commit', 'end_archive':
        setattr(Writer, method, lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, 'broken', name)))
        try:
            error = penstock.torch.save_async(torch.ones(10), name).exception()
        finally:
            Writer.commit, Writer.end_archive = before
        assert isinstance(error, OSError) and error.errno == errno.EIO, error
    gc.collect()
    assert content(name) == b'old'


@case
def large_copies_are_shared_out_to_the_byte():
    from array import array

    from penstock._penstock import Memory, copy

    sizes = [1, 30 * MIB + 3, 0, 17, 25 * MIB + 1, 16 * MIB]
    tensors = [torch.randint(0, 256, (n,), dtype=torch.uint8) for n in sizes]
    memory, moves, at = Memory(sum(sizes) + 64), array('Q'), 7
    for tensor in tensors:
        moves.extend((memory.address + at, tensor.data_ptr(), tensor.numel()))
        at += tensor.numel()
    copy(moves)
    assert bytes(memory)[7:at] == b''.join(t.numpy().tobytes() for t in tensors)
    assert not any(bytes(memory)[:7]) and not any(bytes(memory)[at:])


@case
def who_saves_in_the_background_copies_and_leaves_all_else_to_it():
    obj = {'a': of_bytes('float32', (1 << 20,)), 'b': of_bytes('int8', (77,)), 'c': torch.empty(0)}
    before, callers = Writer.end_archive, []

    def seen(self, *args):
        callers.append(threading.get_ident())
        return before(self, *args)

    Writer.end_archive = seen
    try:
        for memory, here in (64 * MIB, False), (2 * MIB, True):  # of which one has room for all of it
            callers.clear()
            name = path('who.pt')
            penstock.torch.save_async(obj, name, memory=memory).result()
            assert same(obj, plain_load(name)) and same(obj, fast_load(name, verify='require'))
            assert len(callers) == 1
            assert all((caller == threading.get_ident()) == here for caller in callers), (memory, callers)
    finally:
        Writer.end_archive = before


@case
def a_save_takes_the_memory_of_its_pool_and_not_of_the_object():
    code = '''
import sys, torch, penstock.torch
peak = lambda: next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')) << 10
penstock.torch.save_async(torch.ones(10), sys.argv[1]).result()
big = {str(i): torch.ones(1 << 20) for i in range(64)}
before = peak()
penstock.torch.save_async(big, sys.argv[1], memory=int(sys.argv[2])).result()
print(peak() - before)
'''
    for pool in 16, 280:  # the second has a copy of all of it
        done = child(code, path('pool.pt'), str(pool * MIB))
        assert done.returncode == 0, done.stderr
        # 8 MiB for all that is there whatever the pool and the object: stacks, rings, arenas of malloc().
        assert int(done.stdout) < (pool + 8) * MIB, f'{done.stdout} bytes more for 256 MiB in a pool of {pool} MiB'


class Copies:
    """Memory that a weak reference may be made to."""

    def __init__(self, nbytes, **options):
        self._memory = penstock.Memory(nbytes, **options)
        self.address = self._memory.address


@each(['commit', 'end_archive'])
def the_memory_of_a_save_in_the_background_goes_when_it_was_sent_or_has_failed(step):
    made, alive, begin = [], [], threading.Event()
    before = _torch_save.Memory, getattr(Writer, step)

    def memory(nbytes, **options):
        copies = Copies(nbytes, **options)
        made.append(weakref.ref(copies))
        return copies

    def fails(*_):
        begin.wait()
        alive.append([ref() is not None for ref in made])
        raise OSError(errno.EIO, 'broken')

    _torch_save.Memory = memory
    setattr(Writer, step, fails)
    try:
        tensor = torch.ones(MIB)
        made.append(weakref.ref(tensor))
        future = penstock.torch.save_async([tensor], path(), memory=64 * MIB)
        del tensor
        begin.set()
        error = future.exception()
    finally:
        begin.set()
        _torch_save.Memory = before[0]
        setattr(Writer, step, before[1])
    assert error.errno == errno.EIO and len(made) == 2
    assert alive == [[False, step == 'end_archive']], alive  # the tensor, and the copy of it
    assert not any(ref() for ref in made), 'the error keeps it'
    del future, error  # and with them the file
    gc.collect()


@each([2, 5, 16, 17, 50, 80, 81, 200])
def a_copy_and_the_buffers_it_is_sent_through_are_one_pool(pool):
    taken, before = [], (_torch_save.Memory, _atomic_writer.WriterCore)

    def memory(nbytes, **options):
        taken.append(nbytes)
        return before[0](nbytes, **options)

    def output(*args, memory, **options):
        taken.append(memory)
        return before[1](*args, memory=memory, **options)

    _torch_save.Memory, _atomic_writer.WriterCore = memory, output
    try:
        penstock.torch.save_async([torch.ones(16 * MIB), torch.ones(3)], path(), memory=pool * MIB).result()
    finally:
        _torch_save.Memory, _atomic_writer.WriterCore = before
    assert sum(taken) <= pool * MIB and len(taken) == (2 if pool > 80 else 1), taken


class Late:
    """An WriterCore that is committed late."""

    def __init__(self, output, until):
        self._output, self._until = output, until

    def __getattr__(self, name):
        return getattr(self._output, name)

    def commit(self):
        self._until.wait()
        self._output.commit()


@each(['save_async', 'save', 'save_async of another name'])
def of_saves_under_one_name_the_last_call_stays(second):
    name, until, outputs = path('order.pt'), threading.Event(), []
    link = path('link')
    os.symlink(folder, link)
    before = _atomic_writer.WriterCore, _atomic_writer._wait_all

    def output(*args, **options):
        outputs.append(1)
        made = before[0](*args, **options)
        return Late(made, until) if len(outputs) == 1 else made

    def awaits(line):
        if line:
            until.set()
        before[1](line)

    _atomic_writer.WriterCore, _atomic_writer._wait_all = output, awaits
    try:
        first = penstock.torch.save_async(torch.ones(1), name)
        if second == 'save':
            penstock.torch.save(torch.ones(2), name)
        else:
            other = name if second == 'save_async' else os.path.join(link, os.path.basename(name))
            future = penstock.torch.save_async(torch.ones(2), other)
            future.add_done_callback(lambda _: until.set())  # if it does not wait
            future.result()
        until.set()
        first.result()
    finally:
        until.set()
        _atomic_writer.WriterCore, _atomic_writer._wait_all = before
    assert penstock.torch.load(name).numel() == 2, 'the older one came last'
    assert not _atomic_writer._commit_queues._queues


@case
def a_save_for_which_no_thread_can_be_started_is_given_up():
    def refuse(_):
        raise RuntimeError("can't start new thread")

    name, before = make(b'old'), threading.Thread.start
    names = set(os.listdir(folder))
    for memory in 2 * MIB, 64 * MIB:
        threading.Thread.start = refuse
        try:
            error = raises(RuntimeError, penstock.torch.save_async, torch.ones(9), name,
                           memory=memory)
        finally:
            threading.Thread.start = before
        # Who keeps the error keeps all that it came through.
        assert 'thread' in str(error) and not _atomic_writer._commit_queues._queues, 'the next save waits for ever'
        assert content(name) == b'old' and set(os.listdir(folder)) == names
    penstock.torch.save(torch.ones(10), name)
    assert same(torch.ones(10), plain_load(name))


@case
def a_process_that_is_forked_waits_for_no_save_of_its_parents():
    name, until = path('fork.pt'), threading.Event()
    before = _atomic_writer.WriterCore

    def in_child():
        _atomic_writer.WriterCore = before
        _atomic_writer._wait_all = lambda line: not line or raises(AssertionError, lambda: None)
        file = _atomic_writer.Writer(name, memory=2 * MIB)
        file.write(b'x')
        file.commit()
        return content(name) == b'x'

    _atomic_writer.WriterCore = lambda *args, **options: Late(before(*args, **options), until)
    try:
        future = penstock.torch.save_async(torch.ones(1), name, memory=64 * MIB)
        in_fork(in_child)
    finally:
        until.set()
        _atomic_writer.WriterCore = before
    future.result()
    assert penstock.torch.load(name).numel() == 1


@case
def a_program_that_ends_finishes_its_saves():
    name = path('end.pt')
    done = child('import sys, torch, penstock.torch\n'
                 'penstock.torch.save_async(torch.ones(1 << 20), sys.argv[1])', name)
    assert done.returncode == 0, done.stderr
    assert same(torch.ones(1 << 20), fast_load(name))


@case
def many_threads_save_and_load_at_once():
    errors = []

    def work(number):
        try:
            name = path(f'thread-{number}.pt')
            obj = {str(i): torch.full((1000,), number + i) for i in range(20)}
            for _ in range(3):
                penstock.torch.save(obj, name)
                assert same(obj, fast_load(name))
        except BaseException as error:
            errors.append(error)

    load = torch.load
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.load = load
    assert not errors, errors


@case
def many_tensors_are_read_while_torch_unpickles_and_what_is_wrong_is_told_all_the_same():
    name = path('many.pt')
    obj = {f't{i}': of_bytes('float32', (1 << 10,), i) for i in range(500)}
    penstock.torch.save(obj, name)
    for where in (None, 'cpu', {'cpu': 'cpu'}, lambda storage, location: storage):
        assert same(obj, fast_load(name, where, verify='require'))
    good = content(name)
    with open(name, 'r+b') as f:
        f.seek(len(good) // 2)
        f.write(bytes([good[len(good) // 2] ^ 1]))
    error = raises(OSError, penstock.torch.load, name)
    assert error.errno == errno.EBADMSG and ' t2' in str(error), error
    penstock.torch.save({**obj, 'no': Custom()}, name)
    raises(pickle.UnpicklingError, penstock.torch.load, name)


@case
def ten_thousand_small_tensors_come_back():
    obj = {str(i): torch.full((i % 50,), i) for i in range(10000)}
    name = path('small.pt')
    penstock.torch.save(obj, name)
    back = fast_load(name)
    assert list(back) == list(obj) and all(torch.equal(back[k], obj[k]) for k in obj)


@case
def small_tensors_that_share_memory_know_nothing_of_it():
    obj = {f't{i}': of_bytes('float32', ((i * 37) % 9000 + 1,), i) for i in range(600)}
    obj['large'] = of_bytes('int8', (5 * MIB,))
    name, other = path('many.pt'), path('one.pt')
    penstock.torch.save(obj, name)
    for verify in True, False:
        for where in 'cpu', lambda storage, location: storage:
            back = fast_load(name, where, verify=verify)
            assert same(obj, back)
            found = sorted(zip(addresses(back.values()), back))
            shared = [b - a < 40000 for (a, _), (b, _) in zip(found, found[1:])]
            assert sum(shared) > 500 and all(a % 64 == 0 for a, _ in found)
    one = back['t5']
    get = getattr(torch.Tensor, 'untyped_storage', torch.Tensor.storage)
    assert get(one).nbytes() == one.numel() * 4
    penstock.torch.save(one, other)
    assert os.path.getsize(other) < 10000
    for key, tensor in back.items():
        if key != 't5':
            tensor.zero_()
    assert same(one, obj['t5']), 'a tensor reached into its neighbour'


@each([1, 300])
def what_is_loaded_can_be_copied_and_moved_like_anything_else_and_keeps_nothing(number):
    name = path('some.pt')
    penstock.torch.save({f't{i}': torch.full((5000,), float(i)) for i in range(number)}, name)
    all_of_it = penstock.torch.load(name)
    again = copy.deepcopy(all_of_it)
    last = all_of_it[f't{number - 1}']
    del all_of_it
    if not NEW:
        raise Skip('torch2', 'torch 1 has other storages')
    storage = last.untyped_storage()
    assert type(storage) is torch.UntypedStorage, 'torch copies and moves no storage of another class'
    assert torch.equal(last, torch.full((5000,), float(number - 1)))
    assert same(last, again[f't{number - 1}']) and again[f't{number - 1}'].data_ptr() != last.data_ptr()
    gc.disable()
    try:
        end = weakref.ref(storage)
        del storage, last
        assert end() is None, 'what was loaded stays until the garbage collector comes'
    finally:
        gc.enable()


def pickled(ops):
    """A file whose pickle is these opcodes."""
    name = path('ops.pt')
    out = io.BytesIO()
    torch.save({'a': torch.zeros(4)}, out)
    with zipfile.ZipFile(out) as source, zipfile.ZipFile(name, 'w') as z:
        for info in source.infolist():
            z.writestr(info.filename, ops if info.filename.endswith('data.pkl') else source.read(info))
    return name


REBUILD = b'ctorch._utils\n_rebuild_tensor_v2\n'


HOSTILE = {
    'system': b'cos\nsystem\nX\x04\0\0\0true\x85R.',
    'an attribute of what is called': REBUILD + b'}X\x03\0\0\0badK\1sb.',
    'defaults of what is called': REBUILD + b'}}X\x0c\0\0\0__defaults__K\1\x85s\x86b.',
    'an instance': b'c__builtin__\nobject\n)\x81.',
    'an instance, old': b'(c__builtin__\ndict\no.',
    'an extension': b'\x82\x01.',
    'no end': b'}',
    'text without an end': b'X\xff\xff\xff\x7fabc.',
    'a long number without an end': b'\x8a\xff\1.',
    'half a name': b'ctorch._utils\n',
    'nothing on the stack': b'R.',
}


@each(HOSTILE)
def a_pickle_that_is_not_plain_is_for_torch(what):
    before = dict(vars(torch._utils._rebuild_tensor_v2)), torch._utils._rebuild_tensor_v2.__defaults__
    raises(Exception, penstock.torch.load, pickled(b'\x80\2' + HOSTILE[what]), verify=False)
    assert before == (vars(torch._utils._rebuild_tensor_v2), torch._utils._rebuild_tensor_v2.__defaults__)


@case
def which_pickles_are_plain():
    assert all(map(is_simple_pickle, (pickle.dumps({'a': [1, 2.5, 'b', None, True, (1, 1 << 70, -5)], 3: OrderedDict(x=1)}, 2),
                              b'\x80\2' + REBUILD + b'.', b'\x80\2Nr\5\0\0\0.')))
    assert not any(map(is_simple_pickle, (b'', b'\x80', b'\x80\2', b'N.', b'\x80\4N.', b'\x80\2\x82\1.', b'\x80\2N\x81.',
                                  b'\x80\2Nr\0\0\1\0.', b'\x80\2X\3\0\0\0ab', b'\x80\2X\3\0', b'\x80\2\x8a',
                                  b'\x80\2ca\n', b'\x80\2K', pickle.dumps(Custom(), 2))))


def without_torchs_unpickler(call):
    """What it returns, where torch's own unpickler is missing."""
    unpickler = torch._weights_only_unpickler.Unpickler
    torch._weights_only_unpickler.Unpickler = None
    try:
        return call()
    finally:
        torch._weights_only_unpickler.Unpickler = unpickler


@case
def plain_pickles_are_not_left_to_torchs_unpickler():
    name = path('plain.pt')
    state = torch.nn.Linear(3, 4).state_dict()  # has an attribute
    penstock.torch.save({'model': state, 'step': 7, 'p': torch.nn.Parameter(torch.ones(2))}, name)
    back = without_torchs_unpickler(lambda: penstock.torch.load(name))
    assert same(dict(back['model']), dict(state)) and back['model']._metadata == state._metadata
    assert type(back['p']) is torch.nn.Parameter and back['p'].requires_grad


STORAGE = b'(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\4tQ'
ARGUMENTS = b'K\0K\4\x85K\1\x85\x89ccollections\nOrderedDict\n)R'
ALONE = {
    'alone': b']' + STORAGE + b'a.',
    'beside a tensor': b']' + REBUILD + b'(' + STORAGE + b'q\1' + ARGUMENTS + b'tRah\1a.',
    'in the arguments of a tensor': b']' + REBUILD + b'(' + STORAGE + ARGUMENTS + b'tq\1Rah\1a.',
}


@each(ALONE)
def a_storage_that_is_more_than_under_a_tensor_is_torchs(what):
    name = pickled(b'\x80\2' + ALONE[what])
    for back in plain_load(name), penstock.torch.load(name, verify=False):
        last = back[-1][0] if isinstance(back[-1], tuple) else back[-1]
        assert isinstance(last, torch.storage.TypedStorage if NEW else torch.FloatStorage), type(last)
        assert list(last) == [0.0] * 4


@each([1, 300])
def tensors_come_back_in_host_memory_whatever_the_default_device_is(number):
    if not hasattr(torch, 'set_default_device'):
        raise Skip('torch2', 'torch 1 has no default device')
    obj, name = {f't{i}': torch.full((2000,), float(i)) for i in range(number)}, path('some.pt')
    penstock.torch.save(obj, name)
    torch.set_default_device('meta')
    try:
        back = without_torchs_unpickler(lambda: penstock.torch.load(name, 'cpu'))
    finally:
        torch.set_default_device(None)
    assert same(obj, back) and all(t.device.type == 'cpu' for t in back.values())


def many(number=600):
    """So many that they are written while they are pickled."""
    base = of_bytes('int32', (4 * number,))
    return {'step': 7, 'views': [base[i:i + 3] for i in range(number)], 'none': torch.empty(0),
            'own': {f'{i}': of_bytes(('float32', 'int8', 'float64')[i % 3], (i % 70, 3), i) for i in range(number)},
            'parameters': [torch.nn.Parameter(torch.full((5,), float(i))) for i in range(9)], 'text': 'end'}


@case
def many_tensors_are_written_before_the_pickle_and_read_by_torch():
    obj, name = many(), path('many.pt')
    penstock.torch.save(obj, name)
    for back in plain_load(name), fast_load(name, verify='require'), fast_load(name, weights_only=False):
        assert same(obj, back)
        assert len(set(addresses(back['views']))) == 1
    with zipfile.ZipFile(name) as z:
        names = [i.filename.partition('/')[2] for i in z.infolist()]
        assert z.testzip() is None
        behind = content(name)
        assert all(struct.pack('<4sIII', b'PK\7\x08', i.CRC, i.file_size, i.file_size) in behind
                   for i in z.infolist() if i.file_size)
        assert names.index('data.pkl') > names.index(f'data/{len(obj["own"])}') and names[0] == 'data/0'
    if NEW:
        from torch.utils.serialization import config

        assert same(obj, torch.load(name, mmap=True))
        config.load.calculate_storage_offsets = True
        try:
            assert same(obj, torch.load(name, mmap=True))
        finally:
            config.load.calculate_storage_offsets = False
    penstock.torch.save_async(obj, name).result()
    assert same(obj, plain_load(name))


@case
def what_fails_among_many_tensors_leaves_the_old_file():
    name = make(b'old')
    before = set(os.listdir(folder))
    raises((AttributeError, pickle.PicklingError), penstock.torch.save, [many(), lambda: 0], name)
    gc.collect()
    code = '''
import resource, sys, types, torch, penstock.torch
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
hidden = types.SimpleNamespace(tensors=[torch.ones(1 << 14) for _ in range(400)])  # of 25 MiB nobody knows before
try:
    penstock.torch.save(hidden, sys.argv[1])
except OSError as error:
    print(error.errno, error.filename)
'''
    done = child(code, name)
    assert done.returncode == 0 and done.stdout.split() == [str(errno.EFBIG), name], done
    assert content(name) == b'old' and set(os.listdir(folder)) == before
    assert gc.isenabled()


def odd():
    """Tensors that are more than a shape over a storage, each as far as this torch has it."""
    hooked = torch.ones(2, requires_grad=True)
    hooked.register_hook(lambda grad: grad)
    marked = torch.ones(2)
    marked.mark = 'a word'
    turned = torch.ones(2, dtype=torch.complex64).conj()
    made = {'hooked': lambda: hooked, 'marked': lambda: marked, 'conj': lambda: turned, 'neg': lambda: turned.imag,
            'sparse': lambda: torch.eye(3).to_sparse(), 'csr': lambda: torch.eye(3).to_sparse_csr(),
            'quantized': lambda: torch.quantize_per_tensor(torch.ones(3), .1, 0, torch.qint8),
            'leaf': lambda: torch.ones(2, requires_grad=True) * 2, 'scalar': lambda: torch.tensor(3, dtype=torch.bfloat16),
            'bare': lambda: torch.ones(3).storage(), 'strided': lambda: torch.ones(5, 6)[::2, 1::3],
            'buffer': lambda: torch.nn.BatchNorm1d(3).state_dict(), 'new': lambda: torch.ones(2).to(torch.uint16)}
    found = {}
    for name, call in made.items():
        try:
            found[name] = call()
        except (AttributeError, RuntimeError, NotImplementedError):
            pass
    return found


@case
def odd_tensors_are_pickled_as_by_torch():
    for what, obj in odd().items():
        ours, theirs = path('ours.pt'), path('theirs.pt')
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            torch.save({'x': obj, 'again': obj}, theirs)
            penstock.torch.save({'x': obj, 'again': obj}, ours)
        with zipfile.ZipFile(ours) as a, zipfile.ZipFile(theirs) as b:
            pickles = [z.read(next(n for n in z.namelist() if n.endswith('/data.pkl'))) for z in (a, b)]
        assert pickles[0] == pickles[1], what


run(*cases)
