#!/bin/sh
# Before the files go: Slurm drains a node whose Prolog is not there, and fails all tasks without the TaskProlog.
set -e

[ "$1" = remove ] || [ "$1" = 0 ] || exit 0

for conf in /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf; do
    if grep -Eq '^[[:space:]]*[A-Za-z]*(Prolog|Epilog)=/usr/lib/synergy/node/' "$conf" 2>/dev/null; then
        echo "synergy-node: $conf still names scripts in /usr/lib/synergy/node, and Slurm would drain this node without" \
            "them: take these lines out, scontrol reconfigure, and remove the package then" >&2
        exit 1
    fi
done

[ -d /run/systemd/system ] || exit 0
systemctl --no-reload disable --now synergy-broker.service
