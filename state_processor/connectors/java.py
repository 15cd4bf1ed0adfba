"""Java's, Kryo's and SQL's bytes, for descriptions of connectors whose values contain such bytes.

Java: ``ObjectOutputStream``. Kryo: ``Output``. Flink: ``BinaryRowData``.
"""

from __future__ import annotations

from state_processor.backends.connectors.java_values import (
    JDK,
    OBJECTS,
    ROW_TEXT,
    SCALARS,
    STRING_TYPE,
    HexText,
    JavaObjectCodec,
    array_bytes,
    byte_array,
    described,
    single,
)
from state_processor.serializers.java.object_input import (
    JavaEnum,
    JavaInstance,
    JavaObject,
    class_name,
    elements,
    read_java_object,
)
from state_processor.serializers.java.object_output import (
    EXTERNAL,
    WRITES_MORE,
    JavaArray,
    JavaClassDescription,
    JavaList,
    JavaText,
    read_custom_object,
    write_custom_object,
    write_java_object,
)
from state_processor.serializers.kryo.wire import KRYO_2, KryoInput, KryoOutput
from state_processor.serializers.table.binary_format import BinaryValue
from state_processor.serializers.table.binary_values import TimestampData
from state_processor.serializers.table.type_descriptors import parse_logical_type

__all__ = [
    "EXTERNAL",
    "JDK",
    "KRYO_2",
    "OBJECTS",
    "ROW_TEXT",
    "SCALARS",
    "STRING_TYPE",
    "WRITES_MORE",
    "BinaryValue",
    "HexText",
    "JavaArray",
    "JavaClassDescription",
    "JavaEnum",
    "JavaInstance",
    "JavaList",
    "JavaObject",
    "JavaObjectCodec",
    "JavaText",
    "KryoInput",
    "KryoOutput",
    "TimestampData",
    "array_bytes",
    "byte_array",
    "class_name",
    "described",
    "elements",
    "parse_logical_type",
    "read_custom_object",
    "read_java_object",
    "single",
    "write_custom_object",
    "write_java_object",
]
