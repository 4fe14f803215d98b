#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A Slurm of several nodes on this machine, to try and to test `srun` with: that of Debian.  Needs root.
#
#	tools/slurm.sh start [--nodes 4] [--port 16817] DIR
#	tools/slurm.sh status|env|stop DIR
#
# One controller and as many node daemons as --nodes says, at ports that follow each other, and a munge with a key of
# its own, which lets in nobody who cannot read it.  Everything is in DIR.  `start` prints the environment that clients
# need; `eval "$(tools/slurm.sh start DIR)"` sets it.  `stop` ends every process and leaves the logs.
set -eu

name=slurm conf=slurm.conf values='nodes port' flags=''
nodes=4 port=16817
. "$(dirname "$0")/daemons.sh"
options "$@"
number --nodes "$nodes" 1 64
number --port "$port" 1024 65000

stop() {
	export SLURM_CONF="$dir/slurm.conf"
	[ -z "$(pids)" ] || timeout 10 scancel --user="$(id -un)" 2>/dev/null || true
	end_all
}

need() {
	[ "$(id -u)" = 0 ] || fail "its daemons need root"
	for tool in munged slurmctld slurmd srun; do
		command -v $tool >/dev/null || fail "$tool is missing: apt-get install --no-install-recommends" \
			"slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
	done
}

# Nodes are of one host, and have more processors than it: ranks share them.
config() {
	cat >"$dir/slurm.conf" <<-END
		ClusterName=penstock
		SlurmctldHost=localhost(127.0.0.1)
		SlurmUser=root
		AuthType=auth/munge
		AuthInfo=socket=$dir/munge.socket
		SlurmctldPort=$port
		StateSaveLocation=$dir/state
		SlurmdSpoolDir=$dir/spool.%n
		TmpFS=$dir/tmp.%n
		SlurmctldPidFile=$dir/slurmctld.pid
		SlurmdPidFile=$dir/slurmd.%n.pid
		SlurmctldLogFile=$dir/slurmctld.log
		SlurmdLogFile=$dir/slurmd.%n.log
		ProctrackType=proctrack/pgid
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		AccountingStorageType=accounting_storage/none
		SelectType=select/linear
		SchedulerType=sched/builtin
		ReturnToService=2
		SlurmdParameters=config_overrides
		MpiDefault=none
		NodeName=n[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=64
		PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE State=UP
	END
}

answers() {
	i=0
	while [ $i -lt 300 ]; do
		[ "$(timeout 10 sinfo --noheader --states=idle --format=%D 2>/dev/null)" != "$nodes" ] || return 0
		sleep 0.1
		i=$((i + 1))
	done
	return 1
}

start() {
	need
	export SLURM_CONF="$dir/slurm.conf"
	free_for "$port" $((port + nodes))
	trap 'stop' EXIT
	trap 'exit 1' INT TERM HUP
	config
	mkdir -p "$dir/state"
	[ -s "$dir/munge.key" ] || (umask 077 && head -c 64 /dev/urandom >"$dir/munge.key")
	# --force: its folder may be below one that all may write
	munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
		--log-file="$dir/munged.log" --seed-file="$dir/munge.seed" >"$dir/start.log" 2>&1 ||
		fail "munge does not start: see $dir/start.log"
	slurmctld -f "$dir/slurm.conf" >>"$dir/start.log" 2>&1 ||
		fail "the controller does not start: see $dir/start.log"
	for node in $(seq "$nodes"); do
		mkdir -p "$dir/spool.n$node" "$dir/tmp.n$node"
		# a name of its own, as another host would have: Open MPI tells hosts by it
		unshare --uts sh -c 'hostname "$1" && exec slurmd -f "$2" -N "$1"' sh "n$node" "$dir/slurm.conf" >>"$dir/start.log" 2>&1 ||
			fail "node $node does not start: see $dir/start.log"
	done
	answers || fail "not all nodes are idle: see $dir/slurmctld.log"
	trap - EXIT
	environment
}

environment() { echo "export SLURM_CONF=$dir/slurm.conf"; }

serve
