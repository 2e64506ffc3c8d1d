#!/bin/sh
# Before the file goes: Slurm starts no job without a plugin that plugstack.conf requires, and goes on without one that
# it has as optional.
set -e

[ "$1" = remove ] || [ "$1" = 0 ] || exit 0

for conf in /etc/slurm/plugstack.conf /etc/slurm-llnl/plugstack.conf; do
    named=$(grep -E '^[[:space:]]*(required|optional|include)[[:space:]].*/usr/lib/synergy/spank/' "$conf" 2>/dev/null) ||
        continue
    case $named in
    *required*)
        echo "synergy-spank: $conf requires the plugin, and Slurm would start no job without it: take the line out," \
            "and remove the package then" >&2
        exit 1
        ;;
    esac
    echo "synergy-spank: $conf still names the plugin: take the line out" >&2
done
