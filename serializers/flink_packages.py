"""Java packages of Flink's serializers."""

from __future__ import annotations

from typing import Final

BASE: Final = "org.apache.flink.api.common.typeutils.base."
RUNTIME: Final = "org.apache.flink.api.java.typeutils.runtime."
STATE: Final = "org.apache.flink.runtime.state."
STREAMING: Final = "org.apache.flink.streaming."
WINDOWS: Final = f"{STREAMING}api.windowing.windows."
TABLE_WINDOWS: Final = "org.apache.flink.table.runtime.operators.window."
