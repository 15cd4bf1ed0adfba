"""Layouts of sources and sinks of Paimon, with strategies of their content."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from state_processor.plugins.paimon import layouts as paimon
from state_processor.plugins.paimon.connectors import CONNECTORS
from tests.backends.connectors.content_strategies import HEX, LONGS, SPECIAL, TEXT, Strategy, content_of, numbers, strategy
from tests.backends.connectors.layout_tests import LayoutTests, names_of


@content_of.register
def _(codec: paimon.VersionLast) -> Strategy:
    def of(version: int) -> Strategy:
        return st.fixed_dictionaries({codec.version: st.just(version), codec.name: strategy(codec.versions[version])})

    return st.sampled_from([*codec.versions]).flatmap(of)


@content_of.register
def _(codec: paimon._JavaSplit) -> Strategy:
    name = paimon._DATA_SPLIT
    return st.sampled_from([*paimon.DATA_SPLIT]).flatmap(
        lambda version: strategy(paimon.DATA_SPLIT[version]).map(
            lambda content: {"class": name, "dataSplitVersion": version} | content
        )
    )


ROWS = st.lists(st.none() | st.integers(0, 99) | TEXT, max_size=3)


@content_of.register
def _(codec: paimon.UntypedRow) -> Strategy:
    def row(values: list[Any]) -> Any:
        typed = [None if v is None else {"type": "STRING" if isinstance(v, str) else "INT", "value": v} for v in values]
        arity, body = paimon.untyped_body({"arity": len(values), "values": typed})
        return paimon.untyped_row(arity, body)

    return ROWS.map(row)


@content_of.register
def _(codec: paimon.TypedRow) -> Strategy:
    return _row(codec.columns)


def _row(columns: tuple[paimon.Column, ...]) -> Strategy:
    return st.fixed_dictionaries({column.name: _column(column) for column in columns})


def _column(column: paimon.Column) -> Strategy:
    untyped = strategy(paimon.UntypedRow(sized=False))
    named = {
        "minKey": untyped,
        "maxKey": untyped,
        "minValues": untyped,
        "maxValues": untyped,
        "fileSourceByte": st.sampled_from([0, 1]),
    }
    if column.name in named:
        return named[column.name]
    if column.type.startswith("ARRAY<ROW"):
        ranges = {"dataFileName": TEXT, "offset": numbers(4), "length": numbers(4)}
        if "cardinality" in column.type:
            ranges["cardinality"] = st.none() | LONGS
        return st.none() | st.lists(st.fixed_dictionaries(ranges), max_size=2)
    if column.type.startswith("ROW"):
        inner = column.to_value.__closure__[0].cell_contents  # type: ignore[index, union-attr]
        return _row(inner)
    arrays = {"ARRAY<STRING>": TEXT, "ARRAY<BIGINT>": st.none() | LONGS, "ARRAY<INT>": numbers(4)}
    if column.type in arrays:
        return st.lists(arrays[column.type], max_size=2)
    plain = {"STRING": TEXT, "BIGINT": LONGS, "INT": numbers(4), "TINYINT": numbers(1), "BYTES": HEX, "TIMESTAMP(3)": numbers(5)}
    return plain[column.type]


def _any_manifest() -> Strategy:
    def known(version: int) -> Strategy:
        wanted = paimon._MESSAGES_OF_MANIFEST[version]
        return strategy(paimon.MANIFEST[version]).filter(lambda content: content["commitMessageVersion"] in wanted)

    return st.one_of([*map(known, paimon._MESSAGES_OF_MANIFEST)])


SPECIAL[id(paimon._ANY_MANIFEST)] = _any_manifest


class TestLayouts(LayoutTests):
    names = names_of(CONNECTORS)
