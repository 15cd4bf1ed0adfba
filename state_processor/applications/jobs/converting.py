"""States of a snapshot in the types of another job: their rows are read, changed and written again, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor import OperatorIdentifier
from state_processor.applications.jobs.signature import KEY, MAP_KEY, NAMESPACE, VALUE, OperatorSignature, StateSignature
from state_processor.applications.jobs.value_conversion import NO_EDITS, OPTIONS, Edits, Trial, converted
from state_processor.errors import InvalidRowError, OptionError
from state_processor.serializers import KryoSerializer, TypeSerializer
from state_processor.states import (
    BROADCAST,
    LAST_ACCESS,
    LIST,
    MAP,
    NAMESPACES,
    OPERATOR_KINDS,
    TIMESTAMP,
    KeyedDescription,
    Rows,
    StateDescription,
    StateRequest,
    StateScan,
    StoredOperator,
    is_python_state,
)
from state_processor.states import VALUE as VALUE_STATE
from state_processor.support import pc
from state_processor.types import require_hash_code, walk, whole_type
from state_processor.write import SavepointBuild, check_rows, write_as

_VALUES: Final = (VALUE_STATE, "REDUCING", "AGGREGATING")
_LISTS: Final = OPERATOR_KINDS - {BROADCAST}
_KEYED: Final = (*_VALUES, LIST, MAP)
_MAP_VALUE: Final = "map_value"
_PATHS: Final = {KEY: KEY, MAP_KEY: MAP_KEY, _MAP_VALUE: VALUE, VALUE: VALUE}
"""The beginning of the paths of fields in a column."""
MOST_TRIED: Final = 5_000_000
"""The number of rows that a check converts at most."""
_MOST_TRIED_IN_PYTHON: Final = 20_000
"""The same for values of Kryo, which take fifty times as long and more."""
_ANY_MAJOR: Final = 2
"""The version of Flink to encode for without values."""


def described(state: StateSignature) -> StateDescription:
    """Return the description of a state of a job."""
    if state.unread or is_python_state(state.name) or (state.is_keyed and not state.is_timer and state.kind not in _KEYED):
        reason = state.unread or f"a state of kind {state.kind} of this job can't be written from rows"
        raise OptionError(f"state {state.name!r}: {reason}")
    parts: dict[str, Any] = {part: snapshot.restore_serializer() for part, snapshot in state.snapshots.items()}
    return StateDescription.of(state.name, state.kind, **parts)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A state that becomes another one.

    ``old`` and ``new``: the state in the snapshot, and in the other job.
    """

    old: StateDescription
    new: StateDescription
    edits: Edits = NO_EDITS  # renamed, new and dropped fields

    @classmethod
    def of(cls, old: StateSignature, new: StateSignature, edits: Edits = NO_EDITS) -> Conversion:
        """Return a conversion, after trying it without rows."""
        conversion = cls(described(old), described(new), edits)
        kinds = {conversion.old.kind, conversion.new.kind}
        if conversion.old.is_keyed != conversion.new.is_keyed or BROADCAST in kinds != {BROADCAST}:
            raise OptionError(f"state {new.name!r}: {old.kind} can't become {new.kind}")
        for part in conversion._serializers:
            if isinstance(part, KryoSerializer) and not part.self_delimiting:
                raise OptionError(f"state {new.name!r}: the snapshot does not describe the content of {part}: {part.reason}")
        conversion.encode(conversion.batch(conversion._no_rows()), _ANY_MAJOR)
        return conversion

    @property
    def options(self) -> dict[str, Any]:
        """The options of the read of the old state."""
        options: dict[str, Any] = {"nanos": OPTIONS.nanos, "row_kind": OPTIONS.row_kind}
        if not self.old.is_keyed or self.old.is_timer:
            return options
        return options | {"flatten": self._has_entries, "metadata": self._keeps_times}

    @property
    def _has_entries(self) -> bool:
        """Whether a row is an entry of a map, and not a whole list or map."""
        return self.old.kind == self.new.kind == MAP

    @property
    def _has_windows(self) -> bool:
        return isinstance(self.new, KeyedDescription) and not self.new.in_void_namespace

    @property
    def _keeps_times(self) -> bool:
        return self.old.has_ttl and self.new.has_ttl

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the new state for rows of the old one."""
        columns = {}
        for name in rows.schema.names:
            column = rows.column(name)
            if name in _PATHS:
                column = self._column(name, column)
            elif name == LAST_ACCESS and self.new.kind == VALUE_STATE and pa.types.is_list(column.type):
                column = pc.list_flatten(column)
            elif name not in (TIMESTAMP, LAST_ACCESS) and not (name in NAMESPACES and self._has_windows):
                continue
            columns[name] = column
        if not self._keeps_times:
            columns.pop(LAST_ACCESS, None)
        return pa.RecordBatch.from_pydict(columns)

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        before, after = self._type(self.old, name), self._type(self.new, name)
        if name == VALUE and self.new.kind == LIST and not pa.types.is_list(column.type):
            column = _in_lists(column)
        elif name == VALUE and self.old.kind == LIST and self.new.kind != LIST:
            target = after.arrow_type(OPTIONS)
            column, before = (column, before) if pa.types.is_list(target) else (_only(column, self.old.name), self.old.value)
        return converted(column, _PATHS[name], before, after, after.arrow_type(OPTIONS), self.edits)

    @staticmethod
    def _type(state: StateDescription, name: str) -> TypeSerializer:
        """Return the type of a column."""
        if name == VALUE:
            return whole_type(state) if state.is_keyed else state.value
        plain = state.with_serializers(value=getattr(state.value, "value", state.value)) if state.has_ttl else state
        return plain.serializers[_PATHS[name]]

    def _no_rows(self) -> pa.RecordBatch:
        names = [KEY] if self.old.is_keyed or self.old.kind == BROADCAST else []
        names += [MAP_KEY, _MAP_VALUE] if self._has_entries else [] if self.old.is_timer else [VALUE]
        columns = {name: pa.nulls(0, self._type(self.old, name).arrow_type(OPTIONS)) for name in names}
        return pa.RecordBatch.from_pydict(columns | ({TIMESTAMP: pa.nulls(0, pa.int64())} if self.old.is_timer else {}))

    def encode(self, rows: pa.RecordBatch, flink_major: int) -> None:
        """Encode rows of the new state, and drop the bytes.

        ``flink_major``: the major version of the Flink that wrote the snapshot: it decides the version of Kryo.
        """
        check_rows(self.new, rows, flink_major)

    def rows(self, scan: StateScan) -> Rows:
        """Return the rows of the new state; they are read when they are written."""
        schema = self.batch(pa.RecordBatch.from_pylist([], scan.schema)).schema
        return Rows(schema, lambda: map(self.batch, scan.read()))

    def scan(self, stored: StoredOperator, **access: Any) -> StateScan:
        """Open the old state."""
        operator = OperatorIdentifier(stored.operator.uid, stored.operator.operator_id)
        return StateRequest(operator, self.old.name, options={**access, **self.options}).open(stored)

    def tried(self, stored: StoredOperator) -> Trial:
        """Convert the values of the snapshot without writing them, up to a limit. The write refuses the values behind it."""
        size, limit = 0, _MOST_TRIED_IN_PYTHON if self._has_kryo else MOST_TRIED
        try:
            for rows in self.scan(stored).read():
                chosen = rows.slice(0, limit - size)
                self.encode(self.batch(chosen), stored.snapshot.flink_major)
                size += len(chosen)
                if size == limit:
                    return Trial(rows=size)
        except (InvalidRowError, OptionError) as error:
            return Trial(str(error), is_value=True)
        return Trial()

    @property
    def _has_kryo(self) -> bool:
        """Whether values are converted one by one in Python."""
        return any(isinstance(part, KryoSerializer) for part in self._serializers)

    @property
    def _serializers(self) -> Iterator[Any]:
        """The serializers of both states, with nested ones."""
        for serializer in (*self.old.serializers.values(), *self.new.serializers.values()):
            yield from walk(serializer)


def _in_lists(values: pa.Array) -> pa.Array:
    """Return lists of one element."""
    missing = np.append(np.asarray(values.is_null()), False)
    sizes = np.cumsum(~missing[:-1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(np.insert(sizes, 0, 0), pa.int32(), mask=missing), values.drop_null())


def _only(lists: pa.Array, state: str) -> pa.Array:
    """Return the elements of lists of one element."""
    sizes = pc.list_value_length(lists)
    wrong = pc.not_equal(sizes, 1).fill_null(True)
    if pc.any(wrong).as_py():
        size = lists.filter(wrong)[0].values
        raise InvalidRowError(f"state {state!r}: expected lists of one element, found one of {0 if size is None else len(size)}")
    return lists.flatten()


def convert_state(build: SavepointBuild, operator: OperatorIdentifier, conversion: Conversion) -> None:
    """Write a state of the source savepoint as another one; its name, kind, types and time-to-live may differ.

    ``build``: the new savepoint. ``conversion``: the change.
    """
    stored = StateRequest(operator).find(build.open_source(build.access))
    rows = conversion.rows(conversion.scan(stored, **build.access.values()))
    with build.change(operator, existing=True) as draft:
        write_as(draft, conversion.old, conversion.new, rows)


def key_conversions(old: OperatorSignature, new: OperatorSignature, edits: Edits = NO_EDITS) -> Iterator[Conversion]:
    """Yield the conversions of all keyed states and timers of an operator whose keys get another type."""
    key = new_key(new)
    require_hash_code(key)
    for state in old.keyed:
        after = (new.states or {}).get(state.name)
        if after is None:
            after = replace(state, snapshots={**state.snapshots, KEY: key.snapshot()})
        elif state.type_text(NAMESPACE) != after.type_text(NAMESPACE):
            raise OptionError(f"state {state.name!r}: windows have another type")
        yield Conversion.of(state, after, edits)


def new_key(new: OperatorSignature) -> TypeSerializer:
    """Return the type of the keys of an operator."""
    keys = [key for state in new.keyed if (key := state.serializer(KEY)) is not None]
    if not keys:
        raise OptionError(f"operator {new.label} of the new job does not have keyed state")
    return keys[0]


def convert_keys(
    build: SavepointBuild,
    operator: OperatorIdentifier,
    old: OperatorSignature,
    new: OperatorSignature,
    edits: Edits = NO_EDITS,
) -> None:
    """Write all keyed states and timers of an operator with keys of another type; each gets a new key group."""
    conversions = list(key_conversions(old, new, edits))
    with build.change(operator, existing=True) as draft:
        draft.changes.retyped_key = new_key(new)
    for conversion in conversions:
        convert_state(build, operator, conversion)
