#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock io --gpu` and the GPU section of `penstock info`, with stand-ins for CUDA and cuFile.

    cli.py PENSTOCK ROOT
"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import json
import subprocess

import resultcheck
import tap
from tap import folder

resultcheck.need('jsonschema')

PENSTOCK, ROOT = map(os.path.abspath, sys.argv[1:3])
ENGINES = ['io_uring', 'libaio', 'threads']


def run(*args, status=0, cufile='', more=None):
    env = {**os.environ, 'STANDIN_CUFILE': cufile, **(more or {})}
    done = subprocess.run([PENSTOCK, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=env)
    assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def result(*args, **more):
    out, _ = run('io', '--size', '3M', *args, '--json', '-', **more)
    r = json.loads(out)
    resultcheck.check(ROOT, r)
    return r


def ran(r):
    return r['series'][0]['ran']


def stats(r):
    return r['io']['workers'][0]['stats']


def passed(r):
    return r['series'][0]['verified_bytes'] > 0


def without_gpu():
    """What LD_LIBRARY_PATH would have been without the stand-ins."""
    paths = os.environ['LD_LIBRARY_PATH'].split(':')
    return {'LD_LIBRARY_PATH': ':'.join(p for p in paths if not os.path.exists(p + '/libcuda.so.1'))}


def usable(engine):
    out, _ = run('info', '--json', '-')
    return any(e['name'] == engine and e['usable'] for e in json.loads(out)['engines'])


def every_engine_moves_gpu_memory():
    with folder():
        for engine in filter(usable, ENGINES):
            for read in [], ['--read-only']:
                for memory in 'own', 'odd':
                    r = result('--gpu', '--engine', engine, '--verify', '--memory', memory, *read)
                    assert passed(r) and ran(r)['memory'] == 'gpu'
                    assert r['io']['gpu_path'] == ['pinned_pool'] and ran(r)['path'] == 'pinned_pool', ran(r)
                    assert r['settings']['gpu'] is True and r['settings']['gds'] is False
                    assert stats(r)['blocks_pinned_pool'] > 0 and stats(r)['blocks_cufile'] == 0
                    assert 0 < stats(r)['pinned_pool_bytes'] <= 256 << 20


def the_text_names_gpu_and_way():
    with folder() as f:
        out, err = run('io', '--size', '1M', '--gpu', '1')
        assert err == '', err
        assert 'Configuring 1 gpu to folder mapping\n[0]: gpu 1 <----> ' in out, out
        assert 'memory:     GPU 1 (Stand-in 1 at 0000:02:00.0), by the pinned pool (' in out
        out, _ = run('io', '--size', '1M', '--gpu', '--gds', '--target', f)
        assert 'GPU 0 (Stand-in 0 at 0000:01:00.0), registered, by cuFile in compatibility mode\n' \
            in out, out
        assert 'engine:     cufile' in out and 'blocks of 16 MiB' in out, out
        assert os.listdir(f) == []


def cufile_in_compatibility_mode():
    with folder():
        for read in [], ['--read-only']:
            r = result('--gpu', '--gds', '--verify', *read)
            assert ran(r)['engine'] == 'cufile' and r['io']['gpu_path'] == ['cufile_compat']
            assert ran(r)['path'] == 'cufile', ran(r)
            assert ran(r)['registered'] is True and ran(r)['fallbacks'] == []
            assert r['settings']['gds'] is True
            assert stats(r)['blocks_cufile'] > 0 and stats(r)['pinned_pool_bytes'] == 0
        r = result('--gpu', '--use_gds', '--verify', '--memory', 'odd')
        assert ran(r)['registered'] is False and passed(r)


def refused_files_fall_back_to_the_pool():
    with folder():
        r = result('--gpu', '--gds', '--verify', cufile='refuse_handle=5027')
        assert r['io']['gpu_path'] == ['pinned_pool'] and ran(r)['fallbacks'] == ['cufile'], ran(r)
        assert '(5027)' in ran(r)['fallback_why'] and '(5027)' in stats(r)['fallback_why'], ran(r)
        out, _ = run('io', '--size', '1M', '--gpu', '--gds', cufile='refuse_driver=5004')
        assert 'cufile (' in out and 'CU_FILE_DRIVER_VERSION_MISMATCH (5004)' in out, out


def an_error_of_cufile_has_its_name():
    with folder() as f:
        _, err = run('io', '--size', '1M', '--gpu', '--gds', '--target', f, status=1,
                     cufile='fail_nth=2,fail_with=-5030')
        assert 'cuFileWrite: CU_FILE_INTERNAL_ERROR (5030)' in err and err.count('\n') == 1, err
        assert os.listdir(f) == []


def workers_take_devices_in_turn():
    with folder():
        r = result('--gpu', '--workers', '3')
        assert [w['device'] for w in r['io']['workers']] == [0, 1, 0]
        r = result('--gpu', '1', '--workers', '2')
        assert [w['device'] for w in r['io']['workers']] == [1, 1]
        assert r['io']['workers'][0]['gpu']['name'] == 'Stand-in 1', r['io']['workers'][0]['gpu']
        r = result('--gpu', '--folder-to-device-mapping', '.:1', '.:0')
        assert [w['device'] for w in r['io']['workers']] == [1, 0]
        # without --gpu the device is a label
        r = result('--folder-to-device-mapping', '.:7')
        assert r['io']['workers'][0]['device'] == 7 and r['io']['gpu_path'] is None
        assert r['io']['workers'][0]['gpu'] is None


def a_device_that_is_not_there_is_status_3():
    with folder() as f:
        for args in ['--gpu', '2'], ['--gpu', '--folder-to-device-mapping', '.:9']:
            out, err = run('io', '--size', '64K', *args, status=3)
            assert out == '' and 'device' in err and err.count('\n') == 1, err
        _, err = run('io', '--size', '64K', '--gpu', '--gds', status=3, more=without_gpu())
        assert 'libcuda.so.1' in err, err
        assert os.listdir(f) == []


def the_limit_is_measured_beside_a_gpu():
    with folder():
        for read in [], ['--read-only']:
            r = result('--gpu', '--measure-limit', '--verify', *read)
            assert r['series'][0]['limit']['bytes_per_sec'] > 0 and passed(r), r['series'][0]['limit']


def save_program(name, text):
    with open(name, 'w') as f:
        f.write('#!/bin/sh\n' + text)
    os.chmod(name, 0o755)


def gdsio_has_turns_where_it_is_installed():
    """With a stand-in that notes its arguments and prints what the real one prints."""
    with folder():
        os.mkdir('bin')
        os.mkdir('data')
        save_program('bin/fio', 'exit 1')
        save_program('bin/gdsio', f"""echo "$@" >> {os.getcwd()}/turns; [ -s tensor-0 ] || exit 1
echo "IoType: READ XferType: GPUD Threads: 1 DataSetSize: 64/64(KiB) IOSize: 64(KiB) Throughput: 2.000000 GiB/sec, Avg_Latency: 30.500000 usecs ops: 1"
""")
        args = ['bench', '--gpu', '--target', 'data', '--size', '64K', '-n', 20, '--no-limit', '--compare-fio', '--rewrite']
        path = {'PATH': os.getcwd() + '/bin:' + os.environ['PATH']}
        out, _ = run(*args, '--json', 'r.json', more=path)
        r = json.load(open('r.json'))
        resultcheck.check(ROOT, r)
        assert [g['series'] for g in r['gdsio']] == ['write 64K', 'read 64K'], r['gdsio']
        for g, s in zip(r['gdsio'], r['series']):
            assert g['bytes_per_sec'] == 2 << 30 and abs(g['latency_mean'] - 30.5e-6) < 1e-12 and g['why_not'] is None, g
            assert g['ratio'] > 0 and g['ours_bytes_per_sec'] > 0 and 'one file' in g['differs'], g
            assert g['command_line'][0] == 'gdsio', g
        assert 'gdsio:      read 64K: 2147.5 MB/s, ours' in out, out
        with open('turns') as f:
            turns = f.read().splitlines()
        assert '-d 0 -w 1 -s 65536 -i 65536 -x 2 -I 1 -f tensor-' in turns[0], turns
        assert any('-x 2 -I 0 -T 1 -f tensor-' in t for t in turns), turns
        save_program('bin/gdsio', 'exit 3')
        run(*args, '--json', 'r.json', more=path)
        assert json.load(open('r.json'))['gdsio'][0]['why_not'] == 'gdsio failed with status 3'
        run(*args[:1], *args[2:], '--json', 'r.json', more=path)  # host memory: fio alone
        assert 'gdsio' not in json.load(open('r.json'))


def what_libraries_do_at_the_end_harms_nothing():
    # What was given back is overwritten at once, and a stream among it is met by the C library.
    poison = {'GLIBC_TUNABLES': 'glibc.malloc.tcache_count=0:glibc.malloc.perturb=165'}
    run('io', '--size', '3M', '--gpu', 0, '--gds', more=poison)
    run('info', '--measure-gpu', more=poison)


def gpu_info(*args, **more):
    out, _ = run('info', '--json', '-', *args, **more)
    i = json.loads(out)
    resultcheck.validate(ROOT, i, 'penstock-info/1')
    return i['gpu']


def info_describes_gpus():
    gpu = gpu_info()
    assert gpu['cuda']['usable'] and gpu['cuda']['devices'] == 2 and len(gpu['cuda']['list']) == 2
    one = gpu['cuda']['list'][1]
    assert one['name'] == 'Stand-in 1' and one['pci'] == '0000:02:00.0' and one['memory'] > 0, one
    assert one['to_device_bytes_per_sec'] is None and one['speed_reason'] is None
    assert gpu['cufile']['usable'] and gpu['cufile']['version'] == 1150
    assert gpu['cufile']['mode'] is None
    out, _ = run('info')
    assert 'driver API' in out and 'Stand-in 0' in out and 'Stand-in 1' in out, out


def info_measures_gpus_on_request():
    for nvfs, mode in (0, 'compatibility'), (2, 'direct'):
        gpu = gpu_info('--measure-gpu', cufile=f'nvfs={nvfs}')
        assert all(d['to_device_bytes_per_sec'] > 0 and d['from_device_bytes_per_sec'] > 0
                   for d in gpu['cuda']['list']), gpu
        assert gpu['cufile']['mode'] == mode, gpu
        assert (gpu['cufile']['mode_reason'] is None) == (nvfs > 0), gpu
    out, _ = run('info', '--measure-gpu', cufile='refuse_driver=5004')
    assert "its driver does not open: cuFileDriverOpen: CU_FILE_DRIVER_VERSION_MISMATCH" in \
        ' '.join(out.split()), out


tap.run(
    every_engine_moves_gpu_memory, the_text_names_gpu_and_way, cufile_in_compatibility_mode,
    refused_files_fall_back_to_the_pool, an_error_of_cufile_has_its_name,
    workers_take_devices_in_turn, a_device_that_is_not_there_is_status_3,
    the_limit_is_measured_beside_a_gpu, gdsio_has_turns_where_it_is_installed, what_libraries_do_at_the_end_harms_nothing,
    info_describes_gpus, info_measures_gpus_on_request)
