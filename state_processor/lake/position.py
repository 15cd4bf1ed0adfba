"""The checkpoint that a table equals. Each commit to the table records this position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from state_processor.read.checkpoint_series import Checkpoint
from state_processor.serializers.records import dataclass

_PREFIX: Final = "state-processor."
CHECKPOINT_ID: Final = f"{_PREFIX}checkpoint-id"
_NAMES: Final = ("path", "time", "digest")
_OPERATOR: Final = f"{_PREFIX}operator"
_STATE: Final = f"{_PREFIX}state"
_COLUMNS: Final = f"{_PREFIX}columns"


@dataclass(frozen=True, slots=True)
class Position:
    """A state at a checkpoint.

    Parameters
    ----------
    checkpoint
        The checkpoint.
    operator
        The hash of the operator's uid.
    state
        The state.
    columns
        The columns and their types. A table with other columns is rewritten.
    """

    checkpoint: Checkpoint
    operator: str
    state: str
    columns: str

    def properties(self) -> dict[str, str]:
        """Return the position as properties of a commit."""
        of_checkpoint = {f"{_PREFIX}checkpoint-{n}": str(getattr(self.checkpoint, n)) for n in _NAMES}
        own = {CHECKPOINT_ID: str(self.checkpoint.checkpoint_id), _OPERATOR: self.operator, _STATE: self.state}
        return own | of_checkpoint | {_COLUMNS: self.columns}

    @classmethod
    def of_properties(cls, given: Mapping[str, str]) -> Position | None:
        """Return the position in the properties of a commit; ``None`` if another program made the commit."""
        if CHECKPOINT_ID not in given:
            return None
        path, time, digest = (given[f"{_PREFIX}checkpoint-{n}"] for n in _NAMES)
        checkpoint = Checkpoint(path, int(given[CHECKPOINT_ID]), int(time), digest)
        return cls(checkpoint, given[_OPERATOR], given[_STATE], given[_COLUMNS])
