#!/bin/bash
# Run in the login role: succeeds when a job submitted now would run, the REST
# door opens with the daemon's token, and accounting knows the controller.
# Otherwise it says what is still missing.
set -uo pipefail

missing() {
    echo "$1"
    exit 1
}

idle=$(sinfo -h -p synergy -t idle -o %D 2>/dev/null)
[[ ${idle:-0} == "$NODES" ]] || missing "${idle:-0} of $NODES nodes idle"

[[ -n $(sacctmgr -nP show cluster format=controlhost 2>/dev/null) ]] || missing "slurmdbd has not seen slurmctld"

token=$(cat /shared/synergy/token 2>/dev/null) || missing "no token for the daemon yet"
status=$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 \
    -H "X-SLURM-USER-NAME: synergy" -H "X-SLURM-USER-TOKEN: $token" \
    http://slurmrestd:6820/slurm/v0.0.42/jobs/state/)
[[ $status == 200 ]] || missing "slurmrestd answers $status"
