"""Java objects whose class writes all of its data itself: a description of the class, then blocks of bytes.

``ObjectOutputStream`` omits the fields of a class whose ``writeObject`` does not call ``defaultWriteObject``. The description
still lists the fields, so that parsers of object streams expect them.
"""

from __future__ import annotations

from state_processor.serializers.io import DataInput
from state_processor.serializers.java.object_input import STREAM_HEADER, JavaInstance
from state_processor.serializers.java.object_output import JavaClassDescription, write_java_object
from state_processor.support.errors import UnsupportedFormatError

_REFERENCE, _CLASS, _OBJECT, _STRING, _BLOCK, _END, _NULL, _LONG_BLOCK = 0x71, 0x72, 0x73, 0x74, 0x77, 0x78, 0x70, 0x7A
_PRIMITIVES = frozenset(b"BCDFIJSZ")


def read_custom_object(source: DataInput) -> tuple[str, bytes]:
    """Read an object without superclass and with one sequence of blocks: return its class and the data.

    Raises
    ------
    UnsupportedFormatError
        The object is of another form; the message names the class.
    CorruptSnapshotError
        The bytes are not an object stream.
    """
    start = source.position
    header = source.read_bytes(len(STREAM_HEADER), "header of a Java object")
    if header != STREAM_HEADER or source.read_unsigned_byte() != _OBJECT or source.read_unsigned_byte() != _CLASS:
        raise source.corrupt("not the stream of a Java object", start)
    name = source.read_utf()
    source.skip(8, "serialVersionUID")
    source.skip(1, "flags")
    for _ in range(source.read_unsigned_short()):
        primitive = source.read_unsigned_byte() in _PRIMITIVES
        source.read_utf()
        if not primitive:
            _skip_type(source)
    if source.read_unsigned_byte() != _END or source.read_unsigned_byte() != _NULL:
        raise UnsupportedFormatError(f"{source.source}, offset {start}: Java class {name} has a superclass or annotations")
    data = bytearray()
    while (tag := source.read_unsigned_byte()) != _END:
        if tag not in (_BLOCK, _LONG_BLOCK):
            raise UnsupportedFormatError(f"{source.source}, offset {start}: Java class {name} writes more than blocks of bytes")
        size = source.read_unsigned_byte() if tag == _BLOCK else source.read_count("bytes")
        data += source.read_bytes(size, "block")
    return name, bytes(data)


def _skip_type(source: DataInput) -> None:
    start = source.position
    tag = source.read_unsigned_byte()
    if tag == _STRING:
        source.read_utf()
    elif tag == _REFERENCE:
        source.skip(4, "reference")
    else:
        raise source.corrupt(f"expected the type of a field, found {tag:#x}", start)


def write_custom_object(description: JavaClassDescription, data: bytes) -> bytes:
    """Return the stream that :func:`read_custom_object` reads."""
    return write_java_object(JavaInstance(description.name, annotations=[data]), {description.name: description})
