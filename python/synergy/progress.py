"""How far a job has come: a number in its folder, and now and then a word to the daemon
(docs/job-contract.md).

A step costs an addition. A thread does the rest, so that a folder or a slurmctld that hangs, is
full or is away costs the training nothing: what fails is said once, and tried again in silence.
"""

import atexit
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Callable, Mapping, Optional, Sequence

from . import _files
from ._say import Once, log

VERSION = 1
MAX_FILE = 4096  # bytes
MAX_ITERATIONS = 10**15 - 1  # that the daemon takes
MAX_COMMENT = 4096  # bytes that the gate takes
SCONTROL_LIMIT = 20  # seconds that scontrol may take
MEASURED = 0.1  # seconds between two writes while a profile is measured

# A word ends at what the daemon cuts a comment at, and at nothing else.
_WORD = re.compile(r"(?<![^, \t\n\v\f\r])synergy-progress(?:=[^, \t\n\v\f\r]*)?(?![^, \t\n\v\f\r])")

Run = Callable[[Sequence[str]], str]


class Progress:
    """Counts a job's iterations since its first start.

    folder     the job's own; the file is progress.json in it. None: no file. While a profile is
               measured it is the file that SYNERGY_PROGRESS names, whatever the folder.
    start      iterations of the runs before; None: go on from the file.
    every      seconds between two words to the daemon, which wants them two minutes apart; 0: none.
    write      seconds between two writes of the file.
    """

    def __init__(
        self,
        folder: "Optional[str]" = None,
        start: "Optional[int]" = None,
        every: float = 300.0,
        write: float = 1.0,
        env: "Optional[Mapping[str, str]]" = None,
        run: "Optional[Run]" = None,
    ) -> None:
        if start is not None and not 0 <= start <= MAX_ITERATIONS:
            raise ValueError(
                f"start={start!r}: want the iterations of earlier runs, from 0 to {MAX_ITERATIONS}"
            )
        env = os.environ if env is None else env
        self.done = 0  # iterations of this run; only the training loop writes it
        # Cores that the loader's workers are for, where these follow them; the loop's, too.
        self.cores: "Optional[int]" = None
        self._before = start  # None until the thread has read the file
        self._file = None if folder is None else os.path.join(folder, "progress.json")
        if measured := env.get("SYNERGY_PROGRESS"):  # `synergy profile` watches that file
            self._file, write = measured, min(write, MEASURED)
        self._every, self._write = every, write
        self._teller = Teller(env, run) if every > 0 else None
        self._job = job_name(env)
        self._measure(env)
        self._once, self._stop = Once(), threading.Event()
        self._written: "Optional[tuple[int, Optional[int]]]" = None
        self._thread = threading.Thread(target=self._work, name="synergy-progress", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as wrong:  # a limit on threads
            self._once.warn(
                "thread", "progress is neither written nor told, training goes on: %s", wrong
            )
        else:
            atexit.register(self.close)

    def step(self, n: int = 1) -> None:
        """n more iterations are done. An iteration is the profile's: `batch` samples on each
        GPU."""
        self.done += n

    @property
    def iterations(self) -> int:
        """Iterations since the job's first start, as far as that is known."""
        return (self._before or 0) + self.done

    def close(self, patience: float = 2.0) -> None:
        """Writes the last number, and waits no more than patience seconds for it."""
        atexit.unregister(self.close)
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(patience)
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)

    def _measure(self, env: "Mapping[str, str]") -> None:
        """Has `synergy measure`, where it is installed, measure this job if the daemon wants that:
        it looks, and mostly ends at once."""
        self._own: "Optional[str]" = None  # a folder for the file that it reads
        program = shutil.which("synergy", path=env.get("PATH"))
        alone = env.get("SLURM_STEP_NUM_TASKS", "1") == "1"  # it sees the tree of one task
        if program is None or not self._job or not alone or env.get("SYNERGY_PROGRESS"):
            return
        try:
            if self._file is None:
                self._own = tempfile.mkdtemp(prefix="synergy-")
                self._file = os.path.join(self._own, "progress.json")
            self._measurer = subprocess.Popen(
                [program, "measure", "--progress", self._file],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(env),
            )
        except OSError as wrong:
            log.warning("synergy: the job is not measured, training goes on: %s", wrong)

    def _work(self) -> None:
        if self._before is None:
            self._before = self._read()
        told = time.monotonic()
        while not self._stop.wait(self._write):
            self._note()
            if self._teller is not None and time.monotonic() - told >= self._every:
                told = time.monotonic()
                self._tell()
        self._note()

    def _read(self) -> int:
        if self._file is None:
            return 0
        try:
            return read(self._file)["iterations"]
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as wrong:
            self._once.warn("read", "progress begins at 0: %s", wrong)
            return 0

    def _note(self) -> None:
        now = self.iterations, self.cores
        if self._file is None or now == self._written:
            return
        try:
            _write(self._file, self._job, *now)
            self._written = now
        except OSError as wrong:
            self._once.warn("write", "progress is not written, training goes on: %s", wrong)

    def _tell(self) -> None:
        try:
            self._teller.tell(self.iterations)
        except (OSError, ValueError, subprocess.SubprocessError) as wrong:
            self._once.warn(
                "tell", "progress is not told to the daemon, training goes on: %s", wrong
            )


def job_name(env: "Mapping[str, str]") -> str:
    """The job as scontrol takes it, or "" outside of Slurm.

    The last task of an array has the array's own number as its job ID, which would mean all of its
    tasks.
    """
    array, task = env.get("SLURM_ARRAY_JOB_ID", ""), env.get("SLURM_ARRAY_TASK_ID", "")
    name = f"{array}_{task}" if array and task else env.get("SLURM_JOB_ID", "")
    return name if re.fullmatch(r"[0-9]{1,10}(_[0-9]{1,10})?", name) else ""


def read(path: str) -> "dict[str, int]":
    """What a progress file says: iterations and at, the second of the epoch. ValueError: it is
    not one."""
    try:
        said = json.loads(_files.read_small(path, MAX_FILE))
        iterations, at = said["iterations"], said["at"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path}: not a progress file") from None
    if type(iterations) is not int or not 0 <= iterations <= MAX_ITERATIONS:
        raise ValueError(
            f"{path}: iterations is {iterations!r:.40}: want a number from 0 to {MAX_ITERATIONS}"
        )
    if type(at) is not int:
        raise ValueError(f"{path}: at is {at!r:.40}: want the seconds since the epoch")
    return {"iterations": iterations, "at": at}


def _write(path: str, job: str, iterations: int, cores: "Optional[int]" = None) -> None:
    """A rename without a sync: the number may be a minute old after a power cut, and is never
    half of one."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    said = {"version": VERSION, "job": job, "iterations": iterations, "at": int(time.time())}
    if cores is not None:
        said["cores"] = cores
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="ascii", opener=_files._create) as file:
            file.write(json.dumps(said) + "\n")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def with_progress(comment: str, iterations: int, at: int) -> "Optional[str]":
    """comment with this progress in the place of its word, all else byte for byte; None where it
    has no such word."""
    word = f"synergy-progress={iterations}@{at}"
    changed, found = _WORD.subn(word, comment, count=1)
    return changed if found else None


class Teller:
    """Says in the job's comment how far it has come, if the comment has the word synergy-progress.

    The comment is read before each word, because its owner may change his own words in it
    meanwhile.
    """

    def __init__(self, env: "Mapping[str, str]", run: "Optional[Run]" = None) -> None:
        self._job, self._run = job_name(env), run or scontrol

    def tell(self, iterations: int, at: "Optional[int]" = None) -> bool:
        """Whether it was told. A job without the word, or no job at all, is no error."""
        if not self._job:
            return False
        comment = comment_of(self._run(["show", "job", self._job]))
        at = int(time.time()) if at is None else at
        changed = with_progress(comment, min(iterations, MAX_ITERATIONS), at)
        if changed is None:
            return False
        if len(changed.encode()) > MAX_COMMENT:
            raise ValueError(
                f"the comment would have {len(changed.encode())} bytes: want at most {MAX_COMMENT}"
            )
        self._run(["update", "jobid=" + self._job, "comment=" + changed])
        return True


def comment_of(shown: str) -> str:
    """The comment in what scontrol show job prints; it has a line of its own."""
    for line in shown.split("\n"):
        name, _, value = line.strip(" ").partition("=")
        if name == "Comment":
            return value
    return ""


def scontrol(arguments: "Sequence[str]") -> str:
    """What scontrol prints. OSError or SubprocessError where it is not there, refuses or does
    not answer."""
    said = subprocess.run(
        ["scontrol", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SCONTROL_LIMIT,
        check=False,
    )
    text = said.stdout.decode("utf-8", "surrogateescape")
    if said.returncode != 0:
        raise OSError(f"scontrol {arguments[0]}: {text.strip()[:200] or said.returncode}")
    return text
