#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite and the model on other file systems than the one the
# tests run on:
#
#	filesystems.sh CONFORMANCE MODEL
#
# Needs root for mounts and loop devices.  Everything is mounted in a mount
# namespace of its own, and loop devices are detached as soon as they are in
# use (the kernel keeps them until then), so nothing stays behind even when
# this script is killed.  Output is TAP; a file system the kernel or the tools
# do not have is skipped.
set -u

conformance=$1
model=$2
here=${PENSTOCK_TEST_DIR:-.}
engines=${PENSTOCK_TEST_ENGINES:-"io_uring libaio threads"}
only=${PENSTOCK_TEST_FILESYSTEMS:-} # names as below; all of them
n=0
failed=0

# $1: the word PENSTOCK_TEST_REQUIRE would have for it; $2: why
skip_all() {
	case ",${PENSTOCK_TEST_REQUIRE:-}," in
	*",$1,"*)
		echo "1..1"
		echo "not ok 1 - $1 is required"
		echo "# $2"
		exit 1
		;;
	esac
	echo "1..0 # SKIP $2"
	exit 0
}

if [ -z "${PENSTOCK_TEST_UNSHARED:-}" ]; then
	[ "$(id -u)" = 0 ] || skip_all root "only root can mount file systems"
	unshare --mount --propagation private true 2>/dev/null ||
		skip_all root "no mount namespace"
	PENSTOCK_TEST_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"
fi

work=$(mktemp -d "$(realpath "$here")/penstock-test-fs-XXXXXX") || exit 1
# shellcheck disable=SC2317
clean() {
	exec 9>&-
	umount -R -l "$work" 2>/dev/null
	for m in "$work"/*/; do
		umount -l "$m" 2>/dev/null
	done
	rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

# One TAP line: $1 what, $2... the command.
run() {
	title=$1
	shift
	n=$((n + 1))
	if "$@" >"$work/log" 2>&1; then
		if grep -q '^1\.\.0' "$work/log"; then
			echo "ok $n - $title # SKIP $(sed -n 's/^1\.\.0 # SKIP //p' "$work/log")"
		else
			echo "ok $n - $title"
		fi
	else
		echo "not ok $n - $title"
		grep -v '^ok\|^1\.\.' "$work/log" | sed 's/^/# /'
		failed=1
	fi
}

skip() {
	case ",${PENSTOCK_TEST_REQUIRE:-}," in
	*",$1,"*)
		n=$((n + 1))
		echo "not ok $n - $1 is required"
		echo "# $2"
		failed=1
		return
		;;
	esac
	n=$((n + 1))
	echo "ok $n - $1 # SKIP $2"
}

# All engines in a mounted directory: $1 name, $2 directory.
run_in() {
	for e in $engines; do
		groups="transfer files"
		[ "$e" = libaio ] && groups=transfer # it is slow to close
		# shellcheck disable=SC2086
		PENSTOCK_TEST_DIR=$2 run "conformance of $e on $1" "$conformance" "$e" $groups
		PENSTOCK_TEST_DIR=$2 PENSTOCK_TEST_OPS=${PENSTOCK_TEST_OPS:-1500} \
			run "model of $e on $1" "$model" "$e"
	done
}

# Attach an image: $1 file, $2 MiB, $3 bytes of a logical block.  Prints the device.
attach() {
	truncate -s "$2M" "$1" && losetup --find --show --sector-size "$3" "$1"
}

# $1 name, $2 mkfs and its options, $3 MiB, $4 logical block
on_image() {
	what=$1
	if ! command -v "${2%% *}" >/dev/null 2>&1; then
		skip "$what" "no ${2%% *} here"
		return
	fi
	mkdir -p "$work/$what"
	if ! dev=$(attach "$work/$what.img" "$3" "$4" 2>"$work/log"); then
		skip "$what" "no loop device: $(head -1 "$work/log")"
		return
	fi
	if ! $2 "$dev" >"$work/log" 2>&1; then
		losetup -d "$dev"
		skip "$what" "$2 failed: $(head -1 "$work/log")"
		return
	fi
	mount "$dev" "$work/$what" 2>"$work/log"
	mounted=$?
	losetup -d "$dev" # from now on it goes with the mount
	if [ $mounted != 0 ]; then
		skip "$what" "cannot be mounted: $(head -1 "$work/log")"
		return
	fi
	run_in "$what" "$work/$what"
	umount "$work/$what"
	rm -f "$work/$what.img"
}

on_tmpfs() {
	mkdir -p "$work/tmpfs"
	if ! mount -t tmpfs -o size=256M tmpfs "$work/tmpfs" 2>"$work/log"; then
		skip tmpfs "cannot be mounted: $(head -1 "$work/log")"
		return
	fi
	run_in tmpfs "$work/tmpfs"
	umount "$work/tmpfs"
}

on_overlay() {
	mkdir -p "$work/overlay" "$work/layers/lower" "$work/layers/upper" "$work/layers/work"
	if ! mount -t overlay overlay "$work/overlay" \
		-o "lowerdir=$work/layers/lower,upperdir=$work/layers/upper,workdir=$work/layers/work" \
		2>"$work/log"; then
		skip overlayfs "cannot be mounted: $(head -1 "$work/log")"
		return
	fi
	run_in overlayfs "$work/overlay"
	umount "$work/overlay"
}

# $1 logical block
on_device() {
	what="a block device of $1-byte blocks"
	if ! dev=$(attach "$work/device.img" 16 "$1" 2>"$work/log"); then
		skip "$what" "no loop device: $(head -1 "$work/log")"
		return
	fi
	exec 9<>"$dev"
	losetup -d "$dev" # from now on it goes with descriptor 9
	for e in $engines; do
		PENSTOCK_TEST_DIR=$work PENSTOCK_TEST_OPS=${PENSTOCK_TEST_OPS:-1500} \
			run "model of $e on $what" "$model" "$e" "$dev"
	done
	exec 9>&-
}

# Is this one wanted?
wanted() {
	case " ${only:-$1} " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

wanted ext4-512 && on_image ext4-512 "mkfs.ext4 -q -F" 128 512
wanted ext4-4096 && on_image ext4-4096 "mkfs.ext4 -q -F" 128 4096
wanted ext4-1k-blocks && on_image ext4-1k-blocks "mkfs.ext4 -q -F -b 1024" 128 512
wanted xfs-512 && on_image xfs-512 "mkfs.xfs -q -f" 320 512
wanted xfs-4096 && on_image xfs-4096 "mkfs.xfs -q -f -s size=4096" 320 4096
wanted btrfs && on_image btrfs "mkfs.btrfs -q -f" 256 512
wanted tmpfs && on_tmpfs
wanted overlayfs && on_overlay
wanted device && on_device 512
wanted device && on_device 4096
echo "1..$n"
exit $failed
