"""The order in which a data set is trained, as a state that survives other workers and ranks."""

import hashlib
import random
from array import array
from typing import Any, Iterator, Mapping, Optional, Sized, Union

from . import grant

VERSION = 1


class Sampler:
    """The order in which a map-style data set is trained, and how far that has come.

    The state is (epoch, samples that all ranks together have trained in it), kept in the training
    process. What the workers have fetched ahead does not count, so a restart goes on exactly after
    the last trained sample: with any number of workers, and of ranks.

    dataset    anything with a length, or the length.
    seed       of the order; None: 0, or that of a state that is loaded.
    batch      samples per step and rank: then it is a batch sampler, DataLoader(dataset,
               batch_sampler=sampler), all ranks have as many steps, and the last two of an epoch
               share evenly what is left. None: it is a sampler of single samples,
               DataLoader(dataset, sampler=sampler, batch_size=…), and the ranks' shares of an
               epoch differ by a sample.
    shuffle    False: the order of the data set.
    rank, ranks    None: as the environment says, at the start of each epoch.
    """

    def __init__(
        self,
        dataset: "Union[Sized, int]",
        seed: "Optional[int]" = None,
        batch: "Optional[int]" = None,
        shuffle: bool = True,
        rank: "Optional[int]" = None,
        ranks: "Optional[int]" = None,
    ) -> None:
        samples = dataset if isinstance(dataset, int) else len(dataset)
        self.samples = whole("samples", samples, least=1)
        self.batch = None if batch is None else whole("batch", batch, least=1)
        self.shuffle = bool(shuffle)
        self.epoch = 0  # that is under way
        self._trained = 0  # samples of it, by all ranks together; less than samples
        self._seed = None if seed is None else whole("seed", seed)
        self._rank, self._ranks = _fixed(rank, ranks)
        self._known: "Optional[tuple[tuple[int, int], array[int]]]" = None  # the last order

    def __iter__(self) -> "Iterator[Any]":
        """What this rank has still to train in this epoch: indices, or lists of them with batch."""
        rank, ranks = self.place()
        if self._trained + rank >= self.samples:
            self._move_to(self.samples)  # an epoch's rest that has nothing for this rank
            return
        order = self._order()
        if self.batch is None:
            yield from order[self._trained + rank :: ranks]
            return
        at = self._trained
        while at < self.samples:
            size = self._step(at, ranks)
            if rank < size:
                yield list(order[at + rank : at + size : ranks])
            at += size

    def __len__(self) -> int:
        """Samples, or steps with batch, that this rank has still to train in this epoch."""
        rank, ranks = self.place()
        rest = self.samples - self._trained
        if self.batch is None:
            return max(0, -(-(rest - rank) // ranks))
        return -(-rest // (self.batch * ranks))

    def trained(self, n: int) -> None:
        """This rank has trained n more samples, and every other rank its own part of the same
        steps.

        With batch, n is that of whole steps.
        """
        if whole("n", n) == 0:
            return
        rank, ranks = self.place()
        at = self._trained + n * ranks
        if self.batch is not None:
            at = self._after(n, rank, ranks)
        elif n > len(self):
            raise ValueError(
                f"n={n}: rank {rank} has {len(self)} samples left in epoch {self.epoch}"
            )
        # One that has no more is at the end; rank 0 has one as long as any has.
        self._move_to(self.samples if at + rank >= self.samples else at)

    def share(self) -> int:
        """Samples that this rank trains in the next step; only with batch."""
        if self.batch is None:
            raise ValueError("batch=None: want Sampler(dataset, batch=…), which knows steps")
        rank, ranks = self.place()
        return len(range(rank, self._step(self._trained, ranks), ranks))

    def epochs(self, total: int) -> "Iterator[int]":
        """The epochs from the one that is under way to total - 1. One that was left early comes
        again, with its rest."""
        while self.epoch < total:
            before = (self.epoch, self._trained)
            yield self.epoch
            if (self.epoch, self._trained) == before:
                raise RuntimeError(
                    f"epoch {self.epoch} trained no sample: call trained(n) after each step,"
                    " or loop over steps(loader)"
                )

    def set_epoch(self, epoch: int) -> None:
        """As torch's DistributedSampler has it, for trainers that call it: another epoch than
        this begins anew."""
        if epoch != self.epoch:
            self.epoch, self._trained = whole("epoch", epoch), 0

    def state_dict(self) -> "dict[str, Any]":
        """Numbers only. Of many ranks, that of rank 0 is the one to keep."""
        return {
            "version": VERSION,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "samples": self.samples,
            "epoch": self.epoch,
            "trained": self._trained,
        }

    def load_state_dict(self, state: "Mapping[str, Any]") -> None:
        """Goes on where state was taken. ValueError names what does not fit; then nothing has
        changed."""
        found = _fields(state)
        if found["samples"] != self.samples:
            raise ValueError(
                f"samples={found['samples']} in the state: this data set has {self.samples}"
            )
        if self._seed is not None and found["seed"] != self._seed:
            raise ValueError(
                f"seed={found['seed']} in the state: this sampler was given {self._seed}"
            )
        if found["shuffle"] is not self.shuffle:
            raise ValueError(
                f"shuffle={found['shuffle']} in the state: this sampler was given {self.shuffle}"
            )
        self._seed, self.epoch, self._trained = found["seed"], found["epoch"], found["trained"]

    def __getstate__(self) -> "dict[str, Any]":
        """For workers that are not forked, which know the epoch and need no order."""
        return {**self.__dict__, "_known": None}

    @property
    def seed(self) -> int:
        """Of the order."""
        return self._seed or 0

    def place(self) -> "tuple[int, int]":
        """(rank, ranks)"""
        if self._rank is not None and self._ranks is not None:
            return self._rank, self._ranks
        return grant.rank(), grant.ranks()

    def _order(self) -> "array[int]":
        """The samples of the epoch."""
        if not self.shuffle:
            return array("q", range(self.samples))
        of = self.seed, self.epoch
        if self._known is None or self._known[0] != of:
            self._known = of, self._draw()
        return self._known[1]

    def _draw(self) -> "array[int]":
        """Only random() is promised to be the same in every Python, so it sorts by that."""
        text = f"synergy {self.seed} {self.epoch}".encode()
        draw = random.Random(int.from_bytes(hashlib.sha256(text).digest(), "big")).random
        keys = [draw() for _ in range(self.samples)]
        return array("q", sorted(range(self.samples), key=keys.__getitem__))

    def _step(self, at: int, ranks: int) -> int:
        """Samples that all ranks together train in the step that begins at sample at of the epoch.

        It follows from what is left alone, so an interrupted epoch takes the steps that it would
        have taken. Without the even end a step could have fewer samples than there are ranks, and
        one without any would keep the others waiting. With batches of one nothing can be evened
        out.
        """
        rest, full = self.samples - at, self.batch * ranks
        if rest <= full:
            return rest
        return full if rest > 2 * full or self.batch == 1 else -(-rest // 2)

    def _move_to(self, at: int) -> None:
        self._trained = at
        if at >= self.samples:
            self.epoch, self._trained = self.epoch + 1, 0

    def _after(self, n: int, rank: int, ranks: int) -> int:
        """Where the epoch is after steps in which this rank trained n samples."""
        left, at = n, self._trained
        while left > 0 and at < self.samples:
            size = self._step(at, ranks)
            share = len(range(rank, size, ranks))
            if share > left:
                break
            left, at = left - share, at + size
        if left:
            raise ValueError(
                f"n={n}: no whole steps of rank {rank}, whose next one has {self.share()} samples"
            )
        return at


def _fixed(rank: "Optional[int]", ranks: "Optional[int]") -> "tuple[Optional[int], Optional[int]]":
    if rank is None and ranks is None:
        return None, None
    if rank is None or ranks is None:
        raise ValueError(f"rank={rank}, ranks={ranks}: want both, or neither")
    whole("ranks", ranks, least=1)
    if not 0 <= whole("rank", rank) < ranks:
        raise ValueError(
            f"rank={rank}: want a number from 0 to {ranks - 1}, as there are {ranks} ranks"
        )
    return rank, ranks


def _fields(state: "Mapping[str, Any]") -> "dict[str, Any]":
    """The state's fields, each known to be what it should be."""
    wanted = ("version", "seed", "shuffle", "samples", "epoch", "trained")
    missing = [name for name in wanted if name not in state]
    if missing:
        raise ValueError(
            f"{missing[0]} is missing in the state of a sampler: want {', '.join(wanted)}"
        )
    if state["version"] != VERSION:
        raise ValueError(f"version={state['version']!r:.40} in the state: want {VERSION}")
    if not isinstance(state["shuffle"], bool):
        raise ValueError(f"shuffle={state['shuffle']!r:.40} in the state: want true or false")
    whole("seed", state["seed"])
    whole("epoch", state["epoch"])
    samples = whole("samples", state["samples"], least=1)
    if whole("trained", state["trained"]) >= samples:
        raise ValueError(
            f"trained={state['trained']}: want less than the {samples} samples of an epoch"
        )
    return {name: state[name] for name in wanted}


def whole(name: str, value: Any, least: int = 0) -> int:
    """value, if it is a whole number from least on; ValueError with its name otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r:.40}: want a whole number, {least} at least")
    return value


def sampler_of(loader: Any) -> "Optional[Sampler]":
    """The Sampler in a loader of torch's, or None."""
    for name in ("batch_sampler", "sampler"):
        found = getattr(loader, name, None)
        if isinstance(found, Sampler):
            return found
    return loader if isinstance(loader, Sampler) else None
