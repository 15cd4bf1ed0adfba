"""Migration of the states of one operator to Flink 2.x."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from state_processor.backends.write.state_migration import KeyedMigration, StateMigration, TypesByPath
from state_processor.serializers.records import dataclass
from state_processor.write.migration_report import LEFT_OUT, StateReport


@dataclass(frozen=True)
class OperatorMigration:
    """Migration of the states of one operator.

    Parameters
    ----------
    keyed
        Its keyed states; ``None`` without any.
    operator
        Its list, union and broadcast states, by name.
    types
        The new types that were named or found, by state and path.
    reports
        The outcome for each state.
    """

    keyed: KeyedMigration | None = None
    operator: Mapping[str, StateMigration] = field(default_factory=dict)
    types: TypesByPath = field(default_factory=dict)
    reports: tuple[StateReport, ...] = ()

    @cached_property
    def states(self) -> dict[str, StateMigration]:
        """Migration of each state, keyed ones first."""
        return {**(self.keyed.states if self.keyed is not None else {}), **self.operator}

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Empty states that can't be migrated."""
        return frozenset(r.state for r in self.reports if r.outcome == LEFT_OUT)

    def converts(self, name: str) -> bool:
        """Return whether the entries of a state are converted."""
        return name in self.states and self.states[name].is_changed
