"""Ask real Flink for its verdicts on the pairs of types of ``tests/serializers/compatibility_table.py``.

``python -m tests.interop.compatibility`` rewrites ``tests/fixtures/compatibility``: for each version of Flink, its snapshots of
every type, and its verdicts.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark

from tests.interop import flink, flink_jars
from tests.serializers.compatibility_table import TABLE

VERSIONS = ("1.18.1", "1.20.5", "2.3.0")
GOLDEN = flink_jars.ROOT / "tests" / "fixtures" / "compatibility"
_AVRO = ("avro-1.", "jackson-core-2", "jackson-databind-2", "jackson-annotations-2", "slf4j-api", "commons-lang3")


def pairs() -> list[tuple[str, str]]:
    """Written and wanted types of the table, in its order."""
    return [(written, wanted) for rows in TABLE.values() for written, wanted, _ in rows]


def ask(version: str, questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return Flink's ``verdicts`` on pairs of types, and its ``snapshots`` of them in hexadecimal digits.

    Avro comes from Spark: Flink's package does not contain it.
    """
    flink_jars.CACHE.mkdir(exist_ok=True)
    spark = Path(pyspark.__file__).parent / "jars"
    avro = sorted(jar for jar in spark.glob("*.jar") if jar.name.startswith(_AVRO))
    with tempfile.TemporaryDirectory(dir=flink_jars.CACHE) as exchange:
        asked, answered = Path(exchange, "pairs.json"), Path(exchange, "answers.json")
        asked.write_text(json.dumps(list(questions)), "utf-8")
        flink.run(version, "Compatibility", [str(asked), str(answered)], class_path=[*flink_jars.libraries(version), *avro])
        answers: dict[str, Any] = json.loads(answered.read_text("utf-8"))
    return answers


def generate(version: str) -> Path:
    """Write the golden data of one Flink version and return its path."""
    answers = ask(version, pairs())
    verdicts = [{"written": a, "wanted": b, "verdict": v} for (a, b), v in zip(pairs(), answers["verdicts"], strict=True)]
    target = GOLDEN / f"flink-{version}.json.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"verdicts": verdicts, "snapshots": answers["snapshots"]}, ensure_ascii=False)
    target.write_bytes(gzip.compress(content.encode(), mtime=0))
    return target


if __name__ == "__main__":
    for flink_version in VERSIONS:
        print(generate(flink_version))
