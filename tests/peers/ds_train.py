# SPDX-License-Identifier: Apache-2.0
"""A model trained, saved and used by DeepSpeed with its own operators and with ours: not one bit differs."""
import functools
import json
import os
import shutil

from kit import case, cases, child, content, path, run
from peer import need

need('torch', 'deepspeed')

import ds_ops
import torch

if not ds_ops.are_built():
    print("1..0 # SKIP DeepSpeed's own operators are not built: make peers")
    raise SystemExit

STEPS = 50
HERE = os.path.dirname(os.path.abspath(__file__))
JOB = f"import runpy, sys; sys.path.insert(0, {HERE!r}); sys.argv[0] = 'ds_job.py'; runpy.run_path({HERE!r} + '/ds_job.py')"


@functools.cache
def job(which):
    """What it prints, and the folder where its files are."""
    folder = path(which)
    os.mkdir(folder)
    done = child(JOB, which, folder, str(STEPS))
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-3000:])
    got = json.loads(done.stdout.splitlines()[-1])
    for what in ('train', 'shared', 'save', 'infer'):
        print(f'# {which}: {what} {got[what]["seconds"]:.2f} seconds')
    return got, folder


def both(what):
    (theirs, _), (ours, _) = job('original'), job('penstock')
    return theirs[what], ours[what]


def files(folder, name):
    top = os.path.join(folder, name)
    return sorted(os.path.relpath(os.path.join(at, n), top) for at, _, names in os.walk(top) for n in names)


@case
def one_had_operators_of_its_own_and_the_other_ours():
    theirs, ours = both('handle')
    assert theirs.startswith('async_io.') and ours.startswith('penstock.deepspeed.'), (theirs, ours)


def losses_are_the_same(what, swapper, count):
    theirs, ours = both(what)
    assert theirs['swapper'] == ours['swapper'] == swapper, (theirs, ours)
    assert len(ours['losses']) == count
    assert ours['losses'] == theirs['losses'], list(zip(theirs['losses'], ours['losses']))
    first, last = (float.fromhex(ours['losses'][i]) for i in (0, -1))
    assert last < first / 2, (first, last)


@case
def fifty_losses_are_the_same_bit_for_bit():
    losses_are_the_same('train', 'PipelinedOptimizerSwapper', STEPS)


@case
def they_are_where_gradients_and_states_share_a_handle():
    losses_are_the_same('shared', 'PartitionedOptimizerSwapper', STEPS // 5)


@case
def swap_files_have_the_same_names_and_bytes():
    (_, theirs), (_, ours) = job('original'), job('penstock')
    for name in ('train', 'shared', 'infer'):
        names = files(theirs, name)
        assert names == files(ours, name) and names, (names, files(ours, name))
        assert name == 'infer' or any('_gradient_' in n for n in names), names
        assert any('_param.tensor.swp' in n for n in names), names
        for n in names:
            assert content(os.path.join(theirs, name, n)) == content(os.path.join(ours, name, n)), n


@case
def what_fastpersist_saves_is_the_same():
    theirs, ours = both('save')
    assert theirs['engine'] == ours['engine'] == 'FastCheckpointEngine', (theirs, ours)
    folders = [os.path.join(folder, 'checkpoint') for _, folder in (job('original'), job('penstock'))]
    names = files(folders[1], '.')
    assert names == files(folders[0], '.')
    saved = [n for n in names if '.pt' in n]
    assert saved, names
    for name in saved:
        a, b = (torch.load(os.path.join(folder, name), weights_only=False) for folder in folders)
        assert same(a, b), name


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b)


@case
def inference_from_storage_gives_the_same():
    theirs, ours = both('infer')
    assert theirs['output'] == ours['output']


def nothing_is_left():
    for _, folder in (job('original'), job('penstock')):
        shutil.rmtree(folder)


run(*cases, nothing_is_left)
