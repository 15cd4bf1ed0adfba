"""New trees of objects in the classes of old ones: what a column can't tell, it does not change."""

from __future__ import annotations

import json
from typing import Any, Final

from state_processor.serializers.kryo import containers
from state_processor.serializers.kryo.json_form import to_json
from state_processor.serializers.kryo.reader import plain
from state_processor.serializers.kryo.values import KryoMap, Node

_FAMILIES: Final = (containers.COLLECTIONS | containers.SINGLETONS, containers.MAPS | {containers.SINGLETON_MAP})
_OF_ONE_SIZE: Final = (
    containers.SINGLETONS
    | {containers.SINGLETON_MAP, "java.util.Collections$CopiesList"}
    | {f"java.util.ImmutableCollections${name}" for name in ("List12", "ListN", "Set12", "SetN", "SubList", "Map1", "MapN")}
)
"""Classes that are kept only where the number of elements is: others hold other numbers of them."""


def adopted(new: Any, old: Any) -> Any:
    """Return a new tree with the classes of an old one, as far as they hold the same; what is equal is the old."""
    if not isinstance(new, Node) or not isinstance(old, Node):
        return new
    if _text(new) == _text(old):
        return old
    content = _content(new.content, old.content)
    alike = any(new.class_name in family and old.class_name in family for family in _FAMILIES)
    if alike and (old.class_name not in _OF_ONE_SIZE or len(new.content) == len(old.content)):
        return Node(old.class_name, content, old.header)
    return Node(new.class_name, content, new.header)


def _content(new: Any, old: Any) -> Any:
    match new, old:
        case KryoMap(), KryoMap():
            before = {_text(key): (key, value) for key, value in old}
            return KryoMap(
                (before[text][0], adopted(value, before[text][1])) if (text := _text(key)) in before else (key, value)
                for key, value in new
            )
        case list(), list():
            return [adopted(n, old[i]) if i < len(old) else n for i, n in enumerate(new)]
        case dict(), dict():
            return {name: adopted(n, old.get(name)) for name, n in new.items()}
    return new


def _text(part: Any) -> str:
    return json.dumps(to_json(plain(part) if isinstance(part, Node) else part))
