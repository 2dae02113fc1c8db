#!/usr/bin/env bash
# Installs the programs that the tests use, where they are missing and it may.
# Where it can't it says what will be skipped. With CI=true nothing may be missing.
set -euo pipefail

# look sets missing to the Debian packages of which something is not there.
look() {
	missing=()
	command -v redis-server >/dev/null || missing+=(redis-server)
	command -v strace >/dev/null || missing+=(strace)
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
	command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]] || missing+=(pgbouncer)
	command -v openssl >/dev/null || missing+=(openssl)
	compiles cc || compiles gcc || missing+=(gcc libc6-dev)
}

# A compiler may be there without the headers that the race detector needs.
compiles() {
	echo '#include <stdlib.h>' | "$1" -E -x c - >/dev/null 2>&1
}

as_root=()
may_install() {
	command -v apt-get >/dev/null || return 1
	[[ $(id -u) -ne 0 ]] || return 0
	command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
	as_root=(sudo -n)
}

# Debian would start a server of its own at installation, and make a cluster for
# PostgreSQL; the tests start theirs on free ports. What is put in its way is taken away
# again, also when the installation fails.
policy=/usr/sbin/policy-rc.d
cluster=/etc/postgresql-common/createcluster.conf
placed=()
made=
tidy() {
	[[ -z $made || -d /usr/share/postgresql-common ]] || placed+=("$made")
	((${#placed[@]} == 0)) || "${as_root[@]}" rm -f "${placed[@]}"
	placed=()
}

install_missing() {
	trap tidy EXIT
	if [[ ! -e $policy ]]; then
		placed+=("$policy")
		printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
		"${as_root[@]}" chmod 755 "$policy"
	fi
	if [[ " ${missing[*]} " == *" postgresql "* && ! -e $cluster ]]; then
		made=$cluster
		"${as_root[@]}" mkdir -p "${cluster%/*}"
		echo 'create_main_cluster = false' | "${as_root[@]}" tee "$cluster" >/dev/null
	fi
	# One list that can't be had is no reason to try nothing; nor is one package.
	"${as_root[@]}" apt-get update -qq >/dev/null || true
	for package in "${missing[@]}"; do
		# dpkg looks for its programs in PATH, which need not have them after a su. Somebody
		# else may be installing something just now.
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" \
			apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 \
			-o Dpkg::Options::=--force-confold "$package" >/dev/null || echo "can't install $package" >&2
	done
	tidy
}

look
((${#missing[@]} > 0)) || exit 0
why="not allowed to install"
if may_install; then
	echo "installing: ${missing[*]}"
	install_missing
	why="could not be installed"
	look
	((${#missing[@]} > 0)) || exit 0
fi

echo "missing, and $why: ${missing[*]}; the tests that need them will be skipped" >&2
if [[ ${CI:-} == true ]]; then
	echo "CI=true: nothing may be skipped" >&2
	exit 1
fi
if [[ " ${missing[*]} " == *" gcc "* ]]; then
	echo "without a C compiler the race detector can't run; use: make quick" >&2
	exit 1
fi
