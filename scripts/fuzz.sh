#!/usr/bin/env bash
# Runs every fuzz target of the module for the time given (default 20s).
set -euo pipefail
time=${1:-20s}
go list ./... | while read -r pkg; do
	dir=$(go list -f '{{.Dir}}' "$pkg")
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | while read -r target; do
		echo "== $pkg $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
	done
done
