#!/bin/bash
#SBATCH --gres=gpu:1 --cpus-per-task=3 --open-mode=append
#SBATCH --comment="synergy-profile=res18.json synergy-checkpoint=USR1@60"

# The three lines: pass the request to save on, wait until it is done, and tell Slurm to queue the job again. The trainer runs in
# the background, because a shell does not look at its traps while something runs in the foreground.
trap 'kill -USR1 "$pid"; wait "$pid"; exit 98' USR1
"${TRAINER:-./train}" "$@" & pid=$!
wait "$pid"
