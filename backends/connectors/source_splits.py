"""The splits of a source as a table, and a table as the state of a source: the list of its readers and its coordinator's bytes.

Flink: ``SourceOperator`` (state ``SourceReaderState``), ``SourceCoordinator`` (``SourceCoordinatorSerdeUtils``), and for the
``FlinkKafkaConsumer`` of older versions ``FlinkKafkaConsumerBase``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors import connector as c
from state_processor.backends.connectors.connector import (
    ASSIGNMENT,
    NO_VALUE,
    RAW,
    RAW_BYTES,
    SUBTASK,
    VERSION,
    Connector,
    Consumer,
    CoordinatorState,
    EnumeratedSplit,
    EnumeratorState,
    SourceState,
    Values,
    Versioned,
)
from state_processor.backends.connectors.registry import CONSUMER, sources
from state_processor.backends.metadata.snapshot import Snapshot
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.backends.read.operator_state import OperatorStateReader, raw_elements
from state_processor.backends.read.read_options import ReadOptions
from state_processor.backends.read.stored_operator import StoredOperator, operator_label, state_variants
from state_processor.serializers.io import DataInput
from state_processor.support.doors import checked_choice, spelled
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, NotFoundError, OptionError, is_foreign
from state_processor.support.mappings import names_of, only_keys, without_keys


def _reader(snapshot: Snapshot, operator: OperatorState, name: str) -> OperatorStateReader:
    stored = StoredOperator(snapshot, operator)
    return OperatorStateReader(stored, stored.states()[name], ReadOptions())


def list_elements(snapshot: Snapshot, operator: OperatorState, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the elements of an operator's list state, each with its subtask."""
    reader = _reader(snapshot, operator, name)
    for split in reader.splits():
        for batch in reader.read(split):
            for element in batch.column("value").to_pylist():
                yield split.subtask, element


def undecoded_elements(snapshot: Snapshot, operator: OperatorState, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of the elements of an operator's list state, each with its subtask."""
    reader = _reader(snapshot, operator, name)
    for split in reader.splits():
        data, bounds = raw_elements(snapshot, split, name)
        for start, end in pairwise(bounds.tolist()):
            yield split.subtask, data[start:end].tobytes()


def versioned_elements(snapshot: Snapshot, operator: OperatorState, name: str) -> Iterator[tuple[int, Versioned]]:
    """Yield the elements of a list of bytes, each with its subtask."""
    for subtask, element in list_elements(snapshot, operator, name):
        context = f"{operator_label(operator)}, subtask {subtask}, state {name!r}"
        if not isinstance(element, bytes):
            raise DataInput(b"", context).corrupt(f"holds {type(element).__name__}, no bytes")
        source = DataInput(element, context)
        written = Versioned.read(source)
        if not source.at_end():
            raise source.corrupt(f"{source.remaining} bytes are left over behind an element")
        yield subtask, written


READER_STATE: Final = "SourceReaderState"
"""The list state of a source's readers."""


def source_state(snapshot: Snapshot, operator: OperatorState) -> SourceState:
    """Return the state of a source with readers and an enumerator."""
    label = operator_label(operator)
    has_readers = READER_STATE in state_variants(snapshot, operator)
    if not has_readers and operator.coordinator_state is None:
        raise NotFoundError(f"{label} does not have splits; expected a state {READER_STATE!r} or the state of a coordinator")
    coordinator = None
    if operator.coordinator_state is not None:
        context = f"{label}, state of the coordinator"
        coordinator = CoordinatorState.read(bytes(operator.coordinator_state.data), context)
    splits = tuple(versioned_elements(snapshot, operator, READER_STATE)) if has_readers else ()
    return SourceState(label, splits, coordinator)


def read_source_splits(snapshot: Snapshot, operator: OperatorState, connector: str | None = None) -> pa.Table:
    """Read the splits of a source.

    ``connector``: the name of a source, a name in :func:`consumers`, or ``raw`` for bytes; ``None`` to find out which of them the
    bytes fit, and ``raw`` where none does.

    Returns: ``subtask`` (null for a split that no reader has), ``split_id``, the connector's columns, ``assignment``, and the
    split's bytes ``raw`` with the ``version`` of the serializer, null where the enumerator keeps no bytes.
    """
    known_sources = sources()
    by_consumer = consumers()
    if connector is not None:
        connector = checked_choice("connector", connector, (*known_sources, *by_consumer, RAW))
    states = state_variants(snapshot, operator)
    for name, (consumer, successor) in by_consumer.items():
        if connector == name or (connector is None and consumer.state in states and READER_STATE not in states):
            return _consumer_table(snapshot, operator, consumer, successor)
    state = source_state(snapshot, operator)
    if connector == RAW:
        return _table(_raw_rows(state), ())
    chosen = known_sources[connector] if connector is not None else recognized(state)
    if chosen is None:
        return _table(_raw_rows(state), ())
    return _table(*shown_splits(state, chosen))


def shown_splits(state: SourceState, connector: Connector) -> tuple[list[Values], Sequence[pa.Field]]:
    """Return the rows of a source's table, and the columns that are the connector's.

    Raises
    ------
    StateProcessorError
        The bytes don't fit the connector.
    """
    rows = decoded(state, connector)
    if connector.wrapping is None:
        return rows, connector.fields
    with c.naming_foreign_code(state.label, connector.splits, first=connector.wrapping.read):
        rows, inside = connector.wrapping.read(state, rows)
    return rows, (*connector.fields, *inside)


def recognized(state: SourceState) -> Connector | None:
    """Return the connector whose formats fit all bytes of a source's state, to the last byte; ``None`` if no connector fits."""
    candidates = fitting(state)
    if len(candidates) > 1:
        names = " and ".join(repr(connector.name) for connector in candidates)
        naming = f"name one by {spelled('connector')}"
        raise OptionError(f"{state.label}: the bytes of its splits fit the connectors {names}; {naming}")
    return candidates[0] if candidates else None


def fitting(state: SourceState) -> list[Connector]:
    """Return the connectors whose formats all bytes of a source's state have."""
    return [connector for connector in sources().values() if c.fits(connector.name, partial(decoded, state, connector))]


def decoded(state: SourceState, connector: Connector) -> list[Values]:
    """Decode the splits of a source to rows: splits of the readers, then other splits of the enumerator.

    Raises
    ------
    StateProcessorError
        The bytes don't fit the connector.
    """
    with c.naming_foreign_code(state.label, connector.splits, connector.enumerator):
        rows = []
        for subtask, split in state.splits:
            values = connector.splits.read(split, f"{state.label}, subtask {subtask}, split")
            rows.append(_row(values, subtask, c.ASSIGNED, split))
        if state.coordinator is None:
            return rows
        enumerator = connector.enumerator.read(state.coordinator.enumerator, f"{state.label}, state of the enumerator")
        return rows + _without_reader(rows, enumerator.splits)


def _without_reader(rows: Sequence[Values], splits: Iterable[EnumeratedSplit]) -> list[Values]:
    held = {row[c.SPLIT_ID] for row in rows} - {None}
    unread = (split for split in splits if split.values[c.SPLIT_ID] not in held)
    return [_row(split.values, split.subtask, split.assignment, split.split) for split in unread]


def _row(values: Values, subtask: int | None, assignment: str | None, split: Versioned | None) -> Values:
    raw, version = (split.data, split.version) if split is not None else (None, None)
    return values | {SUBTASK: subtask, ASSIGNMENT: assignment, VERSION: version, RAW_BYTES: raw}


def _raw_rows(state: SourceState) -> list[Values]:
    """Return undecoded splits, and in a row without a subtask the state of the enumerator."""
    rows = [_row({c.SPLIT_ID: None}, subtask, c.ASSIGNED, split) for subtask, split in state.splits]
    if state.coordinator is not None:
        rows.append(_row({c.SPLIT_ID: None}, None, None, state.coordinator.enumerator))
    return rows


def consumers() -> dict[str, tuple[Consumer, Connector]]:
    """Return each source from before FLIP-27 with its successor, by the name of a connector that reads its state."""
    connectors = sources().items()
    return {f"{name}{CONSUMER}": (source.consumer, source) for name, source in connectors if source.consumer is not None}


def _consumer_table(snapshot: Snapshot, operator: OperatorState, consumer: Consumer, successor: Connector) -> pa.Table:
    if consumer.state not in state_variants(snapshot, operator):
        raise NotFoundError(
            f"{operator_label(operator)} lacks the state {consumer.state!r}; every {consumer.what} has this state"
        )
    context = f"{operator_label(operator)}: state {consumer.state!r}"
    elements = list_elements(snapshot, operator, consumer.state)
    with c.naming_foreign_code(context, successor.splits, first=consumer.values):
        rows = [_row(_partition(consumer, element, context), subtask, c.ASSIGNED, None) for subtask, element in elements]
    return _table(rows, successor.fields)


def _partition(consumer: Consumer, element: Any, context: str) -> Values:
    """Return the row of an element of a consumer's list state."""
    try:
        return consumer.values(element)
    except (KeyError, TypeError) as error:
        if is_foreign(consumer.values):
            raise
        raise CorruptSnapshotError(f"{context} expected a partition, found {element!r}") from error


def splits_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    """Return the columns of a table of splits with a connector's columns."""
    return pa.schema(
        [
            pa.field(SUBTASK, pa.int32()),
            pa.field(c.SPLIT_ID, pa.string()),
            *fields,
            pa.field(ASSIGNMENT, pa.string()),
            pa.field(VERSION, pa.int32()),
            pa.field(RAW_BYTES, pa.binary()),
        ]
    )


def _table(rows: Sequence[Values], fields: Sequence[pa.Field]) -> pa.Table:
    ordered = sorted(rows, key=lambda row: (row[SUBTASK] is None, row[SUBTASK] or 0, row[c.SPLIT_ID] or ""))
    return pa.Table.from_pylist(ordered, splits_schema(fields))


# Writing


@dataclass(frozen=True)
class WrittenSource:
    """A source's state: elements of ``SourceReaderState`` in the order of their subtasks, and the coordinator's bytes."""

    elements: list[bytes]
    coordinator: bytes | None


def written_source(rows: Sequence[Values], base: SourceState | None = None, connector: str | None = None) -> WrittenSource:
    """Return the state of a source that has these splits.

    What a row does not change is written as the bytes it had.

    ``rows``: the splits, in the columns of :func:`read_source_splits`. Without a column ``subtask``, all splits belong to
    readers. ``assignment``, ``version`` and ``raw`` may be missing. ``base``: the state to replace, if any. ``connector``: the
    name of a source; by default the connector that the base's bytes fit.
    """
    chosen = _connector(base, connector)
    numbered: Iterable[tuple[int, Values]] = enumerate(rows)
    if chosen.wrapping is not None:
        with c.naming_foreign_code("writing", chosen.splits, first=chosen.wrapping.write):
            numbered = list(chosen.wrapping.write(numbered, base))
    splits = [_complete(chosen, row, number) for number, row in numbered]
    _check_unique(splits)
    held = sorted((row for row in splits if row[SUBTASK] is not None), key=lambda row: int(row[SUBTASK]))
    elements = [_checked(row, lambda row=row: _reader_split(chosen, row)).to_bytes() for row in held]
    return WrittenSource(elements, _coordinator(chosen, splits, base))


def _connector(base: SourceState | None, name: str | None) -> Connector:
    known_sources = sources()
    connectors = ", ".join(map(repr, known_sources))
    if name is not None:
        return known_sources[checked_choice("connector", name, known_sources)]
    connector = recognized(base) if base is not None else None
    if connector is None:
        raise OptionError(f"name the connector of these splits by {spelled('connector')}: one of {connectors}")
    return connector


def _complete(connector: Connector, row: Values, number: int) -> Values:
    """Return a row with all columns."""
    held = row.get(SUBTASK, 0) is not None
    needed = (*connector.required, *(connector.required_of_readers if held else ()))
    missing = [n for n in needed if row.get(n) is None]
    if missing:
        raise InvalidRowError(f"row {number}: a split of the connector {connector.name!r} needs {', '.join(map(repr, missing))}")
    blank: Values = dict.fromkeys((c.SPLIT_ID, *names_of(connector.fields)))
    c.refuse_others(row, (*blank, SUBTASK, ASSIGNMENT, VERSION, RAW_BYTES), number)
    c.check_types(row, splits_schema(connector.fields), number)
    whole = connector.complete(blank | _written_before(connector, row, number) | only_keys(row, blank))
    whole[SUBTASK] = row.get(SUBTASK, 0)
    return whole | c.cells(row, (ASSIGNMENT, VERSION, RAW_BYTES))


def _written_before(connector: Connector, row: Values, number: int) -> Values:
    """Return the columns of the split in ``raw``: a column that the table lacks keeps its value."""
    if row.get(RAW_BYTES) is None or row.get(VERSION) is None or all(f.name in row for f in connector.fields):
        return {}
    values = _raw_values(connector, Versioned(row[VERSION], bytes(row[RAW_BYTES])), f"row {number}")
    return c.cells(values, names_of(connector.fields))


def _check_unique(rows: Iterable[Values]) -> None:
    seen: set[str] = set()
    for number, row in enumerate(rows):
        split_id = row[c.SPLIT_ID]
        if split_id is None and row[ASSIGNMENT] != c.PROCESSED:
            raise InvalidRowError(f"row {number}: a split needs a 'split_id'")
        if split_id in seen:
            raise InvalidRowError(f"row {number}: split {split_id!r} occurs more than once")
        if split_id is not None:
            seen.add(split_id)


def _checked(row: Values, write: Any) -> Any:
    try:
        return write()
    except NO_VALUE as error:
        values = without_keys(row, (RAW_BYTES, VERSION))
        raise InvalidRowError(f"split {row[c.SPLIT_ID]!r} can't be written ({error}): {values}") from None


def _reader_split(connector: Connector, row: Values) -> Versioned:
    version, raw, label = row[VERSION], row[RAW_BYTES], f"split {row[c.SPLIT_ID]!r}"
    if version is not None and raw is not None:
        same = Versioned(version, bytes(raw))
        values = _raw_values(connector, same, label)
        if all(row[name] == value for name, value in values.items()):
            return same
    written = connector.splits.write(row, version)
    stored = connector.splits.read(written, label)  # refuses bytes that Flink can't read
    for name in names_of(connector.fields):
        cell, value = row.get(name), stored.get(name)
        if cell is not None and (value is None or (isinstance(value, int | float) and cell != value)):
            raise InvalidRowError(
                f"{label}: {name!r} is {row[name]!r}, version {written.version} of the {connector.splits.what} has {value!r}; "
                f"set {VERSION!r} and {RAW_BYTES!r} to null for the newest version, or {name!r} to {value!r}"
            )
    return written


def _raw_values(connector: Connector, raw: Versioned, label: str) -> Values:
    try:
        return connector.splits.read(raw, f"{label}, {RAW_BYTES}")
    except CorruptSnapshotError as error:
        hint = f"set {RAW_BYTES!r} to null to write the columns in version {raw.version}"
        raise InvalidRowError(f"{error}: the bytes in {RAW_BYTES!r} are of another version; {hint}") from error


def _coordinator(connector: Connector, rows: Sequence[Values], base: SourceState | None) -> bytes | None:
    before = base.coordinator if base is not None else None
    if connector.wrapping is not None or (base is not None and before is None):
        return before.to_bytes() if before is not None else None
    old = connector.enumerator.read(before.enumerator, "the enumerator's state") if before is not None else EnumeratorState(())
    new = EnumeratorState(_enumerated(connector, rows, old), old.details)
    version = before.enumerator.version if before is not None else None
    try:
        written = connector.enumerator.write(new, version)
    except NO_VALUE as error:
        raise InvalidRowError(
            f"the state of the enumerator of the connector {connector.name!r} can't be written: {error}"
        ) from None
    _check_kept(connector, new, written)
    if before is None:
        return CoordinatorState(written).to_bytes()
    if written == connector.enumerator.write(old, version):  # the same, whichever of a version's formats it had
        return before.to_bytes()
    return CoordinatorState(written, before.serde, before.rest).to_bytes()


def _check_kept(connector: Connector, state: EnumeratorState, written: Versioned) -> None:
    """Refuse waiting splits that the connector's state of the enumerator does not have."""
    waiting = [split.values for split in state.splits if split.subtask is None]
    stored = connector.enumerator.read(written, "state of the enumerator").splits if waiting else ()
    enumerated = {_identity(split.values) for split in stored}
    lost = [values[c.SPLIT_ID] for values in waiting if _identity(values) not in enumerated]
    if lost:
        raise InvalidRowError(
            f"split {lost[0]!r} has no {SUBTASK!r}, and the enumerator of {connector.name!r} does not keep splits that wait; "
            "name the subtask that reads it"
        )


def _enumerated(connector: Connector, rows: Sequence[Values], old: EnumeratorState) -> tuple[EnumeratedSplit, ...]:
    """Return the splits that the enumerator keeps, in their old order; new splits come last."""
    by_identity = {_identity(s.values): (place, s) for place, s in enumerate(old.splits)}
    placed: list[tuple[int, EnumeratedSplit]] = []
    for row in rows:
        held = row[SUBTASK] is not None
        place, before = by_identity.get(_identity(row), (len(by_identity), None))
        if held and not connector.keeps_assigned:
            continue
        assignment = row[ASSIGNMENT] or c.UNASSIGNED
        if held:
            assignment = before.assignment if before is not None and before.assignment != c.UNASSIGNED else c.ASSIGNED
        # The enumerator keeps the offset at the time of the assignment.
        values = before.values if before is not None and held else row
        subtask = row[SUBTASK] if before is None or before.subtask is not None else None
        placed.append((place, EnumeratedSplit(values, assignment, subtask, before.split if before is not None else None)))
    return tuple(split for _, split in sorted(placed, key=lambda pair: pair[0]))


def _identity(values: Values) -> tuple[Any, Any]:
    return values[c.SPLIT_ID], values.get("path") if values[c.SPLIT_ID] is None else None
