"""Parts of dictionaries, and indexes by name."""

from __future__ import annotations

import pyarrow as pa

from state_processor.support.mappings import (
    attributes,
    by_each_key,
    index_by_name,
    inverted,
    map_values,
    names_of,
    only_keys,
    positions_of,
    unrenamed,
    without_keys,
    without_none,
)

_PORTS = {"http": 80, "ssh": 22, "smtp": 25}


def test_entries_keep_the_order_of_the_mapping() -> None:
    assert list(only_keys(_PORTS, ("smtp", "ftp", "http")).items()) == [("http", 80), ("smtp", 25)]
    assert list(without_keys(_PORTS, {"ssh"}).items()) == [("http", 80), ("smtp", 25)]
    assert without_keys(_PORTS, _PORTS) == {}


def test_keys_stay_when_values_change() -> None:
    assert list(map_values(str, _PORTS).items()) == [("http", "80"), ("ssh", "22"), ("smtp", "25")]


def test_a_value_has_each_of_its_keys() -> None:
    units = by_each_key([(("h", "hour"), 3600), (("m",), 60), ((), 1), (("m", "min"), 61)])
    assert list(units.items()) == [("h", 3600), ("hour", 3600), ("m", 61), ("min", 61)]


def test_an_item_has_its_last_position() -> None:
    assert list(positions_of(["key", "value", "key"]).items()) == [("key", 2), ("value", 1)]


def test_columns_keep_their_names() -> None:
    assert list(unrenamed(("b", "a")).items()) == [("b", "b"), ("a", "a")]


def test_the_last_one_of_equal_names_counts() -> None:
    fields = [pa.field("a", pa.int8()), pa.field("b", pa.int16()), pa.field("a", pa.int32())]
    assert names_of(fields) == ["a", "b", "a"]
    assert index_by_name(fields) == {"a": fields[2], "b": fields[1]}


def test_false_values_are_not_none() -> None:
    assert without_none([0, None, "", False]) == [0, "", False]


def test_values_become_keys() -> None:
    assert inverted({"a": 1, "b": 2, "c": 1}) == {1: "c", 2: "b"}


def test_attributes_keep_the_order_of_names() -> None:
    assert list(attributes(pa.field("a", pa.int8()), ("nullable", "name")).items()) == [("nullable", True), ("name", "a")]
