"""Strategies of content, made from the declarations of layouts: every value of a layout that its codecs can write."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import singledispatch
from typing import Any

from hypothesis import strategies as st

from state_processor.backends.connectors.layouts import choices, codecs, java_values, kafka
from state_processor.plugins.aws import layouts as aws
from state_processor.plugins.flink_cdc import layouts
from state_processor.plugins.flink_cdc import layouts as flink_cdc
from state_processor.plugins.iceberg import first_split as iceberg_first_split
from state_processor.plugins.iceberg import layouts as iceberg
from state_processor.plugins.iceberg import layouts as iceberg_manifests
from state_processor.plugins.paimon import layouts as paimon
from state_processor.plugins.paimon import rows as paimon_rows
from state_processor.plugins.pulsar import layouts as pulsar
from state_processor.serializers.kryo.wire import KryoInput
from state_processor.support.errors import UnsupportedFormatError

Strategy = st.SearchStrategy[Any]
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
NAME = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="."), min_size=1, max_size=5)
HEX = st.binary(max_size=5).map(bytes.hex)
VERSIONS = range(21)


def numbers(size: int) -> Strategy:
    return st.integers(-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1)


LONGS = numbers(8)


@singledispatch
def content_of(codec: Any) -> Strategy:
    special = SPECIAL.get(id(codec))
    if special is None:
        raise TypeError(f"no strategy for {codec!r}")
    return special()


def strategy(codec: Any) -> Strategy:
    special = SPECIAL.get(id(codec))
    return special() if special is not None else content_of(codec)


@content_of.register
def _(codec: codecs.Integer) -> Strategy:
    return numbers(codec.min_size)


@content_of.register
def _(codec: codecs.Boolean) -> Strategy:
    return st.booleans()


@content_of.register(codecs.Utf)
@content_of.register(codecs.Text)
@content_of.register(codecs.FlinkString)
@content_of.register(aws.CharCounted)
@content_of.register(aws._SequenceMarker)
def _(codec: Any) -> Strategy:
    return TEXT


@content_of.register
def _(codec: codecs.Hex) -> Strategy:
    return HEX


@content_of.register
def _(codec: aws.Sized) -> Strategy:
    if codec.as_text:
        return st.text(st.characters(max_codepoint=127), min_size=codec.size, max_size=codec.size)
    return st.binary(min_size=codec.size, max_size=codec.size).map(bytes.hex)


@content_of.register
def _(codec: codecs.Struct) -> Strategy:
    dependent = [part for _, part in codec.fields if not hasattr(part, "read")]

    @st.composite
    def build(draw: Callable[[Strategy], Any]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, part in codec.fields:
            if not hasattr(part, "read"):
                part = part(content)
            value = draw(st.sampled_from(_known(name, dependent, content)) if _decides(name, part, dependent) else strategy(part))
            content |= value if name is None else {name: value}
        return content

    return build()


DECIDING = {"splitVersion", "stateVersion", "commitMessageVersion", "committableVersion", "size"}


def _decides(name: str | None, part: Any, dependent: list[Any]) -> bool:
    return bool(dependent) and name in DECIDING and isinstance(part, codecs.Integer)


def _known(name: str | None, dependent: list[Any], content: dict[str, Any]) -> list[int]:
    return [number for number in VERSIONS if all(_accepts(part, {**content, name: number}) for part in dependent)]


def _accepts(part: Any, content: dict[str | None, Any]) -> bool:
    try:
        part(content)
    except (UnsupportedFormatError, KeyError) as error:
        return isinstance(error, KeyError)
    return True


@content_of.register
def _(codec: codecs.Constant) -> Strategy:
    return st.just({})


@content_of.register
def _(codec: codecs.Remark) -> Strategy:
    return st.just({codec.name: codec.value})


@content_of.register(codecs.Optional)
@content_of.register(codecs.AtEnd)
def _(codec: Any) -> Strategy:
    return st.none() | strategy(codec.codec)


@content_of.register
def _(codec: codecs.ListOf) -> Strategy:
    return st.lists(strategy(codec.codec), max_size=2)


@content_of.register
def _(codec: codecs.Framed) -> Strategy:
    return st.none() | strategy(codec.codec) if codec.empty_is_null else strategy(codec.codec)


@content_of.register
def _(codec: codecs.Mapped) -> Strategy:
    if codec.after_reading is java_values._only:
        return SCALARS
    if codec.after_reading is flink_cdc._with_known_tables:
        return strategy(codec.codec)
    return strategy(codec.codec).map(codec.after_reading)


@content_of.register
def _(codec: choices.Kept) -> Strategy:
    return strategy(codec.codec)


@content_of.register
def _(codec: choices.FirstThatReads) -> Strategy:
    return strategy(codec.layouts[0])


@content_of.register
def _(codec: choices.Cases) -> Strategy:
    return st.one_of(
        strategy(inner).map(lambda content, name=name: {codec.name: name} | content) for name, inner in codec.by_number.values()
    )


@content_of.register
def _(codec: choices.Enumerated) -> Strategy:
    codes = st.sampled_from([*codec.names.items()])
    return codes.map(lambda pair: {codec.name: pair[1]} | ({} if codec.code is None else {codec.code: pair[0]}))


@content_of.register
def _(codec: choices.SplitList) -> Strategy:
    def of(version: int) -> Strategy:
        element = codec.element(codecs.Framed(codec.versions[version]))
        return st.fixed_dictionaries(
            {"splitSerializerVersion": st.just(version), codec.name: st.lists(strategy(element), max_size=2)}
        )

    return st.sampled_from([*codec.versions]).flatmap(of)


@content_of.register
def _(codec: aws._KinesisMarker) -> Strategy:
    return st.fixed_dictionaries({}, optional={"epochMillis": LONGS, "sequenceNumber": TEXT})


@content_of.register
def _(codec: aws.TaggedValue) -> Strategy:
    leaves = {"S": TEXT, "N": TEXT, "BOOL": st.booleans(), "NULL": st.just(True), "B": HEX}
    leaves |= {"SS": st.lists(TEXT, max_size=2), "NS": st.lists(TEXT, max_size=2), "BS": st.lists(HEX, max_size=2)}
    plain = st.one_of(value.map(lambda found, name=name: {name: found}) for name, value in leaves.items())

    def deeper(inner: Strategy) -> Strategy:
        entries = st.lists(st.fixed_dictionaries({"key": TEXT, "value": inner}), max_size=2)
        return st.fixed_dictionaries({"L": st.lists(inner, max_size=2)}) | st.fixed_dictionaries({"M": entries})

    return st.recursive(plain, deeper, max_leaves=4)


@content_of.register
def _(codec: aws._Later) -> Strategy:
    return strategy(codec.codec())


@content_of.register
def _(codec: aws.OfKryo) -> Strategy:
    return {KryoInput.int_: numbers(4), KryoInput.long: LONGS, KryoInput.text: TEXT}[codec.take]


@content_of.register
def _(codec: java_values.HexText) -> Strategy:
    return strategy(codec.codec)


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


@content_of.register
def _(codec: choices.OneOf) -> Strategy:
    return st.one_of(*map(strategy, codec.layouts))


ROWS = st.lists(st.none() | st.integers(0, 99) | TEXT, max_size=3)


@content_of.register
def _(codec: paimon_rows.UntypedRow) -> Strategy:
    def row(values: list[Any]) -> Any:
        typed = [None if v is None else {"type": "STRING" if isinstance(v, str) else "INT", "value": v} for v in values]
        arity, body = paimon_rows.untyped_body({"arity": len(values), "values": typed})
        return paimon_rows.untyped_row(arity, body)

    return ROWS.map(row)


@content_of.register
def _(codec: paimon_rows.TypedRow) -> Strategy:
    return _row(codec.columns)


def _row(columns: tuple[paimon_rows.Column, ...]) -> Strategy:
    return st.fixed_dictionaries({column.name: _column(column) for column in columns})


def _column(column: paimon_rows.Column) -> Strategy:
    untyped = strategy(paimon_rows.UntypedRow(sized=False))
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


# Layouts whose bytes are not a mere composition

TABLES = st.fixed_dictionaries({"catalog": st.none() | NAME, "schema": st.none(), "table": NAME})
ALL_TABLES = st.fixed_dictionaries({"catalog": st.none() | NAME, "schema": st.none() | NAME, "table": NAME})


def _sure(table: dict[str, Any]) -> dict[str, Any]:
    """Without a flag, two parts are a catalog and a table."""
    return table if table["catalog"] is not None else {**table, "schema": None}


SURE_TABLES = ALL_TABLES.map(_sure)
OFFSETS = st.dictionaries(TEXT, st.none() | TEXT, max_size=3)
SCALARS = st.one_of(
    st.none(),
    TEXT.map(lambda value: {"class": "java.lang.String", "value": value}),
    numbers(4).map(lambda value: {"class": "java.lang.Integer", "value": value}),
    LONGS.map(lambda value: {"class": "java.lang.Long", "value": value}),
    st.integers(-(2**70), 2**70).map(lambda value: {"class": "java.math.BigInteger", "value": value}),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=0).map(
        lambda value: {"class": "java.math.BigDecimal", "value": str(value)}
    ),
    HEX.map(lambda value: {"class": "[B", "value": value}),
    st.uuids().map(lambda value: {"class": "java.util.UUID", "value": str(value)}),
    st.booleans().map(lambda value: {"class": "java.lang.Boolean", "value": value}),
    st.floats(allow_nan=False, width=64).map(lambda value: {"class": "java.lang.Double", "value": value}),
    st.dates().map(lambda value: {"class": "java.time.LocalDate", "value": str(value)}),
)
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
    for found in iceberg_manifests._SCHEMA["fields"]:
        optional = isinstance(found["type"], list)
        type_ = found["type"][1] if optional else found["type"]
        value = st.lists(summary, max_size=2) if isinstance(type_, dict) else types[type_]
        fields[found["name"]] = st.none() | value if optional else value
    return st.fixed_dictionaries(fields)


def _entry() -> Strategy:
    deltas = strategy(iceberg.DELTAS[2])
    fields = {"checkpointId": LONGS, "deltaManifests": st.none() | deltas}
    return st.fixed_dictionaries(fields).map(lambda entry: {**iceberg._without_deltas(entry), **entry})


def _message_id() -> Strategy:
    of_id = {"ledgerId": LONGS, "entryId": LONGS, "partition": st.integers(-1, 9), "batchIndex": st.integers(-1, 9)}
    return st.fixed_dictionaries(of_id | {"batchSize": st.integers(0, 9)})


def _pulsar_split(version: int) -> Callable[[], Strategy]:
    def with_id(content: dict[str, Any], message: dict[str, Any] | None) -> dict[str, Any]:
        raw = None if message is None else pulsar.message_bytes(message)
        return content | {"latestConsumedId": message, "latestConsumedIdBytes": raw}

    fields = pulsar.LAYOUTS[pulsar.SPLITS][version].codec.fields  # type: ignore[attr-defined]
    rest = codecs.Struct(tuple(field for field in fields if field[0] != "latestConsumedIdBytes"))
    return lambda: st.builds(with_id, strategy(rest), st.none() | _message_id())


def _cursor() -> Strategy:
    values = {"inclusive": st.booleans(), "timestamp": LONGS, "messageId": st.none()}
    return st.one_of(
        st.fixed_dictionaries({"class": st.just(name)} | {field: values[field] for _, field in found.fields})
        for name, found in pulsar._CURSORS.items()
    )


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


FIRST_OFFSETS = st.fixed_dictionaries({"file": TEXT, "pos": LONGS.map(str)})
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


def _any_manifest() -> Strategy:
    def known(version: int) -> Strategy:
        wanted = paimon._MESSAGES_OF_MANIFEST[version]
        return strategy(paimon.MANIFEST[version]).filter(lambda content: content["commitMessageVersion"] in wanted)

    return st.one_of(map(known, paimon._MESSAGES_OF_MANIFEST))


SPECIAL: dict[int, Callable[[], Strategy]] = {
    id(layouts.OFFSET): lambda: OFFSETS,
    id(layouts.BACK_QUOTED): lambda: SURE_TABLES,
    id(layouts.DOUBLE_QUOTED): lambda: SURE_TABLES,
    id(flink_cdc._FLAGGED): lambda: ALL_TABLES,
    id(flink_cdc._FIRST_OFFSET): lambda: FIRST_OFFSETS,
    id(kafka.OFFSET): lambda: st.none() | LONGS.filter(lambda offset: offset != -(2**63)),
    id(java_values.ROW): lambda: st.none() | st.lists(SCALARS, max_size=2),
    id(pulsar._CURSOR): _cursor,
    id(pulsar._FIRST_SPLITS.codec): _pulsar_split(0),
    id(paimon._ANY_MANIFEST): _any_manifest,
    id(iceberg_manifests.MANIFEST): _manifest,
    id(iceberg._ENTRY): _entry,
    id(iceberg.WRITE_RESULT): _result,
    id(iceberg.SPLIT[1]): _first_split,
}
"""By the identity of the codec."""
for _text in (codecs.TEXT, codecs.UTF):
    for _first in (False, True):
        SPECIAL[id(layouts.change_codec(_text, _first))] = _change(_first)
SPECIAL[id(layouts.id_codec('"'))] = lambda: SURE_TABLES
for _version in (2, 3):
    SPECIAL[id(iceberg.SPLIT[_version].fields[2][1].codec)] = _task  # type: ignore[attr-defined]
for _version in range(3):
    SPECIAL[id(pulsar.LAYOUTS[pulsar.SPLITS][_version])] = _pulsar_split(_version)
for _version, _codec in flink_cdc.BASE_SPLIT.items():
    SPECIAL[id(dict(_codec.by_number[2][1].codec.fields)["finishedSnapshotSplitInfos"].codec)] = _base_info(_version)  # type: ignore[attr-defined]
