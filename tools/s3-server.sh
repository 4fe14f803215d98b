#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real S3 server on this machine's loopback, to try and to test against: Ceph's gateway as Debian has it.
#
#	tools/s3-server.sh start [--port 7480] [--gateways 1] [--tls] [--size 8G] DIR
#	tools/s3-server.sh status|env|stop DIR
#
# One monitor, one OSD on a sparse file and as many gateways on that one store as --gateways says, at ports that
# follow each other; --tls opens as many ports more behind these, with a certificate of a CA in DIR/ca.pem.
# Everything is in DIR, keys are fixed, and nobody else can reach it.  `start` prints the environment that clients
# need; `eval "$(tools/s3-server.sh start DIR)"` sets it.  `stop` ends every process and leaves the files; what they
# held is there at the next `start` with the same port.
set -eu

ACCESS=penstockaccess
SECRET=penstocksecretpenstocksecretpenstock
DNS=s3.localhost

name=s3-server conf=ceph.conf values='port gateways size' flags=tls
port=7480 gateways=1 tls='' size=8G
. "$(dirname "$0")/daemons.sh"
options "$@"
number --port "$port" 1024 65000
number --gateways "$gateways" 1 8

stop() {
	end_all
	rm -f "$dir"/*.asok
}

need() {
	for tool in ceph ceph-mon ceph-osd radosgw radosgw-admin monmaptool ${tls:+openssl}; do
		command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install" \
			"--no-install-recommends radosgw ceph-mon ceph-osd ceph-common${tls:+ openssl}"
	done
}

ceph_() { timeout 60 ceph --conf "$dir/ceph.conf" "$@" >>"$dir/start.log" 2>&1; }

# The monitor's port is the one below the gateways'; those of the OSD are chosen by itself, from 6800 on.
config() {
	cat >"$dir/ceph.conf" <<-END
		[global]
		fsid = 5f1e0000-0000-4000-8000-000000000001
		auth cluster required = none
		auth service required = none
		auth client required = none
		mon host = [v2:127.0.0.1:$((port - 1))]
		public addr = 127.0.0.1
		cluster addr = 127.0.0.1
		ms bind ipv6 = false
		ms mon client mode = crc
		osd pool default size = 1
		osd pool default min size = 1
		osd pool default pg num = 4
		osd pool default pgp num = 4
		osd pool default pg autoscale mode = off
		mon warn on pool no redundancy = false
		mon allow pool size one = true
		osd crush chooseleaf type = 0
		run dir = $dir
		admin socket = $dir/\$name.\$pid.asok
		log file = $dir/\$name.log
		pid file = $dir/\$type.\$id.pid
		crash dir = $dir
		[mon]
		mon data = $dir/mon
		mon data avail crit = 1
		mon data avail warn = 2
		[osd]
		osd data = $dir/osd
		osd objectstore = bluestore
		bluestore block size = $bytes
		bluestore block create = true
		osd memory target = 1073741824
		osd crush update on start = true
		osd class update on start = false
		[client]
		rgw dns name = $DNS
		rgw gc obj min wait = 5
		rgw gc processor period = 5
		rgw gc processor max time = 5
		rgw enable usage log = false
		rgw enable apis = s3, admin
		rgw data = $dir
	END
	gateway=0
	while [ "$gateway" -lt "$gateways" ]; do
		at=$((port + gateway))
		more=${tls:+" ssl_endpoint=127.0.0.1:$((at + gateways)) ssl_certificate=$dir/server.pem ssl_private_key=$dir/server.key"}
		cat >>"$dir/ceph.conf" <<-END
			[client.rgw$gateway]
			rgw frontends = beast endpoint=127.0.0.1:$at$more tcp_nodelay=1
		END
		gateway=$((gateway + 1))
	done
}

certificates() {
	[ -s "$dir/server.pem" ] && return
	openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj '/CN=penstock test CA' \
		-keyout "$dir/ca.key" -out "$dir/ca.pem" 2>>"$dir/start.log"
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$DNS" \
		-keyout "$dir/server.key" -out "$dir/server.csr" 2>>"$dir/start.log"
	printf 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:%s,DNS:*.%s\n' $DNS $DNS >"$dir/server.ext"
	openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial \
		-days 3650 -extfile "$dir/server.ext" -out "$dir/server.pem" 2>>"$dir/start.log"
}

# Once for a folder: the monitor's and the OSD's stores.
make_stores() {
	[ -e "$dir/made" ] && return
	rm -rf "$dir/mon" "$dir/osd"
	mkdir -p "$dir/mon" "$dir/osd"
	monmaptool --create --clobber --fsid 5f1e0000-0000-4000-8000-000000000001 \
		--addv a "[v2:127.0.0.1:$((port - 1))]" "$dir/monmap" >>"$dir/start.log" 2>&1
	ceph-mon --conf "$dir/ceph.conf" --mkfs -i a --monmap "$dir/monmap" >>"$dir/start.log" 2>&1 ||
		fail "the monitor's store cannot be made: see $dir/start.log"
	ceph-osd --conf "$dir/ceph.conf" -i 0 --mkfs --no-mon-config --monmap "$dir/monmap" \
		--osd-uuid 5f1e0000-0000-4000-8000-000000000002 >>"$dir/start.log" 2>&1 ||
		fail "the OSD's store cannot be made: see $dir/start.log"
}

make_user() {
	[ -e "$dir/made" ] && return
	timeout 120 radosgw-admin --conf "$dir/ceph.conf" user create --uid penstock --display-name penstock \
		--access-key $ACCESS --secret-key $SECRET >>"$dir/start.log" 2>&1 ||
		fail "no user: see $dir/start.log"
	echo "$port" >"$dir/made"
}

answers() {
	i=0
	while [ $i -lt 300 ]; do
		[ -n "$(pids)" ] || return 1
		if curl -s -o "$dir/answer" "http://127.0.0.1:$1/" 2>/dev/null; then
			return 0
		fi
		sleep 0.1
		i=$((i + 1))
	done
	return 1
}

start_gateway() {
	radosgw --conf "$dir/ceph.conf" --name "client.rgw$1" --pid-file "$dir/rgw.$1.pid" >>"$dir/start.log" 2>&1 ||
		fail "gateway $1 does not start: see $dir/start.log"
}

environment() {
	awk -F '[= ]+' -v access=$ACCESS -v secret=$SECRET -v dir="$dir" '
	/^rgw frontends/ {
		for (i = 1; i <= NF; i++) {
			if ($i == "endpoint") plain = plain (plain ? "," : "") "http://" $(i + 1)
			if ($i == "ssl_endpoint") tls = tls (tls ? "," : "") "https://" $(i + 1)
		}
	}
	END {
		first = tls ? tls : plain
		sub(/,.*/, "", first)
		print "export AWS_ENDPOINT_URL=" first
		print "export S3_ENDPOINT_URIS=" (tls ? tls : plain)
		print "export AWS_ACCESS_KEY_ID=" access
		print "export AWS_SECRET_ACCESS_KEY=" secret
		print "export AWS_REGION=us-east-1"
		if (tls) print "export AWS_CA_BUNDLE=" dir "/ca.pem"
	}' "$dir/ceph.conf"
}

start() {
	need
	bytes=$(numfmt --from=iec "$size" 2>/dev/null) || fail "--size $size: a size such as 8G is needed"
	[ "$bytes" -ge 1073741824 ] || fail "--size $size: at least 1G is needed"
	free_for $((port - 1)) $((port + gateways * 2 - 1))
	[ ! -e "$dir/made" ] || [ "$(cat "$dir/made")" = "$port" ] ||
		fail "$dir was made with --port $(cat "$dir/made"): give the same, or another folder"
	: >"$dir/start.log"
	# From here on a failure must not leave anything behind.
	trap 'stop' EXIT
	trap 'exit 1' INT TERM HUP
	[ -z "$tls" ] || certificates
	config
	make_stores
	ceph-mon --conf "$dir/ceph.conf" -i a --pid-file "$dir/mon.a.pid" >>"$dir/start.log" 2>&1 ||
		fail "the monitor does not start: see $dir/start.log"
	[ -e "$dir/made" ] || ceph_ osd new 5f1e0000-0000-4000-8000-000000000002 0 ||
		fail "the monitor does not answer: see $dir/start.log"
	ceph-osd --conf "$dir/ceph.conf" -i 0 --pid-file "$dir/osd.0.pid" >>"$dir/start.log" 2>&1 ||
		fail "the OSD does not start: see $dir/start.log"
	make_user
	gateway=0
	while [ "$gateway" -lt "$gateways" ]; do
		start_gateway "$gateway"
		gateway=$((gateway + 1))
	done
	for at in $(seq "$port" $((port + gateways - 1))); do
		answers "$at" || fail "nobody answers at port $at: see $dir/start.log"
	done
	trap - EXIT
	environment
}

serve
