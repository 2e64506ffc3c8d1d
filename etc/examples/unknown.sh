#!/bin/bash
# A model that nobody has measured, on the cluster in containers: an emulated trainer, forty times as fast as a real one, that is measured in windows
# of four seconds. On a real node one line does: exec synergy run -- python train.py.
exec /opt/synergy/bin/synergy-emujob --profile "${1:-res18.json}" --profile-dir /opt/synergy/etc/profiles --virtual-cpu --iterations 100000 --speedup 40 \
    --start-cost 0 --checkpoint "/shared/ckpt/$USER-$SLURM_JOB_ID" --measure 4s
