"""The instruction set of the decode kernel.

An instruction is a row of eight ``int64``: operation, column, and up to six operands. A column of -1 means that the
value is stepped over: reading and skipping are the same program. ``nulls`` operands are a range of the program's null
table: the columns that get one null slot each when the value is absent.
"""

from __future__ import annotations

from typing import Final

# Flow of control
ROW_END: Final = 0
SEEK: Final = 1  # a: part of the entry; position and end become that part's
END: Final = 2  # the part must be consumed
SKIP: Final = 3  # a: bytes
JUMP: Final = 4  # a: target
BRANCH_ZERO: Final = 5  # a: target taken if the next byte is 0
EXPECT: Final = 6  # a: the byte that must come next
MARK: Final = 7  # a: register that gets the position
SKIP_SUFFIX: Final = 8  # a: register with the start of the part whose length was appended, base 256, little-endian
CHOOSE: Final = 9  # a: first aux row, b: rows; an int index selects a target (Avro unions)

# Nulls and structure
NULL_FLAG: Final = 10  # a: 1 if a non-zero byte means null, else 0; b, c: nulls; d: target when null; e: padding bytes after null
FILL_NULLS: Final = 11  # b, c: nulls
VALID: Final = 12  # the struct in this column is present
MASK: Final = 13  # a: register; b: bits; the position of a bit mask, most significant bit first
MASK_NULL: Final = 14  # a: register; b, c: nulls; d: target when the bit is set; e: bit
ROW_KIND: Final = 15  # a: register with the mask whose first two bits hold the kind
LIST: Final = 16  # a: register with the count left; b: child column; d: target when empty; e: least bytes of an element
LIST_NEXT: Final = 17  # a: register; b: child column; d: target for another element
JOINED: Final = 18  # b: child column; d: target when empty
JOINED_NEXT: Final = 19  # b: child column; d: target for another element
BLOCKS: Final = 20  # a: register; b: child column; d: target when empty (Avro's blocks)
BLOCKS_NEXT: Final = 21  # a: register; b: child column; d: target for another element
CHOOSE_BYTE: Final = 23  # a: first aux row, b: rows; the next byte selects a target, -1 where it must not occur
POJO: Final = 22  # a: first aux row, f: rows of subclasses; b, c: nulls; d: target when null

# Numbers
INT8: Final = 30
INT16: Final = 31
INT32: Final = 32
INT64: Final = 33
SIGN_FLIPPED_INT64: Final = 34
ENTRY: Final = 35  # a: which number of the entry
REGISTER: Final = 36  # a: register whose number is written

# Text and bytes
STRING: Final = 40  # Flink's string: length + 1 as varint, 0 is null, then UTF-16 units
STRING_VALUE: Final = 41  # the same without null
BYTES: Final = 42  # int length, bytes
REST: Final = 43  # what is left of the part but for a: bytes
CHAR: Final = 44
CONST: Final = 45  # a: first byte, b: size, among the constants
ENUM: Final = 46  # a: first aux row, b: rows (offset and size of the constant's name)
FIXED_BYTES: Final = 47  # a: bytes
CAPTURE: Final = 50  # a: register with a position: the bytes from there to here
BIG_INTEGER: Final = 48
BIG_DECIMAL: Final = 49

# Dates and times; a: 0 for microseconds or days, 1 for text, 2 for microseconds with smaller digits cut
DATE_MS: Final = 60  # java.util.Date
SQL_DATE: Final = 61
SQL_TIME: Final = 62
SQL_TIMESTAMP: Final = 63
INSTANT: Final = 64
LOCAL_DATE: Final = 65
LOCAL_TIME: Final = 66
LOCAL_DATE_TIME: Final = 67
MILLIS: Final = 68  # long milliseconds, never null; b: 1 for UTC text
MILLIS_NANOS: Final = 69  # long milliseconds, int nanoseconds of the millisecond; b: 1 for UTC text
EPOCH_DAY: Final = 70  # int days
EPOCH_UNITS: Final = 71  # since 1970, or b: 2 since midnight; b: 1 for UTC text; c: units of a second; d: bytes (4 or 8)

# Flink's binary rows, arrays and maps (little-endian, random access; see decode_binary). A region is a row's, an array's or a
# map's bytes: register a holds its begin, the next one its end. A slot is 'b, c': the position in register b plus c.
REGION: Final = 80  # a: region; d: least bytes; an int size, then the bytes
SUBREGION: Final = 81  # a: region; slot b, c; d: region inside that the slot points to; e: least bytes of it
BIT_NULL: Final = 82  # a: region; b, c: nulls; d: target when the bit is set; e: bit
BINARY_KIND: Final = 83  # a: region; b: the kinds' names among the constants, two bytes each
SLOT_INT: Final = 84  # slot b, c; d: bytes
SLOT_BYTES: Final = 85  # a: region; slot b, c; d: 1 where up to seven bytes lie in the slot
SLOT_TEXT: Final = 86  # a: region; slot b, c
SLOT_DECIMAL: Final = 87  # a: region; slot b, c; d: 1 for a long in the slot; e, f: ten to the precision (high and low half)
SLOT_TIMESTAMP: Final = 88  # a: region; slot b, c; d: 1 for milliseconds in the slot; e: as a of dates and times; f: 1 with zone
SLOT_DATE: Final = 89  # slot b, c; e: as a of dates and times
SLOT_TIME: Final = 90  # slot b, c
ELEMENTS: Final = 91  # a: region, then count left, index, position (registers); b: child; c: bytes; d: target when empty
ELEMENTS_NEXT: Final = 92  # a, b, c as before; d: target for another element
ELEMENT_NULL: Final = 93  # a: region; b, c: nulls; d: target when the element is null
PAIRS: Final = 94  # a: region, then keys and values (five registers each); b: child; c, e: bytes; d: target when empty
PAIRS_NEXT: Final = 95  # a, b, c, e as before; d: target for another pair

# Values of the table serializers outside of binary rows
UTF8: Final = 96  # int size, text
DECIMAL: Final = 97  # d, e, f as for SLOT_DECIMAL; a long, or int size and big-endian bytes
TIMESTAMP: Final = 98  # d, e, f as for SLOT_TIMESTAMP; a long, or long and int
MASKED: Final = 99  # a: count left, index, mask (three registers); b: child; d: target when empty
MASKED_NEXT: Final = 100  # a, b as before; d: target for another element
MASKED_NULL: Final = 101  # a: registers; b, c: nulls; d: target when the element is null
SLOT_VARIANT: Final = 102  # a: region; slot b, c; d: column of the dictionary
VARIANT: Final = 103  # d: column of the dictionary; two int sizes, value, dictionary

# What a kernel run ended with
OK: Final = 0
FULL: Final = 1
TRUNCATED: Final = 2
TRAILING: Final = 3
BAD_COUNT: Final = 4
BAD_STRING: Final = 5
BAD_TAG: Final = 6
BAD_BYTE: Final = 7
LOST_NANOS: Final = 8
OUT_OF_RANGE: Final = 9
BAD_INDEX: Final = 10
BAD_TIME: Final = 11
OUT_OF_BOUNDS: Final = 12

MESSAGES: Final = {
    TRUNCATED: "the bytes end inside a value",
    TRAILING: "bytes are left over after the value",
    BAD_COUNT: "an element count is negative or larger than the bytes that are left",
    BAD_STRING: "a string is damaged",
    BAD_TAG: "a value of a class that the serializer snapshot does not describe",
    BAD_BYTE: "an unexpected byte where the format fixes one",
    LOST_NANOS: "a time has nanoseconds that microseconds can't hold; read with nanos='truncate' or nanos='string'",
    OUT_OF_RANGE: "a date, time or number is out of the range of its Spark type; nanos='string' shows dates and times as text",
    BAD_INDEX: "an index names a constant that the serializer snapshot does not have",
    BAD_TIME: "the fields of a date or time are out of their ranges",
    OUT_OF_BOUNDS: "a binary row, array or map refers to bytes outside of itself",
}
