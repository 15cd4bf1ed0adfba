"""Summaries of writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.display import render_records
from state_processor.html_display import html_table
from state_processor.migration_report import MigrationReport
from state_processor.serializers.redaction import redacted, redacted_repr

_SHOWN: Final = ("parallelism", "entries", "size_in_bytes", "carried")
_COLUMNS: Final = ("operator", *_SHOWN, "states")


@dataclass(frozen=True, slots=True)
class OperatorSummary:
    """Summary of one operator: ``entries`` counts those that were written one by one, ``carried`` operators are copies.

    ``rewritten`` has the reasons why all entries were, in place of copying the files of a native savepoint.
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

    @classmethod
    def of(
        cls, operator: OperatorState, states: tuple[str, ...], entries: int, carried: bool, rewritten: tuple[str, ...]
    ) -> OperatorSummary:
        """Summarize an operator of the new savepoint."""
        o = operator
        return cls(o.uid, o.operator_id, o.parallelism, o.max_parallelism, states, entries, o.state_size, carried, rewritten)


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """Summary of a write; as text, a table of the operators that have state.

    ``migration`` is the outcome for each state if :meth:`~state_processor.SavepointWriter.migrate` was called.
    ``shares_files_of`` is the source savepoint if the new one refers to files of it, without which it can't be restored.
    """

    path: str
    checkpoint_id: int
    operators: tuple[OperatorSummary, ...]
    migration: MigrationReport | None = None
    shares_files_of: str | None = None

    __repr__ = redacted_repr

    @property
    def entries(self) -> int:
        """Entries of state that were written one by one, in all operators."""
        return sum(o.entries for o in self.operators)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all operators' state."""
        return sum(o.size_in_bytes for o in self.operators)

    def __str__(self) -> str:
        return "\n".join((render_records(_COLUMNS, self._rows()), *self._notes()))

    def _repr_html_(self) -> str:
        caption = "; ".join((redacted(self.path), *self._notes()))
        return html_table(_COLUMNS, self._rows(), caption=caption, sizes=frozenset({"size_in_bytes"}))

    def _notes(self) -> Iterator[str]:
        """Yield what is not as one might expect it."""
        for o in self.operators:
            if o.rewritten:
                yield f"All keyed state of {o.uid or o.uid_hash} was written anew: {', '.join(o.rewritten)}"
        if self.shares_files_of is not None:
            yield f"It refers to files of {redacted(self.shares_files_of)}, which has to stay as long as this savepoint is needed"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"operator": o.uid or o.uid_hash, **{c: getattr(o, c) for c in _SHOWN}, "states": ", ".join(o.states)}
            for o in self.operators
            if o.states
        ]
