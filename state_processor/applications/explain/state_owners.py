"""States that operators and connectors of Flink keep for themselves, with the classes that register them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from state_processor.applications.jobs.signature import OperatorSignature, StateSignature

_OWNERS: Final[Sequence[tuple[re.Pattern[str], re.Pattern[str]]]] = [
    (re.compile(name), re.compile(rf"\b(?:{owner})\w*[.$]"))
    for name, owner in (
        (r"SourceReaderState$", r"SourceOperator"),
        (r"writer_raw_states$|writer_state", r"SinkWriter|StatefulSinkWriterStateHandler"),
        (r"(?:streaming_committer|global_committer|committer|writer_committables)\w*$", r"Committ|GlobalCommitter|SinkWriter"),
        (r"_async_wait_operator_state_$", r"AsyncWaitOperator"),
        (r"bucket-states$|max-part-counter$", r"Buckets|StreamingFileSink|AbstractStreamingWriter"),
        (r"topic-partition-offset-states$", r"FlinkKafkaConsumer"),
        (r"next-transactional-id-hint", r"FlinkKafkaProducer"),
        (r"file-monitoring-state$", r"ContinuousFileMonitoringFunction"),
        (r"(?:compact|file-compactor|coordinator|remaining)[\w-]*$", r"Compactor|CompactCoordinator"),
    )
]

_States = Sequence[tuple[OperatorSignature, StateSignature]]


def by_owner(states: _States, frames: Sequence[str]) -> _States:
    """Return the states that the classes of a trace own; without such classes, those that the job registers itself.

    If the trace has no methods, or nothing else is left, all states are returned.
    """
    owned = [pair for pair in states if (owner := _owner(pair[1])) is not None and any(map(owner.search, frames))]
    own = [pair for pair in states if _owner(pair[1]) is None]
    return owned or (own if frames and own else states)


def is_of_other_owner(state: StateSignature, frames: Sequence[str]) -> bool:
    """Return whether a class of Flink registers a state, and a trace with methods does not have this class."""
    owner = _owner(state)
    return bool(frames) and owner is not None and not any(map(owner.search, frames))


def _owner(state: StateSignature) -> re.Pattern[str] | None:
    return next((owner for name, owner in _OWNERS if name.match(state.name)), None)
