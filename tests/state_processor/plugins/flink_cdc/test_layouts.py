"""Layouts of sources of Flink CDC, with strategies of their content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from state_processor.connectors import codecs
from state_processor.plugins.flink_cdc import layouts as flink_cdc
from state_processor.plugins.flink_cdc.connectors import CONNECTORS
from tests.backends.connectors.content_strategies import LONGS, NAME, READ_AS_WRITTEN, SCALARS, SPECIAL, TEXT, Strategy, numbers
from tests.backends.connectors.layout_tests import LayoutTests, names_of

TABLES = st.fixed_dictionaries({"catalog": st.none() | NAME, "schema": st.none(), "table": NAME})
ALL_TABLES = st.fixed_dictionaries({"catalog": st.none() | NAME, "schema": st.none() | NAME, "table": NAME})


def _sure(table: dict[str, Any]) -> dict[str, Any]:
    """Without a flag, two parts are a catalog and a table."""
    return table if table["catalog"] is not None else {**table, "schema": None}


SURE_TABLES = ALL_TABLES.map(_sure)
OFFSETS = st.dictionaries(TEXT, st.none() | TEXT, max_size=3)
COLUMNS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("name", "typeName", "typeExpression"), TEXT),
        **dict.fromkeys(("charsetName", "comment", "defaultValueExpression"), st.none() | TEXT),
        **dict.fromkeys(("jdbcType", "position"), numbers(4)),
        **dict.fromkeys(("nativeType", "length", "scale"), st.none() | numbers(4)),
        **dict.fromkeys(("optional", "autoIncremented", "generated", "hasDefaultValue"), st.booleans()),
        "enumValues": st.lists(TEXT, max_size=2),
    }
)


def _change(first: bool) -> Callable[[], Strategy]:
    ids = SURE_TABLES if first else ALL_TABLES.map(lambda t: t if t["schema"] is not None else {**t, "catalog": None})
    return lambda: st.fixed_dictionaries(
        {
            "type": TEXT,
            "id": ids,
            "defaultCharsetName": st.none() | TEXT,
            "primaryKeyColumnNames": st.lists(TEXT, max_size=2),
            "columns": st.lists(COLUMNS, max_size=2),
            "comment": st.none() | TEXT,
        }
    )


FIRST_OFFSETS = st.fixed_dictionaries({"file": TEXT, "pos": LONGS.map(str)})


def _base_info(version: int) -> Callable[[], Strategy]:
    plain = st.fixed_dictionaries({"catalog": st.just("c"), "schema": st.none() | NAME, "table": NAME})
    rows = st.none() | st.lists(SCALARS, max_size=2)
    return lambda: st.fixed_dictionaries(
        {
            "tableId": plain,
            "splitId": TEXT,
            "splitStart": rows,
            "splitEnd": rows,
            "offsetFactory": st.sampled_from([*flink_cdc._FACTORIES]),
            "highWatermark": st.none() | (OFFSETS if version >= 2 else FIRST_OFFSETS),
        }
    )


READ_AS_WRITTEN.add(flink_cdc._with_known_tables)
SPECIAL[id(flink_cdc.OFFSET)] = lambda: OFFSETS
SPECIAL[id(flink_cdc.BACK_QUOTED)] = lambda: SURE_TABLES
SPECIAL[id(flink_cdc.DOUBLE_QUOTED)] = lambda: SURE_TABLES
SPECIAL[id(flink_cdc._FLAGGED)] = lambda: ALL_TABLES
SPECIAL[id(flink_cdc._FIRST_OFFSET)] = lambda: FIRST_OFFSETS
for _text in (codecs.TEXT, codecs.UTF):
    for _first in (False, True):
        SPECIAL[id(flink_cdc.change_codec(_text, _first))] = _change(_first)
SPECIAL[id(flink_cdc.id_codec('"'))] = lambda: SURE_TABLES
for _version, _codec in flink_cdc.BASE_SPLIT.items():
    SPECIAL[id(dict(_codec.by_number[2][1].codec.fields)["finishedSnapshotSplitInfos"].codec)] = _base_info(_version)  # type: ignore[attr-defined]


class TestLayouts(LayoutTests):
    names = names_of(CONNECTORS)

    @staticmethod
    def ends_early(name: str, version: int, data: bytes) -> bool:
        """Whether the bytes come from an old release without the last field."""
        return name.endswith("MySqlSplitSerializer") and version == 4 and data[3:4] == b"\2"
