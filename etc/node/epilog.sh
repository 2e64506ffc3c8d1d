#!/bin/sh
# Epilog of a node without the SPANK plugin: forgets what prolog.sh has kept, and the broker's program what it has stamped.
broker=/usr/lib/synergy/node/synergy-broker # of jobs that share a GPU; a node may be without
case $SLURM_JOB_ID in
'' | *[!0-9]*) exit 0 ;;
esac
rm -f "/run/synergy-jobs/$SLURM_JOB_ID"
if [ -e "/run/synergy-broker/jobs/$SLURM_JOB_ID.json" ] && [ -x "$broker" ]; then "$broker" unstamp </dev/null >/dev/null 2>&1; fi
exit 0
