#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/perf/ds_infer.py on a machine that has torch, CUDA and a compiler, and can reach nothing:
#
#	tests/gpu/ds_infer.sh CARRIED [BUILD [FOLDER [OPTION...]]]
#
# CARRIED, which tests/gpu/ds_carry.sh makes, has what is missing there: wheels/*.whl (DeepSpeed, what it imports, ninja), libaio/
# (libaio.h, libaio.so, libaio.so.1) and, where Python has no headers, include/pythonX.Y.  BUILD has the Python package (build-portable); files
# go to FOLDER (/var/tmp), twice the size of the model.  OPTIONs are for ds_infer.py.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
carried=$(cd "$1" && pwd)
build=$(cd "${2:-$root/build-portable}" && pwd)
folder=${3:-/var/tmp}
python=${PYTHON:-python3}
[ $# -lt 3 ] && set -- || shift 3
site=$(mktemp -d "${TMPDIR:-/tmp}/penstock-site-XXXXXX")
trap 'rm -rf "$site"' EXIT

for wheel in "$carried"/wheels/*.whl; do
	"$python" -m zipfile -e "$wheel" "$site"
done
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$headers/Python.h" ] || headers=$carried/include/$(basename "$headers")
if ! command -v ninja >/dev/null; then
	chmod +x "$site"/ninja-*.data/scripts/ninja
	PATH=$(echo "$site"/ninja-*.data/scripts):$PATH
fi
cuda=$("$python" -c 'import torch.utils.cpp_extension as c; print(c.CUDA_HOME or "")')

# So that the compiler finds the library, and whoever loads the operator does.
export PYTHONPATH=$build/python:$site${PYTHONPATH:+:$PYTHONPATH}
export CPATH=$carried/libaio:$headers${CPATH:+:$CPATH}
export LIBRARY_PATH=$carried/libaio:$cuda/lib64/stubs${LIBRARY_PATH:+:$LIBRARY_PATH}
export LD_LIBRARY_PATH=$carried/libaio${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset TORCH_CUDA_ARCH_LIST # DeepSpeed cannot read 9.0a; without it it asks the device
export MAX_JOBS=${MAX_JOBS:-$(nproc)} PYTHONUNBUFFERED=1
"$python" "$root/tests/perf/ds_infer.py" --folder "$folder" "$@"
