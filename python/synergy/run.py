"""The training loop's side of the contract: count, save when asked, leave with 98, go on."""

import json
import sys
import time
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

from . import _chance, _follow, _leave, _tree, checkpoint, grant
from ._sampler import Sampler, sampler_of
from ._say import Once, log
from .progress import Progress

VERSION = 1
PATIENCE = 10.0  # seconds from a save that failed to the next try


class Loop:
    """Counts steps; when it is asked to, saves by the function save and leaves.

    save is called on every rank between two steps, with the number of iterations. What it raises is
    said once, and the training goes on: a full disk must not end it.
    """

    def __init__(
        self,
        save: "Optional[Callable[[int], None]]" = None,
        every: float = 0.0,
        signals: "Sequence[str]" = ("USR1",),
        peers: Any = None,
        folder: "Optional[str]" = None,
        start: "Optional[int]" = None,
        tell_every: float = 300.0,
    ) -> None:
        self._save, self._every, self._peers = save, every, peers
        self._once = Once()
        self._requests = _leave.Requests(signals) if save is not None else None
        self._progress = Progress(folder, start, tell_every) if grant.rank() == 0 else None
        self._base, self.done, self._met = start or 0, 0, False
        self._saved = self._failed = time.monotonic()
        self._failed -= PATIENCE

    @property
    def iterations(self) -> int:
        """Steps since the job's first start; without start, since this one."""
        return self._base + self.done

    def steps(self, loader: "Iterable[Any]") -> "Iterator[Any]":
        """The batches of loader.

        Saving and leaving happen when the next batch is there and before it is given out: then all
        that was given out is trained, and what the script does at the end of an epoch is done, or
        its epoch is not over.
        """
        sampler = sampler_of(loader)
        for batch in _follow.batches(loader, self._follows):
            self._between()
            yield batch
            self._trained(sampler, loader)

    def close(self) -> None:
        """Gives the signals back and writes the last number."""
        if self._requests is not None:
            self._requests.close()
        if self._progress is not None:
            self._progress.close()

    def _follows(self, cores: int) -> None:
        if self._progress is not None:
            self._progress.cores = cores

    def _trained(self, sampler: "Optional[Sampler]", loader: Any) -> None:
        self.done += 1
        if self._progress is not None:
            self._progress.step()
        if sampler is not None:
            sampler.trained(_share(sampler, loader))

    def _between(self) -> None:
        if self._requests is None:
            return
        if self._peers is None:
            self._peers = _leave.peers(self._once)
        if not self._met:
            self._meet()
        wish = self._peers.most(self._wish())
        if wish != _leave.NOTHING and self._try_to_save() and wish != _leave.SAVE:
            self._leave(wish)

    def _meet(self) -> None:
        """Ranks that read different checkpoints would train on as if nothing were wrong."""
        self._met = True
        begun = self._peers.gather(str(self._base))
        if begun is not None and len(set(begun)) > 1:
            raise checkpoint.Damaged(
                f"the ranks go on after different iterations: {', '.join(begun)}"
            )

    def _wish(self) -> int:
        now = time.monotonic()
        if now - self._failed < PATIENCE:
            return _leave.NOTHING
        if self._requests.wish == _leave.NOTHING and self._every > 0 and self._peers.rank == 0:
            return _leave.SAVE if now - self._saved >= self._every else _leave.NOTHING
        return self._requests.wish

    def _try_to_save(self) -> bool:
        """Whether all ranks have saved; then all of them know."""
        wrong = False
        try:
            self._save(self.iterations)
        except Exception as why:  # of the disk, of torch's writer, of the user's own function
            wrong = True
            self._once.warn(
                "save", "no checkpoint, training goes on: %s: %s", type(why).__name__, why
            )
        wrong = self._peers.any(wrong)
        self._saved = time.monotonic()
        if wrong:
            self._failed = self._saved
        return not wrong

    def _leave(self, wish: int) -> None:
        if self._peers.rank == 0:
            log.warning("synergy: saved after iteration %d, leaving", self.iterations)
        if self._progress is not None:
            self._progress.close()
        _end(self._requests, wish)


def _share(sampler: Sampler, loader: Any) -> int:
    """Samples that this rank has trained in the step that is over."""
    if sampler.batch is not None:
        return sampler.share()
    return min(getattr(loader, "batch_size", None) or 1, len(sampler))


class Leave:
    """For trainers that own their loop: ask after each step, and leave when all is saved.

    The trainer saves. asked is called once a step on every rank.
    """

    def __init__(self, signals: "Sequence[str]" = ("USR1",), peers: Any = None) -> None:
        self._requests, self._peers, self._wish = _leave.Requests(signals), peers, _leave.NOTHING

    def asked(self) -> bool:
        """Whether any rank was asked to save and leave; the same on all of them."""
        if self._wish == _leave.NOTHING:
            if self._peers is None:
                self._peers = _leave.peers(Once())
            self._wish = self._peers.most(self._requests.wish)
        return self._wish != _leave.NOTHING

    def leave(self) -> None:
        """Ends the process with the requeue code, if it was asked to leave; returns otherwise."""
        if self._wish != _leave.NOTHING:
            _end(self._requests, self._wish)


def _end(requests: _leave.Requests, wish: int) -> None:
    requests.ignore()
    sys.exit(_leave.REQUEUE if wish == _leave.LEAVE else _leave.TERMINATED)


_loop: "Optional[Loop]" = None


def steps(
    loader: "Iterable[Any]", save: "Optional[Callable[[], Any]]" = None, **options: Any
) -> "Iterator[Any]":
    """The batches of loader, counted and reported; with save, the job leaves when it is asked to.

    save() is the script's own, called on every rank between two steps. Options are those of Loop,
    and count at the first call. Without save no signal is caught.
    """
    global _loop
    if _loop is None:
        _loop = Loop(save if save is None else lambda iterations: save(), **options)
    return _loop.steps(loader)


class Run(Loop):
    """A run of a job that keeps its own checkpoints; resume() makes one."""

    def __init__(
        self,
        store: checkpoint.Store,
        parts: "dict[str, Any]",
        sampler: "Optional[Sampler]",
        **options: Any,
    ):
        self._store, self._parts, self._sampler = store, _known(parts), sampler
        self.epoch, self._rng = 0, None  # the epoch counts only without a sampler
        start = self._load()
        super().__init__(self._keep, start=start, folder=store.folder, **options)

    def epochs(self, total: int) -> "Iterator[int]":
        """The epochs that are left of total, beginning with the one that was interrupted."""
        if self._sampler is not None:
            yield from self._sampler.epochs(total)
            return
        self._once.warn(
            "sampler", "the loader has no synergy.Sampler: a restart begins its epoch anew"
        )
        while self.epoch < total:
            yield self.epoch
            self.epoch += 1

    def _between(self) -> None:
        """Random numbers go on where they were saved: at this very point, after the loader has
        drawn its own."""
        if self._rng is not None:
            _chance.restore(self._rng)
            self._rng = None
        super()._between()

    def _load(self) -> int:
        """Takes up the newest checkpoint; the iterations in it."""
        if grant.rank() == 0:
            self._store.sweep()
        for name, part in self._parts.items():
            self._check(name, part)
        found = self._store.newest()
        if found is None:
            return 0
        iterations, state = found
        about = _about(state, self._parts)
        if self._sampler is not None and about.get("sampler") is not None:
            self._sampler.load_state_dict(about["sampler"])
        for name, part in self._parts.items():
            _put(part, state["parts"][name])
        self.epoch = about["epoch"]
        own = grant.rank()
        self._rng = about["rng"][own] if own < len(about["rng"]) else None
        log.warning("synergy: going on after iteration %d", iterations)
        return iterations

    def _check(self, name: str, part: Any) -> None:
        """Says at the start, and not when it is asked to save, what cannot be saved."""
        if not self._store.trust:
            _tree.encode(_take(part), name)

    def _keep(self, iterations: int) -> None:
        """Rank 0 saves for all: each rank adds its random numbers, all else is the same on all."""
        rng = self._peers.gather(json.dumps(_chance.state()))
        if rng is None:
            return
        about = {"version": VERSION, "epoch": self.epoch, "rng": [json.loads(text) for text in rng]}
        about["sampler"] = self._sampler and self._sampler.state_dict()
        parts = {name: _take(part) for name, part in self._parts.items()}
        self._store.save(iterations, {"synergy": json.dumps(about), "parts": parts})


def resume(
    folder: str,
    loader: Any = None,
    sampler: "Optional[Sampler]" = None,
    every: float = 1800.0,
    signals: "Sequence[str]" = ("USR1",),
    keep: int = 2,
    trust: bool = False,
    peers: Any = None,
    tell_every: float = 300.0,
    **parts: Any,
) -> Run:
    """Goes on from the newest whole checkpoint in folder, or begins.

    parts          what is saved: anything with state_dict and load_state_dict, or a dict, which is
                   changed in place.
    loader         the DataLoader whose Sampler is saved; sampler: the Sampler itself.
    every          seconds between checkpoints that nobody has asked for; 0: none.
    signals        those that ask to save and leave, as in the word synergy-checkpoint.
    keep           checkpoints that are kept, 2 at least.
    trust          whether parts may hold any object, and loading a checkpoint may run code.
    peers          how ranks agree, where it is not torch.distributed: an object as synergy.Alone.
    tell_every     seconds between reports to the daemon; 0: none.
    """
    sampler = sampler_of(loader) if sampler is None else sampler
    store = checkpoint.Store(folder, keep, trust)
    return Run(
        store, parts, sampler, every=every, signals=signals, peers=peers, tell_every=tell_every
    )


def _known(parts: "dict[str, Any]") -> "dict[str, Any]":
    for name, part in parts.items():
        if not isinstance(part, dict) and not (
            hasattr(part, "state_dict") and hasattr(part, "load_state_dict")
        ):
            raise TypeError(
                f"{name} is a {type(part).__name__}: want state_dict and load_state_dict, or a dict"
            )
    return parts


def _take(part: Any) -> Any:
    return part if isinstance(part, dict) else part.state_dict()


def _put(part: Any, state: Any) -> None:
    if isinstance(part, dict):
        part.clear()
        part.update(state)
    else:
        part.load_state_dict(state)


def _about(state: Any, parts: "dict[str, Any]") -> "dict[str, Any]":
    """What we have put beside the parts, which are the same as then."""
    if not isinstance(state, dict) or not {"synergy", "parts"} <= set(state):
        raise checkpoint.Damaged("the checkpoint is whole, but not one of synergy.resume")
    about = json.loads(state["synergy"])
    if about["version"] != VERSION:
        raise checkpoint.Damaged(
            f"the checkpoint has version {about['version']!r:.20}: want {VERSION}"
        )
    if set(state["parts"]) != set(parts):
        raise ValueError(
            f"the checkpoint has {sorted(state['parts'])}: resume() was given {sorted(parts)}"
        )
    return about
