"""Layouts of sources and sinks of Iceberg, with strategies of their content."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from state_processor.connectors import codecs
from state_processor.plugins.iceberg import first_split as iceberg_first_split
from state_processor.plugins.iceberg import layouts as iceberg
from state_processor.plugins.iceberg.connectors import CONNECTORS
from state_processor.plugins.iceberg.objects import WRITE_RESULT
from tests.backends.connectors.content_strategies import HEX, LONGS, SPECIAL, TEXT, Strategy, numbers, strategy
from tests.backends.connectors.layout_tests import LayoutTests, names_of


def _task() -> Strategy:
    def text(location: str, start: int, length: int, deletes: list[Any]) -> str:
        task = {"data-file": {"file-path": location}, "start": start, "length": length, "delete-files": deletes}
        return json.dumps(task, ensure_ascii=False)

    return st.builds(text, TEXT, LONGS, LONGS, st.lists(st.just({}), max_size=2)).map(iceberg._task)


def _manifest() -> Strategy:
    summary = st.fixed_dictionaries(
        {
            "contains_null": st.booleans(),
            "contains_nan": st.none() | st.booleans(),
            "lower_bound": st.none() | HEX,
            "upper_bound": st.none() | HEX,
        }
    )
    types = {"string": TEXT, "long": LONGS, "int": numbers(4), "bytes": HEX}
    fields: dict[str, Strategy] = {}
    declared: Any = iceberg._SCHEMA["fields"]
    for field in declared:
        optional = isinstance(field["type"], list)
        type_ = field["type"][1] if optional else field["type"]
        value = st.lists(summary, max_size=2) if isinstance(type_, dict) else types[type_]
        fields[field["name"]] = st.none() | value if optional else value
    return st.fixed_dictionaries(fields)


def _entry() -> Strategy:
    deltas = strategy(iceberg.DELTAS[2])
    fields = {"checkpointId": LONGS, "deltaManifests": st.none() | deltas}
    return st.fixed_dictionaries(fields).map(lambda entry: {**iceberg._without_deltas(entry), **entry})


FILES = st.fixed_dictionaries(
    {
        "class": st.just("org.apache.iceberg.GenericDataFile"),
        "content": st.just("DATA"),
        "location": TEXT,
        "format": st.just("PARQUET"),
        "specId": numbers(4),
        "recordCount": LONGS,
        "fileSizeInBytes": LONGS,
        **dict.fromkeys(
            ("columnSizes", "valueCounts", "nullValueCounts", "nanValueCounts"),
            st.none() | st.dictionaries(st.integers(1, 99).map(str), LONGS, max_size=20),
        ),
        "keyMetadata": st.none() | HEX,
        "splitOffsets": st.none() | st.lists(LONGS, max_size=2),
        "equalityFieldIds": st.none() | st.lists(numbers(4), max_size=2),
        "sortOrderId": st.none() | numbers(4),
        **dict.fromkeys(
            ("lowerBounds", "upperBounds"), st.none() | st.dictionaries(st.integers(1, 99).map(str), HEX, max_size=2)
        ),
        "partition": st.just([]),
    }
)


def _result() -> Strategy:
    files = st.lists(FILES, max_size=2)
    deletes = files.map(lambda found: [{**f, "class": "org.apache.iceberg.GenericDeleteFile"} for f in found])
    return st.fixed_dictionaries(
        {
            "dataFiles": files,
            "deleteFiles": deletes,
            "referencedDataFiles": st.lists(TEXT, max_size=2),
            "rewrittenDeleteFiles": deletes,
        }
    )


def _first_split() -> Strategy:
    def task(file: dict[str, Any], residual: bool) -> Any:
        found = {
            "task-type": "file-scan-task",
            "schema": {"type": "struct", "schema-id": 0, "fields": []},
            "spec": {"spec-id": 0, "fields": []},
            "data-file": iceberg_first_split._file_json(file, []),
            "start": 0,
            "length": file["fileSizeInBytes"],
            "delete-files": [],
            "residual-filter": residual,
        }
        return iceberg._task(codecs.json_text(found))

    tasks = st.lists(st.builds(task, FILES, st.booleans()), max_size=1)
    return st.fixed_dictionaries({"fileOffset": numbers(4), "recordOffset": LONGS, "tasks": tasks})


SPECIAL[id(iceberg.MANIFEST)] = _manifest
SPECIAL[id(iceberg._ENTRY)] = _entry
SPECIAL[id(WRITE_RESULT)] = _result
SPECIAL[id(iceberg.SPLIT[1])] = _first_split
for _version in (2, 3):
    SPECIAL[id(iceberg.SPLIT[_version].fields[2][1].codec)] = _task  # type: ignore[attr-defined]


class TestLayouts(LayoutTests):
    """A snapshot of the sorted maps of the committer is kept as bytes."""

    names = names_of(CONNECTORS) - {"org.apache.flink.table.runtime.typeutils.SortedMapSerializerSnapshot"}
