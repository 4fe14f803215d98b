# SPDX-License-Identifier: Apache-2.0
"""penstock info, against what Python finds out about the same machine.

    info.py PENSTOCK ROOT
"""
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import resultcheck
import tap

resultcheck.need('jsonschema')

PENSTOCK, ROOT = map(os.path.abspath, sys.argv[1:3])
SEEN = []    # all that --json wrote


def penstock(*args, **more):
    done = subprocess.run([PENSTOCK, 'info', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return done.returncode, done.stdout, done.stderr.decode(errors='replace')


def info(*args, status=0, **more):
    """What --json - says."""
    got, out, err = penstock('--json', '-', *args, **more)
    assert got == status, f'status {got}: {err}'
    return seen(out)


def seen(out):
    SEEN.append(json.loads(out.decode('utf-8')))
    return SEEN[-1]


def line(path):
    with open(path) as f:
        return f.read().strip()


def text_has_every_part_and_fits():
    status, out, err = penstock()
    assert (status, err) == (0, '')
    out = out.decode()
    for part in ('Machine', 'kernel', 'Engines', 'io_uring', 'threads', 'Limits', 'locked memory',
                 'aio-max-nr', 'Huge pages', 'transparent', 'What newer kernels offer',
                 'RWF_DONTCACHE', 'GPU', 'CUDA', 'cuFile', '\n.\n', 'file system', 'free space', 'O_DIRECT', 'block device'):
        assert part in out, part
    assert max(map(len, out.splitlines())) <= 100


def the_machine_is_this_one():
    m = info()['machine']
    u = os.uname()
    assert m['kernel'] == f'{u.sysname} {u.release} {u.machine}'
    assert m['cpus'] == len(os.sched_getaffinity(0))
    assert m['memory_bytes'] == os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGESIZE')
    if os.path.exists('/proc/sys/fs/aio-max-nr'):
        assert m['aio']['max_nr'] == int(line('/proc/sys/fs/aio-max-nr'))
    if os.path.exists('/proc/sys/kernel/io_uring_disabled'):
        assert m['io_uring_disabled'] == int(line('/proc/sys/kernel/io_uring_disabled'))
    thp = '/sys/kernel/mm/transparent_hugepage/enabled'
    if os.path.exists(thp):
        assert f'[{m["transparent_huge_pages"]["enabled"]}]' in line(thp)
    for h in m['hugetlb']:
        folder = f'/sys/kernel/mm/hugepages/hugepages-{h["page_bytes"] // 1024}kB'
        assert h['total'] == int(line(folder + '/nr_hugepages'))


def what_the_kernel_does_not_tell_is_null():
    hidden = 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"'
    away = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', hidden, 'sh']
    quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
    # a sanitizer does not start without /proc
    if not shutil.which('unshare') or subprocess.run([*away, PENSTOCK, '--version'], **quiet).returncode:
        raise tap.Skip('namespaces', '/proc and /sys cannot be hidden')
    i = seen(subprocess.run([*away, PENSTOCK, 'info', '--json', '-'], stdout=subprocess.PIPE, check=True).stdout)
    m, (p,) = i['machine'], i['paths']
    assert m['cpu'] is None and m['io_uring_disabled'] is None and set(m['aio'].values()) == {None}, m
    assert set(m['transparent_huge_pages'].values()) == {None} and m['hugetlb'] == [], m
    assert (p['file_system'], p['mount'], p['device']) == (None, None, None), p


def limits_of_the_process_are_told():
    def lower():
        import resource
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    m = info(preexec_fn=lower)['machine']
    assert m['memlock']['soft'] == m['memlock']['hard'] == 65536


def engines_have_a_reason_when_they_do_not_work():
    i = info()
    assert i['schema'] == 'penstock-info/1' and i['usable'] is True
    for e in i['engines']:
        assert (e['reason'] is None) == e['usable'], e
        assert e['description']
    assert [e['name'] for e in i['engines'] if e['usable'] and not e['by_name_only']]
    assert {e['name'] for e in i['engines'] if e['by_name_only']} <= {'cufile', 'null', 'fault'}


def what_the_kernel_offers_is_told_for_the_first_path():
    by_name = {o['name']: o for o in info('/dev/shm', '.')['kernel']}
    assert {'min-timeout', 'cloned buffers', 'READV_FIXED', 'hybrid polling', 'NO_IOWAIT', 'RWF_DONTCACHE',
            'atomic writes', 'write streams'} == set(by_name)
    assert not by_name['RWF_DONTCACHE']['found'], 'tmpfs has nothing else'
    assert all(o['since'][:2] == '6.' for o in by_name.values())


def the_gpu_has_a_reason_when_it_is_missing():
    for part in info()['gpu'].values():
        assert (part['reason'] is None) == part['usable'], part


def a_directory_is_described():
    p, = info('.')['paths']
    vfs = os.statvfs('.')
    assert p['kind'] == 'directory'
    assert p['total_bytes'] == vfs.f_frsize * vfs.f_blocks
    assert p['direct']['usable'] or p['direct']['reason']
    if p['direct']['usable']:
        assert p['direct']['offset_align'] & (p['direct']['offset_align'] - 1) == 0
    mounts = [f.split() for f in open('/proc/self/mounts')]
    assert p['file_system'] in [m[2] for m in mounts if m[1] == p['mount']]


def a_device_is_what_sysfs_says():
    p, = info('.')['paths']
    if not p['device']:
        raise tap.Skip('disk', f'{p["file_system"]} has no block device')
    queue = f'/sys/block/{p["device"]["name"].replace("/", "!")}/queue/'
    for key, name in (('logical_block', 'logical_block_size'), ('max_segments', 'max_segments'),
                      ('physical_block', 'physical_block_size'), ('max_sectors_kb', 'max_sectors_kb'),
                      ('nr_requests', 'nr_requests')):
        assert p['device'][key] == int(line(queue + name)), key
    scheduler = line(queue + 'scheduler')
    assert p['device']['scheduler'] in re.findall(r'\[(.*?)\]', scheduler) + [scheduler]


def a_directory_is_left_as_it_was():
    with tempfile.TemporaryDirectory(dir='.') as d:
        info(d)
        assert os.listdir(d) == []
        p, = info(d)['paths']
        assert p['path'] == d


def a_block_device_is_described():
    under, = info('.')['paths']
    path = f'/dev/{under["device"]["name"]}' if under['device'] else '/dev/none'
    if not os.path.exists(path):
        raise tap.Skip('disk', f'{under["file_system"]} has no block device in /dev')
    p, = info(path)['paths']
    assert p['kind'] == 'block device' and p['device'] == under['device'], p
    assert not p.keys() & {'file_system', 'mount', 'total_bytes', 'free_bytes', 'gds_reason'}, p


def the_page_cache_of_a_file_is_seen():
    with tempfile.NamedTemporaryFile(dir='.') as f:
        f.write(bytes(1 << 20))
        f.flush()
        p, = info(f.name)['paths']
        assert p['kind'] == 'file' and p['bytes'] == 1 << 20
        if p['resident_bytes'] is None:
            raise tap.Skip('cachestat', 'the kernel does not tell')
        assert p['resident_bytes'] == 1 << 20
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        p, = info(f.name)['paths']
        if p['file_system'] in ('ext4', 'xfs', 'btrfs'):
            assert p['resident_bytes'] == 0


def several_paths_are_told_in_order():
    paths = [p['path'] for p in info('/', '.', '/')['paths']]
    assert paths == ['/', '.', '/']


def a_missing_path_is_one_line_and_status_1():
    status, out, err = penstock('/no/such', '.', '/no\nsuch/either')
    assert status == 1
    assert err == ('penstock info: /no/such: No such file or directory\n'
                   'penstock info: /no\\x0asuch/either: No such file or directory\n')
    assert b'\n.\n' in out, 'the others are described all the same'
    i = info('/no/such', '.', status=1)
    assert i['paths'][0]['errno'] == 2 and 'No such file' in i['paths'][0]['error']
    assert i['paths'][1]['kind'] == 'directory'


def what_is_no_file_is_refused_without_hanging():
    with tempfile.TemporaryDirectory(dir='.') as d:
        os.mkfifo(d + '/pipe')
        for path, word in ((d + '/pipe', 'a pipe'), ('/dev/null', 'a character device')):
            status, _, err = penstock(path)
            assert status == 1 and word in err and err.count('\n') == 1, err


def odd_names_do_not_break_the_json():
    with tempfile.TemporaryDirectory(dir='.') as d:
        for name in (b'caf\xc3\xa9', b'\xff\xfe', b'a"b\\c', b'new\nline', b'\xed\xa0\x80', b'\xc0\xaf',
                     b'\xf4\x90\x80\x80', b'cut\xe2\x82', b'-dash', b' '):
            path = d.encode() + b'/' + name
            open(path, 'w').close()
            p, = info(path)['paths']
            exact = bytes.fromhex(p['path_hex']) if 'path_hex' in p else p['path'].encode()
            assert exact == path, name
            try:
                path.decode('utf-8')
                assert 'path_hex' not in p
            except UnicodeDecodeError:
                assert 'path_hex' in p
            status, out, err = penstock(path)
            assert status == 0 and err == ''


def a_file_that_may_not_be_read_is_still_described():
    user = 65534
    if os.geteuid() != 0:
        raise tap.Skip('root', 'needs another user')
    with tempfile.TemporaryDirectory(dir='/var/tmp') as d:
        os.chmod(d, 0o755)
        shutil.copy(PENSTOCK, d + '/penstock')
        with open(d + '/secret', 'w') as f:
            f.write('x' * 8192)
        os.chmod(d + '/secret', 0o600)
        with open(d + '/public', 'w') as f:
            f.write('x' * 8192)
        done = subprocess.run([d + '/penstock', 'info', '--json', '-', d + '/secret', d + '/public', d],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd='/', user=user, group=user)
        assert done.returncode == 0, done.stderr
        secret, public, folder = seen(done.stdout)['paths']
        assert secret['resident_bytes'] is None and 'Permission denied' in secret['direct']['reason']
        # Another user's file: kernels keep it to themselves (mincore) or tell (cachestat before 6.16).
        assert public['resident_bytes'] in (None, 8192)
        assert 'Permission denied' in folder['direct']['reason']


def json_goes_to_a_file_beside_the_text():
    with tempfile.TemporaryDirectory(dir='.') as d:
        status, out, err = penstock('--json', d + '/x.json', d)
        assert (status, err) == (0, '')
        assert out.startswith(b'penstock ')
        with open(d + '/x.json', 'rb') as f:
            assert seen(f.read())['schema'] == 'penstock-info/1'
        status, out, err = penstock('--json', d + '/no/x.json')
        assert status == 2 and err.count('\n') == 1 and "'%s/no/x.json'" % d in err, err
        assert out == b''


def a_full_disk_under_the_json_is_noticed():
    if not os.path.exists('/dev/full'):
        raise tap.Skip('full', 'no /dev/full')
    status, _, err = penstock('--json', '/dev/full')
    assert status == 1 and 'No space left' in err and err.count('\n') == 1, err


def all_that_was_written_is_of_the_schema():
    paths = [p for i in SEEN for p in i['paths']]
    assert {'directory', 'file', None} <= {p.get('kind') for p in paths}
    assert {'path_hex' in p for p in paths} == {True, False}
    for i in SEEN:
        resultcheck.validate(ROOT, i, 'penstock-info/1')


def a_wrong_one_is_not_of_the_schema():
    with tempfile.NamedTemporaryFile(dir='.') as f:
        whole = info('/no/such', '.', f.name, status=1)

    def wrong(change):
        i = copy.deepcopy(whole)
        change(*i['paths'], i)
        try:
            resultcheck.validate(ROOT, i, 'penstock-info/1')
        except AssertionError:
            return
        raise AssertionError('it passed')
    wrong(lambda missing, folder, file, i: i.update(surprise=1))
    wrong(lambda missing, folder, file, i: i.update(paths=[]))
    wrong(lambda missing, folder, file, i: i['machine']['transparent_huge_pages'].update(page_bytes=0))
    wrong(lambda missing, folder, file, i: i['machine']['memlock'].update(soft='much'))
    wrong(lambda missing, folder, file, i: missing.update(kind='file'))
    wrong(lambda missing, folder, file, i: missing.pop('errno'))
    wrong(lambda missing, folder, file, i: folder.update(bytes=1))
    wrong(lambda missing, folder, file, i: folder.update(mount=''))
    wrong(lambda missing, folder, file, i: file.pop('resident_bytes'))
    wrong(lambda missing, folder, file, i: file.update(kind='block device'))
    wrong(lambda missing, folder, file, i: file['direct'].pop('reason'))


tap.run(text_has_every_part_and_fits, the_machine_is_this_one,
        what_the_kernel_does_not_tell_is_null, limits_of_the_process_are_told,
        engines_have_a_reason_when_they_do_not_work,
        what_the_kernel_offers_is_told_for_the_first_path, the_gpu_has_a_reason_when_it_is_missing,
        a_directory_is_described, a_device_is_what_sysfs_says, a_directory_is_left_as_it_was, a_block_device_is_described,
        the_page_cache_of_a_file_is_seen, several_paths_are_told_in_order,
        a_missing_path_is_one_line_and_status_1, what_is_no_file_is_refused_without_hanging,
        odd_names_do_not_break_the_json, a_file_that_may_not_be_read_is_still_described,
        json_goes_to_a_file_beside_the_text, a_full_disk_under_the_json_is_noticed,
        all_that_was_written_is_of_the_schema, a_wrong_one_is_not_of_the_schema)
