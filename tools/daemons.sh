# SPDX-License-Identifier: Apache-2.0
# Read by tools/slurm.sh and tools/s3-server.sh: daemons that have everything in one folder.  Who reads it says before
# whose messages they are ($name), which file the folder has once they were started ($conf), and which options there are:
# --NAME VALUE for the words of $values, --NAME alone for those of $flags; their defaults are variables of these names.
# It has start, stop and environment, and calls `options "$@"` and `serve`.

say() { echo "$name: $*" >&2; }
fail() {
	say "$@"
	exit 1
}

usage() {
	sed -n 's/^#	//p' "$0" >&2
	exit 2
}

number() {
	case $2 in
	'' | *[!0-9]*) fail "$1 $2: a number from $3 to $4 is needed" ;;
	esac
	[ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || fail "$1 $2: a number from $3 to $4 is needed"
}

# Sets $what, $dir and what was given.
options() {
	[ $# -ge 2 ] || usage
	what=$1 dir=''
	shift
	while [ $# -gt 0 ]; do
		key=${1#--}
		case $1 in
		--*[!a-z]*) fail "$1: no such option" ;;
		--*)
			case " $values / $flags " in
			*" $key "*/*)
				[ $# -ge 2 ] || fail "$1 needs a value"
				eval "$key=\$2"
				shift
				;;
			*/*" $key "*) eval "$key=1" ;;
			*) fail "$1: no such option" ;;
			esac
			;;
		-*) fail "$1: no such option" ;;
		*)
			[ -z "$dir" ] || fail "$1: one folder is enough"
			dir=$1
			;;
		esac
		shift
	done
	[ -n "$dir" ] || fail "the folder of the server is missing"
}

# The daemons write their pids here; a pid that is another program's by now is not ours to end.
pids() {
	for file in "$dir"/*.pid; do
		[ -s "$file" ] || continue
		pid=$(cat "$file" 2>/dev/null) || continue
		if grep -aqF -- "$dir/" "/proc/$pid/cmdline" 2>/dev/null; then
			echo "$pid"
		fi
	done
}

gone() {
	i=0
	while [ $i -lt "$1" ]; do
		[ -n "$(pids)" ] || return 0
		sleep 0.1
		i=$((i + 1))
	done
	return 1
}

# A stopped process does not see SIGTERM before it goes on.
end_all() {
	for pid in $(pids); do
		kill -TERM "$pid" 2>/dev/null || true
		kill -CONT "$pid" 2>/dev/null || true
	done
	gone 100 || for pid in $(pids); do kill -KILL "$pid" 2>/dev/null || true; done
	gone 50 || fail "processes do not end: $(pids | tr '\n' ' ')"
	rm -f "$dir"/*.pid
}

# Before anything is started: nobody is there, and nobody has ports $1 to $2.
free_for() {
	[ -z "$(pids)" ] || fail "$dir: it is running there: $0 stop $dir"
	for at in $(seq "$1" "$2"); do
		! grep -qi ":$(printf %04X "$at") 00000000:0000 0A" /proc/net/tcp || fail "port $at is taken: --port"
	done
}

serve() {
	case $what in
	start)
		mkdir -p "$dir" || fail "$dir: cannot be made"
		dir=$(cd "$dir" && pwd)
		start
		;;
	stop | status | env)
		[ -e "$dir/$conf" ] || fail "$dir: it was not started there"
		dir=$(cd "$dir" && pwd)
		case $what in
		stop) stop ;;
		env) environment ;;
		status)
			[ -n "$(pids)" ] || fail "$dir: not running"
			environment
			;;
		esac
		;;
	*) usage ;;
	esac
}
