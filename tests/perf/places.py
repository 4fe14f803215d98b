# SPDX-License-Identifier: Apache-2.0
"""What `make perf` borrows of the machine and gives back: a folder, huge pages, a zram device."""
import contextlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time

GIB = 1 << 30


class Unavailable(Exception):
    """Not here, and why."""


def text_of(path, default=''):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return default


def meminfo(key):
    """A line of /proc/meminfo as a number; kB become bytes."""
    for line in text_of('/proc/meminfo').splitlines():
        words = line.split()
        if words[0] == key + ':':
            return int(words[1]) * (1024 if words[2:] == ['kB'] else 1)
    return 0


def mount_of(path):
    """File system type and options of a path, by the longest matching mount point."""
    path, best = os.path.realpath(path), ('', '', '')
    for line in text_of('/proc/self/mountinfo').splitlines():
        left, right = line.split(' - ')
        point = left.split()[4].encode().decode('unicode_escape')
        if len(point) >= len(best[0]) and os.path.commonpath([path, point]) == point:
            best = (point, right.split()[0], right.split()[2])
    return best[1:]


def device_of(path):
    """One line about the block device under a path."""
    number = os.stat(path).st_dev
    link = f'/sys/dev/block/{os.major(number)}:{os.minor(number)}'
    if not os.path.exists(link):
        return 'no block device'
    node = os.path.realpath(link)
    if os.path.exists(node + '/partition'):
        node = os.path.dirname(node)
    queue = node + '/queue/'
    model = text_of(node + '/device/model') or text_of(node + '/device/device/model')
    return ', '.join(filter(None, [
        os.path.basename(node), model,
        f'logical block {text_of(queue + "logical_block_size")}',
        f'max_segments {text_of(queue + "max_segments")}',
        f'max_sectors_kb {text_of(queue + "max_sectors_kb")}',
        f'scheduler {text_of(queue + "scheduler")}']))


def machine(path):
    """What the figures belong to, as pairs of name and text."""
    cpu = next((line.split(':')[1].strip() for line in text_of('/proc/cpuinfo').splitlines()
                if line.startswith('model name')), platform.machine())
    fio = shutil.which('fio') and subprocess.run(['fio', '--version'], text=True,
                                                 stdout=subprocess.PIPE).stdout.strip()
    return {
        'kernel': platform.release(),
        'cpu': f'{cpu}, {len(os.sched_getaffinity(0))} usable',
        'memory': f'{meminfo("MemTotal") / GIB:.1f} GiB',
        'huge pages': text_of('/sys/kernel/mm/transparent_hugepage/enabled', 'no transparent ones'),
        'file system': ' '.join(mount_of(path)),
        'device': device_of(path),
        'fio': fio or 'not installed',
        'load': text_of('/proc/loadavg'),
    }


@contextlib.contextmanager
def scratch(parent):
    """A folder of our own; its parent is made too and left."""
    os.makedirs(parent, exist_ok=True)
    folder = tempfile.mkdtemp(prefix='penstock-perf-', dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def need_space(folder, size):
    room = shutil.disk_usage(folder).free
    if room < size * 1.05:
        raise Unavailable(f'{size / GIB:.2f} GiB are needed in {folder}, {room / GIB:.2f} are free')


def need_direct(folder):
    path = os.path.join(folder, 'direct')
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError as e:
        raise Unavailable(f'{folder}: O_DIRECT is refused: {e.strerror}') from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def make_data(path, size):
    """A file of random bytes, on the device and out of the page cache."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        os.posix_fallocate(fd, 0, size)
        for at in range(0, size, 1 << 20):
            os.write(fd, os.urandom(min(1 << 20, size - at)))
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def drop_cache(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def remove(path):
    """Delete a file and have the journal know it now, not in the middle of the next run."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


@contextlib.contextmanager
def hugetlb(size):
    """At least @size bytes of free hugetlb pages, reserved here if need be; gives the page size."""
    knob, page = '/proc/sys/vm/nr_hugepages', meminfo('Hugepagesize')
    if not page:
        raise Unavailable('the kernel has no hugetlb pages')
    old, missing = int(text_of(knob)), -(-size // page) - meminfo('HugePages_Free')
    if missing <= 0:
        yield page
        return
    try:
        with open(knob, 'w') as f:
            f.write(str(old + missing))
    except OSError as e:
        raise Unavailable(f'no {size >> 20} MiB of hugetlb pages are reserved, and {knob} '
                          f'cannot be set: {e.strerror}') from None
    try:
        if int(text_of(knob)) < old + missing:
            raise Unavailable(f'the kernel found no {missing} free hugetlb pages')
        yield page
    finally:
        with open(knob, 'w') as f:
            f.write(str(old))


def zram_add():
    """A new zram device: its number.  The ones there are somebody's."""
    knob = '/sys/class/zram-control/hot_add'
    if os.geteuid():
        raise Unavailable('making a zram device takes root')
    if not os.path.exists(knob) and shutil.which('modprobe'):
        subprocess.run(['modprobe', 'zram'], stderr=subprocess.DEVNULL)
    for tool in ('mkfs.ext4', 'mount', 'umount'):
        if not shutil.which(tool):
            raise Unavailable(f'{tool} is not installed')
    try:
        with open(knob) as f:
            return int(f.read())
    except OSError as e:
        raise Unavailable(f'the kernel has no zram: {e.strerror}') from None


def zram_node(number):
    """Its device node, made by hand where nothing else makes it."""
    node = f'/dev/zram{number}'
    for _ in range(20):
        if os.path.exists(node):
            return node
        time.sleep(0.05)
    major, minor = map(int, text_of(f'/sys/block/zram{number}/dev').split(':'))
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(major, minor))
    return node


def zram_remove(number):
    for _ in range(40):  # busy while something like udev looks at it
        try:
            with open(f'/sys/block/zram{number}/reset', 'w') as f:
                f.write('1')
            with open('/sys/class/zram-control/hot_remove', 'w') as f:
                f.write(str(number))
            return
        except OSError:
            time.sleep(0.1)
    print(f'zram{number} is busy and stays', flush=True)


def unmount(point):
    """The kernel closes an io_uring's registered files some time after its process has ended."""
    for _ in range(40):
        if subprocess.run(['umount', point], stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(['umount', '--lazy', point], check=True)


@contextlib.contextmanager
def zram_ext4(folder, size):
    """A mounted ext4 with room for @size bytes, on a zram device of our own."""
    if meminfo('MemAvailable') < 2 * size + GIB:
        raise Unavailable(f'{2 * size / GIB + 1:.1f} GiB of free memory are needed for zram')
    with contextlib.ExitStack() as undo:
        number = zram_add()
        undo.callback(zram_remove, number)
        node = zram_node(number)
        with open(f'/sys/block/zram{number}/disksize', 'w') as f:
            f.write(str(size + size // 8 + (64 << 20)))
        point = os.path.join(folder, 'zram')
        os.mkdir(point)
        undo.callback(os.rmdir, point)
        for command in (['mkfs.ext4', '-q', '-F', '-m', '0', node],
                        ['mount', '-t', 'ext4', node, point]):
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise Unavailable(f'{" ".join(command)}: {done.stderr.strip()}')
        undo.callback(unmount, point)
        yield point
