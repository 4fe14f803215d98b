# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: what it holds, imports and exports.

    package.py SOURCE BUILD
"""
import glob
import os
import re
import subprocess
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

source, build = sys.argv[1:3]
folder = f'{build}/python'
extension = glob.glob(f'{folder}/penstock/_penstock.*.so')[0]
# Only the package is there, neither this folder nor what the environment names.
START = f'import sys; sys.path.insert(0, {folder!r}); import penstock\n'


def output(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, env=dict(os.environ, LC_ALL='C'), cwd='/')
    assert done.returncode == 0, done.stdout
    return done.stdout


def python(code, *options):
    return output(sys.executable, '-I', *options, '-c', START + code).strip()


def listing(top):
    names = glob.glob('**', root_dir=top, recursive=True)
    return {n for n in names if n.endswith(('.py', '.pyi')) or os.path.basename(n) == 'py.typed'}


def importing_it_imports_neither_torch_nor_numpy():
    code = "print(sorted({m.partition('.')[0] for m in sys.modules} & {'torch', 'numpy', 'deepspeed'}))"
    assert python(code) == '[]'


def importing_it_starts_no_thread_and_opens_no_file():
    code = ("import os; a = os.listdir('/proc/self/fd'), os.listdir('/proc/self/task'); "
            'import penstock; '
            "b = os.listdir('/proc/self/fd'), os.listdir('/proc/self/task'); print(a == b)")
    path = f'import sys; sys.path.insert(0, {folder!r}); '
    assert output(sys.executable, '-I', '-c', path + code) == 'True\n'


def importing_it_warns_of_nothing():
    assert python('', '-W', 'error', '-b', '-X', 'dev') == ''


def it_starts_without_bytecode_and_docstrings():
    assert python('print(penstock.__version__)', '-OO', '-B') == version()


def version():
    with open(f'{source}/meson.build') as f:
        return re.search(r"^ +version: '([^']+)'", f.read(), re.M)[1]


def the_version_is_the_library_s():
    assert python('print(penstock.__version__)') == version()


def every_file_of_the_source_is_in_the_build():
    missing = listing(f'{source}/python') - listing(folder)
    assert not missing, f'not in a meson.build: {sorted(missing)}'
    for name in listing(f'{source}/python'):
        with open(f'{source}/python/{name}', 'rb') as a, open(f'{folder}/{name}', 'rb') as b:
            assert a.read() == b.read(), f'{name}: not the copy of the source'


def it_is_marked_as_typed():
    assert os.path.isfile(f'{folder}/penstock/py.typed')


def public_names_are_in_all_and_nothing_else_is():
    import penstock
    public = {n for n, v in vars(penstock).items()
              if not n.startswith('_') and not isinstance(v, types.ModuleType)}
    assert set(penstock.__all__) - {'__version__'} == public, public ^ set(penstock.__all__)
    assert len(set(penstock.__all__)) == len(penstock.__all__)


def public_things_have_a_docstring_and_a_signature():
    import inspect
    import penstock
    bare = []
    for name in set(penstock.__all__) - {'__version__'}:
        thing = getattr(penstock, name)
        members = [(f'{name}.{n}', m) for n, m in vars(thing).items()
                   if not n.startswith('_')] if inspect.isclass(thing) else []
        for label, member in [(name, thing), *members]:
            if not inspect.getdoc(member):
                bare.append(f'{label}: no docstring')
            if callable(member) and not inspect.isclass(member):
                inspect.signature(member)
    assert not bare, bare


def classes_are_named_as_users_call_them():
    import penstock
    for name in penstock.__all__:
        thing = getattr(penstock, name)
        if isinstance(thing, type):
            assert f'{thing.__module__}.{thing.__qualname__}' == f'penstock.{name}', thing


def the_extension_exports_only_what_Python_looks_up():
    fields = [line.split() for line in output('nm', '-D', '--defined-only', extension).splitlines()]
    # type A is the name of a version
    assert [f[2].split('@')[0] for f in fields if f[1] != 'A'] == ['PyInit__penstock']


def the_extension_is_not_linked_to_a_Python():
    needed = re.findall(r'\(NEEDED\).*\[(.*)\]', output('readelf', '-dW', extension))
    assert needed and not [n for n in needed if 'python' in n or 'penstock' in n], needed


tap.run(importing_it_imports_neither_torch_nor_numpy, importing_it_starts_no_thread_and_opens_no_file,
        importing_it_warns_of_nothing, it_starts_without_bytecode_and_docstrings,
        the_version_is_the_library_s, every_file_of_the_source_is_in_the_build, it_is_marked_as_typed,
        public_names_are_in_all_and_nothing_else_is, public_things_have_a_docstring_and_a_signature,
        classes_are_named_as_users_call_them,
        the_extension_exports_only_what_Python_looks_up, the_extension_is_not_linked_to_a_Python)
