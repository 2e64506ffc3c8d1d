"""What this process was given, as its environment says: which rank it is, how many cores and how
much memory it has.

All functions read the environment at each call, because each start of a job may be of another size.
"""

import os
import sys
from typing import Mapping, Optional

MAX_NUMBER = 1 << 30  # that an environment may claim


def number(env: "Mapping[str, str]", name: str) -> "Optional[int]":
    """A whole number from 0 on in the environment; None where it is missing or none."""
    text = env.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    found = int(text)
    return found if found <= MAX_NUMBER else None


def rank(env: "Optional[Mapping[str, str]]" = None) -> int:
    """Which of the job's processes this is, from 0 on: torch.distributed's word, torchrun's,
    MPI's, or srun's."""
    return _place(env)[0]


def ranks(env: "Optional[Mapping[str, str]]" = None) -> int:
    """How many processes train together."""
    return _place(env)[1]


def _place(env: "Optional[Mapping[str, str]]") -> "tuple[int, int]":
    group = None if env is not None else process_group()
    if group is not None:
        return group.get_rank(), group.get_world_size()
    env = os.environ if env is None else env
    # SLURM_NTASKS also stands in a batch script, which is one process whatever it says; the step's
    # own name does not.
    for mine, all_of_us in (
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ):
        found, size = number(env, mine), number(env, all_of_us)
        if found is not None and size is not None and found < size:
            return found, size
    return 0, 1


def process_group():  # the module, or None
    """torch.distributed where it is imported and set up. It is never imported from here: that
    takes seconds."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module


def cores(env: "Optional[Mapping[str, str]]" = None) -> int:
    """The cores of this process: its part of what the job has on this node, at least 1.

    The rule is that of the nodes (docs/node-setup.md): SLURM_CPUS_PER_TASK, unless that is more
    than there is here, or the node's cores divided by the job's tasks there. torchrun's processes
    divide those of their task. Without a job it is what the kernel lets this process use.
    """
    env = os.environ if env is None else env
    here = number(env, "SYNERGY_CPUS") or number(env, "SLURM_CPUS_ON_NODE")
    task = number(env, "SLURM_CPUS_PER_TASK")
    if here and not (task and task <= here):
        task = max(1, here // _tasks_here(env))
    return part(task or affinity(), env)


def affinity() -> int:
    """What the kernel lets this process use. It may change while it runs."""
    return len(os.sched_getaffinity(0))


def part(cores: int, env: "Optional[Mapping[str, str]]" = None) -> int:
    """This process's part of the cores of its task, at least 1: torchrun's processes divide
    them."""
    env = os.environ if env is None else env
    return max(1, cores // max(1, number(env, "LOCAL_WORLD_SIZE") or 1))


def _tasks_here(env: "Mapping[str, str]") -> int:
    """Tasks on this node; a managed job has as many on each of its nodes: "2(x3)" is two on each
    of three."""
    text = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE") or "1"
    first = text.split("(")[0].split(",")[0]
    return max(1, int(first)) if first.isascii() and first.isdigit() else 1


def workers(env: "Optional[Mapping[str, str]]" = None) -> int:
    """How many workers a data loader should have: one on each core. The training process itself
    mostly waits."""
    return cores(env)


def memory(env: "Optional[Mapping[str, str]]" = None) -> "Optional[int]":
    """Bytes of memory that the job has on this node: Slurm's word or the cgroup's, the less of
    both; None: no limit."""
    env = os.environ if env is None else env
    mib = number(env, "SYNERGY_MEMORY_MB") or number(env, "SLURM_MEM_PER_NODE")
    here = number(env, "SYNERGY_CPUS") or number(env, "SLURM_CPUS_ON_NODE")
    if not mib and here:
        mib = (number(env, "SLURM_MEM_PER_CPU") or 0) * here
    known = [limit for limit in (mib and mib << 20, cgroup_memory()) if limit]
    return min(known) if known else None


def cgroup_memory(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> "Optional[int]":
    """The least memory.max in bytes from this process's cgroup up to the root; None where there
    is none."""
    try:
        with open(own, encoding="utf-8") as file:
            path = next(line.strip()[3:] for line in file if line.startswith("0::"))
    except (OSError, ValueError, StopIteration):
        return None
    limits = []
    while path not in ("", "/"):
        limits.append(_limit(f"{root}{path}/memory.max"))
        path = os.path.dirname(path)
    return min((limit for limit in limits if limit), default=None)


def _limit(path: str) -> "Optional[int]":
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read(32))
    except (OSError, ValueError):  # "max" is none
        return None
