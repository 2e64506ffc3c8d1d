#!/usr/bin/env bash
# suite.sh NAME COMMAND...: runs a suite. If SUITES names a file, a line "seconds, seconds of CPU, exit status, NAME" is
# added to it; the CPU of containers is not in it.
set -uo pipefail
name=$1
shift
began=$SECONDS
"$@"
status=$?
if [ -n "${SUITES:-}" ]; then
  spent=$(mktemp)
  times > "$spent" # in this shell: a pipe would be another one, which has run nothing
  cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] }; printf "%.0f", s }' "$spent")
  rm -f "$spent"
  printf '%6d %6d %4d  %s\n' $((SECONDS - began)) "$cpu" "$status" "$name" >> "$SUITES"
fi
exit "$status"
