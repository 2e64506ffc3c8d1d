#!/bin/sh
# Before the files go: "remove" by dpkg, 0 by rpm; anything else is an upgrade. The daemon's unit hands all waiting
# jobs back to Slurm as it stops, for which the binary, the configuration and the token have to be there still.
set -e

[ "$1" = remove ] || [ "$1" = 0 ] || exit 0

for gate in /etc/slurm/job_submit.lua /etc/slurm-llnl/job_submit.lua; do
    if grep -q synergy-profile "$gate" 2>/dev/null; then
        echo "synergy-slurmd: $gate still gates jobs, which wait for a whole lease without the daemon: take lua out of" \
            "JobSubmitPlugins, or our gate out of that file" >&2
    fi
done
[ -d /run/systemd/system ] || exit 0
systemctl --no-reload disable --now synergy-token.timer synergy-release.timer synergy-slurmd.service
