"""Rows of every kind of state are written back with the bytes of the source."""

from __future__ import annotations

import itertools
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import state_processor as sp
from state_processor.backends.metadata.snapshot import open_snapshot
from state_processor.backends.read.operator_state import OperatorSplit, raw_elements
from state_processor.backends.read.stored_operator import find_operator, state_variants
from state_processor.read.rows import merged_description
from state_processor.serializers.table.python_state import PythonKeySerializer
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = sp.Types
CASES = unpacked()
PYFLINK = CASES / "2.3.0" / "pyflink-hashmap-canonical" / "savepoint"
KINDS = {"BROADCAST": "with_broadcast_state", "UNION_LIST": "with_union_state", "OPERATOR_LIST": "with_list_state"}
RULES = ("py-broadcast", "rules")
TYPES: dict[str, Any] = {
    "value-long": T.LONG(),
    "value-pickled": T.PICKLED_BYTE_ARRAY(),
    "list-string": sp.ListState(T.STRING()),
    "map-pickled": T.MAP(T.STRING(), T.PICKLED_BYTE_ARRAY()),
}


def stored(path: Path, uid_hash: str, state: str) -> list[bytes]:
    """Bytes of the elements of an operator state, of all subtasks."""
    snapshot = open_snapshot(path)
    (operator,) = (o for o in snapshot.metadata.operators if o.operator_id == uid_hash)
    handles = [(s.index, s.managed_operator) for s in operator.subtasks if s.managed_operator is not None]
    read = [raw_elements(snapshot, OperatorSplit(handle, index, ""), state) for index, handle in handles]
    return sorted(data[a:b].tobytes() for data, bounds in read for a, b in itertools.pairwise(bounds))


@pytest.mark.parametrize("version", ["1.18.1", "1.20.5", "2.3.0"])
def test_operator_state(version: str, tmp_path: Path) -> None:
    path = next(iter(sorted((CASES / version).glob("operator-state*")))) / "savepoint"
    states = [s for s in sp.arrow.states(path).to_pylist() if s["state_kind"] in KINDS]
    writer = sp.arrow.SavepointWriter.from_existing(path)
    for state in states:
        place = (state["operator_uid"] or state["operator_uid_hash"], state["state_name"])
        getattr(writer, KINDS[state["state_kind"]])(*place, sp.arrow.read_state(path, *place))
    writer.write(tmp_path / "savepoint")
    for state in states:
        place = (state["operator_uid_hash"], state["state_name"])
        assert stored(tmp_path / "savepoint", *place) == stored(path, *place), place


def test_operator_state_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = next(iter(sorted((CASES / "1.20.5").glob("operator-state*")))) / "savepoint"
    uid = next(s["operator_uid_hash"] for s in sp.arrow.states(path).to_pylist() if s["state_name"] == "union-accounts")
    rows = sp.SavepointReader.read(spark, path).read_union_state(uid, "union-accounts")
    sp.SavepointWriter.from_existing(spark, path).with_union_state(uid, "union-accounts", rows).write(tmp_path / "savepoint")
    assert stored(tmp_path / "savepoint", uid, "union-accounts") == stored(path, uid, "union-accounts")


@pytest.mark.parametrize(("state", "method"), [("union-accounts", "with_union_state"), ("accounts", "with_broadcast_state")])
def test_bytes_of_kryo_are_not_written_for_another_major_version(state: str, method: str, tmp_path: Path) -> None:
    path = next(iter(sorted((CASES / "1.20.5").glob("operator-state*")))) / "savepoint"
    uid = next(s["operator_uid_hash"] for s in sp.arrow.states(path).to_pylist() if s["state_name"] == state)
    writer = sp.arrow.SavepointWriter.from_existing(path).migrate("2.3")
    getattr(writer, method)(uid, state, sp.arrow.read_state(path, uid, state))
    with pytest.raises(sp.InvalidRowError, match=r"column value.counters of row 1 does not fit"):
        writer.write(tmp_path / "savepoint")


def read(path: Path, uid: str, state: str, **options: Any) -> list[str]:
    return sorted(map(str, sp.arrow.read_state(path, uid, state, **options).read_all().to_pylist()))


def same(path: Path, *, as_values: bool = False) -> bool:
    """Whether all states of PyFlink are the same: byte by byte or, because a byte array may have several elements, as values."""
    options = {name: {"python_type": type_} if as_values else {} for name, type_ in TYPES.items()}
    places = [(*RULES, {}), *(("py-keyed", name, options[name]) for name in TYPES)]
    return all(read(path, uid, name, **given) == read(PYFLINK, uid, name, **given) for uid, name, given in places)


def new_or_changed(of: str) -> sp.arrow.SavepointWriter:
    return sp.arrow.SavepointWriter.new(flink_version="2.3") if not of else sp.arrow.SavepointWriter.from_existing(of)


def test_keys_of_pyflink_are_not_rows_if_subtasks_have_descriptions_of_their_own() -> None:
    operator = find_operator(open_snapshot(PYFLINK), "py-keyed")
    state, *_ = state_variants(open_snapshot(PYFLINK), operator)["python-state-value-long"]
    assert isinstance(merged_description([state, deepcopy(state)]).serializers["key"], PythonKeySerializer)


@pytest.mark.parametrize("of", ["", str(PYFLINK)], ids=["new", "changed"])
def test_byte_arrays_of_pyflink(of: str, tmp_path: Path) -> None:
    writer = new_or_changed(of)
    writer.with_broadcast_state(*RULES, sp.arrow.read_state(PYFLINK, *RULES))
    writer.with_keyed_state("py-keyed", sp.arrow.read_state(PYFLINK, "py-keyed"))
    writer.write(tmp_path / "savepoint")
    assert same(tmp_path / "savepoint")


@pytest.mark.parametrize("of", ["", str(PYFLINK)], ids=["new", "changed"])
def test_values_of_pyflink_keep_the_types_that_they_were_read_with(of: str, tmp_path: Path) -> None:
    writer = new_or_changed(of)
    writer.with_broadcast_state(*RULES, sp.arrow.read_state(PYFLINK, *RULES, python_type=T.MAP(T.STRING(), T.LONG())))
    writer.with_keyed_state("py-keyed", sp.arrow.read_state(PYFLINK, "py-keyed", python_types=TYPES, columns=["key", *TYPES]))
    writer.write(tmp_path / "savepoint")
    assert same(tmp_path / "savepoint", as_values=True)


@pytest.mark.parametrize("state", TYPES)
def test_updates_with_byte_arrays_of_pyflink(state: str, tmp_path: Path) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(PYFLINK)
    rows = sp.arrow.read_state(PYFLINK, "py-keyed", state).read_all()
    with pytest.raises(sp.OptionError, match="has byte arrays of PyFlink as they are stored"):
        writer.update_keyed_state("py-keyed", state, rows, python_type=TYPES[state])
    with pytest.raises(sp.OptionError, match="has bytes, which may be values of the job, or byte arrays"):
        writer.update_keyed_state("py-keyed", state, rows.to_pylist())  # without the metadata of its columns
    writer.update_keyed_state("py-keyed", state, rows)
    writer.write(tmp_path / "savepoint")
    assert same(tmp_path / "savepoint")


def test_bytes_of_pyflink_that_are_ambiguous() -> None:
    writer = sp.arrow.SavepointWriter.from_existing(PYFLINK)
    rules = sp.arrow.read_state(PYFLINK, *RULES).read_all()
    text = rules.set_column(0, "key", [[str(n) for n in range(len(rules))]])
    typed = (T.BYTES(), T.BYTES())
    for rows, types, message in (
        (rules, typed, "column 'key' has byte arrays of PyFlink as they are stored, and key_type"),
        (rules.to_pylist(), (), "column 'key' has bytes, which may be values of the job"),
        (text, (), "one of the columns 'key' and 'value' has byte arrays"),
    ):
        with pytest.raises(sp.OptionError, match=message):
            writer.with_broadcast_state(*RULES, rows, *types)
    lists = sp.arrow.read_state(PYFLINK, "py-keyed", "list-string", flatten=False).read_all()
    with pytest.raises(sp.OptionError, match="column 'value' has byte arrays of PyFlink"):
        writer.with_keyed_state("py-keyed", lists, states={"value": sp.ListState(T.BYTES())})
    with pytest.raises(sp.OptionError, match="column 'value' has bytes, which may be"):
        writer.with_keyed_state("py-keyed", lists.to_pylist())
    entries = sp.arrow.read_state(PYFLINK, "py-keyed", "map-pickled").read_all().select(["key", "map_key"])
    with pytest.raises(sp.OptionError, match="column 'map_key' has byte arrays"):
        writer.delete_map_entries("py-keyed", "map-pickled", entries, python_type=TYPES["map-pickled"])
    with pytest.raises(sp.OptionError, match="column 'map_key' has bytes, which may be"):
        writer.delete_map_entries("py-keyed", "map-pickled", entries.to_pylist())


@pytest.mark.parametrize("loaded", [True, T.ROW_NAMED(["i", "list", "none"], [T.LONG(), T.LIST(T.LONG()), T.STRING()])])
def test_loaded_pickles_are_refused(loaded: Any) -> None:
    writer = sp.arrow.SavepointWriter.from_existing(PYFLINK)
    rows = sp.arrow.read_state(PYFLINK, "py-keyed", "value-pickled", python_type=T.PICKLED_BYTE_ARRAY(), unpickle=loaded)
    table = rows.read_all()
    with pytest.raises(sp.InvalidRowError, match="column 'value'"):
        writer.with_keyed_state("py-keyed", table)
    with pytest.raises(sp.InvalidRowError, match="column 'value'"):
        writer.update_keyed_state("py-keyed", "value-pickled", table, python_type=T.PICKLED_BYTE_ARRAY())
