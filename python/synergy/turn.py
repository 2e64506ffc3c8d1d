"""Turns on a GPU that several jobs share (docs/sharing.md).

with synergy.turn(): loss = step(batch)

The node's broker says when; where SYNERGY_TURN_SOCK is not set, that costs a comparison and nothing
else. The GPU is kept from step to step until another job wants it, and given back when the script
computes elsewhere for 2 ms. Where there is no broker, or it does not answer, or refuses, the script
runs on: it never waits for a broker that does not live.
"""

import atexit
import json
import os
import select
import socket
import sys
import threading
import time
from typing import Any, Optional

from ._say import Once

VERSION = 1
MAX_LINE = 4096  # bytes
MAX_TIME = 3600 * 10**6  # microseconds that a message may say
IDLE = 0.002  # seconds between two steps, after which the GPU is given back
FIRST_RETRY = 0.1  # seconds; doubling to
LONGEST_RETRY = 5.0
ANSWER_WITHIN = 1.0  # seconds, a broker that lives
LIFE_EVERY = 10.0  # seconds after which one that grants nothing is asked whether it lives


class OutOfGPUMemory(MemoryError):
    """The broker refuses the memory that turn(memory=...) says that the script will use: going on
    would end in a failed allocation, of this job or of another."""


class Refused(Exception):
    """The broker's ERR."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text[:200]!r}")
        self.code = code


# What a line that is no message of the protocol may end in, and a connection.
_NO_MESSAGE = (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)

# Where a client stands with the broker.
APART, STEPPING, STICKING = "apart", "stepping", "sticking"


class Client:
    """One process's connection to the broker of its GPU. Turns of several threads exclude each
    other; a turn within a turn of the same thread is part of it."""

    def __init__(self, path: str, memory: int = 0, kind: str = "train") -> None:
        self.path = path
        self.steps = self.grants = self.unmanaged = 0
        self.waited = 0.0  # seconds, for grants
        self._memory, self._kind = memory, kind
        self._turn, self._depth = threading.RLock(), 0
        # Over all that follows, which the thread changes, too.
        self._mutex = threading.Condition(threading.Lock())
        self._sock: "Optional[socket.socket]" = None
        self._welcome = False
        self._buffer = b""
        self._retry, self._pause = 0.0, FIRST_RETRY
        self._first = True  # its first words decide on its memory
        self._phase, self._yield, self._seq = APART, False, 0
        self._granted = False
        self._lease = self._since = self._began = 0.0
        self._used, self._under, self._usual = 0.0, 0, 0.0
        self._cuda = _Cuda()
        self._thread: "Optional[threading.Thread]" = None
        self._closed = False
        self._once = Once()

    # What a script does.

    def begin(self, estimate: float = 0.0) -> None:
        """Waits until the script may use the GPU for a step of about estimate seconds."""
        self._turn.acquire()
        self._depth += 1
        if self._depth > 1:
            return
        try:
            with self._mutex:
                self._begin(estimate)
        except BaseException:
            self._depth -= 1
            self._turn.release()
            raise
        self._began = time.monotonic()

    def end(self) -> None:
        """Says that the step is over. What the GPU still has to do is waited for before another
        job has it, and at most a step behind."""
        try:
            if self._depth == 1:
                with self._mutex:
                    self._end()
        finally:
            self._depth -= 1
            self._turn.release()

    def close(self) -> None:
        """Gives back what is held and ends the connection."""
        if not self._mutex.acquire(timeout=0.5):
            return  # a thread waits for its turn: the end of the process ends that, too
        self._closed = True
        self._lose(None)
        self._mutex.notify_all()
        self._mutex.release()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    # What becomes of it. The mutex is held.

    def _begin(self, estimate: float) -> None:
        self.steps += 1
        self._connect()
        self._hear(0.0)
        estimate = estimate if estimate > 0 else self._usual
        if self._phase == STICKING:
            # The broker lets a lease end within the last step that it has room for; what the GPU
            # has not done yet of the step before comes first.
            if not self._yield and self._left() > estimate * self._cuda.behind:
                self._phase = STEPPING
                return
            self._release()
        asked = time.monotonic()
        try:
            self._ask(estimate)
        except BaseException:  # a signal's handler raised: nobody is left who waits
            self._lose(None)
            self._retry = 0.0
            raise
        finally:
            self.waited += time.monotonic() - asked
        if self._phase != STEPPING:
            self.unmanaged += 1

    def _ask(self, estimate: float) -> None:
        if not self._welcome:
            return
        self._seq += 1
        self._granted = False
        self._say(type="ACQ", seq=self._seq, est_us=_us(estimate))
        looked = time.monotonic()
        while self._welcome and not self._granted:
            self._hear(LIFE_EVERY)
            if not self._granted and time.monotonic() - looked >= LIFE_EVERY:
                self._see()
                looked = time.monotonic()
        if self._granted:
            self._phase = STEPPING

    def _end(self) -> None:
        if self._phase != STEPPING:
            return
        # First, so that a step that failed on the GPU leaves nothing held.
        self._phase, self._since = STICKING, time.monotonic()
        try:
            self._cuda.step()
        finally:
            self._since = time.monotonic()
            self._used += self._since - self._began
            self._under += 1
            self._hear(0.0)
            if self._phase == STICKING and (self._yield or self._left() <= 0):
                self._release()
            self._watch()

    def _left(self) -> float:
        return self._lease - time.monotonic()

    def _release(self) -> None:
        drained = time.monotonic()
        self._phase = APART
        try:
            self._cuda.drain()
        finally:
            used = self._used + time.monotonic() - drained
            if self._under:
                each = used / self._under
                self._usual = each if self._usual == 0 else self._usual + (each - self._usual) / 4
            self._say(type="REL", seq=self._seq, used_us=_us(used))

    def _watch(self) -> None:
        """Has a thread give the GPU back when no step follows. It only looks at the clock: what the
        broker says is read by who takes turns."""
        if self._phase != STICKING:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._idle, name="synergy-turn", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # a limit on threads: then no grant sticks
                self._thread = None
                self._release()
                return
        self._mutex.notify()

    def _idle(self) -> None:
        with self._mutex:
            while not self._closed:
                if self._phase != STICKING:
                    self._mutex.wait()
                    continue
                rest = min(self._since + IDLE, self._lease) - time.monotonic()
                if rest > 0:
                    self._mutex.wait(rest)
                    continue
                try:
                    self._release()
                except Exception as wrong:  # CUDA's: the script is told of it at its next call
                    self._once.warn("drain", "the GPU could not be waited for: %s", wrong)

    # The connection.

    def _connect(self) -> None:
        """Introduces the script to the broker, if there is one and it is time to try."""
        if self._sock is not None or self._closed or time.monotonic() < self._retry:
            return
        first, self._first = self._first, False
        self._retry = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_RETRY)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(self.path)
        except OSError as wrong:
            sock.close()
            self._once.warn("away", "no broker at %s (%s): no turns are taken", self.path, wrong)
            return
        self._sock, self._buffer = sock, b""
        self._say(type="HELLO", pid=os.getpid(), kind=self._kind, mem_mib=self._memory)
        if not first:
            return  # its answer is read when it is there
        try:
            end = time.monotonic() + ANSWER_WITHIN
            while self._sock is not None and not self._welcome and time.monotonic() < end:
                self._hear(end - time.monotonic(), first=True)
        except Refused as refused:
            raise OutOfGPUMemory(f"turns on {self.path}: {refused}") from None
        if self._sock is not None and not self._welcome:
            self._once.warn("silent", "the broker at %s is silent: no turns are taken", self.path)

    def _hear(self, within: float, first: bool = False) -> None:
        """Does what the broker has said, and waits so many seconds for it to say something."""
        if self._sock is None:
            return
        try:
            if b"\n" not in self._buffer:
                poll = select.poll()
                poll.register(self._sock, select.POLLIN)
                if not poll.poll(max(0, within) * 1000):
                    return
                text = self._sock.recv(MAX_LINE)
                if not text:
                    raise ConnectionError("it is gone")
                self._buffer += text
            *lines, self._buffer = self._buffer.split(b"\n")
            if len(self._buffer) > MAX_LINE:
                raise ValueError("a line too long")
            for line in lines:
                self._obey(json.loads(line))
        except Refused as refused:
            self._lose(refused)
            self._pause = LONGEST_RETRY  # it will hardly think better of it soon
            if first and refused.code == "mem-cap":
                raise
        except _NO_MESSAGE as wrong:
            self._lose(wrong)

    def _obey(self, said: "Any") -> None:
        kind = said.get("type")
        if kind == "ERR":
            raise Refused(str(said.get("code")), str(said.get("msg")))
        if kind == "WELCOME":
            self._welcome, self._pause = True, FIRST_RETRY
        elif said.get("seq") != self._seq:
            pass  # of a request that is over
        elif kind == "GRANT":
            lease = min(max(int(said.get("lease_us", 0)), 0), MAX_TIME)
            self._granted, self._yield, self._lease = True, False, time.monotonic() + lease / 1e6
            self._used, self._under = 0.0, 0
            self.grants += 1
        elif kind == "YIELD":
            self._yield = True

    def _say(self, **said: "Any") -> None:
        if self._sock is None:
            return
        line = json.dumps({"v": VERSION, **said}).encode() + b"\n"
        try:
            if self._sock.send(line) != len(line):
                raise BlockingIOError("it reads nothing")
        except OSError as wrong:
            self._lose(wrong)

    def _lose(self, why: "Optional[Exception]") -> None:
        """Forgets the broker: the script runs on."""
        if self._sock is not None:
            self._sock.close()
        self._sock, self._welcome, self._granted, self._phase = None, False, False, APART
        self._retry = time.monotonic() + self._pause
        if why is not None:
            self._once.warn("lost", "the broker at %s: %s: no turns are taken", self.path, why)

    def _see(self) -> None:
        """Asks the broker on a connection of its own whether it lives: a stopped process keeps its
        sockets open. Any answer will do."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(ANSWER_WITHIN)
            try:
                sock.connect(self.path)
                sock.sendall(json.dumps({"v": VERSION, "type": "HELLO"}).encode() + b"\n")
                if not sock.recv(MAX_LINE):
                    raise ConnectionError("it says nothing")
            except OSError as wrong:
                self._lose(wrong)

    def forget(self) -> None:
        """In a child of the process: the connection is the parent's, and must not look alive when
        that is dead."""
        if self._sock is not None:
            self._sock.close()
        self._sock, self._welcome, self._phase, self._closed = None, False, APART, True
        self._mutex = threading.Condition(threading.Lock())  # the parent's thread may have had it


class _Cuda:
    """What the GPU still has to do. The script may be one step ahead of it, as it is without turns;
    nothing of torch is touched unless the script has."""

    def __init__(self) -> None:
        self.behind = 0  # steps
        self._before: "Any" = None
        self._device: "Any" = None

    def step(self) -> None:
        """Marks the end of a step in the GPU's queue, and waits for that of the one before."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return
        before, self._before, self.behind = self._before, None, 0
        if before is not None:
            before.synchronize()
        self._device = torch.cuda.current_device()
        self._before = torch.cuda.Event()
        self._before.record()
        self.behind = 1

    def drain(self) -> None:
        """Waits until the GPU has nothing to do. A thread's current GPU is its own, so it is
        named."""
        before, self._before, self.behind = self._before, None, 0
        if before is not None:
            sys.modules["torch"].cuda.synchronize(self._device)


def _us(seconds: float) -> int:
    return min(max(int(seconds * 1e6), 0), MAX_TIME)


class _Turn:
    __slots__ = ("_client", "_estimate")

    def __init__(self, client: "Client", estimate: float) -> None:
        self._client, self._estimate = client, estimate

    def __enter__(self) -> None:
        self._client.begin(self._estimate)

    def __exit__(self, *_: object) -> None:
        self._client.end()


class _Alone:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


_ALONE = _Alone()
_client: "Optional[Client]" = None
_lock = threading.Lock()


def turn(estimate: float = 0.0, memory: int = 0) -> "Any":
    """A context in which the script has the GPU to itself, where the GPU is shared.

    estimate   seconds that the step will use the GPU; 0: as long as steps did so far.
    memory     MiB of the GPU's memory that the script will use at most, told in the first turn; 0:
               not said. OutOfGPUMemory is raised if that is more than it may.
    """
    client = _client
    if client is None:
        path = os.environ.get("SYNERGY_TURN_SOCK")
        if not path:
            return _ALONE
        client = _open(path, memory)
    return _Turn(client, estimate)


def _open(path: str, memory: int) -> Client:
    global _client
    with _lock:
        if _client is None:
            _client = Client(path, memory)
            atexit.register(_client.close)
        return _client


def _forked() -> None:
    global _client, _lock
    client, _client, _lock = _client, None, threading.Lock()
    if client is not None:
        client.forget()


os.register_at_fork(after_in_child=_forked)
