"""Values that a migration of Flink drops or changes: fields that the new type lacks, and numbers that lose digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from state_processor.serializers import PojoSerializer, TypeSerializer
from state_processor.types import AvroSerializer

_INEXACT: Final = {("int", "float"), ("long", "float"), ("long", "double")}
_NULL: Final = "null"


def lost_values(written: TypeSerializer, required: TypeSerializer) -> Iterator[str]:
    """Yield what a compatible type does not hold of the values of another one.

    ``written`` and ``required``: the types of the snapshot and of the job. Flink migrates values from one to the other.
    """
    if isinstance(written, PojoSerializer) and isinstance(required, PojoSerializer):
        yield from _of_pojo(written, required)
    elif isinstance(written, AvroSerializer) and isinstance(required, AvroSerializer):
        before, after = written.schema, required.schema
        yield from _Schemas(before.named, after.named).lost(before.content, after.content)
    elif len(written.children) == len(required.children):
        for old, new in zip(written.children, required.children, strict=True):
            if isinstance(old, TypeSerializer) and isinstance(new, TypeSerializer):
                yield from lost_values(old, new)


def _of_pojo(written: PojoSerializer, required: PojoSerializer) -> Iterator[str]:
    before = {field.name: field.serializer for field in written.fields}
    after = {field.name: field.serializer for field in required.fields}
    for name, type_ in before.items():
        if name in after:
            yield from lost_values(type_, after[name])
            continue
        like = [new for new in after.keys() - before.keys() if str(after[new]) == str(type_)]
        renamed = (
            f"; {' or '.join(map(repr, sorted(like)))} is new and has this type: Flink does not rename fields" if like else ""
        )
        yield f"Flink drops field {name!r} of {written.class_name}{renamed}"


class _Schemas:
    """The named types of a writer's and of a reader's schema."""

    def __init__(self, written: Mapping[str, Any], required: Mapping[str, Any]) -> None:
        self._written, self._required = written, required
        self._visited: set[tuple[str, str]] = set()

    def lost(self, old: Any, new: Any) -> Iterator[str]:
        """Yield what a schema does not hold of the values of another one."""
        if isinstance(old, list) or isinstance(new, list):
            yield from self._of_unions(_branches(old), _branches(new))
            return
        before, after = self._written.get(_name(old), old), self._required.get(_name(new), new)
        if (_kind(before), _kind(after)) in _INEXACT:
            yield f"{_kind(before)} becomes {_kind(after)}, which does not hold all digits"
        elif isinstance(before, Mapping) and isinstance(after, Mapping) and _kind(before) == _kind(after):
            yield from self._of_types(before, after)

    def _of_types(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        match old["type"]:
            case "record" | "error":
                yield from self._of_records(old, new)
            case "array":
                yield from self.lost(old["items"], new["items"])
            case "map":
                yield from self.lost(old["values"], new["values"])
            case "enum":
                for symbol in (symbol for symbol in old["symbols"] if symbol not in new["symbols"]):
                    yield f"constant {symbol} of {old['name']} becomes the default"

    def _of_records(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        pair = old["name"], new["name"]
        if pair in self._visited:
            return
        self._visited.add(pair)
        fields = {name: field for field in new["fields"] for name in (*field.get("aliases", ()), field["name"])}
        for field in old["fields"]:
            if field["name"] in fields:
                yield from self.lost(field["type"], fields[field["name"]]["type"])
            else:
                yield f"Flink drops field {field['name']!r} of {old['name']}"

    def _of_unions(self, old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
        for branch in old:
            same = [candidate for candidate in new if _label(candidate) == _label(branch)]
            for candidate in same or [candidate for candidate in new if _kind(candidate) != _NULL and _kind(branch) != _NULL][:1]:
                yield from self.lost(branch, candidate)


def _branches(schema: Any) -> Sequence[Any]:
    return schema if isinstance(schema, list) else [schema]


def _name(schema: Any) -> str:
    return schema if isinstance(schema, str) else ""


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema["type"])


def _label(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))
