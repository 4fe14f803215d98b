#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a wheel, for `make wheel` from a build directory and for pip from the sources (PEP 517).

    tools/wheel.py BUILD OUT
    tools/wheel.py OUT          for the Python that runs it, built anew, as pip does

A wheel carries the Python package and in it the command, linked to nothing but libc, and is named
after the oldest glibc that has all the symbols both ask for.  `penstock` and the names that people
know from DeepSpeed and MLPerf are scripts that pip makes (`[project.scripts]` in pyproject.toml).

Why not meson-python: pip would have to download it before anything is built, its wheels carry what
`make install` installs, headers and libraries too, and it cannot tell on which glibc a wheel runs.
This needs what builds penstock, and nothing else.  pip builds from a copy of the sources, so that
nothing is written among them and the same sources give the same wheel everywhere.
`pip install . --config-settings setup-args='-Dportable=false'` hands options to Meson.
"""
import base64
import glob
import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile

if sys.version_info < (3, 11):
    sys.exit('penstock: Python %d.%d: 3.11 or later is needed' % sys.version_info[:2])
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETUP = ['-Dtests=disabled', '-Dpython=enabled', '-Dportable=true', '-Dliburing=enabled',
         '-Dlibaio=enabled']

# A line of a .pth file is run at every start of Python: processes that DeepSpeed starts afresh get
# our handles as their parent did.  It does nothing unless the environment asks for that.
PTH = ("import os; os.environ.get('PENSTOCK_DEEPSPEED') and "
       "__import__('penstock.deepspeed._site')\n")

# What every glibc system has, by PEP 600.
LIBC = re.compile(r'(ld-linux.*|ld64|lib(c|m|dl|pthread|rt))\.so\.\d+$')
OLDEST_GLIBC = 17

# What a wheel can be made for elsewhere, by the number in an ELF file.
MACHINES = {62: 'x86_64', 183: 'aarch64'}

# What was not committed yet is built, but not handed out.
UNTRACKED = ('--others', '--exclude-standard')


def fail(text):
    raise SystemExit(f'wheel: {text}')


# ---- What is written

def project():
    """Name, version and the rest of pyproject.toml's table."""
    with open(f'{ROOT}/pyproject.toml', 'rb') as f:
        p = tomllib.load(f)['project']
    with open(f'{ROOT}/meson.build') as f:
        p['version'] = re.search(r"^ +version: '([^']+)'", f.read(), re.M)[1]
    return p


def metadata():
    p = project()
    with open(f'{ROOT}/{p["readme"]}') as f:
        readme = f.read()
    lines = ['Metadata-Version: 2.1', f'Name: {p["name"]}', f'Version: {p["version"]}',
             f'Summary: {p["description"]}', f'License: {p["license"]["text"]}',
             f'Requires-Python: {p["requires-python"]}', 'License-File: LICENSE',
             *(f'Classifier: {c}' for c in p['classifiers']),
             'Description-Content-Type: text/markdown']
    return '\n'.join(lines) + '\n\n' + readme


def entry_points():
    """The scripts, and what others find us by, as installers read them."""
    p = project()
    groups = {'console_scripts': p['scripts'], **p['entry-points']}
    return '\n'.join(f'[{group}]\n' + ''.join(f'{n} = {f}\n' for n, f in names.items()) for group, names in groups.items())


def archive_name():
    p = project()
    return f'{p["name"]}-{p["version"]}'


def epoch():
    """Seconds; what reproducible builds agree on, or the first moment a zip file can name."""
    return max(int(os.environ.get('SOURCE_DATE_EPOCH', 0)), 315532800)


class Wheel:
    """A zip file with a RECORD of what is in it."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        data = data.encode() if isinstance(data, str) else data
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        self.record.append(f'{name},sha256={digest},{len(data)}\n')
        self.put(name, data, mode)

    def put(self, name, data, mode):
        entry = zipfile.ZipInfo(name, time.gmtime(epoch())[:6])
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)

    def close(self, dist_info):
        name = f'{dist_info}/RECORD'
        self.put(name, ''.join(self.record) + f'{name},,\n', 0o644)
        self.zip.close()


# ---- What is in it

def sources(*others):
    """The files of the tree, relative to ROOT: those git knows, else all but what was built.

    others: options of git ls-files for more.
    """
    git = subprocess.run(['git', '-C', ROOT, 'ls-files', '-z', '--cached', *others],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) \
        if os.path.exists(f'{ROOT}/.git') and shutil.which('git') else None
    if git and git.returncode == 0:
        names = [n for n in git.stdout.split('\0') if n]
    else:
        names = [os.path.relpath(os.path.join(path, n), ROOT)
                 for path, folders, files in os.walk(ROOT) if is_source(path, folders) for n in files]
    return sorted({n for n in names if os.path.isfile(f'{ROOT}/{n}') and not n.endswith('.pyc')})


def is_source(path, folders):
    """Prune a walk in place; always true."""
    top = path == ROOT
    folders[:] = [f for f in folders if f not in ('.git', '.mypy_cache', '__pycache__') and not
                  (top and re.fullmatch(r'build(-.*)?|dist|penstock-io-.*', f))]
    return True


def package():
    """The package's files that are not compiled, relative to ROOT/python."""
    names = [n.removeprefix('python/') for n in sources(*UNTRACKED) if n.startswith('python/penstock/')]
    return [n for n in names if n.endswith(('.py', '.pyi', '/py.typed'))]


def readelf(*args):
    return subprocess.run(['readelf', '--wide', *args], check=True, stdout=subprocess.PIPE, text=True,
                          env=dict(os.environ, LC_ALL='C')).stdout


def machine_of(path):
    """The processor a binary is for, as tags and compilers name it."""
    with open(path, 'rb') as f:
        number = int.from_bytes(f.read(20)[18:], sys.byteorder)
    here = sysconfig.get_platform().removeprefix('linux-').replace('-', '_').replace('.', '_')
    return MACHINES.get(number, here)


def unexpected_libraries(path):
    """Libraries a binary needs that are not part of glibc."""
    names = re.findall(r'\(NEEDED\).*\[(.*)\]', readelf('--dynamic', path))
    return [n for n in names if not LIBC.match(n)]


def glibc(path):
    """Minor number of the oldest glibc 2 a binary runs with."""
    minor = OLDEST_GLIBC
    for name in re.findall(r'Name: GLIBC_(\S+)', readelf('--version-info', path)):
        known = re.match(r'2\.(\d+)', '2.36' if name == 'ABI_DT_RELR' else name)
        if not known:
            fail(f'{path}: GLIBC_{name} is not a version of glibc 2')
        minor = max(minor, int(known[1]))
    return minor


def platform_tag(binaries):
    """By PEP 600 if only glibc is needed, otherwise good for machines like this one only."""
    machine = machine_of(binaries[0])
    other = sorted({n for b in binaries for n in unexpected_libraries(b)})
    if other:
        print(f'wheel: needs {", ".join(other)}: not for other systems', file=sys.stderr)
        return f'linux_{machine}'
    return f'manylinux_2_{max(map(glibc, binaries))}_{machine}'


def stripped(path, folder):
    """A copy without debug information, and without the build ID, which depends on the folder."""
    copy = os.path.join(folder, os.path.basename(path))
    strip = 'strip' if machine_of(path) == machine_of(sys.executable) else f'{machine_of(path)}-linux-gnu-strip'
    subprocess.run([strip, '--strip-unneeded', '--remove-section=.note.gnu.build-id', '-o', copy,
                    path], check=True)
    with open(copy, 'rb') as f:
        return f.read()


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def built_for(build):
    """The extension of a build directory, and which Pythons take it: all since 3.11, or one without a GIL."""
    for path in glob.glob(f'{glob.escape(build)}/python/penstock/_penstock.*.so'):
        version = re.search(r'\.cpython-(\d+)t-', path)
        return path, f'cp{version[1]}-cp{version[1]}t' if version else 'cp311-abi3'
    fail(f'{build}/python/penstock has no extension: make wheel')


def pack(build, out):
    """Write the wheel of a build directory; returns its name."""
    extension, python_tag = built_for(build)
    command = f'{build}/penstock'
    if not os.path.isfile(command):
        fail(f'{command} is missing: make wheel')
    tag = f'{python_tag}-{platform_tag([extension, command])}'
    name, info = f'{archive_name()}-{tag}.whl', f'{archive_name()}.dist-info'
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        wheel = Wheel(f'{tmp}/{name}')
        for file in package():
            wheel.add(file, read(f'{ROOT}/python/{file}'))
        wheel.add(f'penstock/{os.path.basename(extension)}', stripped(extension, tmp), 0o755)
        wheel.add('penstock-deepspeed.pth', PTH)
        wheel.add('penstock/bin/penstock', stripped(command, tmp), 0o755)
        wheel.add(f'{info}/entry_points.txt', entry_points())
        wheel.add(f'{info}/METADATA', metadata())
        wheel.add(f'{info}/WHEEL', 'Wheel-Version: 1.0\nGenerator: penstock tools/wheel.py\n'
                  f'Root-Is-Purelib: false\nTag: {tag}\n')
        wheel.add(f'{info}/LICENSE', read(f'{ROOT}/LICENSE'))
        wheel.close(info)
        shutil.move(f'{tmp}/{name}', f'{out}/{name}')
    return name


# ---- For pip

def meson_environment(meson):
    """pip hides the system's Python packages, and with them a Meson that is one."""
    plain = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    for env in (dict(os.environ), plain):
        if subprocess.run([meson, '--version'], env=env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return env
    fail(f'{meson} does not start')


def copy_sources(to):
    for name in sources(*UNTRACKED):
        os.makedirs(os.path.dirname(f'{to}/{name}'), exist_ok=True)
        shutil.copy2(f'{ROOT}/{name}', f'{to}/{name}')


def compile_in(folder, settings):
    """Build a copy of the sources under folder; returns the build directory."""
    extra = (settings or {}).get('setup-args', [])
    extra = shlex.split(extra) if isinstance(extra, str) else extra
    copy_sources(f'{folder}/penstock')
    build = f'{folder}/penstock/build-portable'
    meson = shutil.which('meson') or fail('meson is missing: make setup')
    env = meson_environment(meson)
    if subprocess.run([meson, 'setup', f'-Dinterpreter={sys.executable}', *SETUP, *extra, build,
                       f'{folder}/penstock'], env=env).returncode:
        fail('Meson cannot configure: make setup installs what is missing; without the static '
             "libraries: pip install . --config-settings setup-args='-Dportable=false'")
    subprocess.run([meson, 'compile', '-C', build], env=env, check=True)
    return build


def get_requires_for_build_wheel(config_settings=None):
    return [name for name in ('meson', 'ninja') if not shutil.which(name)]


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """What is known before anything is built; the tag is not."""
    info = f'{archive_name()}.dist-info'
    os.makedirs(f'{metadata_directory}/{info}', exist_ok=True)
    for name, text in (('METADATA', metadata()), ('entry_points.txt', entry_points())):
        with open(f'{metadata_directory}/{info}/{name}', 'w') as f:
            f.write(text)
    return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix='penstock-wheel-') as folder:
        return pack(compile_in(folder, config_settings), wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    name = f'{archive_name()}.tar.gz'

    def add(tar, path, data, mode):
        entry = tarfile.TarInfo(f'{archive_name()}/{path}')
        entry.size, entry.mode, entry.mtime = len(data), mode, epoch()
        tar.addfile(entry, io.BytesIO(data))
    with open(f'{sdist_directory}/{name}', 'wb') as raw, \
         gzip.GzipFile('', 'wb', fileobj=raw, mtime=epoch()) as zipped, \
         tarfile.open(fileobj=zipped, mode='w', format=tarfile.PAX_FORMAT) as tar:
        for path in sources():
            executable = os.access(f'{ROOT}/{path}', os.X_OK)
            add(tar, path, read(f'{ROOT}/{path}'), 0o755 if executable else 0o644)
        add(tar, 'PKG-INFO', metadata().encode(), 0o644)
    return name


if __name__ == '__main__':
    if len(sys.argv) not in (2, 3):
        fail('usage: tools/wheel.py [BUILD] OUT')
    print(os.path.join(sys.argv[-1], (build_wheel if len(sys.argv) == 2 else pack)(*sys.argv[1:])))
