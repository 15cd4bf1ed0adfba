"""Plain Python values of trees of objects, and their JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from state_processor.serializers.big_numbers import to_text
from state_processor.serializers.core.basic import without_lone_surrogates
from state_processor.serializers.kryo import jdk
from state_processor.serializers.kryo.classes import BigInteger, KryoMap, KryoObject, Node, user_class
from state_processor.serializers.kryo.layouts import JavaStream, whole


def plain(node: Node | None) -> Any:
    """Return the plain value of a tree of objects: numbers, text, dates, lists, :class:`KryoMap` and :class:`KryoObject`."""
    return _plain_content(node, {}) if node is not None else None


def _plain_content(node: Node, contents: dict[Node, Any]) -> Any:
    if node not in contents:
        contents[node] = _plain(node, contents)
    return contents[node]


def _plain(node: Node, contents: dict[Node, Any]) -> Any:
    def of(part: Any) -> Any:
        return _plain_content(part, contents) if isinstance(part, Node) else part

    content, described = whole(node.content), user_class(node.class_name)
    if described is not None and described.read is not None:
        return content
    row = jdk.TABLE.get(node.class_name)
    if row is not None:
        return None if content is None else row.show(content)
    match content:
        case JavaStream():
            return content.value
        case dict():
            return KryoObject(node.class_name, {name: of(part) for name, part in content.items()})
        case KryoMap():
            return KryoMap((of(key), of(value)) for key, value in content)
        case list():
            return list(map(of, content))
    return of(content)


def to_json(value: Any) -> Any:
    """Return the JSON of a plain value.

    Collections are arrays. Maps are objects if all keys are text, else arrays of [key, value]. Objects have their class under
    ``@class``. Bytes are hex. Big numbers, dates and times, NaN and infinities are text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, int) and not isinstance(value, BigInteger):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, KryoObject):
        return {"@class": value.class_name, **{name: to_json(v) for name, v in value.fields.items()}}
    if isinstance(value, KryoMap):
        if all(isinstance(k, str) for k, _ in value):
            return {to_json(k): to_json(v) for k, v in value}
        return [[to_json(k), to_json(v)] for k, v in value]
    if isinstance(value, list):
        return list(map(to_json, value))
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    return to_text(value) if isinstance(value, BigInteger) else str(value)
