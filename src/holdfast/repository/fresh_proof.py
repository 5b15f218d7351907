"""Proof that a home is still a run's own, given anew when it has become old.

A process can be suspended between the proof and what it does because of it, and the home put back from a copy
meanwhile. In that copy other checkpoints are retained, so what the run has retired may be needed there. A store offers
no deletion under a condition, so a moment remains between the proof and each deletion; but it is a moment, however long
the deletions take as a whole and wherever between two of them the process stood still.
"""

from collections.abc import Callable

HOLDS_S = 1.0
"""After so many seconds a proof is given again."""


class FreshProof:
    def __init__(self, prove: Callable[[], None], monotonic: Callable[[], float]) -> None:
        """`prove` raises when the home is not the run's own, or when that is unknown."""
        self._prove = prove
        self._monotonic = monotonic
        self._at: float | None = None
        """When the last proof began."""

    def renew(self) -> None:
        """Before each deletion. Raises what `prove` raises. Thread-safe; two threads may prove the same at once."""
        now, at = self._monotonic(), self._at
        if at is None or now - at > HOLDS_S:
            self._prove()
            self._at = now
