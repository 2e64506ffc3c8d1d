"""What the package says: each thing once, to the log named synergy, which Python shows on
stderr."""

import logging
import threading

log = logging.getLogger("synergy")


class Once:
    """Warns the first time that something is wrong, and is silent about it afterwards."""

    def __init__(self) -> None:
        self._said: "set[str]" = set()
        self._lock = threading.Lock()

    def warn(self, about: str, text: str, *values: object) -> None:
        """Warns of about, a short name, unless it has been warned of before."""
        with self._lock:
            if about in self._said:
                return
            self._said.add(about)
        log.warning("synergy: " + text, *values)
