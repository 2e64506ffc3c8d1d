#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:1 --cpus-per-task=3 --open-mode=append
#SBATCH --comment="synergy-profile=res18.json synergy-checkpoint=USR1@60"

# The same three lines: srun passes the signal on to every task, on every node, and ends when all have saved.
trap 'kill -USR1 "$pid"; wait "$pid"; exit 98' USR1
srun "${TRAINER:-./train}" "$@" & pid=$!
wait "$pid"
