"""Data that survives a restart with other workers and other ranks, for torch's own DataLoader.

There is no loader here. Sampler and CachedFiles need no torch by themselves.
"""

from ._cache import CachedFiles
from ._loader import Seeded, loader
from ._sampler import Sampler

__all__ = ["CachedFiles", "Sampler", "Seeded", "loader"]
