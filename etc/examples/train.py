#!/usr/bin/env python3
#SBATCH --gres=gpu:1 --cpus-per-task=3 --open-mode=append
#SBATCH --comment="synergy-profile=res18.json synergy-checkpoint=USR1@60"
"""A trainer that is its own batch script: it saves when it is asked to, and goes on from there when it is started again."""

import json
import os
import signal
import sys
import time

REQUEUE = 98  # the site's RequeueExit
STATE = os.environ.get("STATE", "state.json")
STEPS = int(os.environ.get("STEPS", "1000"))

asked = False


def ask(signum, frame):
    global asked  # looked at between two steps, when the state is whole
    asked = True


def load():
    try:
        with open(STATE) as f:
            return json.load(f)["step"]
    except FileNotFoundError:
        return 0


def save(step):
    with open(STATE + ".tmp", "w") as f:
        json.dump({"step": step}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(STATE + ".tmp", STATE)


signal.signal(signal.SIGUSR1, ask)
for step in range(load(), STEPS):
    time.sleep(0.01)  # a training step
    if asked:
        save(step + 1)
        print("saved after step", step + 1, flush=True)
        sys.exit(REQUEUE)
print("trained", STEPS, "steps", flush=True)
