"""Classes of this plug-in that tests of all plug-ins except, with the reasons."""

from __future__ import annotations

_COMPRESSED = "Gelly's arrays are compressed"
WITHOUT_A_CASE = {"org.apache.flink.graph.": "its jar is in no package of the index"}
READ_IN_PYTHON = {"NullValueArraySerializer": _COMPRESSED, "StringValueArraySerializer": _COMPRESSED}
WRITTEN_IN_PYTHON: dict[str, str] = {}
