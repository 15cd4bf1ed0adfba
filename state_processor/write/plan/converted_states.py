"""States of a source savepoint that are written as others: with another name, kind, types or time-to-live."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from state_processor.backends.state.descriptions import (
    BroadcastDescription,
    KeyedDescription,
    OperatorDescription,
    StateDescription,
)
from state_processor.backends.write.entry_encoder import KEY, NAMESPACES, VALUE, BlobAddress, KeyedStateEncoder
from state_processor.backends.write.operator_writer import encode_columns
from state_processor.read.rows import Rows
from state_processor.serializers.kryo.nested_kryo import for_flink
from state_processor.serializers.runtime.namespaces import VoidNamespaceSerializer
from state_processor.support.mappings import unrenamed
from state_processor.write.plan.draft import OperatorDraft, StateRows
from state_processor.write.plan.keyed_changes import replace_state
from state_processor.write.rows.arrow_rows import ArrowRows
from state_processor.write.rows.row_columns import KeyedRows


def write_as(draft: OperatorDraft, old: StateDescription, new: StateDescription, rows: Rows) -> None:
    """Write a state of the source savepoint as another one. The rows are read when they are written."""
    if old.name != new.name or old.is_timer:
        draft.remove(old.name)
    given_rows = ArrowRows.of(rows)
    if isinstance(new, KeyedDescription) and new.is_timer:
        shaped, columns, _ = KeyedRows(given_rows).shaped(new)
        draft.add(new)
        draft.changes.state_rows.append(StateRows.of(shaped, [(new, columns)]))
    elif isinstance(new, KeyedDescription):
        replace_state(draft, new, given_rows)
    else:
        assert isinstance(new, OperatorDescription)
        names = (KEY, VALUE) if isinstance(new, BroadcastDescription) else (VALUE,)
        draft.add_operator_state(new, given_rows.select(unrenamed(names)))


def check_rows(state: StateDescription, rows: pa.RecordBatch, flink_major: int) -> None:
    """Refuse rows that a state can't hold: they are encoded without being written.

    ``flink_major``: the major version of Flink, which decides the version of Kryo.
    """
    state = for_flink(state, flink_major)
    if not isinstance(state, KeyedDescription):
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        encode_columns(state.serializers, columns, f"state {state.name!r}")
        return
    state = state.with_serializers(namespace=VoidNamespaceSerializer())
    table = pa.table(rows).select([name for name in rows.schema.names if name not in NAMESPACES])
    shaped, names, _ = KeyedRows(ArrowRows(table)).shaped(state)
    chosen = shaped.select(names).to_arrow().combine_chunks()
    encoder = KeyedStateEncoder(state, BlobAddress(0, 1, 1), chosen.schema)
    for batch in chosen.to_batches():
        for _ in encoder.encode_in_groups(batch, np.zeros(len(batch), np.int32)):
            pass
