#!/bin/bash
#SBATCH --gres=gpu:1 --cpus-per-task=3 --open-mode=append
#SBATCH --comment="synergy-profile=res18.json synergy-checkpoint=USR1@60"

# One line in place of three: the request to save becomes the SIGTERM that most trainers know, and the end of the trainer exit code 98. With exec
# the signal reaches synergy and not a shell that would die of it. docs/python.md has the options for each framework.
exec synergy run -- "${TRAINER:-./train}" "$@"
