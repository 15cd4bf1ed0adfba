"""Layout of the list state of ``FlinkKinesisConsumer``, the Kinesis source before FLIP-27.

flink-connector-aws 5: ``KinesisStateUtil``, ``StreamShardMetadata``, ``SequenceNumber``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from state_processor.backends.connectors.layouts.codecs import BYTE, Codec, Constant, Content, Optional, Remark, Struct
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.io import DataInput, DataOutput
from state_processor.serializers.kryo.wire import KRYO_2, KryoInput, KryoOutput
from state_processor.serializers.records import dataclass

STATE_NAME: Final = "Kinesis-Stream-Shard-State"
_REGISTERED: Final = 85 + 2
"""The id of the class: Kryo's ids begin at 2."""
_NEW_OBJECT: Final = 1
FIELDS: Final = (
    *("adjacentParentShardId", "endingHashKey", "endingSequenceNumber", "parentShardId"),
    *("shardId", "startingHashKey", "startingSequenceNumber", "streamName"),
)


@dataclass(frozen=True, slots=True)
class OfStrings:
    """A string of Flink. Null is an error."""

    min_size: int = 1

    def read(self, source: DataInput) -> str:
        start = source.position
        found = StringSerializer().read(source)
        if not isinstance(found, str):
            raise source.corrupt("expected text, found null", start)
        return found

    def write(self, content: Content, target: DataOutput) -> None:
        if not isinstance(content, str):
            raise TypeError(f"expected text, found {content!r}")
        StringSerializer().write(content, target)


@dataclass(frozen=True, slots=True)
class OfKryo:
    """A value of Kryo 2."""

    take: Callable[[KryoInput], Any]
    give: Callable[[KryoOutput, Any], None]
    min_size: int = 1

    def read(self, source: DataInput) -> Content:
        return self.take(KryoInput(source, KRYO_2))

    def write(self, content: Content, target: DataOutput) -> None:
        self.give(KryoOutput(target, KRYO_2), content)


STRING: Final = OfStrings()
_NULLABLE: Final = Optional(STRING, BYTE, 0, 1)
_VARINT: Final = OfKryo(KryoInput.varint, KryoOutput.varint)

STREAM_SHARD: Final[Codec] = Struct.of(
    (None, Remark("what", f"one element of the union list state {STATE_NAME}")),
    ("streamShardMetadata", Struct.of((None, Constant(BYTE, 2)), *((name, _NULLABLE) for name in FIELDS))),
    (
        "sequenceNumber",
        Struct.of(
            (None, Constant(_VARINT, _REGISTERED)),
            (None, Constant(BYTE, _NEW_OBJECT)),
            ("cachedHash", OfKryo(KryoInput.int_, KryoOutput.int_)),
            (None, Constant(BYTE, _NEW_OBJECT)),
            ("sequenceNumber", OfKryo(KryoInput.text, KryoOutput.string)),
            ("subSequenceNumber", OfKryo(KryoInput.long, KryoOutput.long)),
        ),
    ),
)
