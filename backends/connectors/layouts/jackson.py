"""JSON as Jackson writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

_CONTROL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")
_WIDE: Final = re.compile("[\U00010000-\U0010ffff]")


def json_text(value: Any) -> str:
    """Return JSON as Jackson writes it as text: without spaces, and control characters in capital digits."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(key)}:{json_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float):
        return _java_number(value)
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"{match[1]}\\u00{match[2].upper()}", text)


def json_bytes_text(value: Any) -> str:
    """Return JSON as Jackson writes it as bytes: characters beyond 16 bits are two escapes."""
    return _WIDE.sub(lambda match: _escapes(ord(match[0]) - 0x10000), json_text(value))


def _escapes(rest: int) -> str:
    return f"\\u{0xD800 + (rest >> 10):04X}\\u{0xDC00 + (rest & 0x3FF):04X}"


def _java_number(value: float) -> str:
    """Return a number as Java's ``Double.toString``."""
    if value != value or value in (float("inf"), float("-inf")):
        return json.dumps(str(value).replace("inf", "Infinity").replace("nan", "NaN"))
    if not value or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    digits_text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + int(exponent)
    return f"{'-' * sign}{digits_text[0]}.{digits_text[1:] or '0'}E{power}"
