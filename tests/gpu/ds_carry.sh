#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tests/gpu/ds_infer.sh wants to have carried along, made on a machine with a package index:
#
#	tests/gpu/ds_carry.sh [FOLDER [VERSION...]]
#
# FOLDER (build-ds) gets DeepSpeed and what it imports for each VERSION of Python (3.10 to 3.13), ninja, libaio, and the
# headers of those Pythons that are installed here: about 30 MB.  PYTHON (python3) has torch, or DeepSpeed cannot be packed.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
place=${1:-$root/build-ds}
python=${PYTHON:-python3}
[ $# -gt 1 ] && shift || set -- 3.10 3.11 3.12 3.13
list=$root/tests/peers/deepspeed.txt
rm -rf "$place"
mkdir -p "$place/wheels" "$place/libaio" "$place/include"

DS_BUILD_OPS=0 "$python" -m pip wheel -q --no-deps --no-build-isolation -w "$place/wheels" "$(grep ^deepspeed= "$list")"
for version; do
	for package in $(grep -v '^#\|^deepspeed=' "$list") ninja; do
		"$python" -m pip download -q --no-deps --only-binary=:all: --python-version "$version" \
			-d "$place/wheels" "$package" || echo "no $package for Python $version"
	done
	for headers in /usr/include/python$version "${PYENV_ROOT:-$HOME/.pyenv}"/versions/$version*/include/python$version; do
		[ ! -e "$headers/Python.h" ] || { cp -r "$headers" "$place/include"; break; }
	done
done
cp /usr/include/libaio.h "$place/libaio"
cp -L "$(ldconfig -p | sed -n 's/.*libaio.so.1 .* => //p;T;q')" "$place/libaio/libaio.so.1"
cp "$place/libaio/libaio.so.1" "$place/libaio/libaio.so"
du -sh "$place"
