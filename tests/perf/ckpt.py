# SPDX-License-Identifier: Apache-2.0
"""The part of `make perf` that measures checkpoints in C: perf-ckpt against a bare loop."""
import os

import fio
import places
from bench import Variant, cpu_per_gib, ratio, show, speed


def ckpt(b):
    size, path = b.args.size, os.path.join(b.folder, 'ckpt')
    print(f'{size >> 20} MiB as a checkpoint, durable, past the page cache, against a bare loop with fsync')
    places.need_space(b.folder, 3 * size)

    def variant(mode, name=None):
        command = [b.program('perf-ckpt'), mode, path if name is None else os.path.join(b.folder, name), str(size)]
        return Variant(mode, lambda: fio.program(command))

    saves = [variant('limit-save', 'bare'), variant('save'), variant('save-plain', 'plain')]
    b.interleave(saves)
    variant('save').run()  # what is loaded has checksums
    loads = [variant('limit-load'), variant('load'), variant('load-plain'), variant('load-small')]
    b.interleave(loads)
    show(['', 'GB/s', 'min .. max', 'CPU s/GiB', 'memory beside the tensors'],
         [[v.name, f'{v.median(speed):.3f}', v.spread(speed, '.3f'), f'{v.median(cpu_per_gib):.3f}',
           f'{v.median(lambda s: s["own_kib"]) / 1024:.0f} MiB'] for v in saves + loads])
    limit_save, save, _ = saves
    limit_load, load, plain, small = loads
    b.target('save: share of the durable write limit', ratio(save, limit_save, speed), 0.95)
    b.target('load, verified: share of the read limit', ratio(load, limit_load, speed), 0.95)
    b.target('load: verified against not', ratio(load, plain, speed), 0.95)
    b.target('load of 10,000 ranges against one', ratio(small, load, speed), 0.9)


SECTIONS = {'ckpt': ckpt}
