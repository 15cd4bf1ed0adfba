"""Sinks of AWS: the requests that their writers have buffered, one row for each request.

Flink: ``AsyncSinkWriter``, ``BufferedRequestState``. flink-connector-aws: ``KinesisStreamsStateSerializer``,
``KinesisFirehoseStateSerializer``, ``SqsStateSerializer``, ``DynamoDbWriterStateSerializer``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Format, Formats, Values
from state_processor.backends.connectors.content_rows import parsed
from state_processor.backends.connectors.layouts import aws
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.backends.connectors.sinks import SinkConnector
from state_processor.serializers.errors import InvalidRowError
from state_processor.serializers.io import DataInput, DataOutput

DATA: Final = "data"
KEY: Final = "partition_key"
BODY: Final = "message_body"
MESSAGE: Final = "message_id"
TYPE: Final = "request_type"
ITEM: Final = "item"
SIZE: Final = "size"
_ENTRIES: Final = "bufferedRequestEntries"


def _sink(
    name: str, serializer: str, fields: tuple[pa.Field, ...], row: Callable[[Content], Values], entry: Callable[[Values], Content]
) -> SinkConnector:
    """Return a sink. ``row`` and ``entry`` convert a request to a row and back. A state without requests is a row of nulls."""
    names = [f.name for f in fields]

    def whole(values: Values) -> Content:
        missing = [n for n in names if values.get(n) is None]
        if missing:
            raise InvalidRowError(f"a request of the sink {name!r} needs {' and '.join(map(repr, missing))}")
        return entry(values)

    def formats(codec: Any) -> Format[list[Values]]:
        def read(source: DataInput) -> list[Values]:
            return [row(found) for found in codec.read(source)[_ENTRIES]] or [dict.fromkeys(names)]

        def write(rows: list[Values], target: DataOutput) -> None:
            requests = [values for values in rows if any(values.get(n) is not None for n in names)]
            codec.write({_ENTRIES: [whole(values) for values in requests]}, target)

        return Format(read, write)

    return SinkConnector(
        name=name,
        fields=fields,
        writer=Formats(
            f"buffered requests of the sink {name!r}", {v: (formats(codec),) for v, codec in aws.LAYOUTS[serializer].items()}
        ),
        committables=Formats(f"committables of the sink {name!r}, which has none", {}),
        element_of=lambda row, number: _element(row, names, number),
    )


def _element(row: Values, names: list[str], number: int) -> Any:
    """Return the element of a row: all requests of one state have its bytes."""
    if row.get("raw") is None:
        return "new"
    return bytes(row["raw"]) if any(row.get(name) is not None for name in names) else number


KINESIS_SINK: Final = _sink(
    "kinesis",
    aws.KINESIS_WRITER,
    (pa.field(DATA, pa.binary()), pa.field(KEY, pa.string())),
    lambda entry: {DATA: bytes.fromhex(entry["data"]), KEY: entry["partitionKey"]},
    lambda row: {"size": len(row[DATA]), "data": row[DATA].hex(), "partitionKey": row[KEY]},
)
FIREHOSE_SINK: Final = _sink(
    "firehose",
    aws.FIREHOSE_WRITER,
    (pa.field(DATA, pa.binary()),),
    lambda entry: {DATA: bytes.fromhex(entry["data"])},
    lambda row: {"size": len(row[DATA]), "data": row[DATA].hex()},
)
SQS_SINK: Final = _sink(
    "sqs",
    aws.SQS_WRITER,
    (pa.field(BODY, pa.string()), pa.field(MESSAGE, pa.string())),
    lambda entry: {BODY: entry["messageBody"], MESSAGE: entry["id"]},
    lambda row: {"size": len(row[BODY].encode()), "messageBody": row[BODY], "id": row[MESSAGE]},
)
DYNAMODB_SINK: Final = _sink(
    "dynamodb",
    aws.DYNAMODB_WRITER,
    (pa.field(TYPE, pa.string()), pa.field(ITEM, pa.string()), pa.field(SIZE, pa.int64())),
    lambda entry: {TYPE: entry["type"], ITEM: json.dumps(entry["item"], ensure_ascii=False), SIZE: entry["size"]},
    lambda row: {"size": row[SIZE], "type": row[TYPE], "item": parsed(ITEM, row[ITEM])},
)
"""``item`` has the attributes as JSON, in the order of the sink. ``size`` is the sink's own measure of a request."""
