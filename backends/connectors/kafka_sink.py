"""State of ``KafkaSink``: transactional ids of its writers, and transactions to be committed.

Flink: ``KafkaWriterStateSerializer``, ``KafkaCommittableSerializer``, ``TransactionOwnership``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from state_processor.backends.connectors.connector import Format, Formats, Values
from state_processor.backends.connectors.sinks import SinkConnector
from state_processor.serializers.io import DataInput, DataOutput

PREFIX: Final = "transactional_id_prefix"
OWNED: Final = "owned_subtask"
TOTAL: Final = "total_owned_subtasks"
OWNERSHIP: Final = "ownership"
TRANSACTIONS: Final = "transactions"
TRANSACTION: Final = "transactional_id"
PRODUCER: Final = "producer_id"
EPOCH: Final = "epoch"

_CHECKPOINT: Final = "checkpoint_id"
_OWNERSHIPS: Final = ("IMPLICIT_BY_SUBTASK_ID", "EXPLICIT_BY_WRITER_STATE")
_SMALLEST_TRANSACTION: Final = 10
_OF_WRITER: Final = (PREFIX, OWNED, TOTAL, OWNERSHIP, TRANSACTIONS)
_OF_COMMITTABLE: Final = (TRANSACTION, PRODUCER, EPOCH)


def _read_v1(source: DataInput) -> list[Values]:
    nothing = dict.fromkeys((*_OF_WRITER, *_OF_COMMITTABLE))
    return [nothing | {PREFIX: source.read_utf()}]


def _write_v1(rows: list[Values], target: DataOutput) -> None:
    (row,) = rows
    target.write_utf(row[PREFIX])


def _read_v2(source: DataInput) -> list[Values]:
    (row,) = _read_v1(source)
    row |= {OWNED: source.read_int(), TOTAL: source.read_int()}
    ownership = source.read_int()
    if not 0 <= ownership < len(_OWNERSHIPS):
        raise source.corrupt(f"ownership {ownership} of transactional ids", source.position - 4)
    count = source.read_count("transactions", _SMALLEST_TRANSACTION)
    transactions = [{TRANSACTION: source.read_utf(), _CHECKPOINT: source.read_long()} for _ in range(count)]
    return [row | {OWNERSHIP: _OWNERSHIPS[ownership], TRANSACTIONS: transactions}]


def _write_v2(rows: list[Values], target: DataOutput) -> None:
    _write_v1(rows, target)
    (row,) = rows
    target.write_int(row[OWNED])
    target.write_int(row[TOTAL])
    target.write_int(_OWNERSHIPS.index(row[OWNERSHIP]))
    transactions = row[TRANSACTIONS] or []
    target.write_int(len(transactions))
    for transaction in transactions:
        target.write_utf(transaction[TRANSACTION])
        target.write_long(transaction[_CHECKPOINT])


def _read_committable(source: DataInput) -> Values:
    epoch, producer = source.read_short(), source.read_long()
    found = {TRANSACTION: source.read_utf(), PRODUCER: producer, EPOCH: epoch}
    return dict.fromkeys(_OF_WRITER) | found


def _write_committable(row: Values, target: DataOutput) -> None:
    target.write_short(row[EPOCH])
    target.write_long(row[PRODUCER])
    target.write_utf(row[TRANSACTION])


def _without_transactions(row: Values, dropped: Collection[Values]) -> Values:
    """Return a writer's row without the transactions that are not to be committed: the sink aborts those it does not know."""
    if row[TRANSACTIONS] is None:
        return row
    ids = {committable[TRANSACTION] for committable in dropped}
    return row | {TRANSACTIONS: [t for t in row[TRANSACTIONS] if t[TRANSACTION] not in ids]}


KAFKA_SINK: Final = SinkConnector(
    name="kafka",
    fields=(
        pa.field(PREFIX, pa.string()),
        pa.field(OWNED, pa.int32()),
        pa.field(TOTAL, pa.int32()),
        pa.field(OWNERSHIP, pa.string()),
        pa.field(TRANSACTIONS, pa.list_(pa.struct([(TRANSACTION, pa.string()), (_CHECKPOINT, pa.int64())]))),
        pa.field(TRANSACTION, pa.string()),
        pa.field(PRODUCER, pa.int64()),
        pa.field(EPOCH, pa.int16()),
    ),
    writer=Formats("writer state of KafkaSink", {1: (Format(_read_v1, _write_v1),), 2: (Format(_read_v2, _write_v2),)}),
    committables=Formats("committables of KafkaSink", {1: (Format(_read_committable, _write_committable),)}),
    element_of=lambda row, number: number,
    required=(PREFIX,),
    forget=_without_transactions,
)
"""A writer has a row with the prefix of its transactional ids and, since version 4.0 of the connector, the subtask whose ids it
owns, out of how many, and the transactions that are not to be aborted. A transaction to be committed is a row of its own.
"""
