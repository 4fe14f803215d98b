# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's own operators, which ours are compared with: built once, and kept beside the packages.

    ds_ops.py [OPERATOR...]

Builds them, two at a time.  The sources are DeepSpeed's as they stand; that they are compiled together, without
what a debugger needs, is ours: torch's headers are read once, not twelve times, which is minutes.
"""
import glob
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault('DS_ACCELERATOR', 'cpu')

# Builder: folders of its sources, or none where it is built as DeepSpeed does it.
OPERATORS = {
    'AsyncIOBuilder': ('csrc/aio', 'csrc/pin_memory'),
    'CPUAdamBuilder': (),
}
OWN = ('c_library_name', 'c_block_size', 'c_io_queue_depth')  # names that belong to one source each


def place():
    """Where they are kept: for these versions alone."""
    import importlib.metadata as metadata
    names = '-'.join(metadata.version(name) for name in ('deepspeed', 'torch'))
    return os.path.join(sys.prefix, 'ds-operators', names)


def are_built():
    return all(os.path.exists(os.path.join(place(), name)) for name in OPERATORS)


def use():
    """From here on, this process builds DeepSpeed's operators there, or finds them built."""
    os.environ['TORCH_EXTENSIONS_DIR'] = place()
    os.environ.setdefault('MAX_JOBS', '2')
    import deepspeed.ops.op_builder as builders
    for name, folders in OPERATORS.items():
        change(getattr(builders, name), folders)


def change(builder, folders):
    arguments = builder.cxx_args
    builder.cxx_args = lambda self: [a for a in arguments(self) if a != '-g']
    if not folders:
        return
    sources, include = builder.sources, builder.include_paths
    builder.sources = lambda self: [together(self, folders, sources(self))]
    builder.include_paths = lambda self: [os.path.join(place(), p) for p in include(self)]


def together(builder, folders, sources):
    """One file that includes them all.  Their headers have no guards, and some names are in several."""
    for folder in folders:
        copy(builder.deepspeed_src_path(folder), os.path.join(place(), folder))
    lines = [line for i, name in enumerate(sources) for line in (
        *(f'#define {own} {own}_{i}\n' for own in OWN), f'#include "{os.path.join(place(), name)}"\n',
        *(f'#undef {own}\n' for own in OWN))]
    made = os.path.join(place(), f'{builder.name}.cpp')
    put(made, ''.join(lines))
    return made


def copy(tree, to):
    for folder, _, names in os.walk(tree):
        for name in names:
            with open(os.path.join(folder, name), encoding='utf-8') as f:
                text = f.read()
            guard = '#pragma once\n' if name.endswith('.h') else ''
            put(os.path.join(to, os.path.relpath(folder, tree), name), guard + text)


def put(name, text):
    """Not where it is there already: its time says what has to be built again."""
    if os.path.exists(name):
        with open(name, encoding='utf-8') as f:
            if f.read() == text:
                return
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, 'w', encoding='utf-8') as f:
        f.write(text)


def build(name):
    use()
    import deepspeed.ops.op_builder as builders
    getattr(builders, name)().load()
    with open(os.path.join(place(), name), 'w', encoding='utf-8'):
        pass


def main():
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            build(name)
        return 0
    if are_built():
        return 0
    for lock in glob.glob(os.path.join(place(), '*', 'lock')):  # of a build that was broken off: torch would wait for it
        os.remove(lock)
    with ThreadPoolExecutor(2) as two:
        return max(two.map(lambda name: subprocess.call([sys.executable, __file__, name]), OPERATORS))


if __name__ == '__main__':
    sys.exit(main())
