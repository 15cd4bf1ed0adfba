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


def _content(found: Any) -> Content:
    if isinstance(found, list):
        return [_content(element) for element in found]
    if isinstance(found, JavaEnum):
        return {CLASS: found.class_name, "constant": found.constant}
    if isinstance(found, JavaClass):
        return {CLASS: "java.lang.Class", "name": found.name}
    if isinstance(found, bytes):
        return found.hex()
    if not isinstance(found, JavaInstance):
        return found
    shown = {CLASS: found.class_name} | {name: _content(value) for name, value in found.fields.items()}
    if found.class_name == _ACKNOWLEDGED:
        data = array_bytes(found.get(_DATA))
        return shown | {_DATA: data.hex(), _IDS: _texts(data, found.get("numIds"))}
    return shown | ({"data": _content(found.annotations)} if found.annotations else {})


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


_STATE: Final = Kept(JavaObjectCodec(lambda found: {_OBJECT: _content(found)}, _object, {}))
LAYOUTS: Final[Mapping[str, Versions]] = {SERIALIZER: {0: _STATE}}
