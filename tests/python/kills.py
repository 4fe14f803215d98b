# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of whatever saves: the old content or the new, and nothing else in the folder after the next save.

PENSTOCK_TEST_OPS is the number of kills for each kind (8; 300 is a soak).
"""
import os
import random
import signal
import time
import warnings

import kit
from kit import MIB, each

torch = kit.module('torch')
if torch is None:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

import penstock.torch  # noqa: E402
from penstock.compat import StreamingCheckpointing  # noqa: E402
from penstock.deepspeed import FastFileWriter, FastFileWriterConfig, PyFileWriter, aio_handle  # noqa: E402

dcp = None if torch.__version__.startswith('1.') else kit.module('torch.distributed.checkpoint')
KILLS = int(os.environ.get('PENSTOCK_TEST_OPS', 8))
COUNT = 1 << 20
warnings.simplefilter('ignore')
torch.set_num_threads(1)  # threads of torch do not live on in a child of fork()


def state(seed):
    return {'large': torch.full((COUNT,), float(seed)), 'small': [torch.full((i,), seed) for i in range(5)]}


def seed_of(state):
    """Which it is; all of it must be."""
    seed = int(state['large'][0])
    assert (state['large'] == seed).all() and all((t == seed).all() for t in state['small']), seed
    return seed


class File:
    """torch's files, by a writer."""

    def __init__(self, folder):
        self.path = os.path.join(folder, 'file')
        self.allowed = {'file', 'file.crc'}

    def save(self, seed):
        with self.writer() as writer:
            torch.save(state(seed), f=writer)

    def load(self):
        return seed_of(penstock.torch.load(self.path, verify='require'))


class Torch(File):
    def save(self, seed):
        penstock.torch.save(state(seed), self.path)


class Fast(File):
    def writer(self):
        handle = aio_handle()
        return FastFileWriter(self.path, FastFileWriterConfig(handle, torch.empty(2 * MIB, dtype=torch.uint8)))


class Plain(File):
    def writer(self):
        return PyFileWriter(self.path)


class Streamed(File):
    def save(self, seed):
        StreamingCheckpointing(chunk_size=MIB).save(self.path, 5 * MIB, lambda buffer, size: buffer.__setitem__(
            slice(None), bytes([seed % 251]) * size))
        self.last = seed

    def load(self):
        data = kit.content(self.path)
        assert data == data[:1] * 5 * MIB
        return next(seed for seed in range(self.last, -1, -1) if seed % 251 == data[0])


class Distributed(File):
    def __init__(self, folder):
        self.path, self.allowed = folder, None

    def save(self, seed):
        from penstock.dcp import CheckpointWriter
        dcp.save(state(seed), storage_writer=CheckpointWriter(self.path), no_dist=True)

    def load(self):
        from penstock.dcp import CheckpointReader
        got = state(0)
        dcp.load(got, storage_reader=CheckpointReader(self.path, verify='require'), no_dist=True)
        return seed_of(got)


def saved_until_killed(kind, seed, delay):
    """Save from this seed on in a process that is killed after so many seconds; returns the last that was begun."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(told)
            while True:
                os.write(tell, b'.')
                kind.save(seed)
                seed += 1
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(told, 'rb', 0) as begun:
        seed += len(begun.read(1)) - 1
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), 'a save has failed'
        return seed + len(begun.read())


KINDS = {'penstock.torch.save': Torch, 'FastFileWriter': Fast, 'PyFileWriter': Plain, 'StreamingCheckpointing': Streamed,
         'penstock.dcp': Distributed}


@each(KINDS)
def a_kill_leaves_the_old_or_the_new_one_and_nothing_else_after_the_next_save_by(name):
    of = KINDS[name]
    if of is Distributed and dcp is None:
        raise kit.Skip('torch', 'DCP of this torch is another one')
    folder = kit.path('folder')
    os.mkdir(folder)
    kind = of(folder)
    number = random.randrange(1 << 32)
    print(f'# seed {number}')
    rng = random.Random(number)
    began = time.monotonic()
    kind.save(0)
    usual, last = time.monotonic() - began, 0
    for _ in range(KILLS):
        first = last + 1
        last = kind.last = saved_until_killed(kind, first, rng.random() * 2 * usual)
        assert kind.load() in (last - 1, last), (kind.load(), last)
        last += 1
        kind.save(last)
        assert kind.load() == last
        names = set(os.listdir(folder))
        if kind.allowed is None:
            assert len(names) == 3 and '.metadata' in names, names
        else:
            assert names == kind.allowed, names


kit.run(*kit.cases)
