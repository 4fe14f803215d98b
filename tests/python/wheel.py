# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, and that it installs and works where there is nothing but Python.

    wheel.py SOURCE BUILD, a portable one
"""
import base64
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap

source, build = sys.argv[1:3]
tmp = tempfile.TemporaryDirectory(dir=os.environ.get('PENSTOCK_TEST_DIR'))

# Every engine that works here moves some bytes, there and back.
ROUND_TRIP = '''
import os, sys, penstock
usable = [e["name"] for e in penstock.info()["engines"] if e["usable"]]
assert os.path.realpath(penstock.__file__).startswith(os.path.realpath(sys.prefix)), penstock.__file__
for engine in {"io_uring", "libaio", "threads"} & set(usable):
    with penstock.Handle(engine) as h:
        data, back = os.urandom(3 << 20), bytearray(3 << 20)
        assert h.write(data, engine) == len(data)
        assert h.read_async(back, engine).result() == len(data)
        assert back == data and h.engine == engine
print(penstock.__version__)
'''


def run(*words, status=0, **more):
    """What a program prints, standard error too."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, **{'cwd': tmp.name, **more})
    assert done.returncode == status, f'{words}: status {done.returncode}\n{done.stdout}'
    return done.stdout


@functools.cache
def version():
    with open(f'{source}/meson.build') as f:
        return re.search(r"^ +version: '([^']+)'", f.read(), re.M)[1]


@functools.cache
def wheel():
    """The wheel of the build directory, made here."""
    path = run(sys.executable, f'{source}/tools/wheel.py', build, f'{tmp.name}/dist').split()[-1]
    assert os.listdir(f'{tmp.name}/dist') == [os.path.basename(path)]
    return path


@functools.cache
def unpacked():
    folder = f'{tmp.name}/unpacked'
    with zipfile.ZipFile(wheel()) as z:
        z.extractall(folder)
    return folder


def binaries():
    return (f'{unpacked()}/penstock/_penstock.abi3.so',
            f'{unpacked()}/penstock/bin/penstock')


def environment(name):
    """A fresh virtual environment, and variables that let a process see that and nothing else."""
    folder = f'{tmp.name}/{name}'
    for module in ('venv', 'ensurepip'):
        if not importlib.util.find_spec(module):
            raise tap.Skip('venv', f'{sys.executable} has no {module}')
    run(sys.executable, '-m', 'venv', folder)
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(('LD_', 'PYTHON', 'PIP_', 'PENSTOCK_'))}
    return folder, dict(env, PATH=f'{folder}/bin', PIP_CONFIG_FILE='/dev/null', PIP_NO_INDEX='1',
                        PIP_DISABLE_PIP_VERSION_CHECK='1', HOME=tmp.name)


@functools.cache
def installed():
    """The environment with the wheel in it."""
    folder, env = environment('installed')
    run(f'{folder}/bin/pip', 'install', wheel(), env=env)
    return folder, env


def works(folder, env):
    work = tempfile.mkdtemp(dir=tmp.name)
    assert run(f'{folder}/bin/python', '-c', ROUND_TRIP, env=env, cwd=work) == f'{version()}\n'
    assert run(f'{folder}/bin/penstock', '--version', env=env) == f'penstock {version()}\n'


def it_holds_the_package_and_the_command_and_nothing_else():
    with zipfile.ZipFile(wheel()) as z:
        names = z.namelist()
    package = [os.path.relpath(os.path.join(path, n), f'{source}/python')
               for path, _, files in os.walk(f'{source}/python/penstock') for n in files
               if n.endswith(('.py', '.pyi')) or n == 'py.typed']
    info = f'penstock-{version()}.dist-info/'
    want = package + ['penstock/_penstock.abi3.so', 'penstock-deepspeed.pth',
                      'penstock/bin/penstock', info + 'METADATA', info + 'WHEEL', info + 'LICENSE',
                      info + 'entry_points.txt', info + 'RECORD']
    assert sorted(names) == sorted(want), set(names) ^ set(want)
    assert names[-1] == info + 'RECORD'


def the_record_is_right():
    record = f'penstock-{version()}.dist-info/RECORD'
    with zipfile.ZipFile(wheel()) as z:
        lines = z.read(record).decode().splitlines()
        assert sorted(line.split(',')[0] for line in lines) == sorted(z.namelist())
        for name, digest, size in (line.split(',') for line in lines if not line.startswith(record)):
            data = z.read(name)
            sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
            assert digest == 'sha256=' + sha and int(size) == len(data), name


def the_name_says_what_it_runs_on():
    name = re.fullmatch(rf'penstock-{re.escape(version())}-(cp311-abi3-manylinux_2_(\d+)_\w+)\.whl',
                        os.path.basename(wheel()))
    assert name, wheel()
    with open(f'{unpacked()}/penstock-{version()}.dist-info/WHEEL') as f:
        assert f'Tag: {name[1]}\n' in f.read()
    text = ''.join(run('readelf', '-VW', b) for b in binaries())
    needs = [int(n) for n in re.findall(r'Name: GLIBC_2\.(\d+)', text)]
    assert int(name[2]) == max(17, *needs), needs


def it_needs_no_later_glibc_than_that_of_Debian_12():
    minor = int(re.search(r'manylinux_2_(\d+)', wheel())[1])
    libc = os.confstr('CS_GNU_LIBC_VERSION')
    if minor > 36 and libc != 'glibc 2.36':
        raise tap.Skip('glibc-2.36', f'built with {libc}, whose wheel needs 2.{minor}')
    assert minor <= 36, wheel()


def the_binaries_need_libc_only_and_are_stripped():
    for path in binaries():
        needed = re.findall(r'\(NEEDED\).*\[(.*)\]', run('readelf', '-dW', path))
        other = [n for n in needed if not re.match(r'(ld-linux.*|lib(c|m|dl|pthread|rt))\.so\.\d$', n)]
        assert needed and not other, f'{path}: {other}'
        sections = run('readelf', '-SW', path)
        assert '.debug' not in sections and '.symtab' not in sections, path


def the_extension_exports_only_what_Python_looks_up():
    lines = [line.split() for line in run('nm', '-D', '--defined-only', binaries()[0]).splitlines()]
    # type A is the name of a version
    assert [f[2].split('@')[0] for f in lines if f[1] != 'A'] == ['PyInit__penstock']


def the_metadata_says_what_pyproject_says():
    folder, env = installed()
    code = ('import importlib.metadata as m, json; d = m.distribution("penstock");'
            'print(json.dumps([d.version, d.requires, d.metadata.json]))')
    got, requires, meta = json.loads(run(f'{folder}/bin/python', '-c', code, env=env))
    assert got == version() and not requires, (got, requires)
    assert (meta['name'], meta['license'], meta['requires_python']) == ('penstock', 'Apache-2.0', '>=3.11')
    with open(f'{source}/README.md') as f:
        assert f.read().strip() == meta['description'].strip()


def it_installs_and_works_without_a_compiler():
    works(*installed())


def the_command_finds_out_what_the_machine_can_do():
    folder, env = installed()
    text = run(f'{folder}/bin/penstock', 'info', env=env)
    assert 'io_uring' in text and 'libaio' in text, text


def the_names_that_people_type_are_installed():
    folder, env = installed()
    work = tempfile.mkdtemp(dir=tmp.name)

    def tool(name, *words, **more):
        return run(f'{folder}/bin/{name}', *words, env=env, cwd=work, **more)
    assert tool('python', '-m', 'penstock', '--version') == f'penstock {version()}\n'
    text = tool('ds_io', '--folder', '.', '--read', '--io_size', '1M', '--loops', '1')
    assert 'Read Speed' in text or 'GB/s' in text, text
    assert 'io_uring' in tool('ds_report')
    assert 'usage: penstock tune' in tool('ds_nvme_tune', '--help')
    text = tool('kv-cache', '--model', 'tiny-1b', '--num-users', '2', '--runtime', '3600', '--max-requests', '2',
                '--gpu-mem-gb', '0', '--cpu-mem-gb', '0', '--generation-mode', 'none', '--storage-capacity-gb', '1',
                '--folder', 'cache', '--output', 'kv.json')
    assert 'Requests completed' in text, text
    assert 'penstock kv --model=' in tool('penstock', 'kv', 'mlperf', '--folder', 'cache', '--dry-run')
    assert 'unknown option' in tool('ds_io', '--xyzzy', status=2)


def fsspec_finds_it_by_its_name():
    code = ("import importlib.metadata as m; e, = m.entry_points(group='fsspec.specs', name='penstock'); assert e.value == 'penstock.fsspec:FileSystem'\n"
            "import importlib.util as u; assert u.find_spec('penstock.fsspec')")
    folder, env = installed()
    run(f'{folder}/bin/python', '-c', code, env=env)


def the_start_of_Python_stays_as_it_was_unless_asked():
    folder, env = installed()
    code = "import sys; print('penstock' in sys.modules, 'penstock.deepspeed._site' in sys.modules)"
    assert run(f'{folder}/bin/python', '-c', code, env=env) == 'False False\n'
    env = dict(env, PENSTOCK_DEEPSPEED='1')
    assert run(f'{folder}/bin/python', '-c', code, env=env) == 'True True\n'


def tree():
    """Where everything is, and when it was written; what others build meanwhile does not count."""
    skip = ('.git', '__pycache__', 'dist')
    return {(path, n): os.stat(os.path.join(path, n), follow_symlinks=False).st_mtime_ns
            for path, folders, files in os.walk(source)
            if not folders.sort() and not prune(path, folders, skip) for n in files}


def prune(path, folders, skip):
    folders[:] = [f for f in folders
                  if f not in skip and not (path == source and f.startswith('build'))]


def pip_makes_the_same_from_the_sources():
    for tool in ('meson', 'ninja'):
        if not shutil.which(tool):
            raise tap.Skip(tool, f'no {tool}')
    folder, env = environment('sources')
    before = tree()
    run(f'{folder}/bin/pip', 'install', source, env=dict(env, PATH=os.environ['PATH']))
    assert tree() == before, 'written among the sources'
    works(folder, env)
    shared = f'lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages'
    for path in (f'{shared}/penstock/_penstock.abi3.so', f'{shared}/penstock/bin/penstock'):
        with open(f'{folder}/{path}', 'rb') as a, open(f'{installed()[0]}/{path}', 'rb') as b:
            assert a.read() == b.read(), path


def a_source_archive_holds_the_tree():
    copy = f'{tmp.name}/copy'
    code = ('import sys; sys.path.insert(0, sys.argv[1] + "/tools"); import wheel;'
            'print(getattr(wheel, sys.argv[2])(sys.argv[3]))')
    run(sys.executable, '-B', '-c', code, source, 'copy_sources', copy)
    want = {os.path.relpath(os.path.join(path, n), copy)
            for path, _, files in os.walk(copy) for n in files}
    # As from a release, where there is no git to ask.
    name = run(sys.executable, '-B', '-c', code, copy, 'build_sdist', tmp.name).strip()
    assert name == f'penstock-{version()}.tar.gz', name
    with tarfile.open(f'{tmp.name}/{name}') as t:
        names = {n.removeprefix(f'penstock-{version()}/') for n in t.getnames()}
    assert names == want | {'PKG-INFO'}, names ^ want
    assert {'pyproject.toml', 'meson.build', 'src/penstock.map', 'tools/wheel.py'} <= names
    assert not [n for n in names if re.match(r'/|\.\.|\.git/|build|dist/', n) or n.endswith('.pyc')]


tap.run(it_holds_the_package_and_the_command_and_nothing_else, the_record_is_right,
        the_name_says_what_it_runs_on, it_needs_no_later_glibc_than_that_of_Debian_12,
        the_binaries_need_libc_only_and_are_stripped, the_extension_exports_only_what_Python_looks_up,
        the_metadata_says_what_pyproject_says, it_installs_and_works_without_a_compiler,
        the_command_finds_out_what_the_machine_can_do, the_names_that_people_type_are_installed, fsspec_finds_it_by_its_name,
        the_start_of_Python_stays_as_it_was_unless_asked,
        pip_makes_the_same_from_the_sources, a_source_archive_holds_the_tree)
