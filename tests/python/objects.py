# SPDX-License-Identifier: Apache-2.0
"""What can be written and read: every kind of object, dtype and layout, byte for byte."""
import array
import ctypes
import gc
import mmap
import sys
import weakref

from dl import Capsule, Dl, DlVersioned
from kit import (PAGE, BlockingMemory, Skip, case, cases, child_ok, content, data, each, handle, make, module,
                 numpy_or_skip, path, raises, run, torch_or_skip)

numpy, torch = module('numpy'), module('torch')
LENGTHS = (0, 1, 7, 4096, 5001)


def written(obj, **options):
    """What a file holds after the object was written to it."""
    name = path()
    with handle() as h:
        count = h.write(obj, name, **options)
    got = content(name)
    assert count == len(got), (count, len(got))
    return got


def read(obj, want, **options):
    """Read these bytes into the object."""
    with handle() as h:
        assert h.read(obj, make(want), **options) == len(want)


def refused(kind, obj, *words, reading=False, length=None):
    """The object is refused before any I/O, with these words."""
    name = make(bytes(64)) if reading else path()
    with handle() as h:
        e = raises(kind, h.read if reading else h.write, obj, name, 0, length)
        assert h.stats()['ops'] == 0
    for word in words:
        assert word in str(e), e
    assert '\n' not in str(e)
    return e


# ------------------------------------------------------------------- bytes and the like

def both_ways(make_writable, want):
    """An object over these bytes is written as they are and read as they come."""
    assert written(make_writable(want)) == want
    obj = make_writable(bytes(len(want)))
    read(obj, want)
    return obj


@each((0, 1, 4095, 4096, 70001))
def a_bytearray_goes_both_ways_bytes(size):
    assert both_ways(bytearray, data(size)) == data(size)


@case
def bytes_can_be_written_and_not_read():
    assert written(data(5000)) == data(5000)
    refused(TypeError, bytes(64), "'bytes' object is read-only", reading=True)


@case
def a_memoryview_goes_both_ways_cast_sliced_and_reversed():
    want = data(4096 * 8)
    for change in (lambda v: v, lambda v: v.cast('d'), lambda v: v.cast('B').cast('i', [32, 256]),
                   lambda v: v[100:7001], lambda v: v[::3], lambda v: v[::-1],
                   lambda v: v.cast('q')[5::-2], lambda v: v[9:9], lambda v: v.cast('c')):
        assert written(change(memoryview(want))) == change(memoryview(want)).tobytes()
        mine, theirs = bytearray(want), bytearray(want)
        view, other = change(memoryview(mine)), change(memoryview(theirs))
        new = memoryview(data(view.nbytes, 3)).cast('B')
        read(view, new)
        assert view.tobytes() == new
        if view.ndim == 1:
            other[:] = new.cast(view.format)
        else:
            theirs[:] = new
        assert mine == theirs


@case
def a_read_only_memoryview_can_be_written_and_not_read():
    assert written(memoryview(b'hello')) == b'hello'
    refused(TypeError, memoryview(bytes(64)), 'is read-only', reading=True)
    refused(TypeError, memoryview(bytearray(64)).toreadonly(), 'is read-only', reading=True)


@case
def a_released_memoryview_is_refused():
    view = memoryview(bytearray(64))
    view.release()
    refused(ValueError, view, 'released')


@case
def a_mapping_goes_both_ways_unless_it_is_read_only():
    want = data(3 * PAGE)

    def mapped(content):
        m = mmap.mmap(-1, len(content))
        m[:] = content
        return m

    assert both_ways(mapped, want)[:] == want
    name = make(bytes(PAGE))
    with open(name, 'rb') as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        assert written(m) == bytes(PAGE)
        refused(TypeError, m, 'is read-only', reading=True)
    with open(name, 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:
        read(m, data(PAGE))
    assert content(name) == data(PAGE)


@each('bBhHiIlLqQfdu')
def an_array_goes_both_ways_of(code):
    want = array.array(code, 'abcd' if code == 'u' else range(100))
    got = both_ways(lambda content: array.array(code, content), want.tobytes())
    assert got == want


@case
def ctypes_objects_go_both_ways():
    class Pair(ctypes.Structure):
        _fields_ = [('a', ctypes.c_int16), ('O', ctypes.c_double)]

    for kind in (ctypes.c_char * 100, ctypes.c_int * 30, (ctypes.c_float * 4) * 5, ctypes.c_double,
                 Pair, Pair * 7):
        want = data(ctypes.sizeof(kind))
        got = both_ways(lambda content: kind.from_buffer_copy(content), want)
        assert bytes(got) == want


@case
def memory_cannot_go_away_under_a_transfer():
    with BlockingMemory(data(PAGE)) as gate, handle() as h:
        f = h.write_async(gate.memory, path())
        gate.reached()
        raises(BufferError, gate.memory.close)
        gate.open()
        assert f.result() == PAGE
        gate.memory.close()  # and afterwards it can


# ------------------------------------------------------------------------------ numpy

NUMPY_DTYPES = (
    'bool', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'float16',
    'float32', 'float64', 'longdouble', 'complex64', 'complex128', 'clongdouble', '>i4', '>f8',
    '<c8', 'S5', 'U3', 'V7', 'datetime64[ns]', 'datetime64[D]', 'timedelta64[us]',
    'i4,f8', 'i1,(2,3)f4,S3')


@each(NUMPY_DTYPES)
def a_numpy_array_goes_both_ways_of(name):
    dtype = numpy_or_skip().dtype(name)
    want = data(dtype.itemsize * 60)
    for shape in ((60,), (3, 4, 5), (60, 1), (1, 60)):
        got = both_ways(
            lambda content: numpy.frombuffer(bytearray(content), dtype).reshape(shape), want)
        assert got.tobytes() == want
    strided = numpy.frombuffer(bytearray(2 * want), dtype)[::2]
    assert written(strided) == strided.tobytes()
    read(strided, want)
    assert strided.tobytes() == want


@case
def structures_keep_their_padding_and_their_fields_names():
    numpy_or_skip()
    dtype = numpy.dtype([('O', 'i1'), ('b', 'f8'), ('c', 'i2')], align=True)
    want = data(dtype.itemsize * 9)
    got = both_ways(lambda content: numpy.frombuffer(bytearray(content), dtype), want)
    assert got.tobytes() == want
    fields = numpy.frombuffer(bytearray(want), dtype)
    assert written(fields['b']) == fields['b'].tobytes()
    read(fields['b'], bytes(72))
    assert fields['b'].tobytes() == bytes(72)
    assert fields['c'].tobytes() == numpy.frombuffer(want, dtype)['c'].tobytes()


@case
def scalars_and_arrays_without_dimensions_are_one_element():
    numpy_or_skip()
    assert written(numpy.array(2.5)) == numpy.float64(2.5).tobytes()
    assert written(numpy.float32(1)) == numpy.float32(1).tobytes()
    assert written(numpy.datetime64(5, 's')) == (5).to_bytes(8, 'little')
    a = numpy.array(0)
    read(a, (77).to_bytes(8, 'little'))
    assert a == 77
    refused(TypeError, numpy.float32(1), 'is read-only', reading=True)


@case
def arrays_with_object_pointers_are_refused():
    numpy_or_skip()
    for obj in (numpy.array([1, 'a', None], object), numpy.zeros(3, [('a', 'i4'), ('b', 'O')]),
                numpy.zeros(3, [('a', 'M8[s]'), ('b', 'O')])):
        refused(TypeError, obj, 'holds Python objects')
        refused(TypeError, obj, 'holds Python objects', reading=True)
    refused(TypeError, (ctypes.py_object * 3)(), 'holds Python objects')


@case
def a_read_only_array_can_be_written_and_not_read():
    numpy_or_skip()
    for dtype in ('f4', 'M8[s]'):
        a = numpy.zeros(16, dtype)
        a.flags.writeable = False
        assert written(a) == a.tobytes()
        refused(TypeError, a, 'is read-only', reading=True)
        refused(TypeError, numpy.broadcast_to(a[0], 3), 'is read-only', reading=True)


def turned(a, *order):
    return a.permute(*order) if hasattr(a, 'permute') else a.transpose(*order)


# Of an array of shape (6, 7, 8, 9).
VIEWS = {
    'as it is': lambda a: a,
    'every second': lambda a: a[::2],
    'inner half': lambda a: a[..., :4],
    'a column': lambda a: a[:, :, :, 3],
    'a row': lambda a: a[2],
    'a range': lambda a: a[1:4],
    'a box': lambda a: a[1:5, 2:4, 3:7, 1:8],
    'a coarse box': lambda a: a[::3, 1::2, ::4, 2::3],
    'one': lambda a: a[3:4, 3:4, 3:4, 3:4],
    'nothing': lambda a: a[2:2],
    'nothing inside': lambda a: a[:, :, 5:5],
    'swapped': lambda a: a.swapaxes(1, 2),
    'Fortran order': lambda a: turned(a, 3, 2, 1, 0),
    'turned': lambda a: turned(a, 2, 0, 3, 1),
    'more dimensions': lambda a: a.reshape(2, 3, 7, 1, 8, 9, 1)[1, :, ::2],
}
REVERSED = {
    'reversed': lambda a: a[::-1],
    'all reversed': lambda a: a[::-1, ::-1, ::-1, ::-1],
    'inner reversed': lambda a: a[..., ::-1],
    'reversed by twos': lambda a: a[::-2, :, ::-2],
    'reversed and turned': lambda a: a[::-1].transpose(1, 3, 2, 0)[:, ::-1],
    'new axes': lambda a: a[None, :, None, ::3],
}


def check_view(base, view_of, as_bytes, copy):
    """Write a view, read it, in part too; what lies around it keeps its value."""
    view = view_of(base)
    want = as_bytes(view)
    assert written(view) == want
    for length in LENGTHS:
        if length <= len(want):
            assert written(view, length=length) == want[:length]
    for length in (*LENGTHS, len(want)):
        if length > len(want):
            continue
        mine, theirs = copy(base), copy(base)
        new = data(length, length)
        read(view_of(mine), new, length=length)
        assert as_bytes(view_of(mine)) == new + want[length:]
        set_bytes(view_of(theirs), new + want[length:])
        assert as_bytes(mine) == as_bytes(theirs)
    refused(ValueError, view, f'length: {len(want) + 1} is more than the {len(want)} bytes',
            length=len(want) + 1)


def set_bytes(view, content):
    """The same by numpy or torch itself."""
    if numpy is not None and isinstance(view, numpy.ndarray):
        view[...] = numpy.frombuffer(content, view.dtype).reshape(view.shape)
    elif view.numel():
        view.copy_(torch.frombuffer(bytearray(content), dtype=view.dtype).reshape(view.shape))


@each([*VIEWS, *REVERSED])
def a_view_of_a_numpy_array_goes_both_ways(name):
    numpy_or_skip()
    for dtype in ('u1', 'i2', 'f4', 'i8', 'c16', 'V3'):
        n = 6 * 7 * 8 * 9
        base = numpy.frombuffer(bytearray(data(n * numpy.dtype(dtype).itemsize)), dtype)
        check_view(base.reshape(6, 7, 8, 9), (VIEWS | REVERSED)[name], lambda a: a.tobytes(),
                   lambda a: a.copy())


@case
def wide_rows_go_both_ways_without_a_copy_and_narrow_ones_with():
    numpy_or_skip()
    for width in (1, 1023, 1024, 1025, 50000):
        base = numpy.frombuffer(bytearray(data(40 * 60000 * 4)), 'u4').reshape(40, 60000)
        check_view(base, lambda a: a[::3, 7:7 + width], lambda a: a.tobytes(), lambda a: a.copy())


@case
def more_runs_than_a_list_may_have_are_copied():
    numpy_or_skip()
    base = numpy.zeros((70000, 4096 + 1), 'u1')
    base[:, 0] = numpy.arange(70000) % 251
    base[:, 4095] = 7
    view, name = base[:, :4096], path()
    with handle() as h:
        assert h.write(view, name) == view.nbytes
        want = numpy.fromfile(name, 'u1').reshape(70000, 4096)
        assert (want == view).all()
        view[:] = 0
        base[:, 4096] = 9
        assert h.read(view, name) == view.nbytes
    assert (view == want).all() and (base[:, 4096] == 9).all()


@case
def a_short_file_leaves_the_rest_of_a_view_alone():
    numpy_or_skip()
    base = numpy.full((100, 100), 7, 'u1')
    view = base[::2, ::-2]
    with handle() as h:
        assert h.read(view, make(bytes(range(120))), partial=True) == 120
    assert view.tobytes() == bytes(range(120)) + bytes([7]) * 2380


@case
def arrays_that_overlap_themselves_can_be_written_and_not_read():
    numpy_or_skip()
    strided = numpy.lib.stride_tricks.as_strided
    for shape, strides in (((3, 4), (0, 4)), ((5,), (0,)), ((4, 4), (4, 4)), ((3, 3), (8, 4)),
                           ((300, 300), (4, 4)), ((2, 2), (6, 4))):
        a = strided(numpy.arange(1000, dtype='i4'), shape, strides)
        assert written(a) == a.tobytes()
        refused(ValueError, a, 'share memory', reading=True, length=4)


@case
def arrays_whose_dimensions_interlock_are_no_overlap():
    numpy_or_skip()
    strided = numpy.lib.stride_tricks.as_strided
    a = strided(numpy.zeros(100, 'u1'), (2, 3), (3, 2))  # 0 2 4, 3 5 7
    read(a, b'abcdef')
    assert a.tobytes() == b'abcdef'


@case
def masked_memory_mapped_and_other_arrays_are_arrays():
    numpy_or_skip()
    name = make(bytes(800))
    mapped = numpy.memmap(name, 'f8', 'r+')
    read(mapped, data(800))
    assert written(mapped) == data(800)
    assert written(numpy.asmatrix(numpy.eye(3))) == numpy.eye(3).tobytes()
    assert written(numpy.rec.array([(1, 2.0)])) == numpy.rec.array([(1, 2.0)]).tobytes()


# ------------------------------------------------------------------------------ torch

QUANTISED = ('quint8', 'qint8', 'qint32', 'quint4x2', 'quint2x4')


def torch_dtypes():
    if torch is None:
        return ['none']
    found = {str(value).removeprefix('torch.') for value in vars(torch).values()
             if isinstance(value, torch.dtype)}
    return sorted(found - set(QUANTISED))


def tensor_bytes(t):
    """The values in C order, by torch's own means."""
    t = t.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b''


def new_tensor(dtype, content, shape=(-1,)):
    """A tensor of these bytes, or a skip where torch makes none of this dtype."""
    if not content:
        return torch.empty([0 if n < 0 else n for n in shape], dtype=dtype)
    try:
        return torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)
    except (RuntimeError, ValueError, TypeError) as e:
        raise Skip('dtype', f'torch makes no tensor of {dtype}: {str(e).splitlines()[0]}')


def itemsize_of(dtype):
    try:
        return torch.empty(0, dtype=dtype).element_size()
    except (RuntimeError, TypeError) as e:
        raise Skip('dtype', f'torch makes no tensor of {dtype}: {str(e).splitlines()[0]}')


@each(torch_dtypes())
def a_tensor_goes_both_ways_of(name):
    dtype = getattr(torch_or_skip(), name)
    size = itemsize_of(dtype)
    want = data(60 * size)
    for shape in ((60,), (3, 4, 5), (1, 60, 1)):
        t = new_tensor(dtype, want, shape)
        assert written(t) == want
        t = new_tensor(dtype, bytes(60 * size), shape)
        read(t, want)
        assert written(t) == want
    t = new_tensor(dtype, want, (6, 10))
    rows = [want[i * size:(i + 1) * size] for i in range(60)]
    assert written(t.t()) == b''.join(rows[10 * r + c] for c in range(10) for r in range(6))
    read(t.t()[1:3], want[:12 * size])
    assert written(t[0]) == rows[0] + rows[0] + rows[6] + b''.join(rows[3:10])


@each(QUANTISED)
def a_quantised_tensor_is_its_stored_values_of(name):
    dtype = getattr(torch_or_skip(), name, None)
    if dtype is None:
        raise Skip('dtype', f'no {name} in this torch')
    t = torch._empty_affine_quantized([31], scale=0.5, zero_point=0, dtype=dtype)
    nbytes = {'qint32': 124, 'quint4x2': 16, 'quint2x4': 8}.get(name, 31)
    read(t, data(nbytes))
    assert written(t) == data(nbytes)
    refused(ValueError, t, f'more than the {nbytes} bytes', length=nbytes + 1)
    if nbytes >= 31:
        assert written(t[::2]) == written(t[::2].contiguous())


@each(VIEWS)
def a_view_of_a_tensor_goes_both_ways(name):
    torch_or_skip()
    for dtype in (torch.uint8, torch.int16, torch.bfloat16, torch.float64, torch.complex128):
        size = itemsize_of(dtype)
        base = new_tensor(dtype, data(6 * 7 * 8 * 9 * size), (6, 7, 8, 9))
        check_view(base, VIEWS[name], tensor_bytes, lambda t: t.clone())


@case
def tensors_without_dimensions_or_elements_work():
    torch_or_skip()
    t = torch.tensor(2.5)
    assert written(t) == tensor_bytes(t)
    read(t, tensor_bytes(torch.tensor(3.5)))
    assert t.item() == 3.5
    for shape in ((0,), (3, 0, 2)):
        t = torch.empty(shape)
        assert written(t) == b'' and written(t.transpose(0, -1)) == b''
        read(t, b'')
        refused(ValueError, t, 'length: 1 is more than the 0 bytes', length=1)


@case
def parameters_and_tensors_with_gradients_are_bytes():
    torch_or_skip()
    want = tensor_bytes(torch.arange(12.).reshape(3, 4))
    leaf = torch.zeros(3, 4, requires_grad=True)
    for t in (torch.nn.Parameter(torch.zeros(3, 4)), leaf, leaf * 2, leaf.detach()):
        read(t, want)
        assert tensor_bytes(t) == want
        assert written(t) == want
        assert written(t.t()) == tensor_bytes(t.t())
    read(torch.nn.Parameter(torch.zeros(4, 6)).t()[::2], want)


@case
def subclasses_of_tensor_are_tensors():
    class Mine(torch_or_skip().Tensor):
        pass

    want = tensor_bytes(torch.arange(12.).reshape(3, 4))
    for t in (torch.zeros(3, 4).as_subclass(Mine), torch.zeros(4, 3).t().as_subclass(Mine)):
        read(t, want)
        assert written(t) == want


@case
def expanded_tensors_can_be_written_and_not_read():
    torch_or_skip()
    t = torch.arange(5.).expand(7, 5)
    assert written(t) == tensor_bytes(t)
    refused(ValueError, t, 'share memory', reading=True)
    refused(ValueError, torch.zeros(1).expand(1 << 40), 'share memory', reading=True)
    refused(ValueError, torch.zeros(10).unfold(0, 3, 1), 'share memory', reading=True)
    assert written(torch.ones(1).expand(1 << 60, 1 << 2), length=8) == tensor_bytes(torch.ones(2))
    refused(MemoryError, torch.zeros(1).expand(1 << 61), 'no memory for a copy')


@case
def conjugated_and_negated_tensors_have_the_values_they_show():
    torch_or_skip()
    base = torch.frombuffer(bytearray(data(8 * 20)), dtype=torch.int64).to(torch.complex64)
    one = torch.tensor([1 + 2j])
    for view_of in (lambda t: t.conj(), lambda t: t.conj().imag, lambda t: t.reshape(4, 5).mH,
                    lambda t: t.conj()[::2], lambda t: t[:1].conj().imag):
        view = view_of(base)
        assert view.is_conj() or view.is_neg()
        assert written(view) == tensor_bytes(view)
        fresh = torch.zeros(20, dtype=torch.complex64)
        read(view_of(fresh), tensor_bytes(view))
        assert torch.equal(view_of(fresh), view)
    assert one.conj().imag.is_contiguous() and written(one.conj().imag) == tensor_bytes(
        torch.tensor([-2.]))


@case
def a_short_file_leaves_the_rest_of_a_conjugated_tensor_alone():
    torch_or_skip()
    base = torch.full((10,), 3 + 4j, dtype=torch.complex128)
    want = tensor_bytes(torch.arange(4.).to(torch.complex128))
    with handle() as h:
        assert h.read(base.conj(), make(want[:56]), partial=True) == 56
        assert h.read(base.conj()[5:], make(want), length=16) == 16
    # Of the fourth number only the real part came.
    assert base.tolist() == [0, 1, 2, 3 + 4j, 3 + 4j, 0, *[3 + 4j] * 4], base


@case
def tensors_that_have_no_memory_are_refused_with_a_reason():
    torch_or_skip()
    dense = torch.eye(3)
    for t, word in ((dense.to_sparse(), 'sparse_coo'), (torch.empty(3, device='meta'), 'meta'),
                    (torch.empty(0, device='meta'), 'meta'),
                    (torch._efficientzerotensor(3), 'no memory of its own')):
        refused(TypeError, t, word)
        refused(TypeError, t, word, reading=True)
    if torch.backends.mkldnn.is_available():
        refused(TypeError, dense.to_mkldnn(), 'mkldnn')
    try:
        from torch._subclasses import FakeTensorMode
    except ImportError:
        return
    with FakeTensorMode():
        fake = torch.empty(3)
    refused(TypeError, fake, 'FakeTensor')


@case
def a_wrapper_around_a_tensor_has_no_memory():
    class Wrapper(torch_or_skip().Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError(str(function))

    refused(TypeError, Wrapper(torch.zeros(3)), "'Wrapper' object", 'no memory of its own')


@case
def slices_of_one_tensor_share_one_file():
    torch_or_skip()
    want = torch.arange(100000, dtype=torch.int32)
    got = torch.zeros(100000, dtype=torch.int32)
    name = path()
    with handle() as h:
        futures = [h.write_async(want[i:i + 997], name, 4 * i) for i in range(0, 100000, 997)]
        h.wait()
        for i in range(0, 100000, 997):
            futures.append(h.read_async(got[i:i + 997], name, 4 * i))
        h.wait()
        assert all(f.done() for f in futures)
    assert torch.equal(got, want)


@case
def torch_is_not_imported_for_its_sake():
    assert child_ok('''if True:
        import sys, penstock
        with penstock.Handle() as h:
            h.write(bytearray(100), 'f')
            h.read(memoryview(bytearray(200))[::2], 'f')
        print('torch' in sys.modules, 'numpy' in sys.modules)
    ''').split() == ['False', 'False']


@case
def something_else_by_the_name_of_torch_does_no_harm():
    for module in ('None', 'types.ModuleType("torch")', 'types.SimpleNamespace(Tensor=3)'):
        assert child_ok(f'''if True:
            import sys, types, penstock
            sys.modules['torch'] = {module}
            with penstock.Handle() as h:
                print(h.write(bytearray(100), 'f'))
        ''') == '100\n'


# ----------------------------------------------------------------------------- DLPack

@each((Dl, DlVersioned))
def an_array_with_dlpack_only_goes_both_ways(kind):
    want = data(4 * 5 * 6 * 8)
    for shape, strides, dtype in (((960,), None, (1, 8, 1)), ((4, 5, 6), (30, 6, 1), (2, 64, 1)),
                                  ((4, 5, 6), None, (2, 64, 1)), ((4, 5, 6), None, (4, 16, 4)),
                                  ((240,), None, (2, 32, 1)), ((480,), None, (4, 16, 1)),
                                  ((60,), None, (5, 128, 1))):
        obj = kind(want, shape, strides, dtype)
        assert written(obj) == want
        obj = kind(bytes(960), shape, strides, dtype)
        read(obj, want)
        assert bytes(obj.memory) == want


@each((Dl, DlVersioned))
def strides_and_offsets_of_dlpack_count(kind):
    want = data(960)
    columns = b''.join(want[i * 40 + k * 8:i * 40 + k * 8 + 8] for k in range(5) for i in range(24))
    obj = kind(want, (5, 24), (1, 5), (2, 64, 1))
    assert written(obj) == columns
    obj = kind(bytes(960), (5, 24), (1, 5), (2, 64, 1))
    read(obj, columns)
    assert bytes(obj.memory) == want
    obj = kind(want, (3,), (-2,), (0, 32, 1), byte_offset=100)
    assert written(obj) == want[100:104] + want[92:96] + want[84:88]
    assert written(kind(want, (), None, (0, 32, 1), byte_offset=8)) == want[8:12]
    assert written(kind(want, (0, 5), None, (0, 32, 1))) == b''
    refused(ValueError, kind(want, (3,), (0,), (0, 32, 1)), 'share memory', reading=True)


@each((Dl, DlVersioned))
def what_dlpack_cannot_give_is_refused(kind):
    refused(TypeError, kind(bytes(64), (64,), device=(2, 1)), 'is in CUDA memory')
    refused(TypeError, kind(bytes(64), (64,), device=(10, 1)), 'ROCm memory', 'device 10:1')
    refused(TypeError, kind(bytes(64), (64,), device=(77, 0)), 'foreign memory')
    assert written(kind(bytes(64), (64,), device=(3, 0))) == bytes(64)
    refused(TypeError, kind(bytes(64), (64,), dtype=(1, 4, 1)), 'no whole bytes')
    assert written(kind(bytes(64), (64,), dtype=(17, 4, 2))) == bytes(64)
    refused(TypeError, kind(bytes(64), (8,), dtype=(3, 64, 1)), 'pointers')
    refused(ValueError, kind(bytes(64), (64,)), 'length: 65 is more than the 64', length=65)


@case
def flags_of_a_versioned_capsule_are_heeded():
    for flags, word in ((1, 'is read-only'), (2, 'only a copy')):
        obj = DlVersioned(data(64), (64,), flags=flags)
        assert written(obj) == data(64)
        refused(TypeError, obj, word, reading=True)
    refused(TypeError, DlVersioned(bytes(64), (64,), version=(2, 0)), 'another version')
    assert written(DlVersioned(bytes(64), (64,), version=(1, 9))) == bytes(64)
    seen = DlVersioned(bytes(64), (64,))
    read(seen, data(64))
    assert seen.asked == {'max_version': (1, 0), 'copy': False}


@each((Dl, DlVersioned))
def a_capsule_is_freed_once_and_not_before_the_end(kind):
    obj = kind(data(960), (5, 24), (1, 5), (2, 64, 1))
    for function in (written, lambda o: read(o, data(960)),
                     lambda o: refused(ValueError, o, 'length', length=5000)):
        before = obj.freed
        function(obj)
        gc.collect()
        assert (obj.made, obj.freed) == (before + 1, before + 1)


@case
def a_tensor_behind_dlpack_only_goes_both_ways():
    torch_or_skip()

    class Only:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    t = torch.arange(24.).reshape(4, 6)
    assert written(Only(t)) == tensor_bytes(t)
    assert written(Only(t.t())) == tensor_bytes(t.t())
    read(Only(t.t()), data(96))
    assert tensor_bytes(t.t()) == data(96)


@case
def a_broken_dlpack_is_an_error_of_its_own():
    class Broken:
        def __init__(self, device=(1, 0), capsule=None):
            self.device, self.capsule = device, capsule

        def __dlpack_device__(self):
            if isinstance(self.device, Exception):
                raise self.device
            return self.device

        def __dlpack__(self):
            if isinstance(self.capsule, Exception):
                raise self.capsule
            return self.capsule

    refused(TypeError, Broken(), 'no DLPack capsule')
    refused(TypeError, Broken(device=5), '__dlpack_device__')
    refused(TypeError, Broken(device=(1, 2, 3)), '__dlpack_device__')
    refused(TypeError, Broken(capsule=Capsule.new(b'something else')), 'no DLPack capsule')
    refused(KeyError, Broken(device=KeyError('mine')), 'mine')
    refused(BufferError, Broken(capsule=BufferError('mine')), 'mine')


@case
def dlpack_is_asked_where_the_buffer_protocol_fails():
    if sys.version_info < (3, 12):
        raise Skip('python3.12', 'classes have __buffer__ since Python 3.12')

    class Modern(DlVersioned):
        def __buffer__(self, flags):
            raise BufferError('not for this dtype')

    assert written(Modern(data(64), (64,))) == data(64)
    refused(TypeError, Modern(data(64), (64,), device=(2, 0)), 'CUDA memory')


# ------------------------------------------------------------------- what is nothing of it

@case
def other_objects_are_refused_by_name():
    for obj in (None, 5, 'text', [1, 2], {1: 2}, object(), {1}, iter([]), int, print, sys):
        refused(TypeError, obj, f"'{type(obj).__name__}' object has no memory to move")
        refused(TypeError, obj, 'has no memory to move', reading=True)
    if torch is not None:
        refused(TypeError, torch.Tensor, 'has no memory to move')
        refused(TypeError, torch.float32, 'has no memory to move')
    if numpy is not None:
        refused(TypeError, numpy.ndarray, 'has no memory to move')


@case
def memory_of_a_device_is_refused():
    class Cuda:
        __cuda_array_interface__ = {'shape': (3,), 'typestr': '<f4', 'data': (4096, False),
                                    'version': 3}

    refused(TypeError, Cuda(), 'is in CUDA memory')
    refused(TypeError, Cuda(), 'is in CUDA memory', reading=True)


@case
def a_length_is_within_the_object():
    for obj in (bytearray(64), memoryview(bytearray(128))[::2]):
        for reading in (False, True):
            refused(ValueError, obj, 'length: 65 is more than the 64 bytes', length=65,
                    reading=reading)
            refused(ValueError, obj, 'length: -2', length=-2, reading=reading)
        assert written(obj, length=10) == bytes(10)
        read(obj, data(10), length=10)
        assert bytes(obj) == data(10) + bytes(54)


@case
def an_object_lives_until_its_transfer_is_over():
    class Mine(bytearray):
        pass

    obj = Mine(1 << 20)
    gone = weakref.ref(obj)
    with handle() as h:
        f = h.write_async(obj, path())
        del obj
        f.result()
        h.wait()
        gc.collect()
        assert gone() is None


@case
def nothing_is_kept_of_what_was_refused():
    objs = [bytearray(64), memoryview(bytearray(128))[::2]]
    if numpy is not None:
        objs += [numpy.zeros(64, 'u1'), numpy.zeros(128, 'u1')[::2]]
    if torch is not None:
        objs += [torch.zeros(64, dtype=torch.uint8), torch.zeros(128, dtype=torch.uint8)[::2]]
    with handle() as h:
        for obj in objs:
            before = sys.getrefcount(obj)
            for _ in range(100):
                try:
                    h.write(obj, path(), length=65)
                except ValueError:
                    pass
            assert sys.getrefcount(obj) == before
    objs[0].append(1)  # no view is left


run(*cases)
