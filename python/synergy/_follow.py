"""Loader workers that follow the cores: where the process may use more or fewer of them than
before, its training goes on with a fresh set of workers, exactly after the last trained sample."""

import time
from typing import Any, Callable, Iterator

from . import _chance, grant
from ._sampler import Sampler

LOOK = 0.1  # seconds between two looks at the cores, so that a step costs the reading of a clock


class Over(Exception):
    """Ends a batch in a worker whose set has been replaced. Nobody reads it."""


class Generation:
    """Which set of workers is the newest, in a memory that they share.

    torch has a worker finish its batch before it ends. With fewer cores than workers that may take
    a minute, in which the fresh ones would have to wait for these cores.
    """

    def __init__(self) -> None:
        import torch

        self._own = 0  # a worker keeps the number with which it was started
        self._newest = torch.zeros(1, dtype=torch.int64).share_memory_()

    def next(self) -> None:
        """All workers that have been started are of a set that is over."""
        self._own += 1
        self._newest.fill_(self._own)

    def check(self) -> None:
        """Raises Over in a worker of such a set."""
        if self._newest.item() != self._own:
            raise Over


class Follower:
    """What a loader of ours has, if nobody gave it a number of workers."""

    def __init__(self, sampler: Sampler, generation: Generation) -> None:
        self._sampler, self._generation = sampler, generation
        self._given = grant.affinity()  # which go with what the environment says
        self._cores = self._given  # that the newest workers are for
        self._looked = 0.0

    def batches(self, loader: Any, told: "Callable[[int], None]") -> "Iterator[Any]":
        """Those of an epoch. told is called with the cores that its workers are for, first and
        after each change."""
        epoch, batches = self._sampler.epoch, self._begin(loader)
        told(self._cores)
        while True:
            # The sampler knows what is trained when the loop asks for more; at the end of an epoch
            # it is in the next one already, and what is left of this is the end itself.
            if self._changed() and self._sampler.epoch == epoch:
                self._generation.next()
                batches = loader._iterator = None  # waits until the workers have ended
                batches = self._fresh(loader)
                told(self._cores)
            try:
                batch = next(batches)
            except StopIteration:
                return
            yield batch

    def _changed(self) -> bool:
        now = time.monotonic()
        if now - self._looked < LOOK:
            return False
        self._looked = now
        return grant.affinity() != self._cores

    def _begin(self, loader: Any) -> "Iterator[Any]":
        """Persistent workers are there from the epoch before, and ended if they are too many or
        too few."""
        if grant.affinity() == self._cores:
            return iter(loader)
        if getattr(loader, "_iterator", None) is not None:  # where torch keeps persistent workers
            return self._fresh(loader)
        self._resize(loader)
        return iter(loader)

    def _fresh(self, loader: Any) -> "Iterator[Any]":
        """A new set from the sampler's place on. What the old one has fetched ahead is dropped.

        torch draws a seed for it, from the numbers that the training draws from, and a training in
        which nothing changed has not drawn that."""
        loader._iterator = None
        self._resize(loader)
        with _chance.kept(loader.generator):
            return iter(loader)

    def _resize(self, loader: Any) -> None:
        self._cores = grant.affinity()
        own = self._cores == self._given
        loader.num_workers = grant.workers() if own else grant.part(self._cores)


def batches(loader: Any, told: "Callable[[int], None]") -> "Iterator[Any]":
    """The batches of any loader."""
    follower = getattr(loader, "synergy_follower", None)
    return iter(loader) if follower is None else follower.batches(loader, told)
