# SPDX-License-Identifier: Apache-2.0
"""A new file in place of an old one, so that its name always stands for one of the two, complete.

The bytes go to a file with another name in the same folder, which is renamed when they are safe.
"""
import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator


@contextlib.contextmanager
def about(path: str) -> Iterator[None]:
    """What fails does so with this name: the other one would tell the caller nothing."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def fsync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # no such thing on this file system
            raise
    finally:
        os.close(fd)


def open_new(path: str, direct: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    if direct:
        try:
            return os.open(path, flags | os.O_DIRECT, 0o666)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            if os.path.exists(path):  # some file systems create it before they refuse
                os.unlink(path)
    return os.open(path, flags, 0o666)


def mode_of(path: str) -> int | None:
    """Permissions of a file that can be replaced; None when there is no file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, 'only a regular file can be replaced', path)
    return stat.S_IMODE(mode)


class Replacement:
    """Open from the start; ends with commit() or abort()."""

    def __init__(self, path: str, direct: bool) -> None:
        self._name = path
        self.path = os.path.realpath(path)  # a link stays, what it points to is replaced
        self.folder = os.path.dirname(self.path)
        self._temporary = os.path.join(self.folder, f'.sluice-{secrets.token_hex(8)}.tmp')
        self._pid = os.getpid()
        with about(path):
            mode = mode_of(self.path)
            self.fd = open_new(self._temporary, direct)
        if mode is not None:
            with contextlib.suppress(OSError):  # a file system without permissions
                os.fchmod(self.fd, mode)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def append(self, data: memoryview) -> None:
        with about(self._name):
            while data:
                data = data[os.write(self.fd, data):]

    def write(self, data: memoryview, offset: int) -> None:
        """Through the page cache, which takes what O_DIRECT may refuse."""
        with about(self._name):
            fd = os.open(self._temporary, os.O_WRONLY | os.O_CLOEXEC)
            try:
                while data:
                    n = os.pwrite(fd, data, offset)
                    data, offset = data[n:], offset + n
            finally:
                os.close(fd)

    def commit(self) -> None:
        """Make the new file durable and give it its name."""
        with about(self._name):
            os.fsync(self.fd)
            os.replace(self._temporary, self.path)
            self._temporary = ''
            self._close()
            fsync_folder(self.folder)

    def abort(self) -> None:
        """As if nothing had been written.  Does nothing after the end."""
        self._close()
        if self._temporary and os.getpid() == self._pid:  # else it is our parent's
            try:
                os.unlink(self._temporary)
            except FileNotFoundError:
                pass
        self._temporary = ''

    def _close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
