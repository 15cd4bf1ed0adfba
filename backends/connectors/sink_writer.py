"""Writing of a sink's state: a table of it becomes lists of its writers and committers.

The inverse of :mod:`~state_processor.backends.connectors.sink_state`. What a row does not change is written as the bytes it had;
committables without a row are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from state_processor.backends.connectors.connector import (
    CHECKPOINT,
    COMMITTABLE,
    NO_VALUE,
    RAW_BYTES,
    RETRIES,
    ROLE,
    STATUS,
    SUBTASK,
    VERSION,
    WRITER,
    SinkConnector,
    Values,
    Versioned,
    cells,
    check_types,
    refuse_others,
)
from state_processor.backends.connectors.sink_state import (
    COLLECTORS,
    RECEIVED,
    STATUSES,
    CheckpointCommittables,
    Collector,
    ListOfBytes,
    Request,
    SinkState,
    committable_values,
    has_own_committers,
    own_values,
    sink_connector,
    sink_schema,
    writer_values,
)
from state_processor.support.errors import InvalidRowError, StateProcessorError
from state_processor.support.mappings import names_of

T = TypeVar("T")


@dataclass(frozen=True)
class WrittenSink:
    """Elements of the lists of a sink, in the order of their subtasks; ``None`` for an unchanged list."""

    writer: list[bytes] | None
    committer: list[bytes] | None


def written_sink(rows: Sequence[Values], base: SinkState, connector: str | None = None) -> WrittenSink:
    """Return the state of a sink that has these rows.

    ``rows``: the state, in columns as :func:`~state_processor.backends.connectors.sink_state.read_sink_state` gives them.
    ``base``: the state that they take the place of. ``connector``: ``kafka``, ``file`` or ``raw``; by default the one that the
    base's bytes fit.
    """
    chosen = sink_connector(base, connector)
    whole = [_complete(chosen, row, number) for number, row in enumerate(rows)]
    write = _own_elements if has_own_committers(base, chosen) else _collectors
    collectors, dropped = write(chosen, [row for row in whole if row[ROLE] == COMMITTABLE], base)
    writers = [row for row in whole if row[ROLE] == WRITER]
    if chosen is not None and dropped:
        writers = [chosen.forget(row, dropped) for row in writers]
    elements = _writer_elements(chosen, writers, base)
    return WrittenSink(_unless_same(elements, base.writer), _unless_same(collectors, base.committer))


def _unless_same(new: list[Versioned], old: ListOfBytes | None) -> list[bytes] | None:
    if old is None:
        return [element.to_bytes() for element in new] or None
    return None if new == [element for _, element in old.elements] else list(map(old.to_bytes, new))


def _complete(connector: SinkConnector | None, row: Values, number: int) -> Values:
    """Return a row with all columns."""
    if row.get(ROLE) not in (WRITER, COMMITTABLE):
        raise InvalidRowError(f"row {number}: {ROLE!r} is {row.get(ROLE)!r}; expected {WRITER!r} or {COMMITTABLE!r}")
    if row.get(SUBTASK) is None:
        raise InvalidRowError(f"row {number}: the state of a sink needs {SUBTASK!r}")
    needed = (RAW_BYTES, VERSION) if connector is None or row[ROLE] == COMMITTABLE else connector.required
    if missing := [name for name in needed if row.get(name) is None]:
        raise InvalidRowError(f"row {number}: a {row[ROLE].lower()} needs {', '.join(map(repr, missing))}")
    schema = sink_schema(connector)
    refuse_others(row, schema.names, number)
    check_types(row, schema, number)
    return cells(row, schema.names)


def _raw(row: Values) -> Versioned | None:
    return None if row[RAW_BYTES] is None or row[VERSION] is None else Versioned(row[VERSION], bytes(row[RAW_BYTES]))


def _checked(row: Values, write: Callable[[], T]) -> T:
    try:
        return write()
    except StateProcessorError:
        raise
    except NO_VALUE as error:
        values = {name: value for name, value in row.items() if name not in (RAW_BYTES, VERSION) and value is not None}
        raise InvalidRowError(f"state of a sink can't be written ({error}): {values}") from None


def _same(rows: Iterable[Values], values: Sequence[Any], names: Iterable[str]) -> bool:
    """Return whether rows have some values, in any order."""
    columns = list(names)

    def fields_of(row: Any) -> list[Any]:
        return [row[name] for name in columns]

    remaining = list(map(fields_of, values))
    for fields in map(fields_of, rows):
        if fields not in remaining:
            return False
        remaining.remove(fields)
    return not remaining


# Writers


def _writer_elements(connector: SinkConnector | None, rows: Sequence[Values], base: SinkState) -> list[Versioned]:
    """Return the elements of the writers' list: elements of the base in their order, then new elements."""
    groups: dict[Hashable, list[Values]] = {}
    for number, row in enumerate(rows):
        shared = connector.element_of(row, number) if connector is not None else number
        groups.setdefault((row[SUBTASK], shared), []).append(row)
    places: dict[tuple[int, Versioned | None], list[int]] = {}
    for place, (subtask, element) in enumerate(base.writers):
        places.setdefault((subtask, element), []).append(place)
    placed = []
    for group in groups.values():
        positions = places.get((group[0][SUBTASK], _raw(group[0])), [])
        placed.append((group[0][SUBTASK], positions.pop(0) if positions else len(base.writers), group))
    ordered = sorted(placed, key=lambda element: element[:2])
    return [_writer_element(connector, group) for _, _, group in ordered]


def _writer_element(connector: SinkConnector | None, rows: list[Values]) -> Versioned:
    raw = _raw(rows[0])
    if connector is None:
        assert raw is not None  # _complete has seen to it
        return raw
    context = f"writer of subtask {rows[0][SUBTASK]}"
    names = (*names_of(connector.fields), CHECKPOINT)
    if raw is not None:
        values = [dict.fromkeys(names) | values_of_row for values_of_row in writer_values(connector, raw, f"{context}, raw")]
        if _same(rows, values, names):
            return raw
    written = _checked(rows[0], lambda: connector.writer.write(rows, rows[0][VERSION]))
    writer_values(connector, written, context)  # refuse bytes that Flink can't read
    return written


# Committers


def _collectors(
    connector: SinkConnector | None, rows: Sequence[Values], base: SinkState
) -> tuple[list[Versioned], Collection[Values]]:
    """Return the elements of the committers' list, and the values of the committables that are dropped."""
    remaining: dict[tuple[int, int | None, Versioned | None], list[Values]] = {}
    for row in rows:
        remaining.setdefault((row[SUBTASK], row[CHECKPOINT], _raw(row)), []).append(row)
    dropped: list[Values] = []

    def with_remaining(subtask: int, checkpoint: CheckpointCommittables) -> CheckpointCommittables:
        subtasks = []
        for part in checkpoint.subtasks:
            requests = []
            for request in part.requests:
                rows_of_request = remaining.get((subtask, checkpoint.checkpoint_id, request.committable), [])
                if rows_of_request:
                    requests.append(_request(connector, rows_of_request.pop(0)))
                else:
                    dropped.append(dict(committable_values(connector, request.committable, base.label)))
            subtasks.append(part.with_requests(requests))
        return replace(checkpoint, subtasks=tuple(subtasks))

    written = []
    for (subtask, element), (_, collector) in zip(base.committers, base.collectors(), strict=True):
        new = Collector(tuple(with_remaining(subtask, checkpoint) for checkpoint in collector.checkpoints), collector.version)
        written.append(element if new == collector else COLLECTORS.write(new, element.version))
    for (subtask, checkpoint_id, _), unknown in remaining.items():
        if unknown:
            raise _added(f"of checkpoint {checkpoint_id}, subtask {subtask},")
    return written, dropped


def _added(which: str) -> InvalidRowError:
    return InvalidRowError(
        f"a committable {which} is not one of the source savepoint; "
        "committables can be changed or left out, but not added or moved"
    )


def _own_elements(
    connector: SinkConnector | None, rows: Sequence[Values], base: SinkState
) -> tuple[list[Versioned], Collection[Values]]:
    """Return the elements of the list of a sink's own committers. Writers of such sinks do not remember committables."""
    remaining: dict[tuple[int, Versioned | None], list[Values]] = {}
    for row in rows:
        remaining.setdefault((row[SUBTASK], _raw(row)), []).append(row)
    written = []
    for subtask, element in base.committers:
        values = own_values(connector, element, f"{base.label}, subtask {subtask}, committable")
        own_rows = remaining.get((subtask, element), [])
        group, own_rows[:] = own_rows[: len(values)], own_rows[len(values) :]
        if new := _own_element(connector, element, group, values):
            written.append(new)
    for (subtask, _), unknown in remaining.items():
        if unknown:
            raise _added(f"of subtask {subtask}")
    return written, ()


def _own_element(
    connector: SinkConnector | None, element: Versioned, rows: list[Values], values: Sequence[Values]
) -> Versioned | None:
    """Return an element with the rows that are left; ``None`` if it is dropped."""
    if connector is None or connector.own_committer is None:
        return element if rows else None
    if _same(rows, values, names_of(connector.fields)):
        return element
    if not rows and not connector.keeps_emptied:
        return None
    formats = connector.own_committer
    new = _checked(rows[0] if rows else {}, lambda: formats.write(rows, element.version))
    formats.read(new, "committable that was written")  # refuse bytes that the sink can't read
    return new


def _request(connector: SinkConnector | None, row: Values) -> Request:
    raw = _raw(row)
    assert raw is not None  # _complete has seen to it
    status = row[STATUS] or RECEIVED
    if status not in STATUSES:
        raise InvalidRowError(f"{STATUS!r} is {status!r}; expected one of {', '.join(map(repr, STATUSES))}")
    written = raw
    if connector is not None:
        names = tuple(names_of(connector.fields))
        context = f"committable of subtask {row[SUBTASK]}"
        if not _same([row], [connector.committables.read(raw, f"{context}, raw")], names):
            written = _checked(row, lambda: connector.committables.write(row, raw.version))
            connector.committables.read(written, context)
    return Request(written, row[RETRIES] or 0, status)
