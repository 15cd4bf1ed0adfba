"""Rewrite tests/fixtures/running with real Flink: ``python -m tests.interop.running_fixture``.

The checkpoints of a job of a small shop, from its first day on. Each is taken by a job that is restored from the one before: they
are in directories of their own, and their numbers go on. A notebook replays them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.interop import flink, flink_jars

TARGET = flink_jars.ROOT / "tests" / "fixtures" / "running"
VERSION = "2.3.0"
_SETTINGS = dict.fromkeys(("state.backend.incremental", "execution.checkpointing.incremental"), "true")
_OPERATOR: dict[str, Any] = {
    "uid": "orders",
    "key_type": "STRING",
    "states": [
        {"name": "total", "kind": "VALUE", "value_type": "LONG"},
        {"name": "session", "kind": "VALUE", "value_type": "STRING"},
    ],
}


def _totals(**totals: int | None) -> list[dict[str, Any]]:
    return [{"operator": "orders", "state": "total", "key": key, "value": total} for key, total in totals.items()]


def _sessions(first: int, last: int) -> list[dict[str, Any]]:
    numbers = range(first, last)
    return [{"operator": "orders", "state": "session", "key": f"visitor-{n}", "value": f"s-{n:05}"} for n in numbers]


HOURS = (
    [*_totals(amelia=3950, anders=14430, aoife=10810), *_sessions(0, 20)],
    [*_totals(amelia=5150, bjorn=1780), *_sessions(20, 60)],
    [*_totals(anders=None, aoife=11110, chidi=2400), *_sessions(60, 180)],
    [*_totals(bjorn=2980), *_sessions(180, 420)],
)
"""What the job does before each checkpoint."""


def main() -> None:
    """Write the checkpoints."""
    shutil.rmtree(TARGET, ignore_errors=True)
    with tempfile.TemporaryDirectory() as directory:
        start: Path | None = None
        for steps in HOURS:
            request = flink.request(
                [_OPERATOR],
                start,
                backend="rocksdb",
                parallelism=1,
                steps=steps,
                savepoint_to=directory,
                format="incremental",
                settings=_SETTINGS,
                printed=False,
            )
            (answer,) = flink.restore(VERSION, [request])
            assert "error" not in answer, answer["error"]
            start = Path(answer["savepoint"])
        shutil.copytree(directory, TARGET)


if __name__ == "__main__":
    main()
