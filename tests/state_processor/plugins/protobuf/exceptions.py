"""Classes of this plug-in that tests of all plug-ins except, with the reasons."""

from __future__ import annotations

WITHOUT_A_CASE = {"org.apache.flink.statefun.": "its jar is in no package of the index"}
READ_IN_PYTHON = {"ProtobufSerializer": "the package protobuf parses messages"}
WRITTEN_IN_PYTHON: dict[str, str] = {}
