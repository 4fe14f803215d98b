#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# CPython without a GIL, built from Debian's sources, and the Python suite on it; no Debian package has one.
#
#	tools/freethreaded.sh [VERSION [SUITE]]		3.13 of trixie; 3.14 is in sid
#
# The interpreter goes to build-pyVERSIONt-root, once (three minutes of CPU time), the build of penstock for it to
# build-pyVERSIONt.  numpy is installed into it where pip can find it; what needs torch is skipped.
set -eu

cd "$(dirname "$0")/.."
VERSION=${1:-3.13}
case $VERSION in
3.13) SUITE=${2:-trixie} ;;
*) SUITE=${2:-sid} ;;
esac
BUILD=$PWD/build-py${VERSION}t
ROOT=$BUILD-root
PYTHON=$ROOT/bin/python${VERSION}t
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
# Where this machine gets Debian's packages from.
MIRROR=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)}

fail() {
	echo "freethreaded: $*" >&2
	exit 1
}

# With lists of its own: the machine's stay as they are.
apt() {
	command=$1
	shift
	"$command" -qq -o Dir::Etc::sourcelist="$ROOT/apt/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State="$ROOT/apt" -o Dir::Cache="$ROOT/apt" -o APT::Sandbox::User= "$@"
}

# The archive that upstream made, with the checksum of Debian's signed lists; Debian's changes are not needed.
fetch() {
	[ -n "$MIRROR" ] || fail "apt-get knows no mirror of Debian's: MIRROR=URL names one"
	mkdir -p "$ROOT/apt/lists/partial" "$ROOT/apt/archives/partial"
	echo "deb-src [signed-by=$KEYRING] $MIRROR $SUITE main" >"$ROOT/apt/sources.list"
	apt apt-get update
	apt apt-get source --print-uris "python$VERSION" | sed -n "s/^'\(.*\.orig\.tar\.xz\)' .* \(SHA256:.*\)/\1 \2/p" \
		>"$ROOT/apt/uri"
	read -r uri sum <"$ROOT/apt/uri" || fail "$SUITE has no python$VERSION"
	/usr/lib/apt/apt-helper -qq download-file "$uri" "$ROOT/source.tar.xz" "$sum"
}

interpreter() {
	[ -e "$ROOT/source.tar.xz" ] || fetch
	rm -rf "$ROOT/source"
	mkdir -p "$ROOT/source"
	tar -xJf "$ROOT/source.tar.xz" -C "$ROOT/source" --strip-components 1
	(
		cd "$ROOT/source"
		./configure -q --disable-gil --disable-test-modules --prefix="$ROOT" CFLAGS=-g0
		make -s -j"$(nproc)"
		make -s install
	) >"$ROOT/log" 2>&1 || fail "CPython cannot be built: $ROOT/log"
	rm -rf "$ROOT/source"
	"$PYTHON" -m pip install -q --only-binary :all: numpy || echo "freethreaded: without numpy" >&2
}

[ -x "$PYTHON" ] || interpreter
"$PYTHON" -c 'import sys; sys.exit(sys._is_gil_enabled())' || fail "$PYTHON has a GIL"
[ -e "$BUILD/build.ninja" ] ||
	meson setup -Dinterpreter="$PYTHON" -Dtests=enabled -Dpython=enabled -Dwerror=true "$BUILD"
ninja -C "$BUILD" all meson-test-prereq
exec python3 tools/run_tests.py --python "$PYTHON" "${BUILD##*/}:python"
