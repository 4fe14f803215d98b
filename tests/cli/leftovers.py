#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs leave in a folder, and whose files are touched there.

    leftovers.py PENSTOCK ROOT
"""
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')

import glob
import signal
import time

import clikit
import tap
from tap import folder

JOURNAL = '.penstock-bed'
LONG = {
    'bench': ['--size', '64K', '--runtime', '1000', '--files', '2', '--no-limit'],
    'io': ['--target', '.', '--size', '64K', '--iterations', '1000000'],
    'sweep': ['--size', '64K', '--iterations', '100000', '--log-dir', 'logs', '--no-limit', '--block-size', '64K'],
    'tune': ['--budget', '1000', '--size', '1M', '--no-limit'],
}
SHORT = {
    'bench': ['--size', '4K', '-n', '2', '--no-limit'],
    'io': ['--target', '.', '--size', '4K', '--iterations', '1'],
}


def wait_for(process, pattern):
    """Until files of that kind have something in them."""
    while True:
        found = [name for name in glob.glob(pattern) if os.path.getsize(name)]
        if found:
            return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def killed(command, *args):
    """Start it, kill it without a word, return the folder it leaves."""
    process = clikit.start(command, *(args or LONG[command]))
    (name, *_) = wait_for(process, f'penstock-{command}-*/*')
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = os.path.dirname(name)
    assert os.path.exists(left) and os.path.exists(os.path.join(left, JOURNAL)), os.listdir('.')
    return left


def killed_case(command):
    def case():
        with folder():
            left = killed(command)
            clikit.Command('io')(*SHORT['io'])
            assert not os.path.exists(left), os.listdir(left)
            assert not glob.glob('penstock-*'), os.listdir('.')
    return f'what a killed {command} left is removed by the next run', case


def what_a_killed_io_without_a_folder_left_is_removed():
    with folder():
        left = killed('io', '--size', '64K', '--iterations', '1000000')
        clikit.Command('io')('--size', '4K', '--iterations', '1')
        assert os.listdir('.') == [], os.listdir(left)


def a_folder_in_use_is_not_removed():
    with folder():
        process = clikit.start('bench', *LONG['bench'])
        wait_for(process, 'penstock-bench-*/tensor-*')
        before = sorted(glob.glob('penstock-*'))
        for command, args in SHORT.items():
            clikit.Command(command)(*args)
            assert sorted(glob.glob('penstock-*')) == before, os.listdir('.')
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130 and os.listdir('.') == [], (process.returncode, os.listdir('.'))


def what_the_user_put_there_stays():
    """A file in a left folder that is not the one that was made is nobody's to remove."""
    with folder():
        left = killed('bench')
        name = sorted(glob.glob(left + '/tensor-*'))[0]
        os.rename(name, 'away')
        for mine in name, os.path.join(left, 'notes'):
            with open(mine, 'w') as f:
                f.write('precious')
        clikit.Command('io')(*SHORT['io'])
        assert sorted(os.listdir(left)) == sorted([os.path.basename(name), 'notes']), os.listdir(left)
        assert open(name).read() == 'precious' and os.path.exists('away')


def what_was_not_written_down_stays():
    """An empty file of the user's, and one that has got the number of a file of ours, later."""
    with folder():
        left = killed('bench')
        with open(os.path.join(left, 'empty'), 'w'):
            pass
        with open(os.path.join(left, '.penstock-new'), 'w'):
            pass
        with open(os.path.join(left, JOURNAL)) as f:
            title, line, *rest = f.read().splitlines(True)
        inode, birth, name = line.split()
        with open(os.path.join(left, JOURNAL), 'w') as f:
            f.writelines([title, f'{inode} {int(birth) + 1} {name}\n', *rest])
        clikit.Command('io')(*SHORT['io'])
        assert sorted(os.listdir(left)) == ['empty', name], os.listdir(left)


def a_book_that_others_could_have_written_is_not_believed():
    def spoil_book(left):
        os.chmod(os.path.join(left, JOURNAL), 0o666)

    def spoil_folder(left):
        os.chmod(left, 0o777)

    def link_journal(left):
        os.rename(os.path.join(left, JOURNAL), 'journal')
        os.symlink('../journal', os.path.join(left, JOURNAL))

    def second_name(left):
        os.link(os.path.join(left, JOURNAL), 'journal')

    def give_away(left):
        os.chown(os.path.join(left, JOURNAL), 65534, 65534)

    for spoil in [spoil_book, spoil_folder, link_journal, second_name] + ([give_away] if os.geteuid() == 0 else []):
        with folder():
            left = killed('bench')
            before = sorted(os.listdir(left))
            spoil(left)
            clikit.Command('io')(*SHORT['io'])
            assert sorted(os.listdir(left)) == before, (spoil.__name__, os.listdir(left))


def a_link_in_place_of_a_folder_is_not_followed():
    """Neither by the next run nor by `sweep --resume`, whose state names the folder."""
    for command in 'bench', 'sweep':
        with folder():
            left = killed(command)
            os.rename(left, 'victim')
            os.symlink('victim', left)
            before = sorted(os.listdir('victim'))
            if command == 'sweep':
                process = clikit.start('sweep', *LONG['sweep'], '--resume')
                while len(glob.glob('penstock-sweep-*')) < 2:
                    assert process.poll() is None, process.communicate()
                process.send_signal(signal.SIGINT)
                process.communicate()
            else:
                clikit.Command('io')(*SHORT['io'])
            assert sorted(os.listdir('victim')) == before and os.path.islink(left), os.listdir('victim')


def a_file_that_becomes_a_link_is_not_written_through():
    """A name in the user's folder is opened in every loop; what it leads to may have changed."""
    with folder():
        with open('victim', 'wb') as f:
            f.write(b'v' * 65536)
        process = clikit.start('io', '--target', '.', '--size', '64K', '--iterations', '1000000', '--keep')
        (name,) = wait_for(process, '_aio_write_65536.pt.0_0')
        os.symlink('victim', 'link')
        os.rename('link', name)
        _, err = process.communicate()
        assert process.returncode == 1 and name in err and err.count('\n') == 1, (process.returncode, err)
        with open('victim', 'rb') as f:
            assert f.read() == b'v' * 65536


def what_was_swapped_is_not_removed():
    with folder():
        process = clikit.start('io', '--target', '.', '--size', '64K', '--iterations', '1000000')
        (name,) = wait_for(process, 'penstock-io-*/_aio_write_65536.pt.0_0')
        with open('mine', 'w') as f:
            f.write('precious')
        os.rename('mine', name)
        process.communicate()
        assert process.returncode == 1 and open(name).read() == 'precious', process.returncode


def a_folder_put_in_the_place_of_ours_is_not_written_to():
    """Where others may rename it, by those who may write to the folder around it."""
    with folder():
        os.chmod('.', 0o777)
        process = clikit.start('bench', *LONG['bench'], '--write-only')
        wait_for(process, 'penstock-bench-*/tensor-*')
        (ours,) = glob.glob('penstock-bench-*')
        names = os.listdir(ours)
        os.mkdir('theirs')
        for name in names:
            with open(f'theirs/{name}', 'w') as f:
                f.write('precious')
        os.rename(ours, 'moved')
        os.rename('theirs', ours)
        before = [os.stat(f'moved/{name}').st_mtime_ns for name in names]
        while [os.stat(f'moved/{name}').st_mtime_ns for name in names] == before and process.poll() is None:
            assert all(open(f'{ours}/{name}').read() == 'precious' for name in names)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 130, (process.returncode, err)
        assert all(open(f'{ours}/{name}').read() == 'precious' for name in names)
        assert sorted(os.listdir(ours)) == sorted(names)


tap.run(*map(killed_case, LONG), what_a_killed_io_without_a_folder_left_is_removed, a_folder_in_use_is_not_removed,
        what_the_user_put_there_stays, what_was_not_written_down_stays,
        a_book_that_others_could_have_written_is_not_believed, a_link_in_place_of_a_folder_is_not_followed,
        a_file_that_becomes_a_link_is_not_written_through, what_was_swapped_is_not_removed,
        a_folder_put_in_the_place_of_ours_is_not_written_to)
