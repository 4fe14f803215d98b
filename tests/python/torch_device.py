# SPDX-License-Identifier: Apache-2.0
"""penstock.torch with storages that say they are a GPU's, and are the host's: what has to wait for what."""
import contextlib
import os
import sys
import types

from kit import Skip, case, cases, content, each, path, run, torch_or_skip

try:
    torch = torch_or_skip()
except Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()

import penstock.torch
from penstock import _torch_archive, _torch_save
from penstock._frameworks import Torch
from penstock._range_reader import Ranges
from penstock.safetensors import safe_open, save_file

GPU = torch.device('cuda', 0)
untyped = getattr(torch.Tensor, 'untyped_storage', torch.Tensor.storage)


@contextlib.contextmanager
def patched(owner, **values):
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


class Stream:
    """What is queued is done when somebody waits for it, and not before."""

    def __init__(self):
        self.queued, self.waits = [], 0

    def query(self):
        return not self.queued

    def synchronize(self):
        self.waits += 1
        while self.queued:
            self.queued.pop(0)()


class OnDevice:
    """A storage of the host under another name."""

    device = GPU

    def __init__(self, storage):
        self._storage = storage
        self._cdata, self.data_ptr, self.nbytes = storage._cdata, storage.data_ptr, storage.nbytes


def on_device(which=lambda tensor: True):
    """Such tensors are of the GPU, for who saves them."""
    plain = _torch_save._storage_of
    return patched(_torch_save, _storage_of=lambda t: OnDevice(plain(t)) if which(t) else plain(t))


class Made:
    """Has a tensor made when it is pickled, as a wrapper does that stores halves."""

    def __init__(self, stream, value):
        self._stream, self._value = stream, value

    def __getstate__(self):
        half = torch.zeros(1 << 16)
        self._stream.queued.append(lambda: half.fill_(self._value))
        return {'half': half}


@case
def what_is_queued_while_pickling_is_waited_for():
    """From 256 storages on they are written before pickle has seen all."""
    stream, name = Stream(), path('queued.pt')
    obj = [torch.full((10,), float(i)) for i in range(300)], [Made(stream, 1. + i) for i in range(5)]
    with on_device(), patched(torch.cuda, current_stream=lambda device: stream):
        penstock.torch.save(obj, name)
    _, made = torch.load(name, 'cpu', weights_only=False)
    assert [m.half.unique().tolist() for m in made] == [[1. + i] for i in range(5)]
    assert stream.waits == 5, f'{stream.waits} waits for a stream that was behind 5 times'


@case
def tensors_without_data_have_no_room_made_for_them():
    name = path('meta.pt')
    obj = {'meta': torch.empty(1 << 58, device='meta'), 'own': [torch.full((10,), float(i)) for i in range(300)]}
    try:
        torch.save(obj['meta'], os.devnull)
    except (NotImplementedError, RuntimeError) as error:
        raise Skip('torch2', f'torch {torch.__version__} saves none: {error}')
    penstock.torch.save(obj, name)
    back = torch.load(name)
    assert back['meta'].shape == (1 << 58,) and all(map(torch.equal, back['own'], obj['own']))
    assert len(content(name)) < 1 << 20


class Device:
    """A GPU for torch: what is made there is of the host, and counted."""

    def __init__(self):
        self.made, self.stream = [], Stream()

    @contextlib.contextmanager
    def there(self):
        fresh = _torch_archive._new_storage

        def made(nbytes, device=torch.device('cpu')):
            self.made.append((nbytes, device))
            return fresh(nbytes)

        with (patched(torch.cuda, is_available=lambda: True, device_count=lambda: 1, current_device=lambda: 0,
                      current_stream=lambda device: self.stream),
              patched(_torch_archive, _new_storage=made)):
            yield

    def blocks(self, device):
        return [nbytes for nbytes, where in self.made if where == device and nbytes > 4 << 20]

    def others(self, device):
        return [nbytes for nbytes, where in self.made if where == device and nbytes <= 4 << 20]


def state():
    """Of an optimizer, whose steps are on the host; 600 tensors of 5 to 15 KB, and a large one."""
    made = {f't{i}': torch.full((1300 + 4 * (i % 600),), float(i)) for i in range(600)}
    return {**made, 'steps': [torch.tensor(float(i)) for i in range(20)], 'large': torch.full((5 << 20,), 7.)}


def same(a, b):
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return all(map(same, a, b)) if isinstance(a, list) else torch.equal(a, b)


def saved(obj, *more):
    name = path('state.pt')
    with on_device(lambda t: t.numel() > 1), patched(torch.cuda, current_stream=lambda device: Stream()):
        penstock.torch.save([obj, *more], name)
    return name


CPU = torch.device('cpu')
PLACES = {'nothing': (None, 20), 'a name': ('cuda:0', 0), 'a name without a number': ('cuda', 0), 'a device': (GPU, 0),
          'a dict': ({'cuda:0': 'cuda:0'}, 20), 'a dict that moves': ({'cpu': 'cuda:0'}, 0), 'the host': ('cpu', 620)}


@each(PLACES)
def many_storages_share_blocks_of_the_memory_where_they_will_be(how):
    if not _torch_archive.SEES_MOVES:
        raise Skip('torch2', 'torch 1 does not tell where it moves storages')
    obj, gpu = state(), Device()
    name, (where, on_host) = saved(obj), PLACES[how]
    assert b'cuda:0' in content(name)
    with gpu.there():
        back, = penstock.torch.load(name, where)
    assert same(obj, back)
    device = CPU if how == 'the host' else GPU
    assert len(gpu.blocks(device)) == 2 and not gpu.blocks(GPU if device == CPU else CPU), gpu.made
    assert len(gpu.others(CPU)) == (20 if on_host == 20 else 0), gpu.made
    assert not gpu.others(GPU), 'one that could share has memory of its own'
    assert gpu.stream.waits == (device == GPU), 'who had the memory before was not waited for'


@case
def what_torch_unpickles_itself_is_taken_from_the_same_blocks():
    if not _torch_archive.SEES_MOVES:
        raise Skip('torch2', 'torch 1 does not tell where it moves storages')
    obj, gpu = state(), Device()
    name = saved(obj, {1, 2, 3})  # a set is not plain
    with gpu.there():
        back, more = penstock.torch.load(name, 'cuda:0', weights_only=False)
    assert same(obj, back) and more == {1, 2, 3}
    assert len(gpu.blocks(GPU)) == 2 and not gpu.others(GPU) and not gpu.others(CPU), gpu.made


class OfDevice(Torch):
    """Of safetensors, on such a GPU."""

    def __init__(self, gpu):
        super().__init__('cpu')
        self.on_device, self._device, self._gpu = True, GPU, gpu
        self._torch = types.SimpleNamespace(
            UntypedStorage=self._storage, empty=lambda shape, dtype, device: torch.empty(shape, dtype=dtype),
            cuda=types.SimpleNamespace(current_stream=lambda device: gpu.stream), float32=torch.float32)

    def _storage(self, nbytes, device):
        self._gpu.made.append((nbytes, device))
        return torch.UntypedStorage(nbytes)


@case
def tensors_of_safetensors_share_blocks_of_a_device():
    name, gpu, fresh = path('many.safetensors'), Device(), []
    tensors = {key: t for key, t in state().items() if key != 'steps'}
    save_file(tensors, name)
    with safe_open(name) as file, patched(Ranges, add_fresh=lambda *numbers: fresh.append(numbers)):
        file._framework = OfDevice(gpu)
        back = file.get_tensors()
    assert same(dict(sorted(tensors.items())), dict(sorted(back.items())))
    assert len(gpu.blocks(GPU)) == 1 and not gpu.others(GPU) and not fresh, (gpu.made, fresh)
    assert gpu.stream.queued == [] and gpu.stream.waits == 1


run(*cases)
