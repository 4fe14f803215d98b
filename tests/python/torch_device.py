# SPDX-License-Identifier: Apache-2.0
"""sluice.torch with storages that say they are a GPU's, and are the host's: what has to wait for what."""
import contextlib
import os
import sys

from kit import Skip, case, cases, content, path, run, torch_or_skip

try:
    torch = torch_or_skip()
except Skip as skip:
    print(f'1..0 # SKIP {skip}')
    sys.exit()

import sluice.torch
from sluice import _torch_save

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
        sluice.torch.save(obj, name)
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
    sluice.torch.save(obj, name)
    back = torch.load(name)
    assert back['meta'].shape == (1 << 58,) and all(map(torch.equal, back['own'], obj['own']))
    assert len(content(name)) < 1 << 20


run(*cases)
