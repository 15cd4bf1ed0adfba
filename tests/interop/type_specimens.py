"""Types, and values of each as columns hold them and as real Flink prints them: the material of tables of tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.decode_options import DecodeOptions
from state_processor.types.flink_types import Types

LOSSLESS = DecodeOptions(nanos="string", row_kind=True)
OURS = "io.stateprocessor.interop"


@dataclass(frozen=True)
class Specimen:
    """A type with values.

    ``label`` is what expected contents call the type, ``printed`` how Flink's side of the tests prints the values, and ``column``
    the type of the column where it is not the one that we read into; then ``variant`` tells specimens of a type apart.
    """

    label: str
    serializer: TypeSerializer
    values: tuple[Any, ...]
    printed: tuple[Any, ...]
    column: pa.DataType
    variant: str = ""

    @property
    def id(self) -> str:
        return f"{self.label}({self.variant})" if self.variant else self.label

    def __len__(self) -> int:
        return len(self.values)


def specimen(label: str, serializer: TypeSerializer, *values: Any, **options: Any) -> Specimen:
    """A specimen. Values print unchanged, unless ``printed`` converts them."""
    printed = tuple(options.pop("printed", values))
    assert len(printed) == len(values)
    column = options.pop("column", None) or serializer.arrow_type(LOSSLESS)
    return Specimen(label, serializer, values, printed, column, **options)


T = Types
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
TEXTS = ("", "plain", "ünïcödé ✓", "emoji 😀", "nul\0 del\x7f \x80 㿿䀀", "x" * 300)
BYTES = (b"", bytes(range(256)))
ADDRESS = {"street": T.STRING(), "city": T.STRING(), "zip": T.INT()}
ADDRESSES = ({"street": "Mill Lane 1", "city": None, "zip": -1}, {"street": "", "city": "Kraków", "zip": 30_001})
TIER = T.ENUM(f"{OURS}.Tier", ["BRONZE", "SILVER", "GOLD"])
PROFILE = T.POJO(
    f"{OURS}.Profile",
    {
        "name": T.STRING(),
        "email": T.STRING(),
        "tier": TIER,
        "active": T.BOOLEAN(),
        "discount": T.DOUBLE(),
        "since": T.LOCAL_DATE(),
        "address": T.POJO(f"{OURS}.Address", ADDRESS),
        "tags": T.LIST(T.STRING()),
        "visits": T.MAP(T.STRING(), T.LONG()),
    },
)
PROFILES = (
    {
        "name": "Bela",
        "email": None,
        "tier": "GOLD",
        "active": True,
        "discount": 0.125,
        "since": "2024-02-29",
        "address": ADDRESSES[1],
        "tags": ["a", "ü"],
        "visits": [("shop", 3)],
    },
    {
        "name": None,
        "email": "",
        "tier": None,
        "active": False,
        "discount": -0.0,
        "since": None,
        "address": None,
        "tags": None,
        "visits": None,
    },
)


def pojo(class_name: str, value: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {"@class": class_name, **value}


def row(*fields: Any, kind: str = "+I") -> dict[str, Any]:
    return {"kind": kind, "fields": list(fields)}


def _printed_profile(value: dict[str, Any]) -> dict[str, Any] | None:
    visits = value["visits"] and [list(pair) for pair in value["visits"]]
    return pojo(f"{OURS}.Profile", {**value, "address": pojo(f"{OURS}.Address", value["address"]), "visits": visits})


SCALARS = (
    specimen("BOOLEAN", T.BOOLEAN(), True, False),
    specimen("BYTE", T.BYTE(), -128, -1, 0, 127),
    specimen("SHORT", T.SHORT(), -32768, -1, 258, 32767),
    specimen("INT", T.INT(), -(1 << 31), -1, 0, (1 << 31) - 1),
    specimen("LONG", T.LONG(), LONG_MIN, -1, 0, 9007199254740993, LONG_MAX),
    specimen("FLOAT", T.FLOAT(), 0.0, -1.5, 0.15625, float("-inf"), printed=(0.0, -1.5, 0.15625, "-Infinity")),
    specimen(
        "DOUBLE",
        T.DOUBLE(),
        0.1,
        -0.0,
        1.7976931348623157e308,
        5e-324,
        float("inf"),
        printed=(0.1, -0.0, 1.7976931348623157e308, 5e-324, "Infinity"),
    ),
    specimen("CHAR", T.CHAR(), "a", "\0", "é", "字"),
    specimen("STRING", T.STRING(), *TEXTS),
    specimen("BIG_INT", T.BIG_INT(), "0", "-1", str(1 << 100), str(-(1 << 77) - 5)),
    specimen("BIG_DEC", T.BIG_DEC(), "0", "1", "10", "-1.00", "1E-20", "12345678901234567890.123456789"),
    specimen("DATE", T.DATE(), "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "2024-02-29T12:00:00.123Z"),
    specimen("SQL_DATE", T.SQL_DATE(), "1970-01-01", "2024-02-29", "1583-01-01"),
    specimen("SQL_TIME", T.SQL_TIME(), "00:00:00", "23:59:59"),
    specimen(
        "SQL_TIMESTAMP",
        T.SQL_TIMESTAMP(),
        "1969-12-31T23:59:59.500Z",
        "2024-01-01T12:00:00.123456789Z",
        printed=("1969-12-31 23:59:59.5", "2024-01-01 12:00:00.123456789"),
    ),
    specimen("LOCAL_DATE", T.LOCAL_DATE(), "0001-01-01", "1969-12-31", "2024-02-29", "9999-12-31"),
    specimen("LOCAL_TIME", T.LOCAL_TIME(), "00:00", "01:02", "23:59:59.999999999"),
    specimen("LOCAL_DATE_TIME", T.LOCAL_DATE_TIME(), "1969-12-31T01:02", "2024-01-01T00:00:00.123456789"),
    specimen("INSTANT", T.INSTANT(), "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "2024-01-01T00:00:00.000001Z"),
)
"""Types with a value of their own, all of them usable as keys."""

ARRAYS = (
    specimen("BYTES", T.BYTES(), *BYTES, printed=[b.hex() for b in BYTES]),
    specimen("BOOLEAN_ARRAY", T.PRIMITIVE_ARRAY(T.BOOLEAN()), [], [True, False]),
    specimen("SHORT_ARRAY", T.PRIMITIVE_ARRAY(T.SHORT()), [], [1, -2]),
    specimen("INT_ARRAY", T.PRIMITIVE_ARRAY(T.INT()), [], [1, -2, (1 << 31) - 1]),
    specimen("LONG_ARRAY", T.PRIMITIVE_ARRAY(T.LONG()), [], [LONG_MIN, 1]),
    specimen("FLOAT_ARRAY", T.PRIMITIVE_ARRAY(T.FLOAT()), [], [0.5, float("nan")], printed=([], [0.5, "NaN"])),
    specimen("DOUBLE_ARRAY", T.PRIMITIVE_ARRAY(T.DOUBLE()), [], [0.1, float("nan")], printed=([], [0.1, "NaN"])),
    specimen("CHAR_ARRAY", T.PRIMITIVE_ARRAY(T.CHAR()), [], ["a", "é"]),
    specimen("STRING_ARRAY", T.BASIC_ARRAY(T.STRING()), [], ["a", None, "ü"]),
    specimen("BOXED_LONG_ARRAY", T.BASIC_ARRAY(T.LONG()), [], [1, None, -1]),
    specimen(
        f"OBJECT_ARRAY<POJO<{OURS}.Address>>",
        T.OBJECT_ARRAY(T.POJO(f"{OURS}.Address", ADDRESS)),
        *([], [ADDRESSES[0], None]),
        printed=([], [pojo(f"{OURS}.Address", ADDRESSES[0]), None]),
    ),
    specimen(
        "OBJECT_ARRAY<TUPLE<STRING,LONG>>",
        T.OBJECT_ARRAY(T.TUPLE([T.STRING(), T.LONG()])),
        [{"f0": "a", "f1": 1}],
        printed=[[["a", 1]]],
    ),
)

COMPOSITES = (
    specimen(
        "TUPLE<STRING,INT>",
        T.TUPLE([T.STRING(), T.INT()]),
        *({"f0": t, "f1": i} for i, t in enumerate(TEXTS)),
        printed=[[t, i] for i, t in enumerate(TEXTS)],
    ),
    specimen(
        "TUPLE<LONG,TUPLE<BOOLEAN,LOCAL_DATE>>",
        T.TUPLE([T.LONG(), T.TUPLE([T.BOOLEAN(), T.LOCAL_DATE()])]),
        *({"f0": n, "f1": {"f0": n > 0, "f1": "2024-02-29"}} for n in (-1, 7)),
        printed=[[n, [n > 0, "2024-02-29"]] for n in (-1, 7)],
    ),
    specimen(
        "ROW<STRING,INT>",
        T.ROW([T.STRING(), T.INT()]),
        *({"row_kind": "+I", "f0": t, "f1": i} for t, i in (("a", 1), (None, -1), ("ü", None))),
        printed=[row("a", 1), row(None, -1), row("ü", None)],
    ),
    specimen(
        "ROW<name:STRING,count:LONG,inner:ROW<a:INT,b:STRING>>",
        T.ROW_NAMED(["name", "count", "inner"], [T.STRING(), T.LONG(), T.ROW_NAMED(["a", "b"], [T.INT(), T.STRING()])]),
        {"row_kind": "-U", "name": "before", "count": 1, "inner": {"row_kind": "+I", "a": 7, "b": None}},
        {"row_kind": "+U", "name": None, "count": None, "inner": None},
        {"row_kind": "-D", "name": "gone", "count": -1, "inner": {"row_kind": "-D", "a": None, "b": "b"}},
        printed=(
            row("before", 1, row(7, None), kind="-U"),
            row(None, None, None, kind="+U"),
            row("gone", -1, row(None, "b", kind="-D"), kind="-D"),
        ),
    ),
    specimen("LIST<STRING>", T.LIST(T.STRING()), [], ["a", "b"], ["a", None]),
    specimen("LIST<LIST<INT>>", T.LIST(T.LIST(T.INT())), [[1, 2], []], [[]]),
    specimen("MAP<STRING,LONG>", T.MAP(T.STRING(), T.LONG()), [], [("a", 1), ("b", None)], printed=([], [["a", 1], ["b", None]])),
    specimen(
        "MAP<STRING,LIST<TUPLE<INT,STRING>>>",
        T.MAP(T.STRING(), T.LIST(T.TUPLE([T.INT(), T.STRING()]))),
        [("a", [{"f0": 1, "f1": "x"}, {"f0": 2, "f1": "y"}]), ("b", [])],
        printed=[[["a", [[1, "x"], [2, "y"]]], ["b", []]]],
    ),
    specimen(
        "EITHER<STRING,LONG>",
        T.EITHER(T.STRING(), T.LONG()),
        {"left": "l", "right": None},
        {"left": None, "right": 42},
        printed=({"left": "l"}, {"right": 42}),
    ),
    specimen(
        f"POJO<{OURS}.Address>",
        T.POJO(f"{OURS}.Address", ADDRESS),
        *ADDRESSES,
        printed=[pojo(f"{OURS}.Address", a) for a in ADDRESSES],
    ),
    specimen(f"POJO<{OURS}.Profile>", PROFILE, *PROFILES, printed=[_printed_profile(p) for p in PROFILES]),
    specimen(f"ENUM<{OURS}.Tier>", TIER, "BRONZE", "GOLD"),
)

MOMENT = datetime(2024, 2, 29, 12, 30, 15, 123456)
AS_USERS_HAVE_THEM = (
    specimen(
        "INSTANT",
        T.INSTANT(),
        MOMENT.replace(tzinfo=UTC),
        column=pa.timestamp("us", "UTC"),
        printed=["2024-02-29T12:30:15.123456Z"],
        variant="timestamp",
    ),
    specimen(
        "LOCAL_DATE_TIME",
        T.LOCAL_DATE_TIME(),
        MOMENT,
        column=pa.timestamp("us"),
        printed=["2024-02-29T12:30:15.123456"],
        variant="timestamp",
    ),
    specimen(
        "DATE",
        T.DATE(),
        MOMENT.replace(microsecond=0, tzinfo=UTC),
        column=pa.timestamp("us", "UTC"),
        printed=["2024-02-29T12:30:15Z"],
        variant="timestamp",
    ),
    specimen(
        "SQL_TIMESTAMP",
        T.SQL_TIMESTAMP(),
        MOMENT.replace(tzinfo=UTC),
        column=pa.timestamp("us", "UTC"),
        printed=["2024-02-29 12:30:15.123456"],
        variant="timestamp",
    ),
    specimen("LOCAL_DATE", T.LOCAL_DATE(), date(2024, 2, 29), column=pa.date32(), printed=["2024-02-29"], variant="date"),
    specimen("SQL_DATE", T.SQL_DATE(), date(2024, 2, 29), column=pa.date32(), printed=["2024-02-29"], variant="date"),
    specimen("BIG_DEC", T.BIG_DEC(), Decimal("12.50"), column=pa.decimal128(10, 2), printed=["12.50"], variant="decimal"),
    specimen("BIG_INT", T.BIG_INT(), 77, column=pa.int64(), printed=["77"], variant="integer"),
    specimen("LONG", T.LONG(), 5, column=pa.int32(), variant="int32"),
    specimen("DOUBLE", T.DOUBLE(), 5, column=pa.int32(), printed=[5.0], variant="int32"),
    specimen("STRING", T.STRING(), "large", column=pa.large_string(), variant="large"),
    specimen(
        "ROW<name:STRING,count:LONG>",
        T.ROW_NAMED(["name", "count"], [T.STRING(), T.LONG()]),
        {"count": 7, "name": "a"},
        {"count": None, "name": "ü"},
        column=pa.struct([("count", pa.int64()), ("name", pa.string())]),
        printed=[row("a", 7), row("ü", None)],
        variant="permuted",
    ),
    specimen(
        "ROW<f1:STRING,f0:STRING>",
        T.ROW_NAMED(["f1", "f0"], [T.STRING(), T.STRING()]),
        {"f0": "second", "f1": "first"},
        column=pa.struct([("f0", pa.string()), ("f1", pa.string())]),
        printed=[row("first", "second")],
        variant="names of positions",
    ),
)
"""The same types from columns of other types, which users may have instead."""

NULLABLES = tuple(
    specimen(f"NULLABLE<{s.label}>", T.NULLABLE(s.serializer), *s.values, printed=s.printed)
    for s in SCALARS
    if s.label in ("LONG", "BOOLEAN", "DOUBLE", "INSTANT", "BIG_DEC")
)

VALUES = (*SCALARS, *ARRAYS, *COMPOSITES)
