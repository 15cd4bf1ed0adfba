"""The table of built-in plug-ins: what the registries look for in the packages of ``state_processor.plugins``.

A package is imported when one of its connectors, classes or functions is needed. Installed packages need no row: they have entry
points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Plugin:
    """A package in ``state_processor.plugins``."""

    name: str
    connectors: bool = False  # whether its module ``connectors`` has ``CONNECTORS``
    # Java packages of its classes: its module ``serializers`` has ``SNAPSHOTS`` with ``VERSIONS``, or ``register`` for Kryo's
    classes: tuple[str, ...] = ()
    functions: Mapping[str, str] = field(default_factory=dict)  # functions of ``state_processor.serializers``, by its modules


PLUGINS: Final = (
    Plugin("hybrid", connectors=True),
    Plugin("flink_cdc", connectors=True),
    Plugin("aws", connectors=True),
    Plugin("iceberg", connectors=True),
    Plugin("paimon", connectors=True),
    Plugin("pulsar", connectors=True, classes=("org.apache.flink.streaming.connectors.pulsar.",)),
    Plugin("write_ahead", connectors=True),
    Plugin("flink_agents", classes=("org.apache.flink.agents.",)),
    Plugin("flink_scala_api", classes=("org.apache.flinkx.",), functions={"register_case_class": "case_classes"}),
    Plugin("gelly", classes=("org.apache.flink.graph.",)),
    Plugin(
        "legacy_consumers",
        classes=("org.apache.flink.streaming.connectors.kafka.", "org.apache.flink.streaming.connectors.kinesis."),
    ),
    Plugin("protobuf", classes=("org.apache.flink.statefun.",), functions={"register_protobuf_serializer": "sized_messages"}),
)
