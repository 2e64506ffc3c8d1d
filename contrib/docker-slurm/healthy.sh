#!/bin/bash
# The container's health check: does this role do its work?
set -euo pipefail

case $(cat /run/role) in
mariadb) mariadb-admin --protocol=socket ping ;;
slurmdbd) sacctmgr -n show cluster ;;
slurmctld) scontrol ping | grep -q 'is UP' ;;
slurmrestd) curl -sf --max-time 5 -H "X-SLURM-USER-TOKEN: $(cat /shared/synergy/token)" \
    --unix-socket /shared/slurmrestd/slurmrestd.sock http://localhost/slurm/v0.0.42/ping/ ;;
slurmd) pgrep -f '^slurmd ' && munge -n ;; # one that has read its files again is called exe
login) munge -n ;;
*) exit 1 ;;
esac >/dev/null
