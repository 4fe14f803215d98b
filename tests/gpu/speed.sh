#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints, the store, striped files and small reads: GPU memory beside host memory, in less than 5 minutes:
#
#	tests/gpu/speed.sh [BUILD [FOLDER [OPTION...]]]
#
# BUILD has the command and the Python package (build-portable); files go to FOLDER (/var/tmp), 40 GiB of them.  OPTIONs are
# for speed.py, which does it with torch in PYTHON (python3) on DEVICE (cuda; cpu: to try it where there is none, with less).
# Ends with 1 if anything failed or came back wrong; how fast it was is for the reader.  Weights: weights.sh.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build-portable}" && pwd)
scratch=$(mktemp -d "${2:-/var/tmp}/penstock-speed-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
[ $# -lt 2 ] && set -- || shift 2
export PYTHONPATH=$build/python:$root/tests/perf PYTHONUNBUFFERED=1
timeout 330 "${PYTHON:-python3}" "$root/tests/gpu/speed.py" "$build/penstock" "$scratch" --device "${DEVICE:-cuda}" "$@"
