"""Splits of ``NumberSequenceSource``, which ``DataGeneratorSource`` and the sources of collections have as well.

Flink: ``NumberSequenceSource.SplitSerializer``, ``.CheckpointSerializer``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.backends.connectors.connector import (
    SPLIT_ID,
    UNASSIGNED,
    Connector,
    EnumeratedSplit,
    EnumeratorState,
    Format,
    Formats,
    Values,
)
from state_processor.serializers.io import DataInput, DataOutput

FROM: Final = "from_number"
TO: Final = "to_number"
_SMALLEST_SPLIT: Final = 18


def _read_split(source: DataInput) -> Values:
    return {SPLIT_ID: source.read_utf(), FROM: source.read_long(), TO: source.read_long()}


def _write_split(values: Values, target: DataOutput) -> None:
    target.write_utf(values[SPLIT_ID])
    target.write_long(values[FROM])
    target.write_long(values[TO])


def _read_remaining(source: DataInput) -> EnumeratorState:
    count = source.read_count("splits", _SMALLEST_SPLIT)
    return EnumeratorState(tuple(EnumeratedSplit(_read_split(source), UNASSIGNED) for _ in range(count)))


def _write_remaining(state: EnumeratorState, target: DataOutput) -> None:
    target.write_int(len(state.splits))
    for split in state.splits:
        _write_split(split.values, target)


SEQUENCE: Final = Connector(
    name="sequence",
    fields=(pa.field(FROM, pa.int64()), pa.field(TO, pa.int64())),
    splits=Formats("splits of a number sequence", {1: (Format(_read_split, _write_split),)}),
    enumerator=Formats("enumerator of a number sequence", {1: (Format(_read_remaining, _write_remaining),)}),
    required=(SPLIT_ID, FROM, TO),
    about=(
        "``from_number`` is the next number to emit, ``to_number`` the last one; the enumerator keeps splits no reader has yet."
    ),
)
