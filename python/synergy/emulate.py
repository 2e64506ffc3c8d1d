"""The GPU part of a training step as a sleep, for real loaders on machines without a GPU.

The loader, its workers, the disk and the decoding are real; only what a GPU would do is waited for,
as in GPEmu (VLDB'25). synergy-emujob stands for whole jobs and needs no Python.
"""

import csv
import json
import os
import time
from typing import Any, Callable, Optional

MAX_FILE = 1 << 20  # bytes of a profile or a table
COLUMNS = ("gpu", "model", "batch", "forward_s", "backward_s", "h2d_s", "peak_mib", "source")
MAX_OWED = 0.05  # seconds of oversleep that later steps make up for


class GPU:
    """One GPU of which only the time and the memory are there.

    step_s     seconds that a step of batch samples takes.
    batch      samples per step.
    peak_mib   MiB that a step needs, where known; more than memory_mib is a MemoryError, as on a
               real one.
    """

    def __init__(
        self,
        step_s: float,
        batch: int,
        peak_mib: "Optional[float]" = None,
        memory_mib: "Optional[float]" = None,
        sleep: "Callable[[float], Any]" = time.sleep,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        if not 0 < step_s < 86400:
            raise ValueError(f"step_s={step_s!r:.40}: want seconds greater than 0")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch={batch!r:.40}: want a whole number, 1 at least")
        if memory_mib is not None and peak_mib is not None and peak_mib > memory_mib:
            raise MemoryError(
                f"emulated out of memory: a step needs {peak_mib:.0f} MiB, it has {memory_mib:.0f}"
            )
        self.step_s, self.batch = step_s, batch
        self._sleep, self._clock = sleep, clock
        self._owed = 0.0  # seconds that former steps took too long

    def step(self, samples: "Optional[int]" = None) -> None:
        """Takes as long as a step of samples, which is batch unless given. Time is in proportion
        to samples."""
        takes = (
            self.step_s * ((self.batch if samples is None else samples) / self.batch) - self._owed
        )
        begun = self._clock()
        if takes > 0:
            self._sleep(takes)
        self._owed = max(0.0, min(MAX_OWED, self._clock() - begun - takes))

    @property
    def rate(self) -> float:
        """Samples a second of a loader that is never waited for."""
        return self.batch / self.step_s

    @classmethod
    def of_table(
        cls, model: str, gpu: str, batch: int, path: "Optional[str]" = None, **options: Any
    ) -> "GPU":
        """From a table of measured times: between two batches on a line, beyond the largest up to
        twice of it.

        path is a CSV of COLUMNS; None is the package's own.
        """
        rows = sorted(
            (row for row in read_table(path) if (row["model"], row["gpu"]) == (model, gpu)),
            key=_batch,
        )
        if not rows:
            known = sorted({f"{row['model']} on {row['gpu']}" for row in read_table(path)})
            raise ValueError(
                f"model={model!r}, gpu={gpu!r}: not in the table, which has {', '.join(known)}"
            )
        row = _at(rows, batch)
        return cls(
            row["forward_s"] + row["backward_s"] + row["h2d_s"], batch, row["peak_mib"], **options
        )

    @classmethod
    def of_profile(cls, path: str, **options: Any) -> "GPU":
        """From a sensitivity profile: its best throughput is what the GPU does when nothing
        holds it up."""
        with open(path, "rb") as file:
            text = file.read(MAX_FILE + 1)
        try:
            said = json.loads(text) if len(text) <= MAX_FILE else None
            best = max(max(float(x) for x in row) for row in said["throughput_samples_per_s"])
            batch = said["batch"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(
                f"{path}: not a profile: want batch and throughput_samples_per_s"
            ) from None
        if not best > 0:
            raise ValueError(f"{path}: throughput_samples_per_s has nothing greater than 0")
        return cls(batch / best, batch, **options)


def read_table(path: "Optional[str]" = None) -> "list[dict[str, Any]]":
    """The rows of a table of times. ValueError names the line and the column."""
    path = os.path.join(os.path.dirname(__file__), "gpus.csv") if path is None else path
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        if tuple(lines.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path}: columns {lines.fieldnames}: want {', '.join(COLUMNS)}")
        return [_row(path, lines.line_num, line) for line in lines]


def _row(path: str, line: int, text: "dict[str, Any]") -> "dict[str, Any]":
    row = dict(text)
    for name in COLUMNS[2:7]:
        try:
            row[name] = float(text[name])
        except (TypeError, ValueError):
            row[name] = -1.0
        if not 0 <= row[name] < 1e9 or name == "batch" and row[name] < 1:
            raise ValueError(
                f"{path}: row {line}: {name}={text[name]!r:.40}: want a number from 0 on"
            )
    return row


def _batch(row: "dict[str, Any]") -> float:
    return row["batch"]


def _at(rows: "list[dict[str, Any]]", batch: int) -> "dict[str, float]":
    """The times at batch. One row alone is in proportion; below the smallest, too."""
    largest = rows[-1]["batch"]
    if not 1 <= batch <= 2 * largest:
        raise ValueError(
            f"batch={batch!r}: want 1 to {2 * largest:.0f}, twice the largest that was measured"
        )
    names = COLUMNS[3:7]
    if len(rows) == 1 or batch <= rows[0]["batch"]:
        return {name: rows[0][name] * batch / rows[0]["batch"] for name in names}
    high = next((i for i in range(1, len(rows)) if rows[i]["batch"] >= batch), len(rows) - 1)
    low, top = rows[high - 1], rows[high]
    part = (batch - low["batch"]) / (top["batch"] - low["batch"])
    return {name: low[name] + part * (top[name] - low[name]) for name in names}
