"""Rows of Flink SQL: types by their text in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from state_processor.serializers.base import TypeSerializer
from state_processor.types.flink_types import Types
from tests.interop.differential import draw as d
from tests.interop.differential.draw import Draw
from tests.interop.differential.forms import Mapped, Row, arguments, register_parser
from tests.interop.differential.scalars import BYTES, SCALARS, Form, Scalar, canonical_of, column_of, drawn, printed_of, same

_NO = "NOT NULL"
_EPOCH = date(1970, 1, 1)
_BY_NAME = {form.label: form for form in (*SCALARS, BYTES)}


Change = Callable[[Any], Any]


def _within(serializer: str) -> Callable[[], TypeSerializer]:
    def refuse() -> TypeSerializer:
        raise AssertionError(f"{serializer} is within a row alone")

    return refuse


def _atom(name: str, drawing: d.Drawing, hold: Change = same, show: Change = same) -> Scalar:
    return Scalar(name, _within(name), drawing, hold=hold, show=show)


def _like(name: str, other: str) -> Scalar:
    form = _BY_NAME[other]
    return Scalar(name, _within(name), form.drawing, hold=form.hold, show=form.show, order=form.order)


def _in_utf8(text: str) -> str:
    """What ``StringData`` makes of Java's text."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _plain_text(count: int, exact: bool) -> d.Drawing:
    return lambda draw: "".join(draw.choices("ab ü字😀", k=count if exact else draw.randint(0, count)))


def _hex(count: int, exact: bool) -> d.Drawing:
    return lambda draw: draw.randbytes(count if exact else draw.randint(0, count)).hex()


def _decimal(precision: int, scale: int) -> Scalar:
    def drawing(draw: Draw) -> str:
        most = 10**precision - 1
        unscaled = draw.choice((0, most, -most, 1, -1, draw.randint(-most, most), draw.randint(-999, 999) % most))
        return f"{Decimal(unscaled).scaleb(-scale, d.EXACT):f}"

    return _atom(f"DECIMAL({precision}, {scale})", drawing, Decimal, lambda held: f"{held:f}")


def _nanos(draw: Draw, precision: int) -> int:
    unit = 10 ** (9 - precision)
    return draw.nanos() // unit * unit


def _second(draw: Draw) -> int:
    return draw.randint(-62_135_596_800, 253_402_300_799)


def _timestamp(name: str, precision: int, suffix: str) -> Scalar:
    def drawing(draw: Draw) -> str:
        day, of_day = divmod(_second(draw), 86_400)
        return f"{d.date_text(*d.civil(day))}T{d.time_text(of_day * 10**9 + _nanos(draw, precision))}"

    def hold(text: str) -> str:
        return text if not suffix else f"{text}:00{suffix}" if text.count(":") == 1 else text + suffix

    def show(text: str) -> str:
        return (
            text if not suffix else text.removesuffix(suffix).removesuffix(":00") if text.endswith(f":00{suffix}") else text[:-1]
        )

    return _atom(f"{name}({precision})", drawing, hold, show)


def _time(precision: int) -> Scalar:
    def hold(millis: int) -> str:
        return d.time_text(millis * 1_000_000)

    def show(text: str) -> int:
        hours, minutes, *seconds = text.split(":")
        return int(hours) * 3_600_000 + int(minutes) * 60_000 + round(float(seconds[0]) * 1000 if seconds else 0)

    unit = 1000 if precision == 0 else 1
    return _atom(f"TIME({precision})", lambda draw: draw.randrange(86_400_000) // unit * unit, hold, show)


SQL_SCALARS = (
    _like("BOOLEAN", "BOOLEAN"),
    _like("TINYINT", "BYTE"),
    _like("SMALLINT", "SHORT"),
    _like("INT", "INT"),
    _like("BIGINT", "LONG"),
    _like("FLOAT", "FLOAT"),
    _like("DOUBLE", "DOUBLE"),
    Scalar("STRING", _within("STRING"), Draw.text, order=_in_utf8),
    _like("BYTES", "BYTES"),
    _atom("CHAR(3)", _plain_text(3, True)),
    _atom("VARCHAR(9)", _plain_text(9, False)),
    Scalar("BINARY(2)", _within("BINARY"), _hex(2, True), hold=bytes.fromhex, show=bytes.hex),
    Scalar("VARBINARY(8)", _within("VARBINARY"), _hex(8, False), hold=bytes.fromhex, show=bytes.hex),
    *(_decimal(precision, scale) for precision, scale in ((1, 0), (10, 2), (18, 18), (19, 0), (38, 10), (38, 38))),
    _atom(
        "DATE",
        lambda draw: draw.choice((0, -1, -719_162, 2_932_896, draw.randint(-719_162, 2_932_896))),
        lambda days: date.fromordinal(_EPOCH.toordinal() + days).isoformat(),
        lambda text: (date.fromisoformat(text) - _EPOCH).days,
    ),
    *(_time(precision) for precision in (0, 3)),
    *(_timestamp("TIMESTAMP", precision, "") for precision in (0, 3, 6, 9)),
    *(_timestamp("TIMESTAMP_LTZ", precision, "Z") for precision in (0, 3, 9)),
    _atom("INTERVAL YEAR TO MONTH", lambda draw: draw.randint(-11_988, 11_988)),
    _like("INTERVAL DAY TO SECOND(3)", "LONG"),
)
_SQL = {form.label: form for form in SQL_SCALARS}
_IN_KEYS = tuple(form for form in SQL_SCALARS if form.label not in ("FLOAT", "DOUBLE"))


@dataclass(frozen=True)
class SqlType:
    """A type as a field or element has it: it may be null or not."""

    form: Form
    not_null: bool = False

    @property
    def text(self) -> str:
        return f"{self.form.label}{f' {_NO}' if self.not_null else ''}"


@dataclass(frozen=True)
class SqlArray(Form):
    """``ARRAY``."""

    element: SqlType
    is_key: bool = False

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"ARRAY<{self.element.text}>"

    def random(self, draw: Draw) -> Any:
        return [drawn(self.element.form, draw, not self.element.not_null) for _ in range(draw.length())]

    def column(self, value: Any) -> Any:
        return [column_of(self.element.form, each) for each in value]

    def printed(self, held: Any) -> Any:
        return [printed_of(self.element.form, each) for each in held]

    def canonical(self, value: Any) -> Any:
        return [canonical_of(self.element.form, each) for each in value]

    def simpler(self, value: Any) -> Iterator[Any]:
        if value:
            yield from ([], value[: len(value) // 2], value[1:])


@dataclass(frozen=True)
class SqlMap(Mapped):
    """``MAP`` with keys that are not null."""

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"MAP<{self.key.label} {_NO}, {self.value.label}>"


class SqlRow(Row):
    """``ROW`` or a whole row; fields that are ``NOT NULL`` have the names for it."""

    def _types(self) -> list[SqlType]:
        return [SqlType(part, name.startswith("must")) for name, part in zip(self.names, self.parts, strict=True)]

    @property
    def fields(self) -> str:
        return ", ".join(f"{name} {type_.text}" for name, type_ in zip(self.names, self._types(), strict=True))

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"ROW<{self.fields}>"

    def random(self, draw: Draw) -> Any:
        kind = draw.choice(("+I", "+I", "-U", "+U", "-D"))
        return {"kind": kind, "fields": [drawn(type_.form, draw, not type_.not_null) for type_ in self._types()]}

    def simpler(self, value: Any) -> Iterator[Any]:
        for smaller in super().simpler(value):
            if all(each is not None or not t.not_null for t, each in zip(self._types(), smaller["fields"], strict=True)):
                yield smaller


class RowData(SqlRow):
    """A row of SQL as keys and values of states are."""

    @property
    def label(self) -> str:  # type: ignore[override]
        return f"ROW_DATA<{self.fields}>"

    def serializer(self) -> TypeSerializer:
        return Types.ROW_DATA(self.fields)


def _random_type(draw: Draw, depth: int) -> Form:
    if depth <= 1 or draw.one_in(2):
        return draw.choice(SQL_SCALARS)
    inner = _random_type(draw, depth - 1)
    return draw.choice(
        (SqlArray(SqlType(inner, draw.one_in(3))), SqlMap(draw.choice(_IN_KEYS), inner), _random_row(draw, depth - 1, SqlRow))
    )


def _random_row(draw: Draw, depth: int, kind: type[SqlRow]) -> SqlRow:
    parts = tuple(_random_type(draw, depth) for _ in range(draw.choice((1, 2, 5, 9))))
    return kind(parts, tuple(f"{draw.choice(('may', 'must'))}{i}" for i in range(len(parts))))


def random_row_data(draw: Draw, key: bool = False) -> Form:
    """A row's type; for keys of scalars alone."""
    if not key:
        return _random_row(draw, 3, RowData)
    parts = tuple(draw.choice(_IN_KEYS) for _ in range(draw.choice((1, 2, 5))))
    return RowData(parts, tuple(f"{draw.choice(('may', 'must'))}{i}" for i in range(len(parts))))


def _parse_fields(fields: str, kind: type[SqlRow]) -> SqlRow:
    named = [field.strip().partition(" ") for field in arguments(fields)]
    return kind(tuple(_parse(type_) for *_, type_ in named), tuple(name for name, *_ in named))


def _parse(text: str) -> Form:
    text = text.strip().removesuffix(f" {_NO}")
    if text in _SQL:
        return _SQL[text]
    name, _, rest = text.partition("<")
    inside = arguments(rest[:-1])
    if name == "ARRAY":
        return SqlArray(SqlType(_parse(inside[0]), inside[0].endswith(_NO)))
    if name == "MAP":
        return SqlMap(_parse(inside[0]), _parse(inside[1]))
    return _parse_fields(rest[:-1], SqlRow)


register_parser("ROW_DATA", lambda fields: _parse_fields(fields, RowData))
