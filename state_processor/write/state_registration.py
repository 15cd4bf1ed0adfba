"""How the keyed states of an operator are registered in the new savepoint, and where its timers are."""

from __future__ import annotations

from state_processor.backends.write.keyed_formats import KeyedFormat
from state_processor.serializers.records import dataclass
from state_processor.write.source_operator import SourceOperator


@dataclass(frozen=True)
class StateRegistration:
    """StateRegistration of the keyed states of an operator.

    Attributes
    ----------
    format
        The format of keyed state.
    source
        The operator in the source savepoint, if it is there.
    asynchronous
        Whether keyed state is in the asynchronous API; ``None`` if it is as in the source savepoint.
    """

    format: KeyedFormat
    source: SourceOperator | None
    asynchronous: bool | None

    @property
    def is_asynchronous(self) -> bool:
        """True if states are registered for the asynchronous API."""
        if not self.format.registers_asynchronous:
            return False
        if self.asynchronous is not None:
            return self.asynchronous
        return self.source is not None and self.source.is_asynchronous

    @property
    def raw_timers(self) -> bool:
        """True if the job looks for its timers in raw keyed state: with the asynchronous API, or with timers on the heap."""
        if not self.format.keeps_raw_timers:
            return False
        source = self.source
        return self.is_asynchronous or (source is not None and source.has_raw_timers and not source.is_asynchronous)

    @property
    def changes(self) -> bool:
        """True if states of the source savepoint are registered as others, or their timers are elsewhere."""
        if self.source is None or not self.source.keyed_states:
            return False
        moved = self.source.timers and self.source.has_raw_timers != self.raw_timers
        return bool(moved) or self.source.is_asynchronous != self.is_asynchronous
