"""Classes of this plug-in that tests of all plug-ins except, with the reasons."""

from __future__ import annotations

_RECORDS = "a job rarely has many of them"
WITHOUT_A_CASE = {"org.apache.flink.streaming.connectors.pulsar.internal.": "its jar is in no package of the index"}
READ_IN_PYTHON = {"TopicSubscriptionSerializer": _RECORDS, "MessageIdSerializer": _RECORDS}
WRITTEN_IN_PYTHON: dict[str, str] = {}
