"""Migration of the state of a query to another query: the outcome for each state, and the new operators and types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from state_processor import OperatorIdentifier, QueryMigrationReport, StateReport
from state_processor.applications.flink_sql import state_changes
from state_processor.applications.flink_sql.nodes import PlanOperator
from state_processor.applications.flink_sql.operators.registry import has_state
from state_processor.applications.flink_sql.plan import CompiledPlan, uid_formats
from state_processor.applications.flink_sql.query_changes import QueryChanges
from state_processor.applications.flink_sql.state_changes import (
    NewField,
    RowChange,
    StateChanges,
    StateSuccession,
    Successor,
    ViewChange,
    change_of,
)
from state_processor.errors import NotFoundError, OptionError, StateMigrationError, StateProcessorError
from state_processor.options import spelled
from state_processor.serializers import DecodeOptions, RowDataSerializer, TupleSerializer, TypeSerializer
from state_processor.states import LAST_ACCESS, NAMESPACES, KeyedDescription
from state_processor.support import cached_property, pc, without_keys
from state_processor.types import (
    ROW_KIND_FIELD,
    AtomicType,
    ListSerializer,
    NodeSerializer,
    RowDataSerializerSnapshot,
    RowType,
    TtlSerializer,
    external_serializer,
    transform,
)
from state_processor.write import (
    CONVERTED,
    IMPOSSIBLE,
    KEY,
    LEFT_OUT,
    MAP_KEY,
    MAP_VALUE,
    NEW,
    UNCHANGED,
    VALUE,
    OperatorDraft,
    Rows,
    key_numbers,
)

OPTIONS: Final = DecodeOptions(nanos="string", row_kind=True)
"""How rows are read: so that nothing of them is lost."""

_PARTS: Final[Mapping[str, str]] = {MAP_KEY: state_changes.MAP_KEY, MAP_VALUE: state_changes.VALUE, VALUE: state_changes.VALUE}
"""The parts of a state that have rows, by column."""


def migrated_entries(state: MigratedState, rows: Rows) -> Rows:
    """Return the entries of a state, as reading gives them, in its new form.

    ``state``: what changes. ``rows``: the entries, one in each row.
    """
    changed = rows.on_batches(partial(_changed_table, state))
    return changed.by_key((KEY, MAP_KEY), _merged, combines=True) if state.change.merges else changed


def _changed_table(state: MigratedState, rows: pa.Table) -> pa.Table:
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    return pa.Table.from_batches([_changed_batch(state, batch) for batch in batches])


def _without_ttl(serializer: TypeSerializer) -> TypeSerializer:
    """Return the type of values without time-to-live."""
    return serializer.value if isinstance(serializer, TtlSerializer) else serializer


def _changed_batch(state: MigratedState, rows: pa.RecordBatch) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {name: rows.column(name) for name in (KEY, *NAMESPACES) if name in rows.schema.names}
    if state.change.successor is not None:
        for name, origin in state.change.successor.columns.items():
            columns[name] = rows.column(origin) if isinstance(origin, str) else pa.repeat(origin, len(rows))
    else:
        for name, part in _PARTS.items():
            if name not in rows.schema.names:
                continue
            column = rows.column(name)
            change = state.change.rows.get(part)
            if change is not None:
                old, new = _without_ttl(state.old.serializers[part]), _without_ttl(state.new.serializers[part])
                column = _changed(column, old, change, new)
            if part == state_changes.VALUE and state.change.counted is not None:
                column = _counted(column, state.change.counted)
            columns[name] = column
    if LAST_ACCESS in rows.schema.names and state.change.ttl is not False:
        columns[LAST_ACCESS] = rows.column(LAST_ACCESS)
    batch = pa.RecordBatch.from_pydict(columns)
    return batch if state.change.counted is None else batch.filter(_is_counted(batch.column(_value_column(batch.schema.names))))


def _value_column(names: Sequence[str]) -> str:
    """Return the column with the value of an entry."""
    return MAP_VALUE if MAP_VALUE in names else VALUE


def _counted(numbers: pa.Array, change: ViewChange) -> pa.Array:
    """Return the numbers that the calls in the new plan have for values."""
    if change.as_bits:
        bits = np.asarray(numbers).view(np.uint64)
        masks = np.zeros_like(bits)
        for bit, source in enumerate(change.calls):
            if source is not None:
                masks |= (bits >> np.uint64(source) & np.uint64(1)) << np.uint64(bit)
        return pa.array(masks.view(np.int64), numbers.type)
    if change.size == 1:
        return numbers
    columns = [pc.list_element(numbers, source) for source in change.calls if source is not None]
    if len(columns) == 1:
        return columns[0]
    whole = np.column_stack(list(map(np.asarray, columns))).ravel()
    ends = pa.array(np.arange(0, len(whole) + 1, len(columns)), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.array(whole, numbers.type.value_type)).cast(numbers.type)


def _is_counted(numbers: pa.Array) -> pa.Array:
    """Return whether a call has counted a value."""
    if pa.types.is_list(numbers.type):
        calls = len(numbers.flatten()) // max(len(numbers), 1)
        return pa.array(np.asarray(numbers.flatten()).reshape(len(numbers), calls).any(axis=1))
    return pc.not_equal(numbers, 0)


def _changed(values: pa.Array, old: TypeSerializer, change: RowChange, new: TypeSerializer) -> pa.Array:
    """Return values with another row."""
    match old, new:
        case RowDataSerializer(), RowDataSerializer():
            names = old.slot.type.names
            fields = {ROW_KIND_FIELD: pc.struct_field(values, ROW_KIND_FIELD)}
            for field, slot_field in zip(change.fields, new.slot.type.fields, strict=True):
                fields[slot_field.name] = _field(values, field, names, slot_field.type.arrow_type(OPTIONS))
            return _struct(fields, values)
        case TupleSerializer(), TupleSerializer():
            parts = zip(old.fields, new.fields, strict=True)
            return _struct(
                {f"f{i}": _changed(pc.struct_field(values, f"f{i}"), a, change, b) for i, (a, b) in enumerate(parts)}, values
            )
        case NodeSerializer(), NodeSerializer():
            row = _changed(pc.struct_field(values, "row"), old.nested[0], change, new.nested[0])
            pointers = [field.name for field in values.type if field.name != "row"]
            return _struct({"row": row, **{name: pc.struct_field(values, name) for name in pointers}}, values)
        case ListSerializer(), ListSerializer():
            elements = _changed(values.flatten(), old.element, change, new.element)
            ends = np.cumsum(np.asarray(pc.list_value_length(values).fill_null(0)), dtype=np.int32)
            missing = np.append(np.asarray(values.is_null()), False)
            return pa.ListArray.from_arrays(pa.array(np.insert(ends, 0, 0), pa.int32(), mask=missing), elements)
        case _:
            return values


def _struct(fields: Mapping[str, pa.Array], values: pa.Array) -> pa.StructArray:
    """Return fields as structs. A struct is null where the value is null."""
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=values.is_null())


def _field(values: pa.Array, field: NewField, names: tuple[str, ...], type_: pa.DataType) -> pa.Array:
    if field.source is None:
        return pa.repeat(pa.scalar(field.start, type_), len(values))
    return pc.struct_field(values, names[field.source]).cast(type_)


def _merged(rows: pa.Table) -> pa.Table:
    """Return rows that have become the same as one, with the number of all copies; each belongs to as many rows as before."""
    numbers = key_numbers([rows.column(KEY), rows.column(MAP_KEY)])
    _, firsts = np.unique(numbers, return_index=True)
    copies = rows.column(MAP_VALUE)
    counted: dict[str, Any] = {"number": numbers}
    totals = {"copies": "sum"}
    if pa.types.is_struct(copies.type):
        counted |= {"copies": pc.struct_field(copies, "f0"), "associations": pc.struct_field(copies, "f1")}
        totals["associations"] = "max"
    else:
        counted["copies"] = copies
    schema = rows.schema
    if LAST_ACCESS in schema.names:
        counted[LAST_ACCESS] = rows.column(LAST_ACCESS)
        totals[LAST_ACCESS] = "max"
    groups = pa.table(counted).group_by("number").aggregate(list(totals.items())).sort_by("number")
    combined = {name: groups.column(f"{name}_{function}").combine_chunks() for name, function in totals.items()}
    combined["copies"] = combined["copies"].cast(pa.int32())
    value = combined["copies"]
    if "associations" in combined:
        value = pa.StructArray.from_arrays([value, combined["associations"]], names=["f0", "f1"])
    columns = dict(zip(schema.names, rows.take(pa.array(firsts)).columns, strict=True))
    columns[MAP_VALUE] = pa.chunked_array([value]).cast(schema.field(MAP_VALUE).type)
    if LAST_ACCESS in combined:
        columns[LAST_ACCESS] = pa.chunked_array([combined[LAST_ACCESS]])
    return pa.table(columns, schema)


_NOT_OF_THE_QUERY: Final = "the old plan has no such operator"


@dataclass(frozen=True)
class MigratedState:
    """A state that is rewritten from the entries of one in the source savepoint: the same state, or another.

    ``old`` and ``new``: the state before and after; a plan names no fields of rows.
    """

    operator: OperatorIdentifier
    old: KeyedDescription
    new: KeyedDescription
    change: StateSuccession  # what changes

    @property
    def leaves_out_old(self) -> bool:
        """True if the new savepoint does not have the old state, or another one has its name."""
        replaces = self.change.successor is not None and self.change.successor.replaces
        return replaces or self.change.becomes is not None


class QueryMigration:
    """Migration of operators.

    ``drafts``: the operators of the savepoint. ``old`` and ``new``: the plans. ``drop``: operators of the old plan that are left
    out, by label, uid, or kind.
    """

    def __init__(self, drafts: Sequence[OperatorDraft], old: CompiledPlan, new: CompiledPlan, drop: Collection[str] = ()) -> None:
        self.changes = QueryChanges(old, new)
        self._new = new
        planned_by_hash = {draft.identifier.uid_hash: old.operators.get(draft.identifier.uid_hash) for draft in drafts}
        if not any(planned_by_hash.values()):
            labels = ", ".join(str(draft.identifier) for draft in drafts) or "none"
            raise OptionError(
                f"the old plan has none of the operators of the savepoint ({labels}): give the plan of the query that wrote it, "
                "which ran with the default table.exec.uid.format. For a query that was submitted as text, open the savepoint "
                "with plan=, its plan that was compiled later"
            )
        if isinstance(drop, str):
            raise OptionError(f"drop={drop!r}: expected a list of operators, found text; write drop=[{drop!r}]")
        dropped: set[str] = set()
        for name in drop:
            dropped.update(operator.uid_hash for operator in self._named(old, name, planned_by_hash))
        operators = []
        for draft in drafts:
            uid_hash = draft.identifier.uid_hash
            operators.append(MigratingOperator(draft, planned_by_hash[uid_hash], self.changes, uid_hash in dropped))
        self.operators = tuple(operators)

    def _named(self, old: CompiledPlan, name: str, hashes: Collection[str]) -> tuple[PlanOperator, ...]:
        matching = tuple(o for o in old.named(name) if o.uid_hash in hashes)
        if not matching:
            raise NotFoundError(f"{spelled('drop', name)}: the savepoint has no such operator")
        return matching

    @cached_property
    def report(self) -> QueryMigrationReport:
        """The outcome for each state."""
        reports = list(chain.from_iterable(operator.reports for operator in self.operators))
        for node in self.changes.added():
            for transformation in filter(has_state, node.transformations):
                added = PlanOperator(node, transformation, uid_formats(node, transformation)[0])
                notes = (f"{added.label} of the new plan starts without state",)
                reports.append(StateReport(added.uid, added.uid_hash, "", "all states", NEW, notes))
        return QueryMigrationReport(tuple(reports))

    def check(self) -> None:
        """Refuse a migration that would lose state."""
        problems = [f"{o.label}: {o.problem}" for o in self.operators if o.problem]
        if problems:
            hint = f"; name operators that may start without state by {spelled('drop')}"
            raise StateMigrationError(f"the new query can't go on with the state of {'; '.join(problems)}{hint}")

    @property
    def left_out(self) -> tuple[OperatorIdentifier, ...]:
        """The operators that are left out: dropped operators, and operators of the old plan without state."""
        return tuple(operator.draft.identifier for operator in self.operators if operator.is_left_out)

    @property
    def renamed(self) -> dict[str, str]:
        """The new uids of operators, by the hashes of the old ones."""
        return {o.draft.identifier.uid_hash: o.becomes for o in self.operators if o.becomes is not None}

    @property
    def retyped_keys(self) -> tuple[tuple[OperatorIdentifier, TypeSerializer], ...]:
        """The operators whose keys get another type with the same bytes, and this type."""
        return tuple((o.draft.identifier, o.key) for o in self.operators if o.key is not None)

    @property
    def states(self) -> tuple[MigratedState, ...]:
        """The states that are rewritten."""
        return tuple(chain.from_iterable(operator.migrated for operator in self.operators))

    @property
    def dropped(self) -> tuple[tuple[OperatorIdentifier, str], ...]:
        """The states that are left out, of operators that are not."""
        dropped: list[tuple[OperatorIdentifier, str]] = []
        for operator in self.operators:
            dropped += ((operator.draft.identifier, name) for name in operator.dropped_states)
        return tuple(dropped)


class MigratingOperator:
    """Migration of an operator of the source savepoint.

    ``planned``: the operator in the old plan; ``None`` if it has none. ``changes``: the changes from the old plan to the new one.
    ``dropped``: whether its state is left out.
    """

    def __init__(self, draft: OperatorDraft, planned: PlanOperator | None, changes: QueryChanges, dropped: bool) -> None:
        self.draft = draft
        self.dropped = dropped
        self.problem = ""
        self.becomes: str | None = None
        self.key: TypeSerializer | None = None
        self.key_notes: tuple[str, ...] = ()
        self.migrated: tuple[MigratedState, ...] = ()
        self.dropped_states: dict[str, StateSuccession] = {}
        self.label = str(draft.identifier) if planned is None else f"{planned.label} (uid {planned.uid!r})"
        self.uid = draft.identifier.uid or (planned.uid if planned is not None else None)
        self.planned = planned
        if planned is None or dropped or not _is_known(draft):
            return
        try:
            state_changes = changes.changes(planned.node)
            ttl = changes.ttl_changes(planned.node)
            self._take_key(changes.key_change(planned.node))
            uid = uid_formats(changes.partner(planned.node), planned.transformation)[
                uid_formats(planned.node, planned.transformation).index(planned.uid)
            ]
            self.becomes = None if uid == planned.uid else uid
            self.migrated = tuple(self._migrated(state_changes, ttl))
        except StateProcessorError as error:
            self.problem, self.migrated, self.dropped_states, self.key = str(error), (), {}, None

    @property
    def is_left_out(self) -> bool:
        """Whether it is dropped, or an operator of the old plan without state."""
        return self.dropped or (self.planned is not None and not _is_known(self.draft))

    def _take_key(self, change: RowChange | None) -> None:
        header = None if self.draft.source is None else self.draft.source.header
        if header is not None and change is not None and not change.is_same:
            self.key, self.key_notes = _with_row(header.key.restore_serializer(), change), change.notes

    def _migrated(self, state_changes: StateChanges, ttl: Mapping[str, bool]) -> Iterator[MigratedState]:
        """Yield the states that are rewritten; note the states that are dropped."""
        for old in [] if self.draft.source is None else self.draft.source.stored_states:
            change = replace(change_of(state_changes, old.name), ttl=None if old.is_timer else ttl.get(old.name, ttl.get("")))
            if change.is_same:
                continue
            if change.refused:
                raise StateMigrationError(f"state {old.name!r}: {change.refused}")
            if change.is_dropped:
                self._check_unchanged(old.name)
                self.dropped_states[old.name] = change
            else:
                yield from self._rewritten(old, change)

    def _rewritten(self, old: KeyedDescription, change: StateSuccession) -> Iterator[MigratedState]:
        """Yield the states that are written from the entries of a state: its successor, and the state itself."""
        retyped = old if self.key is None else old.with_serializers(key=self.key)
        if change.successor is not None:
            successor = _succeeding(retyped, change.successor)
            self._check_unchanged(old.name, successor.name)
            yield MigratedState(self.draft.identifier, old, successor, replace(change, rows={}))
            if change.successor.replaces:
                return
            change = replace(change, successor=None)
            if change.is_same:
                return
        name = change.becomes or old.name
        self._check_unchanged(*dict.fromkeys((old.name, name)))
        parts = without_keys(old.serializers, ("key",))
        for part in parts.keys() & change.rows.keys():
            parts[part] = _with_row(parts[part], change.rows[part])
        if change.ttl is not None:
            parts["value"] = _with_time_to_live(parts["value"], old.name, enabled=change.ttl)
        if change.counted is not None:
            parts["value"] = _with_numbers(parts["value"], change.counted)
        is_same = change.becomes is None and (change.counted is None or change.counted.is_same)
        if not is_same or any(old.serializers[part] is not serializer for part, serializer in parts.items()):
            # else it holds no rows of the input
            yield MigratedState(self.draft.identifier, old, replace(retyped.with_serializers(**parts), name=name), change)

    def _check_unchanged(self, *names: str) -> None:
        for name in names:
            if self.draft.changes.changes_entries(name) or not self.draft.keeps(name):
                raise OptionError(
                    f"state {name!r} was changed before. The migration would undo this change: it starts from the values "
                    "of the source savepoint. Call migrate_query first"
                )

    @property
    def reports(self) -> Iterator[StateReport]:
        """The outcome for each state."""
        identifier = (self.uid, self.draft.identifier.uid_hash)
        if self.problem:
            yield StateReport(*identifier, "", "all states", IMPOSSIBLE, (), (self.problem,))
            return
        if self.dropped:
            yield StateReport(*identifier, "", "all states", LEFT_OUT, ("named by drop",))
            return
        unchanged = () if self.planned is not None else (_NOT_OF_THE_QUERY,)
        kinds = self._kinds()
        migrated = {}
        for state in self.migrated:
            succeeds = state.change.successor and state.new.name in kinds
            migrated[state.new.name if succeeds else state.old.name] = state
        for name, kind in kinds.items():
            if name in self.dropped_states:
                yield StateReport(*identifier, name, kind, LEFT_OUT, self.dropped_states[name].notes, becomes=self.becomes)
            elif name in migrated:
                notes = (*migrated[name].change.notes, *self.key_notes)
                yield StateReport(*identifier, name, kind, CONVERTED, notes, becomes=self.becomes)
            elif self.key_notes:
                yield StateReport(*identifier, name, kind, CONVERTED, self.key_notes, becomes=self.becomes)
            else:
                yield StateReport(*identifier, name, kind, UNCHANGED, unchanged, becomes=self.becomes)
        if not kinds and _is_known(self.draft):
            yield StateReport(*identifier, "", "all states", UNCHANGED, unchanged, becomes=self.becomes)

    def _kinds(self) -> dict[str, str]:
        """Return the kinds of states by name; none for an operator whose states can't be read: it is copied."""
        source = self.draft.source
        if source is None:
            return {}
        try:
            return {name: state.kind for name, state in (source.keyed_states | source.operator_states).items()}
        except StateProcessorError:
            return {}


def _is_known(draft: OperatorDraft) -> bool:
    """Return whether a savepoint has state of an operator, or that it has finished: Flink would run it again without that."""
    if draft.source is None:
        return False
    operator = draft.source.operator
    return operator.state_size > 0 or operator.fully_finished or any(subtask.finished for subtask in operator.subtasks)


def _succeeding(old: KeyedDescription, successor: Successor) -> KeyedDescription:
    """Return a state that is made from the entries of an old one, with the same keys and time-to-live."""
    value = TtlSerializer.of(successor.value) if successor.value is not None and old.has_ttl else successor.value
    return KeyedDescription.of(successor.name, successor.kind, old.key, old.namespace, value=value)


def _with_time_to_live(value: TypeSerializer, state: str, *, enabled: bool) -> TypeSerializer:
    """Return the type of values that have time-to-live, or do not have it any more."""
    if isinstance(value, TtlSerializer) == enabled:
        words = ("without", "with") if enabled else ("with", "without")
        raise StateMigrationError(
            f"state {state!r} is {words[0]} time-to-live in the old plan, {words[1]} it in the savepoint; give the plan of the "
            "query that wrote it"
        )
    return value.value if isinstance(value, TtlSerializer) else TtlSerializer.of(value)


def _with_numbers(value: TypeSerializer, change: ViewChange) -> TypeSerializer:
    """Return the type of the numbers in a view: an array, or one number if only one call has numbers of rows."""
    if change.as_bits or change.size == 1 or len(change.calls) > 1:
        return value
    number = external_serializer(AtomicType("BIGINT", nullable=False))
    return TtlSerializer.of(number) if isinstance(value, TtlSerializer) else number


def _with_row(serializer: TypeSerializer, change: RowChange) -> TypeSerializer:
    """Return a serializer with another row type."""
    return transform(serializer, lambda part: _new_row(part, change) if isinstance(part, RowDataSerializer) else part)


def _new_row(row: RowDataSerializer, change: RowChange) -> RowDataSerializer:
    written = row.snapshot()
    assert isinstance(written, RowDataSerializerSnapshot)
    if len(written.types) != change.size:
        raise StateMigrationError(
            f"rows in state are {row}, and have {change.size} fields by the old plan; give the plan of the query that wrote them"
        )
    other_types = RowDataSerializer(RowType.of(*(field.type for field in change.fields if field.type is not None))).snapshot()
    assert isinstance(other_types, RowDataSerializerSnapshot)
    of_other_types = iter(zip(other_types.types, other_types.nested, strict=True))
    types, nested, names = [], [], []
    for place, field in enumerate(change.fields):
        stored = written.names[field.source] if written.names is not None and field.source is not None else f"f{place}"
        names.append(field.name or stored)
        if field.type is not None:
            type_, part = next(of_other_types)
        else:  # unchanged, with classes that only Java knows
            assert field.source is not None
            type_, part = written.types[field.source], written.nested[field.source]
        types.append(type_)
        nested.append(part)
    named = None if written.names is None else names
    class_name = other_types.class_name
    restored = RowDataSerializerSnapshot(class_name, types, nested, written.version, named).restore_serializer()
    assert isinstance(restored, RowDataSerializer)
    return restored
