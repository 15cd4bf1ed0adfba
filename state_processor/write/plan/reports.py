"""Results of writes and migrations that users see: the outcome for each state, and the summary of a savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Final

from state_processor.backends.write.tombstones import ChangeCounts
from state_processor.display.showing import html_table
from state_processor.display.text_tables import render_records, text_of
from state_processor.support.doors import spelled
from state_processor.support.mappings import attributes
from state_processor.support.redaction import redacted

UNCHANGED: Final = "unchanged"
CONVERTED: Final = "converted"
LEFT_OUT: Final = "left out"
NEW: Final = "new"
IMPOSSIBLE: Final = "impossible"
OUTCOMES: Final = (UNCHANGED, CONVERTED, LEFT_OUT, IMPOSSIBLE)
QUERY_OUTCOMES: Final = (UNCHANGED, CONVERTED, NEW, LEFT_OUT, IMPOSSIBLE)


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
        columns = ("state", "kind", "outcome", "notes")
        rows = [{"operator": report.uid or report.uid_hash, **attributes(report, columns)} for report in self]
        return html_table(("operator", *columns), rows, caption=str(self).partition("\n")[0])

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


ADDED: Final = "added"
REPLACED: Final = "replaced"
UPDATED: Final = "updated"
REMOVED: Final = "removed"

_COUNTS: Final = ("written", "inserted", "updated", "deleted", "absent")
_CHANGES: Final = ("operator", "state", "change", *_COUNTS)
_UNKNOWN: Final = "?"
_SHOWN: Final = ("parallelism", "entries", "size_in_bytes", "carried")
_COLUMNS: Final = ("operator", *_SHOWN, "states")


@dataclass(frozen=True, slots=True)
class StateChanges:
    """Changes to one state.

    An entry belongs to a key and namespace, in map state also to a map key; the list of a key is one entry, an element of
    operator state is one, too.

    Attributes
    ----------
    state
        The state.
    change
        ``added`` (it is new), ``replaced`` (as a whole, by rows), ``updated`` (some keys or entries), or ``removed``.
    counts
        Numbers of entries. ``None`` means that a number is unknown. Savepoints do not record how many entries a keyed or
        broadcast state has, and a write does not read a state that is removed or replaced. :func:`state_processor.diff`
        compares them.
    """

    state: str
    change: str
    counts: ChangeCounts

    @property
    def is_empty(self) -> bool:
        """True if the write has changed no entry of the state: all rows and keys to delete were without effect."""
        c = self.counts
        return self.change == UPDATED and (c.inserted, c.updated, c.deleted) == (0, 0, 0)


@dataclass(frozen=True, slots=True)
class OperatorSummary:
    """Summary of one operator: ``entries`` counts the entries that were written one by one, ``carried`` operators are copies.

    ``states`` has the names of its states. Of a carried operator, these are the names in `_metadata`: its list, union and
    broadcast states. ``has_unread_keyed`` is true if it has keyed state, too, whose headers were not read.
    ``rewritten`` has the reasons why all entries were, instead of copying the files of a native savepoint. ``changes`` has the
    states that were changed. ``renamed_from`` is the uid, or hash, in the source savepoint if the operator has another one now.
    ``copied_from`` is the other snapshot that the operator was copied from; ``renamed_from`` is then its uid there.
    """

    uid: str | None
    uid_hash: str
    parallelism: int
    max_parallelism: int
    states: tuple[str, ...]
    entries: int
    size_in_bytes: int
    carried: bool
    rewritten: tuple[str, ...] = ()
    changes: tuple[StateChanges, ...] = ()
    renamed_from: str | None = None
    has_unread_keyed: bool = False
    copied_from: str | None = None

    @property
    def label(self) -> str:
        """The uid, or else its hash."""
        return self.uid or self.uid_hash

    @property
    def unread(self) -> tuple[str, ...]:
        """Contents of the operator that :attr:`states` does not list, in words."""
        return ("keyed state",) if self.has_unread_keyed else ()

    def notes(self) -> Iterator[str]:
        """Yield the facts about the operator that the tables do not show."""
        if self.copied_from is not None:
            yield f"{self.label} was copied from {self.renamed_from or 'the operator'} of {redacted(self.copied_from)}"
        elif self.renamed_from is not None:
            yield f"{self.label} was {self.renamed_from}"
        absent = [f"{c.counts.absent} in {c.state}" for c in self.changes if c.counts.absent]
        if absent:
            yield f"Keys to delete without an entry in {self.label}: {', '.join(absent)}"
        if self.rewritten:
            yield f"All keyed state of {self.label} was written anew: {', '.join(self.rewritten)}"


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """Summary of a write; as text, a table of the operators that have state.

    ``migration`` is the outcome for each state if :meth:`~state_processor.SavepointWriter.migrate` was called.
    ``shares_files_of`` is the source savepoint if the new one refers to files of it, without which it can't be restored.
    ``removed_operators`` are the operators of the source savepoint that are left out. ``is_copy`` is true if the state of all
    operators equals the state of the source savepoint, because nothing was to be changed, or because keys to delete are not
    there. ``time_zone`` is the zone of ``SQL_DATE`` and ``SQL_TIME`` that were written, ``None`` if no changed state has them.
    ``unchecked`` is what was not checked against ``flink_version``, because code of the job or of connectors reads it.
    ``mixed_times`` names operators whose state is of several times, because the source savepoint is a regional checkpoint.
    """

    path: str
    checkpoint_id: int
    operators: tuple[OperatorSummary, ...]
    migration: MigrationReport | None = None
    shares_files_of: str | None = None
    removed_operators: tuple[str, ...] = ()
    is_copy: bool = False
    time_zone: str | None = None
    unchecked: tuple[str, ...] = ()
    mixed_times: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redacted(self.path)!r})\n{self}"

    @property
    def entries(self) -> int:
        """Entries of state that were written one by one, in all operators."""
        return sum(o.entries for o in self.operators)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all operators' state."""
        return sum(o.size_in_bytes for o in self.operators)

    def __str__(self) -> str:
        changes = self._change_rows()
        tables = [render_records(_COLUMNS, self._rows())]
        if changes:
            tables.append(f"\n{render_records(_CHANGES, changes, right=frozenset(_COUNTS))}\n")
        return "\n".join((*tables, *map(text_of, self._notes())))

    def _repr_html_(self) -> str:
        caption = "; ".join((redacted(self.path), *self._notes()))
        changes = self._change_rows()
        table = html_table(_COLUMNS, self._rows(), caption=caption, sizes=frozenset({"size_in_bytes"}))
        return f"{table}{html_table(_CHANGES, changes)}" if changes else table

    def _notes(self) -> Iterator[str]:
        """Yield the facts that the tables do not show."""
        if self.is_copy:
            yield "Nothing was changed: all state is that of the source savepoint"
        if self.unchecked:
            yield f"Not checked against flink_version, since code of jobs or connectors reads it: {', '.join(self.unchecked)}"
        for note in self.mixed_times:
            yield f"{note[0].upper()}{note[1:]}"
        if self.removed_operators:
            yield f"Left out with all their state: {', '.join(self.removed_operators)}"
        for operator in self.operators:
            yield from operator.notes()
        changes = chain.from_iterable(o.changes for o in self.operators)
        if any(None in _counts(change) for change in changes):
            yield f"{_UNKNOWN}: unknown, because the write does not read these entries of the source savepoint"
        if self.time_zone is not None:
            zone = f"the time zone {self.time_zone}; {spelled('time_zone')} sets the zone of the job's JVM"
            yield f"SQL_DATE and SQL_TIME are in {zone}"
        if self.shares_files_of is not None:
            yield f"It refers to files of {redacted(self.shares_files_of)}, which has to stay as long as this savepoint is needed"

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for operator in self.operators:
            if operator.states or operator.has_unread_keyed:
                facts = attributes(operator, _SHOWN)
                rows.append({"operator": operator.label, **facts, "states": ", ".join((*operator.states, *operator.unread))})
        return rows

    def _change_rows(self) -> list[dict[str, Any]]:
        rows = []
        for operator in self.operators:
            for change in operator.changes:
                counts = [_UNKNOWN if count is None else count for count in _counts(change)]
                row: dict[str, Any] = {"operator": operator.label, "state": change.state, "change": change.change}
                rows.append(row | dict(zip(_COUNTS, counts, strict=True)))
        return rows


def _counts(change: StateChanges) -> tuple[int | None, ...]:
    return tuple(getattr(change.counts, name) for name in _COUNTS)
