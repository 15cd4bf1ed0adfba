"""Reports of migrations: to Flink 2.x, and of the state of a query to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from state_processor.display.html_tables import html_table
from state_processor.display.text_tables import text_of

UNCHANGED: Final = "unchanged"
CONVERTED: Final = "converted"
LEFT_OUT: Final = "left out"
ADDED: Final = "new"
IMPOSSIBLE: Final = "impossible"
OUTCOMES: Final = (UNCHANGED, CONVERTED, LEFT_OUT, IMPOSSIBLE)
QUERY_OUTCOMES: Final = (UNCHANGED, CONVERTED, ADDED, LEFT_OUT, IMPOSSIBLE)


@dataclass(frozen=True, slots=True)
class StateReport:
    """Outcome of a migration for one state.

    Parameters
    ----------
    uid, uid_hash
        Its operator.
    state, kind
        Its name (empty if the operator's states can't be determined) and kind.
    outcome
        ``"unchanged"``: copied byte for byte; ``"converted"``; ``"left out"``: Flink 2.x does not have its serializer, but the
        state is empty, or the caller drops the operator; ``"new"``: the new query has it, and starts without entries; or
        ``"impossible"``.
    changes
        The converted parts: paths inside the type, and their new types.
    problems
        The reasons why it can't be migrated, and what to do about them.
    becomes
        The uid of the operator that goes on with it, if that is another.
    """

    uid: str | None
    uid_hash: str
    state: str
    kind: str
    outcome: str
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    becomes: str | None = None

    @property
    def notes(self) -> str:
        """The problems, or else the changes."""
        moved = [] if self.becomes is None else [f"of operator {self.becomes} in the new plan"]
        return "; ".join(self.problems or (*self.changes, *moved))

    def __str__(self) -> str:
        name = f"{self.uid or self.uid_hash}/{self.state}" if self.state else f"{self.uid or self.uid_hash}"
        notes = self.notes
        return text_of(f"{name} ({self.kind}): {self.outcome}" + (f": {notes}" if notes else ""))


class _Reports:
    """Outcome of a migration for each state of a savepoint."""

    __slots__ = ()

    OUTCOMES: ClassVar[tuple[str, ...]] = OUTCOMES

    states: tuple[StateReport, ...]

    @property
    def target(self) -> str:
        """The Flink version or the query that goes on with the state."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[StateReport]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)

    def having(self, outcome: str) -> tuple[StateReport, ...]:
        """Return the states with an outcome, see :class:`StateReport`."""
        return tuple(s for s in self.states if s.outcome == outcome)

    @property
    def impossible(self) -> tuple[StateReport, ...]:
        """The states that can't be migrated."""
        return self.having(IMPOSSIBLE)

    def _repr_html_(self) -> str:
        rows = [
            {
                "operator": report.uid or report.uid_hash,
                **{name: getattr(report, name) for name in ("state", "kind", "outcome", "notes")},
            }
            for report in self
        ]
        columns = ("operator", "state", "kind", "outcome", "notes")
        return html_table(columns, rows, caption=str(self).partition("\n")[0])

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.having(outcome))} {outcome}" for outcome in self.OUTCOMES)
        return "\n".join([f"for {self.target}: {counts}", *map(str, self.states)])


@dataclass(frozen=True, slots=True, repr=False)
class MigrationReport(_Reports):
    """Outcome of a migration to Flink 2.x for each state of a savepoint, in the order of its operators and states.

    Parameters
    ----------
    flink_version
        The Flink version that has to restore it.
    states
        The states.
    """

    flink_version: str
    states: tuple[StateReport, ...]

    @property
    def target(self) -> str:
        """The Flink version or the query that goes on with the state."""
        return f"Flink {self.flink_version}"


@dataclass(frozen=True, slots=True, repr=False)
class QueryMigrationReport(_Reports):
    """Outcome for each state of a query of its migration to another query; ``str()`` of it has a line for each.

    Parameters
    ----------
    states
        The states, in the order of the operators; then the states of the new query that start without entries.
    """

    OUTCOMES: ClassVar[tuple[str, ...]] = QUERY_OUTCOMES

    states: tuple[StateReport, ...]

    @property
    def target(self) -> str:
        """The Flink version or the query that goes on with the state."""
        return "the new query"
