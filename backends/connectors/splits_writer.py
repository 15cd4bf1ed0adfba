"""Writing of source splits: a table of splits becomes a source's state, the readers' list and the coordinator's bytes.

The inverse of :mod:`~state_processor.backends.connectors.source_splits`. What a row does not change is written as the bytes it
had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from state_processor.backends.connectors import connector as c
from state_processor.backends.connectors.connector import (
    ASSIGNMENT,
    NO_VALUE,
    RAW_BYTES,
    SUBTASK,
    VERSION,
    Connector,
    CoordinatorState,
    EnumeratedSplit,
    EnumeratorState,
    SourceState,
    Values,
    Versioned,
)
from state_processor.backends.connectors.registry import sources
from state_processor.backends.connectors.source_splits import recognized, splits_schema
from state_processor.support.doors import checked_choice, spelled
from state_processor.support.errors import CorruptSnapshotError, InvalidRowError, OptionError


@dataclass(frozen=True)
class WrittenSource:
    """A source's state: elements of ``SourceReaderState`` in the order of their subtasks, and the coordinator's bytes."""

    elements: list[bytes]
    coordinator: bytes | None


def written_source(rows: Sequence[Values], base: SourceState | None = None, connector: str | None = None) -> WrittenSource:
    """Return the state of a source that has these splits.

    ``rows``: the splits, in columns as :func:`~state_processor.backends.connectors.source_splits.read_source_splits` gives them.
    Without a column ``subtask``, all splits belong to readers. ``assignment``, ``version`` and ``raw`` may be missing. ``base``:
    the state to replace, if any. ``connector``: the name of a source; by default the connector that the base's bytes fit.
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
    blank: Values = dict.fromkeys((c.SPLIT_ID, *(f.name for f in connector.fields)))
    c.refuse_others(row, (*blank, SUBTASK, ASSIGNMENT, VERSION, RAW_BYTES), number)
    c.check_types(row, splits_schema(connector.fields), number)
    whole = connector.complete(blank | _written_before(connector, row, number) | {n: v for n, v in row.items() if n in blank})
    whole[SUBTASK] = row.get(SUBTASK, 0)
    return whole | {n: row.get(n) for n in (ASSIGNMENT, VERSION, RAW_BYTES)}


def _written_before(connector: Connector, row: Values, number: int) -> Values:
    """Return the columns of the split in ``raw``: a column that the table lacks keeps its value."""
    if row.get(RAW_BYTES) is None or row.get(VERSION) is None or all(f.name in row for f in connector.fields):
        return {}
    values = _raw_values(connector, Versioned(row[VERSION], bytes(row[RAW_BYTES])), f"row {number}")
    return {f.name: values.get(f.name) for f in connector.fields}


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
        values = {n: v for n, v in row.items() if n not in (RAW_BYTES, VERSION)}
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
    for name in (field.name for field in connector.fields):
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
