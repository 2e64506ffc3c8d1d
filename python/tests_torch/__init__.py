"""Tests that train, and those of the command beside a real torch."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
WITHOUT_LIBUV = os.path.join(HERE, "without_libuv")

# Where the package is tested away from the repository, as in the cluster, it is said where the command lies.
SYNERGY = os.environ.get("TEST_SYNERGY") or os.path.join(HERE, "..", "..", "bin", "synergy")


def command(test):
    """The path of synergy; without it the test fails."""
    if not os.access(SYNERGY, os.X_OK):
        test.fail(f"{SYNERGY} is MISSING: make build")
    return SYNERGY
