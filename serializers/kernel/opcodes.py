"""The instruction set of both kernels: one opcode per instruction, with its operands for decoding and for encoding.

An instruction is a row of eight ``int64``: opcode, column, and the operands a to f. Where both kernels have an instruction, it
means the same bytes: the decode kernel reads them into the column, the encode kernel writes the column's values.
``docs/kernel.md`` explains how to add one; ``docs/kernel-instructions.md`` is made from this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

# Positions in an instruction
CODE: Final = 0
COL: Final = 1
A: Final = 2
B: Final = 3
C: Final = 4
D: Final = 5
E: Final = 6
F: Final = 7
WIDTH: Final = 8

# Families of opcodes, which the kernels dispatch by: bits above their numbers. A function runs the instructions of one family. It
# is compiled when a program first has one of them. The encode kernel's loop contains the families before TIME.
FAMILY_SHIFT: Final = 8
FAMILIES: Final = 16
FAMILY: Final = 0xF00
"""The bits of the family."""
AVRO: Final = 0x100
"""UTF-8 with its size, choices and blocks, for Avro."""
STRINGS: Final = 0x200
"""Text as UTF-16 units."""
MISC: Final = 0x300
"""Constants, enumerations, choices by a byte, parts of an entry's bytes."""
TIME: Final = 0x400
"""Points in time of Java and of ``java.sql``."""
EPOCHS: Final = 0x500
"""Dates and times of Avro."""
NUMBER: Final = 0x600
"""Numbers of any size."""
DECIMALS: Final = 0x700
"""Decimals of up to 128 bits."""
SQL_TIMES: Final = 0x800
"""Dates and times of Flink SQL."""
TABLE: Final = 0x900
"""Binary rows, arrays and maps of Flink SQL: ``binary`` runs as many of these in a row as there are."""
JAVA_LOCAL_TIMES: Final = 0xA00
"""Dates and times of Java without a zone."""
SQL_TIME_TEXTS: Final = 0xB00
"""Dates and times of Flink SQL as text."""
MASKS: Final = 0xC00
"""Lists with a bit for each element."""

# Values of operands: how a list's elements are delimited
COUNTED: Final = 0  # an int count before them
JOINED: Final = 1  # a comma between them
LOOSE: Final = 2  # nothing
BLOCKS: Final = 3  # one block: a varint count before them, a zero after them

# how a decimal is written
IN_LONG: Final = 0
SIZED: Final = 1  # int size, the shortest two's complement
FIXED: Final = 2  # always the same number of bytes

# content of a column for EPOCH
COUNTS: Final = 0  # days or microseconds
DATE_TEXT: Final = 1
LOCAL_TEXT: Final = 2
INSTANT_TEXT: Final = 3
CLOCK_TEXT: Final = 4


class OperandKind(Enum):
    """A kind of operand, and the number of positions that it takes."""

    NUMBER = ("number", 1)
    COLUMN = ("column", 1)
    TARGET = ("target", 1)
    NULLS = ("nulls", 2)
    PLACE = ("place", 3)
    PAIR = ("pair", 2)

    @property
    def positions(self) -> int:
        """Positions in an instruction that an operand of this kind takes."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction."""

    name: str
    position: int
    kind: OperandKind

    def __str__(self) -> str:
        letters = "abcdef"[self.position - A :][: self.kind.positions]
        return f"{letters[0] if len(letters) == 1 else f'{letters[0]}-{letters[-1]}'} {self.name}"


Operands = dict[str, Operand]


def _operands(text: str | None) -> Operands | None:
    """Parse the operands of an instruction, such as ``a register, d:target empty``; ``None`` without an instruction."""
    if text is None:
        return None
    operands: Operands = {}
    for part in filter(None, text.split(", ")):
        place, name = part.split(" ")
        letter, _, kind = place.partition(":")
        operands[name] = Operand(name, A + "abcdef".index(letter), OperandKind[(kind or "number").upper()])
    return operands


class Op(IntEnum):
    """An instruction: its bytes, its operands for decoding and for encoding (``None``: no such instruction), properties."""

    summary: str
    decode: Operands | None
    encode: Operands | None

    def __new__(cls, summary: str, decode: str | None, encode: str | None, properties: int = 0) -> Op:
        op = int.__new__(cls, number := len(cls.__members__) | properties)
        op._value_ = number
        op.summary, op.decode, op.encode = summary, _operands(decode), _operands(encode)
        return op

    # Flow of control and framing
    ROW_END = "the end of a row", "", ""
    SEEK = "the position and the end become those of a part of the entry", "a part", None
    END = "the end of a part, which must be consumed", "", None
    SKIP = "bytes to step over", "a count", None
    EXPECT = "the byte that must come next", "a byte", None, MISC
    JUMP = "continue at the target", "a:target target", "a:target target"
    BRANCH_ZERO = "a byte: continue at the target if it is 0", "a:target target", None, MISC
    MARK = "a register gets the position", "a register", "a register"
    SUFFIX = "the number of bytes since a mark, base 256, little-endian, without leading zeros", "a register", "a register"
    CHOOSE = "an int: the index of a target in the auxiliary table", "a branches, b count", None, AVRO
    CHOOSE_BYTE = (
        "a byte: the index of a target in the auxiliary table, -1 for one that must not occur",
        "a branches, b count",
        None,
        MISC,
    )
    FRAME = (
        "an int with the number of bytes up to END_FRAME; for decoding they are a part, and the register has the outer one's end",
        "a register",
        "a register",
    )
    END_FRAME = "the end of what a FRAME counts, which must be consumed", "a register", "a register"
    UNTIL_END = "nothing: continue at the target at the end of the part", "d:target target", None
    MOVE = "nothing: the position becomes that of a mark", "a register", None
    INSIDE = "nothing: a region is a part, up to END_FRAME; the register has the outer one's end", "a register, b region", None
    PREFIX = "the row's key group", None, "a width"
    ENTRY_END = "the end of an entry, which began at the last one or at the row's begin", None, ""

    # Nulls and structure
    SKIP_NULL = "nothing: continue at the target if the value is null", None, "d:target null"
    SKIP_EMPTY = "nothing: continue at the target if the list is null or empty", None, "d:target null"
    REQUIRE = "nothing: null is an error", None, ""
    NULL_FLAG = (
        "a byte that is null_when for null; padding bytes after that of a null",
        "a null_when, b:nulls nulls, d:target null, e padding",
        "a null_when, d:target null, e padding",
    )
    FILL_NULLS = "nothing: the columns get a null", "b:nulls nulls", None
    VALID = "nothing: the struct in the column is present", "", None
    MASK = (
        "a bit for each field, set for null, most significant first; before them two of the row's kind",
        "a register, b bits",
        "a fields, b count, c kind_bits, e:column kind, f kinds",
    )
    MASK_NULL = "a bit of a mask", "a register, b:nulls nulls, d:target null, e bit", None
    ROW_KIND = "the two bits of a mask that hold the row's kind", "a register, b kinds", None, MISC
    LIST = (
        "the begin of a list: its count, in the forms COUNTED, JOINED, LOOSE, BLOCKS for encoding",
        "a register, b:column child, d:target empty, e min_size",
        "a form, d:target empty",
    )
    LIST_NEXT = "after an element of a LIST", "a register, b:column child, d:target next", "a form, d:target next"
    JOINED = "the begin of a list with commas between elements, up to the part's end", "b:column child, d:target empty", None
    JOINED_NEXT = "after an element of JOINED", "b:column child, d:target next", None
    BLOCKS = (
        "the begin of blocks: a varint count, that many elements; the last one is empty",
        "a register, b:column child, d:target empty",
        None,
        AVRO,
    )
    BLOCKS_NEXT = "after an element of BLOCKS", "a register, b:column child, d:target next", None, AVRO
    POJO = (
        "the flags of a POJO: null, the class itself, or a subclass",
        "a subclasses, b:nulls nulls, d:target null, f count",
        "a flags_follow, d:target null",
    )
    SUBCLASS = "the flags and the tag of the class that the column names; nothing for null", None, "a classes, b count"
    EITHER = (
        "a byte for the side that is not null",
        None,
        "a:column left, b:column right, d:target right_target, e left_byte, f right_byte",
    )
    UNION = "the branch that is not null, with -1 for null where null is an error", None, "a branches, b count, d:target null"
    NULL_BITS = "a bit for each element of a list, set for null, most significant first", None, "a:column elements"

    # Numbers, big-endian
    INT8 = "1 byte", "", ""
    INT16 = "2 bytes", "", ""
    INT32 = "4 bytes", "", ""
    INT64 = "8 bytes", "", ""
    FLOAT32 = "4 bytes; every NaN is written as Java's canonical one", "", ""
    FLOAT64 = "8 bytes; every NaN is written as Java's canonical one", "", ""
    SIGN_FLIPPED_INT64 = "8 bytes with the sign bit flipped, so that they sort as unsigned", "", ""
    ENTRY = "nothing: a number that came with the entry", "a field", None
    REGISTER = "nothing: the number in a register", "a register", None

    # Text and bytes
    STRING = "Flink's string: a varint of length + 1, 0 for null, then UTF-16 units as varints", "", "", STRINGS
    STRING_VALUE = "the same without null, and with the length itself", "", "", STRINGS
    UTF8 = "int size, UTF-8", "", "", AVRO
    CHAR = "one UTF-16 unit", "", "", STRINGS
    BYTES = "int size, bytes", "", ""
    FIXED_BYTES = "so many bytes", "a size", "a size", MISC
    REST = "the bytes of the part but for the last ones", "a left", None, MISC
    CAPTURE = "nothing: the bytes since a mark", "a register", None, MISC
    RAW = "the bytes of the column unchanged; for null a constant, or an error if that is -1", None, "a null, b size"
    CONST = "a constant; when decoding, no bytes and a constant in the column", "a constant, b size", "a constant, b size", MISC
    ENUM = "an int: the index of a name in the auxiliary table", "a names, b count", "a names, b count", MISC

    # Numbers of many digits
    BIG_INTEGER = "int size + 4, two's complement; 0 for null, 1 to 3 for ZERO, ONE and TEN", "", "", NUMBER
    BIG_DECIMAL = "a BIG_INTEGER, then the scale as an int", "", "", NUMBER
    DECIMAL = (
        "a long, or big-endian two's complement with its size before it or of a fixed size",
        "d compact, e:pair limit",
        "a form, b size, e:pair limit",
        DECIMALS,
    )

    # Dates and times. mode: 0 for microseconds or days, 1 for text, 2 for microseconds with smaller digits cut. utc: 1 for text
    # with the Z of UTC. text: 1 if the column holds text. zone: the constant with the offsets of a time zone, -1 for UTC.
    DATE_MS = "java.util.Date: long milliseconds, the least long for null", "a mode", "b text", TIME
    SQL_DATE = "java.sql.Date: the same", "a mode, b zone", "a zone, b text", TIME
    SQL_TIME = "java.sql.Time: the same", "a mode, b zone", "a zone, b text", TIME
    SQL_TIMESTAMP = (
        "java.sql.Timestamp: long milliseconds, int nanoseconds of the second",
        "a mode, b zone",
        "a zone, b text",
        TIME,
    )
    INSTANT = "long seconds, int nanoseconds; the least of both for null", "a mode", "b text", TIME
    LOCAL_DATE = "int year, byte month, byte day; the least int for null", "a mode", "b text", JAVA_LOCAL_TIMES
    LOCAL_TIME = "bytes hour, minute, second, int nanoseconds; the least byte for null", "a mode", "b text", JAVA_LOCAL_TIMES
    LOCAL_DATE_TIME = "LOCAL_DATE, then LOCAL_TIME", "a mode", "b text", JAVA_LOCAL_TIMES
    MILLIS = (
        "long milliseconds; for null eight constant bytes, or an error if that is -1",
        "a mode, b utc",
        "a null, b text",
        TIME,
    )
    EPOCH = (
        "int days, or units of a second since 1970 (meaning 1: an instant) or midnight (meaning 2), in 4 or 8 bytes; never null",
        "a mode, b meaning, c units, d size",
        "a units, b size, c form",
        EPOCHS,
    )
    TIMESTAMP = (
        "Flink SQL's timestamp: long milliseconds, unless compact int nanoseconds of the millisecond",
        "d compact, e mode",
        "a compact, b text",
        SQL_TIMES,
    )
    TIMESTAMP_TEXT = "the same as text", "d compact, e zone", None, SQL_TIME_TEXTS

    # Flink's binary rows, arrays and maps: little-endian, random access. A region is a row's, an array's or a map's bytes; its
    # register holds its begin, when decoding the next one its end. A place is the region and the position of a slot: a register
    # and an offset to it.
    REGION = "int size, then a region of that size", "a region, d min_size", None, TABLE
    SUBREGION = "a region that a slot points to", "a:place place, d inner, e min_size", None, TABLE
    OPEN = "the begin of a region: null bits and slots, all zero", None, "a region, b size", TABLE
    CLOSE = "the end of a region, to which a slot of the outer one points", None, "a region, b:pair slot, d outer", TABLE
    BIT_NULL = (
        "a field's null bit",
        "a region, b:nulls nulls, d:target null, e bit",
        "a region, b kept, c at, d:target null, e bit",
        TABLE,
    )
    BINARY_KIND = "the byte of a row's kind", "a region, b kinds", "a region, b kinds", TABLE
    SLOT_INT = "a number of 1 to 8 bytes", "a:place place, d width", "a:place place, d width", TABLE
    SLOT_TEXT = "UTF-8 that a slot points to; up to seven bytes are in the slot", "a:place place", None, TABLE
    SLOT_BYTES = (
        "bytes that a slot points to; if inline, up to seven are in it",
        "a:place place, d inline",
        "a:place place, d inline",
        TABLE,
    )
    SLOT_DECIMAL = (
        "a decimal: a long in the slot, or bytes that it points to",
        "a:place place, d compact, e:pair limit",
        "a:place place, d compact, e:pair limit",
        DECIMALS,
    )
    SLOT_TIMESTAMP = (
        "a timestamp: milliseconds in the slot, or those that it points to and nanoseconds",
        "a:place place, d compact, e mode",
        "a:place place, d compact, e text",
        SQL_TIMES,
    )
    SLOT_TIMESTAMP_TEXT = "the same as text", "a:place place, d compact, e zone", None, SQL_TIME_TEXTS
    SLOT_DATE = "int days since 1970", "a:place place", "a:place place, e text", SQL_TIMES
    SLOT_DATE_TEXT = "the same as text", "a:place place", None, SQL_TIME_TEXTS
    SLOT_TIME = "int milliseconds of the day, as text", "a:place place", "a:place place, e text", SQL_TIME_TEXTS
    SLOT_VARIANT = (
        "a variant that a slot points to, in two columns",
        "a:place place, d:column dictionary",
        "a:place place, d:column value, e:column dictionary",
        TABLE,
    )
    VARIANT = (
        "two int sizes, a variant's value, its dictionary",
        "d:column dictionary",
        "d:column value, e:column dictionary",
        TABLE,
    )
    ELEMENTS = (
        "the begin of an array: registers of its region, then of (decoding only) the count left, the index and the position",
        "a region, b:column child, c width, d:target empty",
        "a region, b width, d:target empty",
        TABLE,
    )
    ELEMENTS_NEXT = (
        "after an element of ELEMENTS",
        "a region, b:column child, c width, d:target next",
        "a region, b width, d:target next",
        TABLE,
    )
    ELEMENT_NULL = "an element's null bit", "a region, b:nulls nulls, d:target null", "a region, d:target null", TABLE
    PAIRS = (
        "the begin of a map: registers of its region, then those of two arrays, keys and values",
        "a region, b:column child, c key_width, d:target empty, e value_width",
        None,
        TABLE,
    )
    PAIRS_NEXT = "after a pair of PAIRS", "a region, b:column child, c key_width, d:target next, e value_width", None, TABLE
    KEYS = "the begin of a map: its keys come next", None, "a region", TABLE
    END_KEYS = "the end of a map's keys: its values come next", None, "a region", TABLE
    MASKED = (
        "the begin of a list: an int count, a bit for each element, set for null; registers count left, index, mask",
        "a registers, b:column child, d:target empty",
        None,
        MASKS,
    )
    MASKED_NEXT = "after an element of MASKED", "a registers, b:column child, d:target next", None, MASKS
    MASKED_NULL = "an element's bit of MASKED", "a registers, b:nulls nulls, d:target null", None, MASKS
