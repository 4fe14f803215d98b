#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a build for aarch64 on another processor needs besides Debian's cross compiler:
#
#	tools/sysroot.sh DIR	DIR/cross.ini for Meson, DIR/usr with the libraries of that processor
#
# The packages of kind `arm64' in tools/packages.txt are downloaded by an apt of its own and
# unpacked, not installed: the system does not become one of two architectures, and no root is
# needed.  Says in one line why it cannot be done, if so.  Does nothing, quickly, when done.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
triple=aarch64-linux-gnu

no() {
	echo "$*"
	exit 1
}

[ $# = 1 ] || no "usage: tools/sysroot.sh DIR"
[ "$(uname -m)" != aarch64 ] || no "this is one, and needs no other compiler"
for tool in $triple-gcc qemu-aarch64-static apt-get dpkg-deb; do
	command -v $tool >/dev/null || no "$tool is missing: make setup-check"
done

mkdir -p "$1"
root=$(cd "$1" && pwd)
list=$(awk '$1 == "arm64" { print $2 }' "$top/tools/packages.txt" | tr '\n' ' ')
# What is there was made from this list, by this script, in this place.
stamp="$root $list$(cksum "$top/tools/sysroot.sh")"
[ "$(cat "$root/ready" 2>/dev/null)" != "$stamp" ] || exit 0

# apt with lists, cache and a view of what is installed (nothing) of its own.
apt_arm64() {
	apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 -o Debug::NoLocking=1 \
		-o Dir::State="$root/apt" -o Dir::State::status="$root/apt/status" \
		-o Dir::Cache="$root/apt/cache" "$@" </dev/null
}

log=$root/log
rm -rf "$root/usr" "$root/lib" "$root/apt" "$root/debs"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/debs"
: >"$root/apt/status"
apt_arm64 update >"$log" 2>&1 || : # one of several sources may be without arm64
# shellcheck disable=SC2086
(cd "$root/debs" && apt_arm64 download $list) >>"$log" 2>&1 ||
	no "packages for arm64 cannot be had: $(grep '^E:' "$log" | tail -1)"
for deb in "$root"/debs/*.deb; do
	dpkg-deb -x "$deb" "$root" || no "$deb cannot be unpacked"
done
rm -rf "$root/apt" "$root/debs"

cat >"$root/run" <<END
#!/bin/sh
exec qemu-aarch64-static -L /usr/$triple -E LD_LIBRARY_PATH='$root/usr/lib/$triple:$root/lib/$triple' "\$@"
END
chmod +x "$root/run"

cat >"$root/cross.ini" <<END
[binaries]
c = '$triple-gcc'
ar = '$triple-ar'
strip = '$triple-strip'
pkgconfig = 'pkg-config'
exe_wrapper = '$root/run'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/$triple/pkgconfig'
libraries = ['$root/usr/lib/$triple']
run = '$root/run'
python = '$root/usr/bin/python3.11'
[built-in options]
c_args = ['-isystem', '$root/usr/include']
c_link_args = ['-L$root/usr/lib/$triple']
END
printf '%s\n' "$stamp" >"$root/ready"
