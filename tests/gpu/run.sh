#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What can only be tried on a machine with a GPU, from the portable build:
#
#	tests/gpu/run.sh [BUILD [FOLDER]]
#
# BUILD has the command and the Python package (build-portable); files go to FOLDER (/var/tmp), 7 GiB
# at a time.  Needs torch with CUDA in PYTHON (python3).  Prints a table, ends with 1 if anything
# failed.  As root it puts the udev record there that cuFile asks for, if it is missing, and takes
# it away.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build-portable}" && pwd) || exit 2
python=${PYTHON:-python3}
penstock=$build/penstock
scratch=$(mktemp -d "${2:-/var/tmp}/penstock-gpu-XXXXXX") || exit 2
record=
export PYTHONPATH=$build/python:$root/tests:$root/tests/python
export PENSTOCK_TEST_REQUIRE=cuda
steps=0
failed=0

cleanup() {
	rm -rf "$scratch"
	[ -z "$record" ] || rm -f "$record"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

row() {
	printf '%-46s %5s  %-6s  %s\n' "$@"
}

# What the output of a step tells: how GPU memory went, or how many cases there were.
summary() {
	sed -n 's/^memory:.* by \(the pinned pool\|cuFile\)/\1/p' "$scratch/log" | sort -u | head -1
	grep -q '^1\.\.' "$scratch/log" &&
		echo "$(grep -c '^ok' "$scratch/log") ok, $(grep -c '# SKIP' "$scratch/log") skipped"
}

# step NAME COMMAND...: its output goes to a log, of which the end is shown when it fails.
# Each begins in an empty folder; a log of cuFile's left there is a failure.
step() {
	local name=$1 begin=$SECONDS verdict=ok
	shift
	mkdir -p "$scratch/work"
	(cd "$scratch/work" && PENSTOCK_TEST_DIR=$scratch/work "$@") >"$scratch/log" 2>&1 </dev/null ||
		verdict=FAILED
	if [ -e "$scratch/work/cufile.log" ]; then
		echo "cufile.log is in the current folder" >>"$scratch/log"
		verdict=FAILED
	fi
	rm -rf "$scratch/work"
	steps=$((steps + 1))
	row "$name" "$((SECONDS - begin)) s" "$verdict" "$(summary | tr '\n' ' ')"
	if [ $verdict = FAILED ]; then
		failed=$((failed + 1))
		grep -v '^ok' "$scratch/log" | tail -40 | sed 's/^/    /'
	fi
}

# io NAME WAY OPTION...: the command, every byte compared, and by this way.
io() {
	local name=$1 way=$2
	shift 2
	step "$name" sh -c 'way=$1; shift; out=$("$@") || exit; echo "$out"
		case $out in *" by $way"*"validation: passed"*) ;; *) exit 1 ;; esac' sh "$way" \
		"$penstock" io --gpu 0 --iterations 1 --warmup 0 --verify "$@"
}

# sanitized NAME ERRORS OPTION...: ERRORS are the CUDA calls of which errors count as well.  cuFile
# has some of its own when it starts.
sanitized() {
	local name=$1 errors=$2
	shift 2
	step "compute-sanitizer, $name" "$sanitizer" --error-exitcode 9 --report-api-errors "$errors" \
		"$penstock" io -s 32M --gpu 0 --iterations 1 --verify "$@"
}

row test time result notes
step "penstock info" "$penstock" info --measure-gpu "$scratch"

# Does cuFile refuse files here, as it does without udev?  Then the pinned pool must take over.
number=$(stat -c %d "$scratch")
device=$(((number >> 8) & 0xfff)):$(((number & 0xff) | ((number >> 12) & 0xfff00)))
if [ ! -e "/run/udev/data/b$device" ]; then
	io "cuFile refuses, write" "the pinned pool" --gds -s 256M
	io "cuFile refuses, read" "the pinned pool" --gds -s 256M --read
	step "cuFile refuses, from Python" "$python" "$root/tests/gpu/device.py" pinned_pool
	if [ "$(id -u)" = 0 ]; then
		mkdir -p /run/udev/data
		record=/run/udev/data/b$device
		printf 'E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=%s\n' \
			"$(stat -f -c %T "$scratch" | sed 's/ext2.*/ext4/')" >"$record"
	fi
fi

for size in 1 4095 1M 1000001 64M 3G; do
	io "write, $size" "the pinned pool" -s "$size"
	io "read, $size" "the pinned pool" -s "$size" --read
done
for engine in io_uring libaio threads; do
	io "read, $engine" "the pinned pool" -s 64M --read-only --engine "$engine"
done
io "read, page cache, 4 I/O threads" "the pinned pool" -s 256M --read-only --direct never -t 4
io "write, two workers" "the pinned pool" -s 256M --workers 2
for size in 4K 256M 3G; do
	io "write, $size, cuFile" cuFile -s "$size" --gds
	io "read, $size, cuFile" cuFile -s "$size" --gds --read
done

# measured NAME PATTERN COMMAND...: a command of the GPU's memory whose result says so.
measured() {
	local name=$1 pattern=$2
	shift 2
	step "$name" sh -c 'p=$1; shift; "$@" --json result.json || exit; grep -q "$p" result.json' sh \
		"$pattern" "$@"
}
measured "bench, verified" '"memory": "gpu"' "$penstock" bench -m gpu --size 2M 32M -n 20 --verify --no-limit
measured "bench, cuFile, verified" '"memory": "gpu"' "$penstock" bench -m gpu -e cufile --size 2M 32M -n 20 \
	--verify --no-limit
measured "sweep" '"memory": "gpu"' "$penstock" sweep --gpu --size 64M --iterations 1 --block-size 1M 8M \
	--queue-depth 32 --no-limit --log-dir logs
measured "sweep, cuFile" '"memory": "gpu"' "$penstock" sweep --gpu --gds --size 64M --iterations 1 --block-size 1M 8M \
	--queue-depth 32 --no-limit --log-dir logs
measured "tune" '"memory": "gpu"' "$penstock" tune --gpu --budget 8 --size 64M --no-limit -o best.json
for layout in npy raw slab; do
	measured "kv, $layout, verified" 'memory of' "$penstock" kv --model tiny-1b --num-users 20 --runtime 10 \
		--max-requests 60 --gpu-mem-gb 1 --cpu-mem-gb 0.25 --storage-capacity-gb 2 \
		--generation-mode none --seed 1 --layout $layout --verify --folder cache --output kv.json
done

step "checksums on the device" "$python" "$root/tests/gpu/device.py" \
	"$([ -e /proc/driver/nvidia-fs ] && echo cufile || echo cufile-compat)"
for test in cuda_device torch_files safetensors_files store objects memory handle futures deepspeed_handle deepspeed_pinned \
	deepspeed_consumers deepspeed_writer; do
	step "python/$test" "$python" "$root/tests/python/$test.py" "$root" "$build"
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
if [ -n "$sanitizer" ]; then
	sanitized "write" explicit
	sanitized "read, odd, 4 threads" explicit --read-only --memory odd -t 4
	sanitized "read, cuFile" no --read-only --gds
	sanitized "write, cuFile" no --gds
else
	row compute-sanitizer - - "not here"
fi

echo "$steps tests, $failed failed, $SECONDS s"
[ $failed = 0 ]
