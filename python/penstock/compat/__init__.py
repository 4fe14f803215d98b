# SPDX-License-Identifier: Apache-2.0
"""Names of other packages, on penstock.

StreamingCheckpointing is that of the MLPerf storage benchmark: a checkpoint that is made while
it is written, and read back, in a few buffers.  Generator, generate_buffer and create_bytearrays are
dgen's.  Arguments and results are theirs; what they got wrong is right here, see docs/python.md.
"""
import collections
import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._range_reader import is_uri
from .._penstock import Content, Future, Handle, Memory, WriterCore

__all__ = ['Generator', 'StreamingCheckpointing', 'create_bytearrays', 'generate_buffer']

_MIB = 1 << 20
_GIB = 1 << 30
_SHARE = 4 * _MIB  # what a thread is given at least
_OF_FILES = 'file', 'direct_fs'
_OF_STORES = 's3dlio', 'minio', 's3torchconnector'  # whose client is ours here

# ---- dgen


def create_bytearrays(count: int, size: int) -> list[bytearray]:
    """So many of this size, zeroed; their memory is there when it is first written to."""
    return [bytearray(size) for _ in range(count)]


class Generator:
    """Content of `size` bytes, in chunks; the same for the same seed, however it is cut up.

    Of dedup_ratio blocks of 4 KiB one is new, and zstd finds compress_ratio in each; fractions
    too.  numa_mode, numa_node and block_size are accepted, and change nothing.
    """

    def __init__(self, size: int, dedup_ratio: float = 1.0, compress_ratio: float = 1.0,
                 numa_mode: str = 'auto', max_threads: int | None = None,
                 numa_node: int | None = None, chunk_size: int | None = None,
                 block_size: int | None = None, seed: int | None = None) -> None:
        if size < 0:
            raise ValueError(f'size: {size} is negative')
        self.size, self.chunk_size = size, chunk_size or 32 * _MIB
        self._ratios = {'dedup': float(dedup_ratio), 'compress': float(compress_ratio)}
        self._threads = max_threads or len(os.sched_getaffinity(0))
        self._at = 0
        self.set_seed(seed)

    def set_seed(self, seed: int | None = None) -> None:
        """Other content from here on; None: one that nobody has had."""
        self.seed = int.from_bytes(os.urandom(8), 'little') if seed is None else seed % (1 << 64)
        self._content = Content(self.seed, **self._ratios)

    def reset(self) -> None:
        self._at = 0

    def is_complete(self) -> bool:
        return self._at >= self.size

    def fill_chunk(self, buffer: Any) -> int:
        """The next bytes, as many as are left and have room; returns how many."""
        view = memoryview(buffer).cast('B')[:self.size - self._at]
        self.fill(view, self._at)
        self._at += len(view)
        return len(view)

    def fill(self, view: memoryview, offset: int) -> None:
        """These bytes of the content, by all threads."""
        share = max(_SHARE, -(-len(view) // self._threads))
        parts = range(0, len(view), share)
        if len(parts) == 1:
            self._content.fill(view, 0, offset)
        elif parts:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(lambda at: self._content.fill(view[at:at + share], 0, offset + at), parts))

    def check(self, view: memoryview, offset: int) -> int:
        """How many of the bytes are right, up to the first that is not."""
        return self._content.check(view, 0, offset)

    def get_chunk(self, length: int | None = None) -> bytearray:
        chunk = bytearray(min(self.chunk_size if length is None else length, self.size - self._at))
        self.fill_chunk(chunk)
        return chunk


def generate_buffer(size: int, dedup_ratio: float = 1.0, compress_ratio: float = 1.0,
                    seed: int | None = None) -> bytearray:
    return Generator(size, dedup_ratio, compress_ratio, seed=seed).get_chunk(size)


# ---- StreamingCheckpointing


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Failures of descriptors are those of this file."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, int):
            error.filename = path
        raise


class _Clock:
    """How long there was at least one transfer under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way, self._since = 0, 0.0
        self.seconds = 0.0

    def begin(self, future: Future | None = None) -> None:
        with self._lock:
            if not self._under_way:
                self._since = time.perf_counter()
            self._under_way += 1
        if future is not None:
            future.add_done_callback(lambda _: self.end())

    def end(self) -> None:
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self.seconds += time.perf_counter() - self._since


class StreamingCheckpointing:
    """Checkpoints of any size in num_buffers buffers of chunk_size.

    save() makes content in one buffer while others are being written; each goes back to be filled
    when its bytes are in the file, and not before.  The file appears when it is complete and durable.
    Beside it lie checksums, as beside all that penstock saves.  An object is sent in parts by the pool of its
    writer, which has half the buffers, or two; with part_size or max_in_flight so many of that size.
    load() reads in pieces, all buffers in flight, and compares the content where it knows it.
    """

    def __init__(self, chunk_size: int = 32 * _MIB, num_buffers: int = 4, use_dgen: bool = True,
                 backend: str | None = None, use_direct_io: bool | None = None,
                 fadvise_mode: str = 'none', num_parallel_readers: int = 8,
                 read_chunk_size: int | None = None, seed: int = 1, *, part_size: int | None = None,
                 max_in_flight: int | None = None, num_parallel_uploads: int | None = None,
                 **kwargs: Any) -> None:
        for name, value, least in (('chunk_size', chunk_size, 1), ('num_buffers', num_buffers, 1),
                                   ('num_parallel_readers', num_parallel_readers, 1), ('part_size', part_size, 5 * _MIB),
                                   ('max_in_flight', max_in_flight, 2), ('num_parallel_uploads', num_parallel_uploads, 2)):
            if value is not None and value < least:
                raise ValueError(f'{name}: {value} is less than {least}')
        if max_in_flight is not None and num_parallel_uploads is not None:
            raise ValueError('max_in_flight, num_parallel_uploads: two names of one thing')
        if fadvise_mode not in ('none', 'sequential', 'dontneed'):
            raise ValueError(f"fadvise_mode: {fadvise_mode!r} is not 'none', 'sequential' or 'dontneed'")
        if backend not in (None, *_OF_FILES, *_OF_STORES):
            raise ValueError(f'backend: {backend!r} is none of {", ".join((*_OF_FILES, *_OF_STORES))}')
        if kwargs:
            raise TypeError(f'{", ".join(sorted(kwargs))}: of a backend that is not here')
        self._backend = backend
        direct = True if backend == 'direct_fs' else use_direct_io
        self._direct = 'auto' if direct is None else 'always' if direct else 'never'
        self.chunk_size, self.num_buffers = chunk_size, max(num_buffers, 2)
        self.use_dgen, self.fadvise_mode, self.seed = use_dgen, fadvise_mode, seed
        self.num_parallel_readers = num_parallel_readers
        self.read_chunk_size = read_chunk_size or chunk_size
        self._part, self._in_flight = part_size, max_in_flight or num_parallel_uploads

    # -- save

    def save(self, filepath: str | os.PathLike[str], total_size_bytes: int,
             data_generator: Callable[[Any, int], object] | None = None) -> dict[str, Any]:
        """Write so many bytes; data_generator(buffer, size) fills a buffer instead of dgen."""
        total_bytes, path = total_size_bytes, self._path(filepath, total_size_bytes)
        if data_generator is None and not self.use_dgen:
            raise ValueError('data_generator: one is needed where use_dgen is false')
        fill = self._filler(total_bytes, data_generator)
        if not is_uri(path):
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        start, clock, gen = time.perf_counter(), _Clock(), 0.0
        with _naming(path), self._target(path, clock, total_bytes) as target:
            for buffer, offset in self._buffers(target, total_bytes):
                began = time.perf_counter()
                fill(buffer, offset)
                gen += time.perf_counter() - began
            began = time.perf_counter()
            clock.begin()
            target.output.commit()
            clock.end()
            stats = target.stats()
        close = time.perf_counter() - began
        if self.fadvise_mode == 'dontneed' and not is_uri(path):
            _drop(path)
        return _save_result(gen, clock.seconds, close, time.perf_counter() - start, total_bytes,
                            self.chunk_size, stats)

    def _filler(self, total: int, generator: Callable[[Any, int], object] | None) -> Any:
        if generator is not None:
            return lambda buffer, offset: generator(buffer, len(buffer))
        return Generator(total, seed=self.seed).fill

    def _target(self, path: str, clock: _Clock, total: int) -> '_File | _Object':
        if is_uri(path):
            return _Object(path, clock, total, *self._pool())
        return _File(path, clock, self._direct, self.fadvise_mode == 'dontneed')

    def _pool(self) -> tuple[int, int]:
        """Memory of an object's writer and the number of its parts."""
        memory = self.chunk_size * max(self.num_buffers // 2, 2)
        if self._part is None and self._in_flight is None:
            return memory, 0
        part = self._part or max(self.chunk_size, 5 * _MIB)
        number = min(max(self._in_flight or memory // part, 2), 64)
        return part // _MIB * _MIB * number, number

    def _buffers(self, target: '_File | _Object', total: int) -> Iterator[tuple[memoryview, int]]:
        """A buffer to fill for each chunk; when the next is asked for, it is written."""
        number = self.num_buffers if isinstance(target, _File) else max(self.num_buffers // 2, 2)
        free: list[Any] = [Memory(min(self.chunk_size, total)) for _ in range(number)]
        busy: collections.deque[tuple[Any, Any]] = collections.deque()
        for offset in range(0, total, self.chunk_size):
            if not free:
                future, memory = busy.popleft()
                future.result()
                free.append(memory)
            memory = free.pop()
            view = memoryview(memory)[:min(self.chunk_size, total - offset)]
            yield view, offset
            busy.append((target.put(view, offset), memory))
        for future, _ in busy:
            future.result()

    # -- load

    def load(self, filepath: str | os.PathLike[str], total_size_bytes: int,
             verify: bool = False) -> dict[str, Any]:
        """Read so many bytes; verify: they must be what save() of the same seed has made."""
        total_bytes, path = total_size_bytes, self._path(filepath, total_size_bytes)
        content = Generator(total_bytes, seed=self.seed) if verify else None
        start, clock, size = time.perf_counter(), _Clock(), min(self.read_chunk_size, total_bytes)
        offsets = collections.deque(range(0, total_bytes, size))
        chunks = len(offsets)
        busy: collections.deque[tuple[Future, memoryview, int]] = collections.deque()
        with (_naming(path), Handle(direct=self._direct) as handle,  # type: ignore[arg-type]
              self._advised(path) as named, handle.open(named) as file):
            room: list[Any] = [Memory(size) for _ in range(min(self.num_parallel_readers, chunks))]
            free = [memoryview(memory) for memory in room]
            while offsets or busy:
                while offsets and free:
                    at, view = offsets.popleft(), free.pop()
                    view = view[:min(size, total_bytes - at)]
                    future = handle.read_async(view, file, at)
                    clock.begin(future)
                    busy.append((future, view, at))
                future, view, at = busy.popleft()
                future.result()
                _compare(content, view, at, path)
                free.append(view)
            stats = handle.stats()
        return {'io_time': clock.seconds, 'total_time': time.perf_counter() - start,
                'total_bytes': total_bytes, 'chunks': chunks,
                'io_throughput_gbps': _rate(total_bytes, clock.seconds),
                'backend_stats': _stats(stats, path)}

    @contextlib.contextmanager
    def _advised(self, path: str) -> Iterator[str | int]:
        """What a handle opens: of a file a descriptor, whose pages are treated as we were told."""
        if is_uri(path):
            yield path
            return
        with open(path, 'rb', 0) as file:
            if self.fadvise_mode == 'sequential':
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            yield file.fileno()
            if self.fadvise_mode == 'dontneed':
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _path(self, uri: str | os.PathLike[str], total: int) -> str:
        if total <= 0:
            raise ValueError(f'total_size_bytes: {total} is not more than 0')
        path = os.fspath(uri)
        scheme, colon, rest = path.partition('://')
        scheme = scheme.lower()
        if colon and scheme not in ('file', 'direct', 's3'):
            raise ValueError(f'filepath: {path!r}: only paths, file://, direct:// and s3:// are known here')
        if self._backend and (self._backend in _OF_STORES) != is_uri(path):
            raise ValueError(f'filepath: {path!r} is not for backend {self._backend!r}')
        return rest if colon and scheme != 's3' else path


class _File:
    """Written by a handle, all buffers in flight; committed by what commits all checkpoints."""

    def __init__(self, path: str, clock: _Clock, direct: str, drop: bool) -> None:
        self.output = WriterCore(path, outside=True)
        self._fd, self._clock = self.output.fileno(), clock
        self._drop = drop and direct == 'never'
        self._handle = Handle(direct=direct)  # type: ignore[arg-type]
        self._file = self._handle.open(self._fd)

    def put(self, view: memoryview, offset: int) -> Future:
        self.output.sum(view, offset)
        future = self._handle.write_async(view, self._file, offset)
        self._clock.begin(future)
        if self._drop:  # which also begins to write what is dirty
            os.posix_fadvise(self._fd, 0, offset, os.POSIX_FADV_DONTNEED)
        return future

    def stats(self) -> dict[str, Any]:
        return _stats(self._handle.stats(), '')

    def __enter__(self) -> '_File':
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._file.close()
            self._handle.__exit__(*error)  # type: ignore[arg-type]
        finally:
            self.output.abort()  # which does nothing after commit()


class _Object:
    """Sent by its writer, which waits where its pool is full: not the thread that fills."""

    def __init__(self, uri: str, clock: _Clock, total: int, memory: int, buffers: int) -> None:
        self.output = WriterCore(uri, size=total, memory=max(memory, 2 * _MIB), buffers=buffers)
        self._clock, self._bytes = clock, 0
        self._thread = ThreadPoolExecutor(1)

    def put(self, view: memoryview, offset: int) -> Any:
        return self._thread.submit(self._write, view)

    def _write(self, view: memoryview) -> None:
        self._clock.begin()
        try:
            self._bytes += self.output.write(view)
        finally:
            self._clock.end()

    def stats(self) -> dict[str, Any]:
        return {'backend': 's3', 'bytes_written': self._bytes}

    def __enter__(self) -> '_Object':
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)
        self.output.abort()


def _stats(stats: dict[str, Any], path: str) -> dict[str, Any]:
    backend = 's3' if is_uri(path) else 'direct_fs' if stats['blocks_direct'] else 'file'
    return {'backend': backend, **stats}


def _drop(path: str) -> None:
    """Out of the page cache: it is clean, so all of it goes."""
    with open(path, 'rb', 0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _compare(content: Generator | None, view: memoryview, at: int, path: str) -> None:
    good = len(view) if content is None else content.check(view, at)
    if good < len(view):
        raise OSError(errno.EBADMSG, f'byte {at + good} is not what was written', path)


def _rate(nbytes: int, seconds: float) -> float:
    return nbytes / _GIB / seconds if seconds > 0 else 0.0


def _save_result(gen: float, io: float, close: float, total: float, nbytes: int, chunk: int,
                 stats: dict[str, Any]) -> dict[str, Any]:
    gen_rate, io_rate = _rate(nbytes, gen), _rate(nbytes, io)
    return {'gen_time': gen, 'io_time': io, 'close_time': close, 'total_time': total,
            'total_bytes': nbytes, 'chunks': -(-nbytes // chunk),
            'gen_throughput_gbps': gen_rate, 'io_throughput_gbps': io_rate,
            'throughput_ratio': gen_rate / io_rate if io_rate else 0.0,
            'pipeline_overhead_pct': max(0.0, (total - max(gen, io)) / total * 100),
            'bottleneck': 'I/O' if io > gen else 'Generation', 'backend_stats': stats}
