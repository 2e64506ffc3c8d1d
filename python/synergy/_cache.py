"""The MinIO cache of CoorDL (VLDB'21), as Synergy's profiles assume it: files that were read once
stay in memory.

What is in it is never evicted, so each epoch has as many hits as the one before, and a job's memory
buys it a known part of its data set. It lies in /dev/shm, whose pages belong to the job's memory,
and is shared by the workers and the ranks of a node. What goes wrong here costs hits and nothing
else: then a file is read where it lies.
"""

import atexit
import contextlib
import errno
import fcntl
import hashlib
import io
import os
import re
import shutil
import stat
import struct
from typing import Any, BinaryIO, Optional

from . import grant
from ._say import Once

LEAVE = 0.25  # of the job's memory, for all that is no cache
PAGE = 4096  # bytes; a file of one byte takes one
_BOOK = struct.Struct("=QQ")  # bytes that the cache may take, and that it has taken or promised


class CachedFiles:
    """Files that are read through a cache of this node.

    size       bytes; None: as much as the job's memory leaves, which is three quarters of it less
               what is in use.
    name       of the cache: processes of one user with the same name on a node share one. None: the
               job and its run.
    folder     where caches lie.

    Files must not change while the job runs.
    """

    def __init__(
        self, size: "Optional[int]" = None, name: "Optional[str]" = None, folder: str = "/dev/shm"
    ) -> None:
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            raise ValueError(f"size={size!r:.40}: want bytes, 0 at least, or None")
        if name is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
            raise ValueError(f"name={name!r:.40}: want 1 to 100 letters, digits and . _ -")
        self._size, self._folder, self._name = size, folder, name or _default_name()
        self._once, self._owner = Once(), os.getpid()
        self._open()
        atexit.register(self.close)

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        place = self._place(path)
        if place is None:
            return _read(path)
        try:
            return _read(place)
        except OSError:
            found = _read(path)
            self._admit(place, found)
            return found

    def open(self, path: str) -> BinaryIO:
        """A file to read, as Image.open and others take it."""
        return io.BytesIO(self.read(path))

    def path(self, path: str) -> str:
        """Where a library that wants a name finds the file: in the cache if it is or comes
        there, else where it lies."""
        place = self._place(path)
        if place is None or not (os.path.exists(place) or self._admit(place, _read(path))):
            return os.fspath(path)
        return place

    def used(self) -> int:
        """Bytes that the cache has taken."""
        return self._book(0)[1] if self._home else 0

    def size(self) -> int:
        """Bytes that it may take; 0 where there is none."""
        return self._book(0)[0] if self._home else 0

    def close(self) -> None:
        """The last process that closes the cache removes it. One that was killed leaves that to
        the next one."""
        atexit.unregister(self.close)
        if self._home and self._owner == os.getpid():
            _remove_if_unused(self._home, self._lock)
        self._home = None

    def __getstate__(self) -> "dict[str, Any]":
        return {"_size": self._size, "_folder": self._folder, "_name": self._name}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        """In a worker that was not forked, the cache is opened anew. It never removes it: its
        job still runs."""
        self.__dict__.update(state)
        self._once, self._owner = Once(), -1
        self._open()

    def _open(self) -> None:
        self._home: "Optional[str]" = None
        self._lock = -1
        try:
            _remove_stale(self._folder)
            home = os.path.join(self._folder, f"synergy-cache-{os.getuid()}-{self._name}")
            self._lock = _enter(home)
            self._home = home
            with _locked(home) as book:
                if os.fstat(book).st_size != _BOOK.size:
                    os.pwrite(book, _BOOK.pack(self._room(), 0), 0)
        except OSError as wrong:
            self._home = None
            self._once.warn("cache", "no cache, files are read where they lie: %s", wrong)

    def _room(self) -> int:
        """Bytes that the cache may take: what was asked for, and never more than there is in its
        folder."""
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        return min(free, max(0, _left_by_the_grant()) if self._size is None else self._size)

    def _place(self, path: str) -> "Optional[str]":
        if self._home is None:
            return None
        return os.path.join(
            self._home, hashlib.sha256(os.fsencode(os.path.abspath(path))).hexdigest()
        )

    def _admit(self, place: str, data: bytes) -> bool:
        """Puts a file into the cache if there is room. Room is promised before it is taken, so it
        is never exceeded: one that is killed between the two leaves a gap."""
        cost = -(-max(1, len(data)) // PAGE) * PAGE
        try:
            if not self._promise(cost):
                return False
            if not self._put(place, data, cost):
                self._book(-cost)  # another process was faster
            return True
        except OSError as wrong:
            if wrong.errno != errno.ENOENT:  # the last process has closed it
                self._once.warn("admit", "the cache takes no more: %s", wrong)
            return False

    def _put(self, place: str, data: bytes, cost: int) -> bool:
        try:
            return _put(place, data)
        except OSError:
            self._book(-cost)
            raise

    def _promise(self, cost: int) -> bool:
        with _locked(self._home) as book:
            size, used = _entry(book)
            if used + cost > size:
                return False
            os.pwrite(book, _BOOK.pack(size, used + cost), 0)
            return True

    def _book(self, change: int) -> "tuple[int, int]":
        """(size, used) after a change."""
        try:
            with _locked(self._home) as book:
                size, used = _entry(book)
                if change:
                    os.pwrite(book, _BOOK.pack(size, max(0, used + change)), 0)
                return size, max(0, used + change)
        except OSError:
            return 0, 0


def _default_name() -> str:
    job, run = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_RESTART_COUNT", "0")
    if job.isascii() and job.isdigit() and run.isascii() and run.isdigit():
        return f"{job}-{run}"
    return f"process-{os.getpid()}"


def _left_by_the_grant() -> int:
    """Bytes: the job's memory less a part for all else. Without a limit, half of what is free on
    the node."""
    given = grant.memory()
    return int(given * (1 - LEAVE)) - _in_use() if given else _free() // 2


def _in_use() -> int:
    """Bytes that this process has in memory."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _free() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(
                int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:")
            )
    except (OSError, ValueError, StopIteration):
        return 0


def _enter(home: str) -> int:
    """Makes the cache's folder, or joins those that have it; what it returns is held as long as
    it is used."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(home, 0o700)
        try:
            is_ours(home)
            lock = os.open(
                os.path.join(home, "lock"),
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
        except FileNotFoundError:
            continue  # the last one left at this moment
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _is_still_there(home, lock):
            return lock
        os.close(lock)


def is_ours(home: str) -> None:
    """Refuses what somebody else has put there, where everybody may write."""
    found = os.lstat(home)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{home} is not a folder of ours alone")


def _is_still_there(home: str, lock: int) -> bool:
    try:
        return os.path.samestat(os.stat(os.path.join(home, "lock")), os.fstat(lock))
    except FileNotFoundError:
        return False


def _remove_stale(folder: str) -> None:
    """Removes caches of ours that nobody has open: those of runs that were killed."""
    for name in os.listdir(folder):
        if name.startswith(f"synergy-cache-{os.getuid()}-"):
            home = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                is_ours(home)
                lock = os.open(os.path.join(home, "lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                _remove_if_unused(home, lock)


def _remove_if_unused(home: str, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_still_there(home, lock):
            gone = (
                f"{home}.{os.getpid()}.gone"  # so that whoever comes meanwhile makes one of his own
            )
            os.rename(home, gone)
            shutil.rmtree(gone, ignore_errors=True)
    except OSError:
        pass  # others use it
    finally:
        os.close(lock)


@contextlib.contextmanager
def _locked(home: "Optional[str]"):
    """The cache's book, and nobody else reads or writes it."""
    if home is None:
        raise FileNotFoundError(errno.ENOENT, "the cache is closed")
    book = os.open(
        os.path.join(home, "book"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(book, fcntl.LOCK_EX)
        yield book
    finally:
        os.close(book)


def _entry(book: int) -> "tuple[int, int]":
    data = os.pread(book, _BOOK.size, 0)
    return _BOOK.unpack(data) if len(data) == _BOOK.size else (0, 0)


def _put(place: str, data: bytes) -> bool:
    """Whether the file is new; it is whole from the moment on that it has its name."""
    temporary = f"{place}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.link(temporary, place)
        return True
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
