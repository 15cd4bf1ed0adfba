"""Classes of Flink Agents that Kryo wrote, with the fields of their descriptions, for the tests of all plug-ins."""

from __future__ import annotations

FIELDS = {"org.apache.flink.agents.runtime.memory.MemoryObjectImpl$MemoryItem": ["type", "value", "subKeys"]}
