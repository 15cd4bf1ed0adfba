"""Changes to the state of a sink, which two operators share: its writers, and its committers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from state_processor.backends.connectors.sink_state import ListOfBytes, sink_state
from state_processor.backends.connectors.sink_writer import written_sink
from state_processor.backends.state.descriptions import OPERATOR_LIST, OperatorListDescription
from state_processor.serializers.core.arrays import BytesSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.serializers.errors import NotFoundError
from state_processor.types.identifier import OperatorIdentifier
from state_processor.write.build import SavepointBuild, Uid
from state_processor.write.column_checks import naming
from state_processor.write.row_protocol import OperatorRows


def set_sink_state(plan: SavepointBuild, uid: Uid, rows: OperatorRows, connector: str | None, committer: Uid | None) -> None:
    """Write the state of a sink; see :meth:`~state_processor.SavepointWriter.with_sink_state`."""
    draft = plan.existing(uid)
    if draft.source is None:
        raise NotFoundError(f"{draft.label} is not in the source savepoint, so there is no state of its sink to change")
    committers = OperatorIdentifier.of(committer).uid_hash if committer is not None else None
    old = sink_state(draft.source.snapshot, draft.source.operator, draft.identifier.uid, committers)
    with naming(draft.label):
        written = written_sink(rows.to_arrow().to_pylist(), old, connector)
    for state, elements in ((old.writer, written.writer), (old.committer, written.committer)):
        if state is not None and elements is not None:
            _replace(plan, state, rows.of_values(_values(state, elements)))


def _values(state: ListOfBytes, elements: Sequence[bytes]) -> pa.Array:
    """Return the column of the elements of a list."""
    if state.state is None:
        return pa.array(elements, pa.binary())
    options, element = DecodeOptions(), state.state.value
    values = [element.to_column(element.deserialize(data), options) for data in elements]
    return pa.array(values, element.arrow_type(options))


def _replace(plan: SavepointBuild, state: ListOfBytes, rows: OperatorRows) -> None:
    with plan.change(OperatorIdentifier(state.operator.uid, state.operator.operator_id), existing=True) as draft:
        usual = OperatorListDescription(state.name, OPERATOR_LIST, BytesSerializer())
        draft.add_operator_state(usual if state.state is None else state.state, rows)
