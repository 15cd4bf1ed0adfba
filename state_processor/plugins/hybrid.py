"""Splits of ``HybridSource``, which reads one source after the other: splits of those, wrapped.

Flink: ``HybridSourceSplitSerializer``, ``HybridSourceEnumeratorStateSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NoReturn

import pyarrow as pa

from state_processor.connectors import (
    NO_VALUE,
    RAW_BYTES,
    SPLIT_ID,
    SUBTASK,
    VERSION,
    CoordinatorState,
    EnumeratorState,
    Format,
    Formats,
    SourceConnector,
    SourceState,
    Values,
    Versioned,
    Wrapping,
    decoded,
    fitting,
    shown_splits,
    sources,
)
from state_processor.errors import InvalidRowError
from state_processor.serializers import DataInput, DataOutput

SOURCE_INDEX: Final = "source_index"
FINISHED: Final = "finished"
WRAPPED_VERSION: Final = "wrapped_version"
WRAPPED: Final = "wrapped"
_FIELDS: Final = (
    pa.field(SOURCE_INDEX, pa.int32()),
    pa.field(FINISHED, pa.bool_()),
    pa.field(WRAPPED_VERSION, pa.int32()),
    pa.field(WRAPPED, pa.binary()),
)
_OWN_COLUMNS: Final = frozenset(f.name for f in _FIELDS)


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


# Splits inside


def unwrapped(state: SourceState, rows: Sequence[Values]) -> tuple[list[Values], list[pa.Field]]:
    """Return rows with the columns of the sources in a hybrid source, as far as their splits are known, and these columns."""
    current = None
    if state.coordinator is not None:
        current = HYBRID.enumerator.read(state.coordinator.enumerator, state.label).details
    indices = {row[SOURCE_INDEX] for row in rows} | ({current[SOURCE_INDEX]} if current else set())
    unwrapped_rows: list[Values] = []
    fields: dict[str, pa.Field] = {}
    for index in sorted(indices):
        outer = [row for row in rows if row[SOURCE_INDEX] == index]
        coordinator = CoordinatorState(current[WRAPPED]) if current and current[SOURCE_INDEX] == index else None
        splits = tuple((row[SUBTASK], Versioned(row[WRAPPED_VERSION], row[WRAPPED])) for row in outer)
        inner = SourceState(f"{state.label}, source {index}", splits, coordinator)
        connectors = fitting(inner)
        if len(connectors) != 1:
            unwrapped_rows += outer
            continue
        fields |= {f.name: f for f in connectors[0].fields}
        rows_inside = decoded(inner, connectors[0])
        unwrapped_rows += [inside | row for row, inside in zip(outer, rows_inside, strict=False)]
        of_enumerator = {SOURCE_INDEX: index, VERSION: None, RAW_BYTES: None}
        unwrapped_rows += [inside | of_enumerator for inside in rows_inside[len(outer) :]]
    return unwrapped_rows, list(fields.values())


# Changes to the splits inside: a column was changed if it differs from the column in ``raw``.


def wrapped_again(rows: Iterable[tuple[int, Values]], base: SourceState | None) -> Iterator[tuple[int, Values]]:
    """Return numbered rows of a hybrid source's readers, in its own columns: changes of the others are in ``wrapped``.

    ``rows``: rows with their numbers, in columns as a hybrid source's table has them. ``base``: the state to replace. Its
    enumerator stays unchanged, so that its rows can be left out.
    """
    pending = _of_enumerator(base)
    for number, row in rows:
        if row.get(SUBTASK, 0) is None:
            _check_unchanged(row, pending, number)
        else:
            yield number, _with_changes(row, number)


def _of_enumerator(base: SourceState | None) -> list[Values]:
    return [row for row in shown_splits(base, HYBRID)[0] if row[SUBTASK] is None] if base is not None else []


def _check_unchanged(row: Values, pending: Sequence[Values], number: int) -> None:
    """Refuse a row without a reader that the enumerator does not have."""
    changed: list[str] = []
    for split in pending:
        differing = [name for name, value in row.items() if value != split.get(name)]
        if not differing:
            return
        if _same_split(row, split):
            changed += differing
    fault = f"{_listed(changed)} was changed" if changed else "the enumerator has no such split"
    raise InvalidRowError(
        f"row {number}, split {row.get(SPLIT_ID)!r} without a reader: {fault}, and the state of a hybrid source's enumerator is "
        "not written but kept: leave the row as it was read, or out"
    )


def _same_split(row: Values, split: Values) -> bool:
    return all(row.get(name) == split[name] for name in (SPLIT_ID, SOURCE_INDEX))


def _with_changes(row: Values, number: int) -> Values:
    """Return a reader's row without the columns of the split inside, whose changes are written to its bytes."""
    fields = chain.from_iterable(connector.fields for connector in sources().values())
    inner = {field.name for field in fields} - _OWN_COLUMNS
    outside = {n: v for n, v in row.items() if n not in inner}
    inner_values = {n: v for n, v in row.items() if n in inner}
    if any(row.get(n) is None for n in (WRAPPED, WRAPPED_VERSION)):
        return outside  # refused where its columns are checked
    now = Versioned(row[WRAPPED_VERSION], bytes(row[WRAPPED]))
    before = _when_read(row, number)
    if before is None and not any(v is not None for v in inner_values.values()):
        return outside
    connectors = fitting(SourceState(f"row {number}", ((0, before or now),), None))
    connector = connectors[0] if len(connectors) == 1 else None
    values = _values(connector, before or now, number)
    changed = [n for n, v in inner_values.items() if v != values.get(n)]
    if before is not None and now != before:
        if changed and not _agree(connector, now, inner_values, number):
            _refuse(row, number, changed, f"and so was {WRAPPED!r}, which says something else: change one of them only")
        return outside
    if connector is not None and row.get(SPLIT_ID) not in (None, values[SPLIT_ID]):
        changed.append(SPLIT_ID)
    if not changed:
        return outside
    if before is None:
        remedy = f"keep {VERSION!r} and {RAW_BYTES!r}, which tell what is new"
        _refuse(row, number, changed, f"as {WRAPPED!r} says something else: {remedy}")
    if connector is None or not {*changed} <= {*values}:
        name = "unknown" if connector is None else repr(connector.name)
        _refuse(row, number, changed, f"which the split inside, of the connector {name}, does not have")
    written = _written(connector, values | {n: row[n] for n in changed}, row, changed, before, number)
    split_id = _values(connector, written, number)[SPLIT_ID]
    if SPLIT_ID in changed and split_id != row[SPLIT_ID]:
        _refuse(row, number, [SPLIT_ID], f"but follows from the other columns, which give {split_id!r}")
    return outside | {WRAPPED: written.data, SPLIT_ID: split_id}


def _when_read(row: Values, number: int) -> Versioned | None:
    """Return the wrapped split before the change."""
    version, raw = row.get(VERSION), row.get(RAW_BYTES)
    if version is None or raw is None:
        return None
    values = HYBRID.splits.read(Versioned(version, bytes(raw)), f"row {number}, split {row.get(SPLIT_ID)!r}, raw")
    return Versioned(values[WRAPPED_VERSION], values[WRAPPED])


def _values(connector: SourceConnector | None, split: Versioned, number: int) -> Values:
    return connector.splits.read(split, f"row {number}, wrapped") if connector is not None else {}


def _agree(connector: SourceConnector | None, split: Versioned, inner_values: Values, number: int) -> bool:
    if connector is None or connector not in fitting(SourceState(f"row {number}", ((0, split),), None)):
        return False
    values = _values(connector, split, number)
    return all(v == values.get(n) for n, v in inner_values.items())


def _written(
    connector: SourceConnector, values: Values, row: Values, changed: Sequence[str], before: Versioned, number: int
) -> Versioned:
    missing = [n for n in (*connector.required, *connector.required_of_readers) if values[n] is None]
    if missing:
        _refuse(row, number, changed, f"and a split of the connector {connector.name!r} needs {_listed(missing)}")
    try:
        return connector.splits.write(connector.complete(values), before.version)
    except NO_VALUE as error:
        changes = {n: row[n] for n in changed}
        _refuse(row, number, changed, f"and can't be written ({error}): {changes}")


def _refuse(row: Values, number: int, changed: Sequence[str], why: str) -> NoReturn:
    raise InvalidRowError(f"row {number}, split {row.get(SPLIT_ID)!r}: {_listed(changed)} was changed, {why}")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


HYBRID: Final = SourceConnector(
    name="hybrid",
    fields=_FIELDS,
    splits=Formats("splits of a hybrid source", {0: (Format(_read_v0, _write_v0),), 1: (Format(_read_v1, _write_v1),)}, usual=0),
    enumerator=Formats("enumerator of a hybrid source", {0: (Format(_read_current, _write_current),)}),
    required=(SPLIT_ID, SOURCE_INDEX, WRAPPED_VERSION, WRAPPED),
    wrapping=Wrapping(unwrapped, wrapped_again),
    about=(
        "``source_index`` says which of the sources the split belongs to, ``wrapped`` is the split as that source writes it. "
        "The table has the columns of the sources, too."
    ),
)

CONNECTORS: Final = (HYBRID,)
