"""Splits of ``HybridSource``, which reads one source after the other: splits of those, wrapped.

Flink: ``HybridSourceSplitSerializer``, ``HybridSourceEnumeratorStateSerializer``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from state_processor.backends.connectors.connector import SPLIT_ID, Connector, EnumeratorState, Format, Formats, Values, Versioned
from state_processor.serializers.io import DataInput, DataOutput

SOURCE_INDEX: Final = "source_index"
FINISHED: Final = "finished"
WRAPPED_VERSION: Final = "wrapped_version"
WRAPPED: Final = "wrapped"


def _read_v0(source: DataInput) -> Values:
    start = source.position
    index, split_id = source.read_int(), source.read_utf()
    if index < 0:
        raise source.corrupt(f"source {index} of a hybrid source", start)
    wrapped = Versioned.read(source)
    return {SPLIT_ID: split_id, SOURCE_INDEX: index, FINISHED: None, WRAPPED_VERSION: wrapped.version, WRAPPED: wrapped.data}


def _write_v0(values: Values, target: DataOutput) -> None:
    target.write_int(values[SOURCE_INDEX])
    target.write_utf(values[SPLIT_ID])
    Versioned(values[WRAPPED_VERSION], values[WRAPPED]).write(target)


def _read_v1(source: DataInput) -> Values:
    return _read_v0(source) | {FINISHED: source.read_boolean()}


def _write_v1(values: Values, target: DataOutput) -> None:
    _write_v0(values, target)
    target.write_boolean(bool(values[FINISHED]))


def _read_current(source: DataInput) -> EnumeratorState:
    return EnumeratorState((), {SOURCE_INDEX: source.read_int(), WRAPPED: Versioned.read(source)})


def _write_current(state: EnumeratorState, target: DataOutput) -> None:
    target.write_int(state.details[SOURCE_INDEX])
    state.details[WRAPPED].write(target)


HYBRID: Final = Connector(
    name="hybrid",
    fields=(
        pa.field(SOURCE_INDEX, pa.int32()),
        pa.field(FINISHED, pa.bool_()),
        pa.field(WRAPPED_VERSION, pa.int32()),
        pa.field(WRAPPED, pa.binary()),
    ),
    splits=Formats("splits of a hybrid source", {0: (Format(_read_v0, _write_v0),), 1: (Format(_read_v1, _write_v1),)}, usual=0),
    enumerator=Formats("enumerator of a hybrid source", {0: (Format(_read_current, _write_current),)}),
    required=(SPLIT_ID, SOURCE_INDEX, WRAPPED_VERSION, WRAPPED),
    about=(
        "``source_index`` says which of the sources the split belongs to, ``wrapped`` is the split as that source writes it. "
        "The table has the columns of the sources, too."
    ),
)
