"""Chains of patches, each of one state, on stores of RocksDB: what is in them after, and which of their files are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import expectations as e

import state_processor as sp
from state_processor.backends.formats.rocksdb_manifest import read_manifest
from state_processor.backends.metadata.handles import IncrementalRemoteKeyedStateHandle
from state_processor.backends.metadata.snapshot import open_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UID = "orders"
Values = Mapping[str, Any]
Step = tuple[str, Callable[["SparkSession", sp.SavepointWriter], Any], Callable[[e.Operators], Values]]
"""The state, the patch, and what it leaves for the keys that it changes, given what was there."""


def _before(operators: e.Operators, state: str, key: str) -> Any:
    return next(entry["value"] for entry in e.state_of(operators, UID, state)["entries"] if entry["key"] == key)


def _update(state: str, values: Values, schema: str) -> Step:
    """Other values for some keys: all of a key's map or list is replaced."""

    def patch(spark: SparkSession, writer: sp.SavepointWriter) -> None:
        writer.update_keyed_state(UID, state, spark.createDataFrame(list(values.items()), f"key string, value {schema}"))

    shown = {key: [list(pair) for pair in value.items()] if isinstance(value, dict) else value for key, value in values.items()}
    return state, patch, lambda _: shown


def _elements(state: str, values: Mapping[str, Sequence[str]]) -> Step:
    """Lists as rows of elements."""
    rows = [(key, i, element) for key, elements in values.items() for i, element in enumerate(elements)]

    def patch(spark: SparkSession, writer: sp.SavepointWriter) -> None:
        frame = spark.createDataFrame(rows, "key string, list_index int, list_value string")
        writer.update_keyed_state(UID, state, frame)

    return state, patch, lambda _: values


def _delete(state: str, *keys: str) -> Step:
    def patch(spark: SparkSession, writer: sp.SavepointWriter) -> None:
        writer.delete_keys(UID, spark.createDataFrame([(key,) for key in keys], "key string"), state)

    return state, patch, lambda _: dict.fromkeys(keys)


def _entries(key: str, entries: Mapping[str, int], *gone: str) -> Step:
    """Single entries of a map, changed or deleted; others stay."""

    def patch(spark: SparkSession, writer: sp.SavepointWriter) -> None:
        schema = "key string, map_key string, map_value long"
        if entries:
            writer.update_keyed_state(UID, "items", spark.createDataFrame([(key, *pair) for pair in entries.items()], schema))
        if gone:
            writer.delete_map_entries(UID, "items", spark.createDataFrame([(key, name, 0) for name in gone], schema))

    def after(operators: e.Operators) -> Values:
        left = dict(_before(operators, "items", key)) | entries
        return {key: [[name, value] for name, value in left.items() if name not in gone] or None}

    return "items", patch, after


STEPS: tuple[Step, ...] = (
    _update("total", {"amelia": 100, "nobody yet": 2, "anders": None}, "long"),
    _delete("history", "bjorn", "who is not there"),
    _update("items", {"amelia": {"scarf": 5, "teapot": 7}, "nobody yet": {"mug": 1}}, "map<string,long>"),
    _update("session", {"amelia": "s-new", "nobody yet": "s-newer"}, "string"),
    _entries("amelia", {"scarf": 6, "tray": 8}),
    _update("total", {"amelia": 101, "anders": 3, "nobody yet": None}, "long"),
    _delete("profile", "amelia"),
    _elements("history", {"amelia": ["1 × scarf", "2 × mug"], "nobody yet": ["3 × tray"]}),
    _entries("anders", {}, "teapot", "what is not there"),
    _delete("items", "anders", "beatriz"),
    _update("history", {"amelia": ["4 × tray"], "chidi": None}, "array<string>"),
    _delete("session", "amelia", "anders"),
    _update("items", {"anders": {"scarf": 9}, "amelia": None}, "map<string,long>"),
    _delete("total", "amelia", "clara"),
)


def chain(
    spark: SparkSession, base: Path, operators: e.Operators, steps: Sequence[Step], backend: Any, targets: Sequence[Path]
) -> e.Operators:
    """Write each patch on top of the one before; return what is in the last savepoint."""
    for (state, patch, after), target in zip(steps, targets, strict=True):
        writer = sp.SavepointWriter.from_existing(spark, base)
        patch(spark, writer)
        writer.write(target, format="native", backend=backend)
        operators = e.changed(operators, UID, state, after(operators))
        check_files(base, target, state)
        base = target
    return operators


def check_files(base: Path, target: Path, state: str) -> None:
    """The files of all states are there, the same byte for byte, and only that one has others in addition, which lie above."""
    old, new = (dict(_families(path)) for path in (base, target))
    assert old.keys() == new.keys()
    grown = 0
    for place, before in old.items():
        added = {name: file for name, file in new[place].items() if name not in before}
        assert {name: new[place].get(name) for name in before} == before, place
        assert not added or place[2] == state, place
        assert all(level == 0 and len(data) < 3000 for level, data in added.values()), place
        grown += len(added)
    assert grown


def _families(path: Path) -> Iterator[tuple[tuple[str, int, str], dict[str, tuple[int, bytes]]]]:
    """The files of each column family with their levels, by operator and subtask."""
    snapshot = open_snapshot(path)
    for operator in snapshot.metadata.operators:
        for subtask in operator.subtasks:
            if not isinstance(handle := subtask.managed_keyed, IncrementalRemoteKeyedStateHandle):
                continue
            files = {file.local_name: bytes(snapshot.open(file.stream).read()) for file in handle.files}
            (manifest,) = (data for name, data in files.items() if name.startswith("MANIFEST"))
            for family in read_manifest(manifest, str(path)).families.values():
                found = {file.name: (file.level, files[file.name]) for file in family.files}
                yield (operator.operator_id, subtask.index, family.name), found
