# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: files, data, and operations that stand still."""
import contextlib
import ctypes
import errno
import fcntl
import importlib
import itertools
import mmap
import os
import platform
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import penstock
from tap import Skip, run  # noqa: F401  for those who import this

PAGE = mmap.PAGESIZE
MIB = 1 << 20
folder = os.environ.get('PENSTOCK_TEST_DIR') or tempfile.mkdtemp(prefix='penstock-')
cases = []
_numbers = itertools.count()


def case(function):
    """Mark a test case; run(*cases) at the end runs all of them in order."""
    cases.append(function)
    return function


def each(values):
    """As case, once for each of the values, which is the argument."""
    def mark(function):
        name = function.__name__
        for value in values:
            cases.append((f'{name}: {value}', lambda value=value: function(value)))
        return function
    return mark


def module(name):
    """A module that not everybody has, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def numpy_or_skip():
    return module('numpy') or skip('numpy')


def torch_or_skip():
    return module('torch') or skip('torch')


def skip(name):
    raise Skip(name, f'no {name}')


def s3_server(*options, ports=1):
    """The server of tests/s3, which this process's client then uses; ends the program where there is no libcurl."""
    sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 's3'))
    from s3kit import Server
    from penstock import s3

    server = Server(*options, ports=ports)
    os.environ.update(server.env, AWS_EC2_METADATA_DISABLED='true')
    for name in ('AWS_PROFILE', 'AWS_SESSION_TOKEN', 'S3_ENDPOINT_URIS'):
        os.environ.pop(name, None)
    try:
        _ = s3.client().core
    except OSError as e:
        print(f'1..0 # SKIP curl: {e}')
        sys.exit()
    return server


def path(name='file'):
    """A name in the test's folder that nothing has yet."""
    return os.path.join(folder, f'{next(_numbers)}-{name}')


def data(nbytes, seed=1):
    return random.Random(seed).randbytes(nbytes)


def make(content, name='file'):
    """A new file with this content."""
    made = path(name)
    with open(made, 'wb') as f:
        f.write(content)
    return made


def content(name):
    with open(name, 'rb') as f:
        return f.read()


def raises(kind, function, *args, **kwargs):
    """The exception of this kind that the call must raise."""
    try:
        got = function(*args, **kwargs)
    except kind as e:
        return e
    raise AssertionError(f'{kind} was not raised, the result is {got!r}')


def failing(h, nbytes=10, offset=0, name='short'):
    """A future that fails with ENODATA: its file is empty."""
    return h.read_async(bytearray(nbytes), make(b'', name), offset)


def handle(engine=None, **options):
    """A handle, or a skip where the engine does not work."""
    try:
        return penstock.Handle(engine, **options)
    except OSError as e:
        if engine and e.errno == errno.ENOTSUP:
            raise Skip(engine.split(':')[0], str(e))
        raise


@contextlib.contextmanager
def public_folder():
    """A folder that other users may enter, wherever the tests and their folder are."""
    with tempfile.TemporaryDirectory(prefix='penstock-', dir='/var/tmp') as public:
        os.chmod(public, 0o755)
        yield public


def child(code, *args, **more):
    """Run Python code in a process of its own.

    Code that changes its user has to import all that it needs before: the other user may not be
    able to read this package.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([here, *sys.path]), PENSTOCK_TEST_DIR=folder,
               **more.pop('env', {}))
    return subprocess.run([sys.executable, '-c', code, *args], env=env, cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          **more)


def child_ok(code, *args, **more):
    """The same; what it wrote on standard output, with nothing on standard error."""
    done = child(code, *args, **more)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def in_fork(function):
    """Call the function in a child of fork(), where True must come out."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if function() is True else 2
        except BaseException as e:
            os.write(2, f'in the child: {e!r}\n'.encode())
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f'the child ended with {os.waitstatus_to_exitcode(status)}'


def descriptors():
    return {name: os.readlink(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd')
            if os.path.lexists(f'/proc/self/fd/{name}')}


@contextlib.contextmanager
def unraisable():
    """Collects what sys.unraisablehook is told."""
    seen, before = [], sys.unraisablehook
    sys.unraisablehook = lambda u: seen.append((u.exc_value, u.err_msg))
    try:
        yield seen
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def no_switching():
    """Threads change only where one lets the other run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10000)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class BlockingMemory:
    """Memory that blocks every transfer until open().

    A kernel or a thread that touches the first page sleeps: userfaultfd(2).  The rest is
    ordinary.  After open() the memory holds what it was made from.
    """

    _SYSCALL = {'x86_64': 323, 'aarch64': 282}
    _API, _REGISTER, _COPY = 0xC018AA3F, 0xC020AA00, 0xC028AA03

    def __init__(self, content=bytes(PAGE)):
        self.memory = mmap.mmap(-1, len(content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory[:] = content
        self._page = ctypes.create_string_buffer(content[:PAGE].ljust(PAGE, b'\0'), PAGE)
        self.memory.madvise(mmap.MADV_DONTNEED, 0, PAGE)
        first = ctypes.c_char.from_buffer(self.memory)
        self._address = ctypes.addressof(first)
        del first
        self._fd = self._make()
        self._fd_lock = threading.Lock()
        self._is_open = False
        fcntl.ioctl(self._fd, self._API, struct.pack('QQQ', 0xAA, 0, 0))
        fcntl.ioctl(self._fd, self._REGISTER, struct.pack('QQQQ', self._address, PAGE, 1, 0))

    def _make(self):
        number = self._SYSCALL.get(platform.machine())
        if number is None:
            raise Skip('userfaultfd', f'no userfaultfd known for {platform.machine()}')
        fd = ctypes.CDLL(None, use_errno=True).syscall(number, os.O_CLOEXEC)
        if fd < 0:
            raise Skip('userfaultfd', f'no userfaultfd: {os.strerror(ctypes.get_errno())}')
        return fd

    def reached(self):
        """Returns when a transfer is blocked."""
        os.read(self._fd, 32)
        return True

    def open(self):
        with self._fd_lock:
            if self._is_open:
                return
            self._is_open = True
            arg = struct.pack('QQQQq', self._address, ctypes.addressof(self._page), PAGE, 0, 0)
            fcntl.ioctl(self._fd, self._COPY, arg)
            os.close(self._fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()


class Lease:
    """A descriptor whose file nobody can open again until the lease is given up.

    penstock opens a second time what was opened with O_NONBLOCK; that open sleeps.
    """

    def __init__(self, name):
        self.fd = os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as e:
            self.close()
            raise Skip('lease', f'no leases here: {e}')

    def reached(self):
        """Returns when somebody sleeps in an open."""
        while fcntl.fcntl(self.fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            os.sched_yield()

    def give_up(self):
        fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    def close(self):
        os.close(self.fd)
        signal.signal(signal.SIGIO, self._before)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
