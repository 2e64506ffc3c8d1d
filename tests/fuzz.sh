#!/usr/bin/env bash
# fuzz.sh TIME: every fuzz target of the module for TIME each; ends with the first that finds something.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
  sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$file" | while read -r target; do
    echo "== $(dirname "$file") $target"
    go test "$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$1" </dev/null
  done
done
