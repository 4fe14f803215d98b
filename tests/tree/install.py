# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts where, and that a program finds it: install.py SOURCE BUILD"""
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

source, build = sys.argv[1:3]
folder = tempfile.TemporaryDirectory()


def one(pattern):
    """The one installed file with this name, wherever prefix and libdir are."""
    found = glob.glob(f'{folder.name}/**/{pattern}', recursive=True)
    assert len(found) == 1, f'{pattern}: {found}'
    return found[0]


def it_installs_under_DESTDIR():
    env = dict(os.environ, DESTDIR=folder.name)
    done = subprocess.run(['meson', 'install', '--no-rebuild', '-C', build], env=env, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def everything_is_there():
    for name in ('bin/penstock', 'lib/**/libpenstock.a', 'lib/**/libpenstock.so', 'lib/**/libpenstock.so.0',
                 'include/penstock/penstock.h', 'include/penstock/probe.h', 'include/penstock/version.h',
                 'lib/**/pkgconfig/penstock.pc', 'man/man1/penstock-io.1*', 'man/man1/penstock-info.1*',
                 'share/penstock/penstock-result-1.schema.json', 'share/penstock/penstock-compare-1.schema.json',
                 'share/penstock/penstock-info-1.schema.json', 'share/penstock/penstock-trace-1.schema.json',
                 'share/penstock/penstock-s3-compare-1.schema.json',
                 'share/penstock/kvcache-result.schema.json', 'share/penstock/kvcache-summary.schema.json',
                 'bash-completion/completions/penstock'):
        one(name)


def nothing_of_the_tests_is():
    names = [os.path.basename(f) for f in glob.glob(f'{folder.name}/**', recursive=True)]
    assert not [n for n in names if 'cmocka' in n or 'unit' in n or n.endswith('.py')], names


def the_installed_command_runs():
    done = subprocess.run([one('bin/penstock'), '--version'], check=True, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert 'penstock' in done.stdout, done.stdout


def a_program_is_built_by_pkg_config():
    pc = one('lib/**/pkgconfig/penstock.pc')
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc), PKG_CONFIG_SYSROOT_DIR=folder.name,
               LD_LIBRARY_PATH=os.path.dirname(one('lib/**/libpenstock.so')))
    flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'penstock'], env=env, check=True,
                           text=True, stdout=subprocess.PIPE).stdout.split()
    program = os.path.join(folder.name, 'copy')
    subprocess.run(['cc', f'{source}/examples/copy.c', '-o', program, *flags], check=True)
    subprocess.run([program, f'{source}/LICENSE', f'{folder.name}/LICENSE'], env=env, check=True)
    subprocess.run(['cmp', f'{source}/LICENSE', f'{folder.name}/LICENSE'], check=True)


tap.run(it_installs_under_DESTDIR, everything_is_there, nothing_of_the_tests_is,
        the_installed_command_runs, a_program_is_built_by_pkg_config)
