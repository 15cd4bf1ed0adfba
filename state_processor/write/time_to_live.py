"""Time-to-live of keyed state: expired values, times of last access, and states that get or lose time-to-live.

Flink: ``TtlStateFactory``, ``TtlUtils.expired``. The state is read in this process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from state_processor.backends.files.ordered_threads import read_all
from state_processor.backends.formats.row_layout import KEY_GROUP_COLUMN
from state_processor.backends.formats.row_shapes import LAST_ACCESS, SUBTASK
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.state_access import open_state
from state_processor.backends.read.stored_operator import StoredOperator
from state_processor.backends.state.descriptions import LIST, KeyedDescription
from state_processor.backends.write.entry_encoder import KEY, MAP_KEY, NAMESPACES
from state_processor.serializers.doors import changing
from state_processor.serializers.errors import OptionError
from state_processor.serializers.late import pc
from state_processor.serializers.runtime.ttl import TtlSerializer
from state_processor.write.draft import OperatorDraft

_PLACES: Final = (KEY_GROUP_COLUMN, SUBTASK)


def require_ttl(draft: OperatorDraft, name: str) -> KeyedDescription:
    """Return a state of the source savepoint that has time-to-live."""
    state = draft.unchanged(name)
    if not state.has_ttl:
        raise OptionError(f"{draft.label}, state {name!r} does not have time-to-live; add it with {changing('with_ttl')}")
    return state


def with_time_to_live(draft: OperatorDraft, name: str, *, enabled: bool) -> KeyedDescription:
    """Return a state of the source savepoint with time-to-live, or without."""
    state = draft.unchanged(name)
    if state.is_timer:
        raise OptionError(f"{draft.label}, state {name!r} has timers; timers don't have time-to-live")
    if state.has_ttl == enabled:
        raise OptionError(f"{draft.label}, state {name!r} {'already has' if enabled else 'does not have'} time-to-live")
    value = state.value
    return state.with_serializers(value=value.value if isinstance(value, TtlSerializer) else TtlSerializer.of(value))


def expired_rows(draft: OperatorDraft, state: KeyedDescription, expiry: ReadOptions) -> tuple[pa.Table, pa.Table]:
    """Return what expires: keys (with namespaces) or entries of a map to delete, and rows that replace lists.

    ``expiry``: the time-to-live and the point in time.
    """
    expiry = replace(expiry, nanos="string", row_kind=True)
    gone = _read(draft, state, replace(expiry, expired="only"))
    identity = [name for name in (KEY, *NAMESPACES, MAP_KEY) if name in gone.column_names]
    gone = gone.select(identity)
    if state.kind != LIST or not gone.num_rows:
        return gone, gone.slice(0, 0)
    keys = list({repr(key): key for key in gone[KEY].to_pylist()}.values())
    live = _read(draft, state, replace(expiry, flatten=False, metadata=True, keys=tuple(keys)))
    lists = live.filter(pc.greater(pc.fill_null(pc.list_value_length(live["value"]), 0), 0)).drop_columns(list(_PLACES))
    remaining = set(map(repr, lists.select(identity).to_pylist()))
    return pa.Table.from_pylist([row for row in gone.to_pylist() if repr(row) not in remaining], gone.schema), lists


def touched_rows(draft: OperatorDraft, state: KeyedDescription, as_of: int) -> pa.Table:
    """Return all rows of a state with another time of last access, in milliseconds."""
    table = _read(draft, state, ReadOptions(metadata=True, nanos="string", row_kind=True))
    at = table.schema.get_field_index(LAST_ACCESS)
    times = pa.repeat(pa.scalar(as_of * 1000, pa.int64()), table.num_rows).cast(table.schema.field(at).type)
    return table.set_column(at, LAST_ACCESS, times).drop_columns(list(_PLACES))


def _read(draft: OperatorDraft, state: KeyedDescription, options: ReadOptions) -> pa.Table:
    assert draft.source is not None  # it has the state
    reader = open_state(StoredOperator(draft.source.snapshot, draft.source.operator), state.name, options=options)
    return pa.Table.from_batches(read_all(reader.splits, reader.read, draft.source.snapshot.threads), reader.schema)
