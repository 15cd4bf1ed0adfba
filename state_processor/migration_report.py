"""What a migration does to each state, for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

UNCHANGED: Final = "unchanged"
CONVERTED: Final = "converted"
LEFT_OUT: Final = "left out"
IMPOSSIBLE: Final = "impossible"
OUTCOMES: Final = (UNCHANGED, CONVERTED, LEFT_OUT, IMPOSSIBLE)


@dataclass(frozen=True, slots=True)
class StateReport:
    """What becomes of one state.

    Parameters
    ----------
    uid, uid_hash
        Its operator.
    state, kind
        Its name (empty where the operator's states can't be told) and kind.
    outcome
        ``"unchanged"``: carried byte for byte; ``"converted"``; ``"left out"``: Flink 2.x has not got its serializer, but there
        are no entries; or ``"impossible"``.
    changes
        What is converted: paths inside the type, and what they become.
    problems
        Why it can't be migrated, and what to do about it.
    """

    uid: str | None
    uid_hash: str
    state: str
    kind: str
    outcome: str
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = f"{self.uid or self.uid_hash}/{self.state}" if self.state else f"{self.uid or self.uid_hash}"
        notes = "; ".join(self.problems or self.changes)
        return f"{name} ({self.kind}): {self.outcome}" + (f": {notes}" if notes else "")


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a migration does to each state of a savepoint, in the order of operators and states there.

    Parameters
    ----------
    flink_version
        The Flink that is to restore it.
    states
        The states.
    """

    flink_version: str
    states: tuple[StateReport, ...]

    def __iter__(self) -> Iterator[StateReport]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)

    def having(self, outcome: str) -> tuple[StateReport, ...]:
        """The states with an outcome, see :class:`StateReport`."""
        return tuple(s for s in self.states if s.outcome == outcome)

    @property
    def impossible(self) -> tuple[StateReport, ...]:
        """The states that can't be migrated."""
        return self.having(IMPOSSIBLE)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.having(outcome))} {outcome}" for outcome in OUTCOMES)
        return "\n".join([f"for Flink {self.flink_version}: {counts}", *map(str, self.states)])
