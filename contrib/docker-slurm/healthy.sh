#!/bin/bash
# The container's health check: does this role do its work?
set -euo pipefail

case $(cat /run/role) in
mariadb) mariadb-admin --protocol=socket ping ;;
slurmdbd) sacctmgr -n show cluster ;;
slurmctld) scontrol ping | grep -q 'is UP' ;;
slurmrestd) curl -s -o /dev/null --max-time 5 --unix-socket /shared/slurmrestd/slurmrestd.sock http://localhost/openapi/v3 ;;
slurmd) pgrep -x slurmd && munge -n ;;
login) munge -n ;;
*) exit 1 ;;
esac >/dev/null
