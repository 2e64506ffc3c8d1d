"""torch's own DataLoader, with what it needs to be stopped and resized."""

import hashlib
import os
from typing import Any, Optional

from . import _chance, _leave, grant
from ._follow import Follower, Generation
from ._sampler import Sampler


class Seeded:
    """A data set whose random numbers follow from the seed, the epoch and the sample alone.

    Workers of a loader draw theirs by their own number, so what augments images at random would see
    others with another number of workers. The epoch is that of the sampler when a worker starts,
    which is at the beginning of each epoch or when one is gone on with.
    """

    def __init__(
        self, dataset: Any, sampler: Sampler, generation: "Optional[Generation]" = None
    ) -> None:
        self.dataset, self._sampler, self._generation = dataset, sampler, generation

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        if self._generation is not None:
            self._generation.check()
        text = f"synergy {self._sampler.seed} {self._sampler.epoch} {index}".encode()
        with _chance.seeded(hashlib.sha256(text).digest()):
            return self.dataset[index]

    def __getattr__(self, name: str) -> Any:
        # Given several indices at once, the data set's own method would draw unseeded.
        if name in ("dataset", "_sampler", "_generation", "__getitems__"):
            raise AttributeError(name)
        return getattr(self.dataset, name)


def loader(
    dataset: Any,
    batch: int,
    seed: "Optional[int]" = None,
    shuffle: bool = True,
    seeded: bool = True,
    **options: Any,
) -> Any:
    """torch's own DataLoader with a Sampler, and as many workers as the grant has cores.

    Inside of steps(loader) it gets a fresh set of workers when the process may use more or fewer
    cores than before, as while it is measured.

    seeded     whether the random numbers of a sample are its own, as in Seeded.
    options    go to DataLoader as they are; num_workers among them wins, and stays.
    """
    from torch.utils.data import DataLoader

    if seeded and options.get("persistent_workers"):
        raise ValueError(
            "persistent_workers=True: want False, or seeded=False: workers that stay never learn"
            " of another epoch"
        )
    options["worker_init_fn"] = _Worker(options.get("worker_init_fn"))
    sampler = Sampler(dataset, seed, batch, shuffle)
    if "num_workers" in options:
        return DataLoader(
            Seeded(dataset, sampler) if seeded else dataset, batch_sampler=sampler, **options
        )
    generation = Generation()
    samples = Seeded(dataset, sampler, generation) if seeded else dataset
    found = DataLoader(samples, batch_sampler=sampler, num_workers=grant.workers(), **options)
    found.synergy_follower = Follower(sampler, generation)
    return found


class _Worker:
    """What a worker does first. Slurm may signal all processes of a step: what asks the job to save
    is not for workers, and would end those that were not forked."""

    def __init__(self, then: Any) -> None:
        self._then, self._trainer = then, os.getpid()

    def __call__(self, number: int) -> None:
        _leave.ignore()
        if self._orphaned():
            os._exit(1)
        if self._then is not None:
            self._then(number)

    def _orphaned(self) -> bool:
        """Whether the training was killed before this worker had begun. torch's own watch takes
        whoever is the parent by now for the training, and such a worker would stay for ever. The
        parent alone does not say: with a fork server it is always another process."""
        if os.getppid() == self._trainer:
            return False
        try:
            os.kill(self._trainer, 0)
        except OSError:  # it is gone, or its number is somebody else's by now
            return True
        return False
