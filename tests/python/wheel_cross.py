# SPDX-License-Identifier: Apache-2.0
"""A wheel made for another processor: wheel_cross.py SOURCE BUILD MACHINE"""
import os
import re
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap

source, build, machine = sys.argv[1:4]
tmp = tempfile.TemporaryDirectory(dir=os.environ.get('PENSTOCK_TEST_DIR'))
BINARIES = ('penstock/_penstock.abi3.so', 'penstock/bin/penstock')

subprocess.run([sys.executable, f'{source}/tools/wheel.py', build, tmp.name], check=True,
               stdout=subprocess.DEVNULL)
name, = os.listdir(tmp.name)


def its_name_says_the_processor_and_a_glibc():
    assert re.fullmatch(rf'penstock-.*-cp311-abi3-manylinux_2_\d+_{machine}\.whl', name), name


def its_binaries_are_for_that_processor_and_stripped():
    with zipfile.ZipFile(f'{tmp.name}/{name}') as z:
        for member in BINARIES:
            path = z.extract(member, tmp.name)
            text = subprocess.run(['readelf', '--wide', '-h', '-S', path], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
            assert re.search(rf'Machine: +{machine}', text, re.I), text
            assert '.debug_info' not in text, text


tap.run(its_name_says_the_processor_and_a_glibc, its_binaries_are_for_that_processor_and_stripped)
