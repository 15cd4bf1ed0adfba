"""The instruction set of the encode kernel: the mirror image of :mod:`state_processor.serializers.kernel.decode.ops`.

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
UNION: Final = 20  # a: first aux row, b: rows (a branch's column, target); d: target when null, or -1 where null is an error
NULL_BITS: Final = 21  # a: column of the elements; a bit for each element of the list, set for null, most significant bit first

# Forms of lists
COUNTED: Final = 0  # int count
JOINED: Final = 1  # a comma between elements
LOOSE: Final = 2  # nothing but the elements
BLOCKS: Final = 3  # one block: count as varint; then a zero

# Numbers
INT8: Final = 30
INT16: Final = 31
INT32: Final = 32  # a: 1 where it is a floating-point number, of which every NaN is written as Java's own
INT64: Final = 33  # a: as before
SIGN_FLIPPED_INT64: Final = 34

# Text and bytes
STRING: Final = 40  # a: 1 where 0 is the length of null and others are one more, else 0
BYTES: Final = 41  # int length, bytes
RAW: Final = 42  # the bytes as they are; for null b constant bytes from a on, or -1 where null is an error
CHAR: Final = 43
CONST: Final = 44  # a: first byte, b: size, among the constants
ENUM: Final = 45  # a: first aux row, b: rows (offset and size of the constant's name)
UTF8: Final = 46  # int length, text as it is (Avro's strings)
FIXED_BYTES: Final = 47  # a: bytes

# Numbers of many digits
BIG_INTEGER: Final = 50  # from text
BIG_DECIMAL: Final = 51  # from text
DECIMAL: Final = 52  # a: one of the forms below, b: bytes of the last one; e, f: ten to the precision (high and low half)

# Forms of decimals
IN_LONG: Final = 0  # a long
SIZED: Final = 1  # int size, the shortest two's complement
FIXED: Final = 2  # always so many bytes

# Dates and times, from microseconds or days
DATE_MS: Final = 60
SQL_DATE: Final = 61
SQL_TIMESTAMP: Final = 62
INSTANT: Final = 63
LOCAL_DATE: Final = 64
LOCAL_DATE_TIME: Final = 65
MILLIS: Final = 66  # never null; a: offset of eight constant bytes for null, or -1
TEXT_TIME: Final = 67  # from text; a: as for MILLIS; b: one of the above, or of the two below
SQL_TIME: Final = 68  # operand of TEXT_TIME alone
LOCAL_TIME: Final = 69  # operand of TEXT_TIME alone
EPOCH: Final = 70  # never null; a: units of a second, 0 for days; b: bytes (4 or 8); c: one of the forms below
TIMESTAMP: Final = 71  # never null; a: 1 for milliseconds alone; b: 1 from text; a long, then an int of nanoseconds

# Forms of what EPOCH counts
COUNTS: Final = 0  # days or microseconds
DATE_TEXT: Final = 1
LOCAL_TEXT: Final = 2
INSTANT_TEXT: Final = 3
CLOCK_TEXT: Final = 4

# Flink's binary rows, arrays and maps (see encode_binary). A region is a row, an array or a map: register a holds its begin.
# A slot is 'b, c': the position in register b plus c.
OPEN: Final = 80  # a: region; b: bytes of null bits and slots
CLOSE: Final = 81  # a: region that ends; slot b, c; d: the region around it, whose slot gets where it is
BIT_NULL: Final = 82  # a: region; b: bytes kept for a null, whose slot is at c; d: target when null; e: bit
BINARY_KIND: Final = 83  # a: region; b: the kinds' names among the constants, two bytes each
SLOT_INT: Final = 84  # slot b, c; d: bytes
SLOT_BYTES: Final = 85  # a: region; slot b, c; d: 1 where up to seven bytes lie in the slot
SLOT_DECIMAL: Final = 86  # a: region; slot b, c; d: 1 for a long in the slot; e, f: ten to the precision (high and low half)
SLOT_TIMESTAMP: Final = 87  # a: region; slot b, c; d: 1 for milliseconds in the slot; e: 1 from text
SLOT_DATE: Final = 88  # slot b, c; e: 1 from text
SLOT_TIME: Final = 89  # slot b, c; e: 1 from text
ELEMENTS: Final = 90  # a: region, then index and position (three registers); b: bytes of an element; d: target when empty
ELEMENTS_NEXT: Final = 91  # a, b as before; d: target for another element
ELEMENT_NULL: Final = 92  # a: region; d: target when null
KEYS: Final = 93  # a: region of a map, whose keys come next
END_KEYS: Final = 94  # a: region; the values come next
SLOT_VARIANT: Final = 95  # a: region; slot b, c; d, e: columns of value and dictionary
VARIANT: Final = 96  # d, e: columns of value and dictionary; two int sizes, value, dictionary

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
BAD_UNION: Final = 9
BAD_TIME: Final = 10
BAD_NUMBER: Final = 11
BAD_SIZE: Final = 12
OUT_OF_RANGE: Final = 13

MESSAGES: Final = {
    NULL_VALUE: "is null, which the type has no bytes for",
    BAD_CHAR: "is not exactly one UTF-16 character",
    BAD_NAME: "names a constant that the type does not have",
    BAD_CLASS: "names a class that the serializer snapshot does not describe",
    BAD_EITHER: "has both sides or none; exactly one of left and right must be there",
    LOST_DIGITS: "has smaller digits than the type holds; cut them before, for milliseconds with date_trunc('millisecond', …)",
    BAD_UNION: "must have exactly one branch that is not null",
    BAD_TIME: "is no date or time in ISO form, like 2024-02-29, 08:30:00.5, or the two with a T between them and a Z behind UTC",
    BAD_NUMBER: "is no number in digits, or none of a size that the type holds",
    BAD_SIZE: "has another number of bytes than the type",
    OUT_OF_RANGE: "is out of the range of the type",
}
