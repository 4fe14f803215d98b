#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A checkpoint that is larger than memory and disk: saved and read back, verified, on a device of compressed memory.
#
#	tests/perf/ckpt_large.sh [SIZE [FSTYPE]]
#
# SIZE: bytes with a unit, 100G unless told.  As root, with a zram device that nobody uses.  own_kib is the peak of all memory
# of the process.
set -eu
size=${1:-100G}
type=${2:-xfs}
program=$(dirname "$0")/../../build/tests/perf/perf-ckpt
dev=/sys/block/zram0
at=$(mktemp -d)

[ "$(cat $dev/disksize)" = 0 ] || { echo "zram0 is in use" >&2; exit 1; }
trap 'umount "$at" 2>/dev/null || true; rmdir "$at"; echo 1 > $dev/reset' EXIT
bytes=$(numfmt --from=iec "$size")
echo $((bytes + bytes / 8)) > $dev/disksize
"mkfs.$type" -q /dev/zram0
mount /dev/zram0 "$at"
"$program" save-large "$at/model" "$bytes"
"$program" load-large "$at/model" "$bytes"
echo "memory of the device: $(awk '{print $3}' $dev/mm_stat) bytes"
