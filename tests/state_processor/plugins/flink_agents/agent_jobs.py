"""Agents of Flink Agents that run with real Flink."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.interop import flink
from tests.interop.flink_jars import CACHE, jar_of_package

SOURCES = Path(__file__).parent / "java"
RELEASE = "0.1.1"
"""The release whose package has the jar and is small."""


def agents() -> Path:
    """Return the jar of Flink Agents.

    Raises
    ------
        FlinkError: pip could not fetch the package.
    """
    return jar_of_package(f"flink-agents=={RELEASE}", f"flink_agents/lib/flink-agents-dist-{RELEASE}.jar", f"agents-{RELEASE}")


def run_agent(
    version: str, lines: Sequence[str], savepoints: Path, savepoint: Path | None = None, form: str = "CANONICAL"
) -> tuple[Path, list[str]]:
    """Run an agent and return the savepoint that it takes, and its answers: see ``AgentJob``.

    Args:
        version: the Flink version.
        lines: the input.
        savepoints: the parent directory of the savepoint.
        savepoint: the one that the job begins with.
        form: the format of the savepoint.

    Raises
    ------
        FlinkError: the job failed.
    """
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as exchange:
        asked, answered = Path(exchange, "input"), Path(exchange, "output")
        asked.write_text("\n".join(lines), "utf-8")
        arguments = [str(asked), str(answered), str(savepoints), form, *([] if savepoint is None else [savepoint.as_uri()])]
        printed = flink.run_job(version, SOURCES, "AgentJob", arguments, [agents()])
        return Path(printed.strip().splitlines()[-1]), answered.read_text("utf-8").splitlines()
