"""What a training script says to synergy-slurmd, and what it needs to be stopped and resized at any
step.

    import synergy for batch in synergy.steps(loader, save=save):      # counted, reported; asked?
    save() and exit 98

docs/python.md has the five lines that do everything. Only the standard library is needed; torch is
used where it is.
"""

from ._leave import Alone
from .checkpoint import Damaged, Store
from .data import CachedFiles, Sampler, Seeded, loader
from .grant import cores, memory, rank, ranks, workers
from .progress import Progress
from .run import Leave, Loop, Run, resume, steps
from .turn import OutOfGPUMemory, turn

__all__ = [
    "Alone", "CachedFiles", "Damaged", "Leave", "Loop", "OutOfGPUMemory", "Progress", "Run",
    "Sampler", "Seeded", "Store",
    "cores", "loader", "memory", "rank", "ranks", "resume", "steps", "turn", "workers",
]  # fmt: skip
