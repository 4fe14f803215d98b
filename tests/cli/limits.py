#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits and odd surroundings: sizes, open files, what a machine lacks.  limits.py PENSTOCK ROOT"""
import os
import resource
import sys

# Instead of this folder, whose names hide modules of Python's own: io, types.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
import tap
from clikit import call
from replaykit import fio_log, refused, write_rows
from tap import in_folder

TARGETS = ['memory'], ['x.slab', '--layout', 'slab'], ['folder'], ['null']


# --------------------------------------------------------------------- sizes

@in_folder
def rows_beyond_what_storage_can_hold_are_refused():
    for size in 1 << 62, (1 << 63) - 1, (1 << 64) - 1:
        write_rows('t.csv', f'W a {size}')
        for target in TARGETS:
            for more in [], ['--dry-run']:
                refused('t.csv', *more, '--target', *target, says='t.csv: line 2: ends at more than 2^60 bytes')
        done = call('replay', 't.csv', '--no-check', '--target', 'folder')
        assert done.returncode and 'line 2: ends at' in done.err, done.err


@in_folder
def objects_that_exceed_all_storage_together_are_refused():
    write_rows('t.csv', '\n'.join(f'W o{i} {1 << 60}' for i in range(20)))
    for target in TARGETS[:3]:
        for more in [], ['--dry-run']:
            refused('t.csv', *more, '--target', *target, says='more than 2^62 bytes at once')
    write_rows('t.csv', f'W a {1 << 60}')
    for target in TARGETS[:3]:
        refused('t.csv', '--target', *target, says='1 EiB', status=1)


@in_folder
def a_fio_log_that_reaches_too_far_is_told():
    for offset, size in (1 << 62, 4096), ((1 << 64) - 4096, 4096), (4096, 1 << 62):
        fio_log('t.log', 2, [('f', 'write', offset, size)])
        for target in TARGETS[:3]:
            refused('t.log', '--target', *target, says='2^60')


@in_folder
def a_tier_larger_than_any_storage_is_refused():
    for size in '4294967296', '8589934592', '1000000000000':
        for layout in 'npy', 'slab':
            done = call('kv', '--storage-capacity-gb', size, '--folder', 'c', '--layout', layout, '--cpu-mem-gb', '0',
                        '--gpu-mem-gb', '0', '--model', 'tiny-1b', '--num-users', '1', '--runtime', '1')
            assert done.returncode == 1 and 'needed' in done.err, (done.returncode, done.out, done.err)


# ---------------------------------------------------------------- open files

def with_files(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@in_folder
def many_operations_in_flight_need_no_more_files_than_there_may_be():
    write_rows('t.csv', '\n'.join(f'W o{i} {5000 + i}' for i in range(600)) + '\n' +
               '\n'.join(f'R o{i} {5000 + i}' for i in range(600)))
    for soft, hard, told in (64, 4096, False), (128, 128, True):
        for layout in 'files', 'hashed':
            done = call('replay', 't.csv', '--pace', '1000000', '--in-flight', '1024', '--target', 'd', '--layout', layout,
                        '--fresh', preexec_fn=with_files(soft, hard))
            assert done.returncode == 0 and '1200 operations' in done.out and 'error' not in done.out, (done.out, done.err)
            assert ('limit of open files' in done.err) == told, done.err


@in_folder
def users_of_a_cache_need_no_more_files_than_there_may_be():
    done = call('kv', '--folder', 'c', '--model', 'tiny-1b', '--num-users', '200', '--runtime', '2', '--cpu-mem-gb', '0', '--gpu-mem-gb', '0',
                '--storage-capacity-gb', '1', preexec_fn=with_files(64, 1024))
    assert done.returncode == 0, (done.out, done.err)
    for files in 64, 200:
        done = call('kv', '--folder', 'c', '--model', 'tiny-1b', '--num-users', '2000', '--runtime', '2', '--cpu-mem-gb', '0', '--gpu-mem-gb', '0',
                    '--storage-capacity-gb', '1', '--gen', 'none', preexec_fn=with_files(files, files))
        assert done.returncode == 0 and 'Too many open files' not in done.out + done.err, (done.out, done.err)


# ------------------------------------------------------------- surroundings

@in_folder
def a_working_folder_that_is_gone_is_told():
    os.mkdir('gone')
    here = os.getcwd()
    os.chdir('gone')
    try:
        os.rmdir('../gone')
        done = call('kv', '--folder', 'x', '--model', 'tiny-1b', '--num-users', '1', '--runtime', '1')
        assert done.returncode == 1 and "--folder: 'x': No such file" in done.err, (done.returncode, done.err)
    finally:
        os.chdir(here)


tap.run_all(globals())
