#!/usr/bin/env bash
# with-cluster.sh PROJECT LEASE COMMAND...: runs COMMAND against a cluster of its own, which is removed again whatever happens.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PROJECT=$1 LEASE=$2 NODES=${NODES:-4} SYNERGY_CLUSTER=$1
shift 2
cluster=contrib/docker-slurm/cluster.sh
trap '"$cluster" down' EXIT
trap 'exit 130' INT TERM
"$cluster" down >/dev/null 2>&1 || true # of a run that was killed
"$cluster" up
status=0
"$@" || status=$?
if [ "$status" -ne 0 ]; then
  echo "the last lines of every role:"
  "$cluster" logs --tail 30 || true
fi
exit "$status"
