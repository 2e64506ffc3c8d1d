"""Checkpoints that are whole or not there, in a folder of the job's own.

A file is the state, as JSON or, where it has tensors, as torch.save writes them, and then a trailer
that says what it is and its checksum. It is written beside its place, synced and renamed, so kill
-9 at any moment leaves the one before. Nothing that is read may run code: tensors, numbers, text
and containers are all that is loaded, unless the caller trusts the folder.
"""

import contextlib
import io
import json
import os
import pickle
import re
import struct
import zlib
from typing import Any, BinaryIO, Optional

from . import _files, _tree
from ._say import log

VERSION = 1
MAGIC = b"SYNERGY\x01"
MAX_TRAILER = 4096  # bytes of its JSON
BLOCK = 1 << 20
MAX_ITERATIONS = 10**15 - 1
KINDS = ("json", "torch", "pickle")  # all of it, with a list of tensors, or any object

_NAME = re.compile(r"synergy-([0-9]{15})\.ckpt")
_TEMPORARY = re.compile(r"synergy-[0-9]{15}\.ckpt\.[0-9]+\.tmp")
_END = struct.Struct("<I8s")  # length of the trailer's JSON in bytes, and MAGIC


class Damaged(Exception):
    """A checkpoint that is not what was saved."""


class Store:
    """The checkpoints of one job. One process writes; any may read.

    folder     made where it is missing.
    keep       how many are kept; the older ones go when a newer one is on the disk. At least 2,
               since the newest may turn out to be damaged.
    trust      whether a checkpoint may hold any Python object, and loading it run any code.
    """

    def __init__(self, folder: str, keep: int = 2, trust: bool = False) -> None:
        if not isinstance(keep, int) or keep < 2:
            raise ValueError(
                f"keep={keep!r}: want a whole number, 2 at least: the newest may be damaged"
            )
        self.folder, self.keep, self.trust = os.fspath(folder), keep, trust
        self._ours: "list[int]" = []  # iterations of checkpoints that are known to be whole, rising

    def save(self, iterations: int, state: Any) -> str:
        """Makes state the newest checkpoint and returns its path. It is on the disk at the return.

        Raises OSError where the disk will not, and TypeError where state has what could not be
        loaded again.
        """
        if not 0 <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"iterations={iterations!r}: want a number from 0 to {MAX_ITERATIONS}")
        kind, content = self._content(state)
        os.makedirs(self.folder, exist_ok=True)
        path = self._path(iterations)
        _files.replace(
            path, lambda file: _write(file, iterations, kind, content), f"{path}.{os.getpid()}.tmp"
        )
        self._ours = sorted({*self._ours, iterations})[-self.keep :]
        self._forget()
        return path

    def newest(self) -> "Optional[tuple[int, Any]]":
        """(iterations, state) of the newest checkpoint that is whole; None where there is none at
        all.

        Where there are some and none is whole it is Damaged, rather than a silent new beginning
        that would overwrite them. OSError where the folder cannot be read: what is there is not
        known.
        """
        damage = []
        for iterations in sorted(self._saved(), reverse=True):
            try:
                state = self._load(iterations)
            except (Damaged, OSError) as wrong:
                log.warning("synergy: %s", wrong)
                damage.append(str(wrong))
                continue
            self._ours = [iterations]
            return iterations, state
        if damage:
            raise Damaged(
                "no checkpoint is whole: "
                + "; ".join(damage[:5])
                + "; to begin anew, name another folder"
            )
        return None

    def sweep(self) -> None:
        """Removes what a writer that was killed has left half-written. Only for the one process
        that writes."""
        for name in self._names():
            if _TEMPORARY.fullmatch(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))

    def _content(self, state: Any) -> "tuple[str, Any]":
        """(kind, what is written)"""
        if self.trust:
            return "pickle", state
        text, tensors = _tree.encode(state)
        return ("torch", [text, *tensors]) if tensors else ("json", text)

    def _path(self, iterations: int) -> str:
        return os.path.join(self.folder, f"synergy-{iterations:015d}.ckpt")

    def _names(self) -> "list[str]":
        try:
            return os.listdir(self.folder)
        except FileNotFoundError:
            return []

    def _saved(self) -> "list[int]":
        return [int(found.group(1)) for found in map(_NAME.fullmatch, self._names()) if found]

    def _load(self, iterations: int) -> Any:
        path = self._path(iterations)
        with _files.open_regular(path) as file:
            about = _verify(path, file)
            if about["iterations"] != iterations:
                raise Damaged(f"{path}: holds iteration {about['iterations']}")
            part = io.BufferedReader(_Part(file, about["length"]), BLOCK)
            return _decode(path, part, about["kind"], self.trust)

    def _forget(self) -> None:
        """Removes what is older than all that is kept. A newer file that is damaged stays, for a
        person to see."""
        for iterations in self._saved():
            if len(self._ours) >= self.keep and iterations < self._ours[0]:
                with contextlib.suppress(OSError):
                    os.unlink(self._path(iterations))


class _Summed:
    """A file that sums what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.sum, self.length = file, 0, 0

    def write(self, data) -> int:
        self.sum = zlib.crc32(data, self.sum)
        self.length += memoryview(data).nbytes
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


class _Part(io.RawIOBase):
    """The first length bytes of a file, as a file."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file, self._length, self._at = file, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._length)[whence])
        return self._at

    def readinto(self, buffer) -> int:
        self._file.seek(self._at)
        data = self._file.read(min(len(buffer), max(0, self._length - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _write(file: BinaryIO, iterations: int, kind: str, content: Any) -> None:
    summed = _Summed(file)
    if kind == "torch":
        import torch

        torch.save(content, summed)
    elif kind == "pickle":
        pickle.dump(content, summed, protocol=4)
    else:
        summed.write(content.encode())
    about = {"version": VERSION, "kind": kind, "iterations": iterations, "length": summed.length}
    file.write(_trailer(about, summed.sum))


def _trailer(about: "dict[str, Any]", summed: int) -> bytes:
    """The sum is of the payload and of what the trailer says about it."""
    plain = json.dumps(about, sort_keys=True).encode()
    text = json.dumps(
        {**about, "crc32": f"{zlib.crc32(plain, summed):08x}"}, sort_keys=True
    ).encode()
    return text + _END.pack(len(text), MAGIC)


def _verify(path: str, file: BinaryIO) -> "dict[str, Any]":
    """What the trailer says, once it and the payload are known to be what was saved."""
    size = os.fstat(file.fileno()).st_size
    if size < _END.size:
        raise Damaged(f"{path}: {size} bytes: it is cut off")
    file.seek(size - _END.size)
    length, magic = _END.unpack(file.read(_END.size))
    if magic != MAGIC or not 2 <= length <= min(MAX_TRAILER, size - _END.size):
        raise Damaged(f"{path}: it is cut off, or no checkpoint")
    file.seek(size - _END.size - length)
    trailer = file.read(length + _END.size)
    about = _about(path, trailer[:length])
    if about["length"] != size - len(trailer):
        raise Damaged(f"{path}: length {about['length']}: {size - len(trailer)} bytes are there")
    if _trailer(about, _sum(file, about["length"])) != trailer:
        raise Damaged(f"{path}: its checksum is another: it is not what was saved")
    return about


def _about(path: str, text: bytes) -> "dict[str, Any]":
    try:
        said = json.loads(text)
        about = {name: said[name] for name in ("version", "kind", "iterations", "length")}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"{path}: its trailer cannot be read") from None
    if about["version"] != VERSION:
        raise Damaged(f"{path}: version {about['version']!r:.20}: want {VERSION}")
    if about["kind"] not in KINDS:
        raise Damaged(f"{path}: kind {about['kind']!r:.20}: want one of {', '.join(KINDS)}")
    if type(about["length"]) is not int or type(about["iterations"]) is not int:
        raise Damaged(f"{path}: its length and iterations are no numbers")
    return about


def _sum(file: BinaryIO, length: int) -> int:
    file.seek(0)
    summed = 0
    while length > 0:
        block = file.read(min(BLOCK, length))
        if not block:
            return -1 & 0xFFFFFFFF  # it shrank meanwhile, and the sum will not be right
        summed, length = zlib.crc32(block, summed), length - len(block)
    return summed


def _decode(path: str, part: BinaryIO, kind: str, trust: bool) -> Any:
    if kind == "pickle" and not trust:
        raise Damaged(
            f"{path}: was saved with trust=True, and loading it may run code: say trust=True, too"
        )
    try:
        if kind == "torch":
            import torch

            text, *tensors = torch.load(part, map_location="cpu", weights_only=True)
            return _tree.decode(text, tensors)
        return pickle.load(part) if kind == "pickle" else _tree.decode(part.read(), [])
    except (
        Exception
    ) as wrong:  # whatever a decoder of others makes of bytes that somebody has put there
        raise Damaged(f"{path}: {type(wrong).__name__}: {wrong!s:.300}") from wrong
