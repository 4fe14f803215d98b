#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Weights through a window on a machine with a GPU, from the portable build, in less than 4 minutes:
#
#	tests/gpu/weights.sh [BUILD [FOLDER]]
#
# BUILD has the command and the Python package (build-portable); files go to FOLDER (/var/tmp), 9 GiB at a time.  First
# tests/perf/weights.py with windows in both memories, then weights.py with torch in PYTHON (python3), on DEVICE (cuda; cpu:
# to try it where there is none, with less).  Ends with 1 if anything failed; how fast it was is for the reader.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build-portable}" && pwd) || exit 2
scratch=$(mktemp -d "${2:-/var/tmp}/penstock-weights-XXXXXX") || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
export PYTHONPATH=$build/python PYTHONUNBUFFERED=1
failed=0

speed=(--size 4G --window 2G --rounds 2 --seconds 3 --only large,small,overlap --gpu)
torch=()
if [ "$device" = cpu ]; then
	speed=(--size 512M --window 256M --rounds 1 --seconds 1 --only large,small,overlap)
	torch=(--bytes 64M)
fi
# Each within its share of the time, so that the other one is run.
timeout 150 "$python" "$root/tests/perf/weights.py" --build "$build" --dir "$scratch" "${speed[@]}" || failed=1
echo "speed: $SECONDS s"
timeout 90 "$python" "$root/tests/gpu/weights.py" "$scratch" --device "$device" "${torch[@]}" || failed=1
echo "$SECONDS s, $([ $failed = 0 ] && echo ok || echo FAILED)"
exit $failed
