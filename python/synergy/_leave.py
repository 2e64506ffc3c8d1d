"""Being asked to leave, and all ranks leaving after the same step."""

import atexit
import os
import signal
import threading
from typing import Any, Callable, Optional, Sequence

from . import grant
from ._say import Once

REQUEUE = 98  # the site's RequeueExit
TERMINATED = 128 + signal.SIGTERM

# What a rank wants at the end of a step. The most urgent wish of any rank is done by all.
NOTHING, SAVE, END, LEAVE = range(4)

ASKING = ("USR1", "USR2", "HUP", "INT", "TERM")  # that the word synergy-checkpoint may name


class Requests:
    """What signals have asked for. A handler only notes it: the state of a training is whole
    between two steps.

    SIGTERM, where it does not ask to leave, is Slurm's word before SIGKILL: what can be saved until
    then is saved. The second one ends the process as ever, so that one which is not in its training
    loop can be ended.
    """

    def __init__(self, signals: "Sequence[str]" = ("USR1",)) -> None:
        for name in signals:
            if name not in ASKING:
                raise ValueError(f"signals has {name!r}: want some of {', '.join(ASKING)}")
        self.wish = NOTHING
        self._process, self._before = os.getpid(), {}
        if threading.current_thread() is not threading.main_thread():
            Once().warn(
                "signals", "nobody can ask this job to save: signals reach only the main thread"
            )
            return
        for name in signals:
            self._catch(getattr(signal, "SIG" + name), self._asked)
        if "TERM" not in signals:
            self._catch(signal.SIGTERM, self._told_to_end)
        atexit.register(self.ignore)

    def _catch(self, number: int, handler: "Callable[[int, Any], None]") -> None:
        self._before[number] = signal.signal(number, handler)

    def ignore(self) -> None:
        """For a process that ends: one that is asked, or asked again, while it does must not die
        of it."""
        if self._is_a_child():
            return
        for number in self._before:
            if number != signal.SIGTERM:
                signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        """Gives the signals back."""
        atexit.unregister(self.ignore)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _asked(self, number: int, frame: Any) -> None:
        if self._is_a_child():
            if number == signal.SIGTERM:
                _die_of(number)
            return
        self.wish = LEAVE
        before = self._before[number]
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)

    def _told_to_end(self, number: int, frame: Any) -> None:
        if self._is_a_child() or self.wish == END:
            _die_of(number)
        self.wish = max(self.wish, END)

    def _is_a_child(self) -> bool:
        """Workers of a loader that were forked have our handlers, and nothing to save."""
        return os.getpid() != self._process


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Alone:
    """The only rank."""

    rank, ranks = 0, 1

    def most(self, wish: int) -> int:
        """The most urgent wish of any rank. All ranks get the same answer after the same step."""
        return wish

    def gather(self, text: str) -> "Optional[list[str]]":
        """The texts of all ranks, in their order, at rank 0; None elsewhere."""
        return [text]

    def any(self, wrong: bool) -> bool:
        """Whether it is so at any rank. It waits for all of them."""
        return wrong


class TorchPeers:
    """The ranks of torch.distributed, over a gloo group of their own, so that no GPU waits for it.

    most answers with the wishes of the step before: they go round while the step is computed, which
    costs microseconds of waiting instead of a round trip. After an answer that has to be acted upon
    the next wishes begin anew, or what has been done would be done again.
    """

    def __init__(self, group: Any) -> None:
        self._dist = group
        self._group = group.new_group(backend="gloo")
        self.rank, self.ranks = group.get_rank(), group.get_world_size()
        self._last: Any = None  # (work, tensor) of the step before

    def most(self, wish: int) -> int:
        last, self._last = self._last, None
        answer = self._end(last) if last is not None else NOTHING
        if answer == NOTHING:
            self._last = self._begin(wish)
        return answer

    def _begin(self, wish: int) -> "tuple[Any, Any]":
        import torch

        tensor = torch.tensor([wish], dtype=torch.int64)
        work = self._dist.all_reduce(
            tensor, op=self._dist.ReduceOp.MAX, group=self._group, async_op=True
        )
        return work, tensor

    @staticmethod
    def _end(last: "tuple[Any, Any]") -> int:
        work, tensor = last
        work.wait()
        return int(tensor[0])

    def gather(self, text: str) -> "Optional[list[str]]":
        found: Any = [None] * self.ranks if self.rank == 0 else None
        self._dist.gather_object(text, found, dst=0, group=self._group)
        return found

    def any(self, wrong: bool) -> bool:
        return self._end(self._begin(int(wrong))) > 0


def peers(once: Once) -> Any:
    """The other ranks as this process sees them now; torch.distributed has to be set up before."""
    group = grant.process_group()
    if group is not None and group.get_world_size() > 1:
        return TorchPeers(group)
    if grant.ranks() > 1:
        once.warn(
            "peers",
            "rank %d of %d leaves without the others: set up torch.distributed, or pass peers=",
            grant.rank(),
            grant.ranks(),
        )
    return Alone()


def ignore() -> None:
    """For workers of a loader: what asks to save is not for them."""
    for name in ("USR1", "USR2", "HUP"):
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)
