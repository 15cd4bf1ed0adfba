"""Opening the difference of a state of any kind between two snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from state_processor.backends.analysis.keyed_difference import KeyedDifference, Side
from state_processor.backends.analysis.operator_difference import OperatorDifference
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.operator_state import OperatorStateReader
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import StateReader
from state_processor.backends.read.state_listing import state_variants
from state_processor.backends.state.descriptions import KeyedDescription, StateDescription
from state_processor.serializers.errors import NotFoundError, UnsupportedFormatError


@dataclass(frozen=True, slots=True)
class OperatorPair:
    """An operator in two snapshots, and its states by name; ``None`` and empty where a snapshot does not have it."""

    label: str
    old: tuple[Snapshot, OperatorState | None]
    new: tuple[Snapshot, OperatorState | None]

    def states(self) -> tuple[dict[str, list[StateDescription]], dict[str, list[StateDescription]]]:
        """Return the states in the old and in the new snapshot.

        Raises
        ------
        UnsupportedFormatError
            If one can't be read.
        """
        old, new = ({} if operator is None else state_variants(snapshot, operator) for snapshot, operator in (self.old, self.new))
        return old, new

    def difference(self, name: str, options: ReadOptions) -> StateReader:
        """Open the difference of a state.

        Raises
        ------
        NotFoundError
            If neither snapshot has the state.
        UnsupportedFormatError
            If the state is of another kind or has other keys in the two snapshots.
        """
        old, new = (states.get(name, []) for states in self.states())
        if not old and not new:
            raise NotFoundError.naming_nearest("state", name, sorted({n for s in self.states() for n in s}), self.label)
        kinds = [v[0].kind for v in (old, new) if v]
        if len(set(kinds)) > 1:
            raise UnsupportedFormatError(f"state {name!r} of {self.label} is {' in one snapshot and '.join(kinds)} in the other")
        if (new or old)[0].is_keyed:
            return KeyedDifference(name, Side(*self.old, _keyed(old)), Side(*self.new, _keyed(new)), options)
        readers = [
            OperatorStateReader(snapshot, operator, found, options) if operator is not None and found else None
            for (snapshot, operator), found in ((self.old, old), (self.new, new))
        ]
        return OperatorDifference(name, *readers)


def _keyed(variants: list[StateDescription]) -> list[KeyedDescription]:
    return [v for v in variants if isinstance(v, KeyedDescription)]
