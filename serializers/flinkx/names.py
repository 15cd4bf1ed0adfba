"""Packages of flink-scala-api."""

from __future__ import annotations

from typing import Final

from state_processor.serializers.snapshot_versions import FLINKX

SERIALIZERS: Final = FLINKX
MAPPERS: Final = "org.apache.flinkx.api.mapper."


def simple_name(class_name: str) -> str:
    """Return the name of a class without packages, outer classes, and the ``$`` behind the name of an object."""
    return class_name.rstrip("$").replace("$", ".").rpartition(".")[2]
