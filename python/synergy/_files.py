"""Files that are whole or not there, and reading in folders that hold anything."""

import contextlib
import os
import stat
from typing import BinaryIO, Callable, Iterator


@contextlib.contextmanager
def open_regular(path: str) -> "Iterator[BinaryIO]":
    """Opens a regular file to read. A link, a pipe or a device raises OSError, and nothing
    blocks."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path}: not a regular file")
        yield file


def read_small(path: str, limit: int) -> bytes:
    """All of a regular file that has at most limit bytes; OSError where it has more."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(f"{path}: more than {limit} bytes")
    return data


def replace(path: str, write: "Callable[[BinaryIO], None]", temporary: str) -> None:
    """Makes path what write writes, and has it on the disk at the return.

    temporary lies in the folder of path and is this process's own. Whatever happens, and if it is
    kill -9, path is what it was before or all of the new one.
    """
    try:
        with open(temporary, "wb", opener=_create) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path) or ".")


def _create(path: str, flags: int) -> int:
    """Follows no link that lies there in place of the file."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def sync_folder(path: str) -> None:
    """Has renames in the folder on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
