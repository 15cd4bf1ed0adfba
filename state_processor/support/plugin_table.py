"""The table of built-in plug-ins: what the registries look for in ``state_processor.plugins``.

A module is imported when one of its connectors, classes or functions is needed. Installed packages need no row: they have entry
points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Plugin:
    """A module or a package in ``state_processor.plugins``. Its modules have their names there."""

    connectors: str = ""  # the module with ``CONNECTORS``
    serializers: str = ""  # the module with ``SNAPSHOTS`` and ``VERSIONS``, or with ``register`` for classes that Kryo wrote
    classes: tuple[str, ...] = ()  # the Java packages of the classes of ``serializers``
    functions: Mapping[str, str] = field(default_factory=dict)  # functions of ``state_processor.serializers``, by module


PLUGINS: Final = (
    Plugin("hybrid"),
    Plugin("flink_cdc.connectors"),
    Plugin("aws.connectors", serializers="aws.serializers", classes=("org.apache.flink.streaming.connectors.kinesis.",)),
    Plugin("iceberg.connectors"),
    Plugin("paimon.connectors"),
    Plugin("pulsar", serializers="pulsar", classes=("org.apache.flink.streaming.connectors.pulsar.",)),
    Plugin("write_ahead"),
    Plugin(serializers="flink_agents", classes=("org.apache.flink.agents.",)),
    Plugin(
        serializers="flink_scala_api.serializers",
        classes=("org.apache.flinkx.",),
        functions={"register_case_class": "flink_scala_api.case_classes"},
    ),
    Plugin(serializers="gelly", classes=("org.apache.flink.graph.",)),
    Plugin(serializers="kafka_consumer", classes=("org.apache.flink.streaming.connectors.kafka.",)),
    Plugin(
        serializers="protobuf",
        classes=("org.apache.flink.statefun.",),
        functions={"register_protobuf_serializer": "protobuf"},
    ),
)
