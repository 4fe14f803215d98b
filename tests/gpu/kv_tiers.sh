#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A minute of the KV cache on three tiers that are all there, on a machine with a GPU:
#
#	tests/gpu/kv_tiers.sh [BUILD [FOLDER [SECONDS]]]
#
# BUILD has the command (build-portable); objects go to FOLDER (/var/tmp), 16 GiB of them.  Every
# byte that is read is compared, and once more none.  Ends with 1 unless all three tiers were read
# and written, nothing failed, and without comparing no more than 4 cores were busy (it was 7.6 when
# copies span); prints what each tier did and the cores that were busy.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build-portable}" && pwd)
scratch=$(mktemp -d "${2:-/var/tmp}/penstock-kv-tiers-XXXXXX")
seconds=${3:-60}
trap 'rm -rf "$scratch"' EXIT

# run NAME OPTION...: cores busy are told of the run as a whole.
run() {
	local name=$1
	shift
	"$build/penstock" kv --model llama3.1-8b --num-users 80 --runtime "$seconds" --gpu-mem-gb 8 --cpu-mem-gb 8 \
		--storage-capacity-gb 16 --generation-mode none --seed 1 --folder "$scratch/cache" \
		--output "$scratch/kv.json" "$@" >"$scratch/log" 2>&1 || { tail -40 "$scratch/log"; exit 1; }
	python3 - "$scratch/kv.json" "$scratch/log" "$name" <<'END'
import json, re, sys
result = json.load(open(sys.argv[1]))['penstock']
kv, log, name = result['kv'], open(sys.argv[2]).read(), sys.argv[3]
user, system = map(float, re.search(r'([\d.]+) s of processor time for the user, ([\d.]+) s', log).groups())
cores = (user + system) / kv['elapsed_sec']
failed = sum(kv['errors'][k] for k in ('reads', 'writes', 'verify', 'requests'))
print(f'{name}: {kv["requests"]} requests, {failed} failures, {cores:.2f} cores busy')
print('\n'.join(line for line in log.splitlines() if re.match(r'  (GPU|CPU|storage)\b.*\d$|  GPU: ', line)))
stats = json.load(open(sys.argv[1]))['summary']['cache_stats']
idle = [t for t in ('gpu', 'cpu', 'storage') for w in ('read', 'written') if not stats[f'tier_{t}_kv_bytes_{w}_gb']]
if failed or idle or 'memory of' not in log or (name != 'verified' and cores > 4):
    sys.exit(f'failed: {kv["errors"]["first"]}; tiers not used: {idle}')
END
}

run verified --verify
run plain
