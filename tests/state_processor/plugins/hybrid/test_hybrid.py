"""Flink's hybrid source: the splits of the sources in it are columns, and changes of these columns are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_processor.backends.connectors.flink import SEQUENCE
from state_processor.backends.connectors.source_splits import WrittenSource, written_source
from state_processor.backends.metadata.snapshot_metadata import OperatorState
from state_processor.connectors import EnumeratorState, Versioned
from state_processor.errors import CorruptSnapshotError, InvalidRowError, UnsupportedFormatError
from state_processor.plugins.hybrid import HYBRID
from state_processor.serializers import DataInput
from tests.backends.connectors.java_data import Data
from tests.backends.connectors.source_operators import rows_of, source, state_of

SEQUENCE_SPLIT = bytes.fromhex("000137000000000000001e0000000000000063")
REAL_SPLIT = bytes.fromhex("000000010001370000000100000013000137000000000000001e0000000000000063")
"""Written by Flink 2.3.0, with the split of a sequence in it."""
VALUES = {"split_id": "7", "source_index": 1, "finished": None, "wrapped_version": 1, "wrapped": SEQUENCE_SPLIT}
SPLITS = pytest.mark.parametrize(
    ("version", "data", "values"), [(0, REAL_SPLIT, VALUES), (1, REAL_SPLIT + b"\1", VALUES | {"finished": True})]
)

KAFKA_SPLIT = Data().utf("orders").int(3).long(1234).long(-(1 << 63)).data
KAFKA_BOUNDED = Data().utf("orders").int(4).long(-2).long(99).data
KAFKA_ENUMERATOR = Data().int(2).utf("orders").int(3).int(0).utf("orders").int(4).int(1).bool(False).data
SPLIT, BOUNDED = Versioned(0, KAFKA_SPLIT), Versioned(0, KAFKA_BOUNDED)


@SPLITS
def test_a_split_is_read_to_its_last_byte_and_written_again(version: int, data: bytes, values: dict[str, Any]) -> None:
    assert HYBRID.splits.read(Versioned(version, data), "here") == values
    assert HYBRID.splits.write(values, version) == Versioned(version, data)
    assert {field.name for field in HYBRID.fields} == values.keys() - {"split_id"}


@SPLITS
def test_damaged_splits_are_refused(version: int, data: bytes, values: dict[str, Any]) -> None:
    with pytest.raises(CorruptSnapshotError, match="here"):
        HYBRID.splits.read(Versioned(version, data + b"\0"), "here")
    for end in range(len(data)):
        with pytest.raises(CorruptSnapshotError, match="here"):
            HYBRID.splits.read(Versioned(version, data[:end]), "here")
    with pytest.raises(UnsupportedFormatError, match=r"here: version 99 .* not known"):
        HYBRID.splits.read(Versioned(99, data), "here")


@given(st.binary(max_size=80), st.integers(0, 3))
def test_no_bytes_break_a_reader(data: bytes, version: int) -> None:
    for formats in (HYBRID.splits, HYBRID.enumerator):
        try:
            content = formats.read(Versioned(version, data), "here")
        except (CorruptSnapshotError, UnsupportedFormatError):
            continue
        assert isinstance(content, (dict, EnumeratorState))


def hybrid(index: int, split_id: str, inner: Versioned) -> Versioned:
    return Versioned(0, Data().int(index).utf(split_id).raw(inner.to_bytes()).data)


def test_a_hybrid_source_shows_the_splits_of_the_sources_in_it() -> None:
    sequence = SEQUENCE.splits.write({"split_id": "7", "from_number": 3, "to_number": 9})
    current = Versioned(0, Data().int(1).raw(Versioned(2, KAFKA_ENUMERATOR).to_bytes()).data)
    rows = rows_of(source([hybrid(0, "7", sequence)], [hybrid(1, "orders-3", SPLIT)], enumerator=current))
    names = ("subtask", "source_index", "split_id", "topic", "starting_offset", "from_number", "assignment", "wrapped")
    assert [tuple(row[n] for n in names) for row in rows] == [
        (0, 0, "7", None, None, 3, "ASSIGNED", sequence.data),
        (1, 1, "orders-3", "orders", 1234, None, "ASSIGNED", KAFKA_SPLIT),
        (None, 1, "orders-4", "orders", None, None, "UNASSIGNED", None),
    ]


def test_a_hybrid_source_keeps_its_enumerators_state() -> None:
    current = Versioned(0, Data().int(1).raw(Versioned(2, KAFKA_ENUMERATOR).to_bytes()).data)
    operator = source([hybrid(1, "orders-3", SPLIT)], enumerator=current)
    rows = [row for row in rows_of(operator) if row["subtask"] is not None]
    rows[0]["wrapped"] = KAFKA_BOUNDED
    written = written_source(rows, state_of(operator))
    assert written.elements == [hybrid(1, "orders-3", BOUNDED).to_bytes()]
    assert operator.coordinator_state is not None
    assert written.coordinator == operator.coordinator_state.data


def hybrid_source() -> OperatorState:
    """A reader with a sequence, one with a partition of Kafka, and an enumerator of Kafka with another partition."""
    sequence = SEQUENCE.splits.write({"split_id": "7", "from_number": 3, "to_number": 9})
    current = Versioned(0, Data().int(1).raw(Versioned(2, KAFKA_ENUMERATOR).to_bytes()).data)
    return source([hybrid(0, "7", sequence)], [hybrid(1, "orders-3", SPLIT)], enumerator=current)


def hybrid_rows(changes: dict[str, Any], row: int = 1) -> list[dict[str, Any]]:
    rows = rows_of(hybrid_source())
    rows[row] |= changes
    return rows


def test_a_hybrid_source_that_nobody_changed() -> None:
    operator = hybrid_source()
    rows, state = rows_of(operator), state_of(operator)
    assert operator.coordinator_state is not None
    expected = WrittenSource([split.to_bytes() for _, split in state.splits], operator.coordinator_state.data)
    assert written_source(rows, state) == written_source(rows[:2], state) == expected
    inside = {"topic", "partition", "starting_offset", "stopping_offset", "from_number", "to_number"}
    assert written_source([{n: v for n, v in row.items() if n not in inside} for row in rows[:2]], state) == expected
    assert written_source([{n: v for n, v in row.items() if n not in ("raw", "version")} for row in rows[:2]], state) == expected


@pytest.mark.parametrize(
    ("row", "changes", "shown"),
    [
        (1, {"starting_offset": 5000}, {"split_id": "orders-3", "starting_offset": 5000, "stopping_offset": None}),
        (1, {"partition": 4, "starting_offset": -2, "stopping_offset": 99}, {"split_id": "orders-4", "wrapped": KAFKA_BOUNDED}),
        (1, {"topic": "new", "split_id": "new-3", "source_index": 2}, {"split_id": "new-3", "topic": "new", "source_index": 2}),
        (0, {"from_number": 5}, {"split_id": "7", "from_number": 5, "to_number": 9}),
        (0, {"split_id": "8"}, {"split_id": "8", "from_number": 3}),
        (1, {"wrapped": KAFKA_BOUNDED}, {"split_id": "orders-3", "partition": 4, "starting_offset": -2}),
        (
            1,
            {"wrapped": KAFKA_BOUNDED, "partition": 4, "starting_offset": -2, "stopping_offset": 99},
            {"starting_offset": -2, "wrapped": KAFKA_BOUNDED},
        ),
    ],
)
def test_changes_to_splits_inside_of_a_hybrid_source(row: int, changes: dict[str, Any], shown: dict[str, Any]) -> None:
    operator = hybrid_source()
    written = written_source(hybrid_rows(changes, row), state_of(operator))
    assert operator.coordinator_state is not None
    assert written.coordinator == operator.coordinator_state.data
    assert written.elements[1 - row] == state_of(operator).splits[1 - row][1].to_bytes()
    changed = rows_of(source([Versioned.read(DataInput(written.elements[row]))], enumerator=None), "hybrid")
    assert [{n: r[n] for n in shown} for r in changed] == [shown]


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        (1, {"from_number": 5}, "row 1, split 'orders-3': 'from_number' was changed, .* of the connector 'kafka', does not have"),
        (1, {"starting_offset": None}, "'starting_offset' was changed, .* needs 'starting_offset'"),
        (1, {"starting_offset": 1 << 70}, "'starting_offset' was changed, and can't be written"),
        (1, {"starting_offset": 5, "wrapped": KAFKA_BOUNDED}, "'starting_offset' was changed, and so was 'wrapped'"),
        (1, {"starting_offset": 5, "raw": None}, "'starting_offset' was changed, .*: keep 'version' and 'raw'"),
        (1, {"split_id": "new-3"}, "'split_id' was changed, but follows .* which give 'orders-3'"),
        (1, {"subtask": None}, "split 'orders-3' without a reader: the enumerator has no such split"),
        (2, {"starting_offset": 5}, "row 2, split 'orders-4' without a reader: 'starting_offset' was changed, .* leave the row"),
        (2, {"subtask": 0}, "row 2: a split of the connector 'hybrid' needs 'wrapped_version', 'wrapped'"),
        (1, {"startin_offset": 5}, "column 'startin_offset' would be ignored"),
    ],
)
def test_changes_to_a_hybrid_source_that_are_refused(row: int, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRowError, match=problem):
        written_source(hybrid_rows(changes, row), state_of(hybrid_source()))


def test_splits_of_unknown_connectors_inside_of_a_hybrid_source() -> None:
    operator = source([hybrid(0, "a", Versioned(7, b"split")), hybrid(1, "orders-3", SPLIT)], enumerator=None)
    rows = rows_of(operator)
    assert written_source(rows, state_of(operator)).elements == [split.to_bytes() for _, split in state_of(operator).splits]
    rows[0]["topic"] = "orders"
    with pytest.raises(InvalidRowError, match=r"split 'a': 'topic' was changed, which .* connector unknown, does not have"):
        written_source(rows, state_of(operator))


def test_a_hybrid_source_from_nothing() -> None:
    row = {"split_id": "orders-3", "source_index": 1, "wrapped_version": 0, "wrapped": KAFKA_SPLIT, "topic": None}
    expected = WrittenSource([hybrid(1, "orders-3", SPLIT).to_bytes()], None)
    assert written_source([row], connector="hybrid") == expected
