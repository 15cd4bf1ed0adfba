"""The label of a savepoint: states that are carried over are restored by the Flink that it names, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.evolution.migration import obstacles
from state_processor.serializers.kryo.serializer import KryoSerializerSnapshot
from state_processor.write.plan.restorability import RegisteredStates
from tests.archives import unpacked
from tests.corpus import FIXTURES, packed_cases

ORDERS = {version: FIXTURES / version / "orders-hashmap-canonical" / "savepoint" for version in ("1.20.5", "2.3.0")}
KEYED = {version: packed_cases(f"{version}/keyed-all-hashmap-canonical")[0].snapshot for version in ("1.20.5", "2.3.0")}
T = sp.Types


@pytest.mark.parametrize(("version", "label", "metadata"), [("1.20.5", "2.3", 6), ("2.3.0", "1.20", 4), ("2.3.0", "1.13", 3)])
def test_states_with_the_same_bytes_are_labelled(version: str, label: str, metadata: int, tmp_path: Path) -> None:
    sp.arrow.SavepointWriter.from_existing(ORDERS[version], flink_version=label).write(tmp_path / "new")
    assert open_snapshot(tmp_path / "new").metadata.version == metadata
    assert not RegisteredStates.of(open_snapshot(tmp_path / "new")).unchecked


@pytest.mark.parametrize(
    ("version", "label", "message"),
    [
        ("1.20.5", "2.3", r"call migrate\('2.3'\).*value-kryo-bitset: Kryo 2 wrote java.util.BitSet, and Flink 2 reads it"),
        ("2.3.0", "1.20", r"value-pojo-account: counters: Flink 2 infers its type, and Flink 1 leaves such a field to Kryo"),
        ("2.3.0", "1.20", r"value-kryo-bitset: Kryo 5 wrote java.util.BitSet, .*remove_state"),
    ],
)
def test_states_with_other_bytes_are_refused(version: str, label: str, message: str, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(KEYED[version], flink_version=label)
    with pytest.raises(sp.StateMigrationError, match=f"(?s){message}"):
        writer.write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


def test_states_that_are_left_out_do_not_matter(tmp_path: Path) -> None:
    snapshot = open_snapshot(KEYED["2.3.0"])
    writer = sp.arrow.SavepointWriter.from_existing(KEYED["2.3.0"]).migrate("1.20")
    left = {(report.uid, report.state) for report in writer.migration_report().impossible}
    assert {(o.operator, o.state) for o in RegisteredStates.of(snapshot).obstacles((1, 20))} == left
    with pytest.raises(sp.StateMigrationError, match=f"{len(left)} states can't be migrated to Flink 1.20"):
        writer.write(tmp_path / "new")
    for uid, state in left:
        writer.remove_state(uid, state)
    summary = writer.write(tmp_path / "new")
    assert summary.migration is not None
    assert open_snapshot(tmp_path / "new").metadata.version == 4
    assert RegisteredStates.of(open_snapshot(tmp_path / "new")).obstacles((1, 20)) == []


@pytest.mark.parametrize(
    ("type_", "release", "message"),
    [
        (T.SET(T.STRING()), (1, 20), "version 3 of .*SetSerializerSnapshot is of Flink 2.0 and later"),
        (T.SET(T.STRING()), (2, 0), None),
        (T.ROW([T.INT()]), (1, 13), "version 4 of .*RowSerializerSnapshot is of Flink 1.14 and later"),
        (T.ROW([T.INT()]), (1, 14), None),
        (T.LIST(T.STRING()), (1, 13), None),
        (
            T.ROW_DATA("a MAP<STRING, ARRAY<MAP<INT, INT>>>"),
            (1, 18),
            "4073842523628732956; Flink 1.18 has 25330",
        ),
        (T.ROW_DATA("a MAP<STRING, ARRAY<MAP<INT, INT>>>"), (1, 19), None),
        (T.ROW_DATA("a STRING, b INT"), (1, 13), None),
    ],
    ids=str,
)
def test_classes_and_versions(type_: TypeSerializer, release: tuple[int, int], message: str | None) -> None:
    found = [str(note) for note in obstacles(type_.snapshot(), release)]
    assert len(found) == (message is not None)
    assert all(re.search(message or "", text) for text in found)


@pytest.mark.parametrize(("written", "release"), [(1, (2, 0)), (2, (1, 20))])
def test_kryo_of_another_major_version(written: int, release: tuple[int, int]) -> None:
    snapshot = KryoSerializerSnapshot.of("com.acme.Money")
    snapshot.flink = written
    assert len(list(obstacles(snapshot, release))) == 1
    snapshot.flink = release[0]
    assert list(obstacles(snapshot, release)) == []


@pytest.mark.parametrize(("label", "carried"), [("1.17", False), ("1.18", True)])
def test_headers_that_a_release_does_not_read_are_written_again(label: str, carried: bool, tmp_path: Path) -> None:
    summary = sp.arrow.SavepointWriter.from_existing(ORDERS["1.20.5"], flink_version=label).write(tmp_path / "new")
    (catalog,) = (o for o in summary.operators if "pending" in o.states)
    assert catalog.carried is carried
    before, after = (sp.arrow.read_state(path, "catalog", "pending").read_all() for path in (ORDERS["1.20.5"], tmp_path / "new"))
    assert before.equals(after)


def test_new_states_are_checked_as_well(tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(ORDERS["1.20.5"], flink_version="1.20")
    rows = [{"key": "a", "names": ["x"]}]
    writer.with_keyed_state("new", rows, key_type=T.STRING(), states={"names": sp.ValueState(T.SET(T.STRING()))})
    with pytest.raises(
        sp.StateMigrationError, match=r"new/names: version 3 of .*SetSerializerSnapshot is of Flink 2.0 and later"
    ):
        writer.write(tmp_path / "new")


def test_the_summary_names_what_was_not_checked(tmp_path: Path) -> None:
    """Connectors write bytes, whose versions only their code knows."""
    savepoint = unpacked("sql") / "2.3.0" / "group-aggregate" / "savepoint"
    (source,) = (o for o in open_snapshot(savepoint).metadata.operators if o.coordinator_state is not None)
    summary = sp.arrow.SavepointWriter.from_existing(savepoint, flink_version="2.3").write(tmp_path / "new")
    assert summary.unchecked == (f"{source.label}/SourceReaderState", f"the coordinator of {source.label}")
    assert f"Not checked against flink_version, since code of jobs or connectors reads it: {source.label}/Source" in str(summary)
    assert not sp.arrow.SavepointWriter.from_existing(savepoint).write(tmp_path / "copy").unchecked
