# SPDX-License-Identifier: Apache-2.0
"""penstock.compat: StreamingCheckpointing and dgen, with what was wrong in them put right."""
import errno
import os
import random

from kit import MIB, PAGE, case, cases, content, folder, make, path, raises, run

from penstock._range_reader import Reader
from penstock.compat import Generator, StreamingCheckpointing, create_bytearrays, generate_buffer

SAVED = {'gen_time', 'io_time', 'close_time', 'total_time', 'total_bytes', 'chunks', 'gen_throughput_gbps',
         'io_throughput_gbps', 'throughput_ratio', 'pipeline_overhead_pct', 'bottleneck', 'backend_stats'}
LOADED = {'io_time', 'total_time', 'total_bytes', 'chunks', 'io_throughput_gbps', 'backend_stats'}


@case
def a_checkpoint_is_saved_and_loaded_with_the_results_of_the_original():
    for direct in None, False:
        ckpt = StreamingCheckpointing(chunk_size=MIB, num_buffers=4, use_direct_io=direct)
        name, total = path('ckpt'), 9 * MIB + 12345
        saved = ckpt.save(filepath=name, total_size_bytes=total)
        assert set(saved) == SAVED and saved['chunks'] == 10 and saved['total_bytes'] == total
        assert os.path.getsize(name) == total and saved['bottleneck'] in ('I/O', 'Generation')
        assert 0 < saved['io_time'] <= saved['total_time'] and 0 <= saved['pipeline_overhead_pct'] <= 100
        loaded = ckpt.load(f'File://{name}', total, verify=True)
        assert set(loaded) == LOADED and loaded['chunks'] == 10 and loaded['total_bytes'] == total


@case
def a_buffer_is_not_filled_again_before_its_bytes_are_written():
    """The original overwrites buffers that wait to be written, where writing is slow."""
    name, total, chunk = path('slow'), 64 * PAGE, PAGE
    number = iter(range(total // chunk))

    def fill(buffer, size):
        buffer[:] = bytes([next(number)]) * size

    StreamingCheckpointing(chunk_size=chunk, num_buffers=2).save(name, total, data_generator=fill)
    assert content(name) == b''.join(bytes([i]) * chunk for i in range(total // chunk))


@case
def damage_is_found_where_it_is():
    ckpt = StreamingCheckpointing(chunk_size=MIB, num_buffers=2)
    name = path('damage')
    ckpt.save(name, 5 * MIB)
    with open(name, 'r+b') as f:
        f.seek(3 * MIB + 77)
        byte = f.read(1)[0]
        f.seek(3 * MIB + 77)
        f.write(bytes([byte ^ 1]))
    ckpt.load(name, 5 * MIB)
    error = raises(OSError, ckpt.load, name, 5 * MIB, verify=True)
    assert error.errno == errno.EBADMSG and str(3 * MIB + 77) in str(error), error


@case
def checksums_lie_beside_the_file_and_are_those_of_the_file():
    for direct in None, False:
        for mode in 'none', 'dontneed':
            name = path('sums')
            for total in 5 * MIB + 77, 3 * MIB:
                StreamingCheckpointing(chunk_size=MIB + PAGE, use_direct_io=direct, fadvise_mode=mode).save(name, total)
                with Reader(name, verify='require') as file:
                    file.check()
            with open(name, 'r+b') as f:
                f.write(b'xyz')
            with Reader(name) as file:
                assert raises(OSError, file.check).errno == errno.EBADMSG


@case
def a_save_that_fails_leaves_the_old_file():
    name = make(b'old')

    def fail(buffer, size):
        raise ZeroDivisionError

    raises(ZeroDivisionError, StreamingCheckpointing(chunk_size=MIB).save, name, 10 * MIB, fail)
    assert content(name) == b'old' and not [n for n in os.listdir(folder) if '.penstock-' in n]


@case
def what_makes_no_sense_is_refused():
    ckpt = StreamingCheckpointing()
    for total in 0, -1:
        raises(ValueError, ckpt.save, path(), total)
        raises(ValueError, ckpt.load, path(), total)
    for uri in 'gs://bucket/key', 'az://x/y':
        raises(ValueError, ckpt.save, uri, 100)
    raises(ValueError, StreamingCheckpointing(backend='minio').save, path(), 100)
    raises(ValueError, StreamingCheckpointing(backend='file').save, 's3://bucket/key', 100)
    raises(ValueError, StreamingCheckpointing, fadvise_mode='perhaps')
    raises(ValueError, StreamingCheckpointing, chunk_size=0)
    raises(ValueError, StreamingCheckpointing, backend='floppy')
    raises(ValueError, StreamingCheckpointing, part_size=5)
    raises(ValueError, StreamingCheckpointing, max_in_flight=1)
    raises(ValueError, StreamingCheckpointing, max_in_flight=4, num_parallel_uploads=4)
    raises(TypeError, StreamingCheckpointing, use_multi_endpoint=True)
    raises(ValueError, StreamingCheckpointing(use_dgen=False).save, path(), 100)
    short = make(b'short')
    error = raises(OSError, ckpt.load, short, 100)
    assert (error.errno, error.filename) == (errno.ENODATA, short) and short in str(error)
    raises(FileNotFoundError, ckpt.load, path('no'), 100)


@case
def every_mode_of_fadvise_saves_and_loads():
    for mode in 'none', 'sequential', 'dontneed':
        for direct in None, False:
            ckpt = StreamingCheckpointing(chunk_size=MIB, fadvise_mode=mode, use_direct_io=direct)
            name = path(mode)
            ckpt.save(name, 3 * MIB)
            ckpt.load(name, 3 * MIB, verify=True)


@case
def content_does_not_depend_on_how_it_is_cut_up():
    seed = random.randrange(1 << 32)
    print(f'# seed {seed}')
    rng = random.Random(seed)
    whole = generate_buffer(300001, seed=5)
    gen = Generator(300001, seed=5, max_threads=3)
    parts = []
    while not gen.is_complete():
        part = bytearray(rng.randrange(1, 50000))
        n = gen.fill_chunk(part)
        parts.append(bytes(part[:n]))
    assert b''.join(parts) == whole and gen.fill_chunk(bytearray(10)) == 0
    gen.reset()
    assert bytes(gen.get_chunk(1000)) == whole[:1000]
    gen.set_seed(6)
    gen.reset()
    assert bytes(gen.get_chunk(1000)) != whole[:1000]
    assert len(Generator(10, chunk_size=100).get_chunk()) == 10
    assert generate_buffer(4096) != generate_buffer(4096), 'without a seed it is new each time'
    large = Generator(20 * MIB, seed=5, max_threads=2).get_chunk(20 * MIB)
    assert large[:300001] == whole


@case
def ratios_hold():
    raw = generate_buffer(8 * MIB, dedup_ratio=2.5, seed=3)
    blocks = [bytes(raw[i:i + 4096]) for i in range(0, len(raw), 4096)]
    assert abs(len(blocks) / len(set(blocks)) / 2.5 - 1) < 0.02
    raises(ValueError, Generator, 100, compress_ratio=1000)
    raises(ValueError, Generator, -1)


@case
def bytearrays_are_as_many_and_as_large_as_asked_for():
    arrays = create_bytearrays(3, 1000)
    assert [len(a) for a in arrays] == [1000] * 3 and len({id(a) for a in arrays}) == 3
    arrays[0][0] = 1
    assert arrays[1][0] == 0


run(*cases)
