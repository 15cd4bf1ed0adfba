"""States in Java serialization of sources before FLIP-27: acknowledged messages of RabbitMQ, splits of monitored directories.

Flink: ``JavaSerializer``, ``SerializedCheckpointData`` (``MessageAcknowledgingSourceBase``), ``TimestampedFileInputSplit``
(``ContinuousFileReaderOperator``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from state_processor.backends.connectors.layouts.choices import Kept, Versions
from state_processor.backends.connectors.layouts.codecs import Content
from state_processor.backends.connectors.layouts.java_values import CLASS, JavaObjectCodec, array_bytes
from state_processor.serializers.core.basic import StringSerializer
from state_processor.serializers.errors import StateProcessorError, UnsupportedFormatError
from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import JavaClass, JavaEnum, JavaInstance

SERIALIZER: Final = "org.apache.flink.runtime.state.JavaSerializer"
_OBJECT: Final = "object"
_ACKNOWLEDGED: Final = "org.apache.flink.runtime.state.SerializedCheckpointData"
_DATA: Final = "serializedData"
_IDS: Final = "ids"


def _content(content: Any) -> Content:
    if isinstance(content, list):
        return [_content(element) for element in content]
    if isinstance(content, JavaEnum):
        return {CLASS: content.class_name, "constant": content.constant}
    if isinstance(content, JavaClass):
        return {CLASS: "java.lang.Class", "name": content.name}
    if isinstance(content, bytes):
        return content.hex()
    if not isinstance(content, JavaInstance):
        return content
    fields = {CLASS: content.class_name} | {name: _content(value) for name, value in content.fields.items()}
    if content.class_name == _ACKNOWLEDGED:
        data = array_bytes(content.get(_DATA))
        return fields | {_DATA: data.hex(), _IDS: _texts(data, content.get("numIds"))}
    return fields | ({"data": _content(content.annotations)} if content.annotations else {})


def _texts(data: bytes, count: int) -> list[str | None] | None:
    """Return the ids of messages if they are texts, as for RabbitMQ."""
    source = DataInput(data)
    try:
        ids = [StringSerializer().read(source) for _ in range(min(count, len(data)))]
    except StateProcessorError:
        return None
    return ids if source.at_end() and len(ids) == count else None


def _object(content: Content) -> Any:
    raise UnsupportedFormatError("Java objects can only be written unchanged: restore their content")


_STATE: Final = Kept(JavaObjectCodec(lambda content: {_OBJECT: _content(content)}, _object, {}))
LAYOUTS: Final[Mapping[str, Versions]] = {SERIALIZER: {0: _STATE}}
