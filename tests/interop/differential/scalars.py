"""What a type of a case is: its label on Flink's side, random values, how columns hold them; and the types without parts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from state_processor.serializers.base import TypeSerializer
from state_processor.serializers.kryo.serializer import KryoSerializer
from state_processor.types.flink_types import Types
from tests.interop.differential import draw as d
from tests.interop.differential.draw import Draw, Drawing

T = Types


_FLINK = ContextVar("flink", default="2.3.0")


def flink_version() -> str:
    """The Flink that serializers are made for."""
    return _FLINK.get()


@contextmanager
def for_flink(version: str) -> Iterator[None]:
    """Serializers that are made in the block have this version."""
    token = _FLINK.set(version)
    try:
        yield
    finally:
        _FLINK.reset(token)


def as_text(printed: Any) -> str:
    """A printed value as text for comparing and sorting."""
    return json.dumps(printed, sort_keys=True)


class Form:
    """A type. Values are as Flink's side prints them; null is dealt with by :func:`column_of` and :func:`printed_of`.

    ``knows_null`` says whether the serializer itself can write null; ``is_key`` whether values can be keys.
    """

    label: str
    knows_null = False
    is_key = True

    def serializer(self) -> TypeSerializer:
        raise NotImplementedError

    def random(self, draw: Draw) -> Any:
        """A value that is not null."""
        raise NotImplementedError

    def column(self, value: Any) -> Any:
        """The value as our columns hold it."""
        return value

    def printed(self, held: Any) -> Any:
        """The inverse of :meth:`column`."""
        return held

    def canonical(self, value: Any) -> Any:
        """The value with its maps in the order of this module."""
        return value

    def simpler(self, value: Any) -> Iterator[Any]:
        """Smaller values of the type."""
        return iter(())


def column_of(form: Form, value: Any) -> Any:
    return None if value is None else form.column(value)


def printed_of(form: Form, held: Any) -> Any:
    return None if held is None else form.printed(held)


def canonical_of(form: Form, value: Any) -> Any:
    return None if value is None else form.canonical(value)


def drawn(form: Form, draw: Draw, nullable: bool) -> Any:
    """A value, or null where that can be."""
    return None if nullable and draw.one_in(6) else form.random(draw)


def unpaired_replaced(text: str) -> str:
    """What UTF-8, and so a column, makes of Java's text."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def same(value: Any) -> Any:
    """The value itself."""
    return value


@dataclass(frozen=True)
class Scalar(Form):
    """A type without parts: how it is called, made, drawn, and held."""

    label: str
    make: Callable[[], TypeSerializer]
    drawing: Drawing
    knows_null: bool = False
    is_key: bool = True
    hold: Callable[[Any], Any] = same
    show: Callable[[Any], Any] = same
    order: Callable[[Any], Any] = same

    def serializer(self) -> TypeSerializer:
        return self.make()

    def random(self, draw: Draw) -> Any:
        return self.drawing(draw)

    def column(self, value: Any) -> Any:
        return self.hold(value)

    def printed(self, held: Any) -> Any:
        return self.show(held)

    def canonical(self, value: Any) -> Any:
        return self.order(value)

    def simpler(self, value: Any) -> Iterator[Any]:
        if isinstance(value, str) and value and self.drawing is Draw.text:
            yield from ("", value[: len(value) // 2], value[:1])


def _whole(bits: int) -> Drawing:
    return lambda draw: draw.whole(bits)


def _floating(layout: str) -> Drawing:
    return lambda draw: draw.floating(layout)


def _number(value: Any) -> float:
    """The number; for NaN the result of arithmetic on most machines. It differs from Java's."""
    return -float("nan") if value == "NaN" else float(value)


def _sql_second(draw: Draw) -> int:
    return draw.randint(-12_212_553_600, 253_402_300_799)  # from 1583 to 9999: its calendar equals the calendar of java.time


def _timestamp_column(text: str) -> str:
    day, time = text.split(" ")
    seconds, fraction = time.split(".")
    digits = fraction.ljust(9, "0")
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{day}T{seconds}{'.' if digits else ''}{digits}Z"


def _timestamp_printed(text: str) -> str:
    day, time = text.removesuffix("Z").split("T")
    seconds, _, fraction = time.partition(".")
    return f"{day} {seconds}.{fraction.rstrip('0') or '0'}"


def _date_of(millis: int) -> str:
    return d.instant_text(millis // 1000, millis % 1000 * 1_000_000)


SCALARS = (
    Scalar("BOOLEAN", T.BOOLEAN, lambda draw: draw.one_in(2)),
    Scalar("BYTE", T.BYTE, _whole(8)),
    Scalar("SHORT", T.SHORT, _whole(16)),
    Scalar("INT", T.INT, _whole(32)),
    Scalar("LONG", T.LONG, _whole(64)),
    Scalar("FLOAT", T.FLOAT, _floating(">f"), hold=_number, show=d.printed_float),
    Scalar("DOUBLE", T.DOUBLE, _floating(">d"), hold=_number, show=d.printed_float),
    Scalar("CHAR", T.CHAR, Draw.character, order=unpaired_replaced),
    Scalar("STRING", T.STRING, Draw.text, True, order=unpaired_replaced),
    Scalar("BIG_INT", T.BIG_INT, Draw.big_integer, True),
    Scalar("BIG_DEC", T.BIG_DEC, Draw.big_decimal, True),
    Scalar("DATE", T.DATE, lambda draw: _date_of(draw.millisecond()), True),
    Scalar("SQL_DATE", T.SQL_DATE, lambda draw: d.date_text(*d.civil(_sql_second(draw) // 86_400)), True),
    Scalar("SQL_TIME", T.SQL_TIME, lambda draw: d.time_text(draw.randrange(86_400) * 10**9, True), True),
    Scalar(
        "SQL_TIMESTAMP",
        T.SQL_TIMESTAMP,
        lambda draw: d.sql_timestamp_text(_sql_second(draw), draw.nanos()),  # its serializer writes null, and can't read it
        hold=_timestamp_column,
        show=_timestamp_printed,
    ),
    Scalar("LOCAL_DATE", T.LOCAL_DATE, lambda draw: d.date_text(*draw.day()), True),
    Scalar("LOCAL_TIME", T.LOCAL_TIME, lambda draw: d.time_text(draw.nano_of_day()), True),
    Scalar(
        "LOCAL_DATE_TIME",
        T.LOCAL_DATE_TIME,
        lambda draw: f"{d.date_text(*draw.day())}T{d.time_text(draw.nano_of_day())}",
        True,
    ),
    Scalar("INSTANT", T.INSTANT, lambda draw: d.instant_text(draw.second(), draw.nanos()), True),
)

BYTES = Scalar("BYTES", T.BYTES, lambda draw: draw.bytes_().hex(), is_key=False, hold=bytes.fromhex, show=bytes.hex)

_DURATIONS = ("PT0S", "PT25H", "PT1H1M1S", "PT-0.5S", "PT0.000000001S", "PT2562047788015215H30M7.999999999S")


def _kryo(class_name: str, drawing: Drawing) -> Scalar:
    def serializer() -> KryoSerializer:
        return KryoSerializer(class_name, flink=int(flink_version()[0]))

    return Scalar(f"KRYO<{class_name}>", serializer, drawing, knows_null=True, is_key=False)


_DRAWN = {form.label: form.drawing for form in SCALARS}
KRYO = (
    _kryo("java.util.UUID", lambda draw: str(uuid.UUID(int=draw.getrandbits(128)))),
    _kryo("java.time.Duration", lambda draw: draw.choice(_DURATIONS)),
    _kryo("java.time.LocalDate", _DRAWN["LOCAL_DATE"]),
    _kryo("java.time.LocalTime", _DRAWN["LOCAL_TIME"]),
    _kryo("java.time.LocalDateTime", _DRAWN["LOCAL_DATE_TIME"]),
    _kryo("java.math.BigDecimal", _DRAWN["BIG_DEC"]),
)
"""Types that Flink leaves to Kryo."""
