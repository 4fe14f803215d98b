# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder belong to a distributed checkpoint, and which to nobody any more.

Every save gives its data names that no other has, so that what is there stays whole; what is no longer
needed is removed behind the metadata.  Several saves may be under way in one folder: data that
no metadata name yet may be those of another, which is told by a file that is locked (flock(2)) as long
as its save lives.  Kill -9 ends the lock, too.
"""
import contextlib
import errno
import fcntl
import io
import os
import pickle
import re
import threading
import uuid
from typing import Any

from . import s3
from ._range_reader import content, is_uri
from ._penstock import crc32

SUFFIX = '.distcp'
_OURS = re.compile(r'__\d+_\d+\.[0-9a-f]{32}\.distcp(\.crc)?')  # that a writer of ours has made
_SAVING = re.compile(r'\.saving(\d*)\.[0-9a-f]{32}')  # of one rank, or of all
# Behind the metadata, where pickle does not look.  Not in a file beside them, because torch may replace
# them without knowing.
END = b'\npenstock crc32 %08x\n'


def check_crc(data: bytes, path: Any, verify: bool | str) -> bytes:
    """Metadata, compared with the checksum behind them, where there is one."""
    size = len(data) - len(END % 0)
    if verify == 'require' and data[size:size + 14] != END[:14]:
        raise OSError(errno.ENODATA, 'it has no checksum to verify it with', os.fspath(path))
    if verify and data[size:size + 14] == END[:14] and data[size:] != END % crc32(data[:size]):
        raise OSError(errno.EBADMSG, 'it is not what was saved: its checksum is another', os.fspath(path))
    return data


# ---- what metadata name


class _Placeholder:
    """In the place of whatever a pickle makes: it has attributes and items, and does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass


class _NamesUnpickler(pickle.Unpickler):
    """Nothing that the file names is imported or run."""

    def find_class(self, module: str, name: str) -> Any:
        return _Placeholder


def names_in(path: Any) -> set[str]:
    """The files that these metadata name; none where there are no metadata, or what is there is none."""
    try:
        data = check_crc(bytes(content(path)), path, True)
        infos = _NamesUnpickler(io.BytesIO(data)).load().storage_data.values()
        return {os.path.basename(info.relative_path) for info in infos
                if os.path.basename(info.relative_path) == info.relative_path}
    except Exception:  # a pickle that is damaged may raise anything
        return set()


# ---- saves that are under way


class _SaveLock:
    """Tells others in this folder that there are data which metadata will name."""

    def __init__(self, folder: str, rank: str) -> None:
        self._fd = -1
        while self._fd < 0:
            self._path = os.path.join(folder, f'.saving{rank}.{uuid.uuid4().hex}')
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with contextlib.suppress(OSError):  # where there are no locks nobody can tell: it counts as alive
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._fd).st_nlink:  # until it was locked it looked like a dead one
                os.close(self._fd)
                self._fd = -1
        self._pid = os.getpid()

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)  # for our children, too
        os.close(fd)

    def __del__(self) -> None:
        self.release()


_thread_saves = threading.local()  # by folder: torch begins and ends a save in one thread


def _save_locks() -> dict[str, _SaveLock]:
    found: dict[str, _SaveLock] = _thread_saves.__dict__.setdefault('saves', {})
    return found


def begin_save(folder: Any, rank: str) -> None:
    """Before data are written; rank: of one that publishes its own metadata, else ''."""
    end_save(folder)
    if not is_uri(folder):
        _save_locks()[os.fspath(folder)] = _SaveLock(os.fspath(folder), rank)


def end_save(folder: Any) -> None:
    saving = _save_locks().pop(os.fspath(folder), None)
    if saving is not None:
        saving.release()


def _is_stale(path: str) -> bool:
    """Then it is removed, too."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return error.errno == errno.ENOENT
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError as error:
        return error.errno == errno.ENOENT
    finally:
        os.close(fd)
    return True


def _has_other_saves(folder: str, found: set[str], rank: str) -> bool:
    """Is another save under way, whose data may be among these?"""
    alive = False
    for name in found:
        saving = _SAVING.fullmatch(name)
        if saving and (not rank or saving[1] in ('', rank)):
            alive |= not _is_stale(os.path.join(folder, name))
    return alive


# ---- what goes


def _list_folder(folder: str) -> dict[str, float]:
    """Names, and when the objects were made."""
    if is_uri(folder):
        return {os.path.basename(uri): when for uri, _, when, _, _ in s3.client().entries(f'{folder}/')}
    return dict.fromkeys(os.listdir(folder), 0)


def require_files(folder: Any, names: set[str]) -> None:
    """Metadata must not name what is not there."""
    missing = names - set(_list_folder(os.fspath(folder)))
    if missing:
        path = os.path.join(os.fspath(folder), min(missing))
        raise FileNotFoundError(errno.ENOENT, 'it was removed while the checkpoint was being saved', path)


def remove_old(path: Any, before: set[str], since: float, rank: str) -> None:
    """When these metadata are published: what only the old ones named, and what saves that were killed have left.

    before: what the old ones named; since: when they were made, where they are an object.  No process can be asked
    who makes an object: what no metadata name is left alone until it is older than the metadata before these.
    """
    folder = os.path.dirname(os.fspath(path))
    listed = _list_folder(folder)  # first: who has data here now is alive below, or has published, or is dead
    if is_uri(folder):
        left = {name for name, when in listed.items() if when < since}
    else:
        end_save(folder)
        left = set() if _has_other_saves(folder, set(listed), rank) else set(listed)
    named = names_in(path)  # which may be another's by now
    if not named:
        return  # nobody can tell
    for one in listed:
        if one.endswith('.metadata'):
            named |= names_in(os.path.join(folder, one))
    gone = {name for name in left if _OURS.fullmatch(name) and name.startswith(f'__{rank}_' if rank else '__')}
    gone |= {name for name in before if name.endswith(SUFFIX)} | {f'{name}.crc' for name in before}
    gone -= named | {f'{name}.crc' for name in named}
    remove: Any = s3.delete if is_uri(folder) else os.unlink
    for name in gone & set(listed):
        with contextlib.suppress(OSError):
            remove(os.path.join(folder, name))


def time_of(path: Any) -> float:
    """When an object was; 0 of one that is not there, and of files."""
    if is_uri(path):
        with contextlib.suppress(OSError):
            return float(s3.client().core.stat(path)[1])
    return 0
