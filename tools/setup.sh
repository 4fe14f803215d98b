#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install what is missing of tools/packages.txt: tools/setup.sh KIND...
# Does nothing, quickly, when nothing is missing.
set -eu

list=$(dirname "$0")/packages.txt

if ! command -v dpkg-query >/dev/null; then
	echo "setup: not a Debian-like system; taken as present is what $list names"
	exit 0
fi

# Packages of the given kinds that are not installed, in one line.
missing() {
	for kind; do
		for name in $(awk -v kind="$kind" '$1 == kind { print $2 }' "$list"); do
			state=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
			[ "$state" = installed ] || printf '%s ' "$name"
		done
	done
}

apt_get() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		-o Acquire::Retries=3 "$@" </dev/null
}

# The names are separate words; apt-get install takes all of them or none, so when one
# cannot be had the others are tried one by one.
install() {
	# shellcheck disable=SC2086
	apt_get install --no-install-recommends $1 && return
	for name in $1; do
		apt_get install --no-install-recommends "$name" || true
	done
}

need=$(missing "$@")
[ -n "$need" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	# Without a terminal sudo must not wait for a password that nobody can type.
	[ -t 0 ] && as_root="sudo" || as_root="sudo -n"
fi

echo "setup: missing: $need"
if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
	echo "setup: cannot install: not root, and there is no sudo"
else
	apt_get update || echo "setup: apt-get update failed; trying with the lists there are"
	install "$need"
fi

status=0
for kind; do
	for name in $(missing "$kind"); do
		if [ "$kind" = extra ] || [ "$kind" = peers ]; then
			echo "setup: going on without $name"
		else
			echo "setup: $name is needed and could not be installed" >&2
			status=1
		fi
	done
done
exit $status
