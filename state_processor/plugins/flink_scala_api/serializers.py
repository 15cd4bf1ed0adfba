"""All snapshot classes of flink-scala-api, and their versions, with the release that first wrote them where it is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from state_processor.plugins.flink_scala_api import case_classes, choices, collections, values
from state_processor.plugins.flink_scala_api.parts import SERIALIZERS
from state_processor.serializers.extension import SnapshotVersions, declared_versions

_ADVICE: Final = "restore it with flink-scala-api 1.2.7, 1.2.8 or later 1.x, and take a new savepoint"
_PLAIN: Final[Mapping[str, Mapping[int, str]]] = {
    "CollectionSerializerSnapshot": {2: "1.2.7"},
    "MapSerializer$MapSerializerSnapshot": {2: "1.2.7"},
    "MappedSerializer$MappedSerializerSnapshot": {2: "1.2.7"},
    "SortedCollectionSerializerSnapshot": {2: ""},
    **{f"{kind}SerializerSnapshot": {1: ""} for kind in ("SortedMap", "MutableMap", "MutableSortedMap", "Scala3EnumValue")},
    **{f"{kind}OrderingSerializerSnapshot": {1: ""} for kind in ("Reverse", "Option")},
    "ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot": {1: ""},
}
"""Versions of snapshots that are not composite. Snapshots without configuration have version 3."""
_COMPOSITE: Final[Mapping[str, tuple[Mapping[int, str], Mapping[int, str]]]] = {
    "ScalaCaseClassSerializerSnapshot": ({3: ""}, {2: "", 3: ""}),
    "ScalaOptionSerializerSnapshot": ({3: ""}, {2: ""}),
    **dict.fromkeys(("ScalaEitherSerializerSnapshot", "Scala3EnumSerializerSnapshot"), ({3: ""}, {1: ""})),
    "CoproductSerializer$CoproductSerializerSnapshot": ({2: "1.2.7", 3: ""}, {3: ""}),
}
"""Versions of composite snapshots, and of their outer parts."""

SNAPSHOTS: Final = {**case_classes.SNAPSHOTS, **choices.SNAPSHOTS, **collections.SNAPSHOTS, **values.SNAPSHOTS}


def _versions(class_name: str) -> SnapshotVersions:
    name = class_name.removeprefix(SERIALIZERS)
    class_versions, outer = _COMPOSITE.get(name) or (_PLAIN.get(name, {3: ""}), None)
    return declared_versions(class_name, class_versions, outer, "flink-scala-api", _ADVICE)


VERSIONS: Final = {name: _versions(name) for name in SNAPSHOTS}
