#!/usr/bin/env bash
# Installs the programs that the tests use, where they are missing and it may.
# Without the right to install it says what will be skipped. With CI=true
# nothing may be missing.
set -euo pipefail

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v strace >/dev/null || missing+=(strace)
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
command -v openssl >/dev/null || missing+=(openssl)
command -v cc >/dev/null || command -v gcc >/dev/null || missing+=(gcc libc6-dev)

if ((${#missing[@]} == 0)); then
	exit 0
fi

if command -v apt-get >/dev/null; then
	as_root=()
	if [[ $(id -u) -ne 0 ]] && command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		as_root=(sudo -n)
	fi
	if [[ $(id -u) -eq 0 || ${#as_root[@]} -gt 0 ]]; then
		echo "installing: ${missing[*]}"
		# Debian would start a server of its own at installation; the tests
		# start theirs on free ports.
		policy=
		if [[ ! -e /usr/sbin/policy-rc.d ]]; then
			policy=/usr/sbin/policy-rc.d
			printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
			"${as_root[@]}" chmod 755 "$policy"
		fi
		"${as_root[@]}" apt-get update -qq >/dev/null
		# Nor is a cluster of PostgreSQL wanted: the tests make their own.
		cluster=/etc/postgresql-common/createcluster.conf
		if [[ " ${missing[*]} " == *" postgresql "* && ! -e $cluster ]]; then
			"${as_root[@]}" mkdir -p "${cluster%/*}"
			echo 'create_main_cluster = false' | "${as_root[@]}" tee "$cluster" >/dev/null
		fi
		DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "${missing[@]}" >/dev/null
		[[ -z $policy ]] || "${as_root[@]}" rm -f "$policy"
		exit 0
	fi
fi

echo "missing, and not allowed to install: ${missing[*]}; the tests that need them will be skipped" >&2
if [[ ${CI:-} == true ]]; then
	echo "CI=true: nothing may be skipped" >&2
	exit 1
fi
if ! command -v cc >/dev/null && ! command -v gcc >/dev/null; then
	echo "without a C compiler the race detector can't run; use: make quick" >&2
	exit 1
fi
