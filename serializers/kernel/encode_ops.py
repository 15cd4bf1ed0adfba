"""The instruction set of the encode kernel: the mirror image of :mod:`state_processor.serializers.kernel.ops`.

An instruction is a row of eight ``int64``: operation, column, and up to six operands ``a`` to ``f``. A column's current slot
is that of its level: the row, or the element of the list or map that the kernel is in.
"""

from __future__ import annotations

from typing import Final

# Flow of control and framing
ROW_END: Final = 0
JUMP: Final = 1  # a: target
FRAME: Final = 2  # a: register; four bytes for a length that is not known yet
END_FRAME: Final = 3  # a: register; fills in the length of what came after its FRAME
PREFIX: Final = 4  # a: bytes; the row's key group
MARK: Final = 5  # a: register that gets the position
SUFFIX: Final = 6  # a: register; the number of bytes since its MARK, base 256, little-endian
ENTRY_END: Final = 7  # what came since the last entry, or since the row's begin, is an entry

# Nulls and structure
SKIP_NULL: Final = 10  # d: target when null; writes nothing
SKIP_EMPTY: Final = 11  # d: target when null or without elements; writes nothing
REQUIRE: Final = 12  # null is an error
NULL_FLAG: Final = 13  # a: the byte that means null (0 or 1); d: target when null; e: zero bytes after the flag of a null
MASK: Final = 14  # a: first aux row, b: rows (a field's column); c: bits of the kind; e: the kind's column, f: names' offset
POJO: Final = 15  # a: 1 where the flags of what is not null follow; d: target when null
SUBCLASS: Final = 16  # a: first aux row, b: rows (unused, name's offset and size, target); null goes on
EITHER: Final = 17  # a: column of the left, b: of the right; d: target of the right; e, f: the bytes that mark left and right
LIST: Final = 18  # a: one of the forms below; d: target when empty
LIST_NEXT: Final = 19  # a: as before; d: target for another element

# Forms of lists
COUNTED: Final = 0  # int count
JOINED: Final = 1  # a comma between elements
LOOSE: Final = 2  # nothing but the elements
BLOCKS: Final = 3  # one block: count as varint; then a zero

# Numbers
INT8: Final = 30
INT16: Final = 31
INT32: Final = 32
INT64: Final = 33
SIGN_FLIPPED_INT64: Final = 34

# Text and bytes
STRING: Final = 40  # a: 1 where 0 is the length of null and others are one more, else 0
BYTES: Final = 41  # int length, bytes
RAW: Final = 42  # the bytes as they are; for null b constant bytes from a on, or -1 where null is an error
CHAR: Final = 43
CONST: Final = 44  # a: first byte, b: size, among the constants
ENUM: Final = 45  # a: first aux row, b: rows (offset and size of the constant's name)
UTF8: Final = 46  # int length, text as it is (Avro's strings)

# Dates and times, from microseconds or days
DATE_MS: Final = 60
SQL_DATE: Final = 61
SQL_TIMESTAMP: Final = 62
INSTANT: Final = 63
LOCAL_DATE: Final = 64
LOCAL_DATE_TIME: Final = 65
MILLIS: Final = 66  # never null; a: offset of eight constant bytes for null, or -1

WIDTH: Final = 8

# What a kernel run ended with
OK: Final = 0
FULL: Final = 1
NULL_VALUE: Final = 2
BAD_CHAR: Final = 3
BAD_NAME: Final = 4
BAD_CLASS: Final = 5
BAD_EITHER: Final = 6
LOST_DIGITS: Final = 7
BAD_PROGRAM: Final = 8

MESSAGES: Final = {
    NULL_VALUE: "is null, which the type has no bytes for",
    BAD_CHAR: "is not exactly one UTF-16 character",
    BAD_NAME: "names a constant that the type does not have",
    BAD_CLASS: "names a class that the serializer snapshot does not describe",
    BAD_EITHER: "has both sides or none; exactly one of left and right must be there",
    LOST_DIGITS: "has microseconds, which the type cuts to milliseconds; cut them before, with date_trunc('millisecond', …)",
}
